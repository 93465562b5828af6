//! `--engine` and `--warm`: the engine that runs programs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use std::{env, io};

use clap::Args;
use execbox::{Runner, RunnerCommand};

use crate::error::{CliError, SystemError};
use crate::options::units::Time;

/// The options that choose the engine of a command's programs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Isolation")]
pub(crate) struct EngineArguments {
    /// Run programs with ENGINE: `quickjs`, `v8` or `auto` [default: quickjs]
    ///
    /// `v8` runs in child processes and is for programs that compute for long. `auto` is QuickJS, and V8 for a program that
    /// computes for long before its first call, which is started again.
    #[arg(long, value_name = "ENGINE", hide_short_help = true)]
    engine: Option<EngineChoice>,

    /// With `--engine auto`, start programs again that compute for TIME before a call [default: 250ms]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, hide_short_help = true)]
    auto_cpu: Option<Time>,
}

impl EngineArguments {
    /// The chosen engine; `None` if the option is not given.
    pub(crate) fn choice(&self) -> Result<Option<EngineChoice>, EngineError> {
        match (self.engine, self.auto_cpu) {
            (Some(EngineChoice::Auto(_)), Some(Time(budget))) => Ok(Some(EngineChoice::Auto(budget))),
            (_, Some(_)) => Err(EngineError::NothingToStartAgain),
            (choice, None) => Ok(choice),
        }
    }
}

/// A value of `--engine` for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    One(Engine),
    /// QuickJS, and V8 for programs that have computed for this time before their first call.
    Auto(Duration),
}

const AUTO_CPU: Duration = Duration::from_millis(250);

#[derive(Debug, thiserror::Error)]
#[error("expected quickjs, v8 or auto")]
pub(crate) struct UnknownChoice;

impl FromStr for EngineChoice {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        match text {
            "auto" => Ok(Self::Auto(AUTO_CPU)),
            _ => text.parse().map(Self::One).map_err(|UnknownEngine| UnknownChoice),
        }
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(engine) => engine.fmt(f),
            Self::Auto(_) => f.write_str("auto"),
        }
    }
}

/// A value of `--engine` of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    QuickJs,
    V8,
}

impl Engine {
    /// The engines that are built into this binary.
    pub(crate) fn built_in() -> &'static [Self] {
        if cfg!(feature = "v8") { &[Self::QuickJs, Self::V8] } else { &[Self::QuickJs] }
    }

    /// The version of the engine's source; `None` for an engine that is not built in.
    #[cfg_attr(feature = "v8", allow(clippy::unnecessary_wraps))] // all are built in then
    pub(crate) fn version(self) -> Option<&'static str> {
        match self {
            Self::QuickJs => Some(QUICKJS_VERSION),
            #[cfg(feature = "v8")]
            Self::V8 => Some(execbox_v8::version()),
            #[cfg(not(feature = "v8"))]
            Self::V8 => None,
        }
    }
}

/// The version of the QuickJS-ng that the guest is built from.
const QUICKJS_VERSION: &str = "0.16.2";

#[derive(Debug, thiserror::Error)]
#[error("expected quickjs or v8")]
pub(crate) struct UnknownEngine;

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        match text {
            "quickjs" => Ok(Self::QuickJs),
            "v8" => Ok(Self::V8),
            _ => Err(UnknownEngine),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QuickJs => "quickjs",
            Self::V8 => "v8",
        })
    }
}

/// Why programs cannot be run with an engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error(
        "this execbox is built without the engine {0}; in a checkout, `cargo install --path crates/cli --features {0}` builds one with it"
    )]
    NotBuilt(Engine),
    #[error("--auto-cpu needs --engine auto: with other engines, no program is started again")]
    NothingToStartAgain,
    #[error("--warm needs --engine v8: other engines have no isolates to keep ready")]
    NothingToWarm,
}

impl CliError for EngineError {}

/// The engine of a runner process, which is built into this binary.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunnerEngine {
    QuickJs,
    V8(V8),
}

/// The options of V8. Made only if V8 is built in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct V8 {
    spare_isolates: usize,
}

impl RunnerEngine {
    /// Checks that the engine is built in. `warm` is the number of isolates of V8 that are made ahead.
    pub(crate) fn new(engine: Engine, warm: Option<usize>) -> Result<Self, EngineError> {
        match (engine, warm) {
            (Engine::QuickJs, None) => Ok(Self::QuickJs),
            (Engine::QuickJs, Some(_)) => Err(EngineError::NothingToWarm),
            (Engine::V8, _) if !cfg!(feature = "v8") => Err(EngineError::NotBuilt(engine)),
            (Engine::V8, warm) => Ok(Self::V8(V8 { spare_isolates: warm.unwrap_or(1) })),
        }
    }

    /// Whether a program can end the process.
    pub(crate) fn needs_own_process(self) -> bool {
        matches!(self, Self::V8(_))
    }

    /// Whether the engine compiles programs to machine code while they run.
    pub(crate) fn compiles_programs(self) -> bool {
        matches!(self, Self::V8(_))
    }

    /// The address space that the engine maps beside the memory of guests, in bytes, for [`RunnerCommand::memory_of_guests`]:
    /// for each isolate of V8, room for machine code.
    pub(crate) fn own_memory(self) -> u64 {
        const CODE_RANGE: u64 = 128 << 20;
        match self {
            Self::QuickJs => 0,
            Self::V8(V8 { spare_isolates }) => (spare_isolates as u64 + MAX_GUESTS as u64).saturating_mul(CODE_RANGE),
        }
    }

    /// Adds the options for this engine to the command of a runner.
    pub(crate) fn add_to(self, command: RunnerCommand) -> RunnerCommand {
        match self {
            Self::QuickJs => command,
            Self::V8(V8 { spare_isolates }) => {
                command.args(["--engine", "v8", "--warm"]).arg(spare_isolates.to_string())
            }
        }
    }
}

/// The command that starts this binary as a runner process.
pub(crate) fn own_runner() -> io::Result<RunnerCommand> {
    // By default, the allocator would reserve a gigabyte, which the limit on the memory of a process would count.
    Ok(RunnerCommand::new(env::current_exe()?).arg("runner").env("MIMALLOC_ARENA_RESERVE", "32MiB"))
}

/// The maximum number of guests of a process that serves one host: one that runs, and one that is being disposed of.
const MAX_GUESTS: usize = 2;

#[cfg(feature = "v8")]
impl V8 {
    /// Opens the resources of the engine before the process is locked and can open no files.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // as without the feature
    pub(crate) fn prepare(self) -> Result<execbox_v8::Prepared, EngineError> {
        Ok(execbox_v8::Prepared::new())
    }

    /// Makes the runner of a process that serves one host.
    pub(crate) fn runner(self, prepared: execbox_v8::Prepared) -> Result<Runner, SystemError> {
        let options = execbox_v8::Options::default().spare_isolates(self.spare_isolates).max_guests(MAX_GUESTS);
        let engine = prepared.start(&options).map_err(|error| SystemError::Engine(error.to_string()))?;
        Ok(Runner::with_engine(std::sync::Arc::new(engine), std::sync::Arc::new(execbox::TypeScript)))
    }
}

#[cfg(not(feature = "v8"))]
#[allow(clippy::unused_self)] // as with the feature
impl V8 {
    pub(crate) fn prepare(self) -> Result<std::convert::Infallible, EngineError> {
        Err(EngineError::NotBuilt(Engine::V8))
    }

    pub(crate) fn runner(self, prepared: std::convert::Infallible) -> Result<Runner, SystemError> {
        match prepared {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_quickjs_is_that_of_the_notice() {
        let notice = include_str!("../../../../NOTICE");
        assert!(notice.contains(&format!("QuickJS-ng {QUICKJS_VERSION}, as shipped")), "{notice}");
    }
}
