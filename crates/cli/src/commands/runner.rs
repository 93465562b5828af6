//! `execbox runner`: executes programs for hosts, on standard input and output or for hosts that connect.
//!
//! Standard output carries the protocol and nothing else.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use execbox::transport::{Address, Listener, Token, stdio};
use execbox::{CancellationToken, Runner};

use crate::error::CliError;
use crate::exit::Exit;
use crate::token::{Role, TokenSource};
use crate::units::Time;
use crate::{interrupt, report};

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
    /// Listen at ADDRESS: `tcp:127.0.0.1:7000`, `unix:PATH`, `ws://127.0.0.1:7000`; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,

    /// Require the token in FILE from hosts [default: the token in `EXECBOX_LISTEN_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Serve at most COUNT hosts at once; further hosts wait
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, requires = "listen", default_value_t = MAX_CONNECTIONS)]
    max_connections: usize,

    /// Give running programs TIME to finish when the runner is stopped
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value_t = Time(DRAIN))]
    drain: Time,
}

const MAX_CONNECTIONS: usize = 256;
const DRAIN: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CliError> {
    let place = match arguments.listen {
        None => {
            execbox::init_runner_process();
            Place::Stdio
        }
        Some(address) => {
            let file = arguments.token_file.as_deref();
            let token = TokenSource { role: Role::Listen, option: "--token-file", file }.read()?;
            Place::Listen { address, token, max_connections: arguments.max_connections }
        }
    };
    let stop = CancellationToken::new();
    let runner = Runner::new().map_err(|error| CliError::Engine(error.to_string()))?;
    let runner = runner.drain_when(stop.clone(), arguments.drain.0);
    let mut runtime = match place {
        Place::Stdio => tokio::runtime::Builder::new_current_thread(),
        Place::Listen { .. } => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    let served = runtime.block_on(async {
        interrupt::stop_on_signal(stop)?;
        place.serve(runner).await
    });
    // Reading standard input from a file occupies a thread that cannot be interrupted.
    runtime.shutdown_background();
    served.map(|()| Exit::Success)
}

enum Place {
    Stdio,
    Listen { address: Address, token: Option<Token>, max_connections: usize },
}

impl Place {
    async fn serve(self, runner: Runner) -> Result<(), CliError> {
        match self {
            Self::Stdio => match runner.serve(stdio()?).await {
                // The host has closed its end.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                served => served.map_err(CliError::Host),
            },
            Self::Listen { address, token, max_connections } => {
                let listener = Listener::bind(&address, token).await?;
                report::note(&format_args!("listening on {}", listener.address()));
                runner.listen(listener, max_connections).await;
                Ok(())
            }
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  execbox runner --listen unix:/run/user/1000/execbox.sock
  execbox runner --listen ws://0.0.0.0:7000 --token-file token.txt

A host without tools that waits a second for the result:
  (echo '{\"type\":\"execute\",\"id\":\"1\",\"code\":\"6 * 7\",\"options\":{},\"providers\":[]}'; sleep 1) | execbox runner";
