//! What a parse records, and returning to an earlier state of it.

use std::collections::HashSet;

use super::Tail;
use super::module::{ItemsMark, ModuleItems, Specifier};
use crate::constructs::{self, Lowered};
use crate::edits::Edits;
use crate::lexer::Token;
use crate::scopes::{self, Scopes};

/// The records of a parse. Their size is charged while tokens are read.
pub(crate) struct Recorder<'s> {
    /// The TypeScript to erase.
    pub(crate) edits: Edits,
    pub(crate) scopes: Scopes<'s>,
    /// The constructs to lower.
    pub(crate) lowered: Lowered,
    /// The possible results of a script.
    pub(crate) tails: Vec<Tail>,
    /// The imports and exports.
    pub(crate) items: ModuleItems,
    /// The names in the braces of the import or export that is read.
    pub(super) specifiers: Vec<Specifier>,
    /// The parameters that are properties, of all constructors that are read.
    pub(super) properties: Vec<Token>,
    /// The offset where the name of a function is missing, which is allowed if it is the only statement of a script.
    pub(crate) nameless_function: Option<u32>,
    /// Offsets of `(` and `<` where an attempt has failed. It fails again, so they remain when the parser goes back.
    pub(super) refuted: HashSet<u32>,
}

/// The number of records, to rewind to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    edits: usize,
    scopes: scopes::Mark,
    lowered: constructs::Mark,
    tails: usize,
    items: ItemsMark,
    properties: usize,
}

impl<'s> Recorder<'s> {
    pub(super) fn new(scopes: Scopes<'s>) -> Self {
        Self {
            edits: Edits::default(),
            scopes,
            lowered: Lowered::default(),
            tails: Vec::new(),
            items: ModuleItems::default(),
            specifiers: Vec::new(),
            properties: Vec::new(),
            nameless_function: None,
            refuted: HashSet::new(),
        }
    }

    /// The memory of the records.
    pub(super) fn bytes(&self) -> usize {
        self.edits.bytes()
            + self.scopes.bytes()
            + self.lowered.bytes()
            + self.tails.capacity() * size_of::<Tail>()
            + self.items.bytes()
            + self.specifiers.capacity() * size_of::<Specifier>()
            + self.properties.capacity() * size_of::<Token>()
            + self.refuted.capacity() * 2 * size_of::<u32>()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            edits: self.edits.len(),
            scopes: self.scopes.mark(),
            lowered: self.lowered.mark(),
            tails: self.tails.len(),
            items: self.items.mark(),
            properties: self.properties.len(),
        }
    }

    pub(super) fn rewind(&mut self, mark: Mark) {
        self.edits.truncate(mark.edits);
        self.scopes.rewind(mark.scopes);
        self.lowered.rewind(mark.lowered);
        self.tails.truncate(mark.tails);
        self.items.rewind(mark.items);
        self.properties.truncate(mark.properties);
    }
}
