//! The connections of an HTTP server: a limited number. A further one evicts a connection that serves no request.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

/// A limited number of connections.
#[derive(Clone)]
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    table: Arc<Mutex<Table>>,
}

/// A connection that counts until it is dropped.
pub(super) struct Connection {
    all: Connections,
    id: u64,
    evicted: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

/// The activity of a connection. Connections in an earlier phase of this list are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Neither a complete request nor a token was received.
    New,
    /// The body of a request with a token, or of a further request, is being received.
    Receiving,
    /// A request was served; nothing, or the head of a further request, is being received.
    Idle,
    /// A stream waits for messages of the server. The client can open it again.
    Streaming,
    /// A request is handled, or its response is sent. The connection cannot be evicted.
    Serving,
}

/// The open connections, and the choice of the one to evict. Time is an argument.
#[derive(Default)]
struct Table {
    entries: BTreeMap<u64, Entry>,
    count: u64,
    /// Whether a new connection waits because none could be evicted.
    is_wanted: bool,
}

struct Entry {
    client: Option<IpAddr>,
    phase: Phase,
    since: Instant,
    evicted: CancellationToken,
}

impl Table {
    fn add(&mut self, client: Option<IpAddr>, now: Instant) -> (u64, CancellationToken) {
        let (id, evicted) = (self.count, CancellationToken::new());
        self.count += 1;
        self.entries.insert(id, Entry { client, phase: Phase::New, since: now, evicted: evicted.clone() });
        (id, evicted)
    }

    fn set(&mut self, id: u64, phase: Phase, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        (entry.phase, entry.since) = (phase, now);
        if phase != Phase::Serving && std::mem::take(&mut self.is_wanted) {
            self.evict();
        }
    }

    /// Evicts a connection in the earliest phase; among those, one of the client with the most connections; among those, the
    /// one that has been in the phase for longest.
    fn evict(&mut self) {
        let mut counts = HashMap::<_, usize>::new();
        for entry in self.entries.values() {
            *counts.entry(entry.client).or_default() += 1;
        }
        let may_end = |entry: &&Entry| entry.phase != Phase::Serving && !entry.evicted.is_cancelled();
        let candidates = self.entries.values().filter(may_end);
        let rank = |entry: &&Entry| (entry.phase, usize::MAX - counts[&entry.client], entry.since);
        match candidates.min_by_key(rank) {
            Some(entry) => entry.evicted.cancel(),
            None => self.is_wanted = true,
        }
    }
}

impl Connections {
    pub(super) fn new(max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max.max(1))), table: Arc::default() }
    }

    /// Waits for room. If there is none, evicts a connection that is not [`Serving`](Phase::Serving).
    pub(super) async fn admit(&self, client: Option<IpAddr>) -> Option<Connection> {
        if self.permits.available_permits() == 0 {
            self.table().evict();
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let mut table = self.table();
        table.is_wanted = false;
        let (id, evicted) = table.add(client, Instant::now());
        Some(Connection { all: self.clone(), id, evicted, _permit: permit })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn phase(&self) -> Phase {
        self.all.table().entries.get(&self.id).map_or(Phase::New, |entry| entry.phase)
    }

    fn set(&self, phase: Phase) {
        self.all.table().set(self.id, phase, Instant::now());
    }

    /// Records that the head of a request was accepted; its body follows. `has_token` says whether the request had the token of
    /// the server.
    pub(super) fn receive(&self, has_token: bool) {
        if has_token || self.phase() != Phase::New {
            self.set(Phase::Receiving);
        }
    }

    /// Records that a whole request was received. It is served until the returned value is dropped.
    pub(super) fn serve(self: &Arc<Self>, is_stream: bool) -> Serving {
        self.set(if is_stream { Phase::Streaming } else { Phase::Serving });
        Serving(Arc::clone(self))
    }

    /// Waits until the connection is evicted. Returns its phase.
    pub(super) async fn evicted(&self) -> Phase {
        self.evicted.cancelled().await;
        self.phase()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.table().entries.remove(&self.id);
    }
}

/// A request that is handled, or whose response is sent.
pub(super) struct Serving(Arc<Connection>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.set(Phase::Idle);
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

    /// Evicts all connections, and returns them in the order of eviction.
    fn order(mut table: Table) -> Vec<u64> {
        let mut order = Vec::new();
        while !std::mem::take(&mut table.is_wanted) {
            table.evict();
            let evicted = |(id, entry): (&u64, &Entry)| entry.evicted.is_cancelled().then_some(*id);
            let next = table.entries.iter().find_map(evicted);
            if let Some(id) = next {
                table.entries.remove(&id);
                order.push(id);
            }
        }
        order
    }

    #[test]
    fn connections_give_way_by_what_they_do_then_by_client_then_by_age() {
        let (mut table, start) = (Table::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([10, 0, 0, last])));
        let clients = [other, one, one, one, other, other, one, other];
        let ids: Vec<u64> = clients.iter().zip(0..).map(|(client, nth)| table.add(*client, at(nth)).0).collect();
        table.set(ids[1], Phase::Serving, at(10));
        table.set(ids[2], Phase::Idle, at(12));
        table.set(ids[3], Phase::Idle, at(11));
        table.set(ids[4], Phase::Receiving, at(13));
        table.set(ids[7], Phase::Streaming, at(8));
        table.add(one, at(14));
        // Of those without a request, first one of the client with five connections, although another one is older.
        assert_eq!(order(table), [6, 0, 8, 5, 4, 3, 2, 7]);
    }

    #[tokio::test]
    async fn connections_without_a_complete_request_give_way() {
        let connections = Connections::new(2);
        let admit = || async { Arc::new(connections.admit(None).await.unwrap()) };
        let [first, second] = [admit().await, admit().await];
        first.receive(false); // The body is not sent.
        let served = second.serve(false);
        let third = tokio::spawn({
            let connections = connections.clone();
            async move { connections.admit(None).await }
        });
        assert_eq!(first.evicted().await, Phase::New);
        assert!(!second.evicted.is_cancelled());
        drop(first);
        let third = Arc::new(third.await.unwrap().unwrap());
        let (third_served, waiting) = (third.serve(false), connections.admit(None));
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending(), "both are served");
        drop(served);
        assert_eq!(second.evicted().await, Phase::Idle, "it gives way as soon as it is not served");
        drop(second);
        drop((waiting.await, third_served, third));
        assert!(connections.table().entries.is_empty());
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
