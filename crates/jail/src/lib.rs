//! Locks the process that runs hostile code: the operating system refuses what the process does not need, in addition to its
//! sandbox.
//!
//! [`Policy`] says what the process still needs, as plain data. A [`Report`] says of each [`Layer`] whether this kernel
//! enforces it, and if not, why. Nothing here needs root. The process is locked in three steps, which are types, so that their
//! order cannot be wrong:
//!
//! ```no_run
//! use execbox_jail::{Jail, Mode, Policy};
//!
//! # fn load_code() {}
//! # fn start_threads_and_warm_up() {}
//! let prepared = Jail::prepare(Policy::default()); // first in main, before any thread
//! load_code(); // opens the last files
//! let confined = prepared.confine(); // no files, no privileges; still one thread
//! start_threads_and_warm_up(); // makes the last threads, and every kind of system call for the first time
//! let report = confined.seal(); // from here on, system calls that are not in the table kill the process
//! report.check(Mode::Required)?;
//! # Ok::<_, execbox_jail::Incomplete>(())
//! ```
//!
//! Nothing between `confine` and `seal` opens a file. A layer is enforced, or its report says why not. No permitted system call
//! names another process or thread by its id, or an address. Memory that no limit of the kernel counts is for the parent to watch
//! (`execbox` does).
//!
//! - `policy`, `report`: the data. `jail`: the three steps.
//! - `linux/`: one module per group of layers; `calls` is the table of system calls with the reason for each.
//!
//! On systems other than Linux every layer is [`Status::Unavailable`].

#[cfg(unix)]
mod descriptors;
mod jail;
#[cfg(target_os = "linux")]
mod linux;
mod policy;
mod report;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unsupported as system;

#[cfg(unix)]
pub use descriptors::{close_inherited, close_inherited_except};
pub use jail::{Confined, Jail, Prepared, enter, features, may_lack_layers};
pub use policy::{Mode, Policy, Sockets, UnknownMode};
pub use report::{Feature, Incomplete, Layer, LayerReport, Report, Status};
