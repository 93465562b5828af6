//! The file of `--state`, in which programs store data for later programs, for all clients and across gateways.
//!
//! The file is a [thread store](execbox_thread) with two threads, one for each area of the state. An entry is a file of its
//! thread, whose path is the key in hexadecimal digits, so that paths are sorted as keys are.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use execbox::TypeScript;
use execbox_mcp::server::{
    MAX_ENTRY_BYTES, MAX_STATE_BYTES, StateArea, StateEntry, StateError, StateOptions, StateStore,
};
use execbox_thread::{FileInfo, FileQuery, StorageFailure, ThreadError, ThreadLimits, ThreadState, ThreadStore};
use tokio::runtime::Handle;

use crate::error::{CliError, reason};
use crate::files::ownership::{self, Access, OwnershipError};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateFileError {
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    #[error("no such file")]
    Missing,
    #[error("its directory does not exist; create it with `mkdir -m 700`")]
    NoDirectory,
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error("is a database of another application; choose another file")]
    OtherApplication,
    #[error("was written by a later version of execbox; update, or choose another file")]
    Newer,
    #[error("is damaged, or no file of execbox; restore it from a backup, or choose another file")]
    Damaged,
    #[error("{0}")]
    Storage(StorageFailure),
    #[error("{0}")]
    Other(ThreadError),
}

impl From<ThreadError> for StateFileError {
    fn from(error: ThreadError) -> Self {
        match error {
            ThreadError::Foreign => Self::OtherApplication,
            ThreadError::Newer { .. } => Self::Newer,
            ThreadError::Damaged { .. } => Self::Damaged,
            ThreadError::Storage { failure, .. } => Self::Storage(failure),
            error => Self::Other(error),
        }
    }
}

/// Why the file of `--state` cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateOptionError {
    /// The error names the path, or the part of it that is at fault.
    #[error("--state: {0}")]
    Ownership(OwnershipError),
    #[error("--state {path}: {error}")]
    File { path: String, error: StateFileError },
}

impl StateOptionError {
    pub(crate) fn new(path: &Path, error: StateFileError) -> Self {
        match error {
            StateFileError::Ownership(error) => Self::Ownership(error),
            error => Self::File { path: path.display().to_string(), error },
        }
    }
}

impl CliError for StateOptionError {}

/// An open state file.
pub(crate) struct StateFile {
    store: ThreadStore,
    values: ThreadState,
    snippets: ThreadState,
    shapes: ThreadState,
    runtime: Handle,
}

impl StateFile {
    /// Opens a file, and creates it if it does not exist: readable by this user only.
    pub(crate) async fn open(path: &Path) -> Result<Self, StateFileError> {
        let path = check_access(path)?;
        let limits = ThreadLimits::default()
            .thread_bytes(MAX_STATE_BYTES as u64)
            .guest_bytes(MAX_STATE_BYTES as u64)
            .file_bytes(MAX_ENTRY_BYTES as u64);
        let builder = ThreadStore::builder().limits(limits).busy_timeout(BUSY_TIMEOUT).max_row_bytes(MAX_ROW_BYTES);
        let store = builder.open(path).await?;
        let (values, snippets, shapes) = (store.thread(VALUES)?, store.thread(SNIPPETS)?, store.thread(SHAPES)?);
        Ok(Self { store, values, snippets, shapes, runtime: Handle::current() })
    }

    /// Opens the file of `--state`, if there is one.
    pub(crate) async fn open_option(path: Option<&Path>) -> Result<Option<Arc<Self>>, StateOptionError> {
        let Some(path) = path else { return Ok(None) };
        let opened = Self::open(path).await.map_err(|error| StateOptionError::new(path, error))?;
        Ok(Some(Arc::new(opened)))
    }

    /// The state with this name in the same file. The shapes of results are shared.
    pub(crate) fn named(&self, name: &str) -> Result<Self, StateFileError> {
        let thread = |area: &str| self.store.thread(format!("{area} of {name}"));
        let (values, snippets) = (thread(VALUES)?, thread(SNIPPETS)?);
        let (store, shapes, runtime) = (self.store.clone(), self.shapes.clone(), self.runtime.clone());
        Ok(Self { store, values, snippets, shapes, runtime })
    }

    /// Closes the file after all earlier operations. Data that was written is safe without it, but the write-ahead log remains
    /// then.
    pub(crate) async fn close(&self) {
        self.store.close().await;
    }

    fn thread(&self, area: StateArea) -> &ThreadState {
        match area {
            StateArea::Values => &self.values,
            StateArea::Snippets => &self.snippets,
            StateArea::Shapes => &self.shapes,
        }
    }

    /// Blocks until the thread of the database has finished. Callers are on threads for blocking work.
    fn wait<T>(&self, work: impl Future<Output = Result<T, ThreadError>>) -> Result<T, StateError> {
        self.runtime.block_on(work).map_err(state_error)
    }

    async fn entries(&self, area: StateArea, prefix: &str) -> Result<Vec<StateEntry>, ThreadError> {
        let (thread, prefix) = (self.thread(area), path(prefix));
        // The listing begins after a path, and so would not include the path of the prefix itself.
        let first = match &*prefix {
            "/" => Vec::new(),
            path => thread.list_files(FileQuery::default().under(path.to_owned()).limit(1)).await?,
        };
        let mut entries: Vec<StateEntry> =
            first.into_iter().filter(|file| file.path == prefix).filter_map(|file| entry(&file)).collect();
        let mut after = (prefix != "/").then(|| prefix.clone());
        loop {
            let query = FileQuery::default().after(after.take()).limit(PAGE);
            let page = thread.list_files(query).await?;
            after = page.last().filter(|_| page.len() >= PAGE as usize).map(|last| last.path.clone());
            let all = page.len();
            let page: Vec<_> = page.into_iter().take_while(|file| file.path.starts_with(&prefix)).collect();
            let is_last = page.len() < all || after.is_none() || entries.len() >= MAX_ENTRIES;
            entries.extend(page.into_iter().filter_map(|file| entry(&file)));
            if is_last {
                return Ok(entries);
            }
        }
    }
}

impl StateStore for StateFile {
    fn get(&self, area: StateArea, key: &str) -> Result<Option<String>, StateError> {
        let content = match self.runtime.block_on(self.thread(area).read_file(&path(key))) {
            Ok(content) => content,
            Err(ThreadError::NoSuchFile { .. }) => return Ok(None),
            Err(error) => return Err(state_error(error)),
        };
        if content.len() > MAX_ENTRY_BYTES {
            return Err(StateError::Unavailable(format!("the entry has more than {MAX_ENTRY_BYTES} bytes")));
        }
        String::from_utf8(content).map(Some).map_err(|_| StateError::Unavailable("the entry is no text".to_owned()))
    }

    fn set(&self, area: StateArea, key: &str, text: String) -> Result<(), StateError> {
        self.wait(self.thread(area).write_file(&path(key), text))
    }

    fn replace(&self, area: StateArea, key: &str, expected: Option<&str>, text: String) -> Result<bool, StateError> {
        self.wait(self.thread(area).replace_file(&path(key), expected, text))
    }

    fn delete(&self, area: StateArea, key: &str) -> Result<bool, StateError> {
        self.wait(self.thread(area).delete_file(&path(key)))
    }

    fn list(&self, area: StateArea, prefix: &str) -> Result<Vec<StateEntry>, StateError> {
        self.wait(self.entries(area, prefix))
    }
}

/// Where programs of a gateway keep values and code: in `file`, or in memory.
pub(crate) fn options(file: Option<Arc<StateFile>>) -> StateOptions {
    StateOptions::default().shared(file.map(|file| file as Arc<dyn StateStore>)).language(Arc::new(TypeScript))
}

/// Checks that other users can neither read the file, which may contain secrets, nor change it, because the snippets in it are
/// executed. The files beside it, from which SQLite restores changes, are checked too. Returns the path without symbolic links.
fn check_access(path: &Path) -> Result<PathBuf, StateFileError> {
    let resolved = match ownership::resolve_file(path) {
        Err(OwnershipError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StateFileError::NoDirectory);
        }
        resolved => resolved?,
    };
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let beside = |path: &Path| {
            let mut path = path.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        };
        ownership::check_file(&beside(&resolved), &beside(path), Access::Private)?;
    }
    Ok(resolved)
}

/// The path of the entry with this key.
fn path(key: &str) -> String {
    let digits = key.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    std::iter::once('/').chain(digits).collect()
}

/// The entry of a file; `None` if the path is not that of a key.
fn entry(file: &FileInfo) -> Option<StateEntry> {
    let digits = file.path.strip_prefix('/')?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = digits.chunks(2).map(byte).collect::<Option<_>>()?;
    let key = String::from_utf8(bytes).ok()?;
    Some(StateEntry::new(key, file.size, file.modified_at))
}

fn state_error(error: ThreadError) -> StateError {
    match error {
        ThreadError::Full { needed, left, limit } => StateError::Full { limit, left, needed },
        ThreadError::Storage { failure, .. } => StateError::Unavailable(format!("its file {failure}")),
        ThreadError::Damaged { .. } => StateError::Unavailable("its file is damaged".to_owned()),
        error => StateError::Unavailable(error.to_string()),
    }
}

/// The names of the threads of the two areas.
const VALUES: &str = "execbox mcp: store";
const SNIPPETS: &str = "execbox mcp: snippets";
const SHAPES: &str = "execbox mcp: shapes";

/// How long an operation waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length of a row that is read, in bytes: an entry with its key.
const MAX_ROW_BYTES: usize = MAX_ENTRY_BYTES + (64 << 10);

/// The number of entries on a page, and the maximum number that is listed of a file that another program wrote. The limit of
/// bytes allows fewer.
const PAGE: u32 = 1_000;
const MAX_ENTRIES: usize = MAX_STATE_BYTES / 256;
