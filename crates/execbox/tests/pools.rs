//! Executors that keep shells, seen from outside: who waits, who is refused, what is used again and what is not.
//! The rules themselves are tested in `execbox_core::pool`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use execbox::core::engine::{Answer, CallId, Engine, Event, Guest, Interrupt, Pending, StartError, Turn};
use execbox::core::program::{Program, Source};
use execbox::core::value::Value;
use execbox::{
    CancellationToken, ErrorCode, ExecuteRequest, ExecuteResult, Executor, Limits, PoolOptions, Rejected,
    WorkerExecutor,
};
use execbox_testkit::scripted::{Moves, Scripted};

/// The scripted engine, which notes on which threads it works, and whose program `never give way` never does.
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
            Source::Script { code, .. } if code.text == "never give way" => Ok(Box::new(Stuck)),
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

    fn answer(&mut self, _: CallId, _: Answer) {}

    fn settle(&mut self, _: Pending, _: Result<Value, Value>) {}

    fn interrupt(&self) -> Interrupt {
        Interrupt::new()
    }
}

type Threads = Arc<Mutex<Vec<ThreadId>>>;

fn workers(pool: PoolOptions) -> (WorkerExecutor, Threads) {
    let engine = Watched::default();
    let threads = Arc::clone(&engine.threads);
    (WorkerExecutor::with(Arc::new(engine), Arc::new(Moves)).pool(pool).build(), threads)
}

fn one() -> PoolOptions {
    PoolOptions { max_size: 1, ..PoolOptions::for_cores(1) }
}

fn execution(moves: &str, timeout_ms: u64) -> ExecuteRequest {
    ExecuteRequest::new(moves).limits(Limits { timeout: Duration::from_millis(timeout_ms), ..Limits::default() })
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

fn refusal(result: &ExecuteResult) -> Option<Rejected> {
    let error = result.error()?;
    assert_eq!(error.code, ErrorCode::InternalError);
    error.refusal
}

/// Begins an execution that occupies a worker until it is aborted or cancelled.
async fn occupy(
    executor: &WorkerExecutor,
    threads: &Threads,
) -> (tokio::task::JoinHandle<ExecuteResult>, CancellationToken) {
    let (token, before) = (CancellationToken::new(), started(threads));
    let (executor, cancellation) = (executor.clone(), token.clone());
    let task =
        tokio::spawn(async move { executor.execute(execution("stall", 60_000).cancellation(cancellation)).await });
    while started(threads) == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (task, token)
}

#[tokio::test]
async fn successes_and_ordinary_failures_use_the_worker_again_and_timeouts_do_not() {
    let (executor, threads) = workers(one());
    assert!(run(&executor, "return 1").await.is_ok());
    assert_eq!(run(&executor, "throw Error no").await.error().unwrap().code, ErrorCode::RuntimeError);
    assert!(run(&executor, "return 1").await.is_ok());
    assert_eq!(distinct(&threads), 1);
    assert_eq!(executor.execute(execution("stall", 10)).await.error().unwrap().code, ErrorCode::Timeout);
    assert!(run(&executor, "return 1").await.is_ok());
    assert_eq!(distinct(&threads), 2);
}

#[tokio::test]
async fn an_ephemeral_executor_uses_no_worker_twice() {
    let engine = Watched::default();
    let threads = Arc::clone(&engine.threads);
    let executor = WorkerExecutor::with(Arc::new(engine), Arc::new(Moves)).pool(one()).ephemeral().build();
    executor.prewarm(3).await.unwrap();
    for _ in 0..3 {
        assert!(run(&executor, "return 1").await.is_ok());
    }
    assert_eq!((started(&threads), distinct(&threads)), (3, 3));
}

#[tokio::test]
async fn a_worker_that_never_gives_way_is_abandoned_and_its_caller_answered() {
    let (executor, threads) = workers(one());
    for round in 1..=3 {
        let result = executor.execute(execution("never give way", 50)).await;
        assert_eq!(result.error().unwrap().code, ErrorCode::Timeout);
        assert!(result.duration < Duration::from_mins(1), "{:?}", result.duration);
        assert!(run(&executor, "return 1").await.is_ok(), "another one took its place");
        assert_eq!(distinct(&threads), 1 + round);
    }
}

#[tokio::test]
async fn overload_is_refused_by_its_own_name() {
    let (executor, threads) = workers(PoolOptions { max_waiting: 1, max_wait: Duration::from_millis(50), ..one() });
    let (busy, _) = occupy(&executor, &threads).await;
    let (waits, refused) = tokio::join!(run(&executor, "return 1"), run(&executor, "return 2"));
    assert_eq!(refusal(&refused), Some(Rejected::QueueFull { busy: 1, waiting: 1 }));
    assert_eq!(refusal(&waits), Some(Rejected::WaitedTooLong(Duration::from_millis(50))));
    assert_eq!(
        refused.error().unwrap().message,
        "the executor is overloaded: all 1 runners are busy, and 1 executions wait already"
    );
    assert_eq!(waits.duration, Duration::ZERO, "waiting is not execution time");
    busy.abort();
}

#[tokio::test]
async fn who_leaves_the_queue_disturbs_nobody() {
    let (executor, threads) = workers(PoolOptions { max_waiting: 1, ..one() });
    let (busy, token) = occupy(&executor, &threads).await;
    for _ in 0..3 {
        // Aborted, or cancelled, while it waits: its place is free for the next.
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
async fn disposing_wakes_who_waits_and_lets_who_runs_finish() {
    let (executor, threads) = workers(one());
    let (busy, token) = occupy(&executor, &threads).await;
    let waiting = executor.clone();
    let waiting = tokio::spawn(async move { run(&waiting, "return 1").await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let disposing = executor.clone();
    let disposing = tokio::spawn(async move { disposing.dispose().await });
    assert_eq!(refusal(&waiting.await.unwrap()), Some(Rejected::Closed));
    assert!(!disposing.is_finished(), "one still runs");
    token.cancel();
    assert!(busy.await.unwrap().error().is_some());
    disposing.await.unwrap();
    assert_eq!(refusal(&run(&executor, "return 1").await), Some(Rejected::Closed));
    assert_eq!(executor.prewarm(1).await.unwrap_err().refusal, Some(Rejected::Closed));
}

#[tokio::test]
async fn prewarming_has_each_worker_execute_and_idle_ones_are_let_go() {
    let idle_timeout = Duration::from_mins(10);
    let options = PoolOptions { max_size: 3, min_size: 1, idle_timeout, ..one() };
    let (executor, threads) = workers(options);
    executor.prewarm(2).await.unwrap();
    assert_eq!((started(&threads), distinct(&threads)), (2, 2));
    executor.prewarm(2).await.unwrap();
    assert_eq!(started(&threads), 2, "two were warm already");
    tokio::time::pause();
    tokio::time::sleep(idle_timeout * 2).await;
    tokio::time::resume();
    executor.prewarm(2).await.unwrap();
    assert_eq!(distinct(&threads), 3, "one of two was let go, and one is kept");
}

#[tokio::test]
async fn warming_tells_what_is_wrong() {
    struct Broken;
    impl Engine for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn start(&self, _: Program) -> Result<Box<dyn Guest>, StartError> {
            Err(StartError::Failed("no".into()))
        }
    }
    let executor = WorkerExecutor::with(Arc::new(Broken), Arc::new(Moves)).build();
    let error = executor.prewarm(1).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InternalError);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_on_two_workers_come_in_order_and_once() {
    let (executor, threads) = workers(PoolOptions { max_size: 2, ..one() });
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
