//! A child process as the peer.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Command;
use std::task::{Context, Poll};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::net::unix::pipe;

use super::{Received, StreamTransport, Transport};
use crate::transport::child::Child;

/// A [`Transport`] over the standard input and output of a child process, one message per line. Dropping it kills the
/// child.
#[derive(Debug)]
pub struct CommandTransport {
    stream: StreamTransport<pipe::Receiver, pipe::Sender>,
    child: Child,
}

impl CommandTransport {
    /// Starts `command`; its standard input and output are replaced by pipes.
    ///
    /// Needs a tokio runtime with I/O enabled.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        IdleCommand::spawn(command)?.open()
    }

    /// Detaches the child from the runtime, if no message is buffered in either direction.
    pub(crate) fn into_idle(self) -> Option<IdleCommand> {
        let (receiver, sender) = self.stream.into_idle_parts()?;
        let (stdout, stdin) = (receiver.into_nonblocking_fd().ok()?, sender.into_nonblocking_fd().ok()?);
        Some(IdleCommand { child: self.child, stdin, stdout })
    }
}

impl Transport for CommandTransport {
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        self.stream.send(message)
    }

    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.stream.attach(bytes)
    }

    fn attaches(&self) -> bool {
        self.stream.attaches()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        self.stream.poll_receive(cx)
    }
}

/// A child that is registered with no runtime, so that any runtime can open it.
#[derive(Debug)]
pub(crate) struct IdleCommand {
    child: Child,
    stdin: OwnedFd,
    stdout: OwnedFd,
}

impl IdleCommand {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let (child, stdin, stdout) = Child::spawn(command)?;
        Ok(Self { child, stdin, stdout })
    }

    /// Opens the child again. Fails if it has exited or written unexpected output.
    pub(crate) fn reopen(self) -> io::Result<CommandTransport> {
        let mut output = [PollFd::new(self.stdout.as_fd(), PollFlags::POLLIN)];
        if poll(&mut output, PollTimeout::ZERO)? > 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.open()
    }

    /// Registers the child with the current runtime.
    pub(crate) fn open(self) -> io::Result<CommandTransport> {
        let (receiver, sender) =
            (pipe::Receiver::from_owned_fd(self.stdout)?, pipe::Sender::from_owned_fd(self.stdin)?);
        Ok(CommandTransport { stream: StreamTransport::new(receiver, sender), child: self.child })
    }
}
