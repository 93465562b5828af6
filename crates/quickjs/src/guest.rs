//! The guest: an [`Instance`] as a [`Guest`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use execbox_core::engine::{Event, Guest, Interrupt, Outcome, Pending, Settlement, Turn};

use crate::host::{SharedState, SyncCall, lock};
use crate::instance::Instance;
use crate::loaded::Loaded;
use crate::message::{self, Settled};

pub(crate) struct QuickJsGuest {
    loaded: Arc<Loaded>,
    shared: SharedState,
    interrupt: Interrupt,
    /// The message with the answers that arrived since the guest last ran.
    answers: Vec<u8>,
    state: State,
}

/// Returns the instance when the program waits or ends, with the outcome if it ended.
type Computing = Pin<Box<dyn Future<Output = (Box<Instance>, Option<Outcome>)> + Send>>;

enum State {
    /// The message starts the program.
    Fresh(Box<Instance>, Vec<u8>),
    /// The program runs, has yielded, or is blocked in a synchronous call.
    Computing(Computing),
    /// The program waits for answers.
    Waiting(Box<Instance>),
    /// The program has ended. Its memory is cleared when the guest is dropped, so that the driver can send the outcome before.
    Returned(#[allow(dead_code)] Box<Instance>),
    Ended,
}

impl QuickJsGuest {
    pub(crate) fn new(loaded: Arc<Loaded>, instance: Instance, first_message: Vec<u8>) -> Self {
        let (shared, interrupt) = (instance.shared(), instance.interrupt());
        Self { loaded, shared, interrupt, answers: Vec::new(), state: State::Fresh(Box::new(instance), first_message) }
    }

    /// Whether the program is blocked in a synchronous call.
    fn is_blocked(&self) -> bool {
        matches!(lock(&self.shared).sync_call, SyncCall::Pending)
    }
}

impl Guest for QuickJsGuest {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        if self.interrupt.is_triggered() {
            self.state = State::Ended;
        }
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Fresh(instance, message) => {
                    self.state = State::Computing(Box::pin(start(instance, message)));
                }
                State::Waiting(instance) if self.answers.is_empty() => {
                    self.state = State::Waiting(instance);
                    return Poll::Ready(Turn::Waiting);
                }
                State::Waiting(instance) => {
                    let message = std::mem::take(&mut self.answers);
                    self.state = State::Computing(Box::pin(advance(instance, message)));
                }
                State::Computing(computing) if self.is_blocked() => {
                    self.state = State::Computing(computing);
                    return Poll::Ready(Turn::Waiting);
                }
                State::Computing(mut computing) => {
                    let polled = self.loaded.ticker.while_ticking(|| computing.as_mut().poll(cx));
                    match polled {
                        Poll::Pending => {
                            self.state = State::Computing(computing);
                            return if self.is_blocked() { Poll::Ready(Turn::Waiting) } else { Poll::Pending };
                        }
                        Poll::Ready((instance, None)) => self.state = State::Waiting(instance),
                        Poll::Ready((instance, Some(outcome))) => {
                            self.state = State::Returned(instance);
                            return Poll::Ready(Turn::Done(outcome));
                        }
                    }
                }
                State::Returned(_) | State::Ended => return Poll::Ready(Turn::Done(Outcome::Interrupted)),
            }
        }
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        lock(&self.shared).mailbox.take_events(events);
    }

    fn settle(&mut self, pending: Pending, settlement: Settlement) {
        let settled = match pending {
            Pending::Promise(number) => Settled::Promise(number),
            Pending::Call(call) => {
                let mut shared = lock(&self.shared);
                match shared.mailbox.settle(call) {
                    Some(SyncCall::HANDLE) => {
                        let mut answer = Vec::new();
                        message::put_settlement(&mut answer, &settlement);
                        shared.sync_call = SyncCall::Answered(answer);
                        return;
                    }
                    Some(slot) => Settled::Call(slot),
                    None => return,
                }
            }
        };
        message::put_settled(&mut self.answers, settled);
        message::put_settlement(&mut self.answers, &settlement);
    }

    fn wake(&mut self) {
        message::put_settled(&mut self.answers, Settled::Timer);
    }

    fn unread_bytes(&self) -> usize {
        self.answers.len()
    }

    fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    fn peak_memory_bytes(&mut self) -> Option<u64> {
        Some(lock(&self.shared).peak_memory_bytes)
    }
}

async fn start(mut instance: Box<Instance>, message: Vec<u8>) -> (Box<Instance>, Option<Outcome>) {
    let outcome = instance.start(message).await;
    (instance, outcome)
}

async fn advance(mut instance: Box<Instance>, message: Vec<u8>) -> (Box<Instance>, Option<Outcome>) {
    let outcome = instance.advance(message).await;
    (instance, outcome)
}
