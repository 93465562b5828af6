//! Uncaught errors in terms of the sources as the caller gave them.

use crate::contract::explain::{AvailableNames, Explained, explain};
use crate::engine::{Frame, Thrown};
use crate::error::{StackFrame, bounded_stack};

/// What both contracts report of an uncaught error.
pub(super) struct Uncaught {
    /// The error's message and cause, explained where that is possible.
    pub(super) explained: Explained,
    /// The innermost frames.
    pub(super) stack: Vec<StackFrame>,
}

/// `place` locates a frame in the sources. `source` returns the text of a file, and the names that its code can use.
pub(super) fn uncaught<'a>(
    thrown: &Thrown,
    place: impl Fn(&Frame) -> StackFrame,
    source: impl FnOnce(&str) -> Option<(&'a str, AvailableNames<'a>)>,
) -> Uncaught {
    let stack = bounded_stack(thrown.frames.iter().map(place));
    let explained = stack.first().and_then(|frame| {
        let (text, given) = source(&frame.file)?;
        Some(explain(thrown, text, frame.position(), &given))
    });
    let unexplained = || Explained { message: thrown.message.clone(), cause: None };
    Uncaught { explained: explained.unwrap_or_else(unexplained), stack }
}

/// A frame at the place that the engine reports.
pub(super) fn stack_frame(frame: &Frame) -> StackFrame {
    StackFrame {
        function: frame.function.clone(),
        file: frame.file.to_string(),
        line: frame.position.line,
        column: frame.position.column,
    }
}
