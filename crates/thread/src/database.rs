//! The database connection, on an OS thread of its own that runs one operation after the other.
//!
//! Operations do not block the caller's runtime, and work with any runtime. The schema is in `schema/`.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use crate::error::{StorageFailure, ThreadError};

/// Entry `n` migrates a database from version `n` to `n + 1`. Released entries never change.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];
/// Identifies a thread store among SQLite files: `ExTh`.
const APPLICATION_ID: i64 = 0x4578_5468;

/// A handle of the connection's thread, which ends when all handles are dropped.
pub(crate) struct Database {
    requests: mpsc::Sender<Request>,
}

pub(crate) enum Location {
    Memory,
    File(PathBuf),
}

pub(crate) struct ConnectionOptions {
    /// How long an operation waits for a lock of another process.
    pub(crate) busy_timeout: Duration,
    /// The longest row that is read or written, in bytes.
    pub(crate) max_row_bytes: Option<usize>,
}

enum Request {
    Run(Box<dyn FnOnce(&mut Connection) + Send>),
    /// Replies when the connection is closed.
    Close(oneshot::Sender<()>),
}

impl Database {
    pub(crate) async fn open(location: Location, options: ConnectionOptions) -> Result<Self, ThreadError> {
        let (requests, queue) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let serve = move || match connect(&location, &options) {
            Ok(connection) => {
                if opened.send(Ok(())).is_ok() {
                    serve(connection, &queue);
                }
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        thread::Builder::new().name("execbox-thread".to_owned()).spawn(serve).map_err(ThreadError::cannot_open)?;
        is_open.await.map_err(|_| ThreadError::Closed)??;
        Ok(Self { requests })
    }

    /// Runs `work` after all earlier requests. If the future is dropped before `work` has started, it does not run;
    /// otherwise it runs to its end.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, ThreadError> + Send + 'static,
    ) -> Result<T, ThreadError> {
        let (answer, answered) = oneshot::channel();
        let work = move |connection: &mut Connection| {
            if !answer.is_closed() {
                drop(answer.send(work(connection)));
            }
        };
        self.requests.send(Request::Run(Box::new(work))).map_err(|_| ThreadError::Closed)?;
        answered.await.map_err(|_| ThreadError::Closed)?
    }

    /// Closes the database after all earlier requests. Later requests fail.
    pub(crate) async fn close(&self) {
        let (closed, is_closed) = oneshot::channel();
        if self.requests.send(Request::Close(closed)).is_ok() {
            let _ = is_closed.await; // fails if another request closed it first
        }
    }
}

fn serve(mut connection: Connection, queue: &mpsc::Receiver<Request>) {
    while let Ok(request) = queue.recv() {
        match request {
            Request::Run(work) => work(&mut connection),
            Request::Close(closed) => {
                drop(connection);
                let _ = closed.send(());
                return;
            }
        }
    }
}

fn connect(location: &Location, options: &ConnectionOptions) -> Result<Connection, ThreadError> {
    let mut connection = match location {
        Location::Memory => Connection::open_in_memory()?,
        Location::File(path) => open_file(path)?,
    };
    if let Some(max) = options.max_row_bytes {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::try_from(max).unwrap_or(i32::MAX))?;
    }
    connection.busy_timeout(options.busy_timeout)?;
    // Before any write, in a transaction: another process may be creating the same file.
    identify(&connection.transaction()?, MIGRATIONS)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    keep_log(&connection, options.busy_timeout)?;
    migrate(&mut connection, MIGRATIONS)?;
    Ok(connection)
}

/// Turns on the write-ahead log; a database in memory keeps its own mode. SQLite does not apply the busy timeout here, so
/// this retries.
fn keep_log(connection: &Connection, busy_timeout: Duration) -> Result<(), ThreadError> {
    const PAUSE: Duration = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal").map_err(ThreadError::from) {
            Err(ThreadError::Storage { failure: StorageFailure::Busy, .. }) if waited < busy_timeout => {
                thread::sleep(PAUSE);
                waited += PAUSE;
            }
            result => return result,
        }
    }
}

fn open_file(path: &Path) -> Result<Connection, ThreadError> {
    // Absolute, so that SQLite gives no special meaning to names such as `:memory:`.
    let path = std::path::absolute(path).map_err(ThreadError::cannot_open)?;
    make_private(&path)?;
    Ok(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?)
}

/// Creates the file, if missing, with permissions for its owner only, because it will contain secrets. SQLite gives its
/// journal files the same permissions.
fn make_private(path: &Path) -> Result<(), ThreadError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(ThreadError::cannot_open(error)),
        _ => Ok(()),
    }
}

/// Returns the version of the database, 0 if it is empty.
fn identify(connection: &Transaction<'_>, migrations: &[&str]) -> Result<usize, ThreadError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application != APPLICATION_ID {
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        let is_empty = application == 0 && version == 0 && tables == 0;
        return if is_empty { Ok(0) } else { Err(ThreadError::Foreign) };
    }
    let known = migrations.len();
    match usize::try_from(version) {
        Ok(version) if version <= known => Ok(version),
        Ok(_) => Err(ThreadError::Newer { found: version, known: i64::try_from(known).unwrap_or(i64::MAX) }),
        Err(_) => Err(ThreadError::damaged("negative version")),
    }
}

/// Migrates the database to the latest version, in one transaction.
fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), ThreadError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = identify(&transaction, migrations)?;
    for migration in &migrations[version..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", i64::try_from(migrations.len()).unwrap_or(i64::MAX))?;
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE notes (text TEXT) STRICT; INSERT INTO notes VALUES ('kept')";
    const SECOND: &str = "ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 3";

    fn version(connection: &mut Connection) -> usize {
        identify(&connection.transaction().unwrap(), &[FIRST, SECOND]).unwrap()
    }

    fn notes(connection: &Connection) -> (String, i64) {
        connection.query_row("SELECT text, stars FROM notes", (), |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    #[test]
    fn missing_migrations_are_applied_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();
        assert_eq!(version(&mut connection), 1);
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        assert_eq!(notes(&connection), ("kept".to_owned(), 3));
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        assert_eq!(version(&mut connection), 2, "no migration runs twice");
    }

    #[test]
    fn a_failed_migration_is_rolled_back() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();
        let error = migrate(&mut connection, &[FIRST, SECOND, "CREATE TABLE notes (x)"]).unwrap_err();
        assert!(matches!(error, ThreadError::Storage { .. }), "{error:?}");
        assert_eq!(version(&mut connection), 1);
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        assert_eq!(notes(&connection).1, 3);
    }

    #[test]
    fn newer_and_foreign_databases_are_rejected() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        let error = migrate(&mut connection, &[FIRST]).unwrap_err();
        assert!(matches!(error, ThreadError::Newer { found: 2, known: 1 }), "{error:?}");

        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE bookmarks (url)").unwrap();
        assert!(matches!(migrate(&mut connection, MIGRATIONS).unwrap_err(), ThreadError::Foreign));
    }
}
