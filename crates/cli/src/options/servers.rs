//! `--config`, `--server`, `--allow` and `--deny`: the MCP servers and the selection of their tools. Their state is printed to
//! standard error.

use std::collections::HashSet;
use std::env;
use std::fmt::Write as _;
use std::mem;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use execbox::Provider;
use execbox_mcp::Pattern;
use execbox_mcp::config::{
    Config, ConfigError, IgnoreReason, IgnoredKey, ServerConfig, SkipReason, Skipped, Transport,
};
use execbox_mcp::servers::{ServerState, Servers, Status, Update};
use execbox_mcp::upstream::{LineSink, UpstreamOptions, Warning};

use crate::config::context::{FileContext, Needs};
use crate::config::files::Files;
use crate::config::logins::LoginStore;
use crate::error::CliError;
use crate::exit::Exit;
use crate::files::source::{self, TextError};
use crate::output::progress::Progress;
use crate::output::report;
use crate::process::secrecy;
use crate::prompt::Attended;

/// The servers of a command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "MCP servers")]
pub(crate) struct ServerSources {
    /// Use the MCP servers in FILE, as MCP clients write it: `{"mcpServers": …}` (repeatable)
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,

    /// Use this server: `NAME=COMMAND ARGUMENTS`, or `NAME=https://…` (repeatable)
    #[arg(long, value_name = "NAME=SERVER")]
    server: Vec<String>,
}

/// The servers of a command, and the selection of their tools.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "MCP servers")]
pub(crate) struct ServerArguments {
    #[command(flatten)]
    sources: ServerSources,

    /// Use only the tools of SERVER that match: `github.get_*` (repeatable)
    #[arg(long, value_name = "SERVER.TOOL")]
    allow: Vec<String>,

    /// Hide the tools that match, also of `--allow`: `*.delete_*` (repeatable)
    #[arg(long, value_name = "SERVER.TOOL")]
    deny: Vec<String>,

    /// Use only tools whose servers state that they change nothing
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Tools that clients of a gateway see, as `SERVER.TOOL`.
    #[arg(skip)]
    pub(crate) expose: Vec<String>,
}

impl From<ServerSources> for ServerArguments {
    fn from(sources: ServerSources) -> Self {
        Self { sources, ..Self::default() }
    }
}

impl ServerArguments {
    /// Whether any of the options is given.
    pub(crate) fn is_given(&self) -> bool {
        let lists = [&self.sources.server, &self.allow, &self.deny];
        !self.sources.config.is_empty() || self.read_only || lists.iter().any(|list| !list.is_empty())
    }

    /// Whether a configuration is read from a pipe.
    pub(crate) fn has_pipe(&self) -> bool {
        self.sources.config.iter().any(|path| source::is_descriptor(path))
    }

    /// The options that name the servers, as words of a command line, with the paths that `path` makes of those of files.
    pub(crate) fn sources(&self, path: impl Fn(&Path) -> PathBuf) -> Vec<String> {
        let files = self.sources.config.iter().map(|file| ["--config".to_owned(), path(file).display().to_string()]);
        let servers = self.sources.server.iter().map(|server| ["--server".to_owned(), server.clone()]);
        files.chain(servers).flatten().collect()
    }

    /// The options that select tools, as words of a command line.
    pub(crate) fn selection(&self) -> Vec<String> {
        let allow = self.allow.iter().map(|pattern| ["--allow".to_owned(), pattern.clone()]);
        let deny = self.deny.iter().map(|pattern| ["--deny".to_owned(), pattern.clone()]);
        let read_only = self.read_only.then(|| "--read-only".to_owned());
        allow.chain(deny).flatten().chain(read_only).collect()
    }
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
    #[error("unknown server {name:?}: {}", known_servers(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("server {name:?} skipped: {reason}")]
    Skipped { name: String, reason: SkipReason },
    #[error("interrupted")]
    Interrupted,
    #[error("no MCP server given: use --config FILE or --server 'NAME=COMMAND'")]
    None,
    #[error("no MCP server given: for the servers in a configuration, use `--config {file}`")]
    FileWithoutOption { file: String },
    #[error(
        "no servers in {}: expected {{ \"mcpServers\": {{ \"NAME\": {{ \"command\": \"PROGRAM\", \"args\": [\"…\"] }} }} }}",
        .files.join(", ")
    )]
    Empty { files: Vec<String> },
    #[error("duplicate namespace {name:?}: both a provider of --tools and an MCP server; rename one of them")]
    Duplicate { name: String },
}

impl CliError for ServersError {
    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted => Exit::Interrupted,
            _ => Exit::BadInput,
        }
    }
}

fn unknown_server(servers: &[String]) -> String {
    match servers {
        [] => "no servers given".to_owned(),
        _ => format!("expected SERVER.TOOL, where SERVER is one of {}", servers.join(", ")),
    }
}

fn known_servers(servers: &[String]) -> String {
    match servers {
        [] => "no server is configured".to_owned(),
        _ => format!("expected one of {}", servers.join(", ")),
    }
}

/// The purpose for which a configuration is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A command that uses the servers once. Prints keys that look misspelled; may ask for inputs on the terminal.
    Once,
    /// `execbox mcp`. Prints all keys without effect, or only those that look misspelled if `quiet`; asks only if standard input
    /// is a terminal.
    Gateway { quiet: bool },
    /// A running gateway. Prints nothing, and asks for nothing.
    Reload { quiet: bool },
    /// `execbox doctor`, which reports all keys without effect. Prints nothing; may ask for inputs on the terminal.
    Check,
}

impl Purpose {
    fn attended(self) -> Attended {
        match self {
            Self::Once | Self::Check => Attended::InputOrError,
            Self::Gateway { .. } => Attended::Input,
            Self::Reload { .. } => Attended::Never,
        }
    }

    /// Whether a key without effect is reported.
    fn mentions(self, key: &IgnoredKey) -> bool {
        match self {
            Self::Gateway { quiet: false } | Self::Reload { quiet: false } | Self::Check => true,
            _ => matches!(key.reason, IgnoreReason::Misspelled { .. }),
        }
    }
}

/// A configuration, and the files from which it was read.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// A line for each key without effect, or for several ones.
    pub(crate) ignored: Vec<String>,
    pub(crate) files: Files,
    pub(crate) needs: Needs,
    /// The file of each server; `None` for those of `--server`.
    pub(crate) sources: Vec<Option<PathBuf>>,
}

/// Reads the configuration of the servers, and prints keys that have no effect. Fails if a server has the name of one of `stubs`.
pub(crate) fn read(arguments: &ServerArguments, stubs: &[Provider], purpose: Purpose) -> Result<Loaded, ServersError> {
    let mut loaded = Loaded::default();
    read_into(&mut loaded, arguments, stubs, purpose).map(|()| loaded)
}

/// Reads the configuration again. Pipes among its files keep the text that was read before. The second part of the result is
/// the error of an invalid configuration. In that case, only the files of the first part are valid, so that their next change
/// is noticed.
pub(crate) fn read_again(
    arguments: &ServerArguments,
    stubs: &[Provider],
    quiet: bool,
    before: &Files,
) -> (Loaded, Option<ServersError>) {
    let mut loaded = Loaded { files: Files::after(before), ..Loaded::default() };
    let read = read_into(&mut loaded, arguments, stubs, Purpose::Reload { quiet });
    if read.is_err() {
        loaded.files.add_missing(before);
    }
    (loaded, read.err())
}

fn read_into(
    loaded: &mut Loaded,
    arguments: &ServerArguments,
    stubs: &[Provider],
    purpose: Purpose,
) -> Result<(), ServersError> {
    if !arguments.sources.config.is_empty() || !arguments.sources.server.is_empty() {
        secrecy::protect();
    }
    for path in &arguments.sources.config {
        read_file(loaded, path, purpose)?;
    }
    let config = &mut loaded.config;
    for text in &arguments.sources.server {
        config.servers.push(server(text)?);
    }
    loaded.sources.resize(config.servers.len(), None);
    if config.servers.iter().any(|server| matches!(server.transport, Transport::Http { .. }))
        && let Ok(store) = LoginStore::of_user()
    {
        loaded.files.record(store.path());
    }
    restrict(config, "--allow", &arguments.allow, |server, pattern| server.filter.allow.push(pattern))?;
    restrict(config, "--deny", &arguments.deny, |server, pattern| server.filter.deny.push(pattern))?;
    restrict(config, "--expose", &arguments.expose, |server, pattern| server.filter.expose.push(pattern))?;
    for server in &mut config.servers {
        server.filter.read_only |= arguments.read_only;
    }
    let mut namespaces = config.namespaces().into_iter().take(config.servers.len());
    match namespaces.find(|name| stubs.iter().any(|stub| stub.name() == name)) {
        Some(name) => Err(ServersError::Duplicate { name }),
        None => Ok(()),
    }
}

fn read_file(loaded: &mut Loaded, path: &Path, purpose: Purpose) -> Result<(), ServersError> {
    let text = read_text(&mut loaded.files, path).map_err(|error| match error {
        TextError::NotFound { .. } if !matches!(purpose, Purpose::Reload { .. }) => ServersError::NotFound(error),
        error => ServersError::Text(error),
    })?;
    let context = FileContext::new(path, purpose.attended(), mem::take(&mut loaded.files));
    let file = path.display().to_string();
    let before = loaded.config.ignored.len();
    let read = loaded.config.read(&text, &context);
    let is_interrupted = context.is_interrupted();
    loaded.files = context.finish(&mut loaded.needs);
    if is_interrupted {
        return Err(ServersError::Interrupted);
    }
    read.map_err(|error| ServersError::Config { file: file.clone(), error })?;
    loaded.sources.resize(loaded.config.servers.len(), Some(path.to_owned()));
    let lines = ignored_lines(&file, &loaded.config.ignored[before..], purpose);
    if !matches!(purpose, Purpose::Reload { .. } | Purpose::Check) {
        for line in &lines {
            report::warn(line);
        }
    }
    loaded.ignored.extend(lines);
    Ok(())
}

/// The text of a file, or of a pipe that may have been read before.
pub(crate) fn read_text(files: &mut Files, path: &Path) -> Result<String, TextError> {
    if let Some(text) = files.pipe(path) {
        return Ok(text.to_owned());
    }
    let is_pipe = source::is_descriptor(path) && !path.is_file();
    if !is_pipe {
        files.record(path);
    }
    let text = source::read_file(path)?;
    if is_pipe {
        files.keep_pipe(path, text.clone());
    }
    Ok(text)
}

/// Lines about keys without effect. Each key that a user should change has its own line, and the others of a server share one.
fn ignored_lines(file: &str, keys: &[IgnoredKey], purpose: Purpose) -> Vec<String> {
    let mut lines = Vec::new();
    for keys in keys.chunk_by(|a, b| a.server == b.server) {
        let shown = keys.iter().filter(|key| purpose.mentions(key));
        let (others, own): (Vec<_>, Vec<_>) = shown.partition(|key| key.reason == IgnoreReason::OtherClient);
        lines.extend(own.into_iter().map(|key| format!("{file}:{key}")));
        if let [first, ..] = &others[..] {
            let names: Vec<_> = others.iter().map(|key| key.key.as_str()).collect();
            let (line, column, server) = (first.line, first.column, &first.server);
            let names = names.join(", ");
            lines.push(format!("{file}:{line}:{column}: server {server:?}: keys without effect: {names}"));
        }
    }
    lines
}

/// Parses `NAME=COMMAND WITH ARGUMENTS` or `NAME=URL`.
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

/// Adds each pattern to the servers that its prefix names, by name or namespace. Those of skipped servers have no effect.
fn restrict(
    config: &mut Config,
    option: &'static str,
    patterns: &[String],
    mut add: impl FnMut(&mut ServerConfig, Pattern),
) -> Result<(), ServersError> {
    let namespaces = config.namespaces();
    let (of_servers, of_skipped) = namespaces.split_at(config.servers.len());
    for text in patterns {
        let mut found = false;
        let of = |name: &str| text.strip_prefix(name)?.strip_prefix('.');
        for (server, namespace) in config.servers.iter_mut().zip(of_servers) {
            if let Some(tool) = of(&server.name).or_else(|| of(namespace)).or_else(|| of("*")) {
                add(server, Pattern::new(tool));
                found = true;
            }
        }
        found |= config.skipped.iter().any(|skipped| of(&skipped.name).is_some());
        if !found && !of_skipped.iter().any(|namespace| of(namespace).is_some()) {
            return Err(ServersError::Pattern { option, pattern: text.clone(), servers: namespaces });
        }
    }
    Ok(())
}

/// The server with this name, in the configuration or in code.
pub(crate) fn find<'a>(config: &'a Config, name: &str) -> Result<&'a ServerConfig, ServersError> {
    let namespaces = config.namespaces();
    let by_name = config.servers.iter().find(|server| server.name == name);
    let by_namespace = || config.servers.iter().zip(&namespaces).find(|(_, namespace)| *namespace == name);
    let found = by_name.or_else(|| by_namespace().map(|(server, _)| server));
    found.ok_or_else(|| {
        let of_skipped = namespaces.iter().skip(config.servers.len());
        let mut skipped = config.skipped.iter().zip(of_skipped);
        if let Some((skipped, _)) = skipped.find(|(skipped, namespace)| skipped.name == name || *namespace == name) {
            return ServersError::Skipped { name: name.to_owned(), reason: skipped.reason.clone() };
        }
        let known = config.servers.iter().map(|server| server.name.clone()).collect();
        ServersError::Unknown { name: name.to_owned(), known }
    })
}

/// The error of a command without any server. `arguments` are those that name none.
pub(crate) fn none(arguments: &ServerArguments) -> ServersError {
    let files: Vec<_> = arguments.sources.config.iter().map(|path| path.display().to_string()).collect();
    if files.is_empty() { ServersError::None } else { ServersError::Empty { files } }
}

/// Whether a configuration is that of a client that starts execbox.
pub(crate) fn is_of_client(config: &Config) -> bool {
    config.skipped.iter().any(|skipped| skipped.reason == SkipReason::SelfReference)
}

/// The error for a command without servers, some of whose words may be the name of a configuration.
pub(crate) fn none_but(arguments: &ServerArguments, words: &[String]) -> ServersError {
    match (none(arguments), words.iter().find(|word| Path::new(word).is_file())) {
        (ServersError::None, Some(file)) => ServersError::FileWithoutOption { file: file.clone() },
        (error, _) => error,
    }
}

/// The first mistake in an entry, unless `before` skips the entry for a mistake, too: then no server is lost.
pub(crate) fn new_mistake(config: &Config, before: &Config) -> Option<ServersError> {
    let mistake = |skipped: &Skipped| match &skipped.reason {
        SkipReason::Invalid { file, error } => Some((file.clone().unwrap_or_default(), (**error).clone())),
        _ => None,
    };
    let had_one = |name: &str| before.skipped.iter().any(|other| other.name == name && mistake(other).is_some());
    let new = config.skipped.iter().filter(|skipped| !had_one(&skipped.name)).find_map(mistake);
    new.map(|(file, error)| ServersError::Config { file, error })
}

/// Starts the servers. `options` have what they share with the command: clients, secrets, and who is notified of changes.
/// `on_stderr` receives what they write to standard error.
pub(crate) fn start(config: &Config, options: UpstreamOptions, on_stderr: Option<&LineSink>) -> Servers {
    let options = match LoginStore::of_user() {
        Ok(store) => options.tokens(Arc::new(store)),
        Err(_) => options,
    };
    Servers::start(with_depth(config), &options, on_stderr)
}

/// Replaces the configuration of started servers, and connects to failed ones again: the user may have logged in since.
pub(crate) fn update(servers: &Servers, config: &Config) -> Update {
    let update = servers.update(with_depth(config));
    servers.retry_failed();
    update
}

/// The configuration, with [`DEPTH`] in the environments of the servers.
fn with_depth(config: &Config) -> Config {
    let mut config = config.clone();
    for server in &mut config.servers {
        if let Transport::Stdio { env, .. } = &mut server.transport {
            env.push((DEPTH.to_owned(), (depth() + 1).to_string()));
        }
    }
    config
}

/// The number of execbox processes that started one another, including this one.
pub(crate) fn depth() -> usize {
    env::var(DEPTH).ok().and_then(|depth| depth.parse().ok()).unwrap_or_default()
}

/// Waits until each server whose namespace `is_needed` selects is ready or has failed. Prints the names of slow ones, and calls
/// `on_slow` before it goes on to wait for them.
pub(crate) async fn settled(servers: &Servers, is_needed: impl Fn(&str) -> bool, on_slow: impl FnOnce()) {
    let since = Instant::now();
    let mut settled = pin!(servers.settled_if(&is_needed));
    if tokio::time::timeout(QUIET_WAIT, &mut settled).await.is_ok() {
        return;
    }
    on_slow();
    report::note(&format_args!("waiting for {} to start …", starting(servers, &is_needed)));
    let progress = Progress::new(0);
    while tokio::time::timeout(PROGRESS_PAUSE, &mut settled).await.is_err() {
        progress.write(&format!("{}: {} s", starting(servers, &is_needed), since.elapsed().as_secs()));
    }
}

/// The names of the servers that are starting.
fn starting(servers: &Servers, is_needed: impl Fn(&str) -> bool) -> String {
    let missing = servers.status().into_iter().filter(|status| status.state == ServerState::Connecting);
    let missing = missing.filter(|status| is_needed(&status.namespace));
    let missing: Vec<String> = missing.map(|status| format!("{:?}", status.name)).collect();
    missing.join(", ")
}

/// The namespaces that a program may use: those that it names, or all if it can reach globals without their names. A program of a
/// gateway may use all if it searches tools, or calls snippets.
pub(crate) fn used_namespaces(config: &Config, code: &str, is_of_gateway: bool) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '\u{200c}' | '\u{200d}');
    let words: HashSet<&str> = code.split(|c| !is_part(c)).collect();
    let names_any = |names: &[&str]| names.iter().any(|name| words.contains(name));
    let reaches_all =
        code.contains("\\u") || names_any(&REACHING_GLOBALS) || is_of_gateway && names_any(&["tools", "snippets"]);
    let mut namespaces = config.namespaces();
    namespaces.retain(|namespace| reaches_all || words.contains(&**namespace));
    namespaces
}

/// Prints the entries that were skipped for a mistake, and of the servers whose namespaces `is_needed` selects those that failed
/// and what is not used. Returns whether there is one that failed or was skipped.
pub(crate) fn print_failures(servers: &Servers, is_needed: impl Fn(&str) -> bool) -> bool {
    let is_skipped = |status: &Status| matches!(status.state, ServerState::Skipped { .. });
    let mut states = servers.status();
    let has_none = states.iter().all(is_skipped);
    states.retain(|status| is_skipped(status) || is_needed(&status.namespace));
    let failures: Vec<_> = states.iter().map(state_line).filter(|(_, is_failure)| *is_failure).collect();
    for (line, _) in &failures {
        report::warn(line);
    }
    let is_itself =
        |status: &Status| matches!(status.state, ServerState::Skipped { reason: SkipReason::SelfReference });
    if has_none && states.iter().any(is_itself) {
        report::warn(&OF_CLIENT);
    }
    for (line, _) in states.iter().flat_map(note_lines) {
        report::warn(&line);
    }
    !failures.is_empty()
}

/// The lines about entries that are not used, and whether each is a failure.
pub(crate) fn skipped_lines(config: &Config) -> Vec<(String, bool)> {
    let line =
        |Skipped { name, reason, .. }: &Skipped| (format!("server {name:?} skipped: {reason}"), reason.is_failure());
    config.skipped.iter().map(line).collect()
}

/// The line about the state of a server, and whether it is about a failure. It may include the stderr tail of the server, on
/// further lines.
pub(crate) fn state_line(status: &Status) -> (String, bool) {
    let is_failure = match &status.state {
        ServerState::Failed(_) => true,
        ServerState::Skipped { reason } => reason.is_failure(),
        _ => false,
    };
    (line(status), is_failure)
}

/// The lines about what of a server is not used, and whether each is about a failure.
pub(crate) fn note_lines(status: &Status) -> Vec<(String, bool)> {
    let mut lines = Vec::new();
    let ServerState::Ready { rejected, unmatched_patterns, warnings, .. } = &status.state else { return lines };
    let mut add = |text: String, is_failure| lines.push((format!("{}: {text}", status.namespace), is_failure));
    for warning in warnings.iter().take(MAX_NOTES) {
        add(warning.to_string(), matches!(warning, Warning::NotImported { .. }));
    }
    if let Some(more) = warnings.len().checked_sub(MAX_NOTES + 1) {
        add(format!("{} more warnings", more + 1), false);
    }
    for pattern in unmatched_patterns.iter().filter(|pattern| pattern.place.is_none()) {
        add(pattern.to_string(), true);
    }
    for tool in rejected.iter().take(MAX_NOTES) {
        add(format!("tool {:?} rejected: {}", tool.name, tool.reason), false);
    }
    if let Some(more) = rejected.len().checked_sub(MAX_NOTES + 1) {
        add(format!("{} more tools rejected", more + 1), false);
    }
    let placed = unmatched_patterns.iter().filter(|pattern| pattern.place.is_some());
    lines.extend(placed.map(|pattern| (pattern.to_string(), true)));
    lines
}

/// The state of a server in one line.
fn line(Status { name, namespace, state, .. }: &Status) -> String {
    let mut line = format!("server {name:?}");
    if name != namespace && !matches!(state, ServerState::Failed(_) | ServerState::Skipped { .. }) {
        let _ = write!(line, " (in code: `{namespace}`)");
    }
    let _ = match state {
        ServerState::Connecting => write!(line, ": still starting; its tools become available when it is ready"),
        ServerState::Ready { tools, filtered: 0, .. } => write!(line, ": {}", tools_of(*tools)),
        ServerState::Ready { tools, filtered, .. } => {
            write!(line, ": {} ({filtered} filtered)", tools_of(*tools))
        }
        ServerState::Failed(failure) => write!(line, ": {failure}"),
        ServerState::Skipped { reason } => write!(line, " skipped: {reason}"),
        _ => write!(line, ": closed"),
    };
    line
}

pub(crate) fn tools_of(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

/// Whether a pattern for `NAMESPACE.TOOL` is known to match no tool of a stub file or of a server.
pub(crate) fn is_unmatched(pattern: &Pattern, servers: &Servers, stubs: &[Provider]) -> bool {
    let matches = |stub: &Provider| {
        let names = stub.manifest().tools.iter().flat_map(|tool| [&tool.safe_name, &tool.original_name]);
        names.into_iter().any(|name| pattern.matches(&format!("{}.{name}", stub.name())))
    };
    !stubs.iter().any(matches) && servers.has_match(pattern) == Some(false)
}

/// The stub providers, followed by those of the servers.
pub(crate) fn all_providers(stubs: &[Provider], servers: &Servers) -> Vec<Provider> {
    stubs.iter().cloned().chain(servers.providers()).collect()
}

/// The command without arguments, or the origin of the URL. Arguments, paths and user names may be secrets.
pub(crate) fn transport(server: &ServerConfig) -> Option<String> {
    let text = match &server.transport {
        Transport::Stdio { command, .. } => command.clone(),
        Transport::Http { url, .. } => origin(url)?,
        _ => return None,
    };
    Some(server.secrets.redact(text))
}

fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    scheme.chars().all(|c| c.is_ascii_alphabetic()).then(|| format!("{scheme}://{host}"))
}

/// What to do about an entry that starts execbox itself.
pub(crate) const OF_CLIENT: &str =
    "this is the configuration of a client that starts execbox: copy the servers for execbox to a new file";

/// The environment variable with the [`depth`] of a started server. A configuration may start execbox recursively in ways that
/// reading it does not show.
const DEPTH: &str = "EXECBOX_DEPTH";

/// The places where MCP clients keep their configurations.
const PLACES: &str = "MCP clients use ~/.cursor/mcp.json (Cursor), ~/.claude.json and .mcp.json (Claude Code), \
    claude_desktop_config.json (Claude Desktop: Settings, Developer), .vscode/mcp.json (VS Code), \
    ~/.config/zed/settings.json (Zed), ~/.codex/config.toml (Codex), ~/.gemini/settings.json (Gemini CLI)";

/// Words of programs that can use a global without its name.
const REACHING_GLOBALS: [&str; 5] = ["Function", "constructor", "eval", "globalThis", "self"];

/// The time that servers have to start before a line is printed.
const QUIET_WAIT: Duration = Duration::from_secs(3);

/// The pause between lines on a terminal that show how long servers have taken to start.
const PROGRESS_PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of rejected tools, and of warnings, of a server that are printed one by one.
const MAX_NOTES: usize = 20;

#[cfg(test)]
mod tests {
    use execbox_mcp::config::{Config, ServerConfig};

    use super::{origin, used_namespaces};

    #[test]
    fn programs_use_the_namespaces_that_they_name_or_may_compute() {
        let names = ["shop", "天気", "a_b"];
        let servers = names.map(|name| ServerConfig::stdio(name, "server", &[]).unwrap());
        let config = Config::from(Vec::from(servers));
        for (code, expected) in [
            ("await shop.list()", &["shop"][..]),
            ("const { list } = shop; await 天気.now()", &["shop", "天気"]),
            ("1 + 1 // shopping, a.b, a-b", &[]),
            ("[`${await a_b.c()}`]", &["a_b"]),
            ("globalThis['sh' + 'op']", &names),
            ("self[name]", &names),
            ("new Function('return 1')", &names),
            ("(() => {}).constructor('1')", &names),
            ("await sh\\u006fp.list()", &names),
        ] {
            assert_eq!(used_namespaces(&config, code, false), expected, "{code}");
        }
        for code in ["await tools.search('orders')", "await snippets.total()"] {
            assert_eq!(used_namespaces(&config, code, false), [""; 0], "{code}");
            assert_eq!(used_namespaces(&config, code, true), names, "{code}");
        }
    }

    #[test]
    fn an_origin_has_no_path_and_no_user() {
        for (url, expected) in [
            ("https://user:pw@example.com:8443/key?token=a#b", Some("https://example.com:8443")),
            ("http://[::1]:80", Some("http://[::1]:80")),
            ("https://a@b@example.com\\key", Some("https://example.com")),
            ("https:///user:pw@example.com/", Some("https://")),
            ("https:\\\\user:pw@example.com/x://y", None),
            ("https:user:pw@example.com", None),
        ] {
            assert_eq!(origin(url).as_deref(), expected, "{url}");
        }
    }
}
