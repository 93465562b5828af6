//! What this kernel has.

use std::fs;

use nix::sched::{CloneFlags, unshare};

use super::landlock;
use crate::report::Feature;

/// Settings of the kernel that decide which layers are available, as files below `/proc` and `/sys`.
const SETTINGS: [(&str, &str); 6] = [
    ("kernel", "/proc/sys/kernel/osrelease"),
    ("security modules", "/sys/kernel/security/lsm"),
    ("seccomp actions", "/proc/sys/kernel/seccomp/actions_avail"),
    ("user.max_user_namespaces", "/proc/sys/user/max_user_namespaces"),
    ("kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone"),
    ("kernel.apparmor_restrict_unprivileged_userns", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
];

/// The settings that this kernel has.
pub(crate) fn features() -> Vec<Feature> {
    let read = |(name, path): (&str, &str)| {
        let value = fs::read_to_string(path).ok()?.trim().to_owned();
        Some(Feature { name: name.to_owned(), value })
    };
    SETTINGS.into_iter().filter_map(read).collect()
}

/// Values of settings with which a user cannot enter namespaces.
const NO_NAMESPACES: [(&str, &str); 3] = [
    ("user.max_user_namespaces", "0"),
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
];

pub(crate) fn may_lack_layers() -> bool {
    let features = features();
    let has = |name: &str, value: &str| features.iter().any(|feature| feature.name == name && feature.value == value);
    let can_kill = features.iter().any(|feature| {
        feature.name == "seccomp actions" && feature.value.split(' ').any(|action| action == "kill_process")
    });
    // Without flags, the call enters no namespace. Filters of containers refuse it.
    let can_unshare = unshare(CloneFlags::empty()).is_ok();
    !can_kill || !can_unshare || !landlock::is_available() || NO_NAMESPACES.iter().any(|(name, value)| has(name, value))
}
