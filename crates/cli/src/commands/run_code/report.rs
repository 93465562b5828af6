//! Output of `execbox run-code`: reports and log as the program runs, then its result or error, and its status.
//!
//! As in [`crate::output::report`], the result goes to standard output, everything else to standard error, and control characters are
//! escaped first.

use std::io;
use std::time::Duration;

use bytesize::ByteSize;
use execbox::code::{CodeExecutionError, CodeExecutionLog, CodeExecutionResult, Graph, Status};
use execbox_core::contract::module::{Failure, Record};
use execbox_core::error::render;

use execbox::{Position, StackFrame};

use super::options::Sources;
use super::{Job, notation};
use crate::output::diagnostic::{Diagnostic, SourceLocation};
use crate::output::report::{
    hint_at_undefined, log_line, note_dropped_logs, print_parts, warn, write_detail, write_error, write_error_parts,
};
use crate::output::style::{self, Colors};

/// Prints reports as they arrive, unless `silent`.
pub(super) fn report_sink(silent: bool) -> impl Fn(&Graph) + Send + Sync + 'static {
    let title = Colors::of_stderr().paint(style::NAME, "report") + " ";
    move |report| {
        if !silent {
            write_error_parts(&title, |to| notation::write_line(report, report.root(), to));
        }
    }
}

/// Prints console calls as they arrive, unless `silent`.
pub(super) fn log_sink(silent: bool) -> impl Fn(&CodeExecutionLog) + Send + Sync + 'static {
    let colors = Colors::of_stderr();
    move |log| {
        if !silent {
            write_error(&log_text(log, colors));
        }
    }
}

/// The result, or a failure if the value nests too deep for JSON.
pub(super) fn as_json_allows(result: CodeExecutionResult) -> CodeExecutionResult {
    let json = result.as_json();
    let written = serde_json::to_writer(io::sink(), &json);
    let Some(error) = json.refusal().filter(|_| written.is_err()) else { return result };
    let mut failed = failed(Failure::serialization(&error));
    (failed.duration, failed.usage) = (result.duration, result.usage);
    failed
}

/// Prints the whole result as one line of JSON, without keeping its text.
pub(super) fn print_json(result: &CodeExecutionResult) -> io::Result<()> {
    print_parts(|stdout| Ok(serde_json::to_writer(stdout, &result.as_json())?))
}

/// Prints a result as text.
pub(super) fn print_human(mut result: CodeExecutionResult, job: &Job) -> io::Result<()> {
    let sources = &job.sources;
    match (&result.result, &result.error) {
        (Some(value), _) if value.root().is_undefined() => hint_at_undefined("export a value, or return one"),
        (Some(value), _) => print_parts(|stdout| notation::write_block(value, value.root(), stdout))?,
        (None, Some(error)) => write_error(&error_text(result.status, error, sources, Colors::of_stderr())),
        (None, None) => {}
    }
    for place in result.unawaited.iter_mut().flat_map(|calls| &mut calls.places) {
        place.at = place.at.as_ref().map(|frame| with_path(frame, sources));
    }
    if let Some(calls) = result.unawaited_text() {
        warn(&calls);
    }
    if !job.quiet {
        note_dropped_logs(result.dropped_logs, result.logs.len(), &job.limits, "max-log-bytes");
        write_detail(&status_text(&result));
    }
    Ok(())
}

/// A console call: strings unchanged, other values as in reports.
fn log_text(log: &CodeExecutionLog, colors: Colors) -> String {
    let args = log.args.items(log.args.root()).unwrap_or_default();
    let words = args.iter().map(|arg| arg.as_str().map_or_else(|| notation::line(&log.args, arg), str::to_owned));
    log_line(log.level, &words.collect::<Vec<_>>().join(" "), colors)
}

fn error_text(status: Status, error: &CodeExecutionError, sources: &Sources, colors: Colors) -> String {
    let source = error.filename.as_deref().and_then(|filename| sources.get(filename));
    let place = source.and_then(|source| {
        let position = Position { line: error.line?, column: error.column? };
        Some(SourceLocation { name: &source.name, code: &source.code, position })
    });
    let message = render(Some(&error.name), &error.message, []);
    let stack = error.stack.iter().map(|frame| with_path(frame, sources)).collect();
    // `error[error]` would be a repetition.
    let code = (status != Status::Error).then(|| status.as_str());
    Diagnostic { code, message: &message, place, stack }.text(colors)
}

/// The frame with the path of its file instead of the file's name in the program.
fn with_path(frame: &StackFrame, sources: &Sources) -> StackFrame {
    let file = sources.get(&frame.file).map_or(&frame.file, |source| &source.name);
    StackFrame::new(frame.function.clone(), file.clone(), frame.position())
}

/// The status, the duration and the peak memory.
fn status_text(result: &CodeExecutionResult) -> String {
    let milliseconds = result.duration.as_secs_f64() * 1000.0;
    let memory = result.usage.peak_memory_bytes.map(|bytes| format!(", {}", ByteSize(bytes).display().iec()));
    format!("{} in {milliseconds:.1} ms{}", result.status.as_str(), memory.unwrap_or_default())
}

/// The result of a run that did not start.
pub(super) fn failed(failure: Failure) -> CodeExecutionResult {
    Record::default().finish(failure.into(), Duration::ZERO, 0, |_| ())
}
