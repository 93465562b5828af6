//! For every schema: no panic, bounded text, nothing left open. The expected declarations are in files in `tests/declarations`.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ToolSignature, namespace, outline, signature, type_of};

fn tool<'a>(name: &'a str, input: &'a Value) -> ToolSignature<'a> {
    ToolSignature { safe_name: name, description: None, input: Some(input), output: Some(input) }
}

#[test]
fn an_inlined_recursive_schema_ends_where_it_repeats() {
    let schema = json!({
        "$ref": "#/$defs/Node",
        "$defs": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } } } }
    });
    assert_eq!(type_of(&schema), "{ next?: unknown }");
}

#[test]
fn inlining_doubling_definitions_stays_short() {
    let text = type_of(&doubling(100));
    assert!(text.len() < 200_000, "{} bytes", text.len());
}

#[test]
fn outlines_show_less_the_less_room_there_is() {
    let schema = json!({
        "type": "object",
        "properties": {
            "state": { "enum": ["open", "closed"] },
            "range": { "type": "object", "properties": { "from": { "type": "string" }, "to": { "type": "string" } } },
            "id": { "type": "integer", "description": "Of the issue" }
        },
        "required": ["id"]
    });
    let find = ToolSignature { output: Some(&Value::Bool(true)), ..tool("find", &schema) };
    for (max, shown) in [
        (
            150,
            r#"find({ state?: "open" | "closed"; range?: { from?: string; to?: string }; id: number }): Promise<unknown>"#,
        ),
        (90, r#"find({ state?: "open" | "closed"; range?: {…}; id: number }): Promise<unknown>"#),
        (50, "find({ id: number; … }): Promise<unknown>"),
        (30, "find({…}): Promise<unknown>"),
        (10, "find(…)"),
    ] {
        assert_eq!(outline(&find, max), shown, "{max}");
    }
    assert_eq!(outline(&tool("none", &json!({ "type": "object" })), 90), "none(): Promise<{ [key: string]: unknown }>");
    let many: Vec<usize> = (0..1_000).collect();
    let text = outline(&tool("many", &json!({ "enum": many })), 400);
    assert!(text.ends_with("10 | 11 | …>") && text.len() <= 400, "{text}");
    let deep = doubling(100);
    assert!(outline(&tool("deep", &deep), 400).len() <= 400);
}

#[test]
fn named_doubling_definitions_stay_short() {
    let schema = doubling(100);
    let text = signature(&tool("f", &schema));
    assert!(text.len() < 20_000, "{} bytes", text.len());
}

#[test]
fn very_many_of_everything_stays_short() {
    let names: Vec<String> = (0..50_000).map(|n| format!("key{n}")).collect();
    let properties: Value =
        names.iter().map(|name| (name.clone(), json!({ "description": "x".repeat(500) }))).collect();
    let schema =
        json!({ "type": "object", "properties": properties, "required": names, "oneOf": names, "allOf": names });
    let of_enum = json!({ "enum": names });
    assert!(namespace("n", None, &[tool("a", &schema), tool("b", &of_enum)]).len() < 200_000);
}

#[test]
fn nesting_far_beyond_what_a_parser_lets_through_is_cut() {
    let mut schema = json!({ "type": "string" });
    for _ in 0..300 {
        schema = json!({ "type": "array", "items": schema });
    }
    assert_eq!(type_of(&schema), format!("unknown{}", "[]".repeat(33)));
}

/// Definitions that each mention the next one twice.
fn doubling(count: usize) -> Value {
    let next = |n: usize| json!({ "$ref": format!("#/$defs/T{}", n + 1) });
    let one = |n: usize| (format!("T{n}"), json!({ "properties": { "left": next(n), "right": next(n) } }));
    json!({ "$ref": "#/$defs/T0", "$defs": (0..count).map(one).collect::<Value>() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_gives_declarations_that_are_closed(
        schemas in proptest::collection::vec(schema(), 1..4),
        description in ".{0,40}",
    ) {
        let tools: Vec<_> = schemas
            .iter()
            .map(|schema| ToolSignature { description: Some(&description), ..tool("f", schema) })
            .collect();
        for text in [namespace("n", Some(&description), &tools), signature(&tools[0]), type_of(&schemas[0])] {
            prop_assert!(is_closed(&text), "{text}");
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
        prop_assert_eq!(namespace("n", None, &tools), namespace("n", None, &tools));
    }
}

/// JSON in which the words of JSON Schema are frequent, in right places and in wrong ones.
fn schema() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "string",
        "object",
        "array",
        "null",
        "integer",
        "#",
        "#/$defs/a",
        "#/$defs/b",
        "#/properties/a",
        "#/items",
        "*/",
        "//",
        "`",
        "${",
        "\u{2028}",
        "\u{202e}",
        "\\",
        "\"",
    ]);
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2..9).prop_map(Value::from),
        words.prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 80, 6, |inner| {
        let key = prop_oneof![
            4 => prop::sample::select(KEYS).prop_map(str::to_owned),
            1 => ".{0,6}".prop_map(String::from),
        ];
        let map = proptest::collection::vec((key, inner.clone()), 0..6).prop_map(|pairs| pairs.into_iter().collect());
        prop_oneof![1 => proptest::collection::vec(inner, 0..5).prop_map(Value::Array), 3 => map]
    })
}

#[rustfmt::skip]
const KEYS: &[&str] = &[
    "type", "properties", "required", "items", "prefixItems", "additionalProperties", "patternProperties", "anyOf",
    "oneOf", "allOf", "$ref", "$defs", "definitions", "enum", "const", "nullable", "minItems", "maxItems",
    "description", "title", "default", "examples", "pattern", "deprecated", "readOnly", "a", "b", "not",
    "additionalItems", "$id",
];

/// Whether every bracket, comment and string of `text` is closed, and `*/` occurs only where a comment ends.
fn is_closed(text: &str) -> bool {
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '/' if rest.starts_with('*') => match rest[1..].split_once("*/") {
                Some((_, after)) => rest = after,
                None => return false,
            },
            '"' => match string_end(rest) {
                Some(end) if !rest[..end].contains("*/") => rest = &rest[end..],
                _ => return false,
            },
            '{' | '[' | '(' => open.push(c),
            '}' if open.pop() != Some('{') => return false,
            ']' if open.pop() != Some('[') => return false,
            ')' if open.pop() != Some('(') => return false,
            '*' | '`' | '\\' => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// The length of the rest of a string literal, its closing quote included.
fn string_end(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            '\n' => return None,
            '"' if !escaped => return Some(at + 1),
            c => escaped = c == '\\' && !escaped,
        }
    }
    None
}
