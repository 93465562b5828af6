//! A handle on an MCP server: its current provider, kept up to date.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use execbox::Provider;
use execbox::transport::ByteStream;
use rmcp::model::ServerPeerInfo;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::child::ChildCommand;
use super::endpoint::Endpoint;
use super::http::HttpEndpoint;
use super::import::import_over;
use super::reconnect::Reconnecting;
use super::{Imported, RejectedTool, Route, Router, UpstreamError, UpstreamOptions};

/// An MCP server that is kept connected.
///
/// When the server changes its tools, [`provider`](Self::provider) soon returns the new ones; running executions keep
/// the old ones. When the server crashes or hangs, pending calls fail at once and the next call connects again, after a
/// pause that doubles with every failure. Providers remain usable after this handle is dropped; [`close`](Self::close)
/// closes the connection for all of them.
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
        Self::open(name, Endpoint::Child(command), options).await
    }

    /// Connects to a server over streamable HTTP. `headers` are sent with every request.
    pub async fn open_http(
        name: &str,
        url: &str,
        headers: &[(String, String)],
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        let endpoint = HttpEndpoint::new(name, url, headers, &options)?;
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
        let imported = RwLock::new(import(&connection, &route).await?);
        let info = RwLock::new(route.peer.peer_info());
        connection.options().changes.notify();
        let tools_changed = connection.tools_changed();
        let catalogue = Arc::new(Catalogue { connection, imported, info });
        let follower = tokio::spawn(follow(Arc::downgrade(&catalogue), tools_changed));
        Ok(Self { catalogue, follower: follower.abort_handle() })
    }

    /// The tools of the server, as it listed them last.
    pub fn provider(&self) -> Provider {
        self.catalogue.imported.read().unwrap_or_else(PoisonError::into_inner).provider.clone()
    }

    /// The provider, and the tools that it does not have.
    pub fn imported(&self) -> Imported {
        self.catalogue.imported.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tools that are invalid.
    pub fn rejected(&self) -> Vec<RejectedTool> {
        self.imported().rejected
    }

    /// Name, version, capabilities and instructions of the server.
    pub fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.catalogue.info.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the connection and ends the child process, if any. Later calls fail.
    pub async fn close(self) {
        self.catalogue.connection.close().await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.catalogue.connection.name()).finish_non_exhaustive()
    }
}

/// What the server has listed last. Tools refer to the connection only, so that there is no reference cycle.
struct Catalogue {
    connection: Arc<Reconnecting>,
    imported: RwLock<Imported>,
    info: RwLock<Option<Arc<ServerPeerInfo>>>,
}

impl Catalogue {
    async fn reload(&self) -> Result<(), UpstreamError> {
        let Ok(route) = self.connection.route().await else { return Ok(()) };
        let imported = import(&self.connection, &route).await?;
        *self.imported.write().unwrap_or_else(PoisonError::into_inner) = imported;
        *self.info.write().unwrap_or_else(PoisonError::into_inner) = route.peer.peer_info();
        self.connection.options().changes.notify();
        Ok(())
    }
}

async fn import(connection: &Arc<Reconnecting>, route: &Route) -> Result<Imported, UpstreamError> {
    let router: Arc<dyn Router> = Arc::clone(connection) as Arc<dyn Router>;
    import_over(connection.name(), route, router, connection.options()).await
}

/// Lists the tools again when the server notifies of changes: one listing after another, with a pause between them,
/// however many notifications arrive.
async fn follow(catalogue: Weak<Catalogue>, tools_changed: Arc<Notify>) {
    loop {
        tools_changed.notified().await;
        let Some(catalogue) = catalogue.upgrade() else { return };
        let _ = catalogue.reload().await; // On failure, the previous tools remain.
        drop(catalogue);
        tokio::time::sleep(LIST_PAUSE).await;
    }
}

/// The pause between two listings.
const LIST_PAUSE: Duration = Duration::from_millis(50);
