//! The resources of this process and its children, read from `/proc`.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use execbox::{ExecuteRequest, Limits};
use execbox_measure::processes::{children, resident_bytes};
use serde::Serialize;

use crate::executors::Started;

/// The resources in use between two batches, when no program is executed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    pub(super) executions: u64,
    /// Resident memory of this process, in bytes.
    pub(super) host_bytes: u64,
    /// Resident memory of the listening runner, in bytes; 0 without one. Runner processes are not measured, because they are
    /// replaced all the time.
    pub(super) runner_bytes: u64,
    pub(super) descriptors: u64,
    pub(super) runner_descriptors: u64,
    pub(super) threads: u64,
    pub(super) children: u64,
    /// The shortest time of `1 + 1` on each executor, added up, in microseconds.
    pub(super) latency_micros: f64,
}

/// The number of executions of `1 + 1` on each executor for a sample. The load of the machine has the least effect on the
/// shortest.
const PROBES: u32 = 30;

impl Sample {
    pub(super) async fn take(executors: &[Arc<Started>], executions: u64) -> Self {
        let mut latency = Duration::ZERO;
        for started in executors {
            let mut shortest = Duration::MAX;
            for _ in 0..PROBES {
                let limits = Limits::default().timeout(Duration::from_mins(1));
                let begun = Instant::now();
                started.executor.execute(ExecuteRequest::new("1 + 1").limits(limits)).await;
                shortest = shortest.min(begun.elapsed());
            }
            latency += shortest;
        }
        // Discarded connections and children end in the background.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let own = std::process::id();
        let runner = executors.iter().find_map(|started| started.listening());
        Self {
            executions,
            host_bytes: resident_bytes(own).unwrap_or_default(),
            runner_bytes: runner.and_then(resident_bytes).unwrap_or_default(),
            descriptors: entries(own, "fd"),
            runner_descriptors: runner.map_or(0, |runner| entries(runner, "fd")),
            threads: entries(own, "task"),
            children: children().len() as u64,
            latency_micros: latency.as_secs_f64() * 1e6,
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        let Self { descriptors, threads, children, latency_micros, .. } = self;
        write!(
            f,
            "{} MiB, runner {} MiB, {descriptors} descriptors, {threads} threads, {children} children, {latency_micros:.0} µs",
            mib(self.host_bytes),
            mib(self.runner_bytes)
        )
    }
}

fn entries(process: u32, directory: &str) -> u64 {
    fs::read_dir(format!("/proc/{process}/{directory}")).map_or(0, |entries| entries.count() as u64)
}
