//! The cost of a run of modules on every executor, beside the project's goals.
//!
//! `cargo bench --bench code` prints a table; `-- --json` one JSON object per line; `-- WORD…` only the rows whose
//! name contains a word. Machines are shared and noisy: compare runs that were made together.

#[allow(dead_code)] // each benchmark uses its part
mod support;

use std::sync::Arc;
use std::time::Instant;

use execbox::code::{Args, CodeExecutionOptions, HostResult, HostValue, Status};
use execbox::transport::Listener;
use execbox::{
    Executor, InlineExecutor, PoolOptions, ProcessExecutor, RemoteExecutor, Runner, RunnerCommand, WorkerExecutor,
};
use execbox_measure::samples::Samples;
use execbox_measure::{allocator, typescript};

use support::{Report, samples};

fn main() {
    allocator::return_memory_soon();
    let report = Report::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    report.head();
    let _runtime = runtime.enter();
    for subject in subjects(&runtime) {
        let bench = Bench { runtime: &runtime, subject };
        bench.runs(&report);
        bench.calls(&report);
        bench.bytes(&report);
    }
}

/// An executor under test. The goals apply to the inline executor.
struct Subject {
    name: &'static str,
    executor: Arc<dyn Executor>,
}

fn subjects(runtime: &tokio::runtime::Runtime) -> Vec<Subject> {
    let command = RunnerCommand::new(env!("CARGO_BIN_EXE_execbox")).arg("runner");
    let pool = PoolOptions::default().max_size(2);
    let address = "unix:/tmp/execbox-bench-code.sock".parse().expect("an address");
    let listener = runtime.block_on(Listener::bind(&address, None)).expect("a listener");
    let address = listener.address().clone();
    runtime
        .spawn(async { Runner::new().expect("an engine").listen(listener, execbox::ListenOptions::default()).await });
    vec![
        Subject { name: "inline", executor: Arc::new(InlineExecutor::new().expect("an engine")) },
        Subject { name: "worker", executor: Arc::new(WorkerExecutor::new().expect("an engine")) },
        Subject { name: "process", executor: Arc::new(ProcessExecutor::builder(command).pool(pool).build()) },
        Subject { name: "unix", executor: Arc::new(RemoteExecutor::with_address(address, None)) },
    ]
}

struct Bench<'r> {
    runtime: &'r tokio::runtime::Runtime,
    subject: Subject,
}

const TEN_MIB: usize = 10 << 20;

/// `N` sequential calls of a synchronous function, and of one that returns a promise.
const SYNC: &str =
    "import { add } from 'host'; let s = 0; for (let i = 0; i < N; i++) s = add(s, i); export default s;";
const ASYNC: &str = "import { addLater } from 'host'; let s = 0; for (let i = 0; i < N; i++) s = await addLater(s, i); export default s;";

impl Bench<'_> {
    /// Measures runs, which must succeed, in milliseconds. The runs are on a task of the runtime, as in a server.
    fn times(&self, count: usize, source: &str, options: fn() -> CodeExecutionOptions) -> Samples {
        let (executor, source) = (Arc::clone(&self.subject.executor), source.to_owned());
        let task = self.runtime.spawn(async move {
            let mut times = Vec::with_capacity(count);
            for turn in 0..=count + count / 10 {
                let options = options();
                let started = Instant::now();
                let result = executor.run_code(&source, options).await;
                let elapsed = started.elapsed().as_secs_f64() * 1e3;
                assert_eq!(result.status, Status::Success, "{:?}", result.error);
                if turn > count / 10 {
                    times.push(elapsed);
                }
            }
            samples(times)
        });
        self.runtime.block_on(task).expect("a task")
    }

    fn row(&self, report: &Report, name: &str, goal_ms: f64, measure: impl FnOnce() -> Samples) {
        let goal_ms = if self.subject.name == "inline" { goal_ms } else { f64::NAN };
        report.row(&format!("{}: {name}", self.subject.name), goal_ms, measure);
    }

    fn runs(&self, report: &Report) {
        self.row(report, "export default 42", 0.060, || {
            self.times(3000, "export default 42", CodeExecutionOptions::new)
        });
        let module = format!("{}export default {}", typescript::declarations(20), typescript::sum(20));
        self.row(report, "a module of 300 lines of TypeScript", 1.5, || {
            self.times(300, &module, CodeExecutionOptions::new)
        });
    }

    fn calls(&self, report: &Report) {
        for (name, source, goal) in [("synchronous", SYNC, 0.005), ("asynchronous", ASYNC, 0.008)] {
            self.row(report, &format!("each further {name} call"), goal, || {
                let many = self.times(40, &source.replace('N', "1001"), host);
                let one = self.times(200, &source.replace('N', "1"), host).median();
                many.map(|total| (total - one) / 1000.0)
            });
        }
    }

    fn bytes(&self, report: &Report) {
        self.row(report, "10 MiB as an argument", 30.0, || {
            let options = || CodeExecutionOptions::new().args([HostValue::bytes(vec![7; TEN_MIB])]);
            self.times(30, "export default (bytes) => bytes.length", options)
        });
        self.row(report, "10 MiB as the result", 30.0, || {
            let source = "export default new Uint8Array(10 * 2 ** 20).fill(7)";
            self.times(30, source, CodeExecutionOptions::new)
        });
    }
}

fn host() -> CodeExecutionOptions {
    fn add(args: &Args) -> HostResult {
        Ok(HostValue::from(args.number(0)? + args.number(1)?))
    }
    let now = HostValue::function("add", |args| add(&args));
    let later = HostValue::async_function("addLater", async |args| add(&args));
    CodeExecutionOptions::new().import("host", [("add", now), ("addLater", later)])
}
