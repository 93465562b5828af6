//! Runs in this process, each on a task of its own.

use execbox_core::contract::Contract as _;
use execbox_core::contract::module::{CodeExecutionResult, Failure, ModuleRun, Request};
use execbox_core::usage::Usage;

use super::execution::Run;
use crate::session::local::{Reading, drive};
use crate::session::parts::Parts;

/// Drives a run to its end.
pub(crate) async fn run(parts: Parts, request: Request, mut run: Run) -> CodeExecutionResult {
    let mut condition = run.stop_condition();
    let reading = Reading::new(&condition, &run.limits, request.source_bytes());
    let started = ModuleRun::start(&*parts.language, request, &|| reading.reached().is_some());
    let (program, mut module) = match (started, reading.reached()) {
        (Ok(started), _) => started,
        (Err(_), Some(stop)) => return run.finish_stopped(&stop, Usage::default()),
        (Err(failure), None) => return run.finish(Err(failure), Usage::default()),
    };
    let read = reading.count(module.usage_mut());
    run.budget = program.budget.clone();
    let mut guest = match parts.engine.start(program) {
        Ok(guest) => guest,
        Err(error) => return run.finish(Err(Failure::internal(error.to_string())), Usage::default()),
    };
    let end = match read {
        Ok(()) => drive(&mut *guest, &mut module, &mut run, &mut condition).await,
        Err(stop) => Err(stop),
    };
    module.usage_mut().set_peak_memory(guest.peak_memory_bytes());
    drop(guest);
    match end {
        Ok(outcome) => {
            let outcome = module.finish(outcome);
            run.finish(outcome, module.total_usage())
        }
        Err(stop) => run.finish_stopped(&stop, module.total_usage()),
    }
}
