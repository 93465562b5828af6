//! How the process ends. The table is in the crate's documentation and in `execbox run --help`.

use std::process::ExitCode;

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
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
