//! `execbox run`: one program, from the command line to its result.

use std::io;
use std::process;

use execbox::core::error::ExecuteError;
use execbox::transport::Token;
use execbox::{CancellationToken, ErrorCode, ExecuteResult, Execution, Limits, Provider};

use crate::args::RunArguments;
use crate::executor::{Wall, WallError};
use crate::exit::Exit;
use crate::report;
use crate::source::{self, Source, SourceError};
use crate::stub::{self, StubError};
use crate::token::{self, NoToken};
use crate::units::{self, UnitError};

/// Does what the command line asks for.
pub(crate) fn run(arguments: RunArguments) -> Exit {
    match Job::new(arguments) {
        Ok(job) => job.run(),
        Err(error) => {
            report::complain(&error);
            Exit::BadInput
        }
    }
}

/// What the command line means.
struct Job {
    source: Source,
    providers: Vec<Provider>,
    limits: Limits,
    wall: Wall,
    token: Option<Token>,
    json: bool,
    quiet: bool,
}

/// Why nothing can be run.
#[derive(Debug, thiserror::Error)]
enum BadInput {
    #[error("{option}: {error}")]
    Unit { option: &'static str, error: UnitError },
    #[error("--executor: {0}")]
    Wall(#[from] WallError),
    #[error(transparent)]
    Token(#[from] NoToken),
    #[error(transparent)]
    Stub(#[from] StubError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Job {
    /// Reads the program last: it may be typed in by hand, and for nothing if something else is wrong.
    fn new(arguments: RunArguments) -> Result<Self, BadInput> {
        let limits = limits(&arguments)?;
        let wall = arguments.executor.as_deref().map_or(Ok(Wall::Inline), Wall::parse)?;
        let token = match wall {
            Wall::Remote(_) => token::read(arguments.token_file.as_deref())?,
            Wall::Inline | Wall::Worker | Wall::Process => None,
        };
        let providers = stub::load(&arguments.tools)?;
        let source = Source::read(arguments.file, arguments.eval)?;
        let (json, quiet) = (arguments.json, arguments.quiet);
        Ok(Self { source, providers, limits, wall, token, json, quiet })
    }

    fn run(self) -> Exit {
        let cancellation = CancellationToken::new();
        cancel_on_interrupt(cancellation.clone());
        let result = self.execute(cancellation.clone());
        let interrupted = cancellation.is_cancelled();
        // From here on, Ctrl-C ends the process at once, also while nobody reads what it writes.
        cancellation.cancel();

        let printed = self.print(&result);
        if let Err(error) = printed {
            report::complain(&format_args!("cannot write the result to standard output: {}", source::reason(&error)));
            return Exit::ExecboxFailed;
        }
        match result.error() {
            Some(error) if interrupted && error.code == ErrorCode::Timeout => Exit::Interrupted,
            _ => Exit::of(&result),
        }
    }

    /// Has the library execute it, in this thread or from it.
    fn execute(&self, cancellation: CancellationToken) -> ExecuteResult {
        let failed = |error| ExecuteResult::failed(error, std::time::Duration::ZERO);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = if self.wall == Wall::Inline { runtime.enable_time() } else { runtime.enable_all() };
        let runtime = match runtime.build() {
            Ok(runtime) => runtime,
            Err(error) => return failed(ExecuteError::internal(error.to_string())),
        };
        match self.wall.executor(self.token.clone()) {
            Ok(executor) => runtime.block_on(executor.execute(self.execution(cancellation))),
            Err(error) => failed(error),
        }
    }

    fn execution(&self, cancellation: CancellationToken) -> Execution {
        let execution = Execution::new(self.source.code.as_str())
            .providers(self.providers.iter().cloned())
            .limits(self.limits)
            .cancellation(cancellation);
        if self.quiet { execution } else { execution.on_log(report::log_sink()) }
    }

    fn print(&self, result: &ExecuteResult) -> io::Result<()> {
        if self.json { report::print_json(result) } else { report::print_human(result, &self.source) }
    }
}

fn limits(arguments: &RunArguments) -> Result<Limits, BadInput> {
    let mut limits = Limits::default();
    set(&mut limits.timeout, "--timeout", arguments.timeout.as_deref(), units::duration)?;
    set(&mut limits.memory_bytes, "--memory", arguments.memory.as_deref(), units::bytes)?;
    set(&mut limits.max_log_lines, "--max-log-lines", arguments.max_log_lines.as_deref(), units::count)?;
    set(&mut limits.max_log_chars, "--max-log-chars", arguments.max_log_chars.as_deref(), units::count)?;
    Ok(limits)
}

/// Sets a limit if its option was given.
fn set<T>(
    limit: &mut T,
    option: &'static str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, UnitError>,
) -> Result<(), BadInput> {
    if let Some(text) = text {
        *limit = parse(text).map_err(|error| BadInput::Unit { option, error })?;
    }
    Ok(())
}

/// The first Ctrl-C cancels the execution, whose result is still printed; the next one ends the process.
fn cancel_on_interrupt(cancellation: CancellationToken) {
    let handler = move || {
        if cancellation.is_cancelled() {
            process::exit(Exit::Interrupted as i32);
        }
        cancellation.cancel();
    };
    // Where no handler can be set, Ctrl-C ends the process as it does by default.
    let _ = ctrlc::set_handler(handler);
}
