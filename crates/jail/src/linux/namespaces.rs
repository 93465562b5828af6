//! Namespaces: a user, a network and a file system of its own.

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, pivot_root};

use crate::report::{Layer, Report};

/// The namespaces in the order of entering. The user namespace is first: it gives an ordinary user the right to enter the
/// others.
const NAMESPACES: [(Layer, CloneFlags); 5] = [
    (Layer::UserNamespace, CloneFlags::CLONE_NEWUSER),
    (Layer::NetworkNamespace, CloneFlags::CLONE_NEWNET),
    (Layer::IpcNamespace, CloneFlags::CLONE_NEWIPC),
    (Layer::HostNameNamespace, CloneFlags::CLONE_NEWUTS),
    (Layer::EmptyRoot, CloneFlags::CLONE_NEWNS),
];

/// Enters all namespaces. Reports each, except a mount namespace that was entered: it is of use only with
/// [`empty_root`].
pub(super) fn enter(report: &mut Report) {
    for (layer, flag) in NAMESPACES {
        let entered = super::one_thread().and_then(|()| unshare(flag).map_err(describe));
        if layer != Layer::EmptyRoot || entered.is_err() {
            report.note(layer, super::status(entered));
        }
    }
}

fn describe(error: Errno) -> String {
    match error {
        Errno::EPERM => "the system does not permit it (EPERM)".to_owned(),
        Errno::ENOSPC => "there are too many of them (ENOSPC)".to_owned(),
        error => error.to_string(),
    }
}

/// Replaces the root of the mount namespace by an empty directory that cannot be written to, and detaches the rest.
pub(super) fn empty_root() -> Result<(), String> {
    const NOTHING: Option<&str> = None;
    let at = |step: &'static str| move |error: Errno| format!("{step}: {}", describe(error));
    // Otherwise, without a user namespace, the changes would reach the parent's file system.
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING).map_err(at("cannot detach mounts"))?;
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Any directory will do: the mount hides its contents, and the rest of the old root is detached afterwards.
    let mounted = ["/proc", "/tmp", "/dev", "/sys", "/usr"].into_iter().find(|place| {
        mount(Some("tmpfs"), *place, Some("tmpfs"), flags, Some("size=4k,nr_inodes=1,mode=0555")).is_ok()
    });
    let place = mounted.ok_or("cannot mount an empty directory")?;
    chdir(place).map_err(at("cannot enter the empty directory"))?;
    // With both names the same, the old root is mounted over the new one, and the next line detaches it.
    pivot_root(".", ".").map_err(at("cannot replace the root directory"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(at("cannot detach the old root directory"))?;
    chdir("/").map_err(at("cannot enter the new root directory"))
}
