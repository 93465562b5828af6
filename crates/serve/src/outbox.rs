//! What waits to be written to the application: bounded in bytes, in order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most bytes that wait, beside one message for each task that waits for room.
const MAX_BYTES: usize = 8 << 20;

/// What is left for answers when events are dropped, in bytes.
const KEPT_FROM_EVENTS: usize = MAX_BYTES / 2;

/// The room below which the application is not read until it reads, in bytes.
const MIN_ROOM: usize = 256 << 10;

/// What a message takes beside its text, in bytes.
const MESSAGE_COST: usize = 64;

/// A line, and the byte strings that are sent before it.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) text: Vec<u8>,
    pub(crate) attachments: Vec<Vec<u8>>,
}

impl From<Vec<u8>> for Frame {
    fn from(text: Vec<u8>) -> Self {
        Self { text, attachments: Vec::new() }
    }
}

impl Frame {
    /// The room that the frame takes. A frame that is larger than all room takes all of it.
    fn room(&self) -> u32 {
        let attached: usize = self.attachments.iter().map(|bytes| bytes.len() + MESSAGE_COST).sum();
        u32::try_from((self.text.len() + attached + MESSAGE_COST).min(MAX_BYTES)).unwrap_or(u32::MAX)
    }
}

/// The connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

/// Messages that wait to be written.
pub(crate) struct Outbox {
    room: Arc<Semaphore>,
    queue: Mutex<VecDeque<(Frame, Option<OwnedSemaphorePermit>)>>,
    /// How many tasks wait for room.
    waiting: AtomicUsize,
    connection: AtomicWaker,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(MAX_BYTES)),
            queue: Mutex::default(),
            waiting: AtomicUsize::new(0),
            connection: AtomicWaker::new(),
        }
    }
}

impl Outbox {
    /// Adds a message when there is room for it.
    pub(crate) async fn send(&self, frame: Frame) -> Result<(), Closed> {
        let room = if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(frame.room()) {
            room
        } else {
            let _waits = Waiting::new(self);
            Arc::clone(&self.room).acquire_many_owned(frame.room()).await.map_err(|_| Closed)?
        };
        self.add(frame, Some(room));
        Ok(())
    }

    /// Waits until there is room for messages of usual length.
    pub(crate) async fn has_room(&self) {
        drop(self.room.acquire_many(u32::try_from(MIN_ROOM).unwrap_or(u32::MAX)).await);
        self.connection.wake(); // It may have seen less room meanwhile.
    }

    /// Adds a message that can be lost, unless there is little room. Returns whether it was added.
    pub(crate) fn offer(&self, frame: Frame) -> bool {
        let needed = frame.room() as usize + KEPT_FROM_EVENTS;
        if self.room.available_permits() < needed.min(MAX_BYTES) {
            return false;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(frame.room()) else { return false };
        self.add(frame, Some(room));
        true
    }

    /// Adds a short message, even without room: an answer to what was read, or the end of what was sent.
    pub(crate) fn push(&self, frame: Frame) {
        let room = Arc::clone(&self.room).try_acquire_many_owned(frame.room()).ok();
        self.add(frame, room);
    }

    fn add(&self, frame: Frame, room: Option<OwnedSemaphorePermit>) {
        self.lock().push_back((frame, room));
        self.connection.wake();
    }

    /// The next message to write. Its room is free from now on.
    pub(crate) fn next(&self) -> Option<Frame> {
        self.lock().pop_front().map(|(frame, _)| frame)
    }

    /// Wakes this task when there is a message to write.
    pub(crate) fn register(&self, waker: &std::task::Waker) {
        self.connection.register(waker);
    }

    /// Whether the application does not read what it was sent, and is not read either.
    pub(crate) fn is_congested(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 || self.room.available_permits() < MIN_ROOM
    }

    /// Fails all tasks that wait for room.
    pub(crate) fn close(&self) {
        self.room.close();
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Frame, Option<OwnedSemaphorePermit>)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a task that waits for room. The connection reads again when it no longer does, also if it was dropped.
struct Waiting<'a>(&'a Outbox);

impl<'a> Waiting<'a> {
    fn new(outbox: &'a Outbox) -> Self {
        outbox.waiting.fetch_add(1, Ordering::SeqCst);
        Self(outbox)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.connection.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Wake;

    use futures_util::FutureExt as _;

    use super::*;

    fn frame(len: usize) -> Frame {
        Frame::from(vec![0; len])
    }

    #[test]
    fn what_waits_is_bounded_and_events_are_dropped_first() {
        let outbox = Outbox::default();
        let events = std::iter::from_fn(|| outbox.offer(frame(64 << 10)).then_some(())).count();
        assert_eq!(events, 63, "half of 8 MiB");
        assert!(!outbox.is_congested());
        let answers = std::iter::from_fn(|| outbox.send(frame(64 << 10)).now_or_never()).count();
        assert_eq!(events + answers, 127);
        assert!(outbox.is_congested());
        let mut waits = pin!(outbox.send(frame(1 << 20)));
        assert_eq!(waits.as_mut().now_or_never(), None);
        assert_eq!(outbox.has_room().now_or_never(), None);
        for _ in 0..17 {
            assert_eq!(outbox.next().unwrap().text.len(), 64 << 10);
        }
        assert_eq!(waits.now_or_never(), Some(Ok(())));
        assert_eq!(outbox.has_room().now_or_never(), None, "what waited has taken it");
        while outbox.next().is_some() {}
        assert_eq!(outbox.has_room().now_or_never(), Some(()));
    }

    #[test]
    fn the_connection_is_woken_when_it_can_read_again() {
        struct Woken(AtomicUsize);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (outbox, woken) = (Outbox::default(), Arc::new(Woken(AtomicUsize::new(0))));
        let is_woken = || woken.0.swap(0, Ordering::SeqCst) > 0;
        let register = || outbox.register(&Arc::clone(&woken).into());
        outbox.push(frame(MAX_BYTES));
        {
            let mut waits = pin!(outbox.send(frame(1)));
            assert_eq!(waits.as_mut().now_or_never(), None);
            outbox.next();
            register();
            assert!(outbox.is_congested(), "what waits has room, and was not polled");
        }
        assert!(is_woken() && !outbox.is_congested(), "it was dropped");
        outbox.push(frame(MAX_BYTES));
        let mut waits = pin!(outbox.has_room());
        assert_eq!(waits.as_mut().now_or_never(), None);
        outbox.next();
        register();
        assert_eq!((waits.now_or_never(), is_woken()), (Some(()), true));
    }

    #[test]
    fn a_message_that_is_larger_than_all_room_is_sent_alone() {
        let outbox = Outbox::default();
        assert_eq!(outbox.send(frame(MAX_BYTES + 1)).now_or_never(), Some(Ok(())));
        assert_eq!(outbox.send(frame(1)).now_or_never(), None);
        assert!(!outbox.offer(frame(1)));
        outbox.push(frame(2));
        assert_eq!(outbox.next().unwrap().text.len(), MAX_BYTES + 1);
        assert_eq!(outbox.next().unwrap().text.len(), 2);
        assert!(!outbox.is_congested());
        let mut waits = pin!(outbox.send(frame(1)));
        outbox.close();
        assert_eq!(waits.as_mut().now_or_never(), Some(Err(Closed)));
        assert!(outbox.next().is_none());
    }
}
