//! Runs on a runner at the other end of a channel.

use std::task::Context;
use std::time::Duration;

use execbox_core::budget::Budget;
use execbox_core::contract::module::{CodeExecutionResult, Request};
use execbox_core::engine::{Call, NoRoom, Notification};
use execbox_core::protocol::host::{HostOptions, HostSession, ModuleHost};

use super::calls::Settled;
use super::execution::Run;
use crate::events::EventKind;
use crate::session::host::Host;
use crate::session::remote::{RunnerChannel, drive};

/// Runs a request on the runner at the other end of `channel`. Returns the result, and whether the runner can be used for
/// another program.
pub(crate) async fn run_code(
    channel: &mut (impl RunnerChannel + ?Sized),
    request: Request,
    mut run: Run,
    options: HostOptions,
) -> (CodeExecutionResult, bool) {
    run.observation().emit(EventKind::Started);
    let id = format!("run-{}", run.observation().execution().get());
    run.budget = Budget::new(request.limits.host_memory_len());
    let session = HostSession::module(id, request, options, Duration::ZERO);
    let stopped = run.stopped();
    let (mut end, is_reusable) = drive(session, channel, &mut run, &stopped).await;
    // Arguments and reports are kept beside what the session keeps.
    let peak = end.usage.peak_host_memory_bytes.unwrap_or_default() + run.budget.peak() as u64;
    end.usage.peak_host_memory_bytes = Some(peak);
    (run.finish(end), is_reusable)
}

impl Host for Run {
    type Contract = ModuleHost;

    fn charge_to(&mut self, budget: &Budget) {
        self.budget = budget.clone();
    }

    fn call(&mut self, call: Call, cx: &mut Context<'_>) -> Option<Settled> {
        Self::call(self, &call, cx)
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled> {
        Self::poll_settled(self, cx)
    }

    fn notify(&mut self, notification: Notification) -> Result<(), NoRoom> {
        self.note(&notification)
    }

    fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn awaits_approval(&self, cx: &Context<'_>) -> bool {
        self.calls.await_approval(cx)
    }

    fn cancel_calls(&mut self) {
        self.calls.cancel();
    }
}
