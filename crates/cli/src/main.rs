//! The binary `execbox`: runs code written by language models from the command line.
//!
//! What happens where:
//! - [`args`]: the command line as it was typed. [`units`]: what durations and sizes in it mean.
//! - [`run`]: `execbox run`. It reads the program ([`source`]), the stub tools ([`stub`]) and the [`limits`], has the
//!   library execute it ([`executor`], [`interrupt`]), and shows the result ([`report`], with [`diagnostic`], [`frame`] and
//!   [`terminal`]).
//! - [`run_code`]: `execbox run-code`, the same for ES modules and whole values.
//! - [`mcp`]: `execbox mcp`, the library's MCP server on standard input and output, over the MCP servers of the command line
//!   ([`servers`]). [`tools`] and [`types`]: `execbox tools` and `execbox types`, which show what those servers have.
//! - [`runner`]: `execbox runner`, which connects the library's runner to standard input and output.
//! - [`conform`]: `execbox conform`, which tests runners, in whatever language, by the cases of `conformance/`.
//!
//! What is not here: rules. What a program may do, what a limit means and what an error is called is
//! the library's to say; this crate puts its parts together, and reads and prints.
//!
//! # Exit codes
//! | code | meaning |
//! |---|---|
//! | 0 | the program succeeded |
//! | 1 | the program failed: `runtime_error`, `tool_error`, `validation_error`, `serialization_error` |
//! | 2 | bad usage or bad input; nothing was run |
//! | 3 | the program was stopped by a limit: `timeout`, `memory_limit` |
//! | 4 | execbox failed: `internal_error`, or the result could not be written |
//! | 130 | interrupted by Ctrl-C |
//!
//! For `execbox run-code`, 1 is `error` and `link_error`, 3 is `memory` and `terminated`. For `execbox conform`, 0 and 1 say whether the runner does what is demanded.

mod args;
mod conform;
mod diagnostic;
mod executor;
mod exit;
mod frame;
mod interrupt;
mod limits;
mod mcp;
mod report;
mod run;
mod run_code;
mod runner;
mod servers;
mod source;
mod stub;
mod terminal;
mod token;
mod tools;
mod types;
mod units;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Arguments, Command};

/// Values cross between guest and host as many small allocations; this allocator makes that twice as fast as glibc's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let code = match command {
        Command::Run(arguments) => run::run(arguments),
        Command::RunCode(arguments) => run_code::run(arguments),
        Command::Mcp(arguments) => mcp::run(&arguments),
        Command::Tools(arguments) => tools::run(&arguments),
        Command::Types(arguments) => types::run(&arguments),
        Command::Runner(arguments) => runner::run(&arguments),
        Command::Conform(arguments) => conform::run(&arguments),
    };
    code.into()
}
