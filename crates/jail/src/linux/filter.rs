//! The seccomp filter, made from the table of system calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};

use super::calls::{ALLOWED, BY_ID, When};
use crate::policy::Policy;

/// Applies the filter to all threads of the process.
pub(super) fn apply(policy: &Policy) -> Result<(), String> {
    let filters = filters(policy).map_err(|error| error.to_string())?;
    filters.iter().try_for_each(|filter| apply_filter_all_threads(filter)).map_err(|error| error.to_string())
}

fn filters(policy: &Policy) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut filters = Vec::new();
    // Calls that are answered instead of killing the process. These filters come first, because the last one does not allow
    // another.
    let mut answer = |call, when: &[When], error: i32| {
        let rules = if when.is_empty() { Vec::new() } else { vec![rule(when)?] };
        let error = SeccompAction::Errno(error.cast_unsigned());
        filters
            .push(SeccompFilter::new(BTreeMap::from([(call, rules)]), SeccompAction::Allow, error, arch)?.try_into()?);
        Ok::<(), seccompiler::BackendError>(())
    };
    if policy.threads {
        // The C library then starts threads by `clone`, whose arguments a filter can see.
        answer(libc::SYS_clone3, &[], libc::ENOSYS)?;
    }
    if policy.compiles {
        // The libraries of the engine work without the files.
        answer(libc::SYS_openat, &[], libc::EACCES)?;
        // Every thread has the default policy and priority, and both are 0. The C library asks by thread ids, and a filter
        // cannot tell those of this process from others.
        answer(libc::SYS_sched_getparam, &[], SUCCESS)?;
        answer(libc::SYS_sched_getscheduler, &[], SUCCESS)?;
    }
    if policy.threads || policy.compiles || policy.sockets.listener().is_some() {
        // With this error, the C library returns the bounds of a stack without the processors.
        answer(libc::SYS_sched_getaffinity, &[BY_ID], libc::ENOSYS)?;
    }
    let mut allowed: BTreeMap<_, Vec<SeccompRule>> = BTreeMap::new();
    for call in ALLOWED.iter().filter(|call| call.is_for(policy)) {
        let rules = allowed.entry(call.number).or_default();
        if !call.when.is_empty() {
            rules.push(rule(call.when)?);
        }
    }
    filters.push(SeccompFilter::new(allowed, SeccompAction::KillProcess, SeccompAction::Allow, arch)?.try_into()?);
    Ok(filters)
}

/// The error number of a call that returns 0 without being made.
const SUCCESS: i32 = 0;

/// A rule that applies to calls for which all conditions hold.
fn rule(when: &[When]) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(when.iter().copied().map(condition).collect::<Result<_, _>>()?)
}

fn condition(when: When) -> Result<SeccompCondition, seccompiler::BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    match when {
        When::Equals(index, value) => SeccompCondition::new(index, Dword, SeccompCmpOp::Eq, value.into()),
        When::Differs(index, value) => SeccompCondition::new(index, Dword, SeccompCmpOp::Ne, value.into()),
        When::Bits(index, mask, bits) => SeccompCondition::new(index, Qword, SeccompCmpOp::MaskedEq(mask), bits),
        When::Null(index) => SeccompCondition::new(index, Qword, SeccompCmpOp::Eq, 0),
    }
}
