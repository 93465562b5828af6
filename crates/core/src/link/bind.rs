//! What an exported name is bound to: ECMAScript's `ResolveExport`, without recursion.
//!
//! A name of a module leads to names of other modules (`export { a } from`, `export * from`), and those to
//! others. What it is bound to is every declaration that it leads to, along whatever way: none, one, or
//! more than one, which makes it ambiguous. That is a search in a graph, where circles do no harm.

use std::collections::{HashMap, HashSet};

use super::MAX_STEPS;
use super::linker::{Kind, Node, NodeId};

/// A name of a module.
pub(super) type Goal = (NodeId, NameId);

/// A text, as its number in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameId(usize);

/// Texts, each with a number.
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

/// Where a module gets what it exports under a name, `export *` aside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Provider {
    /// It declares it, by this name.
    Local(NameId),
    /// It is what another module exports.
    Other(Goal),
    /// It is the namespace of a module.
    Namespace(NodeId),
}

/// What a name is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    Bound(Binding),
    /// To both of these.
    Ambiguous(Binding, Binding),
    Missing,
}

/// One declaration, or the namespace of a whole module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) node: NodeId,
    pub(super) name: Option<NameId>,
}

/// Resolves names, and remembers what it was asked.
#[derive(Debug)]
pub(super) struct Resolver {
    known: HashMap<Goal, Resolution>,
    steps: usize,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), steps: MAX_STEPS }
    }

    /// What `goal` is bound to; `None` when the steps are used up.
    pub(super) fn resolve(&mut self, nodes: &[Node<'_>], names: &Names, goal: Goal) -> Option<Resolution> {
        let mut resolution = Resolution::Missing;
        let mut seen = HashSet::new();
        let mut open = vec![goal];
        while let Some(goal @ (node, name)) = open.pop() {
            self.steps = self.steps.checked_sub(1)?;
            if !seen.insert(goal) {
                continue;
            }
            let found = match (self.known.get(&goal), &nodes[node].kind) {
                (Some(known), _) => *known,
                (None, Kind::Bridge(exports)) if exports.contains(names.text(name)) => {
                    Resolution::Bound(Binding { node, name: Some(name) })
                }
                (None, Kind::Loaded(module)) => match module.exported.get(&name) {
                    Some(Provider::Local(local)) => Resolution::Bound(Binding { node, name: Some(*local) }),
                    Some(Provider::Namespace(node)) => Resolution::Bound(Binding { node: *node, name: None }),
                    Some(Provider::Other(goal)) => {
                        open.push(*goal);
                        continue;
                    }
                    None if names.text(name) == "default" => Resolution::Missing,
                    None => {
                        open.extend(module.stars.iter().rev().map(|star| (*star, name)));
                        continue;
                    }
                },
                (None, Kind::Bridge(_) | Kind::Unloaded | Kind::Broken(_)) => Resolution::Missing,
            };
            resolution = both(resolution, found);
            if matches!(resolution, Resolution::Ambiguous(..)) {
                break;
            }
        }
        self.known.insert(goal, resolution);
        Some(resolution)
    }
}

/// What a name is bound to that leads to both.
fn both(one: Resolution, other: Resolution) -> Resolution {
    match (one, other) {
        (Resolution::Missing, found) | (found, Resolution::Missing) => found,
        (Resolution::Bound(one), Resolution::Bound(other)) if one != other => Resolution::Ambiguous(one, other),
        (Resolution::Ambiguous(..), _) => one,
        (_, other) => other,
    }
}
