//! The service: what all connections share.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use execbox::transport::{Listener, Transport};
use execbox::{BoxFuture, CancellationToken, ExecuteError, Executor, Provider};
use execbox_core::budget::Budget;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection;
use crate::rpc::RpcError;

/// The most bytes of requests that are not answered, of one connection.
pub(crate) const MAX_REQUEST_BYTES: usize = 256 << 20;

/// The most bytes of a message that is not received completely, with its attachments.
pub(crate) const MAX_RECEIVED_BYTES: usize = 128 << 20;

/// The most connections at once.
const MAX_CONNECTIONS: usize = 256;

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves applications: each connection is one application, with providers and executions of its own.
///
/// Needs a tokio runtime with time enabled. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
///
/// use execbox::InlineExecutor;
/// use execbox::transport::StreamTransport;
/// use execbox_serve::Service;
/// use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Service::new(Arc::new(InlineExecutor::new()?), "inline");
/// let (near, far) = tokio::io::duplex(1 << 16);
/// tokio::spawn(async move { service.serve(Box::new(StreamTransport::over(far))).await });
///
/// let (read, mut write) = tokio::io::split(near);
/// let mut lines = BufReader::new(read).lines();
/// write.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n").await?;
/// write.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"execute\",\"params\":{\"code\":\"6 * 7\"}}\n").await?;
/// assert!(lines.next_line().await?.unwrap().contains("\"executor\":\"inline\""));
/// assert!(lines.next_line().await?.unwrap().contains("\"result\":42"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Service(Arc<Shared>);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) executor_name: String,
    pub(crate) max_memory_bytes: u64,
    /// The number of processors. A process that is locked cannot ask the system for it.
    pub(crate) processors: u64,
    /// The programs that may run at once.
    pub(crate) max_running: usize,
    pub(crate) running: Arc<Semaphore>,
    pub(crate) servers: Option<Arc<dyn ServerSource>>,
}

impl Shared {
    /// The provider of a server. Fails with the reason why it cannot be granted.
    pub(crate) fn server_provider(&self, namespace: &str) -> Result<Provider, RpcError> {
        let found = self.servers.as_ref().and_then(|servers| servers.provider(namespace));
        found.ok_or_else(|| {
            let reports = self.servers.as_ref().map(|servers| servers.reports()).unwrap_or_default();
            let problem = reports.iter().find(|report| report.namespace == namespace);
            let reason = match problem.map(|report| report.problem.as_deref().unwrap_or("it is starting")) {
                Some(problem) => problem.to_owned(),
                None => "the configuration of the service has no such server".to_owned(),
            };
            RpcError::invalid(format!("params.providers: server {namespace:?} cannot be granted: {reason}"))
        })
    }
}

/// MCP servers, or other sources of providers, in the configuration of a service. Applications grant them by name.
pub trait ServerSource: Send + Sync {
    /// Waits until each server is ready or has failed.
    fn settled(&self) -> BoxFuture<'_, ()>;

    /// All servers, with what is known of them now.
    fn reports(&self) -> Vec<ServerReport>;

    /// The provider of a server that is ready, by its namespace.
    fn provider(&self, namespace: &str) -> Option<Provider>;

    /// Improves the error of a script that uses a server that is not ready.
    fn explain(&self, error: &mut ExecuteError);
}

/// A server, and whether it can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The name in the configuration.
    pub name: String,
    /// The name of its provider.
    pub namespace: String,
    /// Why it cannot be used; `None` if it is ready.
    pub problem: Option<String>,
}

impl ServerReport {
    /// A server that is ready.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: namespace.into(), problem: None }
    }

    /// Sets why it cannot be used.
    #[must_use]
    pub fn problem(self, problem: impl Into<Option<String>>) -> Self {
        Self { problem: problem.into(), ..self }
    }
}

impl Service {
    /// A service that executes programs with `executor`. Applications see `executor_name`. Call it before the process is
    /// [locked](execbox::RunnerProcess).
    pub fn new(executor: Arc<dyn Executor>, executor_name: impl Into<String>) -> Self {
        Self(Arc::new(Shared {
            executor,
            executor_name: executor_name.into(),
            max_memory_bytes: u64::MAX,
            processors: available_parallelism().map_or(1, NonZero::get) as u64,
            max_running: Semaphore::MAX_PERMITS,
            running: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            servers: None,
        }))
    }

    /// Sets the highest memory limit that an application can give a program, in bytes. Default: none.
    #[must_use]
    pub fn max_memory_bytes(self, bytes: u64) -> Self {
        self.with(|shared| shared.max_memory_bytes = bytes)
    }

    /// Sets how many programs run at once; further ones wait in order, and their time has not begun. Default: as many as the
    /// executor takes.
    #[must_use]
    pub fn max_running(self, count: usize) -> Self {
        self.with(|shared| {
            shared.max_running = count.clamp(1, Semaphore::MAX_PERMITS);
            shared.running = Arc::new(Semaphore::new(shared.max_running));
        })
    }

    /// Sets the servers that applications can grant. Default: none.
    #[must_use]
    pub fn servers(self, servers: Arc<dyn ServerSource>) -> Self {
        self.with(|shared| shared.servers = Some(servers))
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared { executor, executor_name, max_memory_bytes, processors, max_running, running, servers } = &*self.0;
        let mut shared = Shared {
            executor: Arc::clone(executor),
            executor_name: executor_name.clone(),
            max_memory_bytes: *max_memory_bytes,
            processors: *processors,
            max_running: *max_running,
            running: Arc::clone(running),
            servers: servers.clone(),
        };
        change(&mut shared);
        self.0 = Arc::new(shared);
        self
    }

    /// Serves one application until it closes its side. Executions that still run are cancelled then.
    ///
    /// # Errors
    /// The transport fails, or ends in the middle of a message (`UnexpectedEof`).
    pub async fn serve(&self, transport: Box<dyn Transport>) -> io::Result<()> {
        connection::serve(Arc::clone(&self.0), transport).await
    }

    /// Serves all applications that connect, at most 256 at once, until `stop` fires. A connection that fails ends, and nothing else
    /// does.
    pub async fn listen(&self, listener: &Listener, stop: &CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MAX_CONNECTIONS {
                connections.join_next().await;
            }
            let incoming = tokio::select! {
                incoming = listener.accept() => incoming,
                () = stop.cancelled() => return,
            };
            while connections.try_join_next().is_some() {}
            let Ok(incoming) = incoming else {
                // Out of descriptors, perhaps: those of others become free.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let service = self.clone();
            connections.spawn(async move {
                let transport = incoming.handshake(&Budget::new(MAX_RECEIVED_BYTES)).await?;
                service.serve(transport).await
            });
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("executor", &self.0.executor_name).finish_non_exhaustive()
    }
}
