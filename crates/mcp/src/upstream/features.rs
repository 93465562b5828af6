//! Requests about prompts, resources and completions, as tools of a provider: a gateway passes them on. The names of the tools
//! are the methods (`prompts/get`), and what they return is the answer of the server. So they have what calls have: a context with
//! the client, cancellation, questions to the client, limits.

#![allow(deprecated)] // Levels of log messages: clients set them.

use std::sync::{Arc, Mutex, PoisonError};

use execbox::{Provider, Tool, ToolContext, ToolError};
use rmcp::model::{
    ClientRequest, CompleteRequest, GetPromptRequest, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ProtocolVersion, ReadResourceRequest, ServerPeerInfo, SetLevelRequest,
};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::answers::Kept;
use super::tool::send;
use super::{Router, UpstreamOptions, Watch, WholeAnswer, resources};
use crate::text::json_exceeds;

pub(crate) const LIST_PROMPTS: &str = "prompts/list";
pub(crate) const GET_PROMPT: &str = "prompts/get";
pub(crate) const LIST_RESOURCES: &str = "resources/list";
pub(crate) const LIST_TEMPLATES: &str = "resources/templates/list";
pub(crate) const READ_RESOURCE: &str = "resources/read";
pub(crate) const SUBSCRIBE: &str = "resources/subscribe";
pub(crate) const SET_LEVEL: &str = "logging/setLevel";
pub(crate) const COMPLETE: &str = "completion/complete";

/// The place for the watch of a resource. Attached to calls of [`SUBSCRIBE`], which return nothing.
#[derive(Clone, Default)]
pub(crate) struct WatchPlace(Arc<Mutex<Option<Watch>>>);

impl WatchPlace {
    pub(crate) fn take(&self) -> Option<Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The requests that a server answers; `None` if there are none. Filters apply to the requests about
/// resources as to the tools of the same purpose.
pub(super) fn provider(
    name: &str,
    info: &ServerPeerInfo,
    router: &Arc<dyn Router>,
    options: &UpstreamOptions,
) -> Option<Provider> {
    let capabilities = &info.capabilities;
    let is_modern = info.protocol_version >= ProtocolVersion::V_2026_07_28;
    let passes = |method: &str| {
        tool_of_feature(method).is_none_or(|tool| options.filter.passes(tool, execbox::Effect::ReadOnly))
    };
    let has_resources = capabilities.resources.is_some();
    let methods: [(&'static str, Request, bool); 7] = [
        (LIST_PROMPTS, list_prompts, capabilities.prompts.is_some()),
        (GET_PROMPT, get_prompt, capabilities.prompts.is_some()),
        (LIST_RESOURCES, list_resources, has_resources && passes(LIST_RESOURCES)),
        (LIST_TEMPLATES, list_templates, has_resources && passes(LIST_TEMPLATES)),
        (READ_RESOURCE, read_resource, has_resources && passes(READ_RESOURCE)),
        (COMPLETE, complete, capabilities.completions.is_some()),
        (SET_LEVEL, set_level, capabilities.logging.is_some() && !is_modern),
    ];
    let methods = methods.into_iter().filter(|(.., is_answered)| *is_answered);
    let mut tools: Vec<_> = methods.map(|(method, request, _)| passed_on(method, request, router, options)).collect();
    let has_subscriptions = capabilities.resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true));
    if has_subscriptions && passes(SUBSCRIBE) {
        tools.push(subscribe(router));
    }
    if tools.is_empty() {
        return None;
    }
    Provider::builder(name).tools(tools).build().ok()
}

/// The tool of programs that has the purpose of a request, and whose filters apply to it; `None` if there is none.
pub(crate) fn tool_of_feature(method: &str) -> Option<&'static str> {
    match method {
        LIST_RESOURCES | LIST_TEMPLATES => Some(resources::LIST),
        READ_RESOURCE | SUBSCRIBE => Some(resources::READ),
        _ => None,
    }
}

/// Makes a request of its parameters.
type Request = fn(Json) -> serde_json::Result<ClientRequest>;

fn read<T: DeserializeOwned>(params: Json) -> serde_json::Result<T> {
    serde_json::from_value(params)
}

fn list_prompts(params: Json) -> serde_json::Result<ClientRequest> {
    Ok(ListPromptsRequest { params: read(params)?, ..Default::default() }.into())
}

fn get_prompt(params: Json) -> serde_json::Result<ClientRequest> {
    Ok(GetPromptRequest::new(read(params)?).into())
}

fn list_resources(params: Json) -> serde_json::Result<ClientRequest> {
    Ok(ListResourcesRequest { params: read(params)?, ..Default::default() }.into())
}

fn list_templates(params: Json) -> serde_json::Result<ClientRequest> {
    Ok(ListResourceTemplatesRequest { params: read(params)?, ..Default::default() }.into())
}

fn read_resource(params: Json) -> serde_json::Result<ClientRequest> {
    Ok(ReadResourceRequest::new(read(params)?).into())
}

fn complete(params: Json) -> serde_json::Result<ClientRequest> {
    Ok(CompleteRequest::new(read(params)?).into())
}

fn set_level(params: Json) -> serde_json::Result<ClientRequest> {
    Ok(SetLevelRequest::new(read(params)?).into())
}

fn subscribe(router: &Arc<dyn Router>) -> Tool {
    let router = Arc::clone(router);
    Tool::new(SUBSCRIBE, move |params: Json, context: ToolContext| {
        let watch = params["uri"].as_str().and_then(|uri| router.watch(uri.to_owned()));
        if let Some(WatchPlace(place)) = context.attached() {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        }
        std::future::ready(Ok(Json::Null))
    })
}

fn passed_on(method: &'static str, request: Request, router: &Arc<dyn Router>, options: &UpstreamOptions) -> Tool {
    let (router, options) = (Arc::clone(router), Arc::new(options.clone()));
    Tool::new(method, move |params, context| {
        let (router, options) = (Arc::clone(&router), Arc::clone(&options));
        async move {
            let request = request(params).map_err(|error| ToolError::invalid(error.to_string()))?;
            let UpstreamOptions { call_timeout, secrets, max_result_bytes, .. } = &*options;
            let whole = context.attached::<WholeAnswer>().cloned();
            let format = |result: Json, _: &mut Kept| match whole {
                _ if json_exceeds(&result, *max_result_bytes) => {
                    Err(ToolError::new(format!("result longer than {max_result_bytes} bytes")))
                }
                Some(whole) => {
                    whole.set(Ok(result));
                    Ok(Json::Null)
                }
                None => Ok(result),
            };
            send(&*router, request, context, *call_timeout, secrets, format).await
        }
    })
}
