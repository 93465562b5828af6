//! Exit codes. The table is in the crate's documentation and in the help of each command.

use std::process::ExitCode;

use execbox::code::{CodeExecutionError, CodeExecutionResult, Status};
use execbox::{ErrorCode, ExecuteResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    ProgramFailed = 1,
    BadInput = 2,
    LimitReached = 3,
    ExecboxFailed = 4,
    /// Interrupted by Ctrl-C: 128 + SIGINT, as in shells.
    Interrupted = 130,
}

impl Exit {
    /// The exit code of `execbox run`.
    pub(crate) fn of_script(result: &ExecuteResult) -> Self {
        match result.error().map(|error| error.code) {
            None => Self::Success,
            Some(ErrorCode::Timeout | ErrorCode::MemoryLimit) => Self::LimitReached,
            Some(ErrorCode::InternalError) => Self::ExecboxFailed,
            Some(
                ErrorCode::RuntimeError
                | ErrorCode::ToolError
                | ErrorCode::ValidationError
                | ErrorCode::SerializationError,
            ) => Self::ProgramFailed,
        }
    }

    /// The exit code of `execbox run-code`.
    pub(crate) fn of_module(result: &CodeExecutionResult) -> Self {
        // A link error that is a `TypeError` is about the options; link errors of programs have other names.
        let is_of_options = |error: &CodeExecutionError| error.name == "TypeError";
        match result.status {
            Status::Success => Self::Success,
            Status::Error if result.error.as_ref().is_some_and(|error| error.is_internal) => Self::ExecboxFailed,
            Status::LinkError if result.error.as_ref().is_some_and(is_of_options) => Self::BadInput,
            Status::Error | Status::LinkError => Self::ProgramFailed,
            Status::Memory | Status::Terminated => Self::LimitReached,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
