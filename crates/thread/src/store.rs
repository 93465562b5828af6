//! The store: one database with the threads of an application.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::params;
use serde::Serialize;

use crate::database::{ConnectionOptions, Database, Location};
use crate::error::{Named, ThreadError};
use crate::inner::{Clock, Inner, Signals};
use crate::limits::ThreadLimits;
use crate::rows::{check_name, from_db, page_rows};
use crate::state::ThreadState;

/// One database with any number of threads. Cheap to clone. Several tasks and processes can use one file at once.
///
/// A write is stored when the operation's future is ready. Files are readable by their owner only; environment values are
/// not encrypted.
///
/// ```
/// # use execbox_thread::{ThreadError, ThreadStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ThreadError> {
/// let store = ThreadStore::in_memory().await?; // or ThreadStore::open("threads.db")
/// let thread = store.thread("support-4711")?;
/// thread.write_file("/data/input.json", r#"{"rows": []}"#).await?;
/// assert_eq!(thread.read_file("/data/input.json").await?, br#"{"rows": []}"#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ThreadStore(pub(crate) Arc<Inner>);

/// Options of a store. See [`ThreadStore::builder`].
#[must_use = "nothing is opened until `open` or `in_memory`"]
pub struct ThreadStoreBuilder {
    limits: ThreadLimits,
    clock: Clock,
    busy_timeout: Duration,
    max_row_bytes: Option<usize>,
}

/// Selects threads for [`ThreadStore::threads`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ThreadQuery {
    /// Only threads whose id sorts after this one.
    pub after: Option<String>,
    /// The most entries to return. Default 100, at most 1 000.
    pub limit: Option<u32>,
}

impl ThreadQuery {
    execbox_core::setters! {
        after: impl Into<Option<String>>,
        limit: impl Into<Option<u32>>,
    }
}

/// An entry of a thread listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The id, as passed to [`ThreadStore::thread`].
    pub id: String,
    /// The time of the first write, in milliseconds since 1970.
    pub created_at: u64,
    /// The bytes that count against [`ThreadLimits::thread_bytes`].
    pub bytes: u64,
}

impl ThreadStore {
    /// Opens the store at `path` with default options. Creates the file if it does not exist; its directory must exist.
    ///
    /// # Errors
    /// The file cannot be opened, is damaged, is not a thread store, or has a newer version.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, ThreadError> {
        Self::builder().open(path).await
    }

    /// Creates an empty store in memory, which is dropped with its last handle.
    pub async fn in_memory() -> Result<Self, ThreadError> {
        Self::builder().in_memory().await
    }

    /// Returns a builder for a store with other limits, clock or timeout.
    pub fn builder() -> ThreadStoreBuilder {
        ThreadStoreBuilder {
            limits: ThreadLimits::default(),
            clock: Box::new(SystemTime::now),
            busy_timeout: Duration::from_secs(5),
            max_row_bytes: None,
        }
    }

    /// Returns a handle of the thread `id`. The thread is created by the first write.
    ///
    /// # Errors
    /// An id is 1 to 256 bytes without control characters.
    pub fn thread(&self, id: impl Into<String>) -> Result<ThreadState, ThreadError> {
        let id = id.into();
        check_name(Named::Thread, &id)?;
        Ok(ThreadState { store: Arc::clone(&self.0), id: id.into() })
    }

    /// Lists the threads that exist, sorted by id.
    pub async fn threads(&self, query: ThreadQuery) -> Result<Vec<ThreadInfo>, ThreadError> {
        self.0
            .database
            .run(move |connection| {
                let sql = "SELECT id, created_at, bytes FROM threads WHERE id > ?1 ORDER BY id LIMIT ?2";
                let mut statement = connection.prepare(sql)?;
                let mut rows = statement.query(params![query.after.unwrap_or_default(), page_rows(query.limit)])?;
                let mut threads = Vec::new();
                while let Some(row) = rows.next()? {
                    let (created_at, bytes) = (from_db(row.get(1)?)?, from_db(row.get(2)?)?);
                    threads.push(ThreadInfo { id: row.get(0)?, created_at, bytes });
                }
                Ok(threads)
            })
            .await
    }

    /// Deletes a thread with its content and ends its [subscriptions](ThreadState::subscribe). Returns whether it existed.
    pub async fn delete_thread(&self, id: &str) -> Result<bool, ThreadError> {
        let (store, id) = (Arc::clone(&self.0), id.to_owned());
        let delete = move |connection: &mut rusqlite::Connection| {
            let deleted = connection.execute("DELETE FROM threads WHERE id = ?1", [&id])? > 0;
            store.signals.end(&id);
            Ok(deleted)
        };
        self.0.database.run(delete).await
    }

    /// Waits for all pending operations and closes the database. Later operations of all handles fail with
    /// [`ThreadError::Closed`]. Without this call the database is closed soon after its last handle is dropped.
    pub async fn close(&self) {
        self.0.database.close().await;
        self.0.signals.end_all();
    }
}

impl fmt::Debug for ThreadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadStore").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl ThreadStoreBuilder {
    /// Sets the bounds on each thread.
    pub fn limits(mut self, limits: ThreadLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the clock for the timestamps of messages, files and events. Default: the system clock.
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Sets how long an operation waits for another process that writes to the same file. Default 5 s.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets the longest row, with its names and its content, in bytes. An operation that would write or read a longer row
    /// fails. Default: the limits of SQLite, about 1 GB.
    pub fn max_row_bytes(mut self, bytes: usize) -> Self {
        self.max_row_bytes = Some(bytes);
        self
    }

    /// See [`ThreadStore::open`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<ThreadStore, ThreadError> {
        self.open_at(Location::File(path.as_ref().to_owned())).await
    }

    /// See [`ThreadStore::in_memory`].
    pub async fn in_memory(self) -> Result<ThreadStore, ThreadError> {
        self.open_at(Location::Memory).await
    }

    async fn open_at(self, location: Location) -> Result<ThreadStore, ThreadError> {
        let Self { limits, clock, busy_timeout, max_row_bytes } = self;
        let database = Database::open(location, ConnectionOptions { busy_timeout, max_row_bytes }).await?;
        Ok(ThreadStore(Arc::new(Inner { database, limits, signals: Signals::default(), clock })))
    }
}

impl fmt::Debug for ThreadStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadStoreBuilder").field("limits", &self.limits).finish_non_exhaustive()
    }
}
