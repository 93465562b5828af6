//! The loop of a connection: reads messages for the session, and writes what waits in the outbox.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::{Duration, Instant};

use execbox::transport::{Received, Transport};
use execbox_core::budget::Budget;
use execbox_core::protocol::{MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS};

use crate::rpc::{self, FAILED, INVALID_REQUEST, Malformed, PARSE_ERROR, RpcError};
use crate::service::{MAX_RECEIVED_BYTES, Shared};
use crate::session::Session;
use crate::wait::Wait;

/// How many messages are read before other tasks run.
const MAX_MESSAGES: usize = 32;

/// How many bytes are given to the transport at once.
const MAX_BATCH: usize = 64 << 10;

/// How long writing the last messages may take after the application has closed its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves an application until it closes its side.
pub(crate) async fn serve(shared: Arc<Shared>, mut transport: Box<dyn Transport>) -> io::Result<()> {
    transport.charge_to(&Budget::new(MAX_RECEIVED_BYTES));
    let wait = Wait::new(shared.processors);
    let mut connection =
        Connection { transport, session: Session::new(shared), attachments: Attachments::default(), wait };
    let ended = poll_fn(|cx| connection.poll(cx)).await;
    if ended.is_ok() {
        // What is answered already is written, if the application still reads.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, poll_fn(|cx| connection.poll_write(cx))).await;
    }
    ended
}

struct Connection {
    transport: Box<dyn Transport>,
    session: Session,
    /// The attachments of the next message.
    attachments: Attachments,
    wait: Wait,
}

/// The attachments of the next message, within bounds.
#[derive(Default)]
struct Attachments {
    bytes: Vec<Vec<u8>>,
    len: usize,
    /// Whether some were refused, and the message with them.
    is_refused: bool,
}

impl Attachments {
    fn add(&mut self, bytes: Vec<u8>) {
        self.len += bytes.len();
        self.is_refused |= self.bytes.len() == MAX_ATTACHMENTS || self.len > MAX_ATTACHMENT_BYTES;
        if self.is_refused {
            self.bytes.clear();
        } else {
            self.bytes.push(bytes);
        }
    }

    fn take(&mut self) -> Result<Vec<Vec<u8>>, RpcError> {
        match mem::take(self) {
            Self { is_refused: true, .. } => Err(RpcError::new(
                FAILED,
                format!("the attachments of the message are more than {MAX_ATTACHMENTS}, or have more than 64 MiB"),
            )),
            Self { bytes, .. } => Ok(bytes),
        }
    }
}

impl Connection {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.peer().outbox().register(cx.waker());
        self.session.poll_tasks(cx);
        for _ in 0..MAX_MESSAGES {
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(Err(error));
            }
            if self.session.peer().outbox().is_congested() {
                return Poll::Pending; // Continues when the application has read.
            }
            let received = ready!(self.poll_receive(cx))?;
            self.wait.received(Instant::now());
            match received {
                Received::Message(line) => {
                    let attachments = self.attachments.take();
                    self.session.handle(rpc::read(&line), line.len(), attachments);
                }
                Received::Attachment(bytes) => self.attachments.add(bytes),
                Received::TooLong(cap) => {
                    let error =
                        RpcError::new(PARSE_ERROR, format!("the line, or the attachment, has more than {cap} bytes"));
                    self.reject(error);
                }
                Received::End => return Poll::Ready(Ok(())),
                _ => self.reject(RpcError::new(INVALID_REQUEST, "unknown frame")),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Receives something, and stays awake for a while if nothing is there.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        let was_awake = self.wait.is_awake();
        if !was_awake && let Poll::Ready(received) = self.transport.poll_receive(cx) {
            return Poll::Ready(received);
        }
        if !self.wait.stays_awake(self.session.running(), Instant::now()) {
            return if was_awake { self.transport.poll_receive(cx) } else { Poll::Pending };
        }
        match self.transport.receive_now() {
            Some(true) => self.transport.poll_receive(cx),
            Some(false) => {
                thread::yield_now();
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.wait.give_up();
                self.transport.poll_receive(cx)
            }
        }
    }

    fn reject(&mut self, error: RpcError) {
        let _ = self.attachments.take();
        self.session.handle(Err(Box::new(Malformed { id: None, error })), 0, Ok(Vec::new()));
    }

    /// Ready when all is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.transport.poll_flush(cx))?;
            let mut batch = 0;
            while batch < MAX_BATCH
                && let Some(frame) = self.session.peer().outbox().next()
            {
                batch += frame.text.len();
                for bytes in frame.attachments {
                    batch += bytes.len();
                    self.transport.attach(bytes)?;
                }
                self.transport.send(frame.text)?;
            }
            if batch == 0 {
                return Poll::Ready(Ok(()));
            }
            self.wait.written();
        }
    }
}
