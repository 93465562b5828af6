//! The module contract: `run_code(source, options)` as functions over programs and outcomes (code-execution
//! specification).
//!
//! ```text
//!   host                                                     runner, in this process or in another
//!   Request ───────────────────────────────────────────────► Request::start: linked ─► Program
//!      ▲  functions and promises by number                      │
//!   Record::add ◄── calls, notifications (console, report) ── events of the guest
//!   Record::finish ◄── RunEnd ◄───────────────────────────── ModuleRun::finish: Outcome
//! ```
//!
//! Values are copied whole (§3.5), see [`value`](crate::value). Functions are numbers here; the host's driver has the
//! functions themselves. The numbers below [`FIRST_FUNCTION`] are those of the captured console and of `report`.
//!
//! `link_error` comes from the step that failed, before anything of the program runs, or from a missing export, never from what an
//! error says.

mod request;
mod result;
mod run;

pub(crate) use request::FunctionNames;
pub use request::{Bridge, FIRST_FUNCTION, Request, add_own_globals};
pub use result::{
    CodeExecutionError, CodeExecutionLog, CodeExecutionResult, Failure, Record, Recorded, RunOutcome, Status, to_graph,
};
pub use run::{ModuleRun, RunEnd};
