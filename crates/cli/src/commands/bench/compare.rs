//! The comparison of two reports: the ratio of each row, and whether it is within the noise.

use execbox_measure::head::Head;
use execbox_measure::unit::Unit;
use serde::Serialize;

use super::report::{Measured, Report};

/// A row beside the same row of an earlier report.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Comparison {
    /// The median of the earlier report.
    pub(super) before: f64,
    /// The median of this report, divided by `before`; `null` if `before` is 0.
    pub(super) ratio: Option<f64>,
    /// The change that the noise of both reports can explain: 0.1 for a ratio between 1/1.1 and 1.1.
    pub(super) noise: f64,
    pub(super) verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The change is within the noise.
    Noise,
    Better,
    Worse,
}

/// The minimum noise: two runs of the same binary differ by this much even if the samples of each agree.
const LEAST_NOISE: f64 = 0.02;

impl Comparison {
    /// Compares the row with the same row of an earlier report; `None` if that report does not have it.
    pub(super) fn find(now: &Measured, earlier: &Report) -> Option<Self> {
        earlier.rows.iter().find(|before| before.is_same(now)).map(|before| Self::new(before, now))
    }

    fn new(before: &Measured, now: &Measured) -> Self {
        let noise = (before.noise + now.noise).max(LEAST_NOISE);
        let ratio = (before.p50 > 0.0).then(|| now.p50 / before.p50);
        let is_noise = ratio.is_none_or(|ratio| ratio.max(1.0 / ratio) <= 1.0 + noise);
        let verdict = match is_noise {
            true => Verdict::Noise,
            false if (now.p50 > before.p50) == now.unit.is_higher_better() => Verdict::Better,
            false => Verdict::Worse,
        };
        Self { before: before.p50, ratio, noise, verdict }
    }
}

impl Verdict {
    /// The word in the table.
    pub(super) fn word(self, unit: Unit) -> &'static str {
        match (self, unit) {
            (Self::Noise, _) => "noise",
            (Self::Better, Unit::Bytes) => "less",
            (Self::Worse, Unit::Bytes) => "more",
            (Self::Better, _) => "faster",
            (Self::Worse, _) => "slower",
        }
    }
}

/// Differences between the conditions of two reports that can change their figures, one line for each.
pub(super) fn differences(file: &str, before: &Head, now: &Head) -> Vec<String> {
    let mut lines = Vec::new();
    if before.machine != now.machine {
        lines.push(format!("{file} was measured on another machine: {}; this is {}", before.machine, now.machine));
    }
    if before.execbox.version != now.execbox.version {
        lines.push(format!(
            "{file} was measured with execbox {}; this is {}",
            before.execbox.version, now.execbox.version
        ));
    }
    if before.execbox.profile != now.execbox.profile {
        lines.push(format!(
            "{file} was measured with a {} build; this is a {} build",
            before.execbox.profile, now.execbox.profile
        ));
    }
    let is_shared = |name: &&String| now.execbox.engines.contains_key(*name);
    for name in before.execbox.engines.keys().filter(is_shared) {
        let (before, now) = (&before.execbox.engines[name], &now.execbox.engines[name]);
        if before != now {
            lines.push(format!("{file} was measured with {name} {before}; this is {now}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(p50: f64, noise: f64, unit: Unit) -> Measured {
        Measured {
            row: "1+1".to_owned(),
            executor: "inline".to_owned(),
            engine: "quickjs".to_owned(),
            unit,
            samples: 10,
            p50,
            p95: None,
            p99: None,
            noise,
        }
    }

    fn verdict(before: (f64, f64), now: (f64, f64), unit: Unit) -> Verdict {
        Comparison::new(&measured(before.0, before.1, unit), &measured(now.0, now.1, unit)).verdict
    }

    #[test]
    fn a_change_beyond_the_noise_of_both_is_a_verdict() {
        let times = |before, now| verdict(before, now, Unit::Milliseconds);
        assert_eq!(times((1.0, 0.0), (1.0, 0.0)), Verdict::Noise);
        assert_eq!(times((1.0, 0.0), (1.015, 0.0)), Verdict::Noise, "two runs never agree exactly");
        assert_eq!(times((1.0, 0.0), (10.0, 0.0)), Verdict::Worse);
        assert_eq!(times((10.0, 0.0), (1.0, 0.0)), Verdict::Better);
        assert_eq!(times((1.0, 0.2), (1.25, 0.1)), Verdict::Noise);
        assert_eq!(times((1.0, 0.1), (1.25, 0.1)), Verdict::Worse);
        assert_eq!(times((1.25, 0.2), (1.0, 0.1)), Verdict::Noise, "symmetrical");
        assert_eq!(times((0.0, 0.0), (1.0, 0.0)), Verdict::Noise, "no ratio");
        assert_eq!(times((1.0, 0.0), (0.0, 0.0)), Verdict::Better);
    }

    #[test]
    fn more_programs_per_second_are_better_and_more_bytes_are_worse() {
        assert_eq!(verdict((10.0, 0.0), (100.0, 0.0), Unit::ProgramsPerSecond), Verdict::Better);
        assert_eq!(verdict((100.0, 0.0), (10.0, 0.0), Unit::ProgramsPerSecond), Verdict::Worse);
        assert_eq!(verdict((10.0, 0.0), (100.0, 0.0), Unit::Bytes), Verdict::Worse);
        assert_eq!(
            (Verdict::Better.word(Unit::Bytes), Verdict::Worse.word(Unit::ProgramsPerSecond)),
            ("less", "slower")
        );
    }

    #[test]
    fn differences_of_machines_and_builds_are_listed() {
        let now = Head::of_this_machine([("quickjs".to_owned(), "1".to_owned())].into(), false);
        assert_eq!(differences("a.json", &now, &now), [""; 0]);
        let mut before = now.clone();
        before.machine.cores += 1;
        before.execbox.version = "0.0.1".to_owned();
        before.execbox.engines.insert("quickjs".to_owned(), "0.1".to_owned());
        let lines = differences("a.json", &before, &now);
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with("a.json was measured on another machine: ") && lines[1].contains("0.0.1"),
            "{lines:?}"
        );
    }
}
