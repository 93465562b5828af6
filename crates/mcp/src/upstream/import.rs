//! Imports the tools of an MCP server: lists them within limits, checks each, and makes a provider of the valid ones.

use std::borrow::Cow;
use std::sync::Arc;

use execbox::{Provider, ProviderError};
use rmcp::model::{JsonObject, PaginatedRequestParams, Tool};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value as Json;

use super::pipe::Disconnect;
use super::{Route, Router, UpstreamError, UpstreamOptions, reason, tool};
use crate::Secrets;
use crate::filter::{Pattern, UnmatchedPatterns};
use crate::text::{json_exceeds, truncate};

/// The result of importing the tools of a server.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The tools that are valid and pass the filter.
    pub provider: Provider,
    /// Tools that are invalid.
    pub rejected: Vec<RejectedTool>,
    /// The number of tools that [`UpstreamOptions::filter`] does not let pass.
    pub filtered: usize,
    /// Patterns of the filter that match no tool; they may be misspelled.
    pub unmatched_patterns: Vec<Pattern>,
}

/// A tool that is not imported because it is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedTool {
    /// Its name on the server, truncated if it is too long.
    pub name: String,
    /// Why, as a clause.
    pub reason: String,
}

/// Imports the tools of a connected MCP server. The caller owns the connection: when it ends, calls fail.
pub async fn import(name: &str, peer: Peer<RoleClient>, options: &UpstreamOptions) -> Result<Imported, UpstreamError> {
    let route = Route { peer: peer.clone(), disconnect: Disconnect::default() };
    import_over(name, &route, Arc::new(peer), options).await
}

/// Lists tools over `route`. Their calls use the routes of `router`.
pub(super) async fn import_over(
    name: &str,
    Route { peer, disconnect }: &Route,
    router: Arc<dyn Router>,
    options: &UpstreamOptions,
) -> Result<Imported, UpstreamError> {
    let mut listing = Listing::new(options);
    listing.read(peer).await.map_err(|error| UpstreamError::List {
        name: name.to_owned(),
        reason: reason(&error, disconnect, &options.secrets),
    })?;
    let Listing { tools, mut rejected, filtered, unmatched, .. } = listing;
    let tools = tools.into_iter().map(|tool| tool::import(tool, &router, options));
    let mut builder = Provider::builder(name).tools(tools);
    let instructions = peer.peer_info().and_then(|info| info.instructions.clone());
    if let Some(instructions) = instructions {
        builder = builder.description(truncate(options.secrets.redact(instructions), options.max_description));
    }
    let (provider, errors) = builder.build_valid()?;
    rejected.extend(errors.iter().map(rejected_by));
    Ok(Imported { provider, rejected, filtered, unmatched_patterns: unmatched.into_patterns() })
}

fn rejected_by(error: &ProviderError) -> RejectedTool {
    use ProviderError::{DuplicateTool, Schema};
    let name = match error {
        Schema { tool, .. } | DuplicateTool { tool, .. } => tool.clone(),
        _ => String::new(),
    };
    RejectedTool { name, reason: error.to_string() }
}

/// The tools that a server has listed so far.
struct Listing<'a> {
    options: &'a UpstreamOptions,
    tools: Vec<Tool>,
    rejected: Vec<RejectedTool>,
    filtered: usize,
    unmatched: UnmatchedPatterns<'a>,
}

impl<'a> Listing<'a> {
    fn new(options: &'a UpstreamOptions) -> Self {
        let unmatched = UnmatchedPatterns::new(&options.filter);
        Self { options, tools: Vec::new(), rejected: Vec::new(), filtered: 0, unmatched }
    }

    /// Reads every page, up to the limits.
    async fn read(&mut self, peer: &Peer<RoleClient>) -> Result<(), ServiceError> {
        if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(());
        }
        let mut cursor = None;
        for _ in 0..self.options.max_pages {
            let timeout = self.options.connect_timeout;
            let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor)));
            let page = tokio::time::timeout(timeout, page).await.map_err(|_| ServiceError::Timeout { timeout })??;
            for tool in page.tools {
                if !self.passes(&tool.name) {
                    self.filtered += 1;
                    continue;
                }
                if self.tools.len() == self.options.max_tools {
                    self.reject_remaining(format!("limit of {} tools reached", self.options.max_tools));
                    return Ok(());
                }
                self.add(tool);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(());
            }
        }
        self.reject_remaining(format!("limit of {} pages reached", self.options.max_pages));
        Ok(())
    }

    fn passes(&mut self, name: &str) -> bool {
        self.unmatched.record(name);
        self.options.filter.passes(name)
    }

    fn add(&mut self, tool: Tool) {
        match checked(tool, self.options) {
            Ok(tool) => self.tools.push(tool),
            // The number of rejected tools is limited, too: the server chooses it.
            Err(tool) if self.rejected.len() < self.options.max_tools => self.rejected.push(tool),
            Err(_) => {}
        }
    }

    fn reject_remaining(&mut self, reason: String) {
        self.rejected.push(RejectedTool { name: "(remaining tools)".to_owned(), reason });
    }
}

/// Rejects a tool that exceeds the limits, truncates its description, and redacts secrets.
fn checked(mut tool: Tool, options: &UpstreamOptions) -> Result<Tool, RejectedTool> {
    let secrets = &options.secrets;
    let too_long = |schema: &JsonObject| json_exceeds(schema, options.max_schema_bytes);
    let problem = if tool.name.is_empty() || tool.name.len() > MAX_NAME {
        Some(format!("invalid name: expected 1 to {MAX_NAME} bytes"))
    } else if too_long(&tool.input_schema) || tool.output_schema.as_deref().is_some_and(too_long) {
        Some(format!("schema longer than {} bytes", options.max_schema_bytes))
    } else if secrets.occur_in(&tool.name) {
        Some("name contains a secret".to_owned())
    } else {
        None
    };
    if let Some(reason) = problem {
        let name = secrets.redact(tool.name.chars().take(MAX_NAME).collect());
        return Err(RejectedTool { name, reason });
    }
    let described =
        |text: Cow<'_, str>| Cow::Owned(truncate(secrets.redact(text.into_owned()), options.max_description));
    tool.description = tool.description.map(described);
    tool.input_schema = redacted(secrets, tool.input_schema);
    tool.output_schema = tool.output_schema.map(|schema| redacted(secrets, schema));
    Ok(tool)
}

fn redacted(secrets: &Secrets, schema: Arc<JsonObject>) -> Arc<JsonObject> {
    if secrets.is_empty() {
        return schema;
    }
    let mut value = Json::Object(Arc::unwrap_or_clone(schema));
    secrets.redact_json(&mut value);
    match value {
        Json::Object(schema) => Arc::new(schema),
        _ => unreachable!("an object stays an object"),
    }
}

/// The maximum length of the name of a tool, in bytes.
const MAX_NAME: usize = 256;
