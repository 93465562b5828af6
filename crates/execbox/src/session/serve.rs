//! Listening runners.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::task::Poll;
use std::time::Duration;

use execbox_core::budget::Budget;
use execbox_core::program::Limits;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::session::runner::Runner;
use crate::transport::{HostRejection, Incoming, Listener, RejectedHosts, RejectionSink, Transport};

/// How long to wait after a connection could not be accepted: the system may be out of descriptors for a while.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// The least time between two reports of rejected hosts.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The most connections that have not completed their handshake. Beyond that, the oldest of them is closed: a host needs a
/// round trip for its handshake, and an attacker that occupies places has to hold its connections.
const MAX_HANDSHAKES: usize = 64;

/// The most hosts that have completed their handshake and wait for a place. Beyond that, no connection is accepted.
const MAX_WAITING: usize = 64;

/// What the hosts of a listening runner may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenOptions {
    /// The most hosts that are served at once; 0 counts as 1. Further hosts wait. Connections that have not presented their
    /// token, or completed their WebSocket handshake, take no place. Default 256.
    pub max_connections: usize,
    /// How long a host may keep its connection without running a program. Default 5 minutes.
    pub idle_timeout: Duration,
    /// The most bytes of incomplete messages and attachments that are kept for one connection. A connection that needs more is
    /// closed. Default 128 MiB.
    pub max_buffered_bytes: usize,
    /// The most such bytes for all connections together. Default 512 MiB.
    pub max_total_buffered_bytes: usize,
    /// Caps the limits that hosts ask for: see [`Runner::max_limits`]. Default: 1 hour, 1 GiB of memory, 100 000 log
    /// lines, 16 MiB of log characters, and no other.
    pub max_limits: Limits,
}

impl ListenOptions {
    execbox_core::setters! {
        max_connections: usize,
        idle_timeout: Duration,
        max_buffered_bytes: usize,
        max_total_buffered_bytes: usize,
        max_limits: Limits,
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        let max_limits = Limits::unlimited()
            .timeout(Duration::from_hours(1))
            .memory_bytes(1 << 30)
            .max_log_lines(100_000)
            .max_log_chars(16 << 20);
        Self {
            max_connections: 256,
            idle_timeout: Duration::from_mins(5),
            max_buffered_bytes: 128 << 20,
            max_total_buffered_bytes: 512 << 20,
            max_limits,
        }
    }
}

impl Runner {
    /// Serves the connections of `listener`. Returns when the runner is [drained](Self::drain_when), otherwise never.
    ///
    /// A connection that fails or violates the protocol does not affect the others.
    pub async fn listen(&self, listener: Listener, options: ListenOptions) {
        let mut hosts = Hosts::new(self, options, listener.rejection_sink().clone());
        let drained = self.drain_token();
        drained.run_until_cancelled(hosts.accept(&listener)).await;
        drop(listener);
        hosts.handshakes.shutdown().await; // also drops those that are over
        hosts.waiting.clear();
        hosts.served.join_all().await;
    }

    /// Serves a host. An error ends only the connection of this host.
    async fn serve_host(self, Host { transport, budget }: Host) {
        let _ = self.serve_charged(transport, &budget).await;
    }
}

/// A host that has completed its handshake.
struct Host {
    transport: Box<dyn Transport>,
    /// Charged for what is received from the host.
    budget: Budget,
}

impl Host {
    async fn welcome(incoming: Incoming, budget: Budget) -> Result<Self, FailedHandshake> {
        let peer = incoming.peer();
        match incoming.handshake(&budget).await {
            Ok(transport) => Ok(Self { transport, budget }),
            Err(error) => Err(HostRejection::of(&error).map(|rejection| RejectedHosts { peer, rejection, more: 0 })),
        }
    }
}

/// A handshake that failed, perhaps because the host was rejected.
type FailedHandshake = Option<RejectedHosts>;

/// Reports rejected hosts, at most once in [`REPORT_INTERVAL`]: anyone who reaches the address can connect at any rate.
struct Rejections {
    sink: RejectionSink,
    unreported: Option<RejectedHosts>,
    /// The time before which nothing is reported.
    next: Instant,
}

impl Rejections {
    fn add(&mut self, rejected: RejectedHosts) {
        match &mut self.unreported {
            Some(first) => first.more += 1,
            none => *none = Some(rejected),
        }
        if Instant::now() >= self.next {
            self.report();
        }
    }

    fn report(&mut self) {
        if let Some(rejected) = self.unreported.take() {
            self.sink.report(rejected);
            self.next = Instant::now() + REPORT_INTERVAL;
        }
    }
}

/// The connections of a listening runner.
struct Hosts {
    runner: Runner,
    /// Charged for what is received from all hosts.
    received: Budget,
    options: ListenOptions,
    handshakes: JoinSet<Result<Host, FailedHandshake>>,
    /// Handshakes, the oldest first. Some are over.
    oldest: VecDeque<AbortHandle>,
    /// Hosts without a place, the oldest first.
    waiting: VecDeque<Host>,
    served: JoinSet<()>,
    rejections: Rejections,
}

impl Hosts {
    fn new(runner: &Runner, options: ListenOptions, sink: RejectionSink) -> Self {
        Self {
            runner: runner.clone().idle_timeout(options.idle_timeout).max_limits(options.max_limits),
            received: Budget::new(options.max_total_buffered_bytes),
            options,
            handshakes: JoinSet::new(),
            oldest: VecDeque::new(),
            waiting: VecDeque::new(),
            served: JoinSet::new(),
            rejections: Rejections { sink, unreported: None, next: Instant::now() },
        }
    }

    /// Accepts and serves connections until the future is dropped.
    async fn accept(&mut self, listener: &Listener) {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(done) = done {
                        self.end_handshake(done);
                    }
                }
                Some(_) = self.served.join_next() => {}
                () = sleep_until(self.rejections.next), if self.rejections.unreported.is_some() => {
                    self.rejections.report();
                }
                incoming = listener.accept(), if self.waiting.len() < MAX_WAITING => match incoming {
                    Ok(incoming) => self.begin_handshake(incoming).await,
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
                },
            }
            while self.served.len() < self.options.max_connections.max(1)
                && let Some(host) = self.waiting.pop_front()
            {
                self.served.spawn(self.runner.clone().serve_host(host));
            }
        }
    }

    fn end_handshake(&mut self, done: Result<Host, FailedHandshake>) {
        match done {
            Ok(host) => self.waiting.push_back(host),
            Err(Some(rejected)) => self.rejections.add(rejected),
            Err(None) => {}
        }
    }

    /// Begins a handshake. One that needs nothing from the host completes at once and takes no place: if many such hosts
    /// connect at once, none is closed.
    async fn begin_handshake(&mut self, incoming: Incoming) {
        let budget = self.received.part(self.options.max_buffered_bytes);
        let mut handshake = Box::pin(Host::welcome(incoming, budget));
        match poll_fn(|cx| Poll::Ready(handshake.as_mut().poll(cx))).await {
            Poll::Ready(done) => return self.end_handshake(done),
            Poll::Pending => {}
        }
        self.oldest.retain(|handshake| !handshake.is_finished());
        if self.oldest.len() >= MAX_HANDSHAKES
            && let Some(oldest) = self.oldest.pop_front()
        {
            oldest.abort();
        }
        self.oldest.push_back(self.handshakes.spawn(handshake));
    }
}
