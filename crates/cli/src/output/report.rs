//! Output: the log of the program as it runs, its result, its error.
//!
//! The result goes to standard output, everything else to standard error. Control characters are escaped first. A closed pipe
//! is not an error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::Style;
use execbox::{ExecuteError, ExecuteResult, Limits, LogLevel, LogLine, StackFrame, Usage};
use execbox_core::error::{SCRIPT_NAME, render};
use execbox_core::text::bytes_text;
use execbox_mcp::Secrets;
use serde_json::Value as Json;

use crate::files::source::Source;
use crate::output::diagnostic::{Diagnostic, SourceLocation};
use crate::output::style::{self, Colors};
use crate::output::terminal::{safe, safe_json, safe_line};

/// Prints log lines without secrets, one write for each.
pub(crate) fn log_sink(secrets: Secrets) -> impl Fn(&LogLine) + Send + Sync + 'static {
    let colors = Colors::of_stderr();
    move |line| write_error(&log_line(line.level, &secrets.redact(line.text.clone()), colors))
}

/// A log line for standard error.
pub(crate) fn log_line(level: LogLevel, text: &str, colors: Colors) -> String {
    let text = safe(text);
    let style = match level {
        LogLevel::Warn => style::WARNING,
        LogLevel::Error => style::ERROR,
        LogLevel::Log | LogLevel::Info | LogLevel::Debug => return format!("{text}\n"),
    };
    colors.paint(style, &text) + "\n"
}

/// Prints why a command failed, in one line.
pub(crate) fn print_error(error: &impl Display) {
    write_message("error:", style::ERROR_PREFIX, &safe_line(&error.to_string()));
}

/// Prints what a user should know or change although the command goes on. Lines after the first are indented.
pub(crate) fn warn(text: &impl Display) {
    write_message("warning:", style::WARNING_PREFIX, &indented(text));
}

/// Prints what a command does or has done. Lines after the first are indented.
pub(crate) fn note(text: &impl Display) {
    write_message("execbox:", style::DETAIL, &indented(text));
}

fn indented(text: &impl Display) -> String {
    let lines: Vec<_> = text.to_string().lines().map(|line| safe_line(line).into_owned()).collect();
    lines.join("\n    ")
}

fn write_message(prefix: &str, style: Style, text: &str) {
    write_error(&format!("{} {text}\n", Colors::of_stderr().paint(style, prefix)));
}

/// Prints how many console lines of a program were dropped, beside those that were `kept`, and which option keeps more.
pub(crate) fn note_dropped_logs(dropped: u64, kept: usize, limits: &Limits, chars_option: &str) {
    let (option, limit) = match kept < limits.max_log_lines {
        true => (chars_option, limits.max_log_chars),
        false => ("max-log-lines", limits.max_log_lines),
    };
    if dropped > 0 {
        let (lines, were) = if dropped == 1 { ("line", "was") } else { ("lines", "were") };
        warn(&format!("{dropped} more {lines} of the log {were} dropped: `--{option}` raises the limit of {limit}"));
    }
}

/// Prints the resources that an execution used.
pub(crate) fn print_usage(usage: &Usage, duration: Duration) {
    for line in usage_lines(usage, duration) {
        write_detail(&line);
    }
}

/// A line for each resource that was used: `calls     3, 2 at once`.
fn usage_lines(usage: &Usage, duration: Duration) -> Vec<String> {
    let time = |time: Duration, what| format!("{:.1} ms{what}", time.as_secs_f64() * 1000.0);
    let size = |bytes: u64, what| (bytes > 0).then(|| format!("{}{what}", bytes_text(bytes)));
    let count = |count: u64, what| (count > 0).then(|| format!("{count}{what}"));
    let at_once = usage.peak_calls_in_flight;
    let rows = [
        (
            "time",
            vec![
                Some(time(duration, "")),
                usage.cpu_time.map(|spent| time(spent, " computing")),
                usage.host_wait.filter(|_| usage.calls > 0).map(|spent| time(spent, " waiting for calls")),
            ],
        ),
        ("calls", vec![count(usage.calls, ""), count(at_once, " at once")]),
        (
            "memory",
            vec![
                usage.peak_memory_bytes.and_then(|bytes| size(bytes, "")),
                usage.peak_host_memory_bytes.and_then(|bytes| size(bytes, " on the host")),
            ],
        ),
        (
            "data",
            vec![size(usage.bytes_in, " in"), size(usage.bytes_out, " out"), size(usage.source_bytes, " of source")],
        ),
    ];
    let rows = rows.map(|(name, parts)| (name, parts.into_iter().flatten().collect::<Vec<_>>()));
    let used = rows.into_iter().filter(|(_, parts)| !parts.is_empty());
    used.map(|(name, parts)| format!("{name:<8}{}", parts.join(", "))).collect()
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
            write_error(&error_text(error, source, Colors::of_stderr()));
        }
    }
    if let Some(calls) = result.unawaited_text() {
        warn(&calls);
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
fn error_text(error: &ExecuteError, source: &Source, colors: Colors) -> String {
    let message = render(error.name.as_deref(), &error.message, []);
    let place = error.position.map(|position| SourceLocation { name: &source.name, code: &source.code, position });
    let named = |frame: &StackFrame| match frame.file == SCRIPT_NAME {
        true => StackFrame::new(frame.function.clone(), source.name.clone(), frame.position()),
        false => frame.clone(),
    };
    let stack = error.stack.iter().map(named).collect();
    Diagnostic { code: Some(error.code.as_str()), message: &message, place, stack }.text(colors)
}

/// Writes text to standard output, as one or more lines.
pub(crate) fn print(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let line = if stdout.is_terminal() { safe_json(line) } else { Cow::Borrowed(line) };
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Writes lines with styles to standard output. Their control characters are escaped already.
pub(crate) fn print_lines(lines: &[String]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = lines.iter().try_for_each(|line| writeln!(stdout, "{line}")).and_then(|()| stdout.flush());
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

/// Writes a line of figures to standard error.
pub(crate) fn write_detail(line: &str) {
    write_error(&(Colors::of_stderr().paint(style::DETAIL, line) + "\n"));
}

/// Writes to standard error in one piece. Ignores failures, which cannot be reported.
pub(crate) fn write_error(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
