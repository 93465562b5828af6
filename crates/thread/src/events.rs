//! The events of a thread: a log that is only added to, and that can be followed while it grows.

use std::collections::VecDeque;

use rusqlite::{Transaction, params};
use serde::Serialize;
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::error::{Named, Stored, ThreadError};
use crate::limits::{PageBudget, check_name, check_size, page_rows, row_cost};
use crate::state::{ThreadRow, ThreadState, from_db, json_text, stored_json, to_db};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadEvent {
    /// Its number in the thread: 1 is the first event. No number is used twice.
    pub seq: u64,
    /// What happened.
    pub name: String,
    /// Whatever belongs to it.
    pub data: Json,
    /// Who says so.
    pub origin: Origin,
    /// When it was emitted, in milliseconds since 1970.
    pub created_at: u64,
}

/// Who did something. Nothing that guest code writes can change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The application: [`ThreadState::emit`].
    Host,
    /// Guest code, through a [bridge](crate::Bridge).
    Guest,
}

/// Which events [`ThreadState::events`] gives: by default the first 100.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only those after this number.
    pub after: u64,
    /// At most so many: 100 by default, and never more than 1 000.
    pub limit: Option<u32>,
}

impl ThreadState {
    /// Adds an event, and wakes those who [follow](Self::subscribe) the thread.
    ///
    /// # Errors
    /// A name is 1 to 256 bytes without control characters; data is bounded by
    /// [`event_bytes`](crate::ThreadLimits::event_bytes), and nests at most 100 levels.
    pub async fn emit(&self, name: impl Into<String>, data: Json) -> Result<ThreadEvent, ThreadError> {
        self.emit_from(Origin::Host, name.into(), data).await
    }

    pub(crate) async fn emit_from(&self, origin: Origin, name: String, data: Json) -> Result<ThreadEvent, ThreadError> {
        check_name(Named::Event, &name)?;
        let text = json_text(&data, "data")?;
        check_size(Stored::Event, text.len(), self.store.limits.event_bytes)?;
        let add = move |transaction: &Transaction<'_>, row: &mut ThreadRow| {
            let (seq, bytes) = (row.next_event(), row_cost(name.len() + text.len()));
            row.count(0, bytes)?;
            transaction.execute(
                "INSERT INTO events (thread, seq, created_at, bytes, from_guest, name, data) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![row.thread, seq, row.now, to_db(bytes), origin == Origin::Guest, name, text],
            )?;
            Ok(ThreadEvent { seq: from_db(seq)?, name, data, origin, created_at: from_db(row.now)? })
        };
        self.write(origin, add).await
    }

    /// Events, in the order in which they were emitted.
    ///
    /// There may be fewer than asked for, where more would exceed [`page_bytes`](crate::ThreadLimits::page_bytes); there is
    /// none only where there is no further one.
    pub async fn events(&self, query: EventQuery) -> Result<Vec<ThreadEvent>, ThreadError> {
        let limits = self.store.limits;
        self.read(move |connection, thread| {
            let sql = "SELECT seq, name, created_at, from_guest, data FROM events WHERE thread = ?1 AND seq > ?2 \
                       ORDER BY seq LIMIT ?3";
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query(params![thread, to_db(query.after), page_rows(query.limit)])?;
            let (mut events, mut budget) = (Vec::new(), PageBudget::new(&limits));
            while let Some(row) = rows.next()? {
                let data: String = row.get(4)?;
                if !budget.has_room_for(data.len()) {
                    break;
                }
                let (seq, created_at) = (from_db(row.get(0)?)?, from_db(row.get(2)?)?);
                let origin = if row.get(3)? { Origin::Guest } else { Origin::Host };
                events.push(ThreadEvent { seq, name: row.get(1)?, data: stored_json(&data)?, origin, created_at });
            }
            Ok(events)
        })
        .await
    }

    /// Deletes the events up to and including that number. How many there were.
    pub async fn delete_events(&self, up_to: u64) -> Result<u64, ThreadError> {
        self.write(Origin::Host, move |transaction, row| row.delete_up_to(transaction, "events", up_to)).await
    }

    /// Follows the events after that number (0: from the first), those that are there and those to come. Nobody who is slow
    /// misses one. Events that other programs emit in the same file are seen with the next one that this store emits.
    pub fn subscribe(&self, after: u64) -> EventSubscription {
        let signal = self.store.signals.listen(&self.id);
        EventSubscription { thread: self.clone(), after, read: VecDeque::new(), signal }
    }
}

/// Events as they come. See [`ThreadState::subscribe`].
#[derive(Debug)]
pub struct EventSubscription {
    thread: ThreadState,
    after: u64,
    /// Events that were read and not yet given.
    read: VecDeque<ThreadEvent>,
    signal: watch::Receiver<()>,
}

impl EventSubscription {
    /// The next event; waits for it. `None` when the thread was deleted or the store closed. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Option<ThreadEvent>, ThreadError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.after = event.seq;
                return Ok(Some(event));
            }
            if self.signal.has_changed().is_err() {
                return Ok(None);
            }
            self.signal.mark_unchanged(); // before reading: what comes while it is read is seen by the next look
            let query = EventQuery { after: self.after, limit: None };
            self.read = match self.thread.events(query).await {
                Ok(events) => events.into(),
                Err(ThreadError::Closed) => return Ok(None),
                Err(error) => return Err(error),
            };
            if self.read.is_empty() && self.signal.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}
