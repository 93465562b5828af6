//! Checks a value against a compiled schema, step by step on a meter.
//!
//! Every keyword that is applied to a value is a step, and every few bytes of a text that is read are one. So the work is
//! bounded for every schema and value, and the check can be stopped between any two steps.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher, RandomState};
use std::mem;

use execbox_core::budget::{Meter, Refused};
use execbox_core::text::cut;
use serde_json::{Map, Number, Value as Json};

use super::explain::not_of_types;
use super::nodes::{Comparison, Enumeration, Keyword, Keywords, Node, NodeId, Properties, Size};
use super::show::{MAX_CHARS, shown};
use super::{MAX_VIOLATIONS, Violation, path_text};

/// Why a value was not checked to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The steps are spent.
    Steps,
    /// Schemas and values nest too deeply.
    Depth,
    /// The caller asked to stop.
    Interrupted,
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Stopped => Self::Interrupted,
            Refused::TooLarge(_) | Refused::Exhausted(_) => Self::Steps,
        }
    }
}

/// A step of a path through the value.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathStep<'a> {
    Key(&'a str),
    Index(usize),
}

/// The check of one value.
pub(super) struct Check<'s, 'v, 'm> {
    pub(super) nodes: &'s [Node],
    meter: &'m mut Meter<'s>,
    depth: usize,
    /// Whether violations are not recorded, and the first one ends the check.
    quiet: bool,
    name: &'s str,
    pub(super) path: Vec<PathStep<'v>>,
    /// The number of alternatives, while violations of the closest one are recorded.
    pub(super) alternatives: Option<usize>,
    /// Members that a violation names as typing errors.
    pub(super) explained: Vec<&'v str>,
    /// The most violations that are recorded.
    room: usize,
    pub(super) violations: Vec<Violation>,
    /// The number of violations that are not recorded.
    pub(super) more: usize,
}

/// The parts of a value that some keyword has described, for `unevaluated…`.
#[derive(Default)]
pub(super) struct Seen<'a> {
    properties: HashSet<&'a str>,
    all_properties: bool,
    items: HashSet<usize>,
    /// The index before which all items are described.
    items_before: usize,
}

pub(super) type Checked = Result<bool, Stop>;

impl<'s, 'v, 'm> Check<'s, 'v, 'm> {
    /// `name` is the name of the value in paths.
    pub(super) fn new(nodes: &'s [Node], meter: &'m mut Meter<'s>, name: &'s str) -> Self {
        Self {
            nodes,
            meter,
            depth: 0,
            quiet: false,
            name,
            path: Vec::new(),
            alternatives: None,
            explained: Vec::new(),
            room: MAX_VIOLATIONS,
            violations: Vec::new(),
            more: 0,
        }
    }

    /// Whether the schema as a whole admits the value.
    pub(super) fn run(&mut self, value: &'v Json) -> Checked {
        self.node(0, value, None)
    }

    pub(super) fn node(&mut self, id: NodeId, value: &'v Json, seen: Option<&mut Seen<'v>>) -> Checked {
        self.meter.spend(1)?;
        match &self.nodes[id] {
            Node::Any => Ok(true),
            Node::Nothing => {
                Ok(self.fail(|| format!("{} is not allowed: the schema allows no value here", shown(value))))
            }
            Node::Keywords(_) if self.depth == MAX_DEPTH => Err(Stop::Depth),
            Node::Keywords(keywords) => {
                self.depth += 1;
                let valid = self.keywords(keywords, value, seen);
                self.depth -= 1;
                valid
            }
        }
    }

    fn keywords(&mut self, keywords: &'s Keywords, value: &'v Json, outer: Option<&mut Seen<'v>>) -> Checked {
        let mut own = (keywords.tracks || outer.is_some()).then(Box::<Seen<'v>>::default);
        let mut valid = true;
        for keyword in &keywords.list {
            self.meter.spend(1)?;
            if !self.keyword(keyword, &keywords.list, value, own.as_deref_mut())? {
                valid = false;
                if self.quiet {
                    break;
                }
            }
        }
        if let (true, Some(outer), Some(own)) = (valid, outer, own) {
            self.merge(*own, outer)?;
        }
        Ok(valid)
    }

    fn merge(&mut self, from: Seen<'v>, into: &mut Seen<'v>) -> Result<(), Stop> {
        self.meter.spend(from.properties.len() + from.items.len())?;
        into.properties.extend(from.properties);
        into.items.extend(from.items);
        into.all_properties |= from.all_properties;
        into.items_before = into.items_before.max(from.items_before);
        Ok(())
    }

    /// Checks without recording violations.
    fn quietly(&mut self, id: NodeId, value: &'v Json, seen: Option<&mut Seen<'v>>) -> Checked {
        let before = mem::replace(&mut self.quiet, true);
        let valid = self.node(id, value, seen);
        self.quiet = before;
        valid
    }

    fn at(&mut self, step: PathStep<'v>, id: NodeId, value: &'v Json) -> Checked {
        self.path.push(step);
        let valid = self.node(id, value, None);
        self.path.pop();
        valid
    }

    /// The number of violations of a schema, none of which is recorded.
    pub(super) fn count(&mut self, id: NodeId, value: &'v Json) -> Result<usize, Stop> {
        let (room, more) = (mem::take(&mut self.room), mem::take(&mut self.more));
        let checked = self.node(id, value, None);
        self.room = room;
        let count = mem::replace(&mut self.more, more);
        checked.map(|_| count)
    }

    /// Whether the next violation is recorded.
    pub(super) fn is_recording(&self) -> bool {
        !self.quiet && self.violations.len() < self.room
    }

    /// Records a violation at the current place. Returns false.
    pub(super) fn fail(&mut self, message: impl FnOnce() -> String) -> bool {
        if self.is_recording() {
            let closest = self.alternatives.map(|all| format!("in the closest of {all} alternatives: "));
            let message = closest.unwrap_or_default() + &cut(&message(), MAX_CHARS);
            self.violations.push(Violation { path: path_text(self.name, &self.path), message });
        } else if !self.quiet {
            self.more += 1;
        }
        false
    }

    fn expect(&mut self, holds: bool, message: impl FnOnce() -> String) -> bool {
        holds || self.fail(message)
    }

    /// `siblings` are the keywords of the same schema.
    fn keyword(
        &mut self,
        keyword: &'s Keyword,
        siblings: &'s [Keyword],
        value: &'v Json,
        seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        match keyword {
            Keyword::Type(kinds) => {
                Ok(self.expect(kinds.iter().any(|kind| kind.admits(value)), || not_of_types(kinds, value)))
            }
            Keyword::Const(only) => {
                let holds = self.equal(only, value)?;
                Ok(self.expect(holds, || format!("{} was expected", shown(only))))
            }
            Keyword::Enum(values) => self.enumeration(values, value),
            Keyword::Reference(target) => self.node(*target, value, seen),
            Keyword::AllOf(_) | Keyword::AnyOf(_) | Keyword::OneOf { .. } | Keyword::Not(_) | Keyword::If { .. } => {
                self.combinator(keyword, value, seen)
            }
            _ => match value {
                Json::Null | Json::Bool(_) => Ok(true),
                Json::Number(number) => Ok(self.number(keyword, number, value)),
                Json::String(text) => self.string(keyword, text, value),
                Json::Array(items) => self.array(keyword, items, value, seen),
                Json::Object(members) => self.object(keyword, siblings, members, value, seen),
            },
        }
    }

    fn enumeration(&mut self, all: &'s Enumeration, value: &Json) -> Checked {
        match self.is_listed(all, value)? {
            false if all.values.is_empty() => {
                Ok(self.fail(|| format!("{} is not allowed: `enum` is empty", shown(value))))
            }
            holds => Ok(holds || self.fail_values(&[&all.values], &[], value)?),
        }
    }

    pub(super) fn is_listed(&mut self, all: &Enumeration, value: &Json) -> Checked {
        match value {
            Json::String(text) => {
                self.read(text)?;
                Ok(all.strings.contains(text.as_str()))
            }
            value => self.any(&all.values, |check, other| check.equal(other, value)),
        }
    }

    fn any<T>(&mut self, list: &[T], mut holds: impl FnMut(&mut Self, &T) -> Checked) -> Checked {
        for one in list {
            if holds(self, one)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        Ok(self.meter.spend(steps)?)
    }

    /// Spends the steps of reading a text.
    pub(super) fn read(&mut self, text: &str) -> Result<(), Stop> {
        self.spend(text.len() / BYTES_PER_STEP + 1)
    }

    fn combinator(&mut self, keyword: &'s Keyword, value: &'v Json, mut seen: Option<&mut Seen<'v>>) -> Checked {
        match keyword {
            Keyword::AllOf(schemas) => {
                let mut valid = true;
                for schema in schemas {
                    valid &= self.node(*schema, value, seen.as_deref_mut())?;
                    if self.quiet && !valid {
                        break;
                    }
                }
                Ok(valid)
            }
            Keyword::AnyOf(schemas) => {
                // What later schemas describe counts only for `unevaluated…`.
                let (mut holds, is_tracked) = (false, seen.is_some());
                for schema in schemas {
                    holds |= self.quietly(*schema, value, seen.as_deref_mut())?;
                    if holds && !is_tracked {
                        break;
                    }
                }
                Ok(holds || self.fail_alternatives(schemas, value)?)
            }
            Keyword::OneOf { schemas, is_exclusive } => {
                let mut first = None;
                for (at, schema) in schemas.iter().enumerate() {
                    if !self.quietly(*schema, value, seen.as_deref_mut())? {
                        continue;
                    }
                    match first {
                        Some(first) if *is_exclusive => {
                            return Ok(self.fail(|| {
                                let value = cut(&shown(value), MAX_CHARS / 2);
                                let (first, second) = (first + 1, at + 1);
                                format!(
                                    "{value} matches more than one alternative of oneOf: number {first} and {second}"
                                )
                            }));
                        }
                        _ => first = first.or(Some(at)),
                    }
                }
                Ok(first.is_some() || self.fail_alternatives(schemas, value)?)
            }
            Keyword::Not(schema) => {
                let holds = !self.quietly(*schema, value, None)?;
                Ok(self.expect(holds, || format!("{} matches a schema that is excluded by 'not'", shown(value))))
            }
            Keyword::If { condition, then, otherwise } => {
                let next = if self.quietly(*condition, value, seen.as_deref_mut())? { then } else { otherwise };
                next.map_or(Ok(true), |next| self.node(next, value, seen))
            }
            _ => Ok(true),
        }
    }

    fn number(&mut self, keyword: &Keyword, number: &Number, value: &Json) -> bool {
        use std::cmp::Ordering::{Greater, Less};
        let (holds, text, bound) = match keyword {
            Keyword::Compare { comparison, bound } => {
                let order = compare(number, bound);
                let (holds, text) = match comparison {
                    Comparison::Minimum => (order != Less, "less than the minimum of"),
                    Comparison::Maximum => (order != Greater, "greater than the maximum of"),
                    Comparison::ExclusiveMinimum => (order == Greater, "less than or equal to the minimum of"),
                    Comparison::ExclusiveMaximum => (order == Less, "greater than or equal to the maximum of"),
                };
                (holds, text, bound)
            }
            Keyword::MultipleOf(divisor) => (is_multiple(number, divisor), "not a multiple of", divisor),
            _ => return true,
        };
        self.expect(holds, || format!("{} is {text} {bound}", shown(value)))
    }

    fn string(&mut self, keyword: &'s Keyword, text: &str, value: &Json) -> Checked {
        match keyword {
            Keyword::Size { size: size @ (Size::MinLength | Size::MaxLength), bound } => {
                self.read(text)?;
                Ok(self.size(*size, text.chars().count(), *bound, value))
            }
            Keyword::Pattern(pattern) => {
                self.meter.spend(pattern.steps(text))?;
                Ok(self.expect(pattern.matches(text), || {
                    format!("{} does not match \"{}\"", cut(&shown(value), MAX_CHARS / 2), pattern.text)
                }))
            }
            _ => Ok(true),
        }
    }

    fn size(&mut self, size: Size, length: usize, bound: u64, value: &Json) -> bool {
        let plural = |one: &str, many: &str| if bound == 1 { one.to_owned() } else { many.to_owned() };
        let characters = plural("character", "characters");
        let items = plural("item", "items");
        let properties = plural("property", "properties");
        let length = length as u64;
        let (holds, text) = match size {
            Size::MinLength => (length >= bound, format!("is shorter than {bound} {characters}")),
            Size::MaxLength => (length <= bound, format!("is longer than {bound} {characters}")),
            Size::MinItems => (length >= bound, format!("has less than {bound} {items}")),
            Size::MaxItems => (length <= bound, format!("has more than {bound} {items}")),
            Size::MinProperties => (length >= bound, format!("has less than {bound} {properties}")),
            Size::MaxProperties => (length <= bound, format!("has more than {bound} {properties}")),
        };
        self.expect(holds, || format!("{} {text}", cut(&shown(value), MAX_CHARS / 2)))
    }

    fn array(
        &mut self,
        keyword: &'s Keyword,
        items: &'v [Json],
        value: &'v Json,
        seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        match keyword {
            Keyword::Size { size: size @ (Size::MinItems | Size::MaxItems), bound } => {
                Ok(self.size(*size, items.len(), *bound, value))
            }
            Keyword::UniqueItems => {
                let holds = self.is_unique(items)?;
                Ok(self.expect(holds, || format!("{} has non-unique elements", cut(&shown(value), MAX_CHARS / 2))))
            }
            Keyword::Items { prefix, rest } => self.items(prefix, *rest, items, seen),
            Keyword::Contains { schema, min, max } => self.contains(*schema, (*min, *max), items, value, seen),
            Keyword::UnevaluatedItems(schema) => self.unevaluated_items(*schema, items, seen),
            _ => Ok(true),
        }
    }

    fn items(
        &mut self,
        prefix: &[NodeId],
        rest: Option<NodeId>,
        items: &'v [Json],
        seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        let mut valid = true;
        for (at, item) in items.iter().enumerate() {
            let Some(schema) = prefix.get(at).copied().or(rest) else { break };
            valid &= self.at(PathStep::Index(at), schema, item)?;
            if self.quiet && !valid {
                return Ok(false);
            }
        }
        if let Some(seen) = seen {
            let described = if rest.is_some() { items.len() } else { prefix.len().min(items.len()) };
            seen.items_before = seen.items_before.max(described);
        }
        Ok(valid)
    }

    fn contains(
        &mut self,
        schema: NodeId,
        (min, max): (u64, Option<u64>),
        items: &'v [Json],
        value: &Json,
        mut seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        let mut count = 0;
        for (at, item) in items.iter().enumerate() {
            if self.quietly(schema, item, None)? {
                count += 1;
                if let Some(seen) = &mut seen {
                    seen.items.insert(at);
                }
            }
            if count >= min && max.is_none() && seen.is_none() {
                break;
            }
        }
        let value = || cut(&shown(value), MAX_CHARS / 2);
        let enough = self.expect(count >= min, || match count {
            0 => format!("None of {} are valid under the given schema", value()),
            _ => format!("Too few items of {} are valid under the given schema ({count} of {min})", value()),
        });
        let too_many = max.filter(|max| count > *max);
        Ok(enough
            && self.expect(too_many.is_none(), || {
                format!("Too many items of {} are valid under the given schema", value())
            }))
    }

    fn unevaluated_items(&mut self, schema: NodeId, items: &'v [Json], seen: Option<&mut Seen<'v>>) -> Checked {
        let Some(seen) = seen else { return Ok(true) };
        let mut valid = true;
        for (at, item) in items.iter().enumerate().skip(seen.items_before) {
            self.meter.spend(1)?;
            if !seen.items.contains(&at) && !self.quietly(schema, item, None)? {
                self.path.push(PathStep::Index(at));
                valid = self.fail(|| "Unevaluated items are not allowed".to_owned());
                self.path.pop();
            }
        }
        seen.items_before = items.len();
        Ok(valid)
    }

    /// Whether no two items are equal: items with equal hashes are compared.
    fn is_unique(&mut self, items: &'v [Json]) -> Checked {
        let (random, mut known) = (RandomState::new(), HashMap::<u64, Vec<&Json>>::new());
        for item in items {
            let mut hasher = random.build_hasher();
            self.hash(item, &mut hasher)?;
            let same = known.entry(hasher.finish()).or_default();
            for other in &*same {
                if self.equal(other, item)? {
                    return Ok(false);
                }
            }
            same.push(item);
        }
        Ok(true)
    }

    fn hash(&mut self, value: &Json, hasher: &mut impl Hasher) -> Result<(), Stop> {
        let mut waiting = vec![value];
        while let Some(value) = waiting.pop() {
            self.meter.spend(1)?;
            mem::discriminant(value).hash(hasher);
            match value {
                Json::Null => {}
                Json::Bool(bool) => bool.hash(hasher),
                Json::Number(number) => (number.as_f64().unwrap_or_default() + 0.0).to_bits().hash(hasher),
                Json::String(text) => {
                    self.read(text)?;
                    text.hash(hasher);
                }
                Json::Array(items) => {
                    items.len().hash(hasher);
                    waiting.extend(items);
                }
                // Equal objects can have different orders.
                Json::Object(members) => members.len().hash(hasher),
            }
        }
        Ok(())
    }

    /// Whether two values are equal: numbers by value, objects in any order.
    pub(super) fn equal(&mut self, a: &Json, b: &Json) -> Checked {
        let mut waiting = vec![(a, b)];
        while let Some(pair) = waiting.pop() {
            self.meter.spend(1)?;
            let same = match pair {
                (Json::Number(a), Json::Number(b)) => compare(a, b).is_eq(),
                (Json::String(a), Json::String(b)) => {
                    self.read(a)?;
                    a == b
                }
                (Json::Array(a), Json::Array(b)) => {
                    waiting.extend(a.iter().zip(b));
                    a.len() == b.len()
                }
                (Json::Object(a), Json::Object(b)) => {
                    self.meter.spend(a.len())?;
                    let members: Option<Vec<_>> = a.iter().map(|(name, a)| Some((a, b.get(name)?))).collect();
                    let found = members.is_some() && a.len() == b.len();
                    waiting.extend(members.into_iter().flatten());
                    found
                }
                (a, b) => a == b,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn object(
        &mut self,
        keyword: &'s Keyword,
        siblings: &'s [Keyword],
        members: &'v Map<String, Json>,
        value: &'v Json,
        seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        match keyword {
            Keyword::Size { size: size @ (Size::MinProperties | Size::MaxProperties), bound } => {
                Ok(self.size(*size, members.len(), *bound, value))
            }
            Keyword::Required(names) => self.required(names, siblings, members),
            Keyword::DependentRequired(dependencies) => {
                let mut valid = true;
                for (name, names) in dependencies {
                    self.meter.spend(1)?;
                    valid &= !members.contains_key(&**name) || self.required(names, siblings, members)?;
                }
                Ok(valid)
            }
            Keyword::DependentSchemas(schemas) => self.dependent_schemas(schemas, members, value, seen),
            Keyword::PropertyNames(schema) => self.property_names(*schema, members),
            Keyword::Properties(properties) => self.properties(properties, members, seen),
            Keyword::UnevaluatedProperties(schema) => self.unevaluated_properties(*schema, siblings, members, seen),
            _ => Ok(true),
        }
    }

    fn required(&mut self, names: &'s [Box<str>], siblings: &'s [Keyword], members: &'v Map<String, Json>) -> Checked {
        let mut valid = true;
        self.meter.spend(names.len())?;
        for name in names {
            valid &= members.contains_key(&**name) || self.fail_required(name, siblings, members)?;
        }
        Ok(valid)
    }

    fn dependent_schemas(
        &mut self,
        schemas: &'s [(Box<str>, NodeId)],
        members: &Map<String, Json>,
        value: &'v Json,
        mut seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        let mut valid = true;
        for (name, schema) in schemas {
            self.meter.spend(1)?;
            if members.contains_key(&**name) {
                valid &= self.node(*schema, value, seen.as_deref_mut())?;
            }
        }
        Ok(valid)
    }

    /// Checks each property name as a value of its own: it is not part of the value as JSON.
    fn property_names(&mut self, schema: NodeId, members: &Map<String, Json>) -> Checked {
        let mut valid = true;
        for name in members.keys() {
            self.read(name)?;
            let value = Json::String(name.clone());
            let (quiet, room) = (!self.is_recording(), 1);
            let mut check = Check { depth: self.depth, quiet, room, ..Check::new(self.nodes, self.meter, "") };
            let holds = check.node(schema, &value, None)?;
            let reason = check.violations.pop().map(|violation| format!(": {}", violation.message)).unwrap_or_default();
            valid &= self.expect(holds, || {
                format!("{} is not a valid property name{reason}", cut(&shown(&value), MAX_CHARS / 4))
            });
        }
        Ok(valid)
    }

    fn properties(
        &mut self,
        properties: &'s Properties,
        members: &'v Map<String, Json>,
        mut seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        let Properties { named, patterns, additional } = properties;
        let mut valid = true;
        let mut unexpected = Vec::new();
        for (name, member) in members {
            self.read(name)?;
            let mut described = false;
            if let Some(schema) = named.get(name.as_str()) {
                described = true;
                valid &= self.at(PathStep::Key(name), *schema, member)?;
            }
            for (pattern, schema) in patterns {
                self.meter.spend(pattern.steps(name))?;
                if pattern.matches(name) {
                    described = true;
                    valid &= self.at(PathStep::Key(name), *schema, member)?;
                }
            }
            match additional {
                Some(_) if described => {}
                Some(schema) if matches!(self.nodes[*schema], Node::Nothing) => unexpected.push(name.as_str()),
                Some(schema) => {
                    described = true;
                    valid &= self.at(PathStep::Key(name), *schema, member)?;
                }
                None => {}
            }
            if let (Some(seen), true) = (&mut seen, described) {
                seen.properties.insert(name);
            }
            if self.quiet && (!valid || !unexpected.is_empty()) {
                return Ok(false);
            }
        }
        Ok((unexpected.is_empty() || self.fail_unknown(&unexpected, &[properties], members)?) && valid)
    }

    fn unevaluated_properties(
        &mut self,
        schema: NodeId,
        siblings: &'s [Keyword],
        members: &'v Map<String, Json>,
        seen: Option<&mut Seen<'v>>,
    ) -> Checked {
        let Some(seen) = seen else { return Ok(true) };
        let mut unexpected = Vec::new();
        for (name, member) in members {
            self.meter.spend(1)?;
            let described = seen.all_properties || seen.properties.contains(name.as_str());
            if !described && !self.quietly(schema, member, None)? {
                unexpected.push(name.as_str());
            }
        }
        seen.all_properties = true;
        if unexpected.is_empty() {
            return Ok(true);
        }
        let described = self.properties_beside(siblings)?;
        self.fail_unknown(&unexpected, &described, members)
    }
}

fn compare(a: &Number, b: &Number) -> std::cmp::Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or(f64::NAN).total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn integer(number: &Number) -> Option<i128> {
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 1e37).then_some(number as i128);
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| whole(number.as_f64()?))
}

fn is_multiple(number: &Number, divisor: &Number) -> bool {
    if let (Some(number), Some(divisor)) = (integer(number), integer(divisor)) {
        return number % divisor == 0;
    }
    let (number, divisor) = (number.as_f64().unwrap_or(f64::NAN), divisor.as_f64().unwrap_or(f64::NAN));
    let quotient = number / divisor;
    if quotient.is_infinite() {
        return number % divisor == 0.0;
    }
    (quotient - quotient.round()).abs() <= quotient.abs() * 4.0 * f64::EPSILON
}

/// How deeply schemas may be nested in one another, following the value. A level takes about 1 KiB of stack, and 6 KiB
/// without optimizations.
pub(super) const MAX_DEPTH: usize = 256;

/// How many bytes of text are read in one step.
const BYTES_PER_STEP: usize = 16;
