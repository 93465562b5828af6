//! Messages that help to repair a value: the values that are allowed, the nearest name, the alternative that is meant.
//!
//! All of it is work on the meter, and none of it is done for violations that are not recorded.

use std::collections::HashSet;
use std::slice;

use execbox_core::hint::near;
use execbox_core::text::cut;
use serde_json::{Map, Value as Json};

use super::nodes::{Keyword, Kind, Node, NodeId, Properties};
use super::show::{MAX_CHARS, list, shown};
use super::validate::{Check, Checked, PathStep, Stop};

/// What the alternatives allow that reject a value by `type`, `const` or `enum`.
#[derive(Default)]
struct Allowed<'s> {
    values: Vec<&'s [Json]>,
    kinds: Vec<Kind>,
}

impl<'s, 'v> Check<'s, 'v, '_> {
    /// Records why none of the `schemas` of `anyOf` or `oneOf` admits the value. Returns false.
    pub(super) fn fail_alternatives(&mut self, schemas: &'s [NodeId], value: &'v Json) -> Checked {
        if !self.is_recording() {
            return Ok(self.fail(String::new));
        }
        let (mut allowed, mut candidates) = (Allowed::default(), Vec::new());
        for id in self.alternatives(schemas)? {
            if !self.is_rejected_at_once(id, value, &mut allowed)? {
                candidates.push(id);
            }
        }
        if candidates.is_empty() {
            return self.fail_allowed(&allowed, value);
        }
        if let Json::Object(members) = value
            && self.discriminate(&mut candidates, members)?
        {
            return Ok(false);
        }
        let closest = match *candidates {
            [only] => only,
            _ => self.closest(&candidates, value)?,
        };
        let outer = self.alternatives.replace(schemas.len());
        let valid = self.node(closest, value, None);
        self.alternatives = outer;
        debug_assert!(valid != Ok(true), "no alternative admits the value");
        valid.map(|_| false)
    }

    /// The schemas of which one must admit the value: `schemas`, and in place of those that consist of a reference or
    /// of `anyOf` the schemas that they apply.
    fn alternatives(&mut self, schemas: &[NodeId]) -> Result<Vec<NodeId>, Stop> {
        let (mut waiting, mut found) = (schemas.to_vec(), Vec::new());
        waiting.reverse();
        while let Some(id) = waiting.pop() {
            self.spend(1)?;
            match &self.nodes[id] {
                Node::Nothing => {}
                Node::Keywords(keywords) => match &*keywords.list {
                    [Keyword::Reference(target)] => waiting.push(*target),
                    [Keyword::AnyOf(schemas)] => waiting.extend(schemas.iter().rev()),
                    [Keyword::AllOf(schemas)] if schemas.len() == 1 => waiting.extend(schemas),
                    _ => found.push(id),
                },
                Node::Any => found.push(id),
            }
        }
        Ok(found)
    }

    /// Whether `type`, `const` or `enum` of a schema reject the value. Adds to `allowed` what they admit.
    fn is_rejected_at_once(&mut self, id: NodeId, value: &Json, allowed: &mut Allowed<'s>) -> Checked {
        let (mut values, mut kinds, mut waiting) = (None, None, vec![id]);
        while let Some(id) = waiting.pop() {
            let Node::Keywords(keywords) = &self.nodes[id] else { continue };
            for keyword in &keywords.list {
                self.spend(1)?;
                match keyword {
                    Keyword::Reference(target) => waiting.push(*target),
                    Keyword::Type(all) if !all.iter().any(|kind| kind.admits(value)) => kinds = Some(all),
                    Keyword::Const(only) if !self.equal(only, value)? => values = Some(slice::from_ref(only)),
                    Keyword::Enum(all) if !self.is_listed(all, value)? => values = Some(&*all.values),
                    _ => {}
                }
            }
        }
        match (values, kinds) {
            (None, None) => return Ok(false),
            (Some(values), _) => allowed.values.push(values),
            (None, Some(kinds)) => {
                let unknown = kinds.iter().filter(|kind| !allowed.kinds.contains(kind));
                let unknown: Vec<Kind> = unknown.copied().collect();
                allowed.kinds.extend(unknown);
            }
        }
        Ok(true)
    }

    /// Keeps the candidates that admit the members which each of them describes by `const` or `enum`. If none admits
    /// such a member, records this and returns true.
    fn discriminate(&mut self, candidates: &mut Vec<NodeId>, members: &'v Map<String, Json>) -> Checked {
        let mut described = Vec::new();
        for id in candidates.iter() {
            described.push((*id, self.properties_in_place(vec![*id])?));
        }
        for (name, member) in members {
            if described.len() == 1 {
                break;
            }
            let Some(schemas) = self.discriminator(&described, name)? else { continue };
            let (mut allowed, mut admits) = (Allowed::default(), Vec::new());
            for schema in schemas {
                admits.push(!self.is_rejected_at_once(schema, member, &mut allowed)?);
            }
            if !admits.contains(&true) {
                self.path.push(PathStep::Key(name));
                let valid = self.fail_allowed(&allowed, member);
                self.path.pop();
                return valid.map(|_| true);
            }
            let mut admits = admits.into_iter();
            described.retain(|_| admits.next() == Some(true));
        }
        *candidates = described.into_iter().map(|(id, _)| id).collect();
        Ok(false)
    }

    /// The schemas of the property `name` in each candidate, if all of them describe it by `const` or `enum`.
    fn discriminator(
        &mut self,
        candidates: &[(NodeId, Vec<&'s Properties>)],
        name: &str,
    ) -> Result<Option<Vec<NodeId>>, Stop> {
        let mut schemas = Vec::new();
        for (_, described) in candidates {
            self.spend(STEPS_OF_CANDIDATE)?;
            self.read(name)?;
            self.spend(described.len())?;
            let Some(schema) = described.iter().find_map(|properties| properties.named.get(name)) else {
                return Ok(None);
            };
            let mut waiting = vec![*schema];
            let mut is_fixed = false;
            while let Some(id) = waiting.pop() {
                let Node::Keywords(keywords) = &self.nodes[id] else { continue };
                self.spend(keywords.list.len())?;
                for keyword in &keywords.list {
                    match keyword {
                        Keyword::Reference(target) => waiting.push(*target),
                        Keyword::Const(_) | Keyword::Enum(_) => is_fixed = true,
                        _ => {}
                    }
                }
            }
            if !is_fixed {
                return Ok(None);
            }
            schemas.push(*schema);
        }
        Ok(Some(schemas))
    }

    /// The first of the candidates that the value violates in the fewest places.
    fn closest(&mut self, candidates: &[NodeId], value: &'v Json) -> Result<NodeId, Stop> {
        let mut best = (usize::MAX, candidates[0]);
        for &id in candidates {
            let violations = self.count(id, value)?;
            if violations < best.0 {
                best = (violations, id);
            }
        }
        Ok(best.1)
    }

    /// Records that the value is none of the allowed ones. Returns false.
    fn fail_allowed(&mut self, Allowed { values, kinds }: &Allowed<'s>, value: &Json) -> Checked {
        match (&**values, &**kinds) {
            ([], []) => Ok(self.fail(|| format!("{} is not allowed: no alternative allows a value", shown(value)))),
            ([], kinds) => Ok(self.fail(|| not_of_types(kinds, value))),
            (values, kinds) => self.fail_values(values, kinds, value),
        }
    }

    /// Records that the value is in none of the lists `values` and of none of `kinds`. Returns false.
    pub(super) fn fail_values(&mut self, values: &[&'s [Json]], kinds: &[Kind], value: &Json) -> Checked {
        if !self.is_recording() {
            return Ok(self.fail(String::new));
        }
        let mut first: Vec<&Json> = values.iter().copied().flatten().take(MAX_VALUES).collect();
        self.spend(values.len() + first.len())?;
        let similar = match value.as_str() {
            Some(text) => self.nearest(text, first.iter().filter_map(|value| value.as_str()))?,
            None => None,
        };
        first.extend(kinds.contains(&Kind::Null).then_some(&Json::Null));
        let kinds = kinds.iter().filter(|kind| **kind != Kind::Null);
        Ok(self.fail(|| {
            let kinds = kinds.fold(String::new(), |text, kind| text + &format!(", or of type {:?}", kind.name()));
            let hint = similar.map(|similar| format!("; did you mean {similar:?}?")).unwrap_or_default();
            let value = cut(&shown(value), MAX_CHARS / 3);
            with_end(&format!("{value} is not one of {}", list(&first)), &(kinds + &hint))
        }))
    }

    /// The name of `known` that is most similar to `name`, for a violation that is recorded.
    fn nearest<'a>(&mut self, name: &str, known: impl Iterator<Item = &'a str>) -> Result<Option<&'a str>, Stop> {
        if !self.is_recording() {
            return Ok(None);
        }
        let known: Vec<&str> = known.take(MAX_VALUES).collect();
        let cells: usize = known.iter().map(|known| 1 + name.len().min(MAX_NAME) * known.len().min(MAX_NAME)).sum();
        self.spend(known.len() + cells / CELLS_PER_STEP)?;
        Ok(near(name, known.into_iter()))
    }

    /// The keywords about properties in the schemas `ids` and in those that they apply to the same value.
    fn properties_in_place(&mut self, ids: Vec<NodeId>) -> Result<Vec<&'s Properties>, Stop> {
        let (mut waiting, mut known, mut found) = (ids, HashSet::new(), Vec::new());
        while let Some(id) = waiting.pop() {
            self.spend(1)?;
            let Node::Keywords(keywords) = &self.nodes[id] else { continue };
            if known.insert(id) {
                let in_place = self.add_properties(&keywords.list, &mut found)?;
                waiting.extend(in_place);
            }
        }
        Ok(found)
    }

    /// Adds the keywords about properties to `found`. Returns the schemas that the others apply to the same value.
    fn add_properties(
        &mut self,
        keywords: &'s [Keyword],
        found: &mut Vec<&'s Properties>,
    ) -> Result<Vec<NodeId>, Stop> {
        let mut in_place = Vec::new();
        for keyword in keywords {
            if let Keyword::Properties(properties) = keyword {
                found.push(properties);
            }
            in_place.extend(keyword.in_place());
        }
        self.spend(keywords.len() + in_place.len())?;
        Ok(in_place)
    }

    /// The keywords about properties that apply beside `siblings`.
    pub(super) fn properties_beside(&mut self, siblings: &'s [Keyword]) -> Result<Vec<&'s Properties>, Stop> {
        let mut found = Vec::new();
        let in_place = self.add_properties(siblings, &mut found)?;
        found.extend(self.properties_in_place(in_place)?);
        Ok(found)
    }

    /// Records that a property is missing. If there is a similar property that the schema does not know, the message
    /// names it. Returns false.
    pub(super) fn fail_required(
        &mut self,
        name: &'s str,
        siblings: &'s [Keyword],
        members: &'v Map<String, Json>,
    ) -> Checked {
        let mut misspelled = None;
        if self.is_recording() {
            let described = self.properties_beside(siblings)?;
            if described.iter().any(|properties| properties.named.contains_key(name)) {
                let unknown = self.unknown(&described, members)?;
                misspelled = self.nearest(name, unknown.into_iter())?;
            }
        }
        self.explained.extend(misspelled);
        Ok(self.fail(|| {
            let hint = misspelled.map(|given| format!(", but {given:?} is given; did you mean {name:?}?"));
            let text = format!("{:?} is a required property", cut(name, MAX_NAME));
            with_end(&text, &hint.unwrap_or_default())
        }))
    }

    /// The first members that no keyword describes and no violation has explained.
    fn unknown(&mut self, described: &[&Properties], members: &'v Map<String, Json>) -> Result<Vec<&'v str>, Stop> {
        let mut unknown = Vec::new();
        for name in members.keys() {
            let mut is_known = self.is_explained(name);
            for Properties { named, patterns, .. } in described {
                self.read(name)?;
                is_known |= named.contains_key(name.as_str());
                for (pattern, _) in patterns {
                    self.spend(pattern.steps(name))?;
                    is_known |= pattern.matches(name);
                }
            }
            if !is_known && unknown.len() < MAX_VALUES {
                unknown.push(name.as_str());
            }
        }
        Ok(unknown)
    }

    /// Whether a violation names the member of this name as a typing error.
    fn is_explained(&self, name: &str) -> bool {
        self.explained.iter().any(|explained| std::ptr::eq(*explained, name))
    }

    /// Records that members are not allowed, and the names that are. Returns false.
    pub(super) fn fail_unknown(
        &mut self,
        unknown: &[&'v str],
        described: &[&'s Properties],
        members: &'v Map<String, Json>,
    ) -> Checked {
        if !self.is_recording() {
            return Ok(self.fail(String::new));
        }
        let names: usize = described.iter().map(|properties| properties.named.len()).sum();
        self.spend(names + unknown.len())?;
        let mut known: Vec<&str> =
            described.iter().flat_map(|properties| properties.named.keys()).map(|name| &**name).collect();
        known.sort_unstable();
        known.dedup();
        let absent = known.iter().copied().filter(|known| !members.contains_key(*known));
        let absent: Vec<&str> = absent.take(MAX_VALUES).collect();
        let mut others = Vec::new();
        let unknown: Vec<&str> = unknown.iter().copied().filter(|name| !self.is_explained(name)).collect();
        for name in unknown {
            self.spend(1)?;
            match self.nearest(name, absent.iter().copied())? {
                Some(similar) => {
                    self.explained.push(name);
                    self.fail(|| format!("unknown property {name:?}; did you mean {similar:?}?"));
                }
                None => others.push(name),
            }
        }
        if !others.is_empty() {
            let patterns = described.iter().flat_map(|properties| &properties.patterns);
            let patterns = patterns.map(|(pattern, _)| format!("names that match {:?}", pattern.text));
            self.fail(|| unknown_properties(&others, &known, patterns));
        }
        Ok(false)
    }
}

/// `unknown properties "b", "c"; allowed: "a"`
fn unknown_properties(names: &[&str], known: &[&str], patterns: impl Iterator<Item = String>) -> String {
    let quoted = |names: &[&str]| -> Vec<String> {
        names.iter().take(MAX_LISTED).map(|name| format!("{:?}", cut(name, MAX_NAME))).collect()
    };
    let property = if names.len() == 1 { "property" } else { "properties" };
    let names = cut(&quoted(names).join(", "), MAX_CHARS / 3);
    let mut allowed = quoted(known);
    allowed.extend(patterns.take(MAX_LISTED));
    allowed.extend((known.len() > MAX_LISTED).then(|| format!("and {} more", known.len() - MAX_LISTED)));
    match &*allowed {
        [] => format!("unknown {property} {names}; no properties are allowed"),
        allowed => format!("unknown {property} {names}; allowed: {}", allowed.join(", ")),
    }
}

/// `1 is not of types "string", "null"`
pub(super) fn not_of_types(kinds: &[Kind], value: &Json) -> String {
    match kinds {
        [kind] => format!("{} is not of type \"{}\"", shown(value), kind.name()),
        kinds => {
            let names: Vec<String> = kinds.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
            format!("{} is not of types {}", shown(value), names.join(", "))
        }
    }
}

/// `text` and `end`, of which `text` is truncated.
fn with_end(text: &str, end: &str) -> String {
    cut(text, MAX_CHARS.saturating_sub(end.chars().count() + 1)) + end
}

/// The most values and names that a message is made from.
const MAX_VALUES: usize = 256;

/// The most names in a list.
const MAX_LISTED: usize = 8;

/// The length of a name in a message, in characters, and the longest names that are compared.
const MAX_NAME: usize = 64;

/// The steps of looking at one property of one alternative, which takes some allocations.
const STEPS_OF_CANDIDATE: usize = 32;

/// How many pairs of characters are compared in one step.
const CELLS_PER_STEP: usize = 8;
