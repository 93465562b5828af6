//! `devtools growth`: measures the costs of programs against a size, and reports costs that grow worse than linearly.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use execbox::{ExecuteRequest, Executor, Limits, Provider, Tool};
use execbox_measure::budget::Budget;
use execbox_measure::head::Head;
use execbox_measure::memory::{self, meeting};
use execbox_measure::programs::{TIMEOUT, check_number, milliseconds, timed, value};
use execbox_measure::typescript;
use execbox_measure::unit::Unit;
use futures_util::future::FutureExt as _;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::ToolError;
use crate::binary::{Binary, Engine};
use crate::executors::{Kind, Subject};

/// Measure how the costs of programs grow, and report what grows worse than linearly
///
/// Prints the least time of the samples, or the median of the memory, and the exponent between points: the slope on logarithmic
/// scales. 1 is linear. A point that grows worse is measured three times.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Measure these [default: all]
    #[arg(value_enum, value_name = "CURVE")]
    curves: Vec<Curve>,

    /// Measure these executors, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "EXECUTOR", value_delimiter = ',')]
    executor: Vec<Kind>,

    /// Measure ENGINE; `v8` runs in child processes only [default: all that the binary has]
    #[arg(long, value_enum, value_name = "ENGINE")]
    engine: Option<Engine>,

    /// Measure fewer sizes, and take fewer samples
    #[arg(long)]
    quick: bool,

    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// What a cost is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Curve {
    /// The time of 1+1 by tools granted
    Tools,
    /// The time of a program by bytes of TypeScript
    Source,
    /// The time of a program by log lines
    LogLines,
    /// The time of a program by calls pending at once
    PendingCalls,
    /// The time of programs by guests waiting at once
    WaitingGuests,
    /// The memory by guests waiting at once
    GuestMemory,
    /// The time of programs by connections to a runner
    Connections,
}

impl Curve {
    /// The stable name in arguments and reports.
    fn id(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Source => "source",
            Self::LogLines => "log-lines",
            Self::PendingCalls => "pending-calls",
            Self::WaitingGuests => "waiting-guests",
            Self::GuestMemory => "guest-memory",
            Self::Connections => "connections",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Tools => "time of 1+1 by tools granted",
            Self::Source => "time of a program by bytes of TypeScript",
            Self::LogLines => "time of a program by log lines",
            Self::PendingCalls => "time of a program by calls pending at once",
            Self::WaitingGuests => "time of programs by guests waiting at once",
            Self::GuestMemory => "memory by guests waiting at once",
            Self::Connections => "time of programs by connections to a runner",
        }
    }

    fn unit(self) -> Unit {
        if self == Self::GuestMemory { Unit::Bytes } else { Unit::Milliseconds }
    }

    /// The executors on which the curve is measured.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Connections => &[Kind::Remote],
            _ => &[Kind::Inline, Kind::Worker, Kind::Process],
        }
    }

    /// The sizes that are measured, in order. For sources, a size is a number of groups of declarations with some 600 bytes
    /// each. Each guest takes a thread of a worker, or a process.
    fn sizes(self, kind: Kind) -> &'static [usize] {
        match (self, kind) {
            (Self::Tools, _) => &[1, 10, 100, 1_000, 5_000],
            (Self::Source, _) => &[2, 17, 170, 1_700],
            (Self::LogLines, _) => &[100, 1_000, 10_000, 100_000],
            (Self::PendingCalls, _) => &[10, 100, 1_000, 10_000],
            (Self::WaitingGuests | Self::GuestMemory, Kind::Worker) => &[1, 4, 16, 64],
            (Self::WaitingGuests | Self::GuestMemory, Kind::Process) => &[1, 4, 16],
            (Self::WaitingGuests | Self::GuestMemory, _) => &[1, 10, 100, 1_000, 10_000],
            (Self::Connections, _) => &[1, 4, 16, 64, 256],
        }
    }
}

/// The report that `--json` prints.
#[derive(Serialize)]
struct Growth {
    #[serde(flatten)]
    head: Head,
    curves: Vec<Measured>,
}

/// A curve on one executor.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    curve: &'static str,
    executor: &'static str,
    engine: &'static str,
    unit: Unit,
    points: Vec<Point>,
    worse_than_linear: bool,
    /// The reason why larger sizes were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    #[serde(skip)]
    title: &'static str,
    #[serde(skip)]
    subject: Subject,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Point {
    size: usize,
    /// The least of the samples, on which the load of the machine has the least effect.
    cost: f64,
    /// The slope since the previous point on logarithmic scales: 1 is linear, 2 quadratic.
    #[serde(skip_serializing_if = "Option::is_none")]
    exponent: Option<f64>,
}

/// Costs that grow with a larger exponent are reported as worse than linear.
const MAX_EXPONENT: f64 = 1.15;

/// The number of samples of each point, and the time for them, without `--quick`.
const FULL: Budget = Budget { time: Duration::from_millis(300), least: 3, most: 200 };
const QUICK: Budget = Budget { time: Duration::from_millis(20), least: 2, most: 20 };

/// The number of sizes that `--quick` measures.
const QUICK_SIZES: usize = 3;

pub(crate) async fn run(arguments: &Arguments, binary: &Binary) -> Result<ExitCode, ToolError> {
    let mut head = binary.head()?;
    head.quick = arguments.quick;
    let mut curves = Vec::new();
    for (curve, subject) in work(arguments, &head, binary)? {
        eprintln!("{subject}: {}", curve.title());
        curves.push(measure_curve(curve, subject, arguments.quick, binary).await?);
    }
    let growth = Growth { head, curves };
    println!(
        "{}",
        if arguments.json { serde_json::to_string(&growth).map_err(io::Error::other)? } else { text(&growth) }
    );
    Ok(ExitCode::SUCCESS)
}

/// The chosen curves, each with the chosen executors and engines on which it is measured.
fn work(arguments: &Arguments, head: &Head, binary: &Binary) -> Result<Vec<(Curve, Subject)>, ToolError> {
    let has = |engine: &Engine| head.execbox.engines.contains_key(engine.name());
    let engines: Vec<Engine> = match arguments.engine {
        Some(engine) => {
            binary.check(engine)?;
            vec![engine]
        }
        None => Engine::value_variants().iter().copied().filter(has).collect(),
    };
    let curves = if arguments.curves.is_empty() { Curve::value_variants() } else { &arguments.curves };
    let is_chosen = |kind: &Kind| arguments.executor.is_empty() || arguments.executor.contains(kind);
    let subjects = |curve: &Curve| {
        let kinds: Vec<Kind> = curve.kinds().iter().copied().filter(is_chosen).collect();
        Subject::all(&kinds, &engines)
    };
    let pairs = |curve: &Curve| subjects(curve).into_iter().map(|subject| (*curve, subject)).collect::<Vec<_>>();
    let work: Vec<_> = curves.iter().flat_map(pairs).collect();
    if work.is_empty() { Err(ToolError::NothingChosen) } else { Ok(work) }
}

/// Measures a curve. A failure at the first size is an error; at a later one, it is the limit of the curve.
async fn measure_curve(curve: Curve, subject: Subject, quick: bool, binary: &Binary) -> Result<Measured, ToolError> {
    let (mut costs, mut limit) = (Vec::new(), None);
    let sizes = curve.sizes(subject.kind);
    for size in if quick { &sizes[..QUICK_SIZES] } else { sizes } {
        let budget = if quick { QUICK } else { FULL };
        match confirm_point(curve, subject, *size, budget, costs.last(), binary).await? {
            Ok(cost) => costs.push(cost),
            Err(reason) if costs.is_empty() => {
                return Err(ToolError::Failed { what: curve.id(), subject: subject.to_string(), reason });
            }
            Err(reason) => {
                limit = Some(format!("{size}: {reason}"));
                break;
            }
        }
    }
    let points = points(&costs);
    let worse_than_linear = points.iter().any(Point::is_worse_than_linear);
    let (executor, engine) = (subject.kind.name(), subject.engine.name());
    let (title, unit) = (curve.title(), curve.unit());
    Ok(Measured { curve: curve.id(), executor, engine, unit, points, worse_than_linear, limit, title, subject })
}

/// The number of measurements of a cost that grows worse than linearly: another program may have slowed down the first.
const CONFIRMATIONS: usize = 3;

/// Measures a point, and again while it grows worse than linearly since the point `before`. Returns the least cost.
async fn confirm_point(
    curve: Curve,
    subject: Subject,
    size: usize,
    budget: Budget,
    before: Option<&(usize, f64)>,
    binary: &Binary,
) -> Result<Result<(usize, f64), String>, ToolError> {
    let mut least: Option<(usize, f64)> = None;
    for _ in 0..CONFIRMATIONS {
        let (size, cost) = match measure_point(curve, subject, size, budget, binary).await? {
            Ok(point) => point,
            Err(reason) => return Ok(Err(reason)),
        };
        let now = (size, least.map_or(cost, |(_, least)| least.min(cost)));
        least = Some(now);
        if !before.is_some_and(|before| points(&[*before, now]).iter().any(Point::is_worse_than_linear)) {
            break;
        }
    }
    Ok(least.ok_or_else(|| "no samples".to_owned()))
}

/// The points of costs by size, with the slopes between them.
fn points(costs: &[(usize, f64)]) -> Vec<Point> {
    let before = std::iter::once(None).chain(costs.iter().map(Some));
    let point = |((size, cost), before): (&(usize, f64), Option<&(usize, f64)>)| {
        #[allow(clippy::cast_precision_loss)] // far below 2^52
        let slope = |before: &(usize, f64)| (cost / before.1).ln() / (*size as f64 / before.0 as f64).ln();
        let exponent = before.filter(|before| before.1 > 0.0 && *cost > 0.0).map(slope);
        Point { size: *size, cost: *cost, exponent }
    };
    costs.iter().zip(before).map(point).collect()
}

impl Point {
    fn is_worse_than_linear(&self) -> bool {
        self.exponent.is_some_and(|exponent| exponent > MAX_EXPONENT)
    }
}

/// Measures one point. Returns the size and its cost, or the reason why it cannot be measured.
async fn measure_point(
    curve: Curve,
    subject: Subject,
    size: usize,
    budget: Budget,
    binary: &Binary,
) -> Result<Result<(usize, f64), String>, ToolError> {
    let guests = matches!(curve, Curve::WaitingGuests | Curve::GuestMemory).then_some(size);
    let started = subject.start(binary, guests)?;
    let executor = &started.executor;
    let samples = match curve {
        Curve::Tools | Curve::Source | Curve::LogLines | Curve::PendingCalls => {
            let program = Program::new(curve, size)?;
            let size = program.size;
            let samples = budget.sample(|| program.execute(&**executor).boxed()).await;
            samples.map(|samples| (size, samples.least()))
        }
        Curve::GuestMemory => {
            let (kind, engine) = (subject.kind.name(), subject.engine.name());
            let once = || memory::probe(binary.path(), "waiting", size, kind, engine).boxed();
            // Each sample starts a process.
            budget.sample(once).await.map(|samples| (size, samples.median()))
        }
        Curve::WaitingGuests | Curve::Connections => {
            let samples = budget.sample(|| meet(executor, size).boxed()).await;
            samples.map(|samples| (size, samples.least()))
        }
    };
    executor.close().await;
    Ok(samples)
}

async fn meet(executor: &Arc<dyn Executor>, count: usize) -> Result<f64, String> {
    let started = Instant::now();
    memory::meet(executor, count, || {}).await?;
    Ok(milliseconds(started.elapsed()))
}

/// A program whose cost depends on a size.
struct Program {
    request: ExecuteRequest,
    size: usize,
    result: f64,
    log_lines: usize,
}

impl Program {
    #[allow(clippy::cast_precision_loss)] // sizes are far below 2^52
    fn new(curve: Curve, size: usize) -> Result<Self, ToolError> {
        let limits = Limits::default().timeout(TIMEOUT);
        let new = |code: String, result, limits| Self {
            request: ExecuteRequest::new(code).limits(limits),
            size,
            result,
            log_lines: 0,
        };
        Ok(match curve {
            Curve::Source => {
                let source = typescript::script(size);
                Self { size: source.len(), ..new(source, 2.0 * size as f64, limits) }
            }
            Curve::LogLines => {
                let code = format!("for (let i = 0; i < {size}; i++) console.log('line ' + i); 1");
                let limits = limits.max_log_lines(size).max_log_chars(64 << 20);
                Self { log_lines: size, ..new(code, 1.0, limits) }
            }
            Curve::PendingCalls => {
                let code = format!("(await Promise.all(Array.from({{ length: {size} }}, () => tools.meet()))).length");
                let program = new(code, size as f64, limits.max_calls_in_flight(size));
                Self { request: program.request.provider(meeting(size, || {})), ..program }
            }
            _ => {
                let program = new("1+1".to_owned(), 2.0, limits);
                Self { request: program.request.providers(catalog(size)?), ..program }
            }
        })
    }

    /// Executes the program. Returns the time in milliseconds, or the reason of the failure.
    async fn execute(&self, executor: &dyn Executor) -> Result<f64, String> {
        let (elapsed, result) = timed(executor, self.request.clone()).await;
        let lines = result.logs.len();
        check_number(value(result)?.as_ref(), self.result)?;
        if lines == self.log_lines {
            Ok(milliseconds(elapsed))
        } else {
            Err(format!("expected {} log lines, got {lines}", self.log_lines))
        }
    }
}

/// Providers like those of MCP servers, with up to a hundred tools each.
fn catalog(count: usize) -> Result<Vec<Provider>, ToolError> {
    let numbers: Vec<usize> = (0..count).collect();
    let servers = numbers.chunks(100).enumerate().map(|(server, numbers)| {
        let provider = Provider::builder(format!("server_{server}")).tools(numbers.iter().map(|number| tool(*number)));
        provider.build().map_err(|error| ToolError::Start(error.to_string()))
    });
    servers.collect()
}

fn tool(number: usize) -> Tool {
    let name = format!("{}_invoice_{number}", ["list", "create", "update", "get"][number % 4]);
    let description = "Finds an invoice by its number, or by the customer that it was sent to. Returns at most 50, the \
                       newest first; `after` continues.";
    let tool = Tool::new(name, async |_: Json, _| Ok(json!({ "ok": true })));
    tool.description(description).input_schema(json!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "description": "The number of the invoice" },
            "customer": { "type": "string", "description": "The name of the customer, or a part of it" },
            "state": { "enum": ["open", "paid", "overdue"] },
            "after": { "type": "integer", "minimum": 0 },
        },
    }))
}

/// A table with a line for each point.
fn text(growth: &Growth) -> String {
    let mut text = format!("{}\n\n", growth.head);
    let _ = writeln!(text, "{:<46}{:<14}{:>10}{:>12}{:>10}", "curve", "executor", "size", "cost", "exponent");
    let mut title = "";
    for curve in &growth.curves {
        let shown = if curve.title == title { "" } else { curve.title };
        title = curve.title;
        text += &curve_text(curve, shown);
    }
    let worse = growth.curves.iter().filter(|curve| curve.worse_than_linear).count();
    text += &match worse {
        0 => format!("\nNo cost grows worse than linearly (exponent {MAX_EXPONENT})."),
        1 => format!("\n1 cost grows worse than linearly (exponent {MAX_EXPONENT})."),
        worse => format!("\n{worse} costs grow worse than linearly (exponent {MAX_EXPONENT})."),
    };
    text
}

fn curve_text(curve: &Measured, title: &str) -> String {
    let mut text = String::new();
    let subject = curve.subject.to_string();
    for (at, point) in curve.points.iter().enumerate() {
        let (title, subject) = if at == 0 { (title, subject.as_str()) } else { ("", "") };
        let exponent = point.exponent.map(|exponent| format!("{exponent:.2}")).unwrap_or_default();
        let verdict = if point.is_worse_than_linear() { "  worse than linear" } else { "" };
        let cost = curve.unit.text(point.cost);
        let line = format!("{title:<46}{subject:<14}{:>10}{cost:>12}{exponent:>10}{verdict}", point.size);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if let Some(limit) = &curve.limit {
        let _ = writeln!(text, "{:<46}{:<14}{limit}", "", "");
    }
    text
}

const EXAMPLES: &str = "\
Examples:
  devtools growth
  devtools growth tools log-lines --executor process

Exit codes:
  0    everything was measured
  1    a program failed, or had a wrong result
  2    bad usage, or no binary
  4    an executor or an engine does not start";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_slopes_on_logarithmic_scales() {
        let exponents = |costs: &[(usize, f64)]| -> Vec<String> {
            points(costs).iter().filter_map(|point| Some(format!("{:.2}", point.exponent?))).collect()
        };
        assert_eq!(exponents(&[(1, 5.0), (10, 5.0), (100, 50.0), (200, 200.0)]), ["0.00", "1.00", "2.00"]);
        assert_eq!(exponents(&[(1, 0.0), (10, 5.0)]), [""; 0]);
        let quadratic = points(&[(10, 1.0), (100, 100.0)]);
        assert!(quadratic[1].is_worse_than_linear() && !quadratic[0].is_worse_than_linear());
        assert!(!points(&[(10, 1.0), (100, 12.0)])[1].is_worse_than_linear());
    }
}
