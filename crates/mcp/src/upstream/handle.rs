//! A handle on an MCP server: its current provider, kept up to date.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use execbox::transport::ByteStream;
use execbox::{Provider, ToolError};
use futures_util::future::BoxFuture;
use rmcp::model::ServerPeerInfo;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::child::ChildCommand;
use super::endpoint::Endpoint;
use super::http::HttpEndpoint;
use super::import::import_over;
use super::reconnect::Reconnecting;
use super::{
    HttpProtocol, Imported, RejectedTool, Route, Router, ServerFailure, UpstreamError, UpstreamOptions, Watch,
};

/// An MCP server that is kept connected.
///
/// When the server changes its tools, [`provider`](Self::provider) soon returns the new ones; running executions keep
/// the old ones. When the server crashes or hangs, pending calls fail at once and the next call connects again, after a
/// pause that doubles with every failure. Providers remain usable after this handle is dropped; [`close`](Self::close)
/// closes the connection for all of them.
pub struct Upstream {
    catalog: Arc<Catalog>,
    follower: AbortHandle,
}

impl Upstream {
    /// Starts a child process that is an MCP server on its standard streams.
    pub async fn open_child(
        name: &str,
        command: ChildCommand,
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        Self::open(name, Endpoint::Child(command), options).await
    }

    /// Connects to a server over HTTP. `headers` are sent with every request, and the token of the server called `name` if
    /// [`UpstreamOptions::tokens`] has one.
    pub async fn open_http(
        name: &str,
        url: &str,
        headers: &[(String, String)],
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        let remote = Remote { server: name, url, headers, protocol: HttpProtocol::default() };
        Self::open_remote(name, remote, options).await
    }

    pub(crate) async fn open_remote(
        name: &str,
        remote: Remote<'_>,
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        let endpoint = HttpEndpoint::new(name, remote, &options)?;
        Self::open(name, Endpoint::Http(endpoint), options).await
    }

    /// Connects over a byte stream, for example to a server in this process. `connect` is called again after the
    /// connection is lost.
    pub async fn open_stream<S: ByteStream + 'static>(
        name: &str,
        connect: impl Fn() -> S + Send + Sync + 'static,
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        Self::open(name, Endpoint::Stream(Box::new(move || Box::new(connect()))), options).await
    }

    async fn open(name: &str, endpoint: Endpoint, options: UpstreamOptions) -> Result<Self, UpstreamError> {
        let (connection, route) = Reconnecting::connect(name, endpoint, options).await?;
        let connection = Arc::new(connection);
        let unused = CancellationToken::new();
        let user = Arc::new(unused.clone().drop_guard());
        let imported = import(&connection, &route, &user).await;
        let imported = RwLock::new(imported.map_err(|error| match connection.login_problem() {
            Some(reason) => UpstreamError::Connect { name: name.to_owned(), failure: ServerFailure::new(reason) },
            None => error,
        })?);
        let info = RwLock::new(route.peer.peer_info());
        connection.options().changes.notify();
        let tools_changed = connection.tools_changed();
        let catalog = Arc::new(Catalog { connection, imported, info, user, unused });
        let follower = tokio::spawn(follow(Arc::downgrade(&catalog), tools_changed));
        Ok(Self { catalog, follower: follower.abort_handle() })
    }

    /// The tools of the server, as it listed them last.
    pub fn provider(&self) -> Provider {
        self.catalog.imported.read().unwrap_or_else(PoisonError::into_inner).provider.clone()
    }

    /// The provider, and the tools that it does not have.
    pub fn imported(&self) -> Imported {
        self.catalog.imported.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tools that are invalid.
    pub fn rejected(&self) -> Vec<RejectedTool> {
        self.imported().rejected
    }

    /// Why the server cannot be called: the last request had no valid token of OAuth (`login required: run …`), or
    /// the server was disconnected because it sent too many unrequested messages.
    pub(crate) fn problem(&self) -> Option<ServerFailure> {
        self.catalog.connection.login_problem().or_else(|| self.catalog.connection.flood()).map(ServerFailure::new)
    }

    /// Name, version, capabilities and instructions of the server.
    pub fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.catalog.info.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the connection and ends the child process, if any. Later calls fail.
    pub async fn close(self) {
        self.catalog.connection.close().await;
    }

    /// Drops the provider. The connection remains open for executions that still use it.
    pub(crate) fn retire(self) -> Retired {
        Retired { connection: Arc::clone(&self.catalog.connection), unused: self.catalog.unused.clone() }
    }
}

/// A server over HTTP.
#[derive(Clone, Copy)]
pub(crate) struct Remote<'a> {
    /// The name of the server in the configuration, by which its tokens are stored.
    pub(crate) server: &'a str,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) protocol: HttpProtocol,
}

/// The connection of a server whose provider is dropped.
pub(crate) struct Retired {
    connection: Arc<Reconnecting>,
    unused: CancellationToken,
}

impl Retired {
    /// Waits until all clones of the providers are dropped, including those of running executions.
    pub(crate) async fn unused(&self) {
        self.unused.cancelled().await;
    }

    /// Closes the connection and ends the child process, if any. Later calls fail.
    pub(crate) async fn close(self) {
        self.connection.close().await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.catalog.connection.name()).finish_non_exhaustive()
    }
}

/// The tools that the server has listed last. Tools refer to the connection only, so that there is no reference cycle.
struct Catalog {
    connection: Arc<Reconnecting>,
    imported: RwLock<Imported>,
    info: RwLock<Option<Arc<ServerPeerInfo>>>,
    /// Held by the tools of each provider. Cancels `unused` when the last of them is dropped.
    user: Arc<DropGuard>,
    unused: CancellationToken,
}

impl Catalog {
    async fn reload(&self) -> Result<(), UpstreamError> {
        let Ok(route) = self.connection.route().await else { return Ok(()) };
        let imported = import(&self.connection, &route, &self.user).await?;
        *self.imported.write().unwrap_or_else(PoisonError::into_inner) = imported;
        *self.info.write().unwrap_or_else(PoisonError::into_inner) = route.peer.peer_info();
        self.connection.options().changes.notify();
        Ok(())
    }
}

async fn import(
    connection: &Arc<Reconnecting>,
    route: &Route,
    user: &Arc<DropGuard>,
) -> Result<Imported, UpstreamError> {
    let router = Arc::new(Used { connection: Arc::clone(connection), _user: Arc::clone(user) });
    import_over(connection.name(), route, router, connection.options(), connection.catalogs()).await
}

/// The router of the tools of a provider.
struct Used {
    connection: Arc<Reconnecting>,
    _user: Arc<DropGuard>,
}

impl Router for Used {
    fn route(&self) -> BoxFuture<'_, Result<Route, ToolError>> {
        self.connection.route()
    }

    fn watch(&self, uri: String) -> Option<Watch> {
        self.connection.watch(uri)
    }

    fn on_answer(&self) {
        self.connection.on_answer();
    }

    fn on_loss(&self) {
        self.connection.on_loss();
    }

    fn on_abandoned(&self, route: &Route) {
        self.connection.on_abandoned(route);
    }
}

/// Lists the tools again when the server notifies of changes: one listing after another, with a pause between them,
/// however many notifications arrive. The pause is longer after a listing that took long.
async fn follow(catalog: Weak<Catalog>, tools_changed: Arc<Notify>) {
    loop {
        tools_changed.notified().await;
        let Some(catalog) = catalog.upgrade() else { return };
        let began = Instant::now();
        let _ = catalog.reload().await; // On failure, the previous tools remain.
        drop(catalog);
        tokio::time::sleep((PAUSE_FACTOR * began.elapsed()).clamp(MIN_LIST_PAUSE, MAX_LIST_PAUSE)).await;
    }
}

/// The pause between two listings: this many times the duration of the last one, within these bounds.
const PAUSE_FACTOR: u32 = 4;
const MIN_LIST_PAUSE: Duration = Duration::from_millis(50);
const MAX_LIST_PAUSE: Duration = Duration::from_mins(1);
