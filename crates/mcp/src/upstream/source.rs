//! The ways to an MCP server, each as often as it takes.

use std::fmt;
use std::time::Duration;

use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::transport::IntoTransport;
use tokio::io::{AsyncRead, AsyncWrite};

use super::child::{Child, ChildCommand};
use super::handle::Client;
use super::pipe::{Lost, Pipe};
use super::remote::{self, Remote};
use super::{MAX_MESSAGE, Route, UpstreamOptions, transport_reason};
use crate::text::cut;

/// A byte stream in both directions, to a server in this process for example.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Where a server is.
pub(super) enum Source {
    Child(ChildCommand),
    Http(Remote),
    Stream(Box<dyn Fn() -> Box<dyn Duplex> + Send + Sync>),
}

/// A connection, past its handshake.
pub(super) struct Live {
    service: RunningService<RoleClient, Client>,
    /// Set when it is lost, if it is one over bytes.
    lost: Lost,
    child: Option<Child>,
}

/// Why there is none.
pub(super) struct Failure {
    /// What failed, as the end of a sentence.
    pub(super) reason: String,
    /// What the child said last on its standard error.
    words: Vec<String>,
    /// Whether the server may speak MCP, and not this handshake.
    is_refusal: bool,
    /// Whether it was there, and is not any more.
    is_loss: bool,
}

impl Source {
    /// A new connection. A server that refuses the handshake of old is asked for the newest protocol, which has none.
    pub(super) async fn connect(&self, client: Client, options: &UpstreamOptions) -> Result<Live, Failure> {
        match self.attempt(client.clone(), ClientLifecycleMode::Initialize, options).await {
            Err(failure) if failure.is_refusal => {
                let newest = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
                self.attempt(client, newest, options).await.map_err(|_| failure)
            }
            outcome => outcome,
        }
    }

    async fn attempt(
        &self,
        client: Client,
        lifecycle: ClientLifecycleMode,
        options: &UpstreamOptions,
    ) -> Result<Live, Failure> {
        let (lost, timeout) = (Lost::default(), options.connect_timeout);
        let mut child = None;
        let service = match self {
            Self::Child(command) => {
                let spawned = command.spawn(&options.secrets, &lost);
                let (pipe, process) =
                    spawned.map_err(|error| Failure::from(format!("its program does not start: {}", kind(&error))))?;
                child = Some(process);
                serve(client, pipe, lifecycle, timeout).await
            }
            Self::Http(remote) => serve(client, remote.transport(), lifecycle, timeout).await,
            Self::Stream(open) => {
                let (reader, writer) = tokio::io::split(open());
                serve(client, Pipe::new(reader, writer, &lost, None), lifecycle, timeout).await
            }
        };
        match service {
            Ok(service) => {
                if let Self::Http(_) = self {
                    lost.because(remote::broken());
                }
                Ok(Live { service, lost, child })
            }
            Err(mut failure) => {
                if let Some(child) = &child {
                    failure.words = child.last_words().await;
                }
                if failure.is_loss && lost.is_explained() {
                    failure.reason = lost.why();
                }
                failure.reason = options.secrets.hide(failure.reason);
                Err(failure)
            }
        }
    }
}

/// What went wrong, without the words of the system.
fn kind(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such program, or no such directory to run it in".to_owned(),
        kind => kind.to_string(),
    }
}

async fn serve<E, A>(
    client: Client,
    transport: impl IntoTransport<RoleClient, E, A>,
    lifecycle: ClientLifecycleMode,
    timeout: Duration,
) -> Result<RunningService<RoleClient, Client>, Failure>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match tokio::time::timeout(timeout, client.serve_with_lifecycle(transport, lifecycle)).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
            let reason = cut(error.message.to_string(), MAX_MESSAGE);
            Err(Failure { is_refusal: REFUSALS.contains(&error.code), ..Failure::from(reason) })
        }
        Ok(Err(ClientInitializeError::TransportError { error, .. })) => {
            Err(Failure { is_loss: true, ..Failure::from(transport_reason(&error, &Lost::default())) })
        }
        Ok(Err(_)) => {
            let reason = "it does not complete the handshake".to_owned();
            Err(Failure { is_loss: true, ..Failure::from(reason) })
        }
        Err(_) => Err(Failure::from(format!("it did not answer within {} ms", timeout.as_millis()))),
    }
}

impl Live {
    pub(super) fn route(&self) -> Route {
        Route { peer: self.service.peer().clone(), lost: self.lost.clone() }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_set() || self.service.is_transport_closed()
    }

    /// Ends it, and a child process with it.
    pub(super) async fn close(mut self, timeout: Duration) {
        let _ = self.service.close_with_timeout(timeout).await;
        self.lost.set();
        if let Some(child) = self.child {
            let _ = tokio::time::timeout(timeout, child.gone()).await;
        }
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { reason, words: Vec::new(), is_refusal: false, is_loss: false }
    }
}

/// All of it, for who runs the server: guests are told the reason alone.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if !self.words.is_empty() {
            f.write_str("; the last that it said:")?;
        }
        self.words.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// What a server may say to a handshake that it does not know.
const REFUSALS: [ErrorCode; 4] = [
    ErrorCode::METHOD_NOT_FOUND,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ErrorCode::INVALID_REQUEST,
    ErrorCode::INVALID_PARAMS,
];
