//! The events of executions, on every executor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::events::{
    Awaited, CallEnd, CallId, Event, EventKind, ExecutionEnd, ExecutionId, LogEntry, Observer, ToolProgress,
};
use execbox::policy::{Decision, Policy};
use execbox::{CancellationToken, ExecuteRequest, Executor, Provider, Tool, ToolContext};
use libtest_mimic::Trial;
use serde_json::{Value as Json, json};

use crate::Test;
use crate::approvals::Person;
use crate::cases::{Calls, generous_limits, tools};
use crate::executors::{Accepts, NamedExecutor, RUNTIME};

pub(crate) fn trials(executors: &[NamedExecutor]) -> Vec<Trial> {
    let tests: &[(&str, Test)] = &[
        ("events: all that happens, in order", in_order),
        ("events: a cancelled execution drops its calls before its end", cancelled),
        ("events: an execution that its caller drops has an end", dropped),
        ("events: decisions, waiting and progress lie within their call", within_calls),
        ("events: each observer receives all events, also beside one that panics", several_observers),
        ("events: contexts of tools have the ids of their events", ids),
    ];
    crate::trials(executors, tests)
}

/// Records events as text, with the execution of each.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(ExecutionId, String)>>>);

impl Recorder {
    fn observer(&self) -> Observer {
        let events = Arc::clone(&self.0);
        Observer::new(move |event| events.lock().unwrap().push((event.execution, text(event))))
    }

    /// The events so far, which are of one execution.
    fn texts(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        assert!(events.windows(2).all(|pair| pair[0].0 == pair[1].0), "{events:?}");
        events.iter().map(|(_, text)| text.clone()).collect()
    }
}

fn text(event: &Event<'_>) -> String {
    match event.kind {
        EventKind::Accepted => "accepted".to_owned(),
        EventKind::Started => "started".to_owned(),
        EventKind::Log(LogEntry::Line(line)) => format!("{}: {}", line.level.as_str(), line.text),
        EventKind::CallBegan { call, input_bytes, .. } => format!("{call} began: {input_bytes} bytes"),
        EventKind::CallProgress { call, progress, .. } => format!("{call} progress: {}", progress.done),
        EventKind::CallWaiting { call, awaited: Awaited::Approval, .. } => format!("{call} waits for its approval"),
        EventKind::CallWaiting { call, .. } => format!("{call} waits for an answer"),
        EventKind::CallResumed { call, .. } => format!("{call} resumed"),
        EventKind::CallDecided { call, verdict, .. } => format!("{call} decided: {verdict:?}"),
        EventKind::CallEnded { call, end, .. } => match end {
            CallEnd::Returned { bytes, .. } => format!("{call} returned: {bytes} bytes"),
            CallEnd::Failed { code, message, .. } => format!("{call} failed: {}: {message}", code.as_str()),
            end => format!("{call} ended: {end:?}"),
        },
        EventKind::Ended(ExecutionEnd::Script(result)) => match &result.outcome {
            Ok(value) => format!("ended: {}, {} calls", json!(value), result.usage.calls),
            Err(error) => format!("ended: {}", error.message),
        },
        EventKind::Ended(end) => format!("ended: {end:?}"),
        other => format!("{other:?}"),
    }
}

fn execute(executor: &Arc<dyn Executor>, request: ExecuteRequest) -> Vec<String> {
    let recorder = Recorder::default();
    RUNTIME.block_on(executor.execute(request.observer(recorder.observer())));
    recorder.texts()
}

fn in_order(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let code = match accepts {
        Accepts::JavaScript => {
            "console.log('a', 1); const x = await tools.echo([1, 2]); console.warn('b');
             await tools.add_numbers({ a: 1 }).catch(() => {}); await tools.later(5)"
        }
        Accepts::Moves => "log log a 1\ncall echo [1,2]\nawait\nlog warn b\nreturn 5",
    };
    let request = ExecuteRequest::new(code).provider(tools(&Calls::default())).limits(generous_limits());
    let mut events = execute(executor, request);
    let rest = events.split_off(6);
    let expected =
        ["accepted", "started", "log: a 1", "tools.echo began: 8 bytes", "tools.echo returned: 8 bytes", "warn: b"];
    assert_eq!(events, expected);
    if accepts == Accepts::Moves {
        assert_eq!(rest, ["ended: 5, 1 calls"]);
        return;
    }
    assert_eq!(rest[0], "tools.add_numbers began: 9 bytes");
    assert!(rest[1].starts_with("tools.add_numbers failed: validation_error: Invalid input"), "{rest:?}");
    assert_eq!(rest[2..], ["tools.later began: 2 bytes", "tools.later returned: 2 bytes", "ended: 5, 3 calls"]);
}

/// A program that waits for a call without end.
fn hanging(accepts: Accepts) -> ExecuteRequest {
    let code = match accepts {
        Accepts::JavaScript => "await tools.hang()",
        Accepts::Moves => "call hang 1\nawait",
    };
    ExecuteRequest::new(code).provider(tools(&Calls::default())).limits(generous_limits())
}

/// Cancels when a call has begun.
fn on_call(token: &CancellationToken) -> Observer {
    let token = token.clone();
    Observer::new(move |event| {
        if let EventKind::CallBegan { .. } = event.kind {
            token.cancel();
        }
    })
}

fn cancelled(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let token = CancellationToken::new();
    let events = execute(executor, hanging(accepts).cancellation(token.clone()).observer(on_call(&token)));
    assert_eq!(events[..2], ["accepted", "started"]);
    assert!(events[2].starts_with("tools.hang began"), "{events:?}");
    assert_eq!(events[3..], ["tools.hang ended: Dropped", "ended: Execution was cancelled"]);
}

fn dropped(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let (recorder, began) = (Recorder::default(), CancellationToken::new());
    let request = hanging(accepts).observer(recorder.observer()).observer(on_call(&began));
    RUNTIME.block_on(async {
        tokio::select! {
            _ = executor.execute(request) => panic!("it hangs"),
            () = began.cancelled() => {}
        }
    });
    assert_eq!(recorder.texts()[3..], ["tools.hang ended: Dropped", "ended: Dropped"]);
}

fn within_calls(executor: &Arc<dyn Executor>, accepts: Accepts) {
    if accepts == Accepts::Moves {
        return; // The scripted engine's programs know the tools of the cases only.
    }
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let half = ToolProgress::new(0.5);
    let tool = Tool::new("work", move |_: Json, context: ToolContext| {
        let (half, keep) = (half.clone(), Arc::clone(&keep));
        async move {
            context.report(&half);
            drop(context.wait_for_person());
            *keep.lock().unwrap() = Some(context);
            Ok(json!("done"))
        }
    });
    let asks = Policy::new().tools("*", Decision::Ask).approver(Person::who_answers_after(Duration::ZERO));
    let provider = Provider::builder("tools").tool(tool).build().unwrap().with_policy(&asks);
    let code = "await tools.work(1); await tools.work(2).catch(() => {})";
    let recorder = Recorder::default();
    let request = ExecuteRequest::new(code).provider(provider).limits(generous_limits()).observer(recorder.observer());
    RUNTIME.block_on(executor.execute(request));
    let context = kept.lock().unwrap().take().unwrap();
    context.report(&ToolProgress::new(1.0));
    drop(context.wait_for_person());
    let expected = [
        "accepted",
        "started",
        "tools.work began: 2 bytes",
        "tools.work waits for its approval",
        "tools.work resumed",
        "tools.work decided: Approved",
        "tools.work progress: 0.5",
        "tools.work waits for an answer",
        "tools.work resumed",
        "tools.work returned: 6 bytes",
        "tools.work began: 2 bytes",
        "tools.work waits for its approval",
        "tools.work resumed",
        "tools.work decided: Refused(\"too much\")",
        "tools.work failed: tool_error: not approved: too much",
        "ended: null, 2 calls",
    ];
    assert_eq!(recorder.texts(), expected, "and nothing after the end");
}

fn several_observers(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let code = match accepts {
        Accepts::JavaScript => "console.log('a'); await tools.echo(1)",
        Accepts::Moves => "log log a\ncall echo 1\nawait\nreturn it",
    };
    let (first, last) = (Recorder::default(), Recorder::default());
    let request = ExecuteRequest::new(code).provider(tools(&Calls::default())).limits(generous_limits());
    let request =
        request.observer(first.observer()).observer(Observer::new(|_| execbox_testkit::crash("a bug of the observer")));
    let result = RUNTIME.block_on(executor.execute(request.observer(last.observer())));
    assert_eq!(result.outcome, Ok(Some(json!(1))));
    assert_eq!(first.texts().len(), 6);
    assert_eq!(first.texts(), last.texts());
}

type Ids = Arc<Mutex<Vec<(ExecutionId, CallId)>>>;

/// The execution and the call of each event of a call, and of each context of a tool.
fn ids(executor: &Arc<dyn Executor>, accepts: Accepts) {
    if accepts == Accepts::Moves {
        return;
    }
    let (begun, called) = (Ids::default(), Ids::default());
    let keep = Arc::clone(&called);
    let tool = Tool::new("work", move |_: Json, context: ToolContext| {
        keep.lock().unwrap().push((context.execution, context.call));
        async { Ok(Json::Null) }
    });
    let provider = Provider::builder("tools").tool(tool).build().unwrap();
    let seen = Arc::clone(&begun);
    let observer = Observer::new(move |event| {
        if let EventKind::CallBegan { call, .. } = event.kind {
            seen.lock().unwrap().push((event.execution, call.id));
        }
    });
    let request = ExecuteRequest::new("await Promise.all([1, 2, 3].map(tools.work))").provider(provider);
    for _ in 0..2 {
        let request = request.clone().limits(generous_limits()).observer(observer.clone());
        assert!(RUNTIME.block_on(executor.execute(request)).is_ok());
    }
    let begun = begun.lock().unwrap();
    assert_eq!(*begun, *called.lock().unwrap());
    let calls: Vec<u64> = begun.iter().map(|(_, call)| call.0).collect();
    assert_eq!(calls, [1, 2, 3, 1, 2, 3], "counted within each execution");
    let executions: Vec<ExecutionId> = begun.iter().map(|(execution, _)| *execution).collect();
    assert!(executions[0] == executions[2] && executions[2] < executions[3], "{executions:?}");
}
