//! The files of a thread: bytes at [virtual paths](crate::path).

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde::Serialize;

use crate::error::{Stored, ThreadError};
use crate::origin::Origin;
use crate::path::{FilePath, Scope};
use crate::rows::{check_size, from_db, page_rows, row_cost, to_db};
use crate::state::{ThreadRow, ThreadState};

/// An entry of a file listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileInfo {
    /// The normalized path.
    pub path: String,
    /// The size, in bytes.
    pub size: u64,
    /// The time of the last write, in milliseconds since 1970.
    pub modified_at: u64,
}

/// Selects files for [`ThreadState::list_files`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FileQuery {
    /// Only files below this directory, at any depth; without a final `/`, also a file at this very path. Default: all.
    pub under: Option<String>,
    /// Only files whose path sorts after this one.
    pub after: Option<String>,
    /// The most entries to return. Default 100, at most 1 000.
    pub limit: Option<u32>,
}

impl FileQuery {
    execbox_core::setters! {
        under: impl Into<Option<String>>,
        after: impl Into<Option<String>>,
        limit: impl Into<Option<u32>>,
    }
}

impl ThreadState {
    /// Returns the content of a file.
    ///
    /// Paths are virtual and absolute, such as `/data/input.json`. The first `/` may be omitted; `.` and empty segments are
    /// dropped. `..`, `\`, control characters and paths longer than 1 023 bytes are rejected.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>, ThreadError> {
        self.read_at(FilePath::parse(path)?).await
    }

    pub(crate) async fn read_at(&self, path: FilePath) -> Result<Vec<u8>, ThreadError> {
        let missing = ThreadError::NoSuchFile { path: path.to_string() };
        self.read(move |connection, thread| content_of(connection, thread, &path)).await?.ok_or(missing)
    }

    /// Writes a file, replacing one at the same path. Directories need not exist.
    ///
    /// # Errors
    /// The path is invalid, or the file is larger than [`file_bytes`](crate::ThreadLimits::file_bytes).
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), ThreadError> {
        self.write_at(Origin::Host, FilePath::parse(path)?, content.into()).await
    }

    pub(crate) async fn write_at(&self, origin: Origin, path: FilePath, content: Vec<u8>) -> Result<(), ThreadError> {
        check_size(Stored::File, content.len(), self.store.limits.file_bytes)?;
        self.write(origin, move |transaction, row| put(transaction, row, &path, &content)).await
    }

    /// Writes a file if its content is `expected`, or if there is none and `expected` is `None`. Returns whether it was written.
    /// The comparison and the write are one transaction: no other one is between them, in this process or another.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file).
    pub async fn replace_file(
        &self,
        path: &str,
        expected: Option<impl Into<Vec<u8>>>,
        content: impl Into<Vec<u8>>,
    ) -> Result<bool, ThreadError> {
        let (path, expected, content) = (FilePath::parse(path)?, expected.map(Into::into), content.into());
        check_size(Stored::File, content.len(), self.store.limits.file_bytes)?;
        self.write(Origin::Host, move |transaction, row| {
            let is_expected = content_of(transaction, row.thread, &path)? == expected;
            if is_expected {
                put(transaction, row, &path, &content)?;
            }
            Ok(is_expected)
        })
        .await
    }

    /// Deletes a file. Returns whether it existed.
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

    /// Lists files, sorted by path.
    pub async fn list_files(&self, query: FileQuery) -> Result<Vec<FileInfo>, ThreadError> {
        let scope = query.under.as_deref().map_or(Ok(Scope::everything()), Scope::parse)?;
        let after = query.after.as_deref().map(FilePath::parse).transpose()?;
        self.list_in(vec![scope], after, query.limit).await
    }

    /// Lists the files of several scopes, each file once.
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

fn content_of(connection: &Connection, thread: i64, path: &FilePath) -> Result<Option<Vec<u8>>, ThreadError> {
    let sql = "SELECT content FROM files WHERE thread = ?1 AND path = ?2";
    Ok(connection.query_row(sql, params![thread, path.as_str()], |row| row.get(0)).optional()?)
}

fn put(transaction: &Transaction<'_>, row: &mut ThreadRow, path: &FilePath, content: &[u8]) -> Result<(), ThreadError> {
    let bytes = row_cost(path.as_str().len() + content.len());
    let old = counted(transaction, row.thread, path)?.unwrap_or(0);
    row.count(old, bytes)?;
    transaction.execute(
        "INSERT OR REPLACE INTO files (thread, path, modified_at, bytes, size, content) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![row.thread, path.as_str(), row.now, to_db(bytes), to_db(content.len() as u64), content],
    )?;
    Ok(())
}

/// The bytes that a file counts against its thread.
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
