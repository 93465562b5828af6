//! The servers of a configuration: starts each of them, and says what is wrong and what helps.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use execbox::CancellationToken;
use execbox_mcp::Changes;
use execbox_mcp::config::{Config, ServerConfig, SkipReason, Transport};
use execbox_mcp::server::OWN_NAMESPACES;
use execbox_mcp::servers::{ServerState, Servers, Status};
use execbox_mcp::upstream::{FailurePlace, ServerFailure, UpstreamOptions};
use serde::Serialize;

use super::client::{self, is_relative};
use super::report::{print, print_json};
use crate::config::files;
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::files::source;
use crate::gateway::running::State;
use crate::options::servers::{self, Loaded, Purpose, ServerArguments};
use crate::process::interrupt;

/// The state of the servers of a configuration.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Diagnosis {
    /// Whether a server is ready, and none failed, was skipped for a mistake, or is less protected than its entry intends.
    pub(super) ok: bool,
    /// What is wrong with the files: keys without effect, with their positions, secrets that other users can read, and values that
    /// depend on the current directory.
    pub(super) warnings: Vec<String>,
    /// Whether something begins at the current directory, so that a server may fail where its client starts it.
    #[serde(skip)]
    pub(super) depends_on_directory: bool,
    pub(super) servers: Vec<ServerReport>,
    /// `None` if no server is ready, or if the configuration is a pipe or the file of a client that starts execbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<Entry>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerReport {
    pub(super) name: String,
    /// The namespace of the server in guest code.
    pub(super) namespace: String,
    pub(super) state: State,
    /// Whether the server failed, was skipped for a mistake, or is less protected than its entry intends.
    #[serde(skip)]
    pub(super) is_failure: bool,
    /// The command without arguments, or the origin of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transport: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filtered: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rejected: Option<usize>,
    /// The time until the server was ready or had failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stderr: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// The entry of the gateway in the configuration of a client.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    /// See [`client::environment`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
}

/// Starts the servers, each of which has `timeout` until it is ready, and prints the report.
pub(super) fn test(arguments: &ServerArguments, timeout: Duration, json: bool) -> Result<Exit, CommandError> {
    let loaded = servers::read(arguments, &[], Purpose::Check)?;
    let config = &loaded.config;
    if config.servers.is_empty() && config.skipped.is_empty() {
        return Err(servers::none(arguments).into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = async |cancellation: CancellationToken| {
        let tested = Box::pin(diagnose(&loaded, arguments, timeout));
        cancellation.run_until_cancelled(tested).await.ok_or(SystemError::Interrupted)
    };
    let (diagnosis, _) = interrupt::cancel_on_interrupt(|cancellation| runtime.block_on(work(cancellation)));
    runtime.shutdown_background();
    let diagnosis = diagnosis?;
    let printed = if json { print_json(&diagnosis) } else { print(&diagnosis) };
    printed.map_err(SystemError::Output)?;
    Ok(if diagnosis.ok { Exit::Success } else { Exit::ProgramFailed })
}

async fn diagnose(loaded: &Loaded, arguments: &ServerArguments, timeout: Duration) -> Diagnosis {
    let changes = Changes::default();
    let options = UpstreamOptions::default().connect_timeout(timeout).changes(changes.clone());
    let servers = servers::start(&loaded.config, options, None);
    let (durations, ()) = tokio::join!(durations(&servers, &changes), servers::settled(&servers, |_| true, || ()));
    let config = &loaded.config;
    let sources = arguments.sources(Path::to_owned);
    let options = shlex::try_join(sources.iter().map(String::as_str)).unwrap_or_default();
    let options = servers.secrets().redact(options);
    let tested = servers.status().into_iter().enumerate().map(|(at, status)| {
        let server = config.servers.get(at);
        let protocol_version = servers.protocol_version(&status.namespace).map(|version| version.to_string());
        let duration_ms = server.and_then(|_| u64::try_from(durations[at].as_millis()).ok());
        let report = ServerReport::new(status, server, &options);
        ServerReport { duration_ms, protocol_version, ..report }
    });
    let tested: Vec<_> = tested.collect();
    servers.close().await;
    let is_ready = tested.iter().any(|server| server.state == State::Ready);
    let has_failures = tested.iter().any(|server| server.is_failure);
    let entry = if is_ready { Entry::new(arguments, loaded, &servers) } else { None };
    let dependent: Vec<_> = client::dependent_files(loaded).collect();
    let is_dependent = |server: &ServerConfig| !client::relative_paths(server).is_empty();
    let depends_on_directory = !dependent.is_empty() || config.servers.iter().any(is_dependent);
    let warnings = loaded.ignored.iter().cloned().chain(readable_secrets(loaded)).chain(dependent).collect();
    Diagnosis { ok: is_ready && !has_failures, warnings, depends_on_directory, servers: tested, entry }
}

/// Waits until each server is ready or has failed. Returns how long that took, in the order of the configuration.
async fn durations(servers: &Servers, changes: &Changes) -> Vec<Duration> {
    let (started, mut changes) = (Instant::now(), changes.subscribe());
    let mut durations = Vec::new();
    loop {
        let states = servers.status();
        durations.resize(states.len(), None);
        for (duration, status) in durations.iter_mut().zip(&states) {
            if status.state != ServerState::Connecting {
                duration.get_or_insert_with(|| started.elapsed());
            }
        }
        if let Some(durations) = durations.iter().copied().collect() {
            return durations;
        }
        // The sender is not dropped before `servers`.
        let _ = changes.changed().await;
    }
}

impl ServerReport {
    /// The report about a server, or about an entry that is skipped and has no `server`. `options` name the servers in commands.
    fn new(status: Status, server: Option<&ServerConfig>, options: &str) -> Self {
        let is_failure = servers::state_line(&status).1 || is_less_protected(&status);
        let remedy = remedy(&status, server, options);
        let prefix = format!("{}: ", status.namespace);
        let notes = servers::note_lines(&status).into_iter();
        let notes = notes.map(|(line, _)| line.strip_prefix(&prefix).unwrap_or(&line).to_owned());
        let warnings = server.iter().flat_map(|server| warnings(server, &status)).chain(notes).collect();
        let transport = server.and_then(servers::transport);
        let report = |state| Self {
            name: status.name,
            namespace: status.namespace,
            state,
            is_failure,
            transport,
            tools: None,
            filtered: None,
            rejected: None,
            duration_ms: None,
            protocol_version: None,
            reason: None,
            stderr: Vec::new(),
            remedy,
            warnings,
        };
        match status.state {
            ServerState::Ready { tools, filtered, rejected, .. } => {
                let (tools, filtered, rejected) = (Some(tools), Some(filtered), Some(rejected.len()));
                Self { tools, filtered, rejected, ..report(State::Ready) }
            }
            ServerState::Failed(mut failure) => {
                let stderr = std::mem::take(&mut failure.stderr);
                Self { reason: Some(failure.to_string().trim().to_owned()), stderr, ..report(State::Failed) }
            }
            ServerState::Skipped { reason } => Self { reason: Some(reason.to_string()), ..report(State::Skipped) },
            ServerState::Connecting => report(State::Starting),
            _ => report(State::Closed),
        }
    }
}

/// What the user can do about a server that cannot be used, unless the reason says so.
fn remedy(status: &Status, server: Option<&ServerConfig>, options: &str) -> Option<String> {
    let remedy = match (&status.state, server.map(|server| &server.transport)) {
        (ServerState::Failed(ServerFailure { needs_login: true, .. }), _) => {
            let name = shlex::try_quote(&status.name).ok()?;
            return Some(format!("run `execbox login {name} {options}`"));
        }
        (
            ServerState::Failed(ServerFailure { place: Some(FailurePlace::Path(path)), hint: None, .. }),
            Some(Transport::Stdio { command, .. }),
        ) if **path == **command && !command.contains('/') => {
            "it is not in PATH: install it, or write its absolute path (clients may have another PATH than your shell)"
        }
        (ServerState::Failed(ServerFailure { place: Some(FailurePlace::Path(path)), .. }), _)
            if path.contains('/') && is_relative(path) =>
        {
            "relative paths begin at the current directory: write an absolute path"
        }
        (ServerState::Skipped { reason: SkipReason::SelfReference }, _) => servers::OF_CLIENT,
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// Whether a pattern of the entry that denies tools, or asks about their calls, matches none: it may be misspelled.
fn is_less_protected(status: &Status) -> bool {
    let ServerState::Ready { unmatched_patterns, .. } = &status.state else { return false };
    unmatched_patterns.iter().any(|pattern| pattern.is_protective && pattern.place.is_some())
}

/// What works here and may not work for the client.
fn warnings(server: &ServerConfig, status: &Status) -> Vec<String> {
    let mut warnings = Vec::new();
    let alone = Config::from(vec![server.clone()]).namespaces().pop().unwrap_or_default();
    if alone != status.namespace {
        warnings.push(format!("the namespace `{alone}` is that of another server: rename one of them"));
    }
    if OWN_NAMESPACES.contains(&&*status.namespace) {
        let namespace = &status.namespace;
        warnings.push(format!("programs cannot use the namespace `{namespace}` of the gateway: rename the server"));
    }
    if matches!(status.state, ServerState::Ready { .. }) {
        warnings.extend(client::relative_paths(server));
    }
    warnings
}

/// A line for each file that other users can read and that has a secret of one of its servers.
fn readable_secrets(loaded: &Loaded) -> Vec<String> {
    let files: BTreeSet<&PathBuf> = loaded.sources.iter().flatten().collect();
    let has_secret = |file: &PathBuf| {
        let Ok(text) = source::read_file(file) else { return false };
        let servers = loaded.config.servers.iter().zip(&loaded.sources);
        let mut of_file = servers.filter(|(_, source)| source.as_ref() == Some(file));
        of_file.any(|(server, _)| server.secrets.redact(text.clone()) != text)
    };
    let files = files.into_iter().filter(|file| files::is_readable_by_others(file) && has_secret(file));
    let line = |file: &PathBuf| {
        let file = file.display();
        format!("{file}: other users can read its secrets: run `chmod 600 {file}`, and change them")
    };
    files.map(line).collect()
}

impl Entry {
    fn new(arguments: &ServerArguments, loaded: &Loaded, started: &Servers) -> Option<Self> {
        if servers::is_of_client(&loaded.config) || arguments.has_pipe() {
            return None;
        }
        let command = env::current_exe().ok()?.into_os_string().into_string().ok()?;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let options = [arguments.sources(absolute), arguments.selection()].concat();
        let options = options.into_iter().map(|text| started.secrets().redact(text));
        let args = ["mcp".to_owned()].into_iter().chain(options).collect();
        Some(Self { command, args, env: client::environment(loaded) })
    }

    /// The configuration of a client with this entry, in one line.
    pub(super) fn text(&self) -> io::Result<String> {
        let json = |text: &String| serde_json::to_string(text);
        let (command, args) =
            (json(&self.command)?, self.args.iter().map(json).collect::<Result<Vec<_>, _>>()?.join(", "));
        let env = self.env.iter().map(|(name, value)| Ok(format!("{}: {}", json(name)?, json(value)?)));
        let env = match env.collect::<io::Result<Vec<_>>>()? {
            env if env.is_empty() => String::new(),
            env => format!(", \"env\": {{ {} }}", env.join(", ")),
        };
        Ok(format!("{{ \"mcpServers\": {{ \"execbox\": {{ \"command\": {command}, \"args\": [{args}]{env} }} }} }}"))
    }
}
