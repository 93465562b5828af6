//! Resolves exported names to declarations: ECMAScript's `ResolveExport`, without recursion.
//!
//! A re-export (`export { a } from`, `export * from`) refers to names of other modules. A name is bound to all
//! declarations that are reachable this way: none, one, or more than one, which makes it ambiguous. The search visits
//! each name of each module once, so cycles end.

use std::collections::{HashMap, HashSet};

use super::limits::MAX_STEPS;
use super::nodes::{Goal, Kind, NameId, Names, Node, NodeId, Provider};

/// The result of resolving a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    Bound(Binding),
    /// Two of the declarations that it could be bound to.
    Ambiguous(Binding, Binding),
    Missing,
}

/// One declaration, or the namespace of a whole module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) node: NodeId,
    pub(super) name: Option<NameId>,
}

/// Resolves names and caches the results.
#[derive(Debug)]
pub(super) struct Resolver {
    known: HashMap<Goal, Resolution>,
    steps: usize,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), steps: MAX_STEPS }
    }

    /// Resolves `goal`. Returns `None` after [`MAX_STEPS`].
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
            resolution = merge(resolution, found);
            if matches!(resolution, Resolution::Ambiguous(..)) {
                break;
            }
        }
        self.known.insert(goal, resolution);
        Some(resolution)
    }
}

/// Merges what two paths lead to.
fn merge(one: Resolution, other: Resolution) -> Resolution {
    match (one, other) {
        (Resolution::Missing, found) | (found, Resolution::Missing) => found,
        (Resolution::Bound(one), Resolution::Bound(other)) if one != other => Resolution::Ambiguous(one, other),
        (Resolution::Ambiguous(..), _) => one,
        (_, other) => other,
    }
}
