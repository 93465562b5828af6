//! `execbox doctor`: tests that limits work on this machine, and prints what the system can lock.

use std::io;

use clap::Args;
use execbox::jail::{Feature, LayerReport, Mode, Status, features};
use execbox::{
    CheckOutcome, Executor, InlineExecutor, ProcessExecutor, RunnerCommand, SelfTestCheck, SelfTestReport,
    WorkerExecutor,
};
use serde::Serialize;

use crate::engine::{Engine, RunnerEngine, own_runner};
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::report;

/// Test that limits work on this machine
///
/// Runs programs that exceed their limits on the inline, worker and process executors, with each engine that is built in,
/// tries what the jail of a child process refuses, and prints the features of the kernel and remedies for what is missing.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,

    /// Fail if a layer of the jail is missing (`required`), or only report it (`best-effort`)
    #[arg(long, value_name = "MODE", default_value_t = Mode::default())]
    jail: Mode,
}

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
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let engine = |error: execbox::LoadError| SystemError::Engine(error.to_string());
    let mut executors: Vec<Subject> = vec![
        ("inline", Engine::QuickJs, Box::new(InlineExecutor::new().map_err(engine)?)),
        ("worker", Engine::QuickJs, Box::new(WorkerExecutor::new().map_err(engine)?)),
    ];
    for engine in Engine::built_in() {
        let command = RunnerEngine::new(*engine, None)?.add_to(own_runner()?).jail(arguments.jail);
        executors.push(("process", *engine, Box::new(ProcessExecutor::new(command))));
    }
    print(&test(&executors, arguments.jail)?, arguments.json)
}

/// An executor to be tested.
type Subject = (&'static str, Engine, Box<dyn Executor>);

/// Implements `execbox runner --self-test`.
pub(crate) fn test_runner(command: RunnerCommand, engine: Engine, mode: Mode) -> Result<Exit, CommandError> {
    let executors: [Subject; 1] = [("process", engine, Box::new(ProcessExecutor::new(command)))];
    print(&test(&executors, mode)?, false)
}

fn test(executors: &[Subject], mode: Mode) -> io::Result<Diagnosis> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tested = runtime.block_on(async {
        let mut tested = Vec::new();
        for (executor, engine, tests) in executors {
            tested.push(Tested { executor, engine: engine.to_string(), report: tests.self_test().await });
            tests.dispose().await;
        }
        tested
    });
    let is_well = |tested: &Tested| {
        let jail = tested.report.jail.as_ref();
        tested.report.failures().next().is_none() && jail.is_none_or(|jail| jail.check(mode).is_ok())
    };
    let engines = Engine::built_in().iter().map(ToString::to_string).collect();
    Ok(Diagnosis { ok: tested.iter().all(is_well), engines, kernel: features(), executors: tested })
}

fn print(diagnosis: &Diagnosis, json: bool) -> Result<Exit, CommandError> {
    let text = if json { serde_json::to_string(diagnosis).map_err(io::Error::other)? } else { table(diagnosis) };
    report::print(&text).map_err(SystemError::Output)?;
    Ok(if diagnosis.ok { Exit::Success } else { Exit::ProgramFailed })
}

fn table(diagnosis: &Diagnosis) -> String {
    let mut lines = vec![format!("Engines: {}", diagnosis.engines.join(", ")), "System".to_owned()];
    lines.extend(diagnosis.kernel.iter().map(|feature| format!("  {}: {}", feature.name, feature.value)));
    for Tested { executor, engine, report } in &diagnosis.executors {
        // QuickJS, the engine of all other executors, is not mentioned.
        let engine = if *engine == Engine::QuickJs.to_string() { String::new() } else { format!(" ({engine})") };
        lines.push(format!("Executor: {executor}{engine}"));
        lines.extend(report.checks.iter().map(check_line));
        if let Some(jail) = &report.jail {
            lines.push("  Jail:".to_owned());
            lines.extend(jail.layers.iter().flat_map(layer_lines));
        }
    }
    let verdict = if diagnosis.ok { "All required limits work." } else { "Some limits do not work; see above." };
    lines.push(verdict.to_owned());
    lines.join("\n")
}

fn check_line(SelfTestCheck { check, outcome }: &SelfTestCheck) -> String {
    match outcome {
        CheckOutcome::Passed => format!("  {check:<28} passed"),
        CheckOutcome::Failed(reason) => format!("  {check:<28} FAILED: {reason}"),
        CheckOutcome::Skipped(reason) => format!("  {check:<28} not tested: {reason}"),
    }
}

fn layer_lines(report: &LayerReport) -> Vec<String> {
    let line = format!("    {:<26} {report}", report.layer);
    match report.status {
        Status::Unavailable(_) => vec![line, format!("      remedy: {}", report.layer.remedy())],
        Status::Enforced | Status::Off(_) => vec![line],
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0    every check passed, and with --jail required every layer is enforced
  1    a check failed or a required layer is missing
  2    bad usage
  4    execbox failed";
