//! The steps on Linux.

mod calls;
mod features;
mod filter;
mod landlock;
mod limits;
mod namespaces;
mod privileges;

use std::fs;

pub(crate) use self::features::features;

use crate::descriptors;
use crate::policy::{Policy, Sockets};
use crate::report::{Layer, Report, Status};

/// Why a layer is not part of the jail of a process that listens.
const LISTENS: &str = "a process that listens opens its sockets later";

pub(crate) fn prepare(policy: &Policy, report: &mut Report) {
    report.note(Layer::Descriptors, status(descriptors::close_inherited()));
    report.note(Layer::NoNewPrivileges, status(privileges::no_new_privileges()));
    report.note(Layer::Limits, status(limits::set(policy)));
    namespaces::enter(policy, report);
}

pub(crate) fn confine(policy: &Policy, report: &mut Report) {
    // The last two apply to this thread and to those that it starts. Counted first: the threads are listed in /proc.
    let alone = one_thread();
    let in_namespace = report.status(Layer::EmptyRoot).is_none();
    if in_namespace {
        report.note(Layer::EmptyRoot, status(namespaces::empty_root()));
    }
    let capabilities = privileges::drop_capabilities(policy.sockets == Sockets::Listening);
    report.note(Layer::Capabilities, status(capabilities.map_err(|error| error.to_string()).and(alone.clone())));
    report.note(Layer::Landlock, status(landlock::enter(policy).and(alone)));
}

pub(crate) fn seal(policy: &Policy, report: &mut Report) {
    report.note(Layer::NotDumpable, status(privileges::not_dumpable()));
    report.note(Layer::SystemCalls, status(filter::apply(policy)));
}

fn status<E: ToString>(result: Result<(), E>) -> Status {
    match result {
        Ok(()) => Status::Enforced,
        Err(error) => Status::Unavailable(error.to_string()),
    }
}

/// Fails if the process has more than one thread: what follows would not apply to them.
fn one_thread() -> Result<(), String> {
    match fs::read_dir("/proc/self/task").map(Iterator::count) {
        // Without /proc the count is unknown.
        Ok(0 | 1) | Err(_) => Ok(()),
        Ok(threads) => Err(format!("the process has {threads} threads already")),
    }
}
