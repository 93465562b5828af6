//! `execbox conform`: tests a runner, written in any language, against the cases of `conformance/`.
//!
//! ```text
//!   conformance/*.cases ──► cases ──► parse ──► Case ──► play ──► Failure? ──► report
//!                                                         │ │
//!                                 known failures ─► known │ └── line ◄──► peer ◄──► the runner
//!                                                         └──── pattern: does the message match?
//! ```
//!
//! - [`mod@case`]: the steps of a case; [`parse`] reads a file of cases, with [`message`] for messages in short form
//! - [`cases`] loads and selects cases; [`known`] is the list of known failures
//! - [`play`]: the host side of a case, with [`mod@line`] for its lines and [`peer`] for its connection
//! - [`pattern`]: messages with matchers
//! - [`verdict`]: what the outcome of a case means for the run
//! - [`report`] prints lists and reports
//!
//! The rules of the protocol are in the cases; `conformance/README.md` describes their format.

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
mod verdict;

use std::ffi::OsString;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use execbox::transport::Address;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::case::Case;
use self::known::ExpectedFailures;
use self::peer::Target;
use self::report::Report;
use self::verdict::Played;
use crate::error::{CliError, CommandError, SystemError, reason};
use crate::exit::Exit;
use crate::options::executor::token_source;
use crate::options::tls::ClientTlsArguments;
use crate::options::units::count;
use crate::output::progress::Progress;

/// Test a runner against the specification of its protocol
///
/// Plays the host in short exchanges with a runner, written in any language, each with a process or a connection of its
/// own, and reports where the runner deviates from the specification.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // Each is a flag of its own.
pub(crate) struct Arguments {
    /// Start the runner with COMMAND, once per case; it uses its standard input and output
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "connect")]
    command: Vec<OsString>,

    /// Connect to the runner at `tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH`, `ws://HOST:PORT` or `wss://HOST`, once per case
    #[arg(long, value_name = "ADDRESS")]
    connect: Option<Address>,

    /// Present the token in FILE to the runner [default: `$EXECBOX_REMOTE_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: ClientTlsArguments,

    /// Play the cases in DIR instead of the built-in ones
    #[arg(long, value_name = "DIR", help_heading = "Cases")]
    cases: Option<PathBuf>,

    /// Play only cases whose names contain TEXT (repeatable)
    #[arg(long, value_name = "TEXT", help_heading = "Cases")]
    only: Vec<String>,

    /// Also play the cases for extensions of Execbox
    #[arg(long, help_heading = "Cases")]
    extensions: bool,

    /// List the cases and exit
    #[arg(long, help_heading = "Cases")]
    list: bool,

    /// Also fail on `should` cases
    #[arg(long, help_heading = "Verdict")]
    strict: bool,

    /// Expect the failures in FILE, one case and its reason per line; fail if one of them passes
    #[arg(long, value_name = "FILE", help_heading = "Verdict")]
    known: Option<PathBuf>,

    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,

    /// Play COUNT cases at once
    #[arg(long, value_name = "COUNT", default_value = "4", allow_negative_numbers = true, value_parser = count::<NonZeroUsize>)]
    jobs: NonZeroUsize,

    /// Multiply all time limits by FACTOR, for a slow runner
    #[arg(long, value_name = "FACTOR", default_value = "1", allow_negative_numbers = true, value_parser = time_factor)]
    time_factor: f64,
}

/// Why no case is played.
#[derive(Debug, thiserror::Error)]
enum ConformError {
    #[error(
        "no runner given: use `execbox conform -- COMMAND` to start one, or `execbox conform --connect ADDRESS` to connect to one"
    )]
    NoRunner,
    #[error("cannot reach the runner `{runner}`: {}", reason(.error))]
    Unreachable { runner: String, error: io::Error },
}

impl CliError for ConformError {}

fn time_factor(text: &str) -> Result<f64, &'static str> {
    let factor = text.parse::<f64>().ok().filter(|factor| (0.001..=1000.0).contains(factor));
    factor.ok_or("expected a number from 0.001 to 1000, such as `3` or `0.5`")
}

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CommandError> {
    let (list, json) = (arguments.list, arguments.json);
    let job = Job::new(arguments)?;
    if list {
        report::print_list(&job.cases, json).map_err(SystemError::Output)?;
        return Ok(Exit::Success);
    }
    let report = job.play()?;
    report.print(json).map_err(SystemError::Output)?;
    Ok(report.exit())
}

struct Job {
    /// The runner under test; `None` if the cases are only listed.
    target: Option<Target>,
    cases: Vec<Case>,
    known: ExpectedFailures,
    jobs: NonZeroUsize,
    time_factor: f64,
    strict: bool,
}

impl Job {
    fn new(arguments: Arguments) -> Result<Self, CommandError> {
        let target = match arguments.connect {
            Some(address) => {
                let token = token_source("--token-file", arguments.token_file.as_deref());
                let options = arguments.tls.options().read(Some(&address), token)?;
                Some(Target::Address(address, Box::new(options)))
            }
            None if !arguments.command.is_empty() => Some(Target::Command(arguments.command)),
            None if arguments.list => None,
            None => return Err(ConformError::NoRunner.into()),
        };
        // A list of known failures may name each case.
        let read = if arguments.known.is_some() { &[][..] } else { &arguments.only };
        let cases = arguments.cases.as_deref().map_or_else(|| cases::builtin(read), cases::of_directory)?;
        let known = arguments
            .known
            .as_deref()
            .map(|file| ExpectedFailures::read(file, &cases))
            .transpose()?
            .unwrap_or_default();
        Ok(Self {
            target,
            cases: cases::select(cases, &arguments.only, arguments.extensions)?,
            known,
            jobs: arguments.jobs,
            time_factor: arguments.time_factor,
            strict: arguments.strict,
        })
    }

    /// Plays up to `jobs` cases at once. The results are in the order of the cases.
    fn play(self) -> Result<Report, CommandError> {
        let target = Arc::new(self.target.ok_or(ConformError::NoRunner)?);
        let (jobs, time_factor) = (Arc::new(Semaphore::new(self.jobs.get())), self.time_factor);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = target.to_string();
        let mut results = runtime.block_on(async {
            let unreachable = |error| ConformError::Unreachable { runner: name.clone(), error };
            drop(target.connect().await.map_err(unreachable)?);
            let mut progress = Progress::new(self.cases.len());
            let mut playing = JoinSet::new();
            for (at, case) in self.cases.into_iter().enumerate() {
                let (target, jobs) = (Arc::clone(&target), Arc::clone(&jobs));
                playing.spawn(async move {
                    let _permit = jobs.acquire().await;
                    let result = play::play(&case, &target, time_factor).await;
                    (at, case, result)
                });
            }
            let mut results = Vec::new();
            while let Some(result) = playing.join_next().await {
                let result = result.map_err(io::Error::from)?;
                progress.show(&result.1.name);
                results.push(result);
            }
            Ok::<_, CommandError>(results)
        })?;
        results.sort_by_key(|(at, ..)| *at);
        let results = results.into_iter().map(|(_, case, result)| Played::new(case, result, &self.known, self.strict));
        Ok(Report::new(name, results.collect()))
    }
}

const EXAMPLES: &str = "\
Examples:
  execbox conform -- node my-runner.js
  execbox conform --connect tcp:localhost:7000 --only logs --only truncation
  execbox conform --list

Exit codes:
  0    the runner conforms
  1    the runner does not conform
  2    bad usage, an invalid case, or the runner cannot be reached
  4    the report could not be written

Environment:
  EXECBOX_REMOTE_TOKEN  the token for the runner; otherwise EXECBOX_TOKEN";
