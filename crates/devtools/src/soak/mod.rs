//! `devtools soak`: executes good and hostile programs for a long time and fails on growth.
//!
//! - [`work`]: the programs, and the expected ends of each
//! - [`sample`]: memory, descriptors, threads, children and latency between two batches
//! - [`verdict`]: growth over the samples, and the report

mod sample;
mod verdict;
mod work;

use std::io;
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum as _};
use execbox::CancellationToken;
use execbox_measure::processes::children;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use self::sample::Sample;
use self::verdict::{Counts, Report};
use self::work::{Random, Work};
use crate::ToolError;
use crate::binary::{Binary, Engine};
use crate::executors::{Kind, Started, Subject};

/// Execute good and hostile programs for a long time, and fail on growth
///
/// Executes a random mix of programs on each executor: ones that succeed, ones that fail, and ones that attack their limits.
/// Meanwhile, runner processes are killed at random. Between batches it measures this process and its children. It fails if
/// memory, descriptors, threads, children or the time of `1 + 1` grow, or if a program ends in another way than it may.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Execute programs on these, separated by commas [default: all; process with `--engine v8`]
    #[arg(long, value_enum, value_name = "EXECUTOR", value_delimiter = ',')]
    executor: Vec<Kind>,

    /// Execute programs with ENGINE; `v8` runs in child processes only
    #[arg(long, value_enum, value_name = "ENGINE", default_value = "quickjs")]
    engine: Engine,

    /// Execute COUNT programs
    #[arg(long, value_name = "COUNT", default_value = "10000", conflicts_with = "time")]
    executions: NonZeroU64,

    /// Execute programs for TIME instead: `20s`, `8h`
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    time: Option<Duration>,

    /// Execute COUNT programs at once on each executor
    #[arg(long, value_name = "COUNT", default_value = "2")]
    jobs: NonZeroU64,

    /// Select programs and victims by this number; the same number selects the same programs
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,

    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// The number of samples of a soak by count.
const SAMPLES: u64 = 60;

/// The number of programs in a batch of a soak by time.
const BATCH: u64 = 200;

pub(crate) async fn run(arguments: &Arguments, binary: &Binary) -> Result<ExitCode, ToolError> {
    let kinds = if arguments.executor.is_empty() { Kind::value_variants() } else { &arguments.executor };
    let subjects = Subject::all(kinds, &[arguments.engine]);
    if subjects.len() < kinds.len() && !arguments.executor.is_empty() {
        return Err(ToolError::V8NeedsProcess);
    }
    binary.check(arguments.engine)?;
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    let report = soak(arguments, &subjects, binary, &stop).await?;
    println!("{}", if arguments.json { report.to_json().to_string() } else { report.to_text() });
    Ok(if report.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Cancels `stop` at the first Ctrl-C or SIGTERM, so that the soak ends and prints its report. The second ends the process.
fn stop_on_signal(stop: CancellationToken) -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.is_cancelled() {
                std::process::exit(130);
            }
            stop.cancel();
        }
    });
    Ok(())
}

/// Runs batches until the last one, or until `stop`.
async fn soak(
    arguments: &Arguments,
    subjects: &[Subject],
    binary: &Binary,
    stop: &CancellationToken,
) -> Result<Report, ToolError> {
    let jobs = usize::try_from(arguments.jobs.get()).unwrap_or(usize::MAX);
    let start = |subject: &Subject| {
        // The inline executor, in this process, has enough guests by default.
        let max_programs = (subject.kind != Kind::Inline).then_some(jobs);
        subject.start(binary, max_programs).map(Arc::new)
    };
    let executors = subjects.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let mut random = Random(arguments.seed);
    let (started, mut report) = (Instant::now(), Report::default());
    let batch = if arguments.time.is_some() { BATCH } else { arguments.executions.get().div_ceil(SAMPLES) };
    let is_over = |report: &Report| match arguments.time {
        Some(time) => started.elapsed() >= time,
        None => report.executions >= arguments.executions.get(),
    };
    while !is_over(&report) && !stop.is_cancelled() {
        let killer = Killer::start(&executors, random.next());
        let counts = run_batch(&executors, batch, arguments.jobs.get(), &mut random, stop).await;
        report.killed += killer.end().await;
        report.add(counts);
        let sample = Sample::take(&executors, report.executions).await;
        eprintln!("{} executions in {:.0} s · {sample}", report.executions, started.elapsed().as_secs_f64());
        report.samples.push(sample);
    }
    report.seconds = started.elapsed().as_secs_f64();
    for started in &executors {
        started.executor.close().await;
    }
    Ok(report)
}

/// Executes `count` programs, `jobs` at once on each executor.
async fn run_batch(
    executors: &[Arc<Started>],
    count: u64,
    jobs: u64,
    random: &mut Random,
    stop: &CancellationToken,
) -> Counts {
    let mut tasks = JoinSet::new();
    let lanes = jobs * executors.len() as u64;
    for lane in 0..lanes {
        let started = Arc::clone(&executors[usize::try_from(lane).unwrap_or_default() % executors.len()]);
        let (mut random, stop) = (Random(random.next()), stop.clone());
        let count = count / lanes + u64::from(lane < count % lanes);
        tasks.spawn(async move {
            let mut counts = Counts::new();
            for _ in 0..count {
                if stop.is_cancelled() {
                    break;
                }
                let work = Work::choose(&mut random);
                let kind = started.subject.kind;
                let end = work.execute(&*started.executor, kind == Kind::Process).await;
                *counts.entry((kind.name(), work.name)).or_default().entry(end).or_default() += 1;
            }
            counts
        });
    }
    let mut all = Counts::new();
    while let Some(Ok(counts)) = tasks.join_next().await {
        for (key, ends) in counts {
            let sum = all.entry(key).or_default();
            for (end, count) in ends {
                *sum.entry(end).or_default() += count;
            }
        }
    }
    all
}

/// Kills runner processes at random until it is ended.
struct Killer {
    ended: Arc<AtomicBool>,
    killing: tokio::task::JoinHandle<u64>,
}

impl Killer {
    fn start(executors: &[Arc<Started>], seed: u64) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (mut random, over) = (Random(seed), Arc::clone(&ended));
        let spared: Vec<u32> = executors.iter().filter_map(|started| started.listening()).collect();
        let has_victims = executors.iter().any(|started| started.subject.kind == Kind::Process);
        let killing = tokio::spawn(async move {
            let mut killed = 0;
            while has_victims && !over.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(50 + random.next() % 400)).await;
                let victims: Vec<u32> = children().into_iter().filter(|id| !spared.contains(id)).collect();
                let at = usize::try_from(random.next()).unwrap_or_default();
                let Some(victim) = victims.get(at.checked_rem(victims.len()).unwrap_or(0)) else { continue };
                let process = nix::unistd::Pid::from_raw(victim.cast_signed());
                killed += u64::from(nix::sys::signal::kill(process, Signal::SIGKILL).is_ok());
            }
            killed
        });
        Self { ended, killing }
    }

    async fn end(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        self.killing.await.unwrap_or_default()
    }
}

const EXAMPLES: &str = "\
Examples:
  devtools soak --executions 500000
  devtools soak --executor process --time 8h --json
  devtools soak --engine v8 --time 10m

Exit codes:
  0    nothing grew, and every program ended as it may
  1    something grew, or a program ended in another way
  2    bad usage, or no binary
  4    the soak could not run";
