//! From a JSON Schema to nodes, without recursion and on a meter.
//!
//! All drafts since 4 are supported together: a keyword has the meaning of the draft that defines it. Features that no tool
//! needs are not supported: `format` and `content…` are not checked, and vocabularies are not read.

use std::collections::HashMap;
use std::mem::size_of;
use std::ptr;

use execbox_core::budget::{Meter, Refused};
use execbox_core::memory;
use execbox_core::text::cut;
use serde_json::{Map, Number, Value as Json};

use super::cost;
use super::loosen::{Loss, loosen};
use super::nodes::{Comparison, Enumeration, Keyword, Keywords, Kind, Node, NodeId, Properties, Size};
use super::pattern::{Pattern, Problem};
use super::reference::{Dialect, Documents, Scope};
use super::show::shown;
use super::unchecked::{Reading, Unchecked};
use super::{SchemaError, UncheckedPart};

/// A compiled schema.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The nodes, of which the first is the schema as a whole.
    pub(super) nodes: Vec<Node>,
    /// The first parts that are not checked.
    pub(super) unchecked: Vec<UncheckedPart>,
    /// The number of further ones.
    pub(super) more_unchecked: usize,
}

pub(super) fn compile(document: &Json, reading: Reading, meter: &mut Meter<'_>) -> Result<Compiled, SchemaError> {
    let dialect = Dialect::of(document);
    let mut compiler = Compiler {
        documents: Documents::find(document, dialect, meter)?,
        dialect,
        known: HashMap::new(),
        waiting: Vec::new(),
        patterns: HashMap::new(),
        nodes: Vec::new(),
        schemas: Vec::new(),
        losses: Vec::new(),
        unchecked: Unchecked::new(reading),
        meter,
    };
    compiler.subschema(document, Scope::ROOT)?;
    while let Some((id, schema, scope)) = compiler.waiting.pop() {
        (compiler.nodes[id], compiler.losses[id]) = compiler.node(schema, scope)?;
    }
    let Compiler { mut nodes, schemas, mut losses, mut unchecked, meter, .. } = compiler;
    cost::limit(&mut nodes, |id, reason| {
        losses[id] = Loss::Applicator;
        unchecked.record(schemas[id], reason)
    })?;
    loosen(&mut nodes, &mut losses);
    let (unchecked, more_unchecked) = unchecked.finish(document);
    meter.spend(unchecked.iter().map(UncheckedPart::bytes).sum())?;
    Ok(Compiled { nodes, unchecked, more_unchecked })
}

struct Compiler<'a, 'b, 'm> {
    documents: Documents<'a>,
    dialect: Dialect,
    /// The nodes of the schemas at these addresses.
    known: HashMap<(*const Json, Scope), NodeId>,
    /// Schemas whose nodes are not made yet.
    waiting: Vec<(NodeId, &'a Json, Scope)>,
    /// The patterns that were compiled, and why others are not checked.
    patterns: HashMap<&'a str, Result<Pattern, SchemaError>>,
    nodes: Vec<Node>,
    /// The schema of each node.
    schemas: Vec<&'a Json>,
    /// What each node lost.
    losses: Vec<Loss>,
    unchecked: Unchecked<'a>,
    meter: &'b mut Meter<'m>,
}

type Schema = Map<String, Json>;

/// A schema of which some keywords are read.
struct Draft<'a> {
    schema: &'a Schema,
    scope: Scope,
    keywords: Vec<Keyword>,
    loss: Loss,
}

impl<'a> Compiler<'a, '_, '_> {
    /// The number of the node of a schema, which is compiled later.
    fn subschema(&mut self, schema: &'a Json, outer: Scope) -> Result<NodeId, SchemaError> {
        let scope = match self.documents.scope_of(schema, outer, self.meter) {
            Ok(scope) => scope,
            Err(reason) => {
                self.unchecked.record(schema, reason)?;
                return self.add(schema, Loss::Applicator);
            }
        };
        if let Some(known) = self.known.get(&(ptr::from_ref(schema), scope)) {
            return Ok(*known);
        }
        let id = self.add(schema, Loss::Nothing)?;
        self.known.insert((schema, scope), id);
        self.waiting.push((id, schema, scope));
        Ok(id)
    }

    /// Adds a node that admits everything.
    fn add(&mut self, schema: &'a Json, loss: Loss) -> Result<NodeId, SchemaError> {
        self.meter.spend(NODE_BYTES)?;
        self.nodes.push(Node::Any);
        self.schemas.push(schema);
        self.losses.push(loss);
        Ok(self.nodes.len() - 1)
    }

    fn node(&mut self, json: &'a Json, scope: Scope) -> Result<(Node, Loss), SchemaError> {
        let schema = match json {
            Json::Bool(true) => return Ok((Node::Any, Loss::Nothing)),
            Json::Bool(false) => return Ok((Node::Nothing, Loss::Nothing)),
            Json::Object(schema) => schema,
            json if self.is_absent(json) => return Ok((Node::Any, Loss::Applicator)),
            json => {
                self.unchecked.record(json, SchemaError::invalid("schema", json, "an object or a boolean"))?;
                return Ok((Node::Any, Loss::Applicator));
            }
        };
        let mut draft = Draft { schema, scope, keywords: Vec::new(), loss: Loss::Nothing };
        self.references(&mut draft)?;
        let refers = !draft.keywords.is_empty() || draft.loss > Loss::Nothing;
        if !refers || !self.dialect.ignores_siblings {
            self.of_any_value(&mut draft)?;
            self.of_numbers(&mut draft)?;
            self.of_strings(&mut draft)?;
            self.of_objects(&mut draft)?;
            self.of_arrays(&mut draft)?;
            self.combinators(&mut draft)?;
        }
        let Draft { keywords: list, loss, .. } = draft;
        self.meter.spend(list.len() * size_of::<Keyword>())?;
        let tracks = schema.contains_key("unevaluatedItems") || schema.contains_key("unevaluatedProperties");
        Ok((Node::Keywords(Keywords { list, tracks }), loss))
    }

    /// Whether `value` stands for a member that is left out, as many serializers write it.
    fn is_absent(&self, value: &Json) -> bool {
        self.unchecked.reading == Reading::Lenient && value.is_null()
    }

    /// The member `name` of the schema, if there is one.
    fn member(&self, draft: &Draft<'a>, name: &str) -> Option<&'a Json> {
        draft.schema.get(name).filter(|value| !self.is_absent(value))
    }

    /// The member `name`, if there is one that `read` can read.
    fn read<T>(
        &mut self,
        draft: &mut Draft<'a>,
        name: &'static str,
        read: impl Fn(&'a Json) -> Option<T>,
        expected: &'static str,
    ) -> Result<Option<T>, SchemaError> {
        let Some(value) = self.member(draft, name) else { return Ok(None) };
        let read = read(value);
        if read.is_none() {
            self.drop_part(draft, name, value, SchemaError::invalid(name, value, expected))?;
        }
        Ok(read)
    }

    /// Records that `part` of the value of a keyword is not checked.
    fn drop_part(
        &mut self,
        draft: &mut Draft<'a>,
        keyword: &str,
        part: &'a Json,
        reason: SchemaError,
    ) -> Result<(), SchemaError> {
        draft.loss = draft.loss.max(Loss::of(keyword));
        self.unchecked.record(part, reason)
    }

    fn references(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        for name in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = self.read(draft, name, Json::as_str, "a string")? else { continue };
            self.meter.spend(reference.len())?;
            if DIALECTS.iter().any(|dialect| reference.starts_with(dialect)) {
                // A JSON Schema as a value: not checked.
                draft.loss = Loss::Applicator;
                continue;
            }
            let target = self.documents.resolve(name, reference, draft.scope);
            if let Some((target, scope)) = target.filter(|(target, _)| target.is_object() || target.is_boolean()) {
                draft.keywords.push(Keyword::Reference(self.subschema(target, scope)?));
            } else {
                let reason = SchemaError::Reference(cut(reference, MAX_NAME));
                self.drop_part(draft, name, &draft.schema[name], reason)?;
            }
        }
        Ok(())
    }

    fn of_any_value(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        if let Some(names) = self.member(draft, "type") {
            match kinds(names) {
                Ok(kinds) => draft.keywords.push(Keyword::Type(kinds)),
                Err(reason) => self.drop_part(draft, "type", names, reason)?,
            }
        }
        if let Some(value) = draft.schema.get("const") {
            self.meter.spend(memory::of_json(value))?;
            draft.keywords.push(Keyword::Const(value.clone()));
        }
        if let Some(values) = self.read(draft, "enum", Json::as_array, "an array")? {
            // Strings are kept twice.
            self.meter.spend(values.iter().map(|value| 2 * memory::of_json(value)).sum())?;
            let strings = values.iter().filter_map(Json::as_str).map(Into::into).collect();
            draft.keywords.push(Keyword::Enum(Enumeration { values: values.clone(), strings }));
        }
        Ok(())
    }

    fn of_numbers(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        let comparisons = [
            ("minimum", Comparison::Minimum, "exclusiveMinimum", Comparison::ExclusiveMinimum),
            ("maximum", Comparison::Maximum, "exclusiveMaximum", Comparison::ExclusiveMaximum),
        ];
        for (name, inclusive, exclusive_name, exclusive) in comparisons {
            // In draft 4 the exclusive forms are flags.
            let flag = draft.schema.get(exclusive_name).and_then(Json::as_bool);
            let comparison = if flag == Some(true) { exclusive } else { inclusive };
            let bound = self.read(draft, name, number, "a number")?;
            draft.keywords.extend(bound.map(|bound| Keyword::Compare { comparison, bound: bound.clone() }));
            if flag.is_none() {
                let bound = self.read(draft, exclusive_name, number, "a number")?;
                let compare = |bound: &Number| Keyword::Compare { comparison: exclusive, bound: bound.clone() };
                draft.keywords.extend(bound.map(compare));
            }
        }
        let positive = |value: &'a Json| number(value).filter(|_| value.as_f64().is_some_and(|number| number > 0.0));
        let divisor = self.read(draft, "multipleOf", positive, "a number greater than 0")?;
        draft.keywords.extend(divisor.map(|divisor| Keyword::MultipleOf(divisor.clone())));
        Ok(())
    }

    fn size(&mut self, draft: &mut Draft<'a>, name: &'static str, size: Size) -> Result<(), SchemaError> {
        let bound = self.read(draft, name, count, "a count")?;
        draft.keywords.extend(bound.map(|bound| Keyword::Size { size, bound }));
        Ok(())
    }

    fn of_strings(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        self.size(draft, "minLength", Size::MinLength)?;
        self.size(draft, "maxLength", Size::MaxLength)?;
        if let Some(pattern) = self.read(draft, "pattern", Json::as_str, "a string")? {
            match self.pattern(pattern)? {
                Ok(pattern) => draft.keywords.push(Keyword::Pattern(pattern)),
                Err(reason) => self.drop_part(draft, "pattern", &draft.schema["pattern"], reason)?,
            }
        }
        Ok(())
    }

    /// The pattern, or why it is not checked.
    fn pattern(&mut self, text: &'a str) -> Result<Result<Pattern, SchemaError>, Refused> {
        if let Some(known) = self.patterns.get(text) {
            return Ok(known.clone());
        }
        self.meter.spend(Pattern::cost(text))?;
        let pattern = Pattern::compile(text, self.unchecked.reading).map_err(|problem| {
            let text = cut(text, MAX_NAME);
            match problem {
                Problem::Invalid => SchemaError::Pattern(text),
                Problem::Expensive => SchemaError::UncheckedPattern(text),
            }
        });
        self.patterns.insert(text, pattern.clone());
        Ok(pattern)
    }

    fn of_objects(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        self.size(draft, "minProperties", Size::MinProperties)?;
        self.size(draft, "maxProperties", Size::MaxProperties)?;
        // In draft 3 and in many invalid schemas `required` is a flag of the property.
        if let Some(names) = self.member(draft, "required").filter(|required| !required.is_boolean()) {
            let names = self.names(draft, "required", names)?;
            draft.keywords.push(Keyword::Required(names));
        }
        self.dependencies(draft)?;
        if let Some(names) = self.member(draft, "propertyNames") {
            draft.keywords.push(Keyword::PropertyNames(self.subschema(names, draft.scope)?));
        }
        self.properties(draft)
    }

    /// The names in the array `names`, without items that are no names.
    fn names(
        &mut self,
        draft: &mut Draft<'a>,
        keyword: &'static str,
        names: &'a Json,
    ) -> Result<Vec<Box<str>>, SchemaError> {
        self.meter.spend(memory::of_json(names))?;
        let invalid = || SchemaError::invalid(keyword, names, "an array of strings");
        let Some(items) = names.as_array() else {
            self.drop_part(draft, keyword, names, invalid())?;
            return Ok(Vec::new());
        };
        let mut read = Vec::new();
        for item in items {
            match item.as_str() {
                Some(name) => read.push(name.into()),
                None => self.drop_part(draft, keyword, item, invalid())?,
            }
        }
        Ok(read)
    }

    fn dependencies(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        let (mut names, mut schemas) = (Vec::new(), Vec::new());
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (name, dependency) in self.read(draft, keyword, Json::as_object, "an object")?.into_iter().flatten() {
                self.meter.spend(name.len() + size_of::<(Box<str>, Vec<Box<str>>)>())?;
                if dependency.is_array() {
                    names.push((name.as_str().into(), self.names(draft, keyword, dependency)?));
                } else {
                    schemas.push((name.as_str().into(), self.subschema(dependency, draft.scope)?));
                }
            }
        }
        draft.keywords.extend((!names.is_empty()).then_some(Keyword::DependentRequired(names)));
        draft.keywords.extend((!schemas.is_empty()).then_some(Keyword::DependentSchemas(schemas)));
        Ok(())
    }

    fn properties(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        let loss_before = std::mem::take(&mut draft.loss);
        let (mut named, mut patterns) = (HashMap::new(), Vec::new());
        for (name, schema) in self.read(draft, "properties", Json::as_object, "an object")?.into_iter().flatten() {
            self.meter.spend(name.len() + 2 * size_of::<(Box<str>, NodeId)>())?;
            named.insert(name.as_str().into(), self.subschema(schema, draft.scope)?);
        }
        let by_pattern = self.read(draft, "patternProperties", Json::as_object, "an object")?;
        for (pattern, schema) in by_pattern.into_iter().flatten() {
            match self.pattern(pattern)? {
                Ok(pattern) => patterns.push((pattern, self.subschema(schema, draft.scope)?)),
                Err(reason) => self.drop_part(draft, "patternProperties", schema, reason)?,
            }
        }
        // If a part was dropped, any property may be one that it describes.
        let is_complete = draft.loss == Loss::Nothing;
        draft.loss = draft.loss.max(loss_before);
        let additional = self.member(draft, "additionalProperties").filter(|_| is_complete);
        let additional = additional.map(|schema| self.subschema(schema, draft.scope)).transpose()?;
        if !named.is_empty() || !patterns.is_empty() || additional.is_some() {
            draft.keywords.push(Keyword::Properties(Properties { named, patterns, additional }));
        }
        Ok(())
    }

    fn of_arrays(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        self.size(draft, "minItems", Size::MinItems)?;
        self.size(draft, "maxItems", Size::MaxItems)?;
        if draft.schema.get("uniqueItems") == Some(&Json::Bool(true)) {
            draft.keywords.push(Keyword::UniqueItems);
        }
        self.items(draft)?;
        self.contains(draft)
    }

    fn items(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        // Before 2020 the first items were in `items`, and the schema of further ones in `additionalItems`.
        let (prefix, rest) = match (self.member(draft, "prefixItems"), self.member(draft, "items")) {
            (None, Some(prefix @ Json::Array(_))) => (Some(prefix), self.member(draft, "additionalItems")),
            (prefix, rest) => (prefix, rest),
        };
        let Some(prefix) = prefix.map_or(Ok(Some(Vec::new())), |prefix| self.list(draft, "prefixItems", prefix))?
        else {
            return Ok(()); // Any item may be one of the first.
        };
        let rest = rest.map(|rest| self.subschema(rest, draft.scope)).transpose()?;
        if !prefix.is_empty() || rest.is_some() {
            draft.keywords.push(Keyword::Items { prefix, rest });
        }
        Ok(())
    }

    fn contains(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        let Some(contained) = self.member(draft, "contains") else { return Ok(()) };
        let schema = self.subschema(contained, draft.scope)?;
        let is_min_default = self.member(draft, "minContains").is_none();
        let min = self.read(draft, "minContains", count, "a count")?.unwrap_or(u64::from(is_min_default));
        let max = self.read(draft, "maxContains", count, "a count")?;
        draft.keywords.push(Keyword::Contains { schema, min, max });
        Ok(())
    }

    /// The schemas in an array, if it is one.
    fn list(
        &mut self,
        draft: &mut Draft<'a>,
        keyword: &'static str,
        schemas: &'a Json,
    ) -> Result<Option<Vec<NodeId>>, SchemaError> {
        let Some(list) = schemas.as_array() else {
            self.drop_part(draft, keyword, schemas, SchemaError::invalid(keyword, schemas, "an array of schemas"))?;
            return Ok(None);
        };
        self.meter.spend(list.len() * size_of::<NodeId>())?;
        for schema in list {
            if self.is_absent(schema) {
                let reason = SchemaError::invalid("schema", schema, "an object or a boolean");
                self.drop_part(draft, keyword, schema, reason)?;
            }
        }
        list.iter().map(|schema| self.subschema(schema, draft.scope)).collect::<Result<_, _>>().map(Some)
    }

    fn combinators(&mut self, draft: &mut Draft<'a>) -> Result<(), SchemaError> {
        let lists: [(&'static str, Combinator); 3] = [
            ("allOf", Keyword::AllOf),
            ("anyOf", Keyword::AnyOf),
            ("oneOf", |schemas| Keyword::OneOf { schemas, is_exclusive: true }),
        ];
        for (name, keyword) in lists {
            let Some(value) = self.member(draft, name) else { continue };
            let schemas = self.list(draft, name, value)?;
            if name != "allOf" && schemas.as_ref().is_some_and(Vec::is_empty) {
                let reason = SchemaError::invalid(name, value, "at least one schema");
                self.drop_part(draft, name, value, reason)?;
            } else {
                draft.keywords.extend(schemas.map(keyword));
            }
        }
        let not = self.optional(draft, "not")?;
        draft.keywords.extend(not.map(Keyword::Not));
        if let Some(condition) = self.optional(draft, "if")? {
            let (then, otherwise) = (self.optional(draft, "then")?, self.optional(draft, "else")?);
            draft.keywords.push(Keyword::If { condition, then, otherwise });
        }
        let items = self.optional(draft, "unevaluatedItems")?;
        draft.keywords.extend(items.map(Keyword::UnevaluatedItems));
        let properties = self.optional(draft, "unevaluatedProperties")?;
        draft.keywords.extend(properties.map(Keyword::UnevaluatedProperties));
        Ok(())
    }

    /// The schema that is the member `name`, if there is one.
    fn optional(&mut self, draft: &Draft<'a>, name: &str) -> Result<Option<NodeId>, SchemaError> {
        let schema = self.member(draft, name);
        schema.map(|schema| self.subschema(schema, draft.scope)).transpose()
    }
}

/// Makes a keyword of the schemas in its list.
type Combinator = fn(Vec<NodeId>) -> Keyword;

/// The value of `type`.
fn kinds(names: &Json) -> Result<Vec<Kind>, SchemaError> {
    match names {
        Json::Array(names) if !names.is_empty() && names.len() <= Kind::ALL.len() => names.iter().map(kind).collect(),
        name => Ok(vec![kind(name)?]),
    }
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

impl SchemaError {
    fn invalid(keyword: &'static str, value: &Json, expected: &'static str) -> Self {
        Self::Keyword { keyword, value: shown(value), expected }
    }
}

/// What is charged for a node without its keywords: the node, its place in the maps and lists of the compiler.
const NODE_BYTES: usize = size_of::<Node>() + 80;

/// The longest name in an error, in characters.
const MAX_NAME: usize = 120;

/// The schemas of JSON Schema itself.
const DIALECTS: [&str; 3] =
    ["http://json-schema.org/draft-", "https://json-schema.org/draft-", "https://json-schema.org/draft/"];
