//! The verdict about each case: its outcome, judged by its level and the list of known failures.

use super::case::{Case, Level};
use super::known::ExpectedFailures;
use super::play::Failure;

/// A case and its verdict.
pub(super) struct Played {
    pub(super) case: Case,
    pub(super) verdict: Verdict,
    pub(super) failure: Option<Failure>,
    /// The reason in the list of known failures.
    pub(super) reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// A case that is not `must` failed, without `--strict`.
    FellShort,
    /// A case failed that is in the list of known failures.
    KnownFailure,
    /// A case passed that is in the list of known failures.
    UnexpectedPass,
}

impl Played {
    pub(super) fn new(case: Case, result: Result<(), Failure>, known: &ExpectedFailures, strict: bool) -> Self {
        let reason = known.reason(&case.name).map(str::to_owned);
        let verdict = match (&result, &reason) {
            (Ok(()), None) => Verdict::Passed,
            (Ok(()), Some(_)) => Verdict::UnexpectedPass,
            (Err(_), Some(_)) => Verdict::KnownFailure,
            (Err(_), None) if case.level == Level::Must || strict => Verdict::Failed,
            (Err(_), None) => Verdict::FellShort,
        };
        Self { case, verdict, failure: result.err(), reason }
    }
}

impl Verdict {
    /// Whether the verdict makes the run fail.
    pub(super) fn fails(self) -> bool {
        matches!(self, Self::Failed | Self::UnexpectedPass)
    }
}
