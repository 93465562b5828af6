//! The worker executor: guests run on threads of their own.
//!
//! A worker is a thread with a [`Runner`], connected by two channels that carry the protocol's messages as values, not as
//! text. A thread cannot be killed: a worker that does not stop is abandoned and replaced.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::{fmt, io, thread};

use execbox_core::budget::Budget;
use execbox_core::engine::Engine;
use execbox_core::language::Language;
use execbox_core::protocol::TooLong;
use execbox_core::protocol::{HostMessage, Message, RunnerMessage};
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::executor::pooled::{Pooled, PooledBuilder, RunnerFactory, impl_executor};
use crate::executor::self_test::{self, SelfTestCheck};
use crate::session::channel::{Inbound, MessageChannel};
use crate::session::parts::NeedsOwnProcess;
use crate::session::runner::Runner;

/// Runs guests on worker threads, which are reused. Tools run on the caller's runtime, which no guest blocks.
///
/// A worker that does not stop when its request is cancelled or times out is abandoned after
/// [`HostOptions::cancel_grace`](crate::HostOptions::cancel_grace), and another takes its place. QuickJS stops at once; this
/// is for engines that do not.
///
/// Cheap to clone; clones share their workers. Needs a tokio runtime with time enabled.
///
/// ```
/// use execbox::{PoolOptions, Runner, WorkerExecutor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = PoolOptions::default().max_size(2);
/// let executor = WorkerExecutor::builder(Runner::new()?)?.pool(pool).build();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WorkerExecutor(Arc<Pooled<WorkerThreads>>);

impl WorkerExecutor {
    /// Creates an executor with QuickJS, which accepts TypeScript, and the default pool.
    ///
    /// # Errors
    /// The engine does not load.
    #[cfg(feature = "standard")]
    pub fn new() -> Result<Self, execbox_quickjs::LoadError> {
        Ok(Self::of(Runner::new()?).build())
    }

    /// Creates an executor with another engine and language, and the default pool.
    ///
    /// # Errors
    /// A guest of the engine can end the process.
    pub fn with_engine(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> Result<Self, NeedsOwnProcess> {
        Ok(Self::builder(Runner::with_engine(engine, language))?.build())
    }

    /// Builds an executor whose workers execute requests with that runner. [`Runner::max_limits`] caps the limits of all
    /// executions.
    ///
    /// # Errors
    /// A guest of the runner's engine can end the process.
    pub fn builder(runner: Runner) -> Result<PooledBuilder<Self>, NeedsOwnProcess> {
        runner.parts.check_in_process().map(|()| Self::of(runner))
    }

    fn of(runner: Runner) -> PooledBuilder<Self> {
        PooledBuilder::new(|settings| Self(Pooled::new(WorkerThreads { runner }, settings)))
    }
}

impl_executor!(WorkerExecutor);

impl fmt::Debug for WorkerExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerExecutor").field("runner", &self.0.factory.runner).finish_non_exhaustive()
    }
}

struct WorkerThreads {
    runner: Runner,
}

impl RunnerFactory for WorkerThreads {
    type Idle = Channel<HostMessage, RunnerMessage>;
    type Busy = Channel<HostMessage, RunnerMessage>;

    const NEEDS_IO: bool = false;

    fn describe(&self) -> String {
        "worker thread".to_owned()
    }

    fn start(&self) -> BoxFuture<'_, io::Result<Self::Busy>> {
        Box::pin(async {
            let (here, there) = channel();
            let runner = self.runner.clone();
            // The thread ends when the other end of the channel is dropped, or at once if there is no runtime.
            let work = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                runtime.block_on(runner.serve_channel(there))
            };
            thread::Builder::new().name("execbox-worker".into()).spawn(work)?;
            Ok(here)
        })
    }

    fn activate(&self, runner: Self::Idle) -> io::Result<Self::Busy> {
        if runner.sender.is_closed() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(runner) }
    }

    fn deactivate(&self, runner: Self::Busy) -> Option<Self::Idle> {
        runner.receiver.is_empty().then_some(runner)
    }

    fn check_jail(&self) -> BoxFuture<'_, (Option<execbox_jail::Report>, Vec<SelfTestCheck>)> {
        Box::pin(std::future::ready(self_test::no_jail("guests run in this process")))
    }
}

/// One end of a channel within this process.
struct Channel<Out, In> {
    sender: UnboundedSender<Out>,
    receiver: UnboundedReceiver<In>,
    /// How many messages were in the queue at the last call of `receive_now`.
    known: usize,
    /// The messages that this end sent and the other one has not received.
    sent: Arc<Queued>,
    /// The messages that the other end sent and this one has not received.
    received: Arc<Queued>,
}

/// How many bytes of messages may be in transit before they count as unsent.
const MAX_IN_TRANSIT: usize = 1 << 20;

/// The messages of one direction that are not received.
#[derive(Default)]
struct Queued {
    bytes: AtomicUsize,
    /// The task that waits for the messages to be received.
    sender: AtomicWaker,
}

/// Creates a channel: the end of the host, and that of the runner.
fn channel<A, B>() -> (Channel<A, B>, Channel<B, A>) {
    let (to_runner, at_runner) = unbounded_channel();
    let (to_host, at_host) = unbounded_channel();
    let (requests, replies) = (Arc::<Queued>::default(), Arc::<Queued>::default());
    let host_end = Channel {
        sender: to_runner,
        receiver: at_host,
        known: 0,
        sent: Arc::clone(&requests),
        received: Arc::clone(&replies),
    };
    (host_end, Channel { sender: to_host, receiver: at_runner, known: 0, sent: replies, received: requests })
}

impl<Out, In> Drop for Channel<Out, In> {
    /// What the other end has sent will never be received: it must not wait for that.
    fn drop(&mut self) {
        self.receiver.close();
        self.received.sender.wake();
    }
}

impl<Out: Message + Send, In: Message + Send> MessageChannel<Out, In> for Channel<Out, In> {
    fn send(&mut self, message: Out) -> Result<(), (Out, TooLong)> {
        self.sent.bytes.fetch_add(message.cost(), Ordering::AcqRel);
        // If the other end is gone, `poll_receive` reports it.
        let _ = self.sender.send(message);
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sent.sender.register(cx.waker());
        match self.unsent() {
            0 => Poll::Ready(Ok(())),
            _ if self.sender.is_closed() => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            _ => Poll::Pending,
        }
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Up to [`MAX_IN_TRANSIT`] bytes count as sent, as they would in the buffer of a pipe.
    fn unsent(&self) -> usize {
        let queued = self.sent.bytes.load(Ordering::Acquire);
        if queued > MAX_IN_TRANSIT { queued } else { 0 }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, _: &Budget) -> Poll<io::Result<Option<Inbound<In>>>> {
        self.known = 0;
        // Drivers yield after a slice of time. Tokio would yield after a number of messages, with messages in the queue.
        let receiving = poll_fn(|cx| self.receiver.poll_recv(cx));
        let message = ready!(pin!(tokio::task::unconstrained(receiving)).poll(cx));
        if let Some(message) = &message {
            self.received.bytes.fetch_sub(message.cost(), Ordering::AcqRel);
            self.received.sender.wake();
        }
        Poll::Ready(Ok(message.map(Inbound::Message)))
    }

    /// Does nothing: messages arrive whole.
    fn charge_to(&mut self, _: &Budget) {}

    fn receive_now(&mut self) -> Option<bool> {
        let known = std::mem::replace(&mut self.known, self.receiver.len());
        Some(self.known > known)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use execbox_core::engine::{FunctionId, Notification};
    use execbox_core::protocol::CodeNotify;
    use execbox_core::value::Value;
    use futures_util::FutureExt as _;

    use super::*;

    /// Threads of abandoned workers waited forever for their messages to be received.
    #[test]
    fn flushing_ends_when_the_other_end_is_dropped() {
        let (here, mut there) = channel::<HostMessage, RunnerMessage>();
        let args = Value::from_bytes(vec![0; MAX_IN_TRANSIT]);
        let notification = Notification { function: FunctionId(0), args };
        let message = CodeNotify { id: "run".to_owned(), notification };
        there.send(RunnerMessage::CodeNotify(message)).unwrap();
        let mut flushing = Box::pin(poll_fn(|cx| there.poll_flush(cx)));
        assert!(flushing.as_mut().now_or_never().is_none(), "it waits for the other end");
        drop(here);
        let flushed = flushing.now_or_never().expect("nothing is to be waited for");
        assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
