//! The state of one thread: how each operation reads and writes, and what is counted.
//!
//! What the operations are is in [`crate::messages`], [`crate::files`], [`crate::env`] and [`crate::events`].

use std::fmt;
use std::sync::Arc;

use execbox::Executor;
use execbox::code::{CodeExecution, CodeExecutionOptions};
use execbox::core::value::Value;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use serde_json::Value as Json;

use crate::error::ThreadError;
use crate::events::Origin;
use crate::store::Inner;

/// The state of one conversation thread: its messages, files, environment values and events. Cheap to clone; all clones,
/// and all handles that [`ThreadStore::thread`](crate::ThreadStore::thread) gives for one id, are of the same thread.
///
/// Code that is [run](Self::run_code) on behalf of the thread gets nothing of it, but what is granted by a
/// [bridge](Self::bridge).
#[derive(Clone)]
pub struct ThreadState {
    pub(crate) store: Arc<Inner>,
    pub(crate) id: Arc<str>,
}

impl ThreadState {
    /// The thread's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Runs `source` as an ES module on behalf of this thread (code-execution specification §9). The run is given what `options`
    /// grant and nothing else: bring what it may have of the thread by a [bridge](Self::bridge).
    pub fn run_code(
        &self,
        executor: &(impl Executor + ?Sized),
        source: &str,
        options: CodeExecutionOptions,
    ) -> CodeExecution {
        executor.run_code(source, options)
    }

    /// Makes a change in one transaction: whole or not at all. The thread is begun where there is none. Guests find a thread
    /// full while the application still has room.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        origin: Origin,
        change: impl FnOnce(&Transaction<'_>, &mut ThreadRow) -> Result<T, ThreadError> + Send + 'static,
    ) -> Result<T, ThreadError> {
        let Self { store, id } = self.clone();
        let write = move |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut row = ThreadRow::find_or_begin(&transaction, &id, store.now())?;
            let (bytes, last_event) = (row.bytes, row.last_event);
            let value = change(&transaction, &mut row)?;
            let limit = store.limits.thread_limit(origin);
            if row.bytes > bytes.max(limit) {
                let (needed, left) = (row.bytes - bytes, limit.saturating_sub(bytes));
                return Err(ThreadError::Full { needed, left, limit });
            }
            if row.is_new && row.bytes == 0 {
                return Ok(value); // nothing was stored, so no thread begins
            }
            row.save(&transaction)?;
            transaction.commit()?;
            if row.last_event != last_event {
                store.signals.wake(&id);
            }
            Ok(value)
        };
        self.store.database.run(write).await
    }

    /// Reads, given what the tables call this thread. Of a thread in which nothing was ever stored, there is nothing to read.
    pub(crate) async fn read<T: Default + Send + 'static>(
        &self,
        look: impl FnOnce(&Connection, i64) -> Result<T, ThreadError> + Send + 'static,
    ) -> Result<T, ThreadError> {
        let id = Arc::clone(&self.id);
        let read = move |connection: &mut Connection| {
            let sql = "SELECT thread FROM threads WHERE id = ?1";
            match connection.query_row(sql, [&*id], |row| row.get(0)).optional()? {
                Some(thread) => look(connection, thread),
                None => Ok(T::default()),
            }
        };
        self.store.database.run(read).await
    }
}

impl fmt::Debug for ThreadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadState").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The thread's own row, while something is changed.
pub(crate) struct ThreadRow {
    pub(crate) thread: i64,
    pub(crate) now: i64,
    is_new: bool,
    bytes: u64,
    last_message: i64,
    last_event: i64,
}

impl ThreadRow {
    fn find_or_begin(transaction: &Transaction<'_>, id: &str, now: i64) -> Result<Self, ThreadError> {
        let begin = "INSERT INTO threads (id, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let is_new = transaction.execute(begin, params![id, now])? > 0;
        let find = "SELECT thread, bytes, last_message, last_event FROM threads WHERE id = ?1";
        let (thread, bytes, last_message, last_event) =
            transaction.query_row(find, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        Ok(Self { thread, now, is_new, bytes: from_db(bytes)?, last_message, last_event })
    }

    fn save(&self, transaction: &Transaction<'_>) -> Result<(), ThreadError> {
        let sql = "UPDATE threads SET bytes = ?2, last_message = ?3, last_event = ?4 WHERE thread = ?1";
        transaction.execute(sql, params![self.thread, to_db(self.bytes), self.last_message, self.last_event])?;
        Ok(())
    }

    /// Counts a row of `new` bytes in the place of one of `old` bytes; 0 stands for none.
    pub(crate) fn count(&mut self, old: u64, new: u64) -> Result<(), ThreadError> {
        let rest =
            self.bytes.checked_sub(old).ok_or_else(|| ThreadError::damaged("more is deleted than was stored"))?;
        self.bytes = rest.saturating_add(new);
        Ok(())
    }

    /// Deletes the rows of `table` (`messages` or `events`) up to and including number `seq`. How many there were.
    pub(crate) fn delete_up_to(
        &mut self,
        transaction: &Transaction<'_>,
        table: &'static str,
        seq: u64,
    ) -> Result<u64, ThreadError> {
        let (which, seq) = (format!("FROM {table} WHERE thread = ?1 AND seq <= ?2"), to_db(seq));
        let sum = format!("SELECT coalesce(sum(bytes), 0) {which}");
        let bytes = transaction.query_row(&sum, [self.thread, seq], |row| row.get(0))?;
        self.count(from_db(bytes)?, 0)?;
        Ok(transaction.execute(&format!("DELETE {which}"), [self.thread, seq])? as u64)
    }

    /// The number of a new message.
    pub(crate) fn next_message(&mut self) -> i64 {
        self.last_message += 1;
        self.last_message
    }

    /// The number of a new event.
    pub(crate) fn next_event(&mut self) -> i64 {
        self.last_event += 1;
        self.last_event
    }
}

/// A number that the database keeps and that is never negative.
pub(crate) fn from_db(number: i64) -> Result<u64, ThreadError> {
    u64::try_from(number).map_err(ThreadError::damaged)
}

/// The database's numbers have 63 bits; what is more means the most.
pub(crate) fn to_db(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// JSON as it is stored. `what` names it in the refusal of one that nests too deep to be read again.
pub(crate) fn json_text(json: &Json, what: &str) -> Result<String, ThreadError> {
    Value::from_json(Some(json), what)?;
    Ok(json.to_string())
}

pub(crate) fn stored_json(text: &str) -> Result<Json, ThreadError> {
    serde_json::from_str(text).map_err(ThreadError::damaged)
}
