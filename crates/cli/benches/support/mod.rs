//! The parts that the benchmarks share: the table, a tool, one execution.

use std::time::{Duration, Instant};

use execbox::{ExecuteRequest, Executor, Limits, Provider, Tool};
use execbox_measure::processes;
use execbox_measure::samples::Samples;
use serde_json::{Value, json};

/// A program that makes `N` sequential calls.
pub(crate) const ADD: &str = "let s = 0; for (let i = 0; i < N; i++) s += (await tools.add({ a: i, b: 1 })).sum; s";

/// A tool that adds two numbers, with a schema for them.
pub(crate) fn add() -> Tool {
    let add = Tool::new("add", async |input: Value, _| {
        Ok(json!({ "sum": input["a"].as_f64().unwrap_or(0.0) + input["b"].as_f64().unwrap_or(0.0) }))
    });
    add.input_schema(json!({
        "type": "object",
        "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
        "required": ["a", "b"]
    }))
}

/// The duration of one execution, which must succeed.
pub(crate) async fn run(executor: &dyn Executor, tools: &Provider, code: &str) -> Duration {
    let limits = Limits::default().timeout(Duration::from_mins(1));
    let execution = ExecuteRequest::new(code).provider(tools.clone()).limits(limits);
    let started = Instant::now();
    let result = executor.execute(execution).await;
    let elapsed = started.elapsed();
    assert!(result.is_ok(), "{result:?}");
    elapsed
}

/// The resident memory of a process, in KiB.
pub(crate) fn resident_kib(process: u32) -> f64 {
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    processes::resident_bytes(process).map_or(f64::NAN, |bytes| bytes as f64 / 1024.0)
}

/// The samples that were measured.
pub(crate) fn samples(samples: Vec<f64>) -> Samples {
    Samples::new(samples).expect("at least one sample")
}

/// A report, as a table or as one JSON object per row.
pub(crate) struct Report {
    json: bool,
    words: Vec<String>,
}

impl Report {
    /// Reads the arguments: `--json`, and words. Only rows whose name contains one of the words are measured.
    pub(crate) fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
        let (flags, words): (Vec<String>, Vec<String>) = arguments.into_iter().partition(|a| a.starts_with("--"));
        Self { json: flags.iter().any(|flag| flag == "--json"), words }
    }

    pub(crate) fn head(&self) {
        if !self.json {
            println!("{:<46} {:>10} {:>10} {:>10} {:>10}", "", "p50", "p10", "p99", "goal");
        }
    }

    /// Whether a row with this name is measured.
    pub(crate) fn includes(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    pub(crate) fn row(&self, name: &str, goal_ms: f64, measure: impl FnOnce() -> Samples) {
        self.row_of(name, "ms", goal_ms, measure);
    }

    pub(crate) fn row_of(&self, name: &str, unit: &str, goal: f64, measure: impl FnOnce() -> Samples) {
        if !self.includes(name) {
            return;
        }
        let samples = measure();
        let (p50, p10, p99) = (samples.median(), samples.quantile(0.1), samples.quantile(0.99));
        if self.json {
            println!("{}", json!({ "name": name, "unit": unit, "p50": p50, "p10": p10, "p99": p99, "goal": goal }));
        } else {
            let verdict = if p50 > goal { "  over" } else { "" };
            let goal = if goal.is_nan() { String::new() } else { format!("{goal:.4}") };
            println!("{name:<46} {p50:>10.4} {p10:>10.4} {p99:>10.4} {goal:>10} {unit}{verdict}");
        }
    }
}
