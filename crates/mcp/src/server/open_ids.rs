//! The ids of the requests over sessions that are not answered yet: each is used once at a time (JSON-RPC 2.0 §4).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;

/// The open ids, with the session that each belongs to. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct OpenIds(Arc<Mutex<HashSet<(String, RequestId)>>>);

impl OpenIds {
    /// Opens an id until the returned value is dropped. `None` if it is open already.
    pub(super) fn open(&self, session: &str, id: &RequestId) -> Option<OpenId> {
        let key = (session.to_owned(), id.clone());
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(key.clone()).then(|| OpenId { ids: self.clone(), key })
    }
}

/// The id of a request that is not answered.
pub(super) struct OpenId {
    ids: OpenIds,
    key: (String, RequestId),
}

impl Drop for OpenId {
    fn drop(&mut self) {
        self.ids.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}
