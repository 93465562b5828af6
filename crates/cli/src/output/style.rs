//! The colors of what commands print, and the width of the terminal.
//!
//! `--color` decides. With `auto`, its default, output to a terminal is colored, unless `NO_COLOR`, `CLICOLOR=0` or `TERM=dumb` is
//! set; `CLICOLOR_FORCE` and `FORCE_COLOR` color any output.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Effects, Style};
use clap::{ColorChoice, ValueEnum as _};
use terminal_size::{Width, terminal_size};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default();
pub(crate) const ERROR_PREFIX: Style = ERROR.effects(Effects::BOLD);
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
pub(crate) const WARNING_PREFIX: Style = WARNING.effects(Effects::BOLD);
pub(crate) const SUCCESS: Style = AnsiColor::Green.on_default();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
pub(crate) const TITLE: Style = Style::new().bold();
pub(crate) const DETAIL: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();

/// Whether the output to standard output and to standard error is colored.
static COLORED: OnceLock<(Colors, Colors)> = OnceLock::new();

/// Decides by the value of `--color`. Called at the start: a locked runner is killed if it asks what its streams are.
pub(crate) fn choose(choice: ColorChoice) {
    let _ = COLORED.set(colored(choice));
}

fn colored(choice: ColorChoice) -> (Colors, Colors) {
    let of = |is_terminal: bool| match resolved(choice) {
        ColorChoice::Always => Colors(true),
        ColorChoice::Never => Colors(false),
        ColorChoice::Auto => Colors(is_terminal),
    };
    (of(io::stdout().is_terminal()), of(io::stderr().is_terminal()))
}

/// The value of `--color` among the arguments of a command line that is not yet parsed, for the errors of the parser.
pub(crate) fn choice_of(arguments: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let mut arguments = arguments.into_iter().take_while(|argument| argument != "--");
    let mut choice = ColorChoice::Auto;
    while let Some(argument) = arguments.next() {
        let value = match argument.to_str().and_then(|argument| argument.strip_prefix("--color")) {
            Some("") => arguments.next(),
            Some(value) => value.strip_prefix('=').map(OsString::from),
            None => None,
        };
        let value = value.as_deref().and_then(OsStr::to_str);
        choice = value.and_then(|value| ColorChoice::from_str(value, false).ok()).unwrap_or(choice);
    }
    resolved(choice)
}

/// `Auto` replaced by what the environment demands, if it demands anything.
fn resolved(choice: ColorChoice) -> ColorChoice {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let forces = |name| set(name).is_some_and(|value| value != "0" && value != "false");
    match choice {
        ColorChoice::Auto if set("NO_COLOR").is_some() => ColorChoice::Never,
        ColorChoice::Auto if forces("CLICOLOR_FORCE") || forces("FORCE_COLOR") => ColorChoice::Always,
        ColorChoice::Auto if env::var_os("CLICOLOR").is_some_and(|value| value == "0") => ColorChoice::Never,
        ColorChoice::Auto if env::var_os("TERM").is_some_and(|term| term == "dumb") => ColorChoice::Never,
        choice => choice,
    }
}

/// Whether the output to a stream is colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colors(pub(crate) bool);

impl Colors {
    pub(crate) fn of_stdout() -> Self {
        COLORED.get_or_init(|| colored(ColorChoice::Auto)).0
    }

    pub(crate) fn of_stderr() -> Self {
        COLORED.get_or_init(|| colored(ColorChoice::Auto)).1
    }

    /// The text with a style. Control characters in it are not escaped.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.0 { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// The number of columns of the terminal that standard output is, or that `COLUMNS` states. `None` if there is none.
pub(crate) fn width() -> Option<usize> {
    let of_terminal = io::stdout().is_terminal().then(terminal_size).flatten();
    let columns = || env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    of_terminal.map(|(Width(width), _)| width.into()).or_else(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_color_option_is_found_before_arguments_are_parsed() {
        let choice = |arguments: &[&str]| choice_of(arguments.iter().map(OsString::from));
        assert_eq!(choice(&["execbox", "run", "--color", "always", "-e", "1"]), ColorChoice::Always);
        assert_eq!(choice(&["execbox", "--color=never", "run"]), ColorChoice::Never);
        assert_eq!(choice(&["execbox", "--color=always", "--", "--color=never"]), ColorChoice::Always);
        assert_eq!(choice(&["execbox", "--color=always", "--color", "blue", "--colors=never"]), ColorChoice::Always);
    }
}
