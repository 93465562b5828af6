//! Timeouts, cancellation and events, on every executor.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use execbox::events::{EventKind, Observer};
use execbox::{CancellationToken, Cause, ErrorCode, ExecuteRequest, Executor, Limits, Provider, Tool, ToolContext};
use libtest_mimic::Trial;
use serde_json::{Value as Json, json};

use crate::Test;
use crate::cases::{Calls, generous_limits, tools};
use crate::executors::{Accepts, NamedExecutor, RUNTIME};

pub(crate) fn trials(executors: &[NamedExecutor]) -> Vec<Trial> {
    let tests: &[(&str, Test)] = &[
        ("error-mapping: the guest cannot catch a timeout", timeouts),
        ("cancellation: a cancelled execution ends promptly with a timeout error", cancellation),
        ("cancellation: an execution cancelled before the start does not run", cancelled_before),
        ("tool calls: pending tools are cancelled when the execution ends", tools_are_cancelled),
        ("session: concurrent executions are isolated", many_at_once),
        ("final result: duration is wall time", duration),
        ("logs: each line is delivered once, with its level, while the guest runs", logs_stream),
    ];
    crate::trials(executors, tests)
}

/// Far shorter than the timeouts of [`generous_limits`], and enough on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// Programs that compute or wait without end.
fn endless(accepts: Accepts) -> &'static [&'static str] {
    match accepts {
        Accepts::JavaScript => &[
            "for (;;);",
            "for (;;) try { for (;;); } catch {} finally { continue }",
            "let n = 3n; for (;;) n = n * n",
            "await Promise.race([tools.hang(), new Promise(() => {})])",
            "const spin = () => Promise.resolve().then(spin); spin(); await tools.hang()",
            "try { await tools.hang() } catch { return 'caught' } finally { return 'finally' }",
            "for (;;) { try { await tools.hang() } catch {} }",
            "/^(a+)+$/.test('a'.repeat(40) + 'b')",
            "({ get a() { for (;;); } })",
            "throw { get message() { for (;;); } }",
        ],
        Accepts::Moves => &["spin", "call hang 1\nstall", "call hang 1\nawait-catch\nreturn 1"],
    }
}

fn timeouts(executor: &Arc<dyn Executor>, accepts: Accepts) {
    for code in endless(accepts) {
        let limits = Limits::default().timeout(Duration::from_millis(60));
        let started = Instant::now();
        let execution = ExecuteRequest::new(*code).provider(tools(&Calls::default())).limits(limits);
        let result = RUNTIME.block_on(executor.execute(execution));
        assert_eq!(result.error().map(|error| error.code), Some(ErrorCode::Timeout), "{code}: {result:?}");
        let cause = result.error().unwrap().cause.as_deref();
        assert!(matches!(cause, Some(Cause::Limit(limit)) if limit.as_timeout().is_some()), "{code}: {cause:?}");
        assert!(started.elapsed() < SOON, "{code}: {:?}", started.elapsed());
        assert!(result.duration >= limits.timeout, "{code}: {:?}", result.duration);
    }
}

fn cancellation(executor: &Arc<dyn Executor>, accepts: Accepts) {
    for code in endless(accepts) {
        let token = CancellationToken::new();
        let (cancel, started) = (token.clone(), Instant::now());
        RUNTIME.spawn(async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            cancel.cancel();
        });
        let execution =
            ExecuteRequest::new(*code).provider(tools(&Calls::default())).limits(generous_limits()).cancellation(token);
        let result = RUNTIME.block_on(executor.execute(execution));
        let error = result.error().unwrap();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, "Execution was cancelled"), "{code}");
        assert_eq!(error.cause.as_deref(), Some(&Cause::Cancelled { reason: None }), "{code}");
        assert!(started.elapsed() < SOON, "{code}");
    }
}

fn cancelled_before(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let (token, calls) = (CancellationToken::new(), Calls::default());
    token.cancel();
    let code = if accepts == Accepts::Moves { "call echo 1" } else { "await tools.echo(1)" };
    let execution = ExecuteRequest::new(code).provider(tools(&calls)).cancellation(token);
    let result = RUNTIME.block_on(executor.execute(execution));
    assert_eq!(result.error().unwrap().code, ErrorCode::Timeout);
    assert!(calls.lock().unwrap().is_empty());
}

/// A tool that reports when its cancellation token fires or its call is dropped.
fn watched() -> (Provider, tokio::sync::mpsc::UnboundedReceiver<&'static str>) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let watch = Tool::new("watch", move |_: Json, context: ToolContext| {
        let sender = sender.clone();
        let _ = sender.send("called");
        let cancellation = context.cancellation;
        tokio::spawn(async move {
            cancellation.cancelled().await;
            let _ = sender.send("cancelled");
        });
        async move { std::future::pending().await }
    });
    (Provider::builder("tools").tool(watch).build().unwrap(), receiver)
}

fn tools_are_cancelled(executor: &Arc<dyn Executor>, accepts: Accepts) {
    if accepts == Accepts::Moves {
        return; // The scripted engine's programs know the tools of the cases only.
    }
    let hanging = "await tools.watch()";
    let done_without_it = "tools.watch(); 'done'";
    let ends = [(hanging, "timeout"), (hanging, "cancel"), (hanging, "drop"), (done_without_it, "done")];
    for (code, how) in ends {
        let (provider, mut receiver) = watched();
        let token = CancellationToken::new();
        // Long enough to reach the call even if a process is started before it.
        let limits =
            if how == "timeout" { generous_limits().timeout(Duration::from_secs(3)) } else { generous_limits() };
        let execution = ExecuteRequest::new(code)
            .wait_for_calls(false)
            .provider(provider)
            .limits(limits)
            .cancellation(token.clone());
        let executor = Arc::clone(executor);
        RUNTIME.block_on(async {
            let task = tokio::spawn(async move { executor.execute(execution).await });
            assert_eq!(receiver.recv().await, Some("called"), "{how}");
            match how {
                "cancel" => token.cancel(),
                "drop" => task.abort(),
                _ => {}
            }
            let cancelled = tokio::time::timeout(SOON, receiver.recv()).await;
            assert_eq!(cancelled, Ok(Some("cancelled")), "{how}");
        });
    }
}

fn many_at_once(executor: &Arc<dyn Executor>, accepts: Accepts) {
    if accepts == Accepts::Moves {
        return; // The scripted engine has no global state.
    }
    let tasks: Vec<_> = (0..50)
        .map(|i| {
            let code = format!(
                "globalThis.mine = {i}; const r = await tools.later(1); console.log(mine); [mine, r, typeof other]"
            );
            let execution = ExecuteRequest::new(code).provider(tools(&Calls::default())).limits(generous_limits());
            let executor = Arc::clone(executor);
            RUNTIME.spawn(async move { (i, executor.execute(execution).await) })
        })
        .collect();
    for task in tasks {
        let (i, result) = RUNTIME.block_on(task).unwrap();
        assert_eq!(result.outcome, Ok(Some(json!([i, 1, "undefined"]))));
        assert_eq!(result.logs, [i.to_string()]);
    }
}

fn duration(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let code = if accepts == Accepts::Moves { "call later 20\nawait\nreturn 1" } else { "await tools.later(20)" };
    let result = RUNTIME.block_on(
        executor.execute(ExecuteRequest::new(code).provider(tools(&Calls::default())).limits(generous_limits())),
    );
    assert!(result.is_ok(), "{result:?}");
    assert!(result.duration >= Duration::from_millis(20) && result.duration < SOON);
    let micros = serde_json::to_value(&result).unwrap()["durationMs"].as_f64().unwrap() * 1000.0;
    assert!(micros >= 20_000.0 && (micros - micros.round()).abs() < 1e-6, "to the microsecond: {micros}");
}

/// The guest never finishes after its last line: the test passes only if the line is delivered during the execution.
fn logs_stream(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let code = match accepts {
        Accepts::JavaScript => {
            "console.log('a', 1); console.warn('b'); await tools.echo(1); console.error('c'); await tools.hang()"
        }
        Accepts::Moves => "log log a 1\nlog warn b\ncall echo 1\nawait\nlog error c\ncall hang 1\nawait",
    };
    let events = Arc::new(Mutex::new(Vec::new()));
    let token = CancellationToken::new();
    let (lines, calls, cancel) = (Arc::clone(&events), Arc::clone(&events), token.clone());
    let on_call = Observer::new(move |event| {
        if let EventKind::CallBegan { call, .. } = event.kind {
            calls.lock().unwrap().push(format!("call {}", call.name));
        }
    });
    let execution = ExecuteRequest::new(code)
        .provider(tools(&Calls::default()))
        .limits(generous_limits())
        .cancellation(token)
        .observer(on_call)
        .on_log(move |line| {
            lines.lock().unwrap().push(format!("{} {}", line.level.as_str(), line.text));
            if line.text == "c" {
                cancel.cancel();
            }
        });
    let result = RUNTIME.block_on(executor.execute(execution));
    assert_eq!(result.error().unwrap().message, "Execution was cancelled");
    let mut events = events.lock().unwrap();
    events.retain(|event| event != "call hang"); // it may precede the cancellation
    assert_eq!(*events, ["log a 1", "warn b", "call echo", "error c"]);
    assert_eq!(result.logs, ["a 1", "b", "c"]);
}
