//! The binary `execbox`: runs code written by language models from the command line.
//!
//! - [`help`]: the command line as a whole: groups of commands, hints about mistakes. [`commands`]: one module per command, with
//!   its arguments, its help and its function.
//! - [`error`]: the interface of the errors of commands. [`exit`]: the exit codes.
//! - Groups of options that several commands share, each with the function that reads them: [`source`] (the program),
//!   [`engine`], [`executor`], [`jail`], [`limits`], [`servers`] (MCP servers), [`stub`] (stub tools), [`policy`] (approvals
//!   and their records), [`token`]. [`units`]: durations and sizes.
//! - Reading the configuration of servers: [`context`], which uses [`inputs`] (stored values) and [`prompt`] (the terminal).
//!   [`reload`] reads it again when one of its [`files`] changes. Tokens of servers are in [`logins`]. Both stores are files of
//!   [`private`].
//! - Running gateways: [`gateways`] (their state), [`approvals`] (their calls that wait), [`watch`] (their reports).
//! - [`state`]: the file of `--state`. [`tool_source`]: the tools of a gateway.
//! - Output: [`report`] (results, logs, messages), [`table`], [`diagnostic`] and [`frame`] (errors with their source),
//!   [`terminal`] (text that is safe to show), [`style`] (colors, width), [`progress`].
//! - [`interrupt`]: Ctrl-C and SIGTERM. [`secrecy`]: processes that hold secrets.
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

mod always;
mod approvals;
mod clients;
mod commands;
mod context;
mod descriptors;
mod diagnostic;
mod engine;
mod error;
mod executor;
mod exit;
mod files;
mod frame;
mod gateways;
mod help;
mod input;
mod inputs;
mod interrupt;
mod jail;
mod keyring;
mod limits;
mod logins;
mod ownership;
mod policy;
mod private;
mod progress;
mod prompt;
mod reload;
mod report;
mod rewrite;
mod secrecy;
mod servers;
mod source;
mod state;
mod stub;
mod style;
mod table;
mod terminal;
mod token;
mod tool_source;
mod units;
mod watch;

use std::process::ExitCode;

use clap::ColorChoice;

use crate::help::Arguments;

fn main() -> ExitCode {
    execbox_measure::allocator::return_memory_soon();
    let Arguments { command, color } = Arguments::of_process();
    style::choose(color);
    let exit = command.run(|| help::command_line(ColorChoice::Never)).unwrap_or_else(|error| {
        report::print_error(&error);
        error.exit()
    });
    exit.into()
}
