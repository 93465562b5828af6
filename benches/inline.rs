//! The speed of the inline executor: medians of many runs, beside the project's goals.
//!
//! `cargo bench --bench inline` prints a table; `-- --json` one JSON object per line; `-- WORD…` only the rows whose
//! name contains a word. Machines are shared and noisy: compare runs that were made together.

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use execbox::{ExecuteRequest, Executor as _, InlineExecutor, Limits, Provider, Tool};
use serde_json::{Value, json};

use support::{ADD, Report, Samples, add, resident_kib, run};

fn main() {
    let report = Report::from_arguments();
    let bench = Bench::new();
    report.head();
    bench.latency(&report);
    bench.catalogue(&report);
    bench.values(&report);
    bench.computing(&report);
    bench.throughput(&report);
    bench.delay(&report);
    bench.memory(&report);
    cold_start(&report);
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    executor: InlineExecutor,
    tools: Provider,
}

const ALL: &str = "(await Promise.all(Array.from({ length: 1000 }, (_, i) => tools.add({ a: i, b: 1 })))).length";
const BUILD_1_MB: &str = "const a = []; for (let i = 0; i < 14300; i++) a.push({ id: i, name: 'item ' + i, ok: true, tags: ['a', 'b'], v: i * 1.5 }); a";
const FIB: &str = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } fib(27)";
const LOOP: &str = "let s = 0; for (let i = 0; i < 1e7; i++) s += i; s";
const JSON_BOTH_WAYS: &str = "const a = []; for (let i = 0; i < 9000; i++) a.push({ id: i, name: 'item ' + i, tags: ['a', 'b'], v: i * 1.5, ok: true, nested: { x: i, y: null, z: 'some text here' } }); JSON.parse(JSON.stringify(a)).length";

impl Bench {
    fn new() -> Self {
        let megabyte: Value = (0..14_300)
            .map(|i| json!({ "id": i, "name": format!("item {i}"), "ok": true, "tags": ["a", "b"], "v": f64::from(i) * 1.5 }))
            .collect();
        // Copied in advance: building the megabyte is not the executor's work.
        let stock: Mutex<Vec<Value>> = Mutex::new(vec![megabyte; 60]);
        let big = Tool::new("big", move |_: Value, _| {
            let megabyte = stock.lock().ok().and_then(|mut stock| stock.pop());
            async move { Ok(megabyte.unwrap_or_default()) }
        });
        let take = Tool::new("take", async |input: Value, _| Ok(json!(input.as_array().map_or(0, Vec::len))));
        let tools = Provider::builder("tools").tools([add(), big, take]).build().expect("the tools are sound");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { runtime: runtime.expect("a runtime"), executor: InlineExecutor::new().expect("an engine"), tools }
    }

    fn run(&self, code: &str) -> Duration {
        self.runtime.block_on(run(&self.executor, &self.tools, code))
    }

    fn times(&self, count: usize, code: &str) -> Samples {
        for _ in 0..=count / 10 {
            black_box(self.run(code));
        }
        Samples((0..count).map(|_| self.run(code).as_secs_f64() * 1e3).collect())
    }

    fn latency(&self, report: &Report) {
        report.row("1+1, end to end", 0.040, || self.times(5000, "1+1"));
        report.row("one tool call, end to end", 0.060, || self.times(5000, "await tools.add({ a: 1, b: 2 })"));
        report.row("each further sequential call", 0.008, || {
            let calls = self.times(60, &ADD.replace('N', "1001"));
            let one = self.times(200, &ADD.replace('N', "1")).median();
            Samples(calls.0.into_iter().map(|total| (total - one) / 1000.0).collect())
        });
        report.row("1000 calls by Promise.all", 8.0, || self.times(100, ALL));
    }

    /// The cost of tools that are granted and not called.
    fn catalogue(&self, report: &Report) {
        let tools = (0..1000).map(|i| Tool::new(format!("tool-{i}"), async |input: Value, _| Ok(input)));
        let many = Provider::builder("many").tools(tools).build().expect("the tools are sound");
        report.row("1+1, granted 1000 tools", 1.0, || {
            let once = || self.runtime.block_on(run(&self.executor, &many, "1+1")).as_secs_f64() * 1e3;
            Samples((0..500).map(|_| once()).collect())
        });
    }

    fn values(&self, report: &Report) {
        report.row("build and return 1 MB of JSON", 30.0, || self.times(40, BUILD_1_MB));
        report.row("a 1 MB tool result, read", 25.0, || {
            self.times(40, "let n = 0; for (const item of await tools.big()) n += item.id; n")
        });
        report.row("a 1 MB tool input, built and sent", 30.0, || {
            self.times(40, &BUILD_1_MB.replace("; a", "; await tools.take(a)"))
        });
    }

    fn computing(&self, report: &Report) {
        report.row("fib(27)", 28.0, || self.times(15, FIB));
        report.row("loop of 1e7", 290.0, || self.times(7, LOOP));
        report.row("1 MB by JSON.stringify and parse", 60.0, || self.times(15, JSON_BOTH_WAYS));
    }

    fn throughput(&self, report: &Report) {
        for (tasks, goal) in [(1, 1.0 / 20_000.0), (8, 1.0 / 40_000.0)] {
            report.row(&format!("per execution, {tasks} at once"), goal * 1e3, || {
                Samples((0..5).map(|_| self.per_execution(tasks).as_secs_f64() * 1e3).collect())
            });
        }
    }

    fn per_execution(&self, tasks: u32) -> Duration {
        let each = 8000 / tasks;
        let started = Instant::now();
        self.runtime.block_on(async {
            let tasks: Vec<_> = (0..tasks)
                .map(|_| {
                    let (executor, tools) = (self.executor.clone(), self.tools.clone());
                    tokio::spawn(async move {
                        for _ in 0..each {
                            run(&executor, &tools, "1+1").await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("a task");
            }
        });
        started.elapsed() / (each * tasks)
    }

    /// The delay of a timer of one millisecond on a thread on which guests compute.
    fn delay(&self, report: &Report) {
        for guests in [1, 4, 16] {
            let name = format!("delay of a timer beside {guests} guests");
            let delays = std::cell::OnceCell::new();
            let measured = || delays.get_or_init(|| self.delays(guests)).clone();
            report.row(&name, 10.0, || Samples(measured()));
            report.row(&format!("{name}, the longest"), 10.0, || {
                Samples(vec![measured().into_iter().fold(0.0, f64::max)])
            });
        }
    }

    fn delays(&self, guests: usize) -> Vec<f64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let computing = (0..guests).map(|_| {
                let executor = self.executor.clone();
                let limits = Limits { timeout: Duration::from_mins(1), ..Limits::default() };
                tokio::spawn(async move { executor.execute(ExecuteRequest::new("for (;;);").limits(limits)).await })
            });
            let computing: Vec<_> = computing.collect();
            tokio::time::sleep(Duration::from_millis(100)).await;
            let mut delays = Vec::new();
            for _ in 0..500 {
                let due = Instant::now() + Duration::from_millis(1);
                tokio::time::sleep_until(due.into()).await;
                delays.push(due.elapsed().as_secs_f64() * 1e3);
            }
            computing.iter().for_each(tokio::task::JoinHandle::abort);
            delays
        })
    }

    /// Resident memory over 10 000 executions: the growth after the first 1000, in KiB per execution.
    fn memory(&self, report: &Report) {
        report.row_of("growth over 10 000 executions", "KiB", 0.1, || {
            let run_times = |count| {
                for _ in 0..count {
                    self.run("[1, 2, 3].map(String)");
                }
            };
            run_times(1000);
            let before = resident_kib(std::process::id());
            run_times(10_000);
            Samples(vec![(resident_kib(std::process::id()) - before).max(0.0) / 10_000.0])
        });
    }
}

fn cold_start(report: &Report) {
    report.row("cold start of the binary to its result", 25.0, || {
        let start = || {
            let started = Instant::now();
            let output = Command::new(env!("CARGO_BIN_EXE_execbox")).args(["run", "--json", "-e", "1+1"]).output();
            assert!(output.is_ok_and(|output| output.status.success()));
            started.elapsed().as_secs_f64() * 1e3
        };
        for _ in 0..5 {
            start();
        }
        Samples((0..60).map(|_| start()).collect())
    });
}
