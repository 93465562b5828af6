//! `execbox soak`: executes good and hostile programs for a long time and fails on growth.
//!
//! - [`work`]: the programs, and how each may end
//! - [`executors`]: the executors, and the runner that the remote one uses
//! - [`sample`]: memory, descriptors, threads, children and latency between two batches
//! - [`verdict`]: growth over the samples, and the report

mod executors;
mod sample;
mod verdict;
mod work;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use execbox::CancellationToken;
use execbox_measure::processes::children;
use nix::sys::signal::Signal;
use tokio::task::JoinSet;

use self::executors::{Kind, Named};
use self::sample::Sample;
use self::verdict::Report;
use self::work::{End, Random, Work};
use crate::engine::{Engine, RunnerEngine};
use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::{interrupt, report};

/// Execute good and hostile programs for a long time, and fail on growth
///
/// Executes a random mix of programs on each executor: ones that succeed, ones that fail, and ones that attack their limits.
/// Meanwhile, runner processes are killed at random. Between batches it measures this process and its children. It fails if
/// memory, descriptors, threads, children or the time of `1 + 1` grow, or if a program ends in another way than it may.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Execute programs there [default: all; process with `--engine v8`]
    #[arg(long, value_enum, value_name = "EXECUTOR")]
    executor: Option<Selection>,

    /// Execute programs with ENGINE: `quickjs`, or `v8`, in child processes only
    #[arg(long, value_name = "ENGINE", default_value_t = Engine::QuickJs)]
    engine: Engine,

    /// Execute COUNT programs
    #[arg(long, value_name = "COUNT", default_value = "10000", conflicts_with = "time")]
    executions: NonZeroU64,

    /// Execute programs for TIME instead: `20s`, `8h`
    #[arg(long, value_name = "TIME")]
    time: Option<crate::units::Time>,

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

/// A value of `--executor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Selection {
    All,
    Inline,
    Worker,
    Process,
    Remote,
}

impl Selection {
    fn kinds(self) -> Vec<Kind> {
        match self {
            Self::All => vec![Kind::Inline, Kind::Worker, Kind::Process, Kind::Remote],
            Self::Inline => vec![Kind::Inline],
            Self::Worker => vec![Kind::Worker],
            Self::Process => vec![Kind::Process],
            Self::Remote => vec![Kind::Remote],
        }
    }
}

/// The engine was given for other executors, too.
#[derive(Debug, thiserror::Error)]
#[error("--engine {0} needs --executor process: a program can end the process that it runs in")]
struct SoakNeedsProcess(Engine);

impl CliError for SoakNeedsProcess {}

impl Arguments {
    fn kinds(&self) -> Result<Vec<Kind>, CommandError> {
        match (self.engine, self.executor) {
            (Engine::QuickJs, selection) => Ok(selection.unwrap_or(Selection::All).kinds()),
            (Engine::V8, None | Some(Selection::Process)) => Ok(vec![Kind::Process]),
            (Engine::V8, Some(_)) => Err(SoakNeedsProcess(self.engine).into()),
        }
    }
}

/// How many samples a soak by count has.
const SAMPLES: u64 = 60;

/// How many programs a batch of a soak by time has.
const BATCH: u64 = 200;

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let json = arguments.json;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(async {
        let stop = CancellationToken::new();
        interrupt::stop_on_signal(stop.clone())?;
        soak(arguments, &stop).await
    })?;
    report.print(json).map_err(SystemError::Output)?;
    Ok(report.exit())
}

/// Runs batches until the last one, or until `stop`.
async fn soak(arguments: &Arguments, stop: &CancellationToken) -> Result<Report, CommandError> {
    let engine = RunnerEngine::new(arguments.engine, None)?;
    let executors: Vec<Arc<Named>> = executors::start(&arguments.kinds()?, arguments.jobs.get(), engine)?;
    let mut random = Random(arguments.seed);
    let (started, mut report) = (Instant::now(), Report::default());
    let batch = if arguments.time.is_some() { BATCH } else { arguments.executions.get().div_ceil(SAMPLES) };
    let is_over = |report: &Report| match arguments.time {
        Some(time) => started.elapsed() >= time.0,
        None => report.executions >= arguments.executions.get(),
    };
    while !is_over(&report) && !stop.is_cancelled() {
        let killer = Killer::start(&executors, random.next());
        let counts = run_batch(&executors, batch, arguments.jobs.get(), &mut random, stop).await;
        report.killed += killer.end().await;
        report.add(counts);
        let sample = Sample::take(&executors, report.executions).await;
        report::note(&format_args!(
            "{} executions in {:.0} s · {sample}",
            report.executions,
            started.elapsed().as_secs_f64()
        ));
        report.samples.push(sample);
    }
    report.seconds = started.elapsed().as_secs_f64();
    for named in &executors {
        named.executor.dispose().await;
    }
    Ok(report)
}

/// How many executions of each program ended in each way, on each executor.
type Counts = BTreeMap<(&'static str, &'static str), BTreeMap<End, u64>>;

/// Executes `count` programs, `jobs` at once on each executor.
async fn run_batch(
    executors: &[Arc<Named>],
    count: u64,
    jobs: u64,
    random: &mut Random,
    stop: &CancellationToken,
) -> Counts {
    let mut tasks = JoinSet::new();
    let lanes = jobs * executors.len() as u64;
    for lane in 0..lanes {
        let named = Arc::clone(&executors[usize::try_from(lane).unwrap_or_default() % executors.len()]);
        let (mut random, stop) = (Random(random.next()), stop.clone());
        let count = count / lanes + u64::from(lane < count % lanes);
        tasks.spawn(async move {
            let mut counts = Counts::new();
            for _ in 0..count {
                if stop.is_cancelled() {
                    break;
                }
                let work = Work::choose(&mut random);
                let end = work.execute(&*named.executor, named.kind == Kind::Process).await;
                *counts.entry((named.kind.name(), work.name)).or_default().entry(end).or_default() += 1;
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
    fn start(executors: &[Arc<Named>], seed: u64) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (mut random, over) = (Random(seed), Arc::clone(&ended));
        let spared: Vec<u32> = executors.iter().filter_map(|named| named.listening()).collect();
        let has_victims = executors.iter().any(|named| named.kind == Kind::Process);
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
  execbox soak --executions 500000
  execbox soak --executor process --time 8h --json
  execbox soak --engine v8 --time 10m

Exit codes:
  0    nothing grew, and every program ended as it may
  1    something grew, or a program ended in another way
  4    the soak could not run";
