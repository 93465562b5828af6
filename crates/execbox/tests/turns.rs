//! Scheduling of computing guests on one thread: the order of turns, and the events between them. The tests count turns
//! and events; none depends on how long something takes.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox::{ExecuteRequest, Executor, InlineExecutor, Limits, Provider, Tool, ToolError, WorkerExecutor};
use execbox_core::engine::{Engine, Event, Guest, Interrupt, Outcome, Pending, Settlement, StartError, Turn};
use execbox_core::program::Program;
use execbox_core::value::Value;
use execbox_testkit::scripted::{Moves, Scripted, ThreadBound};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::Value as Json;
use tokio::io::AsyncReadExt as _;

type Shared<T> = Arc<Mutex<T>>;

const GUESTS: usize = 16;
const TURNS: usize = 50;

/// An engine whose guests compute for [`TURNS`] turns. Each turn is recorded, and writes a byte to a socket.
struct Busy {
    socket: Arc<UnixStream>,
    turns: Shared<Vec<usize>>,
    guests: Mutex<usize>,
}

struct BusyGuest {
    number: usize,
    left: usize,
    socket: Arc<UnixStream>,
    turns: Shared<Vec<usize>>,
}

impl Engine for Busy {
    fn name(&self) -> &'static str {
        "busy"
    }

    fn start(&self, _: Program) -> Result<Box<dyn Guest>, StartError> {
        let mut guests = self.guests.lock().unwrap();
        *guests += 1;
        let (socket, turns) = (Arc::clone(&self.socket), Arc::clone(&self.turns));
        Ok(Box::new(BusyGuest { number: *guests - 1, left: TURNS, socket, turns }))
    }
}

impl Guest for BusyGuest {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        if self.left == 0 {
            return Poll::Ready(Turn::Done(Outcome::Returned(Value::undefined())));
        }
        self.left -= 1;
        self.turns.lock().unwrap().push(self.number);
        (&*self.socket).write_all(&[0]).unwrap();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take_events(&mut self, _: &mut Vec<Event>) {}

    fn settle(&mut self, _: Pending, _: Settlement) {}

    fn unread_bytes(&self) -> usize {
        0
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::new()
    }
}

/// An executor of busy guests, their turns, and the largest number of bytes that a task read from the socket at once.
fn busy() -> (InlineExecutor, Shared<Vec<usize>>, Shared<usize>) {
    let (socket, peer) = UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    let mut peer = tokio::net::UnixStream::from_std(peer).unwrap();
    let (turns, max_read) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let found = Arc::clone(&max_read);
    tokio::spawn(async move {
        let mut bytes = [0; GUESTS * TURNS];
        while let Ok(count) = peer.read(&mut bytes).await {
            let mut max_read = found.lock().unwrap();
            *max_read = count.max(*max_read);
        }
    });
    let engine = Busy { socket: Arc::new(socket), turns: Arc::clone(&turns), guests: Mutex::new(0) };
    (InlineExecutor::with_engine(Arc::new(engine), Arc::new(Moves)).unwrap(), turns, max_read)
}

/// Panics if a guest was more than two turns ahead of another.
fn assert_fair(turns: &[usize]) {
    let mut counts = [0; GUESTS];
    for guest in turns {
        counts[*guest] += 1;
        let least = counts.iter().min().unwrap();
        assert!(counts[*guest] <= least + 2, "{turns:?}");
    }
    assert_eq!(counts, [TURNS; GUESTS]);
}

#[tokio::test(flavor = "current_thread")]
async fn the_runtime_polls_its_sockets_between_turns() {
    let (executor, turns, max_read) = busy();
    let tasks = (0..GUESTS).map(|_| {
        let executor = executor.clone();
        tokio::spawn(async move { executor.execute(ExecuteRequest::new("")).await })
    });
    for result in join_all(tasks).await {
        assert!(result.unwrap().is_ok());
    }
    assert!(*max_read.lock().unwrap() <= 2, "{} turns between two polls", max_read.lock().unwrap());
    assert_fair(&turns.lock().unwrap());
}

#[tokio::test(flavor = "current_thread")]
async fn guests_of_one_task_alternate() {
    let (executor, turns, max_read) = busy();
    let results = join_all((0..GUESTS).map(|_| executor.execute(ExecuteRequest::new("")))).await;
    assert!(results.iter().all(execbox::ExecuteResult::is_ok));
    assert!(*max_read.lock().unwrap() <= 2, "{} turns between two polls", max_read.lock().unwrap());
    assert_fair(&turns.lock().unwrap());
}

#[tokio::test(flavor = "current_thread")]
async fn guests_that_are_no_longer_polled_do_not_block_others() {
    let (executor, turns, _) = busy();
    let mut stalled: Vec<_> = (1..GUESTS).map(|_| executor.execute(ExecuteRequest::new(""))).collect();
    for execution in &mut stalled {
        assert!(execution.now_or_never().is_none());
    }
    drop(stalled.split_off(GUESTS / 2));
    assert!(executor.execute(ExecuteRequest::new("")).await.is_ok());
    assert!(turns.lock().unwrap().len() >= TURNS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_of_several_threads_all_finish() {
    let (executor, turns, _) = busy();
    let tasks = (0..GUESTS).map(|_| {
        let executor = executor.clone();
        tokio::spawn(async move { executor.execute(ExecuteRequest::new("")).await })
    });
    for result in join_all(tasks).await {
        assert!(result.unwrap().is_ok());
    }
    assert_eq!(turns.lock().unwrap().len(), GUESTS * TURNS);
}

/// A runtime that is shut down leaves no state on its thread.
#[test]
fn guests_of_a_later_runtime_finish() {
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (executor, ..) = busy();
            let mut left = executor.execute(ExecuteRequest::new(""));
            assert!((&mut left).now_or_never().is_none());
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { assert!(busy().0.execute(ExecuteRequest::new("")).await.is_ok()) });
    // Turns also work without a scheduler.
    let _entered = runtime.enter();
    assert!(block_on(busy().0.execute(ExecuteRequest::new(""))).is_ok());
}

/// Runs a future without the scheduler of a runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Counts the turns of another engine's guests.
struct Counted<E>(E, Arc<AtomicUsize>);

struct CountedGuest {
    inner: Box<dyn Guest>,
    turns: Arc<AtomicUsize>,
}

impl<E: Engine + 'static> Engine for Counted<E> {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError> {
        Ok(Box::new(CountedGuest { inner: self.0.start(program)?, turns: Arc::clone(&self.1) }))
    }
}

impl Guest for CountedGuest {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.inner.poll_turn(cx)
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        self.inner.take_events(events);
    }

    fn settle(&mut self, pending: Pending, settlement: Settlement) {
        self.inner.settle(pending, settlement);
    }

    fn unread_bytes(&self) -> usize {
        self.inner.unread_bytes()
    }

    fn interrupt(&self) -> Interrupt {
        self.inner.interrupt()
    }
}

/// A runner polled a guest that waits for a limited time again and again, if its engine finds out on another thread that it
/// still waits. The time began anew with each turn, so that it never ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_waits_for_a_limited_time_is_not_polled_meanwhile() {
    let turns = Arc::new(AtomicUsize::new(0));
    let engine = Counted(ThreadBound(Arc::new(Scripted)), Arc::clone(&turns));
    let executor = WorkerExecutor::with_engine(Arc::new(engine), Arc::new(Moves)).unwrap();
    let hang = Tool::new("hang", async |_, _| std::future::pending::<Result<Json, ToolError>>().await);
    let provider = Provider::builder("tools").tool(hang).build().unwrap();
    let limits = Limits::default().host_wait(Duration::from_millis(200));
    let request = ExecuteRequest::new("call hang null\nawait").limits(limits).provider(provider);
    let error = executor.execute(request).await.outcome.unwrap_err();
    assert!(error.message.contains("host_wait"), "{error}");
    assert!(turns.load(Ordering::Relaxed) < 20, "{turns:?} turns");
}
