//! Why a driver stopped a guest, and how each contract reports it.

use crate::contract::module::{CodeExecutionError, Failure, Status};
use crate::engine::NoRoom;
use crate::error::{ErrorCode, ExecuteError};
use crate::program::Limits;
use crate::usage::LimitError;

/// Why a driver stopped a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The caller cancelled the execution or terminated the run, with this reason (code-execution specification §2.2).
    Cancelled(Option<String>),
    /// The timeout of an execution or the safety cap of a run (§6.4) passed.
    TimedOut,
    /// The program waits, and no call is pending that could settle what it waits for: it would wait forever.
    Stuck,
    /// It has reached another limit of what it may use.
    Limit(LimitError),
    /// What the host keeps for the guest exceeded its budget.
    HostMemory(NoRoom),
    /// The engine, the host or the runner failed, as described by the message.
    Failed(String),
}

impl Stop {
    /// The error of a stopped execution, under the script contract.
    pub fn execute_error(&self, limits: &Limits) -> ExecuteError {
        let message = match self {
            Self::Cancelled(reason) => format!("Execution was cancelled{}", suffix(reason.as_deref())),
            Self::TimedOut => format!("Execution timed out after {} ms", limits.timeout.as_secs_f64() * 1000.0),
            Self::Stuck => return ExecuteError::new(ErrorCode::RuntimeError, STUCK),
            Self::Limit(error) => format!("Execution {error}"),
            Self::HostMemory(what) => return ExecuteError::new(ErrorCode::MemoryLimit, what.message(limits)),
            Self::Failed(why) => return ExecuteError::internal(why),
        };
        ExecuteError::new(ErrorCode::Timeout, message)
    }

    /// The failure of a stopped run, under the module contract.
    pub fn failure(&self, limits: &Limits) -> Failure {
        let message = match self {
            Self::Cancelled(reason) => format!("The run was terminated{}", suffix(reason.as_deref())),
            Self::TimedOut => format!("The run was stopped by the safety cap of {} s", limits.timeout.as_secs_f64()),
            Self::Stuck => STUCK.to_owned(),
            Self::Limit(error) => format!("The run {error}"),
            Self::HostMemory(what) => {
                let error = CodeExecutionError::new("MemoryLimitError", what.message(limits));
                return Failure::new(Status::Memory, error);
            }
            Self::Failed(why) => return Failure::internal(why),
        };
        Failure::new(Status::Terminated, CodeExecutionError::new("TerminatedError", message))
    }
}

const STUCK: &str = "The program waits for a promise that nothing can settle: no tool call is pending";

fn suffix(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}
