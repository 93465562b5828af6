//! Open files of this process (`RLIMIT_NOFILE`).

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files, up to the hard one, so that `count` files can be open. Returns how many can be.
///
/// The limit is not raised further than that: child processes inherit it, and some close every descriptor below it when they
/// start.
pub(crate) fn allow(count: usize) -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return count };
    let wanted = (count as u64).min(hard);
    let is_allowed = soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok();
    usize::try_from(if is_allowed { wanted } else { soft }).unwrap_or(count)
}
