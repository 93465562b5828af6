//! The fallback executor: which programs are started again, and what callers see of both attempts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::code::{CodeExecution, CodeExecutionOptions, HostValue, Status};
use execbox::events::{EventKind, ExecutionEnd, ExecutionId, LogEntry, Observer};
use execbox::{
    Amount, BoxFuture, CancellationToken, Cause, ErrorCode, ExecuteError, ExecuteRequest, ExecuteResult, Executor,
    FallbackExecutor, InlineExecutor, Limits, Provider, SelfTestReport, Tool,
};
use serde_json::{Value as Json, json};

/// Counts the programs of an executor.
struct Counted(InlineExecutor, AtomicUsize);

impl Executor for Counted {
    fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.execute(request)
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.run_code(source, options)
    }

    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        self.0.prewarm(count)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }

    fn self_test(&self) -> BoxFuture<'_, SelfTestReport> {
        self.0.self_test()
    }
}

const BUDGET: Duration = Duration::from_millis(50);

/// Defines `long`, which computes several times the budget. An amount of work, and not of time, of which a busy machine leaves
/// less than the budget to the program.
const LONG: &str = "const long = () => { for (let i = 0; i < 3e7; i++); };";

struct Two {
    executor: FallbackExecutor,
    executors: [Arc<Counted>; 2],
    /// Log lines, reports and calls, in the order in which the host saw them.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Two {
    fn new() -> Self {
        let executors = [(); 2].map(|()| Arc::new(Counted(InlineExecutor::new().unwrap(), AtomicUsize::new(0))));
        let executor = FallbackExecutor::new(executors[0].clone(), executors[1].clone()).budget(BUDGET);
        Self { executor, executors, seen: Arc::default() }
    }

    /// How many programs each executor has run.
    fn counts(&self) -> [usize; 2] {
        self.executors.each_ref().map(|executor| executor.1.load(Ordering::Relaxed))
    }

    /// Lets a run compute until as many programs have begun, however long a busy machine takes.
    async fn compute_until(&self, run: &mut CodeExecution, counts: [usize; 2]) {
        while self.counts() != counts {
            assert!(tokio::time::timeout(Duration::from_millis(1), &mut *run).await.is_err() && run.is_running());
        }
    }

    fn see(&self) -> impl Fn(&str) + Send + Sync + Clone + 'static {
        let seen = Arc::clone(&self.seen);
        move |what| seen.lock().unwrap().push(what.to_owned())
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    async fn execute(&self, code: &str, limits: Limits) -> ExecuteResult {
        let (call, log) = (self.see(), self.see());
        let echo = Tool::new("echo", move |input: Json, _| {
            call(&format!("call {input}"));
            async move { Ok(input) }
        });
        let tools = Provider::builder("tools").tool(echo).build().unwrap();
        let request = ExecuteRequest::new(format!("{LONG} {code}")).provider(tools).limits(limits);
        self.executor.execute(request.on_log(move |line| log(&line.text))).await
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        let (call, log, report) = (self.see(), self.see(), self.see());
        let echo = HostValue::function("echo", move |args| {
            call("call");
            args.str(0).map(HostValue::from)
        });
        let options = options.import("host", [("echo", echo)]);
        let options = options.on_log(move |line| log(line.level.as_str())).on_report(move |_| report("report"));
        self.executor.run_code(&format!("{LONG} import {{ echo }} from 'host'; {source}"), options)
    }
}

/// Limits with a timeout that a busy machine does not reach.
fn generous() -> Limits {
    Limits::default().timeout(Duration::from_mins(5))
}

#[tokio::test]
async fn a_program_that_computes_before_its_first_call_is_started_again() {
    let two = Two::new();
    let result = two.execute("console.log('once'); long(); await tools.echo(1)", generous()).await;
    assert_eq!((result.outcome, two.counts()), (Ok(Some(json!(1))), [1, 1]));
    assert_eq!((result.logs, two.seen()), (vec!["once".to_owned()], vec!["once".to_owned(), "call 1".to_owned()]));
    let used = result.usage.cpu_time.unwrap();
    assert!(used > BUDGET && result.duration > 2 * BUDGET, "{used:?} {:?}", result.duration);
    assert_eq!(result.usage.calls, 1);
}

/// The events of both attempts are those of one execution: accepted once, started twice, ended once.
#[tokio::test]
async fn both_attempts_are_one_execution_to_observers() {
    let two = Two::new();
    let events: Arc<Mutex<Vec<(ExecutionId, String)>>> = Arc::default();
    let seen = Arc::clone(&events);
    let observer = Observer::new(move |event| {
        let text = match event.kind {
            EventKind::Log(LogEntry::Line(line)) => line.text.clone(),
            EventKind::Log(LogEntry::ConsoleCall(entry)) => entry.level.as_str().to_owned(),
            EventKind::CallBegan { call, .. } => format!("{call} began"),
            EventKind::CallEnded { .. } => "returned".to_owned(),
            EventKind::Reported(_) => "reported".to_owned(),
            EventKind::Ended(end) => {
                assert!(end.usage().unwrap().cpu_time > Some(BUDGET), "that of both attempts");
                if let ExecutionEnd::Script(_) = end { "script ended".to_owned() } else { "run ended".to_owned() }
            }
            other => format!("{other:?}"),
        };
        seen.lock().unwrap().push((event.execution, text));
    });
    let take = || {
        let events = std::mem::take(&mut *events.lock().unwrap());
        assert!(events.iter().all(|(execution, _)| *execution == events[0].0), "{events:?}");
        events.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
    };

    let echo = Tool::new("echo", async |input: Json, _| Ok(input));
    let tools = Provider::builder("tools").tool(echo).build().unwrap();
    let code = format!("{LONG} console.log('once'); long(); await tools.echo(1)");
    let request = ExecuteRequest::new(code).provider(tools).limits(generous()).observer(observer.clone());
    assert!(two.executor.execute(request).await.is_ok());
    assert_eq!(take(), ["Accepted", "Started", "Started", "once", "tools.echo began", "returned", "script ended"]);

    let source = format!("{LONG} console.warn('once'); long(); report(1); export default 2");
    let options = CodeExecutionOptions::new().limits(generous()).grant_report().observer(observer);
    assert_eq!(two.executor.run_code(&source, options).await.status, Status::Success);
    assert_eq!(take(), ["Accepted", "Started", "Started", "warn", "reported", "run ended"]);
    assert_eq!(two.counts(), [2, 2]);
}

#[tokio::test]
async fn a_program_that_has_made_a_call_stays() {
    let two = Two::new();
    let code = "console.log('before'); await tools.echo(1); console.log('after'); long(); 2";
    let result = two.execute(code, generous()).await;
    assert_eq!((result.outcome, two.counts()), (Ok(Some(json!(2))), [1, 0]));
    assert_eq!(two.seen(), ["before", "call 1", "after"]);
}

#[tokio::test]
async fn lines_of_a_program_that_ends_within_the_budget_are_shown() {
    let two = Two::new();
    let result = two.execute("console.log('a'); throw new Error('no')", generous()).await;
    assert_eq!((result.error().unwrap().code, two.counts()), (ErrorCode::RuntimeError, [1, 0]));
    assert_eq!(two.seen(), ["a"]);
}

#[tokio::test]
async fn limits_hold_for_both_attempts_together() {
    let two = Two::new();
    let limits = generous().cpu_time(BUDGET / 2);
    let error = two.execute("for (;;);", limits).await.outcome.unwrap_err();
    assert!(error.message.contains("its limit is 25 ms: compute less, or raise cpu_time"), "{error}");
    assert_eq!(two.counts(), [1, 0], "the limit is lower than the budget");

    let limits = generous().cpu_time(4 * BUDGET);
    let result = two.execute("for (;;);", limits).await;
    assert_eq!((result.error().unwrap().code, two.counts()), (ErrorCode::Timeout, [2, 1]));
    let error = result.error().unwrap();
    assert!(error.message.contains("its limit is 200 ms: compute less, or raise cpu_time"), "{error}");
    let Some(Cause::Limit(limit)) = error.cause.as_deref() else { panic!("{:?}", error.cause) };
    assert_eq!(limit.allowed, Amount::Time(4 * BUDGET));
    assert!(limit.used.is_some_and(|used| used > limit.allowed), "{limit:?}");
    let used = result.usage.cpu_time.unwrap();
    assert!(used > 4 * BUDGET && used < 6 * BUDGET, "{used:?}");

    let limits = generous().timeout(Duration::from_secs(1));
    let result = two.execute("for (;;);", limits).await;
    let error = result.outcome.unwrap_err();
    assert_eq!(error.message, "Execution timed out after 1000 ms");
    let Some(Cause::Limit(limit)) = error.cause.as_deref() else { panic!("{:?}", error.cause) };
    let is_used = limit.used.is_some_and(|used| used >= Amount::Time(limits.timeout));
    assert!(limit.as_timeout() == Some(limits.timeout) && is_used, "{limit:?}");
    assert!(result.duration >= limits.timeout && two.counts() == [3, 2], "{:?}", result.duration);
}

/// The second attempt has what is left of it, and not all of it.
#[tokio::test]
async fn a_limit_that_is_set_alone_holds_for_both_attempts_together() {
    let two = Two::new();
    let request = ExecuteRequest::new("for (;;);").cpu_time(BUDGET * 3 / 2).timeout(generous().timeout);
    let used = two.executor.execute(request).await.usage.cpu_time.unwrap();
    assert!(used < 2 * BUDGET, "{used:?}");
    let options = CodeExecutionOptions::new().cpu_time(BUDGET * 3 / 2);
    let used = two.executor.run_code("for (;;);", options).await.usage.cpu_time.unwrap();
    assert!(used < 2 * BUDGET && two.counts() == [2, 2], "{used:?} {:?}", two.counts());
}

#[tokio::test]
async fn a_cancelled_program_is_not_started_again() {
    let two = Two::new();
    let cancellation = CancellationToken::new();
    cancellation.cancel();
    let request = ExecuteRequest::new("for (;;);").limits(generous()).cancellation(cancellation);
    assert_eq!(two.executor.execute(request).await.error().unwrap().message, "Execution was cancelled");
    assert_eq!(two.counts(), [1, 0]);
}

#[tokio::test]
async fn runs_are_started_again_unless_they_had_an_effect() {
    let two = Two::new();
    let options = CodeExecutionOptions::new;
    let result = two.run_code("console.log(1); long(); export default echo('a')", options()).await;
    assert_eq!((result.status, two.counts()), (Status::Success, [1, 1]), "{result:?}");
    assert_eq!((result.logs.len(), two.seen()), (1, vec!["log".to_owned(), "call".to_owned()]));
    assert!(result.usage.cpu_time.unwrap() > BUDGET && result.usage.calls == 1, "{result:?}");

    for effect in ["echo('a')", "report(1)"] {
        let source = format!("console.log(1); {effect}; console.warn(2); long(); export default 2");
        let mut run = two.run_code(&source, options());
        let result = (&mut run).await;
        assert_eq!((result.status, two.counts()[1]), (Status::Success, 1), "{result:?}");
        let effect = if effect == "report(1)" { "report" } else { "call" };
        assert_eq!(two.seen(), ["log", effect, "warn"]);
        assert_eq!(run.reports().len(), result.reports.len());
    }

    let promise = HostValue::promise(async { Ok(HostValue::from("given")) });
    let result = two.run_code("long(); export default await given", options().global("given", promise)).await;
    assert_eq!((result.status, two.counts()[1]), (Status::Success, 1), "it cannot be given twice: {result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_can_be_terminated_in_either_attempt() {
    for counts in [[1, 0], [1, 1]] {
        let (two, token) = (Two::new(), CancellationToken::new());
        let mut run = two.run_code("for (;;);", CodeExecutionOptions::new());
        two.compute_until(&mut run, counts).await;
        run.terminate(Some("enough"));
        let result = (&mut run).await;
        assert_eq!(result.error.unwrap().message, "The run was terminated: enough");
        assert!(!run.is_running() && two.counts() == counts, "{:?}", two.counts());

        let two = Two::new();
        let mut run = two.run_code("for (;;);", CodeExecutionOptions::new().cancellation(token.clone()));
        two.compute_until(&mut run, counts).await;
        token.cancel();
        let cause = run.await.error.and_then(|error| error.cause);
        assert_eq!((cause.as_deref(), two.counts()), (Some(&Cause::Cancelled { reason: None }), counts));
    }
}
