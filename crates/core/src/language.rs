//! What a front end for source text owes the contracts.
//!
//! A [`Language`] turns what a model wrote into what an engine runs, and finds the way back from
//! positions in the latter to positions in the former. The one that ships is the crate
//! `execbox-typescript`. Nothing here parses anything.

use std::fmt;

/// A place in source text. Both numbers are 1-based; columns count UTF-16 code units, as JavaScript does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// 1-based line.
    pub line: u32,
    /// 1-based column, in UTF-16 code units.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Source text that is not a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong, in one sentence, without the position.
    pub message: String,
    /// Where, in the source as it was given.
    pub position: Option<Position>,
}

/// A front end: from what a model wrote to what an engine runs.
pub trait Language: Send + Sync {
    /// Normalises a script (script contract) to *one expression: an async function without
    /// parameters*, whose promise settles with the script's result. The engine evaluates that
    /// expression and calls the function.
    ///
    /// The source can never close the function that is put around it.
    fn script(&self, source: &str) -> Result<String, SyntaxError>;

    /// Maps positions in what [`script`](Self::script) returned for `source` back to positions in
    /// `source`. `None` for places that have no counterpart. Called only when something failed, so
    /// it may do the work of `script` again.
    fn original_positions(&self, source: &str, compiled: &[Position]) -> Vec<Option<Position>>;
}
