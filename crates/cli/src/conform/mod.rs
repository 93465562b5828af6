//! `execbox conform`: plays conversations with a runner, in whatever language it is written, and says
//! where it does not keep to the specification.
//!
//! ```text
//!   conformance/*/*.case ──► cases ──► parse ──► Case ──► play ──► Failure? ──► report
//!                                                          │ │
//!                                  known failures ─► known │ └── line ◄──► peer ◄──► the runner
//!                                                          └──── pattern: is this what was expected?
//! ```
//!
//! - [`case`]: what a case is. [`parse`]: reading one, with [`message`] for messages in short.
//! - [`cases`]: where they come from. [`known`]: which of them are known to fail.
//! - [`play`]: the host's half of a conversation, with [`line`] for its lines and [`peer`] for its
//!   connection. [`pattern`]: messages with matchers in them.
//! - [`report`]: what is printed.
//!
//! What is not here: the rules of the protocol. They are in the cases, and
//! `conformance/README.md` describes their format.

mod case;
mod cases;
mod known;
mod line;
mod message;
mod parse;
mod pattern;
mod peer;
mod play;
mod report;

use std::io;
use std::sync::Arc;

use execbox::transport::AddressError;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::case::{Case, Level};
use self::cases::CasesError;
use self::known::{Known, KnownError};
use self::peer::Target;
use self::play::Failure;
use self::report::{Progress, Report};
use crate::args::ConformArguments;
use crate::exit::Exit;
use crate::source::reason;
use crate::token::{self, NoToken};
use crate::units::{self, UnitError};

/// Does what the command line asks for.
pub(crate) fn run(arguments: &ConformArguments) -> Exit {
    match Job::new(arguments) {
        Ok(job) if arguments.list => written(&report::print_list(&job.cases, arguments.json), Exit::Success),
        Ok(job) => match job.play() {
            Ok(report) => written(&report.print(arguments.json), report.exit()),
            Err(error) => complain(&error),
        },
        Err(error) => complain(&error),
    }
}

fn complain(error: &BadInput) -> Exit {
    crate::report::complain(error);
    Exit::BadInput
}

fn written(result: &io::Result<()>, exit: Exit) -> Exit {
    match result {
        Ok(()) => exit,
        Err(error) => {
            let reason = reason(error);
            crate::report::complain(&format_args!("cannot write the report to standard output: {reason}"));
            Exit::ExecboxFailed
        }
    }
}

/// What the command line means.
struct Job {
    /// `None` where only a list is asked for.
    target: Option<Target>,
    cases: Vec<Case>,
    known: Known,
    jobs: usize,
    patience: f64,
    strict: bool,
}

/// Why nothing can be played.
#[derive(Debug, thiserror::Error)]
enum BadInput {
    #[error(
        "there is no runner: name the command that starts one, `execbox conform -- COMMAND`, \
         or say where one listens, `execbox conform --connect ADDRESS`"
    )]
    NoRunner,
    #[error("--connect: {0}")]
    Address(#[from] AddressError),
    #[error(transparent)]
    Token(#[from] NoToken),
    #[error("--jobs: {0}")]
    Jobs(UnitError),
    #[error("--jobs: at least one case must be played at once")]
    NoJobs,
    #[error("--patience: {0:?} is no factor: write a number above 0, for example `3` or `0.5`")]
    Patience(String),
    #[error(transparent)]
    Cases(#[from] CasesError),
    #[error(transparent)]
    Known(#[from] KnownError),
    #[error("cannot reach the runner `{0}`: {1}")]
    Unreachable(String, String),
    #[error("no case can be played: {0}")]
    Runtime(io::Error),
}

impl Job {
    fn new(arguments: &ConformArguments) -> Result<Self, BadInput> {
        let target = match &arguments.connect {
            Some(address) => {
                let token = token::read(arguments.token_file.as_deref())?;
                Some(Target::Address(address.parse()?, token))
            }
            None if !arguments.command.is_empty() => Some(Target::Command(arguments.command.clone())),
            None if arguments.list => None,
            None => return Err(BadInput::NoRunner),
        };
        let jobs = units::count(&arguments.jobs).map_err(BadInput::Jobs)?;
        if jobs == 0 {
            return Err(BadInput::NoJobs);
        }
        let cases = arguments.cases.as_deref().map_or_else(cases::ours, cases::of_directory)?;
        let known = arguments.known.as_deref().map(|file| Known::read(file, &cases)).transpose()?.unwrap_or_default();
        Ok(Self {
            target,
            cases: cases::select(cases, &arguments.only, arguments.extensions)?,
            known,
            jobs,
            patience: patience(&arguments.patience)?,
            strict: arguments.strict,
        })
    }

    /// Plays the cases, some at once; the results are in the cases' order.
    fn play(self) -> Result<Report, BadInput> {
        let target = Arc::new(self.target.ok_or(BadInput::NoRunner)?);
        let (jobs, patience) = (Arc::new(Semaphore::new(self.jobs)), self.patience);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(BadInput::Runtime)?;
        let name = target.to_string();
        let mut results = runtime.block_on(async {
            let unreachable = |error| BadInput::Unreachable(name.clone(), reason(&error));
            drop(target.connect().await.map_err(unreachable)?);
            let mut progress = Progress::new(self.cases.len());
            let mut playing = JoinSet::new();
            for (at, case) in self.cases.into_iter().enumerate() {
                let (target, jobs) = (Arc::clone(&target), Arc::clone(&jobs));
                playing.spawn(async move {
                    let _permit = jobs.acquire().await;
                    let result = play::play(&case, &target, patience).await;
                    (at, case, result)
                });
            }
            let mut results = Vec::new();
            while let Some(result) = playing.join_next().await {
                let result = result.map_err(|error| BadInput::Runtime(error.into()))?;
                progress.show(&result.1.name);
                results.push(result);
            }
            Ok::<_, BadInput>(results)
        })?;
        results.sort_by_key(|(at, ..)| *at);
        let results = results.into_iter().map(|(_, case, result)| Played::new(case, result, &self.known, self.strict));
        Ok(Report::new(name, results.collect()))
    }
}

/// `3`, `0.5`.
fn patience(text: &str) -> Result<f64, BadInput> {
    let factor = text.parse::<f64>().ok().filter(|factor| (0.001..=1000.0).contains(factor));
    factor.ok_or_else(|| BadInput::Patience(text.to_owned()))
}

/// A case, and how the runner did in it.
struct Played {
    case: Case,
    verdict: Verdict,
    failure: Option<Failure>,
    /// Why it is known to fail.
    reason: Option<String>,
}

/// What a case comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Passed,
    Failed,
    /// It failed, and does not fail the run.
    FellShort,
    /// It failed, as the list of known failures says.
    KnownFailure,
    /// It passed, and the list of known failures says that it fails.
    UnexpectedPass,
}

impl Played {
    fn new(case: Case, result: Result<(), Failure>, known: &Known, strict: bool) -> Self {
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
    /// Whether the run fails by it.
    fn fails(self) -> bool {
        matches!(self, Self::Failed | Self::UnexpectedPass)
    }
}
