//! A private file of this user: JSON with mode 0600 in the configuration directory, `$XDG_CONFIG_HOME/execbox` or `~/.config/execbox`.
//!
//! The file is replaced as a whole. Processes that change it at the same time wait for one another.

use std::env;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::reason;
use crate::files::ownership::{self, Access, OwnershipError};
use crate::files::source;

/// The error of reading or writing a private file. Contains no values.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivateError {
    #[error("neither XDG_CONFIG_HOME nor HOME is an absolute path")]
    NoHome,
    #[error("{path}: {}", reason(.error))]
    Io { path: String, error: io::Error },
    #[error("{path}: {kind}; remove it")]
    NotRegular { path: String, kind: &'static str },
    #[error("{path} can be read by other users; run `chmod 600 {path}`, and change the values that were in it")]
    ReadableByOthers { path: String },
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error("{path} is invalid: expected {expected}; correct or remove it")]
    Invalid { path: String, expected: &'static str },
    #[error("{path} is longer than {} KiB; remove it", MAX_FILE >> 10)]
    TooLong { path: String },
}

/// A file with a value of type `T`.
#[derive(Debug)]
pub(crate) struct PrivateFile<T> {
    path: PathBuf,
    /// The description of the expected content, for errors.
    expected: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T: Default + Serialize + DeserializeOwned> PrivateFile<T> {
    /// A file of this user. Nothing is read or written yet.
    pub(crate) fn of_user(name: &str, expected: &'static str) -> Result<Self, PrivateError> {
        Ok(Self::at(directory_of_user()?.join(name), expected))
    }

    pub(crate) fn at(path: PathBuf, expected: &'static str) -> Self {
        Self { path, expected, value: PhantomData }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The value; the default if there is no file.
    pub(crate) fn read(&self) -> Result<T, PrivateError> {
        let name = |path: &Path| path.display().to_string();
        let path = match ownership::resolve_file(&self.path) {
            Err(OwnershipError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            resolved => resolved?,
        };
        let file = match source::open_regular(&path) {
            Ok(Ok(file)) => file,
            Ok(Err(kind)) => return Err(PrivateError::NotRegular { path: name(&self.path), kind }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(failed(&self.path, error)),
        };
        match ownership::check_file(&path, &self.path, Access::Private) {
            Err(OwnershipError::Accessible { .. }) => {
                return Err(PrivateError::ReadableByOthers { path: name(&self.path) });
            }
            checked => checked?,
        }
        let mut text = String::new();
        let read = file.take(MAX_FILE).read_to_string(&mut text);
        read.map_err(|error| failed(&self.path, error))?;
        let invalid = |_| PrivateError::Invalid { path: name(&self.path), expected: self.expected };
        serde_json::from_str(&text).map_err(invalid)
    }

    /// Changes the value. Waits for other processes that change it.
    pub(crate) fn update(&self, change: impl FnOnce(&mut T)) -> Result<(), PrivateError> {
        let _lock = self.lock("lock")?.wait()?;
        let mut value = self.read()?;
        change(&mut value);
        let mut json = serde_json::to_vec_pretty(&value).map_err(|error| failed(&self.path, error.into()))?;
        json.push(b'\n');
        if json.len() as u64 >= MAX_FILE {
            return Err(PrivateError::TooLong { path: self.path.display().to_string() });
        }
        replace(&self.path, &json).map_err(|error| failed(&self.path, error))
    }

    /// A lock beside the file, which processes take by its name. The directory is created.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock, PrivateError> {
        create_directory(self.directory())?;
        let path = ownership::resolve_file(&self.path.with_extension(name))?;
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        Ok(Lock { file: file.map_err(|error| failed(&path, error))?, path })
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// A file that is locked until this is dropped, once [`wait`](Self::wait) or [`try_lock`](Self::try_lock) has locked it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the file, and waits until no other process has locked it.
    pub(crate) fn wait(self) -> Result<Self, PrivateError> {
        self.file.lock().map_err(|error| failed(&self.path, error))?;
        Ok(self)
    }

    /// Locks the file; `None` while another process has locked it.
    pub(crate) fn try_lock(self) -> Result<Option<Self>, PrivateError> {
        match self.file.try_lock() {
            Ok(()) => Ok(Some(self)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&self.path, error)),
        }
    }
}

/// The configuration directory of this user: `$XDG_CONFIG_HOME/execbox`, or `~/.config/execbox`.
pub(crate) fn directory_of_user() -> Result<PathBuf, PrivateError> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    Ok(config.ok_or(PrivateError::NoHome)?.join("execbox"))
}

/// Creates a directory that only this user can enter.
fn create_directory(directory: &Path) -> Result<(), PrivateError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(|error| failed(directory, error))
}

/// Writes a file that only this user can read, and the directories on the way to it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), PrivateError> {
    create_directory(path.parent().unwrap_or(path))?;
    let path = ownership::resolve_file(path)?;
    replace(&path, text.as_bytes()).map_err(|error| failed(&path, error))
}

/// Replaces a file as a whole by one that only its owner can read. The text is written to a new file, whose name begins with
/// that of the old one. The new file is removed if it cannot replace the old one, but remains if the process is killed.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default();
    let mut file = tempfile::Builder::new().prefix(name).tempfile_in(path.parent().unwrap_or(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn failed(path: &Path, error: io::Error) -> PrivateError {
    PrivateError::Io { path: path.display().to_string(), error }
}

/// The maximum number of bytes of the file that are read.
const MAX_FILE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;
    use std::{fs, process};

    use super::*;

    type Values = BTreeMap<String, String>;

    /// A file in a fresh directory.
    fn file(name: &str) -> PrivateFile<Values> {
        let directory = env::temp_dir().join(format!("execbox-private-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&directory);
        PrivateFile::at(directory.join("execbox").join("values.json"), "{ \"ID\": \"VALUE\" }")
    }

    fn set(file: &PrivateFile<Values>, id: &str, value: &str) -> Result<(), PrivateError> {
        file.update(|values| _ = values.insert(id.to_owned(), value.to_owned()))
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The names in a directory, sorted.
    fn names(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_no_other() {
        let file = file("irreplaceable");
        fs::create_dir_all(file.path().join("inside")).unwrap();
        replace(file.path(), b"{}").unwrap_err();
        assert_eq!(names(file.directory()), ["values.json"]);
        fs::remove_dir_all(file.directory().parent().unwrap()).unwrap();
    }

    #[test]
    fn values_are_stored_for_their_owner_only() {
        let file = file("values");
        assert_eq!(file.read().unwrap(), Values::new());
        set(&file, "x", "one").unwrap();
        set(&file, "y", "two").unwrap();
        set(&file, "y", "three").unwrap();
        let expected = [("x", "one"), ("y", "three")].map(|(id, value)| (id.to_owned(), value.to_owned()));
        assert_eq!(file.read().unwrap(), Values::from(expected));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(file.directory())), (0o600, 0o700));
        assert_eq!(names(file.directory()), ["values.json", "values.lock"], "no temporary file is left");
        fs::remove_dir_all(file.directory().parent().unwrap()).unwrap();
    }

    #[test]
    fn concurrent_changes_are_all_kept() {
        let file = file("concurrent");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let file = &file;
                scope.spawn(move || set(file, &number.to_string(), "x").unwrap());
            }
        });
        assert_eq!(file.read().unwrap().len(), 8);
        let first = file.lock("other").unwrap().try_lock().unwrap().unwrap();
        assert!(file.lock("other").unwrap().try_lock().unwrap().is_none());
        drop(first);
        assert!(file.lock("other").unwrap().try_lock().unwrap().is_some());
        fs::remove_dir_all(file.directory().parent().unwrap()).unwrap();
    }

    #[test]
    fn files_that_are_not_private_or_not_valid_are_rejected() {
        let file = file("rejected");
        set(&file, "x", "s3cret").unwrap();
        let error = || format!("{} {}", file.read().unwrap_err(), set(&file, "x", "").unwrap_err());
        set_mode(file.path(), 0o640);
        assert!(error().contains("can be read by other users; run `chmod 600 /"), "{}", error());
        set_mode(file.path(), 0o600);
        set_mode(file.directory(), 0o770);
        assert!(error().contains("other users can change what is in /"), "{}", error());
        set_mode(file.directory(), 0o700);
        fs::write(file.path(), "{ \"/a\": [\"s3cret\"] }").unwrap();
        assert!(error().contains("is invalid: expected {"), "{}", error());
        assert!(!error().contains("s3cret"), "{}", error());
        fs::remove_file(file.path()).unwrap();
        fs::create_dir(file.path()).unwrap();
        assert!(error().contains("directory"), "{}", error());
        fs::remove_dir_all(file.directory().parent().unwrap()).unwrap();
    }
}
