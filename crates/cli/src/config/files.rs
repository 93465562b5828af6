//! The files that a configuration was read from, and their stamps, so that changes are noticed. The files are few, and polling
//! them works on each file system; with many, the crate `notify` would be better.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The files that were read, each with its stamp at that time.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Files {
    stamps: Vec<(PathBuf, FileStamp)>,
    /// The texts of pipes, which can be read only once.
    pipes: Vec<(PathBuf, String)>,
    /// Values that a user has entered and that could not be stored: the configuration, the id of the input, and the value.
    answers: Vec<(PathBuf, String, String)>,
}

/// Metadata that changes when a file is written or replaced, or the kind of the error of reading it. Symbolic links are
/// followed.
type FileStamp = Result<[i64; 7], io::ErrorKind>;

impl Files {
    /// An empty list of files, with the pipes and answers of an earlier reading.
    pub(crate) fn after(earlier: &Self) -> Self {
        Self { stamps: Vec::new(), ..earlier.clone() }
    }

    /// Records the stamp of a file. Called before it is read, so that no change is missed. Files beyond [`MAX_FILES`] are not
    /// recorded.
    pub(crate) fn record(&mut self, path: &Path) {
        if self.has_room_for(path) {
            self.stamps.push((path.to_owned(), stamp(path)));
        }
    }

    /// Adds the files of `others` that are not recorded here.
    pub(crate) fn add_missing(&mut self, others: &Self) {
        for (path, stamp) in &others.stamps {
            if self.has_room_for(path) {
                self.stamps.push((path.clone(), *stamp));
            }
        }
    }

    fn has_room_for(&self, path: &Path) -> bool {
        self.stamps.len() < MAX_FILES && !self.stamps.iter().any(|(known, _)| known == path)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// The same files with their present stamps. Blocks while the file system does not answer.
    pub(crate) fn now(mut self) -> Self {
        for (path, known) in &mut self.stamps {
            *known = stamp(path);
        }
        self
    }

    /// The text of a pipe that was read before.
    pub(crate) fn pipe(&self, path: &Path) -> Option<&str> {
        self.pipes.iter().find(|(known, _)| known == path).map(|(_, text)| text.as_str())
    }

    pub(crate) fn keep_pipe(&mut self, path: &Path, text: String) {
        self.pipes.push((path.to_owned(), text));
    }

    /// The value of an input that was given before.
    pub(crate) fn answer(&self, path: &Path, id: &str) -> Option<String> {
        let known = self.answers.iter().find(|(known, input, _)| known == path && input == id);
        known.map(|(_, _, value)| value.clone())
    }

    pub(crate) fn keep_answer(&mut self, path: &Path, id: &str, value: String) {
        self.answers.push((path.to_owned(), id.to_owned(), value));
    }
}

/// Whether all users of this machine can read a file.
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o004 != 0)
}

fn stamp(path: &Path) -> FileStamp {
    let found = fs::metadata(path).map_err(|error| error.kind())?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    let [seconds, nanos, changed, changed_nanos] = times;
    let numbers = [found.dev(), found.ino(), found.len()].map(u64::cast_signed);
    let [device, inode, length] = numbers;
    Ok([device, inode, length, seconds, nanos, changed, changed_nanos])
}

/// The maximum number of files: a configuration may name any number.
const MAX_FILES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_written_replaced_removed_and_created_have_other_stamps() {
        let directory = std::env::temp_dir().join(format!("execbox-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (target, link) = (directory.join("target"), directory.join("link"));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut files = Files::default();
        files.record(&link);
        let changes = [
            ("created", (|target: &Path| fs::write(target, "1").unwrap()) as fn(&Path)),
            ("written", |target| fs::write(target, "12").unwrap()),
            ("replaced", |target| {
                fs::write(target.with_extension("new"), "34").unwrap();
                fs::rename(target.with_extension("new"), target).unwrap();
            }),
            ("removed", |target| fs::remove_file(target).unwrap()),
            ("a directory", |target| fs::create_dir(target).unwrap()),
        ];
        for (what, change) in changes {
            assert!(files == files.clone().now(), "{what}");
            change(&target);
            let now = files.clone().now();
            assert!(files != now, "{what}");
            files = now;
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
