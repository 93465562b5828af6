//! The cost of the executors: workers, child processes and remote runners, beside the project's goals.
//!
//! `cargo bench --bench executors` prints a table; `-- --json` one JSON object per line; `-- WORD…` only the rows whose
//! name contains a word. Machines are shared and noisy: compare runs that were made together.

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use execbox::transport::Listener;
use execbox::{
    ExecuteRequest, Executor, InlineExecutor, Limits, PoolOptions, ProcessExecutor, Provider, RemoteExecutor, Runner,
    RunnerCommand, Tool, WorkerExecutor,
};
use serde_json::{Value, json};

use support::{ADD, Report, Samples, add, resident_kib, run, run_with};

fn main() {
    let report = Report::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let bench = Bench { runtime: runtime.expect("a runtime"), tools: tools() };
    report.head();
    let _runtime = bench.runtime.enter();
    for subject in bench.subjects() {
        bench.latency(&report, &subject);
        bench.cancellation(&report, &subject);
        bench.many_tools(&report, &subject);
    }
    bench.memory(&report);
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    tools: Provider,
}

/// An executor under test, with its goals for `1+1` and for each further call, in milliseconds.
struct Subject {
    name: &'static str,
    executor: Arc<dyn Executor>,
    once: f64,
    call: f64,
}

fn tools() -> Provider {
    let hang = Tool::new("hang", async |_: Value, _| std::future::pending().await);
    Provider::builder("tools").tools([add(), hang]).build().expect("the tools are sound")
}

/// Providers like those of MCP servers, with a hundred tools each.
fn catalogue(count: usize) -> Vec<Provider> {
    let tool = |number: usize| {
        let name = format!("{}_invoice_{number}", ["list", "create", "update", "get"][number % 4]);
        let description = "Looks an invoice up by its number or by the customer that it was sent to. Gives at most 50 \
                           of them, the newest first; say `after` for more.";
        let tool = Tool::new(name, async |_: Value, _| Ok(json!({ "ok": true })));
        tool.description(description).input_schema(json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "The number on the invoice" },
                "customer": { "type": "string", "description": "The customer's name or part of it" },
                "state": { "enum": ["open", "paid", "overdue"] },
                "after": { "type": "integer", "minimum": 0 },
            },
        }))
    };
    let servers = (0..count / 100).map(|server| {
        let tools = (0..100).map(tool);
        Provider::builder(format!("server_{server}")).tools(tools).build().expect("the tools are sound")
    });
    servers.collect()
}

fn process(max_size: usize) -> ProcessExecutor {
    let command = RunnerCommand::new(env!("CARGO_BIN_EXE_execbox")).arg("runner");
    ProcessExecutor::builder(command).pool(PoolOptions { max_size, ..PoolOptions::for_cores(2) }).build()
}

impl Bench {
    fn subjects(&self) -> Vec<Subject> {
        let subject = |name, executor, once, call| Subject { name, executor, once, call };
        vec![
            subject("inline", Arc::new(InlineExecutor::new().expect("an engine")), 0.040, 0.008),
            subject("worker", Arc::new(WorkerExecutor::new().expect("an engine")), 0.070, 0.015),
            subject("process", Arc::new(process(2)), 0.150, 0.030),
            subject("unix", Arc::new(self.listening("unix:/tmp/execbox-bench.sock")), f64::NAN, f64::NAN),
            subject("tcp", Arc::new(self.listening("tcp:127.0.0.1:0")), f64::NAN, f64::NAN),
            subject("websocket", Arc::new(self.listening("ws://127.0.0.1:0")), f64::NAN, f64::NAN),
        ]
    }

    /// Starts a runner in this process that listens at `address`.
    fn listening(&self, address: &str) -> RemoteExecutor {
        let address = address.parse().expect("an address");
        let listener = self.runtime.block_on(Listener::bind(&address, None)).expect("a listener");
        let address = listener.address().clone();
        self.runtime.spawn(async { Runner::new().expect("an engine").listen(listener, 100).await });
        RemoteExecutor::with_address(address, None)
    }

    /// Measures executions on a task of the runtime, as in a server: blocking a separate thread would add a wake-up.
    fn times(&self, subject: &Subject, count: usize, code: &str) -> Samples {
        let (executor, tools, code) = (Arc::clone(&subject.executor), self.tools.clone(), code.to_owned());
        let task = self.runtime.spawn(async move {
            let mut times = Vec::with_capacity(count);
            for _ in 0..=count / 10 {
                run(&*executor, &tools, &code).await;
            }
            for _ in 0..count {
                times.push(run(&*executor, &tools, &code).await.as_secs_f64() * 1e3);
            }
            Samples(times)
        });
        self.runtime.block_on(task).expect("a task")
    }

    fn latency(&self, report: &Report, subject: &Subject) {
        report.row(&format!("{}: 1+1", subject.name), subject.once, || self.times(subject, 3000, "1+1"));
        report.row(&format!("{}: each further call", subject.name), subject.call, || {
            let calls = self.times(subject, 40, &ADD.replace('N', "1001"));
            let one = self.times(subject, 200, &ADD.replace('N', "1")).median();
            Samples(calls.0.into_iter().map(|total| (total - one) / 1000.0).collect())
        });
        let small = "({ id: 7, name: 'a result as tools give it', tags: ['a', 'b'], total: 12.5 })";
        report.row(&format!("{}: per execution, 8 at once", subject.name), f64::NAN, || {
            Samples((0..5).map(|_| self.per_execution(subject, small).as_secs_f64() * 1e3).collect())
        });
    }

    fn per_execution(&self, subject: &Subject, code: &'static str) -> Duration {
        let started = Instant::now();
        self.runtime.block_on(async {
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let (executor, tools) = (Arc::clone(&subject.executor), self.tools.clone());
                    tokio::spawn(async move {
                        for _ in 0..250 {
                            run(&*executor, &tools, code).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("a task");
            }
        });
        started.elapsed() / 2000
    }

    /// The cost of tools that are granted and hardly used.
    fn many_tools(&self, report: &Report, subject: &Subject) {
        let catalogue = catalogue(1000);
        for (what, code) in [("1+1", "1+1"), ("one call", "await server_0.get_invoice_7({ id: 'x' })")] {
            report.row(&format!("{}: {what} with 1000 tools", subject.name), f64::NAN, || {
                let once = || self.runtime.block_on(run_with(&*subject.executor, &catalogue, code)).as_secs_f64() * 1e3;
                (0..20).for_each(|_| _ = once());
                Samples((0..300).map(|_| once()).collect())
            });
        }
    }

    /// The time from an execution's timeout to its end, in milliseconds.
    fn cancellation(&self, report: &Report, subject: &Subject) {
        for (what, code) in [
            ("an endless loop", "for (;;);"),
            ("a BigInt loop", "let n = 3n; for (;;) n = n * n"),
            ("a tool that never answers", "await tools.hang()"),
        ] {
            report.row(&format!("{}: over the timeout, {what}", subject.name), 150.0, || {
                Samples((0..10).map(|_| self.over_timeout(subject, code)).collect())
            });
        }
    }

    fn over_timeout(&self, subject: &Subject, code: &str) -> f64 {
        let limits = Limits { timeout: Duration::from_millis(100), memory_bytes: 1 << 30, ..Limits::default() };
        let execution = ExecuteRequest::new(code).provider(self.tools.clone()).limits(limits);
        let started = Instant::now();
        let result = self.runtime.block_on(subject.executor.execute(execution));
        assert!(!result.is_ok(), "{code}");
        (started.elapsed().as_secs_f64() - 0.1) * 1e3
    }

    /// Ten thousand executions over one child: the growth of parent and child after the first thousand.
    fn memory(&self, report: &Report) {
        let executor = process(1);
        let run_times = |count| {
            for _ in 0..count {
                self.runtime.block_on(run(&executor, &self.tools, "(await tools.add({ a: 1, b: 2 })).sum"));
            }
        };
        for (whose, child) in [("parent", false), ("child", true)] {
            report.row_of(&format!("process: growth of the {whose} over 10 000"), "KiB", 0.1, || {
                let resident = || {
                    let process = if child { children()[0] } else { std::process::id() };
                    resident_kib(process)
                };
                run_times(1000);
                let before = resident();
                run_times(10_000);
                Samples(vec![(resident() - before).max(0.0) / 10_000.0])
            });
        }
        self.runtime.block_on(executor.dispose());
    }
}

/// The child processes of this process, the youngest first.
fn children() -> Vec<u32> {
    let mut children: Vec<u32> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let parent: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            (parent == std::process::id()).then_some(id)
        })
        .collect();
    children.sort_unstable_by(|a, b| b.cmp(a));
    children
}
