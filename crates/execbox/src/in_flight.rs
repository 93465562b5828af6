//! Futures of one execution that are not finished: calls of tools and host functions, promises of the host.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};

/// Futures that are polled together, each only when it was woken. Dropping the set drops the futures.
///
/// At most `max` are polled at once. The others wait for their turn, in order; each costs its guest a part of the memory
/// limit until it is settled.
pub(crate) struct InFlight<T> {
    started: FuturesUnordered<BoxFuture<T>>,
    /// Not polled yet. Empty unless `max` futures are started.
    waiting: VecDeque<BoxFuture<T>>,
    max: usize,
    peak: usize,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> InFlight<T> {
    /// An empty set that polls at most `max` futures at once, at least one.
    pub(crate) fn new(max: usize) -> Self {
        Self { started: FuturesUnordered::new(), waiting: VecDeque::new(), max: max.max(1), peak: 0 }
    }

    /// Adds a future without polling it.
    pub(crate) fn add(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.waiting.push_back(Box::pin(future));
        self.start_waiting();
    }

    /// Polls a future once and returns its output if it is ready, as for many calls; otherwise adds it. A future that has to
    /// wait is not polled.
    pub(crate) fn begin(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
        cx: &mut Context<'_>,
    ) -> Option<T> {
        let mut future: BoxFuture<T> = Box::pin(future);
        if self.started.len() >= self.max {
            self.waiting.push_back(future);
            return None;
        }
        self.peak = self.peak.max(self.started.len() + 1);
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => {
                self.started.push(future);
                None
            }
        }
    }

    /// The output of the next future that is ready. Without one, the task is woken when there is one.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Option<T> {
        let Poll::Ready(output) = self.started.poll_next_unpin(cx) else { return None };
        self.start_waiting();
        output
    }

    fn start_waiting(&mut self) {
        while self.started.len() < self.max
            && let Some(next) = self.waiting.pop_front()
        {
            self.started.push(next);
            self.peak = self.peak.max(self.started.len());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.started.is_empty()
    }

    /// How many futures are started and not finished.
    pub(crate) fn len(&self) -> usize {
        self.started.len()
    }

    /// The most futures that were started and not finished at once.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    /// Drops all futures.
    pub(crate) fn clear(&mut self) {
        self.started.clear();
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::sync::{Arc, Mutex};
    use std::task::Waker;
    use tokio::sync::oneshot;

    /// A future that records when it is started.
    fn recorded(
        number: u32,
        started: &Arc<Mutex<Vec<u32>>>,
        end: oneshot::Receiver<()>,
    ) -> impl Future<Output = u32> + use<> {
        let started = Arc::clone(started);
        async move {
            started.lock().unwrap().push(number);
            let _ = end.await;
            number
        }
    }

    #[test]
    fn futures_beyond_the_maximum_wait_in_order() {
        let cx = &mut Context::from_waker(Waker::noop());
        let (started, mut ends) = (Arc::default(), Vec::new());
        let mut set = InFlight::new(2);
        for number in 0..5 {
            let (end, ended) = oneshot::channel();
            ends.push(Some(end));
            assert_eq!(set.begin(recorded(number, &started, ended), cx), None);
        }
        assert_eq!((started.lock().unwrap().clone(), set.peak()), (vec![0, 1], 2));
        for (number, next) in [(1, vec![0, 1, 2]), (0, vec![0, 1, 2, 3]), (2, vec![0, 1, 2, 3, 4])] {
            ends[number].take().unwrap().send(()).unwrap();
            assert_eq!(set.poll_next(cx), Some(u32::try_from(number).unwrap()));
            assert_eq!(set.poll_next(cx), None, "nothing else has finished, and the next one was polled");
            assert_eq!(*started.lock().unwrap(), next);
        }
        for end in &mut ends {
            drop(end.take());
        }
        assert_eq!((set.poll_next(cx), set.poll_next(cx), set.poll_next(cx)), (Some(3), Some(4), None));
        assert!(set.is_empty() && set.peak() == 2);
    }

    #[test]
    fn a_future_that_is_ready_at_once_leaves_its_place_free() {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut set = InFlight::new(0);
        assert_eq!((set.begin(ready(1), cx), set.begin(ready(2), cx)), (Some(1), Some(2)));
        assert_eq!(set.begin(pending::<i32>(), cx), None);
        assert_eq!((set.begin(ready(3), cx), set.poll_next(cx)), (None, None), "it waits");
        assert!(!set.is_empty());
        set.clear();
        assert!(set.is_empty() && set.poll_next(cx).is_none());
        assert_eq!((set.begin(ready(4), cx), set.peak()), (Some(4), 1));
    }
}
