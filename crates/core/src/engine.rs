//! The guest as a state machine, and the interface that every engine implements.
//!
//! An [`Engine`] starts a [`Program`] as a [`Guest`]. A guest runs until it needs the host. Its driver takes the
//! [`Event`]s of the guest, settles its calls, and polls it again, until it is done. A guest does not block and does no
//! I/O. Inline execution, worker threads, child processes and remote runners all drive this one state machine.
//!
//! ```text
//!            ┌──────────── poll_turn: Pending ── yielded the thread; poll again when woken
//!   start ──►│  computes  ├── poll_turn: Waiting ── cannot continue before `settle`
//!            └──────────── poll_turn: Done(Outcome) ── ended; drop it
//!   after every poll: take_events → logs and calls, in the order they happened
//! ```
//!
//! The interface allows for:
//! - *Guests that compute for long.* They return `Pending` every few milliseconds and wake their task, so they never
//!   block the thread that polls them.
//! - *Synchronous host functions* ([`Call::now`]). The guest is suspended inside the call, and `Waiting` means that this
//!   call must be settled first.
//! - *Functions and promises in values* (module programs). The host numbers them; a guest calls a function by its
//!   number, and the host settles a promise by its number.
//! - *Engines that are bound to a thread.* They run there, and wake the task when there are events or the guest is done.
//! - *Images of waiting guests* ([`Guest::image`]). Between turns no native frame exists, and every pending call has
//!   an id outside the guest.
//!
//! Engines do not keep time: to end a guest, a driver [interrupts](Interrupt) or drops it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ExecuteError;
use crate::language::Position;
use crate::program::{Limits, Program};
use crate::text::bytes_text;
use crate::value::Value;

/// Runs programs. One engine serves any number of guests at once.
pub trait Engine: Send + Sync {
    /// The engine's name in messages and `Debug` output, for example `quickjs`.
    fn name(&self) -> &str;

    /// Whether a guest can end the process in which it runs. Such an engine runs in runner processes only: executors that run
    /// guests in the process of the host refuse it. Default: no.
    fn needs_own_process(&self) -> bool {
        false
    }

    /// Creates a guest for `program`. The program starts with the first [`poll_turn`](Guest::poll_turn).
    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError>;
}

/// The exit code of a process that its guest has ended by exhausting its memory, for engines that
/// [need a process of their own](Engine::needs_own_process). To the host that is the same as [`Outcome::OutOfMemory`].
pub const MEMORY_LIMIT_EXIT_CODE: i32 = 86;

/// Why an engine did not start a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine runs this many guests, which is its maximum.
    #[error("engine at capacity: {0} guests running")]
    Full(usize),
    /// The engine does not support programs of this kind.
    #[error("the engine does not support {0}")]
    Unsupported(&'static str),
    /// The engine itself failed.
    #[error("the engine failed to start a guest: {0}")]
    Failed(String),
}

/// A running program. Dropping it ends the program in any state.
pub trait Guest: Send {
    /// Lets the guest compute until it needs the host, is done, or yields the thread.
    ///
    /// `Pending` means that the guest yielded, and that the task of `cx` was or will be woken. After [`Turn::Done`], further
    /// polls return [`Outcome::Interrupted`].
    ///
    /// Drivers measure the CPU time of the guest on the thread that calls this, unless it computes [elsewhere](Self::cpu_time).
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn>;

    /// Appends the events since the last call to `events`, in order. To be called after every poll.
    fn take_events(&mut self, events: &mut Vec<Event>);

    /// Settles a call of the guest or a promise of the host. Takes effect at the next poll; settlements keep their order.
    ///
    /// Calls that are not pending are ignored, and so are promises that were settled before or that the guest was not given
    /// in a value.
    fn settle(&mut self, pending: Pending, settlement: Settlement);

    /// Wakes the guest, whose [timer](Event::Timer) is due. Takes effect at the next poll.
    fn wake(&mut self) {}

    /// How many bytes of settlements the guest has not taken in yet. A driver that has settled much lets the guest
    /// compute before it settles more.
    fn unread_bytes(&self) -> usize;

    /// A handle that stops the guest from any thread, even while it computes.
    fn interrupt(&self) -> Interrupt;

    /// The most memory that the program has used so far, in bytes. `None` if the engine does not measure it.
    fn peak_memory_bytes(&mut self) -> Option<u64> {
        None
    }

    /// Whether the process ends as soon as this guest is dropped, because its program has exhausted the memory of the process: see
    /// [`MEMORY_LIMIT_EXIT_CODE`]. The guest is done then. Its driver first passes on what the guest did and its outcome, and
    /// the process does not wait for that for longer than a second.
    fn ends_process(&self) -> bool {
        false
    }

    /// The CPU time that the program has computed so far, of an engine that computes on another thread. Such an engine wakes
    /// the task every few milliseconds while it computes, so that the limit is enforced. `None` if it computes in
    /// [`poll_turn`](Self::poll_turn).
    fn cpu_time(&mut self) -> Option<Duration> {
        None
    }

    /// The state of a waiting guest as bytes, from which the engine can resume it in another process. `None` if the
    /// engine has no images, or the guest is not [waiting](Turn::Waiting) or is inside a synchronous call.
    fn image(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// The state of a guest at the end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The guest waits for the host. If no call or promise is pending, it waits forever.
    Waiting,
    /// The guest has ended. Calls that are still pending can be cancelled.
    Done(Outcome),
}

/// Identifies a call within its guest. Counted from 1, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call-{}", self.0)
    }
}

/// Identifies a host function within one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// What a host [settles](Guest::settle).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pending {
    /// A call by the guest.
    Call(CallId),
    /// A promise of the host, by the number in its [node](crate::value::Node::Promise). Module programs only.
    Promise(u32),
}

/// How a call or promise is settled.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// The call returns this value; the promise is fulfilled with it.
    Fulfilled(Value),
    /// The promise is rejected with this value; a synchronous call throws it. Module programs only.
    Rejected(Value),
    /// The host failed the call. The guest sees an error with this message. If the guest does not catch *this very
    /// error*, the outcome is [`Outcome::Failed`] with it: code, message and cause.
    Failed(ExecuteError),
}

impl Settlement {
    /// How many bytes the guest receives.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Fulfilled(value) | Self::Rejected(value) => value.as_bytes().len(),
            Self::Failed(error) => error.message.len(),
        }
    }
}

impl From<Result<Value, Value>> for Settlement {
    fn from(result: Result<Value, Value>) -> Self {
        result.map_or_else(Self::Rejected, Self::Fulfilled)
    }
}

/// Something that a guest did and its host has to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A console line, within the program's log limits.
    Log(LogLine),
    /// A call of a host function, which the host has to settle.
    Call(Call),
    /// A call of a host function without a result: see [`FunctionKind`](crate::value::FunctionKind).
    Notify(Notification),
    /// A call that is unanswered when the result of the program is settled. Reported for at most [`MAX_UNAWAITED`] calls,
    /// all at once.
    Unawaited(UnawaitedCall),
    /// How many console lines the log limits have dropped until now. Reported when there are more.
    DroppedLogs(u64),
    /// The guest asks to be woken after this time, by [`Guest::wake`], in place of what it asked before; `None` takes that
    /// back. At most the last one since the last [`take_events`](Guest::take_events) is reported.
    Timer(Option<Duration>),
}

/// The most calls that an engine reports as [unawaited](Event::Unawaited).
pub const MAX_UNAWAITED: usize = 16;

/// A call that a script has not awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnawaitedCall {
    /// The number of calls that are unanswered then.
    pub count: u64,
    /// The function that was called, as in [`Call::function`].
    pub function: FunctionId,
    /// Where the call was made, if the engine knows it.
    pub frame: Option<Frame>,
}

/// A call without a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// The number of the function, as in [`Call::function`].
    pub function: FunctionId,
    /// The arguments: an array.
    pub args: Value,
}

/// One console line (runner specification, "Logs").
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// The console function that was called.
    pub level: LogLevel,
    /// The formatted arguments, cut to the log limits.
    pub text: String,
}

impl LogLine {
    /// A line that was logged with this function.
    pub fn new(level: LogLevel, text: impl Into<String>) -> Self {
        Self { level, text: text.into() }
    }
}

/// The console functions. The code-execution specification fixes them, so that no more are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is the function of that name
pub enum LogLevel {
    Log,
    Info,
    Warn,
    Error,
    Debug,
}

impl LogLevel {
    /// The name of the console function, for example `log`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Debug => "debug",
        }
    }

    /// The level with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Log, Self::Info, Self::Warn, Self::Error, Self::Debug].into_iter().find(|level| level.as_str() == name)
    }
}

/// A call of a host function.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The call's id, by which it is settled.
    pub id: CallId,
    /// In scripts, the index of the function among the functions of all namespaces. In module programs, the number in
    /// the function's [node](crate::value::HostFunction). Untrusted: a compromised engine can send any number.
    pub function: FunctionId,
    /// In scripts, the first argument. In module programs, an array of all arguments.
    pub input: Value,
    /// The call is synchronous: the guest is suspended until it is settled.
    pub now: bool,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The program returned this value.
    Returned(Value),
    /// Guest code threw a value and did not catch it. In module programs also: the result cannot be copied (an error
    /// named `SerializationError`), or there are arguments for an export that is not a function.
    Threw(Thrown),
    /// The modules do not link. No code ran, except before [`ModuleError::Export`].
    Unlinked(ModuleError),
    /// The host failed a call, and the guest did not catch *that very error*.
    Failed {
        /// The error that the host settled the call with.
        error: ExecuteError,
        /// Where the call was made, as in [`Thrown::frames`]; may be empty.
        frames: Vec<Frame>,
    },
    /// The program exceeded its memory limit.
    OutOfMemory,
    /// The calls and reports that the host stores for the program exceeded their memory limit.
    HostMemory(NoRoom),
    /// The stack overflowed where the engine could not throw an exception.
    StackOverflow,
    /// The guest's [`Interrupt`] was triggered.
    Interrupted,
    /// The engine failed or violated this interface, as described by the message. Other guests are not affected.
    Fault(String),
}

/// What did not fit into the [budget](crate::program::Program::budget) of what the host keeps for a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// The input of a call, beside those in flight.
    Calls,
    /// A notification.
    Reports,
    /// An answer, beside those that the guest has not taken in: it is blocked in a synchronous call.
    Answers,
}

impl NoRoom {
    /// The message for the author of the guest code, with the remedy.
    pub(crate) fn message(self, limits: &Limits) -> String {
        let limit = bytes_text(limits.host_memory_len() as u64);
        match self {
            Self::Calls => {
                format!("The inputs of calls in flight exceeded their budget of {limit}; await some of them first")
            }
            Self::Reports => format!("The reports exceeded their budget of {limit}; report less"),
            Self::Answers => {
                format!(
                    "The answers to calls in flight exceeded their budget of {limit} during a synchronous call; await some of them first"
                )
            }
        }
    }
}

/// Why modules do not link (code-execution specification §4.1, `link_error`). A failing `import(…)` is not among these:
/// it throws in the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// A module has a syntax error.
    #[error("{message}")]
    Syntax {
        /// The module's name.
        module: Arc<str>,
        /// The error's message, without the position.
        message: String,
        /// The position in the module's code.
        position: Option<Position>,
    },
    /// A module imports a specifier that the program does not have.
    #[error("unknown module {specifier:?} imported by {module}")]
    Specifier {
        /// The importing module.
        module: Arc<str>,
        /// The specifier.
        specifier: String,
    },
    /// An imported or re-exported name does not exist or is ambiguous, or the module graph is too deep.
    #[error("{message}")]
    Binding {
        /// The engine's message.
        message: String,
    },
    /// The entry module was evaluated, and does not have the export that [`Modules`](crate::program::Modules) asks for.
    #[error("the module has no export {export}")]
    Export {
        /// The name of the export.
        export: String,
    },
}

/// An uncaught guest error, as the engine reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thrown {
    /// The error's name, for example `TypeError`; empty for a thrown value that is not an error.
    pub name: String,
    /// The error's message, or the thrown value as text.
    pub message: String,
    /// The frames of the program's own code, innermost first.
    pub frames: Vec<Frame>,
    /// The kind of error, if the engine threw it by itself and can recognize it.
    pub native: Option<NativeError>,
}

/// An error that an engine throws by itself, in terms that do not depend on the engine.
///
/// Untrusted: an engine may conclude it from name and message, which a guest can choose. It serves only to explain the
/// error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NativeError {
    /// The value that is called is not a function.
    NotAFunction,
    /// There is no variable with this name.
    NotDefined(String),
    /// A property of `undefined` or `null` is read.
    PropertyOfNothing,
}

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, if it has one.
    pub function: Option<String>,
    /// The name of the script, function or module.
    pub file: Arc<str>,
    /// The position in the source of that file.
    pub position: Position,
}

/// Stops a guest, from any thread and at any time. Guest code cannot catch it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<InterruptState>);

#[derive(Default)]
struct InterruptState {
    triggered: AtomicBool,
    hook: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Interrupt {
    /// An interrupt that the engine polls.
    pub fn new() -> Self {
        Self::default()
    }

    /// An interrupt that calls `hook` when it is triggered the first time, for engines that do not poll.
    pub fn with_hook(hook: impl Fn() + Send + Sync + 'static) -> Self {
        let interrupt = Self::default();
        let _ = interrupt.0.hook.set(Box::new(hook));
        interrupt
    }

    /// Stops the guest. Its next turn is [`Outcome::Interrupted`], unless it is done already.
    pub fn trigger(&self) {
        if !self.0.triggered.swap(true, Ordering::Relaxed)
            && let Some(hook) = self.0.hook.get()
        {
            hook();
        }
    }

    /// Whether [`trigger`](Self::trigger) was called.
    pub fn is_triggered(&self) -> bool {
        self.0.triggered.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interrupt(triggered: {})", self.is_triggered())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn an_interrupt_calls_its_hook_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let interrupt = Interrupt::with_hook(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let other = interrupt.clone();
        assert!(!interrupt.is_triggered());
        other.trigger();
        interrupt.trigger();
        assert!(interrupt.is_triggered());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
