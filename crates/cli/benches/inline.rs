//! The effect of guests on the process of the inline executor: the delay of timers, and growth of memory, beside the project's
//! goals. `execbox bench` measures the time of programs.
//!
//! `cargo bench --bench inline` prints a table; `-- --json` one JSON object per line; `-- WORD…` only the rows whose
//! name contains a word. Machines are shared and noisy: compare runs that were made together.

#[allow(dead_code)] // each benchmark uses its part
mod support;

use std::time::{Duration, Instant};

use execbox::{ExecuteRequest, Executor as _, InlineExecutor, Limits, Provider};
use execbox_measure::allocator;

use support::{Report, add, resident_kib, run, samples};

fn main() {
    allocator::return_memory_soon();
    let report = Report::from_arguments();
    let bench = Bench::new();
    report.head();
    bench.delay(&report);
    bench.memory(&report);
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    executor: InlineExecutor,
    tools: Provider,
}

impl Bench {
    fn new() -> Self {
        let tools = Provider::builder("tools").tool(add()).build().expect("the tools are sound");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { runtime: runtime.expect("a runtime"), executor: InlineExecutor::new().expect("an engine"), tools }
    }

    fn run(&self, code: &str) {
        self.runtime.block_on(run(&self.executor, &self.tools, code));
    }

    /// Measures the delay of a timer of one millisecond on a thread on which guests compute.
    fn delay(&self, report: &Report) {
        for guests in [1, 4, 16] {
            let name = format!("delay of a timer beside {guests} guests");
            let delays = std::cell::OnceCell::new();
            let measured = || delays.get_or_init(|| self.delays(guests)).clone();
            report.row(&name, 10.0, || samples(measured()));
            report.row(&format!("{name}, the longest"), 10.0, || {
                samples(vec![measured().into_iter().fold(0.0, f64::max)])
            });
        }
    }

    fn delays(&self, guests: usize) -> Vec<f64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let computing = (0..guests).map(|_| {
                let executor = self.executor.clone();
                let limits = Limits::default().timeout(Duration::from_mins(1));
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

    /// Measures resident memory over 10 000 executions: the growth after the first 1000, in KiB per execution.
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
            samples(vec![(resident_kib(std::process::id()) - before).max(0.0) / 10_000.0])
        });
    }
}
