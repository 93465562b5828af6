//! Functions and promises of the host in values.

mod harness;

use std::cell::RefCell;

use execbox_core::engine::{CallId, Engine, Event, NoRoom, Notification, Outcome, Pending, Settlement, Turn};
use execbox_core::program::{Limits, Module};
use execbox_core::value::{FunctionKind, Graph, Value};
use harness::{engine, events, modules, outcome, program, result, returned, run_with, tagged, thrown, turn, value};
use serde_json::{Value as Json, json};

/// Runs `code`; `answer` answers calls, given the function and the arguments.
fn run_answering(code: &str, answer: impl Fn(u32, &Json) -> Result<Json, Json>) -> (Outcome, Vec<Event>) {
    run_with(program(code, vec![]), |guest, call| {
        let result = answer(call.function.0, &tagged(&call.input));
        guest.settle(Pending::Call(call.id), result.as_ref().map(value).map_err(value).into());
    })
}

#[test]
fn calls_pass_all_arguments_and_return_values() {
    let code = "import * as host from 'host'; export default [await host.later(1, new Date(2), [undefined]), host.now(), host.now({}, {})]";
    let (outcome, _) = run_answering(code, |function, args| Ok(json!([function, args])));
    assert_eq!(returned(outcome), json!([[0, [1, {"$date": 2}, [{"$undefined": true}]]], [1, []], [1, [{}, {}]]]));
    let shared = "import { now } from 'host'; const o = {}; export default now(o, [o])";
    let (outcome, _) = run_answering(shared, |_, args| Ok(args.clone()));
    assert_eq!(returned(outcome), json!([{"$id": 1, "$value": {}}, [{"$ref": 1}]]));
}

#[test]
fn host_functions_beyond_16_bits_are_called_by_their_own_number() {
    let mut graph = Graph::default();
    let kinds = [FunctionKind::Async, FunctionKind::Sync, FunctionKind::Notify];
    let members: Vec<_> = (0..70_000_u32)
        .map(|number| (format!("f{number}"), graph.function(number, kinds[number as usize % 3], "f")))
        .collect();
    let root = graph.object(members);
    graph.set_root(root);
    let many = Module::synthetic("many", graph.to_value("many").unwrap());
    let numbers = [0, 1, 65_534, 65_535, 65_536, 65_537, 65_538, 69_999];
    let names: Vec<_> = numbers.iter().map(|number| format!("f{number}")).collect();
    let names = names.join(", ");
    let code = format!(
        "import {{ {names} }} from 'many'; import {{ later }} from 'host';
        for (const f of [{names}]) await f(); await later(f65537); export default 1"
    );
    let called = RefCell::new(Vec::new());
    let (outcome, notifications) = run_with(program(&code, vec![many]), |guest, call| {
        called.borrow_mut().push((call.function.0, tagged(&call.input)));
        guest.settle(Pending::Call(call.id), Settlement::Fulfilled(Value::undefined()));
    });
    assert_eq!(returned(outcome), json!(1));
    let functions: Vec<_> = called.borrow().iter().map(|(number, _)| *number).collect();
    assert_eq!(functions, [0, 1, 65_535, 65_536, 65_538, 69_999, 0]);
    let notified: Vec<_> = notifications
        .iter()
        .map(|event| if let Event::Notify(notification) = event { notification.function.0 } else { panic!() })
        .collect();
    assert_eq!(notified, [65_534, 65_537]);
    let passed = called.borrow().last().unwrap().1.to_string();
    assert!(passed.contains("65537"), "a function keeps its number when it crosses: {passed}");
}

#[test]
fn a_synchronous_call_blocks_until_it_is_answered() {
    let code = "import { now, later } from 'host'; const p = later('async'); let order = []; p.then(() => order.push('async'));
        Promise.resolve().then(() => order.push('job')); order.push(now('sync')); order.push('after'); await p; export default order";
    let mut guest = engine().start(program(code, vec![])).unwrap();
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    let calls: Vec<_> = events(&mut *guest)
        .into_iter()
        .map(|event| if let Event::Call(call) = event { call } else { panic!() })
        .collect();
    assert_eq!(
        calls.iter().map(|call| (call.id, call.now)).collect::<Vec<_>>(),
        [(CallId(1), false), (CallId(2), true)]
    );
    assert_eq!(guest.image(), None);
    guest.settle(Pending::Call(CallId(1)), Settlement::Fulfilled(value(&json!(1))));
    assert_eq!(turn(&mut *guest), Turn::Waiting, "another answer does not move it");
    guest.settle(Pending::Call(CallId(9)), Settlement::Fulfilled(value(&json!(1))));
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    guest.settle(Pending::Call(CallId(2)), Settlement::Fulfilled(value(&json!("sync"))));
    let Turn::Done(outcome) = turn(&mut *guest) else { panic!() };
    assert_eq!(returned(outcome), json!(["sync", "after", "job", "async"]));
}

#[test]
fn synchronous_calls_work_in_every_kind_of_code() {
    let code = "import { now } from 'host'; const sorted = [3, 1, 2].sort((a, b) => now(a, b)); const o = { get g() { return now('getter') } };
        export default [sorted, JSON.stringify({ toJSON: () => now('json') }), 'abc'.replace(/b/, (m) => now(m)), now(o)]";
    let (outcome, _) = run_answering(code, |_, args| match &args.as_array().unwrap()[..] {
        [Json::Number(a), Json::Number(b)] => Ok(json!(a.as_f64().unwrap() - b.as_f64().unwrap())),
        other => Ok(json!([other])),
    });
    assert_eq!(returned(outcome), json!([[1, 2, 3], "[[\"json\"]]", "abc", [[{"g": [["getter"]]}]]]));
}

#[test]
fn large_answers_are_complete() {
    let bytes = "A".repeat(4 * 1000);
    let code =
        "import { now, later } from 'host'; const a = now(), b = await later(); export default [a.length, b.length, a]";
    let (outcome, _) = run_answering(code, |_, _| Ok(json!({"$bytes": bytes})));
    assert_eq!(returned(outcome), json!([3000, 3000, {"$bytes": bytes}]));
    for len in 500..520 {
        let text = "x".repeat(len);
        let (outcome, _) = run_answering("import { now } from 'host'; export default now()", |_, _| Ok(json!(text)));
        assert_eq!(returned(outcome), json!(text));
    }
}

#[test]
fn errors_of_the_host_are_ordinary_errors() {
    for function in ["now", "await later"] {
        let name = function.rsplit(' ').next().unwrap();
        let code = format!(
            "import {{ {name} }} from 'host';\ntry {{ {function}() }} catch (e) {{ e.mark = 1; var caught = e }}
            export default [caught instanceof TypeError, caught.name, caught.message, 'code' in caught, caught.cause]"
        );
        let fail = |_: u32, _: &Json| Err(json!({"$error": "TypeError", "message": "no such file", "cause": 5}));
        assert_eq!(
            returned(run_answering(&code, fail).0),
            json!([true, "TypeError", "no such file", false, 5]),
            "{code}"
        );
        let uncaught = format!("import {{ {name} }} from 'host';\n\n{function}()");
        let Outcome::Threw(thrown) = run_answering(&uncaught, fail).0 else { panic!() };
        assert_eq!((thrown.name.as_str(), thrown.message.as_str()), ("TypeError", "no such file"));
        assert_eq!((&*thrown.frames[0].file, thrown.frames[0].position.line), ("main", 3), "{thrown:?}");
        let anything = format!(
            "import {{ {name} }} from 'host'; let e; try {{ {function}() }} catch (error) {{ e = error }} export default e"
        );
        assert_eq!(returned(run_answering(&anything, |_, _| Err(json!([1]))).0), json!([1]));
    }
}

#[test]
fn host_functions_are_passed_in_values_in_both_directions() {
    let code = "import { later, now } from 'host'; const { make: [f] } = await later(); const g = f;
        export default [typeof f, f.name, f.length, await f(7), [f, g, later], f === g, new Map([['f', f]])]";
    let made = json!({"make": [{"$function": 70_000, "kind": "async", "name": "made"}]});
    let (outcome, _) = run_answering(
        code,
        |function, args| if function == 0 { Ok(made.clone()) } else { Ok(json!([function, args])) },
    );
    let f = json!({"$function": 70_000, "kind": "async", "name": "made"});
    let back = returned(outcome);
    assert_eq!(back.as_array().unwrap()[..4], [json!("function"), json!("made"), json!(0), json!([70_000, [7]])]);
    assert_eq!(back[4][0]["$value"], f);
    assert_eq!(back[4][2], json!({"$function": 0, "kind": "async", "name": "later"}));
    assert_eq!(
        thrown(run_answering("import { now } from 'host'; new now()", |_, _| Ok(json!(1))).0),
        "TypeError: not a constructor"
    );
}

#[test]
fn a_forged_host_function_is_an_ordinary_function() {
    for forged in [
        "later.bind(null)",
        "(...a) => later(...a)",
        "new Proxy(later, {})",
        "Object.create(later)",
        "class extends Function {}",
    ] {
        let error = thrown(outcome(&format!("import {{ later }} from 'host'; export default () => ({forged})")));
        assert!(error.starts_with("SerializationError: result is "), "{forged}: {error}");
    }
}

#[test]
fn promises_of_the_host_are_settled_by_number() {
    let data = Module::synthetic(
        "data",
        value(&json!({"a": {"$promise": 0}, "b": {"$promise": 1}, "same": [{"$promise": 2}]})),
    );
    let code = "import { a, b, same } from 'data'; export default [a instanceof Promise, await a, await b.catch((e) => e.message), await same[0]]";
    let mut guest = engine().start(program(code, vec![data])).unwrap();
    guest.settle(Pending::Promise(2), Settlement::Fulfilled(value(&json!("early"))));
    for (number, result) in [(0, Ok(json!({"then": 1}))), (1, Err(json!({"$error": "Error", "message": "late"})))] {
        assert_eq!(turn(&mut *guest), Turn::Waiting);
        guest.settle(Pending::Promise(number), result.as_ref().map(value).map_err(value).into());
    }
    guest.settle(Pending::Promise(0), Settlement::Fulfilled(value(&json!("twice"))));
    guest.settle(Pending::Promise(4_000_000_000), Settlement::Fulfilled(value(&json!("unknown"))));
    let Turn::Done(outcome) = turn(&mut *guest) else { panic!() };
    assert_eq!(returned(outcome), json!([true, {"then": 1}, "late", "early"]));
}

/// Code-execution specification §2.3, as the module contract links it: globals are a module of their own.
#[test]
fn the_example_of_the_specification() {
    let globals = json!({
        "console": {"log": {"$function": 10, "kind": "log", "name": "log"}},
        "getMessage": {"$function": 11, "kind": "async", "name": "getMessage"},
    });
    let others = vec![
        Module::synthetic("fs", value(&json!({"readFile": {"$function": 12, "kind": "async", "name": "readFile"}}))),
        Module::synthetic("supervisor", value(&json!({"report": {"$function": 13, "kind": "sync", "name": "report"}}))),
        Module { importable: false, ..Module::synthetic("execbox:globals", value(&globals)) },
    ];
    let code = "import { console, getMessage } from 'execbox:globals';
        import { readFile } from 'fs';
        import { report } from 'supervisor';
        const message = await getMessage();
        console.log('got', { message });
        if (/username/.test(message)) report({ topic: 'username', message });
        export async function scan() { return { scanned: true, global: globalThis.getMessage } }";
    let mut example = program(code, others);
    modules(&mut example).export = "scan".into();
    let mut called = Vec::new();
    let (outcome, events) = run_with(example, |guest, call| {
        called.push((call.function.0, call.now, tagged(&call.input)));
        let answer = if call.function.0 == 11 { json!("my username is x") } else { json!({"$undefined": true}) };
        guest.settle(Pending::Call(call.id), Settlement::Fulfilled(value(&answer)));
    });
    assert_eq!(returned(outcome), json!({"scanned": true, "global": {"$undefined": true}}));
    let reported = json!([{"topic": "username", "message": "my username is x"}]);
    assert_eq!(called, [(11, false, json!([])), (13, true, reported)]);
    let [Event::Notify(logged)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((logged.function.0, tagged(&logged.args)), (10, json!(["got", {"message": "my username is x"}])));
}

#[test]
fn a_promise_in_an_answer_is_settled_later() {
    let code = "import { later } from 'host'; const { p } = await later(); export default await p";
    let mut guest = engine().start(program(code, vec![])).unwrap();
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    guest.settle(Pending::Call(CallId(1)), Settlement::Fulfilled(value(&json!({"p": {"$promise": 5}}))));
    guest.settle(Pending::Promise(5), Settlement::Fulfilled(value(&json!([6]))));
    let Turn::Done(outcome) = turn(&mut *guest) else { panic!() };
    assert_eq!(returned(outcome), json!([6]));
}

#[test]
fn notifications_and_calls_arrive_in_order() {
    let code = "import { tell, log, later } from 'host'; const a = [tell(1), log('x', () => 1, Symbol('s'), new (class { y = 2 })())];
        later(2); tell(3); export default a";
    let mut guest = engine().start(program(code, vec![])).unwrap();
    let Turn::Done(outcome) = turn(&mut *guest) else { panic!() };
    assert_eq!(returned(outcome), json!([{"$undefined": true}, {"$undefined": true}]));
    let received: Vec<_> = events(&mut *guest)
        .into_iter()
        .map(|event| match event {
            Event::Notify(Notification { function, ref args }) => json!([function.0, tagged(args)]),
            Event::Call(ref call) => json!([call.function.0, tagged(&call.input)]),
            Event::Unawaited(ref call) => json!([call.function.0, "unawaited"]),
            Event::Log(_) | Event::DroppedLogs(_) | Event::Timer(_) => panic!("{event:?}"),
        })
        .collect();
    let logged = json!([3, ["x", "[Function]", "Symbol(s)", {"y": 2}]]);
    assert_eq!(received, [json!([2, [1]]), logged, json!([0, [2]]), json!([2, [3]]), json!([0, "unawaited"])]);
}

#[test]
fn logs_accept_any_value_and_are_cut_and_notifications_count_against_the_limit() {
    let limits = Limits::default().max_log_lines(3).max_log_chars(200).memory_bytes(1 << 20);
    let with_limits = |code: &str| {
        let mut program = program(code, vec![]);
        program.limits = limits;
        run_with(program, |_, _| {})
    };
    let code = "import { log } from 'host'; let ran = 0; const b = new ArrayBuffer(1); b.transfer();
        log({ get a() { throw 1 } }, function named() {}, Promise.resolve(), new WeakSet(), new Proxy({}, {}), b);
        for (let i = 0; i < 1e5; i++) log(i); log({ get a() { ran = 1 } }); export default ran";
    let (outcome, events) = with_limits(code);
    assert_eq!(returned(outcome), json!(0));
    let (mut notifications, mut dropped) = (Vec::new(), 0);
    for event in events {
        match event {
            Event::Notify(notification) => notifications.push(tagged(&notification.args)),
            Event::DroppedLogs(count) => dropped = count,
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(dropped, 100_000 - 2 + 1, "whose arguments are not read");
    let anything = json!([{"a": "[getter threw]"}, "[Function named]", "[Promise]", "[Weak]", "[Proxy]", "[object]"]);
    assert_eq!(notifications, [anything, json!([0]), json!([1])]);
    let described = "import { log } from 'host'; const b = new ArrayBuffer(1), u = new Uint8Array(b), o = {}; b.transfer(); log([b, u, o], o)";
    let events = with_limits(&format!("{described}; export default 1")).1;
    let Some(Event::Notify(notification)) = events.first() else { panic!() };
    assert_eq!(tagged(&notification.args), json!([["[object]", "[object]", {"$id": 2, "$value": {}}], {"$ref": 2}]));
    let reports = Outcome::HostMemory(NoRoom::Reports);
    assert_eq!(with_limits("import { tell } from 'host'; for (;;) tell('x')").0, reports);
    let calls = with_limits("import { later } from 'host'; for (;;) later('x')").0;
    assert!(matches!(calls, Outcome::OutOfMemory | Outcome::HostMemory(NoRoom::Calls)), "{calls:?}");
    assert_eq!(
        with_limits("import { tell } from 'host'; tell('x'.repeat(600000), 'x'.repeat(600000))").0,
        Outcome::OutOfMemory
    );
}

#[test]
fn a_guest_blocked_in_a_call_can_be_interrupted_and_dropped() {
    let code = "import { now } from 'host'; try { now() } finally { for (;;); }";
    let mut guest = engine().start(program(code, vec![])).unwrap();
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    guest.interrupt().trigger();
    assert_eq!(turn(&mut *guest), Turn::Done(Outcome::Interrupted));
    for _ in 0..50 {
        let mut guest = engine().start(program(code, vec![])).unwrap();
        assert_eq!(turn(&mut *guest), Turn::Waiting);
        drop(guest);
    }
    assert_eq!(result("export default 1"), json!(1));
}
