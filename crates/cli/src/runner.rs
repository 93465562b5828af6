//! `execbox runner`: the library's runner, on standard input and output or wherever it is told to listen.
//!
//! Standard output carries the protocol and nothing else.

use std::io;
use std::time::Duration;

use execbox::transport::{Address, AddressError, ListenError, Listener, Socket, Token, stdio};
use execbox::{CancellationToken, Runner};

use crate::args::RunnerArguments;
use crate::exit::Exit;
use crate::token::{self, NoToken};
use crate::units::{self, UnitError};
use crate::{interrupt, report, source};

/// Serves until there is nobody to serve, or until it is told to stop.
pub(crate) fn run(arguments: &RunnerArguments) -> Exit {
    if arguments.listen.is_none() {
        execbox::init_runner_process();
    }
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
    place: Place,
    drain: Duration,
}

enum Place {
    Stdio,
    Listen { address: Address, token: Option<Token>, max_connections: usize },
}

/// Why it does not serve, or not any more.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{option}: {error}")]
    Unit { option: &'static str, error: UnitError },
    #[error("--listen: {0}")]
    Address(#[from] AddressError),
    #[error("--listen: {0}")]
    Listen(ListenError),
    #[error("--listen: cannot listen on {socket}: {}", source::reason(.error))]
    Socket { socket: Socket, error: io::Error },
    #[error(transparent)]
    Token(#[from] NoToken),
    #[error("{0}")]
    Engine(String),
    #[error("the host's end of the protocol broke: {}", source::reason(.0))]
    Host(io::Error),
    #[error("cannot serve: {}", source::reason(.0))]
    System(io::Error),
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::Io { socket, error } => Self::Socket { socket, error },
            error => Self::Listen(error),
        }
    }
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Self::Unit { .. } | Self::Address(_) | Self::Listen(_) | Self::Socket { .. } | Self::Token(_) => {
                Exit::BadInput
            }
            Self::Engine(_) | Self::Host(_) | Self::System(_) => Exit::ExecboxFailed,
        }
    }
}

impl Job {
    fn new(arguments: &RunnerArguments) -> Result<Self, Failure> {
        let unit = |option| move |error| Failure::Unit { option, error };
        let drain = arguments.drain.as_deref().map_or(Ok(Duration::from_secs(5)), units::duration);
        let place = match &arguments.listen {
            None => Place::Stdio,
            Some(address) => Place::Listen {
                address: address.parse()?,
                token: token::read(arguments.token_file.as_deref())?,
                max_connections: arguments
                    .max_connections
                    .as_deref()
                    .map_or(Ok(256), units::count)
                    .map_err(unit("--max-connections"))?,
            },
        };
        Ok(Self { place, drain: drain.map_err(unit("--drain"))? })
    }

    fn run(self) -> Result<(), Failure> {
        let stop = CancellationToken::new();
        let runner = Runner::new().map_err(|error| Failure::Engine(error.to_string()))?;
        let runner = runner.drain_when(stop.clone(), self.drain);
        let mut runtime = match self.place {
            Place::Stdio => tokio::runtime::Builder::new_current_thread(),
            Place::Listen { .. } => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = runtime.enable_all().build().map_err(Failure::System)?;
        let served = runtime.block_on(async {
            interrupt::stops(stop).map_err(Failure::System)?;
            self.place.serve(runner).await
        });
        // Where standard input is a file, reading it occupies a thread that nothing can interrupt.
        runtime.shutdown_background();
        served
    }
}

impl Place {
    async fn serve(self, runner: Runner) -> Result<(), Failure> {
        match self {
            Self::Stdio => match runner.serve(stdio().map_err(Failure::System)?).await {
                // A host that has gone away has ended, too.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                served => served.map_err(Failure::Host),
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
