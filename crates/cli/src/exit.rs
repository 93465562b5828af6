//! How the process ends. The table is in the crate's documentation and in `execbox run --help`.

use std::process::ExitCode;

use execbox::code::{CodeExecutionError, CodeExecutionResult, Status};
use execbox::{ErrorCode, ExecuteResult};

/// What the process tells its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    ProgramFailed = 1,
    BadInput = 2,
    LimitReached = 3,
    ExecboxFailed = 4,
    /// 128 and the number of SIGINT, as shells have it.
    Interrupted = 130,
}

impl Exit {
    pub(crate) fn of(result: &ExecuteResult) -> Self {
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

    /// The same for a run of modules.
    pub(crate) fn of_code(result: &CodeExecutionResult) -> Self {
        // What a program throws has a stack, whatever it calls itself; what the library says of itself has none.
        let is_internal = |error: &CodeExecutionError| error.name == "InternalError" && error.stack.is_none();
        // Programs do not name errors of linking: this one is about what the caller gave.
        let is_of_options = |error: &CodeExecutionError| error.name == "TypeError";
        match result.status {
            Status::Success => Self::Success,
            Status::Error if result.error.as_ref().is_some_and(is_internal) => Self::ExecboxFailed,
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
