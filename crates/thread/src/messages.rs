//! The messages of a thread: a role and content each, in insertion order.

use rusqlite::{Transaction, params};
use serde::Serialize;
use serde_json::Value as Json;

use crate::error::{Named, Stored, ThreadError};
use crate::origin::Origin;
use crate::rows::{PageBudget, check_name, check_size, from_db, json_text, page_rows, row_cost, stored_json, to_db};
use crate::state::{ThreadRow, ThreadState};

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Message {
    /// The sequence number in the thread, from 1. Numbers are never reused.
    pub seq: u64,
    /// The role, as chosen by the application: `user`, `assistant` …
    pub role: String,
    /// The content: any JSON value.
    pub content: Json,
    /// The time of insertion, in milliseconds since 1970.
    pub created_at: u64,
}

/// Selects messages for [`ThreadState::get_messages`]; by default the latest 100.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MessageQuery {
    /// Only messages after this number, earliest first.
    pub after: Option<u64>,
    /// Only messages before this number. Without `after`, the latest of them.
    pub before: Option<u64>,
    /// Only messages with one of these roles. Empty: all roles.
    pub roles: Vec<String>,
    /// The most entries to return. Default 100, at most 1 000.
    pub limit: Option<u32>,
}

impl MessageQuery {
    execbox_core::setters! {
        after: impl Into<Option<u64>>,
        before: impl Into<Option<u64>>,
        roles: Vec<String>,
        limit: impl Into<Option<u32>>,
    }
}

impl ThreadState {
    /// Appends a message and returns it with its number.
    ///
    /// # Errors
    /// A role is 1 to 256 bytes without control characters; content is bounded by
    /// [`message_bytes`](crate::ThreadLimits::message_bytes), and nests at most 100 levels.
    pub async fn add_message(&self, role: impl Into<String>, content: Json) -> Result<Message, ThreadError> {
        let role = role.into();
        check_name(Named::Role, &role)?;
        let text = json_text(&content, "content")?;
        check_size(Stored::Message, text.len(), self.store.limits.message_bytes)?;
        let add = move |transaction: &Transaction<'_>, row: &mut ThreadRow| {
            let (seq, bytes) = (row.next_message(), row_cost(role.len() + text.len()));
            row.count(0, bytes)?;
            transaction.execute(
                "INSERT INTO messages (thread, seq, created_at, bytes, role, content) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![row.thread, seq, row.now, to_db(bytes), role, text],
            )?;
            Ok(Message { seq: from_db(seq)?, role, content, created_at: from_db(row.now)? })
        };
        self.write(Origin::Host, add).await
    }

    /// Returns messages in insertion order.
    ///
    /// Returns fewer than the limit if more would exceed [`page_bytes`](crate::ThreadLimits::page_bytes), and none only if
    /// no message matches.
    pub async fn get_messages(&self, query: MessageQuery) -> Result<Vec<Message>, ThreadError> {
        let limits = self.store.limits;
        self.read(move |connection, thread| {
            let earliest_first = query.after.is_some();
            let of_roles = if query.roles.is_empty() { "" } else { "AND role IN (SELECT value FROM json_each(?5))" };
            let order = if earliest_first { "ASC" } else { "DESC" };
            let sql = format!(
                "SELECT seq, role, created_at, content FROM messages \
                 WHERE thread = ?1 AND seq > ?2 AND seq < ?3 {of_roles} ORDER BY seq {order} LIMIT ?4"
            );
            let (after, before) = (to_db(query.after.unwrap_or(0)), to_db(query.before.unwrap_or(u64::MAX)));
            let (limit, roles) = (page_rows(query.limit), Json::from(query.roles).to_string());
            let mut statement = connection.prepare(&sql)?;
            let mut rows = if of_roles.is_empty() {
                statement.query(params![thread, after, before, limit])?
            } else {
                statement.query(params![thread, after, before, limit, roles])?
            };
            let (mut messages, mut budget) = (Vec::new(), PageBudget::new(&limits));
            while let Some(row) = rows.next()? {
                let content: String = row.get(3)?;
                if !budget.take(content.len()) {
                    break;
                }
                let (seq, created_at) = (from_db(row.get(0)?)?, from_db(row.get(2)?)?);
                messages.push(Message { seq, role: row.get(1)?, content: stored_json(&content)?, created_at });
            }
            if !earliest_first {
                messages.reverse();
            }
            Ok(messages)
        })
        .await
    }

    /// Deletes the messages up to and including `up_to`. Returns how many were deleted.
    pub async fn delete_messages(&self, up_to: u64) -> Result<u64, ThreadError> {
        self.write(Origin::Host, move |transaction, row| row.delete_up_to(transaction, "messages", up_to)).await
    }
}
