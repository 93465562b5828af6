//! The commands: one module each, with the arguments, the help and the function.

mod approvals;
mod bench;
mod completions;
mod conform;
mod doctor;
pub(crate) mod follow_files;
mod login;
mod logout;
mod man;
mod mcp;
mod run;
mod run_code;
mod runner;
mod serve;
mod setup;
mod snippets;
mod status;
mod tools;
mod types;
mod version;

use clap::Subcommand;

use crate::error::CommandError;
use crate::exit::Exit;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Arguments),
    RunCode(run_code::Arguments),
    Mcp(Box<mcp::Arguments>),
    Setup(setup::Arguments),
    Status(status::Arguments),
    Approvals(approvals::Arguments),
    Login(login::Arguments),
    Logout(logout::Arguments),
    Snippets(snippets::Arguments),
    Tools(tools::Arguments),
    Types(types::Arguments),
    Serve(Box<serve::Arguments>),
    Runner(runner::Arguments),
    Conform(conform::Arguments),
    Doctor(doctor::Arguments),
    Bench(bench::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Version(version::Arguments),
}

impl Command {
    /// Runs the command. `command_line` describes all of the command line.
    pub(crate) fn run(self, command_line: fn() -> clap::Command) -> Result<Exit, CommandError> {
        match self {
            Self::Run(arguments) => run::run(arguments),
            Self::RunCode(arguments) => run_code::run(arguments),
            Self::Mcp(arguments) => mcp::run(*arguments),
            Self::Setup(arguments) => setup::run(&arguments),
            Self::Status(arguments) => status::run(&arguments),
            Self::Approvals(arguments) => approvals::run(arguments),
            Self::Login(arguments) => login::run(&arguments),
            Self::Logout(arguments) => logout::run(&arguments),
            Self::Snippets(arguments) => snippets::run(&arguments),
            Self::Tools(arguments) => tools::run(&arguments),
            Self::Types(arguments) => types::run(&arguments),
            Self::Serve(arguments) => serve::run(&arguments),
            Self::Runner(arguments) => runner::run(&arguments),
            Self::Conform(arguments) => conform::run(arguments),
            Self::Doctor(arguments) => doctor::run(&arguments),
            Self::Bench(arguments) => bench::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments, command_line()),
            Self::Man(arguments) => man::run(&arguments, &command_line()),
            Self::Version(arguments) => version::run(&arguments),
        }
    }
}
