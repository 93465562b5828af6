//! Why a driver stopped a guest, and how each contract reports it.

use crate::cause::{Cause, ReachedLimit};
use crate::contract::module::{CodeExecutionError, Failure, Status};
use crate::contract::script::timed_out;
use crate::engine::NoRoom;
use crate::error::{ErrorCode, ExecuteError};
use crate::limits::Amount;
use crate::program::Limits;
use crate::text::bytes_text;
use crate::usage::LimitError;

/// Why a driver stopped a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The caller cancelled the execution or terminated the run, with this reason (code-execution specification §2.2).
    Cancelled(Option<String>),
    /// The timeout of an execution or the safety cap of a run (§6.4) passed.
    TimedOut,
    /// The program waits, and no call or promise of the host is pending that could settle what it waits for: it would wait forever.
    Stuck,
    /// The program has reached another limit on what it may use.
    Limit(LimitError),
    /// The engine, or the process of the runner, has stopped the guest at its memory limit.
    OutOfMemory,
    /// What the host keeps for the guest exceeded its budget.
    HostMemory(NoRoom),
    /// The engine, the host or the runner failed, as described by the message.
    Failed(String),
}

impl Stop {
    /// The error of a stopped execution, under the script contract.
    pub fn execute_error(&self, limits: &Limits) -> ExecuteError {
        let (code, message) = match self {
            Self::Cancelled(reason) => {
                (ErrorCode::Timeout, format!("Execution was cancelled{}", suffix(reason.as_deref())))
            }
            Self::TimedOut => return timed_out(ReachedLimit::timeout(limits.timeout, None)),
            Self::Stuck => (ErrorCode::RuntimeError, STUCK.to_owned()),
            Self::Limit(error) => (ErrorCode::Timeout, format!("Execution {error}")),
            Self::OutOfMemory => {
                let limit = bytes_text(limits.memory_bytes);
                (ErrorCode::MemoryLimit, format!("Execution exceeded its memory limit of {limit}"))
            }
            Self::HostMemory(what) => (ErrorCode::MemoryLimit, what.message(limits)),
            Self::Failed(why) => (ErrorCode::InternalError, why.clone()),
        };
        ExecuteError::new(code, message).with_cause(self.cause(limits))
    }

    /// The failure of a stopped run, under the module contract.
    pub fn failure(&self, limits: &Limits) -> Failure {
        let (status, name, message) = match self {
            Self::Cancelled(reason) => {
                (Status::Terminated, TERMINATED, format!("The run was terminated{}", suffix(reason.as_deref())))
            }
            Self::TimedOut => {
                let limit = limits.timeout.as_secs_f64();
                (Status::Terminated, TERMINATED, format!("The run was stopped by the safety cap of {limit} s"))
            }
            Self::Stuck => (Status::Error, "Error", STUCK_RUN.to_owned()),
            Self::Limit(error) => (Status::Terminated, TERMINATED, format!("The run {error}")),
            Self::OutOfMemory => {
                let limit = bytes_text(limits.memory_bytes);
                (Status::Memory, MEMORY_LIMIT, format!("The run exceeded its memory limit of {limit}"))
            }
            Self::HostMemory(what) => (Status::Memory, MEMORY_LIMIT, what.message(limits)),
            Self::Failed(why) => return Failure::internal(why),
        };
        let error =
            CodeExecutionError { cause: self.cause(limits).map(Box::new), ..CodeExecutionError::new(name, message) };
        Failure::new(status, error)
    }

    /// The cause as data; `None` for faults between host and guest.
    fn cause(&self, limits: &Limits) -> Option<Cause> {
        let limit = match self {
            Self::Cancelled(reason) => return Some(Cause::Cancelled { reason: reason.clone() }),
            Self::Stuck => return Some(Cause::Stuck),
            Self::TimedOut => ReachedLimit::timeout(limits.timeout, None),
            Self::Limit(error) => error.into(),
            Self::OutOfMemory => ReachedLimit::new("memory_bytes", None, Amount::Count(limits.memory_bytes)),
            Self::HostMemory(_) => {
                ReachedLimit::new("host_memory_bytes", None, Amount::Count(limits.host_memory_len() as u64))
            }
            Self::Failed(_) => return None,
        };
        Some(Cause::Limit(limit))
    }
}

const TERMINATED: &str = "TerminatedError";
const MEMORY_LIMIT: &str = "MemoryLimitError";

const STUCK: &str = "The program waits for a promise that nothing can settle: no tool call is pending";

const STUCK_RUN: &str =
    "The program waits for a promise that nothing can settle: no call and no promise of the host is pending";

fn suffix(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}
