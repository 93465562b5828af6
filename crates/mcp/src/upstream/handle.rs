//! A connection to an MCP server that follows its catalogue and comes back after a crash.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use execbox::{Provider, ToolError};
use futures_util::future::BoxFuture;
use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ServerPeerInfo};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningService};
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::Secrets;

use super::source::{ChildCommand, Duplex, Source};
use super::{LeftOut, Link, UpstreamError, UpstreamOptions, Wrapped, wrap_over};

/// An MCP server that is kept connected.
///
/// When its catalogue changes, [`provider`](Self::provider) soon gives the new one; executions under way keep
/// theirs. When it crashes, the calls under way fail, and the next call starts it again, after a pause that
/// doubles with every failure. Providers work on after this handle is dropped; [`close`](Self::close) ends it for all.
pub struct Upstream {
    catalogue: Arc<Catalogue>,
    follower: AbortHandle,
}

impl Upstream {
    /// Starts a child process that is an MCP server on its standard streams.
    pub async fn open_child(
        name: &str,
        command: ChildCommand,
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        Self::open(name, Source::Child(command), options).await
    }

    /// Connects to a server over streamable HTTP. The headers go with every request.
    pub async fn open_http(
        name: &str,
        url: &str,
        headers: &[(String, String)],
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        Self::open(name, Source::http(url, headers)?, options).await
    }

    /// Connects over a byte stream, to a server in this process for example. `connect` is called again after a
    /// connection is lost.
    pub async fn open_stream<S: Duplex + 'static>(
        name: &str,
        connect: impl Fn() -> S + Send + Sync + 'static,
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        Self::open(name, Source::Stream(Box::new(move || Box::new(connect()))), options).await
    }

    async fn open(name: &str, source: Source, options: UpstreamOptions) -> Result<Self, UpstreamError> {
        let changed = Arc::new(Notify::new());
        let failed = |reason| UpstreamError::Connect { name: name.to_owned(), reason };
        let service = connect(&source, &changed, options.connect_timeout, &options.secrets).await.map_err(failed)?;
        let peer = service.peer().clone();
        let provider = Provider::builder(name).build_valid()?.0;
        let empty = Wrapped { provider, left_out: Vec::new(), withheld: 0, unused: Vec::new() };
        let connection = Arc::new(Connection {
            name: name.to_owned(),
            source,
            options,
            changed,
            failures: AtomicU32::new(0),
            state: Mutex::new(State::Open { service, retry_at: Instant::now() }),
        });
        let changed = Arc::clone(&connection.changed);
        let catalogue =
            Arc::new(Catalogue { connection, wrapped: RwLock::new(empty), info: RwLock::new(peer.peer_info()) });
        catalogue.load(&peer).await?;
        let follower = tokio::spawn(follow(Arc::downgrade(&catalogue), changed));
        Ok(Self { follower: follower.abort_handle(), catalogue })
    }

    /// The tools of the server, as it listed them last.
    pub fn provider(&self) -> Provider {
        self.catalogue.wrapped.read().unwrap_or_else(PoisonError::into_inner).provider.clone()
    }

    /// The same, with what became of the other tools.
    pub fn wrapped(&self) -> Wrapped {
        self.catalogue.wrapped.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tools that were left out of it, and why.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.wrapped().left_out
    }

    /// What the server says of itself.
    pub fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.catalogue.info.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the connection, and a child process with it. Calls fail from here on.
    pub async fn close(self) {
        let ended = std::mem::replace(&mut *self.catalogue.connection.state.lock().await, State::Closed);
        if let State::Open { mut service, .. } = ended {
            let _ = service.close_with_timeout(CLOSE_TIMEOUT).await;
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.catalogue.connection.name).finish_non_exhaustive()
    }
}

/// What the handle knows. Tools hold the connection only, so that nothing holds itself.
struct Catalogue {
    connection: Arc<Connection>,
    wrapped: RwLock<Wrapped>,
    info: RwLock<Option<Arc<ServerPeerInfo>>>,
}

impl Catalogue {
    async fn load(&self, peer: &Peer<RoleClient>) -> Result<(), UpstreamError> {
        let link: Arc<dyn Link> = Arc::clone(&self.connection) as Arc<dyn Link>;
        let wrapped = wrap_over(&self.connection.name, peer, link, &self.connection.options).await?;
        *self.wrapped.write().unwrap_or_else(PoisonError::into_inner) = wrapped;
        *self.info.write().unwrap_or_else(PoisonError::into_inner) = peer.peer_info();
        Ok(())
    }
}

/// What tools call through, and what outlives the handle.
struct Connection {
    name: String,
    source: Source,
    options: UpstreamOptions,
    changed: Arc<Notify>,
    /// Connections since the last call that was answered.
    failures: AtomicU32,
    state: Mutex<State>,
}

enum State {
    Open { service: RunningService<RoleClient, Client>, retry_at: Instant },
    Closed,
}

impl Connection {
    /// The live connection; a new one if it was lost and the pause is over.
    async fn live(&self) -> Result<Peer<RoleClient>, ToolError> {
        let mut state = self.state.lock().await;
        let State::Open { service, retry_at } = &mut *state else {
            return Err(ToolError::new(format!("MCP server {:?} is closed", self.name)));
        };
        if !service.is_transport_closed() {
            return Ok(service.peer().clone());
        }
        let pause = retry_at.saturating_duration_since(Instant::now());
        if !pause.is_zero() {
            let (name, pause) = (&self.name, pause.as_millis());
            return Err(ToolError::new(format!("MCP server {name:?} is down; it is tried again in {pause} ms")));
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        *retry_at = Instant::now() + self.options.restart_pause.saturating_mul(1 << failures.min(MOST_DOUBLINGS));
        let again = connect(&self.source, &self.changed, self.options.connect_timeout, &self.options.secrets).await;
        *service = again.map_err(|why| ToolError::new(format!("MCP server {:?} is down: {why}", self.name)))?;
        self.changed.notify_one();
        Ok(service.peer().clone())
    }
}

impl Link for Connection {
    fn peer(&self) -> BoxFuture<'_, Result<Peer<RoleClient>, ToolError>> {
        Box::pin(self.live())
    }

    fn answered(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }
}

async fn connect(
    source: &Source,
    changed: &Arc<Notify>,
    timeout: Duration,
    secrets: &Secrets,
) -> Result<RunningService<RoleClient, Client>, String> {
    let client = Client { changed: Arc::clone(changed) };
    let connected = tokio::time::timeout(timeout, source.connect(client)).await;
    let connected = connected.map(|connected| connected.map_err(|reason| secrets.hide(reason)));
    connected.unwrap_or_else(|_| Err(format!("it did not answer within {} ms", timeout.as_millis())))
}

/// Lists the tools again whenever they changed. However often a server says so, one listing follows another, with a
/// pause between them.
async fn follow(catalogue: Weak<Catalogue>, changed: Arc<Notify>) {
    loop {
        changed.notified().await;
        let Some(catalogue) = catalogue.upgrade() else { return };
        if let Ok(peer) = catalogue.connection.live().await {
            let _ = catalogue.load(&peer).await; // What was listed before stays.
        }
        drop(catalogue);
        tokio::time::sleep(LIST_PAUSE).await;
    }
}

/// Our side of a connection: it offers nothing, and listens for one thing.
#[derive(Debug)]
pub(super) struct Client {
    changed: Arc<Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("execbox", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), implementation)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// How often the pause between restarts doubles, and the pause between listings.
const MOST_DOUBLINGS: u32 = 7;
const LIST_PAUSE: Duration = Duration::from_millis(50);

/// How long a server may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
