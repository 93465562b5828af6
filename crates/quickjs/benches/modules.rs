//! Median times of programs of modules on the engine alone.

use std::hint::black_box;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use execbox_core::engine::{Engine, Event, Guest, Outcome, Pending, Settlement, Turn};
use execbox_core::program::{Limits, Module, Modules, Program, Source};
use execbox_core::value::{FunctionKind, Graph, Value};
use execbox_quickjs::QuickJs;

const MEGABYTES: usize = 10;
const CALLS: u32 = 1000;

fn main() {
    let engine = QuickJs::shared().expect("the engine loads");
    report("export default 42", 5000, 1, || run(&engine, "export default 42", &no_args()));
    report("a script that returns 42", 5000, 1, || script(&engine));
    let sync = format!("import {{ now }} from 'host'; for (let i = 0; i < {CALLS}; i++) now(i); export default 1");
    report("a synchronous call", 50, CALLS, || run(&engine, &sync, &no_args()));
    let later =
        format!("import {{ later }} from 'host'; for (let i = 0; i < {CALLS}; i++) await later(i); export default 1");
    report("an asynchronous call", 50, CALLS, || run(&engine, &later, &no_args()));

    let mut graph = Graph::default();
    let bytes = graph.bytes(vec![7; MEGABYTES << 20]);
    let args = graph.array([bytes]);
    graph.set_root(args);
    report("10 MB of bytes, to a value", 20, 1, || graph.to_value("args").expect("it is a graph"));
    let args = graph.to_value("args").expect("it is a graph");
    report("10 MB of bytes, in", 20, 1, || run(&engine, "export default (bytes) => bytes[5]", &args));
    let made = format!("export default new Uint8Array({MEGABYTES} << 20)");
    report("10 MB of bytes, out", 20, 1, || run(&engine, &made, &no_args()));
    let Outcome::Returned(value) = run(&engine, &made, &no_args()) else { panic!("it returns") };
    report("10 MB of bytes, from a value", 20, 1, || value.to_graph("result", 1 << 30).expect("it is a value"));

    let rows = "export default Array.from({ length: 14300 }, (_, i) => ({ id: i, name: `item number ${i}`, tags: ['a', 'b'], ok: true }))";
    report("14 300 objects, out", 20, 1, || run(&engine, rows, &no_args()));
    let Outcome::Returned(value) = run(&engine, rows, &no_args()) else { panic!("it returns") };
    report("14 300 objects, from a value", 20, 1, || value.to_graph("result", 1 << 30).expect("it is a value"));
}

/// Prints the median time of `run`, divided by `parts`.
fn report<T>(name: &str, times: usize, parts: u32, mut run: impl FnMut() -> T) {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            let started = Instant::now();
            black_box(run());
            started.elapsed()
        })
        .collect();
    taken.sort();
    println!("{name:32} {:>10.1?}", taken[times / 2] / parts);
}

fn no_args() -> Value {
    let mut graph = Graph::default();
    let args = graph.array([]);
    graph.set_root(args);
    graph.to_value("args").expect("it is a graph")
}

fn host() -> Module {
    let mut graph = Graph::default();
    let later = graph.function(0, FunctionKind::Async, "later");
    let now = graph.function(1, FunctionKind::Sync, "now");
    let exports = graph.object([("later", later), ("now", now)]);
    graph.set_root(exports);
    Module::synthetic("host", graph.to_value("host").expect("it is a graph"))
}

fn run(engine: &QuickJs, code: &str, args: &Value) -> Outcome {
    let modules = vec![Module::source("main", code), host()];
    let source = Modules { entry: "main".into(), modules, export: "default".into(), args: args.clone() };
    drive(engine, Source::Modules(source))
}

fn script(engine: &QuickJs) -> Outcome {
    drive(engine, Source::Script { name: "<script>".into(), code: "return 42".into() })
}

/// Runs to the end, and answers every call with `undefined`.
fn drive(engine: &QuickJs, source: Source) -> Outcome {
    let limits = Limits::default().memory_bytes(256 << 20);
    let mut guest = engine.start(Program::new(source, Vec::new(), limits)).expect("there is room");
    let mut events = Vec::new();
    loop {
        let Poll::Ready(turn) = guest.poll_turn(&mut Context::from_waker(Waker::noop())) else { continue };
        if let Turn::Done(outcome) = turn {
            return outcome;
        }
        guest.take_events(&mut events);
        answer(&mut *guest, &mut events);
    }
}

fn answer(guest: &mut dyn Guest, events: &mut Vec<Event>) {
    for event in events.drain(..) {
        if let Event::Call(call) = event {
            guest.settle(Pending::Call(call.id), Settlement::Fulfilled(Value::undefined()));
        }
    }
}
