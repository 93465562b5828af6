//! The servers of a configuration, opened together and kept.
//!
//! One that fails takes none of the others down: its tools are missing, why is told, and it is tried again when somebody
//! asks for [`Servers::providers`] after a pause, which doubles ([`UpstreamOptions::restart_pause`]). How a connection is kept once it is there, is [`Upstream`]'s.

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

use crate::config::{Place, ServerConfig};
use crate::upstream::{ChildCommand, LeftOut, OnLine, Upstream, UpstreamError, UpstreamOptions, Wrapped};
use crate::{Changes, Pattern};

/// MCP servers that are kept connected. Cheap to clone; [`close`](Self::close) ends them for all.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    members: Vec<Member>,
    /// Told whenever a server has come or failed.
    changes: Changes,
}

struct Member {
    config: ServerConfig,
    namespace: String,
    options: UpstreamOptions,
    on_stderr: Option<OnLine>,
    state: Mutex<State>,
}

enum State {
    Opening(AbortHandle),
    Open(Upstream),
    Failed { reason: String, failures: u32, retry_at: Instant },
    Closed,
}

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name in the configuration.
    pub name: String,
    /// What guest code calls it by.
    pub namespace: String,
    /// Whether its tools are there.
    pub standing: Standing,
}

/// Whether the tools of a server are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Not yet.
    Opening,
    /// They are.
    Open {
        /// How many.
        tools: usize,
        /// Those that cannot be used.
        left_out: Vec<LeftOut>,
        /// How many are not allowed.
        withheld: usize,
        /// Patterns that no tool fits.
        unused: Vec<Pattern>,
    },
    /// They are not.
    Failed {
        /// Why, as the end of a sentence.
        reason: String,
    },
    /// Not any more.
    Closed,
}

impl Servers {
    /// Begins to open all of them, on the current tokio runtime. `options` are those of each, but for what its own
    /// configuration says; its `changes` are told when a server comes, too. `on_stderr` is told lines that started
    /// servers write to standard error, each with the server's namespace before it.
    pub fn start(configs: Vec<ServerConfig>, options: &UpstreamOptions, on_stderr: Option<&OnLine>) -> Self {
        let namespaces = namespaces(configs.iter().map(|config| config.name.as_str()));
        let members = configs.into_iter().zip(namespaces).map(|(config, namespace)| {
            let options = UpstreamOptions {
                results: config.results,
                call_timeout: config.call_timeout.unwrap_or(options.call_timeout),
                filter: config.filter.clone(),
                secrets: config.secrets.clone(),
                ..options.clone()
            };
            let on_stderr = on_stderr.map(|on_line| prefixed(&namespace, on_line));
            Member { config, namespace, options, on_stderr, state: Mutex::new(State::Closed) }
        });
        let servers = Self(Arc::new(Inner { members: members.collect(), changes: options.changes.clone() }));
        for (at, member) in servers.0.members.iter().enumerate() {
            servers.open(at, &mut member.lock(), 0);
        }
        servers
    }

    /// Waits until each is there or has failed.
    pub async fn settled(&self) {
        let mut changes = self.0.changes.subscribe();
        while self.0.members.iter().any(|member| matches!(*member.lock(), State::Opening(_))) {
            // Who tells lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// The tools that are there now. Servers that failed are tried again, behind the caller's back: what comes of it is
    /// seen by who asks later.
    pub fn providers(&self) -> Vec<Provider> {
        let mut providers = Vec::with_capacity(self.0.members.len());
        for (at, member) in self.0.members.iter().enumerate() {
            let mut state = member.lock();
            match &*state {
                State::Open(upstream) => providers.push(upstream.provider()),
                State::Failed { failures, retry_at, .. } if *retry_at <= Instant::now() => {
                    let failures = *failures;
                    self.open(at, &mut state, failures);
                }
                State::Failed { .. } | State::Opening(_) | State::Closed => {}
            }
        }
        providers
    }

    /// How each is, in the order of the configuration.
    pub fn status(&self) -> Vec<Status> {
        self.0.members.iter().map(Member::status).collect()
    }

    /// Ends all connections, and the children with them. Calls fail from here on.
    pub async fn close(&self) {
        let closing = self.0.members.iter().map(|member| {
            let state = std::mem::replace(&mut *member.lock(), State::Closed);
            async move {
                match state {
                    State::Open(upstream) => upstream.close().await,
                    State::Opening(task) => task.abort(), // A child ends with it.
                    State::Failed { .. } | State::Closed => {}
                }
            }
        });
        join_all(closing).await;
    }

    /// Opens a server in a task of its own. `failures` is how often that failed before.
    fn open(&self, at: usize, state: &mut State, failures: u32) {
        let inner = Arc::clone(&self.0);
        let task = tokio::spawn(async move {
            let member = &inner.members[at];
            // Whoever waits for it is not to wait for ever because of a mistake of ours.
            let opened = AssertUnwindSafe(member.open()).catch_unwind().await;
            let broken = |_| UpstreamError::Connect { name: String::new(), reason: "execbox is at fault".to_owned() };
            member.arrive(opened.map_err(broken).flatten(), failures);
            inner.changes.tell();
        });
        *state = State::Opening(task.abort_handle());
    }
}

impl Member {
    async fn open(&self) -> Result<Upstream, UpstreamError> {
        let (name, options) = (self.namespace.as_str(), self.options.clone());
        match &self.config.place {
            Place::Program { command, args, env, directory } => {
                let command = ChildCommand {
                    program: command.into(),
                    args: args.iter().map(Into::into).collect(),
                    env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                    directory: directory.clone(),
                    on_stderr: self.on_stderr.clone(),
                };
                Upstream::open_child(name, command, options).await
            }
            Place::Http { url, headers } => Upstream::open_http(name, url, headers, options).await,
        }
    }

    fn arrive(&self, opened: Result<Upstream, UpstreamError>, failures: u32) {
        let mut state = self.lock();
        if matches!(*state, State::Closed) {
            return;
        }
        *state = match opened {
            Ok(upstream) => State::Open(upstream),
            Err(error) => {
                let reason = self.config.secrets.hide(reason(error)) + self.hint();
                let pause = self.options.restart_pause.saturating_mul(1 << failures.min(MAX_DOUBLINGS));
                State::Failed { reason, failures: failures.saturating_add(1), retry_at: Instant::now() + pause }
            }
        };
    }

    /// What many get wrong.
    fn hint(&self) -> &'static str {
        match &self.config.place {
            Place::Program { command, .. } if command.contains(' ') && !Path::new(command).exists() => {
                "; `command` is the program alone: its arguments belong in `args`"
            }
            _ => "",
        }
    }

    fn status(&self) -> Status {
        let standing = match &*self.lock() {
            State::Opening(_) => Standing::Opening,
            State::Open(upstream) => {
                let Wrapped { provider, left_out, withheld, unused } = upstream.wrapped();
                Standing::Open { tools: provider.manifest().tools.len(), left_out, withheld, unused }
            }
            State::Failed { reason, .. } => Standing::Failed { reason: reason.clone() },
            State::Closed => Standing::Closed,
        };
        Status { name: self.config.name.clone(), namespace: self.namespace.clone(), standing }
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

/// What guest code calls servers by: their names, made identifiers as names of tools are, and numbered where they collide
/// (`my-server` and `my.server` are `my_server` and `my_server__2`). The name of a global gets a `_`.
pub fn namespaces<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut assigned = SafeNames::default();
    let namespace = |name: &'a str| {
        let name = if name.contains(|c: char| c.is_ascii_alphanumeric()) { name } else { "server" };
        let safe = SafeNames::default().assign(name);
        match check_provider_name(&safe) {
            Ok(()) => assigned.assign(name),
            // `assign` would trim a `_` at the end, and gives one to names that are reserved.
            Err(_) => assigned.assign(&format!("{safe}_server")),
        }
    };
    names.into_iter().map(namespace).collect()
}

fn prefixed(namespace: &str, on_line: &OnLine) -> OnLine {
    let (namespace, on_line) = (namespace.to_owned(), on_line.clone());
    OnLine::new(move |line| on_line.tell(&format!("{namespace}: {line}")))
}

/// Without the name, which is told beside it.
fn reason(error: UpstreamError) -> String {
    match error {
        UpstreamError::Connect { reason, .. } => format!("cannot connect: {reason}"),
        UpstreamError::List { reason, .. } => format!("it does not list its tools: {reason}"),
        error => error.to_string(),
    }
}

/// How often the pause before a server is tried again doubles.
const MAX_DOUBLINGS: u32 = 7;

#[cfg(test)]
mod tests {
    use super::namespaces;

    #[test]
    fn names_become_identifiers_that_differ() {
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
