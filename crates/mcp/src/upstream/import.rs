//! Imports the tools of an MCP server: lists them within limits, checks each, and makes a provider of the valid ones.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use execbox::{Effect, Provider, ProviderError};
use execbox_core::budget::Budget;
use execbox_core::memory;
use execbox_core::text::{bytes_text, cut};
use rmcp::model::{
    ClientRequest, JsonObject, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::Value as Json;

use super::answers::Kept;
use super::lenient::{self, ReadTool};
use super::{Route, Router, UpstreamError, UpstreamOptions, features, no_response, reason, resources, tool};
use crate::Secrets;
use crate::filter::{Pattern, UnmatchedPatterns};
use crate::text::{json_exceeds, truncate};

/// The result of importing the tools of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Imported {
    /// The tools that are valid and pass the filter.
    pub provider: Provider,
    /// Tools that are invalid.
    pub rejected: Vec<RejectedTool>,
    /// The names of the tools that [`UpstreamOptions::filter`] does not let pass, as far as they fit into
    /// [`UpstreamOptions::max_catalog_bytes`].
    pub filtered: Vec<String>,
    /// Patterns of the filter that match no tool; they may be misspelled.
    pub unmatched_patterns: Vec<Pattern>,
    /// What the operator of the server should know.
    pub warnings: Vec<Warning>,
    /// The requests about prompts, resources and completions that the server answers, as tools with the names of the methods:
    /// their arguments are the parameters, and what they return is the result. `None` if there are none.
    pub features: Option<Provider>,
}

/// What the operator of a server should know about its tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A part of a tool cannot be read. The tool is used without it.
    #[error("tool {tool:?}: {place} is not used: {reason}")]
    Unread {
        /// The name of the tool on the server.
        tool: String,
        /// The part: a member of the tool, or a place in one of its schemas.
        place: String,
        /// The reason, as a clause.
        reason: String,
    },
    /// Tools do not fit into [`UpstreamOptions::max_catalog_bytes`].
    #[error(
        "{tools} tools not imported: the tools of a server may take {} of memory; hide tools with a filter",
        bytes_text(*.limit as u64)
    )]
    NotImported {
        /// The number of tools that are left out.
        tools: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Further parts of tools cannot be read: only the first 100 are named.
    #[error("{parts} further parts of its tools are not used")]
    MoreUnread {
        /// The number of the parts.
        parts: usize,
    },
}

/// A tool that is not imported because it is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedTool {
    /// The name of the tool on the server, truncated if it is too long.
    pub name: String,
    /// The reason, as a clause.
    pub reason: String,
}

impl RejectedTool {
    /// A tool that is invalid for this reason, a clause.
    pub fn new(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), reason: reason.into() }
    }
}

/// Imports the tools of a connected MCP server. The caller owns the connection: when it ends, calls fail.
pub async fn import(name: &str, peer: Peer<RoleClient>, options: &UpstreamOptions) -> Result<Imported, UpstreamError> {
    let route = Route::over(peer.clone());
    import_over(name, &route, Arc::new(peer), options, &Budget::new(options.max_catalog_bytes)).await
}

/// Lists tools over `route`. Their calls use the routes of `router`. The provider is charged to `account`.
pub(super) async fn import_over(
    name: &str,
    route: &Route,
    router: Arc<dyn Router>,
    options: &UpstreamOptions,
    account: &Budget,
) -> Result<Imported, UpstreamError> {
    let peer = &route.peer;
    let failed = |reason| UpstreamError::List { name: name.to_owned(), reason: options.secrets.redact(reason) };
    let reserved = account.charge(options.max_catalog_bytes);
    let mut reserved = reserved.map_err(|_| failed("earlier lists of tools are still in use".to_owned()))?;
    let mut listing = Listing::new(options);
    listing.read(route).await.map_err(failed)?;
    let own = if has_resources(route).await { listing.tools_for_resources() } else { Vec::new() };
    let Listing { tools, mut rejected, filtered, unmatched, mut excess, mut unread, .. } = listing;
    // Each tool holds the charge for the provider.
    let held = Arc::new(OnceLock::new());
    let resources = resources::tools(&router, options, &held).into_iter().filter(|(name, _)| own.contains(name));
    let resources: Vec<_> = resources.map(|(_, tool)| tool).collect();
    let tools = tools.into_iter().map(|tool| tool::import(tool, name, &router, options, &held));
    let tools = tools.chain(resources);
    let budget = Budget::new(options.max_catalog_bytes);
    let mut builder = Provider::builder(name).name_failed_calls().tools(tools).budget(budget.clone());
    let instructions = peer.peer_info().and_then(|info| info.instructions.clone());
    let instructions = instructions.map(|text| truncate(options.secrets.redact(text), options.max_description));
    // The instructions are in the provider and in its declarations, and count twice.
    if let Some(instructions) = instructions.filter(|text| budget.spend(2 * text.len()).is_ok()) {
        builder = builder.description(instructions);
    }
    // Compiling the schemas of a large catalog takes long.
    let built = tokio::task::spawn_blocking(|| builder.build_valid()).await;
    let (provider, errors) = built.map_err(|_| UpstreamError::Panicked)??;
    reserved.shrink_to(budget.used());
    let _ = held.set(reserved);
    for error in errors {
        match error {
            ProviderError::Budget { .. } => excess += 1,
            ProviderError::UncheckedSchema { tool, which, place, reason } => {
                unread.add(&tool, format!("{which}Schema{place}"), reason.to_string(), &options.secrets);
            }
            ProviderError::MoreUnchecked { more, .. } => unread.more += more,
            error => rejected.push(rejected_by(&error, &options.secrets)),
        }
    }
    let not_imported = Warning::NotImported { tools: excess, limit: options.max_catalog_bytes };
    let not_imported = (excess > 0).then_some(not_imported);
    let warnings = not_imported.into_iter().chain(unread.into_warnings()).collect();
    let unmatched_patterns = unmatched.into_patterns();
    let features = peer.peer_info().and_then(|info| features::provider(name, &info, &router, options));
    Ok(Imported { provider, rejected, filtered, unmatched_patterns, warnings, features })
}

fn rejected_by(error: &ProviderError, secrets: &Secrets) -> RejectedTool {
    use ProviderError::{DuplicateTool, Schema};
    let name = match error {
        Schema { tool, .. } | DuplicateTool { tool, .. } => tool.clone(),
        _ => String::new(),
    };
    RejectedTool { name, reason: secrets.redact(error.to_string()) }
}

/// The tools that a server has listed so far.
struct Listing<'a> {
    options: &'a UpstreamOptions,
    tools: Vec<Tool>,
    rejected: Vec<RejectedTool>,
    filtered: Vec<String>,
    unread: Unread,
    unmatched: UnmatchedPatterns<'a>,
    /// The budget of the tools that are kept.
    budget: Budget,
    /// The number of tools that the budget does not cover.
    excess: usize,
}

impl<'a> Listing<'a> {
    fn new(options: &'a UpstreamOptions) -> Self {
        let unmatched = UnmatchedPatterns::new(&options.filter);
        let budget = Budget::new(options.max_catalog_bytes);
        let (tools, rejected, filtered, unread) = Default::default();
        Self { options, tools, rejected, filtered, unread, unmatched, budget, excess: 0 }
    }

    /// Reads every page, up to the limits. Fails with a clause. A server that does not state tools may have some all the same, or
    /// fail in any way.
    async fn read(&mut self, route: &Route) -> Result<(), String> {
        let are_stated = route.peer.peer_info().is_none_or(|info| info.capabilities.tools.is_some());
        let timeout = self.options.connect_timeout;
        let timeout = if are_stated { timeout } else { timeout.min(UNSTATED_TIMEOUT) };
        let read = tokio::time::timeout(timeout, self.read_pages(route)).await;
        let read = read.unwrap_or_else(|_| Err(no_response(timeout)));
        if are_stated { read } else { Ok(()) }
    }

    async fn read_pages(&mut self, route: &Route) -> Result<(), String> {
        let mut cursor = None;
        for _ in 0..self.options.max_pages {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor.clone()));
            let request = ClientRequest::ListToolsRequest(ListToolsRequest { params, ..Default::default() });
            let page = request_list(route, request).await;
            let mut page = page.map_err(|error| reason(&error, &route.disconnect, &self.options.secrets))?;
            let next = lenient::next_cursor(&page.list);
            if !self.add_page(&mut page)? {
                return Ok(());
            }
            if next.is_none() {
                return Ok(());
            }
            if next == cursor {
                self.reject_remaining("the server repeats a cursor".to_owned());
                return Ok(());
            }
            cursor = next;
        }
        self.reject_remaining(format!("limit of {} pages reached", self.options.max_pages));
        Ok(())
    }

    /// Adds the tools of a page. Returns whether there is room for more.
    fn add_page(&mut self, page: &mut Page) -> Result<bool, String> {
        let entries = lenient::take_entries(&mut page.list, "tools");
        let entries = entries.ok_or_else(|| format!("no list of `tools` in {}", lenient::excerpt(&page.list)))?;
        if page.list.is_object() && page.list.get("tools").is_none() {
            self.reject_remaining(format!("no list of `tools` in {}", lenient::excerpt(&page.list)));
        }
        for entry in entries {
            let name = entry.get("name").and_then(Json::as_str).map(str::to_owned);
            let read = match lenient::tool(entry) {
                Ok(read) => read,
                Err(reason) => {
                    self.reject(RejectedTool { name: name.unwrap_or_else(|| "(without a name)".to_owned()), reason });
                    continue;
                }
            };
            let ReadTool { tool, unread } = read;
            if page.without.contains(&*tool.name) {
                let reason = "invalid `x-mcp-header` in its input schema".to_owned();
                self.reject(RejectedTool { name: tool.name.into_owned(), reason });
                continue;
            }
            if !self.passes(&tool.name, tool::effect(tool.annotations.as_ref())) {
                self.add_filtered(tool.name.into_owned());
                continue;
            }
            if self.tools.len() == self.options.max_tools {
                self.reject_remaining(format!("limit of {} tools reached", self.options.max_tools));
                return Ok(false);
            }
            for (member, reason) in unread {
                self.unread.add(&tool.name, member, reason, &self.options.secrets);
            }
            self.add(tool);
        }
        Ok(true)
    }

    fn passes(&mut self, name: &str, effect: Effect) -> bool {
        self.unmatched.record(name);
        self.options.filter.passes(name, effect)
    }

    fn add(&mut self, tool: Tool) {
        match checked(tool, self.options) {
            Ok(tool) if self.budget.spend(tool_bytes(&tool)).is_ok() => self.tools.push(tool),
            Ok(_) => self.excess += 1,
            Err(tool) => self.reject(tool),
        }
    }

    /// The number of rejected tools is limited, because the server chooses it.
    fn reject(&mut self, RejectedTool { name, reason }: RejectedTool) {
        if self.rejected.len() < self.options.max_tools {
            let name = name.chars().take(MAX_NAME).collect();
            self.rejected.push(RejectedTool { name, reason: self.options.secrets.redact(reason) });
        }
    }

    /// The names of the tools for the server's resources. A tool of the server with such a name takes precedence.
    fn tools_for_resources(&mut self) -> Vec<&'static str> {
        let mut names = vec![resources::LIST, resources::READ];
        names.retain(|name| self.tools.iter().all(|tool| tool.name != *name));
        names.retain(|name| {
            let passes = self.passes(name, Effect::ReadOnly);
            if !passes {
                self.add_filtered((*name).to_owned());
            }
            passes
        });
        names
    }

    fn add_filtered(&mut self, name: String) {
        if name.len() <= MAX_NAME && self.budget.spend(name.len() + size_of::<String>()).is_ok() {
            self.filtered.push(name);
        }
    }

    fn reject_remaining(&mut self, reason: String) {
        self.rejected.push(RejectedTool { name: "(remaining tools)".to_owned(), reason });
    }
}

/// The parts of tools that cannot be read, of which the first [`MAX_WARNINGS`] are named.
#[derive(Default)]
struct Unread {
    named: Vec<Warning>,
    more: usize,
}

impl Unread {
    fn add(&mut self, tool: &str, place: String, reason: String, secrets: &Secrets) {
        if self.named.len() < MAX_WARNINGS {
            let (tool, reason) = (cut(tool, MAX_NAME), secrets.redact(reason));
            self.named.push(Warning::Unread { tool, place, reason });
        } else {
            self.more += 1;
        }
    }

    fn into_warnings(self) -> impl Iterator<Item = Warning> {
        let more = (self.more > 0).then_some(Warning::MoreUnread { parts: self.more });
        self.named.into_iter().chain(more)
    }
}

/// Whether a server has resources or templates of them. Many servers declare the capability and have none.
async fn has_resources(route: &Route) -> bool {
    if route.peer.peer_info().is_none_or(|info| info.capabilities.resources.is_none()) {
        return false;
    }
    let (resources, templates) = (ListResourcesRequest::default(), ListResourceTemplatesRequest::default());
    let lists = async {
        is_listed(route, ClientRequest::ListResourcesRequest(resources)).await
            || is_listed(route, ClientRequest::ListResourceTemplatesRequest(templates)).await
    };
    tokio::time::timeout(UNSTATED_TIMEOUT, lists).await.unwrap_or(false)
}

/// Whether a list of resources or templates has items.
async fn is_listed(route: &Route, request: ClientRequest) -> bool {
    let name =
        if matches!(request, ClientRequest::ListResourcesRequest(_)) { "resources" } else { "resourceTemplates" };
    let page = request_list(route, request).await;
    page.is_ok_and(|page| lenient::entries(&page.list, name).is_some_and(|entries| !entries.is_empty()))
}

/// A page of a list.
struct Page {
    list: Json,
    /// The names of the tools that rmcp does not accept, because of headers that they want for their arguments.
    without: HashSet<String>,
    /// Holds the charge for the list.
    _kept: Kept,
}

async fn request_list(route: &Route, request: ClientRequest) -> Result<Page, ServiceError> {
    let sent = route.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
    let id = sent.id.clone();
    let kept = route.answers.kept(Some(id.clone()));
    let result = sent.await_response().await?;
    let accepted: Option<HashSet<String>> = match &result {
        ServerResult::ListToolsResult(list) => Some(list.tools.iter().map(|tool| tool.name.to_string()).collect()),
        _ => None,
    };
    let list = route.answers.take_or(&id, result);
    let named = lenient::entries(&list, "tools").unwrap_or_default().iter();
    let named = named.filter(|entry| entry.get("inputSchema").is_some_and(Json::is_object));
    let named = named.filter_map(|entry| entry.get("name")?.as_str());
    let without = accepted.map_or_else(HashSet::new, |accepted| {
        named.filter(|name| !accepted.contains(*name)).map(str::to_owned).collect()
    });
    Ok(Page { list, without, _kept: kept })
}

/// Rejects a tool that exceeds the limits, and truncates its description, without secrets. A tool without a description is
/// described by its title.
fn checked(mut tool: Tool, options: &UpstreamOptions) -> Result<Tool, RejectedTool> {
    let secrets = &options.secrets;
    let too_long = |schema: &JsonObject| json_exceeds(schema, options.max_schema_bytes);
    let problem = if tool.name.is_empty() || tool.name.len() > MAX_NAME {
        Some(format!("invalid name: expected 1 to {MAX_NAME} bytes"))
    } else if too_long(&tool.input_schema) || tool.output_schema.as_deref().is_some_and(too_long) {
        Some(format!("schema longer than {} bytes", options.max_schema_bytes))
    } else {
        None
    };
    if let Some(reason) = problem {
        let name = tool.name.chars().take(MAX_NAME).collect();
        return Err(RejectedTool { name, reason });
    }
    let described =
        |text: Cow<'_, str>| Cow::Owned(truncate(secrets.redact(text.into_owned()), options.max_description));
    let title =
        tool.title.take().or_else(|| tool.annotations.as_mut().and_then(|annotations| annotations.title.take()));
    let description = tool.description.filter(|text| !text.trim().is_empty()).or_else(|| title.map(Cow::Owned));
    tool.description = description.map(described);
    tool.input_schema = described_without(secrets, tool.input_schema);
    tool.output_schema = tool.output_schema.map(|schema| described_without(secrets, schema));
    Ok(tool)
}

/// A schema whose descriptions have no secrets. The rest of it decides which calls work, and is not changed.
fn described_without(secrets: &Secrets, mut schema: Arc<JsonObject>) -> Arc<JsonObject> {
    if schema.values().any(|member| secrets.occur_in(member)) {
        let mut rest: Vec<(&String, &mut Json)> = Arc::make_mut(&mut schema).iter_mut().collect();
        while let Some((name, member)) = rest.pop() {
            match (name.as_str(), member) {
                ("const" | "enum" | "default" | "examples", _) => {} // Values, not schemas.
                ("description", Json::String(text)) => *text = secrets.redact(std::mem::take(text)),
                (_, Json::Array(items)) => rest.extend(items.iter_mut().map(|item| (name, item))),
                (_, Json::Object(members)) => rest.extend(members.iter_mut()),
                _ => {}
            }
        }
    }
    schema
}

/// The memory that a tool takes, in bytes.
fn tool_bytes(tool: &Tool) -> usize {
    let schemas = [Some(&tool.input_schema), tool.output_schema.as_ref()].into_iter().flatten();
    let members = schemas.flat_map(|schema| schema.iter()).map(|(name, member)| name.len() + memory::of_json(member));
    tool.name.len() + tool.description.as_ref().map_or(0, |text| text.len()) + members.sum::<usize>()
}

/// How long a server may take to list what it may not have: resources and templates, and tools that it does not state.
const UNSTATED_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum length of the name of a tool, in bytes.
const MAX_NAME: usize = 256;

/// The most warnings about parts of tools that cannot be read.
const MAX_WARNINGS: usize = 100;
