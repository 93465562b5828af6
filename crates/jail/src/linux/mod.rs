//! The steps on Linux.

mod calls;
mod features;
mod filter;
mod landlock;
mod limits;
mod namespaces;
mod privileges;

use std::fs;

pub(crate) use self::features::{features, may_lack_layers};

use crate::descriptors;
use crate::policy::Policy;
use crate::report::{Layer, Report, Status};

pub(crate) fn prepare(policy: &Policy, report: &mut Report) {
    report.note(Layer::Descriptors, status(descriptors::close_inherited_except(policy.sockets)));
    report.note(Layer::NoNewPrivileges, status(privileges::no_new_privileges()));
    report.note(Layer::Limits, status(limits::set(policy)));
    namespaces::enter(report);
}

pub(crate) fn confine(report: &mut Report) {
    // Capabilities and Landlock apply to this thread and to those that it starts. The threads are counted first, because they
    // are listed in /proc, which the empty root hides.
    let alone = one_thread();
    let in_namespace = report.status(Layer::EmptyRoot).is_none();
    if in_namespace {
        report.note(Layer::EmptyRoot, status(namespaces::empty_root()));
    }
    let capabilities = privileges::drop_capabilities();
    report.note(Layer::Capabilities, status(capabilities.map_err(|error| error.to_string()).and(alone.clone())));
    match landlock::enter().and_then(|version| alone.map(|()| version)) {
        Ok(version) => report.note_enforced(Layer::Landlock, version),
        Err(reason) => report.note(Layer::Landlock, Status::Unavailable(reason)),
    }
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

/// Fails if the process has more than one thread: the next step would not apply to the others.
fn one_thread() -> Result<(), String> {
    match fs::read_dir("/proc/self/task").map(Iterator::count) {
        // Without /proc the count is unknown.
        Ok(0 | 1) | Err(_) => Ok(()),
        Ok(threads) => Err(format!("the process has {threads} threads already")),
    }
}
