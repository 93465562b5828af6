//! An MCP server over providers: models search for tools and write code that calls them.
//!
//! [`CodeServer`] is a handler for rmcp, to be served over any of its transports, once per client. [`HttpServer`] serves
//! it over streamable HTTP to many clients.
//!
//! | tool | purpose |
//! |---|---|
//! | `mcp_search_tools` | ranks the tools of all providers and returns their signatures in pages |
//! | `mcp_execute_code` | runs code that calls tools |
//! | `mcp_code` | runs code, with the types of all tools in its description |
//!
//! Not supported: OAuth (use a bearer token), TLS (use a reverse proxy), and resuming of HTTP streams.

mod approvals;
mod catalogue;
mod connections;
mod descriptions;
mod finder;
mod heads;
mod http;
mod live;
mod media;
mod peers;
mod programs;
mod question;
mod results;
mod run;
pub mod search;
mod sessions;
mod state;
mod synonyms;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use execbox::events::Observer;
use execbox::policy::Policy;
use execbox::{Executor, Limits, Provider};
use execbox_core::budget::Budget;
use execbox_core::text::{Keep, cut, escape};
use futures_util::future::BoxFuture;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    InitializeRequestParams, InitializeResult, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::sync::Semaphore;

use crate::text::{make_json_visible, make_visible, words};
use crate::{Changes, Clients};
use finder::Searched;
pub(crate) use programs::Client;
use programs::Programs;
use results::Results;
use run::Program;
use state::{Checker, Draft, Means, Spliced, State};

pub use catalogue::{Catalogue, FoundTool, Instructions, Page, Query, UnknownTool};
pub use http::{HttpError, HttpOptions, HttpServer};
pub use question::{Question, UnshowableCall, question, whole_question};
pub use state::{
    MAX_ENTRY_BYTES, MAX_KEY_BYTES, MAX_STATE_BYTES, Snippet, StateArea, StateEntry, StateError, StateOptions,
    StateStore,
};

/// Which tools a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// All three tools.
    #[default]
    Both,
    /// Search and execute: the descriptions stay short however many tools there are.
    Split,
    /// One tool that runs code, with the types in its description.
    Single,
}

/// The tools of a [`CodeServer`] and their limits.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Which tools the server has. Default: all three.
    pub layout: Layout,
    /// The name of the search tool. Default: `mcp_search_tools`.
    pub search_name: String,
    /// The name of the tool that runs code. Default: `mcp_execute_code`.
    pub execute_name: String,
    /// The name of the tool that runs code and describes the types. Default: `mcp_code`.
    pub code_name: String,
    /// The maximum length of a result, in characters; of a longer one, models get an outline and a handle, by which later
    /// code reads it. Default: 24 000.
    pub max_text: usize,
    /// The maximum length of the description with the types, in characters. If the types do not fit, it lists
    /// parameters or names only. Default: 3 500; 20 000 in the single layout, which has no search.
    pub max_types: Option<usize>,
    /// The limits of every execution. Default: those of [`Limits`].
    pub limits: Limits,
    /// The longest timeout that a model may ask for with `timeoutMs`, if it is longer than that of `limits`. Default: 5 minutes.
    pub max_timeout: Duration,
    /// How many programs run at once; further ones wait. A client with many programs does not keep others waiting. Default: 128.
    pub max_programs: usize,
    /// For how long after the creation of the server, and after [`CodeServer::refresh`], requests wait for namespaces that are starting. Default: 10 s.
    pub start_timeout: Duration,
    /// Decides about the calls of programs. It asks the user of the client by elicitation where the client supports it, and its own
    /// approver otherwise. Default: none, everything is allowed.
    pub policy: Option<Policy>,
    /// How long a person may take to approve a call. Default: 10 minutes.
    pub approval_timeout: Duration,
    /// Observes the programs of all clients. Default: nobody does.
    pub observer: Option<Observer>,
    /// The clients of this server, for the servers upstream that its providers call: the same as in
    /// [`UpstreamOptions::clients`](crate::upstream::UpstreamOptions::clients). Default: servers are offered nothing.
    pub clients: Clients,
    /// Notifies the server that providers may have changed; it then notifies its clients. Default: never.
    pub changes: Changes,
    /// Where programs keep values and code for later programs. Default: for each session on its own, and no code.
    pub state: StateOptions,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            search_name: "mcp_search_tools".to_owned(),
            execute_name: "mcp_execute_code".to_owned(),
            code_name: "mcp_code".to_owned(),
            max_text: 24_000,
            max_types: None,
            limits: Limits::default(),
            max_timeout: Duration::from_mins(5),
            max_programs: 128,
            start_timeout: Duration::from_secs(10),
            policy: None,
            approval_timeout: Duration::from_mins(10),
            observer: None,
            clients: Clients::default(),
            changes: Changes::default(),
            state: StateOptions::default(),
        }
    }
}

impl ServerOptions {
    /// The limits of an execution whose model asks for this timeout.
    fn limits_for(&self, timeout: Option<Duration>) -> Limits {
        let max = self.max_timeout.max(self.limits.timeout);
        Limits { timeout: timeout.map_or(self.limits.timeout, |timeout| timeout.min(max)), ..self.limits }
    }

    fn max_types(&self) -> usize {
        self.max_types.unwrap_or(if self.layout == Layout::Single { 20_000 } else { 3_500 })
    }
}

/// Where a [`CodeServer`] gets its tools: a function that returns the current providers, or a type that also knows which
/// ones are missing.
pub trait ProviderSource: Send + Sync {
    /// The providers whose tools can be called now. Asked for every request, so that the answer may change.
    fn providers(&self) -> Vec<Provider>;

    /// The namespaces that are expected, but have no tools now. Searches list them, and code that names one fails with the
    /// reason. Default: none.
    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        Vec::new()
    }

    /// Waits until none of these namespaces is starting. Searches wait for it, and code that names such a namespace does, at
    /// most [`ServerOptions::start_timeout`]. Default: does not wait.
    fn settled<'a>(&'a self, _namespaces: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether a tool exists that must not be called. Code that calls it fails with that reason. Default: no.
    fn is_denied(&self, _namespace: &str, _tool: &str) -> bool {
        false
    }
}

impl<F: Fn() -> Vec<Provider> + Send + Sync> ProviderSource for F {
    fn providers(&self) -> Vec<Provider> {
        self()
    }
}

/// A namespace whose tools cannot be called now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableNamespace {
    /// Its name.
    pub name: String,
    /// Why, as a clause without a subject: `is starting`, `failed to start: …`.
    pub reason: String,
}

/// An MCP server that runs code against providers. Cheap to clone; each clone serves one client, and ends the session of that
/// client when it is dropped.
pub struct CodeServer(Arc<Inner>, Session);

/// What a server has for the client of one connection or session.
#[derive(Clone)]
struct Session {
    client: Client,
    /// Created when it is needed. Shared by all, if one state is.
    state: Arc<OnceLock<Arc<State>>>,
}

impl Clone for CodeServer {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), self.0.session())
    }
}

struct Inner {
    executor: Arc<dyn Executor>,
    source: Box<dyn ProviderSource>,
    options: ServerOptions,
    /// When it was created or refreshed.
    since: Mutex<Instant>,
    /// For the current providers.
    known: Mutex<Known>,
    /// For work on the catalogue, which would delay other tasks: few pieces at a time.
    turns: Arc<Semaphore>,
    programs: Programs,
    /// Results that were too large to show.
    results: Arc<Results>,
    states: States,
}

/// The states of all clients.
struct States {
    shared: Option<Arc<OnceLock<Arc<State>>>>,
    /// That of clients without a session, if none is shared.
    none: Arc<State>,
    /// For all that are in memory.
    budget: Budget,
    means: Means,
}

impl States {
    fn new(options: &StateOptions, executor: &Arc<dyn Executor>) -> Self {
        let turns = Arc::new(Semaphore::new(MAX_CONCURRENT));
        let means = Means { turns, checker: Arc::new(Checker::new(executor)) };
        let new = |store: &Arc<dyn StateStore>| Arc::new(State::new(store, options, &means));
        let shared = options.shared.as_ref().map(|store| Arc::new(OnceLock::from(new(store))));
        let none = Arc::new(State::none(options, &means));
        Self { shared, none, budget: Budget::new(state::MAX_TOTAL_BYTES), means }
    }
}

impl Inner {
    fn session(&self) -> Session {
        Session { client: Client::new(), state: self.states.shared.clone().unwrap_or_default() }
    }
}

/// What is made of the current providers.
#[derive(Clone)]
struct Known {
    catalogue: Arc<Catalogue>,
    /// For code: earlier results.
    results: Option<Provider>,
    /// For code: the search of these tools.
    finder: Option<Provider>,
}

impl Known {
    fn new(providers: Vec<Provider>, results: &Arc<Results>, turns: &Arc<Semaphore>) -> Self {
        let catalogue = Arc::new(Catalogue::new(providers));
        let finder = finder::provider(Searched { tools: Arc::clone(&catalogue), snippets: None }, turns);
        let results = results.provider(catalogue.providers(), turns);
        Self { catalogue, results, finder }
    }
}

/// What one program is run with.
struct Granted {
    catalogue: Arc<Catalogue>,
    /// The search, earlier results, and the state.
    own: Vec<Provider>,
    /// The program with the snippets that it names.
    draft: Option<Draft>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
struct Code {
    code: String,
    timeout_ms: Option<u64>,
}

impl CodeServer {
    /// Creates a server. `source` is asked for every request, so that its answers may change; a running execution keeps the
    /// providers that it started with.
    pub fn new(executor: Arc<dyn Executor>, source: impl ProviderSource + 'static, options: ServerOptions) -> Self {
        let turns = Arc::new(Semaphore::new(MAX_CONCURRENT));
        let (since, results) = (Mutex::new(Instant::now()), Arc::default());
        let known = Mutex::new(Known::new(source.providers(), &results, &turns));
        let source = Box::new(source);
        let programs = Programs::new(options.max_programs);
        let states = States::new(&options.state, &executor);
        let inner = Inner { executor, source, options, since, known, turns, programs, results, states };
        let session = inner.session();
        Self(Arc::new(inner), session)
    }

    /// The same server for the same client.
    fn same(&self) -> Self {
        Self(Arc::clone(&self.0), self.1.clone())
    }

    /// Whether programs of the client have kept something that ends with its session, now and later.
    fn keeps_state(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let state = Arc::downgrade(&self.1.state);
        move || state.upgrade().is_some_and(|state| state.get().is_some_and(|state| state.is_kept_in_memory()))
    }

    /// The state of the client that sends a request.
    fn state(&self, context: &RequestContext<RoleServer>) -> Arc<State> {
        let States { none, budget, means, .. } = &self.0.states;
        if self.has_no_state(context) {
            return Arc::clone(none);
        }
        let own = || Arc::new(State::in_memory(budget, &self.0.options.state, means));
        Arc::clone(self.1.state.get_or_init(own))
    }

    fn has_no_state(&self, context: &RequestContext<RoleServer>) -> bool {
        self.0.states.shared.is_none() && run::is_sessionless(context)
    }

    /// The tools that clients are shown, with their current descriptions.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools_for(true)
    }

    /// `has_state` says whether something is kept for the client.
    fn tools_for(&self, has_state: bool) -> Vec<Tool> {
        let (options, catalogue) = (&self.0.options, self.known().catalogue);
        let execute = || descriptions::execute_tool(options, &catalogue, has_state);
        let split = || vec![descriptions::search_tool(options, &catalogue), execute()];
        let single = || descriptions::code_tool(options, &catalogue, has_state);
        let mut tools = match options.layout {
            Layout::Both => split().into_iter().chain([single()]).collect(),
            Layout::Split => split(),
            Layout::Single => vec![single()],
        };
        for description in tools.iter_mut().filter_map(|tool| tool.description.as_mut()) {
            make_visible(description.to_mut());
        }
        tools
    }

    /// Reads the providers now, instead of with the next request. Releases those that `source` no longer returns: a server
    /// keeps the providers that it read last.
    pub async fn refresh(&self) {
        *self.0.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let _ = self.aside(Self::known).await;
    }

    fn known(&self) -> Known {
        let providers = self.0.source.providers();
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.catalogue.is_built_from(&providers) {
            *known = Known::new(providers, &self.0.results, &self.0.turns);
        }
        known.clone()
    }

    /// Works on the catalogue beside the reactor: how long that takes is up to the tools of servers.
    async fn aside<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T, String> {
        let turn = Arc::clone(&self.0.turns).acquire_owned().await;
        let server = self.same();
        let working = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&server)
        });
        working.await.map_err(|_| "internal error: the catalogue could not be read".to_owned())
    }

    /// Waits for the namespaces that are starting and `is_needed` selects, for a limited time.
    async fn settled(&self, is_needed: impl Fn(&str) -> bool) {
        let since = *self.0.since.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.0.options.start_timeout.saturating_sub(since.elapsed());
        let missing = self.0.source.unavailable().into_iter().map(|missing| missing.name);
        let needed: Vec<String> = missing.filter(|name| is_needed(name)).collect();
        if !left.is_zero() && !needed.is_empty() {
            let _ = tokio::time::timeout(left, self.0.source.settled(&needed)).await;
        }
    }

    /// The missing namespaces, with short reasons: a model reads the first with each search.
    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        let all = self.0.source.unavailable().into_iter();
        all.map(|UnavailableNamespace { name, reason }| UnavailableNamespace { name, reason: cut(&reason, MAX_REASON) })
            .collect()
    }

    /// The tools and snippets that a client can search. May block.
    fn searched(&self, state: &State) -> Searched {
        let tools = self.known().catalogue;
        let library = state.snippets(tools.providers()).map(state::Snippets::library);
        Searched { tools, snippets: library.and_then(|library| library.catalogue().cloned()) }
    }

    async fn search(
        &self,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let query: Query = read(arguments)?;
        self.settled(|name| query.namespace.as_deref().is_none_or(|namespace| namespace == name)).await;
        let state = self.state(context);
        let mut page = self.aside(move |server| server.searched(&state).query(&query)).await?;
        page.unavailable = self.unavailable();
        page.unavailable.truncate(MAX_UNAVAILABLE);
        let text = crate::text::truncate(page.text(), self.0.options.max_text);
        let mut answer = CallToolResult::success(vec![ContentBlock::text(text)]);
        answer.structured_content = serde_json::to_value(page).ok();
        Ok(answer)
    }

    /// What a program is run with. May block.
    fn grant(&self, code: &str, state: &State, limits: &Limits) -> Granted {
        let Known { catalogue, results, finder } = self.known();
        let snippets = state.snippets(catalogue.providers());
        let library = snippets.map(state::Snippets::library).unwrap_or_default();
        let draft = snippets.and_then(|snippets| state::draft(code, snippets, &library, limits));
        let finder = match library.catalogue() {
            Some(snippets) => {
                let searched = Searched { tools: Arc::clone(&catalogue), snippets: Some(Arc::clone(snippets)) };
                finder::provider(searched, &self.0.turns)
            }
            None => finder,
        };
        let own = [finder, results, state.values(catalogue.providers()), library.provider()];
        Granted { catalogue, own: own.into_iter().flatten().collect(), draft }
    }

    /// The program with its snippets, of which those that the engine rejects throw when they are called.
    async fn splice(&self, mut draft: Draft) -> Result<Spliced, String> {
        draft.check().await;
        self.aside(|_| draft.splice()).await
    }

    async fn execute(
        &self,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let Code { code, timeout_ms } = read(arguments)?;
        let limits = self.0.options.limits_for(timeout_ms.map(Duration::from_millis));
        self.settled(|name| words(&code).any(|word| word == name)).await;
        let state = self.state(context);
        let source = code.clone();
        let granted = self.aside(move |server| server.grant(&source, &state, &limits)).await?;
        let Granted { catalogue, own, draft } = granted;
        let spliced = match draft {
            Some(draft) => Some(self.splice(draft).await?),
            None => None,
        };
        let has_snippets = own.iter().any(|provider| provider.name() == state::SNIPPETS);
        let code_to_run = spliced.as_ref().map_or(&code, |spliced| &spliced.text);
        let program = Program { code: code_to_run, limits, granted: catalogue.providers(), own };
        let mut result = run::run(self, program, context).await;
        if let Some(spliced) = &spliced {
            spliced.locate(&mut result);
        }
        run::name_call(&mut result, &code, spliced.as_ref(), catalogue.providers());
        run::explain_unsaved(&mut result, has_snippets);
        run::explain_missing(&mut result, catalogue.providers(), || self.unavailable(), || self.0.source.providers());
        run::explain_denied(&mut result, |namespace, tool| self.0.source.is_denied(namespace, tool));
        // Writing a large result as JSON takes long.
        self.aside(|server| run::tool_result(result, server.0.options.max_text, &server.0.results)).await
    }
}

/// A result as clients get it: every text of it passes here, and hidden characters are escaped.
fn visible(mut result: CallToolResult) -> CallToolResult {
    for block in &mut result.content {
        if let ContentBlock::Text(content) = block {
            make_visible(&mut content.text);
        }
    }
    result.structured_content.iter_mut().for_each(make_json_visible);
    result
}

/// The maximum number of pieces of work on the catalogue at the same time.
const MAX_CONCURRENT: usize = 2;

/// The maximum number of missing namespaces that a search shows, and the maximum length of each reason, in characters.
const MAX_UNAVAILABLE: usize = 3;
const MAX_REASON: usize = 60;

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Json::Object(arguments)).map_err(|error| format!("invalid arguments: {error}"))
}

impl ServerHandler for CodeServer {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("execbox", env!("CARGO_PKG_VERSION"));
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities).with_server_info(implementation)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        self.0.options.clients.set_client(request.capabilities.clone(), context.peer.clone());
        live::follow(self, context.peer, context.ct);
        self.negotiate_initialize(&request)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone()) // rmcp removes what the capabilities do not include.
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        live::serve(self, subscription).await;
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.options.clients.set_absent(); // As in `call_tool`.
        let has_state = !self.has_no_state(&context);
        let tools = self
            .aside(move |server| server.tools_for(has_state))
            .await
            .map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.options.clients.set_absent(); // Without `initialize`, it cannot be asked for anything.
        let ServerOptions { layout, search_name, execute_name, code_name, .. } = &self.0.options;
        let (split, single) = (*layout != Layout::Single, *layout != Layout::Split);
        let (name, arguments) = (&*request.name, request.arguments.unwrap_or_default());
        let answer = if split && name == search_name {
            self.search(arguments, &context).await
        } else if split && name == execute_name || single && name == code_name {
            self.execute(arguments, &context).await
        } else {
            let unknown = escape(name, Keep::Nothing);
            return Err(ErrorData::invalid_params(format!("unknown tool \"{unknown}\""), None));
        };
        let failed = |why| CallToolResult::error(vec![ContentBlock::text(why)]);
        Ok(visible(answer.unwrap_or_else(failed)).into())
    }
}

impl fmt::Debug for CodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeServer").field("options", &self.0.options).finish_non_exhaustive()
    }
}
