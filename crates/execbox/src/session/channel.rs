//! Typed messages between the two halves of a session: what the drivers talk through.
//!
//! [`JsonChannel`] puts them through a [`Transport`] as JSON; within this process they go as they are (see
//! [`crate::executor::worker`]).

use std::io;
use std::task::{Context, Poll, ready};

use execbox_core::protocol::attachments::{Attachments, MAX_ATTACHMENT_BYTES};
use execbox_core::protocol::line::{LineError, TooLong, decode_line};
use execbox_core::protocol::{Message, MessageError};

use crate::transport::{Received, Transport};

/// One end: `Out` is what this side says, `In` what it hears.
pub(crate) trait MessageChannel<Out, In>: Send {
    /// Takes a message for the other side, or gives it back: what to do then is the session's to say.
    fn send(&mut self, message: Out) -> Result<(), (Out, TooLong)>;

    /// Carries off what was sent. Ready when all of it is gone, or when the link is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Carries off what was sent and says goodbye.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// About how many bytes wait to be carried off.
    fn unsent(&self) -> usize;

    /// What the other side says next; `None` when it has nothing more to say.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Inbound<In>>>>;
}

/// What came from the other side.
pub(crate) enum Inbound<M> {
    Message(M),
    /// A message that is not as specified.
    InvalidMessage(MessageError),
    /// What is no message at all.
    InvalidFrame(LineError),
}

/// How many bytes of attachments may wait for their message.
const MAX_ATTACHED: usize = 4 * MAX_ATTACHMENT_BYTES;

/// Messages as JSON, through a transport.
pub(crate) struct JsonChannel<T> {
    transport: T,
    unsent: usize,
    broken: Option<io::Error>,
    /// The other side has said that it takes attachments.
    peer_attaches: bool,
    /// Attachments of the next message.
    attached: Vec<Vec<u8>>,
}

impl<T> JsonChannel<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, unsent: 0, broken: None, peer_attaches: false, attached: Vec::new() }
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
        let mut attachments = Attachments::for_peer(self.peer_attaches);
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
            let heard = match ready!(self.transport.poll_receive(cx))? {
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
                                self.peer_attaches = hello.attachments && self.transport.attaches();
                            }
                            Inbound::Message(message)
                        }
                        Ok(Ok(None)) => continue, // None of the types that this side knows.
                        Ok(Err(error)) => Inbound::InvalidMessage(error),
                        Err(LineError::Unreadable(error)) => Inbound::InvalidMessage(*error),
                        Err(error) => Inbound::InvalidFrame(error),
                    }
                }
            };
            return Poll::Ready(Ok(Some(heard)));
        }
    }
}

impl<T> JsonChannel<T> {
    fn keep(&mut self, bytes: Vec<u8>) -> Result<(), LineError> {
        // Each counts for something, or a host that names none of them could send them for ever.
        let kept: usize = self.attached.iter().map(|one| one.len() + 64).sum();
        if kept + bytes.len() > MAX_ATTACHED {
            self.attached.clear();
            return Err(LineError::Oversized(MAX_ATTACHED));
        }
        self.attached.push(bytes);
        Ok(())
    }
}
