//! Providers and tools: names, schemas, typed tools, and the context of a call.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use execbox::code::CodeExecutionOptions;
use execbox::events::{EventKind, Observer, ToolProgress};
use execbox::policy::{Decision, Policy};
use execbox::{
    CancellationToken, Effect, ErrorCode, ExecuteRequest, ExecuteResult, Executor, InlineExecutor, Provider,
    ProviderError, Tool, ToolContext, ToolError, WorkerExecutor,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

async fn run(providers: impl IntoIterator<Item = Provider>, code: &str) -> ExecuteResult {
    let executor = InlineExecutor::new().unwrap();
    executor.execute(ExecuteRequest::new(code).providers(providers)).await
}

fn failure(result: &ExecuteResult) -> (ErrorCode, &str) {
    let error = result.error().unwrap();
    (error.code, &error.message)
}

/// A range of integers.
#[derive(Deserialize, JsonSchema)]
struct Range {
    /// The first one.
    from: u32,
    to: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: u32,
}

fn typed() -> Provider {
    let sum = Tool::typed("sum-up", async |range: Range, _| {
        let to = range.to.unwrap_or(10);
        if range.from > to {
            return Err(ToolError::invalid("`from` is greater than `to`"));
        }
        Ok(Sum { sum: (range.from..=to).sum() })
    });
    let parse = Tool::typed("parse", async |text: String, _| Ok(text.parse::<u32>()?));
    Provider::builder("math").tool(sum.description("Adds up a range")).tool(parse).build().unwrap()
}

#[tokio::test]
async fn a_typed_tool_converts_input_and_result() {
    let result = run(
        [typed()],
        "[await math.sum_up({ from: 1, to: 3 }), await math.sum_up({ from: 9 }), await math.parse('7')]",
    );
    assert_eq!(result.await.outcome, Ok(Some(json!([{ "sum": 6 }, { "sum": 19 }, 7]))));
}

#[tokio::test]
async fn infinite_results_of_a_typed_tool_are_serialization_errors() {
    let divide = Tool::typed("divide", async |(a, b): (f64, f64), _| Ok(vec![Some(a / b), None]));
    let provider = Provider::builder("math").tool(divide).build().unwrap();
    let result = run([provider.clone()], "await math.divide([1, 0])").await;
    let message = "the result is not JSON: result[0] is infinite; use null or a finite number";
    assert_eq!(failure(&result), (ErrorCode::SerializationError, message));
    let caught = "try { await math.divide([0, 0]) } catch (error) { [error.code, (await math.divide([3, 2]))] }";
    assert_eq!(run([provider], caught).await.outcome, Ok(Some(json!(["serialization_error", [1.5, null]]))));
}

#[tokio::test]
async fn the_input_of_a_typed_tool_is_validated() {
    let result = run([typed()], "await math.sum_up({ to: 'x' })").await;
    let (code, message) = failure(&result);
    assert_eq!(code, ErrorCode::ValidationError);
    assert!(message.starts_with("Invalid input for math.sum_up: "), "{message}");
    assert!(message.contains("\"from\" is a required property") && message.contains("input.to"), "{message}");

    let result = run([typed()], "await math.sum_up({ from: -1 })").await;
    assert_eq!(failure(&result).0, ErrorCode::ValidationError);
}

#[tokio::test]
async fn an_error_of_a_typed_tool_becomes_a_tool_error_with_its_message() {
    let result = run([typed()], "await math.parse('seven')").await;
    assert_eq!(failure(&result), (ErrorCode::ToolError, "invalid digit found in string"));
    let result = run([typed()], "await math.sum_up({ from: 5, to: 1 })").await;
    assert_eq!(failure(&result), (ErrorCode::ValidationError, "`from` is greater than `to`"));
}

#[tokio::test]
async fn tools_share_state() {
    struct Stock {
        pens: Mutex<u32>,
    }
    let stock = Arc::new(Stock { pens: Mutex::new(1) });
    let add = Tool::typed_with_state("add", Arc::clone(&stock), async |stock, count: u32, _| {
        *stock.pens.lock().unwrap() += count;
        tokio::task::yield_now().await;
        Ok(())
    });
    let count = Tool::with_state("count", stock, async |stock, _, _| Ok(json!(*stock.pens.lock().unwrap())));
    let provider = Provider::builder("stock").tool(add).tool(count).build().unwrap();
    let result = run([provider], "await stock.add(2); await stock.add(3); await stock.count()").await;
    assert_eq!(result.outcome, Ok(Some(json!(6))));
}

#[tokio::test]
async fn question_mark_converts_errors_boxed_errors_anyhow_and_texts() {
    fn boxed() -> Result<u32, Box<dyn Error + Send + Sync>> {
        Ok("x".parse()?)
    }
    fn anyhow() -> anyhow::Result<u32> {
        "x".parse().context("no count")
    }
    let fail = Tool::typed("fail", async |how: String, _| {
        Ok(match how.as_str() {
            "error" => "x".parse()?,
            "boxed" => boxed()?,
            "anyhow" => anyhow()?,
            "text" => None.ok_or("no text")?,
            "string" => Err(format!("{how} is no number"))?,
            _ => Err(ToolError::invalid("unknown way"))?,
        })
    });
    let provider = Provider::builder("t").tool(fail).build().unwrap();
    let code = "const caught = (how) => t.fail(how).catch((error) => `${error.code}: ${error.message}`);
        await Promise.all(['error', 'boxed', 'anyhow', 'text', 'string', 'other'].map(caught))";
    let expected = json!([
        "tool_error: invalid digit found in string",
        "tool_error: invalid digit found in string",
        "tool_error: no count",
        "tool_error: no text",
        "tool_error: string is no number",
        "validation_error: unknown way",
    ]);
    assert_eq!(run([provider], code).await.outcome, Ok(Some(expected)));
}

#[tokio::test]
async fn a_typed_tool_without_input_takes_no_argument() {
    let now = Tool::typed("now", async |(): (), _| Ok(5));
    let provider = Provider::builder("clock").tool(now).build().unwrap();
    assert!(provider.types().contains("function now(): Promise<number>"), "{}", provider.types());
    let result = run([provider.clone()], "[await clock.now(), await clock.now({})]").await;
    assert_eq!(result.outcome, Ok(Some(json!([5, 5]))));
    assert_eq!(failure(&run([provider], "await clock.now(7)").await).0, ErrorCode::ValidationError);
}

#[test]
fn declarations_of_a_typed_tool_match_its_types() {
    let types = typed().types().to_owned();
    for part in [
        "declare namespace math {",
        "Adds up a range",
        "function sum_up(input: {",
        "from: number",
        "to?: number | null",
        "Promise<{",
    ] {
        assert!(types.contains(part), "{part:?} is not in\n{types}");
    }
}

#[tokio::test]
async fn calls_are_dispatched_by_provider_and_tool_name() {
    let answering = |text: &'static str| Tool::new("who", move |_: Json, _| async move { Ok(json!(text)) });
    let first = Provider::builder("first")
        .tool(Tool::new("other", async |_, _| Ok(json!("first.other"))))
        .tool(answering("first.who"));
    let second = Provider::builder("second").tool(answering("second.who"));
    let providers = [first.build().unwrap(), second.build().unwrap()];
    let result = run(providers, "[await second.who(), await first.other(), await first.who()]").await;
    assert_eq!(result.outcome, Ok(Some(json!(["second.who", "first.other", "first.who"]))));
}

#[tokio::test]
async fn a_call_reaches_its_tool_among_more_than_16_bits_count() {
    let tool = |number: u32| Tool::new(format!("t{number}"), move |_, _| async move { Ok(json!(number)) });
    let many = Provider::builder("many").tools((0..70_000).map(tool)).build().unwrap();
    let code = "Promise.all([many.t0(), many.t65535(), many.t65536(), many.t65537(), many.t69999()])";
    let result = run([many], code).await;
    assert_eq!(result.outcome, Ok(Some(json!([0, 65_535, 65_536, 65_537, 69_999]))));
}

#[tokio::test]
async fn the_tool_context_contains_provider_and_tool_names() {
    let seen: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let keep = Arc::clone(&seen);
    let tool = Tool::new("scrape-url", move |_: Json, context| {
        *keep.lock().unwrap() = Some(context);
        async { Ok(json!(null)) }
    });
    let provider = Provider::builder("web").tool(tool).build().unwrap();
    assert!(run([provider], "await web.scrape_url({})").await.is_ok());
    let context = seen.lock().unwrap().take().unwrap();
    assert_eq!((&*context.provider, &*context.safe_name, &*context.original_name), ("web", "scrape_url", "scrape-url"));
    assert!(context.cancellation.is_cancelled(), "the execution is over");
}

#[tokio::test]
async fn tools_report_progress_until_the_execution_ends() {
    let seen: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let keep = Arc::clone(&seen);
    let half = ToolProgress::new(1.0).total(2.0).message("half".to_owned());
    let progress = half.clone();
    let tool = Tool::new("copy-all", move |_: Json, context: ToolContext| {
        context.report(&progress);
        *keep.lock().unwrap() = Some(context);
        async { Ok(json!(null)) }
    });
    let provider = Provider::builder("disk").tool(tool).build().unwrap();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reports);
    let observer = Observer::new(move |event| {
        if let EventKind::CallProgress { call, progress, .. } = event.kind {
            sink.lock().unwrap().push((call.to_string(), progress.clone()));
        }
    });
    let request = ExecuteRequest::new("await disk.copy_all({})").provider(provider).observer(observer);
    assert!(InlineExecutor::new().unwrap().execute(request).await.is_ok());
    seen.lock().unwrap().take().unwrap().report(&half); // too late
    assert_eq!(*reports.lock().unwrap(), [("disk.copy_all".to_owned(), half)]);
}

#[test]
fn safe_and_original_names_map_to_each_other() {
    let tool = |name: &str| Tool::new(name, async |_, _| Ok(json!(null)));
    let provider = Provider::builder("p").tools(["a-b", "a.b", "delete"].map(tool)).build().unwrap();
    for (original, safe) in [("a-b", "a_b"), ("a.b", "a_b__2"), ("delete", "delete_")] {
        assert_eq!(provider.safe_name(original), Some(safe));
        assert_eq!(provider.original_name(safe), Some(original));
    }
    assert_eq!((provider.safe_name("a_b"), provider.original_name("a-b")), (None, None));
    let manifest = provider.manifest();
    assert_eq!(manifest.tools[1].original_name, "a.b");
    assert_eq!(manifest.types, provider.types());
}

#[test]
fn invalid_providers_are_rejected_with_a_reason() {
    let tool = || Tool::new("t", async |_, _| Ok(json!(null)));
    let reason = |built: Result<Provider, ProviderError>| built.unwrap_err().to_string();
    assert_eq!(
        reason(Provider::builder("my-tools").build()),
        "invalid provider name \"my-tools\": expected letters, digits, `_` and `$`, not starting with a digit, and not a \
         reserved word"
    );
    assert_eq!(
        reason(Provider::builder("Math").build()),
        "invalid provider name \"Math\": it would hide the global `Math`; use another name"
    );
    assert_eq!(
        reason(Provider::builder("p").tool(tool()).tool(tool()).build()),
        "duplicate tool \"t\" in provider \"p\""
    );
    let schema = reason(Provider::builder("p").tool(tool().output_schema(json!({ "type": 5 }))).build());
    assert!(schema.starts_with("the output schema of tool \"t\" is not a valid JSON Schema: "), "{schema}");
}

/// A call without a program is an execution: it has a context, events and an end, whatever ends it.
/// A part has the names of the whole, also those that depend on other tools, and nothing else of it.
#[tokio::test]
async fn a_part_of_a_provider_has_only_the_tools_that_are_kept() {
    let tool = |name: &'static str| Tool::new(name, move |_, _| async move { Ok(json!(name)) });
    let denied = Policy::new().rule(|call| (call.name() == "api.a_b__2").then(|| Decision::Deny("no".to_owned())));
    let whole = Provider::builder("api").tools(["a_b", "a-b", "other"].map(tool)).build().unwrap().with_policy(&denied);
    let part = whole.only(|tool, effect| tool.original_name != "a_b" && effect == Effect::Unstated);
    assert_eq!((part.safe_name("a-b"), part.safe_name("a_b")), (Some("a_b__2"), None));
    assert!(!part.types().contains("a_b("), "{}", part.types());
    let result = run([part.clone()], "[Object.keys(api), await api.other()]").await;
    assert_eq!(result.outcome, Ok(Some(json!([["a_b__2", "other"], "other"]))));
    assert_eq!(failure(&run([part.clone()], "await api.a_b__2()").await).1, "not allowed: no");
    let missing = run([part], "await api.a_b()").await;
    assert!(failure(&missing).1.contains("api.a_b is not a function"), "{missing:?}");
}

#[tokio::test]
async fn a_direct_call_is_an_execution_of_its_own() {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let observer = || {
        let events = Arc::clone(&events);
        Observer::new(move |event| {
            events.lock().unwrap().push(match event.kind {
                EventKind::Accepted => "accepted".to_owned(),
                EventKind::Started => "started".to_owned(),
                EventKind::CallBegan { call, .. } => format!("{call} began"),
                EventKind::CallProgress { progress, .. } => format!("{} done", progress.done),
                EventKind::CallDecided { verdict, .. } => format!("{verdict:?}"),
                EventKind::CallEnded { .. } => "call ended".to_owned(),
                EventKind::Ended(end) => format!("ended: {}", if end.is_ok() { "ok" } else { "failed" }),
                _ => "other".to_owned(),
            });
        })
    };
    let report = Tool::new("report", async |_, context: ToolContext| {
        context.report(&ToolProgress::new(0.5));
        Ok(json!([context.attached::<u8>(), context.attached::<&str>()]))
    });
    let wait = Tool::new("wait-long", async |_, _: ToolContext| std::future::pending().await);
    let jobs = Provider::builder("jobs").tools([report, wait]).build().unwrap();
    let asking = jobs.with_policy(&Policy::new().rule(|_| Some(Decision::Allow)));

    let call = asking.direct_call("report", None).unwrap().observer(observer()).attach(7_u8).attach("text");
    assert_eq!(call.execute().await.outcome, Ok(Some(json!([7, "text"]))));
    let expected = ["accepted", "started", "jobs.report began", "Allowed", "0.5 done", "call ended", "ended: ok"];
    assert_eq!(std::mem::take(&mut *events.lock().unwrap()), expected);

    let token = CancellationToken::new();
    let call = jobs.direct_call("wait_long", None).unwrap().observer(observer()).cancellation(token.clone());
    let (result, ()) = tokio::join!(call.execute(), async { token.cancel() });
    assert_eq!(failure(&result), (ErrorCode::Timeout, "Execution was cancelled"));
    let expected = ["accepted", "started", "jobs.wait_long began", "call ended", "ended: failed"];
    assert_eq!(std::mem::take(&mut *events.lock().unwrap()), expected);

    let call = jobs.direct_call("wait_long", None).unwrap().observer(observer()).execute();
    assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    assert_eq!(std::mem::take(&mut *events.lock().unwrap()), expected);
    assert_eq!(jobs.direct_call("nope", None).unwrap_err().code, ErrorCode::ToolError);
}

/// A charge for the memory of a result must not end before the result is converted, nor last while the program computes.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_holds_is_kept_until_its_result_is_passed_on() {
    let code = "await tools.hold(); await tools.count()";
    let module = "import { hold, count } from 'tools'; await hold(); export default await count()";
    let executors: [Arc<dyn Executor>; 2] =
        [Arc::new(InlineExecutor::new().unwrap()), Arc::new(WorkerExecutor::new().unwrap())];
    for executor in executors {
        let state = Arc::new(());
        let alive = Arc::downgrade(&state);
        let hold = Tool::with_state("hold", state, async |held, _, context| {
            context.hold(held);
            Ok(Json::Null)
        });
        let count = Tool::with_state("count", alive.clone(), async |alive, _, _| Ok(json!(alive.strong_count() - 1)));
        let tools = Provider::builder("tools").tool(hold).tool(count).build().unwrap();
        let at_end = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&at_end);
        let observer = Observer::new(move |event| {
            if let EventKind::CallEnded { .. } = event.kind {
                seen.lock().unwrap().push(alive.strong_count() - 1);
            }
        });
        let request = ExecuteRequest::new(code).provider(tools.clone()).observer(observer.clone());
        assert_eq!(executor.execute(request).await.outcome, Ok(Some(json!(0))));
        let options = CodeExecutionOptions::new().provider(tools).observer(observer);
        assert_eq!(executor.run_code(module, options).await.value(), Ok(0));
        assert_eq!(*at_end.lock().unwrap(), [1, 0, 1, 0]);
    }
}
