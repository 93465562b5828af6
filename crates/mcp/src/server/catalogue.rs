//! The tools of all providers: search, pages and full descriptions.

use execbox::Provider;
use execbox::declarations::{self, Signatures, ToolSignature};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::search::{Document, Index};
use crate::text::truncate;

/// The input of the search tool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// Keywords; if empty, all tools are found.
    #[serde(default, rename = "query")]
    pub text: String,
    /// Only tools of this namespace.
    pub namespace: Option<String>,
    /// Matches per page, 1 to 50. Default: 10.
    pub limit: Option<usize>,
    /// The number of matches before this page.
    #[serde(default)]
    pub offset: usize,
    /// Instead of a search: tools to describe in full, as `namespace.tool`.
    #[serde(default)]
    pub describe: Vec<String>,
}

/// The output of the search tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// The number of matches on all pages.
    pub total: usize,
    /// The `offset` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The tools of this page, best matches first.
    pub tools: Vec<FoundTool>,
    /// Names in `describe` that no tool has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A tool on a [`Page`].
#[derive(Debug, Serialize)]
pub struct FoundTool {
    /// The name of its provider.
    pub namespace: String,
    /// Its name in guest code.
    pub name: String,
    /// Its description, truncated to 300 characters in a search.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its TypeScript signature, with the types that are not declared earlier on the page.
    pub signature: String,
}

/// Providers with an index over their tools.
#[derive(Debug)]
pub struct Catalogue {
    providers: Vec<Provider>,
    index: Index,
    /// The provider and the number of each tool of the index.
    locations: Vec<(usize, usize)>,
}

impl Catalogue {
    /// Indexes the tools of providers.
    pub fn new(providers: Vec<Provider>) -> Self {
        let locations = providers
            .iter()
            .enumerate()
            .flat_map(|(at, provider)| (0..provider.manifest().tools.len()).map(move |tool| (at, tool)));
        let locations = locations.collect();
        let index = Index::new(providers.iter().flat_map(|provider| {
            provider.signatures().zip(&provider.manifest().tools).map(|(signature, tool)| Document {
                namespace: provider.name(),
                names: [signature.safe_name, &tool.original_name],
                description: signature.description.unwrap_or_default(),
                parameters: parameters(&signature),
            })
        }));
        Self { providers, index, locations }
    }

    pub(super) fn providers(&self) -> &[Provider] {
        &self.providers
    }

    pub(super) fn len(&self) -> usize {
        self.locations.len()
    }

    /// Whether it was built from exactly these providers.
    pub(super) fn is_built_from(&self, providers: &[Provider]) -> bool {
        // The catalogue keeps its manifests alive, so that equal addresses mean equal providers.
        let same = |(a, b): (&Provider, &Provider)| std::ptr::eq(a.manifest(), b.manifest());
        self.providers.len() == providers.len() && self.providers.iter().zip(providers).all(same)
    }

    /// Searches or describes tools.
    pub fn query(&self, query: &Query) -> Page {
        if query.describe.is_empty() { self.search(query) } else { self.describe(&query.describe) }
    }

    fn search(&self, query: &Query) -> Page {
        let mut found = self.index.search(&query.text);
        if let Some(namespace) = &query.namespace {
            found.retain(|&tool| self.providers[self.locations[tool].0].name() == namespace);
        }
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let mut format = PageFormat { signatures: Signatures::default(), remaining: Some(MAX_PAGE) };
        let tools = found.iter().skip(query.offset).take(limit).map(|&tool| self.found(tool, &mut format)).collect();
        let next = query.offset.saturating_add(limit);
        let next_offset = (next < found.len()).then_some(next);
        Page { total: found.len(), next_offset, tools, unknown: Vec::new() }
    }

    fn describe(&self, names: &[String]) -> Page {
        let (mut tools, mut unknown) = (Vec::new(), Vec::new());
        let mut format = PageFormat { signatures: Signatures::default(), remaining: None };
        for name in names.iter().take(MAX_LIMIT) {
            match self.tool(name) {
                Some(tool) => tools.push(self.found(tool, &mut format)),
                None => unknown.push(truncate(name.clone(), MAX_SUMMARY)),
            }
        }
        Page { total: tools.len(), next_offset: None, tools, unknown }
    }

    fn tool(&self, name: &str) -> Option<usize> {
        let (namespace, tool) = name.split_once('.')?;
        self.locations.iter().position(|&(at, number)| {
            let provider = &self.providers[at];
            provider.name() == namespace && provider.manifest().tools[number].safe_name == tool
        })
    }

    fn found(&self, tool: usize, format: &mut PageFormat) -> FoundTool {
        let (at, number) = self.locations[tool];
        let provider = &self.providers[at];
        let signature = provider.signatures().nth(number).expect("locations refer to the providers");
        let description = declarations::prose(signature.description.unwrap_or_default());
        FoundTool {
            namespace: provider.name().to_owned(),
            name: signature.safe_name.to_owned(),
            description: format.description(description),
            signature: format.signature(&ToolSignature { description: None, ..signature }),
        }
    }
}

/// Formats the tools of one page.
struct PageFormat {
    signatures: Signatures,
    /// The remaining bytes for signatures; `None` shows everything in full.
    remaining: Option<usize>,
}

impl PageFormat {
    fn description(&self, text: String) -> String {
        if self.remaining.is_some() { truncate(text, MAX_SUMMARY) } else { text }
    }

    /// The whole signature if it fits, otherwise its beginning.
    fn signature(&mut self, tool: &ToolSignature<'_>) -> String {
        let Some(text) = self.signatures.add(tool, self.remaining.unwrap_or(usize::MAX)) else {
            return truncate(declarations::signature(tool), MAX_PARTIAL);
        };
        self.remaining = self.remaining.map(|remaining| remaining - text.len());
        text
    }
}

impl Page {
    /// The page as Markdown, for clients that show only text to models.
    pub(super) fn text(&self) -> String {
        let mut text = match self.tools.len() {
            0 => "No tools found. Try other words; an empty query lists all tools.\n".to_owned(),
            count => format!("{count} of {} tools:\n", self.total),
        };
        for tool in &self.tools {
            let FoundTool { namespace, name, description, signature } = tool;
            text += &format!("\n## {namespace}.{name}\n");
            if !description.is_empty() {
                text += &format!("{description}\n");
            }
            text += &format!("```ts\n{signature}\n```\n");
        }
        for name in &self.unknown {
            text += &format!("\nUnknown tool {name:?}: use `namespace.name` as returned by a search.\n");
        }
        if let Some(next) = self.next_offset {
            text += &format!("\nNext page: `offset: {next}`.\n");
        }
        text
    }
}

fn parameters<'a>(signature: &ToolSignature<'a>) -> Vec<&'a str> {
    let properties = signature.input.and_then(|schema| schema.get("properties")).and_then(Json::as_object);
    properties
        .map(|properties| properties.keys().take(MAX_PARAMETERS).map(String::as_str).collect())
        .unwrap_or_default()
}

const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 50;
const MAX_PARAMETERS: usize = 64;

/// The maximum length of a description in a search, in characters.
const MAX_SUMMARY: usize = 300;

/// The maximum length of all whole signatures of a page, in bytes, and of each further one, in characters.
const MAX_PAGE: usize = 8_000;
const MAX_PARTIAL: usize = 200;
