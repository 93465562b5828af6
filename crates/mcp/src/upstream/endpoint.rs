//! Connecting to an MCP server: a child process, a URL or a byte stream, and the handshake over it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use execbox::transport::Stream;
use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, ErrorCode, Implementation, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, NotificationContext, RoleClient, RunningService,
};
use rmcp::transport::IntoTransport;
use tokio::sync::Notify;

use super::child::{Child, ChildCommand};
use super::http::{self, HttpEndpoint};
use super::pipe::{Disconnect, Pipe};
use super::{MAX_MESSAGE, Route, UpstreamOptions, no_response, transport_reason};
use crate::text::truncate;

/// Where a server is. Can be connected to any number of times.
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
    /// Whether the server rejects this handshake, and may accept another one.
    is_handshake_rejected: bool,
    /// Whether the connection was lost during the handshake.
    is_lost: bool,
}

impl Endpoint {
    /// Connects. A server that rejects the `initialize` handshake is tried with the protocol of 2026-07-28, which has
    /// none. `tools_changed` is notified when the server reports a change of its tools.
    pub(super) async fn connect(
        &self,
        tools_changed: &Arc<Notify>,
        options: &UpstreamOptions,
    ) -> Result<Connection, ConnectError> {
        let client = Client { tools_changed: Arc::clone(tools_changed) };
        match self.attempt(client.clone(), ClientLifecycleMode::Initialize, options).await {
            Err(error) if error.is_handshake_rejected => {
                let newest = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
                self.attempt(client, newest, options).await.map_err(|_| error)
            }
            outcome => outcome,
        }
    }

    async fn attempt(
        &self,
        client: Client,
        lifecycle: ClientLifecycleMode,
        options: &UpstreamOptions,
    ) -> Result<Connection, ConnectError> {
        let (disconnect, timeout) = (Disconnect::default(), options.connect_timeout);
        let mut child = None;
        let service = match self {
            Self::Child(command) => {
                let spawned = command.spawn(&options.secrets, &disconnect);
                let (pipe, process) = spawned.map_err(|error| ConnectError::of_spawn(&error, command, options))?;
                child = Some(process);
                serve(client, pipe, lifecycle, timeout).await
            }
            Self::Http(endpoint) => serve(client, endpoint.transport(), lifecycle, timeout).await,
            Self::Stream(open) => {
                let (reader, writer) = tokio::io::split(open());
                serve(client, Pipe::new(reader, writer, &disconnect, None), lifecycle, timeout).await
            }
        };
        match service {
            Ok(service) => {
                if let Self::Http(_) = self {
                    disconnect.set_reason(http::incomplete());
                }
                Ok(Connection { service, disconnect, child })
            }
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
) -> Result<RunningService<RoleClient, Client>, ConnectError>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match tokio::time::timeout(timeout, client.serve_with_lifecycle(transport, lifecycle)).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
            let reason = truncate(error.message.to_string(), MAX_MESSAGE);
            Err(ConnectError { is_handshake_rejected: REJECTIONS.contains(&error.code), ..ConnectError::new(reason) })
        }
        Ok(Err(ClientInitializeError::TransportError { error, .. })) => {
            Err(ConnectError { is_lost: true, ..ConnectError::new(transport_reason(&error, &Disconnect::default())) })
        }
        Ok(Err(_)) => Err(ConnectError { is_lost: true, ..ConnectError::new("handshake failed".to_owned()) }),
        Err(_) => Err(ConnectError::new(no_response(timeout))),
    }
}

impl Connection {
    pub(super) fn route(&self) -> Route {
        Route { peer: self.service.peer().clone(), disconnect: self.disconnect.clone() }
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
        Self { reason, path: None, stderr_tail: Vec::new(), is_handshake_rejected: false, is_lost: false }
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

/// Everything that is known, for the operator of the server.
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

/// Our side of a connection: offers no capabilities, and handles one notification.
#[derive(Debug, Clone)]
struct Client {
    tools_changed: Arc<Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("execbox", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), implementation)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}

/// The errors with which servers reject an unknown handshake.
const REJECTIONS: [ErrorCode; 4] = [
    ErrorCode::METHOD_NOT_FOUND,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ErrorCode::INVALID_REQUEST,
    ErrorCode::INVALID_PARAMS,
];
