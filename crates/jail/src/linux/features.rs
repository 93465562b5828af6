//! What this kernel has.

use std::fs;

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
