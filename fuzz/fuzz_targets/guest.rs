//! Scripts of hostile pieces, run on the engine: no script breaks the engine or stops the host.

#![no_main]

use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use execbox_core::engine::{Engine, Event, Guest, Outcome, Pending, Settlement, Turn};
use execbox_core::error::ExecuteError;
use execbox_core::program::{Function, Limits, Namespace, Program, Source};
use execbox_core::value::Value;
use execbox_quickjs::QuickJs;
use libfuzzer_sys::fuzz_target;

static ENGINE: LazyLock<QuickJs> = LazyLock::new(|| QuickJs::new().expect("the engine loads"));

/// An expression of guest code.
#[derive(Debug, Arbitrary)]
enum Piece {
    Number(f64),
    Text(String),
    Undefined,
    BigInt(u64),
    Array(Vec<Piece>),
    Object(Vec<(String, Piece)>),
    Getter(Box<Piece>),
    Cycle(Box<Piece>),
    Foreign(Foreign),
    Call(Box<Piece>),
    Await(Box<Piece>),
    Clone(Box<Piece>),
    Log(Box<Piece>),
    Throw(Box<Piece>),
    Poison(Poison),
}

#[derive(Debug, Arbitrary)]
enum Foreign {
    Date,
    Map,
    Symbol,
    Proxy,
    Bytes,
    Sparse,
    Class,
}

#[derive(Debug, Arbitrary)]
enum Poison {
    Then,
    ToJson,
    Iterator,
    ArrayPush,
    Prototype,
}

impl Piece {
    fn write(&self, out: &mut String) {
        match self {
            Self::Number(number) => *out += &format!("({number:?})").replace("inf", "Infinity"),
            Self::Text(text) => *out += &serde_json::to_string(text).expect("text is JSON"),
            Self::Undefined => *out += "undefined",
            Self::BigInt(number) => *out += &format!("{number}n"),
            Self::Array(items) => list(out, "[", items, "]"),
            Self::Object(members) => {
                *out += "({";
                for (key, value) in members {
                    *out += &format!("[{}]: ", serde_json::to_string(key).expect("text is JSON"));
                    value.write(out);
                    *out += ", ";
                }
                *out += "})";
            }
            Self::Getter(inner) => around(out, "({ get a() { delete this.b; return ", inner, " }, b: [1] })"),
            Self::Cycle(inner) => around(out, "(() => { const o = { a: ", inner, " }; o.b = [o]; return o })()"),
            Self::Foreign(foreign) => *out += foreign.code(),
            Self::Call(inner) => around(out, "tools.echo(", inner, ")"),
            Self::Await(inner) => around(out, "(await (async () => ", inner, ")().catch((e) => e.code))"),
            Self::Clone(inner) => around(out, "structuredClone(", inner, ")"),
            Self::Log(inner) => around(out, "console.log(", inner, ")"),
            Self::Throw(inner) => around(out, "(() => { throw ", inner, " })()"),
            Self::Poison(poison) => *out += poison.code(),
        }
    }
}

fn around(out: &mut String, before: &str, inner: &Piece, after: &str) {
    *out += before;
    inner.write(out);
    *out += after;
}

fn list(out: &mut String, before: &str, items: &[Piece], after: &str) {
    *out += before;
    for item in items {
        item.write(out);
        *out += ", ";
    }
    *out += after;
}

impl Foreign {
    fn code(&self) -> &'static str {
        match self {
            Self::Date => "new Date(0)",
            Self::Map => "new Map([[{}, new Set([1])]])",
            Self::Symbol => "Symbol('s')",
            Self::Proxy => "new Proxy([], { get() { throw 1 } })",
            Self::Bytes => "new Uint8Array(8)",
            Self::Sparse => "Object.assign([], { 5000000: 1 })",
            Self::Class => "new (class Named { x = 1 })()",
        }
    }
}

impl Poison {
    fn code(&self) -> &'static str {
        match self {
            Self::Then => "(Object.prototype.then = (f) => f(1), 0)",
            Self::ToJson => "(Object.prototype.toJSON = () => { throw 1 }, 0)",
            Self::Iterator => "(Array.prototype[Symbol.iterator] = null, 0)",
            Self::ArrayPush => "(Array.prototype.push = null, Map.prototype.get = null, 0)",
            Self::Prototype => {
                "(Object.setPrototypeOf(Object.prototype, null), Object.setPrototypeOf(Array.prototype, { length: 7 }), 0)"
            }
        }
    }
}

fuzz_target!(|program: Vec<Piece>| {
    let mut code = String::new();
    for piece in &program {
        code += "try { ";
        piece.write(&mut code);
        code += " } catch {}\n";
    }
    code += "return ";
    list(&mut code, "[", &program, "]");
    // The same code as a script, and as a function of one.
    let in_function = program.len().is_multiple_of(2);
    let [script, function] = if in_function { ["return await tools.own(1)", &code] } else { [code.as_str(), ""] };
    let outcome = run(script, function);
    assert!(!matches!(outcome, Outcome::Fault(_)), "{outcome:?}\n{code}");
    if let Outcome::Returned(value) = outcome {
        let _ = value.to_json("result", 1 << 22);
    }
});

fn run(code: &str, function: &str) -> Outcome {
    let own = Function { name: "own".to_owned(), file: "tools.own".into(), code: function.into() };
    let namespace = Namespace { own: vec![own], ..Namespace::new("tools", ["echo"]) };
    let program = Program::new(
        Source::Script { name: "<script>".into(), code: code.into() },
        vec![namespace.into()],
        Limits::default().memory_bytes(8 << 20),
    );
    let mut guest = ENGINE.start(program).expect("a guest");
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        if Instant::now() > deadline {
            guest.interrupt().trigger();
        }
        match guest.poll_turn(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {}
            Poll::Ready(Turn::Done(outcome)) => return outcome,
            Poll::Ready(Turn::Waiting) => {
                if !answer_calls(&mut *guest) {
                    return Outcome::Interrupted; // it waits forever
                }
            }
        }
    }
}

/// Answers calls with their input if it is JSON, and fails the others. Returns whether there was a call.
fn answer_calls(guest: &mut dyn Guest) -> bool {
    let mut events = Vec::new();
    guest.take_events(&mut events);
    let mut called = false;
    for event in events {
        let Event::Call(call) = event else { continue };
        called = true;
        let echoed = call.input.to_json("input", 1 << 20).and_then(|json| Value::from_json(json.as_ref(), "input"));
        let settlement = match echoed {
            Ok(value) => Settlement::Fulfilled(value),
            Err(refusal) => Settlement::Failed(ExecuteError::tool(refusal.to_string())),
        };
        guest.settle(Pending::Call(call.id), settlement);
    }
    called
}
