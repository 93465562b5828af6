//! The command line as a whole: its groups of commands, `--color`, and hints about common mistakes.

use std::env;
use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, CommandFactory as _, Error, FromArgMatches as _, Parser};
use execbox_core::hint;

use crate::commands::Command;
use crate::output::style;

/// Run code written by language models in a sandbox, next to real tools
#[derive(Debug, Parser)]
#[command(name = "execbox", version, after_help = EXAMPLES, max_term_width = MAX_WIDTH)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Color the output: `auto`, `always` or `never`
    #[arg(long, global = true, value_name = "WHEN", hide_possible_values = true, default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
}

impl Arguments {
    /// The arguments of this process. A mistake in them ends the process with a message, and `--help` with the help.
    pub(crate) fn of_process() -> Self {
        let mut command = command_line(style::choice_of(env::args_os()));
        let parsed = command.try_get_matches_from_mut(env::args_os());
        let parsed = parsed.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| with_hint(error, &command).exit())
    }
}

/// The command line, which prints help and errors in these colors.
pub(crate) fn command_line(color: ColorChoice) -> clap::Command {
    let mut command = Arguments::command().color(color);
    command.build();
    let groups = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{HEADING}Options:{HEADING:#}\n{{options}}{{after-help}}"
    ))
}

/// The list of commands, by group.
fn groups(command: &clap::Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{HEADING}{title}:{HEADING:#}");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {TITLE}{name:<NAME_WIDTH$}{TITLE:#}  {about}", TITLE = style::TITLE);
        }
        text.push('\n');
    }
    text
}

/// Adds a hint to an error about a command or an argument that does not exist.
fn with_hint(error: Error, command: &clap::Command) -> Error {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => Some(name.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            // The parser knows no swapped letters (`mpc`), and finds similarities that no reader sees.
            let known = command.get_subcommands().map(clap::Command::get_name);
            let near = named(ContextKind::InvalidSubcommand).and_then(|name| hint::near(name, known));
            let near = near.map(|near| ContextValue::Strings(vec![near.to_owned()]));
            with_context(&error, command, ContextKind::SuggestedSubcommand, near)
        }
        ErrorKind::UnknownArgument => {
            let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
            let takes_file = ["mcp", "doctor"].iter().any(|name| usage.contains(&format!("execbox {name} ")));
            let file = named(ContextKind::InvalidArg).filter(|argument| takes_file && !argument.starts_with('-'));
            let tip = |file| StyledStr::from(format!("for the servers in a configuration, use '--config {file}'"));
            let Some(tip) = file.map(tip) else { return error };
            with_context(&error, command, ContextKind::Suggested, Some(ContextValue::StyledStrs(vec![tip])))
        }
        _ => error,
    }
}

/// The error with this context instead of its own of the kind.
fn with_context(error: &Error, command: &clap::Command, kind: ContextKind, value: Option<ContextValue>) -> Error {
    let mut changed = Error::new(error.kind()).with_cmd(command);
    let others = error
        .context()
        .filter(|(other, value)| *other != kind && !is_empty(value))
        .map(|(other, value)| (other, value.clone()));
    for (kind, value) in others.chain(value.map(|value| (kind, value))) {
        changed.insert(kind, value);
    }
    changed
}

fn is_empty(value: &ContextValue) -> bool {
    matches!(value, ContextValue::StyledStrs(texts) if texts.is_empty())
}

/// The commands by the occasion of their use, the most frequent ones first.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Use",
        &["run", "run-code", "setup", "mcp", "tools", "types", "login", "logout", "status", "approvals", "snippets"],
    ),
    ("Serve", &["serve", "runner"]),
    ("Check", &["doctor", "bench", "conform"]),
    ("More", &["completions", "man", "version", "help"]),
];

/// The style of headings, as in the help of commands.
const HEADING: anstyle::Style = anstyle::Style::new().bold().underline();

/// The width of the column with the names of commands.
const NAME_WIDTH: usize = 11;

/// The maximum width of help, in columns.
const MAX_WIDTH: usize = 100;

const EXAMPLES: &str = "\
Examples:
  execbox run program.ts
  execbox run -e '[1, 2, 3].map(x => x * x)'
  execbox mcp --config servers.json
  execbox doctor --config servers.json

`execbox COMMAND -h` lists the options of a command, `--help` describes it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = command_line(ColorChoice::Never);
        let mut listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        listed.sort_unstable();
        names.sort_unstable();
        assert_eq!(listed, names);
    }
}
