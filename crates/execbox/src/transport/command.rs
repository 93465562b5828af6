//! A child process as the peer.

use std::future::Future as _;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::{Command, ExitStatus};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use execbox_core::budget::Budget;
use execbox_core::engine::MEMORY_LIMIT_EXIT_CODE;
use execbox_core::protocol::host::ProcessEnd;
use tokio::time::{Instant, Sleep};

use super::child::Child;
use super::pipe::{PipeReader, PipeWriter};
use super::readiness::{PollFlags, wait};
use super::{OutOfMemory, Received, StreamTransport, Transport};
use crate::runtime;

/// How long to wait for the exit of a child after its output has ended: a child that exits closes its output just before.
const EXIT_TIMEOUT: Duration = Duration::from_millis(100);

/// How often to check for the exit.
const EXIT_INTERVAL: Duration = Duration::from_millis(1);

/// A [`Transport`] over the standard input and output of a child process, one message per line. Dropping it kills the
/// child.
///
/// If the child exits with [`MEMORY_LIMIT_EXIT_CODE`], or was killed because it exceeded the memory that its
/// [`RunnerCommand`](crate::RunnerCommand) gives it, receiving fails with [`OutOfMemory`]. If it exits otherwise, receiving
/// fails with its exit code or signal, if that is known soon after its output has ended.
#[derive(Debug)]
pub struct CommandTransport {
    stream: StreamTransport<PipeReader, PipeWriter>,
    child: Child,
    /// The wait for the exit, once the output has ended.
    ending: Option<Ending>,
}

/// Waits for the exit of a child.
#[derive(Debug)]
struct Ending {
    until: Instant,
    next: Pin<Box<Sleep>>,
}

impl CommandTransport {
    /// Starts `command`; its standard input and output are replaced by pipes.
    ///
    /// # Errors
    /// The command cannot be started, or the tokio runtime has no timers or no I/O.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        runtime::check_io()?;
        IdleCommand::open_pipes(Child::spawn(command)?).map(IdleCommand::open)
    }

    /// Detaches the child from the runtime, if no message is buffered in either direction.
    pub(crate) fn into_idle(self) -> Option<IdleCommand> {
        let (stdout, stdin) = self.stream.into_idle_parts()?;
        let (stdout, stdin) = (stdout.into_unregistered()?, stdin.into_unregistered()?);
        Some(IdleCommand { child: self.child, stdin, stdout })
    }

    /// Ready with the end of the output when the exit status is known, or after [`EXIT_TIMEOUT`].
    fn poll_exit(&mut self, end: io::Result<Received>, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        let ending = self.ending.get_or_insert_with(|| Ending {
            until: Instant::now() + EXIT_TIMEOUT,
            next: Box::pin(tokio::time::sleep(EXIT_INTERVAL)),
        });
        loop {
            if let Some(status) = self.child.exit_status() {
                let is_memory = status.code() == Some(MEMORY_LIMIT_EXIT_CODE) || self.child.exceeded_memory();
                return Poll::Ready(Err(if is_memory { io::Error::other(OutOfMemory) } else { ended(status) }));
            }
            if Instant::now() >= ending.until {
                return Poll::Ready(end);
            }
            ready!(ending.next.as_mut().poll(cx));
            ending.next.as_mut().reset(Instant::now() + EXIT_INTERVAL);
        }
    }
}

fn ended(status: ExitStatus) -> io::Error {
    let signal = || ProcessEnd::Signal(status.signal().unwrap_or_default());
    io::Error::other(Ended(status.code().map_or_else(signal, ProcessEnd::Code)))
}

/// The source of the error with which receiving from a child that has exited fails.
#[derive(Debug, thiserror::Error)]
#[error("the process ended with {0}")]
pub(crate) struct Ended(pub(crate) ProcessEnd);

impl Transport for CommandTransport {
    fn charge_to(&mut self, budget: &Budget) {
        self.stream.charge_to(budget);
    }

    fn receive_now(&mut self) -> Option<bool> {
        self.stream.receive_now()
    }

    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        self.stream.send(message)
    }

    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.stream.attach(bytes)
    }

    fn can_attach(&self) -> bool {
        self.stream.can_attach()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        match ready!(self.stream.poll_receive(cx)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.poll_exit(Err(error), cx),
            Ok(Received::End) => self.poll_exit(Ok(Received::End), cx),
            received => Poll::Ready(received),
        }
    }
}

/// A child that is registered with no runtime, so that any runtime can open it.
#[derive(Debug)]
pub(crate) struct IdleCommand {
    child: Child,
    stdin: PipeWriter,
    stdout: PipeReader,
}

impl IdleCommand {
    /// Starts a child that is killed soon after it has more than that memory, in bytes.
    pub(crate) fn spawn(command: &mut Command, max_memory: u64) -> io::Result<Self> {
        Self::open_pipes(Child::spawn_watched(command, max_memory)?)
    }

    fn open_pipes((child, stdin, stdout): (Child, OwnedFd, OwnedFd)) -> io::Result<Self> {
        Ok(Self { child, stdin: PipeWriter::new(stdin)?, stdout: PipeReader::new(stdout)? })
    }

    /// Opens the child again. Fails if it has exited or written unexpected output.
    pub(crate) fn reopen(self) -> io::Result<CommandTransport> {
        if wait(&self.stdout.fd()?, PollFlags::POLLIN, Some(Duration::ZERO))? {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(self.open())
    }

    /// Opens a child that has just been started.
    pub(crate) fn open(self) -> CommandTransport {
        let stream = StreamTransport::over_pipes(self.stdout, self.stdin);
        CommandTransport { stream, child: self.child, ending: None }
    }
}
