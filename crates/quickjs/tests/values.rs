//! Values of every kind that cross between programs of modules and the host.

mod harness;

use execbox_core::engine::{CallId, Engine, Event, Outcome, Pending, Settlement, Turn};
use execbox_core::program::Limits;
use execbox_core::value::{Node, Value};
use execbox_testkit::graphs::any_graph;
use harness::{BUDGET, engine, modules, outcome, program, result, returned, run, run_with, thrown, turn, value};
use proptest::prelude::*;
use serde_json::json;

// ---- Copies ------------------------------------------------------------------------------------------

/// The outcome of `export default (v) => …` for a value.
fn through(code: &str, given: &Value) -> Outcome {
    let mut program = program(code, vec![]);
    let mut args = given.to_graph("value", BUDGET).unwrap();
    let array = args.array([args.root().clone()]);
    args.set_root(array);
    modules(&mut program).args = args.to_value("args").unwrap();
    run(program)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_graph_is_unchanged_by_a_guest_that_returns_it(graph in any_graph()) {
        let given = graph.to_value("given").unwrap();
        let Outcome::Returned(back) = through("export default (v) => v", &given) else { panic!("{graph:?}") };
        prop_assert_eq!(back.to_graph("back", BUDGET).unwrap(), graph);
    }

    #[test]
    fn any_graph_is_unchanged_by_structured_clone(graph in any_graph()) {
        let given = graph.to_value("given").unwrap();
        let Outcome::Returned(back) = through("export default (v) => structuredClone(v)", &given) else { panic!("{graph:?}") };
        // `structuredClone` keeps only the names of ECMAScript's errors.
        let has_custom_error = graph.nodes().any(|node| matches!(node, Node::Error(error) if error.name == "Custom"));
        if !has_custom_error {
            prop_assert_eq!(back.to_graph("back", BUDGET).unwrap(), graph);
        }
    }
}

#[test]
fn values_of_every_kind_cross_to_the_host() {
    for (code, expected) in [
        (
            "[1n, -(2n ** 64n), 2n ** 31n, -(2n ** 31n), 0n]",
            json!([{"$bigint": "1"}, {"$bigint": "-18446744073709551616"}, {"$bigint": "2147483648"}, {"$bigint": "-2147483648"}, {"$bigint": "0"}]),
        ),
        (
            "[-0, NaN, Infinity, -Infinity, 1e21, undefined]",
            json!([{"$number": "-0"}, {"$number": "NaN"}, {"$number": "Infinity"}, {"$number": "-Infinity"}, 1e21, {"$undefined": true}]),
        ),
        ("[new Date(5), new Date(NaN)]", json!([{"$date": 5}, {"$date": null}])),
        ("new Map([[{}, [1]], ['k', new Set([1, 'a'])]])", json!({"$map": [[{}, [1]], ["k", {"$set": [1, "a"]}]]})),
        (
            "[/a\\/b/gi, new RegExp(''), /./dsvy]",
            json!([{"$regexp": "a\\/b", "flags": "gi"}, {"$regexp": "", "flags": ""}, {"$regexp": ".", "flags": "dsvy"}]),
        ),
        ("new Uint8Array([1, 2, 3])", json!({"$bytes": "AQID"})),
        (
            "new Uint16Array([1, 2, 3]).subarray(1, 2)",
            json!({"$view": "Uint16Array", "of": {"$buffer": "AQACAAMA"}, "offset": 2, "length": 1}),
        ),
        (
            "new Float16Array([1.5])",
            json!({"$view": "Float16Array", "of": {"$buffer": "AD4="}, "offset": 0, "length": 1}),
        ),
        ("new ArrayBuffer(1, { maxByteLength: 4 })", json!({"$buffer": "AA==", "max": 4})),
        (
            "new DataView(new ArrayBuffer(1, { maxByteLength: 4 }))",
            json!({"$view": "DataView", "of": {"$buffer": "AA==", "max": 4}, "offset": 0}),
        ),
        (
            "[Object(1), Object('s'), Object(false), Object(1n)]",
            json!([{"$boxed": 1}, {"$boxed": "s"}, {"$boxed": false}, {"$boxed": {"$bigint": "1"}}]),
        ),
        (
            "[Object.freeze([1, [2]]), Object.seal(['a']), Object.preventExtensions([{}]), Object.freeze([]), Object.freeze({ a: 1 })]",
            json!([[1, [2]], ["a"], [{}], [], {"a": 1}]),
        ),
        ("Object.freeze([1, , 3])", json!({"$sparse": 3, "items": {"0": 1, "2": 3}})),
        ("Object.freeze(Object.assign([1], { further: 2 }))", json!({"$sparse": 1, "items": {"0": 1, "further": 2}})),
        ("[1, , 3]", json!({"$sparse": 3, "items": {"0": 1, "2": 3}})),
        ("Object.assign([1], { further: 2 })", json!({"$sparse": 1, "items": {"0": 1, "further": 2}})),
        (
            "(() => { const a = []; a[4294967294] = 'last'; return a })()",
            json!({"$sparse": 4_294_967_295_u32, "items": {"4294967294": "last"}}),
        ),
        (
            "(() => { const a = []; a.length = 4294967295; return a })()",
            json!({"$sparse": 4_294_967_295_u32, "items": {}}),
        ),
        ("'a\\ud800b'", json!("a\u{fffd}b")),
        ("Object.create(null, { a: { value: 1, enumerable: true }, b: { value: 2 } })", json!({"a": 1})),
        ("({ get a() { return [1] }, [Symbol('s')]: 2, b: 3, 1: 4 })", json!({"1": 4, "a": [1], "b": 3})),
        ("(function () { return arguments })(1, 2)", json!({"0": 1, "1": 2})),
        ("class M extends Map {}; x = new M([[1, 2]])", json!({"$map": [[1, 2]]})),
    ] {
        let code = match code.strip_prefix("class M extends Map {}; x = ") {
            Some(rest) => format!("class M extends Map {{}}; export default {rest}"),
            None => format!("export default {code}"),
        };
        assert_eq!(result(&code), expected, "{code}");
    }
}

#[test]
fn errors_cross_with_name_message_stack_and_cause() {
    let error =
        result("class E extends TypeError { name = 'E' }; export default new E('m', { cause: new RangeError('why') })");
    assert_eq!((&error["$error"], &error["message"]), (&json!("E"), &json!("m")));
    assert_eq!((&error["cause"]["$error"], &error["cause"]["message"]), (&json!("RangeError"), &json!("why")));
    assert!(error["stack"].as_str().unwrap().starts_with("    at main:1:"), "{error}");
    let given = value(&json!([{"$error": "TypeError", "message": "m"}, {"$error": "Custom", "cause": 5}]));
    let code = "export default ([a, b]) => [a instanceof TypeError, a.message, Object.hasOwn(a, 'name'), String(a), Object.keys(a),
        Object.getPrototypeOf(b) === Error.prototype, b.name, b.message, b.cause, Object.keys(b), Error.isError(b), b.stack]";
    let expected = json!([true, "m", false, "TypeError: m", [], true, "Custom", "", 5, [], true, {"$undefined": true}]);
    assert_eq!(returned(through(code, &given)), expected);
}

#[test]
fn sharing_and_cycles_are_kept_in_both_directions() {
    let code = "const b = new ArrayBuffer(4), o = { b, u: new Uint8Array(b, 1), d: new DataView(b) }; o.o = o;
        const m = new Map(); m.set(m, o); const e = new Error('e'); e.cause = e; delete e.stack; export default [o, m, o.u, e]";
    let Outcome::Returned(made) = outcome(code) else { panic!() };
    let check = "export default (v) => { const [o, m, u, e] = v; u[0] = 7;
        return [o.o === o, o.u === u, u.buffer === o.b, o.d.getUint8(1), [...m.keys()][0] === m, m.get(m) === o, e.cause === e, u.byteOffset, u.length] }";
    assert_eq!(returned(through(check, &made)), json!([true, true, true, 7, true, true, true, 1, 3]));
}

#[test]
fn values_of_the_host_behave_like_those_of_the_program() {
    let given = json!([
        {"$bytes": "AQID"}, {"$date": 5}, {"$regexp": "a+", "flags": "g"}, {"$sparse": 4_294_967_295_u32, "items": {"4294967294": 1, "x": 2}},
        {"$view": "Float64Array", "of": {"$buffer": "AAAAAAAA8D8=", "max": 16}, "offset": 0}, {"$boxed": "s"}, {"$set": [1, 1, {"$number": "-0"}]},
    ]);
    let code = "export default ([bytes, date, regexp, sparse, view, boxed, set]) => {
        view.buffer.resize(16);
        return [bytes instanceof Uint8Array, bytes.length, date instanceof Date, date.getTime(), 'caat'.replace(regexp, 'o'), regexp.lastIndex,
            sparse.length, Object.keys(sparse), Array.isArray(sparse), view[0], view.length, typeof boxed, boxed == 's', [...set], Object.is([...set][1], 0)] }";
    let expected = json!([
        true,
        3,
        true,
        5,
        "cot",
        0,
        4_294_967_295_u32,
        ["4294967294", "x"],
        true,
        1,
        2,
        "object",
        true,
        [1, 0],
        true
    ]);
    assert_eq!(returned(through(code, &value(&given))), expected);
}

#[test]
fn values_that_cannot_be_copied_are_errors_with_their_path() {
    for (value, why) in [
        (
            "{ items: [0, 1, 2, { run() {} }] }",
            ".items[3].run is a function of the program, which cannot be copied; pass the value that it returns",
        ),
        ("[Symbol('s')]", "[0] is a symbol, which cannot be copied; use a string"),
        ("{ 'odd key': new WeakMap() }", "[\"odd key\"] is a weak reference or collection, which cannot be copied"),
        (
            "new Map([[1, 2], ['k', { p: Promise.resolve() }]])",
            ".values()[1].p is a Promise, which cannot be copied; await it",
        ),
        (
            "new Map([[() => 1, 2]])",
            ".keys()[0] is a function of the program, which cannot be copied; pass the value that it returns",
        ),
        ("new Set([1, new Proxy({}, {})])", ".values()[1] is a Proxy, which cannot be copied; use a plain object"),
        (
            "new Error('e', { cause: { f() {} } })",
            ".cause.f is a function of the program, which cannot be copied; pass the value that it returns",
        ),
        (
            "[new (class Foo {})()]",
            "[0] is an instance of Foo, which cannot be copied; use a plain object ({ ...value })",
        ),
        ("Object.create({})", " is an instance of a class, which cannot be copied; use a plain object ({ ...value })"),
        ("(function* () {})()", " is not plain data and cannot be copied"),
        ("Object(Symbol())", " is not plain data and cannot be copied"),
        (
            "{ get a() { return { b: class {} } } }",
            ".a.b is a function of the program, which cannot be copied; pass the value that it returns",
        ),
        (
            "Object.assign([], { 7: 1, f() {} })",
            ".f is a function of the program, which cannot be copied; pass the value that it returns",
        ),
        (
            "(() => { const b = new ArrayBuffer(4); b.transfer(); return [b] })()",
            "[0] is a detached ArrayBuffer, which cannot be copied",
        ),
        (
            "(() => { const u = new Uint8Array(4); u.buffer.transfer(); return u })()",
            " shows an ArrayBuffer that is detached or too short, and cannot be copied",
        ),
        (
            "(() => { const b = new ArrayBuffer(4, { maxByteLength: 8 }), u = new Uint8Array(b, 2, 2); b.resize(3); return { u } })()",
            ".u shows an ArrayBuffer that is detached or too short, and cannot be copied",
        ),
    ] {
        assert_eq!(
            thrown(outcome(&format!("export default () => ({value})"))),
            format!("SerializationError: result{why}"),
            "{value}"
        );
        for function in ["later", "now", "tell"] {
            let code = format!(
                "import {{ {function} }} from 'host'; let e; try {{ await {function}(1, {value}) }} catch (error) {{ e = error }}
                 export default [e instanceof Error, e.name, e.message, Object.keys(e)]"
            );
            assert_eq!(result(&code), json!([true, "SerializationError", format!("args[1]{why}"), []]), "{code}");
        }
    }
    let code = "import { later } from 'host'; const p = later(() => 1); export default await p.catch((e) => e.name)";
    assert_eq!(result(code), json!("SerializationError"), "the promise rejects; the call does not throw");
    let code = "import { later } from 'host';\nconst o = {}; o.deep = { o, f() {} };\nawait later({ ok: 1 }, [o])";
    let Outcome::Threw(thrown) = outcome(code) else { panic!() };
    assert_eq!(
        thrown.message,
        "args[1][0].deep.f is a function of the program, which cannot be copied; pass the value that it returns"
    );
    assert_eq!((&*thrown.frames[0].file, thrown.frames[0].position.line), ("main", 3));
    for hook in ["() => ({})", "() => { throw 1 }", "null", "(e, frames) => { e.name = 'forged'; return frames }"] {
        let code = format!(
            "import {{ later }} from 'host'; Error.prepareStackTrace = {hook}; let e; try {{ await later(() => 1) }} catch (error) {{ e = error }} export default Error.isError(e) && e.message"
        );
        assert_eq!(
            result(&code),
            json!("args[0] is a function of the program, which cannot be copied; pass the value that it returns"),
            "{hook}"
        );
    }
    let deep = "let a = () => 1; for (let i = 0; i < 100000; i++) a = [a]; export default a";
    let nested = "[0]".repeat(8);
    assert_eq!(
        harness::thrown(outcome(deep)),
        format!(
            "SerializationError: result{nested}…{nested} is a function of the program, which cannot be copied; pass the value that it returns"
        )
    );
}

#[test]
fn getters_may_change_what_is_being_copied() {
    for (code, expected) in [
        (
            "const a = [1, { get x() { a.length = 2; return 0 } }, 3, 4]; export default a",
            json!([1, {"x": 0}, {"$undefined": true}, {"$undefined": true}]),
        ),
        ("const a = [{ get x() { a.push(5); return 0 } }, 1]; export default a", json!([{"x": 0}, 1])),
        ("const o = { get a() { delete this.b; this.c = 1; return 0 }, b: 2 }; export default o", json!({"a": 0})),
        (
            "const m = new Map([[1, { get x() { m.clear(); m.set(5, 5); return 0 } }], [2, 3]]); export default m",
            json!({"$map": [[1, {"x": 0}], [2, 3]]}),
        ),
        (
            "const s = new Set([{ get x() { s.clear(); return 0 } }, 3]); export default s",
            json!({"$set": [{"x": 0}, 3]}),
        ),
        (
            "const b = new ArrayBuffer(2, { maxByteLength: 4 }); export default [{ get x() { b.resize(1); return 0 } }, b]",
            json!([{"x": 0}, {"$buffer": "AA==", "max": 4}]),
        ),
        (
            "const o = { a: { get x() { o.b = null; Object.setPrototypeOf(o, null); return 0 } }, b: { big: 'x' } }; export default o",
            json!({"a": {"x": 0}, "b": null}),
        ),
        (
            "const e = new Error('m'); Object.defineProperty(e, 'name', { get() { e.message = 'changed'; delete e.cause; return 'N' } }); export default e.name && 1",
            json!(1),
        ),
        ("let n = 0; export default { get a() { return ++n }, get b() { return ++n } }", json!({"a": 1, "b": 2})),
    ] {
        assert_eq!(result(code), expected, "{code}");
    }
    assert_eq!(thrown(outcome("export default { get a() { throw new RangeError('no') } }")), "RangeError: no");
    assert_eq!(
        thrown(outcome("const b = new ArrayBuffer(2); export default [{ get x() { b.transfer(); return 0 } }, b]")),
        "SerializationError: result[1] is a detached ArrayBuffer, which cannot be copied"
    );
    let longer = "const b = new ArrayBuffer(1, { maxByteLength: 8 }); export default [b, { get x() { b.resize(8); return new Uint8Array(b, 0, 8) } }]";
    assert_eq!(
        thrown(outcome(longer)),
        "SerializationError: result[1].x shows more of an ArrayBuffer than it had when it was copied"
    );
    let follows = "const b = new ArrayBuffer(1, { maxByteLength: 8 }); export default [b, { get x() { b.resize(8); return new Uint8Array(b) } }]";
    assert_eq!(
        result(follows),
        json!([{"$id": 1, "$value": {"$buffer": "AA==", "max": 8}}, {"x": {"$view": "Uint8Array", "of": {"$ref": 1}, "offset": 0}}])
    );
    let poisoned = "Object.prototype.toString = Array.prototype.map = Map.prototype.entries = Date.prototype.getTime = RegExp.prototype.exec = null;
        Object.defineProperty(RegExp.prototype, 'flags', { get() { return 'forged' } }); Object.defineProperty(RegExp.prototype, 'source', { get() { return 'forged' } });
        Object.defineProperty(Uint8Array.prototype, 'buffer', { get() { return null } });
        export default (v) => [v, new Map([[1, new Date(1)]]), /a/g, new Uint8Array(1)]";
    let given = json!([{"$map": [[1, {"$set": [2]}]]}, {"$regexp": "x", "flags": "i"}, {"$bytes": "AQ=="}, {"$error": "TypeError", "message": "m"}]);
    let back = returned(through(poisoned, &value(&given)));
    assert_eq!(back, json!([given, {"$map": [[1, {"$date": 1}]]}, {"$regexp": "a", "flags": "g"}, {"$bytes": "AA=="}]));
}

#[test]
fn deep_values_need_no_stack() {
    let deep = "let a = []; for (let i = 0; i < 300000; i++) a = i % 3 ? [a] : i % 2 ? new Map([[a, 1]]) : { a }; export default a";
    let mut huge = program(deep, vec![]);
    huge.limits = Limits::default().memory_bytes(512 << 20);
    let Outcome::Returned(made) = run(huge) else { panic!() };
    let mut back = program("export default (v) => v", vec![]);
    let mut args = made.to_graph("made", BUDGET).unwrap();
    let array = args.array([args.root().clone()]);
    args.set_root(array);
    modules(&mut back).args = args.to_value("args").unwrap();
    back.limits = Limits::default().memory_bytes(512 << 20);
    let Outcome::Returned(back) = run(back) else { panic!() };
    assert_eq!(back.as_bytes(), made.as_bytes());
}

#[test]
fn the_last_value_of_a_repeated_key_counts() {
    let given =
        json!([{"$map": [["k", {"$id": 1, "$value": ["first"]}], ["k", 2], [{"$ref": 1}, {"$ref": 1}]]}, {"$ref": 1}]);
    let code = "export default ([m, first]) => [[...m.keys()].length, m.get('k'), m.get(first), first]";
    assert_eq!(returned(through(code, &value(&given))), json!([2, 2, {"$id": 1, "$value": ["first"]}, {"$ref": 1}]));
}

#[test]
fn values_that_the_engine_cannot_create_are_errors_in_the_program() {
    let code = "import { later } from 'host'; export default await later().catch((e) => [e.name, e.message])";
    for (bad, expected) in [
        (json!({"$regexp": "(", "flags": ""}), json!(["SyntaxError", "expecting ')'"])),
        (json!([{"$regexp": "a", "flags": "q"}]), json!(["SyntaxError", "invalid regular expression flags"])),
        (
            json!({"$bigint": format!("0x{}", "f".repeat(300_000))}),
            json!(["RangeError", "BigInt is too large to allocate"]),
        ),
    ] {
        let (outcome, _) = run_with(program(code, vec![]), |guest, call| {
            guest.settle(Pending::Call(call.id), Settlement::Fulfilled(value(&bad)));
        });
        assert_eq!(returned(outcome), expected);
    }
}

#[test]
fn the_memory_limit_counts_payloads_exactly() {
    for code in
        ["export default new Uint8Array(300000)", "export default 'é'.repeat(100000)", "export default (v) => v"]
    {
        let with_limit = |memory_bytes| {
            let mut program = program(code, vec![]);
            if code.contains("=>") {
                modules(&mut program).args = value(&json!([{"$bytes": "A".repeat(400_000)}]));
            }
            program.limits = Limits::default().memory_bytes(memory_bytes);
            let mut guest = engine().start(program).unwrap();
            (turn(&mut *guest), guest.peak_memory_bytes())
        };
        let peak = with_limit(64 << 20).1.unwrap();
        assert!(matches!(with_limit(peak).0, Turn::Done(Outcome::Returned(_))), "{peak} bytes are enough: {code}");
        assert_eq!(
            with_limit(peak - 1).0,
            Turn::Done(Outcome::OutOfMemory),
            "one byte less than {peak} is not: {code}"
        );
    }
}

#[test]
fn malformed_values_of_the_host_are_faults_of_the_guest() {
    for bytes in [
        &[][..],
        &[9],
        &[8, 1, 1, b'a', 9, 0],
        &[14, 1, 9, 0],
        &[24],
        &[10, 5],
        &[7, 1],
        &[18, 9, 0, 1],
        &[19, 13, 0, 1, 18, 0, 0],
        &[11, 0],
    ] {
        let code = "import { later } from 'host'; export default await later()";
        let (outcome, _) = run_with(program(code, vec![]), |guest, call| {
            guest.settle(Pending::Call(call.id), Settlement::Fulfilled(Value::from_bytes(bytes)));
        });
        assert!(matches!(outcome, Outcome::Fault(_)), "{bytes:?}: {outcome:?}");
    }
}

// ---- Random hostile values -----------------------------------------------------------------------------

/// Expressions whose getters change objects that are being copied: the array `a`, the object `o`, the map `m`, the buffer `b`.
fn any_expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a"),
        Just("o"),
        Just("m"),
        Just("b"),
        Just("view"),
        Just("1"),
        Just("'x'"),
        Just("2n"),
        Just("undefined"),
        Just("later"),
        Just("[,1]"),
        Just("new Date(1)"),
        Just("/x/g"),
        Just("new Uint8Array(b)"),
        Just("new Error('e', { cause: o })"),
        Just("Object('s')"),
        Just("new Float64Array(2)"),
        Just("Symbol()"),
        Just("() => 1"),
        Just("new Proxy(a, {})"),
        Just("Promise.resolve(1)"),
    ]
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            (any_change(), inner.clone(), inner.clone()).prop_map(|(change, x, y)| format!("{{ get g() {{ {change}; return {x} }}, z: {y} }}")),
            (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("new Map([[{x}, {y}], [{y}, 1]])")),
            (any_change(), inner.clone()).prop_map(|(change, x)| format!("new Set([{{ get g() {{ {change}; return 1 }} }}, {x}])")),
            (any_change(), inner.clone()).prop_map(|(change, x)| {
                format!("Object.defineProperty(new Error('m', {{ cause: {x} }}), 'name', {{ get() {{ {change}; return 'N' }} }})")
            }),
            (any_change(), inner).prop_map(|(change, x)| {
                format!("Object.defineProperty([{x}, 2, 3], 1, {{ get() {{ {change}; return 1 }}, enumerable: true }})")
            }),
        ]
    })
    .prop_map(|expression| format!("({expression})"))
}

fn any_change() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("a.length = 0"),
        Just("a.push({}, o)"),
        Just("a[1e6] = 1"),
        Just("a.k = m"),
        Just("delete o.x"),
        Just("o.y = [b]; o.x = 1"),
        Just("Object.setPrototypeOf(o, null)"),
        Just("Object.defineProperty(o, 'x', { get() { throw 1 }, enumerable: true })"),
        Just("m.clear()"),
        Just("m.set(m, o)"),
        Just("m.delete(1)"),
        Just("b.resize(1)"),
        Just("b.resize(16)"),
        Just("b.transfer()"),
        Just("o = { x: 1 }"),
        Just("later(a, o, m)"),
        Just("log(a, o, m, b, view)"),
        Just("Error.prepareStackTrace = () => ({})"),
        Just("Error.prepareStackTrace = () => { throw 1 }"),
        Just("Array.prototype[0] = 1"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn hostile_getters_cause_copies_or_errors(x in any_expression(), y in any_expression()) {
        let code = format!(
            "import {{ later, log }} from 'host'; let a = [1, 2, {{}}], o = {{ x: 1, y: {{}} }}, m = new Map([[1, o], [a, 2]]),
             b = new ArrayBuffer(8, {{ maxByteLength: 16 }}), view = new Int16Array(b, 2, 2);
             try {{ structuredClone([{y}, a, o, m, view, {x}]) }} catch {{}}
             try {{ log(structuredClone({{ x: {x}, y: {y} }})) }} catch {{}}
             try {{ log({x}, a, o, m); later({y}, {x}) }} catch (e) {{ log(e) }} export default () => {x}"
        );
        let (outcome, events) = run_with(program(&code, vec![]), |_, call| { check_value(&call.input); });
        match outcome {
            Outcome::Returned(value) => check_value(&value),
            Outcome::Threw(_) => {}
            other => panic!("{code}: {other:?}"),
        }
        for event in events {
            if let Event::Notify(notification) = event { check_value(&notification.args) }
        }
    }

    #[test]
    fn any_bytes_from_the_host_leave_the_host_intact(bytes in prop::collection::vec(0_u8..26, 0..64)) {
        let code = "import { later } from 'host'; export default await later()";
        let mut guest = engine().start(program(code, vec![])).unwrap();
        prop_assert_eq!(turn(&mut *guest), Turn::Waiting);
        guest.settle(Pending::Call(CallId(1)), Settlement::Fulfilled(Value::from_bytes(bytes)));
        // A promise of the host stays pending.
        let turn = turn(&mut *guest);
        prop_assert!(!matches!(turn, Turn::Done(Outcome::Unlinked(_) | Outcome::Interrupted)), "{:?}", turn);
    }
}

/// Checks that a value is valid and unchanged by decoding and encoding.
fn check_value(value: &Value) {
    let graph = value.to_graph("value", BUDGET).unwrap();
    assert_eq!(graph.to_value("value").unwrap().to_graph("value", BUDGET).unwrap(), graph);
}
