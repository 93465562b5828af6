//! The parts of the time of `1+1` and of a tool call: each step alone, and the inline executor, which takes all of them.
//!
//! `cargo bench --bench budget` prints the table of docs/performance.md: medians, and the part of the whole.

use std::hint::black_box;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use execbox::{ExecuteRequest, Executor as _, InlineExecutor, Provider, Tool};
use execbox_core::engine::{CallId, Engine as _, Event, Guest, Outcome, Pending, Settlement, Turn};
use execbox_core::language::{CompileLimits, Language as _};
use execbox_core::program::{Limits, Namespace, Program, Source};
use execbox_core::value::Value;
use execbox_measure::allocator;
use execbox_measure::samples::Samples;
use execbox_quickjs::QuickJs;
use execbox_typescript::TypeScript;
use serde_json::{Value as Json, json};

const ROUNDS: usize = 20_000;
const CALLS: u32 = 1000;
const ROUNDS_OF_CALLS: usize = 100;

fn main() {
    allocator::return_memory_soon();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let executor = InlineExecutor::new().expect("an engine");
    let engine = QuickJs::shared().expect("an engine");
    start(&runtime, &executor, &engine);
    println!();
    call(&runtime, &executor, &engine);
}

/// The steps of `1+1`.
fn start(runtime: &tokio::runtime::Runtime, executor: &InlineExecutor, engine: &QuickJs) {
    let mut steps = Steps::new([
        "front end",
        "instance of the guest",
        "the guest: compile, run, result",
        "result to JSON",
        "memory of the guest cleared",
    ]);
    let mut whole = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let result = runtime.block_on(executor.execute(ExecuteRequest::new("1+1")));
        whole.push(begun.elapsed());
        assert_eq!(result.outcome, Ok(Some(json!(2))));
        let mut at = steps.begin();
        let code = TypeScript.script("1+1", &CompileLimits::default()).expect("it is a script");
        at.next();
        let source = Source::Script { name: "<script>".into(), code };
        let program = Program::new(source, Vec::new(), Limits::default());
        let mut guest = engine.start(program).expect("there is room");
        at.next();
        let turn = poll(&mut *guest);
        at.next();
        let Turn::Done(Outcome::Returned(value)) = turn else { panic!("it returns: {turn:?}") };
        assert_eq!(value.to_json("result", 100), Ok(Some(json!(2))));
        at.next();
        drop(guest);
        at.next();
    }
    steps.print("`1+1`", &whole, "checks, clock, limits, usage");
}

/// The steps of a call in a sequence.
fn call(runtime: &tokio::runtime::Runtime, executor: &InlineExecutor, engine: &QuickJs) {
    let mut steps =
        Steps::new(["the guest: from an answer to the next call", "input to JSON", "the tool's answer to a value"]);
    let answer = json!({ "sum": 3 });
    let body = format!("for (let i = 0; i < {CALLS}; i++) await tools.add({{ a: i, b: 1 }})");
    let tools = [provider(None), provider(Some(schema()))];
    let mut whole = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS_OF_CALLS {
        for (tools, whole) in tools.iter().zip(&mut whole) {
            let begun = Instant::now();
            let result = runtime.block_on(executor.execute(ExecuteRequest::new(body.as_str()).provider(tools.clone())));
            whole.push(begun.elapsed() / CALLS);
            assert!(result.is_ok(), "{result:?}");
        }
        let namespace = Namespace::new("tools", ["add"]);
        let source = Source::Script { name: "<script>".into(), code: body.as_str().into() };
        let mut guest =
            engine.start(Program::new(source, vec![namespace.into()], Limits::default())).expect("there is room");
        let mut events = Vec::new();
        let mut settle: Option<(CallId, Value)> = None;
        loop {
            let mut at = steps.begin();
            if let Some((call, value)) = settle.take() {
                guest.settle(Pending::Call(call), Settlement::Fulfilled(value));
            }
            let turn = poll(&mut *guest);
            guest.take_events(&mut events);
            at.next();
            if let Turn::Done(outcome) = turn {
                assert!(matches!(outcome, Outcome::Returned(_)), "{outcome:?}");
                break;
            }
            let Some(Event::Call(call)) = events.pop() else { panic!("it calls") };
            black_box(call.input.to_json("input", 1000).expect("it is JSON"));
            at.next();
            settle = Some((call.id, Value::from_json(Some(&answer), "answer").expect("it is a value")));
            at.next();
        }
    }
    let [bare, checked] = whole;
    let schemas = median(&checked).saturating_sub(median(&bare));
    steps.print("a further call", &bare, "the call's bookkeeping, the tool, polling");
    println!("| with a schema for the input: more | {} | |", show(schemas));
}

fn schema() -> Json {
    json!({ "type": "object", "properties": { "a": { "type": "number" }, "b": { "type": "number" } }, "required": ["a", "b"] })
}

fn provider(schema: Option<Json>) -> Provider {
    let tool = Tool::new("add", async |input: Json, _| Ok(json!({ "sum": input["a"].as_f64().unwrap_or(0.0) + 1.0 })));
    let tool = schema.into_iter().fold(tool, Tool::input_schema);
    Provider::builder("tools").tool(tool).build().expect("the tool is sound")
}

/// Polls a guest until it waits or ends.
fn poll(guest: &mut dyn Guest) -> Turn {
    loop {
        if let Poll::Ready(turn) = guest.poll_turn(&mut Context::from_waker(Waker::noop())) {
            return turn;
        }
    }
}

/// The times of the steps of one operation.
struct Steps<const N: usize> {
    names: [&'static str; N],
    times: [Vec<Duration>; N],
}

/// One round through the steps.
struct Round<'a, const N: usize> {
    steps: &'a mut Steps<N>,
    step: usize,
    begun: Instant,
}

impl<const N: usize> Steps<N> {
    fn new(names: [&'static str; N]) -> Self {
        Self { names, times: [const { Vec::new() }; N] }
    }

    fn begin(&mut self) -> Round<'_, N> {
        Round { steps: self, step: 0, begun: Instant::now() }
    }

    fn print(&self, title: &str, whole: &[Duration], rest: &str) {
        let whole = median(whole);
        println!("| {title} | {} | 100 % |\n|---|--:|--:|", show(whole));
        let mut left = whole;
        for (name, times) in self.names.iter().zip(&self.times) {
            let time = median(times);
            left = left.saturating_sub(time);
            println!("| {name} | {} | {} |", show(time), part(time, whole));
        }
        println!("| {rest} | {} | {} |", show(left), part(left, whole));
    }
}

impl<const N: usize> Round<'_, N> {
    /// Ends the current step, and begins the next one.
    fn next(&mut self) {
        let now = Instant::now();
        self.steps.times[self.step].push(now - self.begun);
        self.step += 1;
        self.begun = now;
    }
}

fn median(times: &[Duration]) -> Duration {
    let samples = Samples::new(times.iter().map(Duration::as_secs_f64).collect());
    Duration::from_secs_f64(samples.expect("there are samples").median())
}

fn show(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}

fn part(time: Duration, whole: Duration) -> String {
    format!("{:.0} %", time.as_secs_f64() / whole.as_secs_f64() * 100.0)
}
