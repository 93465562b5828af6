//! The observers of one execution. They receive an end for each beginning.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use execbox_core::engine::CallId;

use super::{Awaited, CallEnd, CallInfo, Event, EventKind, ExecutionEnd, ExecutionId, Observer, ToolProgress, Verdict};

/// The observers of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observers {
    observers: Vec<Observer>,
    /// The execution that this one is an attempt of: its acceptance and its end are observed there.
    attempt_of: Option<ExecutionId>,
}

impl Observers {
    pub(crate) fn add(&mut self, observer: Observer) {
        self.observers.push(observer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.observers.is_empty()
    }

    /// The same observers, for an attempt of `execution`.
    pub(crate) fn for_attempt(&self, execution: &Span) -> Self {
        Self { observers: self.observers.clone(), attempt_of: Some(execution.observation.execution) }
    }

    /// Replaces all observers by one, if there are any.
    pub(crate) fn replaced_by(self, observer: Observer) -> Self {
        if self.is_empty() { self } else { Self { observers: vec![observer], ..self } }
    }

    /// Begins an execution.
    pub(crate) fn begin(&self) -> Span {
        let observers = (!self.is_empty()).then(|| Arc::from(self.observers.as_slice()));
        let execution = self.attempt_of.unwrap_or_else(next_execution);
        let span = Span { observation: Observation { execution, observers }, has_end: self.attempt_of.is_none() };
        if span.has_end {
            span.observation.emit(EventKind::Accepted);
        }
        span
    }
}

fn next_execution() -> ExecutionId {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    ExecutionId(COUNT.fetch_add(1, Ordering::Relaxed))
}

/// An execution that has begun. Dropping it reports that the execution was dropped.
#[derive(Debug)]
pub(crate) struct Span {
    observation: Observation,
    /// Whether the end is still to be reported.
    has_end: bool,
}

impl Span {
    pub(crate) fn observation(&self) -> &Observation {
        &self.observation
    }

    pub(crate) fn end(mut self, end: ExecutionEnd<'_>) {
        if std::mem::take(&mut self.has_end) {
            self.observation.emit(EventKind::Ended(end));
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if self.has_end {
            self.observation.emit(EventKind::Ended(ExecutionEnd::Dropped));
        }
    }
}

/// Reports what happens in one execution to its observers. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    execution: ExecutionId,
    /// `None` if there are no observers.
    observers: Option<Arc<[Observer]>>,
}

/// An execution without observers.
impl Default for Observation {
    fn default() -> Self {
        Self { execution: next_execution(), observers: None }
    }
}

impl Observation {
    pub(crate) fn execution(&self) -> ExecutionId {
        self.execution
    }

    pub(crate) fn emit(&self, kind: EventKind<'_>) {
        let event = Event { execution: self.execution, kind };
        self.observers.iter().flat_map(|observers| observers.iter()).for_each(|observer| observer.observe(&event));
    }

    /// Begins a call. The size of its input is computed only if there are observers.
    pub(crate) fn begin_call(
        &self,
        id: CallId,
        provider: Option<&Arc<str>>,
        name: &str,
        input_bytes: impl FnOnce() -> usize,
    ) -> CallSpan {
        if self.observers.is_none() {
            return CallSpan::default();
        }
        let call = CallState {
            observation: self.clone(),
            id,
            provider: provider.cloned(),
            name: name.into(),
            began: Instant::now(),
            ended: AtomicBool::new(false),
        };
        self.emit(EventKind::CallBegan { call: call.call(), input_bytes: input_bytes() });
        CallSpan(CallHandle(Some(Arc::new(call))))
    }
}

/// Reports what happens to one call to the observers. Cheap to clone. After the end of the call, nothing is reported.
#[derive(Clone, Default)]
pub(crate) struct CallHandle(Option<Arc<CallState>>);

struct CallState {
    observation: Observation,
    id: CallId,
    provider: Option<Arc<str>>,
    name: Box<str>,
    began: Instant,
    ended: AtomicBool,
}

impl CallState {
    fn call(&self) -> CallInfo<'_> {
        CallInfo { id: self.id, provider: self.provider.as_deref(), name: &self.name }
    }

    fn end(&self, end: CallEnd<'_>) {
        self.ended.store(true, Ordering::Relaxed);
        self.observation.emit(EventKind::CallEnded { call: self.call(), duration: self.began.elapsed(), end });
    }
}

impl CallHandle {
    pub(crate) fn progress(&self, progress: &ToolProgress) {
        self.emit(|call| EventKind::CallProgress { call, progress });
    }

    pub(crate) fn waiting(&self, awaited: Awaited) {
        self.emit(|call| EventKind::CallWaiting { call, awaited });
    }

    pub(crate) fn resumed(&self) {
        self.emit(|call| EventKind::CallResumed { call });
    }

    pub(crate) fn decided(&self, verdict: Verdict<'_>, waited: Duration) {
        self.emit(|call| EventKind::CallDecided { call, verdict, waited });
    }

    fn emit<'a>(&'a self, kind: impl FnOnce(CallInfo<'a>) -> EventKind<'a>) {
        if let Some(call) = self.0.as_deref().filter(|call| !call.ended.load(Ordering::Relaxed)) {
            call.observation.emit(kind(call.call()));
        }
    }
}

impl fmt::Debug for CallHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallHandle({})", if self.0.is_some() { "…" } else { "" })
    }
}

/// A call that has begun. Dropping it reports that the call was dropped.
#[derive(Debug, Default)]
pub(crate) struct CallSpan(CallHandle);

impl CallSpan {
    pub(crate) fn observed(&self) -> &CallHandle {
        &self.0
    }

    /// Reports how the call ended, which is computed only if there are observers.
    pub(crate) fn end<'a>(mut self, end: impl FnOnce() -> CallEnd<'a>) {
        if let Some(call) = self.0.0.take() {
            call.end(end());
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(call) = self.0.0.take() {
            call.end(CallEnd::Dropped);
        }
    }
}
