//! `execbox completions`: completions for shells.

use std::io;

use clap::{Args, ValueEnum as _};
use clap_complete::Shell;

use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::output::report;

/// Print completions of commands and options for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Option<Shell>,
}

/// The error for a missing shell.
#[derive(Debug, thiserror::Error)]
#[error("no shell given: expected one of {}", Shell::value_variants().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
struct NoShell;

impl CliError for NoShell {}

pub(crate) fn run(arguments: &Arguments, mut command_line: clap::Command) -> Result<Exit, CommandError> {
    let shell = arguments.shell.ok_or(NoShell)?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line, "execbox", &mut script);
    let script = String::from_utf8(script).map_err(|error| SystemError::Output(io::Error::other(error)))?;
    report::print(script.trim_end()).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

const EXAMPLES: &str = "\
Examples:
  execbox completions bash > ~/.local/share/bash-completion/completions/execbox
  execbox completions zsh > ~/.zfunc/_execbox
  execbox completions fish > ~/.config/fish/completions/execbox.fish";
