//! The limits of this machine: of each executor and engine, and of the jail of child processes.

use std::io;

use execbox::jail::{Feature, LayerReport, Mode, Status, features};
use execbox::{
    CheckOutcome, Executor, InlineExecutor, ProcessExecutor, RunnerCommand, SelfTestCheck, SelfTestReport,
    WorkerExecutor,
};
use serde::Serialize;

use super::Mark;
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::options::engine::{Engine, RunnerEngine, own_runner};
use crate::output::report;
use crate::output::style::{self, Colors};
use crate::output::terminal::safe_line;

#[derive(Serialize)]
struct Diagnosis {
    ok: bool,
    engines: Vec<String>,
    kernel: Vec<Feature>,
    executors: Vec<Tested>,
}

#[derive(Serialize)]
struct Tested {
    executor: &'static str,
    engine: String,
    #[serde(flatten)]
    report: SelfTestReport,
    /// Whether the jail lacks a required layer.
    #[serde(skip)]
    is_incomplete: bool,
}

/// An executor to be tested.
type Subject = (&'static str, Engine, Box<dyn Executor>);

/// Tests the local executors with all engines.
pub(super) fn test(mode: Mode, verbose: bool, json: bool) -> Result<Exit, CommandError> {
    let engine = |error: execbox::LoadError| SystemError::Engine(error.to_string());
    let mut executors: Vec<Subject> = vec![
        ("inline", Engine::QuickJs, Box::new(InlineExecutor::new().map_err(engine)?)),
        ("worker", Engine::QuickJs, Box::new(WorkerExecutor::new().map_err(engine)?)),
    ];
    for engine in Engine::built_in() {
        let command = RunnerEngine::new(*engine, None)?.add_to(own_runner()?).jail(mode);
        executors.push(("process", *engine, Box::new(ProcessExecutor::new(command))));
    }
    let diagnosis = diagnose(&executors, mode)?;
    if json {
        let json = serde_json::to_string(&diagnosis).map_err(io::Error::other)?;
        report::print(&json).map_err(SystemError::Output)?;
        return Ok(diagnosis.exit());
    }
    print(&diagnosis, verbose)
}

/// Implements `execbox runner --self-test`.
pub(in crate::commands) fn test_runner(
    command: RunnerCommand,
    engine: Engine,
    mode: Mode,
) -> Result<Exit, CommandError> {
    let executors: [Subject; 1] = [("process", engine, Box::new(ProcessExecutor::new(command)))];
    print(&diagnose(&executors, mode)?, true)
}

fn diagnose(executors: &[Subject], mode: Mode) -> io::Result<Diagnosis> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tested = runtime.block_on(async {
        let mut tested = Vec::new();
        for (executor, engine, tests) in executors {
            let report = tests.self_test().await;
            let is_incomplete = report.jail.as_ref().is_some_and(|jail| jail.check(mode).is_err());
            tested.push(Tested { executor, engine: engine.to_string(), report, is_incomplete });
            tests.close().await;
        }
        tested
    });
    let is_well = |tested: &Tested| tested.report.failures().next().is_none() && !tested.is_incomplete;
    let engines = Engine::built_in().iter().map(ToString::to_string).collect();
    Ok(Diagnosis { ok: tested.iter().all(is_well), engines, kernel: features(), executors: tested })
}

/// Prints the verdict, and below it what failed or is missing; everything if `verbose`.
fn print(diagnosis: &Diagnosis, verbose: bool) -> Result<Exit, CommandError> {
    let mut verdict = diagnosis.verdict();
    if diagnosis.ok && !verbose {
        verdict += &format!(" ({} checks passed; `--verbose` lists them)", diagnosis.passed());
    }
    let mut lines = vec![marked(diagnosis.mark(), &verdict)];
    if verbose {
        lines.push(format!("Engines: {}", diagnosis.engines.join(", ")));
        lines.push("System".to_owned());
        lines.extend(diagnosis.kernel.iter().map(|feature| format!("  {}: {}", feature.name, feature.value)));
    }
    for tested in &diagnosis.executors {
        let mut shown = tested.lines();
        shown.retain(|line| verbose || line.is_problem);
        if !shown.is_empty() {
            lines.push(tested.title());
            lines.extend(shown.iter().map(|line| format!("  {}", marked(line.mark, &line.text))));
        }
    }
    report::print_lines(&lines).map_err(SystemError::Output)?;
    Ok(diagnosis.exit())
}

impl Diagnosis {
    fn mark(&self) -> Mark {
        if self.ok { Mark::Passed } else { Mark::Failed }
    }

    fn exit(&self) -> Exit {
        if self.ok { Exit::Success } else { Exit::ProgramFailed }
    }

    /// The number of checks that passed.
    fn passed(&self) -> usize {
        let checks = self.executors.iter().flat_map(|tested| &tested.report.checks);
        checks.filter(|check| check.outcome == CheckOutcome::Passed).count()
    }

    fn verdict(&self) -> String {
        let failures: usize = self.executors.iter().map(|tested| tested.report.failures().count()).sum();
        let failures = match failures {
            0 => None,
            1 => Some("1 check failed".to_owned()),
            count => Some(format!("{count} checks failed")),
        };
        let is_incomplete = self.executors.iter().any(|tested| tested.is_incomplete);
        let incomplete = is_incomplete.then(|| "the jail lacks required layers".to_owned());
        let problems: Vec<_> = failures.into_iter().chain(incomplete).collect();
        if problems.is_empty() { "all required limits work".to_owned() } else { problems.join("; ") }
    }
}

/// The line about a check or a layer of the jail.
struct Line {
    mark: Mark,
    text: String,
    /// Whether a check failed, or the system lacks the layer.
    is_problem: bool,
}

fn marked(mark: Mark, text: &str) -> String {
    format!("{} {}", Colors::of_stdout().paint(mark.style(), mark.symbol()), safe_line(text))
}

impl Tested {
    fn title(&self) -> String {
        // QuickJS, the engine of all other executors, is not mentioned.
        let is_default = self.engine == Engine::QuickJs.to_string();
        let engine = if is_default { String::new() } else { format!(" ({})", self.engine) };
        Colors::of_stdout().paint(style::TITLE, &format!("Executor: {}{engine}", self.executor))
    }

    fn lines(&self) -> Vec<Line> {
        let jail = self.report.jail.iter().flat_map(|jail| &jail.layers);
        self.report.checks.iter().map(check_line).chain(jail.map(|layer| self.layer_line(layer))).collect()
    }

    fn layer_line(&self, report: &LayerReport) -> Line {
        let text = format!("{}: {report}", report.layer);
        match report.status {
            Status::Enforced => Line { mark: Mark::Passed, text, is_problem: false },
            Status::Unavailable(_) => {
                let mark = if self.is_incomplete { Mark::Failed } else { Mark::Skipped };
                Line { mark, text: format!("{text}; remedy: {}", report.layer.remedy()), is_problem: true }
            }
            _ => Line { mark: Mark::Skipped, text, is_problem: false },
        }
    }
}

fn check_line(SelfTestCheck { check, outcome, .. }: &SelfTestCheck) -> Line {
    let (mark, text) = match outcome {
        CheckOutcome::Passed => (Mark::Passed, check.to_string()),
        CheckOutcome::Failed(reason) => (Mark::Failed, format!("{check}: {reason}")),
        CheckOutcome::Skipped(reason) => (Mark::Skipped, format!("{check}: not tested: {reason}")),
        _ => (Mark::Skipped, format!("{check}: unknown outcome")),
    };
    Line { mark, text, is_problem: mark == Mark::Failed }
}
