//! The namespace `tools`: search and descriptions for code, so that one program can find tools and call them.

use std::sync::Arc;

use execbox::{Effect, Provider, Tool, ToolError};
use serde::Deserialize;
use serde_json::Value as Json;
use tokio::sync::Semaphore;

use super::catalog::{Catalog, FoundTool, Page, Query};
use super::typed::CallForm;

/// The name of the namespace.
pub(super) const NAMESPACE: &str = "tools";

/// The catalogs that a client can search.
pub(super) struct Searched {
    pub(super) tools: Arc<Catalog>,
    /// The snippets that are saved for the client.
    pub(super) snippets: Option<Arc<Catalog>>,
}

impl Searched {
    pub(super) fn query(&self, query: &Query) -> Page {
        self.tools.query_with(self.snippets.as_deref(), query)
    }
}

/// A provider that searches. Each call takes one of `turns`. `None` if a provider of the catalog has its name.
pub(super) fn provider(searched: Searched, turns: &Arc<Semaphore>) -> Option<Provider> {
    if searched.tools.providers().iter().any(|provider| provider.name() == NAMESPACE) {
        return None;
    }
    let searched = &Arc::new(searched);
    let (search, describe) = (tool("search", searched, turns, search), tool("describe", searched, turns, describe));
    let search = search.description("Searches all tools, best match first").effect(Effect::ReadOnly);
    let describe =
        describe.description("Returns a tool with its description and types in full").effect(Effect::ReadOnly);
    Provider::builder(NAMESPACE).name_failed_calls().tool(search).tool(describe).build().ok()
}

/// A tool over `data`, which reads its input by a [`CallForm`] and so has no schema. Its calls run on blocking threads, with one of `turns` each: their duration depends on the schemas
/// of servers or the size of results, and guests choose their number.
pub(super) fn tool<T: Send + Sync + 'static>(
    name: &str,
    data: &Arc<T>,
    turns: &Arc<Semaphore>,
    answer: fn(&T, Json) -> Result<Json, ToolError>,
) -> Tool {
    let (data, turns) = (Arc::clone(data), Arc::clone(turns));
    Tool::new(name, move |input, _| {
        let (data, turns) = (Arc::clone(&data), Arc::clone(&turns));
        async move { run_blocking(&turns, move || answer(&data, input)).await? }
    })
}

/// Runs work on a blocking thread, with one of `turns`.
pub(super) async fn run_blocking<T: Send + 'static>(
    turns: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    let turn = Arc::clone(turns).acquire_owned().await;
    let working = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    working.await.map_err(|_| ToolError::new("internal error: the call has panicked"))
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

fn search(searched: &Searched, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm = CallForm { call: "tools.search({ query })", short: Some("query") };
    to_json(&searched.query(&FORM.read(&mut input)?))
}

fn describe(searched: &Searched, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm = CallForm { call: "tools.describe(\"namespace.tool\")", short: Some("name") };
    let Named { name } = FORM.read(&mut input)?;
    let mut page = searched.query(&Query { describe: vec![name], ..Query::default() });
    if let Some(unknown) = page.unknown.pop() {
        return Err(ToolError::invalid(unknown.to_string()));
    }
    page.tools.pop().as_ref().map_or(Ok(Json::Null), to_json::<FoundTool>)
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<Json, ToolError> {
    serde_json::to_value(value).map_err(|error| ToolError::new(error.to_string()))
}
