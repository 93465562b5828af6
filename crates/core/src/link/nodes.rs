//! The modules and names of a graph while it is being linked.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::error::LinkError;
use crate::language::{Code, Position, Request, Shift};

/// A module, as its index in the linker's list of nodes.
pub(super) type NodeId = usize;

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind<'a>,
}

#[derive(Debug)]
pub(super) enum Kind<'a> {
    /// A module whose source is not compiled yet.
    Unloaded,
    Loaded(Box<Loaded>),
    /// A module that cannot link.
    Broken(Arc<LinkError>),
    /// A module of [`imports`](super::Sources::imports), with the names that it exports.
    Bridge(&'a BTreeSet<String>),
}

/// A compiled module, whose specifiers are all resolved.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) code: Code,
    pub(super) requests: Vec<Request>,
    /// The module that each of `requests` resolves to.
    pub(super) targets: Vec<NodeId>,
    /// The names that other modules must export, in source order.
    pub(super) wanted: Vec<Wanted>,
    pub(super) exported: HashMap<NameId, Provider>,
    /// The targets of `export * from`.
    pub(super) stars: Vec<NodeId>,
    pub(super) types: BTreeSet<String>,
}

impl Loaded {
    /// The memory that the module takes in bytes, without names.
    pub(super) fn bytes(&self) -> usize {
        let specifiers: usize = self.requests.iter().map(|request| request.specifier.len()).sum();
        let types: usize = self.types.iter().map(String::len).sum();
        self.code.text.len()
            + self.code.shifts.len() * size_of::<Shift>()
            + specifiers
            + self.requests.len() * (size_of::<Request>() + 2 * size_of::<NodeId>())
            + self.wanted.len() * 2 * size_of::<Wanted>()
            + self.exported.capacity() * (size_of::<(NameId, Provider)>() + 1) * 8 / 7
            + self.stars.len() * 2 * size_of::<NodeId>()
            + types
            + self.types.len() * 2 * size_of::<String>()
    }
}

/// A name that a module imports or re-exports.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) request: usize,
    pub(super) name: NameId,
    pub(super) position: Position,
}

/// A name of a module.
pub(super) type Goal = (NodeId, NameId);

/// An interned name: an index into [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameId(usize);

/// Interned names.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<Arc<str>, NameId>,
    texts: Vec<Arc<str>>,
    bytes: usize,
}

/// What a name takes in the table beside its text, in bytes.
const NAME_COST: usize = 112;

impl Names {
    pub(super) fn id(&mut self, text: &str) -> NameId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        self.bytes += NAME_COST + text.len();
        let id = NameId(self.texts.len());
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// The memory of the table.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn text(&self, id: NameId) -> &str {
        &self.texts[id.0]
    }
}

/// Where an explicit export gets its value. Exports of `export *` have none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Provider {
    /// A declaration of the module itself, by this local name.
    Local(NameId),
    /// An export of another module.
    Other(Goal),
    /// The namespace of a module.
    Namespace(NodeId),
}
