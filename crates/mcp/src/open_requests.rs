//! The requests of one program to a client of MCP 2026-07-28: they are part of results, and their answers part of later
//! requests (section "Multi Round-Trip Requests").

#![allow(deprecated)] // Sampling and roots: servers use them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientResult, CreateMessageResult, ElicitResult, InputRequest, InputRequests, InputResponses, ListRootsResult,
};
use serde_json::Value as Json;
use tokio::sync::{Notify, oneshot};

use crate::clients::Unanswered;

/// The requests of a program that its client has not answered. Cheap to clone; clones share the requests.
#[derive(Clone, Default)]
pub(crate) struct OpenRequests(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified of a new request.
    added: Notify,
}

#[derive(Default)]
struct State {
    /// The number of requests so far.
    count: u64,
    open: BTreeMap<String, Open>,
    /// Set when the client cannot be asked again.
    is_closed: bool,
}

struct Open {
    request: InputRequest,
    answer: oneshot::Sender<ClientResult>,
}

/// An answer that is not of the kind that its request requires.
#[derive(Debug, thiserror::Error)]
#[error("invalid `inputResponses`: {key}: {reason}")]
pub(crate) struct InvalidAnswer {
    key: String,
    reason: String,
}

impl OpenRequests {
    /// Adds a request, and waits for its answer. Dropping the future withdraws the request.
    pub(crate) async fn put(&self, request: InputRequest) -> Result<ClientResult, Unanswered> {
        let (answer, answered) = oneshot::channel();
        let key = {
            let mut state = self.lock();
            if state.is_closed {
                return Err(Unanswered::TooOften);
            }
            state.count += 1;
            let key = format!("request{}", state.count);
            state.open.insert(key.clone(), Open { request, answer });
            key
        };
        let _open = Withdrawal { requests: self, key };
        self.0.added.notify_one();
        answered.await.map_err(|_| Unanswered::TooOften)
    }

    /// All open requests, once there is one.
    pub(crate) async fn wait(&self) -> InputRequests {
        loop {
            let added = self.0.added.notified();
            let requests: InputRequests =
                self.lock().open.iter().map(|(key, open)| (key.clone(), open.request.clone())).collect();
            if !requests.is_empty() {
                return requests;
            }
            added.await;
        }
    }

    /// Passes answers to those who wait for them. Those of no open request are ignored. If one is invalid, none is passed on.
    pub(crate) fn answer(&self, answers: InputResponses) -> Result<(), InvalidAnswer> {
        let mut state = self.lock();
        let mut read = Vec::new();
        for (key, answer) in answers {
            if let Some(open) = state.open.get(&key) {
                let answer = typed(&open.request, answer).map_err(|error| error.to_string());
                read.push(match answer {
                    Ok(answer) => (key, answer),
                    Err(reason) => return Err(InvalidAnswer { key, reason }),
                });
            }
        }
        for (key, answer) in read {
            if let Some(open) = state.open.remove(&key) {
                let _ = open.answer.send(answer); // It may just have been withdrawn.
            }
        }
        Ok(())
    }

    /// Lets the open requests and all later ones fail.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.open.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the answer that a request requires.
fn typed(request: &InputRequest, answer: Json) -> serde_json::Result<ClientResult> {
    Ok(match request {
        InputRequest::Elicitation(_) => ClientResult::ElicitResult(serde_json::from_value::<ElicitResult>(answer)?),
        InputRequest::CreateMessage(_) => {
            ClientResult::CreateMessageResult(Box::new(serde_json::from_value::<CreateMessageResult>(answer)?))
        }
        _ => ClientResult::ListRootsResult(serde_json::from_value::<ListRootsResult>(answer)?),
    })
}

/// Removes a request when it is dropped.
struct Withdrawal<'a> {
    requests: &'a OpenRequests,
    key: String,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.requests.lock().open.remove(&self.key);
    }
}

/// How often a client is asked during one program: clients send a request at most ten times.
pub(crate) const MAX_ROUNDS: u32 = 9;
