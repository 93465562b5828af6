//! A connection to an MCP server that is restored when it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use execbox::ToolError;
use execbox_core::budget::Budget;
use futures_util::future::BoxFuture;
use rmcp::model::{ClientRequest, PingRequest};
use rmcp::service::{Peer, RoleClient};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::endpoint::{ConnectError, Connection, Endpoint, Way};
use super::pipe::Disconnect;
use super::unasked::Unasked;
use super::watched::{Watch, Watched};
use super::{Route, Router, UpstreamError, UpstreamOptions, no_response};
use crate::backoff::Backoff;

/// The connection of all tools of a server. The first call after a loss restores it.
pub(super) struct Reconnecting {
    name: String,
    endpoint: Endpoint,
    options: UpstreamOptions,
    /// Notified when the tools of the server may have changed.
    watched: Watched,
    /// The limit on unrequested messages of the server, over all connections.
    unasked: Unasked,
    backoff: Backoff,
    /// The budget of the lists of tools in use: the current one, the next one, and earlier ones in running executions.
    catalogs: Budget,
    /// Whether the last call was lost.
    was_lost: AtomicBool,
    /// Whether a ping is pending.
    is_pinging: Arc<AtomicBool>,
    closing: CancellationToken,
    /// `None` once it is closed.
    open: Mutex<Option<Open>>,
}

/// The last connection.
struct Open {
    connection: Connection,
    /// How the server was connected.
    way: Way,
    /// When the server is connected again after a loss.
    retry_at: Instant,
}

impl Reconnecting {
    pub(super) async fn connect(
        name: &str,
        endpoint: Endpoint,
        options: UpstreamOptions,
    ) -> Result<(Self, Route), UpstreamError> {
        let watched = Watched::new(name, options.changes.clone());
        let unasked = Unasked::new(options.changes.clone());
        let failed = |error: ConnectError| UpstreamError::Connect { name: name.to_owned(), failure: error.failure };
        let connecting = connect(&endpoint, None, &watched, &unasked, &options);
        let (connection, way) = connecting.await.map_err(failed)?;
        let route = connection.route();
        let reconnecting = Self {
            name: name.to_owned(),
            endpoint,
            watched,
            unasked,
            backoff: Backoff::new(options.restart_pause),
            catalogs: Budget::new(options.max_catalog_bytes.saturating_mul(CATALOGS)),
            options,
            was_lost: AtomicBool::new(false),
            is_pinging: Arc::default(),
            closing: CancellationToken::new(),
            open: Mutex::new(Some(Open { connection, way, retry_at: Instant::now() })),
        };
        Ok((reconnecting, route))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Why the last request had no valid token, as a clause.
    pub(super) fn login_problem(&self) -> Option<String> {
        if let Endpoint::Http(endpoint) = &self.endpoint { endpoint.login_problem() } else { None }
    }

    /// Why the server was disconnected, if it sent too many unrequested messages and is not connected again.
    pub(super) fn flood(&self) -> Option<String> {
        self.unasked.exceeded().map(|flood| flood.to_string())
    }

    pub(super) fn options(&self) -> &UpstreamOptions {
        &self.options
    }

    pub(super) fn catalogs(&self) -> &Budget {
        &self.catalogs
    }

    /// Watches a resource of the server, over all connections. `None` if there are too many.
    pub(super) fn watch(&self, uri: String) -> Option<Watch> {
        self.watched.watch(uri)
    }

    pub(super) fn tools_changed(&self) -> Arc<Notify> {
        self.watched.tools_changed()
    }

    pub(super) async fn close(&self) {
        self.closing.cancel(); // A task that is connecting holds the lock.
        let previous = self.open.lock().await.take();
        if let Some(Open { connection, .. }) = previous {
            connection.close(CLOSE_TIMEOUT).await;
        }
    }

    /// The current connection; a new one if it was lost and the pause is over, or soon is.
    async fn current(&self) -> Result<Route, ToolError> {
        let mut open = self.open.lock().await;
        let Open { connection, way, retry_at } = open.as_mut().ok_or_else(|| self.closed())?;
        if !connection.is_lost() {
            return Ok(connection.route());
        }
        let pause = retry_at.saturating_duration_since(Instant::now());
        if pause > MAX_WAIT {
            let (name, pause) = (&self.name, pause.as_millis());
            return Err(ToolError::new(format!("MCP server {name:?} is not connected; next attempt in {pause} ms")));
        }
        tokio::time::sleep(pause).await;
        *retry_at = self.backoff.next_attempt();
        let known = Some(way.clone());
        let connecting = Box::pin(connect(&self.endpoint, known, &self.watched, &self.unasked, &self.options));
        let connected = self.closing.run_until_cancelled(connecting).await.ok_or_else(|| self.closed())?;
        (*connection, *way) = connected.map_err(|error| {
            ToolError::new(format!("MCP server {:?} is not connected: {}", self.name, error.failure.for_models()))
        })?;
        self.watched.on_tools_changed();
        Ok(connection.route())
    }

    fn closed(&self) -> ToolError {
        ToolError::new(format!("MCP server {:?} is closed", self.name))
    }
}

impl Router for Reconnecting {
    fn route(&self) -> BoxFuture<'_, Result<Route, ToolError>> {
        Box::pin(self.current())
    }

    fn on_answer(&self) {
        self.backoff.reset();
        // A server over HTTP returns without a new connection, perhaps with other tools.
        if self.was_lost.swap(false, Ordering::Relaxed) {
            self.watched.on_tools_changed();
        }
    }

    fn on_loss(&self) {
        self.was_lost.store(true, Ordering::Relaxed);
    }

    fn on_abandoned(&self, route: &Route) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_pinging.swap(true, Ordering::Relaxed) {
            return;
        }
        let (peer, disconnect) = (route.peer.clone(), route.disconnect.clone());
        let (is_pinging, timeout) = (Arc::clone(&self.is_pinging), self.options.ping_timeout);
        runtime.spawn(async move {
            ping(&peer, &disconnect, timeout).await;
            is_pinging.store(false, Ordering::Relaxed);
        });
    }
}

/// Disconnects a server that does not answer a ping. An error is an answer, too: not all servers support pings.
async fn ping(peer: &Peer<RoleClient>, disconnect: &Disconnect, timeout: Duration) {
    let ping = peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
    if tokio::time::timeout(timeout, ping).await.is_err() {
        disconnect.set_reason(format!("{} to a ping", no_response(timeout)));
        disconnect.trigger();
    }
}

async fn connect(
    endpoint: &Endpoint,
    known: Option<Way>,
    watched: &Watched,
    unasked: &Unasked,
    options: &UpstreamOptions,
) -> Result<(Connection, Way), ConnectError> {
    let (connection, way) = endpoint.connect(known, watched, unasked, options).await?;
    unasked.connected();
    tokio::spawn(watched.clone().follow(connection.route().peer));
    Ok((connection, way))
}

/// How long calls wait for the next attempt to connect. Beside a longer pause they fail at once.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The maximum duration of closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many lists of tools of the maximum size can be in use at once.
const CATALOGS: usize = 3;
