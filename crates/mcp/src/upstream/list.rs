//! The whole catalogue of an MCP server, within caps.

use std::borrow::Cow;

use rmcp::model::{JsonObject, PaginatedRequestParams, Tool};
use rmcp::service::{Peer, RoleClient, ServiceError};

use super::{LeftOut, UpstreamOptions};
use crate::text::cut;

/// Every page. Tools that are too big are left out, descriptions that are too long are cut.
pub(super) async fn tools(
    peer: &Peer<RoleClient>,
    options: &UpstreamOptions,
) -> Result<(Vec<Tool>, Vec<LeftOut>), ServiceError> {
    let (mut tools, mut left_out) = (Vec::new(), Vec::new());
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok((tools, left_out));
    }
    let mut cursor = None;
    for _ in 0..options.max_pages {
        let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor)));
        let page = tokio::time::timeout(options.connect_timeout, page)
            .await
            .map_err(|_| ServiceError::Timeout { timeout: options.connect_timeout })??;
        for tool in page.tools {
            if tools.len() == options.max_tools {
                left_out.push(further(format!("only {} tools are taken from one server", options.max_tools)));
                return Ok((tools, left_out));
            }
            match checked(tool, options) {
                Ok(tool) => tools.push(tool),
                // What is left out is capped, too: it is as long as the server likes.
                Err(tool) if left_out.len() < options.max_tools => left_out.push(tool),
                Err(_) => {}
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((tools, left_out));
        }
    }
    left_out.push(further(format!("only {} pages are asked for", options.max_pages)));
    Ok((tools, left_out))
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
    } else {
        None
    };
    if let Some(reason) = problem {
        return Err(LeftOut { tool: tool.name.chars().take(MAX_NAME).collect(), reason });
    }
    tool.description = tool.description.map(|text| Cow::Owned(cut(text.into_owned(), options.max_description)));
    Ok(tool)
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
