//! What happens in executions and runs, as one stream of events: for logs, progress, metrics and traces.
//!
//! An [`Observer`] is added to an [`ExecuteRequest`](crate::ExecuteRequest::observer) or to the options of a
//! [run](crate::code::CodeExecutionOptions::observer). It receives the events of both contracts, from every executor. Without
//! an observer, events cost nothing.
//!
//! ```
//! use execbox::events::{EventKind, Observer};
//! use execbox::{ExecuteRequest, Executor, InlineExecutor, Provider, Tool};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let trace = Observer::new(|event| match event.kind {
//!     EventKind::CallBegan { call, .. } => println!("{} {}: {call}", event.execution, call.id),
//!     EventKind::CallEnded { call, duration, .. } => println!("{} {}: {duration:?}", event.execution, call.id),
//!     EventKind::Ended(end) => println!("{} ended: {:?}", event.execution, end.usage()),
//!     _ => {}
//! });
//! let shop = Provider::builder("shop").tool(Tool::new("orders", async |_, _| Ok(json!([7, 9])))).build()?;
//! let request = ExecuteRequest::new("await shop.orders()").provider(shop).observer(trace);
//! assert!(InlineExecutor::new()?.execute(request).await.is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! # Order
//!
//! [`Accepted`](EventKind::Accepted) comes first and [`Ended`](EventKind::Ended) last, each once, also where the caller drops
//! the execution. What happens to a call comes between its [`CallBegan`](EventKind::CallBegan) and its
//! [`CallEnded`](EventKind::CallEnded), of which every begun call has one; calls of one execution overlap. Log lines and
//! calls come in the order in which the guest makes them.

mod observation;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use execbox_core::contract::module::{CodeExecutionLog, CodeExecutionResult};
use execbox_core::engine::LogLine;
use execbox_core::error::{ErrorCode, ExecuteResult};
use execbox_core::usage::Usage;
use execbox_core::value::Graph;

pub(crate) use self::observation::{CallHandle, CallSpan, Observation, Observers, Span};
pub use execbox_core::engine::CallId;

/// Receives the events of executions. Cheap to clone; one can observe many executions at once.
///
/// It is called on the task that executes, and must not block. [Progress](EventKind::CallProgress) and
/// [waiting](EventKind::CallWaiting) that a tool reports from another thread are delivered there, possibly at the same time as
/// other events; the acceptance of a run is delivered where it is started. If an observer panics, the execution continues.
#[derive(Clone)]
#[must_use = "an observer does nothing until it is added to a request"]
pub struct Observer(Arc<dyn Fn(&Event<'_>) + Send + Sync>);

impl Observer {
    /// An observer that calls this function.
    pub fn new(observe: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }

    /// Passes an event on, for observers that filter.
    pub fn observe(&self, event: &Event<'_>) {
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0)(event)));
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(…)")
    }
}

/// Identifies an execution or run within this process. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(u64);

impl ExecutionId {
    /// The id as a number, from 1 on.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "execution-{}", self.0)
    }
}

/// Something that happened in an execution.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The execution or run in which it happened.
    pub execution: ExecutionId,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What happened in an execution.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The executor has the request. It may wait for a runner.
    Accepted,
    /// The program is given to an engine or a runner, which compiles it first. Comes again where the
    /// [`FallbackExecutor`](crate::FallbackExecutor) starts the program again.
    Started,
    /// The guest has written to its console.
    Log(LogEntry<'a>),
    /// The guest's call of a tool or host function begins; its input is not checked yet.
    #[non_exhaustive]
    CallBegan {
        /// The id and the names of the call.
        call: CallInfo<'a>,
        /// The size of the input in bytes, as [`Usage::bytes_out`] counts it. For tools, about the length of the JSON text.
        input_bytes: usize,
    },
    /// The tool [reports](crate::ToolContext::report) how far it has come.
    #[non_exhaustive]
    CallProgress {
        /// The id and the names of the call.
        call: CallInfo<'a>,
        /// What the tool reports.
        progress: &'a ToolProgress,
    },
    /// The call begins to wait for a person.
    #[non_exhaustive]
    CallWaiting {
        /// The id and the names of the call.
        call: CallInfo<'a>,
        /// What the person is asked for.
        awaited: Awaited,
    },
    /// The call does not wait for a person any more.
    #[non_exhaustive]
    CallResumed {
        /// The id and the names of the call.
        call: CallInfo<'a>,
    },
    /// A [policy](crate::policy::Policy) has decided about the call. If the audit fails afterwards, an allowed call is not
    /// made.
    #[non_exhaustive]
    CallDecided {
        /// The id and the names of the call.
        call: CallInfo<'a>,
        /// The decision.
        verdict: Verdict<'a>,
        /// How long the call waited for a person.
        waited: Duration,
    },
    /// The call has ended.
    #[non_exhaustive]
    CallEnded {
        /// The id and the names of the call.
        call: CallInfo<'a>,
        /// The time since the call began.
        duration: Duration,
        /// How the call ended.
        end: CallEnd<'a>,
    },
    /// The guest of a run has [reported](crate::code::CodeExecutionOptions::on_report) this value.
    Reported(&'a Graph),
    /// The execution has ended.
    Ended(ExecutionEnd<'a>),
}

/// What a guest has written to its console.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LogEntry<'a> {
    /// A line of a script.
    Line(&'a LogLine),
    /// A call of the console in a run.
    ConsoleCall(&'a CodeExecutionLog),
}

/// A call of a tool or a host function. [`Display`](fmt::Display) writes its name: `bank.pay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallInfo<'a> {
    /// Identifies the call within its execution.
    pub id: CallId,
    /// The provider of a tool; `None` for a host function of a run.
    pub provider: Option<&'a str>,
    /// The name of the tool in guest code, or of the host function.
    pub name: &'a str,
}

impl fmt::Display for CallInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.provider {
            Some(provider) => write!(f, "{provider}.{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// What a person is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// The approval of the call, by its [policy](crate::policy::Policy).
    Approval,
    /// An answer, by the tool: [`ToolContext::wait_for_person`](crate::ToolContext::wait_for_person).
    Answer,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolProgress {
    /// The amount that is done, in a unit of the tool.
    pub done: f64,
    /// The amount that is to be done in total, if it is known.
    pub total: Option<f64>,
    /// What the tool is doing, for people.
    pub message: Option<String>,
}

impl ToolProgress {
    /// This amount is done.
    pub fn new(done: f64) -> Self {
        Self { done, total: None, message: None }
    }

    execbox_core::setters! {
        total: impl Into<Option<f64>>,
        message: impl Into<Option<String>>,
    }
}

/// The decision about a proposed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict<'a> {
    /// A rule allows the call, or no rule applies.
    Allowed,
    /// A rule denies the call, for this reason.
    Denied(&'a str),
    /// A person approved the call.
    Approved,
    /// A person refused the call, or no person could be asked: the reason.
    Refused(&'a str),
    /// The execution ended while the call waited for a person.
    Abandoned,
}

impl<'a> Verdict<'a> {
    /// The verdict in one word, for logs: `allowed`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied(_) => "denied",
            Self::Approved => "approved",
            Self::Refused(_) => "refused",
            Self::Abandoned => "abandoned",
        }
    }

    /// Why the call was not made, if a rule or a person decided that.
    pub fn reason(&self) -> Option<&'a str> {
        match self {
            Self::Denied(reason) | Self::Refused(reason) => Some(reason),
            Self::Allowed | Self::Approved | Self::Abandoned => None,
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallEnd<'a> {
    /// The call returned a value.
    #[non_exhaustive]
    Returned {
        /// The size of the value in bytes. For tools, the length of the JSON text; for host functions, the size that is sent to
        /// the guest.
        bytes: usize,
    },
    /// The call failed, or was not made.
    #[non_exhaustive]
    Failed {
        /// The code of the error; for host functions always [`ErrorCode::ToolError`].
        code: ErrorCode,
        /// The message that the guest can read.
        message: &'a str,
    },
    /// The execution ended before the call.
    Dropped,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ExecutionEnd<'a> {
    /// A script ended with this result.
    Script(&'a ExecuteResult),
    /// A run ended with this result.
    Run(&'a CodeExecutionResult),
    /// The caller or the runtime dropped the execution.
    Dropped,
}

impl ExecutionEnd<'_> {
    /// Whether the execution returned a value.
    pub fn is_ok(&self) -> bool {
        match self {
            Self::Script(result) => result.is_ok(),
            Self::Run(result) => result.error.is_none(),
            Self::Dropped => false,
        }
    }

    /// What the execution used, if it was not dropped.
    pub fn usage(&self) -> Option<&Usage> {
        match self {
            Self::Script(result) => Some(&result.usage),
            Self::Run(result) => Some(&result.usage),
            Self::Dropped => None,
        }
    }

    /// How long the execution took, if it was not dropped.
    pub fn duration(&self) -> Option<Duration> {
        match self {
            Self::Script(result) => Some(result.duration),
            Self::Run(result) => Some(result.duration),
            Self::Dropped => None,
        }
    }
}
