//! Transports: connections that carry messages between a host and a runner.
//!
//! A [`Transport`] is one end. Applications implement their own or use one of these:
//! - [`StreamTransport`]: any byte stream, one message per line;
//! - [`CommandTransport`]: the standard input and output of a child process;
//! - [`stdio`]: those of this process;
//! - [`Address`]: TCP, TLS, Unix sockets and WebSocket, to [connect](Address::connect) to and to
//!   [listen](Listener::bind) on. It combines a [`Socket`], which carries bytes, with a [`Framing`], which separates
//!   messages.
//!
//! Transports do not interpret messages: each is one JSON object.

mod address;
pub(crate) mod child;
pub(crate) mod command;
mod connect;
mod fragments;
mod listen;
mod paced;
mod pipe;
pub(crate) mod readiness;
mod socket;
mod stdio;
mod stream;
mod token;
mod watch;
mod websocket;

use std::future::Future as _;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use execbox_core::budget::Budget;

pub use address::{Address, AddressError, Framing};
pub use command::CommandTransport;
pub(crate) use connect::tls_reason;
pub use connect::{ConnectError, ConnectOptions};
pub use execbox_core::protocol::LineError;
pub use execbox_tls as tls;
pub(crate) use listen::RejectionSink;
pub use listen::{AcceptOptions, BoundListener, HostRejection, Incoming, Listener, RejectedHosts};
pub use socket::{ByteStream, ListenError, Protection, Socket, SocketListener, Stream};
pub(crate) use stdio::needs_threads as stdio_needs_threads;
pub use stdio::stdio;
pub(crate) use stream::RunnerUsesTls;
pub use stream::StreamTransport;
pub use token::{Token, TokenError, TokenRejection};

/// The longest message that is sent or received, in bytes. A parsed message takes at most some tens of times its length.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// One end of a connection that carries whole messages in both directions, in order. Dropping it closes the connection.
pub trait Transport: Send {
    /// Queues a message: one JSON object as text, without line breaks. [`poll_flush`](Self::poll_flush) sends it.
    ///
    /// # Errors
    /// The transport is broken.
    fn send(&mut self, message: Vec<u8>) -> io::Result<()>;

    /// Queues an attachment of the next message: raw bytes. To be called only if [`can_attach`](Self::can_attach); for the format
    /// see [`execbox_core::protocol::Attachments`].
    ///
    /// # Errors
    /// The transport is broken, or does not support attachments.
    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let _ = bytes;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether the transport supports attachments, in both directions. Default: no.
    fn can_attach(&self) -> bool {
        false
    }

    /// Sends the queued messages. Ready when all are sent, or with an error when the transport is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Receives the next message. The end of the stream between two messages is [`Received::End`]; within a message, it is the
    /// error `UnexpectedEof`. A thread that busy-waits polls with a waker that does nothing; before it sleeps, it polls again
    /// with its own.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>>;

    /// Charges the received parts of incomplete messages and attachments to `budget` from now on. A message that the budget
    /// does not cover breaks the transport. Default: nothing is charged.
    fn charge_to(&mut self, budget: &Budget) {
        let _ = budget;
    }

    /// Reads what has arrived without waiting; [`poll_receive`](Self::poll_receive) receives it. Returns whether there was
    /// something; the end of the stream does not count. `None` if the transport cannot read without waiting, which is the
    /// default.
    fn receive_now(&mut self) -> Option<bool> {
        None
    }

    /// Sends the queued messages and closes the connection gracefully, if the transport has such a close. Default:
    /// [`poll_flush`](Self::poll_flush). No message is queued after it.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    /// The longest message that can be sent, in bytes. Default: [`MAX_MESSAGE_BYTES`].
    fn max_message_bytes(&self) -> usize {
        MAX_MESSAGE_BYTES
    }
}

/// The result of [`Transport::poll_receive`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// A complete message.
    Message(Vec<u8>),
    /// An attachment of the next message.
    Attachment(Vec<u8>),
    /// A message longer than this limit, in bytes. Its content was discarded.
    TooLong(usize),
    /// The peer closed the stream.
    End,
}

/// The process of the runner has ended because its program exhausted its memory. As the source of the [`io::Error`] of
/// [`Transport::poll_receive`], it ends the program with `memory_limit` instead of `internal_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the program exhausted the memory of the runner's process")]
pub struct OutOfMemory;

/// The waker of threads that busy-wait, which does nothing. A waker can be compared with this one; other results of
/// [`Waker::noop`] may differ.
pub(crate) static NOOP_WAKER: &Waker = Waker::noop();

/// Wakes the task after the runtime has polled its timers and sockets and run other tasks. A task that wakes itself would run
/// again before that.
pub(crate) fn wake_after_others(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        (**self).send(message)
    }

    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        (**self).attach(bytes)
    }

    fn can_attach(&self) -> bool {
        (**self).can_attach()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        (**self).poll_receive(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_close(cx)
    }

    fn charge_to(&mut self, budget: &Budget) {
        (**self).charge_to(budget);
    }

    fn receive_now(&mut self) -> Option<bool> {
        (**self).receive_now()
    }

    fn max_message_bytes(&self) -> usize {
        (**self).max_message_bytes()
    }
}
