//! Channels: typed messages between the two halves of a session.
//!
//! [`JsonChannel`] sends messages as JSON over a [`Transport`]. The [worker executor](crate::executor::worker) has a channel
//! within this process, without serialization.

use std::io;
use std::task::{Context, Poll, ready};

use execbox_core::budget::{Budget, Charge, Meter};
use execbox_core::protocol::{ATTACHMENT_COST, Attachments, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS};
use execbox_core::protocol::{LineError, TooLong};
use execbox_core::protocol::{Message, MessageError, ReadError};

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
    fn poll_receive(&mut self, cx: &mut Context<'_>, budget: &Budget) -> Poll<io::Result<Option<Inbound<In>>>>;

    /// Charges the received parts of incomplete messages to `budget` from now on, if the channel has such parts.
    fn charge_to(&mut self, budget: &Budget);

    /// Whether something has arrived since the last call of this method, or since [`poll_receive`](Self::poll_receive) was
    /// pending. `None` if that is not known.
    fn receive_now(&mut self) -> Option<bool>;
}

/// Something received from the other side.
pub(crate) enum Inbound<M> {
    Message(M),
    /// A message of a known type with a missing or wrong field.
    InvalidMessage(MessageError),
    /// A frame that is not a JSON object.
    InvalidFrame(LineError),
    /// A message of an unknown type, or an attachment, which belongs to the next message.
    Ignored,
}

/// Messages as JSON over a transport.
pub(crate) struct JsonChannel<T> {
    transport: T,
    unsent: usize,
    broken: Option<io::Error>,
    /// Whether the other side accepts attachments.
    peer_accepts_attachments: bool,
    /// Attachments of the next message, with their charges.
    attached: Vec<(Vec<u8>, Charge)>,
    /// The budget that attachments are charged to; `None` for that of the session.
    budget: Option<Budget>,
}

impl<T> JsonChannel<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, unsent: 0, broken: None, peer_accepts_attachments: false, attached: Vec::new(), budget: None }
    }

    /// A channel that charges attachments to `budget` until their message is received.
    pub(crate) fn charged_to(budget: &Budget, transport: T) -> Self {
        Self { budget: Some(budget.clone()), ..Self::new(transport) }
    }

    pub(crate) fn into_transport(self) -> T {
        self.transport
    }
}

impl<T: Transport, Out: Message, In: Message> MessageChannel<Out, In> for JsonChannel<T> {
    fn send(&mut self, mut message: Out) -> Result<(), (Out, TooLong)> {
        if let Some(hello) = message.hello_mut() {
            hello.attachments = self.transport.can_attach();
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

    fn poll_receive(&mut self, cx: &mut Context<'_>, budget: &Budget) -> Poll<io::Result<Option<Inbound<In>>>> {
        Poll::Ready(Ok(Some(match ready!(self.transport.poll_receive(cx))? {
            Received::End => return Poll::Ready(Ok(None)),
            Received::TooLong(cap) => Inbound::InvalidFrame(LineError::Oversized(cap)),
            Received::Attachment(bytes) => match self.keep(bytes, budget) {
                Ok(()) => Inbound::Ignored,
                Err(error) => Inbound::InvalidFrame(error),
            },
            Received::Message(text) => {
                let attachments = Attachments::received(self.take_attached());
                let mut meter = Meter::new(budget, usize::MAX, &|| false);
                match In::from_line(text, attachments, &mut meter) {
                    Ok(Some(mut message)) => {
                        if let Some(hello) = message.hello_mut() {
                            self.peer_accepts_attachments = hello.attachments && self.transport.can_attach();
                        }
                        Inbound::Message(message)
                    }
                    Ok(None) => Inbound::Ignored,
                    Err(ReadError::Message(error)) => Inbound::InvalidMessage(error),
                    Err(ReadError::Line(error)) => Inbound::InvalidFrame(error),
                }
            }
        })))
    }

    fn charge_to(&mut self, budget: &Budget) {
        self.transport.charge_to(budget);
    }

    fn receive_now(&mut self) -> Option<bool> {
        self.transport.receive_now()
    }
}

impl<T> JsonChannel<T> {
    fn keep(&mut self, bytes: Vec<u8>, session: &Budget) -> Result<(), LineError> {
        if self.attached.len() >= MAX_ATTACHMENTS {
            return self.reject(LineError::TooManyAttachments(MAX_ATTACHMENTS));
        }
        match self.budget.as_ref().unwrap_or(session).charge(bytes.len() + ATTACHMENT_COST) {
            Ok(charge) => {
                self.attached.push((bytes, charge));
                Ok(())
            }
            Err(error) => self.reject(LineError::Exhausted(error)),
        }
    }

    fn reject(&mut self, error: LineError) -> Result<(), LineError> {
        self.take_attached();
        Err(error)
    }

    fn take_attached(&mut self) -> Vec<Vec<u8>> {
        // The charges end here: the attachments belong to the message now.
        std::mem::take(&mut self.attached).into_iter().map(|(bytes, _charge)| bytes).collect()
    }
}
