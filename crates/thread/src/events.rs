//! The events of a thread: an append-only log with subscriptions.

use std::collections::VecDeque;

use rusqlite::{Transaction, params};
use serde::Serialize;
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::error::{Named, Stored, ThreadError};
use crate::origin::Origin;
use crate::rows::{PageBudget, check_name, check_size, from_db, json_text, page_rows, row_cost, stored_json, to_db};
use crate::state::{ThreadRow, ThreadState};

/// An entry of a thread's event log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ThreadEvent {
    /// The sequence number in the thread, from 1. Numbers are never reused.
    pub seq: u64,
    /// The name, as chosen by the emitter.
    pub name: String,
    /// The payload. `null` if a guest emitted the event without data.
    pub data: Json,
    /// The emitter: the application or guest code.
    pub origin: Origin,
    /// The time of emission, in milliseconds since 1970.
    pub created_at: u64,
}

/// Selects events for [`ThreadState::events`]; by default the first 100.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EventQuery {
    /// Only events after this number.
    pub after: u64,
    /// The most entries to return. Default 100, at most 1 000.
    pub limit: Option<u32>,
}

impl EventQuery {
    execbox_core::setters! {
        after: u64,
        limit: impl Into<Option<u32>>,
    }
}

impl ThreadState {
    /// Appends an event and notifies [subscriptions](Self::subscribe).
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

    /// Returns events in the order of their numbers.
    ///
    /// Returns fewer than the limit if more would exceed [`page_bytes`](crate::ThreadLimits::page_bytes), and none only if
    /// there are no further events.
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
                if !budget.take(data.len()) {
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

    /// Deletes the events up to and including `up_to`. Returns how many were deleted.
    pub async fn delete_events(&self, up_to: u64) -> Result<u64, ThreadError> {
        self.write(Origin::Host, move |transaction, row| row.delete_up_to(transaction, "events", up_to)).await
    }

    /// Subscribes to the events after number `after`, both existing and future ones; 0 starts at the first event. Slow
    /// subscribers miss none. Events that another process writes to the same file are seen after the next event of this
    /// store.
    pub fn subscribe(&self, after: u64) -> EventSubscription {
        let signal = self.store.signals.listen(&self.id);
        EventSubscription { thread: self.clone(), after, read: VecDeque::new(), signal }
    }
}

/// A stream of events. See [`ThreadState::subscribe`].
#[derive(Debug)]
pub struct EventSubscription {
    thread: ThreadState,
    after: u64,
    /// Events that were read but not returned yet.
    read: VecDeque<ThreadEvent>,
    signal: watch::Receiver<()>,
}

impl EventSubscription {
    /// Waits for the next event. Returns `None` after the thread was deleted or the store closed. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<ThreadEvent>, ThreadError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.after = event.seq;
                return Ok(Some(event));
            }
            if self.signal.has_changed().is_err() {
                return Ok(None);
            }
            self.signal.mark_unchanged(); // before reading, so that an event emitted meanwhile is not missed
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
