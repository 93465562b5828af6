//! `execbox man`: manual pages.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::Resettable;
use clap_mangen::Man;

use crate::error::{CliError, CommandError, SystemError, reason};
use crate::exit::Exit;
use crate::output::report;

/// Print the manual page, or write the pages of all commands
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print the page of this command [default: the page about execbox]
    ///
    /// Commands in commands are given as words, such as `approvals approve`.
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the pages of all commands to DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum ManError {
    #[error("unknown command {name:?}: {}", expected(known))]
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
    let mut described = command;
    for name in &arguments.command {
        described = described.find_subcommand(name).ok_or_else(|| unknown(described, name))?;
    }
    report::print(page(described).map_err(SystemError::Output)?.trim_end()).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

fn expected(known: &[String]) -> String {
    match known {
        [] => "the command before it has no commands".to_owned(),
        known => format!("expected one of {}", known.join(", ")),
    }
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
    let after_help = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    // The renderer fills the text after the options, and leaves out the help of options that are not in the short help.
    let described = command.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let described = described.mut_args(|arg| arg.hide_short_help(false));
    let man = Man::new(described).title(file_name(command)).source(concat!("execbox ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    Ok(page + &sections(&after_help.unwrap_or_default()))
}

/// The sections of a text with headings such as `Examples:`, as `man` reads them. Indented lines are not filled.
fn sections(text: &str) -> String {
    let mut page = String::new();
    let mut is_block = false;
    for line in text.lines() {
        let is_indented = line.starts_with(' ') || (is_block && line.is_empty());
        if is_indented != is_block {
            page.push_str(if is_indented { ".nf\n" } else { ".fi\n" });
            is_block = is_indented;
        }
        match line.strip_suffix(':') {
            Some(heading) if !is_indented && !heading.contains(['.', '`']) => {
                let _ = writeln!(page, ".SH \"{}\"", escaped(&heading.to_uppercase()));
            }
            _ if line.is_empty() && !is_block => page.push_str(".PP\n"),
            _ => {
                let _ = writeln!(page, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)));
            }
        }
    }
    if is_block {
        page.push_str(".fi\n");
    }
    page
}

/// A line of text in the notation of `man`.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

fn file_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

const EXAMPLES: &str = "\
Examples:
  execbox man | man -l -
  execbox man approvals approve | man -l -
  execbox man --dir ~/.local/share/man/man1

Exit codes:
  0    the page was printed, or the pages were written
  2    bad usage
  4    a page could not be written";
