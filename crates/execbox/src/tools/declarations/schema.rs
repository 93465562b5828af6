//! From a JSON Schema to types.
//!
//! A schema can combine several parts: a reference, a shape of its own (`type`, `enum`, `const`, `properties` …),
//! and combinators. Each part is read separately and the type is the intersection, so siblings of `$ref`, `allOf`
//! and `anyOf` need no special rule; a part without constraints is `unknown` and is dropped.
//!
//! A budget of characters, about the length of the output, bounds the work for every schema: when it is exhausted,
//! each further schema is `unknown` and each list ends. Comments have a separate budget.

use std::collections::{HashSet, VecDeque};

use serde_json::{Map, Value};

use super::hints;
use super::text::{property_name, string_literal};
use super::types::{Member, NEVER, NULL, Object, Pointer, Tuple, Type, UNKNOWN, intersection, record, union};

use crate::tools::schema::reference::percent_decoded;

type Schema = Map<String, Value>;

/// Reads schemas of one document, within the limits.
pub(super) struct Reader<'a> {
    root: &'a Value,
    refs: Refs<'a>,
    /// Characters left for types.
    budget: usize,
    /// Characters left for comments.
    comments: usize,
}

/// How a `$ref` is read.
enum Refs<'a> {
    /// As a name; its target is read later.
    Named { seen: HashSet<Pointer>, waiting: VecDeque<(Pointer, &'a Value)> },
    /// As its target. The stack holds the references being followed.
    Inlined(Vec<Pointer>),
}

impl<'a> Reader<'a> {
    /// A reader that reads references as names.
    pub(super) fn naming(root: &'a Value) -> Self {
        Self::new(root, Refs::Named { seen: HashSet::new(), waiting: VecDeque::new() })
    }

    /// A reader that follows references.
    pub(super) fn inlining(root: &'a Value) -> Self {
        Self::new(root, Refs::Inlined(Vec::new()))
    }

    fn new(root: &'a Value, refs: Refs<'a>) -> Self {
        Self { root, refs, budget: MAX_CHARS, comments: MAX_COMMENT_CHARS }
    }

    /// The type that `schema` describes.
    pub(super) fn read(&mut self, schema: &'a Value, depth: usize) -> Type {
        if depth > MAX_DEPTH || !self.spend(COST) {
            return UNKNOWN;
        }
        match schema {
            Value::Bool(false) => NEVER,
            Value::Object(schema) => self.schema(schema, depth),
            _ => UNKNOWN,
        }
    }

    fn schema(&mut self, schema: &'a Schema, depth: usize) -> Type {
        let parts = [
            self.reference(schema, depth),
            self.shape(schema, depth),
            self.all_of(schema, depth),
            self.one_of(member(schema, "anyOf"), depth),
            self.one_of(member(schema, "oneOf"), depth),
        ];
        let ty = intersection(parts);
        if flag(schema, "nullable") { union([ty, NULL]) } else { ty }
    }

    fn reference(&mut self, schema: &'a Schema, depth: usize) -> Type {
        let Some((pointer, target)) = schema.get("$ref").and_then(|reference| self.resolve(reference.as_str()?)) else {
            return UNKNOWN;
        };
        match &mut self.refs {
            Refs::Named { seen, waiting } => {
                if !seen.contains(&pointer) {
                    if seen.len() == MAX_DEFINITIONS {
                        return UNKNOWN;
                    }
                    seen.insert(pointer.clone());
                    waiting.push_back((pointer.clone(), target));
                }
                Type::Named(pointer)
            }
            Refs::Inlined(following) if following.contains(&pointer) => UNKNOWN,
            Refs::Inlined(following) => {
                following.push(pointer);
                let ty = self.read(target, depth + 1);
                self.leave();
                ty
            }
        }
    }

    fn leave(&mut self) {
        if let Refs::Inlined(following) = &mut self.refs {
            following.pop();
        }
    }

    /// The next schema that has a name and was not read yet.
    pub(super) fn next_waiting(&mut self) -> Option<(Pointer, &'a Value)> {
        match &mut self.refs {
            Refs::Named { waiting, .. } => waiting.pop_front(),
            Refs::Inlined(_) => None,
        }
    }

    /// The schema that `reference` points to, inside this document only.
    fn resolve(&self, reference: &str) -> Option<(Pointer, &'a Value)> {
        let own = self.root.get("$id").and_then(|id| reference.strip_prefix(id.as_str()?.trim_end_matches('#')));
        let fragment = own.unwrap_or(reference).strip_prefix('#').filter(|text| text.len() <= MAX_POINTER)?;
        let pointer = percent_decoded(fragment)?;
        let target = self.root.pointer(&pointer).filter(|target| target.is_object() || target.is_boolean())?;
        Some((pointer.into(), target))
    }

    fn all_of(&mut self, schema: &'a Schema, depth: usize) -> Type {
        intersection(self.each(list(schema, "allOf"), depth).0)
    }

    fn one_of(&mut self, alternatives: Option<&'a Value>, depth: usize) -> Type {
        let Some(alternatives) = alternatives.and_then(Value::as_array).filter(|list| !list.is_empty()) else {
            return UNKNOWN;
        };
        let (mut members, omitted) = self.each(alternatives, depth);
        // A note about missing members helps only if something was kept.
        if omitted > 0 && !members.contains(&UNKNOWN) {
            members.push(Type::Cut { keyword: "unknown", omitted });
        }
        union(members)
    }

    /// Reads as many schemas as the limits allow. Also returns how many are left out.
    fn each(&mut self, schemas: &'a [Value], depth: usize) -> (Vec<Type>, usize) {
        let mut read = Vec::new();
        for schema in schemas.iter().take(MAX_MEMBERS) {
            if self.budget == 0 {
                break;
            }
            read.push(self.read(schema, depth + 1));
        }
        let omitted = schemas.len() - read.len();
        (read, omitted)
    }

    /// The type of the schema without its reference and combinators.
    fn shape(&mut self, schema: &'a Schema, depth: usize) -> Type {
        if let Some(value) = schema.get("const") {
            return self.literal(value, depth + 1);
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            return self.enumeration(values, depth);
        }
        match member(schema, "type") {
            Some(Value::String(name)) => self.of_type(name, schema, depth),
            Some(Value::Array(names)) => self.of_types(names, schema, depth),
            Some(_) => UNKNOWN,
            None => implied_type(schema).map_or(UNKNOWN, |name| self.of_type(name, schema, depth)),
        }
    }

    fn of_types(&mut self, names: &'a [Value], schema: &'a Schema, depth: usize) -> Type {
        let mut seen = HashSet::new();
        let names = names.iter().take(MAX_MEMBERS).map(|name| name.as_str().unwrap_or_default());
        let members: Vec<Type> =
            names.filter(|name| seen.insert(*name)).map(|name| self.of_type(name, schema, depth)).collect();
        if members.is_empty() { UNKNOWN } else { union(members) }
    }

    fn of_type(&mut self, name: &str, schema: &'a Schema, depth: usize) -> Type {
        match name {
            "string" => Type::Keyword("string"),
            "number" | "integer" => Type::Keyword("number"),
            "boolean" => Type::Keyword("boolean"),
            "null" => NULL,
            "array" => self.array(schema, depth),
            "object" => self.object(schema, depth),
            _ => UNKNOWN,
        }
    }

    fn enumeration(&mut self, values: &'a [Value], depth: usize) -> Type {
        let mut members = Vec::new();
        for value in values.iter().take(MAX_MEMBERS) {
            if self.budget == 0 {
                break;
            }
            members.push(self.literal(value, depth + 1));
        }
        let cut = &values[members.len()..];
        if !cut.is_empty() {
            self.spend(cut.len() / READS_PER_CHAR);
            members.push(Type::Cut { keyword: common_keyword(cut), omitted: cut.len() });
        }
        union(members)
    }

    /// The type whose only value is `value`, or the type of such values if that would be long or deep.
    fn literal(&mut self, value: &'a Value, depth: usize) -> Type {
        let keyword = keyword_of(value);
        if depth > MAX_DEPTH || !self.spend(COST) {
            return Type::Keyword(keyword);
        }
        match value {
            Value::Null => NULL,
            Value::Bool(_) | Value::Number(_) => Type::Literal { text: value.to_string(), keyword },
            Value::String(text) if text.len() <= MAX_LITERAL && self.spend(text.len()) => {
                Type::Literal { text: string_literal(text), keyword }
            }
            Value::String(_) => Type::Keyword(keyword),
            Value::Array(items) => self.literal_tuple(items, depth),
            Value::Object(map) => self.literal_object(map, depth),
        }
    }

    fn literal_tuple(&mut self, items: &'a [Value], depth: usize) -> Type {
        if items.len() > MAX_MEMBERS {
            return Type::Array(Box::new(UNKNOWN));
        }
        let elements: Vec<Type> = items.iter().map(|item| self.literal(item, depth + 1)).collect();
        Type::Tuple(Tuple { required: elements.len(), elements, rest: None })
    }

    fn literal_object(&mut self, map: &'a Schema, depth: usize) -> Type {
        let mut object = Object::default();
        for (name, value) in map.iter().take(MAX_MEMBERS) {
            if !self.pays_for(name, depth) {
                break;
            }
            let value = self.literal(value, depth + 1);
            object.members.push(Member {
                doc: Vec::new(),
                readonly: false,
                name: name.clone(),
                optional: false,
                value,
            });
        }
        object.omitted = map.len() - object.members.len();
        if object.omitted > 0 {
            object.index = Some(Box::new(UNKNOWN));
        }
        if map.is_empty() { record(NEVER) } else { Type::Object(object) }
    }

    fn array(&mut self, schema: &'a Schema, depth: usize) -> Type {
        match (member(schema, "prefixItems"), member(schema, "items")) {
            (Some(Value::Array(prefix)), rest) => self.tuple(prefix, rest, schema, depth),
            // Without a readable prefix, any item may be one of the first.
            (Some(_), _) => Type::Array(Box::new(UNKNOWN)),
            // Before 2020 the tuple was in `items`, and the schema of further items in `additionalItems`.
            (_, Some(Value::Array(prefix))) => self.tuple(prefix, member(schema, "additionalItems"), schema, depth),
            (_, Some(Value::Bool(false))) => self.tuple(&[], None, schema, depth),
            (_, items) => {
                let item = items.map_or(UNKNOWN, |items| self.read(items, depth + 1));
                Type::Array(Box::new(item))
            }
        }
    }

    fn tuple(&mut self, prefix: &'a [Value], rest: Option<&'a Value>, schema: &'a Schema, depth: usize) -> Type {
        let longest = count(schema, "maxItems").unwrap_or(usize::MAX);
        let prefix = &prefix[..prefix.len().min(longest)];
        let (elements, omitted) = self.each(prefix, depth);
        let rest = if omitted > 0 {
            Some(UNKNOWN)
        } else {
            rest.filter(|rest| **rest != Value::Bool(false) && longest > elements.len())
                .map(|rest| self.read(rest, depth + 1))
        };
        let required = count(schema, "minItems").unwrap_or(elements.len()).min(elements.len());
        Type::Tuple(Tuple { elements, required, rest: rest.map(Box::new) })
    }

    fn object(&mut self, schema: &'a Schema, depth: usize) -> Type {
        let mut object = self.members(schema, depth);
        object.index =
            if object.omitted > 0 { Some(Box::new(UNKNOWN)) } else { self.index(schema, depth).map(Box::new) };
        if object.members.is_empty() && object.index.is_none() {
            let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            return record(if closed { NEVER } else { UNKNOWN });
        }
        object.reconcile();
        Type::Object(object)
    }

    /// The properties, and those that are required without being described.
    fn members(&mut self, schema: &'a Schema, depth: usize) -> Object {
        let listed = list(schema, "required");
        self.spend(listed.len() / READS_PER_CHAR);
        let required: HashSet<&str> = listed.iter().filter_map(Value::as_str).collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        let described = properties.into_iter().flatten().map(|(name, value)| (name.as_str(), value));
        let mut named = HashSet::new();
        let undescribed = listed
            .iter()
            .filter_map(Value::as_str)
            .filter(|name| properties.is_none_or(|properties| !properties.contains_key(*name)) && named.insert(*name));
        let mut object = Object::default();
        for (name, value) in described.chain(undescribed.map(|name| (name, &ANYTHING))) {
            let full = object.members.len() == MAX_MEMBERS || self.budget == 0;
            match (!full).then(|| self.member(name, value, required.contains(name), depth)).flatten() {
                Some(member) => object.members.push(member),
                None => object.omitted += 1,
            }
        }
        object
    }

    fn member(&mut self, name: &str, schema: &'a Value, required: bool, depth: usize) -> Option<Member> {
        if !self.pays_for(name, depth) {
            return None;
        }
        let doc = self.doc(name, schema, depth);
        let readonly = schema.as_object().is_some_and(|schema| flag(schema, "readOnly"));
        let value = self.read(schema, depth + 1);
        Some(Member { doc, readonly, name: name.to_owned(), optional: !required, value })
    }

    /// The type of values whose keys are not described, if there may be any.
    fn index(&mut self, schema: &'a Schema, depth: usize) -> Option<Type> {
        // Without readable names, any property may be one of those described.
        if ["properties", "patternProperties"].iter().any(|key| member(schema, key).is_some_and(|map| !map.is_object()))
        {
            return Some(UNKNOWN);
        }
        let additional = member(schema, "additionalProperties").filter(|value| **value != Value::Bool(false));
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let schemas: Vec<&Value> =
            additional.into_iter().chain(patterns.into_iter().flat_map(Map::values)).take(MAX_MEMBERS).collect();
        let parts: Vec<Type> = schemas.into_iter().map(|schema| self.read(schema, depth + 1)).collect();
        (!parts.is_empty()).then(|| union(parts))
    }

    /// The comment of `schema`, or nothing if there is no room for it.
    pub(super) fn doc(&mut self, name: &str, schema: &Value, depth: usize) -> Vec<String> {
        if self.comments == 0 {
            return Vec::new();
        }
        let doc = hints::doc(name, schema);
        let cost = doc.iter().map(|text| text.len() + COST + 2 * depth).sum();
        let left = self.comments.checked_sub(cost);
        self.comments = left.unwrap_or(0);
        if left.is_some() { doc } else { Vec::new() }
    }

    /// Spends the cost of a name and the indentation in front of it. Returns false if the name is too long or the budget does
    /// not cover it.
    fn pays_for(&mut self, name: &str, depth: usize) -> bool {
        name.len() <= MAX_LITERAL && self.spend(property_name(name).len() + COST + 2 * depth)
    }

    /// Spends `chars` of the budget. An amount that exceeds the rest empties the budget, so that nothing later is read.
    fn spend(&mut self, chars: usize) -> bool {
        let left = self.budget.checked_sub(chars);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }
}

/// The type that a schema without `type` implies by its other keywords.
fn implied_type(schema: &Schema) -> Option<&'static str> {
    let has = |keys: &[&str]| keys.iter().any(|key| member(schema, key).is_some());
    if has(&["properties", "additionalProperties", "patternProperties"]) || !list(schema, "required").is_empty() {
        Some("object")
    } else if has(&["items", "prefixItems"]) {
        Some("array")
    } else {
        None
    }
}

/// The member `key`. One that is `null` counts as left out, as many serializers write it.
fn member<'a>(schema: &'a Schema, key: &str) -> Option<&'a Value> {
    schema.get(key).filter(|value| !value.is_null())
}

fn list<'a>(schema: &'a Schema, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn flag(schema: &Schema, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn count(schema: &Schema, key: &str) -> Option<usize> {
    schema.get(key)?.as_u64().map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}

fn keyword_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "unknown",
    }
}

fn common_keyword(values: &[Value]) -> &'static str {
    let first = values.first().map_or("unknown", keyword_of);
    if values.iter().all(|value| keyword_of(value) == first) { first } else { "unknown" }
}

/// About how many characters the types of one schema may become. A tool has two schemas.
const MAX_CHARS: usize = 20_000;

/// About how many characters the comments in one schema may become.
const MAX_COMMENT_CHARS: usize = 20_000;

/// The deepest nesting that is read; what lies below is `unknown`.
const MAX_DEPTH: usize = 32;

/// The most members of one object, union, intersection or tuple.
const MAX_MEMBERS: usize = 200;

/// The most definitions of one schema.
const MAX_DEFINITIONS: usize = 200;

/// The longest string literal and property name, in bytes. A longer literal becomes `string`.
const MAX_LITERAL: usize = 200;

/// The longest `$ref`, in bytes.
const MAX_POINTER: usize = 1_024;

/// The minimal cost of a type, in characters.
const COST: usize = 8;

/// The schema of a required property without a description.
static ANYTHING: Value = Value::Bool(true);

/// How many values may be read at the cost of one character.
const READS_PER_CHAR: usize = 8;
