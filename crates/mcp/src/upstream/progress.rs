//! The calls in progress over a connection: the progress that servers report, and the clients of the calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use execbox::events::ToolProgress;
use execbox::{ToolContext, WaitForPerson};
use rmcp::model::{ProgressNotificationParam, ProgressToken};

use super::requests::Asker;
use crate::Secrets;
use crate::clients::Origin;
use crate::text::truncate;

/// The calls over a connection whose progress is reported. Cheap to clone; clones share the calls.
#[derive(Clone, Default)]
pub(super) struct CallsInProgress(Arc<Mutex<HashMap<ProgressToken, Reported>>>);

struct Reported {
    context: ToolContext,
    secrets: Secrets,
    /// When progress was last reported.
    last: Option<Instant>,
}

/// The calls of one client. Marks them as waiting for a person until it is dropped.
pub(super) struct Waiting {
    pub(super) origin: Origin,
    /// The name of the server in code.
    pub(super) server: Arc<str>,
    pub(super) secrets: Secrets,
    _calls: Vec<WaitForPerson>,
}

impl Waiting {
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker { server: &self.server, origin: &self.origin, secrets: &self.secrets }
    }

    /// A single call. `None` if no client has started its program.
    pub(super) fn of_call(context: &ToolContext, secrets: &Secrets) -> Option<Self> {
        let (origin, server) = (context.attached::<Origin>()?.clone(), Arc::clone(&context.provider));
        Some(Self { origin, server, secrets: secrets.clone(), _calls: vec![context.wait_for_person()] })
    }
}

/// The registration of a call, which ends when it is dropped.
pub(super) struct InProgress {
    calls: CallsInProgress,
    token: ProgressToken,
}

impl CallsInProgress {
    /// Registers a call that was just sent, so that its progress is reported. Earlier reports of the server are lost.
    pub(super) fn register(&self, token: ProgressToken, context: ToolContext, secrets: &Secrets) -> InProgress {
        let call = Reported { context, secrets: secrets.clone(), last: None };
        self.lock().insert(token.clone(), call);
        InProgress { calls: self.clone(), token }
    }

    /// Passes on a report of a server about a registered call. A report that follows another one of the same call too
    /// quickly is dropped.
    pub(super) fn report(&self, progress: ProgressNotificationParam) {
        let now = Instant::now();
        let (context, secrets) = {
            let mut calls = self.lock();
            let Some(call) = calls.get_mut(&progress.progress_token) else { return };
            if call.last.is_some_and(|last| now - last < PAUSE) {
                return;
            }
            call.last = Some(now);
            (call.context.clone(), call.secrets.clone())
        };
        let message = progress.message.map(|message| truncate(secrets.redact(message), MAX_MESSAGE));
        context.report(&ToolProgress { done: progress.progress, total: progress.total, message });
    }

    /// The calls, if there are any and all are of one client: a request of a server does not name the call that it belongs to.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let calls = self.lock();
        let origin = |call: &Reported| call.context.attached::<Origin>().cloned();
        let first = calls.values().next()?;
        let (found, server, secrets) = (origin(first)?, Arc::clone(&first.context.provider), first.secrets.clone());
        let is_same = |call: &Reported| origin(call).is_some_and(|origin| origin.client == found.client);
        if !calls.values().all(is_same) {
            return None;
        }
        let waits = calls.values().map(|call| call.context.wait_for_person());
        Some(Waiting { origin: found, server, secrets, _calls: waits.collect() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, Reported>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.token);
    }
}

impl fmt::Debug for CallsInProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallsInProgress").finish_non_exhaustive()
    }
}

/// The shortest time between two reports of a call.
const PAUSE: Duration = Duration::from_millis(100);

/// The maximum length of the message of a report, in characters.
const MAX_MESSAGE: usize = 500;
