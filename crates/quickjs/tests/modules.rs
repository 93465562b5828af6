//! Programs of ES modules: linking, evaluation, the selected export, and the realm.

mod harness;

use std::thread;
use std::time::Duration;

use execbox_core::engine::{Engine, Event, ModuleError, Outcome, Pending, Settlement, StartError, Turn};
use execbox_core::program::{Limits, Module, Program};
use harness::{engine, module, modules, outcome, program, result, returned, run, thrown, turn, value};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// A program whose entry is called with arguments.
fn called(code: &str, export: &str, args: &Json) -> Program {
    let mut program = program(code, vec![]);
    modules(&mut program).export = export.into();
    modules(&mut program).args = value(args);
    program
}

// ---- The selected export -------------------------------------------------------------------------

#[test]
fn an_export_is_read_called_and_awaited() {
    for code in [
        "export default 42",
        "export default async () => 42",
        "export default () => Promise.resolve(42)",
        "export default Promise.resolve(42)",
        "export default function () { return { then(resolve) { resolve({ then(r) { r(42) } }) } } }",
        "export default await Promise.resolve(42)",
        "const p = Promise.resolve(42); p.then = null; export default p",
        "class P extends Promise { then(f) { return super.then((x) => f(x + 1)) } } export default P.resolve(41)",
        "const x = 40; export { y as default }; let y = 1; y = x + 2",
    ] {
        assert_eq!(result(code), json!(42), "{code}");
    }
    assert_eq!(result("export default undefined"), json!({"$undefined": true}));
    assert_eq!(returned(run(called("export function inc(n) { return n + 1 }", "inc", &json!([100])))), json!(101));
    assert_eq!(returned(run(called("export const other = [1]", "other", &json!([])))), json!([1]));
    let args = json!([1, {"$map": [[{"$date": 5}, {"$undefined": true}]]}]);
    let same = called("export default (...args) => [args.length, this, args]", "default", &args);
    assert_eq!(returned(run(same)), json!([2, {"$undefined": true}, args]));
}

#[test]
fn a_function_that_a_promise_resolves_to_is_not_called() {
    let error = thrown(outcome("export default Promise.resolve(() => 1)"));
    assert_eq!(
        error,
        "SerializationError: result is a function of the program, which cannot be copied; pass the value that it returns"
    );
}

#[test]
fn a_missing_export_is_reported_after_the_module_ran() {
    let ended =
        harness::run_with(program("import { tell } from 'host'; tell(1); export const a = 1", vec![]), |_, _| {});
    assert_eq!(ended.0, Outcome::Unlinked(ModuleError::Export { export: "default".into() }));
    assert_eq!(ended.1.len(), 1);
    for name in ["toString", "__proto__", "then", ""] {
        let outcome = run(called("export const a = 1", name, &json!([])));
        assert_eq!(outcome, Outcome::Unlinked(ModuleError::Export { export: name.into() }));
    }
}

#[test]
fn arguments_for_an_export_that_is_not_a_function_are_an_error() {
    let error = thrown(run(called("export const answer = 42", "answer", &json!([1]))));
    assert_eq!(error, "TypeError: the export answer is not a function, so it takes no arguments");
}

#[test]
fn thrown_errors_have_frames_with_modules() {
    let helper = module("./lib/helper.js", "export function fail() {\n  throw new RangeError('too far')\n}");
    let code = "import { fail } from './lib/helper.js'\nexport default () => fail()";
    let Outcome::Threw(thrown) = run(program(code, vec![helper])) else { panic!() };
    assert_eq!((thrown.name.as_str(), thrown.message.as_str()), ("RangeError", "too far"));
    let places: Vec<_> = thrown.frames.iter().map(|frame| (&*frame.file, frame.position.line)).collect();
    assert_eq!(places, [("./lib/helper.js", 2), ("main", 2)]);
    for (code, error) in [
        ("throw new TypeError('t')", "TypeError: t"),
        ("await Promise.reject(new Error('r')); export default 1", "Error: r"),
        ("export default () => { throw 'text' }", ": text"),
        ("export default { then() { throw new Error('in then') } }", "Error: in then"),
        ("export default { get then() { throw new Error('at then') } }", "Error: at then"),
        (
            "export default Object.defineProperty(Promise.resolve(1), 'constructor', { get() { throw new Error('c') } })",
            "Error: c",
        ),
        ("export default a; let a = a", "ReferenceError: a is not initialized"),
    ] {
        assert_eq!(harness::thrown(outcome(code)), error, "{code}");
    }
}

// ---- Linking ---------------------------------------------------------------------------------------

#[test]
fn specifiers_are_resolved_against_the_importing_module() {
    let others = || {
        vec![
            module(
                "./lib/math.js",
                "import { one } from '../data.js'; import { two } from './deep/../two.js'; export const three = one + two",
            ),
            module("./data.js", "export const one = 1"),
            module("./lib/two.js", "export { two } from './/odd'"),
            module("./lib//odd", "export const two = 2"),
            module("bare/x.js", "export { one as default } from './data.js'"),
            module("./bare/data.js", "export const one = 'bare'"),
            Module::synthetic("fs", value(&json!({"default": "d", "read": 1}))),
        ]
    };
    let code = "import { three } from './lib/math.js'; import { three as again } from './x/../lib/./math.js';
        import bare from 'bare/x.js'; import fs, { read } from 'fs'; import * as ns from 'fs';
        export default [three, again, bare, fs, read, Object.keys(ns), (await import('./data.js')).one]";
    let expected = json!([3, 3, "bare", "d", 1, ["default", "read"], 1]);
    assert_eq!(returned(run(program(code, others()))), expected);
    // A name in a folder, with and without `./`.
    for name in ["src/main.ts", "./src/main.ts"] {
        let mut inside =
            program("", vec![module("./src/a.js", "export default 1"), module("./b.js", "export default 2")]);
        let entry =
            module(name, "import a from './a.js'; import b from '../b.js'; export default [a, b, import.meta.url]");
        modules(&mut inside).modules.push(entry);
        modules(&mut inside).entry = name.into();
        assert_eq!(returned(run(inside)), json!([1, 2, format!("sandbox:{name}")]));
    }
}

#[test]
fn unknown_modules_are_link_errors() {
    for specifier in [
        "nope",
        "./nope.js",
        "../data.js",
        "./lib/../../data.js",
        "https://x/y.js",
        "data.js",
        "./data",
        ".",
        "..",
        "./",
        "host/",
        "Host",
    ] {
        let others = vec![module("./data.js", "export default 1")];
        let outcome = run(program(&format!("import '{specifier}'; export default 1"), others.clone()));
        let missing = ModuleError::Specifier { module: "main".into(), specifier: specifier.into() };
        assert_eq!(outcome, Outcome::Unlinked(missing));
        let error = thrown(run(program(&format!("await import('{specifier}')"), others)));
        assert_eq!(error, format!("TypeError: there is no module '{specifier}' for 'main' to import"));
    }
    let far = vec![module("./a.js", "import 'b'"), module("b", "import 'c'")];
    let missing = ModuleError::Specifier { module: "b".into(), specifier: "c".into() };
    assert_eq!(run(program("import './a.js'", far)), Outcome::Unlinked(missing));
}

#[test]
fn invalid_import_bindings_are_link_errors() {
    for (code, message) in [
        ("import { nope } from 'host'", "Could not find export 'nope' in module 'host'"),
        ("import nope from 'host'", "Could not find export 'default' in module 'host'"),
        ("export { nope } from './a.js'", "Could not find export 'nope' in module './a.js'"),
        ("import { x } from './star.js'", "export 'x' in module './star.js' is ambiguous"),
        ("import host from 'host' with { type: 'json' }", "import attributes are not supported: 'host' in 'main'"),
    ] {
        let others = vec![
            module("./a.js", "export const x = 1"),
            module("./b.js", "export const x = 2"),
            module("./star.js", "export * from './a.js'; export * from './b.js'"),
        ];
        let Outcome::Unlinked(ModuleError::Binding { message: actual }) = run(program(code, others)) else {
            panic!("{code}")
        };
        assert_eq!(actual, message, "{code}");
    }
}

#[test]
fn syntax_errors_have_positions() {
    let broken = module("./lib/broken.js", "export const a = 1;\nexport const b = ;");
    let Outcome::Unlinked(ModuleError::Syntax { module, message, position }) =
        run(program("import { a } from './lib/broken.js'", vec![broken.clone()]))
    else {
        panic!()
    };
    assert_eq!((&*module, message.as_str()), ("./lib/broken.js", "unexpected token in expression: ';'"));
    assert_eq!(position.map(|at| at.line), Some(2));
    assert!(matches!(outcome("export default 1; export default 2"), Outcome::Unlinked(ModuleError::Syntax { .. })));
    assert!(matches!(outcome("return 1"), Outcome::Unlinked(ModuleError::Syntax { .. })));
    for (code, place) in [("1;\nconst a = /(/", (2, 11)), ("class A {\n  f() { return this.#a }\n}", (2, 21))] {
        let Outcome::Unlinked(ModuleError::Syntax { position: Some(position), .. }) = outcome(code) else {
            panic!("{code}")
        };
        assert_eq!((position.line, position.column), place, "{code}");
    }
    assert_eq!(returned(run(program("export default 1", vec![broken.clone()]))), json!(1), "nothing imports it");
    let code = "const read = () => import('./lib/broken.js').catch((e) => e.name); export default [await read(), await read()]";
    assert_eq!(returned(run(program(code, vec![broken]))), json!(["SyntaxError", "SyntaxError"]));
}

#[test]
fn programs_with_invalid_module_names_are_rejected() {
    let refused = |change: &dyn Fn(&mut Program)| {
        let mut program = program("export default 1", vec![]);
        change(&mut program);
        engine().start(program).err()
    };
    for (change, why) in [
        (
            &(|p: &mut Program| modules(p).entry = "other".into()) as &dyn Fn(&mut Program),
            "the entry \"other\" is not a module with source",
        ),
        (&|p: &mut Program| modules(p).entry = "host".into(), "the entry \"host\" is not a module with source"),
        (&|p: &mut Program| modules(p).modules.push(module("main", "")), "duplicate module name \"main\""),
        (&|p: &mut Program| modules(p).modules.push(module("a\0b", "")), "invalid module name \"a\\0b\": it has a NUL"),
    ] {
        assert_eq!(refused(change), Some(StartError::Failed(why.into())));
    }
}

// ---- Evaluation ------------------------------------------------------------------------------------

#[test]
fn dynamic_imports_return_the_same_module() {
    let others = vec![module("./a.js", "export let n = 0; export const inc = () => ++n")];
    let code = "import * as ns from './a.js'; const again = await import('./a.js'); again.inc();
        export default [again === ns, ns.n, again.n, import('main') instanceof Promise]";
    assert_eq!(returned(run(program(code, others))), json!([true, 1, 1, true]));
}

#[test]
fn a_module_that_is_not_importable_can_be_imported_by_declarations_only() {
    let reserved =
        || Module { importable: false, ..Module::synthetic("execbox:globals", value(&json!({"secret": 7}))) };
    let code = "import { secret } from 'execbox:globals'; export default secret";
    assert_eq!(returned(run(program(code, vec![reserved()]))), json!(7));
    for specifier in
        ["'execbox:globals'", "['execbox:globals']", "{ toString: () => 'execbox:globals' }", "'execbox:globals\\0'"]
    {
        let code = format!("import {{ secret }} from 'execbox:globals'; await import({specifier})");
        let error = thrown(run(program(&code, vec![reserved()])));
        assert_eq!(error, "TypeError: there is no module 'execbox:globals' for 'main' to import", "{specifier}");
    }
}

#[test]
fn cyclic_and_self_imports_work() {
    let others = vec![
        module("./a.js", "import { b } from './b.js'; export const a = () => 'a'; export default () => b()"),
        module("./b.js", "import { a } from './a.js'; export const b = () => a() + 'b'"),
        module("./self.js", "import * as me from './self.js'; export const x = 1; export default () => me.x"),
    ];
    let code = "import f from './a.js'; import g from './self.js'; import { h as mine } from 'main'; export function h() { return 2 }
        export default [f(), g(), mine()]";
    assert_eq!(returned(run(program(code, others))), json!(["ab", 1, 2]));
    let tdz = vec![
        module("./a.js", "import { b } from './b.js'; export const a = b"),
        module("./b.js", "import { a } from './a.js'; export const b = a"),
    ];
    assert_eq!(thrown(run(program("import './a.js'", tdz))), "ReferenceError: a is not initialized");
}

#[test]
fn a_failed_module_fails_again() {
    let others = vec![module("./a.js", "await null; throw new Error('once')")];
    let code = "const e = await import('./a.js').catch((e) => e), f = await import('./a.js').catch((e) => e); export default [e === f, e.message]";
    assert_eq!(returned(run(program(code, others))), json!([true, "once"]));
}

#[test]
fn the_namespace_of_a_synthetic_module_is_immutable() {
    let data = Module::synthetic("data", value(&json!({"b": [1], "a": 2, "__proto__": 3, "default": 4})));
    let code = "import * as data from 'data'; import { b } from 'data';
        const refused = (f) => { try { f(); return false } catch (e) { return e instanceof TypeError } };
        b.push(2);
        export default [Reflect.ownKeys(data).map(String), data.b, data.__proto__, Object.getPrototypeOf(data),
            refused(() => { data.a = 1 }), refused(() => { data.c = 1 }), refused(() => { delete data.a }),
            refused(() => Object.defineProperty(data, 'a', { value: 9 })), Object.isExtensible(data), data.a]";
    let keys = json!(["__proto__", "a", "b", "default", "Symbol(Symbol.toStringTag)"]);
    assert_eq!(
        returned(run(program(code, vec![data]))),
        json!([keys, [1, 2], 3, null, true, true, true, true, false, 2])
    );
}

#[test]
fn import_meta_is_exactly_its_url() {
    let code = "export default [Reflect.ownKeys(import.meta), import.meta.url, Object.getPrototypeOf(import.meta), import.meta === import.meta]";
    assert_eq!(result(code), json!([["url"], "sandbox:main", null, true]));
}

// ---- The realm -------------------------------------------------------------------------------------

#[test]
fn the_globals_of_modules_are_exactly_these() {
    let expected = "AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean \
        DataView Date DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array \
        Function Infinity Int16Array Int32Array Int8Array Iterator JSON Map Math NaN Number Object Promise Proxy \
        RangeError ReferenceError Reflect RegExp Set String SuppressedError Symbol SyntaxError TypeError URIError \
        Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet decodeURI \
        decodeURIComponent encodeURI encodeURIComponent escape globalThis isFinite isNaN parseFloat parseInt \
        queueMicrotask structuredClone undefined unescape";
    let code =
        "export default Reflect.ownKeys(globalThis).map(String).filter(k => !k.startsWith('Symbol(')).sort().join(' ')";
    assert_eq!(result(code), json!(expected.split_whitespace().collect::<Vec<_>>().join(" ")));
    assert_eq!(
        result("export default [Object.keys(globalThis), typeof console, typeof this]"),
        json!([[], "undefined", "undefined"])
    );
    assert_eq!(thrown(outcome("setTimeout(() => {})")), "ReferenceError: setTimeout is not defined");
}

#[test]
fn code_from_strings_does_not_run() {
    let refused = "TypeError: code from strings cannot run in this sandbox";
    for code in [
        "new Function('return 1')",
        "Function('return 1')()",
        "(async () => {}).constructor('return 1')",
        "(function* () {}).constructor('return 1')",
        "(async function* () {}).constructor('return 1')",
        "Reflect.construct(Function, ['return 1'], Array)",
    ] {
        assert_eq!(thrown(outcome(code)), refused, "{code}");
    }
    assert_eq!(result("export default Function('return this')() === globalThis"), json!(true));
    assert!(thrown(outcome("eval('1')")).starts_with("ReferenceError: eval is not defined"));
    assert!(thrown(outcome("(0, globalThis.eval)('1')")).starts_with("TypeError: not a function"));
    // Also after an import compiled a module, and in a job.
    let code = "await import('./a.js'); new Function('return 1')";
    assert_eq!(thrown(run(program(code, vec![module("./a.js", "export default 1")]))), refused);
}

#[test]
fn runs_share_no_state() {
    result("globalThis.x = 1; Array.prototype.map = null; Object.prototype.y = 2; export default 1");
    assert_eq!(result("export default [typeof x, typeof [].map, 'y' in {}]"), json!(["undefined", "function", false]));
    assert_eq!(result("export default import.meta.mark ? 1 : (import.meta.mark = 0)"), json!(0));
}

#[test]
fn poisoned_intrinsics_do_not_affect_values() {
    let code = "Object.prototype.then = (f) => f('forged'); Promise.prototype.then = () => 'forged'; Promise.resolve = null;
        Object.prototype.toJSON = () => 'forged'; Array.prototype[Symbol.iterator] = null; Function.prototype.call = null;
        Object.defineProperty(Object.prototype, 'message', { get() { return 'forged' } });
        export default async () => 'real'";
    assert_eq!(result(code), json!("real"));
}

// ---- Hostile graphs ----------------------------------------------------------------------------------

#[test]
fn ten_thousand_sibling_modules_are_linked() {
    let others: Vec<Module> =
        (0..10_000).map(|i| module(&format!("./m{i}.js"), &format!("export default {i}"))).collect();
    let imports: Vec<_> = (0..10_000).map(|i| format!("import m{i} from './m{i}.js';")).collect();
    let mut wide = program(&format!("{}\nexport default m0 + m9999", imports.join("\n")), others);
    wide.limits = Limits::default().memory_bytes(256 << 20);
    assert_eq!(returned(run(wide)), json!(9999));
}

#[test]
fn a_chain_of_modules_ends_in_a_result_or_in_an_error() {
    for (len, may_fail) in [(500, false), (10_000, true)] {
        let link = |i: usize| match i {
            0 => module("./m0.js", "export default 0"),
            _ => module(&format!("./m{i}.js"), &format!("export {{ default }} from './m{}.js'", i - 1)),
        };
        let mut chain =
            program(&format!("export {{ default }} from './m{}.js'", len - 1), (0..len).map(link).collect());
        chain.limits = Limits::default().memory_bytes(256 << 20);
        match run(chain) {
            Outcome::Returned(value) => assert_eq!(harness::tagged(&value), json!(0)),
            Outcome::Unlinked(ModuleError::Binding { message }) if may_fail => {
                assert_eq!(message, "Maximum call stack size exceeded");
            }
            Outcome::StackOverflow if may_fail => {}
            other => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
fn every_loop_can_be_interrupted() {
    for code in [
        "for (;;);",
        "export default () => { for (;;); }",
        "export default { then(r) { r(this) } }",
        "export default { get then() { for (;;); } }",
        "const thenable = () => ({ then(r) { r(thenable()) } }); export default thenable()",
        "const again = async () => { await import('host'); return again() }; await again()",
        "for (let i = 0; ; i++) await import('./' + i).catch(() => {})",
        "export default { get a() { for (;;); } }",
        "import { later } from 'host'; later({ get a() { for (;;); } })",
    ] {
        let mut guest = engine().start(program(code, vec![])).unwrap();
        let interrupt = guest.interrupt();
        let puller = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            interrupt.trigger();
        });
        assert_eq!(turn(&mut *guest), Turn::Done(Outcome::Interrupted), "{code}");
        puller.join().unwrap();
    }
}

#[test]
fn the_memory_limit_applies_to_modules_before_they_run() {
    let small = |code: &str, others: Vec<Module>| {
        let mut program = program(code, others);
        program.limits = Limits::default().memory_bytes(1 << 20);
        run(program)
    };
    assert_eq!(small("const a = []; try { for (;;) a.push({}) } catch {}", vec![]), Outcome::OutOfMemory);
    assert_eq!(small(&format!("export default [{}]", "1,".repeat(1 << 20)), vec![]), Outcome::OutOfMemory);
    let data = Module::synthetic("data", value(&json!({"text": "x".repeat(2 << 20)})));
    assert_eq!(small("export default 1", vec![data]), Outcome::OutOfMemory);
    let unused = module("./unused.js", &" ".repeat(2 << 20));
    assert_eq!(small("export default 1", vec![unused]), Outcome::OutOfMemory, "it may yet be imported");
}

#[test]
fn a_program_without_pending_calls_waits() {
    // A module that awaits its own evaluation never ends, as in other engines.
    for code in ["await new Promise(() => {})", "export default new Promise(() => {})", "await import('main')"] {
        let mut guest = engine().start(program(code, vec![])).unwrap();
        assert_eq!(turn(&mut *guest), Turn::Waiting);
    }
}

/// Regression: the imports of failed attempts were leaked. In debug builds, a leak is a fault of the engine.
#[test]
fn repeated_link_errors_leak_no_memory() {
    let others = vec![
        module("./a.js", "import b from './b.js'; import { x } from './c.js'; export const f = () => [b, x]"),
        module("./b.js", "import { nope } from './c.js'; export default 1"),
        module("./c.js", "export let x = { x: 1 }"),
    ];
    let code = "const tries = []; for (let i = 0; i < 3; i++) tries.push(await import('./a.js').catch((e) => e.name)); export default tries";
    assert_eq!(returned(run(program(code, others))), json!(["SyntaxError", "SyntaxError", "SyntaxError"]));
}

// ---- Random graphs -----------------------------------------------------------------------------------

/// Statements of module number `me`; `N` stands for another module's number.
const STATEMENTS: [&str; 20] = [
    "import dN from './mN.js'; use(() => dN);",
    "import { x as xN } from './mN.js'; use(() => xN);",
    "import { f as fN } from './mN.js'; use(() => fN());",
    "import { nope as nopeN } from './mN.js';",
    "import * as sN from './mN.js'; use(() => Object.keys(sN)); use(() => sN.x);",
    "import './mN.js';",
    "export { x as yN } from './mN.js';",
    "export * from './mN.js';",
    "export * as starN from './mN.js';",
    "await null;",
    "await 0; await 0;",
    "if (globalThis.n++ > 4) throw new Error('mN');",
    "await import('./mN.js').catch(() => {});",
    "import('./mN.js').then((s) => s.f(), () => {});",
    "import('./mN.js').then((s) => { s.x = 1 }).catch(() => {});",
    "await later(N);",
    "now(N);",
    "import('./nope.js').catch(() => {});",
    "use(() => import.meta.url);",
    "Promise.resolve().then(() => { throw 1 });",
];

fn any_modules() -> impl Strategy<Value = Vec<Vec<(usize, usize)>>> {
    prop::collection::vec(prop::collection::vec((0..STATEMENTS.len(), 0_usize..6), 0..5), 6)
}

fn source(me: usize, statements: &[(usize, usize)]) -> String {
    let mut statements = statements.to_vec();
    statements.sort_unstable();
    statements.dedup_by_key(|(statement, other)| (*statement, *other));
    let body: Vec<_> =
        statements.iter().map(|&(statement, other)| STATEMENTS[statement].replace('N', &other.to_string())).collect();
    format!(
        "import {{ later, now }} from 'host'; globalThis.n ??= 0; const use = (f) => {{ try {{ f() }} catch {{}} }};
         export let x = {me}; export function f() {{ x++; return x }} export default {{ me: {me} }};\n{}",
        body.join("\n")
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_graph_of_modules_ends(graph in any_modules()) {
        let others = graph.iter().enumerate().map(|(me, statements)| module(&format!("./m{me}.js"), &source(me, statements))).collect();
        let code = "import d, { f, x } from './m0.js'; import './m1.js'; f(); export default async () => [d, x, (await import('./m2.js')).f()]";
        let mut guest = engine().start(program(code, others)).unwrap();
        loop {
            match turn(&mut *guest) {
                Turn::Done(outcome) => {
                    let ended = matches!(outcome, Outcome::Returned(_) | Outcome::Threw(_) | Outcome::Unlinked(_));
                    prop_assert!(ended, "{outcome:?}");
                    break;
                }
                Turn::Waiting => {
                    let calls: Vec<_> = harness::events(&mut *guest);
                    if calls.is_empty() {
                        break; // a module waits for its own evaluation
                    }
                    for event in calls {
                        let Event::Call(call) = event else { panic!("{event:?}") };
                        guest.settle(Pending::Call(call.id), Settlement::Fulfilled(value(&json!(1))));
                    }
                }
            }
        }
    }
}
