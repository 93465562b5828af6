//! `execbox run-code`: runs one ES module with the modules, values and tools that it is given.
//!
//! - [`arguments`]: the arguments and the help.
//! - [`options`]: the options file and the command line, as one JSON object, which the library reads; [`json`] reads its
//!   parts.
//! - [`modules`]: a directory as source modules.
//! - [`report`]: output. [`notation`]: values as text.

mod arguments;
mod json;
mod modules;
mod notation;
mod options;
mod report;

use std::sync::Arc;
use std::time::Duration;

use execbox::code::{CodeExecution, CodeExecutionOptions, CodeExecutionResult};
use execbox::{CancellationToken, Executor, Limits};
use execbox_core::contract::module::{Failure, Status};

pub(crate) use self::arguments::Arguments;
use self::arguments::{Budget, safety_cap};
use self::options::Sources;
use self::report::failed;
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::options::executor::ExecutorConfig;
use crate::options::stub;
use crate::options::units::Time;
use crate::process::interrupt;

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CommandError> {
    let (job, options) = Job::new(arguments)?;
    let (result, interrupted) = interrupt::cancel_on_interrupt(|cancellation| job.execute(options, &cancellation));
    let result = if job.json { report::as_json_allows(result) } else { result };
    let exit = match result.status {
        Status::Terminated if interrupted => Exit::Interrupted,
        _ => Exit::of_module(&result),
    };
    let printed = match job.json {
        true => report::print_json(&result),
        false => report::print_human(result, &job),
    };
    printed.map_err(SystemError::Output)?;
    Ok(exit)
}

struct Job {
    sources: Sources,
    budget: Option<Duration>,
    executor: ExecutorConfig,
    limits: Limits,
    json: bool,
    quiet: bool,
}

impl Job {
    fn new(arguments: Arguments) -> Result<(Self, CodeExecutionOptions), CommandError> {
        let Budget(budget) = arguments.timeout;
        // The safety cap counts from the end of the budget, so that it never shortens the budget.
        let timeout = budget.unwrap_or_default().saturating_add(safety_cap());
        let limits = arguments.limits.limits(Limits::default().timeout(timeout));
        let executor = ExecutorConfig::read(&arguments.executor, &limits)?;
        let providers = stub::load(&arguments.tools)?;
        let (json, quiet) = (arguments.json, arguments.quiet);
        let (sources, read) = options::read(arguments, limits)?;
        let mut options = read.options.providers(providers);
        if !read.has_report {
            let sink = report::report_sink(json || quiet);
            options = options.on_report(sink);
        }
        options = options.on_log(report::log_sink(json || quiet));
        Ok((Self { sources, budget, executor, limits, json, quiet }, options))
    }

    fn execute(&self, options: CodeExecutionOptions, cancellation: &CancellationToken) -> CodeExecutionResult {
        let work = async |executor: Arc<dyn Executor>| {
            let run = executor.run_code(&self.sources.entry.code, options);
            self.await_with_budget(run, cancellation).await
        };
        self.executor.run(false, work).unwrap_or_else(|error| failed(Failure::internal(error.message)))
    }

    /// Awaits a run, and terminates it when the budget is exhausted or Ctrl-C is pressed.
    async fn await_with_budget(&self, mut run: CodeExecution, cancellation: &CancellationToken) -> CodeExecutionResult {
        let exhausted = async {
            match self.budget {
                Some(budget) => tokio::time::sleep(budget).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            result = &mut run => return result,
            () = exhausted => run.terminate(self.budget.map(reason).as_deref()),
            () = cancellation.cancelled() => run.terminate(Some("interrupted")),
        }
        run.await
    }
}

fn reason(budget: Duration) -> String {
    format!("the budget of {} is exhausted", Time(budget))
}
