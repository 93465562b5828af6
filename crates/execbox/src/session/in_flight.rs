//! Futures of one execution that are not finished: calls of tools and host functions, promises of the host.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};

/// Futures that are polled together, each only when it was woken. Dropping the set drops the futures.
///
/// The set has no limit of its own: each call costs its guest a part of the memory limit until it is settled.
pub(crate) struct InFlight<T>(FuturesUnordered<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self(FuturesUnordered::new())
    }
}

impl<T> InFlight<T> {
    /// Adds a future without polling it.
    pub(crate) fn add(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(future));
    }

    /// Polls a future once and returns its output if it is ready, as that of many calls is; else adds it.
    pub(crate) fn begin(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
        cx: &mut Context<'_>,
    ) -> Option<T> {
        let mut future = Box::pin(future);
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => {
                self.0.push(future);
                None
            }
        }
    }

    /// The output of the next future that is ready. Without one, the task is woken when there is one.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Option<T> {
        match self.0.poll_next_unpin(cx) {
            Poll::Ready(output) => output,
            Poll::Pending => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops all futures.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
