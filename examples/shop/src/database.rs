//! SQLite in memory: transactions, rows as records, pages, errors.

use std::sync::{Mutex, PoisonError};

use rmcp::model::{ContentBlock, IntoContents};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, ToSql};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::{data, terms};

/// The shop's database.
pub(crate) struct Database(Mutex<Connection>);

impl Database {
    /// Creates a database with the initial [`data`].
    pub(crate) fn open() -> Result<Self, ShopError> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(include_str!("../data/schema.sql"))?;
        data::fill(&connection)?;
        Ok(Self(Mutex::new(connection)))
    }

    /// Runs `work` in a transaction, which is rolled back if it fails.
    pub(crate) fn transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, ShopError>,
    ) -> Result<T, ShopError> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// One page of the rows that `sql` selects.
    pub(crate) fn page<T: DeserializeOwned>(
        &self,
        sql: &str,
        filter: &[&dyn ToSql],
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<Page<T>, ShopError> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(ShopError::Invalid(format!("invalid limit: expected 1 to {MAX_LIMIT}, got {limit}")));
        }
        let offset = cursor.map_or(Ok(0), str::parse::<u32>);
        let offset = offset.map_err(|_| {
            let cursor = cursor.unwrap_or_default();
            ShopError::Invalid(format!("unknown cursor {cursor:?}; use the next_cursor of the previous page"))
        })?;
        self.transaction(|db| {
            let total = db.query_row(&format!("SELECT count(*) FROM ({sql})"), filter, |row| row.get(0))?;
            let items = rows(db, &format!("{sql} LIMIT {limit} OFFSET {offset}"), filter)?;
            let next = offset.saturating_add(limit);
            Ok(Page { items, total, next_cursor: (next < total).then(|| next.to_string()) })
        })
    }
}

/// One page of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page<T> {
    items: Vec<T>,
    /// How many there are on all pages
    total: u32,
    /// Pass it as `cursor` for the next page; null on the last one
    next_cursor: Option<String>,
}

/// The rows that `sql` selects, as objects with one member per column.
pub(crate) fn rows<T: DeserializeOwned>(
    db: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Vec<T>, ShopError> {
    let mut statement = db.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query(parameters)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let mut record = Map::new();
        for (at, column) in columns.iter().enumerate() {
            record.insert(column.clone(), json(row.get_ref(at)?));
        }
        records.push(serde_json::from_value(Json::Object(record))?);
    }
    Ok(records)
}

/// The first record of [`rows`]; if there is none, an error with the message `missing`.
pub(crate) fn row<T: DeserializeOwned>(
    db: &Connection,
    sql: &str,
    parameters: impl Params,
    missing: impl FnOnce() -> String,
) -> Result<T, ShopError> {
    rows(db, sql, parameters)?.into_iter().next().ok_or_else(|| ShopError::Invalid(missing()))
}

fn json(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => Json::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
    }
}

/// The name of a variant, which is the same in the database and in JSON.
pub(crate) fn name(variant: Option<impl Serialize>) -> Option<String> {
    let name = serde_json::to_value(variant).ok()?;
    name.as_str().map(str::to_owned)
}

/// Checks the argument `name`, if present.
pub(crate) fn check_date(db: &Connection, name: &str, date: Option<&str>) -> Result<(), ShopError> {
    let Some(date) = date else { return Ok(()) };
    // SQLite converts February 30 to March 2.
    if db.query_row("SELECT date(?1) IS ?1", [date], |row| row.get(0))? {
        return Ok(());
    }
    Err(ShopError::Invalid(format!("invalid {name}: expected a date such as {}, got {date:?}", terms::TODAY)))
}

/// The error of a tool that fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShopError {
    /// Invalid arguments, with the remedy.
    #[error("{0}")]
    Invalid(String),
    /// The database failed, which is a bug.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// A row does not match its record, which is a bug.
    #[error("invalid row in the database: {0}")]
    Record(#[from] serde_json::Error),
}

/// The error message as the text of a result with `isError`.
impl IntoContents for ShopError {
    fn into_contents(self) -> Vec<ContentBlock> {
        vec![ContentBlock::text(self.to_string())]
    }
}

const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 50;
