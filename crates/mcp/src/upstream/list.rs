//! The whole catalogue of an MCP server, within caps.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{JsonObject, PaginatedRequestParams, Tool};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value as Json;

use super::{LeftOut, UpstreamOptions};
use crate::Secrets;
use crate::filter::{Pattern, Unused};
use crate::text::cut;

/// A catalogue.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) tools: Vec<Tool>,
    pub(super) left_out: Vec<LeftOut>,
    /// How many the filter does not let pass.
    pub(super) withheld: usize,
    /// Patterns of the filter that no tool fits.
    pub(super) unused: Vec<Pattern>,
}

/// Every page. Tools that are too big are left out, descriptions that are too long are cut.
pub(super) async fn tools(peer: &Peer<RoleClient>, options: &UpstreamOptions) -> Result<Listed, ServiceError> {
    let mut unused = Unused::new(&options.filter);
    let mut listed = pages(peer, options, &mut unused).await?;
    listed.unused = unused.into_patterns();
    Ok(listed)
}

async fn pages(
    peer: &Peer<RoleClient>,
    options: &UpstreamOptions,
    unused: &mut Unused<'_>,
) -> Result<Listed, ServiceError> {
    let mut listed = Listed::default();
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(listed);
    }
    let mut cursor = None;
    for _ in 0..options.max_pages {
        let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor)));
        let page = tokio::time::timeout(options.connect_timeout, page)
            .await
            .map_err(|_| ServiceError::Timeout { timeout: options.connect_timeout })??;
        for tool in page.tools {
            unused.see(&tool.name);
            if !options.filter.passes(&tool.name) {
                listed.withheld += 1;
                continue;
            }
            if listed.tools.len() == options.max_tools {
                let reason = format!("only {} tools are taken from one server", options.max_tools);
                listed.left_out.push(further(reason));
                return Ok(listed);
            }
            match checked(tool, options) {
                Ok(tool) => listed.tools.push(tool),
                // What is left out is capped, too: it is as long as the server likes.
                Err(tool) if listed.left_out.len() < options.max_tools => listed.left_out.push(tool),
                Err(_) => {}
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(listed);
        }
    }
    listed.left_out.push(further(format!("only {} pages are asked for", options.max_pages)));
    Ok(listed)
}

fn further(reason: String) -> LeftOut {
    LeftOut { tool: "(further tools)".to_owned(), reason }
}

fn checked(mut tool: Tool, options: &UpstreamOptions) -> Result<Tool, LeftOut> {
    let too_long = |schema: &JsonObject| longer_than(schema, options.max_schema_bytes);
    let problem = if tool.name.is_empty() || tool.name.len() > MAX_NAME {
        Some(format!("a name has 1 to {MAX_NAME} bytes"))
    } else if too_long(&tool.input_schema) || tool.output_schema.as_deref().is_some_and(too_long) {
        Some(format!("its schema is longer than {} bytes", options.max_schema_bytes))
    } else if options.secrets.is_in(&tool.name) {
        Some("there is a secret in its name".to_owned())
    } else {
        None
    };
    let secrets = &options.secrets;
    if let Some(reason) = problem {
        let tool = secrets.hide(tool.name.chars().take(MAX_NAME).collect());
        return Err(LeftOut { tool, reason });
    }
    let described = |text: Cow<'_, str>| Cow::Owned(cut(secrets.hide(text.into_owned()), options.max_description));
    tool.description = tool.description.map(described);
    tool.input_schema = without(secrets, tool.input_schema);
    tool.output_schema = tool.output_schema.map(|schema| without(secrets, schema));
    Ok(tool)
}

/// A schema without secrets.
fn without(secrets: &Secrets, schema: Arc<JsonObject>) -> Arc<JsonObject> {
    if secrets.is_empty() {
        return schema;
    }
    let mut value = Json::Object(Arc::unwrap_or_clone(schema));
    secrets.hide_in(&mut value);
    match value {
        Json::Object(schema) => Arc::new(schema),
        _ => unreachable!("an object stays one"),
    }
}

/// Whether `value` is longer than that as JSON. Nothing is kept of it.
pub(super) fn longer_than(value: &impl serde::Serialize, most: usize) -> bool {
    serde_json::to_writer(Room(most), value).is_err()
}

/// So many bytes, then no more.
struct Room(usize);

impl std::io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The longest name of a tool, in bytes.
const MAX_NAME: usize = 256;
