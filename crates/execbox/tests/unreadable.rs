//! Schemas of other people, of which some parts cannot be read: each case in `tests/unreadable`.
//!
//! A case has a schema and these fields:
//!
//! | field | meaning |
//! |---|---|
//! | `unchecked: PLACE REASON`, for each | the parts that are not checked; the place of the schema as a whole is `(all)` |
//! | `valid: [VALUE, …]`, `invalid: [VALUE, …]` | values that the schema admits and rejects |
//! | `type: TYPE` | the type in declarations |
//!
//! Unless a reference in it leads elsewhere then, the schema is also put at other depths of a schema.

use std::fs;
use std::path::Path;

use execbox::declarations::type_of;
use execbox::{Provider, ProviderError, Schema, Tool};
use execbox_testkit::cases::{Case, CaseFile};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

#[test]
fn unreadable_parts_are_not_checked_and_reported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unreadable");
    for file in CaseFile::read_all(folder) {
        for case in &file.cases {
            let expected = Expected::of(case);
            expected.check(&case.title);
            if !case.body().contains("\"#") {
                expected.check_inside_other_schemas(&case.title);
            }
        }
    }
}

struct Expected {
    schema: Json,
    /// The place and the reason of each unchecked part, sorted.
    unchecked: Vec<(String, String)>,
    valid: Vec<Json>,
    invalid: Vec<Json>,
    type_text: Option<String>,
}

impl Expected {
    fn of(case: &Case) -> Self {
        let fields = case.fields();
        let values = |key: &str| -> Vec<&str> {
            fields.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect()
        };
        let known = ["unchecked", "valid", "invalid", "type"];
        assert!(fields.iter().all(|(key, _)| known.contains(&key.as_str())), "{}: unknown field", case.title);
        let lists = |key: &str| -> Vec<Json> {
            let lists = values(key).into_iter().map(serde_json::from_str::<Vec<Json>>);
            lists.flat_map(|list| list.unwrap_or_else(|error| panic!("{}: {error}", case.title))).collect()
        };
        let unchecked = values("unchecked").into_iter().map(|part| {
            let (place, reason) = part.split_once(' ').unwrap();
            (place.replace("(all)", ""), reason.to_owned())
        });
        let mut unchecked: Vec<_> = unchecked.collect();
        unchecked.sort();
        Self {
            schema: serde_json::from_str(case.body()).unwrap_or_else(|error| panic!("{}: {error}", case.title)),
            unchecked,
            valid: lists("valid"),
            invalid: lists("invalid"),
            type_text: values("type").first().map(|text| (*text).to_owned()),
        }
    }

    fn check(&self, title: &str) {
        let schema = Schema::compile_lenient(&self.schema).unwrap();
        for (values, is_valid) in [(&self.valid, true), (&self.invalid, false)] {
            for value in values {
                let checked = schema.check(value, "value");
                assert_eq!(checked.is_ok(), is_valid, "{title}: {value} is wrongly valid or invalid: {checked:?}");
            }
        }
        if let Some(text) = &self.type_text {
            assert_eq!(type_of(&self.schema), *text, "{title}");
        }
        let (provider, errors) = self.builder().build_valid().unwrap();
        assert_eq!(provider.manifest().tools.len(), 1, "{title}: {errors:?}");
        for schema in ["input", "output"] {
            let of_schema = errors.iter().filter_map(|error| match error {
                ProviderError::UncheckedSchema { which, place, reason, .. } if *which == schema => {
                    Some((place.clone(), reason.to_string()))
                }
                _ => None,
            });
            let mut found: Vec<_> = of_schema.collect();
            found.sort();
            assert_eq!(found, self.unchecked, "{title}: {schema}");
        }
        assert_eq!(errors.len(), 2 * self.unchecked.len(), "{title}: {errors:?}");
        assert!(self.unchecked.is_empty() || self.builder().build().is_err(), "{title}: the strict builder succeeds");
    }

    fn builder(&self) -> execbox::ProviderBuilder {
        let tool = Tool::new("t", async |input, _| Ok(input));
        Provider::builder("p").tool(tool.input_schema(self.schema.clone()).output_schema(self.schema.clone()))
    }

    fn check_inside_other_schemas(&self, title: &str) {
        let name = |value: &Json| json!({ "n": value });
        let list = |value: &Json| json!([value]);
        let itself = |value: &Json| value.clone();
        self.inside("/properties/n", |schema| json!({ "properties": { "n": schema } }), name).check(title);
        // An array would be schemas of the first items.
        if !self.schema.is_array() {
            self.inside("/items", |schema| json!({ "items": schema }), list).check(title);
        }
        self.inside("/prefixItems/0", |schema| json!({ "prefixItems": [schema] }), list).check(title);
        self.inside("/additionalProperties", |schema| json!({ "additionalProperties": schema }), name).check(title);
        self.inside("/patternProperties/n", |schema| json!({ "patternProperties": { "n": schema } }), name)
            .check(title);
        self.inside("/allOf/0", |schema| json!({ "allOf": [schema] }), itself).check(title);
        self.inside("/anyOf/1", |schema| json!({ "anyOf": [false, schema] }), itself).check(title);
        self.inside("/then", |schema| json!({ "if": true, "then": schema }), itself).check(title);
        let referred = |schema: &Json| json!({ "items": { "$ref": "#/$defs/a~1b" }, "$defs": { "a/b": schema } });
        // A reference to a text leads to no schema.
        if self.schema.is_object() {
            self.inside("/$defs/a~1b", referred, list).check(title);
        }
        if !self.unchecked.is_empty() {
            let mut negated = self.inside("/not", |schema| json!({ "not": schema }), itself);
            negated.valid.append(&mut negated.invalid);
            negated.check(title);
        }
    }

    /// The same cases at `place` of a schema that `schema` makes of this one, for values that `value` makes.
    fn inside(&self, place: &str, schema: impl Fn(&Json) -> Json, value: impl Fn(&Json) -> Json) -> Self {
        Self {
            schema: schema(&self.schema),
            unchecked: self
                .unchecked
                .iter()
                .map(|(inner, reason)| (format!("{place}{inner}"), reason.clone()))
                .collect(),
            valid: self.valid.iter().map(&value).collect(),
            invalid: self.invalid.iter().map(&value).collect(),
            type_text: None,
        }
    }
}

/// The schemas of the tools in `tests/declarations`.
fn catalog_schemas() -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/declarations");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let catalogs = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let catalogs = catalogs.map(|path| serde_json::from_str::<Json>(&fs::read_to_string(path).unwrap()).unwrap());
    let tools = catalogs.flat_map(|catalog| catalog["tools"].as_array().unwrap().clone());
    tools.flat_map(|tool| [tool["input"].clone(), tool["output"].clone()]).filter(|schema| !schema.is_null()).collect()
}

/// Replaces the value that `at` chooses among `json` and all values inside.
fn replace(json: &mut Json, at: prop::sample::Index, value: Json) {
    let mut pointers = Vec::new();
    let mut waiting = vec![(String::new(), &*json)];
    while let Some((pointer, json)) = waiting.pop() {
        let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
        let members = json.as_object().into_iter().flatten();
        waiting.extend(members.map(|(name, member)| (format!("{pointer}/{}", escaped(name)), member)));
        let items = json.as_array().into_iter().flatten().enumerate();
        waiting.extend(items.map(|(at, item)| (format!("{pointer}/{at}"), item)));
        pointers.push(pointer);
    }
    *json.pointer_mut(at.get::<String>(&pointers)).unwrap() = value;
}

/// JSON in which texts and keywords of schemas are frequent.
fn any_json() -> impl Strategy<Value = Json> {
    let words =
        ["string", "int", "#", "#/$defs/a", "https://example.com/a", "(?i)a", "^(?!a)", "[", "10", "*/", "\u{2028}"];
    let keywords = ["type", "$ref", "enum", "items", "properties", "required", "not", "oneOf", "pattern", "$id", "a"];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-2..9).prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        prop::sample::select(words.to_vec()).prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        let keyword = prop::sample::select(keywords.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(keyword, inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tools_of_broken_schemas_stay(
        schema in prop::sample::select(catalog_schemas()),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4),
        values in prop::collection::vec(any_json(), 4),
    ) {
        let mut schema = schema;
        for (at, value) in mutations {
            replace(&mut schema, at, value);
        }
        let tool = |name: &str| Tool::new(name, async |_, _| Ok(Json::Null)).input_schema(schema.clone());
        let tools = || [tool("a"), tool("b").output_schema(schema.clone())];
        let (provider, errors) = Provider::builder("p").tools(tools()).build_valid().unwrap();
        prop_assert_eq!(provider.manifest().tools.len(), 2, "{} {:?}", schema, errors);
        prop_assert!(errors.len() <= 3 * 9, "{} {:?}", schema, errors);
        prop_assert!(errors.iter().all(|error| error.to_string().chars().count() < 2_000), "{:?}", errors);
        if !errors.is_empty() {
            prop_assert!(Provider::builder("p").tools(tools()).build().is_err(), "{} {:?}", schema, errors);
        }
        let compiled = Schema::compile_lenient(&schema).unwrap();
        for value in values {
            let _ = compiled.check(&value, "value");
        }
    }
}
