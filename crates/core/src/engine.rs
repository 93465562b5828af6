//! The guest as a state machine, and what an engine owes it.
//!
//! **A guest runs until it can go no further, then hands out calls; it is handed answers, and goes
//! on.** An [`Engine`] starts a [`Program`] as a [`Guest`]; a driver polls the guest, carries its
//! [`Event`]s out and answers in, until the guest is done. Inline execution, workers, processes and
//! remote runners are drivers of this one machine.
//!
//! ```text
//!            ┌──────────── poll_turn: Pending ── gave the thread back; poll again when woken
//!   start ──►│  computes  ├── poll_turn: Waiting ── nothing to do until `answer`
//!            └──────────── poll_turn: Done(Outcome) ── over; drop it
//!   after every poll: take_events → logs and calls, in the order they happened
//! ```
//!
//! What the shape leaves room for:
//! - *A guest that computes for long* answers `Pending` every few milliseconds and wakes its task, so
//!   it never holds up the thread that polls it.
//! - *Synchronous host functions* ([`Call::now`]): the guest stands still inside the call, and
//!   `Waiting` means that this call must be answered first.
//! - *Values with functions and promises in them* (module programs): a guest calls a function by the number that the host
//!   gave it in a value, and the host settles a promise by its number.
//! - *An engine bound to a thread* runs there and wakes the task when it has news.
//! - *An image of a waiting guest* ([`Guest::image`]): between turns no native frame is alive, and
//!   every pending call is known by its id on this side.
//!
//! Nothing here keeps time: a driver that has waited long enough [interrupts](Interrupt) the guest or
//! drops it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use crate::error::ExecuteError;
use crate::language::Position;
use crate::mailbox::NoRoom;
use crate::program::Program;
use crate::value::Value;

/// Runs programs. One value serves any number of guests, one after another or at once.
pub trait Engine: Send + Sync {
    /// What it is, for people: for example `quickjs`.
    fn name(&self) -> &str;

    /// A fresh guest for `program`. Nothing of it runs before the first [`poll_turn`](Guest::poll_turn).
    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError>;
}

/// Why an engine did not start a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine runs as many guests as it can at once.
    #[error("{0} guests are running in this process already, which is as many as it has room for")]
    Full(usize),
    /// The engine cannot run programs of this kind.
    #[error("the engine cannot run {0}")]
    Unsupported(&'static str),
    /// The engine itself failed.
    #[error("the engine failed to start a guest: {0}")]
    Failed(String),
}

/// One program being run. Dropping it ends it, wherever it stands.
pub trait Guest: Send {
    /// Lets the guest compute until it can go no further, or until it should give the thread back.
    ///
    /// `Pending`: it only gave the thread back, and has woken (or will wake) the task of `cx`.
    /// After [`Turn::Done`] the guest is over, and further polls repeat that it was interrupted.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn>;

    /// Moves what the guest said since the last time into `events`, in order. Useful after every poll.
    fn take_events(&mut self, events: &mut Vec<Event>);

    /// Hands in the answer to a call. It takes effect at the next poll; answers keep their order. An
    /// answer to a call that is not pending is ignored.
    fn answer(&mut self, call: CallId, answer: Answer);

    /// In module programs: settles a call or a promise of the host with a value, or with what it rejects with (for a
    /// synchronous call: throws). Takes effect as [`answer`](Self::answer) does, and in order with it. A promise that was
    /// settled, or that no value has brought to the guest, is ignored.
    fn settle(&mut self, pending: Pending, result: Result<Value, Value>);

    /// A handle that stops the guest from anywhere, even while it computes.
    fn interrupt(&self) -> Interrupt;

    /// The most memory that the program had in use so far, in bytes, where the engine can tell.
    fn peak_memory_bytes(&mut self) -> Option<u64> {
        None
    }

    /// The waiting guest as bytes, from which the engine could go on elsewhere. `None` where the engine
    /// has no images, or the guest is not [waiting](Turn::Waiting) or stands inside a synchronous call.
    fn image(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// How a guest stands when it can go no further.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// It waits for answers. If no call is pending, nothing will ever move it again.
    Waiting,
    /// It is over. Calls still pending are nobody's business any more: cancel them.
    Done(Outcome),
}

/// Names one call within one guest: counted from 1, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call-{}", self.0)
    }
}

/// Identifies a host function within one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// What a host can [settle](Guest::settle).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pending {
    /// A call that the guest made.
    Call(CallId),
    /// A promise that the host made: the number in its [node](crate::value::Node::Promise).
    Promise(u32),
}

/// Something that a guest said.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A console line, within the program's log limits.
    Log(LogLine),
    /// A call of a host function, to be answered by its id.
    Call(Call),
    /// A call of a host function that has no answer: see [`FunctionKind`](crate::value::FunctionKind).
    Notify(Notification),
}

/// A call without an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// Which function, as in [`Call::function`].
    pub function: FunctionId,
    /// Its arguments, an array.
    pub args: Value,
}

/// One console line (runner specification, "Logs").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Which console function.
    pub level: LogLevel,
    /// The line, already formatted, and cut where the limits say so.
    pub text: String,
}

/// The console functions.
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
    /// The function's name, for example `log`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Debug => "debug",
        }
    }

    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Log, Self::Info, Self::Warn, Self::Error, Self::Debug].into_iter().find(|level| level.as_str() == name)
    }
}

/// A call of a host function.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// To answer it by.
    pub id: CallId,
    /// Which function: counted over the functions of the program's namespaces, in order; in module programs, the number
    /// in its [node](crate::value::HostFunction). An engine that was taken over may say any number: look it up.
    pub function: FunctionId,
    /// Its first argument; in module programs an array of all of them.
    pub input: Value,
    /// The guest stands still until this is answered.
    pub now: bool,
}

/// The answer to a call: a value for the guest, or a failure that its promise rejects with.
pub type Answer = Result<Value, ExecuteError>;

/// What a program came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The program's value.
    Returned(Value),
    /// Guest code threw, and nobody caught it. Also a module program's result that cannot be copied, as an error of the
    /// name `SerializationError`, and arguments for an export that is no function.
    Threw(Thrown),
    /// The modules do not make a program. Nothing of them ran, except before [`LinkError::Export`].
    Unlinked(LinkError),
    /// A call that the host failed was never caught: *that very error* ended the program.
    Failed {
        /// What the host failed the call with.
        error: ExecuteError,
        /// Where the call was made, as in [`Thrown::frames`]; may be empty.
        frames: Vec<Frame>,
    },
    /// The program was refused memory.
    OutOfMemory,
    /// What the host keeps for the program exceeded its budget.
    HostMemory(NoRoom),
    /// The program ran out of stack where its engine could not turn that into an exception.
    StackOverflow,
    /// Its [`Interrupt`] was triggered.
    Interrupted,
    /// The engine broke, or broke its side of this interface. The guest is at fault or the engine is;
    /// the host goes on.
    Fault(String),
}

/// Why modules do not make a program (code-execution specification §4.1, `link_error`). What goes wrong with `import(…)`
/// is none of these: it is thrown in the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A module's source is none.
    #[error("{message}")]
    Syntax {
        /// Which module.
        module: Arc<str>,
        /// What is wrong, without the place.
        message: String,
        /// Where in its code.
        position: Option<Position>,
    },
    /// A module imports what the program does not have.
    #[error("there is no module {specifier:?} for {module} to import")]
    Specifier {
        /// The importing module.
        module: Arc<str>,
        /// What it asked for.
        specifier: String,
    },
    /// A name that is imported or exported again is not there, or is ambiguous; or the graph is too deep.
    #[error("{message}")]
    Binding {
        /// What is wrong, in the engine's words.
        message: String,
    },
    /// The entry was evaluated and does not have the export that is the outcome.
    #[error("the module has no export {export}")]
    Export {
        /// What was asked for.
        export: String,
    },
}

/// An uncaught guest error, as the engine saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thrown {
    /// The error's name, for example `TypeError`; empty for a thrown value that is no error.
    pub name: String,
    /// The error's message, or the thrown value as text.
    pub message: String,
    /// Innermost first; only frames of the program's own code, at their positions in it.
    pub frames: Vec<Frame>,
}

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, if it has one.
    pub function: Option<String>,
    /// In module programs, the name of the module.
    pub module: Option<Arc<str>>,
    /// Where in the program's code, or that module's, it stood.
    pub position: Position,
}

/// Stops a guest: from any thread, at any time, once and for all. No guest code can catch it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<InterruptState>);

#[derive(Default)]
struct InterruptState {
    triggered: AtomicBool,
    hook: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Interrupt {
    /// One that an engine looks at by itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that also calls `hook` when it is triggered, for engines that must be told.
    pub fn with_hook(hook: impl Fn() + Send + Sync + 'static) -> Self {
        let interrupt = Self::default();
        let _ = interrupt.0.hook.set(Box::new(hook));
        interrupt
    }

    /// Stops the guest. Its next turn is [`Outcome::Interrupted`], unless it was done before.
    pub fn trigger(&self) {
        if !self.0.triggered.swap(true, Ordering::Relaxed)
            && let Some(hook) = self.0.hook.get()
        {
            hook();
        }
    }

    /// Whether it was triggered.
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
    fn an_interrupt_is_triggered_once_by_the_first_caller() {
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let interrupt = Interrupt::with_hook(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let other = interrupt.clone();
        assert!(!interrupt.is_triggered());
        other.trigger();
        interrupt.trigger();
        assert!(interrupt.is_triggered());
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}
