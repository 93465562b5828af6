//! Cases from files, and the tools that they call.
//!
//! The format of a case:
//!
//! ```text
//! === the title
//! result: JSON | undefined          the result of the execution …
//! error: CODE, part of the message  … or the error, rendered with name and stack
//! thrown: ["NAME" | null, "…"]      the name and the exact message of the error, if they matter
//! cause: {"kind": "stuck"}          a part of the cause of the error, if it matters; `null`
//! at: LINE:COLUMN                   the position of the error, if it matters; `nowhere`
//! logs: ["…"]                       the log, if it matters
//! dropped: 3                        how many lines of the log were dropped, if it matters
//! calls: [["tool", JSON], …]        the calls that reached the host, if they matter
//! limits: {"maxLogLines": 2}        limits that differ from the default
//! usage: {"calls": 2}               a part of the usage, if it matters
//! unawaited: text | none            the sentence about the calls that were not awaited, if it matters
//! waits: false                      the script does not wait for its calls
//! timers: true                      the script has timers
//! globals: false                    the script has no common globals
//! functions: {"lib.f": "code"}      functions of the script
//! moves: log log hi | return 1      the same program for the scripted engine, if it can express it
//! ---
//! the program
//! ```
//!
//! A field `KEY on ENGINE` replaces `KEY` on that engine, and `error on …` replaces `result`.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{ExecuteResult, Limits, Provider, ScriptFunction, Tool, ToolError};
use execbox_testkit::cases::{self, CaseFile};
use serde_json::{Value as Json, json};

/// A case in the format of this [module](self).
#[derive(Clone, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    result: Option<String>,
    error: Option<String>,
    thrown: Option<Json>,
    cause: Option<Json>,
    at: Option<String>,
    logs: Option<Json>,
    dropped: Option<u64>,
    calls: Option<Json>,
    usage: Option<Json>,
    unawaited: Option<String>,
    pub(crate) waits: bool,
    pub(crate) timers: bool,
    pub(crate) globals: bool,
    pub(crate) limits: Limits,
    pub(crate) functions: Vec<ScriptFunction>,
    pub(crate) moves: Option<String>,
    pub(crate) code: String,
}

/// All cases on an engine. Their names are `FILE: TITLE`.
pub(crate) fn cases(engine: &str) -> Vec<Case> {
    let files = CaseFile::read_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract"));
    files.iter().flat_map(|file| file.cases.iter().map(|case| parse(file.name(), case, engine))).collect()
}

fn parse(section: &str, text: &cases::Case, engine: &str) -> Case {
    let name = format!("{section}: {}", text.title);
    let code = text.body().to_owned();
    let mut case = Case { name, code, waits: true, globals: true, limits: generous_limits(), ..Case::default() };
    for (key, value) in text.fields_on(engine) {
        let json =
            || serde_json::from_str::<Json>(&value).unwrap_or_else(|error| panic!("{}: {value}: {error}", case.name));
        match key.as_str() {
            "result" => case.result = Some(value),
            "error" => case.error = Some(value),
            "thrown" => case.thrown = Some(json()),
            "cause" => case.cause = Some(json()),
            "at" => case.at = Some(value),
            "logs" => case.logs = Some(json()),
            "dropped" => case.dropped = json().as_u64(),
            "calls" => case.calls = Some(json()),
            "limits" => case.limits = cases::limits(&json(), generous_limits()),
            "usage" => case.usage = Some(json()),
            "unawaited" => case.unawaited = Some(value),
            "waits" => case.waits = json() == json!(true),
            "timers" => case.timers = json() == json!(true),
            "globals" => case.globals = json() == json!(true),
            "functions" => case.functions = json().as_object().unwrap().iter().map(function).collect(),
            "moves" => case.moves = Some(value.replace(" | ", "\n")),
            _ => panic!("{}: no such key: {key}", case.name),
        }
    }
    assert!(case.result.is_some() != case.error.is_some(), "{}: a result or an error", case.name);
    case
}

fn function((file, code): (&String, &Json)) -> ScriptFunction {
    let (namespace, name) = file.split_once('.').expect("a namespace and a name");
    let [namespace, name, code] = [namespace, name, code.as_str().unwrap()].map(str::to_owned);
    ScriptFunction::new(namespace, name, code)
}

/// The default limits with a timeout that no terminating program here reaches on a busy machine.
pub(crate) fn generous_limits() -> Limits {
    Limits::default().timeout(Duration::from_mins(10))
}

/// The calls that reached the host, in order: `[tool, input]`.
pub(crate) type Calls = Arc<Mutex<Vec<Json>>>;

/// The tools of every case.
pub(crate) fn tools(calls: &Calls) -> Provider {
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
    let crash = Tool::new("crash", async |_, _| execbox_testkit::crash("at /home/secret/tool.rs"));
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

/// Fails with a description of the differences between the result and the expectations.
pub(crate) fn check(case: &Case, result: &ExecuteResult, calls: &Calls) -> Result<(), String> {
    let outcome = match &result.outcome {
        Ok(None) => "undefined".to_owned(),
        Ok(Some(json)) => json.to_string(),
        Err(error) => format!("{}, {}", error.code, error.render()),
    };
    let as_expected = match (&case.result, &case.error, &result.outcome) {
        (Some(expected), _, Ok(_)) if expected == "undefined" => outcome == "undefined",
        (Some(expected), _, Ok(actual)) => actual.as_ref() == serde_json::from_str::<Json>(expected).ok().as_ref(),
        (_, Some(expected), Err(error)) => {
            let (code, part) = expected.split_once(", ").unwrap_or((expected, ""));
            error.code.as_str() == code && error.render().contains(&part.replace("\\n", "\n"))
        }
        _ => false,
    };
    let at = result.error().map(|error| error.position.map_or_else(|| "nowhere".to_owned(), |at| at.to_string()));
    let mut differences = String::new();
    let thrown = result.error().map(|error| json!([error.name, error.message]));
    if case.thrown.is_some() && case.thrown != thrown {
        let _ = write!(differences, "\n  threw {thrown:?}");
    }
    let reported = json!(result.error().map(|error| &error.cause));
    if !case.cause.as_ref().is_none_or(|expected| is_part(expected, &reported)) {
        let _ = write!(differences, "\n  cause {reported}");
    }
    if case.at.is_some() && case.at != at {
        let _ = write!(differences, "\n  position {at:?}");
    }
    if !as_expected {
        let _ = write!(differences, "\n  returned {outcome}");
    }
    if case.logs.as_ref().is_some_and(|logs| *logs != json!(result.logs)) {
        let _ = write!(differences, "\n  logged {:?}", result.logs);
    }
    if case.dropped.is_some_and(|count| count != result.dropped_logs) {
        let _ = write!(differences, "\n  dropped {} lines of the log", result.dropped_logs);
    }
    let calls = json!(*calls.lock().unwrap());
    if case.calls.as_ref().is_some_and(|expected| *expected != calls) {
        let _ = write!(differences, "\n  called {calls}");
    }
    let usage = serde_json::to_value(result.usage).unwrap();
    if !case.usage.as_ref().is_none_or(|expected| is_part(expected, &usage)) {
        let _ = write!(differences, "\n  used {usage}");
    }
    let unawaited = result.unawaited_text().unwrap_or_else(|| "none".to_owned());
    if case.unawaited.as_ref().is_some_and(|expected| *expected != unawaited) {
        let _ = write!(differences, "\n  unawaited {unawaited}");
    }
    if differences.is_empty() { Ok(()) } else { Err(format!("{}{differences}", case.name)) }
}

/// Whether all members of an object are members of another one.
fn is_part(expected: &Json, actual: &Json) -> bool {
    expected
        .as_object()
        .map_or_else(|| expected == actual, |members| members.iter().all(|(key, value)| actual[key] == *value))
}
