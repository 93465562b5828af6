//! Descriptors that a parent process left open.

use std::{fs, io};

use crate::policy::Sockets;

/// Closes all descriptors except the three standard ones. Call it first in `main`: it closes those of the whole process.
///
/// # Errors
/// The system does not list the open descriptors; none is closed.
pub fn close_inherited() -> io::Result<()> {
    close_inherited_except(Sockets::None)
}

/// Closes what [`close_inherited`] closes, except the socket at which the process listens.
///
/// # Errors
/// As [`close_inherited`].
pub fn close_inherited_except(sockets: Sockets) -> io::Result<()> {
    let kept = sockets.listener();
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let open: Vec<i32> =
        fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2 && Some(*descriptor) != kept) {
        // One of them belonged to the directory listing and is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}
