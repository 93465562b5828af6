//! The engine without a contract: turns, values, limits and interrupts.

mod harness;

use std::collections::HashSet;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use execbox_core::engine::{
    CallId, Engine, Event, Guest, NativeError, NoRoom, Outcome, Pending, Settlement, StartError, Turn,
};
use execbox_core::error::{ErrorCode, ExecuteError};
use execbox_core::language::{Code, Position, Shift};
use execbox_core::program::{Limits, Namespace, Program, Source};
use execbox_core::value::Value;
use execbox_quickjs::QuickJs;
use harness::{engine, events, turn};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

fn start(body: &str, limits: Limits) -> Box<dyn Guest> {
    let namespace = Namespace::new("tools", ["echo", "other"]);
    let program =
        Program::new(Source::Script { name: "<script>".into(), code: body.into() }, vec![namespace.into()], limits);
    engine().start(program).unwrap()
}

fn calls(guest: &mut dyn Guest) -> Vec<(CallId, u32, Option<Json>)> {
    let calls = events(guest).into_iter().filter_map(|event| match event {
        Event::Call(call) => Some((call.id, call.function.0, call.input.to_json("input", 1 << 20).unwrap())),
        Event::Log(_) | Event::Notify(_) | Event::Unawaited(_) | Event::DroppedLogs(_) | Event::Timer(_) => None,
    });
    calls.collect()
}

fn run(body: &str) -> Outcome {
    run_within(body, Limits::default())
}

fn run_within(body: &str, limits: Limits) -> Outcome {
    match turn(&mut *start(body, limits)) {
        Turn::Done(outcome) => outcome,
        Turn::Waiting => panic!("waits: {body}"),
    }
}

fn value(body: &str) -> Json {
    match run(body) {
        Outcome::Returned(value) => value.to_json("result", 1 << 26).unwrap().unwrap_or(json!("undefined")),
        other => panic!("{body}: {other:?}"),
    }
}

fn message(body: &str) -> String {
    match run(body) {
        Outcome::Threw(thrown) => format!("{}: {}", thrown.name, thrown.message),
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn a_program_returns_its_value() {
    assert_eq!(value("return 1 + 1"), json!(2));
    assert_eq!(
        value("return await Promise.resolve({ a: [1, 2.5, 'x', null, true] })"),
        json!({"a": [1, 2.5, "x", null, true]})
    );
    assert_eq!(value("return"), json!("undefined"));
    assert_eq!(value("return 'häß 😀 \\ud800'"), json!("häß 😀 \u{fffd}"));
}

#[test]
fn a_call_waits_for_its_answer() {
    let mut guest = start("const r = await tools.echo({ a: 1 }); return r.b + 1", Limits::default());
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    let calls = calls(&mut *guest);
    assert_eq!(calls, [(CallId(1), 0, Some(json!({"a": 1})))]);
    assert_eq!(turn(&mut *guest), Turn::Waiting, "polling again changes nothing");
    guest.settle(Pending::Call(CallId(7)), Settlement::Fulfilled(Value::undefined()));
    assert_eq!(turn(&mut *guest), Turn::Waiting, "an answer to nothing changes nothing");
    guest.settle(
        Pending::Call(CallId(1)),
        Settlement::Fulfilled(Value::from_json(Some(&json!({"b": 41})), "r").unwrap()),
    );
    assert_eq!(turn(&mut *guest), Turn::Done(Outcome::Returned(Value::from_json(Some(&json!(42)), "r").unwrap())));
    assert!(guest.peak_memory_bytes().is_some_and(|bytes| bytes > 100 && bytes < 100_000));
}

#[test]
fn values_are_unchanged_in_both_directions() {
    let deep = (0..90).fold(json!({"leaf": [1.5, -0.25, "é😀\u{2028}", null]}), |inner, _| json!([inner, {"k": {}}]));
    let wide = json!(
        (0..5000)
            .map(|i| json!({"id": i, "name": format!("item {i}"), "0": [], "": {}, "__proto__": {"x": i}}))
            .collect::<Vec<_>>()
    );
    for given in [
        json!(null),
        json!([]),
        json!({}),
        json!([[], {}, [[]]]),
        deep,
        wide,
        json!(i32::MIN),
        json!(4_294_967_296_u64),
    ] {
        let mut guest = start("return await tools.echo()", Limits::default());
        turn(&mut *guest);
        guest.settle(Pending::Call(CallId(1)), Settlement::Fulfilled(Value::from_json(Some(&given), "given").unwrap()));
        let Turn::Done(Outcome::Returned(back)) = turn(&mut *guest) else { panic!("{given}") };
        assert_eq!(back.to_json("back", 1 << 26), Ok(Some(given)));
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        any::<i32>().prop_map(|n| Json::from(f64::from(n) / 8.0 + 0.0625)),
        ".*".prop_map(Json::from),
    ];
    leaf.prop_recursive(8, 200, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Json::from),
            prop::collection::vec(("[a-z_]{0,2}|[0-9]{1,2}|.{0,3}", inner), 0..40)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_json_is_unchanged_in_both_directions(given in any_json()) {
        let mut guest = start("const v = await tools.echo(); return [v, JSON.parse(JSON.stringify(v)), structuredClone(v)]", Limits::default());
        turn(&mut *guest);
        guest.settle(Pending::Call(CallId(1)), Settlement::Fulfilled(Value::from_json(Some(&given), "given").unwrap()));
        let Turn::Done(Outcome::Returned(back)) = turn(&mut *guest) else { panic!("{given}") };
        prop_assert_eq!(back.to_json("back", 1 << 26), Ok(Some(json!([given, given, given]))));
    }
}

#[test]
fn an_own_property_named_proto_is_an_ordinary_property() {
    let mut guest = start(
        "const r = await tools.echo(); return [Object.getPrototypeOf(r) === Object.prototype, r.x === undefined, Object.keys(r)]",
        Limits::default(),
    );
    turn(&mut *guest);
    guest.settle(
        Pending::Call(CallId(1)),
        Settlement::Fulfilled(Value::from_json(Some(&json!({"__proto__": {"x": 1}})), "r").unwrap()),
    );
    let Turn::Done(Outcome::Returned(back)) = turn(&mut *guest) else { panic!() };
    assert_eq!(back.to_json("back", 1 << 20), Ok(Some(json!([true, true, ["__proto__"]]))));
}

#[test]
fn many_calls_at_once_are_matched_by_id() {
    let mut guest = start(
        "const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => tools.echo(i))); return all.every((v, i) => v === i * 2)",
        Limits::default(),
    );
    turn(&mut *guest);
    let mut calls = calls(&mut *guest);
    assert_eq!(calls.iter().map(|(id, ..)| id).collect::<HashSet<_>>().len(), 1000, "no id twice");
    calls.reverse();
    for (id, _, input) in calls {
        let doubled = json!(input.unwrap().as_i64().unwrap() * 2);
        guest.settle(Pending::Call(id), Settlement::Fulfilled(Value::from_json(Some(&doubled), "r").unwrap()));
    }
    assert_eq!(turn(&mut *guest), Turn::Done(Outcome::Returned(Value::from_json(Some(&json!(true)), "r").unwrap())));
}

fn answered_with_failure(body: &str) -> Outcome {
    let mut guest = start(body, Limits::default());
    assert_eq!(turn(&mut *guest), Turn::Waiting, "{body}");
    for (id, ..) in calls(&mut *guest) {
        guest.settle(
            Pending::Call(id),
            Settlement::Failed(ExecuteError::new(ErrorCode::ValidationError, "no such issue")),
        );
    }
    match turn(&mut *guest) {
        Turn::Done(outcome) => outcome,
        Turn::Waiting => panic!("waits: {body}"),
    }
}

#[test]
fn only_the_error_object_of_a_failed_call_is_trusted() {
    for body in [
        "await tools.echo()",
        "try { await tools.echo() } catch (e) { throw e }",
        "try { await tools.echo() } catch (e) { e.message = 'x'; e.code = 'timeout'; delete e.stack; throw e }",
        "try { await tools.echo() } catch (e) { Object.setPrototypeOf(e, null); throw e }",
        "await Promise.all([tools.echo(), tools.other()])",
    ] {
        let Outcome::Failed { error, frames } = answered_with_failure(body) else { panic!("{body}") };
        assert_eq!(error, ExecuteError::new(ErrorCode::ValidationError, "no such issue"), "{body}");
        assert_eq!(frames[0].position.line, 1, "where the call was made: {body}");
    }
    for body in [
        "try { await tools.echo() } catch (e) { throw { code: e.code, message: e.message } }",
        "try { await tools.echo() } catch (e) { throw Object.assign(new Error(), e) }",
        "try { await tools.echo() } catch (e) { throw structuredClone(e) }",
        "try { await tools.echo() } catch (e) { throw new Proxy(e, {}) }",
        "try { await tools.echo() } catch (e) { throw Object.create(e) }",
        "try { await tools.echo() } catch (e) { const f = new Error(e.message); for (const k of Reflect.ownKeys(e)) \
           Object.defineProperty(f, k, Object.getOwnPropertyDescriptor(e, k)); throw f }",
    ] {
        assert!(matches!(answered_with_failure(body), Outcome::Threw(_)), "{body}");
    }
}

#[test]
fn a_failed_call_rejects_with_message_and_code() {
    let body = "try { await tools.echo() } catch (e) { return [e instanceof Error, e.message, e.code] }";
    let Outcome::Returned(value) = answered_with_failure(body) else { panic!() };
    assert_eq!(value.to_json("v", 1 << 20), Ok(Some(json!([true, "no such issue", "validation_error"]))));
}

#[test]
fn errors_of_the_engine_are_told_apart() {
    for (body, native) in [
        ("const shop = {}; shop.list()", Some(NativeError::NotAFunction)),
        ("shopp", Some(NativeError::NotDefined("shopp".into()))),
        ("const shop = {}; shop.orders.list", Some(NativeError::PropertyOfNothing)),
        ("throw new Error('not a function')", None),
        ("throw 'shopp is not defined'", None),
        ("new (class { constructor() { this.x = new 1 } })", None),
    ] {
        let Outcome::Threw(thrown) = run(body) else { panic!("{body}") };
        assert_eq!(thrown.native, native, "{body}: {}", thrown.message);
    }
}

#[test]
fn uncaught_errors_carry_name_message_and_place() {
    let Outcome::Threw(thrown) = run("function f() {\n  null.x\n}\nf()") else { panic!() };
    assert_eq!(thrown.name, "TypeError");
    assert!(thrown.frames[0].function.as_deref() == Some("f") && thrown.frames[0].position.line == 2, "{thrown:?}");
    assert!(thrown.frames[1].function.is_none() && thrown.frames[1].position.line == 4, "{thrown:?}");
    for (body, expected) in [
        ("throw 'text'", ": text"),
        ("throw 7", ": 7"),
        ("throw undefined", ": undefined"),
        ("throw Symbol('s')", ": Symbol(s)"),
        ("throw { message: 'm' }", ": m"),
        ("throw { a: 1 }", ": {\"a\":1}"),
        ("throw { get message() { throw 1 } }", ": [object Object]"),
        ("throw Object.create(null)", ": {}"),
        ("class E extends Error { name = 'E' } throw new E('m')", "E: m"),
    ] {
        assert_eq!(message(body), expected, "{body}");
    }
}

#[test]
fn missing_globals_are_reference_errors() {
    for name in ["setTimeout", "fetch", "eval", "nothing"] {
        let Outcome::Threw(thrown) = run(&format!("return {name}")) else { panic!("{name}") };
        assert_eq!(
            (thrown.message, thrown.native),
            (format!("{name} is not defined"), Some(NativeError::NotDefined(name.into())))
        );
    }
    assert_eq!(value("return typeof process"), json!("undefined"));
}

#[test]
fn code_from_strings_does_not_run() {
    let refused = "TypeError: code from strings cannot run in this sandbox";
    for body in [
        "new Function('return 1')",
        "Function('return 1')",
        "(async () => {}).constructor('return 1')",
        "(function* () {}).constructor('return 1')",
        "(async function* () {}).constructor('return 1')",
        "Reflect.construct(Function, ['return 1'])",
        "[].map.constructor('return 1')()",
    ] {
        assert_eq!(message(body), refused, "{body}");
    }
    assert!(matches!(run("await import('x')"), Outcome::Threw(_)));
}

/// Libraries find the global object with `Function('return this')()`.
#[test]
fn function_return_this_is_the_only_code_from_a_string() {
    for body in [
        "return Function('return this')() === globalThis",
        "return new Function('return this')() === globalThis",
        "return (() => {}).constructor('return this')() === globalThis",
        "const o = {}; return Function('return this').call(o) === o",
        "return Function('return this') !== Function('return this')",
        "const f = Function('return this'); f.kept = 1; return Function('return this').kept === undefined",
        "class Made extends Function { constructor() { super('return this') } }
         const made = new Made(); return made instanceof Made && made() === globalThis",
    ] {
        assert_eq!(value(body), json!(true), "{body}");
    }
    assert_eq!(
        value("const f = Function('return this'); return [f.name, f.length, String(f)]"),
        json!(["anonymous", 0, "function anonymous(\n) {\nreturn this\n}"])
    );
    for body in [
        "Function('return this;')",
        "Function('return  this')",
        "Function(' return this')",
        "Function('return this\\n')",
        "Function('return this.x')",
        "Function('a', 'return this')",
        "Function('/**/', 'return this')",
        "Function('\"use strict\";return this')",
        "(async () => {}).constructor('return this')",
        "(function* () {}).constructor('return this')",
        "(async function* () {}).constructor('return this')",
    ] {
        assert_eq!(message(body), "TypeError: code from strings cannot run in this sandbox", "{body}");
    }
}

#[test]
fn doubled_punctuation_is_reserved_in_classes_of_regular_expressions_only() {
    for (pattern, text) in [
        ("::", "a::b"),
        (";;", ";;"),
        ("==", "=="),
        ("&&", "a && b"),
        ("--", "--"),
        ("/", "a/b"),
        ("a-b", "a-b"),
        ("[\\w&&\\d]", "7"),
        ("[\\w--\\d]::", "a::"),
    ] {
        assert_eq!(
            value(&format!("return new RegExp({}, 'v').test('{text}')", json!(pattern))),
            json!(true),
            "{pattern}"
        );
    }
    for pattern in ["[::]", "[a==]", "[\\q{;;}]", "[(]", "[a|b]", "[/]"] {
        assert!(message(&format!("new RegExp({}, 'v')", json!(pattern))).starts_with("SyntaxError: "), "{pattern}");
    }
}

#[test]
fn an_extensible_proxy_is_neither_sealed_nor_frozen() {
    let code = "const asked = [];
        const proxy = (target) => new Proxy(target, new Proxy({}, { get: (_, trap) => { asked.push(trap) } }));
        const open = Object.create({}), closed = Object.freeze({ a: 1 });
        return [Object.isFrozen(proxy(open)), Object.isSealed(proxy(open)), Object.isFrozen(proxy(closed)), asked.join(' ')]";
    assert_eq!(
        value(code),
        json!([false, false, true, "isExtensible isExtensible isExtensible ownKeys getOwnPropertyDescriptor"])
    );
    assert_eq!(
        value(
            "return [{}, Object.seal({ a: 1 }), Object.preventExtensions({ a: 1 }), Object.preventExtensions({})]
               .map((o) => [Object.isSealed(o), Object.isFrozen(o)])"
        ),
        json!([[false, false], [true, false], [false, false], [true, true]])
    );
}

#[test]
fn the_globals_of_scripts_are_exactly_these() {
    let expected = "AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean \
        DataView Date DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array \
        Function Infinity Int16Array Int32Array Int8Array Iterator JSON Map Math NaN Number Object Promise Proxy \
        RangeError ReferenceError Reflect RegExp Set String SuppressedError Symbol SyntaxError TypeError URIError \
        Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet console decodeURI \
        decodeURIComponent encodeURI encodeURIComponent escape globalThis isFinite isNaN parseFloat parseInt \
        queueMicrotask structuredClone tools undefined unescape";
    let found =
        value("return Reflect.ownKeys(globalThis).map(String).filter(k => !k.startsWith('Symbol(')).sort().join(' ')");
    let expected: Vec<_> = expected.split_whitespace().collect();
    assert_eq!(found, json!(expected.join(" ")));
    assert_eq!(value("return Object.keys(globalThis)"), json!(["tools"]));
}

#[test]
fn namespaces_are_frozen_objects() {
    let body = "'use strict'; const refused = (f) => { try { f(); return false } catch { return true } };
        return [Object.getPrototypeOf(tools) === Object.prototype, Object.keys(tools), refused(() => { tools.echo = 1 }),
                refused(() => { delete tools.echo }), refused(() => { tools.x = 1 }), refused(() => { globalThis.tools = 1 }),
                typeof tools.then, `${tools}`, tools.hasOwnProperty('echo'), Object.isFrozen(tools), tools.echo.name]";
    let expected =
        json!([true, ["echo", "other"], true, true, true, true, "undefined", "[object Object]", true, true, "echo"]);
    assert_eq!(value(body), expected);
}

#[test]
fn functions_of_a_namespace_may_have_any_name() {
    let functions = ["toString", "constructor", "__proto__", "hasOwnProperty", "größe"].map(str::to_owned).to_vec();
    let namespace = Namespace::new("größen", functions);
    let body = "return [Object.keys(größen), Object.keys(größen).map((name) => typeof \
                Object.getOwnPropertyDescriptor(größen, name).value), Object.getPrototypeOf(größen) === Object.prototype]";
    let program = Program::new(
        Source::Script { name: "<script>".into(), code: body.into() },
        vec![namespace.into()],
        Limits::default(),
    );
    let Turn::Done(Outcome::Returned(value)) = turn(&mut *engine().start(program).unwrap()) else { panic!() };
    let names = ["toString", "constructor", "__proto__", "hasOwnProperty", "größe"];
    assert_eq!(value.to_json("v", 1 << 20), Ok(Some(json!([names, vec!["function"; 5], true]))));
}

#[test]
fn functions_beyond_16_bits_are_called_by_their_own_number() {
    let namespace = |name: &str, count: u32| Namespace::new(name, (0..count).map(|number| format!("f{number}")));
    let body = "return [a.f0(), a.f39999(), b.f25535(), b.f25536(), b.f25537(), b.f29999()].length";
    let source = Source::Script { name: "<script>".into(), code: body.into() };
    let namespaces = vec![namespace("a", 40_000).into(), namespace("b", 30_000).into()];
    let program = Program::new(source, namespaces, Limits::default());
    let mut guest = engine().start(program).unwrap();
    assert!(matches!(turn(&mut *guest), Turn::Done(Outcome::Returned(_))));
    let called: Vec<_> = calls(&mut *guest).into_iter().map(|(_, function, _)| function).collect();
    assert_eq!(called, [0, 39_999, 65_535, 65_536, 65_537, 69_999]);
}

#[test]
fn the_body_of_a_script_ends_only_where_its_text_ends() {
    for (body, line, column) in [
        ("}); tools.echo(); (async () => {", 1, 1),
        ("1;\n})", 2, 1),
        ("return 1 }", 1, 10),
        ("if (1) {", 1, 9),
        ("/* never closed", 1, 1),
        ("'never closed", 1, 1),
        ("1; `never closed ${1", 1, 21),
        ("*/", 1, 1),
        ("return super.x", 1, 13),
        ("return new.target", 1, 12),
        ("'use strict'; with ({}) {}", 1, 15),
    ] {
        let mut guest = start(body, Limits::default());
        let Turn::Done(Outcome::Threw(thrown)) = turn(&mut *guest) else { panic!("{body}") };
        assert_eq!(thrown.name, "SyntaxError", "{body}: {}", thrown.message);
        assert_eq!(thrown.frames[0].position, Position { line, column }, "{body}");
        assert_eq!(calls(&mut *guest), [], "{body}");
    }
    for (body, expected) in [
        ("return 1 // the end", json!(1)),
        ("<!-- a comment\nreturn 2", json!(2)),
        ("return 3\n--> a comment", json!(3)),
        ("return 4 /* the end */", json!(4)),
        ("return", json!("undefined")),
        ("", json!("undefined")),
        ("return [this === globalThis, typeof arguments]", json!([true, "undefined"])),
        (
            "let a; const b = 1; var c; function d() {} class E {}\nreturn 'abcdE'.split('').map((n) => n in globalThis)",
            json!(vec![false; 5]),
        ),
        ("'use strict'; try { undeclared = 1 } catch (e) { return e.name }", json!("ReferenceError")),
        ("sloppy = 1; return await sloppy + (await 1)", json!(2)),
        ("const log = []; { using x = { [Symbol.dispose]() { log.push('inner') } } } return log", json!(["inner"])),
        ("using x = { [Symbol.dispose]() { console.log('x') } }; return 5", json!(5)),
    ] {
        assert_eq!(value(body), expected, "{body}");
    }
}

fn thrown_of(code: Code) -> execbox_core::engine::Thrown {
    let program = Program::new(Source::Script { name: "<script>".into(), code }, Vec::new(), Limits::default());
    match turn(&mut *engine().start(program).unwrap()) {
        Turn::Done(Outcome::Threw(thrown)) => thrown,
        other => panic!("{other:?}"),
    }
}

#[test]
fn columns_are_those_of_the_source() {
    let shift = |line, column, source_column, inserted| Shift { line, column, source_column, inserted };
    let at = |text: &str, shifts: Vec<Shift>| {
        let code = Code { text: text.into(), shifts };
        let engine = thrown_of(Code { shifts: Vec::new(), ..code.clone() }).frames[0].position;
        let thrown = thrown_of(code.clone());
        assert_eq!(thrown.frames[0].position, code.source_position(engine), "{text}");
        thrown.frames[0].position.column
    };
    assert_eq!(at("  missing", vec![]), 3);
    assert_eq!(at("  missing", vec![shift(1, 3, 30, false)]), 30);
    assert_eq!(at("1; missing", vec![shift(1, 3, 30, false)]), 31);
    assert_eq!(at("1; missing", vec![shift(1, 3, 30, true)]), 30);
    assert_eq!(at("1; missing", vec![shift(1, 1, 9, true), shift(1, 4, 2, false), shift(1, 5, 70, false)]), 2);
    assert_eq!(at("1;\n missing", vec![shift(1, 1, 9, true), shift(3, 1, 9, true)]), 2, "another line's");
    assert_eq!(at("x =", vec![shift(1, 3, 30, false)]), 31, "a syntax error");
}

#[test]
fn columns_count_utf_16_units_and_lines_end_where_ecmascript_ends_them() {
    for (body, line, column) in [
        ("const größe = 'äöü😀'; missing", 1, 24),
        ("/* 😀 */ missing", 1, 10),
        ("1;\r\n missing", 2, 2),
        ("1;\r missing", 2, 2),
        ("1;\u{2028} missing", 2, 2),
        ("1; // \u{2029} missing", 2, 2),
        ("/* \u{2028}\r\n\r */ missing", 4, 5),
        ("`\u{2028}\n\r\n`; missing", 4, 4),
        ("'\u{2028} \\\r\n'; missing", 3, 4),
        ("const f = (é) => [é]; f('é', (1), [2]); missing", 1, 41),
    ] {
        assert_eq!(thrown_of(body.into()).frames[0].position, Position { line, column }, "{body:?}");
    }
}

#[test]
fn error_stacks_have_the_usual_format() {
    for (body, expected) in [
        (
            "function f() { return new Error('m').stack }\nreturn f()",
            "Error: m\n    at f (<script>:1:23)\n    at <script>:2:8",
        ),
        ("const e = new Error('a'); e.name = 'N'; e.message = 'b'; return e.stack", "N: b\n    at <script>:1:11"),
        (
            "try { null.x } catch (e) { return e.stack }",
            "TypeError: cannot read property 'x' of null\n    at <script>:1:12",
        ),
        ("const e = new Error(); e.stack = 'mine'; return e.stack", "mine"),
        ("const o = {}; Error.captureStackTrace(o); return o.stack", "Error\n    at <script>:1:21"),
        (
            "Error.prepareStackTrace = (e, sites) => `${e.message} ${sites.length} ${sites[0].getLineNumber()}`;\nreturn new Error('m').stack",
            "m 1 2",
        ),
    ] {
        assert_eq!(value(body), json!(expected), "{body}");
    }
}

#[test]
fn peak_memory_is_known_for_every_outcome() {
    let limits = Limits::default();
    let keep = "const kept = 'x'.repeat(300000); ";
    for (end, expected) in [
        ("return 1", "Returned"),
        ("throw 1", "Threw"),
        ("for (const a = [];;) a.push({})", "OutOfMemory"),
        ("let it = [1].values(); for (let i = 0; i < 60_000; i++) it = it.map((x) => x); [...it]", "StackOverflow"),
    ] {
        let mut guest = start(&format!("{keep}{end}"), limits);
        let Turn::Done(outcome) = turn(&mut *guest) else { panic!("{end}") };
        assert!(format!("{outcome:?}").starts_with(expected), "{outcome:?}");
        let peak = guest.peak_memory_bytes().unwrap();
        assert!((300_000..=64 << 20).contains(&peak), "{end}: {peak}");
    }
    let mut waits = start(&format!("{keep}await tools.echo()"), limits);
    assert_eq!(turn(&mut *waits), Turn::Waiting);
    assert!(waits.peak_memory_bytes() > Some(300_000), "while it waits");
    let mut computes = start(&format!("{keep}for (;;);"), limits);
    while computes.peak_memory_bytes() < Some(300_000) {
        assert!(computes.poll_turn(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    computes.interrupt().trigger();
    assert_eq!(turn(&mut *computes), Turn::Done(Outcome::Interrupted));
    assert!(computes.peak_memory_bytes() > Some(300_000), "when it was stopped");
}

fn logs(body: &str) -> Vec<String> {
    let mut guest = start(body, Limits::default());
    assert!(matches!(turn(&mut *guest), Turn::Done(_)), "{body}");
    let lines = events(&mut *guest).into_iter().filter_map(|event| match event {
        Event::Log(line) => Some(format!("{}: {}", line.level.as_str(), line.text)),
        Event::Call(_) | Event::Notify(_) | Event::Unawaited(_) | Event::DroppedLogs(_) | Event::Timer(_) => None,
    });
    lines.collect()
}

#[test]
fn unhandled_errors_are_logged() {
    let none: [&str; 0] = [];
    assert_eq!(
        logs("Promise.reject(new Error('a')); (async () => { await 1; throw 'b' })(); await 2"),
        [
            "error: Uncaught (in promise) Error: a\n    at <script>:1:16",
            "error: Uncaught (in promise) b\n    at <script>:1:57"
        ]
    );
    assert_eq!(
        logs("queueMicrotask(() => { null.x }); await 1; await 1; console.log('on')"),
        ["error: Uncaught TypeError: cannot read property 'x' of null\n    at <script>:1:29", "log: on"]
    );
    for handled in [
        "throw new Error('the outcome')",
        "return Promise.reject(new Error('the outcome'))",
        "const p = Promise.reject(1); await 1; await 2; await p.catch(() => {})",
        "await Promise.allSettled(Array.from({ length: 100 }, (_, i) => Promise.reject(i)))",
        "try { await (async () => { throw 1 })() } catch {}",
    ] {
        assert_eq!(logs(handled), none, "{handled}");
    }
    let many = logs("for (let i = 0; i < 50; i++) Promise.reject(i); throw new Error('the outcome')");
    assert_eq!((many.len(), many[32].as_str()), (33, "error: Uncaught (in promise) 18 more errors"));
}

#[test]
fn numbers_are_logged_as_strings() {
    assert_eq!(
        logs("console.log(NaN, Infinity, -Infinity, -0, 0, 1.5, 1e21, 10n, [NaN, -0], { a: Infinity })"),
        ["log: NaN Infinity -Infinity -0 0 1.5 1e+21 10 [null,0] {\"a\":null}"]
    );
}

/// Frames come from the engine's record: messages, names and the `stack` that the guest writes add none.
#[test]
fn a_guest_cannot_forge_frames() {
    let fake = "    at fake (<script>:99:9)\\n";
    for body in [
        "throw new Error('m\\nFAKE')",
        "const e = new Error('m'); e.stack = 'Error: m\\nFAKE'; throw e",
        "const e = new Error('m'); e.name = 'FAKE'; throw e",
        "Error.prepareStackTrace = () => 'FAKE'; throw new Error('m')",
        "class E extends Error { get stack() { return 'FAKE' } } throw new E('m')",
        "const f = () => { throw new Error('m') }; Object.defineProperty(f, 'name', { value: 'x\\nFAKE' }); f()",
        "throw 'FAKE'",
        "throw { stack: 'FAKE', message: 'FAKE' }",
    ] {
        let thrown = thrown_of(body.replace("FAKE", fake).as_str().into());
        assert!(
            !thrown.frames.is_empty() && thrown.frames.iter().all(|frame| frame.position.line == 1),
            "{body}: {thrown:?}"
        );
    }
}

#[test]
fn memory_is_limited_exactly_and_uncatchably() {
    let limits = Limits::default().memory_bytes(1 << 20);
    for body in [
        "const a = []; for (;;) a.push({})",
        "try { const a = []; for (;;) a.push('x'.repeat(1000) + a.length) } catch { return 'caught' }",
        "try { new ArrayBuffer(1 << 30) } catch { return 'caught' } finally { return 'finally' }",
        "let s = 'x'; try { for (;;) { s += s; s.charCodeAt(0) } } catch { return 'caught' }",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, () => i)",
        "const a = []; for (let x = 3n; ; x *= 3n) a.push(x)",
    ] {
        assert_eq!(run_within(body, limits), Outcome::OutOfMemory, "{body}");
    }
    // Pending calls count against a budget of the host.
    for body in [
        "await Promise.all(Array.from({ length: 1e6 }, () => tools.echo({})))",
        "for (;;) tools.echo('x'.repeat(10000))",
    ] {
        assert_eq!(run_within(body, limits), Outcome::HostMemory(NoRoom::Calls), "{body}");
    }
    assert!(matches!(run_within("return new ArrayBuffer(1 << 19).byteLength", limits), Outcome::Returned(_)));
    assert_eq!(run_within("return 1", limits.memory_bytes(0)), Outcome::OutOfMemory);
}

#[test]
fn the_memory_limit_is_exact() {
    for body in [
        "return 1",
        "const a = []; for (let i = 0; i < 5000; i++) a.push({ i }); return a.length",
        "return 'x'.repeat(300000).length",
    ] {
        let with_limit = |memory_bytes| {
            let mut guest = start(body, Limits::default().memory_bytes(memory_bytes));
            (turn(&mut *guest), guest.peak_memory_bytes())
        };
        let (_, peak) = with_limit(64 << 20);
        let peak = peak.unwrap();
        assert!(matches!(with_limit(peak).0, Turn::Done(Outcome::Returned(_))), "{peak} bytes are enough: {body}");
        assert_eq!(
            with_limit(peak - 1).0,
            Turn::Done(Outcome::OutOfMemory),
            "one byte less than {peak} is not: {body}"
        );
    }
}

#[test]
fn deep_recursion_is_an_error_in_the_guest() {
    for body in [
        "const f = () => f() + 1; f()",
        "let a = []; for (let i = 0; i < 200000; i++) a = [a]; return JSON.stringify(a)",
        "let a = []; for (let i = 0; i < 200000; i++) a = [a]; return String(a)",
        "return JSON.parse('['.repeat(500000))",
        "return new RegExp('('.repeat(500000) + ')'.repeat(500000))",
        "const o = { get a() { return this.a } }; return o.a",
        "let p = {}; for (let i = 0; i < 200000; i++) p = new Proxy(p, {}); return p.x",
        "const f = () => [2, 1].sort(f); f()",
        "const f = () => 'a'.replace(/a/, f); f()",
        "let f = () => 1; for (let i = 0; i < 5000; i++) f = f.bind(null); return f()",
        "function* g(n) { if (n > 0) yield* g(n - 1); else yield 1 } return [...g(50000)].length",
        "let it = [1].values(); for (let i = 0; i < 100000; i++) it = it.map((x) => x); return [...it]",
        "let it = [1].values(); for (let i = 0; i < 100000; i++) it = Iterator.from({ next: () => it.next() }); return [...it]",
        "let s = 'a'; for (let i = 0; i < 300000; i++) s = s + 'bcd' + i; return s.charCodeAt(5) + s.length",
        "let a = null; for (let i = 0; i < 1000000; i++) a = { a }; a = null; return 'freed'",
        "let a = []; for (let i = 0; i < 200000; i++) a = [a]; return structuredClone(a).length",
        "let a = []; for (let i = 0; i < 200000; i++) a = [a]; console.log(a); return 1",
    ] {
        let outcome = run_within(body, Limits::default().memory_bytes(256 << 20));
        assert!(
            matches!(&outcome, Outcome::Returned(_) | Outcome::StackOverflow)
                || matches!(&outcome, Outcome::Threw(t) if ["RangeError", "InternalError", "SyntaxError"].contains(&t.name.as_str())),
            "{body}: {outcome:?}"
        );
    }
    assert_eq!(value("return 'still here'"), json!("still here"));
}

#[test]
fn every_loop_can_be_interrupted() {
    for body in [
        "for (;;);",
        "for (;;) { try { for (;;); } catch {} finally { continue } }",
        "const spin = () => Promise.resolve().then(spin); spin(); await new Promise(() => {})",
        "await { then() { for (;;); } }",
        "/^(a+)+$/.test('a'.repeat(40) + 'b')",
        "let x = (7n ** 20000n) ** 4n; for (;;) x = x * x % (10n ** 10000n)",
        "const u = new Uint8Array(1 << 24); for (;;) u.fill(1)",
        "const a = Array.from({ length: 20000 }, (_, i) => ({ i })); for (;;) JSON.stringify(a)",
        "for (;;) [3, 1, 2].sort()",
        "const s = 'a'.repeat(2e6); for (;;) s.indexOf('a'.repeat(100) + 'b')",
        "return { get a() { for (;;); } }",
        "throw { get message() { for (;;); } }",
        "console.log({ toJSON() { for (;;); } })",
    ] {
        let mut guest = start(body, Limits::default().memory_bytes(200 << 20));
        let interrupt = guest.interrupt();
        let puller = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            interrupt.trigger();
        });
        let started = Instant::now();
        assert_eq!(turn(&mut *guest), Turn::Done(Outcome::Interrupted), "{body}");
        assert!(started.elapsed() < Duration::from_mins(1), "{body}");
        puller.join().unwrap();
    }
}

#[test]
fn an_engine_at_capacity_accepts_guests_again_when_others_end() {
    let engine = QuickJs::new().unwrap();
    let program = || {
        Program::new(Source::Script { name: "<script>".into(), code: "return 1".into() }, Vec::new(), Limits::default())
    };
    let mut guests = Vec::new();
    let refused = loop {
        match engine.start(program()) {
            Ok(guest) => guests.push(guest),
            Err(error) => break error,
        }
        if guests.len() > 2000 {
            return; // The system grants no pool of address space, so the engine has no limit.
        }
    };
    assert_eq!(refused, StartError::Full(guests.len()));
    guests.pop();
    assert!(matches!(turn(&mut *engine.start(program()).unwrap()), Turn::Done(Outcome::Returned(_))));
}

/// Guests beyond those that the engine has room for at first get room when they start.
#[test]
fn an_engine_makes_room_for_more_guests() {
    let engine = QuickJs::new().unwrap();
    let program = |code: &str| {
        Program::new(Source::Script { name: "<script>".into(), code: code.into() }, Vec::new(), Limits::default())
    };
    let mut guests: Vec<_> = (0..70).map(|n| engine.start(program(&format!("return {n}"))).unwrap()).collect();
    for (n, guest) in guests.iter_mut().enumerate() {
        let Turn::Done(Outcome::Returned(value)) = turn(&mut **guest) else { panic!("guest {n}") };
        assert_eq!(value.to_json("result", 100).unwrap(), Some(json!(n)));
    }
}

/// Regression: with 46 of 64 MiB in use, cycles were not collected before the limit was reached.
#[test]
fn cycles_are_collected_before_memory_is_refused() {
    let body = "const live = []; for (let i = 0; i < 46; i++) live.push(new Uint8Array(1 << 20));
        for (let i = 0; i < 2000; i++) { const a = { text: 'x'.repeat(20000) + i }, b = { a }; a.b = b }
        return live.length";
    assert_eq!(value(body), json!(46));
}

#[test]
fn a_running_guest_can_be_dropped() {
    for _ in 0..50 {
        let mut guest = start("for (;;);", Limits::default());
        assert!(guest.poll_turn(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(guest);
    }
    assert_eq!(value("return 1"), json!(1));
}

#[test]
fn logs_are_cut_at_once_and_further_arguments_are_not_formatted() {
    let limits = Limits::default().max_log_lines(2).max_log_chars(5);
    let mut guest = start(
        "for (let i = 0; i < 1e5; i++) console.log('abc', i); let ran = false; console.log({ get a() { ran = true } }); return ran",
        limits,
    );
    let Turn::Done(Outcome::Returned(ran)) = turn(&mut *guest) else { panic!() };
    assert_eq!(ran.to_json("ran", 100), Ok(Some(json!(false))));
    let mut events = events(&mut *guest).into_iter();
    assert!(matches!(events.next(), Some(Event::Log(line)) if line.text == "abc 0"));
    assert_eq!(events.collect::<Vec<_>>(), [Event::DroppedLogs(100_000)]);
}

#[test]
fn randomness_differs_between_guests_and_time_is_the_hosts() {
    assert_ne!(value("return Math.random()"), value("return Math.random()"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((value("return Date.now() / 1000").as_f64().unwrap() - now).abs() < 60.0);
    assert_eq!(value("return new Date(0).getTimezoneOffset()"), json!(0));
    assert_eq!(value("return new Date(0).toString()"), json!("Thu Jan 01 1970 00:00:00 GMT+0000"));
}

#[test]
fn structured_clone_copies_values() {
    assert_eq!(
        value(
            "const o = { d: new Date(5), m: new Map([['k', new Set([1])]]), r: /a/gi, u: new Uint8Array([1, 2]).subarray(1), e: new TypeError('t') };
             o.self = o;
             Map.prototype.get = Map.prototype.set = Array.isArray = () => { throw new Error('poisoned') };
             const c = structuredClone(o);
             return [c !== o, c.self === c, c.d.getTime(), [...c.m.keys()], [...[...c.m.values()][0]], String(c.r), c.u[0], c.u.byteOffset, c.e instanceof TypeError, c.e.message]"
        ),
        json!([true, true, 5, ["k"], [1], "/a/gi", 2, 1, true, "t"])
    );
    for (code, expected) in [
        (
            "[structuredClone.name, structuredClone.length, structuredClone() === undefined]",
            json!(["structuredClone", 1, true]),
        ),
        (
            "(c => [c, Object.getPrototypeOf(c) === Object.prototype])(structuredClone(new (class A { x = 1; #p = 2 })()))",
            json!([{"x": 1}, true]),
        ),
        ("Object.getPrototypeOf(structuredClone(Object.create(null))) === Object.prototype", json!(true)),
        ("Object.keys(structuredClone(JSON.parse('{\"__proto__\": 1}')))", json!(["__proto__"])),
        (
            "(c => [c.length, 1 in c, c.x, c[2]])(structuredClone(Object.assign([1, , 3], { x: 4 })))",
            json!([3, false, 4, 3]),
        ),
        ("structuredClone(Object.assign([], { length: 4294967295 })).length", json!(4_294_967_295_u32)),
        (
            "(a => (c => [c.length, 1 in c, c[2]])(structuredClone(a)))((a => (a[0] = { get x() { delete a[1]; return 1 } }, a))([0, 2, 3]))",
            json!([3, false, 3]),
        ),
        (
            "(a => (c => [c.length, 1 in c, 2 in c])(structuredClone(a)))((a => (a[0] = { get x() { a.length = 1; return 1 } }, a))([0, 2, 3]))",
            json!([3, false, false]),
        ),
        (
            "['a\\ud800b', { 'k\\udc00': 1 }, new RegExp('\\ud83d'), Object('\\udfff')].every(v => JSON.stringify([structuredClone(v)]) === JSON.stringify([v]))",
            json!(true),
        ),
        (
            "structuredClone(new RegExp('\\ud800')).source === '\\ud800' && Object.keys(structuredClone({ 'k\\udc00\\ud800': 1 }))[0] === 'k\\udc00\\ud800'",
            json!(true),
        ),
        (
            "[Object(1), Object('s'), Object(1n), Object(true)].map(v => structuredClone(v)).map(c => typeof c + typeof c.valueOf())",
            json!(["objectnumber", "objectstring", "objectbigint", "objectboolean"]),
        ),
        ("[2n ** 64n, -(2n ** 63n), 0n].every(v => structuredClone([v])[0] === v)", json!(true)),
        (
            "(b => [structuredClone(b).resizable, structuredClone(b).maxByteLength])(new ArrayBuffer(4, { maxByteLength: 8 }))",
            json!([true, 8]),
        ),
        (
            "(c => { c.buffer.resize(8); return c.length })(structuredClone(new Uint8Array(new ArrayBuffer(4, { maxByteLength: 8 }))))",
            json!(8),
        ),
        (
            "(c => [c[0].buffer === c[1].buffer, c[1].byteOffset])((b => structuredClone([new Uint8Array(b), new DataView(b, 1)]))(new ArrayBuffer(4)))",
            json!([true, 1]),
        ),
        ("(c => [c.lastIndex, c.flags])(structuredClone(Object.assign(/x/g, { lastIndex: 3 })))", json!([0, "g"])),
        ("Object.keys(structuredClone(Object.assign(new Date(5), { x: 1 })))", json!([])),
        ("structuredClone(new (class M extends Map {})([[1, 2]])) instanceof Map", json!(true)),
        (
            "(e => (c => [c.name, c.message, c.cause, c.stack === e.stack, c.extra === undefined, Object.keys(c)])(structuredClone(e)))(Object.assign(new TypeError('x', { cause: { a: 1 } }), { name: 'Foo', extra: 1 }))",
            json!(["Error", "x", {"a": 1}, false, true, []]),
        ),
        ("(e => structuredClone(e).stack === e.stack)(new RangeError('x'))", json!(true)),
        (
            "(c => [c.constructor.name, c.name])(structuredClone(new (class E extends RangeError {})('m')))",
            json!(["RangeError", "RangeError"]),
        ),
        ("(e => (e.cause = e, structuredClone(e)))(new Error('a')).cause.message", json!("a")),
        ("Object.hasOwn(structuredClone(new Error()), 'message')", json!(false)),
        (
            "(o => (c => [c.a, c.inner.x])(structuredClone(o)))({ get a() { return structuredClone([1]) }, inner: { x: 2 } })",
            json!([[1], 2]),
        ),
    ] {
        assert_eq!(value(&format!("return {code}")), expected, "{code}");
    }
}

#[test]
fn structured_clone_rejects_what_cannot_be_copied() {
    for (code, what) in [
        ("{ f() {} }", "a function"),
        ("[class {}]", "a function"),
        ("tools", "a function"),
        ("{ a: Symbol('s') }", "a symbol"),
        ("new Map([[Symbol('s'), 1]])", "a symbol"),
        ("Object(Symbol('s'))", "a boxed symbol"),
        ("new Proxy({}, {})", "a Proxy"),
        ("[Promise.resolve()]", "a Promise"),
        ("new WeakMap()", "a weak reference or collection"),
        ("new WeakRef({})", "a weak reference or collection"),
        ("(function* () {})()", "an object of this class"),
        ("[1].values()", "an object of this class"),
        ("(function () { return arguments })(1)", "an object of this class"),
        ("(b => (b.transfer(), b))(new ArrayBuffer(4))", "a detached ArrayBuffer"),
        ("(u => (u.buffer.transfer(), u))(new Uint8Array(4))", "a view that exceeds its ArrayBuffer"),
        (
            "(b => (b.u = new Uint8Array(b, 2, 2), b.resize(3), [b.u]))(new ArrayBuffer(4, { maxByteLength: 8 }))",
            "a view that exceeds its ArrayBuffer",
        ),
    ] {
        assert_eq!(
            message(&format!("structuredClone({code})")),
            format!("DataCloneError: {what} could not be cloned"),
            "{code}"
        );
    }
    assert_eq!(message("structuredClone({ get a() { throw new RangeError('no') } })"), "RangeError: no");
}

#[test]
fn structured_clone_is_charged_to_the_guest() {
    let limits = Limits::default().memory_bytes(16 << 20);
    for body in [
        "const b = new ArrayBuffer(6 << 20); return structuredClone(b).byteLength",
        "const s = ['x'.repeat(6 << 20)]; return structuredClone(s).length",
        "let c = { a: [1, 2, 3] }; for (;;) c = [c, structuredClone(c)]",
    ] {
        assert_eq!(run_within(body, limits), Outcome::OutOfMemory, "{body}");
    }
}

#[test]
fn guests_share_no_state() {
    value("globalThis.x = 1; Array.prototype.map = null; Object.prototype.y = 2; return 1");
    assert_eq!(value("return [typeof x, typeof [].map, 'y' in {}]"), json!(["undefined", "function", false]));
}

#[test]
fn poisoned_intrinsics_do_not_affect_values() {
    let mut guest = start(
        "Object.prototype.then = (f) => f('forged'); Promise.prototype.then = () => 'forged'; JSON.stringify = () => 'forged';
         Object.prototype.toJSON = () => 'forged'; Array.prototype[Symbol.iterator] = null;
         const r = await tools.echo({ a: 1 }); return r",
        Limits::default(),
    );
    assert_eq!(turn(&mut *guest), Turn::Waiting);
    let calls = calls(&mut *guest);
    assert_eq!(calls, [(CallId(1), 0, Some(json!({"a": 1})))]);
}

#[test]
fn encoded_results_do_not_count_against_the_memory_limit() {
    let limits = Limits::default().memory_bytes(8 << 20);
    let outcome = run_within("return 'x'.repeat(5_000_000)", limits);
    assert!(matches!(outcome, Outcome::Returned(_)), "{outcome:?}");
}
