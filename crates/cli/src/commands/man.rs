//! `execbox man`: manual pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man;

use crate::error::{CliError, CommandError, SystemError, reason};
use crate::exit::Exit;
use crate::output::report;

/// Print the manual page, or write the pages of all commands
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print the page of this command [default: the page about execbox]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,

    /// Write the pages of all commands to DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum ManError {
    #[error("unknown command {name:?}: expected one of {}", known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    #[error("--dir: cannot write {path}: {}", reason(error))]
    Write { path: String, error: io::Error },
}

impl CliError for ManError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unknown { .. } => Exit::BadInput,
            Self::Write { .. } => Exit::ExecboxFailed,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, command: &clap::Command) -> Result<Exit, CommandError> {
    if let Some(dir) = &arguments.dir {
        write_pages(command, dir)?;
        return Ok(Exit::Success);
    }
    let page = match &arguments.command {
        None => page(command),
        Some(name) => page(command.find_subcommand(name).ok_or_else(|| unknown(command, name))?),
    };
    report::print(page.map_err(SystemError::Output)?.trim_end()).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

fn unknown(command: &clap::Command, name: &str) -> ManError {
    let known = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    ManError::Unknown { name: name.to_owned(), known }
}

/// Writes `execbox.1`, and `execbox-COMMAND.1` for each command and the commands in it.
fn write_pages(command: &clap::Command, dir: &Path) -> Result<(), ManError> {
    let failed = |path: &Path, error| ManError::Write { path: path.display().to_string(), error };
    fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut left = vec![command];
    let mut written = 0_usize;
    while let Some(command) = left.pop() {
        let path = dir.join(format!("{}.1", file_name(command)));
        page(command).and_then(|page| fs::write(&path, page)).map_err(|error| failed(&path, error))?;
        written += 1;
        left.extend(command.get_subcommands().filter(|command| command.get_name() != "help"));
    }
    report::note(&format_args!("{written} pages written to {}", dir.display()));
    Ok(())
}

/// The page about a command, as `man` reads it.
fn page(command: &clap::Command) -> io::Result<String> {
    let mut page = Vec::new();
    Man::new(command.clone()).title(file_name(command)).render(&mut page)?;
    String::from_utf8(page).map_err(io::Error::other)
}

fn file_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

const EXAMPLES: &str = "\
Examples:
  execbox man | man -l -
  execbox man --dir ~/.local/share/man/man1

Exit codes:
  0    the page was printed, or the pages were written
  2    bad usage
  4    a page could not be written";
