//! The three steps into the jail.

use crate::policy::Policy;
use crate::report::{Feature, Report};
use crate::system;

/// The start of the three steps, with [`Jail::prepare`]; see the [crate's documentation](crate).
#[derive(Debug)]
pub struct Jail(());

/// A process with limits and namespaces of its own, which can still open files. It must have one thread.
#[derive(Debug)]
#[must_use = "the process is not locked before `seal`"]
pub struct Prepared {
    policy: Policy,
    report: Report,
}

/// A process without files and privileges, which can start threads.
#[derive(Debug)]
#[must_use = "the process is not locked before `seal`"]
pub struct Confined {
    policy: Policy,
    report: Report,
}

impl Jail {
    /// Closes inherited descriptors, sets limits, and moves the process into namespaces of its own.
    ///
    /// Call it first in `main`: it affects the whole process, and namespaces cannot be entered by a process with several
    /// threads.
    ///
    /// There is no PID namespace: only a child process could be in it, so that each jail would be two processes, one of them
    /// to pass on signals. What it would add is enforced by other layers: no `/proc`, no signals, no new processes.
    pub fn prepare(policy: Policy) -> Prepared {
        let mut report = Report { compiles: policy.compiles, ..Report::default() };
        system::prepare(&policy, &mut report);
        Prepared { policy, report }
    }
}

impl Prepared {
    /// Takes away the file system, all capabilities, and with Landlock every file.
    ///
    /// Call it when the last file is open and before the first thread: Landlock restricts the calling thread, and those that
    /// it starts.
    pub fn confine(self) -> Confined {
        let Self { policy, mut report } = self;
        system::confine(&mut report);
        Confined { policy, report }
    }
}

impl Confined {
    /// Locks all threads: system calls that are not in the table kill the process.
    ///
    /// Call it when every thread runs and has done its one-time work, which often takes system calls that are not needed again.
    pub fn seal(self) -> Report {
        let Self { policy, mut report } = self;
        system::seal(&policy, &mut report);
        report
    }

    /// What is enforced so far.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

/// Takes all three steps at once, in a process with one thread.
pub fn enter(policy: &Policy) -> Report {
    Jail::prepare(policy.clone()).confine().seal()
}

/// Whether checks of this system find a reason why a layer may be missing. They lock nothing and start no process, so they do
/// not find every reason; the [`Report`] of a locked process says what is enforced.
pub fn may_lack_layers() -> bool {
    system::may_lack_layers()
}

/// The properties of this system that decide which layers are available, for people who look for the cause of a missing layer.
pub fn features() -> Vec<Feature> {
    system::features()
}
