//! Isolates, their threads and their realm: what the contract tests, which run on this engine too, do not cover.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use execbox_core::engine::{Engine as _, Event, Guest, NativeError, Outcome, Pending, Settlement, StartError, Turn};
use execbox_core::language::Code;
use execbox_core::program::{Limits, Namespace, Program, Source};
use execbox_core::value::Value;
use execbox_v8::{Options, V8};

const MAX_GUESTS: usize = 3;

static ENGINE: LazyLock<V8> = LazyLock::new(|| V8::new(&Options::default().max_guests(MAX_GUESTS)).expect("V8 starts"));

/// Lets one test run at a time, because they count guests.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn script(code: &str, limits: Limits) -> Program {
    let namespace = Namespace::new("tools", ["echo"]);
    let source = Source::Script { name: "<script>".to_owned(), code: Code::from(code) };
    Program::new(source, vec![Arc::new(namespace)], limits)
}

fn start(code: &str) -> Box<dyn Guest> {
    ENGINE.start(script(code, Limits::default())).expect("there is room for a guest")
}

/// Polls until the guest waits or is done; `at_yield` is called each time that it only yields.
fn turn(guest: &mut dyn Guest, mut at_yield: impl FnMut(&mut dyn Guest)) -> Turn {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match guest.poll_turn(&mut Context::from_waker(&waker)) {
            Poll::Ready(turn) => return turn,
            Poll::Pending => thread::park(),
        }
        at_yield(guest);
    }
}

fn outcome(code: &str) -> Outcome {
    match turn(&mut *start(code), |_| {}) {
        Turn::Done(outcome) => outcome,
        Turn::Waiting => panic!("it waits: {code}"),
    }
}

fn json(code: &str) -> serde_json::Value {
    match outcome(code) {
        Outcome::Returned(value) => value.to_json("result", 1 << 20).unwrap().unwrap_or_default(),
        other => panic!("{code}: {other:?}"),
    }
}

fn alone() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn the_globals_are_those_of_quickjs() {
    let _alone = alone();
    let bootstrap = include_str!("../../quickjs/guest/bootstrap.js");
    let list = bootstrap.split("new Set(`").nth(1).unwrap().split('`').next().unwrap();
    let expected: BTreeSet<String> = list.split_whitespace().map(str::to_owned).chain(["tools".to_owned()]).collect();
    let globals = json("return Object.getOwnPropertyNames(globalThis)");
    let globals: BTreeSet<String> = serde_json::from_value(globals).unwrap();
    assert_eq!(globals, expected);
}

#[test]
fn missing_globals_are_reference_errors() {
    let _alone = alone();
    for name in ["setTimeout", "fetch", "eval", "unheardOf"] {
        let Outcome::Threw(thrown) = outcome(&format!("return {name}")) else { panic!("{name}") };
        let native = Some(NativeError::NotDefined(name.into()));
        assert_eq!((thrown.message, thrown.native), (format!("{name} is not defined"), native));
    }
}

#[test]
fn no_more_guests_than_configured_run_at_once() {
    let _alone = alone();
    let guests: Vec<_> = (0..MAX_GUESTS).map(|_| start("await tools.echo(1)")).collect();
    let refused = ENGINE.start(script("1", Limits::default())).err();
    assert_eq!(refused, Some(StartError::Full(MAX_GUESTS)));
    drop(guests);
    assert_eq!(json("return 1"), 1);
}

#[test]
fn a_computing_guest_yields_and_its_cpu_time_grows_until_it_is_interrupted() {
    let _alone = alone();
    let mut guest = start("for (;;);");
    let interrupt = guest.interrupt();
    let done = turn(&mut *guest, |guest| {
        if guest.cpu_time() > Some(Duration::from_millis(20)) {
            interrupt.trigger();
        }
    });
    assert_eq!(done, Turn::Done(Outcome::Interrupted));
    assert!(guest.peak_memory_bytes() > Some(0));
}

#[test]
fn dropped_guests_leave_their_threads() {
    let _alone = alone();
    // A guest that did not end would keep its thread for ever.
    for code in ["for (;;);", "await tools.echo(1)", "await new Promise(() => {})", "for (;;) await 0"] {
        for _ in 0..2 * MAX_GUESTS {
            let mut guest = start(code);
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let _ = guest.poll_turn(&mut Context::from_waker(&waker));
            drop(guest);
        }
    }
    assert_eq!(json("return 1"), 1);
}

#[test]
fn waiting_does_not_count_as_cpu_time() {
    let _alone = alone();
    let mut guest = start("return await tools.echo(1)");
    assert_eq!(turn(&mut *guest, |_| {}), Turn::Waiting);
    let mut events = Vec::new();
    guest.take_events(&mut events);
    let [Event::Call(call)] = &events[..] else { panic!("{events:?}") };
    let before = guest.cpu_time().unwrap();
    thread::sleep(Duration::from_millis(30));
    assert_eq!(guest.cpu_time(), Some(before));
    let answer = Value::from_json(Some(&serde_json::json!({ "then": null, "__proto__": [1] })), "answer").unwrap();
    guest.settle(Pending::Call(call.id), Settlement::Fulfilled(answer.clone()));
    assert_eq!(turn(&mut *guest, |_| {}), Turn::Done(Outcome::Returned(answer)));
}

#[test]
fn a_guest_that_waits_has_reported_its_memory() {
    let _alone = alone();
    // The buffer is made too soon for a check of the ticker.
    let mut guest = start("const kept = new ArrayBuffer(1 << 20); await tools.echo(1); return kept.byteLength");
    assert_eq!(turn(&mut *guest, |_| {}), Turn::Waiting);
    assert!(guest.peak_memory_bytes() >= Some(1 << 20), "{:?}", guest.peak_memory_bytes());
}

/// Sorts numbers in one step of native code, in which V8 serves no interrupt. The first interrupt after it comes after the second
/// line. The loop before takes longer than the driver waits on its thread.
const LOGS_AND_SORTS: &str = "
    const numbers = new Float64Array(1e7);
    for (let n = 1, i = 0; i < numbers.length; i++) numbers[i] = n = n * 48271 % 2147483647;
    console.log('now');
    tools.echo(1);
    numbers.sort();
    console.log('sorted');
";

#[test]
fn events_wake_the_driver_before_a_long_step_of_native_code() {
    let _alone = alone();
    let mut guest = ENGINE.start(script(LOGS_AND_SORTS, Limits::default().memory_bytes(1 << 30))).unwrap();
    let mut events = Vec::new();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    while events.len() < 2 {
        let turn = guest.poll_turn(&mut Context::from_waker(&waker));
        assert_eq!(turn, Poll::Pending, "the guest ended before its driver was woken: {events:?}");
        guest.take_events(&mut events);
        if events.len() < 2 {
            thread::park();
        }
    }
    assert!(matches!(&events[..], [Event::Log(_), Event::Call(_)]), "{events:?}");
}

#[test]
fn temporal_cannot_be_reached() {
    let _alone = alone();
    assert_eq!(json("return typeof new Date(0).toTemporalInstant"), "undefined");
}

/// Lists the functions that are not native, and the objects like `Error` that are not `Error`, of all that guest code can reach:
/// by properties, accessors, prototypes and iterators.
const WALK: &str = r#"
    "use strict"; // call sites return sloppy functions, such as the one around this script
    const seen = new Set(), left = [], found = [];
    const visit = (value, path) => {
        if (value === null || typeof value !== "object" && typeof value !== "function" || seen.has(value)) return;
        seen.add(value);
        left.push([value, path]);
    };
    visit(globalThis, "globalThis");
    visit(console, "console");
    visit(tools, "tools");
    const mine = [function () {}, () => {}, async () => {}, function* () {}, async function* () {}, class {}];
    for (const f of mine) visit(Object.getPrototypeOf(f), "a function's prototype");
    for (const iterable of [[], "", new Map, new Set, "".matchAll(/x/g), function* () {}(), async function* () {}()]) {
        visit(iterable, "an iterable");
        visit(iterable[Symbol.iterator]?.(), "an iterator");
    }
    for (const chain of [Iterator.from({ next() {} }), [].values().map((x) => x), Promise.withResolvers().promise, Error("x"),
        new Proxy({}, {}), Object(1n), Object(Symbol()), /x/.exec("x"), structuredClone(new Date(0)), tools.echo(1)]) {
        visit(chain, "an object");
    }
    try { Function("x") } catch (e) { visit(e, "an error") }
    let sites; Error.prepareStackTrace = (_, all) => sites = all;
    try { Function("x") } catch (e) { e.stack }
    try { Object.defineProperty(Error, "stackTraceLimit", { get() {} }) } catch (e) { visit(e, "an error") }
    delete Error.prepareStackTrace;
    for (const site of sites) {
        visit(site, "a call site");
        for (const key of Object.getOwnPropertyNames(Object.getPrototypeOf(site))) {
            try { visit(site[key](), "a call site's " + key) } catch {}
        }
    }
    while (left.length > 0) {
        const [value, path] = left.pop();
        const text = typeof value === "function" ? Function.prototype.toString.call(value) : "[native code]";
        if (!text.endsWith("{ [native code] }") && text !== "[native code]" && !mine.includes(value)) found.push(path + ": " + text);
        if (value !== Error && Object.hasOwn(value, "stackTraceLimit")) found.push(path + ": another Error");
        visit(Object.getPrototypeOf(value), path + ".__proto__");
        for (const key of Reflect.ownKeys(value)) {
            const inner = path + "." + String(key);
            const { get, set, value: of } = Object.getOwnPropertyDescriptor(value, key) ?? {};
            for (const each of [get, set, of]) visit(each, inner);
            try { visit(value[key], inner) } catch {}
        }
    }
    return [seen.size > 600, found];
"#;

#[test]
fn no_text_of_the_engine_can_be_read_in_a_function() {
    let _alone = alone();
    // Libraries show their text: docs/engines.md, "Values".
    let without_libraries = "const seen = new Set(Object.keys(console).slice(5).map((key) => delete console[key])),";
    assert_eq!(json(&WALK.replace("const seen = new Set(),", without_libraries)), serde_json::json!([true, []]));
    let names = ["Function", "AsyncFunction", "GeneratorFunction", "AsyncGeneratorFunction"];
    let texts = names.map(|name| format!("function {name}() {{ [native code] }}"));
    let all = "[() => {}, async () => {}, function* () {}, async function* () {}].map((f) => f.constructor)";
    assert_eq!(json(&format!("return {all}.map(String)")), serde_json::json!(texts));
    assert_eq!(json(&format!("return {all}.map((f) => f.name)")), serde_json::json!(names));
    assert_eq!(json(&format!("return {all}.map((f) => f.length)")), serde_json::json!([1, 1, 1, 1]));
    assert_eq!(
        json("return Function('return this')() === globalThis && new Function('return this')() === globalThis"),
        true
    );
}

#[test]
fn no_match_of_the_engine_can_be_read_in_a_fresh_realm() {
    let _alone = alone();
    let all = "['input', '$_', 'lastMatch', '$&', 'lastParen', '$+', 'leftContext', '$`', 'rightContext', \"$'\", \
               '$1', '$2', '$3', '$4', '$5', '$6', '$7', '$8', '$9']";
    assert_eq!(json(&format!("return {all}.map((key) => RegExp[key]).join('')")), "");
}

#[test]
fn realms_are_fresh() {
    let _alone = alone();
    assert_eq!(json("Array.prototype.map = 1; globalThis.x = 1; return 1"), 1);
    assert_eq!(json("return [typeof Array.prototype.map, typeof x]"), serde_json::json!(["function", "undefined"]));
}

#[test]
fn random_numbers_differ_between_isolates() {
    let _alone = alone();
    let numbers: BTreeSet<String> = (0..8).map(|_| json("return Math.random()").to_string()).collect();
    assert_eq!(numbers.len(), 8);
}

#[test]
fn a_body_cannot_close_its_function() {
    let _alone = alone();
    let ran = "})(), tools.echo(1), (async () => {";
    for code in [
        ran,
        "}); tools.echo(1); (async () => {",
        "}, tools.echo(1), async () => {",
        "} tools.echo(1); {",
        "/*",
        "`",
        "\\",
    ] {
        let mut guest = start(code);
        let Turn::Done(Outcome::Threw(thrown)) = turn(&mut *guest, |_| {}) else { panic!("{code}") };
        assert_eq!(thrown.name, "SyntaxError", "{code}: {thrown:?}");
        let mut events = Vec::new();
        guest.take_events(&mut events);
        assert!(events.is_empty(), "{code} has run");
    }
}
