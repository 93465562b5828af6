//! Keeps the servers of a configuration connected.
//!
//! A server that fails does not affect the others: its tools are missing, its [`Status`] contains the reason, and
//! [`Servers::providers`] connects to it again after a pause, which doubles with each attempt
//! ([`UpstreamOptions::restart_pause`]). Once a server has been ready, its [`Upstream`] restores lost connections.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox::Provider;
use execbox_core::names::{SafeNames, check_provider_name};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::config::{ServerConfig, Transport};
use crate::upstream::{ChildCommand, Imported, LineSink, RejectedTool, Upstream, UpstreamError, UpstreamOptions};
use crate::{Changes, Pattern};

/// MCP servers that are kept connected. Clones share them: [`close`](Self::close) closes them for all.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    members: Vec<Member>,
    /// Notified whenever a server becomes ready or fails.
    changes: Changes,
}

struct Member {
    config: ServerConfig,
    namespace: String,
    options: UpstreamOptions,
    on_stderr: Option<LineSink>,
    backoff: Backoff,
    state: Mutex<State>,
}

enum State {
    Connecting(AbortHandle),
    Ready(Upstream),
    Failed { reason: String, retry_at: Instant },
    Closed,
}

/// The state of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The name of the server in the configuration.
    pub name: String,
    /// The name of its provider, by which guest code calls it.
    pub namespace: String,
    /// Whether its tools are available.
    pub state: ServerState,
}

/// Whether the tools of a server are available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// The server is starting, or its tools are being listed.
    Connecting,
    /// The tools are available.
    Ready {
        /// The number of tools.
        tools: usize,
        /// Tools that are invalid.
        rejected: Vec<RejectedTool>,
        /// The number of tools that the filter does not allow.
        filtered: usize,
        /// Patterns of the filter that match no tool.
        unmatched_patterns: Vec<Pattern>,
    },
    /// The connection failed. It is tried again after a pause.
    Failed {
        /// Why, as a clause without a subject: `failed to start: program not found: …`.
        reason: String,
    },
    /// [`Servers::close`] was called.
    Closed,
}

impl Servers {
    /// Starts to connect to all servers, on the current tokio runtime. `options` apply to each server, unless its own
    /// configuration overrides them; `options.changes` is also notified when a server becomes ready or fails.
    /// `on_stderr` receives the lines that child processes write to standard error, each prefixed with the namespace.
    pub fn start(configs: Vec<ServerConfig>, options: &UpstreamOptions, on_stderr: Option<&LineSink>) -> Self {
        let namespaces = namespaces(configs.iter().map(|config| config.name.as_str()));
        let members = configs.into_iter().zip(namespaces).map(|(config, namespace)| {
            let options = UpstreamOptions {
                results: config.results,
                call_timeout: config.call_timeout.unwrap_or(options.call_timeout),
                filter: config.filter.clone(),
                secrets: config.secrets.clone(),
                ..options.clone()
            };
            let on_stderr = on_stderr.map(|sink| prefixed(&namespace, sink));
            let backoff = Backoff::new(options.restart_pause);
            Member { config, namespace, options, on_stderr, backoff, state: Mutex::new(State::Closed) }
        });
        let servers = Self(Arc::new(Inner { members: members.collect(), changes: options.changes.clone() }));
        for (at, member) in servers.0.members.iter().enumerate() {
            servers.connect(at, &mut member.lock());
        }
        servers
    }

    /// Waits until every server is ready or has failed.
    pub async fn settled(&self) {
        let mut changes = self.0.changes.subscribe();
        while self.0.members.iter().any(|member| matches!(*member.lock(), State::Connecting(_))) {
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// The providers of the servers that are ready. Starts to connect to failed servers again if their pause is over,
    /// and does not wait for them.
    pub fn providers(&self) -> Vec<Provider> {
        let mut providers = Vec::with_capacity(self.0.members.len());
        for (at, member) in self.0.members.iter().enumerate() {
            let mut state = member.lock();
            match &*state {
                State::Ready(upstream) => providers.push(upstream.provider()),
                State::Failed { retry_at, .. } if *retry_at <= Instant::now() => self.connect(at, &mut state),
                State::Failed { .. } | State::Connecting(_) | State::Closed => {}
            }
        }
        providers
    }

    /// The state of each server, in the order of the configuration.
    pub fn status(&self) -> Vec<Status> {
        self.0.members.iter().map(Member::status).collect()
    }

    /// Closes all connections and ends the child processes. Later calls fail.
    pub async fn close(&self) {
        let closing = self.0.members.iter().map(|member| {
            let state = std::mem::replace(&mut *member.lock(), State::Closed);
            async move {
                match state {
                    State::Ready(upstream) => upstream.close().await,
                    State::Connecting(task) => task.abort(), // This ends its child process.
                    State::Failed { .. } | State::Closed => {}
                }
            }
        });
        join_all(closing).await;
    }

    /// Connects to a server in a task of its own.
    fn connect(&self, at: usize, state: &mut State) {
        let inner = Arc::clone(&self.0);
        let task = tokio::spawn(async move {
            let member = &inner.members[at];
            // A panic must not leave the server in the state `Connecting`.
            let connected = AssertUnwindSafe(member.connect()).catch_unwind().await;
            member.set_connected(connected.unwrap_or(Err(UpstreamError::Panicked)));
            inner.changes.notify();
        });
        *state = State::Connecting(task.abort_handle());
    }
}

impl Member {
    async fn connect(&self) -> Result<Upstream, UpstreamError> {
        let (name, options) = (self.namespace.as_str(), self.options.clone());
        match &self.config.transport {
            Transport::Stdio { command, args, env, directory } => {
                let command = ChildCommand {
                    program: command.into(),
                    args: args.iter().map(Into::into).collect(),
                    env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                    directory: directory.clone(),
                    on_stderr: self.on_stderr.clone(),
                };
                Upstream::open_child(name, command, options).await
            }
            Transport::Http { url, headers } => Upstream::open_http(name, url, headers, options).await,
        }
    }

    fn set_connected(&self, connected: Result<Upstream, UpstreamError>) {
        let mut state = self.lock();
        if matches!(*state, State::Closed) {
            return;
        }
        *state = match connected {
            Ok(upstream) => State::Ready(upstream),
            Err(error) => State::Failed {
                reason: self.config.secrets.redact(reason(error)) + self.hint(),
                retry_at: self.backoff.next_attempt(),
            },
        };
    }

    /// The remedy for a common mistake in configurations.
    fn hint(&self) -> &'static str {
        match &self.config.transport {
            Transport::Stdio { command, .. } if command.contains(' ') && !Path::new(command).exists() => {
                "; `command` is the program only, its arguments belong in `args`"
            }
            _ => "",
        }
    }

    fn status(&self) -> Status {
        let state = match &*self.lock() {
            State::Connecting(_) => ServerState::Connecting,
            State::Ready(upstream) => {
                let Imported { provider, rejected, filtered, unmatched_patterns } = upstream.imported();
                ServerState::Ready { tools: provider.manifest().tools.len(), rejected, filtered, unmatched_patterns }
            }
            State::Failed { reason, .. } => ServerState::Failed { reason: reason.clone() },
            State::Closed => ServerState::Closed,
        };
        Status { name: self.config.name.clone(), namespace: self.namespace.clone(), state }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.members.iter().map(|member| &member.namespace)).finish()
    }
}

/// The namespaces of servers with these names: identifiers, made as those of tools, and numbered where they collide
/// (`my-server` and `my.server` become `my_server` and `my_server__2`). A name that a JavaScript global has gets the
/// suffix `_server`.
pub fn namespaces<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut assigned = SafeNames::default();
    let namespace = |name: &'a str| {
        let name = if name.contains(|c: char| c.is_ascii_alphanumeric()) { name } else { "server" };
        let safe = SafeNames::default().assign(name);
        match check_provider_name(&safe) {
            Ok(()) => assigned.assign(name),
            // A suffix `_` would be trimmed by `assign`, which also uses it for reserved words.
            Err(_) => assigned.assign(&format!("{safe}_server")),
        }
    };
    names.into_iter().map(namespace).collect()
}

fn prefixed(namespace: &str, sink: &LineSink) -> LineSink {
    let (namespace, sink) = (namespace.to_owned(), sink.clone());
    LineSink::new(move |line| sink.send(&format!("{namespace}: {line}")))
}

/// The message without the name of the server, which a [`Status`] has already.
fn reason(error: UpstreamError) -> String {
    match error {
        UpstreamError::Connect { reason, .. } => reason,
        UpstreamError::List { reason, .. } => format!("failed to list its tools: {reason}"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::namespaces;

    #[test]
    fn names_become_distinct_identifiers() {
        let given = ["github", "my-server", "my.server", "Map", "日本", "delete", "2fa", "my_server__2", "github"];
        assert_eq!(
            namespaces(given),
            [
                "github",
                "my_server",
                "my_server__2",
                "Map_server",
                "server",
                "delete_",
                "_2fa",
                "my_server__2__2",
                "github__2"
            ]
        );
    }
}
