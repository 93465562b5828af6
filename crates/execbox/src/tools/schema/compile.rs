//! From a JSON Schema to nodes, without recursion and on a meter.
//!
//! All drafts since 4 are supported together: a keyword has the meaning of the draft that defines it. Features that no tool
//! needs are not supported: `format` and `content…` are not checked, and vocabularies are not read.

use std::collections::HashMap;
use std::mem::size_of;
use std::ptr;

use execbox_core::budget::Meter;
use execbox_core::memory;
use execbox_core::text::cut;
use serde_json::{Map, Number, Value as Json};

use super::SchemaError;
use super::nodes::{Comparison, Enumeration, Keyword, Keywords, Kind, Node, NodeId, Properties, Size};
use super::pattern::Pattern;
use super::reference::{Dialect, Documents, Scope};
use super::show::{list, shown};

/// A compiled schema.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The nodes, of which the first is the schema as a whole.
    pub(super) nodes: Vec<Node>,
    /// Patterns that are not checked.
    pub(super) unchecked: Vec<String>,
}

pub(super) fn compile(schema: &Json, meter: &mut Meter<'_>) -> Result<Compiled, SchemaError> {
    let dialect = Dialect::of(schema);
    let mut compiler = Compiler {
        documents: Documents::find(schema, dialect, meter)?,
        dialect,
        known: HashMap::new(),
        waiting: Vec::new(),
        patterns: HashMap::new(),
        compiled: Compiled { nodes: Vec::new(), unchecked: Vec::new() },
        meter,
    };
    compiler.subschema(schema, Scope::ROOT)?;
    while let Some((id, schema, scope)) = compiler.waiting.pop() {
        compiler.compiled.nodes[id] = compiler.node(schema, scope)?;
    }
    check_in_place(&compiler.compiled.nodes)?;
    Ok(compiler.compiled)
}

struct Compiler<'a, 'b, 'm> {
    documents: Documents<'a>,
    dialect: Dialect,
    /// The nodes of the schemas at these addresses.
    known: HashMap<(*const Json, Scope), NodeId>,
    /// Schemas whose nodes are not made yet.
    waiting: Vec<(NodeId, &'a Json, Scope)>,
    patterns: HashMap<&'a str, Pattern>,
    compiled: Compiled,
    meter: &'b mut Meter<'m>,
}

type Schema = Map<String, Json>;

impl<'a> Compiler<'a, '_, '_> {
    /// The number of the node of a schema, which is compiled later.
    fn subschema(&mut self, schema: &'a Json, outer: Scope) -> Result<NodeId, SchemaError> {
        let scope = self.documents.scope_of(schema, outer, self.meter)?;
        if let Some(known) = self.known.get(&(ptr::from_ref(schema), scope)) {
            return Ok(*known);
        }
        self.meter.spend(NODE_BYTES)?;
        let id = self.compiled.nodes.len();
        self.compiled.nodes.push(Node::Any);
        self.known.insert((schema, scope), id);
        self.waiting.push((id, schema, scope));
        Ok(id)
    }

    fn node(&mut self, schema: &'a Json, scope: Scope) -> Result<Node, SchemaError> {
        let schema = match schema {
            Json::Bool(true) => return Ok(Node::Any),
            Json::Bool(false) => return Ok(Node::Nothing),
            Json::Object(schema) => schema,
            other => return Err(SchemaError::invalid("schema", other, "an object or a boolean")),
        };
        let mut list = Vec::new();
        self.references(schema, scope, &mut list)?;
        let tracks = schema.contains_key("unevaluatedItems") || schema.contains_key("unevaluatedProperties");
        if list.is_empty() || !self.dialect.ignores_siblings {
            self.of_any_value(schema, &mut list)?;
            Self::of_numbers(schema, &mut list)?;
            self.of_strings(schema, &mut list)?;
            self.of_objects(schema, scope, &mut list)?;
            self.of_arrays(schema, scope, &mut list)?;
            self.combinators(schema, scope, &mut list)?;
        }
        self.meter.spend(list.len() * size_of::<Keyword>())?;
        Ok(Node::Keywords(Keywords { list, tracks }))
    }

    fn references(&mut self, schema: &'a Schema, scope: Scope, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        for name in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = optional(schema, name, Json::as_str, "a string")? else { continue };
            self.meter.spend(reference.len())?;
            if DIALECTS.iter().any(|dialect| reference.starts_with(dialect)) {
                continue; // A JSON Schema as a value: not checked.
            }
            let target = self.documents.resolve(name, reference, scope);
            let Some((target, scope)) = target.filter(|(target, _)| target.is_object() || target.is_boolean()) else {
                return Err(SchemaError::Reference(cut(reference, MAX_NAME)));
            };
            keywords.push(Keyword::Reference(self.subschema(target, scope)?));
        }
        Ok(())
    }

    fn of_any_value(&mut self, schema: &'a Schema, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        match schema.get("type") {
            None => {}
            Some(Json::Array(names)) if !names.is_empty() && names.len() <= Kind::ALL.len() => {
                keywords.push(Keyword::Type(names.iter().map(kind).collect::<Result<_, _>>()?));
            }
            Some(name) => keywords.push(Keyword::Type(vec![kind(name)?])),
        }
        if let Some(value) = schema.get("const") {
            self.meter.spend(memory::of_json(value))?;
            keywords.push(Keyword::Const(value.clone()));
        }
        if let Some(values) = optional(schema, "enum", Json::as_array, "an array")? {
            self.meter.spend(values.iter().map(memory::of_json).sum())?;
            let strings = values.iter().filter_map(Json::as_str).map(Into::into).collect();
            let others = values.iter().filter(|value| !value.is_string()).cloned().collect();
            keywords.push(Keyword::Enum(Enumeration { strings, others, text: list(values) }));
        }
        Ok(())
    }

    fn of_numbers(schema: &'a Schema, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        let comparisons = [
            ("minimum", Comparison::Minimum, "exclusiveMinimum", Comparison::ExclusiveMinimum),
            ("maximum", Comparison::Maximum, "exclusiveMaximum", Comparison::ExclusiveMaximum),
        ];
        for (name, inclusive, exclusive_name, exclusive) in comparisons {
            // In draft 4 the exclusive forms are flags.
            let flag = schema.get(exclusive_name).and_then(Json::as_bool);
            let comparison = if flag == Some(true) { exclusive } else { inclusive };
            let bound = optional(schema, name, number, "a number")?;
            keywords.extend(bound.map(|bound| Keyword::Compare { comparison, bound: bound.clone() }));
            if flag.is_none() {
                let bound = optional(schema, exclusive_name, number, "a number")?;
                keywords.extend(bound.map(|bound| Keyword::Compare { comparison: exclusive, bound: bound.clone() }));
            }
        }
        let positive = |value: &'a Json| number(value).filter(|_| value.as_f64().is_some_and(|number| number > 0.0));
        let divisor = optional(schema, "multipleOf", positive, "a number greater than 0")?;
        keywords.extend(divisor.map(|divisor| Keyword::MultipleOf(divisor.clone())));
        Ok(())
    }

    fn of_strings(&mut self, schema: &'a Schema, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        size(schema, "minLength", Size::MinLength, keywords)?;
        size(schema, "maxLength", Size::MaxLength, keywords)?;
        if let Some(pattern) = optional(schema, "pattern", Json::as_str, "a string")? {
            keywords.push(Keyword::Pattern(self.pattern(pattern)?));
        }
        Ok(())
    }

    fn pattern(&mut self, text: &'a str) -> Result<Pattern, SchemaError> {
        if let Some(known) = self.patterns.get(text) {
            return Ok(known.clone());
        }
        self.meter.spend(Pattern::cost(text))?;
        let pattern = Pattern::compile(text).ok_or_else(|| SchemaError::Pattern(cut(text, MAX_NAME)))?;
        if !pattern.is_checked() {
            self.compiled.unchecked.push(cut(text, MAX_NAME));
        }
        self.patterns.insert(text, pattern.clone());
        Ok(pattern)
    }

    fn of_objects(&mut self, schema: &'a Schema, scope: Scope, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        size(schema, "minProperties", Size::MinProperties, keywords)?;
        size(schema, "maxProperties", Size::MaxProperties, keywords)?;
        // In draft 3 and in many invalid schemas `required` is a flag of the property.
        if let Some(names) = schema.get("required").filter(|required| !required.is_boolean()) {
            keywords.push(Keyword::Required(self.names("required", names)?));
        }
        self.dependencies(schema, scope, keywords)?;
        if let Some(names) = schema.get("propertyNames") {
            keywords.push(Keyword::PropertyNames(self.subschema(names, scope)?));
        }
        self.properties(schema, scope, keywords)
    }

    fn names(&mut self, keyword: &'static str, names: &'a Json) -> Result<Vec<Box<str>>, SchemaError> {
        self.meter.spend(memory::of_json(names))?;
        let invalid = || SchemaError::invalid(keyword, names, "an array of strings");
        let names = names.as_array().ok_or_else(invalid)?;
        names.iter().map(|name| name.as_str().map(Into::into).ok_or_else(invalid)).collect()
    }

    fn dependencies(
        &mut self,
        schema: &'a Schema,
        scope: Scope,
        keywords: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        let (mut names, mut schemas) = (Vec::new(), Vec::new());
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (name, dependency) in optional(schema, keyword, Json::as_object, "an object")?.into_iter().flatten() {
                self.meter.spend(name.len() + size_of::<(Box<str>, Vec<Box<str>>)>())?;
                if dependency.is_array() {
                    names.push((name.as_str().into(), self.names(keyword, dependency)?));
                } else {
                    schemas.push((name.as_str().into(), self.subschema(dependency, scope)?));
                }
            }
        }
        keywords.extend((!names.is_empty()).then_some(Keyword::DependentRequired(names)));
        keywords.extend((!schemas.is_empty()).then_some(Keyword::DependentSchemas(schemas)));
        Ok(())
    }

    fn properties(&mut self, schema: &'a Schema, scope: Scope, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        let (mut named, mut patterns) = (HashMap::new(), Vec::new());
        for (name, schema) in optional(schema, "properties", Json::as_object, "an object")?.into_iter().flatten() {
            self.meter.spend(name.len() + 2 * size_of::<(Box<str>, NodeId)>())?;
            named.insert(name.as_str().into(), self.subschema(schema, scope)?);
        }
        for (pattern, schema) in
            optional(schema, "patternProperties", Json::as_object, "an object")?.into_iter().flatten()
        {
            patterns.push((self.pattern(pattern)?, self.subschema(schema, scope)?));
        }
        let additional = schema.get("additionalProperties");
        let additional = additional.map(|schema| self.subschema(schema, scope)).transpose()?;
        if !named.is_empty() || !patterns.is_empty() || additional.is_some() {
            keywords.push(Keyword::Properties(Properties { named, patterns, additional }));
        }
        Ok(())
    }

    fn of_arrays(&mut self, schema: &'a Schema, scope: Scope, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        size(schema, "minItems", Size::MinItems, keywords)?;
        size(schema, "maxItems", Size::MaxItems, keywords)?;
        if schema.get("uniqueItems") == Some(&Json::Bool(true)) {
            keywords.push(Keyword::UniqueItems);
        }
        // Before 2020 the first items were in `items`, and the schema of further ones in `additionalItems`.
        let (prefix, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (None, Some(prefix @ Json::Array(_))) => (Some(prefix), schema.get("additionalItems")),
            (prefix, rest) => (prefix, rest),
        };
        let prefix = prefix.map(|prefix| self.list("prefixItems", prefix, scope)).transpose()?.unwrap_or_default();
        let rest = rest.map(|rest| self.subschema(rest, scope)).transpose()?;
        if !prefix.is_empty() || rest.is_some() {
            keywords.push(Keyword::Items { prefix, rest });
        }
        if let Some(contained) = schema.get("contains") {
            let schema_of_items = self.subschema(contained, scope)?;
            let min = optional(schema, "minContains", count, "a count")?.unwrap_or(1);
            let max = optional(schema, "maxContains", count, "a count")?;
            keywords.push(Keyword::Contains { schema: schema_of_items, min, max });
        }
        Ok(())
    }

    fn list(&mut self, keyword: &'static str, schemas: &'a Json, scope: Scope) -> Result<Vec<NodeId>, SchemaError> {
        let list = schemas.as_array().ok_or_else(|| SchemaError::invalid(keyword, schemas, "an array of schemas"))?;
        self.meter.spend(list.len() * size_of::<NodeId>())?;
        list.iter().map(|schema| self.subschema(schema, scope)).collect()
    }

    fn combinators(
        &mut self,
        schema: &'a Schema,
        scope: Scope,
        keywords: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        let lists: [(&'static str, Combinator); 3] =
            [("allOf", Keyword::AllOf), ("anyOf", Keyword::AnyOf), ("oneOf", Keyword::OneOf)];
        for (name, keyword) in lists {
            if let Some(schemas) = schema.get(name) {
                keywords.push(keyword(self.list(name, schemas, scope)?));
            }
        }
        let mut optional = |name: &str| schema.get(name).map(|one| self.subschema(one, scope)).transpose();
        keywords.extend(optional("not")?.map(Keyword::Not));
        if let Some(condition) = optional("if")? {
            keywords.push(Keyword::If { condition, then: optional("then")?, otherwise: optional("else")? });
        }
        keywords.extend(optional("unevaluatedItems")?.map(Keyword::UnevaluatedItems));
        keywords.extend(optional("unevaluatedProperties")?.map(Keyword::UnevaluatedProperties));
        Ok(())
    }
}

/// Makes a keyword of the schemas in its list.
type Combinator = fn(Vec<NodeId>) -> Keyword;

/// The member `name`, if there is one.
fn optional<'a, T>(
    schema: &'a Schema,
    name: &'static str,
    read: impl Fn(&'a Json) -> Option<T>,
    expected: &'static str,
) -> Result<Option<T>, SchemaError> {
    let Some(value) = schema.get(name) else { return Ok(None) };
    read(value).map(Some).ok_or_else(|| SchemaError::invalid(name, value, expected))
}

fn size(schema: &Schema, name: &'static str, size: Size, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
    keywords.extend(optional(schema, name, count, "a count")?.map(|bound| Keyword::Size { size, bound }));
    Ok(())
}

fn kind(name: &Json) -> Result<Kind, SchemaError> {
    let known = Kind::ALL.iter().find(|(known, _)| name == known);
    known
        .map(|(_, kind)| *kind)
        .ok_or_else(|| SchemaError::invalid("type", name, "null, boolean, integer, number, string, array or object"))
}

fn number(value: &Json) -> Option<&Number> {
    match value {
        Json::Number(number) => Some(number),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn count(value: &Json) -> Option<u64> {
    // Some generators write `2.0`.
    let whole = |number: f64| (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64);
    value.as_u64().or_else(|| whole(value.as_f64()?))
}

/// Checks what a single value can cost. The schemas that apply to the same value are found through references and combinators.
/// Each path through them is walked, so a chain must be short, a cycle is an error, and paths must not multiply.
fn check_in_place(nodes: &[Node]) -> Result<(), SchemaError> {
    let mut costs: Vec<Option<Cost>> = vec![None; nodes.len()];
    for start in 0..nodes.len() {
        let mut path: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
        enter(start, nodes, &mut costs, &mut path);
        while let Some((id, children)) = path.last_mut() {
            let id = *id;
            let Some(child) = children.pop() else {
                costs[id] = Some(total(&nodes[id], &costs)?);
                path.pop();
                continue;
            };
            match costs[child] {
                Some(Cost::Open) => return Err(SchemaError::Cycle),
                Some(Cost::Known { .. }) => {}
                None => enter(child, nodes, &mut costs, &mut path),
            }
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
        path.push((id, children(&nodes[id])));
    }
}

fn children(node: &Node) -> Vec<NodeId> {
    match node {
        Node::Any | Node::Nothing => Vec::new(),
        Node::Keywords(keywords) => keywords.list.iter().flat_map(Keyword::in_place).collect(),
    }
}

fn total(node: &Node, costs: &[Option<Cost>]) -> Result<Cost, SchemaError> {
    let (mut deepest, mut sum) = (0, 1_usize);
    for child in children(node) {
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

impl SchemaError {
    fn invalid(keyword: &'static str, value: &Json, expected: &'static str) -> Self {
        Self::Keyword { keyword, value: shown(value), expected }
    }
}

/// The most references and combinators in a chain that apply to one value.
pub(super) const MAX_CHAIN: usize = 64;

/// The most schemas that apply to one value, counted once for each path that leads to them.
pub(super) const MAX_IN_PLACE: usize = 100_000;

/// What is charged for a node without its keywords: the node, its place in the maps of the compiler.
const NODE_BYTES: usize = size_of::<Node>() + 64;

/// The longest name in an error, in characters.
const MAX_NAME: usize = 120;

/// The schemas of JSON Schema itself.
const DIALECTS: [&str; 3] =
    ["http://json-schema.org/draft-", "https://json-schema.org/draft-", "https://json-schema.org/draft/"];
