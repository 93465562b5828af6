//! The resources whose updates one client wants.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::changes::Updated;
use crate::upstream::Watch;

/// The resources, by the URIs that the client has sent.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<BTreeMap<String, WatchedResource>>);

/// A resource of a server.
#[derive(Debug)]
pub(super) struct WatchedResource {
    pub(super) server: String,
    /// The URI on the server.
    pub(super) own: String,
    pub(super) _watch: Watch,
}

impl Watches {
    /// Adds a resource. Returns whether there is room.
    pub(super) fn add(&self, uri: String, resource: WatchedResource) -> bool {
        let mut watches = self.lock();
        let has_room = watches.len() < MAX_WATCHES || watches.contains_key(&uri);
        if has_room {
            watches.insert(uri, resource);
        }
        has_room
    }

    pub(super) fn remove(&self, uri: &str) {
        let removed = self.lock().remove(uri);
        drop(removed);
    }

    /// The URIs by which the client knows a resource that was updated.
    pub(super) fn of(&self, updated: &Updated) -> Vec<String> {
        let watches = self.lock();
        let is_same = |resource: &WatchedResource| *resource.server == *updated.server && *resource.own == *updated.uri;
        watches.iter().filter(|(_, resource)| is_same(resource)).map(|(uri, _)| uri.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, WatchedResource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many resources a client may watch at once.
pub(super) const MAX_WATCHES: usize = 256;
