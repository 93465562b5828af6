//! The messages of a thread: a role and content, in the order in which they were added.

use rusqlite::{Transaction, params};
use serde::Serialize;
use serde_json::Value as Json;

use crate::error::{Named, Stored, ThreadError};
use crate::events::Origin;
use crate::limits::{PageBudget, check_name, check_size, page_rows, row_cost};
use crate::state::{ThreadRow, ThreadState, from_db, json_text, stored_json, to_db};

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its number in the thread: 1 is the first message. No number is used twice.
    pub seq: u64,
    /// Who speaks, by a word of the application's: `user`, `assistant` …
    pub role: String,
    /// What is said.
    pub content: Json,
    /// When it was added, in milliseconds since 1970.
    pub created_at: u64,
}

/// Which messages [`ThreadState::get_messages`] gives: by default the latest 100.
#[derive(Debug, Clone, Default)]
pub struct MessageQuery {
    /// Only those after this number, and of these the earliest.
    pub after: Option<u64>,
    /// Only those before this number. Without `after`, of these the latest.
    pub before: Option<u64>,
    /// Only those of these roles; of all roles if it is empty.
    pub roles: Vec<String>,
    /// At most so many: 100 by default, and never more than 1 000.
    pub limit: Option<u32>,
}

impl ThreadState {
    /// Adds a message.
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

    /// Messages, in the order in which they were added.
    ///
    /// There may be fewer than asked for, where more would exceed [`page_bytes`](crate::ThreadLimits::page_bytes); there is
    /// none only where no further one matches.
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
                if !budget.has_room_for(content.len()) {
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

    /// Deletes the messages up to and including that number. How many there were.
    pub async fn delete_messages(&self, up_to: u64) -> Result<u64, ThreadError> {
        self.write(Origin::Host, move |transaction, row| row.delete_up_to(transaction, "messages", up_to)).await
    }
}
