//! A connection to an MCP server that follows its catalogue and comes back after a crash.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use execbox::{Provider, ToolError};
use futures_util::future::BoxFuture;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, PingRequest, ProtocolVersion, ServerPeerInfo,
    SubscriptionFilter,
};
use rmcp::service::{NotificationContext, Peer, RoleClient};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::child::ChildCommand;
use super::pipe::Lost;
use super::remote::Remote;
use super::source::{Duplex, Failure, Live, Source};
use super::{LeftOut, Link, Route, UpstreamError, UpstreamOptions, Wrapped, wrap_over};

/// An MCP server that is kept connected.
///
/// When its catalogue changes, [`provider`](Self::provider) soon gives the new one; executions under way keep
/// theirs. When it crashes or hangs, the calls under way fail at once, and the next call starts it again, after a pause that
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
        let remote = Remote::new(name, url, headers, &options)?;
        Self::open(name, Source::Http(remote), options).await
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
        let failed = |why: Failure| UpstreamError::Connect { name: name.to_owned(), reason: why.to_string() };
        let live = connect(&source, &changed, &options).await.map_err(failed)?;
        let route = live.route();
        let empty = Wrapped {
            provider: Provider::builder(name).build_valid()?.0,
            left_out: Vec::new(),
            withheld: 0,
            unused: Vec::new(),
        };
        let connection = Arc::new(Connection {
            name: name.to_owned(),
            source,
            options,
            changed,
            failures: AtomicU32::new(0),
            was_away: AtomicBool::new(false),
            is_probed: Arc::default(),
            closing: CancellationToken::new(),
            state: Mutex::new(State::Open { live, retry_at: Instant::now() }),
        });
        let changed = Arc::clone(&connection.changed);
        let catalogue =
            Arc::new(Catalogue { connection, wrapped: RwLock::new(empty), info: RwLock::new(route.peer.peer_info()) });
        catalogue.load(&route).await?;
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
        self.catalogue.connection.closing.cancel(); // Whoever connects just now holds the lock.
        let ended = std::mem::replace(&mut *self.catalogue.connection.state.lock().await, State::Closed);
        if let State::Open { live, .. } = ended {
            live.close(CLOSE_TIMEOUT).await;
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
    async fn load(&self, route: &Route) -> Result<(), UpstreamError> {
        let link: Arc<dyn Link> = Arc::clone(&self.connection) as Arc<dyn Link>;
        let wrapped = wrap_over(&self.connection.name, route, link, &self.connection.options).await?;
        *self.wrapped.write().unwrap_or_else(PoisonError::into_inner) = wrapped;
        *self.info.write().unwrap_or_else(PoisonError::into_inner) = route.peer.peer_info();
        self.connection.options.changes.tell();
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
    /// Whether the last call was not answered.
    was_away: AtomicBool,
    /// Whether a ping is under way.
    is_probed: Arc<AtomicBool>,
    closing: CancellationToken,
    state: Mutex<State>,
}

enum State {
    Open { live: Live, retry_at: Instant },
    Closed,
}

impl Connection {
    /// The live connection; a new one if it was lost and the pause is over.
    async fn live(&self) -> Result<Route, ToolError> {
        let mut state = self.state.lock().await;
        let State::Open { live, retry_at } = &mut *state else {
            return Err(self.is_closed());
        };
        if !live.is_lost() {
            return Ok(live.route());
        }
        let pause = retry_at.saturating_duration_since(Instant::now());
        if !pause.is_zero() {
            let (name, pause) = (&self.name, pause.as_millis());
            return Err(ToolError::new(format!("MCP server {name:?} is down; it is tried again in {pause} ms")));
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        *retry_at = Instant::now() + self.options.restart_pause.saturating_mul(1 << failures.min(MAX_DOUBLINGS));
        let again = Box::pin(connect(&self.source, &self.changed, &self.options));
        let again = self.closing.run_until_cancelled(again).await;
        let again = again.ok_or_else(|| self.is_closed())?;
        *live = again.map_err(|why| ToolError::new(format!("MCP server {:?} is down: {}", self.name, why.reason)))?;
        self.changed.notify_one();
        Ok(live.route())
    }

    fn is_closed(&self) -> ToolError {
        ToolError::new(format!("MCP server {:?} is closed", self.name))
    }
}

impl Link for Connection {
    fn route(&self) -> BoxFuture<'_, Result<Route, ToolError>> {
        Box::pin(self.live())
    }

    fn answered(&self) {
        self.failures.store(0, Ordering::Relaxed);
        // One over HTTP comes back by itself, perhaps with other tools.
        if self.was_away.swap(false, Ordering::Relaxed) {
            self.changed.notify_one();
        }
    }

    fn unanswered(&self) {
        self.was_away.store(true, Ordering::Relaxed);
    }

    fn given_up(&self, route: &Route) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_probed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (peer, lost) = (route.peer.clone(), route.lost.clone());
        let (is_probed, patience) = (Arc::clone(&self.is_probed), self.options.ping_timeout);
        runtime.spawn(async move {
            probe(&peer, &lost, patience).await;
            is_probed.store(false, Ordering::Relaxed);
        });
    }
}

/// Gives a connection up whose server does not even answer a ping. Any answer will do: not all know what a ping is.
async fn probe(peer: &Peer<RoleClient>, lost: &Lost, patience: Duration) {
    let ping = peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
    if tokio::time::timeout(patience, ping).await.is_err() {
        lost.because(format!("it hangs: it did not answer a ping within {} ms", patience.as_millis()));
        lost.set();
    }
}

async fn connect(source: &Source, changed: &Arc<Notify>, options: &UpstreamOptions) -> Result<Live, Failure> {
    let live = source.connect(Client { changed: Arc::clone(changed) }, options).await?;
    let peer = live.route().peer;
    if peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28) {
        tokio::spawn(subscribe(peer, Arc::clone(changed)));
    }
    Ok(live)
}

/// Servers of the newest protocol tell of changes only who asks for it. Ends with the connection.
async fn subscribe(peer: Peer<RoleClient>, changed: Arc<Notify>) {
    loop {
        let wanted = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut subscription) = peer.listen(wanted).await else { return };
        while let Ok(Some(_)) = subscription.next().await {
            changed.notify_one();
        }
        tokio::time::sleep(SUBSCRIBE_PAUSE).await;
        if peer.is_transport_closed() {
            return;
        }
        changed.notify_one(); // Nobody heard what was told in between.
    }
}

/// Lists the tools again whenever they changed. However often a server says so, one listing follows another, with a
/// pause between them.
async fn follow(catalogue: Weak<Catalogue>, changed: Arc<Notify>) {
    loop {
        changed.notified().await;
        let Some(catalogue) = catalogue.upgrade() else { return };
        if let Ok(route) = catalogue.connection.live().await {
            let _ = catalogue.load(&route).await; // What was listed before stays.
        }
        drop(catalogue);
        tokio::time::sleep(LIST_PAUSE).await;
    }
}

/// Our side of a connection: it offers nothing, and listens for one thing.
#[derive(Debug, Clone)]
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
const MAX_DOUBLINGS: u32 = 7;
const LIST_PAUSE: Duration = Duration::from_millis(50);

/// The pause after a subscription that ended.
const SUBSCRIBE_PAUSE: Duration = Duration::from_secs(5);

/// How long a server may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
