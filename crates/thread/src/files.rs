//! The files of a thread: bytes under [virtual paths](crate::path).

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

use crate::error::{Stored, ThreadError};
use crate::events::Origin;
use crate::limits::{check_size, page_rows, row_cost};
use crate::path::{FilePath, Scope};
use crate::state::{ThreadState, from_db, to_db};

/// A file, as a list of files has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// Its path.
    pub path: String,
    /// Its size, in bytes.
    pub size: u64,
    /// When it was last written, in milliseconds since 1970.
    pub modified_at: u64,
}

/// Which files [`ThreadState::list_files`] gives, in the order of their paths.
#[derive(Debug, Clone, Default)]
pub struct FileQuery {
    /// Only those below that folder, at any depth; with no `/` at its end, that very path, too. Without it all files.
    pub under: Option<String>,
    /// Only those whose path comes after this one.
    pub after: Option<String>,
    /// At most so many: 100 by default, and never more than 1 000.
    pub limit: Option<u32>,
}

impl ThreadState {
    /// What a file holds.
    ///
    /// Paths are virtual: `/data/input.json`, from the root of this thread's files. `.` and empty parts are dropped, a first
    /// `/` may be missing; `..`, `\` and control characters are refused, and so is what is longer than 1 023 bytes.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>, ThreadError> {
        self.read_at(FilePath::parse(path)?).await
    }

    pub(crate) async fn read_at(&self, path: FilePath) -> Result<Vec<u8>, ThreadError> {
        let missing = ThreadError::NoSuchFile { path: path.to_string() };
        let content = self.read(move |connection, thread| {
            let sql = "SELECT content FROM files WHERE thread = ?1 AND path = ?2";
            Ok(connection.query_row(sql, params![thread, path.as_str()], |row| row.get(0)).optional()?)
        });
        content.await?.ok_or(missing)
    }

    /// Writes a file, in the place of one that has that path. Folders need not be made.
    ///
    /// # Errors
    /// The path is none, or the file is larger than [`file_bytes`](crate::ThreadLimits::file_bytes).
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), ThreadError> {
        self.write_at(Origin::Host, FilePath::parse(path)?, content.into()).await
    }

    pub(crate) async fn write_at(&self, origin: Origin, path: FilePath, content: Vec<u8>) -> Result<(), ThreadError> {
        check_size(Stored::File, content.len(), self.store.limits.file_bytes)?;
        self.write(origin, move |transaction, row| {
            let bytes = row_cost(path.as_str().len() + content.len());
            let old = counted(transaction, row.thread, &path)?.unwrap_or(0);
            row.count(old, bytes)?;
            transaction.execute(
                "INSERT OR REPLACE INTO files (thread, path, modified_at, bytes, size, content) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![row.thread, path.as_str(), row.now, to_db(bytes), to_db(content.len() as u64), content],
            )?;
            Ok(())
        })
        .await
    }

    /// Deletes a file. Whether there was one.
    pub async fn delete_file(&self, path: &str) -> Result<bool, ThreadError> {
        let path = FilePath::parse(path)?;
        self.write(Origin::Host, move |transaction, row| {
            let Some(bytes) = counted(transaction, row.thread, &path)? else { return Ok(false) };
            row.count(bytes, 0)?;
            let sql = "DELETE FROM files WHERE thread = ?1 AND path = ?2";
            transaction.execute(sql, params![row.thread, path.as_str()])?;
            Ok(true)
        })
        .await
    }

    /// Files, in the order of their paths.
    pub async fn list_files(&self, query: FileQuery) -> Result<Vec<FileInfo>, ThreadError> {
        let scope = query.under.as_deref().map_or(Ok(Scope::everything()), Scope::parse)?;
        let after = query.after.as_deref().map(FilePath::parse).transpose()?;
        self.list_in(vec![scope], after, query.limit).await
    }

    /// The files of several scopes, each once.
    pub(crate) async fn list_in(
        &self,
        scopes: Vec<Scope>,
        after: Option<FilePath>,
        limit: Option<u32>,
    ) -> Result<Vec<FileInfo>, ThreadError> {
        let limit = page_rows(limit);
        self.read(move |connection, thread| {
            let after = after.as_ref().map_or("", FilePath::as_str);
            let mut files = Vec::new();
            for scope in &scopes {
                files.extend(list(connection, thread, scope, after, limit)?);
            }
            files.sort_unstable();
            files.dedup();
            files.truncate(limit as usize);
            Ok(files)
        })
        .await
    }
}

/// What a file counts against its thread.
fn counted(connection: &Connection, thread: i64, path: &FilePath) -> Result<Option<u64>, ThreadError> {
    let sql = "SELECT bytes FROM files WHERE thread = ?1 AND path = ?2";
    connection.query_row(sql, params![thread, path.as_str()], |row| row.get(0)).optional()?.map(from_db).transpose()
}

fn list(
    connection: &Connection,
    thread: i64,
    scope: &Scope,
    after: &str,
    limit: u32,
) -> Result<Vec<FileInfo>, ThreadError> {
    let sql = "SELECT path, size, modified_at FROM files WHERE thread = ?1 AND path > max(?2, ?3) AND path < ?4 \
               UNION ALL \
               SELECT path, size, modified_at FROM files WHERE thread = ?1 AND path > ?2 AND path = ?5 \
               ORDER BY path LIMIT ?6";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(params![thread, after, scope.folder(), scope.end(), scope.itself(), limit])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let (size, modified_at) = (from_db(row.get(1)?)?, from_db(row.get(2)?)?);
        files.push(FileInfo { path: row.get(0)?, size, modified_at });
    }
    Ok(files)
}
