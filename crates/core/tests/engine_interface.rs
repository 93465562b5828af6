//! `Engine`, `Guest` and the script contract, with engines that do not run JavaScript.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use execbox_core::cause::Cause;
use execbox_core::contract::script::{Request, Script, ScriptFunction, ToolCall};
use execbox_core::contract::stop::Stop;
use execbox_core::contract::{Action, Contract as _, Request as _};
use execbox_core::engine::{
    Call, CallId, Engine, Event, Frame, FunctionId, Guest, ModuleError, Notification, Outcome, Pending, Settlement,
    Thrown, Turn,
};
use execbox_core::error::{ErrorCode, ExecuteError, StackFrame};
use execbox_core::language::Position;
use execbox_core::libraries::Globals;
use execbox_core::manifest::{ProviderManifest, ToolManifest};
use execbox_core::program::{Limits, Module, Modules, Namespace, Program, Source};
use execbox_core::value::Value;
use execbox_testkit::scripted::{Moves, Scripted, ScriptedGuest, ThreadBound};
use serde_json::json;

fn program(moves: &str) -> Program {
    let namespace = Namespace::new("tools", ["echo", "other"]);
    Program::new(
        Source::Script { name: "<script>".into(), code: moves.replace("; ", "\n").into() },
        vec![namespace.into()],
        Limits::default(),
    )
}

fn start(moves: &str) -> Box<dyn Guest> {
    Scripted.start(program(moves)).unwrap()
}

fn turn(guest: &mut dyn Guest) -> Turn {
    loop {
        match guest.poll_turn(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => return turn,
            Poll::Pending => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

fn calls(guest: &mut dyn Guest) -> Vec<Call> {
    let mut events = Vec::new();
    guest.take_events(&mut events);
    events.into_iter().filter_map(|event| if let Event::Call(call) = event { Some(call) } else { None }).collect()
}

fn returned(json: &serde_json::Value) -> Turn {
    Turn::Done(Outcome::Returned(Value::from_json(Some(json), "v").unwrap()))
}

#[test]
fn a_computing_guest_yields_the_thread_and_wakes_its_task() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut guest = start("compute; compute; return 1");
    for times in 1..=2 {
        assert!(guest.poll_turn(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.0.load(Ordering::Relaxed), times);
    }
    assert_eq!(turn(&mut *guest), returned(&json!(1)));
}

#[test]
fn a_guest_in_a_synchronous_call_waits_until_it_is_settled_and_has_no_image() {
    let mut guest = start("call-now echo 1; return it");
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    let calls = calls(&mut *guest);
    assert!(calls[0].now && calls.len() == 1);
    assert_eq!(guest.image(), None);
    guest.settle(Pending::Call(calls[0].id), Settlement::Fulfilled(Value::undefined()));
    assert_eq!(turn(&mut *guest), Turn::Done(Outcome::Returned(Value::undefined())));
}

#[test]
fn a_waiting_guest_resumes_from_its_image() {
    let mut guest = start("call echo 1; call other 2; await; return it");
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    let ids: Vec<CallId> = calls(&mut *guest).iter().map(|call| call.id).collect();
    let image = guest.image().unwrap();
    drop(guest);
    let mut guest = ScriptedGuest::from_image(&image, &Limits::default());
    assert_eq!(turn(&mut guest), Turn::Waiting);
    assert!(calls(&mut guest).is_empty(), "its calls were taken before");
    for id in ids {
        guest.settle(Pending::Call(id), Settlement::Fulfilled(Value::from_json(Some(&json!("late")), "v").unwrap()));
    }
    assert_eq!(turn(&mut guest), returned(&json!("late")));
}

/// Runs a program of three modules. Settles its calls and promise 4, and returns its logs and notifications.
fn run_modules(entry: &str, export: &str) -> (Outcome, Vec<String>) {
    let module = |name: &str, moves: &str| Module::source(name, moves.replace("; ", "\n"));
    let modules = Modules {
        entry: entry.into(),
        modules: vec![
            module("main", "import ./helper; log log main; notify 9 [1]; export default 1; export other [2]"),
            module("./helper", "import data; log log helper; call echo 7; await; await-promise 4; export default 3"),
            module("broken", "import ./missing; export default 1"),
            Module::synthetic("data", Value::undefined()),
        ],
        export: export.into(),
        args: Value::from_json(Some(&json!([])), "args").unwrap(),
    };
    let mut guest = Scripted.start(Program { source: Source::Modules(modules), ..program("") }).unwrap();
    let mut notifications = Vec::new();
    loop {
        let turn = turn(&mut *guest);
        let mut events = Vec::new();
        guest.take_events(&mut events);
        for event in events {
            match event {
                Event::Log(line) => notifications.push(line.text),
                Event::Call(call) => guest.settle(Pending::Call(call.id), Settlement::Fulfilled(Value::undefined())),
                Event::Notify(event) => notifications.push(format!("{}{:?}", event.function.0, event.args)),
                Event::Unawaited(_) | Event::DroppedLogs(_) | Event::Timer(_) => panic!("only scripts have these"),
            }
        }
        if let Turn::Done(outcome) = turn {
            return (outcome, notifications);
        }
        guest.settle(Pending::Promise(4), Settlement::Fulfilled(Value::undefined()));
    }
}

#[test]
fn a_module_graph_ends_with_the_selected_export() {
    let (outcome, notifications) = run_modules("main", "other");
    assert_eq!(Turn::Done(outcome), returned(&json!([2])));
    assert_eq!(notifications, ["helper", "main", "9[1]"]);
}

#[test]
fn link_errors_name_the_missing_export_or_module() {
    let (outcome, notifications) = run_modules("main", "nope");
    assert_eq!(outcome, Outcome::Unlinked(ModuleError::Export { export: "nope".into() }));
    assert_eq!(notifications, ["helper", "main", "9[1]"], "the entry is evaluated before the export is read");
    let (outcome, _) = run_modules("broken", "default");
    let missing = ModuleError::Specifier { module: "broken".into(), specifier: "./missing".into() };
    assert_eq!(outcome, Outcome::Unlinked(missing));
}

#[test]
fn an_engine_bound_to_a_thread_implements_the_same_interface() {
    let mut guest =
        ThreadBound(Arc::new(Scripted)).start(program("log log hi; call echo 1; await; return it")).unwrap();
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    let calls = calls(&mut *guest);
    guest.settle(Pending::Call(calls[0].id), Settlement::Fulfilled(Value::from_json(Some(&json!(7)), "v").unwrap()));
    assert_eq!(turn(&mut *guest), returned(&json!(7)));

    let mut spinning = ThreadBound(Arc::new(Scripted)).start(program("spin")).unwrap();
    assert!(spinning.poll_turn(&mut Context::from_waker(Waker::noop())).is_pending());
    spinning.interrupt().trigger();
    assert_eq!(turn(&mut *spinning), Turn::Done(Outcome::Interrupted));
}

// ---- The script contract, as functions -----------------------------------------------------------

fn manifest() -> ProviderManifest {
    let tool = |name: &str| ToolManifest::new(name, name);
    ProviderManifest::new("tools", vec![tool("echo"), tool("other")], "")
}

fn script(moves: &str) -> (Box<dyn Guest>, Script) {
    let (code, providers) = (moves.replace("; ", "\n"), vec![Arc::new(manifest())]);
    let request = Request {
        code,
        functions: Vec::new(),
        providers,
        waits_for_calls: false,
        globals: Globals::default(),
        limits: Limits::default(),
    };
    let (program, script) = request.start(&Moves, &|| false).unwrap();
    (Scripted.start(program).unwrap(), script)
}

fn function(namespace: &str, name: &str) -> ScriptFunction {
    ScriptFunction::new(namespace, name, "return 1")
}

fn with_functions(functions: Vec<ScriptFunction>) -> Result<(Program, Script), ExecuteError> {
    let providers = vec![Arc::new(manifest())];
    let request = Request {
        code: "return 1".into(),
        functions,
        providers,
        waits_for_calls: false,
        globals: Globals::default(),
        limits: Limits::default(),
    };
    request.start(&Moves, &|| false)
}

#[test]
fn functions_with_invalid_names_are_refused() {
    for (namespace, name, reason) in [
        ("lib", "a-b", "invalid function name \"lib.a-b\""),
        ("lib", "", "invalid function name \"lib.\""),
        ("lib", "then", "invalid function name \"lib.then\""),
        ("lib", "__proto__", "invalid function name"),
        ("lib", "a:1:1)", "invalid function name"),
        ("tools", "größe", "invalid function name"),
        ("a b", "f", "invalid provider name \"a b\""),
        ("console", "f", "it would hide the global `console`"),
    ] {
        let error = with_functions(vec![function(namespace, name)]).err().unwrap();
        assert!(error.code == ErrorCode::InternalError && error.message.contains(reason), "{error}");
    }
    let twice = with_functions(vec![function("lib", "f"), function("lib", "g"), function("lib", "f")]).err().unwrap();
    assert_eq!(twice.message, "duplicate function name \"lib.f\"");
}

#[test]
fn functions_replace_tools_whose_numbers_nobody_else_gets() {
    let own = vec![function("tools", "echo"), function("tools", "more"), function("lib", "f")];
    let (program, mut script) = with_functions(own).unwrap();
    let shown = program.namespaces.iter().map(|namespace| {
        let own: Vec<_> = namespace.own.iter().map(|function| &*function.file).collect();
        (namespace.name.as_str(), namespace.functions.join(" "), own.join(" "))
    });
    let shown: Vec<_> = shown.collect();
    let expected =
        [("tools", "other".to_owned(), "tools.echo tools.more".to_owned()), ("lib", String::new(), "lib.f".to_owned())];
    assert_eq!(shown, expected);
    let call = |function| Call { id: CallId(1), function: FunctionId(function), input: Value::undefined(), now: false };
    let action = script.event(Event::Call(call(0)), Duration::ZERO, &|| false);
    assert!(matches!(action, Ok(Action::Call(ToolCall { provider: 0, tool: 1, .. }))), "`other` keeps its number");
    let action = script.event(Event::Call(call(1)), Duration::ZERO, &|| false);
    assert!(matches!(action, Ok(Action::Settle(_, Settlement::Failed(_)))), "there is no other host function");
}

/// A host may send as many functions as fit into a message.
#[test]
fn many_functions_become_members() {
    let own = (0..20_000)
        .map(|number| function(&format!("n{number}"), "f"))
        .chain((0..20_000).map(|number| function("tools", &format!("f{number}"))));
    let (program, script) = with_functions(own.collect()).unwrap();
    assert_eq!((program.namespaces.len(), program.namespaces[0].own.len()), (20_001, 20_000));
    drop(script);
}

#[test]
fn a_call_with_an_input_that_is_not_serializable_fails_without_the_host() {
    let (mut guest, mut script) = script("call echo a Date; await");
    turn(&mut *guest);
    let mut events = Vec::new();
    guest.take_events(&mut events);
    let Ok(Action::Settle(call, settlement)) = script.event(events.remove(0), Duration::ZERO, &|| false) else {
        panic!("the host is asked")
    };
    let refused = ExecuteError::new(
        ErrorCode::SerializationError,
        "tool input is a Date; use a string (toISOString) or a number (getTime)",
    );
    assert_eq!(settlement, Settlement::Failed(refused.clone()));
    guest.settle(Pending::Call(call), settlement);
    let Turn::Done(outcome) = turn(&mut *guest) else { panic!() };
    assert_eq!(script.finish(Ok(outcome), Duration::ZERO).outcome, Err(refused));
}

#[test]
fn a_call_of_an_unknown_function_fails_with_internal_error() {
    let (_, mut script) = script("return 1");
    let call = Call { id: CallId(1), function: FunctionId(2), input: Value::undefined(), now: false };
    let action = script.event(Event::Call(call), Duration::ZERO, &|| false);
    let Ok(Action::Settle(_, Settlement::Failed(error))) = action else { panic!() };
    assert_eq!(error.code, ErrorCode::InternalError);
    let notification = Event::Notify(Notification { function: FunctionId(2), args: Value::undefined() });
    assert!(matches!(script.event(notification, Duration::ZERO, &|| false), Ok(Action::Ignore)));
}

#[test]
fn a_stop_determines_the_error_and_keeps_the_log() {
    for (stop, message) in
        [(Stop::Cancelled(None), "Execution was cancelled"), (Stop::TimedOut, "Execution timed out after 5000 ms")]
    {
        let (mut guest, mut script) = script("log log before; stall");
        assert_eq!(turn(&mut *guest), Turn::Waiting);
        let mut events = Vec::new();
        guest.take_events(&mut events);
        for event in events {
            script.event(event, Duration::ZERO, &|| false).unwrap();
        }
        let result = script.finish(Err(stop), Duration::from_millis(5));
        let error = result.error().unwrap();
        assert_eq!((error.code, error.message.as_str(), error.cause.is_some()), (ErrorCode::Timeout, message, true));
        assert_eq!(result.logs, ["before"], "the log is kept");
    }
}

#[test]
fn a_timeout_says_which_calls_were_not_answered() {
    for (moves, answered, expected) in [
        ("call echo 1; await", 0, "; tools.echo has not answered for 5 ms"),
        ("call echo 1; call echo 2; await", 0, "; tools.echo has not answered for 5 ms, nor has 1 other call"),
        ("call echo 1; call echo 2; await", 1, "; tools.echo has not answered for 5 ms; 1 call was answered"),
        ("call echo 1; call echo 2; await", 2, "; 2 calls were answered"),
    ] {
        let (mut guest, mut script) = script(moves);
        turn(&mut *guest);
        let mut events = Vec::new();
        guest.take_events(&mut events);
        for (at, event) in events.into_iter().enumerate() {
            let Ok(Action::Call(call)) = script.event(event, Duration::from_millis(2), &|| false) else { panic!() };
            assert_eq!(script.stuck(), None, "{moves}");
            if at < answered {
                script.settlement(call.id, Ok(None));
            }
        }
        assert_eq!(script.stuck(), (answered == 2).then_some(Stop::Stuck), "{moves}");
        let result = script.finish(Err(Stop::TimedOut), Duration::from_millis(7));
        assert_eq!(result.error().unwrap().message, format!("Execution timed out after 5000 ms{expected}"), "{moves}");
    }
}

/// The program is late, and not stuck: its call was not made because there was no time left to convert the input.
#[test]
fn a_call_that_was_not_made_for_lack_of_time_is_pending() {
    let (mut guest, mut script) = script(&format!("call echo [{}1]; await", "1,".repeat(100_000)));
    turn(&mut *guest);
    let mut events = Vec::new();
    guest.take_events(&mut events);
    assert!(matches!(script.event(events.remove(0), Duration::ZERO, &|| true), Ok(Action::Ignore)));
    assert_eq!(script.stuck(), None);
}

#[test]
fn outcomes_map_to_error_codes() {
    let failed = ExecuteError::new(ErrorCode::ToolError, "full");
    for (outcome, code, message) in [
        (Outcome::OutOfMemory, ErrorCode::MemoryLimit, "Execution exceeded its memory limit of 64 MiB"),
        (Outcome::StackOverflow, ErrorCode::RuntimeError, "Maximum call stack size exceeded"),
        (Outcome::Interrupted, ErrorCode::Timeout, "Execution was cancelled"),
        (Outcome::Fault("it broke".into()), ErrorCode::InternalError, "it broke"),
        (Outcome::Failed { error: failed, frames: Vec::new() }, ErrorCode::ToolError, "full"),
    ] {
        let (_, mut script) = script("return 1");
        let result = script.finish(Ok(outcome), Duration::ZERO);
        let error = result.outcome.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message));
        assert_eq!((error.position, error.stack), (None, Vec::new()));
        assert_eq!(error.name.as_deref(), (code == ErrorCode::RuntimeError).then_some("RangeError"));
    }
}

/// The guest keeps the cause of a failed call, and a compromised one can invent one.
#[test]
fn the_cause_of_a_failure_names_a_tool_of_the_program() {
    let failed_call = |provider: &str, tool: &str| Cause::FailedCall {
        call: CallId(1),
        provider: provider.into(),
        tool: tool.into(),
    };
    for (cause, is_kept) in [
        (failed_call("tools", "echo"), true),
        (failed_call("tools", "drop_tables"), false),
        (failed_call("bank", "echo"), false),
        (Cause::Stuck, false),
    ] {
        let error = ExecuteError::new(ErrorCode::ToolError, "full").with_cause(cause.clone());
        let (code, kept) = error.to_parts();
        let error = ExecuteError::from_parts(code, error.message.clone(), &kept);
        let (_, mut script) = script("return 1");
        let result = script.finish(Ok(Outcome::Failed { error, frames: Vec::new() }), Duration::ZERO);
        assert_eq!(result.error().unwrap().cause.as_deref(), Some(&cause).filter(|_| is_kept));
    }
}

#[test]
fn an_uncaught_error_has_name_position_and_a_bounded_stack() {
    let frame = |function: Option<String>, line| Frame {
        function,
        file: "<script>".into(),
        position: Position { line, column: 7 },
    };
    let thrown = Thrown {
        name: "TypeError".into(),
        message: "no\n    at fake (<script>:99:1)".into(),
        frames: (1..20).map(|line| frame(Some("f".repeat(300)), line)).collect(),
        native: None,
    };
    let error = script("return 1").1.finish(Ok(Outcome::Threw(thrown.clone())), Duration::ZERO).outcome.unwrap_err();
    assert_eq!((error.message.as_str(), error.name.as_deref()), (thrown.message.as_str(), Some("TypeError")));
    assert_eq!(error.position, Some(Position { line: 1, column: 7 }));
    assert_eq!(error.stack.len(), 8, "the innermost");
    let StackFrame { function, file, line, column, .. } = &error.stack[1];
    assert_eq!((file.as_str(), *line, *column), ("<script>", 2, 7));
    assert_eq!(function.as_ref().unwrap().chars().count(), 257, "cut, with a mark");

    let words = Thrown { message: "words".into(), frames: vec![frame(None, 3)], ..Thrown::default() };
    let error = script("return 1").1.finish(Ok(Outcome::Threw(words)), Duration::ZERO).outcome.unwrap_err();
    assert_eq!(error.name, None, "a thrown value that is not an error has no name");
    assert_eq!(error.to_string(), "runtime_error: words\n    at <script>:3:7");

    let failed = Outcome::Failed { error: ExecuteError::tool("full"), frames: vec![frame(Some("save\n".into()), 3)] };
    let error = script("return 1").1.finish(Ok(failed), Duration::ZERO).outcome.unwrap_err();
    assert_eq!((error.message.as_str(), error.position), ("full", Some(Position { line: 3, column: 7 })));
    assert_eq!(error.render(), "full\n    at save\\n (<script>:3:7)", "a frame is one line");
}
