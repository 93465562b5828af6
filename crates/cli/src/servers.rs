//! `--config`, `--server`, `--allow` and `--deny`: which MCP servers, and what of them. What is said of them on standard
//! error: [`report`].

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use execbox::Provider;
use execbox_mcp::config::{Config, ConfigError, ServerConfig, SkipReason, Skipped, Transport};
use execbox_mcp::servers::{ServerState, Servers, Status, namespaces};
use execbox_mcp::upstream::{LineSink, UpstreamOptions};
use execbox_mcp::{Changes, Pattern};

use crate::args::ServerArguments;
use crate::report;
use crate::source::{self, TextError};

/// Why there are no servers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServersError {
    #[error(transparent)]
    Text(TextError),
    #[error("--config: {0}; {PLACES}")]
    NotFound(TextError),
    #[error("{file}:{error}")]
    Config { file: String, error: ConfigError },
    #[error("--server {0:?}: write NAME=COMMAND or NAME=URL, for example 'files=npx -y some-server /work'")]
    NoName(String),
    #[error("--server {0:?}: its quotes do not match: a command is split into words as a shell does")]
    Quotes(String),
    #[error("--server {name:?}: {reason}")]
    Server { name: String, reason: SkipReason },
    #[error("{option} {pattern:?}: {}", no_such_server(.servers))]
    Pattern { option: &'static str, pattern: String, servers: Vec<String> },
    #[error("{name:?} is both a provider of --tools and an MCP server: rename one of the two")]
    Duplicate { name: String },
}

fn no_such_server(servers: &[String]) -> String {
    match servers {
        [] => "there is no server at all".to_owned(),
        _ => format!("it begins with no server; write SERVER.TOOL with one of {}", servers.join(", ")),
    }
}

/// The servers that the command line names. None of them is called as one of `stubs`.
pub(crate) fn read(arguments: &ServerArguments, stubs: &[Provider]) -> Result<Config, ServersError> {
    let mut config = Config::default();
    for path in &arguments.config {
        read_file(&mut config, path)?;
    }
    for text in &arguments.server {
        config.servers.push(server(text)?);
    }
    restrict(&mut config.servers, "--allow", &arguments.allow, |server, pattern| server.filter.allow.push(pattern))?;
    restrict(&mut config.servers, "--deny", &arguments.deny, |server, pattern| server.filter.deny.push(pattern))?;
    let mut namespaces = namespaces(config.servers.iter().map(|server| server.name.as_str())).into_iter();
    match namespaces.find(|name| stubs.iter().any(|stub| stub.name() == name)) {
        Some(name) => Err(ServersError::Duplicate { name }),
        None => Ok(config),
    }
}

fn read_file(config: &mut Config, path: &Path) -> Result<(), ServersError> {
    let text = source::read_file(path).map_err(|error| match error {
        TextError::NotFound { .. } => ServersError::NotFound(error),
        error => ServersError::Text(error),
    })?;
    let variables = |name: &str| env::var(name).ok();
    config.read(&text, &variables).map_err(|error| ServersError::Config { file: path.display().to_string(), error })
}

/// `NAME=COMMAND WITH ARGUMENTS` or `NAME=URL`.
fn server(text: &str) -> Result<ServerConfig, ServersError> {
    let named = text.split_once('=').filter(|(name, rest)| !name.trim().is_empty() && !rest.trim().is_empty());
    let (name, rest) = named.ok_or_else(|| ServersError::NoName(text.to_owned()))?;
    let name = name.trim();
    let words = shlex::split(rest).ok_or_else(|| ServersError::Quotes(text.to_owned()))?;
    let server = match &words[..] {
        [url] if url.contains("://") => ServerConfig::http(name, url),
        [command, args @ ..] => ServerConfig::stdio(name, command, args),
        [] => return Err(ServersError::NoName(text.to_owned())),
    };
    server.map_err(|reason| ServersError::Server { name: name.to_owned(), reason })
}

/// Adds patterns to the servers that they begin with, by name or namespace.
fn restrict(
    servers: &mut [ServerConfig],
    option: &'static str,
    patterns: &[String],
    mut add: impl FnMut(&mut ServerConfig, Pattern),
) -> Result<(), ServersError> {
    let namespaces = namespaces(servers.iter().map(|server| server.name.as_str()));
    for text in patterns {
        let mut found = false;
        for (server, namespace) in servers.iter_mut().zip(&namespaces) {
            let of = |name: &str| text.strip_prefix(name)?.strip_prefix('.');
            if let Some(tool) = of(&server.name).or_else(|| of(namespace)).or_else(|| of("*")) {
                add(server, Pattern::new(tool));
                found = true;
            }
        }
        if !found {
            return Err(ServersError::Pattern { option, pattern: text.clone(), servers: namespaces });
        }
    }
    Ok(())
}

/// Begins to open the servers. `changes` are told when their tools change. If it is to be `verbose`, what they write to
/// standard error is shown.
pub(crate) fn start(config: &Config, changes: Changes, verbose: bool) -> Servers {
    let mut configs = config.servers.clone();
    for config in &mut configs {
        if let Transport::Stdio { env, .. } = &mut config.transport {
            env.push((DEPTH.to_owned(), (depth() + 1).to_string()));
        }
    }
    let options = UpstreamOptions { changes, ..UpstreamOptions::default() };
    let on_stderr = verbose.then(|| LineSink::new(|line| report::note(&line)));
    Servers::start(configs, &options, on_stderr.as_ref())
}

/// How many of execbox started one another until this one.
pub(crate) fn depth() -> usize {
    env::var(DEPTH).ok().and_then(|depth| depth.parse().ok()).unwrap_or_default()
}

/// Waits until each is there or has failed. Says whom it waits for if that takes long.
pub(crate) async fn settled(servers: &Servers) {
    let mut settled = pin!(servers.settled());
    if tokio::time::timeout(QUIET_WAIT, &mut settled).await.is_err() {
        let missing = servers.status().into_iter().filter(|status| status.state == ServerState::Connecting);
        let missing: Vec<String> = missing.map(|status| format!("{:?}", status.name)).collect();
        report::note(&format_args!("waiting for {} to start …", missing.join(", ")));
        settled.await;
    }
}

/// Says what has failed, and else nothing. Tells whether anything has.
pub(crate) fn report_failures(config: &Config, servers: &Servers) -> bool {
    let failures: Vec<String> =
        skipped(config, SkipReason::is_failure).chain(servers.status().iter().filter_map(failure)).collect();
    for failure in &failures {
        note(failure);
    }
    !failures.is_empty()
}

/// Says what there is.
pub(crate) fn report(config: &Config, servers: &Servers) {
    for line in skipped(config, |_| true) {
        report::note(&line);
    }
    for status in servers.status() {
        note(&line(&status));
        if let ServerState::Ready { rejected, unmatched_patterns, .. } = &status.state {
            for pattern in unmatched_patterns {
                report::note(&format_args!("{}: no tool matches {:?}", status.namespace, pattern.as_str()));
            }
            for tool in rejected.iter().take(MAX_LEFT_OUT) {
                report::note(&format_args!("{}: tool {:?} rejected: {}", status.namespace, tool.name, tool.reason));
            }
            if let Some(more) = rejected.len().checked_sub(MAX_LEFT_OUT + 1) {
                report::note(&format_args!("{}: {} more tools rejected", status.namespace, more + 1));
            }
        }
    }
}

/// The reason of a failure may have several lines.
fn note(text: &str) {
    for line in text.lines() {
        report::note(&line);
    }
}

fn skipped<'a>(config: &'a Config, is_shown: impl Fn(&SkipReason) -> bool + 'a) -> impl Iterator<Item = String> + 'a {
    let skipped = config.skipped.iter().filter(move |skipped| is_shown(&skipped.reason));
    skipped.map(|Skipped { name, reason }| format!("server {name:?} skipped: {reason}"))
}

fn failure(status: &Status) -> Option<String> {
    matches!(status.state, ServerState::Failed { .. }).then(|| line(status))
}

/// One server in one line.
fn line(Status { name, namespace, state }: &Status) -> String {
    let mut line = format!("server {name:?}");
    if name != namespace && !matches!(state, ServerState::Failed { .. }) {
        let _ = write!(line, " (in code: `{namespace}`)");
    }
    let _ = match state {
        ServerState::Connecting => write!(line, ": still starting; its tools become available when it is ready"),
        ServerState::Ready { tools, filtered: 0, .. } => write!(line, ": {}", tools_of(*tools)),
        ServerState::Ready { tools, filtered, .. } => {
            write!(line, ": {} ({filtered} filtered)", tools_of(*tools))
        }
        ServerState::Failed { reason } => write!(line, ": {reason}"),
        ServerState::Closed => write!(line, ": closed"),
    };
    line
}

fn tools_of(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

/// The providers of servers, after those that are there anyway.
pub(crate) fn all(stubs: &[Provider], servers: &Servers) -> Vec<Provider> {
    stubs.iter().cloned().chain(servers.providers()).collect()
}

/// Tells an execbox that is started by another how deep it is: a configuration may start itself in a way that it does not
/// see.
const DEPTH: &str = "EXECBOX_DEPTH";

/// Where people find what they are asked for.
const PLACES: &str = "MCP clients keep theirs in ~/.cursor/mcp.json (Cursor), ~/.claude.json and .mcp.json (Claude Code), \
    claude_desktop_config.json (Claude Desktop: Settings, Developer), .vscode/mcp.json (VS Code)";

/// How long servers may take to start before anything is said of it.
const QUIET_WAIT: Duration = Duration::from_secs(3);

/// How many left-out tools of a server are told one by one.
const MAX_LEFT_OUT: usize = 20;
