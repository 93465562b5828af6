//! Doc comments: what a caller should know and a type cannot say.

use serde_json::{Map, Value};

use super::ToolSignature;
use super::text::{prose, prose_line, string_literal};

/// The comment above a tool's function.
pub(super) fn tool_doc(tool: &ToolSignature<'_>) -> Vec<String> {
    let mut lines = tool.description.map(prose).unwrap_or_default();
    let own = lines.join(" ");
    for (tag, schema) in [("@param input", tool.input), ("@returns", tool.output)] {
        let text = schema.and_then(|schema| schema.get("description")?.as_str()).map(prose_line);
        if let Some(text) = text.filter(|text| !text.is_empty() && *text != own) {
            lines.push(format!("{tag} {text}"));
        }
    }
    lines
}

/// The comment above the property or type `name`: its description, then its hints as tags.
pub(super) fn doc(name: &str, schema: &Value) -> Vec<String> {
    let sources = sources(schema);
    let mut lines = description(name, &sources);
    lines.extend(sources.iter().flat_map(|schema| described_constants(schema)));
    let tags = tags(&sources);
    if tags.is_empty() {
        return lines;
    }
    match lines.as_mut_slice() {
        [line] if line.len() + tags.len() < ONE_LINE && !line.starts_with("- ") => {
            line.push(' ');
            line.push_str(&tags);
        }
        _ => lines.push(tags),
    }
    lines
}

/// The schemas that describe one value: the schema itself, and the one alternative that is not null if there is one,
/// which is where generators put the hints of an optional value.
fn sources(schema: &Value) -> Vec<&Map<String, Value>> {
    let Some(schema) = schema.as_object() else { return Vec::new() };
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
    let mut described = alternatives.flat_map(|list| list.iter().take(3)).filter(|one| one["type"] != "null");
    match (described.next().and_then(Value::as_object), described.next()) {
        (Some(only), None) => vec![schema, only],
        _ => vec![schema],
    }
}

fn description(name: &str, sources: &[&Map<String, Value>]) -> Vec<String> {
    let text = |key: &str| sources.iter().find_map(|schema| schema.get(key)?.as_str());
    if let Some(description) = text("description") {
        return prose(description);
    }
    // Generators make titles out of names ("Max Results" of max_results): those add nothing.
    let title = sources.first().and_then(|schema| schema.get("title")?.as_str());
    title.filter(|title| letters(title) != letters(name)).map(prose).unwrap_or_default()
}

/// A line for each alternative that is a constant with a description or title.
fn described_constants(schema: &Map<String, Value>) -> Vec<String> {
    let lists = ["oneOf", "anyOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
    let described = lists.flatten().take(MAX_CONSTANTS).filter_map(|one| {
        let constant = one.get("const").or_else(|| only(one.get("enum")?.as_array()?))?;
        let meaning = one.get("description").or_else(|| one.get("title"))?.as_str().map(prose_line)?;
        Some(format!("- {}: {meaning}", short_json(constant)?))
    });
    described.collect()
}

fn only(values: &[Value]) -> Option<&Value> {
    if let [value] = values { Some(value) } else { None }
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).take(100).flat_map(char::to_lowercase).collect()
}

fn tags(sources: &[&Map<String, Value>]) -> String {
    // The type of a tuple contains its length.
    let tuple = sources
        .iter()
        .any(|schema| schema.contains_key("prefixItems") || schema.get("items").is_some_and(Value::is_array));
    // A minimum of zero is redundant for unsigned formats.
    let unsigned = sources.iter().any(|schema| schema.get("format").and_then(Value::as_str).is_some_and(is_unsigned));
    let relevant = TAGS.iter().filter(|tag| !(tuple && matches!(**tag, "minItems" | "maxItems")));
    let tags = relevant.filter_map(|tag| sources.iter().find_map(|schema| tag_text(tag, schema.get(*tag)?, unsigned)));
    tags.collect::<Vec<_>>().join(" ")
}

fn tag_text(tag: &str, value: &Value, unsigned: bool) -> Option<String> {
    let text = match (tag, value) {
        ("format", Value::String(format)) if NUMBERS.contains(&format.as_str()) => return None,
        ("deprecated" | "uniqueItems" | "writeOnly", _) => return value.as_bool()?.then(|| format!("@{tag}")),
        ("format" | "pattern" | "contentEncoding" | "contentMediaType", _) => short_text(value.as_str()?)?,
        ("default" | "example", value) => short_json(value)?,
        ("examples", Value::Array(examples)) => {
            return short_json(examples.first()?).map(|text| format!("@example {text}"));
        }
        ("minimum", Value::Number(number)) if number.as_u64() == Some(0) && unsigned => return None,
        (_, Value::Number(number)) if !is_limit_of_numbers(value) => number.to_string(),
        _ => return None,
    };
    Some(format!("@{tag} {text}"))
}

fn is_unsigned(format: &str) -> bool {
    NUMBERS.contains(&format) && format.starts_with('u')
}

/// A text that is short enough to repeat whole; half of a pattern would mislead.
fn short_text(text: &str) -> Option<String> {
    let short = text.len() <= MAX_HINT;
    short.then(|| prose_line(text)).filter(|text| !text.is_empty())
}

/// Whether a bound is beyond what a double holds exactly: generators add such bounds to every integer.
fn is_limit_of_numbers(value: &Value) -> bool {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    value.as_f64().is_none_or(|number| number.abs() >= LIMIT)
}

fn short_json(value: &Value) -> Option<String> {
    json(value, 3).filter(|text| text.len() <= MAX_HINT)
}

/// A small value as JSON, its strings written as literals are.
fn json(value: &Value, depth: usize) -> Option<String> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) => (text.len() <= MAX_HINT).then(|| string_literal(text)),
        Value::Array(items) if small(items.len(), depth) => {
            let items: Option<Vec<_>> = items.iter().map(|item| json(item, depth - 1)).collect();
            Some(format!("[{}]", items?.join(",")))
        }
        Value::Object(map) if small(map.len(), depth) => {
            let pairs =
                map.iter().map(|(key, value)| Some(format!("{}:{}", string_literal(key), json(value, depth - 1)?)));
            Some(format!("{{{}}}", pairs.collect::<Option<Vec<_>>>()?.join(",")))
        }
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn small(len: usize, depth: usize) -> bool {
    len <= 16 && depth > 0
}

/// The keywords that become tags, in their order in a comment.
#[rustfmt::skip]
const TAGS: &[&str] = &[
    "deprecated", "writeOnly", "format", "pattern", "contentEncoding", "contentMediaType", "minimum",
    "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
    "uniqueItems", "minProperties", "maxProperties", "default", "example", "examples",
];

/// Formats that say how a number is stored at the other end: JavaScript has one kind.
#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "double", "float", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64",
];

/// How many alternatives of one value may be described.
const MAX_CONSTANTS: usize = 50;

/// The longest hint, in bytes; longer ones are left out.
const MAX_HINT: usize = 100;

/// The widest comment, in bytes, that keeps its tags on the line of its description.
const ONE_LINE: usize = 100;
