//! Output: results, logs and messages, tables, errors with their source, colors, and text that is safe on a terminal.

pub(crate) mod code_frame;
pub(crate) mod diagnostic;
pub(crate) mod diff;
pub(crate) mod path;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod terminal;
