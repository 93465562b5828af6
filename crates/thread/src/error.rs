//! What can go wrong with the state of a thread.
//!
//! The message of every error may reach guest code: tools turn errors into messages, and bridges do. So none has a path,
//! an address or a word of the host's system in it, and none the value of an environment variable. What the database itself
//! said is the error's [source](std::error::Error::source), which never crosses.

use std::error::Error;
use std::fmt;

use execbox::core::value::SerializationError;

/// Why an operation on a thread failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// A path that no file can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A name that cannot be used.
    #[error("{what} {problem}")]
    Name {
        /// What would have had that name.
        what: Named,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// No file has that path.
    #[error("there is no file {path}")]
    NoSuchFile {
        /// The path, normalised.
        path: String,
    },
    /// One value is larger than the [limits](crate::ThreadLimits) let it be.
    #[error("{what} of {size} bytes is too large: at most {limit}")]
    TooLarge {
        /// What it would have been.
        what: Stored,
        /// Its size, in bytes.
        size: u64,
        /// What it may have.
        limit: u64,
    },
    /// The thread holds as much as the [limits](crate::ThreadLimits) let it.
    #[error("the thread is full: this needs {needed} more bytes, and {left} of {limit} are left")]
    Full {
        /// How many bytes the operation would have added.
        needed: u64,
        /// How many were left.
        left: u64,
        /// What the thread may have.
        limit: u64,
    },
    /// A value that cannot be stored as JSON.
    #[error(transparent)]
    Json(#[from] SerializationError),
    /// A bridge was granted two things by one name.
    #[error("the bridge has two exports named {0:?}: give the provider another name")]
    DuplicateExport(String),
    /// The file is no thread store: a database of something else.
    #[error("the file is a database, but not one of threads: choose another file")]
    Foreign,
    /// The file was written by a later version of this crate.
    #[error("the file has version {found}, and this program knows versions up to {known}: use a newer program")]
    Newer {
        /// The file's version.
        found: i64,
        /// The latest that this crate knows.
        known: i64,
    },
    /// The file is no database, or its content contradicts itself.
    #[error(
        "the thread store is damaged, or the file is something else: restore it from a copy, or choose another file"
    )]
    Damaged {
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// The database failed.
    #[error("the thread store {failure}")]
    Storage {
        /// How.
        failure: StorageFailure,
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// The store was closed.
    #[error("the thread store is closed")]
    Closed,
}

/// What the database or the system said: for the host's own logs.
pub type Cause = Box<dyn Error + Send + Sync>;

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is what its name says
pub enum Named {
    Thread,
    Role,
    Event,
    Env,
}

/// What has a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is what its name says
pub enum Stored {
    File,
    Message,
    Event,
    Env,
}

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum NameProblem {
    #[error("is empty: give one")]
    Empty,
    #[error("is {0} bytes long: at most {max}", max = crate::limits::NAME_BYTES)]
    TooLong(usize),
    #[error("contains a control character: leave it out")]
    ControlCharacter,
}

/// A path that no file of a thread can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a path of this thread: {problem}")]
pub struct PathError {
    /// The path, cut where it is long.
    pub path: String,
    /// What is wrong with it.
    pub problem: PathProblem,
}

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PathProblem {
    #[error("it is empty; write, for example, \"/data/input.json\"")]
    Empty,
    #[error("it is {0} bytes long, and at most {max} are allowed", max = crate::limits::PATH_BYTES)]
    TooLong(usize),
    #[error("it contains a control character")]
    ControlCharacter,
    #[error("parts of a path are separated by `/`, not by `\\`")]
    Backslash,
    #[error("`..` is not allowed; write the path from the root")]
    ParentFolder,
    #[error("it names a folder, and a file is asked for; write the file's name after the last `/`")]
    Folder,
}

/// How the database failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum StorageFailure {
    #[error("cannot be opened: look whether its folder exists and may be written")]
    CannotOpen,
    #[error("is in use by another program, which did not let go in time: try again")]
    Busy,
    #[error("may only be read")]
    ReadOnly,
    #[error("has no room left on its disk")]
    DiskFull,
    #[error("failed")]
    Other,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "the thread's id",
            Self::Role => "the message's role",
            Self::Event => "the event's name",
            Self::Env => "the environment variable's name",
        })
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file",
            Self::Message => "a message",
            Self::Event => "an event",
            Self::Env => "an environment value",
        })
    }
}

impl ThreadError {
    /// Content that this crate cannot have written.
    pub(crate) fn damaged(source: impl Into<Cause>) -> Self {
        Self::Damaged { source: source.into() }
    }

    pub(crate) fn cannot_open(source: impl Into<Cause>) -> Self {
        Self::Storage { failure: StorageFailure::CannotOpen, source: source.into() }
    }
}

impl From<rusqlite::Error> for ThreadError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let failure = match &error {
            rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
                Code::NotADatabase | Code::DatabaseCorrupt => return Self::damaged(error),
                Code::CannotOpen | Code::PermissionDenied => StorageFailure::CannotOpen,
                Code::DatabaseBusy | Code::DatabaseLocked => StorageFailure::Busy,
                Code::ReadOnly => StorageFailure::ReadOnly,
                Code::DiskFull => StorageFailure::DiskFull,
                _ => StorageFailure::Other,
            },
            // A column that holds what its table does not allow.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..) => return Self::damaged(error),
            _ => StorageFailure::Other,
        };
        Self::Storage { failure, source: error.into() }
    }
}
