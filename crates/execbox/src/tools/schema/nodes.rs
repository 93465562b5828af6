//! A compiled schema: nodes that refer to one another by number, so that references cost nothing and cycles are plain.

use std::collections::{HashMap, HashSet};

use serde_json::{Number, Value as Json};

use super::pattern::Pattern;

/// The number of a node.
pub(super) type NodeId = usize;

/// A schema or a subschema.
#[derive(Debug)]
pub(super) enum Node {
    /// Admits every value.
    Any,
    /// Admits no value.
    Nothing,
    /// Admits what satisfies all keywords.
    Keywords(Keywords),
}

impl Node {
    /// The schemas that apply to the same value.
    pub(super) fn in_place(&self) -> Vec<NodeId> {
        self.keywords().iter().flat_map(Keyword::in_place).collect()
    }

    /// The schemas that apply to the same value or to parts of it.
    pub(super) fn subschemas(&self) -> Vec<NodeId> {
        self.keywords().iter().flat_map(Keyword::subschemas).collect()
    }

    fn keywords(&self) -> &[Keyword] {
        match self {
            Self::Any | Self::Nothing => &[],
            Self::Keywords(keywords) => &keywords.list,
        }
    }
}

/// The keywords of a schema, in the order in which they are checked: cheap ones first, `unevaluated…` last.
#[derive(Debug, Default)]
pub(super) struct Keywords {
    pub(super) list: Vec<Keyword>,
    /// Whether one of them is `unevaluatedProperties` or `unevaluatedItems`.
    pub(super) tracks: bool,
}

#[derive(Debug)]
pub(super) enum Keyword {
    Type(Vec<Kind>),
    Const(Json),
    Enum(Enumeration),
    Compare {
        comparison: Comparison,
        bound: Number,
    },
    MultipleOf(Number),
    Size {
        size: Size,
        bound: u64,
    },
    Pattern(Pattern),
    UniqueItems,
    Required(Vec<Box<str>>),
    DependentRequired(Vec<(Box<str>, Vec<Box<str>>)>),
    PropertyNames(NodeId),
    Properties(Properties),
    Items {
        prefix: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        schema: NodeId,
        min: u64,
        max: Option<u64>,
    },
    Reference(NodeId),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf {
        schemas: Vec<NodeId>,
        /// Whether no second schema may admit the value.
        is_exclusive: bool,
    },
    Not(NodeId),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    DependentSchemas(Vec<(Box<str>, NodeId)>),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

/// A value of `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Comparison {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}

/// The values of `enum`.
#[derive(Debug)]
pub(super) struct Enumeration {
    pub(super) values: Vec<Json>,
    /// The values that are strings.
    pub(super) strings: HashSet<Box<str>>,
}

/// `properties`, `patternProperties` and `additionalProperties`, which depend on one another.
#[derive(Debug)]
pub(super) struct Properties {
    pub(super) named: HashMap<Box<str>, NodeId>,
    pub(super) patterns: Vec<(Pattern, NodeId)>,
    pub(super) additional: Option<NodeId>,
}

impl Kind {
    pub(super) const ALL: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    pub(super) fn admits(self, value: &Json) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => match value {
                Json::Number(number) => !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0),
                _ => false,
            },
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

impl Keyword {
    /// The schemas that apply to the same value as the schema with this keyword.
    pub(super) fn in_place(&self) -> Vec<NodeId> {
        match self {
            Self::Reference(target) | Self::Not(target) => vec![*target],
            Self::AllOf(schemas) | Self::AnyOf(schemas) | Self::OneOf { schemas, .. } => schemas.clone(),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::DependentSchemas(schemas) => schemas.iter().map(|(_, schema)| *schema).collect(),
            _ => Vec::new(),
        }
    }

    /// The schemas that apply to the same value or to parts of it.
    fn subschemas(&self) -> Vec<NodeId> {
        match self {
            Self::PropertyNames(schema)
            | Self::Contains { schema, .. }
            | Self::UnevaluatedItems(schema)
            | Self::UnevaluatedProperties(schema) => vec![*schema],
            Self::Properties(Properties { named, patterns, additional }) => {
                let patterns = patterns.iter().map(|(_, schema)| schema);
                named.values().chain(patterns).chain(additional).copied().collect()
            }
            Self::Items { prefix, rest } => prefix.iter().chain(rest).copied().collect(),
            in_place => in_place.in_place(),
        }
    }
}
