//! Resolves exported names to declarations: ECMAScript's `ResolveExport`, without recursion.
//!
//! A re-export (`export { a } from`, `export * from`) refers to names of other modules. A name is bound to all
//! declarations that are reachable this way: none, one, or more than one, which makes it ambiguous. The search visits
//! each name of each module once, so cycles end.

use std::collections::{HashMap, HashSet};

use crate::budget::Refused;

use super::costs::Costs;
use super::nodes::{Goal, Kind, NameId, Names, Node, NodeId, Provider};

/// The result of resolving a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    Bound(Binding),
    /// Two of the declarations that the name could be bound to.
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
}

/// The memory of a lookup that is remembered, and of one that was visited, with room in their tables.
const KNOWN: usize = 2 * size_of::<(Goal, Resolution)>();
const VISITED: usize = 4 * size_of::<Goal>();

impl Resolver {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new() }
    }

    /// Resolves `goal`.
    pub(super) fn resolve(
        &mut self,
        nodes: &[Node<'_>],
        names: &Names,
        goal: Goal,
        costs: &mut Costs<'_>,
    ) -> Result<Resolution, Refused> {
        costs.kept.add(KNOWN)?;
        let mut visited = costs.budget.charge(VISITED)?;
        let mut resolution = Resolution::Missing;
        let mut seen = HashSet::new();
        let mut open = vec![goal];
        while let Some(goal @ (node, name)) = open.pop() {
            costs.step()?;
            if !seen.insert(goal) {
                continue;
            }
            visited.add(VISITED)?;
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
                        visited.add(module.stars.len() * 2 * size_of::<Goal>())?;
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
        Ok(resolution)
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
