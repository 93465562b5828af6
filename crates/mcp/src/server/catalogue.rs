//! The tools of all providers: found, shown in pages, and described.

use execbox::Provider;
use execbox::declarations::{self, Signatures, ToolSignature};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::search::{Document, Index};
use crate::text::cut;

/// What a model asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// Words to look for; without any, all tools are found.
    #[serde(default, rename = "query")]
    pub words: String,
    /// Only tools of this one.
    pub namespace: Option<String>,
    /// Hits per page: 10 if left out, at most 50.
    pub limit: Option<usize>,
    /// Where the page begins.
    #[serde(default)]
    pub offset: usize,
    /// Tools to describe in full, as `namespace.tool`.
    #[serde(default)]
    pub describe: Vec<String>,
}

/// What it is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// How many tools fit.
    pub total: usize,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// Best first.
    pub tools: Vec<Found>,
    /// What was to be described, and is not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A tool.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Its provider's name.
    pub namespace: String,
    /// What guest code calls it by.
    pub name: String,
    /// What it does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its TypeScript signature, with the types that no tool before it on the page has declared.
    pub signature: String,
}

/// Providers with an index over their tools.
#[derive(Debug)]
pub struct Catalogue {
    providers: Vec<Provider>,
    index: Index,
    /// Where each tool of the index is.
    places: Vec<(usize, usize)>,
}

impl Catalogue {
    /// Reads the tools of providers.
    pub fn new(providers: Vec<Provider>) -> Self {
        let places = providers
            .iter()
            .enumerate()
            .flat_map(|(at, provider)| (0..provider.manifest().tools.len()).map(move |tool| (at, tool)));
        let places = places.collect();
        let index = Index::new(providers.iter().flat_map(|provider| {
            provider.signatures().zip(&provider.manifest().tools).map(|(signature, tool)| Document {
                namespace: provider.name(),
                names: [signature.safe_name, &tool.original_name],
                description: signature.description.unwrap_or_default(),
                parameters: parameters(&signature),
            })
        }));
        Self { providers, index, places }
    }

    pub(super) fn providers(&self) -> &[Provider] {
        &self.providers
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it was made of just these.
    pub(super) fn is_of(&self, providers: &[Provider]) -> bool {
        // The manifests that it keeps alive are where they are: one place is one provider.
        let same = |(a, b): (&Provider, &Provider)| std::ptr::eq(a.manifest(), b.manifest());
        self.providers.len() == providers.len() && self.providers.iter().zip(providers).all(same)
    }

    /// A page of tools.
    pub fn answer(&self, query: &Query) -> Page {
        if query.describe.is_empty() { self.search(query) } else { self.describe(&query.describe) }
    }

    fn search(&self, query: &Query) -> Page {
        let mut found = self.index.search(&query.words);
        if let Some(namespace) = &query.namespace {
            found.retain(|&tool| self.providers[self.places[tool].0].name() == namespace);
        }
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let mut shown = Shown { signatures: Signatures::default(), room: Some(MAX_PAGE) };
        let tools = found.iter().skip(query.offset).take(limit).map(|&tool| self.found(tool, &mut shown)).collect();
        let next = query.offset.saturating_add(limit);
        let next_offset = (next < found.len()).then_some(next);
        Page { total: found.len(), next_offset, tools, unknown: Vec::new() }
    }

    fn describe(&self, names: &[String]) -> Page {
        let (mut tools, mut unknown) = (Vec::new(), Vec::new());
        let mut whole = Shown { signatures: Signatures::default(), room: None };
        for name in names.iter().take(MAX_LIMIT) {
            match self.place(name) {
                Some(tool) => tools.push(self.found(tool, &mut whole)),
                None => unknown.push(cut(name.clone(), MAX_SUMMARY)),
            }
        }
        Page { total: tools.len(), next_offset: None, tools, unknown }
    }

    fn place(&self, name: &str) -> Option<usize> {
        let (namespace, tool) = name.split_once('.')?;
        self.places.iter().position(|&(at, number)| {
            let provider = &self.providers[at];
            provider.name() == namespace && provider.manifest().tools[number].safe_name == tool
        })
    }

    fn found(&self, tool: usize, shown: &mut Shown) -> Found {
        let (at, number) = self.places[tool];
        let provider = &self.providers[at];
        let signature = provider.signatures().nth(number).expect("places are those of the providers");
        let description = declarations::prose(signature.description.unwrap_or_default());
        Found {
            namespace: provider.name().to_owned(),
            name: signature.safe_name.to_owned(),
            description: shown.description(description),
            signature: shown.signature(&ToolSignature { description: None, ..signature }),
        }
    }
}

/// What a page shows so far.
struct Shown {
    signatures: Signatures,
    /// How many bytes of signatures there is room for; `None` shows everything in full.
    room: Option<usize>,
}

impl Shown {
    fn description(&self, text: String) -> String {
        if self.room.is_some() { cut(text, MAX_SUMMARY) } else { text }
    }

    /// All of it while there is room, then only how it begins.
    fn signature(&mut self, tool: &ToolSignature<'_>) -> String {
        let Some(text) = self.signatures.add(tool, self.room.unwrap_or(usize::MAX)) else {
            return cut(declarations::signature(tool), MAX_BEGINNING);
        };
        self.room = self.room.map(|room| room - text.len());
        text
    }
}

impl Page {
    /// As text, for clients that show a model nothing else.
    pub(super) fn text(&self) -> String {
        let mut text = match self.tools.len() {
            0 => "No tool found. Other words may find one; an empty query lists all.\n".to_owned(),
            shown => format!("{shown} of {} tools:\n", self.total),
        };
        for tool in &self.tools {
            let Found { namespace, name, description, signature } = tool;
            text += &format!("\n## {namespace}.{name}\n");
            if !description.is_empty() {
                text += &format!("{description}\n");
            }
            text += &format!("```ts\n{signature}\n```\n");
        }
        for name in &self.unknown {
            text += &format!("\nThere is no tool {name:?}: search for it, and write `namespace.name` as found.\n");
        }
        if let Some(next) = self.next_offset {
            text += &format!("\nMore with `offset: {next}`.\n");
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

/// How much of a tool a list shows, in characters; `describe` shows all.
const MAX_SUMMARY: usize = 300;

/// How many bytes of signatures a page shows whole, best first, and how many characters of each further one.
const MAX_PAGE: usize = 8_000;
const MAX_BEGINNING: usize = 200;
