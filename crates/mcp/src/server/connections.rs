//! The connections of an HTTP server: a limited number, of which those without an accepted request give way to new ones.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// A limited number of connections.
#[derive(Clone)]
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    /// Those without an accepted request, the oldest first.
    newcomers: Arc<Mutex<VecDeque<Arc<State>>>>,
}

#[derive(Default)]
struct State {
    is_accepted: AtomicBool,
    evicted: CancellationToken,
}

/// A connection that counts until it is dropped.
pub(super) struct Connection {
    all: Connections,
    state: Arc<State>,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    pub(super) fn new(max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max.max(1))), newcomers: Arc::default() }
    }

    /// Waits for room. If there is none, the oldest connection without an accepted request is closed.
    pub(super) async fn admit(&self) -> Option<Connection> {
        if self.permits.available_permits() == 0
            && let Some(oldest) = self.newcomers().pop_front()
        {
            oldest.evicted.cancel();
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let state = Arc::<State>::default();
        self.newcomers().push_back(Arc::clone(&state));
        Some(Connection { all: self.clone(), state, _permit: permit })
    }

    fn newcomers(&self) -> MutexGuard<'_, VecDeque<Arc<State>>> {
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// A request was accepted: the connection may stay.
    pub(super) fn accept(&self) {
        if !self.state.is_accepted.swap(true, Ordering::Relaxed) {
            self.forget();
        }
    }

    /// Waits until the connection is to be closed: it gives way to another one, or had no accepted request in time.
    pub(super) async fn must_close(&self, timeout: Duration) {
        if self.state.evicted.run_until_cancelled(tokio::time::sleep(timeout)).await.is_some()
            && self.state.is_accepted.load(Ordering::Relaxed)
        {
            std::future::pending::<()>().await;
        }
    }

    fn forget(&self) {
        self.all.newcomers().retain(|other| !Arc::ptr_eq(other, &self.state));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A stream whose writes fail if the peer reads nothing for some time.
pub(super) struct Stalling<S> {
    inner: S,
    timeout: Duration,
    /// Runs while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(super) fn new(inner: S, timeout: Duration) -> Self {
        Self { inner, timeout, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn connections_without_an_accepted_request_give_way() {
        let connections = Connections::new(2);
        let [first, second] = [connections.admit().await.unwrap(), connections.admit().await.unwrap()];
        first.accept();
        let third = tokio::spawn({
            let connections = connections.clone();
            async move { connections.admit().await }
        });
        second.must_close(Duration::MAX).await;
        assert!(!first.state.evicted.is_cancelled());
        drop(second);
        let third = third.await.unwrap().unwrap();
        third.accept();
        assert!(connections.newcomers().is_empty());
        drop((first, third));
        assert_eq!(connections.permits.available_permits(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_ends_the_write() {
        let (near, _far) = tokio::io::duplex(16);
        let mut stream = Stalling::new(near, Duration::from_secs(30));
        let error = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
