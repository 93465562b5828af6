//! The calls in progress over a connection: the progress and the log messages of servers, and the clients of the calls.

#![allow(deprecated)] // Log messages: servers send them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use execbox::events::ToolProgress;
use execbox::{ToolContext, WaitForPerson};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};

use super::requests::Asker;
use crate::Secrets;
use crate::clients::Origin;
use crate::text::{json_exceeds, make_json_visible, truncate};

/// The calls over a connection whose progress is reported. Cheap to clone; clones share the calls.
#[derive(Clone, Default)]
pub(super) struct CallsInProgress(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    calls: HashMap<ProgressToken, Reported>,
    /// The number of calls that are being sent. A server may report something before they are registered.
    sending: usize,
    /// What was reported while calls were being sent.
    early: VecDeque<Early>,
}

enum Early {
    Progress(ProgressNotificationParam),
    Log(LoggingMessageNotificationParam),
}

/// A call that is being sent, until this is dropped.
pub(super) struct Sending(CallsInProgress);

impl Drop for Sending {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.sending -= 1;
        if state.sending == 0 {
            state.early.clear();
        }
    }
}

struct Reported {
    context: ToolContext,
    secrets: Secrets,
    /// When a report was last passed on, and for how many more there is room.
    last: Instant,
    room: u32,
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
    /// Keeps what the server reports until the call is registered.
    pub(super) fn sending(&self) -> Sending {
        let mut state = self.lock();
        state.sending += 1;
        if state.sending > 1 {
            // Log messages may belong to the other call, of another client.
            state.early.retain(|report| matches!(report, Early::Progress(_)));
        }
        drop(state);
        Sending(self.clone())
    }

    /// Registers a call that was just sent, so that its progress is reported.
    pub(super) fn register(&self, token: ProgressToken, context: ToolContext, secrets: &Secrets) -> InProgress {
        let call = Reported { context, secrets: secrets.clone(), last: Instant::now(), room: MAX_BURST };
        let early = {
            let mut state = self.lock();
            state.calls.insert(token.clone(), call);
            std::mem::take(&mut state.early)
        };
        for report in early {
            match report {
                Early::Progress(progress) => self.report(progress),
                Early::Log(message) => self.log(message),
            }
        }
        InProgress { calls: self.clone(), token }
    }

    /// Passes on a report of a server about a registered call. Reports of one call that follow one another too quickly are dropped.
    pub(super) fn report(&self, progress: ProgressNotificationParam) {
        let now = Instant::now();
        let (context, secrets) = {
            let mut state = self.lock();
            let Some(call) = state.calls.get_mut(&progress.progress_token) else {
                return state.keep(Early::Progress(progress));
            };
            let regained = u32::try_from((now - call.last).as_millis() / PAUSE.as_millis()).unwrap_or(MAX_BURST);
            if regained > 0 {
                call.room = call.room.saturating_add(regained).min(MAX_BURST);
                call.last = now;
            }
            let Some(room) = call.room.checked_sub(1) else { return };
            call.room = room;
            (call.context.clone(), call.secrets.clone())
        };
        let message = progress.message.map(|message| truncate(secrets.redact(message), MAX_MESSAGE));
        context.report(&ToolProgress::new(progress.progress).total(progress.total).message(message));
    }

    /// Passes on a log message, if the calls in progress are of one client: the message does not name the call that it belongs to.
    /// The logger has the namespace of the server.
    pub(super) fn log(&self, mut message: LoggingMessageNotificationParam) {
        let mut state = self.lock();
        match (state.calls.is_empty(), state.sending) {
            (_, 0) => {}
            (true, 1) => return state.keep(Early::Log(message)),
            _ => return, // It may belong to the call that is being sent, or to another one.
        }
        let calls = &state.calls;
        let origin = |call: &Reported| call.context.attached::<Origin>().cloned();
        let Some((first, found)) = calls.values().next().and_then(|call| Some((call, origin(call)?))) else { return };
        let is_same = |call: &Reported| origin(call).is_some_and(|origin| origin.client == found.client);
        let Some(logs) = found.logs.as_ref().filter(|logs| severity(message.level) >= severity(logs.level)) else {
            return;
        };
        if !calls.values().all(is_same) || json_exceeds(&message, MAX_LOG) {
            return;
        }
        let server = &first.context.provider;
        message.logger = Some(match message.logger {
            Some(logger) => format!("{server}.{}", truncate(logger, MAX_LOGGER)),
            None => server.to_string(),
        });
        first.secrets.redact_json(&mut message.data);
        make_json_visible(&mut message.data);
        message.meta = None;
        let _ = logs.messages.try_send(message);
    }

    /// The calls, if there are any and all are of one client: a request of a server does not name the call that it belongs to.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let state = self.lock();
        let calls = &state.calls;
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

    /// Whether a call is being sent, which is not registered yet.
    pub(super) fn is_sending(&self) -> bool {
        self.lock().sending > 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, report: Early) {
        if self.sending > 0 && self.early.len() < MAX_EARLY && !report.is_long() {
            self.early.push_back(report);
        }
    }
}

impl Early {
    fn is_long(&self) -> bool {
        match self {
            Self::Progress(progress) => json_exceeds(progress, MAX_LOG),
            Self::Log(message) => json_exceeds(message, MAX_LOG),
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.calls.lock().calls.remove(&self.token);
    }
}

impl fmt::Debug for CallsInProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallsInProgress").finish_non_exhaustive()
    }
}

fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

/// How many early reports are kept.
const MAX_EARLY: usize = 64;

/// The longest log message, in bytes of JSON, and the longest name of a logger, in characters.
const MAX_LOG: usize = 64 << 10;
const MAX_LOGGER: usize = 200;

/// The time between two reports of a call, on average, and how many may come at once.
const PAUSE: Duration = Duration::from_millis(100);
const MAX_BURST: u32 = 16;

/// The maximum length of the message of a report, in characters.
const MAX_MESSAGE: usize = 500;
