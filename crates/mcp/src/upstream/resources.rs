//! The resources of a server, as two more tools: one lists them, one reads them.

use std::sync::{Arc, OnceLock};

use execbox::core::budget::Charge;
use execbox::{Effect, Tool, ToolContext, ToolError};
use rmcp::model::{
    ClientRequest, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams, ReadResourceRequest,
    ReadResourceRequestParams, ReadResourceResult, ResourceContents, ServerResult,
};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::answers::Answers;
use super::tool::{send, text_data, unexpected};
use super::{Router, UpstreamOptions};
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
        let texts = [uri, "name", "title", "description", "mimeType"];
        let properties = texts.map(|name| (name.to_owned(), json!({ "type": "string" })));
        json!({ "type": "object", "properties": Json::from_iter(properties), "required": [uri, "name"] })
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
        let listed =
            self.send(ListResourcesRequest { params: page(), ..Default::default() }.into(), &context, |result, _| {
                match result {
                    ServerResult::ListResourcesResult(list) => {
                        let resources = self.json(&list.resources)?;
                        Ok(json!({ "resources": resources, "nextCursor": list.next_cursor }))
                    }
                    _ => Err(unexpected()),
                }
            });
        let mut listed = listed.await?;
        if listed["nextCursor"].is_null() {
            listed.as_object_mut().map(|list| list.remove("nextCursor"));
        }
        if is_first {
            let request = ListResourceTemplatesRequest { params: page(), ..Default::default() };
            let templates = self.send(request.into(), &context, |result, _| match result {
                ServerResult::ListResourceTemplatesResult(list) => self.json(&list.resource_templates),
                _ => Err(unexpected()),
            });
            // Servers without templates need not support the request.
            listed["templates"] = templates.await.unwrap_or_else(|_| json!([]));
        }
        Ok(listed)
    }

    async fn read(&self, input: &Json, context: ToolContext) -> Result<Json, ToolError> {
        let uri = input["uri"].as_str().unwrap_or_default();
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        let read = self.send(request.into(), &context, |result, answers| match result {
            ServerResult::ReadResourceResult(result) => self.data(result, answers),
            _ => Err(unexpected()),
        });
        read.await
    }

    async fn send(
        &self,
        request: ClientRequest,
        context: &ToolContext,
        format: impl FnOnce(ServerResult, &Answers) -> Result<Json, ToolError>,
    ) -> Result<Json, ToolError> {
        let UpstreamOptions { call_timeout, secrets, .. } = &self.options;
        send(&*self.router, request, context.clone(), *call_timeout, secrets, format).await
    }

    /// The contents as data: a single one as text, as JSON, or as a block that models can see; otherwise the list of contents.
    fn data(&self, mut result: ReadResourceResult, answers: &Answers) -> Result<Json, ToolError> {
        if result.contents.len() != 1 || json_exceeds(&result, self.options.max_result_bytes) {
            return self.json(&result.contents);
        }
        match result.contents.remove(0) {
            ResourceContents::TextResourceContents { text, mime_type, .. } => Ok(match mime_type.as_deref() {
                Some(mime_type) if is_json(mime_type) => text_data(&text, answers),
                _ => text.into(),
            }),
            ResourceContents::BlobResourceContents { blob, mime_type: Some(mime_type), .. }
                if let Some(kind) = media_kind(&mime_type) =>
            {
                Ok(json!({ "type": kind, "data": blob, "mimeType": mime_type }))
            }
            content => self.json(&content),
        }
    }

    fn json(&self, value: &impl Serialize) -> Result<Json, ToolError> {
        let max = self.options.max_result_bytes;
        if json_exceeds(value, max) {
            return Err(ToolError::new(format!("result longer than {max} bytes")));
        }
        Ok(serde_json::to_value(value)?)
    }
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
