//! The interface of engines, for [`Runner::with_engine`](crate::Runner::with_engine): a guest as a state machine, programs and
//! values.
//!
//! An engine has to treat everything that a program or a value can contain. The enums here are exhaustive for that reason: a
//! variant that is added breaks engines, with a new version of this crate.

pub use execbox_core::engine::{
    Call, Engine, Event, Frame, FunctionId, Guest, Interrupt, MAX_UNAWAITED, MEMORY_LIMIT_EXIT_CODE, ModuleError,
    NativeError, NoRoom, Notification, Outcome, Pending, Settlement, StartError, Thrown, Turn, UnawaitedCall,
};
pub use execbox_core::{libraries, mailbox, program, stack, value};
