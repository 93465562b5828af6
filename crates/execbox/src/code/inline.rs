//! Runs in this process, each on a task of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use execbox_core::contract::module::{CodeExecutionResult, Failure, ModuleRun, Request};
use execbox_core::engine::{Event, Guest, Outcome, Turn};
use futures_util::future::OptionFuture;

use super::execution::Run;
use crate::session::parts::Parts;
use crate::session::turns::Turns;

/// Drives a run to its end.
pub(crate) async fn drive(parts: Parts, request: Request, run: Run) -> CodeExecutionResult {
    let (program, module) = match ModuleRun::start(&*parts.language, request, &|| run.is_to_stop()) {
        Ok(started) => started,
        Err(failure) => return run.finish(Err(failure), None),
    };
    match parts.engine.start(program) {
        Ok(guest) => Drive { guest, turns: Turns::new(), run, events: Vec::new() }.drive(&module).await,
        Err(error) => run.finish(Err(Failure::internal(error.to_string())), None),
    }
}

struct Drive {
    guest: Box<dyn Guest>,
    turns: Turns,
    run: Run,
    events: Vec<Event>,
}

impl Drive {
    async fn drive(mut self, module: &ModuleRun) -> CodeExecutionResult {
        let stopped = self.run.stopped();
        let mut stopped = pin!(stopped.cancelled());
        let mut capped = pin!(OptionFuture::from(self.run.capped_at().map(tokio::time::sleep_until)));
        let outcome = poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(Some(())) = capped.as_mut().poll(cx) {
                self.run.cap();
                return Poll::Ready(None);
            }
            self.poll_outcome(cx).map(Some)
        })
        .await;
        let peak = self.guest.peak_memory_bytes();
        drop(self.guest);
        match outcome {
            Some(outcome) => self.run.finish(module.finish(outcome), peak),
            None => self.run.stopped_result(peak),
        }
    }

    /// Lets the guest and the host's functions go on until neither can.
    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            while let Some((pending, result)) = self.run.poll_settled(cx) {
                self.guest.settle(pending, result.into());
            }
            let turn = self.turns.poll(&mut *self.guest, cx);
            let moved = self.carry_events_out(cx);
            match turn {
                Poll::Ready(Turn::Done(outcome)) => return Poll::Ready(outcome),
                // It called, and was answered or is yet to be watched.
                Poll::Ready(Turn::Waiting) if moved => {}
                Poll::Ready(Turn::Waiting) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes notes and begins calls. Whether there was a call.
    fn carry_events_out(&mut self, cx: &mut Context<'_>) -> bool {
        self.guest.take_events(&mut self.events);
        let mut called = false;
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Notify(notification) => self.run.note(&notification),
                Event::Call(call) => {
                    called = true;
                    if let Some((pending, result)) = self.run.call(&call, cx) {
                        self.guest.settle(pending, result.into());
                    }
                }
                Event::Log(_) => {} // The console of such programs notifies.
            }
        }
        called
    }
}
