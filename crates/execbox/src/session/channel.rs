//! Channels: typed messages between the two halves of a session.
//!
//! [`JsonChannel`] sends messages as JSON over a [`Transport`]. The [worker executor](crate::executor::worker) has a channel
//! within this process, without serialization.

use std::io;
use std::task::{Context, Poll, ready};

use execbox_core::protocol::attachments::{Attachments, MAX_ATTACHMENT_BYTES};
use execbox_core::protocol::line::{LineError, TooLong, decode_line};
use execbox_core::protocol::{Message, MessageError};

use crate::transport::{Received, Transport};

/// One end of a channel, which sends `Out` and receives `In`.
pub(crate) trait MessageChannel<Out, In>: Send {
    /// Queues a message, or returns one that is too long for the session to handle.
    fn send(&mut self, message: Out) -> Result<(), (Out, TooLong)>;

    /// Sends the queued messages. Ready when all are sent, or when the channel is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends the queued messages and closes this side.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// About how many bytes are queued.
    fn unsent(&self) -> usize;

    /// Receives the next message; `None` when the other side has closed.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Inbound<In>>>>;
}

/// Something received from the other side.
pub(crate) enum Inbound<M> {
    Message(M),
    /// A message of a known type with a missing or wrong field.
    InvalidMessage(MessageError),
    /// A frame that is not a JSON object.
    InvalidFrame(LineError),
}

/// The most bytes of attachments that are kept for the next message.
const MAX_ATTACHED: usize = 4 * MAX_ATTACHMENT_BYTES;

/// Messages as JSON over a transport.
pub(crate) struct JsonChannel<T> {
    transport: T,
    unsent: usize,
    broken: Option<io::Error>,
    /// The other side accepts attachments.
    peer_accepts_attachments: bool,
    /// Attachments of the next message.
    attached: Vec<Vec<u8>>,
}

impl<T> JsonChannel<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, unsent: 0, broken: None, peer_accepts_attachments: false, attached: Vec::new() }
    }

    pub(crate) fn into_transport(self) -> T {
        self.transport
    }
}

impl<T: Transport, Out: Message, In: Message> MessageChannel<Out, In> for JsonChannel<T> {
    fn send(&mut self, mut message: Out) -> Result<(), (Out, TooLong)> {
        if let Some(hello) = message.hello_mut() {
            hello.attachments = self.transport.attaches();
        }
        let mut attachments = Attachments::for_peer(self.peer_accepts_attachments);
        let text = match message.to_text(self.transport.max_message_bytes(), &mut attachments) {
            Ok(text) => text,
            Err(error) => return Err((message, error)),
        };
        if let Some(long) = attachments.bytes.iter().find(|bytes| bytes.len() > MAX_ATTACHMENT_BYTES) {
            return Err((message, TooLong { len: long.len(), cap: MAX_ATTACHMENT_BYTES }));
        }
        self.unsent += text.len() + attachments.bytes.iter().map(Vec::len).sum::<usize>();
        let attached = attachments.bytes.into_iter().try_for_each(|bytes| self.transport.attach(bytes));
        if let Err(error) = attached.and_then(|()| self.transport.send(text)) {
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

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Inbound<In>>>> {
        loop {
            let inbound = match ready!(self.transport.poll_receive(cx))? {
                Received::End => return Poll::Ready(Ok(None)),
                Received::TooLong(cap) => Inbound::InvalidFrame(LineError::Oversized(cap)),
                Received::Attachment(bytes) => match self.keep(bytes) {
                    Ok(()) => continue,
                    Err(error) => Inbound::InvalidFrame(error),
                },
                Received::Message(text) => {
                    let attachments = Attachments::received(std::mem::take(&mut self.attached));
                    match decode_line(text).map(|object| In::from_object(object, attachments)) {
                        Ok(Ok(Some(mut message))) => {
                            if let Some(hello) = message.hello_mut() {
                                self.peer_accepts_attachments = hello.attachments && self.transport.attaches();
                            }
                            Inbound::Message(message)
                        }
                        Ok(Ok(None)) => continue, // An unknown type.
                        Ok(Err(error)) => Inbound::InvalidMessage(error),
                        Err(LineError::Unreadable(error)) => Inbound::InvalidMessage(*error),
                        Err(error) => Inbound::InvalidFrame(error),
                    }
                }
            };
            return Poll::Ready(Ok(Some(inbound)));
        }
    }
}

impl<T> JsonChannel<T> {
    fn keep(&mut self, bytes: Vec<u8>) -> Result<(), LineError> {
        // Every attachment has a cost: empty ones without a message must not accumulate.
        let kept: usize = self.attached.iter().map(|one| one.len() + 64).sum();
        if kept + bytes.len() > MAX_ATTACHED {
            self.attached.clear();
            return Err(LineError::Oversized(MAX_ATTACHED));
        }
        self.attached.push(bytes);
        Ok(())
    }
}
