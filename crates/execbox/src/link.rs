//! Typed messages between the two halves of a session: what the drivers talk through.
//!
//! [`JsonLink`] puts them through a [`Transport`] as JSON; within this process they go as they are (see
//! [`crate::worker`]).

use std::io;
use std::task::{Context, Poll, ready};

use execbox_core::protocol::line::{LineError, TooLong, decode_line, encode_message};
use execbox_core::protocol::message::{Message, MessageError};

use crate::transport::{Received, Transport};

/// One end: `Out` is what this side says, `In` what it hears.
pub(crate) trait Link<Out, In>: Send {
    /// Takes a message for the other side, or gives it back: what to do then is the session's to say.
    fn send(&mut self, message: Out) -> Result<(), (Out, TooLong)>;

    /// Carries off what was sent. Ready when all of it is gone, or when the link is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Carries off what was sent and says goodbye.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// About how many bytes wait to be carried off.
    fn unsent(&self) -> usize;

    /// What the other side says next; `None` when it has nothing more to say.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Heard<In>>>>;
}

/// What came from the other side.
pub(crate) enum Heard<M> {
    Message(M),
    /// A message that is not as specified.
    Malformed(MessageError),
    /// What is no message at all.
    Garbage(LineError),
}

/// Messages as JSON, through a transport.
pub(crate) struct JsonLink<T> {
    transport: T,
    unsent: usize,
    broken: Option<io::Error>,
}

impl<T> JsonLink<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, unsent: 0, broken: None }
    }

    pub(crate) fn into_transport(self) -> T {
        self.transport
    }
}

impl<T: Transport, Out: Message, In: Message> Link<Out, In> for JsonLink<T> {
    fn send(&mut self, message: Out) -> Result<(), (Out, TooLong)> {
        let text = match encode_message(&message, self.transport.max_message_bytes()) {
            Ok(text) => text,
            Err(error) => return Err((message, error)),
        };
        self.unsent += text.len();
        if let Err(error) = self.transport.send(text) {
            self.broken.get_or_insert(error);
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = &self.broken {
            return Poll::Ready(Err(error.kind().into()));
        }
        let flushed = ready!(self.transport.poll_flush(cx));
        self.unsent = 0;
        Poll::Ready(flushed)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_close(cx)
    }

    fn unsent(&self) -> usize {
        self.unsent
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Heard<In>>>> {
        loop {
            let heard = match ready!(self.transport.poll_receive(cx))? {
                Received::End => return Poll::Ready(Ok(None)),
                Received::TooLong(cap) => Heard::Garbage(LineError::Oversized(cap)),
                Received::Message(text) => match decode_line(text).map(In::from_object) {
                    Ok(Ok(Some(message))) => Heard::Message(message),
                    Ok(Ok(None)) => continue, // None of the types that this side knows.
                    Ok(Err(error)) => Heard::Malformed(error),
                    Err(error) => Heard::Garbage(error),
                },
            };
            return Poll::Ready(Ok(Some(heard)));
        }
    }
}
