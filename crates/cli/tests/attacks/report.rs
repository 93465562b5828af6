//! Bounds, and the table at the end.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The resources that an attack used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    /// The growth of the resident memory of the process under attack, in bytes.
    pub(crate) host: u64,
    /// The growth of its child that grew most, in bytes: a runner, with the guest's memory.
    pub(crate) child: u64,
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

/// The resources that an attack may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The growth of the process under attack, in bytes: twice the memory limit and 64 MiB.
    pub(crate) memory: u64,
    /// The growth of each child, in bytes: the same, and more on V8.
    pub(crate) child: u64,
    /// The processor time of all processes: twice the timeout and 150 ms.
    pub(crate) cpu: Duration,
    /// The elapsed time. This bound detects only attacks that never end: on a busy machine everything takes several times as
    /// long.
    pub(crate) wall: Duration,
}

impl Bounds {
    /// The bounds of work that must end within `time` and `memory_bytes`.
    pub(crate) fn new(time: Duration, memory_bytes: u64) -> Self {
        let cpu = 2 * time + Duration::from_millis(150);
        let memory = memory_bytes.saturating_mul(2).saturating_add(64 << 20);
        Self { memory, child: memory, cpu, wall: 4 * cpu + Duration::from_secs(15) }
    }

    /// Whether the attack must be ended, because it would exhaust the machine.
    pub(crate) fn is_far_beyond(&self, figures: &Figures) -> bool {
        let is_beyond = |grown: u64, bound: u64| grown > bound.saturating_add(512 << 20);
        let memory = is_beyond(figures.host, self.memory) || is_beyond(figures.child, self.child);
        memory || figures.cpu > 4 * self.cpu || figures.wall > self.wall
    }
}

impl Bounds {
    /// The violations: a text for each bound that is exceeded.
    pub(crate) fn violations(&self, figures: &Figures) -> Vec<String> {
        let mut violations = Vec::new();
        for (whose, grown, bound) in
            [("the process", figures.host, self.memory), ("a child of it", figures.child, self.child)]
        {
            if grown > bound {
                violations.push(format!("{whose} grew by {} MiB, bound {} MiB", grown >> 20, bound >> 20));
            }
        }
        if figures.cpu > self.cpu {
            violations.push(format!("took {:?} of processor time, bound {:?}", figures.cpu, self.cpu));
        }
        if figures.wall > self.wall {
            violations.push(format!("took {:?}, bound {:?}", figures.wall, self.wall));
        }
        violations
    }
}

/// A row of the table.
#[derive(Default)]
struct Row {
    cases: usize,
    runs: usize,
    passed: usize,
    worst: Figures,
    /// The case that used the largest part of its memory bound.
    heaviest: Closest,
    /// The case that used the largest part of its bound of processor time.
    longest: Closest,
}

/// The case that came closest to a bound, and the part of it that was reached.
#[derive(Default)]
struct Closest {
    part: f64,
    case: String,
}

impl Closest {
    #[allow(clippy::cast_precision_loss)] // a ratio
    fn add(&mut self, case: &str, reached: u64, bound: u64) {
        let part = reached as f64 / bound as f64;
        if part > self.part {
            *self = Self { part, case: case.to_owned() };
        }
    }
}

impl fmt::Display for Closest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} %: {}", self.part * 100.0, self.case)
    }
}

static ROWS: Mutex<BTreeMap<String, Row>> = Mutex::new(BTreeMap::new());

/// Adds a case: its figures on each executor, and whether each run passed.
pub(crate) fn add(group: &str, name: &str, bounds: &Bounds, runs: &[(Figures, bool)]) {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    let row = rows.entry(group.to_owned()).or_default();
    row.cases += 1;
    for (figures, passed) in runs {
        row.runs += 1;
        row.passed += usize::from(*passed);
        let worst = &mut row.worst;
        worst.host = worst.host.max(figures.host);
        worst.child = worst.child.max(figures.child);
        worst.cpu = worst.cpu.max(figures.cpu);
        worst.wall = worst.wall.max(figures.wall);
        row.heaviest.add(name, figures.host, bounds.memory);
        row.heaviest.add(name, figures.child, bounds.child);
        row.longest.add(name, milliseconds(figures.cpu), milliseconds(bounds.cpu));
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The table: one row for each group.
pub(crate) fn table() -> String {
    let rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = "| group | cases | executions | passed | worst growth of the host, MiB | of a child | worst processor time, ms | \
                    worst wall time, ms | closest to its memory bound | closest to its time bound |\n\
                    |---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let (mut cases, mut runs, mut passed) = (0, 0, 0);
    for (group, row) in rows.iter() {
        let Row { worst, heaviest, longest, .. } = row;
        let _ = writeln!(
            text,
            "| {group} | {} | {} | {} | {} | {} | {} | {} | {heaviest} | {longest} |",
            row.cases,
            row.runs,
            row.passed,
            worst.host >> 20,
            worst.child >> 20,
            milliseconds(worst.cpu),
            milliseconds(worst.wall),
        );
        cases += row.cases;
        runs += row.runs;
        passed += row.passed;
    }
    let _ = writeln!(text, "| all | {cases} | {runs} | {passed} | | | | | | |");
    text
}
