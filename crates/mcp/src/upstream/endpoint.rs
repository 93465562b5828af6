//! Connecting to an MCP server: a child process, a URL or a byte stream, and the handshake over it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use execbox::transport::Stream;
use futures_util::future::BoxFuture;
use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService, serve_directly};
use rmcp::transport::Transport;

use super::answers::Answers;
use super::child::{Child, ChildCommand};
use super::client::Client;
use super::handshake::{HandshakeError, Start, begin, named_versions};
use super::http::{self, HttpEndpoint};
use super::pipe::{Disconnect, Pipe};
use super::progress::CallsInProgress;
use super::received::Received;
use super::requests::Forwarding;
use super::unasked::Unasked;
use super::watched::Watched;
use super::{FailurePlace, HttpProtocol, MAX_MESSAGE, Route, ServerFailure, UpstreamOptions, no_response};
use crate::text::truncate;

/// A server to connect to, any number of times.
pub(super) enum Endpoint {
    Child(ChildCommand),
    Http(HttpEndpoint),
    Stream(Box<dyn Fn() -> Stream + Send + Sync>),
}

/// A connection after its handshake.
pub(super) struct Connection {
    service: RunningService<RoleClient, Client>,
    /// Triggered when a connection over bytes is lost.
    disconnect: Disconnect,
    answers: Answers,
    progress: CallsInProgress,
    forwarding: Forwarding,
    child: Option<Child>,
}

/// Why connecting failed.
pub(super) struct ConnectError {
    pub(super) failure: ServerFailure,
    /// Other ways to connect that the server may accept.
    alternatives: Vec<Way>,
    /// Whether the failure of the next way says more.
    is_provisional: bool,
    /// Whether the connection was lost during the handshake.
    is_lost: bool,
    /// Whether the server has opened a stream of the older transport.
    is_sse: bool,
}

/// A way to connect to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    start: Start,
    /// Whether HTTP is used with the older transport.
    is_sse: bool,
}

impl Way {
    fn streamable(start: Start) -> Self {
        Self { start, is_sse: false }
    }
}

impl Endpoint {
    /// Connects, in the known way if there is one. Servers that fail may accept other versions of the protocol, or the older
    /// transport: what the failure suggests is tried, each way once. Returns how to connect again. `watched` is notified of
    /// what the server reports.
    pub(super) async fn connect(
        &self,
        known: Option<Way>,
        watched: &Watched,
        unasked: &Unasked,
        options: &UpstreamOptions,
    ) -> Result<(Connection, Way), ConnectError> {
        let progress = CallsInProgress::default();
        let client = Client {
            capabilities: options.clients.offered().await,
            watched: watched.clone(),
            forwarding: Forwarding::new(progress.clone(), options.clients.clone()),
            progress,
        };
        let mut ways = VecDeque::from([known.unwrap_or_else(|| self.first_way(options))]);
        let (mut tried, mut failure) = (Vec::new(), None::<ConnectError>);
        while let Some(way) = ways.pop_front() {
            match self.attempt(client.clone(), &way, unasked, options).await {
                Ok((connection, start)) => return Ok((connection, Way { start, ..way })),
                Err(error) => {
                    tried.push(way);
                    for way in &error.alternatives {
                        if self.has(way, options) && !tried.contains(way) && !ways.contains(way) {
                            ways.push_back(way.clone());
                        }
                    }
                    if failure.as_ref().is_none_or(|earlier| earlier.is_provisional || error.is_sse) {
                        failure = Some(error);
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| ConnectError::new(ServerFailure::new("no way to connect"))))
    }

    fn first_way(&self, options: &UpstreamOptions) -> Way {
        let version = options.protocol_version.clone().map(Start::Initialize);
        match self {
            Self::Http(endpoint) if endpoint.protocol() == HttpProtocol::Sse => OLDER_TRANSPORT,
            _ => Way::streamable(version.unwrap_or(Start::Detect(PATIENCE))),
        }
    }

    /// Whether the configuration permits a way.
    fn has(&self, way: &Way, options: &UpstreamOptions) -> bool {
        if options.protocol_version.is_some() && matches!(way.start, Start::Detect(_)) {
            return false;
        }
        let Self::Http(endpoint) = self else { return !way.is_sse };
        match endpoint.protocol() {
            HttpProtocol::Detect => true,
            HttpProtocol::Sse => way.is_sse,
            HttpProtocol::Streamable => !way.is_sse,
        }
    }

    async fn attempt(
        &self,
        client: Client,
        way: &Way,
        unasked: &Unasked,
        options: &UpstreamOptions,
    ) -> Result<(Connection, Start), ConnectError> {
        let disconnect = Disconnect::default();
        let (progress, forwarding) = (client.progress.clone(), client.forwarding.clone());
        let (answers, mut child) = (Answers::new(progress.clone()), None);
        let received = Received::new(&answers, unasked, &disconnect);
        let (start, timeout) = (&way.start, options.connect_timeout);
        let service = match self {
            Self::Child(command) => {
                let spawned = command.spawn(&options.secrets, &answers, unasked, &disconnect);
                let (pipe, process) = spawned.map_err(|error| ConnectError::of_spawn(&error, command, options))?;
                child = Some(process);
                serve(client, pipe, start, options).await
            }
            Self::Http(endpoint) if way.is_sse => {
                let opened = tokio::time::timeout(timeout, endpoint.open_sse(&received, &options.secrets)).await;
                let opened = opened.unwrap_or_else(|_| Err(ServerFailure::temporary(no_response(timeout))));
                let (reader, writer) = opened.map_err(|failure| ConnectError::new(redacted(failure, options)))?;
                let pipe = Pipe::new(reader, writer, &answers, unasked, &disconnect, None);
                let served = serve(client, pipe, start, options).await;
                served.map_err(|error| ConnectError { is_sse: true, ..error })
            }
            Self::Http(endpoint) => {
                let transport = endpoint.transport(&received, &client.watched.tools_changed());
                serve(client, transport, start, options).await
            }
            Self::Stream(open) => {
                let (reader, writer) = tokio::io::split(open());
                let pipe = Pipe::new(reader, writer, &answers, unasked, &disconnect, None);
                serve(client, pipe, start, options).await
            }
        };
        match service {
            Ok((service, start)) => {
                answers.forget_all();
                Ok((Connection { service, disconnect, answers, progress, forwarding, child }, start))
            }
            Err(mut error) => {
                if let Some(child) = &child {
                    error.failure.stderr = child.stderr_tail().await;
                }
                if error.is_lost
                    && let Some(lost) = disconnect.failure()
                {
                    error.failure.reason.clone_from(&lost.reason);
                    error.failure.is_temporary &= child.is_none();
                }
                Err(ConnectError { failure: redacted(error.failure, options), ..error })
            }
        }
    }
}

/// A connection after its handshake, and how the next one begins.
type Served = (RunningService<RoleClient, Client>, Start);

/// Begins a connection and serves it. The future is boxed: rustc cannot show of the whole that it can be sent between threads.
fn serve<'a, T: Transport<RoleClient> + 'static>(
    client: Client,
    mut transport: T,
    start: &'a Start,
    options: &'a UpstreamOptions,
) -> BoxFuture<'a, Result<Served, ConnectError>> {
    let timeout = options.connect_timeout;
    Box::pin(async move {
        match tokio::time::timeout(timeout, begin(&mut transport, &client, start.clone())).await {
            Ok(Ok((info, start))) => Ok((serve_directly(client, transport, Some(info)), start)),
            Ok(Err(error)) => Err(ConnectError::of_handshake(error, start, options)),
            Err(_) => Err(ConnectError::new(ServerFailure::temporary(no_response(timeout)))),
        }
    })
}

impl Connection {
    pub(super) fn route(&self) -> Route {
        Route {
            peer: self.service.peer().clone(),
            disconnect: self.disconnect.clone(),
            answers: self.answers.clone(),
            progress: self.progress.clone(),
            forwarding: Some(self.forwarding.clone()),
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.disconnect.is_triggered() || self.service.is_transport_closed()
    }

    /// Closes the connection and ends the child process, if any.
    pub(super) async fn close(mut self, timeout: Duration) {
        let _ = self.service.close_with_timeout(timeout).await;
        self.disconnect.trigger();
        if let Some(child) = self.child {
            let _ = tokio::time::timeout(timeout, child.gone()).await;
        }
    }
}

impl ConnectError {
    fn new(failure: ServerFailure) -> Self {
        Self { failure, alternatives: Vec::new(), is_provisional: false, is_lost: false, is_sse: false }
    }

    fn of_handshake<E>(error: HandshakeError<E>, start: &Start, options: &UpstreamOptions) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let legacy = || vec![Way::streamable(Start::Initialize(ProtocolVersion::LATEST_WITH_INITIALIZE))];
        match error {
            HandshakeError::Refused(error) => {
                let failure = ServerFailure::new(truncate(error.message.to_string(), MAX_MESSAGE));
                Self { alternatives: other_versions(&error, start, options.connect_timeout), ..Self::new(failure) }
            }
            HandshakeError::Lost { error, in_discovery } => {
                let error = error.as_ref().map(|error| error as &(dyn std::error::Error + Send + Sync + 'static));
                let failure = error.and_then(|error| http::failure(error, &options.secrets));
                let is_answered = error.is_none_or(http::is_answered);
                let alternatives = match error {
                    _ if in_discovery && is_answered => legacy(),
                    Some(error) if http::may_be_sse(error) => vec![OLDER_TRANSPORT],
                    _ => Vec::new(),
                };
                let failure = failure.unwrap_or_else(|| ServerFailure::temporary("handshake failed"));
                Self { is_lost: true, is_provisional: in_discovery, alternatives, ..Self::new(failure) }
            }
            HandshakeError::Silent => {
                let failure = ServerFailure::temporary(no_response(PATIENCE));
                Self { is_provisional: true, alternatives: legacy(), ..Self::new(failure) }
            }
        }
    }

    fn of_spawn(error: &io::Error, command: &ChildCommand, options: &UpstreamOptions) -> Self {
        let (what, path) = match (error.kind(), &command.directory) {
            (io::ErrorKind::NotFound, Some(directory)) if !directory.is_dir() => {
                ("directory not found".to_owned(), Some(directory.display().to_string()))
            }
            (io::ErrorKind::NotFound, _) => {
                ("program not found".to_owned(), Some(command.program.display().to_string()))
            }
            (kind, _) => (kind.to_string(), None),
        };
        let place = path.map(|path| FailurePlace::Path(options.secrets.redact(path).into()));
        Self::new(ServerFailure { place, ..ServerFailure::new(format!("failed to start: {what}")) })
    }
}

/// A failure without secrets. Those in the output of processes are redacted line by line.
fn redacted(failure: ServerFailure, options: &UpstreamOptions) -> ServerFailure {
    let place = failure.place.map(|place| match place {
        FailurePlace::Address(address) => FailurePlace::Address(options.secrets.redact(address.into()).into()),
        place => place,
    });
    ServerFailure { reason: options.secrets.redact(failure.reason), place, ..failure }
}

/// Other versions to try after an error that names versions, or with a code of [`REJECTIONS`]: those that the server names, else
/// all that it may know, the newest first. A server that is asked in the modern way a second time has as long for its answer as
/// for connecting.
fn other_versions(error: &ErrorData, start: &Start, timeout: Duration) -> Vec<Way> {
    let named: Vec<_> = named_versions(error).collect();
    if named.is_empty() && !REJECTIONS.contains(&error.code) {
        return Vec::new();
    }
    let start_of = |version: &ProtocolVersion| match version.has_initialize() {
        true => Start::Initialize(version.clone()),
        false => Start::Detect(timeout),
    };
    let is_new = |way: &Start| !matches!((way, start), (Start::Detect(_), Start::Detect(_))) && way != start;
    let ways = |versions: &[ProtocolVersion]| {
        versions.iter().map(start_of).filter(is_new).map(Way::streamable).collect::<Vec<_>>()
    };
    let other = ways(&named);
    // The error may name only the version that it refuses.
    if other.is_empty() { ways(&OTHER_VERSIONS) } else { other }
}

/// The versions that a server may know which does not say so. The one that is missing is part of the first way.
const OTHER_VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2026_07_28,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2024_11_05,
];

/// The errors with which servers reject an unknown handshake, whatever they say.
const REJECTIONS: [ErrorCode; 6] = [
    ErrorCode::METHOD_NOT_FOUND,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ErrorCode::HEADER_MISMATCH,
    ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
    ErrorCode::INVALID_REQUEST,
    ErrorCode::INVALID_PARAMS,
];

/// HTTP with SSE, which servers of 2024-11-05 have.
const OLDER_TRANSPORT: Way = Way { start: Start::Initialize(ProtocolVersion::LATEST_WITH_INITIALIZE), is_sse: true };

/// How long a server may take for its answer in the modern way before it is asked in the legacy way.
const PATIENCE: Duration = Duration::from_secs(3);
