//! Requests and connections that are refused for want of room or of a token: counted, and reported to the operator from
//! time to time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Why an [`HttpServer`](super::HttpServer) refuses requests and closes connections: a limit that was reached, or a
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HttpLimit {
    /// [`HttpOptions::max_connections`](super::HttpOptions::max_connections): connections whose request was incomplete were
    /// closed.
    Connections,
    /// The part of the connections that may be streams of messages: streams were closed or refused.
    Streams,
    /// [`HttpOptions::max_requests`](super::HttpOptions::max_requests): requests were refused.
    Requests,
    /// The part of the requests that one client may have: requests were refused.
    Share,
    /// [`HttpOptions::max_sessions`](super::HttpOptions::max_sessions): sessions were refused.
    Sessions,
    /// [`HttpOptions::token`](super::HttpOptions::token) and [`HttpOptions::clients`](super::HttpOptions::clients):
    /// requests without a token were refused.
    MissingToken,
    /// The same: requests with another token were refused.
    WrongToken,
}

/// What clients got no room for in a short time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// The limit that was reached.
    pub limit: HttpLimit,
    /// How many connections, streams, requests or sessions were closed or refused.
    pub count: u64,
}

/// A sentence without a period.
impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        let plural = if count == 1 { "" } else { "s" };
        match self.limit {
            HttpLimit::Connections => write!(f, "{count} connection{plural} closed: too many are open"),
            HttpLimit::Streams => write!(f, "{count} stream{plural} of messages closed or refused: too many are open"),
            HttpLimit::Requests => write!(f, "{count} request{plural} refused: too many are handled at once"),
            HttpLimit::Share => write!(f, "{count} request{plural} refused: too many at once of one client"),
            HttpLimit::Sessions => write!(f, "{count} session{plural} refused: all are in use"),
            HttpLimit::MissingToken => write!(f, "{count} request{plural} refused: no token was sent"),
            HttpLimit::WrongToken => write!(f, "{count} request{plural} refused: the token is not valid"),
        }
    }
}

/// Receives shortages. Cheap to clone; clones are the same sink.
#[derive(Clone)]
pub struct ShortageSink(Arc<dyn Fn(Shortage) + Send + Sync>);

impl ShortageSink {
    /// Creates a sink that calls this function, at most every 10 s for each limit.
    pub fn new(sink: impl Fn(Shortage) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }
}

impl fmt::Debug for ShortageSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShortageSink(…)")
    }
}

/// Counts shortages.
#[derive(Default)]
pub(super) struct Shortages {
    counts: Mutex<BTreeMap<HttpLimit, u64>>,
    added: Notify,
}

impl Shortages {
    pub(super) fn add(&self, limit: HttpLimit) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(limit).or_default() += 1;
        self.added.notify_one();
    }

    /// Reports shortages until the future is dropped.
    pub(super) async fn report(&self, sink: &ShortageSink) {
        loop {
            self.added.notified().await;
            tokio::time::sleep(COLLECTING).await;
            let counts = std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner));
            for (limit, count) in counts {
                (sink.0)(Shortage { limit, count });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// How long shortages are counted before the first one is reported.
const COLLECTING: Duration = Duration::from_millis(500);

/// The pause between reports.
const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shortages_are_reported_at_most_every_ten_seconds_with_their_number() {
        let (shortages, (sender, mut reported)) =
            (Arc::new(Shortages::default()), tokio::sync::mpsc::unbounded_channel());
        let sink = ShortageSink::new(move |shortage| sender.send(shortage).unwrap());
        let reporting = Arc::clone(&shortages);
        tokio::spawn(async move { reporting.report(&sink).await });
        for _ in 0..3 {
            shortages.add(HttpLimit::Share);
        }
        shortages.add(HttpLimit::Sessions);
        shortages.add(HttpLimit::WrongToken);
        for line in [
            "3 requests refused: too many at once of one client",
            "1 session refused: all are in use",
            "1 request refused: the token is not valid",
        ] {
            assert_eq!(reported.recv().await.unwrap().to_string(), line);
        }
        let first = tokio::time::Instant::now();
        for _ in 0..100 {
            shortages.add(HttpLimit::Streams);
        }
        let next = reported.recv().await.unwrap();
        assert_eq!(next, Shortage { limit: HttpLimit::Streams, count: 100 });
        assert!(first.elapsed() >= PAUSE);
        assert!(reported.is_empty());
    }
}
