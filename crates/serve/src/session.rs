//! What the methods do: the state of one connection.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use execbox::events::ToolProgress;
use execbox::{Provider, code_tool};
use execbox_core::budget::Budget;
use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::execution::{self, Answer, Control, Prepared};
use crate::messages::{
    AddProvider, Cancel, CodeDescribed, ConnectionUsage, DescribeCode, Execute, Grants, Initialize, Initialized,
    Nothing, PROTOCOL_VERSION, Prewarm, ProviderRef, RemoveProvider, ReportProgress, RunCode, ServerList, ServerState,
    Software, Terminate, ToolNames,
};
use crate::outbox::Frame;
use crate::peer::Peer;
use crate::rpc::{
    self, FAILED, INVALID_REQUEST, Incoming, MAX_MESSAGE_BYTES, METHOD_NOT_FOUND, Malformed, OVERLOADED, RequestId,
    RpcError,
};
use crate::service::{MAX_REQUEST_BYTES, Shared};
use crate::tools;

/// The methods that an application can call.
pub(crate) const METHODS: &str = "initialize, add_provider, remove_provider, servers, describe_code, execute, run_code, cancel, \
    terminate, report_progress, prewarm, self_test, usage";

/// The most providers of a connection.
const MAX_PROVIDERS: usize = 10_000;

/// The length of the types that `describe_code` shows by default, in characters.
const MAX_TYPE_CHARS: usize = 20_000;

/// The length of the text of a result, in characters. Its escapes can be ten times as long while it is made.
const MAX_TEXT_CHARS: usize = 1_000_000;

/// What a request costs beside its text, in bytes.
const REQUEST_COST: usize = 8 << 10;

/// The state of one connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    peer: Peer,
    is_initialized: bool,
    providers: HashMap<u64, Provider>,
    last_provider: u64,
    /// The requests that are not answered.
    open: Arc<Mutex<HashMap<RequestId, Control>>>,
    /// The tasks of requests, which end with the connection.
    tasks: JoinSet<()>,
    requests: Budget,
    /// The programs that run, and the answers that wait for room.
    turns: Arc<Semaphore>,
    usage: Arc<Mutex<ConnectionUsage>>,
}

/// A provider that was found, or the namespace of a server that may be starting.
enum Granted {
    Added(Provider),
    Server(String),
}

/// The answer to a request that is answered at once, or `None` if a task answers it.
type Answered = Result<Option<Box<RawValue>>, RpcError>;

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(shared.max_running)),
            shared,
            peer: Peer::default(),
            is_initialized: false,
            providers: HashMap::new(),
            last_provider: 0,
            open: Arc::default(),
            tasks: JoinSet::new(),
            requests: Budget::new(MAX_REQUEST_BYTES),
            usage: Arc::default(),
        }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// How many executions run, or wait for their turn.
    pub(crate) fn running(&self) -> u64 {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).running
    }

    /// Frees tasks that have ended.
    pub(crate) fn poll_tasks(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(_)) = self.tasks.poll_join_next(cx) {}
    }

    /// Handles a message of `len` bytes.
    pub(crate) fn handle(
        &mut self,
        read: Result<Incoming, Box<Malformed>>,
        len: usize,
        attachments: Result<Vec<Vec<u8>>, RpcError>,
    ) {
        match read {
            Err(malformed) => {
                let Malformed { id, error } = *malformed;
                self.peer.outbox().push(rpc::error(id.as_ref(), &error).into());
            }
            Ok(Incoming::Response { id, outcome }) => {
                // A request that was cancelled meanwhile needs no answer.
                let _ = match attachments {
                    Ok(attachments) => self.peer.answer(id, outcome, attachments),
                    Err(refused) => self.peer.answer(id, Err(refused), Vec::new()),
                };
            }
            Ok(Incoming::Request { id, method, params }) => match attachments {
                Ok(attachments) => {
                    let attached: usize = attachments.iter().map(Vec::len).sum();
                    let request = Request { id, method, params, len: len + attached, attachments };
                    self.handle_request(request);
                }
                Err(refused) => self.peer.outbox().push(rpc::error(id.as_ref(), &refused).into()),
            },
        }
    }

    fn handle_request(&mut self, request: Request) {
        let id = request.id.clone();
        let answered = match &id {
            Some(id) if self.lock_open().contains_key(id) => Err(RpcError::new(
                INVALID_REQUEST,
                format!("the id {id} is that of a request that is not answered yet"),
            )),
            _ => self.answer(request),
        };
        // A notification has no answer, not even an error.
        let Some(id) = id else { return };
        match answered {
            Ok(None) => {}
            Ok(Some(result)) => match rpc::result(&id, &result) {
                Ok(text) => self.peer.outbox().push(text.into()),
                Err(error) => {
                    self.peer.outbox().push(rpc::error(Some(&id), &RpcError::new(FAILED, error.to_string())).into());
                }
            },
            Err(error) => self.peer.outbox().push(rpc::error(Some(&id), &error).into()),
        }
    }

    fn answer(&mut self, request: Request) -> Answered {
        if !self.is_initialized && request.method != "initialize" {
            return Err(RpcError::new(INVALID_REQUEST, "the first request must be `initialize`"));
        }
        match request.method.as_str() {
            "initialize" => self.initialize(&request.params()?).and_then(answer),
            "add_provider" => self.add_provider(request.params()?),
            "remove_provider" => {
                let RemoveProvider { provider } = request.params()?;
                self.providers.remove(&provider).ok_or_else(|| unknown_provider(provider))?;
                answer(Nothing {})
            }
            "servers" => {
                let Nothing {} = request.params()?;
                self.servers(request)
            }
            "describe_code" => self.describe_code(request),
            "execute" => self.execute(request),
            "run_code" => self.run_code(request),
            "cancel" => {
                let Cancel { id } = request.params()?;
                self.lock_open().get(&id).inspect(|control| control.cancel());
                answer(Nothing {})
            }
            "terminate" => {
                let Terminate { id, reason } = request.params()?;
                self.lock_open().get(&id).inspect(|control| control.terminate(reason));
                answer(Nothing {})
            }
            "report_progress" => {
                let ReportProgress { id, done, total, message } = request.params()?;
                if let Some(call) = self.peer.call(id) {
                    call.report(&ToolProgress::new(done).total(total).message(message));
                }
                answer(Nothing {})
            }
            "prewarm" => {
                let Prewarm { count } = request.params()?;
                let executor = Arc::clone(&self.shared.executor);
                self.begin(request, async move {
                    let warmed = executor.prewarm(count).await;
                    warmed.map(|()| Nothing {}).map_err(|error| RpcError::new(FAILED, error.message))
                })
            }
            "self_test" => {
                let Nothing {} = request.params()?;
                let executor = Arc::clone(&self.shared.executor);
                self.begin(request, async move { Ok(executor.self_test().await) })
            }
            "usage" => {
                let Nothing {} = request.params()?;
                let mut usage = *self.usage.lock().unwrap_or_else(PoisonError::into_inner);
                usage.providers = self.providers.len() as u64;
                answer(usage)
            }
            method => {
                let message = format!("unknown method {method:?}: expected one of {METHODS}");
                Err(RpcError::new(METHOD_NOT_FOUND, message))
            }
        }
    }

    fn initialize(&mut self, params: &Initialize) -> Result<Initialized, RpcError> {
        if params.protocol_version != PROTOCOL_VERSION {
            return Err(RpcError::invalid(format!(
                "params.protocolVersion: this service has version {PROTOCOL_VERSION} of the protocol, got {}",
                params.protocol_version
            )));
        }
        self.is_initialized = true;
        self.peer.set_attaches(params.attachments);
        Ok(Initialized {
            protocol_version: PROTOCOL_VERSION,
            service: Software { name: "execbox", version: env!("CARGO_PKG_VERSION") },
            executor: self.shared.executor_name.clone(),
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_memory_limit_bytes: self.shared.max_memory_bytes,
        })
    }

    fn add_provider(&mut self, params: AddProvider) -> Answered {
        if self.providers.len() >= MAX_PROVIDERS {
            let message = format!("there are {MAX_PROVIDERS} providers: remove those that are not needed any more");
            return Err(RpcError::new(OVERLOADED, message));
        }
        let number = self.last_provider + 1;
        let (provider, added) = tools::provider(params, number, &self.peer)?;
        self.last_provider = number;
        self.providers.insert(number, provider);
        answer(added)
    }

    fn servers(&mut self, request: Request) -> Answered {
        let servers = self.shared.servers.clone();
        self.begin(request, async move {
            let Some(servers) = servers else { return Ok(ServerList { servers: Vec::new() }) };
            servers.settled().await;
            let states = servers.reports().into_iter().map(|report| {
                let provider = servers.provider(&report.namespace);
                ServerState {
                    types: provider.as_ref().map(|provider| provider.types().to_owned()),
                    tools: provider.as_ref().map(tool_names).unwrap_or_default(),
                    name: report.name,
                    namespace: report.namespace,
                    problem: report.problem,
                }
            });
            Ok(ServerList { servers: states.collect() })
        })
    }

    fn describe_code(&mut self, request: Request) -> Answered {
        let DescribeCode { providers, timers, max_type_chars } = request.params()?;
        let max_type_chars = max_type_chars.unwrap_or(MAX_TYPE_CHARS);
        // Added providers are those of now; servers may still be starting.
        let found = providers.iter().map(|reference| match reference {
            ProviderRef::Added(number) => self.added_provider(*number).map(Granted::Added),
            ProviderRef::Server(namespace) => Ok(Granted::Server(namespace.clone())),
        });
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let shared = Arc::clone(&self.shared);
        self.begin(request, async move {
            let has_servers = found.iter().any(|found| matches!(found, Granted::Server(_)));
            if let (Some(servers), true) = (&shared.servers, has_servers) {
                servers.settled().await;
            }
            let providers = found.into_iter().map(|found| match found {
                Granted::Added(provider) => Ok(provider),
                Granted::Server(namespace) => shared.server_provider(&namespace),
            });
            let providers = providers.collect::<Result<Vec<_>, _>>()?;
            let description = code_tool::description(&providers, timers, max_type_chars);
            Ok(CodeDescribed { description, input_schema: code_tool::input_schema() })
        })
    }

    fn execute(&mut self, request: Request) -> Answered {
        let mut params: Execute = request.params()?;
        if let Some(max) = params.max_text_chars.filter(|max| *max > MAX_TEXT_CHARS) {
            let message = format!("params.maxTextChars: expected at most {MAX_TEXT_CHARS}, got {max}");
            return Err(RpcError::invalid(message));
        }
        let prepared = self.prepare(&request, params.take_grants())?;
        let control = Control::default();
        self.spawn(request, control.clone(), execution::execute(params, prepared, control))
    }

    fn run_code(&mut self, mut request: Request) -> Answered {
        let mut params: RunCode = request.params()?;
        let mut grants = params.take_grants();
        if let Some(bytes) = params.options.as_ref().and_then(|options| options.get("memoryLimitBytes")?.as_u64()) {
            grants.limits.set_memory(bytes);
        }
        let prepared = self.prepare(&request, grants)?;
        let options = execution::run_options(&params, &mut request.attachments, &prepared)?;
        let control = Control::default();
        self.spawn(request, control.clone(), execution::run_code(params.source, options, prepared, control))
    }

    /// What is granted to an execution.
    fn prepare(&self, request: &Request, grants: Grants) -> Result<Prepared, RpcError> {
        let id = request.execution_id();
        let shared = Arc::clone(&self.shared);
        let providers = grants.providers.iter().map(|reference| match reference {
            ProviderRef::Added(number) => self.added_provider(*number),
            ProviderRef::Server(namespace) => shared.server_provider(namespace),
        });
        let providers = providers.collect::<Result<Vec<_>, _>>()?;
        let (usage, turns) = (Arc::clone(&self.usage), Arc::clone(&self.turns));
        Prepared::new(id, shared, self.peer.clone(), usage, providers, turns, grants)
    }

    fn added_provider(&self, number: u64) -> Result<Provider, RpcError> {
        self.providers.get(&number).cloned().ok_or_else(|| unknown_provider(number))
    }

    /// Begins a task that answers with what `work` results in, unless it is cancelled before.
    fn begin<T: Serialize>(
        &mut self,
        request: Request,
        work: impl Future<Output = Result<T, RpcError>> + Send + 'static,
    ) -> Answered {
        let (control, id) = (Control::default(), request.execution_id());
        let cancelled = control.cancellation.clone();
        self.spawn(request, control, async move {
            let outcome = tokio::select! {
                outcome = work => outcome,
                () = cancelled.cancelled() => Err(RpcError::new(FAILED, "the request was cancelled")),
            };
            let written = outcome
                .and_then(|result| rpc::result(&id, &result).map_err(|error| RpcError::new(FAILED, error.to_string())));
            Frame::from(written.unwrap_or_else(|error| rpc::error(Some(&id), &error))).into()
        })
    }

    fn lock_open(&self) -> MutexGuard<'_, HashMap<RequestId, Control>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a task that results in the answer to a request.
    fn spawn(
        &mut self,
        request: Request,
        control: Control,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Answered {
        // Held until there is an answer.
        let charge = self.requests.charge(request.len + REQUEST_COST).map_err(|exhausted| {
            RpcError::new(OVERLOADED, format!("too many requests are not answered yet: {exhausted}"))
        })?;
        let (id, open, peer) = (request.id, Arc::clone(&self.open), self.peer.clone());
        if let Some(id) = &id {
            self.lock_open().insert(id.clone(), control);
        }
        self.tasks.spawn(async move {
            let answer = AssertUnwindSafe(work).catch_unwind().await;
            drop(charge);
            let Some(id) = id else { return };
            open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let Answer { frame, turn } = answer.unwrap_or_else(|_panic| {
                let error = RpcError::new(FAILED, "the service crashed in this request; this is a bug of execbox");
                Frame::from(rpc::error(Some(&id), &error)).into()
            });
            // The next program begins when there is room for this answer: results do not pile up.
            let _ = peer.outbox().send(frame).await;
            drop(turn);
        });
        Ok(None)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.peer.close();
    }
}

/// A request or a notification that is being handled.
struct Request {
    id: Option<RequestId>,
    method: String,
    params: Option<Box<RawValue>>,
    attachments: Vec<Vec<u8>>,
    /// The length of all of it, in bytes.
    len: usize,
}

impl Request {
    /// Reads the parameters. Missing ones are an empty object.
    fn params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        let params = self.params.as_ref().map_or("{}", |params| params.get());
        if params.starts_with('[') {
            return Err(RpcError::invalid("params: expected an object, by the names of the parameters"));
        }
        rpc::parse(params, "params").map_err(RpcError::invalid)
    }

    /// The id of an execution in messages to the application. That of a notification is empty.
    fn execution_id(&self) -> RequestId {
        self.id.clone().unwrap_or(RequestId::Text(String::new()))
    }
}

fn answer(result: impl Serialize) -> Answered {
    let raw = serde_json::value::to_raw_value(&result);
    raw.map(Some).map_err(|error| RpcError::new(FAILED, error.to_string()))
}

fn unknown_provider(number: u64) -> RpcError {
    RpcError::invalid(format!("provider {number} does not exist: it was not added, or was removed"))
}

/// The names of the tools of a provider.
pub(crate) fn tool_names(provider: &Provider) -> Vec<ToolNames> {
    let tools = provider.manifest().tools.iter();
    tools.map(|tool| ToolNames { name: tool.original_name.clone(), safe_name: tool.safe_name.clone() }).collect()
}
