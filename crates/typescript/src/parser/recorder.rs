//! What a parse records, and returning to an earlier state of it.

use std::collections::HashSet;

use super::Tails;
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
    pub(crate) tails: Tails,
    /// The imports and exports.
    pub(crate) items: ModuleItems,
    /// The names in the braces of the import or export that is read.
    pub(super) specifiers: Vec<Specifier>,
    /// The parameters that are properties, of all constructors that are read.
    pub(super) properties: Vec<Token>,
    /// The offset where the name of a function is missing, which is allowed if it is the only statement of a script.
    pub(crate) nameless_function: Option<u32>,
    pub(crate) language: SourceLanguage,
    /// Offsets of `(` and `<` where an attempt has failed that was part of another one. The attempt would fail again, so the
    /// offsets remain when the parser backtracks.
    refuted: HashSet<u32>,
    /// The offset where the last other attempt has failed.
    last_refuted: Option<u32>,
}

/// What the records show about the language of the source so far, if it is read as TypeScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceLanguage {
    /// JavaScript reads the source in the same way.
    Either,
    /// The source is not valid JavaScript.
    TypeScript,
    /// JavaScript may read the source in another way, which may be meant.
    Ambiguous,
}

impl SourceLanguage {
    /// TypeScript, unless it is ambiguous.
    pub(super) fn typescript_unless(is_ambiguous: bool) -> Self {
        if is_ambiguous { Self::Ambiguous } else { Self::TypeScript }
    }
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
    language: SourceLanguage,
}

impl<'s> Recorder<'s> {
    #[inline]
    pub(super) fn new(scopes: Scopes<'s>) -> Self {
        Self {
            edits: Edits::default(),
            scopes,
            lowered: Lowered::default(),
            tails: Tails::default(),
            items: ModuleItems::default(),
            specifiers: Vec::new(),
            properties: Vec::new(),
            nameless_function: None,
            language: SourceLanguage::Either,
            refuted: HashSet::new(),
            last_refuted: None,
        }
    }

    /// The memory of the records.
    pub(super) fn bytes(&self) -> usize {
        self.edits.bytes()
            + self.scopes.bytes()
            + self.lowered.bytes()
            + self.tails.bytes()
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
            language: self.language,
        }
    }

    pub(super) fn rewind(&mut self, mark: Mark) {
        self.edits.truncate(mark.edits);
        self.scopes.rewind(mark.scopes);
        self.lowered.rewind(mark.lowered);
        self.tails.truncate(mark.tails);
        self.items.rewind(mark.items);
        self.properties.truncate(mark.properties);
        // The attempt may succeed as JavaScript if something in it is ambiguous.
        if self.language != SourceLanguage::Ambiguous {
            self.language = mark.language;
        }
    }

    /// Records that something was read that JavaScript does not read in the same way. Only the first note counts: after it, a
    /// parser of JavaScript could be in another state.
    pub(super) fn note(&mut self, language: SourceLanguage) {
        if self.language == SourceLanguage::Either {
            self.language = language;
        }
    }

    /// Records that the attempt at `start` has failed. `in_attempt` means that it was part of another one.
    pub(super) fn refute(&mut self, start: u32, in_attempt: bool) {
        if in_attempt {
            self.refuted.insert(start);
        } else {
            self.last_refuted = Some(start);
        }
    }

    pub(super) fn is_refuted(&self, start: u32) -> bool {
        self.last_refuted == Some(start) || self.refuted.contains(&start)
    }
}
