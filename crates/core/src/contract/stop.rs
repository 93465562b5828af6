//! Why a driver stopped a guest, and how each contract reports it.

use crate::contract::module::{CodeExecutionError, Failure, Status};
use crate::error::{ErrorCode, ExecuteError};
use crate::program::Limits;

/// Why a driver stopped a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The caller cancelled the execution or terminated the run, with this reason (code-execution specification §2.2).
    Cancelled(Option<String>),
    /// The timeout of an execution or the safety cap of a run (§6.4) passed.
    TimedOut {
        /// The guest was waiting and no call was pending: it would have waited forever.
        stuck: bool,
    },
}

impl Stop {
    /// The error of a stopped execution, under the script contract.
    pub fn execute_error(&self, limits: &Limits) -> ExecuteError {
        let message = match self {
            Self::Cancelled(reason) => format!("Execution was cancelled{}", suffix(reason.as_deref())),
            Self::TimedOut { stuck } => {
                let limit = limits.timeout.as_secs_f64() * 1000.0;
                let why = if *stuck { ": it waits for a promise that no pending tool call can settle" } else { "" };
                format!("Execution timed out after {limit} ms{why}")
            }
        };
        ExecuteError::new(ErrorCode::Timeout, message)
    }

    /// The failure of a stopped run, under the module contract.
    pub fn failure(&self, limits: &Limits) -> Failure {
        let message = match self {
            Self::Cancelled(reason) => format!("The run was terminated{}", suffix(reason.as_deref())),
            Self::TimedOut { .. } => {
                format!("The run was stopped by the safety cap of {} s", limits.timeout.as_secs_f64())
            }
        };
        Failure::new(Status::Terminated, CodeExecutionError::new("TerminatedError", message))
    }
}

fn suffix(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}
