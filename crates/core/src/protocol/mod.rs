//! The runner protocol: what a host and a runner say to each other, and both halves of the
//! conversation as state machines (runner specification; protocol reference).
//!
//! ```text
//!   host                                                                        runner
//!   HostSession ──► HostMessage ──► line ~~ any transport ~~ line ──► RunnerSession ──► Guest
//!               ◄── RunnerMessage ◄─                        ◄─                      ◄──
//! ```
//!
//! - [`message`]: the six messages and `log`, typed, and their JSON; [`code`]: those for `run_code`.
//! - [`line`](mod@line): one JSON object per line, and back.
//! - [`runner`]: the runner's half of a session.
//! - [`host`]: the host's half; [`code_host`]: the same for `run_code`.
//!
//! Nothing here reads, writes, waits or asks for the time. A driver carries bytes, polls the guest or
//! calls the tools, and hands in the time as a [`Duration`](std::time::Duration) since an epoch of its
//! own choosing, which must stay the same for a session. Each half takes the other for hostile.

pub mod code;
pub mod code_host;
pub mod host;
pub mod line;
pub mod message;
pub mod runner;

pub use code::{Attachments, CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
pub use code_host::CodeHostSession;
pub use host::{CloseReason, HostOptions, HostSession, Misbehaviour};
pub use line::{Frame, LineDecoder, LineError, StreamEnd, TooLong, decode_line, encode_message};
pub use message::{
    Done, Execute, Fault, HostMessage, Message, MessageError, Object, RunnerMessage, ToolResult, WireCall, WireLog,
};
pub use runner::RunnerSession;
