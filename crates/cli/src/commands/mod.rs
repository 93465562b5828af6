//! The commands: one module each, with the arguments, the help and the function.

pub(crate) mod conform;
mod mcp;
mod run;
pub(crate) mod run_code;
mod runner;
mod tools;
mod types;

use clap::Subcommand;

use crate::error::CliError;
use crate::exit::Exit;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Arguments),
    RunCode(run_code::Arguments),
    Mcp(mcp::Arguments),
    Tools(tools::Arguments),
    Types(types::Arguments),
    Runner(runner::Arguments),
    Conform(conform::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        match self {
            Self::Run(arguments) => run::run(arguments),
            Self::RunCode(arguments) => run_code::run(arguments),
            Self::Mcp(arguments) => mcp::run(arguments),
            Self::Tools(arguments) => tools::run(&arguments),
            Self::Types(arguments) => types::run(&arguments),
            Self::Runner(arguments) => runner::run(arguments),
            Self::Conform(arguments) => conform::run(arguments),
        }
    }
}
