//! Privileges of the process.

use nix::sys::prctl;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

pub(super) fn no_new_privileges() -> nix::Result<()> {
    prctl::set_no_new_privs()
}

/// Drops all capabilities of the calling thread and of those that it starts.
pub(super) fn drop_capabilities() -> Result<(), Errno> {
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    for capability in CapabilitySet::all().iter() {
        // Refused without CAP_SETPCAP, that is, when there is nothing that a new program could gain; `no_new_privs`
        // covers that case. Unknown capabilities are invalid.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

pub(super) fn not_dumpable() -> nix::Result<()> {
    prctl::set_dumpable(false)
}
