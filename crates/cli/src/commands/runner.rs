//! `execbox runner`: executes programs for hosts, on standard input and output or for hosts that connect.
//!
//! Standard output carries the protocol and nothing else.

use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use execbox::transport::tls::ServerTls;
use execbox::transport::{AcceptOptions, Address, BoundListener, ListenError};
use execbox::{CancellationToken, ListenOptions, Runner, RunnerProcess, TypeScript};
use execbox_core::text::cut;
use tokio::runtime::Runtime;

use crate::commands::doctor;
use crate::commands::follow_files::{self, Changes};
use crate::error::{CliError, CommandError, SystemError, listen_reason, reason};
use crate::exit::Exit;
use crate::options::engine::{Engine, RunnerEngine};
use crate::options::jail::RunnerJailArguments;
use crate::options::limits::{LimitArguments, OfHosts};
use crate::options::tls::{PemTexts, ServerTlsArguments, ServerTlsFiles};
use crate::options::token::{Role, TokenSource};
use crate::options::units::{Size, Time, count};
use crate::output::report;
use crate::process::interrupt;

/// Execute programs for hosts over the runner protocol
///
/// Serves one host on standard input and output, or every host that connects to `--listen`. Reads one JSON object per
/// line (`execute`, `tool_result`, `cancel`) and writes one per line (`started`, `tool_call`, `done`); nothing else is
/// written to standard output. A connection executes one program at a time, and any number one after another. The host
/// provides the tools.
///
/// The end of standard input ends the runner and a program that still runs. SIGTERM and Ctrl-C drain the runner: it
/// starts no more programs, and running programs have `--drain` left. A second signal ends the process at once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Listen at ADDRESS: `tcp:127.0.0.1:7000`, `unix:PATH` or `ws://127.0.0.1:7000`; `tls:` or `wss://` with TLS
    ///
    /// Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,

    /// Require the token in FILE from hosts [default: `$EXECBOX_LISTEN_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Serve at most COUNT hosts at once; further hosts wait
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, requires = "listen", value_parser = count::<usize>, default_value_t = ListenOptions::default().max_connections)]
    max_connections: usize,

    /// Close a connection on which no program has run for TIME
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, requires = "listen", default_value_t = Time(ListenOptions::default().idle_timeout))]
    idle_timeout: Time,

    /// Close a connection with more than SIZE of messages that are not complete
    #[arg(long, hide_short_help = true, value_name = "SIZE", allow_negative_numbers = true, requires = "listen", default_value_t = Size(ListenOptions::default().max_buffered_bytes as u64))]
    max_buffer: Size,

    /// Keep at most SIZE of incomplete messages of all hosts; close the connection that exceeds it
    #[arg(long, hide_short_help = true, value_name = "SIZE", allow_negative_numbers = true, requires = "listen", default_value_t = Size(ListenOptions::default().max_total_buffered_bytes as u64))]
    max_total_buffer: Size,

    /// Give running programs TIME to finish when the runner is stopped
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value_t = Time(DRAIN))]
    drain: Time,

    /// Run programs with ENGINE: `quickjs`, or `v8`, which cannot be used with `--listen`
    #[arg(long, value_name = "ENGINE", default_value_t = Engine::QuickJs)]
    engine: Engine,

    /// With `--engine v8`, keep COUNT isolates ready for programs to come [default: 1]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = count::<usize>, hide_short_help = true)]
    warm: Option<usize>,

    /// Test that the limits work in a process like this one, print what is enforced, and exit
    #[arg(long, conflicts_with = "listen")]
    self_test: bool,

    #[command(flatten)]
    tls: ServerTlsArguments,

    #[command(flatten)]
    jail: RunnerJailArguments,

    #[command(flatten)]
    max_limits: LimitArguments<OfHosts>,
}

const DRAIN: Duration = Duration::from_secs(5);

/// The reason why a runner does not start, or stops.
#[derive(Debug, thiserror::Error)]
enum RunnerError {
    #[error("--listen: {}", listen_reason(.0))]
    Listen(ListenError),
    #[error(
        "--engine {0} is not supported with --listen: a program can end the process, and with it those of other hosts; \
         start `execbox runner --engine {0}` on standard input and output for each connection, with systemd (Accept=yes) or socat"
    )]
    SharedEngine(Engine),
    #[error("connection to the host failed: {}", reason(.0))]
    Host(io::Error),
}

impl CliError for RunnerError {
    fn exit(&self) -> Exit {
        match self {
            Self::Listen(_) | Self::SharedEngine(_) => Exit::BadInput,
            Self::Host(_) => Exit::ExecboxFailed,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let engine = RunnerEngine::new(arguments.engine, arguments.warm)?;
    arguments.tls.check_needed("--listen", arguments.listen.is_some())?;
    match &arguments.listen {
        None if arguments.self_test => {
            let command = engine.add_to(arguments.jail.command()?);
            doctor::test_runner(command, arguments.engine, arguments.jail.mode())
        }
        None => serve_stdio(arguments, engine),
        Some(_) if engine.needs_own_process() => Err(RunnerError::SharedEngine(arguments.engine).into()),
        Some(address) => listen(arguments, address),
    }
}

fn serve_stdio(arguments: &Arguments, engine: RunnerEngine) -> Result<Exit, CommandError> {
    let process = RunnerProcess::prepare(arguments.jail.options(engine));
    let stop = CancellationToken::new();
    let (runner, process) = match engine {
        RunnerEngine::QuickJs => {
            let runner = Runner::with_max_guests(1).map_err(|error| SystemError::Engine(error.to_string()))?;
            (runner, process.confine(&TypeScript))
        }
        // V8 starts threads, so its runner is made after `confine`.
        RunnerEngine::V8(v8) => {
            let prepared = v8.prepare()?;
            let process = process.confine(&TypeScript);
            (v8.runner(prepared)?, process)
        }
    };
    // A person who starts the command by hand would otherwise see nothing.
    let runner = runner.drain_when(stop.clone(), arguments.drain.0).on_invalid_frame(|error| {
        let error = cut(&error.to_string(), MAX_ERROR);
        report::note(&format_args!(
            "standard input is not the runner protocol: {error}; expected a JSON object per line"
        ));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        interrupt::stop_on_signal(stop)?;
        let process = process.seal(&runner).await?;
        arguments.jail.print(process.report());
        if let Err(incomplete) = process.check() {
            report::print_error(&incomplete);
            // The host receives the error, too, as the result of each request.
            let _ = process.serve(&runner).await;
            return Ok(Exit::ExecboxFailed);
        }
        match process.serve(&runner).await {
            // The host has closed its end of the connection.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Success),
            served => served.map(|()| Exit::Success).map_err(|error| RunnerError::Host(error).into()),
        }
    });
    // Reading standard input from a file occupies a thread that cannot be interrupted.
    runtime.shutdown_background();
    served
}

fn listen(arguments: &Arguments, address: &Address) -> Result<Exit, CommandError> {
    let file = arguments.token_file.as_deref();
    let token = TokenSource { role: Role::Listen, option: "--token-file", file }.read()?;
    let files = arguments.tls.files();
    let read = files.as_ref().map(ServerTlsFiles::read).transpose()?;
    let tls = read.as_ref().map(|(tls, _)| tls.clone());
    let accept = AcceptOptions::default().token(token).tls(tls).insecure(arguments.tls.insecure);
    let listener = BoundListener::open(address, accept).map_err(RunnerError::Listen)?;
    if let Some(files) = &files {
        follow_files::start(files)?;
    }
    // The number is read before the process can no longer open files.
    let threads = available_parallelism().map_or(1, NonZero::get);
    let jail = arguments.jail.options(RunnerEngine::QuickJs);
    let process = RunnerProcess::prepare_listening(jail, &listener, arguments.max_connections);
    let options = ListenOptions::default()
        .max_connections(arguments.max_connections)
        .idle_timeout(arguments.idle_timeout.0)
        .max_buffered_bytes(arguments.max_buffer.len())
        .max_total_buffered_bytes(arguments.max_total_buffer.len())
        .max_limits(arguments.max_limits.limits(ListenOptions::default().max_limits));
    let stop = CancellationToken::new();
    let max_guests = u32::try_from(arguments.max_connections).map_or(MAX_GUESTS, |count| count.min(MAX_GUESTS));
    let runner = Runner::with_max_guests(max_guests).map_err(|error| SystemError::Engine(error.to_string()))?;
    let runner = runner.drain_when(stop.clone(), arguments.drain.0);
    let process = process.confine(&TypeScript);
    let runtime = runtime_of_running_threads(threads)?;
    let served = runtime.block_on(async {
        interrupt::stop_on_signal(stop)?;
        let listener = listener.register()?.on_rejected(|rejected| report::note(&rejected));
        if let Some((files, (tls, known))) = files.zip(read) {
            tokio::spawn(keep_current(files, tls, known, Changes::new()?));
        }
        arguments.jail.print(&process.seal_listening(&runner).await?);
        report::note(&format_args!("listening on {}", listener.address()));
        runner.listen(listener, options).await;
        Ok(())
    });
    runtime.shutdown_background();
    served.map(|()| Exit::Success)
}

/// Replaces what `tls` presents and requires whenever its files change.
async fn keep_current(files: ServerTlsFiles, tls: ServerTls, mut known: PemTexts, mut changes: Changes) {
    while let Some(texts) = changes.next().await {
        if texts != known {
            files.replace(&tls, &texts);
            known = texts;
        }
    }
}

/// Makes a runtime and waits until its threads run: a process that is locked cannot start any.
fn runtime_of_running_threads(threads: usize) -> io::Result<Runtime> {
    let (started, starts) = mpsc::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .on_thread_start(move || {
            let _ = started.send(());
        })
        .enable_all()
        .build()?;
    // A starting thread makes system calls that are refused later.
    starts.iter().take(threads).for_each(drop);
    Ok(runtime)
}

/// The maximum number of guests of a listening runner at once, each of which reserves address space.
const MAX_GUESTS: u32 = 500;

/// The length of the error of an invalid line, in characters.
const MAX_ERROR: usize = 200;

const EXAMPLES: &str = "\
Examples:
  execbox runner --listen unix:/run/user/1000/execbox.sock
  execbox runner --listen wss://0.0.0.0:7000 --token-file token.txt \\
    --tls-cert cert.pem --tls-key key.pem

A host without tools that waits a second for the result:
  (echo '{\"type\":\"execute\",\"id\":\"1\",\"code\":\"6*7\",\"options\":{},\"providers\":[]}'
   sleep 1) | execbox runner";
