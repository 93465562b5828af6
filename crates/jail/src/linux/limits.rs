//! Resource limits: the most that the kernel gives the process.

use std::fs;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::policy::Policy;

pub(super) fn set(policy: &Policy) -> Result<(), String> {
    let memory = policy.memory_bytes.map_or(RLIM_INFINITY, |bytes| bytes.saturating_add(data()));
    let limits = [
        // Memory of a crashed process must not reach a disk.
        (Resource::RLIMIT_CORE, 0, "core dumps"),
        (Resource::RLIMIT_NOFILE, policy.descriptors, "open descriptors"),
        (Resource::RLIMIT_MEMLOCK, 0, "locked memory"),
        // Not 0: an engine writes its image into a file in memory.
        (Resource::RLIMIT_FSIZE, policy.file_bytes, "file sizes"),
        // Not RLIMIT_AS: engines reserve terabytes of address space without memory.
        (Resource::RLIMIT_DATA, memory, "memory"),
    ];
    for (resource, wanted, name) in limits {
        let set = getrlimit(resource).and_then(|(_, hard)| setrlimit(resource, wanted.min(hard), wanted.min(hard)));
        set.map_err(|error| format!("cannot limit {name}: {error}"))?;
    }
    Ok(())
}

/// What counts as data now, in bytes: allocators reserve up to a gigabyte when the process starts. 0 if it is unknown.
fn data() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmData:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
