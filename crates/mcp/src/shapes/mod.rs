//! The shapes of results that were seen: what models read of tools whose servers declare no output.
//!
//! Types and names of members are remembered, no values. Names that look like values, such as ids and dates, are not: an object
//! with one of them is remembered as a map. A name that is a plain word is kept, also where it is a value. A shape belongs to a tool with one input schema, and is forgotten when that changes.

mod shape;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use crate::Secrets;
use crate::store::{StateArea, StateStore};
use shape::Shape;

/// The shapes of the results of tools. Cheap to clone; clones are the same memory.
#[derive(Clone, Default)]
pub struct Shapes(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: Mutex<Known>,
    /// Where shapes are kept beyond this process.
    store: Option<Arc<dyn StateStore>>,
}

#[derive(Default)]
struct Known {
    shapes: HashMap<String, Arc<Seen>>,
    /// The keys of the shapes, in the order in which they were first seen.
    order: VecDeque<String>,
    /// The size of all shapes together.
    size: usize,
    /// The keys of shapes that are to be written to the store.
    changed: HashSet<String>,
    /// Whether a thread writes them.
    is_writing: bool,
}

/// What was seen of a tool.
#[derive(Clone, Serialize, Deserialize)]
struct Seen {
    /// The hash of the tool's input schema.
    schema: String,
    shape: Shape,
}

/// A tool whose results are seen.
#[derive(Debug, Clone)]
pub(crate) struct SeenTool {
    key: String,
    schema: String,
}

impl SeenTool {
    /// The tool with this name on its server and this input schema.
    pub(crate) fn new(namespace: &str, tool: &str, input: Option<&Json>) -> Self {
        Self { key: key(namespace, tool), schema: hash_of_schema(input) }
    }
}

fn key(namespace: &str, tool: &str) -> String {
    hash(&format!("{namespace}\n{tool}"))
}

fn hash_of_schema(input: Option<&Json>) -> String {
    hash(&input.map(Json::to_string).unwrap_or_default())
}

fn hash(text: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(text).into();
    format!("{:032x}", u128::from_be_bytes(std::array::from_fn(|at| hash[at])))
}

impl Shapes {
    /// Shapes that are also kept in a store, in [`StateArea::Shapes`]. [`load`](Self::load) reads those that it has.
    pub fn kept_in(store: Arc<dyn StateStore>) -> Self {
        Self(Arc::new(Inner { known: Mutex::default(), store: Some(store) }))
    }

    /// Reads the shapes of the store, except those that cannot be read or that were seen meanwhile. Blocks.
    pub fn load(&self) {
        let Some(store) = &self.0.store else { return };
        let entries = store.list(StateArea::Shapes, "").unwrap_or_default();
        for entry in entries.into_iter().filter(|entry| entry.bytes <= MAX_TEXT).take(MAX_TOOLS) {
            let text = store.get(StateArea::Shapes, &entry.key).ok().flatten();
            let seen = text.and_then(|text| serde_json::from_str::<Seen>(&text).ok());
            let mut known = self.lock();
            if let Some(seen) = seen.filter(|seen| seen.shape.is_bounded() && !known.shapes.contains_key(&entry.key)) {
                known.insert(entry.key, seen);
            }
        }
    }

    /// Writes the shapes that are not in the store yet. Blocks.
    pub fn flush(&self) {
        while self.write_next() {}
    }

    /// Remembers the shape of a result.
    pub(crate) fn record(&self, tool: &SeenTool, result: &Json, secrets: &Secrets) {
        let seen = self.lock().shapes.get(&tool.key).filter(|seen| seen.schema == tool.schema).cloned();
        let mut shape = seen.as_ref().map(|seen| seen.shape.clone()).unwrap_or_default();
        shape.add(result, &|name| !secrets.occur_in(&Json::String(name.to_owned())));
        if seen.is_some_and(|seen| seen.shape == shape) {
            return;
        }
        // What another call has added in between is seen again.
        let mut known = self.lock();
        known.insert(tool.key.clone(), Seen { schema: tool.schema.clone(), shape });
        if self.0.store.is_some() {
            known.changed.insert(tool.key.clone());
            self.write(&mut known);
        } else {
            known.changed.clear();
        }
    }

    /// A schema of the results of a tool that were seen. `input` is its input schema.
    pub(crate) fn schema(&self, namespace: &str, tool: &str, input: Option<&Json>) -> Option<Json> {
        let seen = self.lock().shapes.get(&key(namespace, tool)).cloned()?;
        (seen.schema == hash_of_schema(input)).then(|| seen.shape.schema())
    }

    /// Writes changed shapes on a thread, unless one does already.
    fn write(&self, known: &mut Known) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !std::mem::replace(&mut known.is_writing, true) {
            let shapes = self.clone();
            runtime.spawn_blocking(move || shapes.flush());
        }
    }

    /// Writes one changed shape. Returns false if there is none.
    fn write_next(&self) -> bool {
        let mut known = self.lock();
        let Some(key) = known.changed.iter().next().cloned() else {
            known.is_writing = false;
            return false;
        };
        known.changed.remove(&key);
        let text = known.shapes.get(&key).and_then(|seen| serde_json::to_string(&**seen).ok());
        drop(known);
        if let Some(store) = &self.0.store {
            // A shape that is not kept is seen again.
            let _ = match text {
                Some(text) => store.set(StateArea::Shapes, &key, text),
                None => store.delete(StateArea::Shapes, &key).map(drop),
            };
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn insert(&mut self, key: String, seen: Seen) {
        self.size += seen.shape.size();
        match self.shapes.insert(key.clone(), Arc::new(seen)) {
            Some(before) => self.size -= before.shape.size(),
            None => self.order.push_back(key),
        }
        while (self.order.len() > MAX_TOOLS || self.size > MAX_SIZE)
            && let Some(oldest) = self.order.pop_front()
        {
            self.size -= self.shapes.remove(&oldest).map_or(0, |seen| seen.shape.size());
            self.changed.insert(oldest); // Removes it from the store.
        }
    }
}

impl fmt::Debug for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shapes").field("tools", &self.lock().shapes.len()).finish_non_exhaustive()
    }
}

/// The number of tools whose shapes are remembered, and the size of all these shapes together: less than 16 MiB of memory.
const MAX_TOOLS: usize = 1_000;
const MAX_SIZE: usize = 20_000;

/// The longest text in a store that is read, in bytes.
const MAX_TEXT: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// Without a bound on all of them, the largest shapes of 1 000 tools take 150 MiB.
    #[test]
    fn the_shapes_of_all_tools_are_bounded_together_and_the_newest_are_kept() {
        let letters = |number: usize| -> String {
            (0..5).map(|place| char::from(b'a' + u8::try_from(number / 26_usize.pow(place) % 26).unwrap())).collect()
        };
        let shapes = Shapes::default();
        let tool = |at: usize| SeenTool::new("server", &at.to_string(), None);
        for at in 0..1_200 {
            let members = |from: usize| (from..from + 39).map(move |at| (letters(at), json!({ "a": at })));
            let groups = (0..5).map(|group| (letters(group), Json::Object(members(40 * (5 * at + group)).collect())));
            shapes.record(&tool(at), &Json::Object(groups.collect::<Map<_, _>>()), &Secrets::default());
        }
        let known = shapes.lock();
        let sizes: usize = known.shapes.values().map(|seen| seen.shape.size()).sum();
        assert_eq!((sizes, known.shapes.len()), (known.size, known.order.len()));
        assert!(known.size <= MAX_SIZE && known.size > MAX_SIZE - 1_000, "{}", known.size);
        assert!(known.changed.is_empty(), "nothing waits for a store");
        assert!(known.shapes.contains_key(&tool(1_199).key) && !known.shapes.contains_key(&tool(0).key));
    }
}
