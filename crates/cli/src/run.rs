//! `execbox run`: one program, from the command line to its result.

use std::io;
use std::time::Duration;

use execbox::{CancellationToken, ErrorCode, ExecuteRequest, ExecuteResult, Limits, Provider};
use execbox_mcp::Changes;
use execbox_mcp::config::Config;

use crate::args::RunArguments;
use crate::executor::{NoPlace, Place};
use crate::exit::Exit;
use crate::limits::{self, LimitError};
use crate::servers::{self, ServersError};
use crate::source::{Source, SourceError};
use crate::stub::{self, StubError};
use crate::{interrupt, report};

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
    stubs: Vec<Provider>,
    config: Config,
    limits: Limits,
    place: Place,
    json: bool,
    quiet: bool,
}

/// Why nothing can be run.
#[derive(Debug, thiserror::Error)]
enum BadInput {
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Place(#[from] NoPlace),
    #[error(transparent)]
    Stub(#[from] StubError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Job {
    /// Reads the program last: it may be typed in by hand, and for nothing if something else is wrong.
    fn new(arguments: RunArguments) -> Result<Self, BadInput> {
        let limits = limits::read(&arguments.limits)?;
        let place = Place::read(&arguments.place)?;
        let stubs = stub::load(&arguments.tools)?;
        let config = servers::read(&arguments.servers, &stubs)?;
        let source = Source::read(arguments.program)?;
        let (json, quiet) = (arguments.json, arguments.quiet);
        Ok(Self { source, stubs, config, limits, place, json, quiet })
    }

    fn run(self) -> Exit {
        let (result, interrupted) = interrupt::cancels(|cancellation| self.execute(cancellation));
        if let Err(error) = self.print(&result) {
            return report::unwritten(&error);
        }
        match result.error() {
            Some(error) if interrupted && error.code == ErrorCode::Timeout => Exit::Interrupted,
            _ => Exit::of(&result),
        }
    }

    /// Has the library execute it.
    fn execute(&self, cancellation: CancellationToken) -> ExecuteResult {
        let has_servers = !self.config.servers.is_empty();
        let result = self.place.run(has_servers, async |executor| {
            let servers = servers::start(&self.config, Changes::default(), false);
            tokio::select! {
                () = servers::settled(&servers) => {}
                () = cancellation.cancelled() => {}
            }
            servers::report_failures(&self.config, &servers);
            let providers = servers::all(&self.stubs, &servers);
            let result = executor.execute(self.execution(providers, cancellation)).await;
            servers.close().await;
            result
        });
        result.unwrap_or_else(|error| ExecuteResult::failed(error, Duration::ZERO))
    }

    fn execution(&self, providers: Vec<Provider>, cancellation: CancellationToken) -> ExecuteRequest {
        let execution = ExecuteRequest::new(self.source.code.as_str())
            .providers(providers)
            .limits(self.limits)
            .cancellation(cancellation);
        if self.quiet { execution } else { execution.on_log(report::log_sink()) }
    }

    fn print(&self, result: &ExecuteResult) -> io::Result<()> {
        if self.json { report::print_json(result) } else { report::print_human(result, &self.source) }
    }
}
