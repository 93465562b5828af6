//! MCP over a pair of byte streams, with an untrusted peer.
//!
//! rmcp writes the messages. This module reads them, within limits; notices at once when the connection is lost, before its
//! pending calls fail; and closes without waiting for the peer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use execbox_core::text::bytes_text;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerNotification,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, Empty};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::MAX_MESSAGE_BYTES;
use super::answers::Answers;
use super::lines::{Excess, Line, LineLimits, Lines};
use super::misread::as_call_result;

/// The signal that a connection is lost, with the reason. All clones are the same signal.
#[derive(Debug, Clone, Default)]
pub(super) struct Disconnect {
    token: CancellationToken,
    reason: Arc<OnceLock<String>>,
}

impl Disconnect {
    pub(super) fn trigger(&self) {
        self.token.cancel();
    }

    pub(super) fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(super) async fn triggered(&self) {
        self.token.cancelled().await;
    }

    /// Sets the reason, unless there is one already.
    pub(super) fn set_reason(&self, reason: String) {
        let _ = self.reason.set(reason);
    }

    /// The reason, as a clause.
    pub(super) fn reason(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "connection lost".to_owned())
    }

    pub(super) fn has_reason(&self) -> bool {
        self.reason.get().is_some()
    }
}

/// The requests of the peer that are not answered yet. Each has a permit, which its answer keeps until it is written.
#[derive(Clone)]
struct Unanswered {
    room: Arc<Semaphore>,
    permits: Arc<Mutex<HashMap<RequestId, OwnedSemaphorePermit>>>,
}

impl Default for Unanswered {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_UNANSWERED)), permits: Arc::default() }
    }
}

impl Unanswered {
    /// Waits until there is room for a request.
    async fn room(&self) {
        let _ = self.room.acquire().await;
    }

    /// Records a request, or that one was cancelled. Returns whether the message is handled: there must be no other unanswered
    /// request with its id, and room for it.
    fn record(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            JsonRpcMessage::Request(request) => {
                let Entry::Vacant(entry) = permits.entry(request.id.clone()) else { return false };
                let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else { return false };
                entry.insert(permit);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    permits.remove(id); // rmcp sends no answer.
                }
            }
            _ => {}
        }
        true
    }

    /// The permit of the request that a message answers.
    fn remove(&self, message: &TxJsonRpcMessage<RoleClient>) -> Option<OwnedSemaphorePermit> {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => error.id.as_ref()?,
            _ => return None,
        };
        self.permits.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

/// The transport of a connection over byte streams.
pub(super) struct Pipe<R: AsyncRead + Unpin, W: AsyncWrite> {
    lines: Lines<R>,
    /// Only writes.
    writer: AsyncRwTransport<RoleClient, Empty, W>,
    answers: Answers,
    disconnect: Disconnect,
    /// Cancelled when the process at the other end is gone, if there is one.
    gone: Option<CancellationToken>,
    unanswered: Unanswered,
    _dropped: DropGuard,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Pipe<R, W> {
    pub(super) fn new(
        reader: R,
        writer: W,
        answers: &Answers,
        disconnect: &Disconnect,
        gone: Option<CancellationToken>,
    ) -> Self {
        Self {
            lines: Lines::new(reader, LINE_LIMITS),
            writer: AsyncRwTransport::new(tokio::io::empty(), writer),
            answers: answers.clone(),
            disconnect: disconnect.clone(),
            gone,
            unanswered: Unanswered::default(),
            _dropped: disconnect.token.clone().drop_guard(),
        }
    }

    /// The next valid message; `None` at the end. A request with the id of an unanswered one is ignored.
    async fn read(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = self.lines.next().await.ok()??;
            if let Some(message) = self.message(line)
                && self.unanswered.record(&message)
            {
                return Some(message);
            }
        }
    }

    /// The message in a line. A response that exceeds a limit or is invalid becomes an error of its request; other such lines
    /// are ignored.
    fn message(&self, Line { text, answers, memory }: Line) -> Option<RxJsonRpcMessage<RoleClient>> {
        let read = match text {
            Ok(text) => self.parse(&text, answers.as_ref(), memory),
            Err(Excess::Bytes) => Err(format!("response longer than {MAX_MESSAGE_BYTES} bytes")),
            Err(Excess::Memory) => Err(too_many_values()),
        };
        match read {
            Ok(message) => Some(message),
            Err(reason) => answers.map(|id| failed(id, reason)),
        }
    }

    fn parse(
        &self,
        text: &[u8],
        answers: Option<&RequestId>,
        memory: usize,
    ) -> Result<RxJsonRpcMessage<RoleClient>, String> {
        let charge = self.answers.charge(memory);
        let charge = charge.map_err(|exhausted| format!("too many large responses at once: {exhausted}"))?;
        let mut message = serde_json::from_slice(text).map_err(|error| format!("invalid response: {error}"))?;
        if let Some(call) = answers {
            if self.answers.is_of_call(call) {
                message = as_call_result(message, text);
            }
            self.answers.keep(call, charge);
        }
        Ok(message)
    }
}

fn too_many_values() -> String {
    format!("response with so many values that it takes more than {}", bytes_text(LINE_LIMITS.memory as u64))
}

fn failed(request: RequestId, reason: String) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, reason, None), Some(request))
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient> for Pipe<R, W> {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = self.unanswered.remove(&message);
        match &message {
            JsonRpcMessage::Request(request) => match request.request {
                ClientRequest::CallToolRequest(_) => self.answers.expect(request.id.clone(), true),
                ClientRequest::ReadResourceRequest(_)
                | ClientRequest::ListResourcesRequest(_)
                | ClientRequest::ListResourceTemplatesRequest(_) => self.answers.expect(request.id.clone(), false),
                _ => {}
            },
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(call) = &cancelled.params.request_id
                {
                    self.answers.forget(call);
                }
            }
            _ => {}
        }
        let (sent, disconnect) = (self.writer.send(message), self.disconnect.clone());
        async move {
            let sent = sent.await;
            if sent.is_err() {
                disconnect.trigger();
            }
            drop(answered);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (unanswered, disconnect) = (self.unanswered.clone(), self.disconnect.clone());
        let received = tokio::select! {
            biased; // Messages that arrived before the end are still received.
            received = async {
                // Nothing is read from a peer that sends requests and does not read the answers.
                unanswered.room().await;
                self.read().await
            } => received,
            () = disconnect.triggered() => None,
        };
        if received.is_none() {
            self.disconnect.trigger();
            if let Some(gone) = &self.gone {
                let _ = tokio::time::timeout(EXIT_STATUS_WAIT, gone.cancelled()).await;
            }
        }
        received
    }

    /// Does not wait for the peer to read, nor for its process to exit.
    async fn close(&mut self) -> io::Result<()> {
        self.disconnect.trigger();
        Ok(())
    }
}

/// The limits of a message.
const LINE_LIMITS: LineLimits = LineLimits { bytes: MAX_MESSAGE_BYTES, memory: 192 << 20 };

/// The maximum number of requests of the peer that are not answered yet, or whose answers are not written.
const MAX_UNANSWERED: usize = 1024;

/// The maximum delay of the failure of pending calls, in which the exit status of the process becomes known.
const EXIT_STATUS_WAIT: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Requests were received faster than they were answered, and filled the memory of the host.
    #[tokio::test]
    async fn nothing_is_read_while_many_requests_are_unanswered() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(near);
        let mut pipe = Pipe::new(reader, writer, &Answers::default(), &Disconnect::default(), None);
        let ping = |id: usize| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        // The second one has an id that is in use.
        for id in [0, 0].into_iter().chain(1..MAX_UNANSWERED + 2) {
            far.write_all(ping(id).as_bytes()).await.unwrap();
        }
        for _ in 0..MAX_UNANSWERED {
            assert!(matches!(pipe.receive().await, Some(JsonRpcMessage::Request(_))));
        }
        assert!(pipe.receive().now_or_never().is_none());
        let answer = JsonRpcMessage::error(ErrorData::internal_error("no", None), Some(RequestId::Number(0)));
        pipe.send(answer).await.unwrap();
        assert!(matches!(pipe.receive().await, Some(JsonRpcMessage::Request(_))));
        assert!(pipe.receive().now_or_never().is_none());
    }
}
