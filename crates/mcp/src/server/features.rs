//! Prompts, resources and completions of servers, passed on to clients.
//!
//! A prompt has the namespace of its server before its name, unless the server is configured otherwise: `docs_summarize`. Resources have the URIs of their servers; one that
//! several servers list has, from the second server on, the namespace before it: `docs+file:///notes`. Every URI can be written
//! so.

#![allow(deprecated)] // Levels of log messages: clients set them.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use execbox::Provider;
use execbox::events::Observer;
use execbox_core::text::{Keep, cut, escape};
use futures_util::future::join_all;
use rmcp::model::{
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, ErrorCode, ErrorData, GetPromptRequestMethod,
    GetPromptRequestParams, GetPromptResponse, ListPromptsRequestMethod, ListResourcesRequestMethod, LoggingLevel,
    Prompt, PromptsCapability, ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, Reference,
    Resource, ResourceTemplate, ResourcesCapability, ServerCapabilities, ServerResult, SetLevelRequestMethod,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use super::progress::Reporting;
use super::run::{self, Caller};
use super::suspended::{Call, Running};
use super::watches::{WatchedResource, Watches};
use super::{CodeServer, answers, direct};
use crate::text::{json_length, make_texts_visible};
use crate::upstream::{
    COMPLETE, GET_PROMPT, LIST_PROMPTS, LIST_RESOURCES, LIST_TEMPLATES, READ_RESOURCE, Relayed, SET_LEVEL, SUBSCRIBE,
    WatchPlace, WholeAnswer, next_cursor, take_entries,
};

/// Declares what is passed on.
pub(super) fn declare(capabilities: &mut ServerCapabilities) {
    let (mut prompts, mut resources) = (PromptsCapability::default(), ResourcesCapability::default());
    (prompts.list_changed, resources.list_changed) = (Some(true), Some(true));
    resources.subscribe = Some(true);
    capabilities.prompts = Some(prompts);
    capabilities.resources = Some(resources);
    capabilities.completions = Some(Map::default());
    capabilities.logging = Some(Map::default());
}

/// A request to a server.
struct Request<'a> {
    provider: &'a Provider,
    method: &'static str,
    params: Json,
    /// What the client has sent for the server, if it answers the server itself.
    sent: Option<Relayed>,
    observer: Option<Observer>,
}

/// A server, and what it calls something that a client has named.
struct Target {
    provider: Provider,
    own: String,
}

impl CodeServer {
    /// The prompts of all servers.
    pub(super) async fn prompts(&self, context: &RequestContext<RoleServer>) -> Result<Vec<Prompt>, ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<ListPromptsRequestMethod>)?;
        let lists = self.lists(&providers, LIST_PROMPTS, "prompts", context).await;
        let prompts = lists.into_iter().flat_map(|(provider, entries)| {
            let has_prefix = self.inner.source.has_prefix(provider.name());
            entries.into_iter().filter_map(move |entry| {
                let mut prompt: Prompt = self.entry(entry, &["name", "title", "description", "arguments"])?;
                if has_prefix {
                    prompt.name = format!("{}_{}", provider.name(), prompt.name);
                }
                Some(prompt)
            })
        });
        Ok(prompts.collect())
    }

    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<GetPromptRequestMethod>)?;
        let GetPromptRequestParams { name, arguments, request_state, input_responses, .. } = request;
        let target = self.prompt_target(&providers, &name, context).await?;
        let params = without_null(json!({ "name": target.own, "arguments": arguments }));
        let call = identity(self, GET_PROMPT, &target, &params, context);
        let sent = Relayed { answers: input_responses, state: request_state };
        let running = self.inner.suspended.resume_or(sent, &call, |sent| {
            self.start_request((target.provider, GET_PROMPT, params), sent, context, |answer| {
                ServerResult::GetPromptResult(answers::prompt(answer))
            })
        })?;
        match running.respond(context, &call, &self.inner.suspended).await? {
            ServerResult::GetPromptResult(result) => Ok(result.into()),
            ServerResult::InputRequiredResult(required) => Ok(required.into()),
            _ => Err(other_result()),
        }
    }

    /// The resources of all servers.
    pub(super) async fn resources(&self, context: &RequestContext<RoleServer>) -> Result<Vec<Resource>, ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<ListResourcesRequestMethod>)?;
        let lists = self.lists(&providers, LIST_RESOURCES, "resources", context).await;
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for (provider, entries) in lists {
            for entry in entries {
                let known = ["uri", "name", "title", "description", "mimeType", "size"];
                let Some(mut resource) = self.entry::<Resource>(entry, &known) else { continue };
                if !seen.insert(resource.uri.clone()) {
                    resource.uri = format!("{}+{}", provider.name(), resource.uri);
                }
                all.push(resource);
            }
        }
        Ok(all)
    }

    /// The templates of the URIs of all servers.
    pub(super) async fn templates(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Vec<ResourceTemplate>, ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<ListResourcesRequestMethod>)?;
        let lists = self.lists(&providers, LIST_TEMPLATES, "resourceTemplates", context).await;
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for (provider, entries) in lists {
            for entry in entries {
                let known = ["uriTemplate", "name", "title", "description", "mimeType"];
                let Some(mut template) = self.entry::<ResourceTemplate>(entry, &known) else { continue };
                if !seen.insert(template.uri_template.clone()) {
                    template.uri_template = format!("{}+{}", provider.name(), template.uri_template);
                }
                all.push(template);
            }
        }
        Ok(all)
    }

    pub(super) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<ReadResourceRequestMethod>)?;
        let ReadResourceRequestParams { uri, request_state, input_responses, .. } = request;
        let target = self.resource_target(&providers, &uri, context).await?;
        let params = json!({ "uri": target.own });
        let call = identity(self, READ_RESOURCE, &target, &params, context);
        let sent = Relayed { answers: input_responses, state: request_state };
        let running = self.inner.suspended.resume_or(sent, &call, |sent| {
            self.start_request((target.provider, READ_RESOURCE, params), sent, context, move |answer| {
                ServerResult::ReadResourceResult(answers::resource(answer, &target.own))
            })
        })?;
        match running.respond(context, &call, &self.inner.suspended).await? {
            ServerResult::ReadResourceResult(result) => Ok(result.into()),
            ServerResult::InputRequiredResult(required) => Ok(required.into()),
            _ => Err(other_result()),
        }
    }

    pub(super) async fn completion(
        &self,
        mut request: CompleteRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<CompleteRequestMethod>)?;
        let provider = match &mut request.r#ref {
            Reference::Prompt(prompt) => {
                let target = self.prompt_target(&providers, &prompt.name, context).await?;
                prompt.name = target.own;
                target.provider
            }
            Reference::Resource(resource) => {
                let target = self.resource_target(&providers, &resource.uri, context).await?;
                resource.uri = target.own;
                target.provider
            }
            _ => return Err(ErrorData::invalid_params("unknown kind of reference", None)),
        };
        request.meta = None;
        if provider.safe_name(COMPLETE).is_none() {
            return Ok(CompleteResult::default()); // The server has no completions.
        }
        let params = serde_json::to_value(request).unwrap_or_default();
        Ok(answers::completion(self.request(&provider, COMPLETE, params, context).await?))
    }

    /// Watches a resource for the client of a session.
    pub(super) async fn subscribe_to(
        &self,
        uri: String,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watch(uri, context, &self.session.watches).await
    }

    /// Watches a resource.
    pub(super) async fn watch(
        &self,
        uri: String,
        context: &RequestContext<RoleServer>,
        watches: &Watches,
    ) -> Result<(), ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<ReadResourceRequestMethod>)?;
        let Target { provider, own } = self.resource_target(&providers, &uri, context).await?;
        let failed = |why: &'static str| ErrorData::invalid_params(why, Some(json!({ "uri": uri })));
        let name =
            provider.safe_name(SUBSCRIBE).ok_or_else(|| failed("the server has no subscriptions to resources"))?;
        let place = WatchPlace::default();
        let call = provider.direct_call(name, Some(json!({ "uri": own }))).map_err(|_| failed("no subscriptions"))?;
        Box::pin(call.attach(place.clone()).execute()).await;
        let watch = place.take().ok_or_else(|| failed("too many resources of the server are watched"))?;
        let resource = WatchedResource { server: provider.name().to_owned(), own, _watch: watch };
        match watches.add(uri.clone(), resource) {
            true => Ok(()),
            false => Err(failed("too many resources are watched; end another subscription")),
        }
    }

    /// Sets the least severe log messages that the client of a session gets, and lets older servers send them: those of MCP
    /// 2026-07-28 get the level with each call.
    pub(super) async fn set_log_level(
        &self,
        level: LoggingLevel,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let providers = self.providers(ErrorData::method_not_found::<SetLevelRequestMethod>)?;
        *self.session.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
        let asked = providers.iter().filter(|provider| provider.safe_name(SET_LEVEL).is_some());
        let set = asked.map(|provider| async move {
            let request = Box::pin(self.request(provider, SET_LEVEL, json!({ "level": level }), context));
            tokio::time::timeout(LIST_TIMEOUT, request).await
        });
        join_all(set).await;
        Ok(())
    }

    /// The servers whose requests are passed on. Waits for those that are starting.
    fn providers(&self, not_found: fn() -> ErrorData) -> Result<Vec<Provider>, ErrorData> {
        self.inner.source.features().ok_or_else(not_found)
    }

    /// The entries of the lists of those servers that have one. A server that does not answer in time has none.
    async fn lists<'a>(
        &self,
        providers: &'a [Provider],
        method: &'static str,
        member: &'static str,
        context: &RequestContext<RoleServer>,
    ) -> Vec<(&'a Provider, Vec<Json>)> {
        let asked = providers.iter().filter(|provider| provider.safe_name(method).is_some());
        let lists = asked.map(|provider| async move {
            let list = Box::pin(self.list(provider, method, member, context));
            (provider, tokio::time::timeout(LIST_TIMEOUT, list).await.unwrap_or_default())
        });
        join_all(lists).await
    }

    /// The entries of all pages of one list, as far as it can be read.
    async fn list(
        &self,
        provider: &Provider,
        method: &'static str,
        member: &'static str,
        context: &RequestContext<RoleServer>,
    ) -> Vec<Json> {
        let (mut entries, mut cursor, mut cursors, mut room) = (Vec::new(), None, HashSet::new(), MAX_LIST);
        loop {
            let params = without_null(json!({ "cursor": cursor }));
            let Ok(mut page) = self.request(provider, method, params, context).await else { return entries };
            for entry in take_entries(&mut page, member).unwrap_or_default() {
                match json_length(&entry, room) {
                    Some(length) if entries.len() < MAX_ENTRIES => room -= length,
                    _ => return entries,
                }
                entries.push(entry);
            }
            match next_cursor(&page) {
                Some(next) if cursors.len() < MAX_PAGES && cursors.insert(next.clone()) => cursor = Some(next),
                _ => return entries,
            }
        }
    }

    /// An entry of a list. Members that cannot be read are left out, and an entry that cannot be read at all is, too. `known` are
    /// the members that are worth a second attempt.
    fn entry<T: DeserializeOwned>(&self, mut entry: Json, known: &[&str]) -> Option<T> {
        self.show(&mut entry);
        if let Ok(entry) = serde_json::from_value(entry.clone()) {
            return Some(entry);
        }
        let Json::Object(mut members) = entry else { return None };
        members.retain(|name, value| known.contains(&name.as_str()) && (value.is_string() || name == "arguments"));
        let uri = members.get("uri").or_else(|| members.get("uriTemplate")).cloned();
        members.entry("name").or_insert_with(|| uri.unwrap_or_default());
        let entry = serde_json::from_value(Json::Object(members.clone()));
        members.remove("arguments");
        entry.or_else(|_| serde_json::from_value(Json::Object(members))).ok()
    }

    /// Redacts secrets, and escapes hidden characters in the texts that people and models read.
    fn show(&self, value: &mut Json) {
        self.inner.options.secrets.redact_json(value);
        make_texts_visible(value);
    }

    /// The server of a prompt.
    async fn prompt_target(
        &self,
        providers: &[Provider],
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Target, ErrorData> {
        let own = |provider: &Provider| match self.inner.source.has_prefix(provider.name()) {
            true => Some(name.strip_prefix(provider.name())?.strip_prefix('_')?.to_owned()),
            false => Some(name.to_owned()),
        };
        let has_prompts = providers.iter().filter(|provider| provider.safe_name(GET_PROMPT).is_some());
        let mut targets: Vec<_> = has_prompts
            .filter_map(|provider| Some(Target { provider: provider.clone(), own: own(provider)? }))
            .collect();
        if targets.len() > 1 {
            let mut having = Vec::new();
            for target in targets {
                let list = Box::pin(self.list(&target.provider, LIST_PROMPTS, "prompts", context)).await;
                if list.iter().any(|entry| entry["name"] == *target.own) {
                    having.push(target);
                }
            }
            targets = having;
        }
        let shown = cut(&escape(name, Keep::Nothing), MAX_SHOWN);
        targets.into_iter().next().ok_or_else(|| ErrorData::invalid_params(format!("unknown prompt {shown:?}"), None))
    }

    /// The server of a resource: the one that the URI names, the one that lists it, or whose template it has, or the only one. No
    /// other server reads the URI.
    async fn resource_target(
        &self,
        providers: &[Provider],
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Target, ErrorData> {
        let own = |provider: &Provider| Some(uri.strip_prefix(provider.name())?.strip_prefix('+')?.to_owned());
        let mut readable = providers.iter().filter(|provider| provider.safe_name(READ_RESOURCE).is_some());
        if let Some((provider, own)) = readable.clone().find_map(|provider| Some((provider, own(provider)?))) {
            return Ok(Target { provider: provider.clone(), own });
        }
        let target = |provider: &Provider| Target { provider: provider.clone(), own: uri.to_owned() };
        if let (Some(only), None) = (readable.next(), readable.next()) {
            return Ok(target(only));
        }
        let resources = self.lists(providers, LIST_RESOURCES, "resources", context).await;
        let listed = resources.iter().find(|(_, list)| list.iter().any(|entry| entry["uri"] == *uri));
        if let Some((provider, _)) = listed {
            return Ok(target(provider));
        }
        let templates = self.lists(providers, LIST_TEMPLATES, "resourceTemplates", context).await;
        let matching = templates.iter().find(|(_, list)| {
            list.iter()
                .filter_map(|entry| entry["uriTemplate"].as_str())
                .any(|template| matches_template(template, uri))
        });
        let unknown = || {
            let message = "unknown resource; if a server has it without listing it, write NAMESPACE+URI";
            ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, message, Some(json!({ "uri": uri })))
        };
        matching.map(|(provider, _)| target(provider)).ok_or_else(unknown)
    }

    /// Starts a request whose server may ask the client.
    fn start_request(
        &self,
        (provider, method, params): (Provider, &'static str, Json),
        sent: Relayed,
        context: &RequestContext<RoleServer>,
        result: impl FnOnce(Json) -> ServerResult + Send + 'static,
    ) -> Running {
        let ended = self.session_end(context);
        let caller = Caller::new(self, context, ended.clone());
        let (channel, progress) = (caller.origin.channel.clone(), caller.progress.clone());
        let server = self.for_same_client();
        Running::new(&channel, progress, ended, async move {
            let (observer, reporting) = Reporting::of_call(&caller, &server.inner.options.secrets);
            let request = Request { provider: &provider, method, params, sent: Some(sent), observer };
            let answer = reporting.during(server.request_by(request, &caller)).await?;
            if direct::is_input_required(&answer) { direct::input_required(answer) } else { Ok(result(answer)) }
        })
    }

    /// The answer to a request.
    async fn request(
        &self,
        provider: &Provider,
        method: &'static str,
        params: Json,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json, ErrorData> {
        let caller = Caller::new(self, context, context.ct.child_token());
        self.request_by(Request { provider, method, params, sent: None, observer: None }, &caller).await
    }

    async fn request_by(&self, request: Request<'_>, caller: &Caller) -> Result<Json, ErrorData> {
        let Request { provider, method, params, sent, observer } = request;
        let secrets = &self.inner.options.secrets;
        let failed = |message: String| ErrorData::internal_error(secrets.redact(message), None);
        let name = provider.safe_name(method).ok_or_else(|| failed(format!("the server has no {method}")))?;
        let whole = WholeAnswer::default();
        let call = provider.direct_call(name, Some(params)).map_err(|error| failed(error.message))?;
        let call = call.cancellation(caller.origin.ended.clone()).attach(caller.origin.clone()).attach(whole.clone());
        let call = sent.into_iter().fold(call, execbox::DirectCall::attach);
        let call = observer.into_iter().fold(call, execbox::DirectCall::observer);
        let result = Box::pin(call.execute()).await;
        match (whole.take(), result.outcome) {
            (Some(Ok(answer)), _) if direct::is_input_required(&answer) => Ok(answer),
            (Some(Ok(mut answer)), _) => {
                self.show(&mut answer);
                Ok(answer)
            }
            (Some(Err(error)), _) => Err(direct::redacted(error, secrets)),
            (None, Ok(_)) => Err(failed("the server gave no answer".to_owned())),
            (None, Err(error)) => Err(failed(error.message)),
        }
    }
}

/// What the requests of one call have in common.
fn identity(
    server: &CodeServer,
    method: &str,
    target: &Target,
    params: &Json,
    context: &RequestContext<RoleServer>,
) -> Call {
    let mut params = params.clone();
    params.sort_all_objects();
    let text = format!("{method} {} {params}", target.provider.name());
    Call { client: run::client(server, context), text }
}

/// Whether a URI can be one of a template: it has the literal parts, in order.
fn matches_template(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut literals = template.split('{').enumerate().map(|(at, part)| match at {
        0 => part,
        _ => part.split_once('}').map_or("", |(_, literal)| literal),
    });
    let first = literals.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    let literals: Vec<&str> = literals.collect();
    for (at, literal) in literals.iter().enumerate() {
        if at + 1 == literals.len() {
            return rest.ends_with(literal);
        }
        match rest.find(literal) {
            Some(found) => rest = &rest[found + literal.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

fn other_result() -> ErrorData {
    ErrorData::internal_error("another kind of result", None)
}

fn without_null(params: Json) -> Json {
    let Json::Object(mut params) = params else { return params };
    params.retain(|_, value| !value.is_null());
    Json::Object(params)
}

/// How long a client waits for the list of a server.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a list of a server is passed on: entries, pages, and bytes of JSON.
const MAX_ENTRIES: usize = 1_000;
const MAX_PAGES: usize = 100;
const MAX_LIST: usize = 1 << 20;

/// How much of an unknown name an error shows, in characters.
const MAX_SHOWN: usize = 80;
