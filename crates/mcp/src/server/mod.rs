//! An MCP server over providers: models search for tools and write code that calls them, or call them one by one.
//!
//! [`CodeServer`] is a handler for rmcp, to be served over any of its transports, once per client. [`LineTransport`] is the one
//! for standard input and output. [`HttpServer`] serves it over streamable HTTP to many clients. Both answer requests that
//! cannot be read.
//!
//! | tool | purpose |
//! |---|---|
//! | `mcp_search_tools` | ranks the tools of all providers and returns their signatures in pages |
//! | `mcp_describe_tools` | returns the signatures of named tools in full |
//! | `mcp_call_tool` | calls one tool |
//! | `mcp_execute_code` | runs code that calls tools |
//! | `mcp_code` | runs code, with the types of all tools in its description |
//!
//! Prompts, resources and completions of servers are passed on: see [`ProviderSource::features`].
//!
//! [`Layout`] says which of them clients see, and [`ProviderSource::is_exposed`] which tools of providers beside them.
//!
//! Not supported: OAuth (use a bearer token), TLS (use a reverse proxy), and resuming of HTTP streams.
//!
//! | modules | purpose |
//! |---|---|
//! | `run`, `direct`, `suspended` | a program of a client; a call without one; both between two requests of a client |
//! | `catalog`, `search`, `descriptions` | what models read of tools; the first two do no I/O |
//! | `lines`, `reading` | the messages of clients |
//! | `http`, `heads`, `connections`, `requests`, `sessions`, `peers`, `origins` | serving HTTP |
//! | `named`, `restricted`, `programs` | clients with tokens of their own, what each is granted, whose program is next |
//! | `state`, `results` | values and snippets for later programs, results too long to show |
//! | `approvals`, `question` | asking the user of a client |

mod accept;
mod always;
mod answers;
mod approvals;
mod catalog;
mod connections;
mod descriptions;
mod direct;
mod explain;
mod exposed;
mod features;
mod finder;
mod granted;
mod guidance;
mod handler;
mod heads;
mod http;
mod lines;
mod live;
mod media;
mod missing;
mod named;
mod open_ids;
mod options;
mod origins;
mod own_tools;
mod peers;
mod places;
mod programs;
mod progress;
mod question;
mod reading;
mod requests;
mod restricted;
mod results;
mod run;
mod search;
mod sentences;
mod session;
mod sessions;
mod shortages;
mod state;
mod suspended;
mod synonyms;
mod typed;
mod watches;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use execbox::{Executor, Provider};
use exposed::Exposed;
use rmcp::model::Tool;
use tokio::sync::Semaphore;

use crate::text::make_visible;
use finder::Searched;
use own_tools::OwnTool;
use programs::ProgramPlaces;
use results::Results;
use session::{Session, States};
use suspended::Suspended;

pub use always::{AlwaysAllow, Proposal};
pub use catalog::{Catalog, FoundTool, Instructions, Page, Query, UnknownNamespace, UnknownTool};
pub use granted::OWN_NAMESPACES;
pub use http::{HttpError, HttpOptions, HttpServer};
pub use lines::LineTransport;
pub use missing::{Missing, Namespaces};
pub use named::{NamedClient, NamedClients};
pub use options::{AbsentTool, Layout, ProviderSource, ServerOptions, Unavailability, UnavailableNamespace};
pub use question::{Question, UnshowableCall, question, whole_question};
pub use restricted::{Grant, Restricted};
pub use shortages::{HttpLimit, Shortage, ShortageSink};
pub use state::{MAX_ENTRY_BYTES, MAX_KEY_BYTES, MAX_STATE_BYTES, Snippet, StateOptions};

pub use crate::store::{StateArea, StateEntry, StateError, StateStore};

/// An MCP server that runs code against providers. Cheap to clone; each clone serves one client, and ends the session of that
/// client when it is dropped.
pub struct CodeServer {
    inner: Arc<Inner>,
    session: Session,
}

impl Clone for CodeServer {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), session: self.inner.states.session() }
    }
}

struct Inner {
    executor: Arc<dyn Executor>,
    source: Box<dyn ProviderSource>,
    options: ServerOptions,
    /// When the server was created or last refreshed.
    since: Mutex<Instant>,
    /// The catalog of the current providers.
    cache: Mutex<CatalogCache>,
    /// Limits concurrent work on the catalog, which runs on blocking threads.
    turns: Arc<Semaphore>,
    programs: ProgramPlaces,
    /// Results that were too large to show.
    results: Arc<Results>,
    states: States,
    suspended: Arc<Suspended>,
}

/// Data that is derived from the current providers.
#[derive(Clone)]
struct CatalogCache {
    catalog: Arc<Catalog>,
    /// The provider by which code reads earlier results.
    results: Option<Provider>,
    /// The provider by which code searches these tools.
    finder: Option<Provider>,
    /// The tools that clients call without code.
    exposed: Arc<Vec<Exposed>>,
}

impl CatalogCache {
    fn new(
        providers: Vec<Provider>,
        source: &dyn ProviderSource,
        options: &ServerOptions,
        results: &Arc<Results>,
        turns: &Arc<Semaphore>,
    ) -> Self {
        let exposed = Arc::new(exposed::exposed(&providers, source, options));
        let catalog = Arc::new(Catalog::new(providers).with_shapes(options.shapes.as_ref()));
        let finder = finder::provider(Searched { tools: Arc::clone(&catalog), snippets: None }, turns);
        let results = results.provider(catalog.providers(), turns);
        Self { catalog, results, finder, exposed }
    }
}

impl CodeServer {
    /// Creates a server. `source` is called for every request, so that its providers may change; a running execution keeps the
    /// providers that it started with.
    pub fn new(executor: Arc<dyn Executor>, source: impl ProviderSource + 'static, options: ServerOptions) -> Self {
        let turns = Arc::new(Semaphore::new(MAX_CONCURRENT));
        let (since, results) = (Mutex::new(Instant::now()), Arc::default());
        let cache = Mutex::new(CatalogCache::new(source.providers(), &source, &options, &results, &turns));
        let source = Box::new(source);
        let programs = ProgramPlaces::new(options.max_programs);
        let states = States::new(&options.state, &executor);
        let session = states.session();
        let suspended = Arc::new(Suspended::new(options.max_programs, options.approval_timeout));
        let inner = Inner { executor, source, options, since, cache, turns, programs, results, states, suspended };
        Self { inner: Arc::new(inner), session }
    }

    /// Creates a server for one client or a group of clients, which has other providers and options than this one. Both share the
    /// executor, the places of programs ([`max_programs`](ServerOptions::max_programs) of `options` are how many of them the
    /// new one may take), and the memory for results and states. What programs keep for later ones is not shared; requests without a session have a state, too.
    #[must_use]
    pub fn for_client(&self, source: impl ProviderSource + 'static, options: ServerOptions) -> Self {
        let Inner { executor, turns, programs, results, states, suspended, .. } = &*self.inner;
        let cache = Mutex::new(CatalogCache::new(source.providers(), &source, &options, results, turns));
        let (executor, turns, results) = (Arc::clone(executor), Arc::clone(turns), Arc::clone(results));
        let programs = programs.part(options.max_programs);
        let states = states.for_client(&options.state);
        let (session, suspended) = (states.session(), Arc::clone(suspended));
        let (source, since) = (Box::new(source), Mutex::new(Instant::now()));
        let inner = Inner { executor, source, options, since, cache, turns, programs, results, states, suspended };
        Self { inner: Arc::new(inner), session }
    }

    /// Another handle for the same client.
    fn for_same_client(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), session: self.session.handle() }
    }

    /// The tools that clients are shown, with their current descriptions.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools_for(true)
    }

    /// The tools, which are the last ones that the client has listed from now on.
    fn list_for_client(&self, has_state: bool) -> Vec<Tool> {
        let tools = self.tools_for(has_state);
        *self.session.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(tools.clone());
        tools
    }

    /// `has_state` says whether values and snippets can be kept for the client.
    fn tools_for(&self, has_state: bool) -> Vec<Tool> {
        let (options, CatalogCache { catalog, exposed, .. }) = (&self.inner.options, self.catalog());
        let missing = self.inner.source.unavailable();
        let own = options.layout.tools().iter().map(|tool| match tool {
            OwnTool::Search => descriptions::search_tool(options, &catalog, &missing),
            OwnTool::Describe => descriptions::describe_tool(options),
            OwnTool::Call => descriptions::call_tool(options),
            OwnTool::Execute => descriptions::execute_tool(options, &catalog, has_state),
            OwnTool::Code => descriptions::code_tool(options, &catalog, &missing, has_state),
        });
        let mut tools: Vec<Tool> = own.chain(exposed.iter().map(|exposed| exposed.tool.clone())).collect();
        for description in tools.iter_mut().filter_map(|tool| tool.description.as_mut()) {
            make_visible(description.to_mut());
        }
        tools
    }

    /// Reads the providers now, instead of with the next request. Releases those that `source` no longer returns: a server
    /// keeps the providers that it read last.
    pub async fn refresh(&self) {
        *self.inner.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let _ = self.run_blocking(Self::catalog).await;
    }

    fn catalog(&self) -> CatalogCache {
        let providers = self.inner.source.providers();
        let mut known = self.inner.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.catalog.is_built_from(&providers) {
            let Inner { source, options, results, turns, .. } = &*self.inner;
            *known = CatalogCache::new(providers, &**source, options, results, turns);
        }
        known.clone()
    }

    /// Runs work on the catalog on a blocking thread: how long it takes depends on the tools of servers.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, String> {
        let turn = Arc::clone(&self.inner.turns).acquire_owned().await;
        let server = self.for_same_client();
        let working = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&server)
        });
        working.await.map_err(|_| "internal error: the catalog could not be read".to_owned())
    }

    /// Waits, for a limited time, until none of the namespaces that `is_needed` selects is starting.
    async fn settled(&self, is_needed: impl Fn(&str) -> bool) {
        self.settled_within(self.inner.options.start_timeout, is_needed).await;
    }

    /// Waits until no namespace is starting, for a shorter time: clients ask for the list of tools right after they have connected.
    /// Some never ask again, and some show nothing before they have it.
    async fn settled_for_list(&self) {
        self.settled_within(self.inner.options.start_timeout.min(LIST_TIMEOUT), |_| true).await;
    }

    async fn settled_within(&self, timeout: Duration, is_needed: impl Fn(&str) -> bool) {
        let since = *self.inner.since.lock().unwrap_or_else(PoisonError::into_inner);
        let left = timeout.saturating_sub(since.elapsed());
        let missing = self.inner.source.unavailable().into_iter().map(|missing| missing.name);
        let needed: Vec<String> = missing.filter(|name| is_needed(name)).collect();
        if !left.is_zero() && !needed.is_empty() {
            let _ = tokio::time::timeout(left, self.inner.source.settled(&needed)).await;
        }
    }
}

/// How long after the creation of the server the list of tools waits for namespaces that are starting.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of pieces of work on the catalog at the same time.
const MAX_CONCURRENT: usize = 2;

impl fmt::Debug for CodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeServer").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
