//! A schema as a whole: its type, and the definitions its references ask for.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use super::schema::Reader;
use super::text::type_name;
use super::types::{Pointer, Type, UNKNOWN};

/// A whole schema: its type, and the definitions that type mentions.
pub(super) struct Document {
    pub(super) root: Type,
    pub(super) definitions: HashMap<Pointer, Rc<Definition>>,
}

/// What a `$ref` points to.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Definition {
    /// The preferred name, without a number.
    pub(super) base_name: String,
    /// Lines of its doc comment, safe to print.
    pub(super) doc: Vec<String>,
    pub(super) body: Type,
}

/// A schema as one type without names.
pub(super) fn inlined(schema: &Value) -> Type {
    Reader::inlining(schema).read(schema, 0)
}

/// Whether `schema` is the one generators write for a tool without parameters.
pub(super) fn takes_nothing(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    let member = |key: &str| schema.get(key).filter(|value| !value.is_null());
    let closed = |key: &str| matches!(member(key), None | Some(Value::Bool(false)));
    let empty = |key: &str| member(key).is_none_or(|value| value.as_object().is_some_and(Map::is_empty));
    let none = |key: &str| member(key).is_none_or(|value| value.as_array().is_some_and(Vec::is_empty));
    schema.get("type").is_some_and(|name| name == "object")
        && empty("properties")
        && none("required")
        && closed("additionalProperties")
        && !schema.contains_key("const")
        && ["patternProperties", "enum", "nullable", "allOf", "anyOf", "oneOf", "$ref"]
            .iter()
            .all(|key| member(key).is_none())
}

impl Document {
    /// Reads `schema`. A reference to the schema as a whole is named by its title, or else by `fallback_name`.
    pub(super) fn read(schema: &Value, fallback_name: &str) -> Self {
        let mut reader = Reader::naming(schema);
        let mut root = reader.read(schema, 0);
        let mut definitions = HashMap::new();
        let mut order = Vec::new();
        while let Some((pointer, target)) = reader.next_waiting() {
            let base_name = base_name(&pointer, schema, fallback_name);
            let doc = reader.doc(&base_name, target, 0);
            let body = reader.read(target, 0);
            order.push(pointer.clone());
            definitions.insert(pointer, Definition { base_name, doc, body });
        }
        break_cycles(&mut definitions, &order);
        if definitions.contains_key("") {
            root = Type::Named("".into());
        }
        let definitions = definitions.into_iter().map(|(pointer, definition)| (pointer, Rc::new(definition))).collect();
        Self { root, definitions }
    }

    /// Every definition that `from` mentions, directly or through others, in order of first mention.
    pub(super) fn reachable(&self, from: &Type) -> Vec<Pointer> {
        let mut found: Vec<Pointer> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(from);
        let mut read = 0;
        while let Some(ty) = next {
            found.extend(ty.names().into_iter().filter(|name| seen.insert((*name).clone())).cloned());
            next = found.get(read).map(|pointer| &self.definitions[pointer].body);
            read += 1;
        }
        found
    }

    /// `?` if the argument can be omitted.
    pub(super) fn optional_mark(&self) -> &'static str {
        if self.needs_nothing(&self.root, &mut HashMap::new()) { "?" } else { "" }
    }

    /// Whether `ty` admits an object without properties. Answers are kept per name, because the number of paths to a name can
    /// grow exponentially.
    fn needs_nothing(&self, ty: &Type, known: &mut HashMap<Pointer, bool>) -> bool {
        match ty {
            Type::Object(object) => object.members.iter().all(|member| member.optional),
            Type::Union(members) => members.iter().any(|member| self.needs_nothing(member, known)),
            Type::Intersection(members) => members.iter().all(|member| self.needs_nothing(member, known)),
            Type::Named(pointer) => {
                if let Some(answer) = known.get(pointer) {
                    return *answer;
                }
                let answer = self.needs_nothing(&self.definitions[pointer].body, known);
                known.insert(pointer.clone(), answer);
                answer
            }
            ty => *ty == UNKNOWN,
        }
    }
}

/// The preferred name of a definition: the last word of its pointer that is a name chosen by the author.
fn base_name(pointer: &str, root: &Value, fallback: &str) -> String {
    let name = if pointer.is_empty() {
        let title =
            root.get("title").and_then(Value::as_str).filter(|title| title.len() <= MAX_TITLE && title.is_ascii());
        title.and_then(type_name).or_else(|| type_name(fallback))
    } else {
        chosen_word(pointer).and_then(|word| type_name(&word.replace("~1", "/").replace("~0", "~")))
    };
    name.unwrap_or_else(|| "Type".to_owned())
}

fn chosen_word(pointer: &str) -> Option<&str> {
    let words: Vec<&str> = pointer.split('/').collect();
    let chosen = |pair: &&[&str]| CONTAINERS.contains(&pair[0]) || !(is_keyword(pair[1]) || is_index(pair[1]));
    words.windows(2).rev().find(chosen).map(|pair| pair[1])
}

fn is_keyword(word: &str) -> bool {
    CONTAINERS.contains(&word) || KEYWORDS.contains(&word)
}

fn is_index(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Replaces references by `unknown` where a definition refers to itself without a property or element between: such a
/// schema has no meaning, and tsc rejects it.
fn break_cycles(definitions: &mut HashMap<Pointer, Definition>, order: &[Pointer]) {
    for pointer in order {
        let targets: Vec<Pointer> = definitions[pointer].body.bare_names().into_iter().cloned().collect();
        for target in targets {
            if leads_to(definitions, &target, pointer)
                && let Some(definition) = definitions.get_mut(pointer)
            {
                definition.body = std::mem::replace(&mut definition.body, UNKNOWN).without_bare(&target);
            }
        }
    }
}

fn leads_to(definitions: &HashMap<Pointer, Definition>, from: &Pointer, to: &Pointer) -> bool {
    let mut seen = HashSet::from([from]);
    let mut waiting = vec![from];
    while let Some(pointer) = waiting.pop() {
        if pointer == to {
            return true;
        }
        waiting.extend(definitions[pointer].body.bare_names().into_iter().filter(|name| seen.insert(*name)));
    }
    false
}

/// The longest title that names a type, in bytes.
const MAX_TITLE: usize = 40;

/// Keywords whose keys are names that an author chose.
const CONTAINERS: &[&str] = &["$defs", "definitions", "patternProperties", "properties", "schemas"];

/// Other keywords with schemas in them.
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "additionalItems", "additionalProperties", "allOf", "anyOf", "components", "else", "if", "items", "not", "oneOf",
    "prefixItems", "then",
];
