//! MCP over a pair of byte streams, with an untrusted peer.
//!
//! rmcp reads and writes the messages. This module adds that a lost connection is noticed at once, before its pending
//! calls fail; that closing never waits for the peer; and that memory used for the peer is bounded.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::JsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::MAX_MESSAGE_BYTES;
use super::lines::CappedLines;

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

/// The transport of a connection over byte streams.
pub(super) struct Pipe<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleClient, CappedLines<R>, W>,
    disconnect: Disconnect,
    /// Cancelled when the process at the other end is gone, if there is one.
    gone: Option<CancellationToken>,
    /// Permits for answers to the peer that are not yet written.
    unwritten_answers: Arc<Semaphore>,
    _dropped: DropGuard,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Pipe<R, W> {
    pub(super) fn new(reader: R, writer: W, disconnect: &Disconnect, gone: Option<CancellationToken>) -> Self {
        let lines = CappedLines::new(reader, MAX_MESSAGE_BYTES);
        Self {
            inner: AsyncRwTransport::new(lines, writer).with_max_line_length(usize::MAX),
            disconnect: disconnect.clone(),
            gone,
            unwritten_answers: Arc::new(Semaphore::new(MAX_UNWRITTEN_ANSWERS)),
            _dropped: disconnect.token.clone().drop_guard(),
        }
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient> for Pipe<R, W> {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let permit = is_answer.then(|| Arc::clone(&self.unwritten_answers).try_acquire_owned());
        let (sent, disconnect) = (self.inner.send(message), self.disconnect.clone());
        async move {
            let sent = sent.await;
            if sent.is_err() {
                disconnect.trigger();
            }
            drop(permit);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (unwritten_answers, inner) = (&self.unwritten_answers, &mut self.inner);
        let received = tokio::select! {
            biased; // Messages that arrived before the end are still received.
            received = async {
                // Nothing is read from a peer that sends requests and does not read the answers.
                let _permit = unwritten_answers.acquire().await;
                inner.receive().await
            } => received,
            () = self.disconnect.triggered() => None,
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

/// The maximum number of answers that are not yet written.
const MAX_UNWRITTEN_ANSWERS: usize = 1024;

/// The maximum delay of the failure of pending calls, in which the exit status of the process becomes known.
const EXIT_STATUS_WAIT: Duration = Duration::from_millis(250);
