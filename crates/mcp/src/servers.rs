//! Keeps the servers of a configuration connected.
//!
//! A server that fails does not affect the others: its tools are missing, its [`Status`] contains the reason, and
//! [`Servers::providers`] connects to it again after a pause, which doubles with each attempt
//! ([`UpstreamOptions::restart_pause`]). Once a server has been ready, its [`Upstream`] restores lost connections.
//! [`Servers::update`] takes another configuration, and restarts only what differs.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox::{Cause, ExecuteError, Provider};
use execbox_core::names::safe_name;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use rmcp::model::ProtocolVersion;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::Backoff;
use crate::config::{Config, PatternPlaces, ServerConfig, SkipReason, Skipped, Transport};
use crate::filter::{UnmatchedPattern, nearest};
use crate::server::{AbsentTool, Unavailability, UnavailableNamespace};
use crate::upstream::{
    ChildCommand, FailurePlace, Imported, LineSink, RejectedTool, Remote, ServerFailure, Upstream, UpstreamError,
    UpstreamOptions, Warning,
};
use crate::{AskFilter, Pattern, Secrets};

/// MCP servers that are kept connected. Clones share them: [`close`](Self::close) closes them for all.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    /// The servers, in the order of the configuration.
    members: Mutex<Vec<Arc<Member>>>,
    /// The entries of the configuration that are not used, with their namespaces.
    skipped: Mutex<Vec<(Skipped, String)>>,
    /// The options of each server, unless its configuration overrides them. `changes` is notified whenever a server becomes
    /// ready, fails, is added or is removed.
    options: UpstreamOptions,
    on_stderr: Option<LineSink>,
    closing: CancellationToken,
    /// Tasks that close servers which were removed.
    removals: TaskTracker,
}

struct Member {
    /// The entry of the server without `ask` and `places`, which change nothing about the connection.
    config: ServerConfig,
    ask: Mutex<AskFilter>,
    /// Where the configuration has its patterns.
    places: Mutex<PatternPlaces>,
    namespace: String,
    options: UpstreamOptions,
    on_stderr: Option<LineSink>,
    backoff: Backoff,
    state: Mutex<State>,
}

enum State {
    Connecting {
        task: AbortHandle,
        /// Why the attempt before this one failed.
        failed: Option<ServerFailure>,
    },
    Ready(Upstream),
    Failed {
        failure: ServerFailure,
        retry_at: Instant,
    },
    Closed,
}

/// The state of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum ServerState {
    /// The server is starting, or its tools are being listed, for the first time.
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
        unmatched_patterns: Vec<UnmatchedPattern>,
        /// What the operator of the server should know.
        warnings: Vec<Warning>,
    },
    /// The connection failed, and is tried again after a pause; or the server has no valid login any more.
    Failed(ServerFailure),
    /// The configuration has the server, but its entry is not used.
    Skipped {
        /// The reason.
        reason: SkipReason,
    },
    /// [`Servers::close`] was called.
    Closed,
}

/// What [`Servers::update`] changed: names of servers in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Update {
    /// Servers that are new, which are starting.
    pub added: Vec<String>,
    /// Servers whose configuration differs, which are starting again.
    pub restarted: Vec<String>,
    /// Servers that are no longer configured.
    pub removed: Vec<String>,
}

impl Update {
    /// Whether all servers are as before.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.restarted.is_empty() && self.removed.is_empty()
    }
}

impl Servers {
    /// Starts to connect to all servers of a configuration, on the current tokio runtime. `options` apply to each server, unless
    /// its own entry overrides them; `options.changes` is also notified when a server becomes ready or fails. The secrets of
    /// each entry are added to `options.secrets`.
    /// `on_stderr` receives the lines that child processes write to standard error, each prefixed with the namespace.
    pub fn start(config: impl Into<Config>, options: &UpstreamOptions, on_stderr: Option<&LineSink>) -> Self {
        let servers = Self(Arc::new(Inner {
            members: Mutex::default(),
            skipped: Mutex::default(),
            options: options.clone(),
            on_stderr: on_stderr.cloned(),
            closing: CancellationToken::new(),
            removals: TaskTracker::new(),
        }));
        servers.update(config);
        servers
    }

    /// Replaces the configuration. Servers with the same namespace and an equal configuration, apart from
    /// [`ServerConfig::ask`], keep their connection. Others are closed when their providers are no longer in use, and new servers are started in the background. Does nothing after
    /// [`close`](Self::close).
    ///
    /// A [`CodeServer`](crate::server::CodeServer) uses the providers that it read last:
    /// [`refresh`](crate::server::CodeServer::refresh) releases those of servers that are no longer configured.
    pub fn update(&self, config: impl Into<Config>) -> Update {
        let config = config.into();
        let mut namespaces = config.namespaces();
        let of_skipped = namespaces.split_off(config.servers.len());
        let mut members = self.0.members.lock().unwrap_or_else(PoisonError::into_inner);
        let mut update = Update::default();
        if self.0.closing.is_cancelled() {
            return update;
        }
        let skipped = config.skipped.into_iter().zip(of_skipped).collect();
        let before = std::mem::replace(&mut *self.lock_skipped(), skipped);
        let is_skipped_as_before = before == *self.lock_skipped();
        let mut before = std::mem::take(&mut *members);
        let mut is_asked_as_before = true;
        for (mut config, namespace) in config.servers.into_iter().zip(namespaces) {
            let (ask, places) = (std::mem::take(&mut config.ask), std::mem::take(&mut config.places));
            let known = before.iter().position(|member| member.namespace == namespace).map(|at| before.remove(at));
            match known {
                Some(member) if member.config == config && !member.must_check(&ask) => {
                    *member.lock_places() = places;
                    is_asked_as_before &= std::mem::replace(&mut *member.lock_ask(), ask.clone()) == ask;
                    members.push(member);
                }
                Some(member) => {
                    update.restarted.push(config.name.clone());
                    self.remove(&member);
                    members.push(self.add(config, ask, places, namespace));
                }
                None => {
                    update.added.push(config.name.clone());
                    members.push(self.add(config, ask, places, namespace));
                }
            }
        }
        for member in before {
            update.removed.push(member.config.name.clone());
            self.remove(&member);
        }
        drop(members);
        if !update.is_empty() || !is_skipped_as_before || !is_asked_as_before {
            self.0.options.changes.notify();
        }
        update
    }

    /// Waits until every server is ready or has failed. One that has failed is not waited for again.
    pub async fn settled(&self) {
        self.settled_if(|_| true).await;
    }

    /// Waits until each server whose namespace `is_needed` selects is ready or has failed.
    pub async fn settled_if(&self, is_needed: impl Fn(&str) -> bool) {
        let mut changes = self.0.options.changes.subscribe();
        let starts = |member: &Member| matches!(*member.lock(), State::Connecting { failed: None, .. });
        while self.members().iter().any(|member| is_needed(&member.namespace) && starts(member)) {
            // The sender is not dropped before `self`.
            let _ = changes.changed().await;
        }
    }

    /// Connects to failed servers again at once, for example after a login.
    pub fn retry_failed(&self) {
        for member in &self.members() {
            let mut state = member.lock();
            if let State::Failed { .. } = &*state {
                self.connect(member, &mut state);
            }
        }
    }

    /// The providers of the servers that are ready. Starts to connect to failed servers again if their pause is over,
    /// and does not wait for them.
    pub fn providers(&self) -> Vec<Provider> {
        let members = self.members();
        let mut providers = Vec::with_capacity(members.len());
        for member in &members {
            let mut state = member.lock();
            match &*state {
                State::Ready(upstream) => providers.push(upstream.provider()),
                State::Failed { retry_at, .. } if *retry_at <= Instant::now() => self.connect(member, &mut state),
                State::Failed { .. } | State::Connecting { .. } | State::Closed => {}
            }
        }
        providers
    }

    /// The state of each server, in the order of the configuration, and the entries that are not used.
    pub fn status(&self) -> Vec<Status> {
        let mut states: Vec<_> = self.members().iter().map(|member| member.status()).collect();
        states.extend(self.lock_skipped().iter().map(|(Skipped { name, reason }, namespace)| {
            let state = ServerState::Skipped { reason: reason.clone() };
            Status { name: name.clone(), namespace: namespace.clone(), state }
        }));
        states
    }

    /// The servers whose tools are not available, with reasons for models: without paths and addresses of the host.
    pub fn unavailable(&self) -> Vec<UnavailableNamespace> {
        let missing = self.status().into_iter().filter_map(|Status { namespace: name, state, .. }| {
            let (reason, state) = match state {
                ServerState::Connecting => ("its server is still starting".to_owned(), Unavailability::Starting),
                ServerState::Failed(failure) if failure.is_temporary => {
                    (failure.for_models(), Unavailability::Temporary)
                }
                ServerState::Failed(failure) => (failure.for_models(), Unavailability::Failed),
                ServerState::Skipped { reason } if reason.is_failure() => {
                    (reason.for_models(), Unavailability::Skipped)
                }
                ServerState::Skipped { reason } => (reason.for_models(), Unavailability::Disabled),
                ServerState::Ready { .. } | ServerState::Closed => return None,
            };
            Some(UnavailableNamespace { name, reason, state })
        });
        missing.collect()
    }

    /// Replaces the message of an error about a namespace that is not defined, if it is that of an unavailable server.
    pub fn explain(&self, error: &mut ExecuteError) {
        if let Some(Cause::NotDefined { name }) = error.cause.as_deref()
            && let Some(missing) = self.unavailable().into_iter().find(|missing| missing.name == *name)
        {
            error.message = missing.to_string();
        }
    }

    /// Why a tool that a server has, by its name or its safe name, cannot be called.
    pub fn absent_tool(&self, namespace: &str, tool: &str) -> Option<AbsentTool> {
        let imported = self.imported(namespace)?;
        let is_named = |name: &str| name == tool || safe_name(name) == tool;
        if imported.filtered.iter().any(|name| is_named(name)) {
            return Some(AbsentTool::Denied);
        }
        let rejected = imported.rejected.into_iter().find(|rejected| is_named(&rejected.name));
        rejected.map(|rejected| AbsentTool::Rejected(rejected.reason))
    }

    /// Whether a pattern for `namespace.tool` matches a tool of a server, also one that the configuration does not allow. `None` if
    /// that is not known, because a server that the pattern may be about is not ready.
    pub fn has_match(&self, pattern: &Pattern) -> Option<bool> {
        let of = pattern.as_str().split_once('.').map_or("*", |(namespace, _)| namespace);
        let mut is_known = !self.lock_skipped().iter().any(|(_, namespace)| of == namespace);
        for member in &self.members() {
            let is_about = |name: &str| pattern.matches(&format!("{}.{name}", member.namespace));
            match &*member.lock() {
                State::Ready(upstream) if any_name(&upstream.imported(), is_about) => return Some(true),
                State::Ready(_) => {}
                _ => is_known &= of != member.namespace && !of.contains('*'),
            }
        }
        is_known.then_some(false)
    }

    /// The secrets of all configurations and logins, also of later ones.
    pub fn secrets(&self) -> Secrets {
        self.0.options.secrets.clone()
    }

    /// The tools that are invalid, with the namespaces of their servers.
    pub fn rejected_tools(&self) -> Vec<(String, RejectedTool)> {
        let members = self.members();
        let rejected = members.iter().flat_map(|member| {
            let rejected = if let State::Ready(upstream) = &*member.lock() { upstream.rejected() } else { Vec::new() };
            rejected.into_iter().map(|tool| (member.namespace.clone(), tool)).collect::<Vec<_>>()
        });
        rejected.collect()
    }

    /// The requests about prompts, resources and completions that servers answer, as providers: see
    /// [`Imported::features`](crate::upstream::Imported::features). In the order of the configuration.
    pub fn features(&self) -> Vec<Provider> {
        let members = self.members();
        let features = members.iter().filter_map(|member| match &*member.lock() {
            State::Ready(upstream) => upstream.imported().features,
            _ => None,
        });
        features.collect()
    }

    /// The name of a server in the configuration, by its namespace.
    pub fn configured_name(&self, namespace: &str) -> Option<String> {
        let members = self.members();
        let member = members.iter().find(|member| member.namespace == namespace);
        member.map(|member| member.config.name.clone()).or_else(|| {
            let skipped = self.lock_skipped();
            let found = skipped.iter().find(|(_, other)| other == namespace);
            found.map(|(skipped, _)| skipped.name.clone())
        })
    }

    /// The version of MCP that a server speaks, if it is ready.
    pub fn protocol_version(&self, namespace: &str) -> Option<ProtocolVersion> {
        let members = self.members();
        let member = members.iter().find(|member| member.namespace == namespace)?;
        let info = if let State::Ready(upstream) = &*member.lock() { upstream.server_info() } else { None };
        info.map(|info| info.protocol_version.clone())
    }

    /// The parts of a tool that are not used, with reasons.
    pub fn unread_parts(&self, namespace: &str, tool: &str) -> Vec<String> {
        let Some(imported) = self.imported(namespace) else { return Vec::new() };
        let named = imported.provider.original_name(tool).unwrap_or(tool).to_owned();
        let parts = imported.warnings.into_iter().filter_map(|warning| match warning {
            Warning::Unread { tool, place, reason } if tool == named => Some(format!("{place}: {reason}")),
            _ => None,
        });
        parts.collect()
    }

    /// The tools of a server that is ready.
    fn imported(&self, namespace: &str) -> Option<Imported> {
        let members = self.members();
        let member = members.iter().find(|member| member.namespace == namespace)?;
        if let State::Ready(upstream) = &*member.lock() { Some(upstream.imported()) } else { None }
    }

    /// Whether clients see a tool, which has these names, and call it without code.
    pub fn is_exposed(&self, namespace: &str, names: [&str; 2]) -> bool {
        let members = self.members();
        let member = members.iter().find(|member| member.namespace == namespace);
        member.is_some_and(|member| member.config.filter.exposes(&names))
    }

    /// Whether the names of prompts and exposed tools of a server have its namespace before them.
    pub fn has_prefix(&self, namespace: &str) -> bool {
        let members = self.members();
        let member = members.iter().find(|member| member.namespace == namespace);
        member.is_none_or(|member| member.config.has_prefix)
    }

    /// The filter for the calls of a server that a person must approve.
    pub fn ask_filter(&self, namespace: &str) -> AskFilter {
        let members = self.members();
        let member = members.iter().find(|member| member.namespace == namespace);
        member.map(|member| member.lock_ask().clone()).unwrap_or_default()
    }

    /// Closes all connections and ends the child processes. Later calls fail.
    pub async fn close(&self) {
        self.0.closing.cancel();
        let closing = self.members().into_iter().map(|member| async move {
            match member.set_closed() {
                State::Ready(upstream) => upstream.close().await,
                State::Connecting { task, .. } => task.abort(), // This ends its child process.
                State::Failed { .. } | State::Closed => {}
            }
        });
        join_all(closing).await;
        self.0.removals.close();
        self.0.removals.wait().await;
    }

    fn lock_skipped(&self) -> MutexGuard<'_, Vec<(Skipped, String)>> {
        self.0.skipped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> Vec<Arc<Member>> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Creates a server, and starts to connect to it.
    fn add(&self, config: ServerConfig, ask: AskFilter, places: PatternPlaces, namespace: String) -> Arc<Member> {
        self.0.options.secrets.add(&config.secrets);
        let options = UpstreamOptions {
            results: config.results,
            protocol_version: config.protocol_version.clone(),
            call_timeout: config.call_timeout.unwrap_or(self.0.options.call_timeout),
            filter: config.filter.clone(),
            ..self.0.options.clone()
        };
        let on_stderr = self.0.on_stderr.as_ref().map(|sink| prefixed(&namespace, sink));
        let backoff = Backoff::new(options.restart_pause);
        let (ask, places, state) = (Mutex::new(ask), Mutex::new(places), Mutex::new(State::Closed));
        let member = Arc::new(Member { config, ask, places, namespace, options, on_stderr, backoff, state });
        self.connect(&member, &mut member.lock());
        member
    }

    /// Closes a server in a task of its own, when its providers are unused or all servers are closed.
    fn remove(&self, member: &Member) {
        match member.set_closed() {
            State::Ready(upstream) => {
                let (retired, closing) = (upstream.retire(), self.0.closing.clone());
                self.0.removals.spawn(async move {
                    closing.run_until_cancelled(retired.unused()).await;
                    retired.close().await;
                });
            }
            State::Connecting { task, .. } => task.abort(), // This ends its child process.
            State::Failed { .. } | State::Closed => {}
        }
    }

    /// Connects to a server in a task of its own.
    fn connect(&self, member: &Arc<Member>, state: &mut State) {
        let (member, changes) = (Arc::clone(member), self.0.options.changes.clone());
        let task = tokio::spawn(async move {
            // A panic must not leave the server in the state `Connecting`.
            let connected = AssertUnwindSafe(member.connect()).catch_unwind().await;
            member.set_connected(connected.unwrap_or(Err(UpstreamError::Panicked)));
            changes.notify();
        });
        let failed = if let State::Failed { failure, .. } = state { Some(failure.clone()) } else { None };
        *state = State::Connecting { task: task.abort_handle(), failed };
    }
}

impl Member {
    async fn connect(&self) -> Result<Upstream, UpstreamError> {
        let upstream = self.open().await?;
        let Some(failure) = self.misspelled_effect(&upstream.imported()) else { return Ok(upstream) };
        upstream.close().await;
        Err(UpstreamError::Connect { name: self.namespace.clone(), failure })
    }

    /// Why the server must not be used: a word of `ask` that matches no tool is similar to the name of an effect, of which no
    /// call would be asked about.
    fn misspelled_effect(&self, imported: &Imported) -> Option<ServerFailure> {
        let ask = self.lock_ask();
        let mut words = ask.similar_to_effects();
        let (word, effect) = words.find(|(word, _)| !any_name(imported, |name| word.matches(name)))?;
        let reason = format!("`ask`: no tool matches {:?}; did you mean {effect:?}?", word.as_str());
        let place = self.place(word).map(|place| FailurePlace::Configuration(place.into()));
        Some(ServerFailure { place, ..ServerFailure::new(reason) })
    }

    /// Whether `ask` has words that may be misspelled and that the server was not checked for.
    fn must_check(&self, ask: &AskFilter) -> bool {
        let before = self.lock_ask();
        ask.similar_to_effects().any(|(word, _)| !before.tools.contains(word))
    }

    /// Where the configuration has a pattern.
    fn place(&self, pattern: &Pattern) -> Option<String> {
        let places = self.lock_places();
        places.0.iter().find(|(other, _)| other == pattern).map(|(_, place)| place.clone())
    }

    /// The patterns of the filter, or of `ask`, that match no tool.
    fn unmatched(&self, imported: &Imported) -> Vec<UnmatchedPattern> {
        let ask = self.lock_ask();
        let asked = ask.tools.iter().chain(&ask.never);
        let asked = asked.filter(|pattern| !any_name(imported, |name| pattern.matches(name)));
        let names: Vec<&str> = own_names(imported).collect();
        let unmatched = imported.unmatched_patterns.iter().chain(asked).map(|pattern| UnmatchedPattern {
            pattern: pattern.clone(),
            place: self.place(pattern),
            suggestion: nearest(pattern, &names).map(str::to_owned),
            is_protective: self.config.filter.deny.contains(pattern) || ask.tools.contains(pattern),
        });
        unmatched.collect()
    }

    async fn open(&self) -> Result<Upstream, UpstreamError> {
        let (name, options) = (self.namespace.as_str(), self.options.clone());
        match &self.config.transport {
            Transport::Stdio { command, args, env, unset, directory } => {
                let command = ChildCommand {
                    program: command.into(),
                    args: args.iter().map(Into::into).collect(),
                    env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                    unset: unset.iter().map(Into::into).collect(),
                    directory: directory.clone(),
                    on_stderr: self.on_stderr.clone(),
                };
                Upstream::open_child(name, command, options).await
            }
            Transport::Http { url, headers, protocol, .. } => {
                let remote = Remote { server: &self.config.name, url, headers, protocol: *protocol };
                Upstream::open_remote(name, remote, options).await
            }
        }
    }

    fn set_connected(&self, connected: Result<Upstream, UpstreamError>) {
        let mut state = self.lock();
        if matches!(*state, State::Closed) {
            return;
        }
        *state = match connected {
            Ok(upstream) => State::Ready(upstream),
            Err(error) => {
                let mut failure = failure(error);
                failure.reason = self.options.secrets.redact(failure.reason);
                failure.hint = self.hint();
                State::Failed { failure, retry_at: self.backoff.next_attempt() }
            }
        };
    }

    /// The remedy for a common mistake in configurations.
    fn hint(&self) -> Option<&'static str> {
        match &self.config.transport {
            Transport::Stdio { command, .. } if command.contains(' ') && !Path::new(command).exists() => {
                Some("`command` is the program only, its arguments belong in `args`")
            }
            _ => None,
        }
    }

    fn status(&self) -> Status {
        let state = match &*self.lock() {
            State::Connecting { failed: None, .. } => ServerState::Connecting,
            State::Ready(upstream) if let Some(failure) = upstream.problem() => ServerState::Failed(failure),
            State::Ready(upstream) => {
                let imported = upstream.imported();
                let unmatched_patterns = self.unmatched(&imported);
                let Imported { provider, rejected, filtered, warnings, .. } = imported;
                let (tools, filtered) = (provider.manifest().tools.len(), filtered.len());
                ServerState::Ready { tools, rejected, filtered, unmatched_patterns, warnings }
            }
            State::Connecting { failed: Some(failure), .. } | State::Failed { failure, .. } => {
                ServerState::Failed(failure.clone())
            }
            State::Closed => ServerState::Closed,
        };
        Status { name: self.config.name.clone(), namespace: self.namespace.clone(), state }
    }

    /// Marks the server as closed. Returns its state until now.
    fn set_closed(&self) -> State {
        std::mem::replace(&mut *self.lock(), State::Closed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_places(&self) -> MutexGuard<'_, PatternPlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_ask(&self) -> MutexGuard<'_, AskFilter> {
        self.ask.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members().iter().map(|member| &member.namespace)).finish()
    }
}

/// Whether a name of a tool, or of one that the filter does not allow, is the wanted one.
fn any_name(imported: &Imported, is_wanted: impl Fn(&str) -> bool) -> bool {
    let tools = imported.provider.manifest().tools.iter();
    let filtered = imported.filtered.iter().chain(imported.rejected.iter().map(|tool| &tool.name));
    tools.flat_map(|tool| [&tool.safe_name, &tool.original_name]).any(|name| is_wanted(name))
        || filtered.into_iter().any(|name| is_wanted(name) || is_wanted(&safe_name(name)))
}

/// The names of all tools on the server.
fn own_names(imported: &Imported) -> impl Iterator<Item = &str> {
    let tools = imported.provider.manifest().tools.iter().map(|tool| &tool.original_name);
    let filtered = imported.filtered.iter().chain(imported.rejected.iter().map(|tool| &tool.name));
    tools.chain(filtered).map(String::as_str)
}

fn prefixed(namespace: &str, sink: &LineSink) -> LineSink {
    let (namespace, sink) = (namespace.to_owned(), sink.clone());
    LineSink::new(move |line| sink.send(&format!("{namespace}: {line}")))
}

/// The failure without the name of the server, which a [`Status`] has already.
fn failure(error: UpstreamError) -> ServerFailure {
    match error {
        UpstreamError::Connect { failure, .. } => failure,
        UpstreamError::List { reason, .. } => ServerFailure::new(format!("failed to list its tools: {reason}")),
        error => ServerFailure::new(error.to_string()),
    }
}
