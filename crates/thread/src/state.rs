//! The handle of one thread, with the transactions and the accounting of its operations.
//!
//! The operations are in [`crate::messages`], [`crate::files`], [`crate::env`] and [`crate::events`].

use std::fmt;
use std::sync::Arc;

use execbox::Executor;
use execbox::code::{CodeExecution, CodeExecutionOptions};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::error::ThreadError;
use crate::inner::Inner;
use crate::origin::Origin;
use crate::rows::{from_db, to_db};

/// The state of one conversation thread: its messages, files, environment values and events. Cheap to clone; all
/// handles with the same id of the same store refer to the same thread.
///
/// Code that is [run](Self::run_code) on behalf of the thread can access only what a [bridge](Self::bridge) grants.
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

    /// Runs `source` as an ES module on behalf of this thread (code-execution specification §9). The run can access only what
    /// `options` grant; add a [bridge](Self::bridge) for access to the thread.
    pub fn run_code(
        &self,
        executor: &(impl Executor + ?Sized),
        source: &str,
        options: CodeExecutionOptions,
    ) -> CodeExecution {
        executor.run_code(source, options)
    }

    /// Applies `change` in one transaction and creates the thread if it does not exist. The limit on its size depends on
    /// `origin`: it can be lower for guests.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        origin: Origin,
        change: impl FnOnce(&Transaction<'_>, &mut ThreadRow) -> Result<T, ThreadError> + Send + 'static,
    ) -> Result<T, ThreadError> {
        let Self { store, id } = self.clone();
        let write = move |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut row = ThreadRow::find_or_create(&transaction, &id, store.now())?;
            let (bytes, last_event) = (row.bytes, row.last_event);
            let value = change(&transaction, &mut row)?;
            let limit = store.limits.thread_limit(origin);
            if row.bytes > bytes.max(limit) {
                let (needed, left) = (row.bytes - bytes, limit.saturating_sub(bytes));
                return Err(ThreadError::Full { needed, left, limit });
            }
            if row.is_new && row.bytes == 0 {
                return Ok(value); // nothing was stored, so the thread is not created
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

    /// Runs `look` with the row id of this thread. Returns the default if the thread does not exist.
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

/// The row of the thread during a change.
pub(crate) struct ThreadRow {
    pub(crate) thread: i64,
    pub(crate) now: i64,
    is_new: bool,
    bytes: u64,
    last_message: i64,
    last_event: i64,
}

impl ThreadRow {
    fn find_or_create(transaction: &Transaction<'_>, id: &str, now: i64) -> Result<Self, ThreadError> {
        let create = "INSERT INTO threads (id, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let is_new = transaction.execute(create, params![id, now])? > 0;
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

    /// Accounts for a row of `new` bytes that replaces one of `old` bytes; 0 means no row.
    pub(crate) fn count(&mut self, old: u64, new: u64) -> Result<(), ThreadError> {
        let rest = self
            .bytes
            .checked_sub(old)
            .ok_or_else(|| ThreadError::damaged("more bytes are deleted than were stored"))?;
        self.bytes = rest.saturating_add(new);
        Ok(())
    }

    /// Deletes the rows of `table` (`messages` or `events`) up to and including number `seq`. Returns how many were deleted.
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

    /// Allocates the number of a new message.
    pub(crate) fn next_message(&mut self) -> i64 {
        self.last_message += 1;
        self.last_message
    }

    /// Allocates the number of a new event.
    pub(crate) fn next_event(&mut self) -> i64 {
        self.last_event += 1;
        self.last_event
    }
}
