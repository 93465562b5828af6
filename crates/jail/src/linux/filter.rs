//! The seccomp filter, made from the table of system calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};

use super::calls::{ALLOWED, When};
use crate::policy::Policy;

/// Applies the filter to all threads of the process.
pub(super) fn apply(policy: &Policy) -> Result<(), String> {
    let filters = filters(policy).map_err(|error| error.to_string())?;
    filters.iter().try_for_each(|filter| apply_filter_all_threads(filter)).map_err(|error| error.to_string())
}

fn filters(policy: &Policy) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut filters = Vec::new();
    // Calls that fail instead of killing the process. These filters come first, because the last one does not allow another.
    let mut refuse = |call, error: i32| {
        let refused = BTreeMap::from([(call, Vec::new())]);
        let error = SeccompAction::Errno(error.cast_unsigned());
        filters.push(SeccompFilter::new(refused, SeccompAction::Allow, error, arch)?.try_into()?);
        Ok::<(), seccompiler::BackendError>(())
    };
    if policy.threads {
        // The C library then starts threads by `clone`, whose arguments a filter can see.
        refuse(libc::SYS_clone3, libc::ENOSYS)?;
    }
    if policy.compiles {
        // The libraries of the engine do without the file.
        refuse(libc::SYS_openat, libc::EACCES)?;
    }
    let mut allowed: BTreeMap<_, Vec<SeccompRule>> = BTreeMap::new();
    for call in ALLOWED.iter().filter(|call| call.is_for(policy)) {
        let rules = allowed.entry(call.number).or_default();
        if let Some(condition) = condition(call.when)? {
            rules.push(SeccompRule::new(vec![condition])?);
        }
    }
    filters.push(SeccompFilter::new(allowed, SeccompAction::KillProcess, SeccompAction::Allow, arch)?.try_into()?);
    Ok(filters)
}

fn condition(when: When) -> Result<Option<SeccompCondition>, seccompiler::BackendError> {
    match when {
        When::Always => Ok(None),
        When::Equals(index, value) => {
            SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value.into()).map(Some)
        }
        When::Bits(index, mask, bits) => {
            SeccompCondition::new(index, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), bits).map(Some)
        }
    }
}
