//! What is printed: the program's log as it comes, its result, its error. What `execbox run-code` prints is also in
//! [`crate::run_code`].
//!
//! The result goes to standard output, everything else to standard error. All of it is made safe to
//! look at first. A reader that has gone away is no error: whoever closes a pipe has read enough.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use execbox::core::error::{StackFrame, render};
use execbox::{ExecuteError, ExecuteResult, LogLevel, LogLine};
use serde_json::Value as Json;

use crate::diagnostic::{Diagnostic, Place};
use crate::exit::Exit;
use crate::source::{self, Source};
use crate::terminal::{colours, safe, safe_json, safe_line};

/// Shows log lines, one write for each.
pub(crate) fn log_sink() -> impl Fn(&LogLine) + Send + Sync + 'static {
    let coloured = colours(io::stderr().is_terminal());
    move |line| write_error(&log_line(line.level, &line.text, coloured))
}

/// What a program logged, for standard error.
pub(crate) fn log_line(level: LogLevel, text: &str, coloured: bool) -> String {
    let text = safe(text);
    match colour(level) {
        Some(colour) if coloured => format!("{colour}{text}\x1b[0m\n"),
        _ => format!("{text}\n"),
    }
}

fn colour(level: LogLevel) -> Option<&'static str> {
    match level {
        LogLevel::Warn => Some("\x1b[33m"),
        LogLevel::Error => Some("\x1b[31m"),
        LogLevel::Log | LogLevel::Info | LogLevel::Debug => None,
    }
}

/// Says in one line why nothing was run.
pub(crate) fn complain(error: &impl Display) {
    write_error(&format!("execbox: {}\n", safe_line(&error.to_string())));
}

/// Says why there is no result to be seen.
pub(crate) fn unwritten(error: &io::Error) -> Exit {
    complain(&format_args!("cannot write the result to standard output: {}", source::reason(error)));
    Exit::ExecboxFailed
}

/// Says something that is no complaint. Further lines are indented.
pub(crate) fn note(text: &impl Display) {
    let lines: Vec<String> = text.to_string().lines().map(|line| safe_line(line).into_owned()).collect();
    write_error(&format!("execbox: {}\n", lines.join("\n    ")));
}

/// Prints the whole result as one line of JSON.
pub(crate) fn print_json(result: &ExecuteResult) -> io::Result<()> {
    let json = serde_json::to_string(result).map_err(io::Error::other)?;
    print(&json)
}

/// Prints a result for people: its value, or its error.
pub(crate) fn print_human(result: &ExecuteResult, source: &Source) -> io::Result<()> {
    match &result.outcome {
        Ok(Some(value)) => print_value(value),
        Ok(None) => {
            hint_at_undefined("end the program with an expression or a `return`");
            Ok(())
        }
        Err(error) => {
            let coloured = colours(io::stderr().is_terminal());
            write_error(&error_text(error, source, coloured));
            Ok(())
        }
    }
}

fn print_value(value: &Json) -> io::Result<()> {
    let json = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    print(&json)
}

/// Somebody who looks on wonders why nothing is printed; a pipe does not.
pub(crate) fn hint_at_undefined(instead: &str) {
    if io::stdout().is_terminal() && io::stderr().is_terminal() {
        write_error(&format!("(undefined: {instead} to print something)\n"));
    }
}

/// An error, the place in the source that it comes from, and the rest of its stack, which calls the program what its user
/// calls it.
fn error_text(error: &ExecuteError, source: &Source, coloured: bool) -> String {
    let message = render(error.name.as_deref(), &error.message, []);
    let place = error.position.map(|position| Place { name: &source.name, code: &source.code, position });
    let stack = error.stack.iter().map(|frame| StackFrame { file: source.name.clone(), ..frame.clone() }).collect();
    Diagnostic { code: Some(error.code.as_str()), message: &message, place, stack }.text(coloured)
}

/// Writes text to standard output, as one or more lines.
pub(crate) fn print(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let line = if stdout.is_terminal() { safe_json(line) } else { Cow::Borrowed(line) };
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Writes to standard error, in one piece. If that fails there is nobody left to tell.
pub(crate) fn write_error(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
