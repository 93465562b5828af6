//! References between the schemas of one document: `$ref`, `$id` and `$anchor`. Nothing is fetched.

use std::collections::HashMap;
use std::ptr;

use execbox_core::budget::{Meter, Refused};
use serde_json::Value as Json;

/// The number of a resource: a schema with an `$id` of its own, or the whole document. References are relative to it.
pub(super) type ResourceId = usize;

/// The resources of a document and their anchors.
pub(super) struct Documents<'a> {
    resources: Vec<Resource<'a>>,
    by_uri: HashMap<String, ResourceId>,
    /// The resource that begins with the schema at this address.
    by_address: HashMap<*const Json, ResourceId>,
    anchors: HashMap<(ResourceId, &'a str), &'a Json>,
}

struct Resource<'a> {
    root: &'a Json,
    uri: String,
}

impl<'a> Documents<'a> {
    /// Finds the resources and anchors in `document`.
    pub(super) fn find(document: &'a Json, meter: &mut Meter<'_>) -> Result<Self, Refused> {
        let mut found = Self {
            resources: vec![Resource { root: document, uri: String::new() }],
            by_uri: HashMap::new(),
            by_address: HashMap::new(),
            anchors: HashMap::new(),
        };
        let mut waiting = vec![(document, 0)];
        while let Some((json, outer)) = waiting.pop() {
            match json {
                Json::Array(items) => waiting.extend(items.iter().map(|item| (item, outer))),
                Json::Object(members) => {
                    let resource = found.enter(json, outer, meter)?;
                    let schemas = members.iter().filter(|(name, _)| !VALUES.contains(&name.as_str()));
                    waiting.extend(schemas.map(|(_, member)| (member, resource)));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Registers the names of a schema. Returns the resource that it belongs to.
    fn enter(&mut self, json: &'a Json, outer: ResourceId, meter: &mut Meter<'_>) -> Result<ResourceId, Refused> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let mut resource = outer;
        match text("$id") {
            Some(anchor) if anchor.starts_with('#') => {
                self.anchors.entry((outer, &anchor[1..])).or_insert(json);
            }
            Some(id) => {
                let uri = join(&self.resources[outer].uri, id.trim_end_matches('#'));
                meter.spend(2 * uri.len() + RESOURCE_BYTES)?;
                if ptr::eq(json, self.resources[0].root) {
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
        for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
            meter.spend(RESOURCE_BYTES)?;
            self.anchors.entry((resource, anchor)).or_insert(json);
        }
        Ok(resource)
    }

    /// The resource of a schema that is found inside `outer`.
    pub(super) fn resource_of(&self, schema: &Json, outer: ResourceId) -> ResourceId {
        self.by_address.get(&ptr::from_ref(schema)).copied().unwrap_or(outer)
    }

    /// The schema that `reference` names in `resource`, and its resource.
    pub(super) fn resolve(&self, reference: &str, resource: ResourceId) -> Option<(&'a Json, ResourceId)> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = match uri {
            "" => resource,
            uri => *self.by_uri.get(&join(&self.resources[resource].uri, uri))?,
        };
        let root = self.resources[resource].root;
        match &*percent_decoded(fragment)? {
            "" => Some((root, resource)),
            pointer if pointer.starts_with('/') => self.follow(root, resource, pointer),
            anchor => self.anchors.get(&(resource, anchor)).map(|target| (*target, resource)),
        }
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
    let scheme = base.find("://").map_or(0, |at| at + 3);
    let is_absolute = uri.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    if base.is_empty() || is_absolute {
        return uri.to_owned();
    }
    let end = if uri.starts_with('/') {
        base[scheme..].find('/').map_or(base.len(), |at| scheme + at)
    } else {
        base[scheme..].rfind('/').map_or(base.len(), |at| scheme + at + 1)
    };
    format!("{}{uri}", &base[..end])
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

/// What is charged for a resource or an anchor, in bytes, without its name.
const RESOURCE_BYTES: usize = 256;
