//! `execbox mcp`: serves the tools of MCP servers to a client as one MCP server that runs code.
//!
//! On standard input and output, standard output carries the protocol and nothing else. Over HTTP, nothing is written to it.

use std::io::{self, IsTerminal as _};
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Args, ValueEnum};
use execbox::jail::Mode;
use execbox::transport::tls::ServerTls;
use execbox::{CancellationToken, Limits};
use execbox_mcp::rmcp::ServiceExt as _;
use execbox_mcp::rmcp::service::ServerInitializeError;
use execbox_mcp::server::{
    self, CodeServer, HttpError, HttpLimit, HttpOptions, HttpServer, LineTransport, NamedClients, ServerOptions,
    ShortageSink, StateStore,
};
use execbox_mcp::servers::Servers;
use execbox_mcp::upstream::{LineSink, UpstreamOptions};
use execbox_mcp::{Clients, Secrets, Shapes};

use crate::error::{CliError, CommandError, SystemError, listen_reason, reason};
use crate::exit::Exit;
use crate::gateway::approvals::{Approvals, ClientApprover};
use crate::gateway::clients::{self, ClientServers, ClientsError, ClientsFile};
use crate::gateway::policy::{PolicyArguments, PolicySource};
use crate::gateway::reload::{Hangup, Reloader, Sources};
use crate::gateway::running::Publisher;
use crate::gateway::tool_source::ToolSource;
use crate::gateway::watch;
use crate::gateway::watch::{Lines, LogFile, Published};
use crate::options::engine::EngineArguments;
use crate::options::executor::{self, ExecutorConfig, ExecutorKind, RemoteSource};
use crate::options::limits::{GATEWAY_TIMEOUT, LimitArguments};
use crate::options::servers::{self, Loaded, Purpose, ServerArguments, ServersError};
use crate::options::state::{self, StateFile};
use crate::options::stub;
use crate::options::tls::{ExecutorTlsArguments, ServerTlsArguments, TlsFileError};
use crate::options::token::{Role, TokenSource};
use crate::options::units::{Time, count};
use crate::output::report;
use crate::process::descriptors;
use crate::process::interrupt;
use crate::process::stdin::Input;

/// Serve the tools of MCP servers as one MCP server that runs code
///
/// Connects to the MCP servers of a configuration and serves, on standard input and output or over HTTP, two tools in
/// place of theirs: one searches the tools of all servers, one runs code that calls them, in a sandbox. Results that the
/// code does not return stay out of the model's context. `--layout` selects other tools.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = LONG_HELP)]
pub(crate) struct Arguments {
    /// Keep what programs store, and their snippets, in FILE: for all clients, and for later gateways
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Append the state of servers, and what they write to standard error, to FILE
    ///
    /// The file has at most 16 MiB; the lines before that are in FILE.1.
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,

    /// Print only failures to standard error
    #[arg(short, long)]
    quiet: bool,

    /// Also print what the started servers write to standard error
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,

    #[command(flatten)]
    servers: ServerArguments,

    /// Also grant the stub tools in FILE, which return fixed answers (repeatable)
    #[arg(long, value_name = "FILE", help_heading = "MCP servers", hide_short_help = true)]
    tools: Vec<PathBuf>,

    #[command(flatten)]
    policy: PolicyArguments,

    /// Refuse calls that are not approved within TIME; until then, the time limits of the program are paused
    #[arg(long, value_name = "TIME", help_heading = "Approvals", hide_short_help = true, allow_negative_numbers = true, default_value_t = Time(APPROVAL_TIMEOUT))]
    approval_timeout: Time,

    /// Serve many clients over HTTP at ADDRESS: `127.0.0.1:8080`; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", help_heading = "HTTP")]
    http: Option<HttpAddress>,

    /// Require the token in FILE from clients [default: `$EXECBOX_LISTEN_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: ServerTlsArguments,

    /// Serve the clients in FILE, each with a token, servers, tools, limits and a state of its own
    ///
    /// Other clients need the token of `--token-file`.
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    clients: Option<PathBuf>,

    /// Also accept requests to this host name: `box.example.com` (repeatable)
    #[arg(long, value_name = "HOST", requires = "http", help_heading = "HTTP", hide_short_help = true)]
    allow_host: Vec<String>,

    /// Accept requests from web pages of this origin: `https://app.example.com` (repeatable)
    #[arg(long, value_name = "ORIGIN", requires = "http", help_heading = "HTTP", hide_short_help = true)]
    allow_origin: Vec<String>,

    /// Keep at most COUNT connections
    ///
    /// At most half of them are streams of messages, and a quarter requests in progress.
    #[arg(long, value_name = "COUNT", requires = "http", help_heading = "HTTP", hide_short_help = true, allow_negative_numbers = true, value_parser = count::<NonZero<usize>>, default_value_t = MAX_CONNECTIONS)]
    max_connections: NonZero<usize>,

    /// Keep at most COUNT sessions of clients; a further one ends one that is not in use, or is refused
    #[arg(long, value_name = "COUNT", requires = "http", help_heading = "HTTP", hide_short_help = true, allow_negative_numbers = true, value_parser = count::<NonZero<usize>>, default_value_t = MAX_SESSIONS)]
    max_sessions: NonZero<usize>,

    /// Select the tools that clients see
    #[arg(long, value_enum, value_name = "LAYOUT", help_heading = "Client tools", default_value_t = Layout::Split)]
    layout: Layout,

    /// Also show clients the tools that match, which they call without code: `time.get_*` (repeatable)
    ///
    /// Their names begin with that of the server: `time_get_…`.
    #[arg(long, value_name = "SERVER.TOOL", help_heading = "Client tools")]
    expose: Vec<String>,

    /// Remember the types of results, and show them for tools whose servers declare none
    ///
    /// WHERE is `memory`, until the gateway ends, `state`, in the file of `--state`, or `off`.
    #[arg(
        long,
        value_name = "WHERE",
        value_enum,
        help_heading = "Client tools",
        hide_possible_values = true,
        hide_short_help = true,
        default_value_t
    )]
    result_types: ResultTypes,

    /// Name the search tool
    #[arg(long, value_name = "NAME", help_heading = "Client tools", hide_short_help = true, value_parser = tool_name, default_value_t = ServerOptions::default().search_name)]
    search_name: String,

    /// Name the tool that runs code
    #[arg(long, value_name = "NAME", help_heading = "Client tools", hide_short_help = true, value_parser = tool_name, default_value_t = ServerOptions::default().execute_name)]
    execute_name: String,

    /// Name the tool that runs code and has the types in its description (`--layout single` and `both`)
    #[arg(long, value_name = "NAME", help_heading = "Client tools", hide_short_help = true, value_parser = tool_name, default_value_t = ServerOptions::default().code_name)]
    code_name: String,

    /// Name the tool that describes tools (`--layout passthrough`)
    #[arg(long, value_name = "NAME", help_heading = "Client tools", hide_short_help = true, value_parser = tool_name, default_value_t = ServerOptions::default().describe_name)]
    describe_name: String,

    /// Name the tool that calls one tool (`--layout passthrough`)
    #[arg(long, value_name = "NAME", help_heading = "Client tools", hide_short_help = true, value_parser = tool_name, default_value_t = ServerOptions::default().call_name)]
    call_name: String,

    /// Stop code after TIME, including the time of its tool calls: `2s`, `1m`
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, help_heading = "Limits", default_value_t = Time(GATEWAY_TIMEOUT))]
    timeout: Time,

    /// Let models ask for more time for a program, up to TIME
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, help_heading = "Limits", hide_short_help = true, default_value_t = Time(MAX_TIMEOUT))]
    max_timeout: Time,

    /// Run at most N programs at once, on workers or in processes of their own; further ones wait
    #[arg(long, value_name = "N", help_heading = "Limits", hide_short_help = true, allow_negative_numbers = true, value_parser = count::<NonZero<usize>>, default_value_t = MAX_PROGRAMS)]
    max_programs: NonZero<usize>,

    #[command(flatten)]
    limits: LimitArguments,

    /// Give programs `setTimeout`, `setInterval` and `setImmediate`, which wait within the limits
    #[arg(long, help_heading = "Limits", hide_short_help = true)]
    timers: bool,

    /// Run code in a process, on a worker, inline or at remote=ADDRESS
    #[arg(long, value_name = "EXECUTOR", help_heading = "Isolation", default_value_t = ExecutorKind::Process)]
    executor: ExecutorKind,

    /// Present the token in FILE to the remote runner [default: `$EXECBOX_REMOTE_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "executor", help_heading = "Isolation", hide_short_help = true)]
    executor_token_file: Option<PathBuf>,

    #[command(flatten)]
    executor_tls: ExecutorTlsArguments,

    #[command(flatten)]
    engine: EngineArguments,

    /// Lock child processes: `required`, `best-effort` or `off`
    ///
    /// `required` fails if the system lacks a layer, `best-effort` uses the layers that the system has.
    #[arg(long, value_name = "MODE", help_heading = "Isolation", hide_short_help = true, default_value_t = Mode::default())]
    jail: Mode,
}

/// A value of `--http`: `HOST:PORT`.
#[derive(Debug, Clone)]
struct HttpAddress(String);

#[derive(Debug, thiserror::Error)]
#[error("expected HOST:PORT, such as {0}")]
struct HttpAddressError(String);

impl FromStr for HttpAddress {
    type Err = HttpAddressError;

    fn from_str(text: &str) -> Result<Self, HttpAddressError> {
        let is_port = |port: &str| port.parse::<u16>().is_ok();
        let parts = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && is_port(port));
        if parts.is_some() && !text.contains('/') {
            return Ok(Self(text.to_owned()));
        }
        // A port alone, or a URL, is shown in the form that is expected.
        let authority = text.trim_start_matches("http://").split('/').next().unwrap_or_default();
        Err(HttpAddressError(match authority.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && is_port(port) => authority.to_owned(),
            Some((_, port)) if is_port(port) => format!("127.0.0.1:{port}"),
            None if is_port(authority) => format!("127.0.0.1:{authority}"),
            _ => "127.0.0.1:8080".to_owned(),
        }))
    }
}

/// A value of `--layout`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Layout {
    /// The search tool, and the tool that runs code
    Split,
    /// The search tool, and both tools that run code
    Both,
    /// The tool that runs code and has the types in its description
    Single,
    /// No code: tools that search, describe, and call one tool
    Passthrough,
}

impl From<Layout> for server::Layout {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Both => Self::Both,
            Layout::Split => Self::Split,
            Layout::Single => Self::Single,
            Layout::Passthrough => Self::Passthrough,
        }
    }
}

/// The default of `--max-timeout`.
const MAX_TIMEOUT: Duration = Duration::from_mins(5);

/// The default of `--approval-timeout`.
const APPROVAL_TIMEOUT: Duration = Duration::from_mins(10);

/// The default of `--max-programs`. Most programs wait for tools most of the time, and programs that compute share the cores.
const MAX_PROGRAMS: NonZero<usize> = NonZero::new(128).unwrap();

/// The default of `--max-connections`.
const MAX_CONNECTIONS: NonZero<usize> = NonZero::new(4_096).unwrap();

/// The default of `--max-sessions`.
const MAX_SESSIONS: NonZero<usize> = NonZero::new(2_048).unwrap();

/// One request in progress per this many connections.
const REQUESTS_PART: usize = 4;

/// How many files are open for each program, and for everything else than programs and connections.
const FILES_PER_PROGRAM: usize = 6;
const OTHER_FILES: usize = 512;

/// The time for running programs after the end of input, and for closing the file of `--state`.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// The maximum number of execbox processes that start one another.
const MAX_DEPTH: usize = 2;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
enum McpError {
    #[error("{NOTHING_TO_SERVE}")]
    NothingToServe,
    #[error("no MCP server left: every configured server is disabled or of another project")]
    AllServersSkipped,
    #[error("no MCP server left: {}", servers::OF_CLIENT)]
    OnlyItself,
    #[error("the configuration starts execbox recursively: remove the server that starts `execbox mcp`")]
    Recursion,
    #[error("duplicate tool name {0:?}: the names of the gateway's tools must differ")]
    DuplicateToolName(String),
    #[error("--log-file {}: {}", path.display(), reason(.error))]
    LogFile { path: PathBuf, error: io::Error },
    #[error("--http: {}", http_reason(.0))]
    Http(HttpError),
    #[error("--result-types state: there is no file; add `--state FILE`")]
    NoStateFile,
}

impl CliError for McpError {}

const NOTHING_TO_SERVE: &str = "no MCP server given: use `execbox mcp --config FILE`, where FILE is the configuration of \
    your MCP client or contains { \"mcpServers\": { \"NAME\": { \"command\": \"PROGRAM\", \"args\": [\"…\"] } } }, or \
    `execbox mcp --server 'NAME=PROGRAM ARGUMENTS'` (see `--help`)";

fn open_log(path: PathBuf) -> Result<LogFile, McpError> {
    LogFile::open(&path).map_err(|error| McpError::LogFile { path, error })
}

fn http_reason(error: &HttpError) -> String {
    match error {
        HttpError::Listen(error) => listen_reason(error),
        error => error.to_string(),
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CommandError> {
    let job = Job::new(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(job.serve());
    // Reading standard input occupies a thread that cannot be interrupted.
    runtime.shutdown_background();
    served.map(|()| Exit::Success)
}

/// Checks options that come after `execbox mcp --config FILE` on a command line. The error is a clause.
pub(super) fn check_options(options: &[String]) -> Result<(), String> {
    let command = Arguments::augment_args(clap::Command::new("execbox mcp").disable_help_flag(true));
    let words = ["execbox mcp", "--config", "x"].map(str::to_owned).into_iter();
    let matched = command.try_get_matches_from(words.chain(options.iter().cloned()));
    let reason = |error: clap::Error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_owned()
    };
    matched.map(drop).map_err(reason)
}

struct Job {
    sources: Arc<Sources>,
    loaded: Loaded,
    executor: ExecutorConfig,
    options: ServerOptions,
    policy: PolicySource,
    /// The address and options of `--http`.
    http: Option<(String, HttpOptions)>,
    /// The file of `--clients`, and what it has.
    clients: Option<(ClientsFile, Vec<clients::Client>)>,
    /// The file of `--state`.
    state: Option<PathBuf>,
    result_types: ResultTypes,
    lines: Lines,
    verbose: bool,
}

impl Job {
    fn new(mut arguments: Arguments) -> Result<Self, CommandError> {
        if servers::depth() > MAX_DEPTH {
            return Err(McpError::Recursion.into());
        }
        if arguments.result_types == ResultTypes::State && arguments.state.is_none() {
            return Err(McpError::NoStateFile.into());
        }
        let options = server_options(&arguments)?;
        arguments.servers.expose = std::mem::take(&mut arguments.expose);
        arguments.tls.check_needed("--http", arguments.http.is_some())?;
        let http = arguments.http.clone().map(|HttpAddress(address)| (address, http_options(&arguments)));
        let token = TokenSource { role: Role::Listen, option: "--token-file", file: arguments.token_file.as_deref() };
        let executor_token = executor::token_source("--executor-token-file", arguments.executor_token_file.as_deref());
        if arguments.http.is_some() && matches!(arguments.executor, ExecutorKind::Remote(_)) {
            token.check_distinct(executor_token)?;
        }
        let remote = RemoteSource { token: executor_token, tls: arguments.executor_tls.options() };
        let executor = ExecutorConfig::new(
            arguments.executor,
            arguments.engine.choice()?,
            remote,
            arguments.jail,
            &options.limits,
        )?
        // One more program for checks of snippets, for which programs wait.
        .with_max_programs(arguments.max_programs.get().saturating_add(1));
        let stubs = stub::load(&arguments.tools)?;
        let mut loaded = servers::read(&arguments.servers, &stubs, Purpose::Gateway { quiet: arguments.quiet })?;
        let config = &loaded.config;
        let policy = PolicySource::read(&arguments.policy, &loaded, &stubs)?;
        if config.servers.is_empty() && stubs.is_empty() && !config.skipped.iter().any(|s| s.reason.is_failure()) {
            return Err(match servers::none(&arguments.servers) {
                _ if servers::is_of_client(config) => McpError::OnlyItself.into(),
                _ if !config.skipped.is_empty() => McpError::AllServersSkipped.into(),
                ServersError::None => McpError::NothingToServe.into(),
                empty => empty.into(),
            });
        }
        let http = match http {
            Some((address, options)) => {
                let options = options.token(token.read()?).insecure(arguments.tls.insecure);
                Some((address, options.tls(read_tls(&arguments.tls)?)))
            }
            None => None,
        };
        let clients = arguments.clients.map(|path| {
            let file = ClientsFile { path, limits: options.limits, has_state: arguments.state.is_some() };
            let clients = file.read(&mut loaded.files)?;
            Ok::<_, ClientsError>((file, clients))
        });
        let clients = clients.transpose()?;
        let log = arguments.log_file.map(open_log).transpose()?;
        let lines = Lines { quiet: arguments.quiet, log: log.map(Arc::new) };
        let sources = Arc::new(Sources { arguments: arguments.servers, stubs });
        let (state, result_types, verbose) = (arguments.state, arguments.result_types, arguments.verbose);
        Ok(Self { sources, loaded, executor, options, policy, http, clients, state, result_types, lines, verbose })
    }

    async fn serve(mut self) -> Result<(), CommandError> {
        let stop = CancellationToken::new();
        interrupt::stop_on_signal(stop.clone())?;
        let hangup = Hangup::new()?;
        for (line, is_failure) in servers::skipped_lines(&self.loaded.config) {
            self.lines.add(&line, is_failure);
        }
        let executor = self.executor.executor().map_err(|error| SystemError::Engine(error.message))?;
        // The file and the address are opened before servers start: another user may own the file, and the address may be in
        // use.
        let state = StateFile::open_option(self.state.as_deref()).await?;
        self.options.state = state::options(state.clone());
        let named = NamedClients::default();
        let http = self.listen(&named).await?;
        let changes = self.options.changes.clone();
        let clients = if http.is_some() { Clients::many() } else { Clients::one() };
        let on_stderr = self.on_stderr();
        let secrets = Secrets::default();
        let shapes = self.result_types.shapes(state.as_ref());
        let shared = UpstreamOptions::default()
            .shapes(shapes.clone())
            .clients(clients.clone())
            .changes(changes.clone())
            .secrets(secrets.clone());
        let servers = servers::start(&self.loaded.config, shared, on_stderr.as_ref());
        let place = http.as_ref().map_or_else(|| "standard input and output".to_owned(), HttpServer::url);
        let reported = CancellationToken::new();
        let (error, reload_error) = tokio::sync::watch::channel(None);
        let published = Published { publisher: publisher(place), reload_error };
        let (subscription, lines) = (changes.subscribe(), self.lines.clone());
        let asks_once = self.policy.asks_once;
        let policy = Arc::new(self.policy);
        let warm = Arc::clone(&executor);
        // Starts a runner process in advance for the first program.
        tokio::spawn(async move { warm.prewarm(1).await });
        let always = Arc::clone(&policy.always);
        let approvals = Approvals::new(self.lines.clone(), Arc::clone(&always));
        let serving_approvals = tokio::spawn(serve_approvals(Arc::clone(&approvals)));
        let approver = ClientApprover { approvals: Arc::clone(&approvals), client: None };
        let options = self
            .options
            .policy(policy.policy(&servers, None).approver(Arc::new(approver)))
            .asks_once(asks_once)
            // A client over HTTP may be that of another user.
            .always_allow(http.is_none().then(|| always.for_client(self.lines.clone())))
            .clients(clients.clone())
            .secrets(secrets)
            .shapes(shapes.clone());
        let source = ToolSource { stubs: self.sources.stubs.clone(), servers: servers.clone() };
        let code_server = CodeServer::new(Arc::clone(&executor), source.clone(), options.clone());
        let (clients_file, named_clients) = self.clients.unzip();
        let client_servers = Arc::new(ClientServers {
            file: clients_file,
            gateway: code_server.clone(),
            options,
            source: Arc::new(source),
            servers: servers.clone(),
            policy: Arc::clone(&policy),
            approvals,
            state: state.clone(),
            named,
            current: Mutex::default(),
        });
        client_servers.replace(named_clients.unwrap_or_default())?;
        let unmatched = unmatched(policy, servers.clone(), Arc::clone(&self.sources), Arc::clone(&client_servers));
        let following = watch::follow(servers.clone(), subscription, lines, published, unmatched, reported.clone());
        let following = tokio::spawn(following);
        let reloader = Reloader {
            sources: self.sources,
            loaded: self.loaded,
            servers: servers.clone(),
            code_server: code_server.clone(),
            clients: client_servers,
            always,
            lines: self.lines,
            error,
        };
        let reloading = tokio::spawn(reloader.run(hangup, stop.clone()));
        let served = match http {
            Some(http) => {
                report::note(&format_args!("listening on {}", http.url()));
                http.serve(code_server, stop.clone()).await;
                Ok(Client::Served)
            }
            None => serve(code_server, stop.clone()).await,
        };
        clients.set_absent();
        let served = match served {
            // Without a client, a person reads the report of the servers: `execbox mcp --config FILE < /dev/null`.
            Ok(Client::Absent) => Ok(_ = stop.run_until_cancelled(reported.cancelled()).await),
            served => served.map(drop),
        };
        reloading.abort();
        serving_approvals.abort();
        following.abort();
        let _ = following.await; // The states after closing the servers are neither printed nor published.
        tokio::join!(servers.close(), executor.close());
        if let Some(state) = state {
            close_state(&state, shapes).await;
        }
        Ok(served?)
    }

    /// Listens at the address of `--http`. `named` are the clients of `--clients`.
    async fn listen(&self, named: &NamedClients) -> Result<Option<HttpServer>, McpError> {
        let Some((address, options)) = &self.http else { return Ok(None) };
        let options = options
            .clone()
            .clients(self.clients.is_some().then(|| named.clone()))
            .shortages(shortage_sink(self.lines.clone()));
        HttpServer::bind(address, options).await.map(Some).map_err(McpError::Http)
    }

    /// The sink of the lines that servers write to standard error; `None` if no one reads them.
    fn on_stderr(&self) -> Option<LineSink> {
        let (log, verbose) = (self.lines.log.clone(), self.verbose);
        (verbose || log.is_some()).then(|| {
            LineSink::new(move |line| {
                if verbose {
                    report::note(&line);
                }
                if let Some(log) = &log {
                    log.add(line);
                }
            })
        })
    }
}

/// Writes what is not yet in the file of `--state`, and closes it.
async fn close_state(state: &StateFile, shapes: Option<Shapes>) {
    let written = tokio::task::spawn_blocking(move || shapes.inspect(Shapes::flush));
    let _ = tokio::time::timeout(LAST_ANSWERS, written).await;
    let _ = tokio::time::timeout(LAST_ANSWERS, state.close()).await;
}

/// The lines about patterns of options and of clients that match nothing.
fn unmatched(
    policy: Arc<PolicySource>,
    servers: Servers,
    sources: Arc<Sources>,
    clients: Arc<ClientServers>,
) -> impl Fn() -> Vec<String> {
    move || [policy.unmatched(&servers, &sources.stubs), clients.unmatched(&sources.stubs)].concat()
}

/// Where the types of results are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ResultTypes {
    #[default]
    Memory,
    State,
    Off,
}

impl ResultTypes {
    fn shapes(self, state: Option<&Arc<StateFile>>) -> Option<Shapes> {
        match (self, state) {
            (Self::Off, _) => None,
            (Self::State, Some(file)) => {
                let shapes = Shapes::kept_in(Arc::clone(file) as Arc<dyn StateStore>);
                let loading = shapes.clone();
                tokio::task::spawn_blocking(move || loading.load());
                Some(shapes)
            }
            (Self::Memory | Self::State, _) => Some(Shapes::default()),
        }
    }
}

/// Makes the publisher of the state for `execbox status`. `None`, with a message, if that fails.
fn publisher(place: String) -> Option<Publisher> {
    let publisher = Publisher::new(place);
    let failed = |error: &io::Error| {
        report::warn(&format_args!("`execbox status` cannot show this gateway: {}", reason(error)));
    };
    publisher.inspect_err(failed).ok()
}

/// Serves `execbox approvals`. Prints a message if that fails.
async fn serve_approvals(approvals: Arc<Approvals>) {
    if let Err(error) = approvals.serve().await {
        report::warn(&format_args!("`execbox approvals` cannot reach this gateway: {}", reason(&error)));
    }
}

/// Whether a client was served.
enum Client {
    Served,
    Absent,
}

/// Serves until the client closes the connection, or until `stop`. Requests that are pending at the end of input have
/// [`LAST_ANSWERS`].
async fn serve(server: CodeServer, stop: CancellationToken) -> io::Result<Client> {
    if io::stdin().is_terminal() {
        report::note(&"waiting for a client on standard input; Ctrl-C ends the gateway");
    }
    let ended = CancellationToken::new();
    let input = Input { reader: tokio::io::stdin(), ended: ended.clone() };
    let running = match server.serve_with_ct(LineTransport::new(input, tokio::io::stdout()), stop.clone()).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(Client::Absent);
        }
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    tokio::select! {
        _ = running.waiting() => {}
        () = async {
            ended.cancelled().await;
            tokio::time::sleep(LAST_ANSWERS).await;
        } => {}
    }
    Ok(Client::Served)
}

/// The TLS of `--http`. Its files are read again when they change.
fn read_tls(arguments: &ServerTlsArguments) -> Result<Option<ServerTls>, TlsFileError> {
    let Some(files) = arguments.files() else { return Ok(None) };
    let (tls, known) = files.read()?;
    files.keep_current(&tls, known);
    Ok(Some(tls))
}

fn server_options(arguments: &Arguments) -> Result<ServerOptions, McpError> {
    let Arguments { search_name, describe_name, call_name, execute_name, code_name, .. } = arguments;
    let names = [search_name, describe_name, call_name, execute_name, code_name];
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(McpError::DuplicateToolName((*name).clone()));
        }
    }
    let [search_name, describe_name, call_name, execute_name, code_name] = names.map(String::clone);
    Ok(ServerOptions::default()
        .layout(arguments.layout.into())
        .search_name(search_name)
        .describe_name(describe_name)
        .call_name(call_name)
        .execute_name(execute_name)
        .code_name(code_name)
        .limits(arguments.limits.limits(Limits::default().timeout(arguments.timeout.0)))
        .max_timeout(arguments.max_timeout.0)
        .timers(arguments.timers)
        .max_programs(arguments.max_programs.get())
        .approval_timeout(arguments.approval_timeout.0))
}

/// The options of `--http`. Raises the limit of open files to what the connections need; where that is not possible, there are
/// fewer connections, with a message.
fn http_options(arguments: &Arguments) -> HttpOptions {
    let wanted = arguments.max_connections.get();
    let others = arguments.max_programs.get().saturating_mul(FILES_PER_PROGRAM).saturating_add(OTHER_FILES);
    let allowed = descriptors::allow(wanted.saturating_add(others));
    // With few files, half of them are for connections.
    let max_connections = wanted.min(allowed.saturating_sub(others).max(allowed / 2));
    if max_connections < wanted {
        report::warn(&format_args!(
            "at most {max_connections} connections instead of {wanted}: the hard limit of open files is {allowed} (`ulimit -Hn`)"
        ));
    }
    HttpOptions::default()
        .hosts(arguments.allow_host.clone())
        .origins(arguments.allow_origin.clone())
        .max_connections(max_connections)
        .max_requests((max_connections / REQUESTS_PART).max(1))
        .max_sessions(arguments.max_sessions.get())
}

/// A sink that reports what clients got no room for, with the option that gives more.
fn shortage_sink(lines: Lines) -> ShortageSink {
    ShortageSink::new(move |shortage| {
        let remedy = match shortage.limit {
            HttpLimit::MissingToken | HttpLimit::WrongToken => "",
            HttpLimit::Sessions => "; --max-sessions allows more",
            _ => "; --max-connections allows more",
        };
        lines.add(&format!("{shortage}{remedy}"), true);
    })
}

fn tool_name(text: &str) -> Result<String, &'static str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_name = (1..=64).contains(&text.len()) && text.chars().all(is_valid);
    if is_name { Ok(text.to_owned()) } else { Err("expected 1 to 64 letters, digits, `_` and `-`") }
}

const EXAMPLES: &str = "\
Examples:
  execbox mcp --config ~/.cursor/mcp.json
  execbox mcp --server 'time=uvx mcp-server-time' --deny 'time.convert_*'

`--help` lists more options, the set-up of a client, and configurations.";

const LONG_HELP: &str = r#"Examples:
  execbox mcp --config ~/.cursor/mcp.json
  execbox mcp --server 'time=uvx mcp-server-time' --deny 'time.convert_*'
  execbox mcp --config servers.json --layout single --timeout 1m
  execbox mcp --config servers.json --expose time.get_current_time
  execbox mcp --config servers.json --http 127.0.0.1:8080

In the configuration of a client, instead of all other servers:
  { "mcpServers": { "execbox": {
      "command": "/path/to/execbox",
      "args": ["mcp", "--config", "/path/to/servers.json"] } } }

Configurations:
  The configuration files of MCP clients: `mcpServers` of most, `servers` of
  VS Code, `context_servers` of Zed, `mcp_servers` of Codex (TOML), `projects`
  of Claude Code (the project with the current directory, outside of them
  all). JSON may have comments and trailing commas. A server with all keys,
  including those that execbox adds:

  { "mcpServers": {
      "github": {
        "command": "npx", "args": ["-y", "some-github-server"], "cwd": "/work",
        "env": { "TOKEN": "${GITHUB_TOKEN}" },
        "envFile": ".env",            // NAME=VALUE lines; "env" overrides them
        "allow": ["get_*", "list_*"], // only these tools
        "deny": ["*_secret"],         // hide these tools; overrides "allow"
        "ask": ["destructive"],       // before calls; "writes", "all", "get_*"
        "alwaysAllow": ["get_*"],     // never ask for these
        "expose": ["get_user"],       // clients call these without code
        "prefix": false,              // as "get_user", not "github_get_user"
        "timeout": "30s",             // for each call; default 2m
        "results": "envelope"         // results as in MCP; default: their data
      },
      "tickets": {
        "url": "https://tickets.example.com/mcp",
        "headers": { "Authorization": "Bearer ${TICKETS}" }
      }
  } }

  `${NAME}` and `${NAME:-default}` are variables of `env` or `envFile` of the
  same entry, or of the environment. `${workspaceFolder}`,
  `${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${/}`
  are what VS Code and Cursor define: the workspace folder is the parent of
  `.vscode`, `.cursor`, `.zed`, `.gemini` or `.codex`, otherwise the current
  directory; `envFile` is relative to it. `~` at the start of a path or an
  argument is the home directory. `${input:ID}` is a value that `inputs`
  defines, as in VS Code (`promptString`, `pickString`): run `execbox tools
  --config FILE` in a terminal once to be asked. Answers are stored in
  ~/.config/execbox/inputs.json, which only you can read.

  Keys without effect are printed at start: unknown and misspelled keys, and
  those that only other clients use.

  Skipped are servers with `"disabled": true`, servers that are `execbox mcp`
  itself, and entries with a mistake or an unset variable. Each server is a
  namespace: `my-server` becomes `my_server`; equal names are numbered. A
  started server inherits PATH, HOME and similar variables, and those in
  `env`; one that is null there is not inherited.

  The configuration is read again when its files change, and on SIGHUP:
  servers whose entries are equal stay connected. A new mistake in it changes
  nothing and is reported, also by `execbox status`.

Approvals:
  Calls that `--ask` or "ask" select are put to the user by the client if it
  supports elicitation, otherwise they wait for `execbox approvals`. A refused
  call throws an error in the program. A client on standard input and output,
  and `execbox approvals approve --always`, can add a tool to "alwaysAllow" of
  its server.

Secrets:
  Credentials among the variables, `env`, `envFile`, `headers` and arguments
  of servers, inputs with "password" and tokens of logins are replaced by
  `${NAME}` in what the client, the log and the terminal get. Credentials are
  recognized by their form: `ghp_…`, `sk-…`, long random texts. What programs
  compute with is never changed.

A server that fails to start is reported on standard error and does not affect
the others; it is restarted when the client next asks for something.

Exit codes:
  0    the client, SIGTERM or Ctrl-C ended the server
  2    bad usage or a bad configuration
  4    execbox failed

Environment:
  EXECBOX_LISTEN_TOKEN  the token that clients present (`--http`)
  EXECBOX_REMOTE_TOKEN  the token for a remote runner (`--executor`)
  EXECBOX_TOKEN         either of them, if only one is needed
  XDG_CONFIG_HOME       the directory of execbox/inputs.json; else ~/.config"#;
