//! The binary `execbox`: runs code written by language models from the command line.
//!
//! - [`commands`]: one module per command, with its arguments, its help and its function.
//! - [`error`]: why a command fails. [`exit`]: the exit codes.
//! - Groups of options that several commands share, each with the function that reads them: [`source`] (the program),
//!   [`executor`], [`limits`], [`servers`] (MCP servers), [`stub`] (stub tools), [`token`]. [`units`]: durations and sizes.
//! - Output: [`report`] (results, logs, errors), [`diagnostic`] and [`frame`] (errors with their source), [`terminal`] (text
//!   that is safe to show). [`interrupt`]: Ctrl-C and SIGTERM.
//!
//! The crate has no rules of its own: what a program may do, what a limit means and what an error is called is decided by the
//! library.
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
//! For `execbox run-code`, 1 is `error` and `link_error`, 3 is `memory` and `terminated`. For `execbox conform`, 0 and 1 tell
//! whether the runner conforms.

mod commands;
mod diagnostic;
mod error;
mod executor;
mod exit;
mod frame;
mod interrupt;
mod limits;
mod report;
mod servers;
mod source;
mod stub;
mod terminal;
mod token;
mod units;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Values cross between guest and host as many small allocations; this allocator makes that twice as fast as glibc's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run JavaScript and TypeScript written by language models, in a sandbox, next to real tools
#[derive(Debug, Parser)]
#[command(name = "execbox", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let exit = Arguments::parse().command.run().unwrap_or_else(|error| {
        report::print_error(&error);
        error.exit()
    });
    exit.into()
}

const EXAMPLES: &str = "\
Examples:
  execbox run program.ts
  execbox run -e '[1, 2, 3].map(x => x * x)'
  execbox mcp --config ~/.cursor/mcp.json
  execbox run --help";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
