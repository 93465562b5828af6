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

mod catalogue;
mod descriptions;
mod http;
mod live;
mod run;
pub mod search;
mod sessions;

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

pub use catalogue::{Catalogue, FoundTool, Page, Query};
pub use http::{HttpError, HttpOptions, HttpServer};

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
    /// The maximum length of the text of a result, in characters; a longer one is truncated. Default: 24 000.
    pub max_text: usize,
    /// The maximum length of the description with the types, in characters. If the types do not fit, it lists
    /// parameters or names only. Default: 3 500; 20 000 in the single layout, which has no search.
    pub max_types: Option<usize>,
    /// The limits of every execution.
    pub limits: Limits,
    /// Notifies the server that providers may have changed; it then notifies its clients. Default: never.
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
    /// The catalogue of the current providers.
    catalogue: Mutex<Arc<Catalogue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    code: String,
}

impl CodeServer {
    /// Creates a server. `providers` is called for every request, so that its result may change; a running execution
    /// keeps the providers that it started with.
    pub fn new(
        executor: Arc<dyn Executor>,
        providers: impl Fn() -> Vec<Provider> + Send + Sync + 'static,
        options: ServerOptions,
    ) -> Self {
        let catalogue = Mutex::new(Arc::new(Catalogue::new(providers())));
        Self(Arc::new(Inner { executor, providers: Box::new(providers), options, catalogue }))
    }

    /// The tools that clients are shown, with their current descriptions.
    pub fn tools(&self) -> Vec<Tool> {
        let (options, catalogue) = (&self.0.options, self.catalogue());
        let split = || vec![descriptions::search_tool(options, &catalogue), descriptions::execute_tool(options)];
        let single = || descriptions::code_tool(options, &catalogue);
        match options.layout {
            Layout::Both => split().into_iter().chain([single()]).collect(),
            Layout::Split => split(),
            Layout::Single => vec![single()],
        }
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        let providers = (self.0.providers)();
        let mut known = self.0.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.is_built_from(&providers) {
            *known = Arc::new(Catalogue::new(providers));
        }
        Arc::clone(&known)
    }

    fn search(&self, arguments: JsonObject) -> Result<CallToolResult, String> {
        let page = self.catalogue().query(&read(arguments)?);
        let text = crate::text::truncate(page.text(), self.0.options.max_text);
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
            return Err(ErrorData::invalid_params(format!("unknown tool {name:?}"), None));
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
