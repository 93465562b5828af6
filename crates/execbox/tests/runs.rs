//! `run_code` over connections: with and without attachments, with runners that do not support it, and with runners that
//! misbehave. The cases of the module contract test the results.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox::code::{
    Args, CodeControl, CodeExecution, CodeExecutionError, CodeExecutionOptions, CodeExecutionResult, Graph, HostError,
    HostValue, Node, Status,
};
use execbox::events::{CallEnd, EventKind, ExecutionEnd, LogEntry, Observer};
use execbox::policy::{Approval, Approver, Decision, Policy, ProposedCall};
use execbox::transport::{Received, StreamTransport, Transport};
use execbox::{
    CancellationToken, ExecuteError, ExecuteRequest, ExecuteResult, Executor, InlineExecutor, LogLevel, PoolOptions,
    Provider, Rejected, RemoteExecutor, Runner, SelfTestReport, Tool, WorkerExecutor,
};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

/// A transport without attachments that records the length of its longest message.
struct Plain<T> {
    inner: T,
    longest: Arc<Mutex<usize>>,
}

impl<T: Transport> Transport for Plain<T> {
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        let mut longest = self.longest.lock().unwrap();
        *longest = longest.max(message.len());
        self.inner.send(message)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        self.inner.poll_receive(cx)
    }
}

/// A runner behind a pipe, with or without attachments, and the length of the longest message to it.
fn remote(attachments: bool) -> (RemoteExecutor, Arc<Mutex<usize>>) {
    let longest = Arc::new(Mutex::new(0));
    let note = Arc::clone(&longest);
    let executor = RemoteExecutor::new(move || {
        let longest = Arc::clone(&note);
        async move {
            let (here, there) = duplex(4096);
            let (reader, writer) = split(there);
            tokio::spawn(async move { Runner::new().unwrap().serve(StreamTransport::new(reader, writer)).await });
            let (reader, writer) = split(here);
            let inner = StreamTransport::new(reader, writer);
            Ok(if attachments { Box::new(inner) as Box<dyn Transport> } else { Box::new(Plain { inner, longest }) })
        }
    });
    (executor, longest)
}

fn executors() -> Vec<(&'static str, Arc<dyn Executor>)> {
    vec![
        ("inline", Arc::new(InlineExecutor::new().unwrap())),
        ("worker", Arc::new(WorkerExecutor::new().unwrap())),
        ("attachments", Arc::new(remote(true).0)),
        ("no attachments", Arc::new(remote(false).0)),
    ]
}

const SOURCE: &str = "
    import { add, later, fail, ready } from 'host';
    import { twice } from './twice.ts';
    console.warn('began', new Map([[1, 2n]]));
    report({ sum: add(1, 2), bytes: input.length });
    let caught;
    try { add('x', 1) } catch (error) { caught = `${error.name}: ${error.message}` }
    const failed = await fail().catch((error: Error) => error.message);
    export default async (more: Uint8Array) => ({
        caught, failed, ready: await ready, later: await later(twice(21)), all: [...more, input[99_999]], when: new Date(0),
    });
";

fn options() -> CodeExecutionOptions {
    let add = HostValue::function("add", |args: Args| Ok(HostValue::from(args.number(0)? + args.number(1)?)));
    let later = HostValue::async_function("later", async |args: Args| {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(HostValue::from(args.number(0)?))
    });
    let fail = HostValue::async_function("fail", async |_| Err(HostError::new("the disk is full")));
    let ready = HostValue::promise(async { Ok(HostValue::from("ready")) });
    CodeExecutionOptions::new()
        .import("host", [("add", add), ("later", later), ("fail", fail), ("ready", ready)])
        .module("./twice.ts", "export const twice = (n: number): number => n * 2;")
        .global("input", HostValue::bytes(vec![7; 100_000]))
        .args([HostValue::bytes([1, 2, 3])])
        .on_report(|_| {})
}

#[tokio::test]
async fn reports_and_log_lines_are_delivered_in_order_during_the_run() {
    let source = "console.log('a'); report('b'); console.warn('c', 1); await pause(); console.error('d'); for (;;);";
    for (name, executor) in executors() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = CancellationToken::new();
        let (reports, lines, last_line) = (Arc::clone(&events), Arc::clone(&events), seen.clone());
        let pause = HostValue::async_function("pause", async |_| Ok(HostValue::undefined()));
        let options = CodeExecutionOptions::new()
            .global("pause", pause)
            .on_report(move |report| reports.lock().unwrap().push(report.to_tagged_json("report", 1 << 30).unwrap()))
            .on_log(move |line| {
                let args = line.args.to_tagged_json("args", 1 << 30).unwrap();
                lines.lock().unwrap().push(json!([line.level.as_str(), args]));
                if line.level == LogLevel::Error {
                    last_line.cancel();
                }
            });
        let run = executor.run_code(source, options);
        seen.cancelled().await; // the run has not ended
        run.terminate(None);
        assert_eq!(run.await.logs.len(), 3, "{name}");
        let expected = json!([["log", ["a"]], "b", ["warn", ["c", 1]], ["error", ["d"]]]);
        assert_eq!(json!(*events.lock().unwrap()), expected, "{name}");
    }
}

#[tokio::test]
async fn events_of_runs_are_in_order_on_every_executor() {
    let source = "
        import { add, fail } from 'host';
        import { lookup } from 'shop';
        console.warn('began');
        add(1, 2);
        await fail().catch(() => {});
        report(await lookup({ id: 7 }));
        await lookup().catch(() => {});
        export default () => 'done';
    ";
    let lookup = Tool::new("lookup", async |input: Json, _| Ok(json!({ "order": input["id"] })));
    let schema = json!({ "type": "object", "required": ["id"] });
    let shop = Provider::builder("shop").tool(lookup.input_schema(schema)).build().unwrap();
    for (name, executor) in executors() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let observer = Observer::new(move |event| {
            let text = match event.kind {
                EventKind::Accepted => "accepted".to_owned(),
                EventKind::Started => "started".to_owned(),
                EventKind::Log(LogEntry::ConsoleCall(entry)) => format!("log {}", entry.level.as_str()),
                EventKind::CallBegan { call, .. } => format!("{} {call}", call.id),
                EventKind::CallEnded { call, end: CallEnd::Returned { .. }, .. } => format!("{} returned", call.id),
                EventKind::CallEnded { call, end: CallEnd::Failed { message, .. }, .. } => {
                    format!("{} failed: {message:.20}", call.id)
                }
                EventKind::Reported(_) => "reported".to_owned(),
                EventKind::Ended(end @ ExecutionEnd::Run(_)) => {
                    format!("ended: {}, {} calls", end.is_ok(), end.usage().unwrap().calls)
                }
                other => format!("{other:?}"),
            };
            seen.lock().unwrap().push((event.execution, text));
        });
        let options = options().provider(shop.clone()).observer(observer);
        let result = executor.run_code(source, options).await;
        assert_eq!(result.status, Status::Success, "{name}: {:?}", result.error);
        let events = events.lock().unwrap();
        assert!(events.iter().all(|(execution, _)| *execution == events[0].0), "{name}");
        let texts: Vec<&str> = events.iter().map(|(_, text)| text.as_str()).collect();
        let expected = [
            "accepted",
            "started",
            "log warn",
            "call-1 add",
            "call-1 returned",
            "call-2 fail",
            "call-2 failed: the disk is full",
            "call-3 shop.lookup",
            "call-3 returned",
            "reported",
            "call-4 shop.lookup",
            "call-4 failed: Invalid input for sh",
            "ended: true, 4 calls",
        ];
        assert_eq!(texts, expected, "{name}");
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_or_does_not_start_has_an_end() {
    for (name, executor) in executors() {
        let began = CancellationToken::new();
        let (ends, cancel) = (Arc::new(Mutex::new(Vec::new())), began.clone());
        let seen = Arc::clone(&ends);
        let observer = Observer::new(move |event| match event.kind {
            EventKind::CallBegan { .. } => cancel.cancel(),
            EventKind::CallEnded { end, .. } => seen.lock().unwrap().push(format!("{end:?}")),
            EventKind::Ended(end) => {
                seen.lock().unwrap().push(format!("{} {:?}", end.is_ok(), end.duration().is_some()));
            }
            _ => {}
        });
        let hang = HostValue::async_function("hang", async |_| std::future::pending().await);
        let options = CodeExecutionOptions::new().global("hang", hang).observer(observer.clone());
        let run = executor.run_code("await hang()", options);
        began.cancelled().await;
        drop(run); // The run is terminated, and ends on its task.
        while ends.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(std::mem::take(&mut *ends.lock().unwrap()), ["Dropped", "false true"], "{name}");

        let without_runtime = std::thread::spawn(move || {
            let run = executor.run_code("1", CodeExecutionOptions::new().observer(observer));
            run.now_or_never().unwrap().status
        });
        assert_eq!(without_runtime.join().unwrap(), Status::Error, "{name}");
        assert_eq!(*ends.lock().unwrap(), ["false true"], "{name}");
    }
}

#[tokio::test]
async fn a_run_has_the_same_result_on_every_executor() {
    for (name, executor) in executors() {
        let result = executor.run_code(SOURCE, options()).await;
        let json = result.to_json().unwrap();
        assert_eq!(json["status"], "success", "{name}: {json}");
        let expected = json!({
            "caught": "TypeError: argument 0 is not a number", "failed": "the disk is full", "ready": "ready", "later": 42,
            "all": [1, 2, 3, 7], "when": { "$date": 0 },
        });
        assert_eq!(json["result"], expected, "{name}");
        assert_eq!(json["reports"], json!([{ "sum": 3, "bytes": 100_000 }]), "{name}");
        assert_eq!(json["logs"][0]["level"], "warn", "{name}");
        assert_eq!(json["logs"][0]["args"], json!(["began", { "$map": [[1, { "$bigint": "2" }]] }]), "{name}");
        assert!(json["memoryUsedBytes"].as_u64().unwrap() > 100_000, "{name}: {json}");
    }
}

#[tokio::test]
async fn large_values_are_sent_as_attachments_if_supported() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    for attachments in [true, false] {
        let (executor, longest) = remote(attachments);
        let options = CodeExecutionOptions::new().global("input", HostValue::bytes(bytes.clone()));
        let result = executor.run_code("export default input", options).await;
        let value = result.result.unwrap();
        assert_eq!(value.bytes_of(value.root()), Some(&bytes[..]));
        assert_eq!(*longest.lock().unwrap() > 3_000_000, !attachments);
    }
}

#[tokio::test]
async fn values_too_deep_for_json_cross_without_attachments() {
    let source = "let deep: unknown = 0; for (let i = 0; i < 5000; i++) deep = [deep]; export default deep";
    let result = remote(false).0.run_code(source, CodeExecutionOptions::new()).await;
    let value: Arc<Graph> = result.result.unwrap_or_else(|| panic!("{:?}", result.error));
    assert_eq!(value.nodes().filter(|node| matches!(node, Node::Array(_))).count(), 5000);
}

#[tokio::test]
async fn terminate_and_the_safety_cap_end_a_run_on_every_executor() {
    for (name, executor) in executors() {
        for source in ["for (;;);", "await never", "let n = 3n; for (;;) n *= n"] {
            let limits = CodeExecutionOptions::default_limits().memory_bytes(1 << 30);
            let never = HostValue::promise(std::future::pending());
            let run = executor.run_code(source, CodeExecutionOptions::new().limits(limits).global("never", never));
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert!(run.is_running(), "{name}");
            run.terminate(Some("enough"));
            run.terminate(Some("too late"));
            let result = tokio::time::timeout(Duration::from_secs(10), run).await.unwrap();
            assert_eq!(result.status, Status::Terminated, "{name}: {source}");
            assert_eq!(result.error.unwrap().message, "The run was terminated: enough", "{name}");
        }
        let capped = CodeExecutionOptions::new().timeout(Duration::from_millis(30));
        let result = executor.run_code("for (;;);", capped).await;
        let message = result.error.unwrap().message;
        assert_eq!(
            (result.status, message.as_str()),
            (Status::Terminated, "The run was stopped by the safety cap of 0.03 s")
        );
    }
}

#[tokio::test]
async fn the_clock_of_a_run_is_paused_while_it_waits_for_a_person() {
    struct Slow;
    impl Approver for Slow {
        fn approve<'a>(&'a self, _: ProposedCall<'a>) -> BoxFuture<'a, Approval> {
            async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Approval::Approved
            }
            .boxed()
        }
    }
    let policy = Policy::new().tools("shop.buy", Decision::Ask).approver(Arc::new(Slow));
    let shop = Provider::builder("shop").tool(Tool::new("buy", async |_, _| Ok(json!("bought")))).build().unwrap();
    let shop = shop.with_policy(&policy);
    let source = "import { buy } from 'shop'; export default await buy({});";
    let runs = executors().into_iter().map(async |(name, executor)| {
        let options = CodeExecutionOptions::new().provider(shop.clone()).timeout(Duration::from_millis(1500));
        let result = executor.run_code(source, options).await;
        assert_eq!(result.to_json().unwrap()["result"], "bought", "{name}: {:?}", result.error);
    });
    join_all(runs).await;
}

/// A guest that calls in a loop is terminated during a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_function_is_called_after_terminate_returns() {
    for (name, executor) in executors() {
        for (kind, source) in [
            ("sync", "for (;;) now()"),
            ("async", "for (;;) await later()"),
            (
                "both, in batches",
                "for (;;) await Promise.all(Array.from({ length: 100 }, () => [later(), now()]).flat())",
            ),
        ] {
            let control = Arc::new(OnceLock::<CodeControl>::new());
            let (calls, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let stopped = CancellationToken::new();
            // The 50th call terminates the run. Every later call is an error.
            let call = {
                let (control, calls, late, stopped) =
                    (Arc::clone(&control), Arc::clone(&calls), Arc::clone(&late), stopped.clone());
                move || {
                    if stopped.is_cancelled() {
                        late.fetch_add(1, Ordering::SeqCst);
                    }
                    if let (49.., Some(control)) = (calls.fetch_add(1, Ordering::SeqCst), control.get()) {
                        control.terminate(Some("enough"));
                        stopped.cancel();
                    }
                    Ok(HostValue::undefined())
                }
            };
            let other = call.clone();
            let now = HostValue::function("now", move |_| call());
            let later = HostValue::async_function("later", move |_| std::future::ready(other()));
            let options = CodeExecutionOptions::new().global("now", now).global("later", later);
            let run = executor.run_code(source, options);
            control.set(run.control()).unwrap();
            let result = tokio::time::timeout(Duration::from_mins(1), run).await.unwrap();
            assert_eq!(result.status, Status::Terminated, "{name}, {kind}");
            assert_eq!(late.load(Ordering::SeqCst), 0, "{name}, {kind}: calls after the end");
        }
    }
}

/// Returns the result of a run whose connections run `peer`.
async fn with_peer<F, Fut>(peer: F) -> CodeExecutionResult
where
    F: Fn(DuplexStream) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let executor = RemoteExecutor::new(move || {
        let peer = peer.clone();
        async move {
            let (here, there) = duplex(1 << 16);
            tokio::spawn(peer(there));
            let (reader, writer) = split(here);
            Ok(StreamTransport::new(reader, writer))
        }
    });
    executor.run_code("export default 1", CodeExecutionOptions::new()).await
}

/// Answers `hello`, and sends `lines` after `run_code`.
async fn reply(peer: DuplexStream, lines: &'static [&'static str]) {
    let (reader, mut writer) = split(peer);
    let mut received = BufReader::new(reader).lines();
    writer.write_all(b"{\"type\":\"hello\",\"runCode\":1}\n").await.unwrap();
    while let Ok(Some(line)) = received.next_line().await {
        let Some(id) = line.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()) else { continue };
        if line.contains("\"run_code\"") {
            for line in lines {
                let _ = writer.write_all(format!("{}\n", line.replace("ID", id)).as_bytes()).await;
            }
        }
    }
}

#[tokio::test]
async fn a_runner_without_run_code_is_an_error() {
    // The runner ignores unknown messages, as the specification requires. The clock is paused because the timeout is long.
    tokio::time::pause();
    let ignores = |mut peer: DuplexStream| async move {
        let mut bytes = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut peer, &mut bytes).await;
    };
    let error = with_peer(ignores).await.error.unwrap();
    assert_eq!(error.message, "the runner does not support run_code: it did not answer `hello`");
}

#[tokio::test]
async fn a_protocol_violation_ends_the_run_with_an_internal_error() {
    for (lines, message) in [
        (&["{\"type\":\"code_done\",\"id\":\"ID\",\"ok\":true,\"durationMs\":1}"][..], "`result` is missing"),
        (&["nonsense"], "a line is not JSON"),
        (
            &["{\"type\":\"code_done\",\"id\":\"ID\",\"ok\":true,\"durationMs\":1,\"result\":{\"$attachment\":0}}"],
            "`result` is not a received attachment",
        ),
        (
            &[
                "{\"type\":\"code_call\",\"id\":\"ID\",\"call\":1,\"function\":9,\"now\":false,\"args\":[]}",
                "{\"type\":\"code_call\",\"id\":\"ID\",\"call\":1,\"function\":9,\"now\":false,\"args\":[]}",
            ],
            "a second call with the id",
        ),
    ] {
        let error = with_peer(move |peer| reply(peer, lines)).await.error.unwrap();
        assert!(error.is_internal);
        assert!(error.message.contains(message), "{error}");
    }
    let gone = with_peer(|_| async {}).await.error.unwrap();
    assert!(gone.message.contains("the connection to the runner") || gone.message.contains("closed"), "{gone}");
}

#[tokio::test]
async fn a_rejected_run_has_a_typed_reason_that_a_guest_cannot_forge() {
    let pool = PoolOptions::default().max_size(1).queue_limit(0);
    let executor = WorkerExecutor::builder(Runner::new().unwrap()).unwrap().pool(pool).build();
    let busy = executor.run_code("for (;;);", CodeExecutionOptions::new());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let rejected = executor.run_code("export default 1", CodeExecutionOptions::new()).await.error.unwrap();
    assert_eq!((rejected.is_internal, rejected.rejected), (true, Some(Rejected::QueueFull { busy: 1, waiting: 0 })));
    busy.terminate(None);
    assert_eq!(busy.await.status, Status::Terminated);
    // An error of the guest never counts as a rejection.
    let source = "throw Object.assign(new Error('x'), { name: 'InternalError', is_internal: true, internal: true })";
    let thrown = executor.run_code(source, CodeExecutionOptions::new()).await.error.unwrap();
    assert_eq!((thrown.name.as_str(), thrown.is_internal), ("InternalError", false));
}

#[tokio::test]
async fn messages_of_other_runs_are_ignored() {
    let lines = &[
        "{\"type\":\"code_done\",\"id\":\"another\",\"ok\":true,\"durationMs\":1,\"result\":\"forged\"}",
        "{\"type\":\"hello\",\"runCode\":1}",
        "{\"type\":\"started\",\"id\":\"ID\"}",
        "{\"type\":\"code_done\",\"id\":\"ID\",\"ok\":true,\"durationMs\":1,\"result\":\"own\"}",
        "{\"type\":\"code_done\",\"id\":\"ID\",\"ok\":true,\"durationMs\":1,\"result\":\"again\"}",
    ];
    let result = with_peer(move |peer| reply(peer, lines)).await;
    assert_eq!(result.to_json().unwrap()["result"], "own");
}

/// An executor without an engine, as applications write one for their tests.
struct Fake;

impl Executor for Fake {
    fn execute(&self, _: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(async { ExecuteResult::new(Ok(Some(json!(1))), Duration::ZERO) })
    }

    fn run_code(&self, source: &str, _: CodeExecutionOptions) -> CodeExecution {
        let outcome = match source {
            "fail" => Err(CodeExecutionError::new("RangeError", "too far")),
            source => Ok(Graph::from_json(&json!({ "source": source }))),
        };
        let mut result = CodeExecutionResult::new(outcome, Duration::from_secs(1));
        result.reports.push(Arc::new(Graph::from_json(&json!("half"))));
        CodeExecution::ready(result)
    }

    fn prewarm(&self, _: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn self_test(&self) -> BoxFuture<'_, SelfTestReport> {
        Box::pin(async { SelfTestReport::default() })
    }
}

/// Without a runtime.
#[test]
fn an_executor_of_the_caller_can_return_a_finished_run() {
    let run = Fake.run_code("1", CodeExecutionOptions::new());
    assert!(!run.is_running());
    run.terminate(Some("too late"));
    assert_eq!(run.reports()[0].to_string(), "\"half\"");
    let result = run.now_or_never().unwrap();
    assert_eq!((result.status, result.duration), (Status::Success, Duration::from_secs(1)));
    assert_eq!(result.value(), Ok(json!({ "source": "1" })));

    let result = Fake.run_code("fail", CodeExecutionOptions::new()).now_or_never().unwrap();
    assert_eq!(result.status, Status::Error);
    assert_eq!(result.error.unwrap().to_string(), "RangeError: too far");
}
