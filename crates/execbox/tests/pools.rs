//! Executors with a pool: waiting, rejection, reuse, closing. The rules of the pool are tested in `execbox_core::pool`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use execbox::{
    CancellationToken, ErrorCode, ExecuteRequest, ExecuteResult, Executor, InlineExecutor, Limits, PoolOptions,
    Provider, Rejected, Runner, Tool, WorkerExecutor,
};
use execbox_core::engine::{Engine, Event, Guest, Interrupt, Pending, Settlement, StartError, Turn};
use execbox_core::program::{Program, Source};
use execbox_testkit::scripted::{Moves, Scripted};

/// The scripted engine, which records the threads it is called on. Its program `never return` blocks the thread.
#[derive(Default)]
struct Watched {
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

struct Stuck;

impl Engine for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError> {
        self.threads.lock().unwrap().push(thread::current().id());
        match &program.source {
            Source::Script { code, .. } if code.text == "never return" => Ok(Box::new(Stuck)),
            _ => Scripted.start(program),
        }
    }
}

impl Guest for Stuck {
    fn poll_turn(&mut self, _: &mut Context<'_>) -> Poll<Turn> {
        loop {
            thread::park();
        }
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

type Threads = Arc<Mutex<Vec<ThreadId>>>;

fn workers(pool: PoolOptions) -> (WorkerExecutor, Threads) {
    let engine = Watched::default();
    let threads = Arc::clone(&engine.threads);
    (WorkerExecutor::builder(runner(engine)).unwrap().pool(pool).build(), threads)
}

fn runner(engine: impl Engine + 'static) -> Runner {
    Runner::with_engine(Arc::new(engine), Arc::new(Moves))
}

fn one() -> PoolOptions {
    PoolOptions::default().max_size(1)
}

fn execution(moves: &str, timeout_ms: u64) -> ExecuteRequest {
    ExecuteRequest::new(moves).limits(Limits::default().timeout(Duration::from_millis(timeout_ms)))
}

/// A program that waits for a call.
fn waiting(timeout_ms: u64) -> ExecuteRequest {
    let hang = Tool::new("hang", |_, _| std::future::pending());
    execution("call hang 1\nstall", timeout_ms).provider(Provider::builder("tools").tool(hang).build().unwrap())
}

async fn run(executor: &WorkerExecutor, moves: &str) -> ExecuteResult {
    executor.execute(execution(moves, 600_000)).await
}

fn distinct(threads: &Threads) -> usize {
    threads.lock().unwrap().iter().collect::<HashSet<_>>().len()
}

fn started(threads: &Threads) -> usize {
    threads.lock().unwrap().len()
}

fn rejected(result: &ExecuteResult) -> Option<Rejected> {
    let error = result.error()?;
    assert_eq!(error.code, ErrorCode::InternalError);
    error.rejected
}

/// Starts a request that occupies a worker until it is aborted or cancelled.
async fn occupy(
    executor: &WorkerExecutor,
    threads: &Threads,
) -> (tokio::task::JoinHandle<ExecuteResult>, CancellationToken) {
    let (token, before) = (CancellationToken::new(), started(threads));
    let (executor, cancellation) = (executor.clone(), token.clone());
    let task = tokio::spawn(async move { executor.execute(waiting(60_000).cancellation(cancellation)).await });
    while started(threads) == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (task, token)
}

#[tokio::test]
async fn workers_are_reused_after_success_and_failure_but_not_after_a_timeout() {
    let (executor, threads) = workers(one());
    assert!(run(&executor, "return 1").await.is_ok());
    assert_eq!(run(&executor, "throw Error no").await.error().unwrap().code, ErrorCode::RuntimeError);
    assert!(run(&executor, "return 1").await.is_ok());
    assert_eq!(distinct(&threads), 1);
    assert_eq!(executor.execute(waiting(10)).await.error().unwrap().code, ErrorCode::Timeout);
    assert!(run(&executor, "return 1").await.is_ok());
    assert_eq!(distinct(&threads), 2);
}

#[tokio::test]
async fn ephemeral_executors_never_reuse_a_worker() {
    let engine = Watched::default();
    let threads = Arc::clone(&engine.threads);
    let executor = WorkerExecutor::builder(runner(engine)).unwrap().pool(one()).ephemeral().build();
    executor.prewarm(3).await.unwrap();
    for _ in 0..3 {
        assert!(run(&executor, "return 1").await.is_ok());
    }
    assert_eq!((started(&threads), distinct(&threads)), (3, 3));
}

#[tokio::test]
async fn a_worker_that_never_returns_is_abandoned_and_replaced() {
    let (executor, threads) = workers(one());
    for round in 1..=3 {
        let result = executor.execute(execution("never return", 50)).await;
        assert_eq!(result.error().unwrap().code, ErrorCode::Timeout);
        assert!(result.duration < Duration::from_mins(1), "{:?}", result.duration);
        assert!(run(&executor, "return 1").await.is_ok(), "another worker takes its place");
        assert_eq!(distinct(&threads), 1 + round);
    }
}

#[tokio::test]
async fn overload_is_rejected_with_a_typed_reason() {
    let (executor, threads) = workers(one().queue_limit(1).queue_timeout(Duration::from_millis(50)));
    let (busy, _) = occupy(&executor, &threads).await;
    let (timed_out, rejected_at_once) = tokio::join!(run(&executor, "return 1"), run(&executor, "return 2"));
    assert_eq!(rejected(&rejected_at_once), Some(Rejected::QueueFull { busy: 1, waiting: 1 }));
    assert_eq!(rejected(&timed_out), Some(Rejected::QueueTimeout(Duration::from_millis(50))));
    assert_eq!(
        rejected_at_once.error().unwrap().message,
        "the executor is overloaded: 1 runners are busy, 1 requests are waiting"
    );
    assert_eq!(timed_out.duration, Duration::ZERO, "waiting is not execution time");
    busy.abort();
}

#[tokio::test]
async fn dropped_and_cancelled_waiters_leave_the_queue() {
    let (executor, threads) = workers(one().queue_limit(1));
    let (busy, token) = occupy(&executor, &threads).await;
    for _ in 0..3 {
        // Dropped or cancelled while it waits: the queue has room for the next request.
        let waits = tokio::time::timeout(Duration::from_millis(10), run(&executor, "return 1")).await;
        assert!(waits.is_err());
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let result = executor.execute(execution("return 1", 5_000).cancellation(cancelled)).await;
        assert_eq!(result.error().unwrap().message, "Execution was cancelled");
    }
    let next = executor.clone();
    let next = tokio::spawn(async move { run(&next, "return 1").await });
    token.cancel();
    assert_eq!(busy.await.unwrap().error().unwrap().code, ErrorCode::Timeout);
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test]
async fn closing_rejects_waiters_and_waits_for_busy_workers() {
    let (executor, threads) = workers(one());
    let (busy, token) = occupy(&executor, &threads).await;
    let waiting = executor.clone();
    let waiting = tokio::spawn(async move { run(&waiting, "return 1").await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let closing = executor.clone();
    let closing = tokio::spawn(async move { closing.close().await });
    assert_eq!(rejected(&waiting.await.unwrap()), Some(Rejected::Closed));
    assert!(!closing.is_finished(), "one worker is busy");
    token.cancel();
    assert!(busy.await.unwrap().error().is_some());
    closing.await.unwrap();
    assert_eq!(rejected(&run(&executor, "return 1").await), Some(Rejected::Closed));
    assert_eq!(executor.prewarm(1).await.unwrap_err().rejected, Some(Rejected::Closed));
}

#[tokio::test]
async fn prewarm_starts_each_worker_and_idle_workers_time_out() {
    let idle_timeout = Duration::from_mins(10);
    let options = one().max_size(3).min_size(1).idle_timeout(idle_timeout);
    let (executor, threads) = workers(options);
    executor.prewarm(2).await.unwrap();
    assert_eq!((started(&threads), distinct(&threads)), (2, 2));
    executor.prewarm(2).await.unwrap();
    assert_eq!(started(&threads), 2, "two workers are idle already");
    tokio::time::pause();
    tokio::time::sleep(idle_timeout * 2).await;
    tokio::time::resume();
    executor.prewarm(2).await.unwrap();
    assert_eq!(distinct(&threads), 3, "one worker timed out, one was kept");
}

#[tokio::test]
async fn prewarm_fails_if_the_engine_does_not_start() {
    struct Broken;
    impl Engine for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn start(&self, _: Program) -> Result<Box<dyn Guest>, StartError> {
            Err(StartError::Failed("no".into()))
        }
    }
    let executor = WorkerExecutor::with_engine(Arc::new(Broken), Arc::new(Moves)).unwrap();
    let error = executor.prewarm(1).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InternalError);
}

#[test]
fn an_engine_that_needs_a_process_of_its_own_is_refused_in_this_one() {
    struct Dangerous;
    impl Engine for Dangerous {
        fn name(&self) -> &'static str {
            "dangerous"
        }
        fn needs_own_process(&self) -> bool {
            true
        }
        fn start(&self, _: Program) -> Result<Box<dyn Guest>, StartError> {
            panic!("it must not be started")
        }
    }
    let error = WorkerExecutor::with_engine(Arc::new(Dangerous), Arc::new(Moves)).unwrap_err();
    assert_eq!(error.engine, "dangerous");
    let runner = Runner::with_engine(Arc::new(Dangerous), Arc::new(Moves));
    assert_eq!(WorkerExecutor::builder(runner).unwrap_err(), error);
    let refused = InlineExecutor::with_engine(Arc::new(Dangerous), Arc::new(Moves)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a guest of the engine dangerous can end the process that it runs in: \
         use a ProcessExecutor whose runner has this engine"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_requests_on_two_workers_are_each_answered() {
    let (executor, threads) = workers(one().max_size(2));
    let started = Instant::now();
    let tasks: Vec<_> = (0..200)
        .map(|i| {
            let executor = executor.clone();
            tokio::spawn(async move { run(&executor, &format!("return {i}")).await })
        })
        .collect();
    for (i, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap().outcome, Ok(Some(i.into())));
    }
    assert!(distinct(&threads) <= 2 && started.elapsed() < Duration::from_mins(2));
}

#[tokio::test]
async fn the_limits_of_a_worker_cap_those_of_its_executions() {
    let max_limits = Limits::unlimited().memory_bytes(8 << 20);
    let executor = WorkerExecutor::builder(Runner::new().unwrap().max_limits(max_limits)).unwrap().build();
    let request = ExecuteRequest::new("const all = []; for (;;) all.push({ all })");
    let result = executor.execute(request.limits(Limits::default().memory_bytes(1 << 30))).await;
    let error = result.error().unwrap();
    assert_eq!(error.code, ErrorCode::MemoryLimit);
    assert!(error.message.contains("8 MiB; limits of the runner"), "{}", error.message);
}
