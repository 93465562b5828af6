//! `execute` and `run_code`: from their parameters to their answers.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use execbox::code::{AttachedBytes, CodeControl, CodeExecutionError, CodeExecutionOptions, CodeExecutionResult};
use execbox::{
    CancellationToken, Cause, ErrorCode, ExecuteError, ExecuteRequest, ExecuteResult, Limits, Provider, ScriptFunction,
    Usage, code_tool,
};
use execbox_core::budget::Budget;
use execbox_core::contract::stop::Stop;
use serde::Serialize;
use serde_json::Value as Json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::events::{self, Dropped};
use crate::functions::RunHandles;
use crate::limits::LimitValues;
use crate::messages::{ConnectionUsage, EventType, Execute, FunctionSpec, Grants, RunCode, is_zero};
use crate::outbox::Frame;
use crate::peer::Peer;
use crate::policy;
use crate::rpc::{self, FAILED, RequestId, RpcError, WriteError};
use crate::service::Shared;

/// The execution that a call belongs to, for requests to the application.
#[derive(Clone)]
pub(crate) struct ExecutionKey {
    pub(crate) id: Arc<RequestId>,
    /// What the application sends for the program: at most as much at once as the host may hold for it.
    pub(crate) budget: Budget,
}

/// The answer to a request, with the turn of its program.
pub(crate) struct Answer {
    pub(crate) frame: Frame,
    pub(crate) turn: Option<OwnedSemaphorePermit>,
}

impl From<Frame> for Answer {
    fn from(frame: Frame) -> Self {
        Self { frame, turn: None }
    }
}

/// Ends a request from elsewhere. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Control {
    pub(crate) cancellation: CancellationToken,
    run: Arc<Run>,
}

/// A run, and its termination, of which either can come first.
#[derive(Default)]
struct Run {
    started: OnceLock<CodeControl>,
    terminated: OnceLock<Option<String>>,
}

impl Control {
    pub(crate) fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// Terminates a run. Another request is cancelled, a script with the reason.
    pub(crate) fn terminate(&self, reason: Option<String>) {
        let reason = self.run.terminated.get_or_init(|| reason);
        match self.run.started.get() {
            Some(run) => run.terminate(reason.as_deref()),
            None => self.cancel(),
        }
    }

    fn started(&self, run: CodeControl) {
        let run = self.run.started.get_or_init(|| run);
        if let Some(reason) = self.run.terminated.get() {
            run.terminate(reason.as_deref());
        }
    }

    /// Gives the error of a script that was terminated the reason.
    fn explain(&self, error: &mut ExecuteError) {
        let reason = self.run.terminated.get().cloned().flatten();
        if reason.is_some() && matches!(error.cause.as_deref(), Some(Cause::Cancelled { .. })) {
            *error = Stop::Cancelled(reason).execute_error(&Limits::default());
        }
    }
}

/// The turn of a program.
#[derive(Default)]
struct Turn {
    /// One of its connection, until its answer has room.
    answer: Option<OwnedSemaphorePermit>,
    /// One of all connections, while it runs.
    _program: Option<OwnedSemaphorePermit>,
}

/// What is granted to an execution, checked.
pub(crate) struct Prepared {
    key: ExecutionKey,
    shared: Arc<Shared>,
    peer: Peer,
    providers: Vec<Provider>,
    limits: LimitValues,
    events: Vec<EventType>,
    dropped: Dropped,
    running: Running,
    turns: Arc<Semaphore>,
}

impl Prepared {
    pub(crate) fn new(
        id: RequestId,
        shared: Arc<Shared>,
        peer: Peer,
        usage: Arc<Mutex<ConnectionUsage>>,
        providers: Vec<Provider>,
        turns: Arc<Semaphore>,
        grants: Grants,
    ) -> Result<Self, RpcError> {
        let Grants { limits, policy, events, .. } = grants;
        let checked = limits.over(Limits::default());
        if checked.memory_bytes > shared.max_memory_bytes {
            return Err(RpcError::invalid(format!(
                "memoryLimitBytes: this service permits at most {} (--max-memory)",
                shared.max_memory_bytes
            )));
        }
        let key = ExecutionKey { id: Arc::new(id), budget: Budget::new(checked.host_memory_len()) };
        let policy = policy.map(|spec| policy::policy(spec, &peer, &key)).transpose()?;
        let providers = match policy {
            Some(policy) => providers.iter().map(|provider| provider.with_policy(&policy)).collect(),
            None => providers,
        };
        Ok(Self {
            key,
            shared,
            peer,
            providers,
            limits,
            events,
            dropped: Dropped::default(),
            running: Running::new(usage),
            turns,
        })
    }

    /// Waits until the program may run, and the application reads: otherwise results would pile up. A program that was cancelled
    /// meanwhile runs into its cancellation.
    async fn turn(&self, control: &Control) -> Turn {
        let turn = async {
            let answer = Arc::clone(&self.turns).acquire_owned().await.ok();
            self.peer.outbox().has_room().await;
            // An application that does not read takes no turn from the others.
            let program = Arc::clone(&self.shared.running).acquire_owned().await.ok();
            Turn { answer, _program: program }
        };
        tokio::select! {
            turn = turn => turn,
            () = control.cancellation.cancelled() => Turn::default(),
        }
    }

    fn observer(&self) -> Option<execbox::events::Observer> {
        let observer = || {
            let Self { events, peer, key, dropped, .. } = self;
            events::observer(events, peer.clone(), Arc::clone(&key.id), dropped.clone())
        };
        (!self.events.is_empty()).then(observer)
    }
}

// ---- Scripts ------------------------------------------------------------------------------------

/// Executes a script, and writes the answer.
pub(crate) async fn execute(params: Execute, prepared: Prepared, control: Control) -> Answer {
    let turn = prepared.turn(&control).await;
    let Execute { code, functions, wait_for_calls, common_globals, timers, max_text_chars, .. } = params;
    let functions =
        functions.into_iter().map(|FunctionSpec { namespace, name, code }| ScriptFunction::new(namespace, name, code));
    let mut request = ExecuteRequest::new(code)
        .functions(functions)
        .providers(prepared.providers.iter().cloned())
        .wait_for_calls(wait_for_calls)
        .common_globals(common_globals)
        .timers(timers)
        .limits(prepared.limits.over(Limits::default()))
        .cancellation(control.cancellation.clone())
        .attach(prepared.key.clone());
    if let Some(observer) = prepared.observer() {
        request = request.observer(observer);
    }
    let mut result = prepared.shared.executor.execute(request).await;
    if let Err(error) = &mut result.outcome {
        control.explain(error);
        if let Some(servers) = &prepared.shared.servers {
            servers.explain(error);
        }
    }
    let dropped_events = prepared.dropped.count();
    prepared.running.end(&result.usage, result.is_ok(), dropped_events);
    let write = |result: &ExecuteResult| {
        let text = max_text_chars.map(|max| code_tool::Answer::new(result, max).text);
        rpc::result(&prepared.key.id, &WithText { result: WithDropped { result, dropped_events }, text })
    };
    let text = write(&result).or_else(|error| {
        result.outcome =
            Err(ExecuteError::new(ErrorCode::SerializationError, format!("the result cannot be sent: {error}")));
        result.logs.clear();
        write(&result)
    });
    let failed = |error: WriteError| rpc::error(Some(&prepared.key.id), &RpcError::new(FAILED, error.to_string()));
    Answer { frame: text.unwrap_or_else(failed).into(), turn: turn.answer }
}

/// A result with the number of events that were dropped.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithDropped<'a, R> {
    #[serde(flatten)]
    result: &'a R,
    #[serde(skip_serializing_if = "is_zero")]
    dropped_events: u64,
}

/// A result with its text for a model.
#[derive(Serialize)]
struct WithText<'a> {
    #[serde(flatten)]
    result: WithDropped<'a, ExecuteResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

// ---- Runs ---------------------------------------------------------------------------------------

/// The options of a run, without those that are granted.
pub(crate) fn run_options(
    params: &RunCode,
    attachments: &mut Vec<Vec<u8>>,
    prepared: &Prepared,
) -> Result<CodeExecutionOptions, RpcError> {
    let handles = RunHandles::new(prepared.peer.clone(), prepared.key.clone());
    let mut attached = AttachedBytes::from(std::mem::take(attachments));
    let json = params.options.as_ref();
    let empty = Json::Object(serde_json::Map::new());
    let options = CodeExecutionOptions::from_json_with(json.unwrap_or(&empty), &mut attached, &handles)
        .map_err(|error| RpcError::invalid(format!("params.options: {error}")))?;
    Ok(if params.report { options.grant_report() } else { options })
}

/// Runs a module, and writes the answer.
pub(crate) async fn run_code(
    source: String,
    options: CodeExecutionOptions,
    prepared: Prepared,
    control: Control,
) -> Answer {
    let turn = prepared.turn(&control).await;
    let mut options = options
        .providers(prepared.providers.iter().cloned())
        .limits(prepared.limits.over(CodeExecutionOptions::default_limits()))
        .cancellation(control.cancellation.clone())
        .attach(prepared.key.clone());
    if let Some(observer) = prepared.observer() {
        options = options.observer(observer);
    }
    let run = prepared.shared.executor.run_code(&source, options);
    control.started(run.control());
    let result = run.await;
    let dropped_events = prepared.dropped.count();
    prepared.running.end(&result.usage, result.error.is_none(), dropped_events);
    let frame = write_run(&result, dropped_events, &prepared).or_else(|error| {
        let error = CodeExecutionError::new("SerializationError", format!("the result cannot be sent: {error}"));
        let mut failed = CodeExecutionResult::new(Err(error), result.duration);
        failed.usage = result.usage;
        write_run(&failed, dropped_events, &prepared)
    });
    let failed = |error| rpc::error(Some(&prepared.key.id), &RpcError::new(FAILED, error)).into();
    Answer { frame: frame.unwrap_or_else(failed), turn: turn.answer }
}

/// Writes the result of a module. Fails with the reason why that cannot be JSON, or is too long.
fn write_run(result: &CodeExecutionResult, dropped_events: u64, prepared: &Prepared) -> Result<Frame, String> {
    let attached = RefCell::default();
    let json = result.as_json();
    let json = if prepared.peer.attaches() { json.attaching(&attached) } else { json };
    match rpc::result(&prepared.key.id, &WithDropped { result: &json, dropped_events }) {
        Ok(text) => Ok(Frame { text, attachments: attached.into_inner().into_inner() }),
        Err(error) => Err(json.refusal().map_or_else(|| error.to_string(), |refusal| refusal.to_string())),
    }
}

// ---- Counting -----------------------------------------------------------------------------------

/// An execution that runs, as `usage` counts it.
struct Running {
    usage: Arc<Mutex<ConnectionUsage>>,
}

impl Running {
    fn new(usage: Arc<Mutex<ConnectionUsage>>) -> Self {
        usage.lock().unwrap_or_else(PoisonError::into_inner).running += 1;
        Self { usage }
    }

    fn end(&self, of: &Usage, is_ok: bool, dropped_events: u64) {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.ended += 1;
        usage.failed += u64::from(!is_ok);
        usage.calls += of.calls;
        let cpu_ms = usage.cpu_ms + of.cpu_time.unwrap_or_default().as_secs_f64() * 1000.0;
        usage.cpu_ms = (cpu_ms * 1000.0).round() / 1000.0;
        usage.bytes_in += of.bytes_in;
        usage.bytes_out += of.bytes_out;
        usage.dropped_events += dropped_events;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).running -= 1;
    }
}
