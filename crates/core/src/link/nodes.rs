//! The modules and names of a graph while it is being linked.

use std::collections::{BTreeSet, HashMap};

use super::error::LinkError;
use crate::language::{Code, Position, Request};

/// A module, as its index in the linker's list of nodes.
pub(super) type NodeId = usize;

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind<'a>,
}

#[derive(Debug)]
pub(super) enum Kind<'a> {
    /// It has a source, which is not compiled yet.
    Unloaded,
    Loaded(Loaded),
    /// It cannot link.
    Broken(LinkError),
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
    ids: HashMap<String, NameId>,
    texts: Vec<String>,
}

impl Names {
    pub(super) fn id(&mut self, text: &str) -> NameId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = NameId(self.texts.len());
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    pub(super) fn text(&self, id: NameId) -> &str {
        &self.texts[id.0]
    }
}

/// Where an explicit export gets its value, so all but those of `export *`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Provider {
    /// A declaration of the module itself, by this local name.
    Local(NameId),
    /// An export of another module.
    Other(Goal),
    /// The namespace of a module.
    Namespace(NodeId),
}
