//! `execbox completions`: completions for shells.

use std::io;

use clap::Args;
use clap_complete::Shell;

use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::output::report;

/// Print completions of commands and options for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut command_line: clap::Command) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command_line, "execbox", &mut script);
    let script = String::from_utf8(script).map_err(|error| SystemError::Output(io::Error::other(error)))?;
    report::print(script.trim_end()).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

const EXAMPLES: &str = "\
Examples:
  execbox completions bash > ~/.local/share/bash-completion/completions/execbox
  execbox completions zsh > ~/.zfunc/_execbox
  execbox completions fish > ~/.config/fish/completions/execbox.fish";
