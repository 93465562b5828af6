//! The requests of clients: calls of the tools, and the requests that every MCP server answers.

#![allow(deprecated)] // `logging/setLevel` and subscriptions before MCP 2026-07-28.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, ContentBlock,
    CustomRequest, CustomResult, DiscoverResult, ErrorData, GetPromptRequestParams, GetPromptResponse, Implementation,
    InitializeRequestParams, InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, ServerResult, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::catalog::Query;
use super::finder::Searched;
use super::own_tools::OwnTool;
use super::run::{self, Caller};
use super::state::{self, State};
use super::suspended::{Call, Running, call_response};
use super::{CodeServer, Missing, ServerOptions, descriptions, features, live, reading, typed};
use crate::text::{make_json_visible, make_visible};

impl ServerHandler for CodeServer {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("execbox", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        if self.inner.source.features().is_some() {
            features::declare(&mut capabilities);
        }
        // The catalog is not needed: building it can take long.
        let (providers, missing) = (self.inner.source.providers(), self.inner.source.unavailable());
        let instructions = descriptions::instructions(&self.inner.options, &providers, &missing);
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(instructions)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        self.inner.options.clients.set_client(request.capabilities.clone(), context.peer.clone());
        live::follow(self, context.peer, context.ct);
        self.negotiate_initialize(&request)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.introduce(&context);
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), self.get_info()))
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
        self.introduce(&context);
        self.settled_for_list().await;
        let has_state = !self.has_no_state(&context);
        let tools = self
            .run_blocking(move |server| server.list_for_client(has_state))
            .await
            .map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.introduce(&context);
        match self.inner.options.own_tool(&request.name) {
            Some(tool @ (OwnTool::Search | OwnTool::Describe)) => {
                let found = self.search(tool, request.arguments.unwrap_or_default(), &context).await;
                Ok(visible(found.unwrap_or_else(failed)).into())
            }
            Some(OwnTool::Execute | OwnTool::Code) => self.execute_code(request, &context).await,
            Some(OwnTool::Call) => self.call_named(request, &context).await,
            None => self.call_exposed(request, &context).await,
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.prompts(&context).await?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(request, &context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.resources(&context).await?))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.templates(&context).await?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(request, &context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribe_to(request.uri, &context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.watches.remove(&request.uri);
        Ok(())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.set_log_level(request.level, &context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.completion(request, &context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(reading::unknown_method(&request.method))
    }
}

/// Reads the arguments of a tool, in any form in which clients send what the schema means.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    typed::read(&mut Json::Object(arguments)).map_err(|error| format!("invalid arguments: {error}"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Code {
    code: String,
    timeout_ms: Option<NonZeroU64>,
}

/// The arguments of the tool that describes tools.
#[derive(Deserialize)]
struct Named {
    tools: Vec<String>,
}

impl CodeServer {
    /// Searches or describes tools.
    async fn search(
        &self,
        tool: OwnTool,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let query: Query = match tool {
            OwnTool::Describe => {
                let Named { tools } = read(arguments)?;
                Query { describe: tools, ..Query::default() }
            }
            _ => read(arguments)?,
        };
        self.settled(|name| query.namespace.as_deref().is_none_or(|namespace| namespace == name)).await;
        let state = self.state(context);
        let missing = Missing::new(self.inner.source.unavailable(), &query);
        let hint = self.inner.options.describe_hint();
        let page = self.run_blocking({
            let hint = hint.clone();
            move |server| {
                let mut page = server.searched(&state).query(&query);
                page.explain(&query, &*server.inner.source);
                page.set_missing(missing);
                page.shorten(&query, &hint);
                page
            }
        });
        let page = page.await?;
        let text = crate::text::truncate(page.text(&hint), self.inner.options.max_text);
        let mut answer = CallToolResult::success(vec![ContentBlock::text(text)]);
        answer.structured_content = serde_json::to_value(page).ok();
        Ok(answer)
    }

    /// The tools and snippets that a client can search. May block.
    fn searched(&self, state: &State) -> Searched {
        let tools = self.catalog().catalog;
        let library = state.snippets(tools.providers()).map(state::Snippets::library);
        Searched { tools, snippets: library.and_then(|library| library.catalog().cloned()) }
    }

    /// Runs a program, or goes on with one that was suspended.
    async fn execute_code(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let code: Code = match read(request.arguments.unwrap_or_default()) {
            Ok(code) => code,
            Err(why) => return Ok(visible(failed(why)).into()),
        };
        let text = format!("{} {:?} {}", request.name, code.timeout_ms, code.code);
        let call = Call { client: run::client(self, context), text };
        let suspended = &self.inner.suspended;
        let running = match request.request_state {
            Some(state) => suspended.resume(&state, request.input_responses, &call)?,
            None => self.start(code, context),
        };
        call_response(running.respond(context, &call, suspended).await)
    }

    fn start(&self, code: Code, context: &RequestContext<RoleServer>) -> Running {
        let ended = self.session_end(context);
        let caller = Caller::new(self, context, ended.clone());
        let (channel, progress) = (caller.origin.channel.clone(), caller.progress.clone());
        let (server, state) = (self.for_same_client(), self.state(context));
        let program = async move {
            let result = server.run(code, state, caller).await.unwrap_or_else(failed);
            Ok(ServerResult::CallToolResult(visible(result)))
        };
        Running::new(&channel, progress, ended, program)
    }

    async fn run(&self, code: Code, state: Arc<State>, caller: Caller) -> Result<CallToolResult, String> {
        let Code { code, timeout_ms } = code;
        let options = &self.inner.options;
        let limits = options.limits_for(timeout_ms.map(|timeout| Duration::from_millis(timeout.get())));
        let max = limits.timeout.as_millis();
        let note = timeout_ms.and_then(|wanted| typed::reduced("timeoutMs", u128::from(wanted.get()), max));
        let request = caller.request(&code, options).limits(limits);
        let policy = caller.policy(options);
        let run = async |request| run::run(self, request, &caller).await;
        let result = self.run_granted(request, state, policy.as_ref(), run).await?;
        // Writing a large result as JSON takes long.
        self.run_blocking(|server| {
            let ServerOptions { max_text, secrets, .. } = &server.inner.options;
            run::tool_result(result, note, *max_text, &server.inner.results, secrets)
        })
        .await
    }

    /// Records what a client can be asked for that has not sent `initialize`.
    fn introduce(&self, context: &RequestContext<RoleServer>) {
        self.inner.options.clients.set_stated(|| context.meta.client_capabilities().unwrap_or_default());
    }
}

pub(super) fn failed(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

/// Escapes hidden characters in all texts of a result.
pub(super) fn visible(mut result: CallToolResult) -> CallToolResult {
    for block in &mut result.content {
        if let ContentBlock::Text(content) = block {
            make_visible(&mut content.text);
        }
    }
    result.structured_content.iter_mut().for_each(make_json_visible);
    result
}
