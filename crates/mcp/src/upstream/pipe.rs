//! MCP over a pair of byte streams, with a peer that may do anything.
//!
//! rmcp reads and writes the messages. What is added here: whether the connection is lost is known at once, and
//! before the calls under way fail; its end waits for nobody; and what the peer can make us keep is capped.

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

/// Whether a connection is lost, and why. Clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Lost {
    token: CancellationToken,
    why: Arc<OnceLock<String>>,
}

impl Lost {
    pub(super) fn set(&self) {
        self.token.cancel();
    }

    pub(super) fn is_set(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(super) async fn happened(&self) {
        self.token.cancelled().await;
    }

    pub(super) fn because(&self, why: String) {
        let _ = self.why.set(why);
    }

    /// Why, as a clause.
    pub(super) fn why(&self) -> String {
        self.why.get().cloned().unwrap_or_else(|| "the connection is lost".to_owned())
    }

    pub(super) fn is_explained(&self) -> bool {
        self.why.get().is_some()
    }
}

/// A connection over bytes.
pub(super) struct Pipe<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleClient, CappedLines<R>, W>,
    lost: Lost,
    /// Set when the process at the other end is gone, if there is one.
    gone: Option<CancellationToken>,
    /// Room for answers to the peer that it has yet to read.
    unread: Arc<Semaphore>,
    _dropped: DropGuard,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Pipe<R, W> {
    pub(super) fn new(reader: R, writer: W, lost: &Lost, gone: Option<CancellationToken>) -> Self {
        let lines = CappedLines::new(reader, MAX_MESSAGE_BYTES);
        Self {
            inner: AsyncRwTransport::new(lines, writer).with_max_line_length(usize::MAX),
            lost: lost.clone(),
            gone,
            unread: Arc::new(Semaphore::new(MAX_UNREAD)),
            _dropped: lost.token.clone().drop_guard(),
        }
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient> for Pipe<R, W> {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let room = is_answer.then(|| Arc::clone(&self.unread).try_acquire_owned());
        let (sent, lost) = (self.inner.send(message), self.lost.clone());
        async move {
            let sent = sent.await;
            if sent.is_err() {
                lost.set();
            }
            drop(room);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (unread, inner) = (&self.unread, &mut self.inner);
        let received = tokio::select! {
            biased; // What the peer said before its end counts.
            received = async {
                let _room = unread.acquire().await; // A peer that asks and does not read the answers is not heard.
                inner.receive().await
            } => received,
            () = self.lost.happened() => None,
        };
        if received.is_none() {
            self.lost.set();
            if let Some(gone) = &self.gone {
                let _ = tokio::time::timeout(OBITUARY, gone.cancelled()).await;
            }
        }
        received
    }

    /// Does not wait: not for a peer that does not read, and not for a process to end.
    async fn close(&mut self) -> io::Result<()> {
        self.lost.set();
        Ok(())
    }
}

/// How many answers wait for a peer.
const MAX_UNREAD: usize = 1024;

/// How long the calls under way wait to be told how the process ended.
const OBITUARY: Duration = Duration::from_millis(250);
