//! Progress of a program or a call, and log messages of servers, as notifications for the request of its client.

#![allow(deprecated)] // Log messages: servers send them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use execbox::CancellationToken;
use execbox::events::{Awaited, CallInfo, EventKind, LogEntry, Observer, ToolProgress};
use rmcp::model::{
    GetExtensions as _, LoggingMessageNotificationParam, Notification, ProgressNotificationParam, ProgressToken,
    RequestId, ServerNotification,
};
use rmcp::service::{OriginatingRequestId, Peer, RequestContext, RoleServer};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::run::Caller;
use crate::Secrets;
use crate::text::{shown, truncate};

/// The request of a client that receives the progress of a program, if there is one now. Cheap to clone; clones share it.
#[derive(Clone)]
pub(super) struct Recipient(Arc<Mutex<Option<Receiver>>>);

#[derive(Clone)]
struct Receiver {
    peer: Peer<RoleServer>,
    request: RequestId,
    /// `None` if the request does not request progress.
    token: Option<ProgressToken>,
}

impl Receiver {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let RequestContext { peer, id, meta, .. } = context;
        Self { peer: peer.clone(), request: id.clone(), token: meta.get_progress_token() }
    }
}

impl Recipient {
    /// `None` if the request requests no progress, and its client no log messages.
    pub(super) fn new(context: &RequestContext<RoleServer>, wants_logs: bool) -> Option<Self> {
        let receiver = Receiver::of(context);
        let is_wanted = wants_logs || receiver.token.is_some();
        is_wanted.then(|| Self(Arc::new(Mutex::new(Some(receiver)))))
    }

    /// Sends further progress to another request, or to none.
    pub(super) fn set(&self, context: Option<&RequestContext<RoleServer>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = context.map(Receiver::of);
    }

    fn current(&self) -> Option<Receiver> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends what an observer sees as progress, if the client has requested progress.
pub(super) struct Reporting(Option<Progress>, Arc<AtomicBool>);

/// What one notification shows.
struct Note {
    /// As the tool reports it. `None` in a program, whose notifications are counted.
    reported: Option<(f64, Option<f64>)>,
    text: Option<String>,
}

/// Sends notes to a client. If the client does not read them, or no request receives them, notes are dropped, and the program
/// is not delayed.
struct Progress {
    recipient: Recipient,
    notes: mpsc::Receiver<Note>,
    logs: Option<mpsc::Receiver<LoggingMessageNotificationParam>>,
    sent: u32,
    /// Whether it is sent that a program still runs.
    has_heartbeat: bool,
}

impl Reporting {
    /// Reports log lines, calls of tools and their progress, and after each pause of [`HEARTBEAT`], whether the program runs or
    /// waits, and for how long.
    pub(super) fn of_program(caller: &Caller, secrets: &Secrets) -> (Option<Observer>, Self) {
        Self::new(caller, secrets, true, |event, secrets| {
            program_line(event, secrets).map(|line| Note { reported: None, text: Some(line) })
        })
    }

    /// Reports the progress of a single call as its tool does.
    pub(super) fn of_call(caller: &Caller, secrets: &Secrets) -> (Option<Observer>, Self) {
        Self::new(caller, secrets, false, |event, secrets| {
            let EventKind::CallProgress { progress: ToolProgress { done, total, message, .. }, .. } = event else {
                return None;
            };
            let text = message.clone().map(|message| truncate(secrets.redact(message), MAX_LINE));
            Some(Note { reported: Some((*done, *total)), text })
        })
    }

    fn new(
        caller: &Caller,
        secrets: &Secrets,
        has_heartbeat: bool,
        note: impl Fn(&EventKind<'_>, &Secrets) -> Option<Note> + Send + Sync + 'static,
    ) -> (Option<Observer>, Self) {
        let Some(recipient) = caller.progress.clone() else { return (None, Self(None, Arc::default())) };
        let (sender, notes) = mpsc::channel(MAX_QUEUED);
        let secrets = secrets.clone();
        let observer = Observer::new(move |event| {
            if let Some(note) = note(&event.kind, &secrets) {
                let _ = sender.try_send(note);
            }
        });
        let logs = caller.logs.lock().unwrap_or_else(PoisonError::into_inner).take();
        (Some(observer), Self(Some(Progress { recipient, notes, logs, sent: 0, has_heartbeat }), Arc::default()))
    }

    /// Set when the program no longer waits for others.
    pub(super) fn started(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.1)
    }

    /// Sends progress while `running` is polled. The last note is sent before this returns: otherwise, the result would overtake
    /// it.
    pub(super) async fn during<T>(self, running: impl Future<Output = T>) -> T {
        let Self(Some(mut progress), started) = self else { return running.await };
        let ended = CancellationToken::new();
        let running = async {
            let result = running.await;
            ended.cancel();
            result
        };
        tokio::join!(running, progress.follow(&started, &ended)).0
    }
}

impl Progress {
    /// Sends notes as they come, until the execution has ended and all its notes are sent.
    async fn follow(&mut self, started: &AtomicBool, ended: &CancellationToken) {
        let began = Instant::now();
        loop {
            let note = tokio::select! {
                biased;
                Some(note) = self.notes.recv() => note,
                Some(message) = received(&mut self.logs) => {
                    self.log(message).await;
                    continue;
                }
                () = ended.cancelled() => return,
                () = tokio::time::sleep(HEARTBEAT), if self.has_heartbeat => {
                    let state = if started.load(Ordering::Relaxed) { "running" } else { "waiting for other programs" };
                    Note { reported: None, text: Some(format!("{state} for {} s", began.elapsed().as_secs())) }
                }
            };
            self.send(note).await;
        }
    }

    /// Sends a note, its text made visible and truncated. All texts of progress are sent by this function.
    async fn send(&mut self, note: Note) {
        let Some(Receiver { peer, token: Some(token), .. }) = self.recipient.current() else { return };
        self.sent += 1;
        let (done, total) = note.reported.unwrap_or((f64::from(self.sent), None));
        let mut progress = ProgressNotificationParam::new(token, done);
        progress.total = total;
        progress.message = note.text.map(|text| shown(text, MAX_LINE));
        let _ = peer.notify_progress(progress).await;
    }
}

impl Progress {
    async fn log(&self, message: LoggingMessageNotificationParam) {
        let Some(Receiver { peer, request, .. }) = self.recipient.current() else { return };
        let mut notification = ServerNotification::LoggingMessageNotification(Notification::new(message));
        // Over HTTP, it is sent in the response stream of the request.
        notification.extensions_mut().insert(OriginatingRequestId(request));
        let _ = peer.send_notification(notification).await;
    }
}

/// The next message; never without a receiver.
async fn received<T>(messages: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match messages {
        Some(messages) => messages.recv().await,
        None => std::future::pending().await,
    }
}

/// The progress line of an event in a program, without secrets; `None` if the event is not shown.
fn program_line(event: &EventKind<'_>, secrets: &Secrets) -> Option<String> {
    Some(match event {
        EventKind::Log(LogEntry::Line(line)) => truncate(secrets.redact(line.text.clone()), MAX_LINE),
        EventKind::CallBegan { call, .. } => format!("calling {call}"),
        EventKind::CallProgress { call, progress, .. } => progress_text(call, progress),
        EventKind::CallWaiting { call, awaited: Awaited::Approval, .. } => format!("waiting for approval of {call}"),
        EventKind::CallWaiting { call, .. } => format!("waiting for an answer of the user to {call}"),
        _ => return None,
    })
}

/// `shop.import: 40 of 100: reading orders`.
fn progress_text(call: &CallInfo<'_>, progress: &ToolProgress) -> String {
    let ToolProgress { done, total, message, .. } = progress;
    let mut text = format!("{call}: {done}");
    text.extend(total.map(|total| format!(" of {total}")));
    text.extend(message.as_ref().map(|message| format!(": {message}")));
    truncate(text, MAX_LINE)
}

/// The longest pause between two progress notifications of a program: clients with a timeout since the last one keep waiting.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The maximum number of queued notes, and the maximum length of each, in characters.
const MAX_QUEUED: usize = 256;
const MAX_LINE: usize = 500;
