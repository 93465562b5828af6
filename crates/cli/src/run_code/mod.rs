//! `execbox run-code`: one ES module with what it is given, from the command line to its result.
//!
//! - [`options`]: the options file and the options of the command line, as one JSON object, which the library reads.
//! - [`modules`]: a directory as source modules.
//! - [`report`]: what is printed. [`notation`]: values for people.

mod modules;
mod notation;
mod options;
mod report;

use std::time::Duration;

use execbox::code::{CodeExecution, CodeExecutionOptions, CodeExecutionResult};
use execbox::core::contract::module::{Failure, Record, Status};
use execbox::{CancellationToken, Executor, Limits};

use self::modules::ModulesError;
use self::options::{OptionsFault, Sources};
use crate::args::RunCodeArguments;
use crate::executor::{NoPlace, Place};
use crate::exit::Exit;
use crate::limits::{self, LimitError};
use crate::source::SourceError;
use crate::stub::{self, StubError};
use crate::{interrupt, report as output};

/// Does what the command line asks for.
pub(crate) fn run(arguments: RunCodeArguments) -> Exit {
    match Job::new(arguments) {
        Ok((job, options)) => job.run(options),
        Err(error) => {
            output::complain(&error);
            Exit::BadInput
        }
    }
}

/// What the command line means, beside the options of the run.
struct Job {
    sources: Sources,
    /// How long it may take, if the caller has a budget.
    budget: Option<Duration>,
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
    Options(#[from] OptionsFault),
    #[error(transparent)]
    Modules(#[from] ModulesError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Job {
    fn new(mut arguments: RunCodeArguments) -> Result<(Self, CodeExecutionOptions), BadInput> {
        let unlimited = arguments.limits.timeout.as_deref() == Some("none");
        if unlimited {
            arguments.limits.timeout = None;
        }
        let limits = limits::read(&arguments.limits)?;
        let budget = (!unlimited).then_some(limits.timeout);
        let place = Place::read(&arguments.place)?;
        let providers = stub::load(&arguments.tools)?;
        let (json, quiet) = (arguments.json, arguments.quiet);
        // The safety cap comes after the budget.
        let cap = budget.unwrap_or_default().saturating_add(CodeExecutionOptions::default_limits().timeout);
        let (sources, read) = options::read(arguments, Limits { timeout: cap, ..limits })?;
        let mut options = read.options.providers(providers);
        if !read.has_report {
            let sink = report::report_sink(json || quiet);
            options = options.on_report(sink);
        }
        options = options.on_log(report::log_sink(json || quiet));
        Ok((Self { sources, budget, place, json, quiet }, options))
    }

    fn run(self, options: CodeExecutionOptions) -> Exit {
        let (result, interrupted) = interrupt::cancels(|cancellation| self.execute(options, &cancellation));
        let result = if self.json { report::as_json_allows(result) } else { result };
        let printed = match self.json {
            true => report::print_json(&result),
            false => report::print_human(&result, &self.sources, self.quiet),
        };
        match printed {
            Err(error) => output::unwritten(&error),
            Ok(()) if interrupted && result.status == Status::Terminated => Exit::Interrupted,
            Ok(()) => Exit::of_code(&result),
        }
    }

    /// Has the library execute it.
    fn execute(&self, options: CodeExecutionOptions, cancellation: &CancellationToken) -> CodeExecutionResult {
        let work = async |executor: &dyn Executor| {
            let run = executor.run_code(&self.sources.entry.code, options);
            self.see_through(run, cancellation).await
        };
        self.place.run(false, work).unwrap_or_else(|error| failed(Failure::internal(error.message)))
    }

    /// Awaits a run, and terminates it when the budget is spent or Ctrl-C is pressed.
    async fn see_through(&self, mut run: CodeExecution, cancellation: &CancellationToken) -> CodeExecutionResult {
        let spent = async {
            match self.budget {
                Some(budget) => tokio::time::sleep(budget).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            result = &mut run => return result,
            () = spent => run.terminate(self.budget.map(reason).as_deref()),
            () = cancellation.cancelled() => run.terminate(Some("interrupted")),
        }
        run.await
    }
}

fn reason(budget: Duration) -> String {
    format!("the budget of {} is spent", humantime::format_duration(budget))
}

/// The result of a run that has none of its own.
fn failed(failure: Failure) -> CodeExecutionResult {
    Record::default().finish(Err(failure), Duration::ZERO, None, 0)
}
