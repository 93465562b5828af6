//! The binary `execbox`: runs code written by language models from the command line.
//!
//! - [`help`]: the command line as a whole. [`commands`]: one module per command, with its arguments, its help and its
//!   function. [`options`]: groups of options that several commands share.
//! - [`gateway`]: what gateways need beside the library: approvals, clients, reloading, and the state of those that run.
//! - [`config`]: what a configuration of servers is read with. [`prompt`]: questions on the terminal.
//! - [`files`]: the program, and files of the user. [`output`]: what commands print. [`process`]: signals and secrets.
//! - [`error`]: the interface of the errors of commands. [`exit`]: the exit codes.
//!
//! The crate has no rules of its own: the library decides what a program may do, what a limit means, and the names of errors.
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
mod config;
mod error;
mod exit;
mod files;
mod gateway;
mod help;
mod options;
mod output;
mod process;
mod prompt;

use std::process::ExitCode;

use clap::ColorChoice;

use crate::help::Arguments;

fn main() -> ExitCode {
    execbox_measure::allocator::return_memory_soon();
    if let Some(exit) = commands::follow_files::run_if_started() {
        return exit.into();
    }
    let Arguments { command, color } = Arguments::of_process();
    output::style::choose(color);
    let exit = command.run(|| help::command_line(ColorChoice::Never)).unwrap_or_else(|error| {
        output::report::print_error(&error);
        error.exit()
    });
    exit.into()
}
