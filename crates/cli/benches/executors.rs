//! The cost of transports, of stopping programs, and growth of the memory of child processes, beside the project's goals.
//! `execbox bench` measures the inline, worker and process executors, and the costs of programs.
//!
//! `cargo bench --bench executors` prints a table; `-- --json` one JSON object per line; `-- WORD…` only the rows whose
//! name contains a word. Machines are shared and noisy: compare runs that were made together.

#[allow(dead_code)] // each benchmark uses its part
mod support;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use execbox::transport::tls::{Certificates, ClientTls, Identity, ServerTls, Trust};
use execbox::transport::{AcceptOptions, Address, ConnectOptions, Listener};
use execbox::{
    ExecuteRequest, Executor, InlineExecutor, Limits, PoolOptions, ProcessExecutor, Provider, RemoteExecutor, Runner,
    RunnerCommand, Tool, WorkerExecutor,
};
use execbox_measure::allocator;
use execbox_measure::processes::children;
use execbox_measure::samples::Samples;
use serde_json::Value;

use support::{ADD, Report, add, resident_kib, run, samples};

fn main() {
    allocator::return_memory_soon();
    let report = Report::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let bench = Bench { runtime: runtime.expect("a runtime"), tools: tools() };
    report.head();
    let _runtime = bench.runtime.enter();
    for subject in bench.subjects() {
        if subject.is_remote {
            bench.latency(&report, &subject);
        }
        bench.cancellation(&report, &subject);
    }
    bench.memory(&report);
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    tools: Provider,
}

/// An executor under test.
struct Subject {
    name: &'static str,
    executor: Arc<dyn Executor>,
    is_remote: bool,
}

fn tools() -> Provider {
    let hang = Tool::new("hang", async |_: Value, _| std::future::pending().await);
    Provider::builder("tools").tools([add(), hang]).build().expect("the tools are sound")
}

fn process(max_size: usize) -> ProcessExecutor {
    let command = RunnerCommand::new(env!("CARGO_BIN_EXE_execbox")).arg("runner");
    ProcessExecutor::builder(command).pool(PoolOptions::default().max_size(max_size)).build()
}

/// TLS with the certificates of the tests.
fn encrypted() -> (AcceptOptions, ConnectOptions) {
    let pem = |name| fs::read(format!("{}/../tls/tests/pem/{name}", env!("CARGO_MANIFEST_DIR"))).expect("a file");
    let identity = Identity::from_pem(&pem("server.pem"), &pem("server.key")).expect("a certificate");
    let authority = Certificates::from_pem(&pem("authority.pem")).expect("a certificate");
    let accept = ServerTls::new(identity, None).expect("a certificate");
    let connect = Trust::only(authority).and_then(|trust| ClientTls::new(trust, None)).expect("a certificate");
    (AcceptOptions::default().tls(accept), ConnectOptions::default().tls(connect))
}

impl Bench {
    fn subjects(&self) -> Vec<Subject> {
        let subject = |name, executor| Subject { name, executor, is_remote: false };
        let remote = |name, address| Subject { name, executor: Arc::new(self.listening(address)), is_remote: true };
        vec![
            subject("inline", Arc::new(InlineExecutor::new().expect("an engine"))),
            subject("worker", Arc::new(WorkerExecutor::new().expect("an engine"))),
            subject("process", Arc::new(process(2))),
            remote("unix", "unix:/tmp/execbox-bench.sock"),
            remote("tcp", "tcp:127.0.0.1:0"),
            remote("tls", "tls:127.0.0.1:0"),
            remote("websocket", "ws://127.0.0.1:0"),
        ]
    }

    /// Starts a runner in this process that listens at `address`.
    fn listening(&self, address: &str) -> RemoteExecutor {
        let address: Address = address.parse().expect("an address");
        let (accept, connect) = if address.is_encrypted() { encrypted() } else { Default::default() };
        let listener = self.runtime.block_on(Listener::bind(&address, accept)).expect("a listener");
        let address = listener.address().clone();
        self.runtime.spawn(async {
            Runner::new().expect("an engine").listen(listener, execbox::ListenOptions::default()).await;
        });
        RemoteExecutor::with_address(address, connect)
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
            samples(times)
        });
        self.runtime.block_on(task).expect("a task")
    }

    fn latency(&self, report: &Report, subject: &Subject) {
        report.row(&format!("{}: 1+1", subject.name), f64::NAN, || self.times(subject, 3000, "1+1"));
        report.row(&format!("{}: each further call", subject.name), f64::NAN, || {
            let calls = self.times(subject, 40, &ADD.replace('N', "1001"));
            let one = self.times(subject, 200, &ADD.replace('N', "1")).median();
            calls.map(|total| (total - one) / 1000.0)
        });
    }

    /// The time from an execution's timeout to its end, in milliseconds.
    fn cancellation(&self, report: &Report, subject: &Subject) {
        for (what, code) in
            [("a BigInt loop", "let n = 3n; for (;;) n = n * n"), ("a tool that never answers", "await tools.hang()")]
        {
            report.row(&format!("{}: over the timeout, {what}", subject.name), 150.0, || {
                samples((0..10).map(|_| self.over_timeout(subject, code)).collect())
            });
        }
    }

    fn over_timeout(&self, subject: &Subject, code: &str) -> f64 {
        let limits = Limits::default().timeout(Duration::from_millis(100)).memory_bytes(1 << 30);
        let execution = ExecuteRequest::new(code).provider(self.tools.clone()).limits(limits);
        let started = Instant::now();
        let result = self.runtime.block_on(subject.executor.execute(execution));
        assert!(!result.is_ok(), "{code}");
        (started.elapsed().as_secs_f64() - 0.1) * 1e3
    }

    /// Measures ten thousand executions over one child: the growth of parent and child after the first thousand.
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
                    let process =
                        if child { children().into_iter().max().expect("a child") } else { std::process::id() };
                    resident_kib(process)
                };
                run_times(1000);
                let before = resident();
                run_times(10_000);
                samples(vec![(resident() - before).max(0.0) / 10_000.0])
            });
        }
        self.runtime.block_on(executor.close());
    }
}
