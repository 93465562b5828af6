//! `execbox mcp`: serves the tools of MCP servers to a client as one MCP server that runs code.
//!
//! On standard input and output, standard output carries the protocol and nothing else. Over HTTP it carries nothing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use execbox::{CancellationToken, Executor, Provider};
use execbox_mcp::config::Config;
use execbox_mcp::rmcp::ServiceExt as _;
use execbox_mcp::rmcp::service::ServerInitializeError;
use execbox_mcp::rmcp::transport::stdio;
use execbox_mcp::server::{self, CodeServer, HttpOptions, HttpServer, ServerOptions};
use execbox_mcp::servers::Servers;

use crate::error::CliError;
use crate::executor::{self, ExecutorConfig, ExecutorKind};
use crate::exit::Exit;
use crate::limits::LimitArguments;
use crate::servers::{self, ServerArguments};
use crate::token::{Role, TokenSource};
use crate::units::Time;
use crate::{interrupt, report, stub};

/// Serve the tools of MCP servers as one MCP server that runs code
///
/// Connects to the MCP servers of a configuration and serves, on standard input and output or over HTTP, three tools in
/// place of theirs: one searches the tools of all servers, two run code that calls them, in a sandbox. Results that the
/// code does not return stay out of the model's context.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = LONG_HELP)]
pub(crate) struct Arguments {
    /// Also grant the stub tools in FILE, which return canned answers (repeatable)
    #[arg(long, value_name = "FILE")]
    tools: Vec<PathBuf>,

    /// Run code there: process, worker, inline or remote=ADDRESS
    #[arg(long, value_name = "EXECUTOR", default_value_t = ExecutorKind::Process)]
    executor: ExecutorKind,

    /// Present the token in FILE to the remote runner [default: the token in `EXECBOX_REMOTE_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "executor")]
    executor_token_file: Option<PathBuf>,

    /// Print only failures to standard error
    #[arg(short, long)]
    quiet: bool,

    /// Also print what the started servers write to standard error
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,

    #[command(flatten)]
    servers: ServerArguments,

    /// Serve many clients over HTTP at ADDRESS: `127.0.0.1:8080`; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", help_heading = "HTTP")]
    http: Option<String>,

    /// Require the token in FILE from clients [default: the token in `EXECBOX_LISTEN_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    token_file: Option<PathBuf>,

    /// Also accept requests to this host name: `box.example.com` (repeatable)
    #[arg(long, value_name = "HOST", requires = "http", help_heading = "HTTP")]
    allow_host: Vec<String>,

    /// Accept requests from web pages of this origin: `https://app.example.com:443` (repeatable)
    #[arg(long, value_name = "ORIGIN", requires = "http", help_heading = "HTTP")]
    allow_origin: Vec<String>,

    /// Select the tools that clients see
    #[arg(long, value_enum, value_name = "LAYOUT", help_heading = "Client tools", default_value_t = Layout::Both)]
    layout: Layout,

    /// Name the search tool
    #[arg(long, value_name = "NAME", help_heading = "Client tools", value_parser = tool_name, default_value_t = ServerOptions::default().search_name)]
    search_name: String,

    /// Name the tool that runs code
    #[arg(long, value_name = "NAME", help_heading = "Client tools", value_parser = tool_name, default_value_t = ServerOptions::default().execute_name)]
    execute_name: String,

    /// Name the tool that runs code and has the types in its description
    #[arg(long, value_name = "NAME", help_heading = "Client tools", value_parser = tool_name, default_value_t = ServerOptions::default().code_name)]
    code_name: String,

    /// Stop code after TIME, including the time of its tool calls: `2s`, `1m`; a plain number is milliseconds
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, help_heading = "Limits", default_value_t = Time(TIMEOUT))]
    timeout: Time,

    #[command(flatten)]
    limits: LimitArguments,
}

/// A value of `--layout`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Layout {
    /// All three tools
    Both,
    /// The search tool, and the tool that runs code
    Split,
    /// The tool that runs code and has the types in its description
    Single,
}

impl From<Layout> for server::Layout {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Both => Self::Both,
            Layout::Split => Self::Split,
            Layout::Single => Self::Single,
        }
    }
}

/// Longer than that of other commands, because tools may be remote.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most execbox processes that start one another.
const MAX_DEPTH: usize = 2;

/// How long the client waits for slow servers, whose tools are added later.
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CliError> {
    let job = Job::new(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(job.serve());
    // Reading standard input occupies a thread that cannot be interrupted.
    runtime.shutdown_background();
    served.map(|()| Exit::Success)
}

struct Job {
    config: Config,
    stubs: Vec<Provider>,
    executor: ExecutorConfig,
    options: ServerOptions,
    /// The address and options of `--http`.
    http: Option<(String, HttpOptions)>,
    quiet: bool,
    verbose: bool,
}

impl Job {
    fn new(arguments: Arguments) -> Result<Self, CliError> {
        if servers::depth() > MAX_DEPTH {
            return Err(CliError::Recursion);
        }
        let options = server_options(&arguments)?;
        let token = TokenSource { role: Role::Listen, option: "--token-file", file: arguments.token_file.as_deref() };
        let executor_token = executor::token_source("--executor-token-file", arguments.executor_token_file.as_deref());
        if arguments.http.is_some() && matches!(arguments.executor, ExecutorKind::Remote(_)) {
            token.check_distinct(executor_token)?;
        }
        let executor = ExecutorConfig::new(arguments.executor, executor_token)?;
        let stubs = stub::load(&arguments.tools)?;
        let config = servers::read(&arguments.servers, &stubs)?;
        if config.servers.is_empty() && stubs.is_empty() && !config.skipped.iter().any(|s| s.reason.is_failure()) {
            return Err(if config.skipped.is_empty() { CliError::NothingToServe } else { CliError::AllServersSkipped });
        }
        let http = match arguments.http {
            Some(address) => {
                let (hosts, origins) = (arguments.allow_host, arguments.allow_origin);
                Some((address, HttpOptions { token: token.read()?, hosts, origins, ..HttpOptions::default() }))
            }
            None => None,
        };
        Ok(Self { config, stubs, executor, options, http, quiet: arguments.quiet, verbose: arguments.verbose })
    }

    async fn serve(self) -> Result<(), CliError> {
        let stop = CancellationToken::new();
        interrupt::stop_on_signal(stop.clone())?;
        let executor = self.executor.executor().map_err(|error| CliError::Engine(error.message))?;
        // Before anything is started: the address may be in use.
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
        let tools = move || servers::all_providers(&stubs, &live);
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

    /// Waits until the servers have started, at most [`START_TIMEOUT`], and prints their state.
    async fn announce(&self, servers: &Servers, executor: &Arc<dyn Executor>) {
        let settled = tokio::time::timeout(START_TIMEOUT, servers.settled());
        // The first program then finds a runner process.
        let _ = tokio::join!(settled, executor.prewarm(1));
        if self.quiet {
            servers::print_failures(&self.config, servers);
        } else {
            servers::print_status(&self.config, servers);
        }
    }
}

/// Serves until the client closes the connection, or `stop`.
async fn serve(server: CodeServer, stop: CancellationToken) -> Result<(), CliError> {
    let running = match server.serve_with_ct(stdio(), stop.clone()).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(io::Error::other(error.to_string()).into()),
    };
    let _ = running.waiting().await;
    Ok(())
}

fn server_options(arguments: &Arguments) -> Result<ServerOptions, CliError> {
    let names = [&arguments.search_name, &arguments.execute_name, &arguments.code_name];
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(CliError::DuplicateToolName((*name).clone()));
        }
    }
    let [search_name, execute_name, code_name] = names.map(String::clone);
    Ok(ServerOptions {
        layout: arguments.layout.into(),
        search_name,
        execute_name,
        code_name,
        limits: arguments.limits.limits(arguments.timeout.0),
        ..ServerOptions::default()
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
  execbox mcp --server 'files=npx -y @modelcontextprotocol/server-filesystem /work' --deny 'files.write_*'

`--help` also describes how to set up a client, and the format of configurations.";

const LONG_HELP: &str = r#"Examples:
  execbox mcp --config ~/.cursor/mcp.json
  execbox mcp --server 'files=npx -y @modelcontextprotocol/server-filesystem /work' --deny 'files.write_*'
  execbox mcp --config servers.json --layout single --timeout 1m
  execbox mcp --config servers.json --http 127.0.0.1:8080

In the configuration of a client, instead of all other servers:
  { "mcpServers": { "execbox": { "command": "execbox", "args": ["mcp", "--config", "/path/to/servers.json"] } } }

Configurations:
  The configuration files of MCP clients (`mcpServers`; `servers` in VS Code), with comments and trailing
  commas. A server with all keys, including those that execbox adds:

  { "mcpServers": {
      "github": {
        "command": "npx", "args": ["-y", "some-github-server"], "env": { "TOKEN": "${GITHUB_TOKEN}" }, "cwd": "/work",
        "allow": ["get_*", "list_*"],   // only these tools
        "deny": ["*_secret"],           // hide these tools; overrides "allow"
        "timeout": "30s",               // for each call; default 2m
        "results": "unwrapped"          // tools return their data and throw; default: the envelope of MCP
      },
      "tickets": { "url": "https://tickets.example.com/mcp", "headers": { "Authorization": "Bearer ${TICKETS}" } }
  } }

  `${NAME}` and `${NAME:-default}` are environment variables. Servers with `"disabled": true` and servers that are
  `execbox mcp` itself are skipped. Each server is a namespace: `my-server` becomes `my_server`; equal names are
  numbered. A started server inherits PATH, HOME and similar variables, and those in `env`.

Secrets:
  The variables that a server uses, its `env` and its `headers` are replaced by `${NAME}` in results, errors and
  descriptions, unless they are plain: paths, short numbers, words, addresses without passwords.

A server that fails to start is reported on standard error and does not affect the others; it is restarted when the
client next asks for something.

Exit codes:
  0    the client, SIGTERM or Ctrl-C ended the server
  2    bad usage or a bad configuration
  4    execbox failed

Environment:
  EXECBOX_LISTEN_TOKEN  the token that clients present (`--http`); otherwise EXECBOX_TOKEN
  EXECBOX_REMOTE_TOKEN  the token for a remote runner (`--executor`); otherwise EXECBOX_TOKEN
  EXECBOX_TOKEN is an error where both are needed."#;
