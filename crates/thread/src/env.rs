//! The environment values of a thread: named strings, some of them secret.
//!
//! No value appears in errors, events or `Debug` output.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::{Named, Stored, ThreadError};
use crate::origin::Origin;
use crate::rows::{check_name, check_size, from_db, row_cost, to_db};
use crate::state::ThreadState;

impl ThreadState {
    /// Returns an environment value, or `None` if it is not set. Values are independent of the environment of the process.
    pub async fn get_env(&self, name: &str) -> Result<Option<String>, ThreadError> {
        check_name(Named::Env, name)?;
        let name = name.to_owned();
        self.read(move |connection, thread| {
            let sql = "SELECT value FROM env WHERE thread = ?1 AND name = ?2";
            Ok(connection.query_row(sql, params![thread, name], |row| row.get(0)).optional()?)
        })
        .await
    }

    /// Sets an environment value, replacing one with the same name.
    ///
    /// # Errors
    /// A name is 1 to 256 bytes without control characters; a value is bounded by
    /// [`env_bytes`](crate::ThreadLimits::env_bytes).
    pub async fn set_env(&self, name: impl Into<String>, value: impl Into<String>) -> Result<(), ThreadError> {
        let (name, value) = (name.into(), value.into());
        check_name(Named::Env, &name)?;
        check_size(Stored::Env, value.len(), self.store.limits.env_bytes)?;
        self.write(Origin::Host, move |transaction, row| {
            let bytes = row_cost(name.len() + value.len());
            let old = counted(transaction, row.thread, &name)?.unwrap_or(0);
            row.count(old, bytes)?;
            transaction.execute(
                "INSERT OR REPLACE INTO env (thread, name, bytes, value) VALUES (?1, ?2, ?3, ?4)",
                params![row.thread, name, to_db(bytes), value],
            )?;
            Ok(())
        })
        .await
    }

    /// Removes an environment value. Returns whether it was set.
    pub async fn remove_env(&self, name: &str) -> Result<bool, ThreadError> {
        check_name(Named::Env, name)?;
        let name = name.to_owned();
        self.write(Origin::Host, move |transaction, row| {
            let Some(bytes) = counted(transaction, row.thread, &name)? else { return Ok(false) };
            row.count(bytes, 0)?;
            transaction.execute("DELETE FROM env WHERE thread = ?1 AND name = ?2", params![row.thread, name])?;
            Ok(true)
        })
        .await
    }

    /// Returns the names of all environment values, sorted.
    pub async fn env_names(&self) -> Result<Vec<String>, ThreadError> {
        self.read(|connection, thread| {
            let mut statement = connection.prepare("SELECT name FROM env WHERE thread = ?1 ORDER BY name")?;
            let names = statement.query_map([thread], |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
        .await
    }
}

/// The bytes that a value counts against its thread.
fn counted(connection: &Connection, thread: i64, name: &str) -> Result<Option<u64>, ThreadError> {
    let sql = "SELECT bytes FROM env WHERE thread = ?1 AND name = ?2";
    connection.query_row(sql, params![thread, name], |row| row.get(0)).optional()?.map(from_db).transpose()
}
