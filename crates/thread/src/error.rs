//! Errors of operations on threads.
//!
//! The message of every error may reach guest code, through tools and bridges. Messages therefore contain no path, address or
//! system error of the host, and no environment value. The error of the database is the
//! [source](std::error::Error::source), which is never sent to a guest.

use std::error::Error;
use std::fmt;

use execbox_core::value::SerializationError;

/// Why an operation on a thread failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// An invalid path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// An invalid name.
    #[error("invalid {what}: {problem}")]
    Name {
        /// The kind of name.
        what: Named,
        /// What is wrong with the name.
        problem: NameProblem,
    },
    /// No file has this path.
    #[error("no such file: {path}")]
    NoSuchFile {
        /// The normalized path.
        path: String,
    },
    /// A value exceeds its [limit](crate::ThreadLimits).
    #[error("{what} too large: {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The kind of value.
        what: Stored,
        /// The size of the value, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The thread would exceed its [limit](crate::ThreadLimits).
    #[error("thread storage is full: {needed} more bytes needed, {left} of {limit} left")]
    Full {
        /// The bytes that the operation would add.
        needed: u64,
        /// The bytes that are left.
        left: u64,
        /// The limit of the thread, in bytes.
        limit: u64,
    },
    /// A value that cannot be stored as JSON.
    #[error(transparent)]
    Json(#[from] SerializationError),
    /// Two exports of a bridge have the same name.
    #[error("duplicate export {0:?}; rename the provider")]
    DuplicateExport(String),
    /// The file is a database of another application.
    #[error("the file is a database, but not a thread store; choose another file")]
    Foreign,
    /// The file was written by a later version of this crate.
    #[error("unsupported thread store version {found}; this program supports versions up to {known}")]
    Newer {
        /// The file's version.
        found: i64,
        /// The latest version that this crate supports.
        known: i64,
    },
    /// The file is not a database, or its content is inconsistent.
    #[error("the file is damaged or not a thread store; restore it from a backup or choose another file")]
    Damaged {
        /// The error of the database.
        #[source]
        source: Cause,
    },
    /// The database failed.
    #[error("the thread store {failure}")]
    Storage {
        /// The kind of failure.
        failure: StorageFailure,
        /// The error of the database.
        #[source]
        source: Cause,
    },
    /// The store was closed.
    #[error("the thread store is closed")]
    Closed,
}

/// The error of the database or the system, for logs of the host.
pub type Cause = Box<dyn Error + Send + Sync>;

/// The kind of an invalid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Named {
    Thread,
    Role,
    Event,
    Env,
}

/// The kind of a stored value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Stored {
    File,
    Message,
    Event,
    Env,
}

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // see the messages
pub enum NameProblem {
    #[error("is empty")]
    Empty,
    #[error("is {0} bytes long; the limit is {max}", max = crate::limits::NAME_BYTES)]
    TooLong(usize),
    #[error("contains a control character")]
    ControlCharacter,
}

/// An invalid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid path {path:?}: {problem}")]
#[non_exhaustive]
pub struct PathError {
    /// The path, cut to 100 characters.
    pub path: String,
    /// What is wrong with the path.
    pub problem: PathProblem,
}

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // see the messages
pub enum PathProblem {
    #[error("is empty; use, for example, \"/data/input.json\"")]
    Empty,
    #[error("is {0} bytes long; the limit is {max}", max = crate::limits::PATH_BYTES)]
    TooLong(usize),
    #[error("contains a control character")]
    ControlCharacter,
    #[error("contains `\\`; use `/` as the separator")]
    Backslash,
    #[error("`..` is not supported; use the path from the root")]
    ParentFolder,
    #[error("is a directory; expected a file")]
    Folder,
}

/// The kind of a database failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // see the messages
pub enum StorageFailure {
    #[error("cannot be opened; check that its directory exists and is writable")]
    CannotOpen,
    #[error("is locked by another process; try again")]
    Busy,
    #[error("is read-only")]
    ReadOnly,
    #[error("cannot be written: the disk is full")]
    DiskFull,
    #[error("has a row that is too long")]
    TooLong,
    #[error("failed")]
    Other,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread id",
            Self::Role => "message role",
            Self::Event => "event name",
            Self::Env => "environment variable name",
        })
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Message => "message",
            Self::Event => "event",
            Self::Env => "environment value",
        })
    }
}

impl ThreadError {
    /// The error for stored content that this crate never writes.
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
                Code::TooBig => StorageFailure::TooLong,
                _ => StorageFailure::Other,
            },
            // A column has a value that its table does not allow.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..) => return Self::damaged(error),
            _ => StorageFailure::Other,
        };
        Self::Storage { failure, source: error.into() }
    }
}
