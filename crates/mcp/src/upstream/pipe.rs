//! MCP over a pair of byte streams, with an untrusted peer.
//!
//! rmcp writes the messages. This module reads them, within limits; notices at once when the connection is lost, before its
//! pending calls fail; and closes without waiting for the peer.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use execbox_core::budget::{Charge, Exhausted};
use execbox_core::text::bytes_text;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, Empty};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answers::Answers;
use super::lenient::{self, Answer};
use super::lines::{Excess, Line, LineLimits, Lines};
use super::unanswered::Unanswered;
use super::unasked::{Flood, Unasked};
use super::{MAX_MESSAGE_BYTES, ServerFailure};

/// The signal that a connection is lost, with the reason. All clones are the same signal.
#[derive(Debug, Clone, Default)]
pub(super) struct Disconnect {
    token: CancellationToken,
    failure: Arc<OnceLock<ServerFailure>>,
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
        self.set_failure(ServerFailure::temporary(reason));
    }

    /// Sets the reason with the output of a process, unless there is one already.
    pub(super) fn set_failure(&self, failure: ServerFailure) {
        let _ = self.failure.set(failure);
    }

    pub(super) fn failure(&self) -> Option<&ServerFailure> {
        self.failure.get()
    }

    /// The reason, as a clause for models.
    pub(super) fn reason(&self) -> String {
        self.failure().map_or_else(|| "connection lost".to_owned(), ServerFailure::for_models)
    }
}

/// The transport of a connection over byte streams.
pub(super) struct Pipe<R: AsyncRead + Unpin, W: AsyncWrite> {
    lines: Lines<R>,
    /// The last line, until there is room for its message.
    line: Option<Line>,
    /// Used for writing only.
    writer: AsyncRwTransport<RoleClient, Empty, W>,
    answers: Answers,
    disconnect: Disconnect,
    /// Cancelled when the process at the other end has ended, if there is one.
    gone: Option<CancellationToken>,
    unanswered: Unanswered,
    unasked: Unasked,
    _dropped: DropGuard,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Pipe<R, W> {
    pub(super) fn new(
        reader: R,
        writer: W,
        answers: &Answers,
        unasked: &Unasked,
        disconnect: &Disconnect,
        gone: Option<CancellationToken>,
    ) -> Self {
        Self {
            lines: Lines::new(reader, LINE_LIMITS, unasked.clone()),
            line: None,
            writer: AsyncRwTransport::new(tokio::io::empty(), writer),
            answers: answers.clone(),
            disconnect: disconnect.clone(),
            gone,
            unanswered: Unanswered::default(),
            unasked: unasked.clone(),
            _dropped: disconnect.token.clone().drop_guard(),
        }
    }

    /// The next valid message; `None` at the end, or if the peer sends too many unrequested messages. A request with the id of
    /// an unanswered one is ignored. Cancel safe.
    async fn read(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.line.is_none() {
                match self.lines.next().await {
                    Ok(line) => self.line = Some(line?),
                    Err(error) => {
                        if let Some(flood) = error.get_ref().and_then(|error| error.downcast_ref::<Flood>()) {
                            self.disconnect.set_reason(flood.to_string());
                        }
                        return None;
                    }
                }
            }
            let charge = charge(&self.answers, self.line.as_ref()?).await;
            let line = self.line.take()?;
            match self.message(line, charge) {
                Ok(Some(message)) if self.unanswered.record(&message) => return Some(message),
                Ok(_) => {}
                Err(flood) => {
                    self.disconnect.set_reason(flood.to_string());
                    return None;
                }
            }
        }
    }

    /// The message in a line. A response that exceeds a limit or is invalid becomes an error of its request; other such lines
    /// are ignored, and so are responses that no request waits for.
    fn message(
        &self,
        line: Line,
        charge: Result<Charge, Exhausted>,
    ) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Flood> {
        let Line { text, answers, length, memory } = line;
        let request = match (&answers, &text) {
            (Some(id), _) => self.answers.expected(id),
            (None, Ok(text)) if is_error(text) => self.answers.only_expected(),
            (None, _) => None,
        };
        if request.is_none() {
            // Bytes beyond the maximum length were counted when they were discarded.
            self.unasked.spend(1, length.min(MAX_MESSAGE_BYTES))?;
        }
        if answers.is_some() && request.is_none() {
            return Ok(None);
        }
        let read = match text {
            Ok(text) if let Some(request) = &request => self.answer(&text, request, charge),
            Ok(text) => return Ok(self.unasked_message(&text, memory)),
            Err(Excess::Bytes) => Err(format!("response longer than {MAX_MESSAGE_BYTES} bytes")),
            Err(Excess::Memory) => Err(too_many_values()),
        };
        Ok(match read {
            Ok(message) => Some(message),
            Err(reason) => request.map(|id| {
                drop(self.answers.answered(&id, None, Charge::none()));
                failed(id, reason)
            }),
        })
    }

    fn answer(
        &self,
        text: &[u8],
        request: &RequestId,
        charge: Result<Charge, Exhausted>,
    ) -> Result<RxJsonRpcMessage<RoleClient>, String> {
        let charge = charge.map_err(too_many_answers)?;
        let Answer { message, data } = lenient::answer(text, request, self.answers.kind(request)?)?;
        drop(self.answers.answered(request, data, charge));
        Ok(message)
    }

    fn unasked_message(&self, text: &[u8], memory: usize) -> Option<RxJsonRpcMessage<RoleClient>> {
        let _charge = self.answers.charge(memory).ok()?;
        self.answers.take_report(lenient::unasked(text)?)
    }
}

/// The charge for a line, if it is an answer that is expected. Waits for room.
async fn charge(answers: &Answers, line: &Line) -> Result<Charge, Exhausted> {
    let mut charge = answers.nothing();
    if let Line { text: Ok(_), answers: Some(id), memory, .. } = line
        && let Some(id) = answers.expected(id)
    {
        answers.cover(&id, &mut charge, *memory).await?;
    }
    Ok(charge)
}

/// Whether a message without an id may be an error.
fn is_error(text: &[u8]) -> bool {
    text.len() <= MAX_ERROR_BYTES && lenient::error_in(text).is_some()
}

/// The reason for not reading an answer that would take more memory than one answer may.
pub(super) fn too_many_values() -> String {
    format!("response with so many values that it takes more than {}", bytes_text(LINE_LIMITS.memory as u64))
}

/// The reason for not reading an answer that would take more memory than is left for all answers.
pub(super) fn too_many_answers(exhausted: Exhausted) -> String {
    format!("too many large responses at once: {exhausted}")
}

/// An error in place of the answer to a request.
pub(super) fn failed(request: RequestId, reason: String) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, reason, None), Some(request))
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient> for Pipe<R, W> {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = self.unanswered.remove(&message);
        self.answers.sent(&message);
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
            let is_end = !self.disconnect.is_triggered();
            self.disconnect.trigger();
            if let Some(gone) = &self.gone {
                let has_ended = tokio::time::timeout(EXIT_STATUS_WAIT, gone.cancelled()).await.is_ok();
                if is_end && !has_ended {
                    self.disconnect.set_reason("the process has closed its standard output and still runs".to_owned());
                }
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
pub(super) const LINE_LIMITS: LineLimits = LineLimits { bytes: MAX_MESSAGE_BYTES, memory: 80 << 20 };

/// The maximum length of an error without an id, in bytes.
pub(super) const MAX_ERROR_BYTES: usize = 64 << 10;

/// How long the failure of pending calls is delayed at most, to wait for the exit status of the process.
const EXIT_STATUS_WAIT: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::upstream::answers::MAX_ANSWERS;
    use crate::upstream::unanswered::MAX_UNANSWERED;

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_room_and_is_not_lost() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(near);
        let answers = Answers::default();
        let mut pipe = Pipe::new(reader, writer, &answers, &Unasked::default(), &Disconnect::default(), None);
        let call = ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("a")));
        pipe.send(JsonRpcMessage::request(call, RequestId::Number(1))).await.unwrap();
        let others = answers.charge(MAX_ANSWERS).unwrap();
        far.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n").await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_secs(1), pipe.receive()).await;
        assert!(waiting.is_err(), "dropped while it waits");
        drop(others);
        assert!(matches!(pipe.receive().await, Some(JsonRpcMessage::Response(_))));
    }

    /// Without the limit, requests that are received faster than they are answered fill the memory of the host.
    #[tokio::test]
    async fn nothing_is_read_while_many_requests_are_unanswered() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(near);
        let mut pipe =
            Pipe::new(reader, writer, &Answers::default(), &Unasked::default(), &Disconnect::default(), None);
        let ping = |id: usize| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        // The second request has an id that is in use.
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
