//! `--config`, `--server`, `--allow` and `--deny`: the MCP servers and which of their tools are used. Their state is printed to
//! standard error.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use execbox::Provider;
use execbox_mcp::config::{Config, ConfigError, ServerConfig, SkipReason, Skipped, Transport};
use execbox_mcp::servers::{ServerState, Servers, Status, namespaces};
use execbox_mcp::upstream::{LineSink, UpstreamOptions};
use execbox_mcp::{Changes, Pattern};

use crate::report;
use crate::source::{self, TextError};

#[derive(Debug, Args)]
#[command(next_help_heading = "MCP servers")]
pub(crate) struct ServerArguments {
    /// Use the MCP servers in FILE, a configuration of an MCP client with `mcpServers` (repeatable)
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,

    /// Use this server: `NAME=COMMAND ARGUMENTS`, started without a shell, or `NAME=https://…` (repeatable)
    #[arg(long, value_name = "NAME=SERVER")]
    server: Vec<String>,

    /// Use only the tools of SERVER that match: `github.get_*`; `*` matches any text (repeatable)
    #[arg(long, value_name = "SERVER.TOOL")]
    allow: Vec<String>,

    /// Hide the tools that match; overrides --allow; `*.delete_*` applies to all servers (repeatable)
    #[arg(long, value_name = "SERVER.TOOL")]
    deny: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServersError {
    #[error(transparent)]
    Text(TextError),
    #[error("--config: {0}; {PLACES}")]
    NotFound(TextError),
    #[error("{file}:{error}")]
    Config { file: String, error: ConfigError },
    #[error("invalid --server {0:?}: expected NAME=COMMAND or NAME=URL, such as 'files=npx -y some-server /work'")]
    NoName(String),
    #[error("invalid --server {0:?}: unbalanced quotes; the command is split into words as a shell does")]
    Quotes(String),
    #[error("invalid --server {name:?}: {reason}")]
    Server { name: String, reason: SkipReason },
    #[error("invalid {option} {pattern:?}: {}", unknown_server(.servers))]
    Pattern { option: &'static str, pattern: String, servers: Vec<String> },
    #[error("duplicate namespace {name:?}: both a provider of --tools and an MCP server; rename one of them")]
    Duplicate { name: String },
}

fn unknown_server(servers: &[String]) -> String {
    match servers {
        [] => "no servers given".to_owned(),
        _ => format!("expected SERVER.TOOL, where SERVER is one of {}", servers.join(", ")),
    }
}

/// Reads the configuration of the servers. Fails if a server has the name of one of `stubs`.
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

/// Adds each pattern to the servers that its prefix names, by name or namespace.
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

/// Starts the servers. `changes` is notified when their tools change. If `verbose`, what the servers write to standard error
/// is printed.
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

/// The number of execbox processes that started one another, down to this one.
pub(crate) fn depth() -> usize {
    env::var(DEPTH).ok().and_then(|depth| depth.parse().ok()).unwrap_or_default()
}

/// Waits until each server is ready or has failed. Prints the names of slow servers.
pub(crate) async fn settled(servers: &Servers) {
    let mut settled = pin!(servers.settled());
    if tokio::time::timeout(QUIET_WAIT, &mut settled).await.is_err() {
        let missing = servers.status().into_iter().filter(|status| status.state == ServerState::Connecting);
        let missing: Vec<String> = missing.map(|status| format!("{:?}", status.name)).collect();
        report::note(&format_args!("waiting for {} to start …", missing.join(", ")));
        settled.await;
    }
}

/// Prints the servers that failed. Returns whether any did.
pub(crate) fn print_failures(config: &Config, servers: &Servers) -> bool {
    let failures: Vec<String> =
        skipped(config, SkipReason::is_failure).chain(servers.status().iter().filter_map(failure)).collect();
    for failure in &failures {
        note(failure);
    }
    !failures.is_empty()
}

/// Prints the state of every server.
pub(crate) fn print_status(config: &Config, servers: &Servers) {
    for line in skipped(config, |_| true) {
        report::note(&line);
    }
    for status in servers.status() {
        note(&line(&status));
        if let ServerState::Ready { rejected, unmatched_patterns, .. } = &status.state {
            for pattern in unmatched_patterns {
                report::note(&format_args!("{}: no tool matches {:?}", status.namespace, pattern.as_str()));
            }
            for tool in rejected.iter().take(MAX_REJECTED) {
                report::note(&format_args!("{}: tool {:?} rejected: {}", status.namespace, tool.name, tool.reason));
            }
            if let Some(more) = rejected.len().checked_sub(MAX_REJECTED + 1) {
                report::note(&format_args!("{}: {} more tools rejected", status.namespace, more + 1));
            }
        }
    }
}

/// Prints lines: a failure may include the stderr tail of a server.
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

/// The stub providers, followed by those of the servers.
pub(crate) fn all_providers(stubs: &[Provider], servers: &Servers) -> Vec<Provider> {
    stubs.iter().cloned().chain(servers.providers()).collect()
}

/// The environment variable with the [`depth`] of a started server: a configuration may start execbox recursively in ways that
/// reading it does not show.
const DEPTH: &str = "EXECBOX_DEPTH";

/// Where MCP clients keep their configurations.
const PLACES: &str = "MCP clients use ~/.cursor/mcp.json (Cursor), ~/.claude.json and .mcp.json (Claude Code), \
    claude_desktop_config.json (Claude Desktop: Settings, Developer), .vscode/mcp.json (VS Code)";

/// How long servers may take to start before a line is printed.
const QUIET_WAIT: Duration = Duration::from_secs(3);

/// How many rejected tools of a server are printed one by one.
const MAX_REJECTED: usize = 20;
