//! The worker executor: guests run on threads of their own.
//!
//! A worker is a thread with a [`Runner`], connected by two channels that carry the protocol's messages as values, not as
//! text. A thread cannot be killed: a worker that does not stop is abandoned and replaced.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io, thread};

use execbox_core::engine::Engine;
use execbox_core::language::Language;
use execbox_core::protocol::line::TooLong;
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::executor::pooled::{Pooled, PooledBuilder, RunnerFactory, impl_executor};
use crate::session::channel::{Inbound, MessageChannel};
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
/// let pool = PoolOptions { max_size: 2, ..PoolOptions::for_cores(2) };
/// let executor = WorkerExecutor::builder(Runner::new()?).pool(pool).build();
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
        Ok(Self::builder(Runner::new()?).build())
    }

    /// Creates an executor with another engine and language, and the default pool.
    pub fn with_engine(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> Self {
        Self::builder(Runner::with_engine(engine, language)).build()
    }

    /// Builds an executor whose workers execute requests with that runner.
    pub fn builder(runner: Runner) -> PooledBuilder<Self> {
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

    const NAME: &'static str = "worker thread";

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
}

/// One end of a channel within this process.
struct Channel<Out, In> {
    sender: UnboundedSender<Out>,
    receiver: UnboundedReceiver<In>,
}

/// Both ends.
fn channel<A, B>() -> (Channel<A, B>, Channel<B, A>) {
    let (ask, asked) = unbounded_channel();
    let (answer, answered) = unbounded_channel();
    (Channel { sender: ask, receiver: answered }, Channel { sender: answer, receiver: asked })
}

impl<Out: Send, In: Send> MessageChannel<Out, In> for Channel<Out, In> {
    fn send(&mut self, message: Out) -> Result<(), (Out, TooLong)> {
        // If the other end is gone, `poll_receive` reports it.
        let _ = self.sender.send(message);
        Ok(())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Messages wait in this process's memory, bounded by the guest's memory limit.
    fn unsent(&self) -> usize {
        0
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Inbound<In>>>> {
        Poll::Ready(Ok(ready!(self.receiver.poll_recv(cx)).map(Inbound::Message)))
    }
}
