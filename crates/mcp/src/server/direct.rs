//! Calls of single tools by clients, without code: of exposed tools, and of any tool by its name.

use execbox::{ExecuteResult, Provider};
use execbox_core::text::{Keep, escape};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject, MetaObject,
    ServerResult,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::Value as Json;

use super::catalog::{Catalog, Query};
use super::exposed::Exposed;
use super::handler::{failed, read, visible};
use super::progress::Reporting;
use super::run::Caller;
use super::suspended::{Answer, Call, Running, call_response};
use super::{CodeServer, UnknownNamespace, media, run};
use crate::Secrets;
use crate::text::make_texts_visible;
use crate::upstream::{Relayed, WholeAnswer, is_error};

/// The arguments of the tool that calls a tool.
#[derive(Deserialize)]
struct NamedCall {
    /// `namespace.tool`.
    tool: String,
    #[serde(default)]
    arguments: JsonObject,
}

/// A tool, and what it is called with.
struct DirectCall {
    provider: Provider,
    /// The name of the tool in code.
    tool: String,
    arguments: JsonObject,
}

impl DirectCall {
    /// What the requests of one call have in common.
    fn identity(&self, server: &CodeServer, context: &RequestContext<RoleServer>) -> Call {
        let mut arguments = Json::Object(self.arguments.clone());
        arguments.sort_all_objects();
        let text = format!("{}.{} {arguments}", self.provider.name(), self.tool);
        Call { client: run::client(server, context), text }
    }
}

impl CodeServer {
    /// Calls the tool that the arguments name.
    pub(super) async fn call_named(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let found = match read(request.arguments.unwrap_or_default()) {
            Ok(call) => self.find(call).await,
            Err(why) => Err(why),
        };
        let sent = Relayed { answers: request.input_responses, state: request.request_state };
        match found {
            Ok(call) => self.call(call, sent, context).await,
            Err(why) => Ok(visible(failed(why)).into()),
        }
    }

    /// Calls the exposed tool that the request names.
    pub(super) async fn call_exposed(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.settled(|namespace| request.name.starts_with(namespace)).await;
        let exposed = self.run_blocking(|server| server.catalog().exposed).await;
        let exposed = exposed.map_err(|error| ErrorData::internal_error(error, None))?;
        let Some(Exposed { provider, safe_name, .. }) =
            exposed.iter().find(|exposed| exposed.tool.name == request.name)
        else {
            let unknown = escape(&request.name, Keep::Nothing);
            return Err(ErrorData::invalid_params(format!("unknown tool \"{unknown}\""), None));
        };
        let (provider, tool) = (provider.clone(), safe_name.clone());
        let call = DirectCall { provider, tool, arguments: request.arguments.unwrap_or_default() };
        let sent = Relayed { answers: request.input_responses, state: request.request_state };
        self.call(call, sent, context).await
    }

    /// Calls a tool, or goes on with a call that was suspended.
    async fn call(
        &self,
        call: DirectCall,
        sent: Relayed,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (suspended, identity) = (&self.inner.suspended, call.identity(self, context));
        let running = suspended.resume_or(sent, &identity, |sent| self.start_call(call, sent, context))?;
        call_response(running.respond(context, &identity, suspended).await)
    }

    /// Finds the tool of a call.
    ///
    /// # Errors
    /// Why it cannot be called, for the model.
    async fn find(&self, call: NamedCall) -> Result<DirectCall, String> {
        let NamedCall { tool: name, arguments } = call;
        let namespace = name.split_once('.').map_or(&*name, |(namespace, _)| namespace).to_owned();
        self.settled(|starting| starting == namespace).await;
        let (provider, tool) = self
            .run_blocking(move |server| {
                let catalog = server.catalog().catalog;
                named(&catalog, &name).ok_or_else(|| server.why_not_found(&catalog, &name))
            })
            .await??;
        Ok(DirectCall { provider, tool, arguments })
    }

    fn why_not_found(&self, catalog: &Catalog, name: &str) -> String {
        let source = &self.inner.source;
        let namespace = name.split_once('.').map(|(namespace, _)| namespace);
        let has_namespace = catalog.providers().iter().any(|provider| Some(provider.name()) == namespace);
        if !has_namespace
            && let Some(missing) = source.unavailable().into_iter().find(|missing| Some(&*missing.name) == namespace)
        {
            return missing.to_string();
        }
        let names = catalog.providers().iter().map(Provider::name);
        if let Some(unknown) = namespace.and_then(|namespace| UnknownNamespace::find(namespace, names)) {
            return unknown.to_string();
        }
        let query = Query { describe: vec![name.to_owned()], ..Query::default() };
        let mut page = catalog.query(&query);
        page.explain(&query, &**source);
        page.unknown.first().map(ToString::to_string).unwrap_or_default()
    }

    /// Starts a call.
    fn start_call(&self, call: DirectCall, sent: Relayed, context: &RequestContext<RoleServer>) -> Running {
        let ended = self.session_end(context);
        let caller = Caller::new(self, context, ended.clone());
        let (channel, progress) = (caller.origin.channel.clone(), caller.progress.clone());
        let server = self.for_same_client();
        let running = async move {
            match server.call_directly(call, sent, caller).await? {
                ServerResult::CallToolResult(result) => Ok(ServerResult::CallToolResult(visible(result))),
                result => Ok(result),
            }
        };
        Running::new(&channel, progress, ended, running)
    }

    async fn call_directly(&self, call: DirectCall, sent: Relayed, caller: Caller) -> Answer {
        let DirectCall { provider, tool, arguments } = call;
        let options = &self.inner.options;
        let provider = caller.policy(options).map_or_else(|| provider.clone(), |policy| provider.with_policy(&policy));
        let whole = WholeAnswer::default();
        let call = match provider.direct_call(&tool, Some(Json::Object(arguments))) {
            Ok(call) => call
                .cancellation(caller.origin.ended.clone())
                .attach(caller.origin.clone())
                .attach(whole.clone())
                .attach(sent),
            Err(error) => return Ok(ServerResult::CallToolResult(failed(error.message))),
        };
        let (observer, reporting) = Reporting::of_call(&caller, &options.secrets);
        let observers = options.observer.iter().cloned().chain(observer);
        let call = observers.fold(call, execbox::DirectCall::observer);
        let running = async {
            let _permit = caller.permit(self).await;
            Box::pin(call.execute()).await
        };
        let result = reporting.during(running).await;
        let secrets = options.secrets.clone();
        let answer = self.run_blocking(move |_| answer(result, whole.take(), &secrets)).await;
        answer.unwrap_or_else(|why| Ok(ServerResult::CallToolResult(failed(why))))
    }
}

/// The provider and the name in code of the tool that clients call `namespace.tool`, by either name of the tool.
fn named(catalog: &Catalog, name: &str) -> Option<(Provider, String)> {
    let (namespace, tool) = name.split_once('.')?;
    let provider = catalog.providers().iter().find(|provider| provider.name() == namespace)?;
    let safe = provider.original_name(tool).map(|_| tool).or_else(|| provider.safe_name(tool))?;
    Some((provider.clone(), safe.to_owned()))
}

/// The answer to a call as its server gave it, or what the tool returned. What the checks of programs find in a result is left to
/// the client.
fn answer(result: ExecuteResult, whole: Option<Result<Json, ErrorData>>, secrets: &Secrets) -> Answer {
    let called = match (whole, result.outcome) {
        (Some(Ok(whole)), _) if is_input_required(&whole) => return input_required(whole),
        (Some(Ok(mut whole)), _) => {
            secrets.redact_json(&mut whole);
            passed_on(whole)
        }
        (Some(Err(error)), _) => return Err(redacted(error, secrets)),
        (None, Ok(value)) => {
            let mut value = value.unwrap_or_default();
            secrets.redact_json(&mut value);
            returned(value)
        }
        (None, Err(error)) => failed(secrets.redact(error.message)),
    };
    Ok(ServerResult::CallToolResult(called))
}

/// Whether a server requires input of the client, which gets it as it is.
pub(super) fn is_input_required(answer: &Json) -> bool {
    answer["resultType"] == "input_required"
}

pub(super) fn input_required(answer: Json) -> Answer {
    let required = serde_json::from_value(answer).map(ServerResult::InputRequiredResult);
    required.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// An error of a server, without secrets.
pub(super) fn redacted(mut error: ErrorData, secrets: &Secrets) -> ErrorData {
    error.message = secrets.redact(error.message.into_owned()).into();
    error.data.iter_mut().for_each(|data| secrets.redact_json(data));
    error
}

/// A result of a server. Blocks of unknown kinds are shown as JSON.
fn passed_on(whole: Json) -> CallToolResult {
    let Json::Object(mut whole) = whole else { return returned(whole) };
    let blocks = match whole.remove("content") {
        Some(Json::Array(blocks)) => blocks,
        Some(block) => vec![block],
        None if whole.contains_key("structuredContent") => Vec::new(),
        None => return returned(Json::Object(whole)), // Before MCP had content, results had other members.
    };
    let content: Vec<ContentBlock> = blocks.into_iter().map(block).collect();
    let mut result = if is_error(&whole) { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = whole.remove("structuredContent").filter(|content| !content.is_null());
    result.meta = whole.remove("_meta").and_then(metadata);
    result
}

/// A block as MCP defines it. Other values are shown as JSON.
pub(super) fn block(mut block: Json) -> ContentBlock {
    make_texts_visible(&mut block);
    match block {
        Json::String(text) => ContentBlock::text(text),
        block => serde_json::from_value(block.clone()).unwrap_or_else(|_| ContentBlock::text(block.to_string())),
    }
}

/// The metadata of a result, without what MCP itself has defined for the connection to the server.
pub(super) fn metadata(meta: Json) -> Option<MetaObject> {
    let Json::Object(mut meta) = meta else { return None };
    meta.retain(|name, _| !name.starts_with("io.modelcontextprotocol/"));
    (!meta.is_empty()).then_some(MetaObject(meta))
}

/// A value that a tool returned: text, images and audio as blocks of their own, and objects as structured content, too.
fn returned(mut value: Json) -> CallToolResult {
    let media = media::extract(&mut value);
    let text = match &value {
        Json::String(text) => text.clone(),
        Json::Null if !media.is_empty() => String::new(),
        value => value.to_string(),
    };
    let text = (!text.is_empty()).then(|| ContentBlock::text(text));
    let mut result = CallToolResult::success(text.into_iter().chain(media).collect());
    result.structured_content = Some(value).filter(Json::is_object);
    result
}
