//! Runs in this process, each on a task of its own.

use execbox_core::contract::module::{CodeExecutionResult, Request};

use super::execution::Run;
use crate::events::EventKind;
use crate::session::local;
use crate::session::parts::EngineAndLanguage;

/// Drives a run to its end.
pub(crate) async fn run(parts: EngineAndLanguage, request: Request, mut run: Run) -> CodeExecutionResult {
    run.observation().emit(EventKind::Started);
    let (accepted, stopped) = (run.began, run.stopped());
    let end = local::run(&parts, request, &mut run, accepted, &stopped).await;
    run.finish(end)
}
