//! The runner protocol: the messages between a host and a runner, and both halves of a session as state machines (runner
//! specification; protocol reference).
//!
//! ```text
//!   host                                                                        runner
//!   HostSession ──► HostMessage ──► line ~~ any transport ~~ line ──► RunnerSession ──► Guest
//!               ◄── RunnerMessage ◄─                        ◄─                      ◄──
//! ```
//!
//! - `message`: the [messages](Message) of each direction; `script` and `module`: their fields, by contract.
//! - `line`: a [stream of lines](LineDecoder), each a JSON object; `attachments`: [values beside them](Attachments).
//! - [`host`]: the host's half of a session; [`runner`]: the runner's half.
//!
//! Nothing here reads, writes, waits or asks for the time. A driver moves bytes, polls the guest or calls the tools, and
//! passes the time as a [`Duration`](std::time::Duration) since an epoch of its choice, the same for the whole session.
//! Each half treats the other as hostile.

mod attachments;
mod fields;
pub mod host;
mod line;
mod message;
mod module;
pub mod runner;
mod script;

pub use attachments::{ATTACHMENT_COST, Attachments, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS};
pub use fields::{Fault, MessageError, Object};
pub use line::{Frame, LineDecoder, LineError, StreamEnd, TooLong, decode_line};
pub use message::{HostMessage, Message, ReadError, RunnerMessage};
pub use module::{CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
pub use script::{Cancel, Clock, Done, Execute, MAX_REPEATED_LOG_BYTES, Started, ToolResult, WireCall, WireLog};
