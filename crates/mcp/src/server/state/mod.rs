//! State that programs keep for later programs: values in the namespace `store`, and code in `snippets`.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the states of the sessions |
//! | `memory.rs` | the state of one session, in memory |
//! | `values.rs` | the namespace `store` |
//! | `update.rs` | the function `store.update`, which runs in programs |
//! | `snippets.rs` | the namespace `snippets`, and the catalog of what is saved |
//! | `checker.rs` | whether the engine compiles a snippet |
//! | `named.rs` | the snippets that a program names |
//!
//! By default each session has a state of its own, which ends with it: no client reads what another one keeps.
//! [`StateOptions::shared`] replaces that by one state for all clients. A client with a token of its own has its own state in both
//! cases.

mod checker;
mod memory;
mod named;
mod snippets;
mod update;
mod values;

use std::fmt;
use std::sync::Arc;

use execbox::Provider;
use execbox_core::budget::Budget;
use execbox_core::language::Language;
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use super::typed;
use crate::store::{StateArea, StateEntry, StateError, StateStore};
use memory::MemoryState;

pub(super) use checker::Checker;
pub(super) use memory::MAX_TOTAL_BYTES;
pub(super) use named::named as named_snippets;
pub(super) use snippets::{NAMESPACE as SNIPPETS, Snippets};
pub(super) use update::update;
pub(super) use values::NAMESPACE as VALUES;

/// Where programs keep values and code for later programs, and the language of the code.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct StateOptions {
    /// One state for all clients, such as a file. Default: a state in memory for each session, which ends with the session.
    /// Clients without sessions over HTTP have none, unless the [server](super::CodeServer::for_client) is for one client only.
    pub shared: Option<Arc<dyn StateStore>>,
    /// Checks and compiles snippets. Default: none; then there is no namespace `snippets`. The engine compiles them, too, in an
    /// execution of its own, while the program that saves one waits: a pool of runners needs one more than
    /// [`max_programs`](super::ServerOptions::max_programs), or snippets are saved unchecked after 2 s.
    pub language: Option<Arc<dyn Language>>,
}

impl StateOptions {
    execbox_core::setters! {
        shared: impl Into<Option<Arc<dyn StateStore>>>,
        language: Arc<dyn Language>,
    }
}

impl fmt::Debug for StateOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared, language } = self;
        let mut options = f.debug_struct("StateOptions");
        options.field("shared", &shared.is_some()).field("language", &language.is_some()).finish()
    }
}

/// A saved snippet.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Snippet {
    /// What the snippet does, for models and people.
    #[serde(default)]
    pub description: String,
    /// The body of an async function with the parameter `input`, or one function, in JavaScript or TypeScript.
    pub code: String,
}

/// The longest key of [`StateArea::Values`], in bytes.
pub const MAX_KEY_BYTES: usize = 200;

/// The longest text of an entry, in bytes: it fits into one message to every executor.
pub const MAX_ENTRY_BYTES: usize = 8 << 20;

/// The maximum size of the values of a state, in bytes: each counts its key, its text and 256 bytes.
pub const MAX_STATE_BYTES: usize = 16 << 20;

/// The bytes that an entry counts in addition to its key and its text.
const ENTRY_BYTES: usize = 256;

/// The resources that the tools of all states share.
#[derive(Clone)]
pub(super) struct Means {
    /// Limits concurrent work on blocking threads.
    pub(super) turns: Arc<Semaphore>,
    pub(super) checker: Arc<Checker>,
}

/// The state of one client, or of all.
pub(super) struct State {
    /// `None` without a language.
    snippets: Option<Snippets>,
    /// The namespace `store`.
    values: Option<Provider>,
    /// The entries that are lost with the state; `None` if they are not in memory.
    memory: Option<Arc<MemoryState>>,
}

impl State {
    pub(super) fn new(store: &Arc<dyn StateStore>, options: &StateOptions, means: &Means) -> Self {
        let snippets = options.language.as_ref().map(|language| Snippets::new(store, language, means));
        Self { values: values::provider(store, &means.turns), snippets, memory: None }
    }

    /// A state in memory, as a part of `all`.
    pub(super) fn in_memory(all: &Budget, options: &StateOptions, means: &Means) -> Self {
        let memory = Arc::new(MemoryState::new(all));
        let store: Arc<dyn StateStore> = Arc::clone(&memory) as _;
        Self { memory: Some(memory), ..Self::new(&store, options, means) }
    }

    /// The state of clients without a session: every call fails with [`StateError::NoSession`].
    pub(super) fn none(options: &StateOptions, means: &Means) -> Self {
        let store: Arc<dyn StateStore> = Arc::new(NoState);
        Self::new(&store, options, means)
    }

    /// Whether the state has entries that are lost with it.
    pub(super) fn is_kept_in_memory(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.is_in_use())
    }

    /// The namespace `store`, unless one of `providers` has its name.
    pub(super) fn values(&self, providers: &[Provider]) -> Option<Provider> {
        self.values.clone().filter(|values| !has(providers, values.name()))
    }

    /// The snippets, unless one of `providers` has the name of their namespace.
    pub(super) fn snippets(&self, providers: &[Provider]) -> Option<&Snippets> {
        self.snippets.as_ref().filter(|_| !has(providers, snippets::NAMESPACE))
    }
}

/// Whether programs have the namespaces `store` and `snippets`: a provider with such a name takes precedence.
pub(super) fn offered(providers: &[Provider], options: &StateOptions) -> (bool, bool) {
    let snippets = options.language.is_some() && !has(providers, snippets::NAMESPACE);
    (!has(providers, values::NAMESPACE), snippets)
}

fn has(providers: &[Provider], name: &str) -> bool {
    providers.iter().any(|provider| provider.name() == name)
}

/// The store of clients without a session.
struct NoState;

impl StateStore for NoState {
    fn get(&self, _: StateArea, _: &str) -> Result<Option<String>, StateError> {
        Err(StateError::NoSession)
    }

    fn set(&self, _: StateArea, _: &str, _: String) -> Result<(), StateError> {
        Err(StateError::NoSession)
    }

    fn replace(&self, _: StateArea, _: &str, _: Option<&str>, _: String) -> Result<bool, StateError> {
        Err(StateError::NoSession)
    }

    fn delete(&self, _: StateArea, _: &str) -> Result<bool, StateError> {
        Err(StateError::NoSession)
    }

    fn list(&self, _: StateArea, _: &str) -> Result<Vec<StateEntry>, StateError> {
        Err(StateError::NoSession)
    }
}

/// A page of `all`, and the result of a call without it: the total, and the offset of the next page if there is one.
fn page<T>(all: Vec<T>, offset: usize, limit: Option<usize>) -> (Vec<T>, Json) {
    let mut result = json!({ "total": all.len() });
    let wanted = limit.unwrap_or(DEFAULT_PAGE);
    let limit = wanted.min(MAX_PAGE);
    let next = offset.saturating_add(limit);
    if next < all.len() {
        result["nextOffset"] = next.into();
    }
    if let Some(note) = typed::reduced("limit", wanted, limit) {
        result["note"] = note.into();
    }
    (all.into_iter().skip(offset).take(limit).collect(), result)
}

/// Entries on a page, by default and at most.
const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1_000;
