//! `execbox bench`: measures the executors and engines on this machine.
//!
//! - [`rows`]: what is measured; [`programs`]: the programs, their results and tools; [`subject`]: executors and engines
//! - [`measure`]: how often and how; [`memory`]: memory, in a process of its own
//! - [`report`]: the report and its files; [`table`]: as text; [`compare`]: beside an earlier one

mod compare;
mod measure;
mod memory;
mod programs;
mod report;
mod rows;
mod subject;
mod table;

use std::future::Future;
use std::path::PathBuf;

use clap::Args;
use execbox::CancellationToken;
use execbox_core::hint::near;
use execbox_measure::budget::Budget;
use execbox_measure::head::{Head, Profile};
use serde_json::{Value as Json, json};

use self::compare::Comparison;
use self::measure::{Bench, FULL, QUICK};
use self::memory::Held;
use self::report::{Measured, Report, ReportFileError};
use self::rows::{ROWS, Row};
use self::subject::{ExecutorName, Subject};
use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::options::engine::Engine;
use crate::options::units::count;
use crate::output::progress::Progress;
use crate::output::report as output;
use crate::process::interrupt;

/// Measure the executors and engines on this machine
///
/// Measures each executor with each engine that is built in: the time of programs, their number per second, and the memory of
/// runners and guests. Prints the median (p50), the 95th and the 99th percentile of the samples, and their noise: how much the
/// medians of five blocks of samples differ. The results of the programs are checked. Runs for about a minute and a half;
/// other programs on the machine make the figures worse.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub(crate) struct Arguments {
    /// Measure only rows whose name or title contains a WORD; `--list` prints all
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    /// Measure these executors, separated by commas [default: all; process with `--engine v8`]
    #[arg(long, value_enum, value_name = "EXECUTOR", value_delimiter = ',')]
    executor: Vec<ExecutorName>,

    /// Measure ENGINE: `quickjs`, or `v8`, in child processes only [default: all that are built in]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,

    /// Take fewer samples: for a first look, with more noise
    #[arg(long)]
    quick: bool,

    /// Print the names and titles of the rows, and measure nothing
    #[arg(long)]
    list: bool,

    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,

    /// Write the report to FILE, too
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Print the report that was saved in FILE, and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["words", "executor", "engine", "quick", "save"])]
    load: Option<PathBuf>,

    /// Compare with the report that was saved in FILE
    ///
    /// Prints the ratio of each row, and whether it is within the noise.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,

    /// Measure the memory of these in this process, and print the number of bytes
    #[arg(long, value_enum, hide = true, requires_all = ["executor", "engine"])]
    probe_memory: Option<Held>,

    /// How many of them
    #[arg(long, hide = true, default_value = "1", value_parser = count::<usize>)]
    probe_count: usize,
}

/// Why nothing is measured, or a measurement fails.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("unknown row {word:?}; {}", did_you_mean(.word, .known))]
    Unknown { word: String, known: Vec<&'static str> },
    #[error("nothing to measure: the executor {executor} has no row {rows}")]
    NoRows { executor: String, rows: String },
    #[error(transparent)]
    File(#[from] ReportFileError),
    #[error("{row} failed on {subject}: {reason}")]
    Failed { row: &'static str, subject: String, reason: String },
}

impl CliError for BenchError {
    fn exit(&self) -> Exit {
        match self {
            Self::Failed { .. } => Exit::ProgramFailed,
            _ => Exit::BadInput,
        }
    }
}

fn did_you_mean(word: &str, known: &[&'static str]) -> String {
    match near(word, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "`--list` prints all".to_owned(),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    if arguments.list {
        return list(arguments.json);
    }
    if let Some(held) = arguments.probe_memory {
        return probe(held, arguments);
    }
    let read = |path: &PathBuf| Report::read(path).map_err(BenchError::File);
    let earlier = arguments.compare.as_ref().map(read).transpose()?;
    let report = match &arguments.load {
        Some(path) => read(path)?,
        None => measure_report(arguments)?,
    };
    if let (Some(path), Some(earlier)) = (&arguments.compare, &earlier) {
        for line in compare::differences(&path.display().to_string(), &earlier.head, &report.head) {
            output::note(&line);
        }
    }
    print(&report, earlier.as_ref(), arguments.json)?;
    if let Some(path) = &arguments.save {
        report.save(path).map_err(BenchError::File)?;
    }
    Ok(Exit::Success)
}

fn measure_report(arguments: &Arguments) -> Result<Report, CommandError> {
    let rows = select(&arguments.words)?;
    let subjects = Subject::choose(&arguments.executor, arguments.engine)?;
    let work = work(&rows, &subjects)?;
    if let Some(path) = &arguments.save {
        report::check_writable(path).map_err(BenchError::File)?;
    }
    let head = head(arguments);
    let budget = if arguments.quick { QUICK } else { FULL };
    let rows = block_on(measure_rows(work, budget))??;
    Ok(Report { head, rows })
}

fn head(arguments: &Arguments) -> Head {
    let version = |engine: &Engine| Some((engine.to_string(), engine.version()?.to_owned()));
    let engines = Engine::built_in().iter().filter_map(version).collect();
    let head = Head::of_this_machine(engines, arguments.quick);
    if head.execbox.profile == Profile::Debug {
        output::note(&"this is a debug build: its figures say nothing about a release build");
    }
    head
}

/// The rows whose name or title contains one of the words. Without words, all.
fn select(words: &[String]) -> Result<Vec<&'static Row>, BenchError> {
    if let Some(word) = words.iter().find(|word| !ROWS.iter().any(|row| row.contains(word))) {
        let known = ROWS.iter().flat_map(|row| row.id.split('-').chain([row.id]));
        return Err(BenchError::Unknown { word: word.clone(), known: known.collect() });
    }
    let is_selected = |row: &&Row| words.is_empty() || words.iter().any(|word| row.contains(word));
    Ok(ROWS.iter().filter(is_selected).collect())
}

/// The rows to measure for each executor.
type Work = Vec<(Subject, Vec<&'static Row>)>;

fn work(rows: &[&'static Row], subjects: &[Subject]) -> Result<Work, BenchError> {
    let of = |subject: &Subject| rows.iter().copied().filter(|row| row.applies_to(subject.executor)).collect();
    let work: Work = subjects.iter().map(|subject| (*subject, of(subject))).collect();
    if work.iter().all(|(_, rows)| rows.is_empty()) {
        let names: Vec<&str> = rows.iter().map(|row| row.id).collect();
        let executor = subjects.first().map(ToString::to_string).unwrap_or_default();
        return Err(BenchError::NoRows { executor, rows: names.join(", ") });
    }
    Ok(work)
}

async fn measure_rows(work: Work, budget: Budget) -> Result<Vec<Measured>, CommandError> {
    let mut progress = Progress::new(work.iter().map(|(_, rows)| rows.len()).sum());
    let mut measured = Vec::new();
    for (subject, rows) in work {
        let bench = Bench::start(subject, budget)?;
        for row in rows {
            progress.show(&format!("{subject}: {}", row.title));
            let failed = |reason| BenchError::Failed { row: row.id, subject: subject.to_string(), reason };
            let samples = bench.measure(row).await.map_err(failed)?;
            measured.push(Measured::new(row, subject, &samples));
        }
        bench.end().await;
    }
    measured.sort_by_key(|measured| ROWS.iter().position(|row| row.id == measured.row));
    Ok(measured)
}

/// Runs `work` on a task of a new runtime, as in a server, until it ends or is interrupted.
fn block_on<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        interrupt::stop_on_signal(stop.clone())?;
        let mut work = tokio::spawn(work);
        tokio::select! {
            done = &mut work => done.map_err(|error| SystemError::Engine(error.to_string()).into()),
            () = stop.cancelled() => {
                // Ends the task before the message, so that the line of its progress is removed.
                work.abort();
                let _ = work.await;
                Err(SystemError::Interrupted.into())
            }
        }
    })
}

fn probe(held: Held, arguments: &Arguments) -> Result<Exit, CommandError> {
    let subjects = Subject::choose(&arguments.executor, arguments.engine)?;
    let Some(subject) = subjects.first().copied() else { return Ok(Exit::BadInput) };
    let bytes = block_on(memory::probe(held, subject, arguments.probe_count))??;
    output::print(&bytes.to_string()).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

fn list(json: bool) -> Result<Exit, CommandError> {
    let entry = |row: &Row| json!({ "name": row.id, "title": row.title, "unit": row.unit() });
    let text = match json {
        true => ROWS.iter().map(entry).collect::<Json>().to_string(),
        false => ROWS.iter().map(|row| format!("{:<20}{}", row.id, row.title)).collect::<Vec<_>>().join("\n"),
    };
    output::print(&text).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

fn print(report: &Report, earlier: Option<&Report>, json: bool) -> Result<(), CommandError> {
    let text = match json {
        true => to_json(report, earlier).map_err(|error| SystemError::Output(error.into()))?.to_string(),
        false => table::text(report, earlier),
    };
    Ok(output::print(&text).map_err(SystemError::Output)?)
}

/// The report as JSON. With an earlier report, each row that is in both has a field `compared`.
fn to_json(report: &Report, earlier: Option<&Report>) -> serde_json::Result<Json> {
    let mut json = serde_json::to_value(report)?;
    if let (Some(earlier), Some(rows)) = (earlier, json["rows"].as_array_mut()) {
        for (row, measured) in rows.iter_mut().zip(&report.rows) {
            if let Some(compared) = Comparison::find(measured, earlier) {
                row["compared"] = serde_json::to_value(compared)?;
            }
        }
    }
    Ok(json)
}

const EXAMPLES: &str = "\
Examples:
  execbox bench
  execbox bench --quick --executor inline,process
  execbox bench calls json --engine quickjs --json
  execbox bench --save before.json
  execbox bench --compare before.json

Exit codes:
  0    everything was measured
  1    a program failed, or had a wrong result
  2    bad usage, or a file that cannot be read or written
  4    an executor or an engine does not start
  130  interrupted by Ctrl-C";
