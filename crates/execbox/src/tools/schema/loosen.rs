//! What follows from keywords that were dropped because they cannot be checked.
//!
//! A schema without one of its keywords admits more values. Most keywords that apply such a schema then admit more values, too.
//! Others would reject values that the author admits, and are loosened:
//!
//! | keyword | becomes |
//! |---|---|
//! | `not`, `if` of a schema that admits too much | nothing |
//! | `oneOf` with one of them | `anyOf` |
//! | `contains` of one of them, with `maxContains` | `contains` without it |
//! | `unevaluated…` where a dropped keyword may describe the part | nothing |

use super::nodes::{Keyword, Keywords, Node, NodeId};

/// What a node lost when keywords were dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    #[default]
    Nothing,
    /// An assertion: the node admits more values.
    Assertion,
    /// A keyword that describes parts of the value, which matters for `unevaluated…`, too.
    Applicator,
}

impl Loss {
    /// What a schema without `keyword` lost.
    pub(super) fn of(keyword: &str) -> Self {
        if APPLICATORS.contains(&keyword) { Self::Applicator } else { Self::Assertion }
    }
}

/// Loosens the keywords that would be wrong because of `losses`, the loss of each node.
pub(super) fn loosen(nodes: &mut [Node], losses: &mut [Loss]) {
    if losses.iter().all(|loss| *loss == Loss::Nothing) {
        return;
    }
    let all = Parents::of(nodes, Node::subschemas);
    let inexact = all.reached_from(losses.iter().map(|loss| *loss > Loss::Nothing).collect());
    for (id, node) in nodes.iter_mut().enumerate() {
        if let (Node::Keywords(keywords), true) = (node, inexact[id])
            && loosen_keywords(keywords, &inexact)
        {
            losses[id] = Loss::Applicator;
        }
    }
    let in_place = Parents::of(nodes, Node::in_place);
    let undescribed = in_place.reached_from(losses.iter().map(|loss| *loss == Loss::Applicator).collect());
    for (id, node) in nodes.iter_mut().enumerate() {
        if let (Node::Keywords(keywords), true) = (node, undescribed[id]) {
            let is_kept = |keyword: &Keyword| {
                !matches!(keyword, Keyword::UnevaluatedItems(_) | Keyword::UnevaluatedProperties(_))
            };
            keywords.list.retain(is_kept);
        }
    }
}

/// Loosens keywords that apply inexact schemas. Returns whether one is dropped that describes parts of the value.
fn loosen_keywords(keywords: &mut Keywords, inexact: &[bool]) -> bool {
    let mut is_if_dropped = false;
    keywords.list.retain_mut(|keyword| match keyword {
        Keyword::Not(schema) => !inexact[*schema],
        Keyword::If { condition, .. } => {
            is_if_dropped |= inexact[*condition];
            !inexact[*condition]
        }
        Keyword::OneOf { schemas, is_exclusive } => {
            *is_exclusive &= !schemas.iter().any(|schema| inexact[*schema]);
            true
        }
        Keyword::Contains { schema, max, .. } => {
            *max = max.filter(|_| !inexact[*schema]);
            true
        }
        _ => true,
    });
    is_if_dropped
}

/// Pairs of a schema and one that applies it, sorted.
struct Parents(Vec<(NodeId, NodeId)>);

impl Parents {
    fn of(nodes: &[Node], children: impl Fn(&Node) -> Vec<NodeId>) -> Self {
        let pairs =
            nodes.iter().enumerate().flat_map(|(id, node)| children(node).into_iter().map(move |child| (child, id)));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    /// The nodes that apply one of `marked`, directly or through others, and those themselves.
    fn reached_from(&self, mut marked: Vec<bool>) -> Vec<bool> {
        let mut waiting: Vec<NodeId> = (0..marked.len()).filter(|id| marked[*id]).collect();
        while let Some(id) = waiting.pop() {
            let from = self.0.partition_point(|(child, _)| *child < id);
            for (_, parent) in self.0[from..].iter().take_while(|(child, _)| *child == id) {
                if !marked[*parent] {
                    marked[*parent] = true;
                    waiting.push(*parent);
                }
            }
        }
        marked
    }
}

/// Keywords that apply schemas to the value or to parts of it.
#[rustfmt::skip]
const APPLICATORS: &[&str] = &[
    "$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "dependencies", "dependentSchemas", "properties",
    "patternProperties", "prefixItems",
];
