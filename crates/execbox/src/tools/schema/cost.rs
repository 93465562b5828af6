//! What a single value can cost. The schemas that apply to the same value are found through references and combinators. Each
//! path through them is walked, so a chain must be short, there must be no cycle, and paths must not multiply.

use super::SchemaError;
use super::nodes::{Node, NodeId};

/// Finds the nodes that exceed the limits and calls `exceeds` for each. If that does not fail, their references and combinators
/// are removed.
pub(super) fn limit(
    nodes: &mut [Node],
    mut exceeds: impl FnMut(NodeId, SchemaError) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    let mut costs: Vec<Option<Cost>> = vec![None; nodes.len()];
    for start in 0..nodes.len() {
        let mut path: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
        enter(start, nodes, &mut costs, &mut path);
        while let Some((id, children)) = path.last_mut() {
            let id = *id;
            let cost = match children.pop() {
                None => total(&nodes[id], &costs),
                Some(child) => match costs[child] {
                    Some(Cost::Open) => Err(SchemaError::Cycle),
                    Some(Cost::Known { .. }) => continue,
                    None => {
                        enter(child, nodes, &mut costs, &mut path);
                        continue;
                    }
                },
            };
            costs[id] = Some(match cost {
                Ok(cost) => cost,
                Err(reason) => {
                    exceeds(id, reason)?;
                    remove_in_place(&mut nodes[id]);
                    Cost::Known { depth: 1, schemas: 1 }
                }
            });
            path.pop();
        }
    }
    Ok(())
}

/// The cost of the schemas that apply to one value.
#[derive(Clone, Copy)]
enum Cost {
    /// The cost that is being computed.
    Open,
    Known {
        depth: usize,
        schemas: usize,
    },
}

fn enter(id: NodeId, nodes: &[Node], costs: &mut [Option<Cost>], path: &mut Vec<(NodeId, Vec<NodeId>)>) {
    if costs[id].is_none() {
        costs[id] = Some(Cost::Open);
        path.push((id, nodes[id].in_place()));
    }
}

fn total(node: &Node, costs: &[Option<Cost>]) -> Result<Cost, SchemaError> {
    let (mut deepest, mut sum) = (0, 1_usize);
    for child in node.in_place() {
        let Some(Cost::Known { depth, schemas }) = costs[child] else { continue };
        deepest = deepest.max(depth);
        sum = sum.saturating_add(schemas);
    }
    match (deepest + 1, sum) {
        (depth, _) if depth > MAX_CHAIN => Err(SchemaError::Chain),
        (_, schemas) if schemas > MAX_IN_PLACE => Err(SchemaError::Branches),
        (depth, schemas) => Ok(Cost::Known { depth, schemas }),
    }
}

fn remove_in_place(node: &mut Node) {
    if let Node::Keywords(keywords) = node {
        keywords.list.retain(|keyword| keyword.in_place().is_empty());
    }
}

/// The most references and combinators in a chain that apply to one value.
pub(super) const MAX_CHAIN: usize = 64;

/// The most schemas that apply to one value, counted once for each path that leads to them.
pub(super) const MAX_IN_PLACE: usize = 100_000;
