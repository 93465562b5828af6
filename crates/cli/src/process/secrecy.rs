//! Keeps the memory and the environment of this process from other processes of the same user.

/// Makes this process unreadable to other processes without privileges: `/proc/PID/mem`, `/proc/PID/environ`, debuggers and
/// core dumps. Called before secrets are used; commands without secrets can be debugged.
pub(crate) fn protect() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        crate::output::report::warn(&format_args!("cannot protect the memory of this process: {error}"));
    }
}
