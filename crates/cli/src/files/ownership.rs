//! Files that only this user can change, wherever their paths lead.
//!
//! A file with secrets, or with code that will be executed, is no safer than the directories on the way to it and the files
//! beside it. A user who can rename a directory, replace a symbolic link or create a journal beside a database chooses what is
//! read. So every directory of a path must belong to this user or to root, and be writable by no other user. In a shared
//! directory such as `/tmp`, where only the owner of an entry can rename it (the sticky bit), the next entry of the path must
//! belong to this user or to root.
//!
//! Directories are checked from the root on, and an entry is read when its directory is known to be safe. So no other user can
//! change afterwards what was checked.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use nix::unistd::Uid;

use crate::error::reason;

/// A part of the path or the file that other users can change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnershipError {
    #[error("{}: {}", path.display(), reason(.error))]
    Io { path: PathBuf, error: io::Error },
    #[error("{} belongs to another user; choose a path in a directory of your own", path.display())]
    ForeignDirectory { path: PathBuf },
    #[error("other users can change what is in {path}; run `chmod go-w {path}`, or choose another directory", path = path.display())]
    WritableDirectory { path: PathBuf },
    #[error(
        "other users can create files in {path}; choose a path in a directory of your own, which `mkdir -m 700` creates",
        path = path.display()
    )]
    SharedDirectory { path: PathBuf },
    #[error("{} belongs to another user; remove it, or choose another file", path.display())]
    ForeignFile { path: PathBuf },
    #[error("{path} can be {} by other users; run `chmod {} {path}`", .access.others(), .access.remedy(), path = path.display())]
    Accessible { path: PathBuf, access: Access },
    #[error("{} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
}

/// The access of other users that a file must not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Other users can neither read nor change the file.
    Private,
    /// Other users cannot change the file.
    Unchangeable,
}

impl Access {
    /// The bits of a mode that give other users access.
    fn bits(self) -> u32 {
        match self {
            Self::Private => 0o077,
            Self::Unchangeable => 0o022,
        }
    }

    fn others(self) -> &'static str {
        match self {
            Self::Private => "read or changed",
            Self::Unchangeable => "changed",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Private => "600",
            Self::Unchangeable => "go-w",
        }
    }
}

/// The path of a file without symbolic links. Its directory exists, and other users can create and change nothing in it. The
/// file itself may be missing, and is [not checked](check_file).
pub(crate) fn resolve_file(path: &Path) -> Result<PathBuf, OwnershipError> {
    let mut walk = Walk::new(path)?;
    while let Some(name) = walk.left.pop() {
        if name == ".." || !walk.left.is_empty() {
            walk.step(&name)?;
            continue;
        }
        walk.check_entry(None)?;
        let path = walk.directory.join(name);
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Ok(path);
        }
        walk.follow(&path)?;
    }
    Err(OwnershipError::NotRegular { path: walk.directory })
}

/// The path of a directory without symbolic links. Other users can create and change nothing in it.
pub(crate) fn resolve_directory(path: &Path) -> Result<PathBuf, OwnershipError> {
    let mut walk = Walk::new(path)?;
    while let Some(name) = walk.left.pop() {
        walk.step(&name)?;
    }
    walk.check_entry(None)?;
    Ok(walk.directory)
}

/// Checks a file in a directory that was [resolved](resolve_file), unless it is missing. `shown` is its path for errors.
pub(crate) fn check_file(path: &Path, shown: &Path, access: Access) -> Result<(), OwnershipError> {
    let shown = || shown.to_owned();
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| OwnershipError::Io { path: shown(), error })?,
    };
    match () {
        () if !found.is_file() => Err(OwnershipError::NotRegular { path: shown() }),
        () if found.uid() != Uid::effective().as_raw() => Err(OwnershipError::ForeignFile { path: shown() }),
        () if found.mode() & access.bits() != 0 => Err(OwnershipError::Accessible { path: shown(), access }),
        () => Ok(()),
    }
}

/// A path that is followed from the root on.
struct Walk {
    user: u32,
    /// The remaining components, the next one last.
    left: Vec<OsString>,
    links: usize,
    /// The directory that was reached, without symbolic links, and its metadata.
    directory: PathBuf,
    found: Metadata,
}

impl Walk {
    fn new(path: &Path) -> Result<Self, OwnershipError> {
        let (root, failed) = (PathBuf::from("/"), |error| OwnershipError::Io { path: path.to_owned(), error });
        let (path, found) = (std::path::absolute(path).map_err(failed)?, fs::symlink_metadata(&root).map_err(failed)?);
        let mut walk =
            Self { user: Uid::effective().as_raw(), left: Vec::new(), links: 0, directory: root.clone(), found };
        walk.push(&path);
        if walk.is_trusted(&walk.found) { Ok(walk) } else { Err(OwnershipError::ForeignDirectory { path: root }) }
    }

    /// Adds the components of a path before the remaining ones.
    fn push(&mut self, path: &Path) {
        self.left.extend(path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        }));
    }

    /// Follows one entry of the directory.
    fn step(&mut self, name: &OsStr) -> Result<(), OwnershipError> {
        if name == ".." {
            return self.leave();
        }
        let path = self.directory.join(name);
        let found = fs::symlink_metadata(&path).map_err(|error| OwnershipError::Io { path: path.clone(), error })?;
        self.check_entry(Some(&found))?;
        if found.is_symlink() { self.follow(&path) } else { self.enter(path, found) }
    }

    /// Checks that no other user can replace an entry of the directory; without an entry, that no other user can create one.
    fn check_entry(&self, entry: Option<&Metadata>) -> Result<(), OwnershipError> {
        let (mode, path) = (self.found.mode(), || self.directory.clone());
        let is_kept = entry.is_some_and(|entry| self.is_trusted(entry));
        match (mode & 0o022, mode & STICKY) {
            (0, _) => Ok(()),
            (_, 0) => Err(OwnershipError::WritableDirectory { path: path() }),
            _ if is_kept => Ok(()),
            _ => Err(OwnershipError::SharedDirectory { path: path() }),
        }
    }

    fn enter(&mut self, path: PathBuf, found: Metadata) -> Result<(), OwnershipError> {
        if !found.is_dir() {
            return Err(OwnershipError::Io { path, error: io::ErrorKind::NotADirectory.into() });
        }
        if !self.is_trusted(&found) {
            return Err(OwnershipError::ForeignDirectory { path });
        }
        (self.directory, self.found) = (path, found);
        Ok(())
    }

    /// Returns to the parent, which was checked before.
    fn leave(&mut self) -> Result<(), OwnershipError> {
        self.directory.pop();
        let found = fs::symlink_metadata(&self.directory);
        self.found = found.map_err(|error| OwnershipError::Io { path: self.directory.clone(), error })?;
        Ok(())
    }

    fn follow(&mut self, link: &Path) -> Result<(), OwnershipError> {
        let failed = |error| OwnershipError::Io { path: link.to_owned(), error };
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(failed(io::Error::other("too many symbolic links")));
        }
        let target = fs::read_link(link).map_err(failed)?;
        if target.is_absolute() {
            self.directory = PathBuf::from("/");
            self.found = fs::symlink_metadata(&self.directory).map_err(failed)?;
        }
        self.push(&target);
        Ok(())
    }

    fn is_trusted(&self, found: &Metadata) -> bool {
        [0, self.user].contains(&found.uid())
    }
}

/// The bit of a mode with which only the owner of an entry can rename and remove it.
const STICKY: u32 = 0o1000;

/// The maximum number of symbolic links of a path, as that of Linux.
const MAX_LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A fresh directory that only this user can write to.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("execbox-ownership-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            set_mode(&path, 0o755);
            Self(fs::canonicalize(path).unwrap())
        }

        fn directory(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(&path).unwrap();
            set_mode(&path, mode);
            path
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, "").unwrap();
            set_mode(&path, mode);
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn refused(path: &Path) -> String {
        resolve_file(path).unwrap_err().to_string()
    }

    #[test]
    fn directories_that_others_can_write_to_are_refused_wherever_they_are_in_the_path() {
        let place = Place::new("directories");
        for (mode, is_refused) in [
            (0o700, false),
            (0o755, false),
            (0o711, false),
            (0o1755, false),
            (0o775, true),
            (0o757, true),
            (0o777, true),
            (0o2775, true),
        ] {
            let shared = place.directory("shared", mode);
            place.directory("shared/own", 0o700);
            for path in [shared.join("file"), shared.join("own/file"), shared.join("own/../own/file")] {
                assert_eq!(resolve_file(&path).is_err(), is_refused, "{mode:o}: {path:?}");
                let error = || refused(&path);
                assert!(!is_refused || error().contains(&format!("chmod go-w {}", shared.display())), "{}", error());
            }
            assert_eq!(resolve_directory(&shared.join("own")).is_err(), is_refused, "{mode:o}");
        }
    }

    /// In a directory like `/tmp`, other users can create files beside a file, but cannot rename a directory of this user.
    #[test]
    fn shared_directories_may_lead_to_an_own_directory_but_contain_no_file() {
        let place = Place::new("shared");
        for mode in [0o1777, 0o1775, 0o3777] {
            let shared = place.directory("shared", mode);
            place.directory("shared/own", 0o700);
            place.file("shared/file", 0o600);
            assert_eq!(resolve_file(&shared.join("own/file")).unwrap(), shared.join("own/file"));
            for name in ["file", "new", "own/../file"] {
                let error = refused(&shared.join(name));
                assert!(error.contains(&format!("create files in {};", shared.display())), "{error}");
            }
            assert!(resolve_directory(&shared).is_err());
        }
    }

    #[test]
    fn symbolic_links_are_followed_and_what_they_lead_to_is_checked() {
        let place = Place::new("links");
        let (own, open) = (place.directory("own", 0o700), place.directory("open", 0o777));
        place.directory("open/inside", 0o700);
        let link = |target: &Path, name: &str| symlink(target, place.0.join(name)).unwrap();
        link(&own, "to-own");
        link(Path::new("own/../own"), "relative");
        link(&own.join("missing"), "to-file");
        link(&open.join("inside"), "to-open");
        link(Path::new("loop"), "loop");
        link(&own, "open/link");
        for name in ["to-own/file", "relative/file", "to-own/../own/file"] {
            assert_eq!(resolve_file(&place.0.join(name)).unwrap(), own.join("file"), "{name}");
        }
        assert_eq!(resolve_file(&place.0.join("to-file")).unwrap(), own.join("missing"));
        for name in ["to-open/file", "open/link/file", "open/link"] {
            assert!(refused(&place.0.join(name)).contains("chmod go-w"), "{name}");
        }
        assert!(refused(&place.0.join("loop")).contains("too many symbolic links"));
        assert!(refused(&place.0.join("loop/file")).contains("too many symbolic links"));
    }

    #[test]
    fn files_of_others_and_files_that_others_can_use_are_refused() {
        let place = Place::new("files");
        let check = |path: &Path, access| check_file(path, path, access).map_err(|error| error.to_string());
        for (mode, private, unchangeable) in [
            (0o600, true, true),
            (0o400, true, true),
            (0o640, false, true),
            (0o604, false, true),
            (0o620, false, false),
        ] {
            let file = place.file("file", mode);
            assert_eq!(check(&file, Access::Private).is_ok(), private, "{mode:o}");
            assert_eq!(check(&file, Access::Unchangeable).is_ok(), unchangeable, "{mode:o}");
        }
        assert_eq!(check(&place.0.join("missing"), Access::Private), Ok(()));
        assert!(check(&place.0, Access::Private).unwrap_err().contains("is not a regular file"));
        let link = place.0.join("link");
        symlink(place.file("target", 0o600), &link).unwrap();
        assert!(check(&link, Access::Private).unwrap_err().contains("is not a regular file"));
    }

    /// The test needs root, which can create files of other users.
    #[test]
    fn directories_and_files_of_other_users_are_refused() {
        if !Uid::effective().is_root() {
            return;
        }
        let place = Place::new("foreign");
        let (foreign, sticky) = (place.directory("foreign", 0o755), place.directory("sticky", 0o1777));
        place.directory("foreign/own", 0o700);
        place.directory("sticky/foreign", 0o755);
        let file = place.file("file", 0o600);
        let link = sticky.join("link");
        symlink(&place.0, &link).unwrap();
        for path in [&foreign, &sticky.join("foreign"), &file, &link] {
            std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        for name in ["foreign/file", "foreign/own/file"] {
            assert!(refused(&place.0.join(name)).ends_with("choose a path in a directory of your own"), "{name}");
        }
        for name in ["sticky/foreign/file", "sticky/link/file"] {
            assert!(refused(&place.0.join(name)).contains("create files in"), "{name}");
        }
        let error = check_file(&file, &file, Access::Unchangeable).unwrap_err();
        assert!(matches!(error, OwnershipError::ForeignFile { .. }), "{error}");
    }

    const NOBODY: u32 = 65534;
}
