//! A store: one database with the threads of one application.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::params;
use serde::Serialize;
use tokio::sync::watch;

use crate::database::{Database, Location};
use crate::error::{Named, ThreadError};
use crate::limits::{ThreadLimits, check_name, page_rows};
use crate::state::{ThreadState, from_db};

/// One database with any number of threads. Cheap to clone; several tasks, and several programs, may use one file at once.
///
/// All that is stored is stored when the operation's future is ready. Opened files are private to their owner, and hold
/// environment values as they are.
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

pub(crate) struct Inner {
    pub(crate) database: Database,
    pub(crate) limits: ThreadLimits,
    pub(crate) signals: Signals,
    clock: Clock,
}

type Clock = Box<dyn Fn() -> SystemTime + Send + Sync>;

/// How a store is opened. See [`ThreadStore::builder`].
#[must_use = "nothing is opened until `open` or `in_memory`"]
pub struct ThreadStoreBuilder {
    limits: ThreadLimits,
    clock: Clock,
    busy_timeout: Duration,
}

/// Which threads [`ThreadStore::threads`] gives, in the order of their ids.
#[derive(Debug, Clone, Default)]
pub struct ThreadQuery {
    /// Only those whose id comes after this one.
    pub after: Option<String>,
    /// At most so many: 100 by default, and never more than 1 000.
    pub limit: Option<u32>,
}

/// A thread, as a list of threads has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadInfo {
    /// Its id.
    pub id: String,
    /// When something was first stored in it, in milliseconds since 1970.
    pub created_at: u64,
    /// What it counts against [`ThreadLimits::thread_bytes`].
    pub bytes: u64,
}

impl ThreadStore {
    /// Opens the store in that file, with the default limits. The file is made where there is none; its folder is not.
    ///
    /// # Errors
    /// The file cannot be opened, is damaged, is something else, or comes from a later version.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, ThreadError> {
        Self::builder().open(path).await
    }

    /// An empty store that is gone with its last handle.
    pub async fn in_memory() -> Result<Self, ThreadError> {
        Self::builder().in_memory().await
    }

    /// A store with limits or a clock of your own.
    pub fn builder() -> ThreadStoreBuilder {
        ThreadStoreBuilder {
            limits: ThreadLimits::default(),
            clock: Box::new(SystemTime::now),
            busy_timeout: Duration::from_secs(5),
        }
    }

    /// The thread with that id. It need not exist: it begins with the first thing that is stored in it.
    ///
    /// # Errors
    /// An id is 1 to 256 bytes without control characters.
    pub fn thread(&self, id: impl Into<String>) -> Result<ThreadState, ThreadError> {
        let id = id.into();
        check_name(Named::Thread, &id)?;
        Ok(ThreadState { store: Arc::clone(&self.0), id: id.into() })
    }

    /// The threads in which something was stored.
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

    /// Deletes a thread with all that it holds, and ends its [subscriptions](ThreadState::subscribe). Whether there was one.
    pub async fn delete_thread(&self, id: &str) -> Result<bool, ThreadError> {
        let (store, id) = (Arc::clone(&self.0), id.to_owned());
        let delete = move |connection: &mut rusqlite::Connection| {
            let deleted = connection.execute("DELETE FROM threads WHERE id = ?1", [&id])? > 0;
            store.signals.end(&id);
            Ok(deleted)
        };
        self.0.database.run(delete).await
    }

    /// Waits until everything that was begun is stored, and closes the database. What is asked for later, through any
    /// handle, is [`ThreadError::Closed`]. Without it the database is closed soon after its last handle is dropped.
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
    /// Bounds on each thread.
    pub fn limits(mut self, limits: ThreadLimits) -> Self {
        self.limits = limits;
        self
    }

    /// What tells the time that messages, files and events are stamped with; the system's clock by default.
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// How long an operation waits for another program that writes to the same file: 5 s by default.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
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
        let Self { limits, clock, busy_timeout } = self;
        let database = Database::open(location, busy_timeout).await?;
        Ok(ThreadStore(Arc::new(Inner { database, limits, signals: Signals::default(), clock })))
    }
}

impl fmt::Debug for ThreadStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadStoreBuilder").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Inner {
    /// Milliseconds since 1970; what is earlier is 1970.
    pub(crate) fn now(&self) -> i64 {
        let since_1970 = (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Wakes those who wait for events. It carries no events: they are read from the database, so nobody can be left behind.
#[derive(Default)]
pub(crate) struct Signals(Mutex<HashMap<Arc<str>, watch::Sender<()>>>);

impl Signals {
    pub(crate) fn listen(&self, thread: &Arc<str>) -> watch::Receiver<()> {
        let mut signals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signals.retain(|_, signal| signal.receiver_count() > 0);
        signals.entry(Arc::clone(thread)).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    pub(crate) fn wake(&self, thread: &str) {
        if let Some(signal) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(thread) {
            signal.send_replace(());
        }
    }

    fn end(&self, thread: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(thread);
    }

    fn end_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
