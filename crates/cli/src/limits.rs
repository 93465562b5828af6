//! The options that set limits.

use execbox::Limits;

use crate::args::LimitArguments;
use crate::units::{self, UnitError};

/// A limit that means nothing.
#[derive(Debug, thiserror::Error)]
#[error("{option}: {error}")]
pub(crate) struct LimitError {
    option: &'static str,
    error: UnitError,
}

/// The limits, the library's where the command line says nothing.
pub(crate) fn read(arguments: &LimitArguments) -> Result<Limits, LimitError> {
    let mut limits = Limits::default();
    set(&mut limits.timeout, "--timeout", arguments.timeout.as_deref(), units::duration)?;
    set(&mut limits.memory_bytes, "--memory", arguments.memory.as_deref(), units::bytes)?;
    set(&mut limits.max_log_lines, "--max-log-lines", arguments.max_log_lines.as_deref(), units::count)?;
    set(&mut limits.max_log_chars, "--max-log-chars", arguments.max_log_chars.as_deref(), units::count)?;
    let source = arguments.max_source.as_deref();
    set(&mut limits.max_source_bytes, "--max-source", source, |text| {
        units::bytes(text).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    })?;
    Ok(limits)
}

/// Sets a limit if its option was given.
fn set<T>(
    limit: &mut T,
    option: &'static str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, UnitError>,
) -> Result<(), LimitError> {
    if let Some(text) = text {
        *limit = parse(text).map_err(|error| LimitError { option, error })?;
    }
    Ok(())
}
