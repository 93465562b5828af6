//! What carries messages between a host and a runner.
//!
//! A [`Transport`] is either end. Applications bring their own, or take one of these:
//! - [`StreamTransport`]: any byte stream, one message per line;
//! - [`CommandTransport`]: a child process, by its standard input and output;
//! - [`Address`]: TCP, Unix sockets and WebSocket, to [connect](Address::connect) to and to
//!   [listen](Listener::bind) on.
//!
//! A transport knows nothing of what the messages mean, and of the protocol only that a message is one
//! JSON object.

mod address;
mod child;
pub(crate) mod command;
mod connect;
mod listen;
mod stdio;
mod stream;
mod token;
mod websocket;

use std::io;
use std::task::{Context, Poll};

pub use address::{Address, AddressError};
pub use command::CommandTransport;
pub use listen::{Arrival, ListenError, Listener};
pub use stdio::stdio;
pub use stream::StreamTransport;
pub use token::{Token, TokenError};
pub use websocket::WebSocketTransport;

/// The longest message that is sent or taken, in bytes. Parsed, a message takes tens of times its length
/// at worst.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// One end of a connection that carries whole messages both ways, in order. Dropping it closes it.
pub trait Transport: Send {
    /// Takes a message for the peer: one JSON object as text, without a line's end in it. It is kept until
    /// [`poll_flush`](Self::poll_flush) has carried it off, and need not move before.
    ///
    /// # Errors
    /// The transport is broken.
    fn send(&mut self, message: Vec<u8>) -> io::Result<()>;

    /// Takes an attachment of the message that is sent next: bytes that cross as they are. Only where
    /// [`attaches`](Self::attaches); what crosses then is told in [`execbox_core::protocol::attachments`].
    ///
    /// # Errors
    /// The transport is broken, or takes none.
    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let _ = bytes;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether it carries attachments, both ways. Default: no.
    fn attaches(&self) -> bool {
        false
    }

    /// Carries off what was sent. Ready when all of it is gone, or when the transport is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The next message of the peer, or how there are none any more. The end between two messages is
    /// [`Received::End`]; an end within one is the error `UnexpectedEof`.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>>;

    /// Carries off what was sent and says goodbye, where there is a way to. Default
    /// [`poll_flush`](Self::poll_flush). Nothing is sent after it.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    /// The longest message that it sends, in bytes. Default [`MAX_MESSAGE_BYTES`].
    fn max_message_bytes(&self) -> usize {
        MAX_MESSAGE_BYTES
    }
}

/// What a transport has for its reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message, whole.
    Message(Vec<u8>),
    /// An attachment of the next message.
    Attachment(Vec<u8>),
    /// A message that was longer than this many bytes, and was dropped as it came.
    TooLong(usize),
    /// The peer has nothing more to say.
    End,
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        (**self).send(message)
    }

    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        (**self).attach(bytes)
    }

    fn attaches(&self) -> bool {
        (**self).attaches()
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

    fn max_message_bytes(&self) -> usize {
        (**self).max_message_bytes()
    }
}
