//! The connections of an HTTP server: a limited number. A further one evicts a connection that serves no request.
//!
//! Connections that serve a request are never evicted; [`Requests`](super::requests::Requests) makes sure that there are others.
//! A connection whose request has arrived before it ends is not evicted, but another one instead.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use super::shortages::{HttpLimit, Shortages};

/// A limited number of connections.
#[derive(Clone)]
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    table: Arc<Mutex<Table>>,
    shortages: Arc<Shortages>,
}

/// A connection that counts until it is dropped.
pub(super) struct Connection {
    all: Connections,
    id: u64,
    evicted: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

/// The activity of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The order in which connections are evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Without a complete request, if too many connections are: more than one in [`INCOMPLETE_PART`].
    TooManyNew,
    TooManyReceiving,
    Idle,
    Streaming,
    /// Without a complete request. It may be about to arrive.
    New,
    Receiving,
    /// The end of a response was not sent yet, because the client does not read it.
    Unread,
}

/// The open connections, and the choice of the one to evict. Time is an argument.
struct Table {
    max: usize,
    entries: BTreeMap<u64, Entry>,
    count: u64,
    /// Whether a new connection waits because none could be evicted.
    is_wanted: bool,
    /// When a stream was evicted last.
    stream_evicted: Option<Instant>,
}

struct Entry {
    client: Option<IpAddr>,
    phase: Phase,
    since: Instant,
    /// Whether a write is pending because the client does not read.
    is_stalled: bool,
    is_evicted: bool,
    /// Notified when the connection is evicted.
    evicted: Arc<Notify>,
}

impl Entry {
    /// `None` if the connection cannot be evicted.
    fn rank(&self, are_too_many_incomplete: bool) -> Option<Rank> {
        match self.phase {
            _ if self.is_evicted => None,
            Phase::New if are_too_many_incomplete => Some(Rank::TooManyNew),
            Phase::Receiving if are_too_many_incomplete => Some(Rank::TooManyReceiving),
            Phase::New => Some(Rank::New),
            Phase::Receiving => Some(Rank::Receiving),
            Phase::Idle if self.is_stalled => Some(Rank::Unread),
            Phase::Idle => Some(Rank::Idle),
            Phase::Streaming => Some(Rank::Streaming),
            Phase::Serving => None,
        }
    }
}

impl Table {
    fn new(max: usize) -> Self {
        Self { max, entries: BTreeMap::new(), count: 0, is_wanted: false, stream_evicted: None }
    }

    fn add(&mut self, client: Option<IpAddr>, now: Instant) -> (u64, Arc<Notify>) {
        let (id, evicted) = (self.count, Arc::new(Notify::new()));
        self.count += 1;
        let (phase, evicted_entry) = (Phase::New, Arc::clone(&evicted));
        let entry = Entry { client, phase, since: now, is_stalled: false, is_evicted: false, evicted: evicted_entry };
        self.entries.insert(id, entry);
        (id, evicted)
    }

    /// Sets the phase. Returns whether another connection has to be evicted: for one that waits, or instead of this one, which
    /// has begun to serve a request.
    fn set(&mut self, id: u64, phase: Phase, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        (entry.phase, entry.since) = (phase, now);
        match phase {
            Phase::Serving | Phase::Streaming => std::mem::take(&mut entry.is_evicted),
            _ => self.is_wanted,
        }
    }

    /// Evicts the connection with the lowest rank; among those, one of the client with the most connections; among those, the
    /// one that has been in its phase for longest. Returns its rank.
    fn evict(&mut self, now: Instant) -> Option<Rank> {
        let (mut counts, mut incomplete) = (HashMap::<_, usize>::new(), 0);
        for entry in self.entries.values() {
            *counts.entry(entry.client).or_default() += 1;
            incomplete += usize::from(matches!(entry.phase, Phase::New | Phase::Receiving));
        }
        let are_too_many = incomplete > self.max / INCOMPLETE_PART;
        let ranked = self.entries.values_mut().filter_map(|entry| Some((entry.rank(are_too_many)?, entry)));
        let next = ranked.min_by_key(|(rank, entry)| (*rank, usize::MAX - counts[&entry.client], entry.since));
        self.is_wanted = next.is_none();
        let (rank, entry) = next?;
        entry.is_evicted = true;
        entry.evicted.notify_one();
        if rank == Rank::Streaming {
            self.stream_evicted = Some(now);
        }
        Some(rank)
    }
}

impl Connections {
    /// At most `max` connections, but at least [`MIN_CONNECTIONS`].
    pub(super) fn new(max: usize, shortages: Arc<Shortages>) -> Self {
        let max = max.clamp(MIN_CONNECTIONS, Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(max)), table: Arc::new(Mutex::new(Table::new(max))), shortages }
    }

    pub(super) fn max(&self) -> usize {
        self.table().max
    }

    pub(super) fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    /// Waits for room. If there is none, evicts a connection that is not [`Serving`](Phase::Serving).
    pub(super) async fn admit(&self, client: Option<IpAddr>) -> Option<Connection> {
        if self.permits.available_permits() == 0 {
            self.evict();
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let mut table = self.table();
        table.is_wanted = false;
        let (id, evicted) = table.add(client, Instant::now());
        Some(Connection { all: self.clone(), id, evicted, _permit: permit })
    }

    fn evict(&self) {
        let evicted = self.table().evict(Instant::now());
        match evicted {
            Some(Rank::Idle) | None => {}
            Some(Rank::Streaming) => self.shortages.add(HttpLimit::Streams),
            Some(_) => self.shortages.add(HttpLimit::Connections),
        }
    }

    /// Whether streams were evicted a short time ago, so that further ones would only evict others.
    pub(super) fn are_streams_unwanted(&self) -> bool {
        self.table().stream_evicted.is_some_and(|evicted| evicted.elapsed() < STREAMS_PAUSE)
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
        let is_one_wanted = self.all.table().set(self.id, phase, Instant::now());
        if is_one_wanted {
            self.all.evict();
        }
    }

    /// Records whether a write is pending because the client does not read.
    fn set_stalled(&self, is_stalled: bool) {
        if let Some(entry) = self.all.table().entries.get_mut(&self.id) {
            entry.is_stalled = is_stalled;
        }
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

    /// Records that the request is refused.
    pub(super) fn refuse(&self) {
        self.set(Phase::Idle);
    }

    /// Waits until the connection is evicted. Returns its phase.
    pub(super) async fn evicted(&self) -> Phase {
        loop {
            self.evicted.notified().await;
            if let Some(entry) = self.all.table().entries.get(&self.id).filter(|entry| entry.is_evicted) {
                return entry.phase;
            }
        }
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
    connection: Arc<Connection>,
    /// Runs while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(super) fn new(inner: S, timeout: Duration, connection: Arc<Connection>) -> Self {
        Self { inner, timeout, connection, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                self.connection.set_stalled(false);
            }
            return written;
        }
        let Self { timeout, connection, stalled, .. } = self;
        let stalled = stalled.get_or_insert_with(|| {
            connection.set_stalled(true);
            Box::pin(tokio::time::sleep(*timeout))
        });
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

/// The minimum number of connections: with fewer, there would be no place for requests beside those that can be evicted.
const MIN_CONNECTIONS: usize = 8;

/// Connections without a complete request are evicted before all others if they are more than one in this many.
const INCOMPLETE_PART: usize = 4;

/// How long no stream is opened after one was evicted: clients open it again at once.
const STREAMS_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn at(seconds: u64) -> Instant {
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    /// Evicts all connections, and returns them in the order of eviction.
    fn order(mut table: Table) -> Vec<u64> {
        let mut order = Vec::new();
        while table.evict(at(100)).is_some() {
            let evicted = |(id, entry): (&u64, &Entry)| entry.is_evicted.then_some(*id);
            let id = table.entries.iter().find_map(evicted).unwrap();
            table.entries.remove(&id);
            order.push(id);
        }
        order
    }

    #[test]
    fn connections_give_way_by_what_they_do_then_by_client_then_by_age() {
        let mut table = Table::new(8);
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([10, 0, 0, last])));
        let clients = [other, one, one, one, other, other, one, other];
        let ids: Vec<u64> = clients.iter().zip(0..).map(|(client, nth)| table.add(*client, at(nth)).0).collect();
        table.set(ids[1], Phase::Serving, at(10));
        table.set(ids[2], Phase::Idle, at(12));
        table.set(ids[3], Phase::Idle, at(11));
        table.set(ids[4], Phase::Receiving, at(13));
        table.set(ids[7], Phase::Streaming, at(8));
        table.add(one, at(14));
        // Five have no complete request, which is too many: first one of the client with five connections, although another one
        // is older. Two are not too many.
        assert_eq!(order(table), [6, 0, 8, 3, 2, 7, 5, 4]);
    }

    #[test]
    fn requests_that_are_about_to_arrive_and_unread_responses_outlast_idle_connections_and_streams() {
        let mut table = Table::new(16);
        let ids: Vec<u64> = (0..6).map(|nth| table.add(None, at(nth)).0).collect();
        for id in &ids[2..] {
            table.set(*id, Phase::Idle, at(20));
        }
        table.entries.get_mut(&ids[2]).unwrap().is_stalled = true;
        table.set(ids[3], Phase::Streaming, at(20));
        table.set(ids[1], Phase::Receiving, at(20));
        assert_eq!(order(table), [4, 5, 3, 0, 1, 2]);
    }

    #[test]
    fn a_connection_whose_request_has_arrived_is_not_evicted() {
        let mut table = Table::new(8);
        let id = table.add(None, at(0)).0;
        assert_eq!(table.evict(at(1)), Some(Rank::New));
        assert!(!table.set(id, Phase::Receiving, at(2)) && table.entries[&id].is_evicted);
        assert!(table.set(id, Phase::Serving, at(2)), "another one is evicted");
        assert!(!table.entries[&id].is_evicted);
        assert_eq!(table.evict(at(3)), None);
        assert!(table.set(id, Phase::Idle, at(4)), "one is wanted");
    }

    #[tokio::test]
    async fn connections_without_a_complete_request_give_way() {
        let connections = Connections::new(MIN_CONNECTIONS, Arc::default());
        let admit = || async { Arc::new(connections.admit(None).await.unwrap()) };
        let [first, second] = [admit().await, admit().await];
        first.receive(false); // The body is not sent.
        let served = second.serve(false);
        let mut others = Vec::new();
        for _ in 2..MIN_CONNECTIONS {
            let other = admit().await;
            others.push((other.serve(false), other));
        }
        let third = tokio::spawn({
            let connections = connections.clone();
            async move { connections.admit(None).await }
        });
        assert_eq!(first.evicted().await, Phase::New);
        assert!(!connections.table().entries[&second.id].is_evicted);
        drop(first);
        let third = Arc::new(third.await.unwrap().unwrap());
        let (third_served, waiting) = (third.serve(false), connections.admit(None));
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending(), "all are served");
        drop(served);
        assert_eq!(second.evicted().await, Phase::Idle, "it gives way as soon as it is not served");
        drop(second);
        drop((waiting.await, third_served, third, others));
        assert!(connections.table().entries.is_empty());
        assert_eq!(connections.permits.available_permits(), MIN_CONNECTIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn no_stream_is_opened_for_a_time_after_one_gave_way() {
        let connections = Connections::new(MIN_CONNECTIONS, Arc::default());
        let mut streams = Vec::new();
        for _ in 0..MIN_CONNECTIONS {
            let connection = Arc::new(connections.admit(None).await.unwrap());
            streams.push((connection.serve(true), connection));
        }
        assert!(!connections.are_streams_unwanted());
        let further = connections.admit(None);
        let mut further = std::pin::pin!(further);
        assert!(futures_util::poll!(further.as_mut()).is_pending());
        assert!(connections.are_streams_unwanted());
        tokio::time::advance(STREAMS_PAUSE).await;
        assert!(!connections.are_streams_unwanted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_ends_the_write() {
        let (near, _far) = tokio::io::duplex(16);
        let connections = Connections::new(MIN_CONNECTIONS, Arc::default());
        let connection = Arc::new(connections.admit(None).await.unwrap());
        let mut stream = Stalling::new(near, Duration::from_secs(30), connection);
        let error = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(connections.table().entries[&0].is_stalled);
    }
}
