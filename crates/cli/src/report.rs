//! Output: the log of the program as it runs, its result, its error.
//!
//! The result goes to standard output, everything else to standard error. Control characters are escaped first. A closed pipe
//! is not an error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use execbox::core::error::{SCRIPT_NAME, render};
use execbox::core::text::bytes_text;
use execbox::{ExecuteError, ExecuteResult, Limits, LogLevel, LogLine, StackFrame, Usage};
use execbox_mcp::Secrets;
use serde_json::Value as Json;

use crate::diagnostic::{Diagnostic, SourceLocation};
use crate::source::Source;
use crate::terminal::{colors, safe, safe_json, safe_line};

/// Prints log lines without secrets, one write for each.
pub(crate) fn log_sink(secrets: Secrets) -> impl Fn(&LogLine) + Send + Sync + 'static {
    let colored = colors(io::stderr().is_terminal());
    move |line| write_error(&log_line(line.level, &secrets.redact(line.text.clone()), colored))
}

/// A log line for standard error.
pub(crate) fn log_line(level: LogLevel, text: &str, colored: bool) -> String {
    let text = safe(text);
    match color(level) {
        Some(color) if colored => format!("{color}{text}\x1b[0m\n"),
        _ => format!("{text}\n"),
    }
}

fn color(level: LogLevel) -> Option<&'static str> {
    match level {
        LogLevel::Warn => Some("\x1b[33m"),
        LogLevel::Error => Some("\x1b[31m"),
        LogLevel::Log | LogLevel::Info | LogLevel::Debug => None,
    }
}

/// Prints an error in one line.
pub(crate) fn print_error(error: &impl Display) {
    write_error(&format!("execbox: {}\n", safe_line(&error.to_string())));
}

/// Prints a message to standard error. Lines after the first are indented.
pub(crate) fn note(text: &impl Display) {
    let lines: Vec<String> = text.to_string().lines().map(|line| safe_line(line).into_owned()).collect();
    write_error(&format!("execbox: {}\n", lines.join("\n    ")));
}

/// Prints how many console lines of a program were dropped, beside those that were `kept`, and which option keeps more.
pub(crate) fn note_dropped_logs(dropped: u64, kept: usize, limits: &Limits, chars_option: &str) {
    let (option, limit) = match kept < limits.max_log_lines {
        true => (chars_option, limits.max_log_chars),
        false => ("max-log-lines", limits.max_log_lines),
    };
    if dropped > 0 {
        let (lines, were) = if dropped == 1 { ("line", "was") } else { ("lines", "were") };
        note(&format!("{dropped} more {lines} of the log {were} dropped: `--{option}` raises the limit of {limit}"));
    }
}

/// Prints the resources that an execution used, in one line.
pub(crate) fn print_usage(usage: &Usage, duration: Duration) {
    let colored = colors(io::stderr().is_terminal());
    let text = usage_text(usage, duration);
    write_error(&if colored { format!("\x1b[2m{text}\x1b[0m\n") } else { format!("{text}\n") });
}

fn usage_text(usage: &Usage, duration: Duration) -> String {
    let time = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let mut text = format!("usage: {}", time(duration));
    for (spent, what) in [(usage.cpu_time, "computing"), (usage.host_wait, "waiting for calls")] {
        text += &spent.map(|spent| format!(", {} {what}", time(spent))).unwrap_or_default();
    }
    text += &format!("; {} calls, {} at once", usage.calls, usage.peak_calls_in_flight);
    let sizes = [
        (usage.peak_memory_bytes, "memory"),
        (usage.peak_host_memory_bytes, "host memory"),
        (Some(usage.bytes_in), "in"),
        (Some(usage.bytes_out), "out"),
        (Some(usage.source_bytes), "source"),
    ];
    let sizes = sizes.into_iter().filter_map(|(bytes, what)| Some(format!("{} {what}", bytes_text(bytes?))));
    text + "; " + &sizes.collect::<Vec<_>>().join(", ")
}

/// Prints the whole result as one line of JSON.
pub(crate) fn print_json(result: &ExecuteResult) -> io::Result<()> {
    let json = serde_json::to_string(result).map_err(io::Error::other)?;
    print(&json)
}

/// Prints the value of a result, or its error, and the calls that the program did not await.
pub(crate) fn print_human(result: &ExecuteResult, source: &Source) -> io::Result<()> {
    match &result.outcome {
        Ok(Some(value)) => print_value(value)?,
        Ok(None) => hint_at_undefined("end the program with an expression or a `return`"),
        Err(error) => {
            let colored = colors(io::stderr().is_terminal());
            write_error(&error_text(error, source, colored));
        }
    }
    if let Some(calls) = result.unawaited_text() {
        note(&calls);
    }
    Ok(())
}

fn print_value(value: &Json) -> io::Result<()> {
    let json = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    print(&json)
}

/// On a terminal, explains why no result is printed.
pub(crate) fn hint_at_undefined(instead: &str) {
    if io::stdout().is_terminal() && io::stderr().is_terminal() {
        write_error(&format!("(undefined: {instead} to print something)\n"));
    }
}

/// An error as text, with its place in the source, and its stack. The program has the name that the user gave.
fn error_text(error: &ExecuteError, source: &Source, colored: bool) -> String {
    let message = render(error.name.as_deref(), &error.message, []);
    let place = error.position.map(|position| SourceLocation { name: &source.name, code: &source.code, position });
    let named = |frame: &StackFrame| match frame.file == SCRIPT_NAME {
        true => StackFrame { file: source.name.clone(), ..frame.clone() },
        false => frame.clone(),
    };
    let stack = error.stack.iter().map(named).collect();
    Diagnostic { code: Some(error.code.as_str()), message: &message, place, stack }.text(colored)
}

/// Writes text to standard output, as one or more lines.
pub(crate) fn print(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let line = if stdout.is_terminal() { safe_json(line) } else { Cow::Borrowed(line) };
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Prints text of any length and a line break, without keeping the text.
pub(crate) fn print_parts(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    let stdout = io::stdout().lock();
    let escape: fn(&str) -> Cow<'_, str> = if stdout.is_terminal() { safe_json } else { |text| Cow::Borrowed(text) };
    let mut stdout = io::BufWriter::new(Escaped { to: stdout, escape });
    let written = write(&mut stdout).and_then(|()| writeln!(stdout)).and_then(|()| stdout.flush());
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Writes a title and one line of any length to standard error, without keeping the text. Ignores failures, which cannot be
/// reported.
pub(crate) fn write_error_parts(title: &str, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(title.as_bytes());
    let mut line = io::BufWriter::new(Escaped { to: &mut stderr, escape: safe_line });
    let _ = write(&mut line).and_then(|()| line.flush());
    drop(line);
    let _ = stderr.write_all(b"\n");
}

/// Escapes text as it is written. Each write must contain whole characters: a buffer before this writer does not split what
/// fits into it, and longer text arrives in the writes of its parts.
struct Escaped<W> {
    to: W,
    escape: fn(&str) -> Cow<'_, str>,
}

impl<W: io::Write> io::Write for Escaped<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.to.write_all((self.escape)(&String::from_utf8_lossy(text)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes to standard error in one piece. Ignores failures, which cannot be reported.
pub(crate) fn write_error(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
