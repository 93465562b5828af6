//! `--growth`: what programs cost against the size of something, and whether that grows worse than linearly.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use execbox::{ExecuteRequest, Executor, Limits, Provider, RemoteExecutor, Tool};
use execbox_measure::budget::Budget;
use execbox_measure::head::Head;
use execbox_measure::memory::{self, meeting};
use execbox_measure::programs::{TIMEOUT, check_number, milliseconds, timed, value};
use execbox_measure::typescript;
use execbox_measure::unit::Unit;
use futures_util::future::FutureExt as _;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::BenchError;
use super::memory::Held;
use super::subject::{self, ExecutorName, Subject};
use crate::engine::Engine;
use crate::error::{CommandError, SystemError};
use crate::listening::ListeningRunner;
use crate::progress::Progress;

/// What a cost is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    Tools,
    Source,
    LogLines,
    PendingCalls,
    WaitingGuests,
    GuestMemory,
    Connections,
}

impl Curve {
    pub(super) const ALL: &[Self] = &[
        Self::Tools,
        Self::Source,
        Self::LogLines,
        Self::PendingCalls,
        Self::WaitingGuests,
        Self::GuestMemory,
        Self::Connections,
    ];

    /// What arguments name it by. Stable.
    pub(super) fn id(self) -> &'static str {
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

    pub(super) fn title(self) -> &'static str {
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

    pub(super) fn unit(self) -> Unit {
        if self == Self::GuestMemory { Unit::Bytes } else { Unit::Milliseconds }
    }

    /// The sizes that are measured, in order; for sources, groups of declarations with some 600 bytes each. A guest takes a
    /// thread of a worker, or a process.
    fn sizes(self, executor: Option<ExecutorName>) -> &'static [usize] {
        match (self, executor) {
            (Self::Tools, _) => &[1, 10, 100, 1_000, 5_000],
            (Self::Source, _) => &[2, 17, 170, 1_700],
            (Self::LogLines, _) => &[100, 1_000, 10_000, 100_000],
            (Self::PendingCalls, _) => &[10, 100, 1_000, 10_000],
            (Self::WaitingGuests | Self::GuestMemory, Some(ExecutorName::Worker)) => &[1, 4, 16, 64],
            (Self::WaitingGuests | Self::GuestMemory, Some(ExecutorName::Process)) => &[1, 4, 16],
            (Self::WaitingGuests | Self::GuestMemory, _) => &[1, 10, 100, 1_000, 10_000],
            (Self::Connections, _) => &[1, 4, 16, 64, 256],
        }
    }
}

/// What is measured: an executor, or a runner that listens.
#[derive(Clone, Copy)]
enum Target {
    Subject(Subject),
    Remote,
}

impl Target {
    fn executor(self) -> String {
        match self {
            Self::Subject(subject) => subject.executor.to_string(),
            Self::Remote => "remote".to_owned(),
        }
    }

    fn engine(self) -> Engine {
        match self {
            Self::Subject(subject) => subject.engine,
            Self::Remote => Engine::QuickJs,
        }
    }

    fn text(self) -> String {
        subject::text(&self.executor(), &self.engine().to_string())
    }

    fn sizes(self, curve: Curve) -> &'static [usize] {
        match self {
            Self::Subject(subject) => curve.sizes(Some(subject.executor)),
            Self::Remote => curve.sizes(None),
        }
    }
}

/// What `--growth --json` prints.
#[derive(Serialize)]
pub(super) struct Growth {
    #[serde(flatten)]
    head: Head,
    curves: Vec<Measured>,
}

/// A curve on one executor.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    curve: &'static str,
    executor: String,
    engine: String,
    unit: Unit,
    points: Vec<Point>,
    worse_than_linear: bool,
    /// Why larger sizes were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    #[serde(skip)]
    title: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Point {
    size: usize,
    /// The least of the samples, which is least affected by the load of the machine.
    cost: f64,
    /// The slope since the previous point on logarithmic scales: 1 is linear, 2 quadratic.
    #[serde(skip_serializing_if = "Option::is_none")]
    exponent: Option<f64>,
}

/// Costs that grow with a larger exponent are reported as worse than linear.
const MAX_EXPONENT: f64 = 1.15;

/// How often each point is measured.
const FULL: Budget = Budget { time: Duration::from_millis(300), least: 3, most: 200 };
const QUICK: Budget = Budget { time: Duration::from_millis(20), least: 2, most: 20 };

/// How many sizes `--quick` measures.
const QUICK_SIZES: usize = 3;

/// Measures the curves on each executor, and that of connections on a listening runner.
pub(super) async fn measure(
    curves: Vec<&'static Curve>,
    subjects: Vec<Subject>,
    head: Head,
) -> Result<Growth, CommandError> {
    let work: Vec<(Curve, Target)> = curves.into_iter().flat_map(|curve| targets(*curve, &subjects)).collect();
    let count = |(curve, target): &(Curve, Target)| sizes(*target, *curve, head.quick).len();
    let mut progress = Progress::new(work.iter().map(count).sum());
    let mut measured = Vec::new();
    for (curve, target) in work {
        measured.push(measure_curve(curve, target, head.quick, &mut progress).await?);
    }
    Ok(Growth { head, curves: measured })
}

fn targets(curve: Curve, subjects: &[Subject]) -> Vec<(Curve, Target)> {
    match curve {
        Curve::Connections => vec![(curve, Target::Remote)],
        _ => subjects.iter().map(|subject| (curve, Target::Subject(*subject))).collect(),
    }
}

fn sizes(target: Target, curve: Curve, quick: bool) -> &'static [usize] {
    let sizes = target.sizes(curve);
    if quick { &sizes[..sizes.len().min(QUICK_SIZES)] } else { sizes }
}

/// A failure at the first size is an error; at a later one it is the limit of the curve.
async fn measure_curve(
    curve: Curve,
    target: Target,
    quick: bool,
    progress: &mut Progress,
) -> Result<Measured, CommandError> {
    let (mut costs, mut limit) = (Vec::new(), None);
    for size in sizes(target, curve, quick) {
        progress.show(&format!("{}: {}, {size}", target.text(), curve.title()));
        if limit.is_some() {
            continue;
        }
        let budget = if quick { QUICK } else { FULL };
        match confirm_point(curve, target, *size, budget, costs.last()).await? {
            Ok(cost) => costs.push(cost),
            Err(reason) if costs.is_empty() => {
                return Err(BenchError::Failed { row: curve.id(), subject: target.text(), reason }.into());
            }
            Err(reason) => limit = Some(format!("{size}: {reason}")),
        }
    }
    let points = points(&costs);
    let worse_than_linear = points.iter().any(Point::is_worse_than_linear);
    let (executor, engine) = (target.executor(), target.engine().to_string());
    let (title, unit) = (curve.title(), curve.unit());
    Ok(Measured { curve: curve.id(), executor, engine, unit, points, worse_than_linear, limit, title })
}

/// How often a cost that grows worse than linearly is measured again: another program may have slowed it down.
const CONFIRMATIONS: usize = 3;

/// Measures a point, and again while it grows worse than linearly since the point `before`. Returns the least cost.
async fn confirm_point(
    curve: Curve,
    target: Target,
    size: usize,
    budget: Budget,
    before: Option<&(usize, f64)>,
) -> Result<Result<(usize, f64), String>, CommandError> {
    let mut least: Option<(usize, f64)> = None;
    for _ in 0..CONFIRMATIONS {
        let (size, cost) = match measure_point(curve, target, size, budget).await? {
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

/// The size and its cost; or the reason why it cannot be measured.
async fn measure_point(
    curve: Curve,
    target: Target,
    size: usize,
    budget: Budget,
) -> Result<Result<(usize, f64), String>, CommandError> {
    let guests = if matches!(curve, Curve::WaitingGuests | Curve::GuestMemory) { Some(size) } else { None };
    let (executor, _runner): (Arc<dyn Executor>, _) = match target {
        Target::Subject(subject) => (subject.start(guests)?, None),
        Target::Remote => {
            let (runner, address) = ListeningRunner::start()?;
            (Arc::new(RemoteExecutor::with_address(address, None)), Some(runner))
        }
    };
    let samples = match (curve, target) {
        (Curve::Tools | Curve::Source | Curve::LogLines | Curve::PendingCalls, _) => {
            let program = Program::new(curve, size)?;
            let size = program.size;
            let samples = budget.sample(|| program.execute(&*executor).boxed()).await;
            samples.map(|samples| (size, samples.least()))
        }
        (Curve::GuestMemory, Target::Subject(subject)) => {
            let once = || Held::Waiting.measure(subject, size).boxed();
            // Each sample starts a process.
            budget.sample(once).await.map(|samples| (size, samples.median()))
        }
        (Curve::WaitingGuests | Curve::GuestMemory | Curve::Connections, _) => {
            let samples = budget.sample(|| meet(&executor, size).boxed()).await;
            samples.map(|samples| (size, samples.least()))
        }
    };
    executor.dispose().await;
    Ok(samples)
}

async fn meet(executor: &Arc<dyn Executor>, count: usize) -> Result<f64, String> {
    let started = Instant::now();
    memory::meet(executor, count, || {}).await?;
    Ok(milliseconds(started.elapsed()))
}

/// A program of a size.
struct Program {
    request: ExecuteRequest,
    size: usize,
    result: f64,
    log_lines: usize,
}

impl Program {
    #[allow(clippy::cast_precision_loss)] // sizes are far below 2^52
    fn new(curve: Curve, size: usize) -> Result<Self, CommandError> {
        let limits = Limits { timeout: TIMEOUT, ..Limits::default() };
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
                let limits = Limits { max_log_lines: size, max_log_chars: 64 << 20, ..limits };
                Self { log_lines: size, ..new(code, 1.0, limits) }
            }
            Curve::PendingCalls => {
                let code = format!("(await Promise.all(Array.from({{ length: {size} }}, () => tools.meet()))).length");
                let program = new(code, size as f64, Limits { max_calls_in_flight: size, ..limits });
                Self { request: program.request.provider(meeting(size, || {})), ..program }
            }
            _ => {
                let program = new("1+1".to_owned(), 2.0, limits);
                Self { request: program.request.providers(catalogue(size)?), ..program }
            }
        })
    }

    /// The time of an execution, in milliseconds, or the reason of its failure.
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
fn catalogue(count: usize) -> Result<Vec<Provider>, CommandError> {
    let numbers: Vec<usize> = (0..count).collect();
    let servers = numbers.chunks(100).enumerate().map(|(server, numbers)| {
        let provider = Provider::builder(format!("server_{server}")).tools(numbers.iter().map(|number| tool(*number)));
        provider.build().map_err(|error| SystemError::Engine(error.to_string()).into())
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
pub(super) fn text(growth: &Growth) -> String {
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
    let subject = subject::text(&curve.executor, &curve.engine);
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
