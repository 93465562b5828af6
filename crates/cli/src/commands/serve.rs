//! `execbox serve`: the embedding service for applications in any language, on standard input and output or on a Unix socket.
//!
//! Standard output carries the protocol and nothing else.

use std::io::{self, IsTerminal as _};
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::available_parallelism;

use clap::Args;
use execbox::jail::{Mode, Report};
use execbox::transport::{Address, BoundListener, ListenError, Listener, Transport, stdio};
use execbox::{
    BoxFuture, CancellationToken, ExecuteError, InlineExecutor, Limits, Provider, Runner, RunnerProcess,
    RunnerProcessOptions, TypeScript,
};
use execbox_mcp::servers::{ServerState, Servers, Status};
use execbox_mcp::upstream::UpstreamOptions;
use execbox_serve::{ServerReport, ServerSource, Service, schema};

use crate::error::{CliError, CommandError, SystemError, listen_reason, reason};
use crate::exit::Exit;
use crate::options::engine::{EngineArguments, EngineChoice};
use crate::options::executor::{ExecutorConfig, ExecutorKind, RemoteSource, token_source};
use crate::options::servers::{self, Purpose, ServerArguments};
use crate::options::tls::ClientTlsArguments;
use crate::options::units::{Size, count};
use crate::output::report;
use crate::process::interrupt;

/// Serve an application in any language over one connection
///
/// The whole library as JSON-RPC 2.0, one message per line, in both directions: the service calls tools in the same way. With
/// `initialize`, `add_provider` and `execute`, it runs a program. docs/embedding-other-languages.md shows a whole
/// conversation; --schema prints the JSON Schema of all messages.
///
/// Serves one application on standard input and output, and ends with it; or with `--listen`, every one that connects.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Listen on a Unix socket: `unix:PATH`. Only its owner can connect
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<UnixAddress>,

    /// Print the JSON Schema of all messages, and exit
    #[arg(long)]
    schema: bool,

    /// Let programs have memory limits of at most SIZE
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits", default_value_t = Size(1 << 30))]
    max_memory: Size,

    /// Run at most COUNT programs at once; further ones wait
    ///
    /// [default: the number of cores, at most 4; inline and remote 64]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, help_heading = "Limits", value_parser = count::<NonZero<usize>>)]
    max_programs: Option<NonZero<usize>>,

    /// Run programs inline, on a worker, in a process or at remote=ADDRESS
    ///
    /// `inline` has the least latency: programs run in this process, which is locked before it reads its first message.
    #[arg(long, value_name = "EXECUTOR", help_heading = "Isolation", default_value_t = ExecutorKind::Process)]
    executor: ExecutorKind,

    #[command(flatten)]
    engine: EngineArguments,

    /// Present the token in FILE to the remote runner [default: `$EXECBOX_REMOTE_TOKEN`]
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Isolation")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: ClientTlsArguments,

    /// Lock the processes of programs: `required`, `best-effort` or `off`
    ///
    /// `required` fails if the system lacks a layer, `best-effort` uses the layers that the system has.
    #[arg(long, value_name = "MODE", default_value_t = Mode::default(), hide_short_help = true, help_heading = "Isolation")]
    jail: Mode,

    #[command(flatten)]
    servers: ServerArguments,
}

/// The address of a Unix socket.
#[derive(Debug, Clone)]
struct UnixAddress(Address);

#[derive(Debug, thiserror::Error)]
#[error("expected unix:PATH; on another machine, start `execbox serve` there, with ssh for example")]
struct NotUnix;

impl FromStr for UnixAddress {
    type Err = NotUnix;

    fn from_str(text: &str) -> Result<Self, NotUnix> {
        text.parse().ok().filter(|_| text.starts_with("unix:")).map(Self).ok_or(NotUnix)
    }
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("--listen: {}", listen_reason(.0))]
    Listen(ListenError),
    #[error(
        "--config and --server need --executor process, worker or remote: with inline, this process is locked, and starts no servers"
    )]
    InlineServers,
    #[error(
        "--engine auto needs --executor process or worker: with inline, this process is locked, and starts no process for V8"
    )]
    InlineAuto,
    #[error("connection to the application failed: {}", reason(.0))]
    Application(io::Error),
}

impl CliError for ServeError {
    fn exit(&self) -> Exit {
        match self {
            Self::Application(_) => Exit::ExecboxFailed,
            _ => Exit::BadInput,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    if arguments.schema {
        report::print(&format!("{:#}", schema())).map_err(SystemError::Output)?;
        return Ok(Exit::Success);
    }
    if arguments.listen.is_none() && io::stdin().is_terminal() {
        report::note(&"reading JSON-RPC from the terminal, one message per line; programs talk to this command");
    }
    let engine = arguments.engine.choice()?;
    let is_inline = arguments.executor == ExecutorKind::Inline;
    if is_inline && matches!(engine, Some(EngineChoice::Auto(_))) {
        return Err(ServeError::InlineAuto.into());
    }
    let limits = Limits::default().memory_bytes(arguments.max_memory.0);
    let token = token_source("--token-file", arguments.token_file.as_deref());
    // An inline service locks its own process.
    let jail = if is_inline { Mode::default() } else { arguments.jail };
    let name = arguments.executor.to_string();
    let remote = RemoteSource { token, tls: arguments.tls.options() };
    let config = ExecutorConfig::new(arguments.executor.clone(), engine, remote, jail, &limits)?;
    if is_inline {
        return serve_inline(arguments);
    }
    let max_programs = arguments.max_programs.map_or_else(
        || match arguments.executor {
            ExecutorKind::Remote(_) => PROGRAMS,
            _ => available_parallelism().map_or(1, NonZero::get).min(4),
        },
        NonZero::get,
    );
    let config = config.with_max_programs(max_programs);
    let sources = servers::read(&arguments.servers, &[], Purpose::Once)?.config;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        interrupt::stop_on_signal(stop.clone())?;
        let executor = config.executor().map_err(|error| SystemError::Engine(error.message))?;
        let service = Service::new(Arc::clone(&executor), name);
        let service = service.max_memory_bytes(arguments.max_memory.0).max_running(max_programs);
        let servers = Arc::new(Configured(servers::start(&sources, UpstreamOptions::default(), None)));
        let served = serve(service.servers(servers.clone()), arguments.listen.as_ref(), &stop).await;
        executor.close().await;
        servers.0.close().await;
        served
    });
    // Reading standard input from a file occupies a thread that cannot be interrupted.
    runtime.shutdown_background();
    served.map(|()| Exit::Success)
}

/// Serves one application, or all that connect, until `stop` fires.
async fn serve(service: Service, listen: Option<&UnixAddress>, stop: &CancellationToken) -> Result<(), CommandError> {
    match listen {
        None => serve_transport(&service, stdio()?, stop).await,
        Some(UnixAddress(address)) => {
            let listener = Listener::bind(address, None).await.map_err(ServeError::Listen)?;
            report::note(&format_args!("listening on {}", listener.address()));
            service.listen(&listener, stop).await;
            Ok(())
        }
    }
}

async fn serve_transport(
    service: &Service,
    transport: Box<dyn Transport>,
    stop: &CancellationToken,
) -> Result<(), CommandError> {
    let served = tokio::select! {
        served = service.serve(transport) => served,
        () = stop.cancelled() => Ok(()),
    };
    match served {
        // The application has closed its end of the connection.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        served => served.map_err(|error| ServeError::Application(error).into()),
    }
}

/// Locks this process, and then executes programs in it.
fn serve_inline(arguments: &Arguments) -> Result<Exit, CommandError> {
    if arguments.servers.is_given() {
        return Err(ServeError::InlineServers.into());
    }
    let max_programs = arguments.max_programs.map_or(PROGRAMS, NonZero::get);
    let open = |UnixAddress(address): &UnixAddress| BoundListener::open(address, None).map_err(ServeError::Listen);
    let listener = arguments.listen.as_ref().map(open).transpose()?;
    let options = RunnerProcessOptions::default().jail(arguments.jail).is_shared(true);
    let process = match &listener {
        None => RunnerProcess::prepare(options),
        Some(listener) => RunnerProcess::prepare_listening(options, listener, CONNECTIONS),
    };
    let max_guests = u32::try_from(max_programs).unwrap_or(u32::MAX).saturating_add(1);
    let runner = Runner::with_max_guests(max_guests).map_err(|error| SystemError::Engine(error.to_string()))?;
    let executor = InlineExecutor::of_runner(&runner).map_err(|error| SystemError::Engine(error.to_string()))?;
    let service = Service::new(Arc::new(executor), "inline");
    let service = service.max_memory_bytes(arguments.max_memory.0).max_running(max_programs);
    let process = process.confine(&TypeScript);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        interrupt::stop_on_signal(stop.clone())?;
        match listener {
            None => {
                let process = process.seal(&runner).await?;
                process.check()?;
                note_missing_layers(process.report());
                serve_transport(&service, process.into_transport()?, &stop).await
            }
            Some(listener) => {
                let listener = listener.register()?;
                note_missing_layers(&process.seal_listening(&runner).await?);
                report::note(&format_args!("listening on {}", listener.address()));
                service.listen(&listener, &stop).await;
                Ok(())
            }
        }
    });
    runtime.shutdown_background();
    served.map(|()| Exit::Success)
}

fn note_missing_layers(jail: &Report) {
    for (layer, reason) in jail.missing() {
        report::warn(&format_args!("not enforced: {layer}: {reason}"));
    }
}

/// The servers of a configuration, for applications that grant them.
struct Configured(Servers);

impl ServerSource for Configured {
    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(servers::settled(&self.0, |_| true, || ()))
    }

    fn reports(&self) -> Vec<ServerReport> {
        let report = |status: Status| {
            let is_ready = matches!(status.state, ServerState::Ready { .. });
            let problem = (!is_ready).then(|| servers::state_line(&status).0);
            ServerReport::new(status.name, status.namespace).problem(problem)
        };
        self.0.status().into_iter().map(report).collect()
    }

    fn provider(&self, namespace: &str) -> Option<Provider> {
        self.0.providers().into_iter().find(|provider| provider.name() == namespace)
    }

    fn explain(&self, error: &mut ExecuteError) {
        self.0.explain(error);
    }
}

/// How many programs run at once inline, and on a remote runner.
const PROGRAMS: usize = 64;

/// How many applications an inline service with `--listen` has descriptors for.
const CONNECTIONS: usize = 256;

const EXAMPLES: &str = "\
Examples:
  execbox serve --executor inline
  execbox serve --config servers.json --allow 'github.get_*'
  execbox serve --listen unix:/run/user/1000/execbox.sock
  execbox serve --schema > messages.json

The end of standard input ends the service, and programs that still run.";
