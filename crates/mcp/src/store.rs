//! Where JSON texts are kept by key: what programs keep for later ones, and what is remembered of tools.

/// Keeps JSON texts by key. Methods may block; they are called on threads for blocking work, few at a time.
pub trait StateStore: Send + Sync {
    /// The text of a key, if there is one.
    fn get(&self, area: StateArea, key: &str) -> Result<Option<String>, StateError>;

    /// Stores a text in place of an earlier one. The text is stored when this returns.
    ///
    /// # Errors
    /// [`StateError::Full`] if it does not fit; an earlier text is kept then.
    fn set(&self, area: StateArea, key: &str, text: String) -> Result<(), StateError>;

    /// Stores a text if the text of the key is `expected`, or if there is none and `expected` is `None`. Returns whether it was
    /// stored. No other operation on the key, by any user of the state, takes place between the comparison and the change.
    ///
    /// # Errors
    /// [`StateError::Full`] if it does not fit; an earlier text is kept then.
    fn replace(&self, area: StateArea, key: &str, expected: Option<&str>, text: String) -> Result<bool, StateError>;

    /// Removes a key. Returns whether there was one.
    fn delete(&self, area: StateArea, key: &str) -> Result<bool, StateError>;

    /// The entries whose keys begin with `prefix`, sorted by key in the order of their bytes.
    fn list(&self, area: StateArea, prefix: &str) -> Result<Vec<StateEntry>, StateError>;
}

/// A part of the state, with keys of its own. The set is closed: a store has to keep each area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateArea {
    /// The namespace `store`. Keys have 1 to [`MAX_KEY_BYTES`](crate::server::MAX_KEY_BYTES) bytes.
    Values,
    /// The namespace `snippets`. Keys are names of snippets, texts are those of [`Snippet`](crate::server::Snippet).
    Snippets,
    /// What [`Shapes`](crate::Shapes) remember of the results of tools. Keys are hashes, texts have at most 64 KiB.
    Shapes,
}

/// An entry of an area, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateEntry {
    /// The key of the entry.
    pub key: String,
    /// The length of the text, in bytes.
    pub bytes: u64,
    /// A number that is different after every change of the text, such as the time of the change.
    pub revision: u64,
}

impl StateEntry {
    /// An entry of this key, length in bytes and revision.
    pub fn new(key: impl Into<String>, bytes: u64, revision: u64) -> Self {
        Self { key: key.into(), bytes, revision }
    }
}

/// Why an operation of a [`StateStore`] failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The entry does not fit.
    #[error("{} of {limit} bytes are used, and {needed} more are needed: delete what is not needed any more", limit.saturating_sub(*left))]
    Full {
        /// The maximum size of the state, in bytes.
        limit: u64,
        /// How many bytes of the limit are left.
        left: u64,
        /// How many more bytes are needed.
        needed: u64,
    },
    /// The states of all sessions together are full.
    #[error("the gateway keeps {limit} bytes for all its clients together, and has no room left: try again later")]
    AllFull {
        /// The maximum size of the states of all sessions together, in bytes.
        limit: u64,
    },
    /// The client has no session, so that nothing can be kept for it.
    #[error(
        "this client has no session, so that nothing is kept for it: start the gateway with a shared state \
         (`execbox mcp --state FILE`)"
    )]
    NoSession,
    /// The state cannot be read or written.
    #[error("the state is not available: {0}")]
    Unavailable(String),
}
