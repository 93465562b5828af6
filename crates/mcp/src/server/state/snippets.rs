//! The namespace `snippets`: code that later programs call by its name.
//!
//! `await snippets.save({ name, code, description })` checks and keeps a snippet, `await snippets.NAME(input)` calls it; there
//! are `list`, `get` and `delete`, too. A program has the snippets that it [names](super::named) as functions.
//! Searches find snippets as tools of this namespace. Their descriptions are shown like those of servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use execbox::{Effect, Limits, Provider, Tool, ToolError};
use execbox_core::language::{CompileLimits, Language};
use execbox_core::names::safe_name;
use execbox_core::text::cut;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::super::catalog::Catalog;
use super::super::finder;
use super::super::typed::{CallForm, positive};
use super::{Means, Snippet, StateArea, StateEntry, StateError, StateStore, page};

/// The name of the namespace.
pub(in super::super) const NAMESPACE: &str = "snippets";

/// The tools of the namespace, whose names no snippet can have.
const TOOLS: [&str; 4] = ["save", "list", "get", "delete"];

/// The snippets of a state.
pub(in super::super) struct Snippets {
    saved: Arc<Saved>,
    means: Means,
    /// The library of the snippets that were listed last.
    library: Mutex<Arc<Library>>,
}

/// The store and the language, which the tools of the namespace share.
struct Saved {
    store: Arc<dyn StateStore>,
    language: Arc<dyn Language>,
    /// Held while a snippet is checked against the others and kept.
    saving: Mutex<()>,
}

/// The snippets that can be called, without their code.
#[derive(Default)]
pub(in super::super) struct Library {
    /// The entries that the library was built from.
    listed: Vec<StateEntry>,
    /// The snippets that can be read, by name, with their descriptions.
    snippets: BTreeMap<String, (StateEntry, Arc<str>)>,
    /// The catalog for searches; `None` without snippets.
    catalog: Option<Arc<Catalog>>,
    /// The provider for programs.
    provider: Option<Provider>,
}

impl Library {
    pub(in super::super) fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.catalog.as_ref()
    }

    pub(in super::super) fn provider(&self) -> Option<Provider> {
        self.provider.clone()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.snippets.contains_key(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.snippets.is_empty()
    }
}

impl Snippets {
    pub(super) fn new(store: &Arc<dyn StateStore>, language: &Arc<dyn Language>, means: &Means) -> Self {
        let (store, language) = (Arc::clone(store), Arc::clone(language));
        let saved = Arc::new(Saved { store, language, saving: Mutex::default() });
        Self { saved, means: means.clone(), library: Mutex::default() }
    }

    /// The library of the snippets that are saved now. Reads those that have changed since the last call. May block.
    pub(in super::super) fn library(&self) -> Arc<Library> {
        let listed = self.saved.store.list(StateArea::Snippets, "");
        let mut library = self.library.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls of the namespace report why the state is not available.
        let entries = listed.map_or_else(|_| library.listed.clone(), usable);
        if library.listed != entries || library.provider.is_none() {
            *library = Arc::new(self.build(entries, &library));
        }
        Arc::clone(&library)
    }

    fn build(&self, entries: Vec<StateEntry>, before: &Library) -> Library {
        let describe = |entry: StateEntry| {
            let known = before.snippets.get(&entry.key).filter(|(known, _)| *known == entry);
            let description = match known {
                Some((_, description)) => Arc::clone(description),
                None => self.saved.read(&entry.key).ok()??.description.into(),
            };
            Some((entry.key.clone(), (entry, description)))
        };
        let snippets: BTreeMap<_, _> = entries.iter().cloned().filter_map(describe).collect();
        let named = || snippets.iter().map(|(name, (_, description))| by_name(name, description));
        let found = Provider::builder(NAMESPACE).tools(named()).build().ok().filter(|_| !snippets.is_empty());
        let provider = Provider::builder(NAMESPACE).name_failed_calls().tools(self.tools()).tools(named()).build().ok();
        let catalog = found.map(|found| Arc::new(Catalog::new(vec![found])));
        Library { listed: entries, snippets, catalog, provider }
    }

    fn tools(&self) -> [Tool; 4] {
        let turns = &self.means.turns;
        let (saved, means) = (Arc::clone(&self.saved), self.means.clone());
        let save = Tool::new("save", move |input, _| Saved::save(Arc::clone(&saved), means.clone(), input))
            .description("Saves code, which later programs call: await snippets.NAME(input)");
        let list = finder::tool("list", &self.saved, turns, Saved::list)
            .description("Returns the names and descriptions of the saved snippets")
            .effect(Effect::ReadOnly);
        let get = finder::tool("get", &self.saved, turns, Saved::get)
            .description("Returns a snippet with its code, or null")
            .effect(Effect::ReadOnly);
        let delete = finder::tool("delete", &self.saved, turns, Saved::delete)
            .description("Deletes a snippet; returns whether there was one")
            .effect(Effect::Destructive)
            .keep_reserved_name();
        [save, list, get, delete]
    }

    /// The snippet of this name. May block.
    pub(super) fn read(&self, name: &str) -> Result<Option<Snippet>, StateError> {
        self.saved.read(name)
    }
}

impl Saved {
    /// Checks a snippet with the front end and the engine, and keeps it.
    async fn save(this: Arc<Self>, means: Means, input: Json) -> Result<Json, ToolError> {
        let Means { turns, checker } = means;
        let reading = Arc::clone(&this);
        let request = finder::run_blocking(&turns, move || reading.read_request(input)).await??;
        checker.check(&request.code).await.map_err(|error| invalid_code(&request.name, &error))?;
        finder::run_blocking(&turns, move || this.keep(request)).await?
    }

    fn read_request(&self, mut input: Json) -> Result<Request, ToolError> {
        const FORM: CallForm = CallForm { call: "snippets.save({ name, code, description })", short: None };
        let request: Request = FORM.read(&mut input)?;
        let Request { name, code, .. } = &request;
        check_name(name)?;
        if code.len() > MAX_CODE_BYTES {
            let message = format!("the code has {} bytes; a snippet has at most {MAX_CODE_BYTES}", code.len());
            return Err(ToolError::invalid(message));
        }
        self.compile(code, Instant::now() + MAX_COMPILE_TIME).map_err(|error| invalid_code(name, &error))?;
        Ok(request)
    }

    fn keep(&self, request: Request) -> Result<Json, ToolError> {
        let Request { name, code, description, replace } = request;
        let description = cut(&description.unwrap_or_default(), MAX_DESCRIPTION);
        let text = json!({ "description": description, "code": code }).to_string();
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = self.store.list(StateArea::Snippets, "")?;
        if !replace && others.iter().any(|other| other.key == name) {
            let message = format!("there is a snippet {name:?} already; pass `replace: true` to replace it");
            return Err(ToolError::invalid(message));
        }
        others.retain(|other| other.key != name);
        let used = others.iter().fold(0_u64, |sum, other| sum.saturating_add(other.bytes));
        let bytes = used.saturating_add(text.len() as u64);
        if others.len() >= MAX_SNIPPETS || bytes > MAX_ALL_BYTES as u64 {
            return Err(ToolError::new(format!(
                "the snippets are full: {} of {MAX_SNIPPETS} are saved, with {used} of {MAX_ALL_BYTES} bytes; delete what is not \
                 needed (`snippets.delete(name)`)",
                others.len()
            )));
        }
        self.store.set(StateArea::Snippets, &name, text)?;
        Ok(Json::Null)
    }

    fn list(this: &Self, mut input: Json) -> Result<Json, ToolError> {
        const FORM: CallForm = CallForm { call: "snippets.list({ offset, limit })", short: None };
        let Paging { limit, offset } = FORM.read(&mut input)?;
        let all = usable(this.store.list(StateArea::Snippets, "")?);
        let (entries, mut result) = page(all, offset, limit);
        let mut snippets = Vec::new();
        for StateEntry { key, .. } in entries {
            let description = match this.read(&key) {
                Ok(Some(snippet)) => snippet.description,
                Ok(None) => continue, // The snippet was deleted in between.
                Err(error) => format!("({error})"),
            };
            snippets.push(json!({ "name": key, "description": description }));
        }
        result["snippets"] = snippets.into();
        Ok(result)
    }

    fn get(this: &Self, mut input: Json) -> Result<Json, ToolError> {
        const FORM: CallForm = CallForm { call: "snippets.get(name)", short: Some("name") };
        let Named { name } = FORM.read(&mut input)?;
        if check_name(&name).is_err() {
            return Ok(Json::Null);
        }
        let found = this.read(&name)?;
        let shown = |found: Snippet| json!({ "name": name, "description": found.description, "code": found.code });
        Ok(found.map_or(Json::Null, shown))
    }

    fn delete(this: &Self, mut input: Json) -> Result<Json, ToolError> {
        const FORM: CallForm = CallForm { call: "snippets.delete(name)", short: Some("name") };
        let Named { name } = FORM.read(&mut input)?;
        if check_name(&name).is_err() {
            return Ok(false.into());
        }
        Ok(this.store.delete(StateArea::Snippets, &name)?.into())
    }

    fn read(&self, name: &str) -> Result<Option<Snippet>, StateError> {
        let Some(text) = self.store.get(StateArea::Snippets, name)? else { return Ok(None) };
        let snippet = if text.len() <= MAX_TEXT_BYTES { serde_json::from_str::<Snippet>(&text).ok() } else { None };
        let is_valid = |snippet: &Snippet| snippet.code.len() <= MAX_CODE_BYTES;
        let invalid = || StateError::Unavailable(format!("the snippet {name:?} is invalid: delete it"));
        let Snippet { description, code } = snippet.filter(is_valid).ok_or_else(invalid)?;
        Ok(Some(Snippet { description: cut(&description, MAX_DESCRIPTION), code }))
    }

    fn compile(&self, code: &str, until: Instant) -> Result<(), String> {
        let should_stop = || Instant::now() >= until;
        let reading = CompileLimits::new(&Limits::default(), &should_stop);
        match self.language.function(code, &reading) {
            Ok(_) => Ok(()),
            Err(error) => Err(match error.position() {
                Some(at) => format!("{error} (line {}, column {})", at.line, at.column),
                None => error.to_string(),
            }),
        }
    }
}

#[derive(Deserialize)]
struct Request {
    name: String,
    code: String,
    description: Option<String>,
    #[serde(default)]
    replace: bool,
}

#[derive(Deserialize)]
struct Paging {
    #[serde(default, deserialize_with = "positive")]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

fn invalid_code(name: &str, error: &str) -> ToolError {
    ToolError::invalid(format!("the code of {name:?} is invalid: {error}"))
}

/// The tool of a snippet, which searches find. Programs that name the snippet have its function in place of the tool.
fn by_name(name: &str, description: &str) -> Tool {
    let message = format!("write the name of a snippet into the code: `await {NAMESPACE}.{name}(input)`");
    let tool = Tool::new(name, move |_, _| std::future::ready(Err(ToolError::invalid(message.clone()))));
    if description.is_empty() { tool } else { tool.description(description) }
}

/// Fails unless code can write the name after a dot, and no tool of the namespace has it.
fn check_name(name: &str) -> Result<(), ToolError> {
    let is_name = name.len() <= MAX_NAME && name.is_ascii() && safe_name(name) == name;
    if is_name && !TOOLS.contains(&name) {
        return Ok(());
    }
    Err(ToolError::invalid(format!(
        "invalid name {:?}: expected at most {MAX_NAME} ASCII letters, digits and `_`, not starting with a digit, no reserved word, \
         and none of {}",
        cut(name, MAX_NAME),
        TOOLS.join(", ")
    )))
}

/// The entries that can be snippets, within the limits. Other programs may have written invalid ones.
fn usable(mut entries: Vec<StateEntry>) -> Vec<StateEntry> {
    let mut left = MAX_ALL_BYTES as u64;
    entries.retain(|entry| {
        let is_usable = check_name(&entry.key).is_ok() && entry.bytes <= left.min(MAX_TEXT_BYTES as u64);
        left -= if is_usable { entry.bytes } else { 0 };
        is_usable
    });
    entries.truncate(MAX_SNIPPETS);
    entries
}

/// The maximum number of snippets of a state.
const MAX_SNIPPETS: usize = 500;

/// The longest name, in bytes.
const MAX_NAME: usize = 64;

/// The longest description, in characters. Longer ones are cut.
const MAX_DESCRIPTION: usize = 500;

/// The maximum length of the code, and of the code with a description as JSON, in bytes.
const MAX_CODE_BYTES: usize = 64 << 10;
const MAX_TEXT_BYTES: usize = 6 * MAX_CODE_BYTES + (16 << 10);

/// The maximum size of the texts of all snippets of a state, in bytes.
const MAX_ALL_BYTES: usize = 4 << 20;

/// The memory of a snippet in addition to its text, for its tools and its part of the catalog, in bytes.
pub(super) const SNIPPET_BYTES: usize = 8 << 10;

/// The maximum memory of all snippets of a session, in bytes.
pub(super) const MAX_SNIPPETS_BYTES: usize = MAX_SNIPPETS * (SNIPPET_BYTES + MAX_NAME) + MAX_ALL_BYTES;

/// How long compiling a snippet may take.
pub(super) const MAX_COMPILE_TIME: Duration = Duration::from_secs(2);
