//! Replaces the text of a file of the user that other programs may change, too.
//!
//! The file is replaced as a whole, and only if it still has the text that was read. Mode and owner stay, and symbolic links lead
//! to the same file as before.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::error::reason;
use crate::files::source::{self, RegularFileError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum RewriteError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: RegularFileError },
    #[error("cannot write {}: {}", path.display(), reason(error))]
    Write { path: PathBuf, error: io::Error },
    #[error("{} has changed meanwhile; nothing is written; run the command again", path.display())]
    Changed { path: PathBuf },
    #[error("{} has {links} hard links, which a replacement would separate; edit it by hand", path.display())]
    HardLinks { path: PathBuf, links: u64 },
}

/// A file, and its text when it was read.
#[derive(Debug)]
pub(crate) struct Rewrite {
    /// The path of the file itself, without symbolic links.
    path: PathBuf,
    text: String,
}

impl Rewrite {
    pub(crate) fn read(path: &Path) -> Result<Self, RewriteError> {
        let failed = |error| RewriteError::Read { path: path.to_owned(), error };
        let path = fs::canonicalize(path).map_err(|error| failed(RegularFileError::Io(error)))?;
        let text = source::read_regular(&path, MAX_FILE).map_err(failed)?;
        Ok(Self { path, text })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The text of the file, with a byte order mark if it has one.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the text. Fails if the file has another one than when it was read.
    pub(crate) fn replace(&self, text: &str) -> Result<(), RewriteError> {
        let failed = |error| RewriteError::Write { path: self.path.clone(), error };
        let changed = || RewriteError::Changed { path: self.path.clone() };
        let flags = OFlag::O_NONBLOCK.bits();
        let file = File::options().read(true).write(true).custom_flags(flags).open(&self.path).map_err(failed)?;
        // Another process that replaces the file holds the lock until the path has the other text.
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(changed()),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Ok(()) => {}
        }
        if Self::read(&self.path)?.text != self.text {
            return Err(changed());
        }
        match file.metadata().map_err(failed)?.nlink() {
            0 => Err(changed()),
            1 => self.write(&file, text).map_err(failed),
            links => Err(RewriteError::HardLinks { path: self.path.clone(), links }),
        }
    }

    /// Writes a new file beside the old one, and renames it.
    fn write(&self, old: &File, text: &str) -> io::Result<()> {
        let (found, name) = (old.metadata()?, self.path.file_name().unwrap_or_default());
        let directory = self.path.parent().unwrap_or(&self.path);
        let mut new = tempfile::Builder::new().prefix(name).tempfile_in(directory)?;
        let made = new.as_file().metadata()?;
        if (made.uid(), made.gid()) != (found.uid(), found.gid()) {
            fchown(new.as_file(), Some(found.uid()), Some(found.gid()))?;
        }
        new.as_file().set_permissions(found.permissions())?;
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(&self.path)?;
        Ok(())
    }
}

/// The maximum length of a file, in bytes: that of a configuration.
const MAX_FILE: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("execbox-rewrite-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn mode_and_symbolic_links_are_kept() {
        let directory = directory("kept");
        let (file, link) = (directory.join("file.json"), directory.join("link.json"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        symlink("file.json", &link).unwrap();
        Rewrite::read(&link).unwrap().replace("new").unwrap();
        assert_eq!(
            (fs::read_link(&link).unwrap(), fs::read_to_string(&file).unwrap()),
            ("file.json".into(), "new".into())
        );
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o604);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "no temporary file is left");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn only_the_text_that_was_read_is_replaced() {
        let directory = directory("changed");
        let (file, other) = (directory.join("file.json"), directory.join("other"));
        fs::write(&file, "old").unwrap();
        let read = Rewrite::read(&file).unwrap();
        fs::write(&file, "other").unwrap();
        assert!(matches!(read.replace("new"), Err(RewriteError::Changed { .. })));
        assert_eq!(fs::read_to_string(&file).unwrap(), "other");
        let read = Rewrite::read(&file).unwrap();
        fs::hard_link(&file, &other).unwrap();
        assert!(matches!(read.replace("new"), Err(RewriteError::HardLinks { links: 2, .. })));
        fs::remove_file(&file).unwrap();
        assert!(matches!(read.replace("new"), Err(RewriteError::Write { .. })), "a deleted file stays deleted");
        assert!(matches!(Rewrite::read(&directory), Err(RewriteError::Read { .. })));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn of_two_writers_at_once_none_loses_its_text() {
        let directory = directory("writers");
        let file = directory.join("file.json");
        fs::write(&file, "").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        let read = Rewrite::read(&file).unwrap();
                        match read.replace(&format!("{}x", read.text())) {
                            Ok(()) => return,
                            Err(error) => assert!(matches!(error, RewriteError::Changed { .. }), "{error}"),
                        }
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&file).unwrap(), "xxxxxxxx");
        fs::remove_dir_all(directory).unwrap();
    }
}
