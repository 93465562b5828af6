//! The shape of values: their types and the names of members, without the values.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

/// The types that values at one place had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Shape {
    /// `null`, booleans, numbers and texts that were seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plain: Vec<Plain>,
    /// The items of lists, if there was a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Box<Shape>>,
    /// The members of objects, if there was an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Members>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Plain {
    Boolean,
    Number,
    String,
    Null,
}

/// The members of the objects at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Members {
    /// By name, each with whether all objects had it.
    Named(BTreeMap<String, (Shape, bool)>),
    /// The shape of all members: the names are data, such as ids.
    Keyed(Box<Shape>),
}

/// How much of a shape may still grow, and of a value may still be looked at.
struct Room {
    shapes: usize,
    values: usize,
}

impl Shape {
    /// Adds a value. Of large values, a part is looked at. `is_name` says which names may be kept.
    pub(super) fn add(&mut self, value: &Json, is_name: &dyn Fn(&str) -> bool) {
        let mut room = Room { shapes: MAX_SHAPES.saturating_sub(self.size()), values: MAX_VALUES };
        self.add_within(value, is_name, &mut room, MAX_DEPTH);
    }

    /// Recurses `depth` levels at most.
    fn add_within(&mut self, value: &Json, is_name: &dyn Fn(&str) -> bool, room: &mut Room, depth: usize) {
        let plain = match value {
            Json::Null => Plain::Null,
            Json::Bool(_) => Plain::Boolean,
            Json::Number(_) => Plain::Number,
            Json::String(_) => Plain::String,
            Json::Array(items) => {
                let shape = self.items.get_or_insert_default();
                if depth > 0 {
                    for item in items.iter().take(MAX_ITEMS) {
                        let Some(left) = room.values.checked_sub(1) else { return };
                        room.values = left;
                        shape.add_within(item, is_name, room, depth - 1);
                    }
                }
                return;
            }
            Json::Object(members) => return self.add_members(members, is_name, room, depth),
        };
        if let Err(at) = self.plain.binary_search(&plain) {
            self.plain.insert(at, plain);
        }
    }

    fn add_members(
        &mut self,
        object: &Map<String, Json>,
        is_name: &dyn Fn(&str) -> bool,
        room: &mut Room,
        depth: usize,
    ) {
        let is_new = self.members.is_none();
        let known = self.members.get_or_insert_with(|| Members::Named(BTreeMap::new()));
        let are_names = object.len() <= MAX_MEMBERS && object.keys().all(|name| is_plain_name(name) && is_name(name));
        if depth == 0 || !are_names {
            known.forget_names();
        }
        match known {
            Members::Named(members) => {
                for (name, (_, is_constant)) in members.iter_mut() {
                    *is_constant &= object.contains_key(name);
                }
                for (name, value) in object {
                    let (shape, _) = match members.entry(name.clone()) {
                        Entry::Occupied(entry) => entry.into_mut(),
                        Entry::Vacant(entry) => {
                            let Some(left) = room.shapes.checked_sub(1) else { continue };
                            room.shapes = left;
                            entry.insert((Self::default(), is_new))
                        }
                    };
                    let Some(left) = room.values.checked_sub(1) else { continue };
                    room.values = left;
                    shape.add_within(value, is_name, room, depth.saturating_sub(1));
                }
                if members.len() > MAX_MEMBERS {
                    known.forget_names();
                }
            }
            Members::Keyed(shape) => {
                for value in object.values().take(if depth == 0 { 0 } else { MAX_ITEMS }) {
                    let Some(left) = room.values.checked_sub(1) else { return };
                    room.values = left;
                    shape.add_within(value, is_name, room, depth - 1);
                }
            }
        }
    }

    /// Adds what another shape has seen.
    fn merge(&mut self, other: Self) {
        for plain in other.plain {
            if let Err(at) = self.plain.binary_search(&plain) {
                self.plain.insert(at, plain);
            }
        }
        if let Some(items) = other.items {
            self.items.get_or_insert_default().merge(*items);
        }
        self.members = match (self.members.take(), other.members) {
            (members, None) | (None, members) => members,
            (Some(Members::Named(mut members)), Some(Members::Named(others))) => {
                for (name, (_, is_constant)) in &mut members {
                    *is_constant &= others.contains_key(name);
                }
                for (name, (shape, is_constant)) in others {
                    let known = members.entry(name).or_insert_with(|| (Self::default(), false));
                    known.0.merge(shape);
                    known.1 &= is_constant;
                }
                Some(Members::Named(members))
            }
            (Some(mut members), Some(mut others)) => {
                let (all, other) = (members.forget_names(), std::mem::take(others.forget_names()));
                all.merge(other);
                Some(members)
            }
        };
    }

    /// The number of shapes in this one, with itself.
    pub(super) fn size(&self) -> usize {
        let items = self.items.as_ref().map_or(0, |items| items.size());
        let members = match &self.members {
            Some(Members::Named(members)) => members.values().map(|(shape, _)| shape.size()).sum(),
            Some(Members::Keyed(shape)) => shape.size(),
            None => 0,
        };
        1 + items + members
    }

    /// Whether the shape, which was read from a file, is one that [`add`](Self::add) can have made.
    pub(super) fn is_bounded(&self) -> bool {
        self.size() <= MAX_SHAPES + 2 * MAX_DEPTH && self.depth() <= MAX_DEPTH + 2 && self.has_names_only()
    }

    fn depth(&self) -> usize {
        let items = self.items.as_ref().map_or(0, |items| items.depth());
        let members = match &self.members {
            Some(Members::Named(members)) => members.values().map(|(shape, _)| shape.depth()).max().unwrap_or(0),
            Some(Members::Keyed(shape)) => shape.depth(),
            None => 0,
        };
        1 + items.max(members)
    }

    fn has_names_only(&self) -> bool {
        let members = match &self.members {
            Some(Members::Named(members)) => {
                members.iter().all(|(name, (shape, _))| is_plain_name(name) && shape.has_names_only())
            }
            Some(Members::Keyed(shape)) => shape.has_names_only(),
            None => true,
        };
        members && self.items.as_ref().is_none_or(|items| items.has_names_only())
    }

    /// The shape as a JSON Schema, from which declarations are printed.
    pub(super) fn schema(&self) -> Json {
        let mut kinds: Vec<Json> = self.plain.iter().map(|plain| json!({ "type": plain })).collect();
        kinds.extend(self.items.as_ref().map(|items| json!({ "type": "array", "items": items.schema() })));
        kinds.extend(self.members.as_ref().map(Members::schema));
        match kinds.len() {
            0 => json!({}),
            1 => kinds.remove(0),
            _ => json!({ "anyOf": kinds }),
        }
    }
}

impl Members {
    /// Makes the names data. Returns the shape of all members.
    fn forget_names(&mut self) -> &mut Shape {
        if let Self::Named(members) = self {
            let mut all = Shape::default();
            for (shape, _) in std::mem::take(members).into_values() {
                all.merge(shape);
            }
            *self = Self::Keyed(Box::new(all));
        }
        match self {
            Self::Keyed(shape) => shape,
            Self::Named(_) => unreachable!("the names were made data"),
        }
    }

    fn schema(&self) -> Json {
        match self {
            Self::Named(members) => {
                let properties: Map<String, Json> =
                    members.iter().map(|(name, (shape, _))| (name.clone(), shape.schema())).collect();
                let required: Vec<&String> =
                    members.iter().filter(|(_, (_, is_constant))| *is_constant).map(|(name, _)| name).collect();
                json!({ "type": "object", "properties": properties, "required": required })
            }
            Self::Keyed(shape) => json!({ "type": "object", "additionalProperties": shape.schema() }),
        }
    }
}

/// Whether the name of a member looks like one that its author has chosen, and not like a value: an id, a date, an address or a
/// path.
fn is_plain_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '-' || c == '$';
    let digits = name.chars().filter(char::is_ascii_digit).count();
    (1..=MAX_NAME).contains(&name.len())
        && name.starts_with(|c| is_word(c) && c != '-')
        && digits <= MAX_DIGITS
        && name.chars().all(|c| is_word(c) || c.is_ascii_digit())
}

/// The maximum number of shapes in one, of values that are looked at in one result, and of nested lists and objects.
const MAX_SHAPES: usize = 200;
const MAX_VALUES: usize = 1_000;
const MAX_DEPTH: usize = 6;

/// How many items of a list are looked at, and the most members of an object with names.
const MAX_ITEMS: usize = 50;
const MAX_MEMBERS: usize = 40;

/// The longest name, in bytes, and the most digits in it.
const MAX_NAME: usize = 40;
const MAX_DIGITS: usize = 3;

#[cfg(test)]
mod tests {
    use execbox::declarations::type_of;
    use proptest::prelude::*;

    use super::*;

    fn shape_of(values: impl IntoIterator<Item = Json>) -> Shape {
        let mut shape = Shape::default();
        values.into_iter().for_each(|value| shape.add(&value, &|name| name != "hunter2"));
        shape
    }

    fn type_text(values: impl IntoIterator<Item = Json>) -> String {
        type_of(&shape_of(values).schema()).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn types_are_those_of_all_values_that_were_seen() {
        for (values, expected) in [
            (vec![], "unknown"),
            (vec![json!("text")], "string"),
            (vec![json!(1), json!(null)], "number | null"),
            (vec![json!([])], "unknown[]"),
            (vec![json!([1, "a"])], "(number | string)[]"),
            (vec![json!({ "id": 1, "name": "a" })], "{ id: number; name: string }"),
            (
                vec![json!({ "id": 1, "tags": [] }), json!({ "id": 2, "tags": ["a"], "closed-at": null })],
                "{ \"closed-at\"?: null; id: number; tags: string[] }",
            ),
            (vec![json!([{ "a": 1 }, { "b": true }])], "{ a?: number; b?: boolean }[]"),
            (vec![json!({ "2026-11-28": { "n": 1 }, "2026-11-29": { "n": 2 } })], "{ [key: string]: { n: number } }"),
            (vec![json!({ "a": 1 }), json!({ "user@example.com": "x" })], "{ [key: string]: number | string }"),
            (vec![json!({ "hunter2": 1 })], "{ [key: string]: number }"),
        ] {
            assert_eq!(type_text(values.clone()), expected, "{values:?}");
        }
    }

    #[test]
    fn the_order_of_results_changes_nothing() {
        let values =
            [json!({ "a": [1], "b": {} }), json!({ "a": ["x"] }), json!([null]), json!({ "a": [], "c": { "d/e": 1 } })];
        let first = shape_of(values.clone());
        for turn in 1..values.len() {
            let mut values = values.clone();
            values.rotate_left(turn);
            assert_eq!(shape_of(values).schema(), first.schema());
        }
    }

    proptest! {
        #[test]
        fn shapes_are_bounded_and_can_be_read_back(values in proptest::collection::vec(any_json(), 1..6)) {
            let shape = shape_of(values);
            prop_assert!(shape.is_bounded(), "{shape:?}");
            let text = serde_json::to_string(&shape).unwrap();
            prop_assert_eq!(serde_json::from_str::<Shape>(&text).unwrap(), shape);
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Json::from),
            any::<i32>().prop_map(Json::from),
            "[a-z]{0,3}".prop_map(Json::from)
        ];
        leaf.prop_recursive(9, 300, 30, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..30).prop_map(Json::Array),
                proptest::collection::hash_map("[a-z]{1,2}[0-9]{0,5}", inner, 0..60)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn large_and_hostile_values_cost_little() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({ "a": [deep] });
        }
        let wide = Json::Object((0..100_000).map(|at| (format!("k{at}"), json!({ "n": at }))).collect());
        let names = |from: usize| {
            Json::Object((from..from + 30).map(|at| (format!("m{at}"), json!({ "x": { "y": 1 } }))).collect())
        };
        let many = (0..100).map(|at| names(at * 30)).collect::<Vec<_>>();
        for values in [vec![deep], vec![wide], many] {
            let shape = shape_of(values);
            assert!(shape.is_bounded() && shape.schema().to_string().len() < 20_000, "{shape:?}");
        }
    }
}
