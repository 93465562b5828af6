//! The possible results of a script.

use super::ExpressionKind;

/// A possible result of a script: the expression of a last statement, apart from declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) kind: ExpressionKind,
}

/// The possible results of a script, in the order of the source.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    list: Vec<Tail>,
    /// The number of the first ones that declarations may follow, which have to run before the script returns.
    kept: usize,
}

impl Tails {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.list.capacity() * size_of::<Tail>()
    }

    pub(super) fn last(&self) -> Option<&Tail> {
        self.list.last()
    }

    pub(super) fn push(&mut self, tail: Tail) {
        self.list.push(tail);
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.list.truncate(length);
        self.kept = self.kept.min(length);
    }

    /// Removes those from `first` up to `end`, because a statement with a value of its own follows them.
    pub(super) fn replace(&mut self, first: usize, end: usize) {
        self.list.drain(first..end);
        self.kept = if self.kept > end { self.kept - (end - first) } else { self.kept.min(first) };
    }

    /// Keeps those from `first` on as results before a declaration, which has to run if `runs`. A string before it is a directive.
    pub(super) fn keep(&mut self, first: usize, runs: bool) {
        if let [Tail { kind: ExpressionKind::String, .. }] = self.list[first..] {
            self.truncate(first);
        }
        if runs && self.list.len() > first {
            self.kept = self.list.len();
        }
    }

    /// The tails, and for each whether declarations may follow that have to run.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = (Tail, bool)> {
        let kept = self.kept;
        self.list.into_iter().enumerate().map(move |(number, tail)| (tail, number < kept))
    }

    /// Whether declarations may follow one of them that have to run.
    pub(crate) fn are_kept(&self) -> bool {
        self.kept > 0
    }
}
