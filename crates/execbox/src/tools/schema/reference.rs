//! References between the schemas of one document: `$ref`, `$dynamicRef`, `$id` and `$anchor`. Nothing is fetched.
//!
//! What a `$dynamicRef` leads to depends on the resources that were entered before it, the outermost first. That is decided
//! while a schema is compiled: a schema that is reached through different resources has a node for each [`Scope`].

use std::collections::HashMap;
use std::ptr;

use execbox_core::budget::{Meter, Refused};
use serde_json::Value as Json;

use super::SchemaError;

/// The number of a resource: a schema with an `$id` of its own, or the whole document. References are relative to it.
type ResourceId = usize;

/// The resources through which a schema is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    resource: ResourceId,
    /// The index of the dynamic anchors of the resources that were entered.
    dynamic: usize,
}

/// What depends on the draft.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    /// Whether keywords beside `$ref` are ignored, as before 2019.
    pub(super) ignores_siblings: bool,
    /// Whether `id` names a resource, as in draft 4.
    has_id: bool,
}

/// The resources of a document and their anchors.
pub(super) struct Documents<'a> {
    dialect: Dialect,
    resources: Vec<Resource<'a>>,
    by_uri: HashMap<String, ResourceId>,
    /// The resource that begins with the schema at this address.
    by_address: HashMap<*const Json, ResourceId>,
    anchors: HashMap<(ResourceId, &'a str), &'a Json>,
    /// The dynamic anchors of each resource; in the end, only those that several resources have.
    dynamic: HashMap<ResourceId, Vec<&'a str>>,
    /// For each [`Scope::dynamic`], the outermost resource of each dynamic anchor, sorted.
    scopes: Vec<Anchors<'a>>,
    known_scopes: HashMap<Anchors<'a>, usize>,
}

type Anchors<'a> = Vec<(&'a str, ResourceId)>;

struct Resource<'a> {
    root: &'a Json,
    uri: String,
}

impl Dialect {
    pub(super) fn of(schema: &Json) -> Self {
        let uri = schema.get("$schema").and_then(Json::as_str).unwrap_or_default();
        let is_of = |drafts: &[&str]| drafts.iter().any(|draft| uri.contains(draft));
        Self {
            ignores_siblings: is_of(&["draft-03", "draft-04", "draft-06", "draft-07"]),
            has_id: is_of(&["draft-03", "draft-04"]),
        }
    }
}

impl Scope {
    /// The scope of the document as a whole.
    pub(super) const ROOT: Self = Self { resource: 0, dynamic: 0 };
}

impl<'a> Documents<'a> {
    /// Finds the resources and anchors in `document`.
    pub(super) fn find(document: &'a Json, dialect: Dialect, meter: &mut Meter<'_>) -> Result<Self, Refused> {
        let mut found = Self {
            dialect,
            resources: vec![Resource { root: document, uri: String::new() }],
            by_uri: HashMap::new(),
            by_address: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            scopes: vec![Vec::new()],
            known_scopes: HashMap::new(),
        };
        let mut waiting = vec![(document, 0, false)];
        while let Some((json, outer, is_map)) = waiting.pop() {
            match json {
                Json::Array(items) => waiting.extend(items.iter().map(|item| (item, outer, false))),
                Json::Object(schemas) if is_map => {
                    waiting.extend(schemas.values().map(|schema| (schema, outer, false)));
                }
                Json::Object(members) => {
                    let resource = found.enter(json, outer, meter)?;
                    let schemas = members.iter().filter(|(name, _)| !VALUES.contains(&name.as_str()));
                    waiting.extend(schemas.map(|(name, member)| (member, resource, MAPS.contains(&name.as_str()))));
                }
                _ => {}
            }
        }
        found.keep_ambiguous_anchors();
        Ok(found)
    }

    /// Registers the names of a schema. Returns the resource that it belongs to.
    fn enter(&mut self, json: &'a Json, outer: ResourceId, meter: &mut Meter<'_>) -> Result<ResourceId, Refused> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let is_root = ptr::eq(json, self.resources[0].root);
        if self.dialect.ignores_siblings && text("$ref").is_some() && !is_root {
            return Ok(outer);
        }
        let mut resource = outer;
        match text("$id").or_else(|| text("id").filter(|_| self.dialect.has_id)) {
            Some(anchor) if anchor.starts_with('#') => {
                meter.spend(RESOURCE_BYTES)?;
                self.anchors.entry((outer, &anchor[1..])).or_insert(json);
            }
            Some(id) => {
                let uri = join(&self.resources[outer].uri, id.trim_end_matches('#'));
                meter.spend(2 * uri.len() + RESOURCE_BYTES)?;
                if is_root {
                    self.resources[0].uri.clone_from(&uri);
                } else {
                    resource = self.resources.len();
                    self.resources.push(Resource { root: json, uri: uri.clone() });
                }
                self.by_address.insert(json, resource);
                self.by_uri.entry(uri).or_insert(resource);
            }
            None => {}
        }
        let recursive = (json.get(RECURSIVE) == Some(&Json::Bool(true))).then_some(RECURSIVE);
        let dynamic = text("$dynamicAnchor");
        for anchor in [text("$anchor"), dynamic, recursive].into_iter().flatten() {
            meter.spend(RESOURCE_BYTES)?;
            self.anchors.entry((resource, anchor)).or_insert(json);
        }
        for name in [dynamic, recursive].into_iter().flatten() {
            self.dynamic.entry(resource).or_default().push(name);
        }
        Ok(resource)
    }

    /// Removes the dynamic anchors that only one resource has: they lead there, whatever was entered.
    fn keep_ambiguous_anchors(&mut self) {
        let mut resources = HashMap::<&str, usize>::new();
        for names in self.dynamic.values_mut() {
            names.sort_unstable();
            names.dedup();
            for name in names {
                *resources.entry(name).or_default() += 1;
            }
        }
        self.dynamic.retain(|_, names| {
            names.retain(|name| resources[name] > 1);
            !names.is_empty()
        });
    }

    /// The scope of a schema that is found inside `outer`.
    pub(super) fn scope_of(
        &mut self,
        schema: &Json,
        outer: Scope,
        meter: &mut Meter<'_>,
    ) -> Result<Scope, SchemaError> {
        let resource = self.resource_of(schema, outer.resource);
        let Some(names) = self.dynamic.get(&resource) else { return Ok(Scope { resource, ..outer }) };
        let entered = &self.scopes[outer.dynamic];
        meter.spend(entered.len() + names.len())?;
        let is_new = |name: &&str| entered.binary_search_by_key(name, |(name, _)| name).is_err();
        let new: Anchors<'a> = names.iter().copied().filter(|name| is_new(name)).map(|name| (name, resource)).collect();
        if new.is_empty() {
            return Ok(Scope { resource, ..outer });
        }
        let mut anchors = [entered.as_slice(), &new].concat();
        anchors.sort_unstable();
        if let Some(dynamic) = self.known_scopes.get(&anchors) {
            return Ok(Scope { resource, dynamic: *dynamic });
        }
        if self.scopes.len() > MAX_SCOPES {
            return Err(SchemaError::Scopes);
        }
        meter.spend(2 * anchors.len() * size_of::<(&str, ResourceId)>() + RESOURCE_BYTES)?;
        let dynamic = self.scopes.len();
        self.scopes.push(anchors.clone());
        self.known_scopes.insert(anchors, dynamic);
        Ok(Scope { resource, dynamic })
    }

    fn resource_of(&self, schema: &Json, outer: ResourceId) -> ResourceId {
        self.by_address.get(&ptr::from_ref(schema)).copied().unwrap_or(outer)
    }

    /// The schema that `reference`, the value of `keyword`, names in `scope`, and the scope that it is reached in.
    pub(super) fn resolve(&self, keyword: &str, reference: &str, scope: Scope) -> Option<(&'a Json, Scope)> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = match uri {
            "" => scope.resource,
            uri => *self.by_uri.get(&join(&self.resources[scope.resource].uri, uri))?,
        };
        let root = self.resources[resource].root;
        let fragment = percent_decoded(fragment)?;
        let (target, resource) = match &*fragment {
            "" => (root, resource),
            pointer if pointer.starts_with('/') => self.follow(root, resource, pointer)?,
            anchor => (*self.anchors.get(&(resource, anchor))?, resource),
        };
        let (target, resource) = match keyword {
            "$dynamicRef" => self.outermost(&fragment, target, resource, scope),
            "$recursiveRef" => self.outermost(RECURSIVE, target, resource, scope),
            _ => None,
        }
        .unwrap_or((target, resource));
        Some((target, Scope { resource, ..scope }))
    }

    /// The schema that has the same dynamic anchor as `target`, in the outermost resource that was entered.
    fn outermost(
        &self,
        anchor: &str,
        target: &'a Json,
        resource: ResourceId,
        scope: Scope,
    ) -> Option<(&'a Json, ResourceId)> {
        let is_dynamic = self.dynamic.get(&resource)?.binary_search(&anchor).is_ok();
        let is_target = ptr::eq(*self.anchors.get(&(resource, anchor))?, target);
        let entered = &self.scopes[scope.dynamic];
        let at = entered.binary_search_by_key(&anchor, |(name, _)| name).ok().filter(|_| is_dynamic && is_target)?;
        let (name, resource) = entered[at];
        Some((self.anchors[&(resource, name)], resource))
    }

    fn follow(&self, root: &'a Json, resource: ResourceId, pointer: &str) -> Option<(&'a Json, ResourceId)> {
        let (mut at, mut resource) = (root, resource);
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            at = match at {
                Json::Object(members) => members.get(&part)?,
                Json::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
            resource = self.resource_of(at, resource);
        }
        Some((at, resource))
    }
}

/// Resolves a URI against another one, as far as references inside one document need it.
fn join(base: &str, uri: &str) -> String {
    let authority = base.find("://").map(|at| at + 3);
    let is_absolute = uri.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    if base.is_empty() || is_absolute {
        return uri.to_owned();
    }
    let path = authority.map_or(0, |from| base[from..].find('/').map_or(base.len(), |at| from + at));
    let (authority, path) = base.split_at(path);
    let folder = if uri.starts_with('/') { "" } else { path.rfind('/').map_or("", |at| &path[..=at]) };
    let slash = if path.is_empty() && !uri.starts_with('/') { "/" } else { "" };
    format!("{authority}{folder}{slash}{uri}")
}

/// `text` with its `%XX` decoded, as a URI fragment asks.
pub(in crate::tools) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        let hex = (*first == b'%').then(|| tail.get(..2)).flatten().and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Keywords that contain values, not schemas.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];

/// Keywords that contain schemas by name: such a name is no keyword.
const MAPS: [&str; 6] = ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// The dynamic anchor of draft 2019-09, which has no name.
const RECURSIVE: &str = "$recursiveAnchor";

/// The most sets of outermost resources that a schema is reached through: it has a node for each.
pub(super) const MAX_SCOPES: usize = 16;

/// What is charged for a resource or an anchor, in bytes, without its name.
const RESOURCE_BYTES: usize = 256;
