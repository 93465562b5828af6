//! A call of a tool, as the tool and the policies see it.

mod attached;
mod waits;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub(crate) use self::attached::Attached;
pub use self::waits::WaitForPerson;
pub(crate) use self::waits::{CallWaits, Held, PendingApprovals};
use crate::events::{Awaited, CallId, ExecutionId, ToolProgress};

/// The call that a host function serves.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The execution or run that the call belongs to. A [`Provider::call`](crate::Provider::call) has one of its own.
    pub execution: ExecutionId,
    /// Identifies the call within its execution.
    pub call: CallId,
    /// The name of the provider in guest code.
    pub provider: Arc<str>,
    /// The name of the tool in guest code.
    pub safe_name: Arc<str>,
    /// The name with which the tool was created, such as `get-weather`.
    pub original_name: Arc<str>,
    /// Fires when the execution ends, is cancelled or dropped. The future of the call is dropped then, too; tasks that it
    /// spawned should end.
    pub cancellation: CancellationToken,
    pub(crate) waits: CallWaits,
    pub(crate) attached: Attached,
}

impl ToolContext {
    /// What the caller has [attached](crate::ExecuteRequest::attach) to the execution.
    pub fn attached<T: Any>(&self) -> Option<&T> {
        self.attached.get()
    }

    /// Marks the call as one that waits for a person, until the returned value is dropped. While all calls of a program wait
    /// for a person, its clock is paused, for an hour at most.
    pub fn wait_for_person(&self) -> WaitForPerson {
        self.waits.add(Awaited::Answer)
    }

    /// Waits for a future, for `timeout` and the time in which the call [waits for a person](Self::wait_for_person). `None` if
    /// that has passed.
    pub async fn within<T>(&self, timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
        self.waits.within(timeout, future).await
    }

    /// Keeps a value until the result of the call is passed on to the program, such as a charge for the memory of the result.
    pub fn hold(&self, value: impl Any + Send) {
        self.waits.hold(Box::new(value));
    }

    /// Reports how far the call has come, to the [observers](crate::events::EventKind::CallProgress) of the execution. The
    /// guest does not see the report. After the end of the call, nothing is reported.
    pub fn report(&self, progress: &ToolProgress) {
        self.waits.observed().progress(progress);
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { execution, call, provider, safe_name, original_name, cancellation, .. } = self;
        let mut context = f.debug_struct("ToolContext");
        context.field("execution", execution).field("call", call);
        context.field("provider", provider).field("safe_name", safe_name).field("original_name", original_name);
        context.field("cancellation", cancellation).finish_non_exhaustive()
    }
}

/// What calls of a tool do, as its author states it: a hint for people and models, which nothing enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Effect {
    /// Calls change nothing.
    ReadOnly,
    /// The author does not say.
    #[default]
    Unstated,
    /// Calls add something, and remove or overwrite nothing.
    Additive,
    /// Calls may remove or overwrite something.
    Destructive,
}

impl Effect {
    /// The effect in one word, for logs: `readOnly`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "readOnly",
            Self::Unstated => "unstated",
            Self::Additive => "additive",
            Self::Destructive => "destructive",
        }
    }
}
