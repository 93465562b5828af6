//! An MCP server over providers: models search tools, and write code that calls them.
//!
//! [`CodeServer`] is a handler of rmcp: serve it over whatever transport there is, once for each client.
//! [`HttpServer`] serves it over streamable HTTP, to many.
//!
//! | tool | what |
//! |---|---|
//! | `mcp_search_tools` | ranks the tools of all providers, and shows signatures page by page |
//! | `mcp_execute_code` | runs code that calls them |
//! | `mcp_code` | the one-tool layout: runs code, and its description carries the types |
//!
//! What this does not do: no OAuth (a bearer token is all that is asked for), no TLS (a proxy's work), and streams
//! over HTTP are not resumed.

mod catalogue;
mod http;
mod live;
mod run;
pub mod search;
mod sessions;
mod words;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use execbox::{ExecuteRequest, Executor, Limits, Provider};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    InitializeRequestParams, InitializeResult, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::Changes;

pub use catalogue::{Catalogue, Found, Page, Query};
pub use http::{HttpError, HttpOptions, HttpServer};

/// Which tools a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// All three.
    #[default]
    Both,
    /// Search, and code: the descriptions stay short however many tools there are.
    Split,
    /// Code only, with the types in its description.
    Single,
}

/// How a server presents itself.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Which tools there are. Default: all three.
    pub layout: Layout,
    /// The name of the search. Default: `mcp_search_tools`.
    pub search_name: String,
    /// The name of the tool that runs code. Default: `mcp_execute_code`.
    pub execute_name: String,
    /// The name of the tool that runs code and carries the types. Default: `mcp_code`.
    pub code_name: String,
    /// The longest text of an answer, in characters; a longer one is cut and says so. Default: 24 000.
    pub max_text: usize,
    /// The longest description of the tool that carries the types, in characters: where they do not fit, names
    /// stand for them. Default: 3 500; 20 000 in the single layout, where nothing else tells of tools.
    pub max_types: Option<usize>,
    /// The limits of every execution.
    pub limits: Limits,
    /// Where it hears that providers may have changed, so that clients are told. Default: nobody tells.
    pub changes: Changes,
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
            changes: Changes::default(),
        }
    }
}

impl ServerOptions {
    fn max_types(&self) -> usize {
        self.max_types.unwrap_or(if self.layout == Layout::Single { 20_000 } else { 3_500 })
    }
}

/// An MCP server that runs code against providers. Cheap to clone.
#[derive(Clone)]
pub struct CodeServer(Arc<Inner>);

struct Inner {
    executor: Arc<dyn Executor>,
    providers: Box<dyn Fn() -> Vec<Provider> + Send + Sync>,
    options: ServerOptions,
    /// The index of the providers that there were last.
    catalogue: Mutex<Arc<Catalogue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    code: String,
}

impl CodeServer {
    /// A server. `providers` is asked for every request: what it gives may change, and executions under way keep
    /// what they began with.
    pub fn new(
        executor: Arc<dyn Executor>,
        providers: impl Fn() -> Vec<Provider> + Send + Sync + 'static,
        options: ServerOptions,
    ) -> Self {
        let catalogue = Mutex::new(Arc::new(Catalogue::new(providers())));
        Self(Arc::new(Inner { executor, providers: Box::new(providers), options, catalogue }))
    }

    /// The tools that clients are shown now.
    pub fn tools(&self) -> Vec<Tool> {
        let (options, catalogue) = (&self.0.options, self.catalogue());
        let split = || vec![words::search_tool(options, &catalogue), words::execute_tool(options)];
        let single = || words::one_tool(options, &catalogue);
        match options.layout {
            Layout::Both => split().into_iter().chain([single()]).collect(),
            Layout::Split => split(),
            Layout::Single => vec![single()],
        }
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        let providers = (self.0.providers)();
        let mut known = self.0.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.is_of(&providers) {
            *known = Arc::new(Catalogue::new(providers));
        }
        Arc::clone(&known)
    }

    fn search(&self, arguments: JsonObject) -> Result<CallToolResult, String> {
        let page = self.catalogue().answer(&read(arguments)?);
        let text = crate::text::cut(page.text(), self.0.options.max_text);
        let mut answer = CallToolResult::success(vec![ContentBlock::text(text)]);
        answer.structured_content = serde_json::to_value(page).ok();
        Ok(answer)
    }

    async fn execute(
        &self,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let Code { code } = read(arguments)?;
        let execution = ExecuteRequest::new(code).providers((self.0.providers)()).limits(self.0.options.limits);
        let result = run::run(&self.0.executor, execution, context).await;
        Ok(run::tool_result(&result, self.0.options.max_text))
    }
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Json::Object(arguments)).map_err(|error| format!("the arguments do not fit: {error}"))
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
        live::follow(self, context.peer, context.ct);
        self.negotiate_initialize(&request)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone()) // rmcp takes away what the capabilities do not tell.
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        live::serve(self, subscription).await;
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ServerOptions { layout, search_name, execute_name, code_name, .. } = &self.0.options;
        let (split, single) = (*layout != Layout::Single, *layout != Layout::Split);
        let (name, arguments) = (&*request.name, request.arguments.unwrap_or_default());
        let answer = if split && name == search_name {
            self.search(arguments)
        } else if split && name == execute_name || single && name == code_name {
            self.execute(arguments, &context).await
        } else {
            return Err(ErrorData::invalid_params("there is no tool of that name", None));
        };
        let failed = |why| CallToolResult::error(vec![ContentBlock::text(why)]);
        Ok(answer.unwrap_or_else(failed).into())
    }
}

impl fmt::Debug for CodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeServer").field("options", &self.0.options).finish_non_exhaustive()
    }
}
