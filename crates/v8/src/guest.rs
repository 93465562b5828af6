//! The guest: a program on a thread of the engine, as a [`Guest`].

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::awake::Awake;
use execbox_core::engine::{Event, Guest, Interrupt, Outcome, Pending, Settlement, Turn};
use execbox_core::program::Program;

use crate::pool::Pool;
use crate::shared::{Phase, Settled, Shared};

pub(crate) struct V8Guest {
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    interrupt: Interrupt,
    /// The program, until it is started.
    program: Option<Program>,
    awake: Awake,
}

impl V8Guest {
    pub(crate) fn new(pool: Arc<Pool>, program: Program) -> Self {
        let shared = Shared::new(&program);
        let stops = Arc::clone(&shared);
        let interrupt = Interrupt::with_hook(move || stops.stop());
        Self { pool, shared, interrupt, program: Some(program), awake: Awake::default() }
    }
}

impl Guest for V8Guest {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let mut state = self.shared.state();
        if self.interrupt.is_triggered() {
            state.phase = Phase::Done(None);
        }
        if let Some(program) = self.program.take_if(|_| matches!(state.phase, Phase::Computing)) {
            drop(state);
            self.pool.run(program, Arc::clone(&self.shared));
            self.pool.wake_ticker();
            state = self.shared.wait_briefly(&mut self.awake);
        }
        state = self.shared.gather(state);
        // After the answer to a synchronous call, the guest resumes, and then takes the settlements that arrived before.
        while state.can_go_on() {
            self.shared.resume(state);
            self.pool.wake_ticker();
            state = self.shared.wait_briefly(&mut self.awake);
        }
        match &mut state.phase {
            Phase::Computing => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Phase::Waiting | Phase::Blocked => Poll::Ready(Turn::Waiting),
            Phase::Done(outcome) => Poll::Ready(Turn::Done(outcome.take().unwrap_or(Outcome::Interrupted))),
        }
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        self.shared.take_events(events);
    }

    fn settle(&mut self, pending: Pending, settlement: Settlement) {
        let settled = match pending {
            Pending::Promise(number) => Settled::Promise(number),
            Pending::Call(call) => {
                let slot = self.shared.state().mailbox.settle(call);
                let Some(slot) = slot else { return };
                Settled::Call(slot)
            }
        };
        self.shared.settle(settled, settlement);
    }

    fn wake(&mut self) {
        self.shared.wake_for_timer();
    }

    fn unread_bytes(&self) -> usize {
        self.shared.unread_bytes()
    }

    fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    fn peak_memory_bytes(&mut self) -> Option<u64> {
        Some(self.shared.state().used.peak_memory_bytes)
    }

    fn ends_process(&self) -> bool {
        self.shared.state().ends_process
    }

    fn cpu_time(&mut self) -> Option<Duration> {
        Some(self.shared.state().used.cpu_time)
    }
}

impl Drop for V8Guest {
    fn drop(&mut self) {
        self.shared.stop();
        self.pool.leave();
    }
}
