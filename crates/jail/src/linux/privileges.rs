//! Privileges of the process.

use nix::sys::prctl;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

pub(super) fn no_new_privileges() -> nix::Result<()> {
    prctl::set_no_new_privs()
}

/// Drops all capabilities of the calling thread and of those that it starts. `keep_bind`: except the one that is needed to
/// listen at ports below 1024.
pub(super) fn drop_capabilities(keep_bind: bool) -> Result<(), Errno> {
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    for capability in CapabilitySet::all().iter() {
        // Refused without CAP_SETPCAP, that is, when there is nothing that a new program could gain; `no_new_privs`
        // covers that case. Unknown capabilities are invalid.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let mut kept = CapabilitySet::empty();
    if keep_bind {
        kept = rustix::thread::capabilities(None)?.permitted & CapabilitySet::NET_BIND_SERVICE;
    }
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })
}

pub(super) fn not_dumpable() -> nix::Result<()> {
    prctl::set_dumpable(false)
}
