//! The tools for the development of Execbox, which its users do not need.
//!
//! - [`soak`]: executes good and hostile programs for a long time, and fails on growth
//! - [`growth`]: measures the costs of programs against a size
//! - [`executors`]: the executors and engines of programs; [`binary`]: the binary whose processes run them

mod binary;
mod executors;
mod growth;
mod soak;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, io};

use clap::{Parser, Subcommand};

use crate::binary::Binary;

/// Test and measure Execbox: the tools of those who change it
#[derive(Debug, Parser)]
#[command(name = "devtools", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Run programs in processes of the binary at PATH [default: `execbox` beside this program]
    #[arg(long, value_name = "PATH", global = true)]
    execbox: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Soak(soak::Arguments),
    Growth(growth::Arguments),
}

/// Why a tool ends without a verdict.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error("there is no {}: build it with `cargo build`, or `cargo build --release` for release builds, or use --execbox PATH", .0.display())]
    NoExecbox(PathBuf),
    #[error("{} has no engine {engine}; `cargo build --features execbox-cli/{engine}` builds one with it", .path.display())]
    NoEngine { path: PathBuf, engine: String },
    #[error("nothing to do: no chosen executor has the engine, or the curve")]
    NothingChosen,
    #[error("--engine v8 needs --executor process: a program can end the process that it runs in")]
    V8NeedsProcess,
    /// A program failed, or had a wrong result.
    #[error("{what} failed on {subject}: {reason}")]
    Failed { what: &'static str, subject: String, reason: String },
    /// An executor does not start, or the binary does not work.
    #[error("{0}")]
    Start(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ToolError {
    fn exit(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed { .. } => 1,
            Self::NoExecbox(_) | Self::NoEngine { .. } | Self::NothingChosen | Self::V8NeedsProcess => 2,
            Self::Start(_) | Self::Io(_) => 4,
        })
    }
}

fn main() -> ExitCode {
    execbox_measure::allocator::return_memory_soon();
    let arguments = Arguments::parse();
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("devtools: {error}");
        error.exit()
    })
}

fn run(Arguments { command, execbox }: &Arguments) -> Result<ExitCode, ToolError> {
    let beside = || env::current_exe().map(|path| path.with_file_name("execbox"));
    let binary = Binary::new(execbox.clone().map_or_else(beside, Ok)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match command {
        Command::Soak(arguments) => runtime.block_on(soak::run(arguments, &binary)),
        Command::Growth(arguments) => runtime.block_on(growth::run(arguments, &binary)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
