//! Self-tests: whether an executor can enforce the limits that it is asked for.

use std::time::Duration;

use execbox_core::error::{ErrorCode, ExecuteResult};
use execbox_core::program::Limits;
use serde_json::json;

use crate::executor::Executor;
use crate::request::ExecuteRequest;
use crate::session::process::Probe;

/// What [`Executor::self_test`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[must_use = "a limit that does not work must be reported"]
#[non_exhaustive]
pub struct SelfTestReport {
    /// The checks, in the order in which they were made.
    pub checks: Vec<SelfTestCheck>,
    /// How the processes of guests are locked. `None` if guests run in this process, or where this process cannot see it.
    pub jail: Option<execbox_jail::Report>,
}

/// One check: an attempt, and whether it ended as it must.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SelfTestCheck {
    /// What must hold: `a loop is stopped`.
    pub check: &'static str,
    /// Whether that holds.
    #[serde(flatten)]
    pub outcome: CheckOutcome,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "reason")]
#[non_exhaustive]
pub enum CheckOutcome {
    /// The check passed.
    Passed,
    /// The check failed, with what was observed.
    Failed(String),
    /// The check was not made, for this reason.
    Skipped(String),
}

impl SelfTestReport {
    /// The checks that failed, with what happened instead.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.checks.iter().filter_map(|check| match &check.outcome {
            CheckOutcome::Failed(reason) => Some((check.check, reason.as_str())),
            CheckOutcome::Passed | CheckOutcome::Skipped(_) => None,
        })
    }
}

impl SelfTestCheck {
    /// A check that was made, with what was observed if it failed.
    pub fn new(check: &'static str, outcome: Result<(), String>) -> Self {
        Self { check, outcome: outcome.map_or_else(CheckOutcome::Failed, |()| CheckOutcome::Passed) }
    }
}

/// What a child tries that its jail refuses.
pub(crate) const REFUSED: [(Probe, &str); 5] = [
    (Probe::File, "the jail refuses a file"),
    (Probe::Socket, "the jail refuses a socket"),
    (Probe::Process, "the jail refuses a process"),
    (Probe::Thread, "the jail refuses a thread"),
    (Probe::Memory, "the jail refuses memory"),
];

/// The check that this process ends a child with too much memory.
pub(crate) const OUTGROWN: &str = "a child that grows is ended";

/// The checks of a jail that does not exist, or that this process cannot see.
pub(crate) fn no_jail(reason: &str) -> (Option<execbox_jail::Report>, Vec<SelfTestCheck>) {
    let skipped = |check| SelfTestCheck { check, outcome: CheckOutcome::Skipped(reason.to_owned()) };
    let checks = REFUSED.iter().map(|(_, check)| *check).chain([OUTGROWN]);
    (None, checks.map(skipped).collect())
}

/// Runs guests that exceed limits. The times are generous: the machine may be busy.
pub(crate) async fn check_limits(executor: &dyn Executor) -> Vec<SelfTestCheck> {
    const NAMES: [&str; 3] = ["a program runs", "a loop is stopped", "an allocation is refused"];
    let limits = Limits::default().timeout(Duration::from_secs(30));
    let execute = async |code: &str, limits| executor.execute(ExecuteRequest::new(code).limits(limits)).await;
    let runs = expect_two(&execute("1 + 1", limits).await);
    if runs.is_err() {
        return vec![SelfTestCheck::new(NAMES[0], runs), skipped(NAMES[1], NAMES[0]), skipped(NAMES[2], NAMES[0])];
    }
    let stopped = execute("for (;;);", limits.timeout(Duration::from_millis(200))).await;
    let grow = "const all = []; for (;;) all.push(new Array(1000).fill(all.length));";
    let refused = execute(grow, limits.memory_bytes(8 << 20)).await;
    vec![
        SelfTestCheck::new(NAMES[0], runs),
        SelfTestCheck::new(NAMES[1], expect(&stopped, ErrorCode::Timeout)),
        SelfTestCheck::new(NAMES[2], expect(&refused, ErrorCode::MemoryLimit)),
    ]
}

/// A check that is not made because another one failed.
fn skipped(check: &'static str, other: &str) -> SelfTestCheck {
    SelfTestCheck { check, outcome: CheckOutcome::Skipped(format!("it needs: {other}")) }
}

fn expect_two(result: &ExecuteResult) -> Result<(), String> {
    match &result.outcome {
        Ok(Some(value)) if *value == json!(2) => Ok(()),
        outcome => Err(format!("expected 2, got {}", described(outcome))),
    }
}

fn expect(result: &ExecuteResult, code: ErrorCode) -> Result<(), String> {
    match &result.outcome {
        Err(error) if error.code == code => Ok(()),
        outcome => Err(format!("expected {}, got {}", code.as_str(), described(outcome))),
    }
}

fn described(outcome: &Result<Option<serde_json::Value>, execbox_core::error::ExecuteError>) -> String {
    match outcome {
        Ok(Some(value)) => value.to_string(),
        Ok(None) => "undefined".to_owned(),
        Err(error) => format!("{}: {}", error.code.as_str(), error.message),
    }
}
