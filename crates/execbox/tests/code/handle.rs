//! The handle of a run (§2.2) and its deadline (§6.4), on every executor.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use execbox::code::{Args, CodeControl, CodeExecution, CodeExecutionLog, CodeExecutionOptions, HostValue, Status};
use execbox::{CancellationToken, Cause, ExecuteRequest, Executor, Limits, Provider, Tool, ToolError};
use serde_json::{Value as Json, json};
use tokio::sync::{Notify, mpsc};

use crate::Test;
use crate::executors::RUNTIME;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("2.2-handle: a run starts without being polled and is running until it settles", running),
    ("2.2-handle: a run can be awaited by value or by reference", awaited),
    ("2.2-handle: every endless program can be terminated", terminated),
    ("2.2-handle: every endless program can be cancelled by a token", cancelled),
    ("2.2-handle: a run cancelled before the start does not run", cancelled_before),
    ("2.2-handle: a run can be terminated during a synchronous call", terminated_in_a_call),
    ("2.2-handle: the first reason of termination is kept", first_reason),
    ("2.2-handle: terminating a finished run has no effect", terminated_late),
    ("2.2-handle: reports are available during the run and in the result", reports),
    ("2.2-handle: logs and reports before a termination are kept", kept_before_termination),
    ("2.2-handle: dropping the handle terminates the run", dropped),
    ("2.2-handle: pending host futures are dropped with the run", host_futures),
    ("2.2-handle: concurrent runs are isolated", many),
    ("2.2-handle: a run whose runtime is shut down settles", runtime_gone),
    ("2.2-handle: without a runtime, a run fails with an error that names it", without_runtime),
    ("4.3-logs: lines have timestamps and are truncated at the limits", logs),
    ("5.2-reports: a panic of the sink does not affect the run", sink_panics),
    ("2.2-handle: a caller can enforce a budget, as in the specification", budget),
    ("4-result: the duration is wall time, the memory is the peak", measured),
    ("6.4-deadline: the safety cap terminates an endless run", safety_cap),
    ("10.4-tools: a tool can wrap a run", tool),
];

fn options() -> CodeExecutionOptions {
    CodeExecutionOptions::new()
}

/// Globals `reached`, which notifies the test, and `hang`, which never settles.
fn reached() -> (CodeExecutionOptions, Arc<Notify>) {
    let notify = Arc::new(Notify::new());
    let notifier = Arc::clone(&notify);
    let reached = HostValue::function("reached", move |_| {
        notifier.notify_one();
        Ok(HostValue::undefined())
    });
    let hang = HostValue::async_function("hang", |_| std::future::pending());
    (options().global("reached", reached).global("hang", hang), notify)
}

/// The error message of a terminated run.
async fn message(run: CodeExecution) -> String {
    let result = run.await;
    assert_eq!(result.status, Status::Terminated, "{result:?}");
    assert!(result.result.is_none());
    result.error.expect("a terminated run has an error").message
}

fn running(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let (options, reached) = reached();
        let run = executor.run_code("reached(); await hang()", options);
        assert!(run.is_running());
        let control = run.control();
        reached.notified().await;
        assert!(run.is_running() && control.is_running());
        run.terminate(None);
        assert_eq!(message(run).await, "The run was terminated");
        assert!(!control.is_running());

        let mut run = executor.run_code("export default 1", self::options());
        assert_eq!((&mut run).await.status, Status::Success);
        assert!(!run.is_running());
        // Invalid options end a run before it starts.
        let nameless = self::options().filename("");
        let mut run = executor.run_code("export default 1", nameless);
        assert_eq!((&mut run).await.status, Status::LinkError);
        assert!(!run.is_running());
    });
}

fn awaited(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let source = "export default 42";
        assert_eq!(executor.run_code(source, options()).await.to_json().unwrap()["result"], json!(42));
        let mut run = executor.run_code(source, options());
        assert_eq!((&mut run).await.to_json().unwrap()["result"], json!(42));
        // A finished run returns its result again.
        assert_eq!(run.await.to_json().unwrap()["result"], json!(42), "the result of the second await");
        let runs = (0..4).map(|_| executor.run_code(source, options()));
        let results = futures_util::future::join_all(runs).await;
        assert!(results.iter().all(|result| result.status == Status::Success));
    });
}

/// Programs that compute or wait without end.
const ENDLESS: [&str; 16] = [
    "reached(); for (;;);",
    "reached(); for (;;) reached();",
    "for (;;) await reached();",
    "reached(); await hang()",
    "reached(); hang(); await new Promise(() => {})",
    "reached(); hang(); await { then() {} }",
    "reached(); try { await hang() } catch { } finally { for (;;); }",
    "reached(); for (;;) try { for (;;); } catch {} finally { continue }",
    "reached(); const spin = () => Promise.resolve().then(spin); spin(); await hang()",
    "reached(); const spin = () => queueMicrotask(spin); spin(); await hang()",
    "reached(); /^(a+)+$/.test('a'.repeat(40) + 'b')",
    "reached(); let n = 3n; for (;;) n = n * n % 1000003n",
    "export default () => { reached(); for (;;); }",
    "export default { get a() { reached(); for (;;); } }",
    "export default { get then() { reached(); for (;;); } }",
    "reached(); throw { get message() { for (;;); } }",
];

fn terminated(executor: &Arc<dyn Executor>) {
    for source in ENDLESS {
        RUNTIME.block_on(async {
            let (options, reached) = reached();
            let run = executor.run_code(source, options);
            reached.notified().await;
            run.terminate(Some("enough"));
            assert_eq!(message(run).await, "The run was terminated: enough", "{source}");
        });
    }
    // A later run is not affected.
    let result = RUNTIME.block_on(async { executor.run_code("export default 1", options()).await });
    assert_eq!(result.status, Status::Success);
}

fn cancelled(executor: &Arc<dyn Executor>) {
    for source in ENDLESS {
        RUNTIME.block_on(async {
            let (token, (options, reached)) = (CancellationToken::new(), reached());
            let run = executor.run_code(source, options.cancellation(token.clone()));
            reached.notified().await;
            token.cancel();
            let result = run.await;
            let error = result.error.expect("a cancelled run has an error");
            assert_eq!((result.status, &*error.message), (Status::Terminated, "The run was terminated"), "{source}");
            assert_eq!(error.cause.as_deref(), Some(&Cause::Cancelled { reason: None }), "{source}");
        });
    }
}

fn cancelled_before(executor: &Arc<dyn Executor>) {
    let token = CancellationToken::new();
    token.cancel();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let calls = Arc::clone(&log);
    let note = HostValue::function("note", move |args| {
        calls.lock().unwrap().push(args.str(0)?.to_owned());
        Ok(HostValue::undefined())
    });
    let options = options().global("note", note).cancellation(token);
    let result = RUNTIME.block_on(async { executor.run_code("note('called'); export default 1", options).await });
    assert_eq!((result.status, log.lock().unwrap().len()), (Status::Terminated, 0));
    // The end of a run does not cancel the token of its caller.
    let token = CancellationToken::new();
    let options = self::options().cancellation(token.clone());
    let result = RUNTIME.block_on(async { executor.run_code("export default 1", options).await });
    assert_eq!((result.status, token.is_cancelled()), (Status::Success, false));
}

/// A host function terminates the run that calls it. The program continues after the call.
fn terminated_in_a_call(executor: &Arc<dyn Executor>) {
    for after in ["", "for (;;);", "for (;;) terminate('again');", "await new Promise(() => {})", "throw 1"] {
        let control: Arc<OnceLock<CodeControl>> = Arc::default();
        let reached = Arc::clone(&control);
        let terminate = HostValue::function("terminate", move |args: Args| {
            reached.wait().terminate(Some(args.str(0)?));
            Ok(HostValue::undefined())
        });
        let source = format!("terminate('from inside'); {after}; export default 'went on'");
        RUNTIME.block_on(async {
            let run = executor.run_code(&source, options().global("terminate", terminate));
            control.set(run.control()).unwrap();
            assert_eq!(message(run).await, "The run was terminated: from inside", "{after}");
        });
    }
}

fn first_reason(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        for (first, expected) in
            [(Some("the first"), "The run was terminated: the first"), (None, "The run was terminated")]
        {
            let run = executor.run_code("for (;;);", options());
            let control = run.control();
            control.terminate(first);
            run.terminate(Some("the second"));
            control.terminate(None);
            drop(control);
            assert_eq!(message(run).await, expected);
        }
        // A run can be terminated before it starts.
        let run = executor.run_code("export default 1", options());
        run.terminate(Some("never mind"));
        let result = run.await;
        if result.status != Status::Success {
            assert_eq!(result.error.unwrap().message, "The run was terminated: never mind");
        }
    });
}

fn terminated_late(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let run = executor.run_code("export default 1", options());
        let control = run.control();
        while control.is_running() {
            tokio::task::yield_now().await;
        }
        control.terminate(Some("too late"));
        run.terminate(Some("too late"));
        let result = run.await;
        assert_eq!(result.status, Status::Success);
        control.terminate(Some("far too late"));
        assert_eq!(result.to_json().unwrap()["result"], json!(1));
    });
}

fn reports(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let next = Arc::new(Notify::new());
        let wait = Arc::clone(&next);
        let go_on = HostValue::async_function("goOn", move |_| {
            let wait = Arc::clone(&wait);
            async move {
                wait.notified().await;
                Ok(HostValue::undefined())
            }
        });
        let options = options().global("goOn", go_on).on_report(move |report| {
            drop(sender.send(report.to_tagged_json("report", 1 << 30).unwrap()));
        });
        let source = "for (const part of [1, { two: 2n }, 'three']) { report(part); await goOn(); }";
        let mut run = executor.run_code(&format!("{source} export default 4"), options);
        let expected = [json!(1), json!({ "two": { "$bigint": "2" } }), json!("three")];
        for count in 1..=3 {
            assert_eq!(receiver.recv().await.as_ref(), Some(&expected[count - 1]));
            // The sink is called before the report is added to `reports()`.
            while run.reports().len() < count {
                tokio::task::yield_now().await;
            }
            let seen: Vec<Json> =
                run.reports().iter().map(|one| one.to_tagged_json("report", 1 << 30).unwrap()).collect();
            assert_eq!(seen, expected[..count]);
            assert!(run.is_running());
            next.notify_one();
        }
        let result = (&mut run).await;
        assert_eq!(result.to_json().unwrap()["reports"], json!(expected));
        assert_eq!(run.reports(), result.reports, "reports() still works after the run");
    });
}

fn kept_before_termination(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let (options, reached) = reached();
        let source = "report('before'); console.warn('before', 1); reached(); for (;;);";
        let run = executor.run_code(source, options.on_report(|_| ()));
        reached.notified().await;
        run.terminate(None);
        let result = run.await.to_json().unwrap();
        assert_eq!((&result["status"], &result["reports"]), (&json!("terminated"), &json!(["before"])));
        assert_eq!((&result["logs"][0]["level"], &result["logs"][0]["args"]), (&json!("warn"), &json!(["before", 1])));
    });
}

fn dropped(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        for source in ["reached(); for (;;);", "reached(); await hang()"] {
            let (options, reached) = reached();
            let run = executor.run_code(source, options);
            let control = run.control();
            reached.notified().await;
            drop(run);
            while control.is_running() {
                tokio::task::yield_now().await;
            }
        }
    });
}

/// Sends its name when it is dropped.
struct Guard(mpsc::UnboundedSender<&'static str>, &'static str);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

fn host_futures(executor: &Arc<dyn Executor>) {
    let sources = [
        ("await call()", "terminate"),
        ("call(); for (;;);", "drop"),
        ("call(); export default 1", "success"),
        ("call(); throw 1", "failure"),
    ];
    for (source, how) in sources {
        RUNTIME.block_on(async {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let begun = Arc::new(Notify::new());
            let (called, in_call) = (Arc::clone(&begun), sender.clone());
            let call = HostValue::async_function("call", move |_| {
                let guard = Guard(in_call.clone(), "call");
                called.notify_one();
                async move {
                    let _guard = guard;
                    std::future::pending().await
                }
            });
            let guard = Guard(sender, "promise");
            let promise = HostValue::promise(async move {
                let _guard = guard;
                std::future::pending().await
            });
            let run = executor.run_code(source, options().global("call", call).global("promise", promise));
            begun.notified().await;
            match how {
                "terminate" => run.terminate(None),
                "drop" => drop(run),
                _ => drop(run.await),
            }
            let mut dropped = [receiver.recv().await.unwrap(), receiver.recv().await.unwrap()];
            dropped.sort_unstable();
            assert_eq!(dropped, ["call", "promise"], "{how}");
        });
    }
}

fn many(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let runs = (0..24).map(|number| {
            let echo = HostValue::async_function("echo", async |args: Args| {
                tokio::task::yield_now().await;
                Ok(HostValue::from(args.number(0)?))
            });
            let source = "
                export default async function (mine) {
                    for (let i = 0; i < 5; i++) {
                        globalThis.mine = mine;
                        const back = await echo(mine);
                        if (back !== mine || globalThis.mine !== mine || number !== mine) throw new Error('shared state');
                        report(back);
                    }
                    return mine;
                }";
            let options = options()
                .args([HostValue::from(number)])
                .global("number", number)
                .global("echo", echo)
                .on_report(|_| ());
            executor.run_code(source, options)
        });
        let results = futures_util::future::join_all(runs).await;
        for (number, result) in results.iter().enumerate() {
            let result = result.to_json().unwrap();
            assert_eq!((&result["result"], &result["reports"]), (&json!(number), &json!(vec![number; 5])), "{result}");
        }
    });
}

fn runtime_gone(executor: &Arc<dyn Executor>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (options, reached) = reached();
    let run = {
        let _runtime = runtime.enter();
        executor.run_code("reached(); await hang()", options)
    };
    RUNTIME.block_on(reached.notified());
    let control = run.control();
    runtime.shutdown_background();
    let result = RUNTIME.block_on(run);
    assert_eq!(result.status, Status::Error);
    assert_eq!(result.error.unwrap().message, "the run was dropped by its runtime");
    assert!(!control.is_running());
}

fn without_runtime(executor: &Arc<dyn Executor>) {
    let run = executor.run_code("export default 1", options());
    assert!(!run.is_running());
    let result = RUNTIME.block_on(run);
    assert_eq!(result.status, Status::Error);
    assert_eq!(result.error.unwrap().message, "there is no tokio runtime: executors need one, built with enable_time");
}

fn logs(executor: &Arc<dyn Executor>) {
    let logged = |source: &'static str, options: CodeExecutionOptions| {
        let result = RUNTIME.block_on(async { executor.run_code(source, options).await });
        assert_eq!(result.status, Status::Success, "{result:?}");
        result.logs
    };
    let source = "for (let i = 0; i < 1000; i++) console.log(i); export default 1";
    let all = logged(source, options());
    assert_eq!(all.len(), 100);
    assert!(all.is_sorted_by(|one, next| one.timestamp <= next.timestamp) && all[0].timestamp > 1.7e12);
    assert_eq!(logged(source, options().limits(log_limits(7, 64_000))).len(), 7);
    let source = "for (let i = 0; i < 10; i++) console.log('x'.repeat(1000)); export default 1";
    let texts = |logs: Vec<CodeExecutionLog>| -> Vec<String> {
        let text = |log: &CodeExecutionLog| log.args.items(log.args.root())?.first()?.as_str().map(str::to_owned);
        logs.iter().map(|log| text(log).expect("a string")).collect()
    };
    let few = texts(logged(source, options().limits(log_limits(100, 3500))));
    assert!(few[..3].iter().all(|text| text.len() == 1000) && few[3].ends_with("x…"), "{few:?}");
    assert!(few.iter().map(String::len).sum::<usize>() <= 3500);
    let source = "console.log('before'); console.log('x'.repeat(1e6)); console.log('after'); export default 1";
    let cut = texts(logged(source, options()));
    assert_eq!((cut[0].as_str(), cut[2].as_str()), ("before", "after"), "a long line does not remove later ones");
    assert!(cut[1].len() > 30_000 && cut[1].ends_with("x…"), "{}", cut[1].len());
    assert_eq!(logged(source, options().limits(log_limits(0, 0))).len(), 0);
}

fn log_limits(max_log_lines: usize, max_log_chars: usize) -> Limits {
    CodeExecutionOptions::default_limits().max_log_lines(max_log_lines).max_log_chars(max_log_chars)
}

fn sink_panics(executor: &Arc<dyn Executor>) {
    let options = options().on_report(|_| execbox_testkit::crash("at /home/secret/sink.rs"));
    let result = RUNTIME.block_on(async { executor.run_code("report(1); report(2); export default 3", options).await });
    let result = result.to_json().unwrap();
    assert_eq!((&result["result"], &result["reports"]), (&json!(3), &json!([1, 2])));
}

/// §2.2 and §10.3: the caller terminates the run after a timer.
fn budget(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let options = options()
            .limits(CodeExecutionOptions::default_limits().memory_bytes(64 * 1024 * 1024))
            .global("input", HostValue::from("the contents of /data/input.json"));
        let run = executor.run_code("let n = 0; for (;;) n += input.length;", options);
        let control = run.control();
        let deadline = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            control.terminate(Some("20 ms budget"));
        });
        let result = run.await;
        deadline.abort();
        assert_eq!(result.status, Status::Terminated);
        assert_eq!(result.error.unwrap().message, "The run was terminated: 20 ms budget");
    });
}

fn measured(executor: &Arc<dyn Executor>) {
    RUNTIME.block_on(async {
        let wait = HostValue::async_function("wait", async |_| {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(HostValue::undefined())
        });
        let source = "await wait(); export default new Uint8Array(2 ** 20).length";
        let result = executor.run_code(source, options().global("wait", wait)).await;
        assert_eq!(result.status, Status::Success);
        assert!(result.duration >= Duration::from_millis(30), "{:?}", result.duration);
        let used = result.usage.peak_memory_bytes.expect("the engine measures memory");
        assert!((1 << 20..16 << 20).contains(&used), "{used} bytes");
    });
}

fn safety_cap(executor: &Arc<dyn Executor>) {
    for source in ENDLESS {
        RUNTIME.block_on(async {
            let (options, _) = reached();
            let run = executor.run_code(source, options.timeout(Duration::from_millis(60)));
            assert_eq!(message(run).await, "The run was stopped by the safety cap of 0.06 s", "{source}");
        });
    }
}

/// §10.4: a custom tool runs code that a model wrote.
fn tool(executor: &Arc<dyn Executor>) {
    let inner = Arc::clone(executor);
    let evaluate = Tool::new("evaluate", move |input: Json, _| {
        let inner = Arc::clone(&inner);
        async move {
            let read_file = HostValue::async_function("readFile", async |args: Args| Ok(HostValue::from(args.str(0)?)));
            let code = input["code"].as_str().unwrap_or_default();
            let run = inner.run_code(code, options().import("thread", [("readFile", read_file)]));
            let result = run.await.to_json().map_err(|error| ToolError::new(error.to_string()))?;
            match result["status"].as_str() {
                Some("success") => Ok(result["result"].clone()),
                _ => Err(ToolError::new(result["error"]["message"].as_str().unwrap_or("run failed"))),
            }
        }
    });
    let provider = Provider::builder("tools").tool(evaluate).build().unwrap();
    let script = "
        const good = await tools.evaluate({ code: `import { readFile } from 'thread'; export default (await readFile('/a')) + '!'` });
        const bad = await tools.evaluate({ code: `export default missing` }).catch((error) => error.message);
        [good, bad]";
    let request = ExecuteRequest::new(script).provider(provider).timeout(Duration::from_mins(10));
    let result = RUNTIME.block_on(executor.execute(request));
    let outcome = result.outcome.unwrap().unwrap();
    assert_eq!(outcome[0], json!("/a!"));
    assert!(outcome[1].as_str().unwrap().starts_with("missing is not defined"), "{outcome}");
}
