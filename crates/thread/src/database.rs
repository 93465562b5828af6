//! The database: one connection on a thread of its own, which does one thing after the other.
//!
//! Nothing here blocks a task of the caller's runtime, and no runtime is needed. What is stored is not this module's business.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use crate::error::{StorageFailure, ThreadError};

/// Each takes a database to the version that is its place in the list, from 1. What was once released is never changed.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];
/// Tells a store of threads from every other SQLite file: `ExTh`.
const APPLICATION_ID: i64 = 0x4578_5468;

/// A handle of the connection's thread, which ends when all handles are gone.
pub(crate) struct Database {
    requests: mpsc::Sender<Request>,
}

pub(crate) enum Location {
    Memory,
    File(PathBuf),
}

enum Request {
    Run(Box<dyn FnOnce(&mut Connection) + Send>),
    /// Tells when the connection is closed.
    Close(oneshot::Sender<()>),
}

impl Database {
    /// `busy_timeout` is how long another program may hold the database before an operation fails.
    pub(crate) async fn open(location: Location, busy_timeout: Duration) -> Result<Self, ThreadError> {
        let (requests, queue) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let serve = move || match connect(&location, busy_timeout) {
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

    /// Does `work` when everything that was asked for before is done. If this future is dropped before `work` has begun, it
    /// is left out; once it has begun, it is done to its end.
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

    /// Closes the database when everything that was asked for before is done. All that is asked for later fails.
    pub(crate) async fn close(&self) {
        let (closed, is_closed) = oneshot::channel();
        if self.requests.send(Request::Close(closed)).is_ok() {
            let _ = is_closed.await; // an error: somebody else's request to close came first
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

fn connect(location: &Location, busy_timeout: Duration) -> Result<Connection, ThreadError> {
    let mut connection = match location {
        Location::Memory => Connection::open_in_memory()?,
        Location::File(path) => open_file(path)?,
    };
    connection.busy_timeout(busy_timeout)?;
    // Before anything is written; in a transaction, because others may make the same file meanwhile.
    identify(&connection.transaction()?, MIGRATIONS)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    keep_log(&connection, busy_timeout)?;
    migrate(&mut connection, MIGRATIONS)?;
    Ok(connection)
}

/// Turns on the write-ahead log; a database in memory keeps its own mode. SQLite does not wait here for others that open
/// the same new file.
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
    // Absolute, so that no name (`:memory:`) means something to SQLite.
    let path = std::path::absolute(path).map_err(ThreadError::cannot_open)?;
    make_private(&path)?;
    Ok(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?)
}

/// Makes the file, where there is none, for nobody but its owner: it will hold environment values. SQLite gives the files
/// that it puts beside it the same permissions.
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

/// The database's version; 0 is that of an empty one.
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
        Err(_) => Err(ThreadError::damaged("its version is negative")),
    }
}

/// Takes the database to the latest version, whole or not at all. Of several programs at once one does it.
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
    fn a_database_is_taken_through_the_versions_that_it_lacks() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();
        assert_eq!(version(&mut connection), 1);
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        assert_eq!(notes(&connection), ("kept".to_owned(), 3));
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        assert_eq!(version(&mut connection), 2, "nothing is done twice");
    }

    #[test]
    fn a_migration_that_fails_leaves_the_database_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();
        let error = migrate(&mut connection, &[FIRST, SECOND, "CREATE TABLE notes (x)"]).unwrap_err();
        assert!(matches!(error, ThreadError::Storage { .. }), "{error:?}");
        assert_eq!(version(&mut connection), 1);
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        assert_eq!(notes(&connection).1, 3);
    }

    #[test]
    fn what_another_program_wrote_is_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        let error = migrate(&mut connection, &[FIRST]).unwrap_err();
        assert!(matches!(error, ThreadError::Newer { found: 2, known: 1 }), "{error:?}");

        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE bookmarks (url)").unwrap();
        assert!(matches!(migrate(&mut connection, MIGRATIONS).unwrap_err(), ThreadError::Foreign));
    }
}
