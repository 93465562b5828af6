//! Comparison with the validator of another author, and schemas and values that would take forever.

use futures_util::FutureExt as _;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::nodes::Kind;
use super::*;

fn refused(schema: &Json) -> SchemaError {
    Schema::compile(schema).unwrap_err()
}

fn text(schema: &Json, value: &Json) -> String {
    let error = Schema::compile(schema).unwrap().check(value, "input").unwrap_err();
    error.to_string()
}

#[test]
fn each_violation_has_its_path() {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {"q": {"type": "string"}, "items": {"items": {"type": "object", "required": ["at"]}}},
        "required": ["q"]
    }))
    .unwrap();
    assert_eq!(schema.check(&json!({"q": "x"}), "input"), Ok(()));
    assert_eq!(
        schema.check(&json!({"items": [{}, 5, {"at": 1}]}), "input").unwrap_err().to_string(),
        "input: \"q\" is a required property; input.items[0]: \"at\" is a required property; \
         input.items[1]: 5 is not of type \"object\""
    );
}

#[test]
fn messages_name_the_rule() {
    for (schema, value, message) in [
        (json!({"type": ["string", "null"]}), json!(1), "input: 1 is not of types \"string\", \"null\""),
        (json!({"enum": ["a", 1, null]}), json!("b"), "input: \"b\" is not one of \"a\", 1 or null"),
        (json!({"enum": []}), json!("b"), "input: \"b\" is not allowed: `enum` is empty"),
        (json!({"minimum": 3}), json!(2), "input: 2 is less than the minimum of 3"),
        (json!({"maxLength": 1}), json!("ab"), "input: \"ab\" is longer than 1 character"),
        (json!({"pattern": "^a$"}), json!("b"), "input: \"b\" does not match \"^a$\""),
        (json!({"uniqueItems": true}), json!([1, 1.0]), "input: [1,1.0] has non-unique elements"),
        (
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            json!({"a": 1, "b": 2, "c": 3}),
            "input: unknown properties \"b\", \"c\"; allowed: \"a\"",
        ),
        (
            json!({"additionalProperties": {"items": {"const": 1}}}),
            json!({"b-c": [1, 2]}),
            "input[\"b-c\"][1]: 1 was expected",
        ),
    ] {
        assert_eq!(text(&schema, &value), message);
    }
}

#[test]
fn messages_name_the_nearest_value_or_property() {
    let order = json!({
        "properties": {"status": {"enum": ["open", "paid"]}, "total": {}}, "required": ["status"],
        "additionalProperties": false
    });
    let open = json!({"properties": {"status": {}}, "required": ["status"]});
    let unevaluated = json!({"allOf": [{"properties": {"status": {}}}], "unevaluatedProperties": false});
    let both = json!({"properties": {"status": {}}, "required": ["status"], "unevaluatedProperties": false});
    for (schema, value, message) in [
        (
            &order,
            json!({"status": "opn"}),
            r#"input.status: "opn" is not one of "open" or "paid"; did you mean "open"?"#,
        ),
        (&order, json!({"status": "late"}), r#"input.status: "late" is not one of "open" or "paid""#),
        (&order, json!({"status": "open", "totl": 1}), r#"input: unknown property "totl"; did you mean "total"?"#),
        (
            &order,
            json!({"status": "open", "total": 1, "totl": 1}),
            r#"input: unknown property "totl"; allowed: "status", "total""#,
        ),
        (
            &order,
            json!({"stauts": "open"}),
            r#"input: "status" is a required property, but "stauts" is given; did you mean "status"?"#,
        ),
        (
            &open,
            json!({"stauts": "open"}),
            r#"input: "status" is a required property, but "stauts" is given; did you mean "status"?"#,
        ),
        (
            &both,
            json!({"stauts": "open"}),
            r#"input: "status" is a required property, but "stauts" is given; did you mean "status"?"#,
        ),
        (&unevaluated, json!({"stauts": 1}), r#"input: unknown property "stauts"; did you mean "status"?"#),
        (&unevaluated, json!({"x": 1}), r#"input: unknown property "x"; allowed: "status""#),
        (
            &json!({"unevaluatedProperties": false}),
            json!({"x": 1}),
            r#"input: unknown property "x"; no properties are allowed"#,
        ),
        (
            &json!({"patternProperties": {"^x-": {}}, "additionalProperties": false}),
            json!({"y": 1}),
            r#"input: unknown property "y"; allowed: names that match "^x-""#,
        ),
        (
            &json!({"propertyNames": {"enum": ["status", "total"]}}),
            json!({"stauts": 1}),
            r#"input: "stauts" is not a valid property name: "stauts" is not one of "status" or "total"; did you mean "status"?"#,
        ),
        (
            &json!({"properties": {"zip_code": {}, "city": {}}, "dependentRequired": {"city": ["zip_code"]}}),
            json!({"city": "", "zipcode": ""}),
            r#"input: "zip_code" is a required property, but "zipcode" is given; did you mean "zip_code"?"#,
        ),
        // A known property is no typing error.
        (
            &json!({"properties": {"line1": {}, "line2": {}}, "required": ["line2"]}),
            json!({"line1": ""}),
            r#"input: "line2" is a required property"#,
        ),
        // Nothing is known about other properties.
        (&json!({"required": ["line2"]}), json!({"line1": ""}), r#"input: "line2" is a required property"#),
    ] {
        assert_eq!(text(schema, &value), message);
    }
}

#[test]
fn the_nearest_value_of_a_long_list_is_named() {
    let values: Vec<String> = (0..200).map(|n| format!("value-number-{n}")).collect();
    let message = text(&json!({ "enum": values }), &json!("valeu-number-150"));
    assert!(message.ends_with("…; did you mean \"value-number-150\"?"), "{message}");
    let names: serde_json::Map<String, Json> = values.iter().map(|name| (name.clone(), json!({}))).collect();
    let schema = json!({ "properties": names, "additionalProperties": false });
    assert_eq!(
        text(&schema, &json!({ "valeu-number-150": 1 })),
        "input: unknown property \"valeu-number-150\"; did you mean \"value-number-150\"?"
    );
    let message = text(&schema, &json!({ "x": 1 }));
    assert!(message.ends_with("\"value-number-104\", and 192 more"), "{message}");
}

#[test]
fn alternatives_list_the_values_and_types_that_they_allow() {
    let schema = json!({
        "anyOf": [{ "$ref": "#/$defs/status" }, { "anyOf": [{ "type": "integer" }, { "type": "null" }] }],
        "$defs": { "status": { "type": "string", "enum": ["open", "paid"] } }
    });
    assert_eq!(
        text(&schema, &json!("late")),
        r#"input: "late" is not one of "open", "paid" or null, or of type "integer""#
    );
    assert_eq!(
        text(&schema, &json!("opn")),
        r#"input: "opn" is not one of "open", "paid" or null, or of type "integer"; did you mean "open"?"#
    );
    for (schema, message) in [
        (json!({"oneOf": [{"const": "a"}, {"const": "b"}]}), "input: 1.5 is not one of \"a\" or \"b\""),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "input: 1.5 is not of types \"string\", \"null\""),
        (json!({"anyOf": [{"type": "integer"}, false]}), "input: 1.5 is not of type \"integer\""),
        (json!({"anyOf": [false]}), "input: 1.5 is not allowed: no alternative allows a value"),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "number"}, {"minimum": 1}]}),
            "input: 1.5 matches more than one alternative of oneOf: number 2 and 3",
        ),
    ] {
        assert_eq!(text(&schema, &json!(1.5)), message);
    }
}

#[test]
fn the_violations_of_the_closest_alternative_are_named() {
    let shape = |kind: &str, member: &str| {
        json!({
            "type": "object", "required": ["kind", member], "additionalProperties": false,
            "properties": { "kind": { "const": kind }, member: { "type": "number" }, "color": {} }
        })
    };
    let shapes = json!({
        "oneOf": [{ "$ref": "#/$defs/circle" }, { "$ref": "#/$defs/square" }, { "type": "null" }],
        "$defs": { "circle": shape("circle", "radius"), "square": shape("square", "side") }
    });
    let closest = "in the closest of 3 alternatives: ";
    for (value, message) in [
        // By the discriminator, although the other alternative has fewer violations.
        (
            json!({"color": 1, "kind": "square", "radius": 1}),
            format!(
                "input: {closest}\"side\" is a required property; input: {closest}unknown property \"radius\"; \
                     allowed: \"color\", \"kind\", \"side\""
            ),
        ),
        (json!({"kind": "circle", "radius": "5"}), format!("input.radius: {closest}\"5\" is not of type \"number\"")),
        (
            json!({"kind": "circel", "radius": 5}),
            "input.kind: \"circel\" is not one of \"circle\" or \"square\"; did you mean \"circle\"?".to_owned(),
        ),
        // By the number of violations.
        (json!({"side": 5}), format!("input: {closest}\"kind\" is a required property")),
        // By the type.
        (json!("circle"), "input: \"circle\" is not of types \"object\", \"null\"".to_owned()),
    ] {
        assert_eq!(text(&shapes, &value), message);
    }
    let schema = json!({ "anyOf": [{ "type": "string" }, { "required": ["a"] }] });
    let value = json!({ "b-c": 1 });
    assert_eq!(text(&schema, &value), "input: in the closest of 2 alternatives: \"a\" is a required property");
}

#[test]
fn explanations_are_work_on_the_meter_and_nested_ones_do_not_multiply() {
    let node = |kind: usize| json!({ "type": "object", "required": ["leaf"], "properties": { "next": { "$ref": "#" }, "leaf": { "const": kind } } });
    let schema = Schema::compile(&json!({ "anyOf": (0..8).map(node).collect::<Json>() })).unwrap();
    let value = (0..40).fold(json!({}), |value, _| json!({ "next": value }));
    let error = schema.check(&value, "input").unwrap_err();
    assert_eq!(error.violations().len(), 8, "{error}");
    let wide: Json = (0..1_000).map(|n| json!({ "enum": [format!("value-number-{n}")] })).collect();
    let schema = Schema::compile(&json!({ "items": { "anyOf": wide } })).unwrap();
    let value = json!(["value-number-x"]);
    assert!(schema.check_within(&value, "input", 20_000, &|| false).unwrap_err().violations().len() == 1);
    // Without the comparison of names, the check takes fewer steps.
    assert!(matches!(schema.check_within(&value, "input", 8_000, &|| false), Err(ValidationError::Steps { .. })));
}

#[test]
fn long_messages_are_cut_and_violations_beyond_eight_are_counted() {
    let schema = Schema::compile(&json!({"items": {"type": "integer"}})).unwrap();
    let values: Json = (0..20).map(|_| json!("x".repeat(10_000))).collect();
    let error = schema.check(&values, "input").unwrap_err();
    assert_eq!((error.violations().len(), &*error.violations()[7].path), (8, "input[7]"));
    let message = error.to_string();
    assert!(message.len() < 4_000 && message.ends_with("; and 12 more"), "{}", message.len());
}

#[test]
fn an_invalid_schema_is_rejected_with_a_reason() {
    let reason = |schema: Json| refused(&schema).to_string();
    assert_eq!(
        reason(json!({"type": "strin"})),
        "invalid type \"strin\": expected null, boolean, integer, number, string, array or object"
    );
    assert_eq!(reason(json!({"properties": {"a": {"minLength": -1}}})), "invalid minLength -1: expected a count");
    assert!(matches!(refused(&json!({"$ref": "https://example.com/other.json"})), SchemaError::Reference(_)));
    assert!(matches!(refused(&json!({"pattern": "("})), SchemaError::Pattern(_)));
}

/// `{ "$defs": { "0": …, "1": … } }`, of which `definition` makes each from the reference to the previous one.
fn chain(length: usize, definition: impl Fn(Json) -> Json) -> Json {
    let definitions: serde_json::Map<String, Json> = (0..length)
        .map(|at| {
            let previous = json!({ "$ref": format!("#/$defs/{}", at.saturating_sub(1)) });
            (at.to_string(), if at == 0 { json!({ "type": "string" }) } else { definition(previous) })
        })
        .collect();
    json!({ "$ref": format!("#/$defs/{}", length - 1), "$defs": definitions })
}

fn admits(schema: &Json, value: &Json) -> bool {
    Schema::compile(schema).unwrap().check(value, "input").is_ok()
}

#[test]
fn a_dynamic_reference_leads_to_the_outermost_resource_with_its_anchor() {
    let list = json!({
        "$id": "list",
        "items": { "$dynamicRef": "#item" },
        "$defs": { "any": { "$dynamicAnchor": "item" } }
    });
    let of = |kind: &str| json!({ "$id": kind, "$ref": "list", "$defs": { "item": { "$dynamicAnchor": "item", "type": kind } } });
    let schema = json!({
        "prefixItems": [{ "$ref": "string" }, { "$ref": "integer" }, { "$ref": "list" }],
        "$defs": { "list": list, "string": of("string"), "integer": of("integer") }
    });
    assert!(admits(&schema, &json!([["a"], [1], ["a", 1]])));
    assert!(!admits(&schema, &json!([[1]])));
    assert!(!admits(&schema, &json!([[], ["a"]])));
}

#[test]
fn a_recursive_reference_leads_to_the_outermost_recursive_resource() {
    let tree = json!({ "$id": "tree", "$recursiveAnchor": true, "items": { "$recursiveRef": "#" } });
    let schema = json!({
        "$recursiveAnchor": true, "type": ["array", "integer"], "$ref": "tree", "$defs": { "tree": tree }
    });
    assert!(admits(&schema, &json!([1, [2]])));
    assert!(!admits(&schema, &json!([1, ["a"]])));
    assert!(admits(&json!({ "$ref": "tree", "$defs": { "tree": tree } }), &json!([1, ["a"]])));
}

#[test]
fn scopes_that_multiply_are_refused() {
    // Each resource leads to all others, and each anchor is that of the first of two resources on the way, or of none.
    let schema = |resources: usize| {
        let items: Json = (0..resources).map(|at| json!({ "$ref": format!("r{at}") })).collect();
        let resource = |at: usize| json!({ "$id": format!("r{at}"), "$dynamicAnchor": format!("a{}", at / 2), "prefixItems": items });
        json!({ "prefixItems": items, "$defs": { "all": { "anyOf": (0..resources).map(resource).collect::<Json>() } } })
    };
    assert!(Schema::compile(&schema(4)).is_ok());
    assert_eq!(refused(&schema(40)), SchemaError::Scopes);
}

#[test]
fn relative_names_of_resources_need_no_base() {
    let tree = json!({ "$id": "Tree", "type": "object", "properties": { "next": { "$ref": "Tree" } } });
    assert!(!admits(&tree, &json!({ "next": { "next": 1 } })));
    let schema = json!({ "$id": "http://e", "$ref": "a", "$defs": { "a": { "$id": "/a", "type": "number" } } });
    assert!(!admits(&schema, &json!("a")));
}

#[test]
fn names_of_resources_depend_on_the_draft() {
    let schema = |draft: &str, id: &str| {
        json!({
            "$schema": format!("http://json-schema.org/draft-0{draft}/schema#"),
            "items": { "$ref": "http://e/number" },
            "definitions": { "number": { id: "http://e/number", "type": "number" } }
        })
    };
    for (draft, id) in [("4", "id"), ("4", "$id"), ("6", "$id"), ("7", "$id")] {
        assert!(!admits(&schema(draft, id), &json!(["a"])), "{draft} {id}");
    }
    assert!(matches!(refused(&schema("7", "id")), SchemaError::Reference(_)));
    // Beside `$ref`, `$id` names nothing before 2019.
    let beside = |draft: &str| {
        json!({
            "$schema": draft, "$id": "http://e/a/",
            "items": { "$id": "b/", "$ref": "item" },
            "definitions": { "a": { "$id": "item", "type": "string" }, "b": { "$id": "b/item", "type": "number" } }
        })
    };
    assert!(admits(&beside("http://json-schema.org/draft-07/schema#"), &json!(["a"])));
    assert!(admits(&beside("https://json-schema.org/draft/2020-12/schema"), &json!([1])));
}

#[test]
fn schemas_are_found_below_properties_that_are_named_like_keywords() {
    let schema = json!({ "properties": { "const": { "$anchor": "c", "type": "string" }, "$id": { "$ref": "#c" } } });
    assert!(!admits(&schema, &json!({ "$id": 1 })));
}

#[test]
fn large_numbers_are_multiples_of_small_ones() {
    assert!(admits(&json!({ "multipleOf": 0.5 }), &json!(1e308)));
    assert!(!admits(&json!({ "multipleOf": 0.123_456_789 }), &json!(1e308)));
}

#[test]
fn long_chains_of_references_are_refused() {
    assert_eq!(refused(&chain(3_500, |previous| previous)), SchemaError::Chain);
    let short = Schema::compile(&chain(50, |previous| previous)).unwrap();
    assert!(short.check(&json!("a"), "input").is_ok() && short.check(&json!(1), "input").is_err());
}

#[test]
fn alternatives_that_multiply_are_refused() {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let doubling = |length| chain(length, |previous| json!({ keyword: [previous, previous] }));
        assert_eq!(refused(&doubling(30)), SchemaError::Branches);
        assert!(Schema::compile(&doubling(10)).is_ok());
    }
}

#[test]
fn recursive_schemas_work_and_endless_ones_are_refused() {
    let tree = json!({
        "type": "object", "required": ["v"], "additionalProperties": false,
        "properties": { "v": { "type": "integer" }, "next": { "$ref": "#" }, "all": { "items": { "$ref": "#" } } }
    });
    let schema = Schema::compile(&tree).unwrap();
    let mut value = json!({ "v": 0 });
    for v in 1..90 {
        value = json!({ "v": v, "next": value, "all": [{ "v": v }] });
    }
    assert_eq!(schema.check(&value, "input"), Ok(()));
    assert!(schema.check(&json!({ "v": 1, "all": [{ "v": "x" }] }), "input").is_err());
    assert_eq!(refused(&json!({ "$ref": "#" })), SchemaError::Cycle);
    let pair = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/b" }] }, "b": { "$ref": "#/$defs/a" } } });
    assert_eq!(refused(&pair), SchemaError::Cycle);
}

#[test]
fn deep_values_are_an_error_and_not_a_stack_overflow() {
    let schema = Schema::compile(&json!({ "anyOf": [{ "type": "integer" }, { "items": { "$ref": "#" } }] })).unwrap();
    let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
    assert_eq!(schema.check(&nested(80), "input"), Ok(()));
    assert!(matches!(schema.check(&nested(300), "input"), Err(ValidationError::Depth { .. })));
    // The closest alternative is explained at each level.
    let tree = json!({ "anyOf": [{ "type": "integer" }, { "type": "array", "items": { "$ref": "#" } }] });
    let invalid = (0..80).fold(json!("x"), |value, _| json!([value]));
    let error = text(&tree, &invalid);
    assert!(error.ends_with(r#"in the closest of 2 alternatives: "x" is not of types "integer", "array""#), "{error}");
}

/// The work of messages is work on the meter: a schema and a value must not choose more of it than a check may take.
#[test]
fn messages_are_charged_what_they_take() {
    // A value with all known and many unknown members: for none of them is a name left that may be meant.
    let known = |count: usize| (0..count).map(|n| (format!("known_{n}"), json!(1)));
    let schema = json!({ "properties": known(2_000).map(|(name, _)| (name, json!({}))).collect::<Map<_, _>>(),
        "additionalProperties": false });
    let schema = Schema::compile(&schema).unwrap();
    let unknown = (0..2_000).map(|n| (format!("unknown_{n}"), json!(1)));
    let value = Json::Object(known(2_000).chain(unknown).collect());
    let error = schema.check_within(&value, "input", 100_000, &|| false).unwrap_err();
    assert!(error.to_string().starts_with("input: unknown properties \"unknown_0\""), "{error}");

    // Alternatives that share many constants, which the value has.
    let base: Map<String, Json> = known(200).map(|(name, value)| (name, json!({ "const": value }))).collect();
    let alternatives: Vec<Json> =
        (0..200).map(|n| json!({ "allOf": [{ "$ref": "#/$defs/base" }, { "required": [format!("r{n}")] }] })).collect();
    let schema = json!({ "anyOf": alternatives, "$defs": { "base": { "properties": base } } });
    let schema = Schema::compile(&schema).unwrap();
    let value = Json::Object(known(200).collect());
    assert!(matches!(schema.check_within(&value, "input", 1_500_000, &|| false), Err(ValidationError::Steps { .. })));
    let error = schema.check(&value, "input").unwrap_err();
    assert_eq!(error.to_string(), "input: in the closest of 200 alternatives: \"r0\" is a required property");
}

#[test]
fn schema_times_value_is_bounded() {
    // Each level of the value is checked twice for each level above it.
    let doubling =
        json!({ "anyOf": [{ "items": { "$ref": "#" }, "contains": { "const": "x" } }, { "items": { "$ref": "#" } }] });
    let value = (0..60).fold(json!(1), |value, _| json!([value]));
    let schema = Schema::compile(&doubling).unwrap();
    assert!(matches!(schema.check_within(&value, "input", 1_000_000, &|| false), Err(ValidationError::Steps { .. })));
    let wide = json!({ "items": { "anyOf": (0..1_000).map(|n| json!({ "const": n })).collect::<Json>() } });
    let schema = Schema::compile(&wide).unwrap();
    let value: Json = (0..1_000).map(|_| json!(1_000)).collect();
    assert!(matches!(schema.check_within(&value, "input", 1_000_000, &|| false), Err(ValidationError::Steps { .. })));
    assert!(matches!(
        schema.check_within(&value, "input", MAX_STEPS, &|| true),
        Err(ValidationError::Cancelled { .. })
    ));
}

#[tokio::test]
async fn long_checks_leave_the_reactor() {
    let schema = Arc::new(Schema::compile(&json!({ "items": { "type": "integer" } })).unwrap());
    let numbers: Json = (0..200_000).collect();
    let mut check = Box::pin(schema.check_async(numbers.clone(), "input"));
    assert!((&mut check).now_or_never().is_none(), "continues on another thread");
    assert_eq!(check.await, Ok(numbers));
    let mut mixed: Vec<Json> = (0..200_000).map(Json::from).collect();
    mixed.push("x".into());
    let error = schema.check_async(Json::Array(mixed), "input").await.unwrap_err();
    assert_eq!(error.to_string(), "input[200000]: \"x\" is not of type \"integer\"");
}

#[test]
fn patterns_are_linear_and_what_needs_backtracking_is_not_checked() {
    let evil =
        Schema::compile(&json!({ "patternProperties": { "^(a+)+$": { "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$" } } }));
    let value = json!({ ("a".repeat(50_000)): "a".repeat(50_000) });
    assert!(evil.unwrap().check(&value, "input").is_err());
    let around = Schema::compile(&json!({ "pattern": "^(?!b)a$", "minLength": 1 })).unwrap();
    assert_eq!(around.unchecked()[0].reason, SchemaError::UncheckedPattern("^(?!b)a$".to_owned()));
    assert!(around.check(&json!("x"), "input").is_ok() && around.check(&json!(""), "input").is_err());
}

#[test]
fn compiled_schemas_are_charged() {
    let wide: serde_json::Map<String, Json> =
        (0..10_000).map(|n| (format!("p{n}"), json!({ "type": "string", "enum": ["a", "b"] }))).collect();
    let schema = json!({ "properties": wide });
    let budget = Budget::new(16 << 20);
    let compiled = Schema::compile_within(&schema, &budget).unwrap();
    assert!(budget.used() > 1 << 20, "{budget:?}");
    let refused = Schema::compile_within(&schema, &Budget::new(1 << 20)).unwrap_err();
    assert!(matches!(refused, SchemaError::Size(Refused::Exhausted(_))), "{refused}");
    drop(compiled);
    assert_eq!(budget.used(), 0);
}

fn lenient(schema: &Json) -> Schema {
    Schema::compile_lenient(schema).unwrap()
}

#[test]
fn leniently_only_the_schemas_beyond_a_limit_are_unchecked() {
    let long = lenient(&chain(3_500, |previous| previous));
    assert!(long.unchecked().iter().all(|part| part.reason == SchemaError::Chain));
    assert_eq!(long.unchecked().len() + long.more_unchecked(), 3_500 / MAX_CHAIN);
    assert!(long.check(&json!(1), "input").is_ok());
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let schema = lenient(&chain(30, |previous| json!({ "minLength": 2, keyword: [previous, previous] })));
        assert!(schema.unchecked().iter().all(|part| part.reason == SchemaError::Branches));
        assert!(
            schema.check(&json!("ab"), "input").is_ok() && schema.check(&json!("a"), "input").is_err(),
            "{keyword}"
        );
    }
    let items: Json = (0..40).map(|at| json!({ "$ref": format!("r{at}") })).collect();
    let resource =
        |at: usize| json!({ "$id": format!("r{at}"), "$dynamicAnchor": format!("a{}", at / 2), "prefixItems": items });
    let all: Json = (0..40).map(resource).collect();
    let scopes = lenient(&json!({ "type": "array", "prefixItems": items, "$defs": { "all": { "anyOf": all } } }));
    assert!(scopes.unchecked().iter().all(|part| part.reason == SchemaError::Scopes) && scopes.more_unchecked() > 0);
    assert!(scopes.check(&json!([[[["a"]]]]), "input").is_ok() && scopes.check(&json!(1), "input").is_err());
}

#[test]
fn unchecked_parts_are_bounded_in_number_and_length() {
    let name = "n~/\u{202e}".repeat(100);
    let members: serde_json::Map<String, Json> =
        (0..1_000).map(|n| (format!("{n}{name}"), json!({ "type": name, "pattern": format!("({name}") }))).collect();
    let mut schema = json!({ "properties": members });
    for _ in 0..50 {
        schema = json!({ "items": schema });
    }
    let schema = lenient(&schema);
    assert_eq!((schema.unchecked().len(), schema.more_unchecked()), (8, 1_992));
    for UncheckedPart { place, reason } in schema.unchecked() {
        assert!(place.starts_with('…') && place.chars().count() < 400, "{place}");
        assert!(place.ends_with("/type") || place.ends_with("/pattern"), "{place}");
        assert!(reason.to_string().chars().count() < 2_000, "{reason}");
    }
}

#[test]
fn schemas_that_nest_deeply_are_read_without_recursion() {
    let object = |name: &str, value: Json| Json::Object([(name.to_owned(), value)].into_iter().collect());
    let mut schema = json!({ "type": "int" });
    for _ in 0..20_000 {
        schema = object("items", object("not", schema));
    }
    let compiled = lenient(&schema);
    assert_eq!(compiled.unchecked().len(), 1);
    assert!(compiled.check(&json!([[[]]]), "input").is_ok());
    // Dropping such a value recurses.
    std::mem::forget(schema);
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Json::from),
        (-3_i64..4).prop_map(Json::from),
        prop_oneof![Just(0.5), Just(1.0), Just(2.5)].prop_map(Json::from),
        "[ab]{0,3}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// A schema of any keywords, as of 2020-12.
fn schema() -> impl Strategy<Value = Json> {
    let kind = || prop::sample::select(Kind::ALL.map(|(name, _)| name).to_vec());
    let count = || 0_u64..4;
    let names = || prop::collection::btree_set("[abc]", 0..3);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Json::from),
        kind().prop_map(|kind| json!({ "type": kind })),
        prop::collection::btree_set(kind(), 1..3).prop_map(|kinds| json!({ "type": kinds })),
        value().prop_map(|value| json!({ "const": value })),
        prop::collection::vec(value(), 1..3).prop_map(|values| json!({ "enum": values })),
        (-2_i64..3, -2_i64..3).prop_map(|(min, max)| json!({ "minimum": min, "exclusiveMaximum": max })),
        prop_oneof![Just(json!(2)), Just(json!(0.5))].prop_map(|divisor| json!({ "multipleOf": divisor })),
        (count(), count()).prop_map(|(min, max)| json!({ "minLength": min, "maxLength": max })),
        "\\^?[ab.]{0,2}\\$?".prop_map(|pattern| json!({ "pattern": pattern })),
        (count(), count()).prop_map(|(min, max)| json!({ "minItems": min, "maxItems": max })),
        (count(), count()).prop_map(|(min, max)| json!({ "minProperties": min, "maxProperties": max })),
        Just(json!({ "uniqueItems": true })),
        names().prop_map(|names| json!({ "required": names })),
        ("[abc]", names()).prop_map(|(name, names)| json!({ "dependentRequired": { name: names } })),
        Just(json!({ "$ref": "#/$defs/named" })),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        let list = || prop::collection::vec(inner.clone(), 1..4);
        let map = || prop::collection::btree_map("[abc]", inner.clone(), 0..3);
        let one = || inner.clone();
        prop_oneof![
            list().prop_map(|all| json!({ "allOf": all })),
            list().prop_map(|any| json!({ "anyOf": any })),
            list().prop_map(|one| json!({ "oneOf": one })),
            one().prop_map(|not| json!({ "not": not })),
            (one(), one(), one()).prop_map(|(test, yes, no)| json!({ "if": test, "then": yes, "else": no })),
            (list(), one()).prop_map(|(prefix, rest)| json!({ "prefixItems": prefix, "items": rest })),
            (one(), count(), count())
                .prop_map(|(one, min, max)| json!({ "contains": one, "minContains": min, "maxContains": max })),
            (map(), one()).prop_map(|(named, rest)| json!({ "properties": named, "additionalProperties": rest })),
            (map(), one())
                .prop_map(|(named, other)| json!({ "properties": named, "patternProperties": { "^a|b$": other } })),
            one().prop_map(|names| json!({ "propertyNames": names })),
            map().prop_map(|schemas| json!({ "dependentSchemas": schemas })),
            (list(), map()).prop_map(|(all, named)| {
                json!({ "allOf": all, "properties": named, "unevaluatedProperties": false, "unevaluatedItems": false })
            }),
            (one(), list()).prop_map(|(rest, any)| {
                json!({ "anyOf": any, "unevaluatedProperties": rest, "unevaluatedItems": rest })
            }),
        ]
    })
}

/// A reference to one of three resources, or a dynamic one to an anchor that each of them has. A `$ref` to a dynamic anchor is
/// left out: the other validator takes some of them for dynamic references.
fn reference() -> impl Strategy<Value = Json> {
    let resource = || prop::sample::select(vec!["r0", "r1", "r2"]);
    let anchor = || prop::sample::select(vec!["#a", "#b"]);
    prop_oneof![
        resource().prop_map(|resource| json!({ "$ref": resource })),
        anchor().prop_map(|anchor| json!({ "$dynamicRef": anchor })),
        (resource(), anchor()).prop_map(|(resource, anchor)| json!({ "$dynamicRef": format!("{resource}{anchor}") })),
    ]
}

/// A string, a number, or an array of them to a depth of three.
fn nested() -> impl Strategy<Value = Json> {
    let leaf = || prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!([]))];
    let list = |items: BoxedStrategy<Json>| {
        prop_oneof![1 => leaf(), 4 => prop::collection::vec(items, 1..3).prop_map(Json::from)].boxed()
    };
    list(list(list(leaf().boxed())))
}

/// A resource whose items are described by references. Its anchors are dynamic or not, at its beginning or inside.
fn resource(id: &'static str) -> impl Strategy<Value = Json> {
    let kinds = || prop::sample::select(vec![json!("array"), json!(["array", "string"]), json!(["array", "integer"])]);
    let anchor = || prop::sample::select(vec!["$anchor", "$dynamicAnchor"]);
    let items = || prop_oneof![reference(), kinds().prop_map(|kind| json!({ "type": kind }))];
    (kinds(), any::<bool>(), [anchor(), anchor()], [kinds(), kinds()], [items(), items()]).prop_map(
        move |(kind, is_whole, [a, b], [kind_a, kind_b], [first, rest])| {
            let mut schema = json!({
                "$id": id, "type": kind, "prefixItems": [first], "items": rest,
                "$defs": { "b": { b: "b", "type": kind_b, "items": rest } }
            });
            match is_whole {
                true => schema[a] = json!("a"),
                false => schema["$defs"]["a"] = json!({ a: "a", "type": kind_a }),
            }
            schema
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_same_values_are_valid_as_for_another_validator(
        schema in schema(), named in schema(), values in prop::collection::vec(value(), 8),
    ) {
        let mut document = match schema {
            Json::Object(schema) => schema,
            other => [("allOf".to_owned(), json!([other]))].into_iter().collect(),
        };
        // The definition must not refer to itself.
        let named = if named.to_string().contains("$ref") { json!({ "type": "string" }) } else { named };
        document.insert("$defs".to_owned(), json!({ "named": named }));
        let document = Json::Object(document);
        let ours = Schema::compile(&document).unwrap();
        let other = jsonschema::validator_for(&document).unwrap();
        for value in values {
            prop_assert_eq!(ours.check(&value, "value").is_ok(), other.is_valid(&value), "{} {}", document, value);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn dynamic_references_lead_where_another_validator_goes(
        resources in (resource("http://e/r0"), resource("http://e/r1"), resource("http://e/r2")),
        items in prop::collection::vec(nested(), 16),
    ) {
        let document = json!({ "$id": "http://e/", "prefixItems": [
            { "$ref": "r0" }, { "$ref": "r1" }, { "$ref": "r2" }, { "$ref": "r0" },
        ], "$defs": { "0": resources.0, "1": resources.1, "2": resources.2 } });
        let ours = Schema::compile(&document).unwrap();
        let other = jsonschema::validator_for(&document).unwrap();
        for value in items.chunks(4) {
            let value = Json::from(value);
            prop_assert_eq!(ours.check(&value, "value").is_ok(), other.is_valid(&value), "{} {}", document, value);
        }
    }
}

/// The JSON pointers of all values inside `json`, but for those in values that are no schemas.
fn places_in(json: &Json) -> Vec<String> {
    let mut places = Vec::new();
    let mut waiting = vec![(String::new(), json)];
    while let Some((place, json)) = waiting.pop() {
        match json {
            Json::Object(members) => {
                waiting.extend(members.iter().map(|(name, member)| (format!("{place}/{name}"), member)));
            }
            Json::Array(items) => {
                waiting.extend(items.iter().enumerate().map(|(at, item)| (format!("{place}/{at}"), item)));
            }
            _ => {}
        }
        places.push(place);
    }
    places
}

/// JSON that stands where it should not.
fn misplaced() -> impl Strategy<Value = Json> {
    let texts = ["string", "int", "(?i)^a$", "^(?!b)", "#/$defs/x", "#", "https://example.com/x", "10", "false"];
    prop_oneof![
        2 => value(),
        2 => prop::sample::select(texts.to_vec()).prop_map(Json::from),
        1 => prop::sample::select(vec![json!(-1), json!(1.5), json!({}), json!([]), json!([5]), json!({ "a": 5 })]),
        1 => schema(),
    ]
}

/// A document of a schema and a definition, in one of two drafts.
fn document() -> impl Strategy<Value = Json> {
    (schema(), schema(), any::<bool>()).prop_map(|(schema, named, is_old)| {
        let draft = if is_old { "http://json-schema.org/draft-07/schema#" } else { "" };
        json!({ "$schema": draft, "allOf": [schema], "$defs": { "named": named } })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_value_is_rejected_because_of_a_part_that_cannot_be_read(
        original in document(), at in any::<prop::sample::Index>(), misplaced in misplaced(),
        values in prop::collection::vec(value(), 8),
    ) {
        let mut mutated = original.clone();
        let place = at.get(&places_in(&original)).clone();
        *mutated.pointer_mut(&place).unwrap() = misplaced;
        let (before, after) = (lenient(&original), lenient(&mutated));
        let strict = Schema::compile(&mutated);
        if !after.unchecked().is_empty() {
            let is_expensive = |part: &UncheckedPart| matches!(part.reason, SchemaError::UncheckedPattern(_));
            prop_assert!(strict.is_err() || after.unchecked().iter().all(is_expensive), "{} {}", original, mutated);
        }
        // The original is what the author may have meant, if the mutation is the only part that cannot be read.
        let is_repair = matches!(after.unchecked(), [part] if place.starts_with(&part.place)) && after.more_unchecked() == 0;
        for value in values {
            let admitted = after.check(&value, "value");
            if is_repair && before.unchecked().is_empty() && before.check(&value, "value").is_ok() {
                prop_assert!(admitted.is_ok(), "{} {} {}: {:?}", original, mutated, value, admitted);
            }
            if let Ok(strict) = &strict {
                prop_assert_eq!(strict.check(&value, "value").is_ok(), admitted.is_ok(), "{} {}", mutated, value);
            }
        }
    }
}
