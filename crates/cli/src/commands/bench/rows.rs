//! The rows: what is measured, and on which executors.

use std::time::Duration;

use execbox_measure::unit::Unit;

use super::memory::Held;
use super::programs::{self, Program};
use super::subject::ExecutorName;

/// A row of the report.
pub(super) struct Row {
    /// The stable name in files and arguments.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) measure: Measure,
}

/// What a row measures.
#[derive(Clone, Copy)]
pub(super) enum Measure {
    /// The memory of a runner or of a guest, in bytes.
    Memory(Held),
    /// The time of a program.
    Program(&'static Program),
    /// The time of a program that starts [`AFTER_PAUSE`] after the one before, when threads sleep and everything that is made
    /// in advance is ready.
    ProgramAfterPause(&'static Program),
    /// The time of each call after the first of a program that makes [`programs::CALLS`] in sequence.
    FurtherCall,
    /// The number of programs per second, with this many at once.
    Throughput(usize),
    /// The time from the timeout of an endless loop to its result.
    Stop,
    /// The time from the start of `execbox run` to its end.
    ColdStart,
}

const fn row(id: &'static str, title: &'static str, measure: Measure) -> Row {
    Row { id, title, measure }
}

pub(super) const AFTER_PAUSE: Duration = Duration::from_millis(10);

pub(super) const ROWS: &[Row] = &[
    row("memory-warm", "memory of a warm runner", Measure::Memory(Held::Warm)),
    row("memory-waiting", "memory of a waiting guest", Measure::Memory(Held::Waiting)),
    row("1+1", "1+1", Measure::Program(&programs::ONE_PLUS_ONE)),
    row("after-pause", "a program 10 ms after another", Measure::ProgramAfterPause(&programs::ONE_PLUS_ONE)),
    row("call", "one call", Measure::Program(&programs::ONE_CALL)),
    row("calls-in-sequence", "each further call in sequence", Measure::FurtherCall),
    row("calls-at-once", "1 000 calls at once", Measure::Program(&programs::CALLS_AT_ONCE)),
    row("result-1mb", "result of 1 MB", Measure::Program(&programs::RESULT)),
    row("tool-result-1mb", "tool result of 1 MB", Measure::Program(&programs::TOOL_RESULT)),
    row("tool-input-1mb", "tool input of 1 MB", Measure::Program(&programs::TOOL_INPUT)),
    row("fib", "fib(27)", Measure::Program(&programs::FIB)),
    row("loop", "loop of 10 million steps", Measure::Program(&programs::LOOP)),
    row("json", "1 MB to JSON and back", Measure::Program(&programs::JSON)),
    row("typescript", "300 lines of TypeScript", Measure::Program(&programs::TYPESCRIPT)),
    row("throughput-1", "programs per second, 1 at once", Measure::Throughput(1)),
    row("throughput-2", "programs per second, 2 at once", Measure::Throughput(2)),
    row("throughput-8", "programs per second, 8 at once", Measure::Throughput(8)),
    row("throughput-64", "programs per second, 64 at once", Measure::Throughput(64)),
    row("stop", "stop of an endless loop", Measure::Stop),
    row("cold-start", "cold start: the binary to its first result", Measure::ColdStart),
];

impl Row {
    /// Whether the name or the title contains a word.
    pub(super) fn contains(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        self.id.contains(&word) || self.title.to_lowercase().contains(&word)
    }

    pub(super) fn unit(&self) -> Unit {
        match self.measure {
            Measure::Memory(_) => Unit::Bytes,
            Measure::Throughput(_) => Unit::ProgramsPerSecond,
            _ => Unit::Milliseconds,
        }
    }

    /// Whether the row can be measured on an executor: the inline executor has no runners.
    pub(super) fn applies_to(&self, executor: ExecutorName) -> bool {
        !(matches!(self.measure, Measure::Memory(Held::Warm)) && executor == ExecutorName::Inline)
    }
}
