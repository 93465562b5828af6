//! The resources of a server, as two more tools: one lists them, one reads them.

use std::sync::{Arc, OnceLock};

use execbox::{Effect, Tool, ToolContext, ToolError};
use execbox_core::budget::Charge;
use rmcp::model::{
    ClientRequest, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams, ReadResourceRequest,
    ReadResourceRequestParams,
};
use serde_json::{Value as Json, json};

use super::answers::Kept;
use super::call_result::json_text;
use super::tool::{send, unexpected};
use super::{Router, UpstreamOptions, lenient};
use crate::text::json_exceeds;

/// The tools, with their names. Each holds `catalog`, the charge for the list of tools.
pub(super) fn tools(
    router: &Arc<dyn Router>,
    options: &UpstreamOptions,
    catalog: &Arc<OnceLock<Charge>>,
) -> [(&'static str, Tool); 2] {
    let resources = Resources { router: Arc::clone(router), options: options.clone(), _catalog: Arc::clone(catalog) };
    let resources = Arc::new(resources);
    let (lists, reads) = (Arc::clone(&resources), resources);
    let list = Tool::new(LIST, move |input, context| {
        let resources = Arc::clone(&lists);
        async move { resources.list(&input, context).await }
    });
    let read = Tool::new(READ, move |input, context| {
        let resources = Arc::clone(&reads);
        async move { resources.read(&input, context).await }
    });
    let list = list
        .description("Lists the resources of this server, and the templates of their URIs")
        .input_schema(json!({ "type": "object", "properties": { "cursor": { "type": "string" } } }))
        .output_schema(list_schema());
    let read = read
        .description(
            "Reads a resource of this server: text as a string, JSON as data, images and audio as blocks to return",
        )
        .input_schema(json!({ "type": "object", "properties": { "uri": { "type": "string" } }, "required": ["uri"] }));
    [(LIST, list.effect(Effect::ReadOnly)), (READ, read.effect(Effect::ReadOnly))]
}

/// The names of the tools.
pub(super) const LIST: &str = "list_resources";
pub(super) const READ: &str = "read_resource";

fn list_schema() -> Json {
    let entry = |uri: &str| {
        let properties = [uri].into_iter().chain(TEXTS).map(|name| (name.to_owned(), json!({ "type": "string" })));
        json!({ "type": "object", "properties": properties.collect::<Json>(), "required": [uri, "name"] })
    };
    json!({
        "type": "object",
        "properties": {
            "resources": { "type": "array", "items": entry("uri") },
            "templates": { "type": "array", "items": entry("uriTemplate") },
            "nextCursor": { "type": "string" }
        },
        "required": ["resources"]
    })
}

/// The members of a resource that are texts, beside its URI.
const TEXTS: [&str; 4] = ["name", "title", "description", "mimeType"];

struct Resources {
    router: Arc<dyn Router>,
    options: UpstreamOptions,
    _catalog: Arc<OnceLock<Charge>>,
}

impl Resources {
    /// A page of resources. The first page has the templates, too.
    async fn list(&self, input: &Json, context: ToolContext) -> Result<Json, ToolError> {
        let cursor = input["cursor"].as_str().map(str::to_owned);
        let is_first = cursor.is_none();
        let page = || Some(PaginatedRequestParams::default().with_cursor(cursor.clone()));
        let request = ListResourcesRequest { params: page(), ..Default::default() };
        let listed = self.send(request.into(), &context, |mut result, _| {
            let resources = lenient::take_entries(&mut result, "resources").ok_or_else(|| unexpected(&result))?;
            let mut listed = json!({ "resources": described(resources, "uri") });
            if let Some(cursor) = lenient::next_cursor(&result) {
                listed["nextCursor"] = cursor.into();
            }
            Ok(listed)
        });
        let mut listed = listed.await?;
        if is_first {
            let request = ListResourceTemplatesRequest { params: page(), ..Default::default() };
            let templates = self.send(request.into(), &context, |mut result, _| {
                let templates = lenient::take_entries(&mut result, "resourceTemplates").unwrap_or_default();
                Ok(described(templates, "uriTemplate"))
            });
            // Servers without templates need not support the request.
            listed["templates"] = templates.await.unwrap_or_else(|_| json!([]));
        }
        Ok(listed)
    }

    async fn read(&self, input: &Json, context: ToolContext) -> Result<Json, ToolError> {
        let uri = input["uri"].as_str().unwrap_or_default();
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        self.send(request.into(), &context, |result, kept| Ok(contents(result, kept))).await
    }

    async fn send(
        &self,
        request: ClientRequest,
        context: &ToolContext,
        format: impl FnOnce(Json, &mut Kept) -> Result<Json, ToolError>,
    ) -> Result<Json, ToolError> {
        let UpstreamOptions { call_timeout, secrets, max_result_bytes, .. } = &self.options;
        let format = |result: Json, kept: &mut Kept| {
            if json_exceeds(&result, *max_result_bytes) {
                return Err(ToolError::new(format!("result longer than {max_result_bytes} bytes")));
            }
            format(result, kept)
        };
        send(&*self.router, request, context.clone(), *call_timeout, secrets, format).await
    }
}

/// The entries whose URI is a text. Their other members have the types of [`list_schema`], or are left out.
fn described(entries: Vec<Json>, uri: &str) -> Json {
    let entries = entries.into_iter().filter_map(|entry| {
        let Json::Object(mut entry) = entry else { return None };
        entry.retain(|name, value| !TEXTS.contains(&name.as_str()) || value.is_string());
        let stated = entry.get(uri).filter(|stated| stated.is_string())?.clone();
        entry.entry("name").or_insert(stated);
        Some(Json::Object(entry))
    });
    entries.collect()
}

/// The contents as data: a single one as text, as JSON, or as a block that models can see; otherwise the list of contents.
fn contents(mut result: Json, kept: &mut Kept) -> Json {
    let Some(contents) = result.get_mut("contents").map(Json::take) else { return result };
    let only = match contents {
        Json::Array(mut contents) if contents.len() == 1 => contents.remove(0),
        contents @ Json::Array(_) => return contents,
        content => content,
    };
    let Json::Object(mut content) = only else { return only };
    let mime_type = content.get("mimeType").and_then(Json::as_str).unwrap_or_default();
    match (content.get("text"), content.get("blob"), media_kind(mime_type)) {
        (Some(Json::String(_)), ..) => {
            let is_json = is_json(mime_type);
            let Some(Json::String(text)) = content.remove("text") else { return Json::Object(content) };
            if is_json && !is_long_integer(&text) { json_text(text, kept) } else { Json::String(text) }
        }
        (_, Some(Json::String(blob)), Some(kind)) => json!({ "type": kind, "data": blob, "mimeType": mime_type }),
        _ => Json::Object(content),
    }
}

/// Whether a text is an integer with more digits than a number of a program has. An id must not become another one.
fn is_long_integer(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<f64>().is_ok_and(|number| number.to_string() != text)
}

fn is_json(mime_type: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json") || essence.to_ascii_lowercase().ends_with("+json")
}

fn media_kind(mime_type: &str) -> Option<&'static str> {
    [("image/", "image"), ("audio/", "audio")]
        .into_iter()
        .find(|(prefix, _)| mime_type.starts_with(prefix))
        .map(|(_, kind)| kind)
}
