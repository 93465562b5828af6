//! Connecting to an MCP server: a child process, a URL or a byte stream, and the handshake over it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use execbox::transport::Stream;
use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::transport::IntoTransport;
use serde_json::Value as Json;
use tokio::sync::Notify;

use super::answers::Answers;
use super::child::{Child, ChildCommand};
use super::client::Client;
use super::http::{self, HttpEndpoint};
use super::pipe::{Disconnect, Pipe};
use super::progress::CallsInProgress;
use super::received::Received;
use super::requests::Forwarding;
use super::unasked::Unasked;
use super::{HttpProtocol, MAX_MESSAGE, Route, UpstreamOptions, no_response, transport_reason};
use crate::Secrets;
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
    child: Option<Child>,
}

/// Why connecting failed.
pub(super) struct ConnectError {
    /// What failed, as a clause. Guests may read it.
    reason: String,
    /// The program or directory that was not found.
    path: Option<String>,
    /// The last lines that the child process wrote to standard error.
    stderr_tail: Vec<String>,
    /// What the server may accept instead.
    alternative: Option<Alternative>,
    /// Whether the connection was lost during the handshake.
    is_lost: bool,
    /// Whether the server has opened a stream of the older transport.
    is_sse: bool,
}

/// Another way to connect to a server that has rejected the first message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Alternative {
    /// Other versions of the protocol, to be tried in this order.
    Versions(Vec<ProtocolVersion>),
    /// HTTP with SSE.
    OlderTransport,
}

/// The versions to try after an error: those that the server names, the newest first; else the one without a handshake, and
/// one that many servers know.
fn other_versions(error: &ErrorData) -> Vec<ProtocolVersion> {
    let said = format!("{} {}", error.message, error.data.as_ref().map(Json::to_string).unwrap_or_default());
    let sent = ProtocolVersion::LATEST_WITH_INITIALIZE;
    let named = |version: &&ProtocolVersion| **version != sent && said.contains(version.as_str());
    let named: Vec<_> = ProtocolVersion::KNOWN_VERSIONS.iter().rev().filter(named).cloned().collect();
    match named.len() {
        0 => vec![ProtocolVersion::V_2026_07_28, ProtocolVersion::V_2025_06_18],
        _ => named,
    }
}

impl Endpoint {
    /// Connects. If the server rejects the version of the `initialize` handshake and names others, tries the newest of them. If it
    /// rejects the handshake otherwise, tries the protocol of 2026-07-28, which has no handshake, and then an old version.
    /// If a server over HTTP rejects the first message, tries the older transport. `tools_changed` is notified when the
    /// server reports a change of its tools.
    pub(super) async fn connect(
        &self,
        tools_changed: &Arc<Notify>,
        unasked: &Unasked,
        options: &UpstreamOptions,
    ) -> Result<Connection, ConnectError> {
        let progress = CallsInProgress::default();
        let client = Client {
            capabilities: options.clients.offered().await,
            tools_changed: Arc::clone(tools_changed),
            forwarding: Forwarding::new(progress.clone(), options.clients.clone()),
            progress,
            version: ProtocolVersion::LATEST_WITH_INITIALIZE,
        };
        let protocol = self.protocol();
        let is_sse = protocol == HttpProtocol::Sse;
        let first = self.attempt(client.clone(), ClientLifecycleMode::Initialize, is_sse, unasked, options).await;
        let Err(error) = first else { return first };
        match &error.alternative {
            Some(Alternative::Versions(versions)) => {
                for version in versions {
                    let (client, lifecycle) = client.with(version);
                    if let Ok(connected) = self.attempt(client, lifecycle, is_sse, unasked, options).await {
                        return Ok(connected);
                    }
                }
            }
            Some(Alternative::OlderTransport) if protocol == HttpProtocol::Detect => {
                let older = self.attempt(client, ClientLifecycleMode::Initialize, true, unasked, options).await;
                return older.map_err(|older| if older.is_sse { older } else { error });
            }
            _ => {}
        }
        Err(error)
    }

    fn protocol(&self) -> HttpProtocol {
        if let Self::Http(endpoint) = self { endpoint.protocol() } else { HttpProtocol::Streamable }
    }

    async fn attempt(
        &self,
        client: Client,
        lifecycle: ClientLifecycleMode,
        is_sse: bool,
        unasked: &Unasked,
        options: &UpstreamOptions,
    ) -> Result<Connection, ConnectError> {
        let disconnect = Disconnect::default();
        let (timeout, secrets) = (options.connect_timeout, &options.secrets);
        let (answers, mut child) = (Answers::default(), None);
        let progress = client.progress.clone();
        let received = Received::new(&answers, unasked, &disconnect);
        let service = match self {
            Self::Child(command) => {
                let spawned = command.spawn(&options.secrets, &answers, unasked, &disconnect);
                let (pipe, process) = spawned.map_err(|error| ConnectError::of_spawn(&error, command, options))?;
                child = Some(process);
                serve(client, pipe, lifecycle, timeout, secrets).await
            }
            Self::Http(endpoint) if is_sse => {
                let opened = tokio::time::timeout(timeout, endpoint.open_sse(&received, secrets)).await;
                let opened = opened.unwrap_or_else(|_| Err(no_response(timeout)));
                let (reader, writer) = opened.map_err(|reason| ConnectError::new(secrets.redact(reason)))?;
                let pipe = Pipe::new(reader, writer, &answers, unasked, &disconnect, None);
                let served = serve(client, pipe, lifecycle, timeout, secrets).await;
                served.map_err(|error| ConnectError { is_sse, ..error })
            }
            Self::Http(endpoint) => {
                let transport = endpoint.transport(&received, &client.tools_changed);
                serve(client, transport, lifecycle, timeout, secrets).await
            }
            Self::Stream(open) => {
                let (reader, writer) = tokio::io::split(open());
                let pipe = Pipe::new(reader, writer, &answers, unasked, &disconnect, None);
                serve(client, pipe, lifecycle, timeout, secrets).await
            }
        };
        match service {
            Ok(service) => Ok(Connection { service, disconnect, answers, progress, child }),
            Err(mut error) => {
                if let Some(child) = &child {
                    error.stderr_tail = child.stderr_tail().await;
                }
                if error.is_lost && disconnect.has_reason() {
                    error.reason = disconnect.reason();
                }
                error.reason = options.secrets.redact(error.reason);
                Err(error)
            }
        }
    }
}

async fn serve<E, A>(
    client: Client,
    transport: impl IntoTransport<RoleClient, E, A>,
    lifecycle: ClientLifecycleMode,
    timeout: Duration,
    secrets: &Secrets,
) -> Result<RunningService<RoleClient, Client>, ConnectError>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match tokio::time::timeout(timeout, client.serve_with_lifecycle(transport, lifecycle)).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
            let reason = truncate(error.message.to_string(), MAX_MESSAGE);
            let versions = REJECTIONS.contains(&error.code).then(|| other_versions(&error));
            Err(ConnectError { alternative: versions.map(Alternative::Versions), ..ConnectError::new(reason) })
        }
        Ok(Err(ClientInitializeError::TransportError { error, .. })) => {
            let reason = transport_reason(&error, &Disconnect::default(), secrets);
            let alternative = http::may_be_sse(&*error.error).then_some(Alternative::OlderTransport);
            Err(ConnectError { is_lost: true, alternative, ..ConnectError::new(reason) })
        }
        Ok(Err(_)) => Err(ConnectError { is_lost: true, ..ConnectError::new("handshake failed".to_owned()) }),
        Err(_) => Err(ConnectError::new(no_response(timeout))),
    }
}

impl Connection {
    pub(super) fn route(&self) -> Route {
        Route {
            peer: self.service.peer().clone(),
            disconnect: self.disconnect.clone(),
            answers: self.answers.clone(),
            progress: self.progress.clone(),
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
    fn new(reason: String) -> Self {
        Self { reason, path: None, stderr_tail: Vec::new(), alternative: None, is_lost: false, is_sse: false }
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
        let path = path.map(|path| options.secrets.redact(path));
        Self { path, ..Self::new(format!("failed to start: {what}")) }
    }

    /// What failed, without paths and without the output of the server.
    pub(super) fn guest_message(&self) -> &str {
        &self.reason
    }
}

/// The reason, the path and the last lines of standard error, for the operator of the server.
impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if let Some(path) = &self.path {
            write!(f, ": {path}")?;
        }
        if !self.stderr_tail.is_empty() {
            f.write_str("; last lines of standard error:")?;
        }
        self.stderr_tail.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The errors with which servers reject an unknown handshake.
const REJECTIONS: [ErrorCode; 4] = [
    ErrorCode::METHOD_NOT_FOUND,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ErrorCode::INVALID_REQUEST,
    ErrorCode::INVALID_PARAMS,
];
