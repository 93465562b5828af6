//! Growth over the samples, and the report of a soak.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::sample::Sample;
use super::work::RequestEnd;

/// How many executions of each program ended in each way, on each executor.
pub(super) type Counts = BTreeMap<(&'static str, &'static str), BTreeMap<RequestEnd, u64>>;

/// The report of a soak.
#[derive(Default)]
pub(super) struct Report {
    pub(super) executions: u64,
    pub(super) seconds: f64,
    /// Runner processes that were killed.
    pub(super) killed: u64,
    pub(super) samples: Vec<Sample>,
    counts: Counts,
}

/// A value that must not grow.
struct Measure {
    name: &'static str,
    value: fn(&Sample) -> f64,
    /// The growth that is not a leak, as a factor and as `slack`: allocators and a busy machine vary.
    factor: f64,
    slack: f64,
}

const MIB: f64 = 1_048_576.0;

#[allow(clippy::cast_precision_loss)] // a count or a number of bytes
const MEASURES: [Measure; 7] = [
    Measure { name: "memory of the host, MiB", value: |s| s.host_bytes as f64 / MIB, factor: 1.1, slack: 8.0 },
    Measure { name: "memory of the runner, MiB", value: |s| s.runner_bytes as f64 / MIB, factor: 1.1, slack: 8.0 },
    Measure { name: "descriptors", value: |s| s.descriptors as f64, factor: 1.0, slack: 4.0 },
    Measure { name: "descriptors of the runner", value: |s| s.runner_descriptors as f64, factor: 1.0, slack: 4.0 },
    Measure { name: "threads", value: |s| s.threads as f64, factor: 1.0, slack: 2.0 },
    Measure { name: "children", value: |s| s.children as f64, factor: 1.0, slack: 1.0 },
    Measure { name: "latency of 1 + 1, µs", value: |s| s.latency_micros, factor: 2.0, slack: 1000.0 },
];

/// The minimum number of samples that show growth: three for each third.
const FEWEST_SAMPLES: usize = 9;

/// The minimum of a measure over each third of the samples: a leak raises it, a busy moment does not. The first third is the
/// warm-up.
struct Trend {
    name: &'static str,
    warm_up: f64,
    middle: f64,
    last: f64,
    grows: bool,
}

impl Measure {
    fn trend(&self, samples: &[Sample]) -> Trend {
        let third = samples.len() / 3;
        let least_of = |samples: &[Sample]| samples.iter().map(self.value).reduce(f64::min).unwrap_or_default();
        let warm_up = least_of(&samples[..third]);
        let before = least_of(&samples[third..2 * third]);
        let last = least_of(&samples[2 * third..]);
        let grows = samples.len() >= FEWEST_SAMPLES && last > before * self.factor + self.slack;
        Trend { name: self.name, warm_up, middle: before, last, grows }
    }
}

impl Report {
    pub(super) fn add(&mut self, counts: Counts) {
        for (key, ends) in counts {
            let sum = self.counts.entry(key).or_default();
            for (end, count) in ends {
                *sum.entry(end).or_default() += count;
                self.executions += count;
            }
        }
    }

    fn trends(&self) -> Vec<Trend> {
        MEASURES.iter().map(|measure| measure.trend(&self.samples)).collect()
    }

    /// Executions that ended in an unexpected way.
    fn unexpected(&self) -> Vec<String> {
        let mut unexpected = Vec::new();
        for ((executor, work), ends) in &self.counts {
            for (end, count) in ends {
                if let RequestEnd::Unexpected(class) = end {
                    unexpected.push(format!("{executor}: {work:?} ended as {class}, {count} times"));
                }
            }
        }
        unexpected
    }

    /// Whether nothing grew, and every program ended in an expected way.
    pub(super) fn is_fine(&self) -> bool {
        self.unexpected().is_empty() && !self.trends().iter().any(|trend| trend.grows)
    }

    /// The numbers of executions by executor: of all, and of those whose runner was killed.
    fn by_executor(&self) -> BTreeMap<&'static str, (u64, u64)> {
        let mut rows = BTreeMap::<_, (u64, u64)>::new();
        for ((executor, _), ends) in &self.counts {
            let row = rows.entry(*executor).or_default();
            row.0 += ends.values().sum::<u64>();
            row.1 += ends.get(&RequestEnd::Killed).copied().unwrap_or_default();
        }
        rows
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for (executor, (executions, hit)) in self.by_executor() {
            let _ = writeln!(text, "{executor:>8}  {executions:>9} executions, {hit} of them hit by a kill");
        }
        let _ = writeln!(
            text,
            "   total  {:>9} executions in {:.0} s, {} runner processes killed\n",
            self.executions, self.seconds, self.killed
        );
        let _ = writeln!(text, "{:<28}{:>10}{:>10}{:>10}", "least of each third", "warm-up", "middle", "last");
        for Trend { name, warm_up, middle, last, grows } in self.trends() {
            let verdict = if grows { "  grows" } else { "" };
            let _ = writeln!(text, "{name:<28}{warm_up:>10.1}{middle:>10.1}{last:>10.1}{verdict}");
        }
        for line in self.unexpected() {
            let _ = writeln!(text, "{line}");
        }
        if self.samples.len() < FEWEST_SAMPLES {
            let _ = writeln!(text, "too short to show growth");
        }
        text.truncate(text.trim_end().len());
        text
    }

    pub(super) fn to_json(&self) -> Json {
        let trends = self.trends();
        let trends: Vec<_> = trends
            .iter()
            .map(|trend| {
                let Trend { name, warm_up, middle, last, grows } = trend;
                json!({ "name": name, "warmUp": warm_up, "middle": middle, "last": last, "grows": grows })
            })
            .collect();
        let executors: serde_json::Map<String, Json> = self
            .by_executor()
            .into_iter()
            .map(|(name, (executions, hit))| (name.to_owned(), json!({ "executions": executions, "hit": hit })))
            .collect();
        json!({
            "executions": self.executions, "seconds": self.seconds, "killed": self.killed, "executors": executors,
            "trends": trends, "unexpected": self.unexpected(), "samples": self.samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(host_mib: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample = |at| Sample {
            executions: at,
            host_bytes: host_mib(at) << 20,
            runner_bytes: 0,
            descriptors: 20,
            runner_descriptors: 0,
            threads: 4,
            children: 2,
            latency_micros: 100.0,
        };
        (0..30).map(sample).collect()
    }

    #[test]
    fn growth_after_the_warm_up_fails() {
        let report = |samples| Report { samples, ..Report::default() };
        let grows = |report: Report| !report.is_fine();
        assert!(!grows(report(samples(|_| 50))));
        assert!(!grows(report(samples(|at| if at < 10 { 10 * at } else { 100 }))), "warm-up");
        assert!(!grows(report(samples(|at| 50 + at % 3))), "noise");
        assert!(grows(report(samples(|at| 50 + 3 * at))));
        assert!(!grows(report(samples(|at| 50 + 3 * at)[..5].to_vec())), "too few samples to tell");
    }

    #[test]
    fn an_end_that_is_not_expected_fails() {
        let mut report = Report { samples: samples(|_| 50), ..Report::default() };
        report.add(Counts::from([(
            ("process", "1 + 1"),
            BTreeMap::from([(RequestEnd::AsExpected, 7), (RequestEnd::Killed, 1)]),
        )]));
        assert_eq!((report.is_fine(), report.executions), (true, 8));
        report.add(Counts::from([(("inline", "1 + 1"), BTreeMap::from([(RequestEnd::Unexpected("timeout"), 1)]))]));
        assert_eq!((report.is_fine(), report.unexpected().len()), (false, 1));
    }
}
