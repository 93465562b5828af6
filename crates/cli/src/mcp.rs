//! `execbox mcp`: the library's MCP server on standard input and output or over HTTP, over other MCP servers.
//!
//! Standard output carries the protocol and nothing else. Over HTTP, it carries nothing.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use execbox::transport::ListenError;
use execbox::{CancellationToken, Executor, Limits, Provider};
use execbox_mcp::config::Config;
use execbox_mcp::rmcp::ServiceExt as _;
use execbox_mcp::rmcp::service::ServerInitializeError;
use execbox_mcp::rmcp::transport::stdio;
use execbox_mcp::server::{CodeServer, HttpError, HttpOptions, HttpServer, Layout, ServerOptions};
use execbox_mcp::servers::Servers;

use crate::args::McpArguments;
use crate::executor::{NoPlace, Place};
use crate::exit::Exit;
use crate::limits::{self, LimitError};
use crate::servers::{self, ServersError};
use crate::stub::{self, StubError};
use crate::token::{self, NoToken};
use crate::{interrupt, report, source};

/// Serves until the client has gone or a signal comes.
pub(crate) fn run(arguments: &McpArguments) -> Exit {
    match Job::new(arguments).and_then(Job::run) {
        Ok(()) => Exit::Success,
        Err(error) => {
            report::complain(&error);
            error.exit()
        }
    }
}

/// What the command line means.
struct Job {
    config: Config,
    stubs: Vec<Provider>,
    place: Place,
    options: ServerOptions,
    /// Where to listen, instead of standard input and output.
    http: Option<(String, HttpOptions)>,
    quiet: bool,
    verbose: bool,
}

/// Why it does not serve.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Place(#[from] NoPlace),
    #[error(transparent)]
    Stub(#[from] StubError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error("--layout: {0:?} is no layout: write both, split or single")]
    Layout(String),
    #[error("two of the client's tools are named {0:?}: give each its own name")]
    Names(String),
    #[error("{option}: {name:?} is no name of a tool: use 1 to 64 letters, digits, `_` and `-`")]
    Name { option: &'static str, name: String },
    #[error("there is no MCP server to put tools in front of: {NO_SERVER}")]
    NoServer,
    #[error("no MCP server is left: every one of the configuration is disabled, or is execbox itself")]
    NoneLeft,
    #[error("its configuration starts itself again and again: take the server out that starts `execbox mcp`")]
    Itself,
    #[error(transparent)]
    Token(#[from] NoToken),
    #[error("--http: {}", http_reason(.0))]
    Http(#[from] HttpError),
    #[error("{0}")]
    Engine(String),
    #[error("cannot serve: {}", source::reason(.0))]
    System(#[from] io::Error),
}

const NO_SERVER: &str = "write `execbox mcp --config FILE`, where FILE is that of your MCP client or has \
    { \"mcpServers\": { \"NAME\": { \"command\": \"PROGRAM\", \"args\": [\"…\"] } } }, or \
    `execbox mcp --server 'NAME=PROGRAM ARGUMENTS'` (see `--help`)";

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Self::Engine(_) | Self::System(_) => Exit::ExecboxFailed,
            _ => Exit::BadInput,
        }
    }
}

impl Job {
    fn new(arguments: &McpArguments) -> Result<Self, Failure> {
        if servers::depth() > DEEPEST {
            return Err(Failure::Itself);
        }
        let mut limits = limits::read(&arguments.limits)?;
        if arguments.limits.timeout.is_none() {
            limits.timeout = TIMEOUT;
        }
        let options = options(arguments, limits)?;
        let executor = arguments.executor.as_deref().unwrap_or("process");
        let place = Place::of(executor, arguments.executor_token_file.as_deref())?;
        let stubs = stub::load(&arguments.tools)?;
        let config = servers::read(&arguments.servers, &stubs)?;
        if config.servers.is_empty() && stubs.is_empty() && !config.skipped.iter().any(|s| s.reason.is_failure()) {
            return Err(if config.skipped.is_empty() { Failure::NoServer } else { Failure::NoneLeft });
        }
        let http = arguments.http.clone().map(|address| Ok::<_, NoToken>((address, http_options(arguments)?)));
        let (quiet, verbose) = (arguments.quiet, arguments.verbose);
        Ok(Self { config, stubs, place, options, http: http.transpose()?, quiet, verbose })
    }

    fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let served = runtime.block_on(self.serve());
        // Reading standard input occupies a thread that nothing can interrupt.
        runtime.shutdown_background();
        served
    }

    async fn serve(self) -> Result<(), Failure> {
        let stop = CancellationToken::new();
        interrupt::stops(stop.clone())?;
        let executor = self.place.executor().map_err(|error| Failure::Engine(error.message))?;
        // An address that cannot be had is told before anything is started.
        let http = match &self.http {
            Some((address, options)) => Some(HttpServer::bind(address, options.clone()).await?),
            None => None,
        };
        let servers = servers::start(&self.config, self.options.changes.clone(), self.verbose);
        tokio::select! {
            () = self.announce(&servers, &executor) => {}
            () = stop.cancelled() => {}
        }
        let (stubs, live) = (self.stubs, servers.clone());
        let tools = move || servers::all(&stubs, &live);
        let code_server = CodeServer::new(Arc::clone(&executor), tools, self.options);
        let served = match http {
            Some(http) => {
                report::note(&format_args!("listening on {}", http.url()));
                http.serve(code_server, stop).await;
                Ok(())
            }
            None => serve(code_server, stop).await,
        };
        tokio::join!(servers.close(), executor.dispose());
        served
    }

    /// Waits for the servers, but not for ever, and says what there is.
    async fn announce(&self, servers: &Servers, executor: &Arc<dyn Executor>) {
        let settled = tokio::time::timeout(PATIENCE, servers.settled());
        // The first program need not wait for its child.
        let _ = tokio::join!(settled, executor.prewarm(1));
        if self.quiet {
            servers::report_failures(&self.config, servers);
        } else {
            servers::report(&self.config, servers);
        }
    }
}

/// Until the client has gone, or `stop`.
async fn serve(server: CodeServer, stop: CancellationToken) -> Result<(), Failure> {
    let running = match server.serve_with_ct(stdio(), stop.clone()).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(io::Error::other(error.to_string()).into()),
    };
    let _ = running.waiting().await;
    Ok(())
}

fn http_options(arguments: &McpArguments) -> Result<HttpOptions, NoToken> {
    Ok(HttpOptions {
        token: token::read(arguments.token_file.as_deref())?,
        hosts: arguments.allow_host.clone(),
        origins: arguments.allow_origin.clone(),
        ..HttpOptions::default()
    })
}

fn http_reason(error: &HttpError) -> String {
    match error {
        HttpError::Listen(ListenError::Io { socket, error }) => {
            format!("cannot listen on {socket}: {}", source::reason(error))
        }
        HttpError::Listen(ListenError::NeedsToken(_)) => format!("{error} (--token-file)"),
        error => error.to_string(),
    }
}

fn options(arguments: &McpArguments, limits: Limits) -> Result<ServerOptions, Failure> {
    let mut options = ServerOptions { limits, ..ServerOptions::default() };
    options.layout = match arguments.layout.as_deref() {
        None | Some("both") => Layout::Both,
        Some("split") => Layout::Split,
        Some("single") => Layout::Single,
        Some(other) => return Err(Failure::Layout(other.to_owned())),
    };
    for (option, name, given) in [
        ("--search-name", &mut options.search_name, &arguments.search_name),
        ("--execute-name", &mut options.execute_name, &arguments.execute_name),
        ("--code-name", &mut options.code_name, &arguments.code_name),
    ] {
        let Some(given) = given else { continue };
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if given.is_empty() || given.len() > 64 || !given.chars().all(is_name_char) {
            return Err(Failure::Name { option, name: given.clone() });
        }
        name.clone_from(given);
    }
    let ServerOptions { search_name, execute_name, code_name, .. } = &options;
    for (one, other) in [(search_name, execute_name), (search_name, code_name), (execute_name, code_name)] {
        if one == other {
            return Err(Failure::Names(one.clone()));
        }
    }
    Ok(options)
}

/// How long code may take where the command line says nothing: tools may be far away.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How many of these may be started by one another.
const DEEPEST: usize = 2;

/// How long the client waits for slow servers; theirs are tools that come later.
const PATIENCE: Duration = Duration::from_secs(10);
