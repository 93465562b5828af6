//! Events of executions, for an application that subscribes to them. They are dropped while it does not read, and counted.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use execbox::code::AttachedBytes;
use execbox::events::{CallEnd, CallInfo, Event, EventKind, LogEntry, Observer};

use crate::functions::write;
use crate::messages::{EventBody, EventCall, EventError, EventMessage, EventType};
use crate::outbox::Frame;
use crate::peer::Peer;
use crate::rpc::{self, RequestId};

/// The events of one execution that were dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dropped {
    all: Arc<AtomicU64>,
    /// Dropped events that the application has not been told of.
    untold: Arc<AtomicU64>,
}

impl Dropped {
    pub(crate) fn count(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }
}

/// An observer that sends the events of some types.
pub(crate) fn observer(types: &[EventType], peer: Peer, execution: Arc<RequestId>, dropped: Dropped) -> Observer {
    let types: HashSet<EventType> = types.iter().copied().collect();
    Observer::new(move |event| {
        if type_of(event).is_some_and(|of| types.contains(&of)) {
            send(event, &peer, &execution, &dropped);
        }
    })
}

fn send(event: &Event<'_>, peer: &Peer, execution: &RequestId, dropped: &Dropped) {
    let attached = RefCell::default();
    let Some(body) = body(&event.kind, peer, &attached) else { return };
    let untold = dropped.untold.swap(0, Ordering::Relaxed);
    let message = EventMessage { execution, dropped: untold, event: body };
    let text = rpc::request(None, "event", &message);
    let is_sent =
        text.is_ok_and(|text| peer.outbox().offer(Frame { text, attachments: attached.into_inner().into_inner() }));
    if !is_sent {
        dropped.all.fetch_add(1, Ordering::Relaxed);
        dropped.untold.fetch_add(untold + 1, Ordering::Relaxed);
    }
}

fn type_of(event: &Event<'_>) -> Option<EventType> {
    Some(match event.kind {
        EventKind::Accepted => EventType::Accepted,
        EventKind::Started => EventType::Started,
        EventKind::Log(_) => EventType::Log,
        EventKind::CallBegan { .. } => EventType::CallBegan,
        EventKind::CallProgress { .. } => EventType::CallProgress,
        EventKind::CallWaiting { .. } => EventType::CallWaiting,
        EventKind::CallResumed { .. } => EventType::CallResumed,
        EventKind::CallDecided { .. } => EventType::CallDecided,
        EventKind::CallEnded { .. } => EventType::CallEnded,
        EventKind::Reported(_) => EventType::Reported,
        EventKind::Ended(_) => EventType::Ended,
        _ => return None,
    })
}

fn body<'a>(kind: &EventKind<'a>, peer: &Peer, attached: &RefCell<AttachedBytes>) -> Option<EventBody<'a>> {
    Some(match *kind {
        EventKind::Accepted => EventBody::Accepted,
        EventKind::Started => EventBody::Started,
        EventKind::Log(LogEntry::Line(line)) => {
            EventBody::Log { level: line.level.as_str(), text: Some(&line.text), args: None }
        }
        EventKind::Log(LogEntry::ConsoleCall(entry)) => {
            let args = write(&entry.args, "args", peer, attached).ok();
            EventBody::Log { level: entry.level.as_str(), text: None, args }
        }
        EventKind::CallBegan { call, input_bytes, .. } => EventBody::CallBegan { call: of(call), input_bytes },
        EventKind::CallProgress { call, progress, .. } => EventBody::CallProgress {
            call: of(call),
            done: progress.done,
            total: progress.total,
            message: progress.message.as_deref(),
        },
        EventKind::CallWaiting { call, .. } => EventBody::CallWaiting { call: of(call) },
        EventKind::CallResumed { call, .. } => EventBody::CallResumed { call: of(call) },
        EventKind::CallDecided { call, verdict, waited, .. } => EventBody::CallDecided {
            call: of(call),
            verdict: verdict.as_str(),
            reason: verdict.reason(),
            waited_ms: ms(waited),
        },
        EventKind::CallEnded { call, duration, end, .. } => {
            let (bytes, error) = match end {
                CallEnd::Returned { bytes, .. } => (Some(bytes), None),
                CallEnd::Failed { code, message, .. } => (None, Some(EventError { code: code.as_str(), message })),
                _ => (None, None),
            };
            EventBody::CallEnded { call: of(call), duration_ms: ms(duration), bytes, error }
        }
        EventKind::Reported(report) => EventBody::Reported { value: write(report, "report", peer, attached).ok()? },
        EventKind::Ended(end) => EventBody::Ended { ok: end.is_ok() },
        _ => return None,
    })
}

fn of(call: CallInfo<'_>) -> EventCall<'_> {
    EventCall { call: call.id.0, provider: call.provider, name: call.name }
}

/// Milliseconds, to the microsecond.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
