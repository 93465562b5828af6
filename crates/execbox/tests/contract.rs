//! The script contract, over every engine: the cases in `contract/*.cases`, one file per section of the
//! runner specification, and what needs a clock or a host of its own, below.
//!
//! A case reads
//!
//! ```text
//! === what it shows
//! result: JSON | undefined          what the execution comes to …
//! error: CODE, part of the message  … or this
//! logs: ["…"]                       the log, if it matters
//! calls: [["tool", JSON], …]        what reached the host, if it matters
//! limits: {"maxLogLines": 2}        other limits than the default
//! moves: log log hi | return 1      the same program for the scripted engine, if it can be told there
//! ---
//! the program
//! ```

#[path = "../../core/tests/scripted/mod.rs"]
mod scripted;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use execbox::{
    CancellationToken, Connection, ErrorCode, ExecuteResult, Execution, Executor, InlineExecutor, Limits, Provider,
    RemoteExecutor, Runner, Tool, ToolError,
};
use scripted::{Moves, Scripted, ThreadBound};
use serde_json::{Value as Json, json};

// ---- Cases from files -----------------------------------------------------------------------------

#[derive(Default)]
struct Case {
    name: String,
    result: Option<String>,
    error: Option<String>,
    logs: Option<Json>,
    calls: Option<Json>,
    limits: Limits,
    moves: Option<String>,
    code: String,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            let section = file.file_stem().unwrap().to_string_lossy().into_owned();
            let cases: Vec<Case> =
                format!("\n{text}").split("\n=== ").skip(1).map(|text| parse(&section, text)).collect();
            assert!(!cases.is_empty(), "{section} has no case");
            cases
        })
        .collect()
}

fn parse(section: &str, text: &str) -> Case {
    let (head, code) = text.split_once("\n---\n").unwrap_or_else(|| panic!("{section}: no `---` in {text}"));
    let mut lines = head.lines();
    let name = format!("{section}: {}", lines.next().unwrap());
    let mut case = Case { name, code: code.trim_end_matches('\n').to_owned(), ..Case::default() };
    for line in lines {
        let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("{}: {line}", case.name));
        let json =
            || serde_json::from_str::<Json>(value).unwrap_or_else(|error| panic!("{}: {line}: {error}", case.name));
        match key {
            "result" => case.result = Some(value.to_owned()),
            "error" => case.error = Some(value.to_owned()),
            "logs" => case.logs = Some(json()),
            "calls" => case.calls = Some(json()),
            "limits" => case.limits = limits(&json()),
            "moves" => case.moves = Some(value.replace(" | ", "\n")),
            _ => panic!("{}: no such key: {key}", case.name),
        }
    }
    assert!(case.result.is_some() != case.error.is_some(), "{}: a result or an error", case.name);
    case
}

fn limits(json: &Json) -> Limits {
    let mut limits = Limits::default();
    for (key, value) in json.as_object().unwrap() {
        let value = value.as_u64().unwrap();
        let count = || usize::try_from(value).unwrap();
        match key.as_str() {
            "timeoutMs" => limits.timeout = Duration::from_millis(value),
            "memoryLimitBytes" => limits.memory_bytes = value,
            "maxLogLines" => limits.max_log_lines = count(),
            "maxLogChars" => limits.max_log_chars = count(),
            _ => panic!("no such limit: {key}"),
        }
    }
    limits
}

type Calls = Arc<Mutex<Vec<Json>>>;

/// The tools of every case.
fn tools(calls: &Calls) -> Provider {
    let record = |name: &'static str| {
        let calls = Arc::clone(calls);
        move |input: &Json| calls.lock().unwrap().push(json!([name, input]))
    };
    let (echo, add, later) = (record("echo"), record("add"), record("later"));
    let echo = Tool::new("echo", move |input, _| {
        echo(&input);
        async move { Ok(input) }
    });
    let add = Tool::new("add-numbers", move |input: Json, _| {
        add(&input);
        async move { Ok(json!(input["a"].as_i64().unwrap() + input["b"].as_i64().unwrap())) }
    });
    let later = Tool::new("later", move |input: Json, _| {
        later(&input);
        async move {
            tokio::time::sleep(Duration::from_millis(input.as_u64().unwrap_or(1))).await;
            Ok(input)
        }
    });
    let fail = Tool::new("fail", async |_, _| Err(ToolError::new("the disk is full")));
    let crash = Tool::new("crash", async |_, _| panic!("at /home/secret/tool.rs"));
    let wrong = Tool::new("wrong", async |_, _| Ok(json!({ "count": "many" })));
    let deep = Tool::new("deep", async |_, _| Ok((0..200).fold(json!(1), |inner, _| json!([inner]))));
    let proto = Tool::new("proto", async |_, _| Ok(json!({ "__proto__": { "admin": true }, "then": "a word" })));
    let hang = Tool::new("hang", async |_, _| std::future::pending().await);
    Provider::builder("tools")
        .tools([
            echo,
            add.input_schema(json!({
                "type": "object",
                "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
                "required": ["a", "b"]
            })),
            later,
            fail,
            crash,
            wrong.output_schema(json!({ "type": "object", "properties": { "count": { "type": "integer" } } })),
            deep,
            proto,
            hang,
            Tool::new("then", async |_, _| Ok(json!("then_"))),
            Tool::new("scrape-url", async |_, _| Ok(json!("scraped"))),
            Tool::new("scrape url", async |_, _| Ok(json!("scraped, the second"))),
        ])
        .build()
        .unwrap()
}

fn check(case: &Case, result: &ExecuteResult, calls: &Calls) -> Result<(), String> {
    let outcome = match &result.outcome {
        Ok(None) => "undefined".to_owned(),
        Ok(Some(json)) => json.to_string(),
        Err(error) => format!("{}, {}", error.code, error.message),
    };
    let as_expected = match (&case.result, &case.error, &result.outcome) {
        (Some(expected), _, Ok(_)) if expected == "undefined" => outcome == "undefined",
        (Some(expected), _, Ok(actual)) => actual.as_ref() == serde_json::from_str::<Json>(expected).ok().as_ref(),
        (_, Some(expected), Err(error)) => {
            let (code, part) = expected.split_once(", ").unwrap_or((expected, ""));
            error.code.as_str() == code && error.message.contains(&part.replace("\\n", "\n"))
        }
        _ => false,
    };
    let mut wrong = String::new();
    if !as_expected {
        let _ = write!(wrong, "\n  came to {outcome}");
    }
    if case.logs.as_ref().is_some_and(|logs| *logs != json!(result.logs)) {
        let _ = write!(wrong, "\n  logged {:?}", result.logs);
    }
    let calls = json!(*calls.lock().unwrap());
    if case.calls.as_ref().is_some_and(|expected| *expected != calls) {
        let _ = write!(wrong, "\n  called {calls}");
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}{wrong}", case.name)) }
}

async fn run_all(executor: &dyn Executor, code_of: impl Fn(&Case) -> Option<&str>) {
    let mut failures = Vec::new();
    let mut ran = 0;
    for case in cases() {
        let Some(code) = code_of(&case) else { continue };
        let calls = Calls::default();
        let execution = Execution::new(code).provider(tools(&calls)).limits(case.limits);
        let result = executor.execute(execution).await;
        ran += 1;
        failures.extend(check(&case, &result, &calls).err());
    }
    assert!(failures.is_empty(), "{} of {ran} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(ran >= 10, "only {ran} cases ran");
}

/// A runner behind a pipe in memory, so narrow that every message crosses in pieces.
fn remote(runner: Runner) -> RemoteExecutor {
    RemoteExecutor::new(move || {
        let runner = runner.clone();
        async move {
            let (here, there) = tokio::io::duplex(37);
            let (reader, writer) = tokio::io::split(there);
            tokio::spawn(async move { runner.serve(reader, writer).await });
            let (reader, writer) = tokio::io::split(here);
            Ok(Connection::new(reader, writer))
        }
    })
}

fn quickjs() -> InlineExecutor {
    static EXECUTOR: std::sync::OnceLock<InlineExecutor> = std::sync::OnceLock::new();
    EXECUTOR.get_or_init(|| InlineExecutor::new().unwrap()).clone()
}

#[tokio::test]
async fn the_contract_on_quickjs() {
    run_all(&quickjs(), |case| Some(&case.code)).await;
}

#[tokio::test]
async fn the_contract_on_a_scripted_engine() {
    let executor = InlineExecutor::with(Arc::new(Scripted), Arc::new(Moves));
    run_all(&executor, |case| case.moves.as_deref()).await;
}

#[tokio::test]
async fn the_contract_on_an_engine_bound_to_a_thread() {
    let executor = InlineExecutor::with(Arc::new(ThreadBound(Arc::new(Scripted))), Arc::new(Moves));
    run_all(&executor, |case| case.moves.as_deref()).await;
}

#[tokio::test]
async fn the_contract_on_quickjs_behind_the_protocol() {
    run_all(&remote(Runner::new().unwrap()), |case| Some(&case.code)).await;
}

#[tokio::test]
async fn the_contract_on_a_scripted_engine_behind_the_protocol() {
    let runner = Runner::with(Arc::new(Scripted), Arc::new(Moves));
    run_all(&remote(runner), |case| case.moves.as_deref()).await;
}

// ---- Time, cancellation, and what the host sees ---------------------------------------------------

/// Programs that compute or wait for ever, for QuickJS and for the scripted engine.
fn endless() -> Vec<(Arc<dyn Executor>, &'static str)> {
    let engines: [Arc<dyn Executor>; 2] = [Arc::new(quickjs()), Arc::new(remote(Runner::new().unwrap()))];
    let scripted: [Arc<dyn Executor>; 2] = [
        Arc::new(InlineExecutor::with(Arc::new(Scripted), Arc::new(Moves))),
        Arc::new(remote(Runner::with(Arc::new(Scripted), Arc::new(Moves)))),
    ];
    let code = [
        "for (;;);",
        "for (;;) try { for (;;); } catch {} finally { continue }",
        "await new Promise(() => {})",
        "await { then() {} }",
        "const spin = () => Promise.resolve().then(spin); spin(); await tools.hang()",
        "try { await tools.hang() } catch { return 'caught' } finally { return 'finally' }",
        "for (;;) { try { await tools.hang() } catch {} }",
        "/^(a+)+$/.test('a'.repeat(40) + 'b')",
        "({ get a() { for (;;); } })",
        "throw { get message() { for (;;); } }",
    ];
    let moves = ["spin", "stall", "call hang 1\nawait-catch\nreturn 1"];
    let all = |executors: &[Arc<dyn Executor>], programs: &[&'static str]| -> Vec<_> {
        executors.iter().flat_map(|e| programs.iter().map(|code| (Arc::clone(e), *code)).collect::<Vec<_>>()).collect()
    };
    [all(&engines, &code), all(&scripted, &moves)].concat()
}

#[tokio::test]
async fn error_mapping_rules_timeout_is_for_real_timeouts_and_nothing_swallows_it() {
    for (executor, code) in endless() {
        let limits = Limits { timeout: Duration::from_millis(60), ..Limits::default() };
        let started = Instant::now();
        let result = executor.execute(Execution::new(code).provider(tools(&Calls::default())).limits(limits)).await;
        assert_eq!(result.error().map(|error| error.code), Some(ErrorCode::Timeout), "{code}: {result:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{code}: {:?}", started.elapsed());
        assert!(result.duration >= limits.timeout, "{code}: {:?}", result.duration);
    }
}

#[tokio::test]
async fn cancellation_a_cancelled_execution_ends_at_once_as_a_timeout_and_keeps_its_logs() {
    for (executor, code) in endless() {
        let token = CancellationToken::new();
        let (cancel, started) = (token.clone(), Instant::now());
        let canceller = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            cancel.cancel();
        });
        let execution = Execution::new(code).provider(tools(&Calls::default())).cancellation(token);
        let result = executor.execute(execution).await;
        let error = result.error().unwrap();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, "Execution was cancelled"), "{code}");
        assert!(started.elapsed() < Duration::from_secs(4), "{code}");
        canceller.await.unwrap();
    }
}

#[tokio::test]
async fn cancellation_before_the_start_runs_nothing() {
    let (token, calls) = (CancellationToken::new(), Calls::default());
    token.cancel();
    let execution = Execution::new("await tools.echo(1)").provider(tools(&calls)).cancellation(token);
    let result = quickjs().execute(execution).await;
    assert_eq!(result.error().unwrap().code, ErrorCode::Timeout);
    assert!(calls.lock().unwrap().is_empty());
}

/// A tool that reports when its cancellation token fires or its call is dropped.
fn watched() -> (Provider, tokio::sync::mpsc::UnboundedReceiver<&'static str>) {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let watch = Tool::new("watch", move |_: Json, context: execbox::ToolContext| {
        let tell = tell.clone();
        let _ = tell.send("called");
        let (cancellation, told) = (context.cancellation, tell.clone());
        tokio::spawn(async move {
            cancellation.cancelled().await;
            let _ = told.send("cancelled");
        });
        async move { std::future::pending().await }
    });
    (Provider::builder("tools").tool(watch).build().unwrap(), told)
}

#[tokio::test]
async fn tools_are_cancelled_however_the_execution_ends() {
    let hanging = "await tools.watch()";
    let done_without_it = "tools.watch(); 'done'";
    let executors: [Arc<dyn Executor>; 2] = [Arc::new(quickjs()), Arc::new(remote(Runner::new().unwrap()))];
    let ends = [(hanging, "timeout"), (hanging, "cancel"), (hanging, "drop"), (done_without_it, "done")];
    for (executor, (code, how)) in executors.iter().flat_map(|executor| ends.map(|end| (Arc::clone(executor), end))) {
        let (provider, mut told) = watched();
        let token = CancellationToken::new();
        let limits =
            Limits { timeout: Duration::from_millis(if how == "timeout" { 50 } else { 10_000 }), ..Limits::default() };
        let execution = Execution::new(code).provider(provider).limits(limits).cancellation(token.clone());
        let task = tokio::spawn(async move { executor.execute(execution).await });
        assert_eq!(told.recv().await, Some("called"), "{how}");
        match how {
            "cancel" => token.cancel(),
            "drop" => task.abort(),
            _ => {}
        }
        let cancelled = tokio::time::timeout(Duration::from_secs(5), told.recv()).await;
        assert_eq!(cancelled, Ok(Some("cancelled")), "{how}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_guest_that_computes_does_not_stop_the_other_tasks_of_its_thread() {
    let ticks = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ticks);
    let ticker = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(2)).await;
            seen.lock().unwrap().push(Instant::now());
        }
    });
    let limits = Limits { timeout: Duration::from_millis(600), ..Limits::default() };
    let result = quickjs().execute(Execution::new("for (;;);").limits(limits)).await;
    ticker.abort();
    assert_eq!(result.error().unwrap().code, ErrorCode::Timeout);
    let ticks = ticks.lock().unwrap();
    assert!(ticks.len() > 30, "the other task ran only {} times in 600 ms", ticks.len());
}

#[tokio::test]
async fn logs_stream_while_the_guest_runs() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let sink = move |line: &execbox::LogLine| drop(tell.send(line.text.clone()));
    let code = "console.log('one'); await tools.later(1); console.warn('two'); for (;;);";
    let limits = Limits { timeout: Duration::from_millis(300), ..Limits::default() };
    let execution = Execution::new(code).provider(tools(&Calls::default())).limits(limits).on_log(sink);
    let task = tokio::spawn(async move { quickjs().execute(execution).await });
    assert_eq!(told.recv().await.as_deref(), Some("one"));
    assert_eq!(told.recv().await.as_deref(), Some("two"));
    assert!(!task.is_finished(), "the lines came before the end");
    assert_eq!(task.await.unwrap().logs, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_executions_at_once_do_not_meet() {
    let tasks: Vec<_> = (0..200)
        .map(|i| {
            let code = format!(
                "globalThis.mine = {i}; const r = await tools.later(1); console.log(mine); [mine, r, typeof other]"
            );
            let execution = Execution::new(code).provider(tools(&Calls::default()));
            tokio::spawn(async move { (i, quickjs().execute(execution).await) })
        })
        .collect();
    for task in tasks {
        let (i, result) = task.await.unwrap();
        assert_eq!(result.outcome, Ok(Some(json!([i, 1, "undefined"]))));
        assert_eq!(result.logs, [i.to_string()]);
    }
}

#[tokio::test]
async fn inputs_to_the_runner_provider_names_are_checked_before_anything_runs() {
    let provider = || Provider::builder("tools").build().unwrap();
    let result = quickjs().execute(Execution::new("1").provider(provider()).provider(provider())).await;
    let error = result.error().unwrap();
    assert_eq!(error.code, ErrorCode::InternalError);
    assert_eq!(error.message, "two providers are named \"tools\": give each its own name");
}

#[tokio::test]
async fn duration_is_wall_time_to_the_microsecond() {
    let result = quickjs().execute(Execution::new("await tools.later(20)").provider(tools(&Calls::default()))).await;
    assert!(result.duration >= Duration::from_millis(20) && result.duration < Duration::from_secs(5));
    let wire = serde_json::to_value(&result).unwrap();
    assert!(wire["durationMs"].as_f64().is_some_and(|ms| ms >= 20.0 && (ms * 1000.0).fract().abs() < 1e-6));
}

#[test]
fn without_a_runtime_the_error_says_so() {
    let result = futures_util::FutureExt::now_or_never(quickjs().execute(Execution::new("1"))).unwrap();
    assert_eq!(result.error().unwrap().message, "the inline executor needs a tokio runtime with time enabled");
}
