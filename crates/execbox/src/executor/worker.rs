//! The worker executor: guests run on threads of their own.
//!
//! A worker is a thread with a [`Runner`] on it, at the other end of two channels: the protocol's messages
//! cross as they are, and nothing is turned into text. A thread cannot be killed: a worker that does not
//! stop is left alone and replaced.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{io, thread};

use execbox_core::engine::Engine;
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::language::Language;
use execbox_core::pool::PoolOptions;
use execbox_core::protocol::host::HostOptions;
use execbox_core::protocol::line::TooLong;
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::code::{self, CodeExecution, CodeExecutionOptions};
use crate::executor::pooled::{Pooled, Shells};
use crate::executor::{ExecuteRequest, Executor};
use crate::session::channel::{Inbound, MessageChannel};
use crate::session::runner::Runner;

/// Runs guests on threads of their own, which are kept warm for the next ones. The tools run on the
/// caller's runtime, which no guest ever occupies.
///
/// A worker that does not stop when its execution is cancelled or times out is abandoned, and another
/// takes its place; its caller is answered after [`HostOptions::cancel_grace`]. (The engine that ships stops
/// at once; this is for engines that do not.)
///
/// Cheap to clone; clones share their workers. Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct WorkerExecutor {
    pooled: Arc<Pooled<Workers>>,
}

/// Makes a [`WorkerExecutor`].
#[derive(Clone)]
#[must_use = "call build"]
pub struct WorkerExecutorBuilder {
    runner: Runner,
    options: HostOptions,
    pool: PoolOptions,
    ephemeral: bool,
}

impl WorkerExecutor {
    /// With the standard parts (QuickJS, and TypeScript accepted), and one worker for each core, at most 4.
    #[cfg(feature = "standard")]
    pub fn new() -> Result<Self, execbox_quickjs::LoadError> {
        Ok(Self::builder()?.build())
    }

    /// The same, with other options.
    #[cfg(feature = "standard")]
    pub fn builder() -> Result<WorkerExecutorBuilder, execbox_quickjs::LoadError> {
        Ok(WorkerExecutorBuilder::of(Runner::new()?))
    }

    /// With parts of your own.
    pub fn with(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> WorkerExecutorBuilder {
        WorkerExecutorBuilder::of(Runner::with(engine, language))
    }
}

impl WorkerExecutorBuilder {
    fn of(runner: Runner) -> Self {
        Self {
            runner,
            options: HostOptions::default(),
            pool: crate::executor::pool::default_options(),
            ephemeral: false,
        }
    }

    /// How many workers there may be, and who waits for how long.
    pub fn pool(mut self, pool: PoolOptions) -> Self {
        self.pool = pool;
        self
    }

    /// How patient the host is with a worker.
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// A fresh thread for every execution; never more at once than the pool's `max_size`.
    pub fn ephemeral(mut self) -> Self {
        self.ephemeral = true;
        self
    }

    /// The executor. Its threads are started when they are needed.
    pub fn build(self) -> WorkerExecutor {
        let pooled = Pooled::new(Workers { runner: self.runner }, self.options, self.pool, self.ephemeral);
        WorkerExecutor { pooled: Arc::new(pooled) }
    }
}

impl Executor for WorkerExecutor {
    fn execute(&self, execution: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(self.pooled.execute(execution))
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        let pooled = Arc::clone(&self.pooled);
        code::Run::begin(source, options, |request, run| async move { pooled.run_code(request, run).await })
    }

    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        Box::pin(self.pooled.prewarm(count))
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.pooled.dispose())
    }
}

impl std::fmt::Debug for WorkerExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerExecutor").field("runner", &self.pooled.shells.runner).finish_non_exhaustive()
    }
}

struct Workers {
    runner: Runner,
}

impl Shells for Workers {
    type Shell = Channel<HostMessage, RunnerMessage>;
    type Link = Channel<HostMessage, RunnerMessage>;

    const NAME: &'static str = "worker thread";

    fn make(&self) -> BoxFuture<'_, io::Result<Self::Link>> {
        Box::pin(async {
            let (here, there) = channel();
            let runner = self.runner.clone();
            // The thread ends when the other end of the channel is dropped; and without a runtime, at once.
            let work = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                runtime.block_on(runner.serve_link(there))
            };
            thread::Builder::new().name("execbox-worker".into()).spawn(work)?;
            Ok(here)
        })
    }

    fn reopen(&self, shell: Self::Shell) -> io::Result<Self::Link> {
        if shell.sender.is_closed() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(shell) }
    }

    fn close(&self, link: Self::Link) -> Option<Self::Shell> {
        link.receiver.is_empty().then_some(link)
    }
}

/// One end of a link within this process.
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
        // Where nobody listens any more, the receiving side tells.
        let _ = self.sender.send(message);
        Ok(())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// What waits here waits in the host's own memory, as much as the guest's memory limit allows.
    fn unsent(&self) -> usize {
        0
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Inbound<In>>>> {
        Poll::Ready(Ok(ready!(self.receiver.poll_recv(cx)).map(Inbound::Message)))
    }
}
