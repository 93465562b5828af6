//! The tools of all providers: search, pages and full descriptions.

use std::fmt;
use std::iter;
use std::sync::OnceLock;

use execbox::core::text::cut;
use execbox::declarations::{self, Signatures, ToolSignature};
use execbox::{Effect, Provider};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::descriptions::list;
use super::search::{Document, Index, summary};
use super::{AbsentTool, Missing, ProviderSource, typed};
use crate::Shapes;
use crate::text::{truncate, words};
use crate::upstream::RejectedTool;

/// The input of the search tool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// Keywords; if empty, all tools are found.
    #[serde(default, rename = "query")]
    pub text: String,
    /// Only tools of this namespace.
    pub namespace: Option<String>,
    /// Only tools whose authors state that they change nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Matches per page, at most 50. Default: 5.
    #[serde(default, deserialize_with = "typed::positive")]
    pub limit: Option<usize>,
    /// The number of matches before this page.
    #[serde(default)]
    pub offset: usize,
    /// Instead of a search: tools to describe in full, as `namespace.tool`.
    #[serde(default)]
    pub describe: Vec<String>,
}

/// The output of the search tool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// The number of matches on all pages.
    pub total: usize,
    /// The `offset` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The tools of this page, best matches first.
    pub tools: Vec<FoundTool>,
    /// What the servers of the described or selected namespaces say about their use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Instructions>,
    /// Names in `describe` that no tool has, and invalid tools that the search names, or of the namespace that it selects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownTool>,
    /// The namespace that the search selects, if there is none of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_namespace: Option<UnknownNamespace>,
    /// Namespaces whose tools cannot be found or called now.
    #[serde(flatten)]
    pub missing: Missing,
    /// How the answer differs from what the query asks for: the limit was reduced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The description of a provider: what a server says about the use of its tools.
#[derive(Debug, Serialize)]
pub struct Instructions {
    /// The name of the provider.
    pub namespace: String,
    /// The text: in a search on one line, and only as long as the page has room; else at most 2 000 characters.
    pub text: String,
}

/// A name that no tool has, or that of a tool that cannot be called.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnknownTool {
    /// The name, truncated if it is long.
    pub name: String,
    /// The tool that a search for the name ranks first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
    /// Why the tool cannot be called, if its server has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The name of a namespace that does not exist.
#[derive(Debug, Serialize)]
pub struct UnknownNamespace {
    /// The name, truncated if it is long.
    pub name: String,
    /// The names of the namespaces: as many as fit into 600 bytes.
    pub namespaces: Vec<String>,
}

/// A tool on a [`Page`].
#[derive(Debug, Serialize)]
pub struct FoundTool {
    /// The name of the tool's provider.
    pub namespace: String,
    /// The name of the tool in guest code.
    pub name: String,
    /// The description: in a search the first sentence, of at most 160 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `readOnly` or `destructive`, if the author of the tool states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<&'static str>,
    /// The TypeScript signature: in a search on one line, with `…` in place of long parts; else with all types that are not
    /// declared earlier on the page.
    pub signature: String,
    /// Whether the type of the result is that of earlier results, because the server declares none.
    #[serde(rename = "isResultSeen", skip_serializing_if = "std::ops::Not::not")]
    pub is_result_seen: bool,
    /// The parts of the tool that are not used, because they cannot be read: in a search the place of the first one, else the
    /// first 5 with reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// Providers with an index over their tools.
#[derive(Debug)]
pub struct Catalog {
    providers: Vec<Provider>,
    index: Index,
    /// The provider and the number of each tool of the index.
    locations: Vec<(usize, usize)>,
    /// The effect of each tool of the index.
    effects: Vec<Effect>,
    /// What is known of the results of tools without an output schema.
    shapes: Option<Shapes>,
    /// A cache of the outlines of each tool, by position in [`OUTLINES`]: large schemas make them slow to write.
    outlines: Vec<[OnceLock<String>; OUTLINES.len()]>,
}

impl Catalog {
    /// Indexes the tools of providers.
    pub fn new(providers: Vec<Provider>) -> Self {
        let locations = providers
            .iter()
            .enumerate()
            .flat_map(|(at, provider)| (0..provider.manifest().tools.len()).map(move |tool| (at, tool)));
        let locations: Vec<_> = locations.collect();
        let index = Index::new(providers.iter().flat_map(|provider| {
            let tools = provider.signatures().zip(&provider.manifest().tools).zip(provider.effects());
            tools.map(|((signature, tool), effect)| Document {
                namespace: provider.name(),
                names: [signature.safe_name, &tool.original_name],
                description: signature.description.unwrap_or_default(),
                parameters: parameters(&signature),
                effect,
            })
        }));
        let effects = providers.iter().flat_map(Provider::effects).collect();
        let outlines = locations.iter().map(|_| Default::default()).collect();
        Self { providers, index, locations, effects, shapes: None, outlines }
    }

    /// Shows the shapes of results where providers declare none.
    pub(super) fn with_shapes(self, shapes: Option<&Shapes>) -> Self {
        Self { shapes: shapes.cloned(), ..self }
    }

    pub(super) fn providers(&self) -> &[Provider] {
        &self.providers
    }

    pub(super) fn len(&self) -> usize {
        self.locations.len()
    }

    /// Whether the catalog was built from exactly these providers.
    pub(super) fn is_built_from(&self, providers: &[Provider]) -> bool {
        // The catalog holds its manifests, so that equal addresses mean equal providers.
        let same = |(a, b): (&Provider, &Provider)| std::ptr::eq(a.manifest(), b.manifest());
        self.providers.len() == providers.len() && self.providers.iter().zip(providers).all(same)
    }

    /// Searches or describes tools.
    pub fn query(&self, query: &Query) -> Page {
        self.query_with(None, query)
    }

    /// Searches or describes tools of this catalog and of `other`, whose namespaces are different.
    pub(super) fn query_with(&self, other: Option<&Self>, query: &Query) -> Page {
        let all = Catalogs { first: self, second: other };
        if query.describe.is_empty() { all.search(query) } else { all.describe(&query.describe) }
    }

    /// The tools that match a query and its filters, with their scores. The rarity of words is that in both catalogs.
    fn scored(&self, other: Option<&Self>, query: &Query) -> Vec<(f32, &Self, usize)> {
        let found = self.index.scored(&query.text, other.map(|other| &other.index)).into_iter();
        let is_named = |tool: usize| {
            let name = self.providers[self.locations[tool].0].name();
            query.namespace.as_ref().is_none_or(|namespace| namespace == name)
        };
        let is_wanted = |tool: usize| is_named(tool) && (!query.read_only || self.effects[tool] == Effect::ReadOnly);
        found.filter(|&(tool, _)| is_wanted(tool)).map(|(tool, score)| (score, self, tool)).collect()
    }
    /// The instructions of a namespace, of at most `max` characters.
    fn instructions(&self, namespace: &str, max: usize) -> Option<Instructions> {
        let provider = self.providers.iter().find(|provider| provider.name() == namespace)?;
        // One character is for the `…` at the end.
        let text = cut(&declarations::prose(provider.description()?), max.saturating_sub(1));
        (!text.is_empty() && max >= MIN_INSTRUCTIONS).then(|| Instructions { namespace: namespace.to_owned(), text })
    }

    fn tool(&self, name: &str) -> Option<usize> {
        let (namespace, tool) = name.split_once('.')?;
        self.locations.iter().position(|&(at, number)| {
            let provider = &self.providers[at];
            provider.name() == namespace && provider.manifest().tools[number].safe_name == tool
        })
    }

    /// The name by which code calls a tool.
    fn name(&self, tool: usize) -> String {
        let (at, number) = self.locations[tool];
        let provider = &self.providers[at];
        format!("{}.{}", provider.name(), provider.manifest().tools[number].safe_name)
    }

    fn found(&self, tool: usize, format: &mut Format) -> FoundTool {
        let (at, number) = self.locations[tool];
        let provider = &self.providers[at];
        let signature = provider.signatures().nth(number).expect("locations refer to the providers");
        let description = declarations::prose(signature.description.unwrap_or_default());
        let seen = self.shapes.as_ref().filter(|_| signature.output.is_none());
        let original_name = &provider.manifest().tools[number].original_name;
        let seen = seen.and_then(|shapes| shapes.schema(provider.name(), original_name, signature.input));
        let shown = ToolSignature { description: None, output: signature.output.or(seen.as_ref()), ..signature };
        FoundTool {
            namespace: provider.name().to_owned(),
            name: signature.safe_name.to_owned(),
            description: format.description(description),
            effect: match self.effects[tool] {
                Effect::ReadOnly => Some("readOnly"),
                Effect::Destructive => Some("destructive"),
                Effect::Unstated | Effect::Additive => None,
            },
            signature: match (&seen, &mut *format) {
                (Some(_), Format::Short { outline }) => declarations::outline(&shown, OUTLINES[*outline]),
                (_, format) => format.signature(&shown, &self.outlines[tool]),
            },
            is_result_seen: seen.is_some(),
            unread: Vec::new(),
        }
    }
}

/// The catalog of a server and that of a client's snippets, as one.
#[derive(Clone, Copy)]
struct Catalogs<'a> {
    first: &'a Catalog,
    second: Option<&'a Catalog>,
}

impl<'a> Catalogs<'a> {
    fn search(&self, query: &Query) -> Page {
        let mut found = self.first.scored(self.second, query);
        if let Some(second) = self.second {
            found.extend(second.scored(Some(self.first), query));
            found.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        }
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let outline = OUTLINES.iter().position(|max| max * limit <= MAX_SIGNATURES).unwrap_or(OUTLINES.len() - 1);
        let mut format = Format::Short { outline };
        let tools = found.iter().skip(query.offset).take(limit);
        let tools = tools.map(|&(_, catalog, tool)| catalog.found(tool, &mut format)).collect();
        let next = query.offset.saturating_add(limit);
        let next_offset = (next < found.len()).then_some(next);
        let unknown_namespace = query.namespace.as_deref().and_then(|name| self.unknown_namespace(name));
        let note = query.limit.and_then(|wanted| typed::reduced("limit", wanted, MAX_LIMIT));
        let mut page = Page { total: found.len(), next_offset, tools, unknown_namespace, note, ..Page::default() };
        if let (Some(namespace), 0) = (&query.namespace, query.offset) {
            page.instructions = self.first.instructions(namespace, page.room()).into_iter().collect();
            page.instructions.iter_mut().for_each(Instructions::join_lines);
        }
        page
    }

    fn describe(&self, names: &[String]) -> Page {
        let mut page = Page::default();
        let mut format = Format::Full(Signatures::default());
        for name in names.iter().take(MAX_LIMIT) {
            match self.tool(name) {
                Some((catalog, tool)) => page.tools.push(catalog.found(tool, &mut format)),
                None => page.unknown.push(UnknownTool {
                    name: truncate(name.clone(), MAX_SUMMARY),
                    did_you_mean: self.best(name).map(|(catalog, tool)| catalog.name(tool)),
                    reason: None,
                }),
            }
        }
        let mut namespaces: Vec<&str> = Vec::new();
        for FoundTool { namespace, .. } in &page.tools {
            if namespaces.len() < MAX_INSTRUCTED && !namespaces.contains(&namespace.as_str()) {
                namespaces.push(namespace);
            }
        }
        page.instructions =
            namespaces.into_iter().filter_map(|name| self.first.instructions(name, MAX_INSTRUCTIONS)).collect();
        page.total = page.tools.len();
        page.note = typed::reduced("describe", names.len(), MAX_LIMIT);
        page
    }

    /// `None` if there is a namespace of this name.
    fn unknown_namespace(&self, name: &str) -> Option<UnknownNamespace> {
        let catalogs = iter::once(self.first).chain(self.second);
        let names: Vec<&str> = catalogs.flat_map(|catalog| catalog.providers.iter().map(Provider::name)).collect();
        let mut room = MAX_NAMESPACES;
        let shown = names.iter().take_while(|name| {
            let fits = name.len() <= room;
            room -= name.len().min(room);
            fits
        });
        let namespaces = shown.map(|&name| name.to_owned()).collect();
        (!names.contains(&name)).then(|| UnknownNamespace { name: cut(name, MAX_SUMMARY), namespaces })
    }

    fn tool(&self, name: &str) -> Option<(&'a Catalog, usize)> {
        let mut all = iter::once(self.first).chain(self.second);
        all.find_map(|catalog| catalog.tool(name).map(|tool| (catalog, tool)))
    }

    /// The tool that a search for a name ranks first.
    fn best(&self, name: &str) -> Option<(&'a Catalog, usize)> {
        let query = Query { text: name.to_owned(), ..Query::default() };
        let first = self.first.scored(self.second, &query);
        let second = self.second.map(|second| second.scored(Some(self.first), &query)).unwrap_or_default();
        let all = first.first().into_iter().chain(second.first());
        all.reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|&(_, catalog, tool)| (catalog, tool))
    }
}

/// How the tools of a page are shown.
enum Format {
    /// On a line each, with signatures of the length at this position in [`OUTLINES`].
    Short { outline: usize },
    /// In full. Each type is declared once.
    Full(Signatures),
}

impl Format {
    fn description(&self, text: String) -> String {
        match self {
            Self::Short { .. } => cut(&summary(&text).0.split_whitespace().collect::<Vec<_>>().join(" "), MAX_SUMMARY),
            Self::Full(_) => text,
        }
    }

    fn signature(&mut self, tool: &ToolSignature<'_>, outlines: &[OnceLock<String>]) -> String {
        match self {
            Self::Short { outline: at } => {
                outlines[*at].get_or_init(|| declarations::outline(tool, OUTLINES[*at])).clone()
            }
            Self::Full(signatures) => signatures.add(tool, usize::MAX).unwrap_or_default(),
        }
    }
}

impl Instructions {
    fn join_lines(&mut self) {
        self.text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// A sentence.
impl fmt::Display for UnknownNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespaces = list(self.namespaces.iter().map(String::as_str), usize::MAX);
        write!(f, "There is no namespace {:?}. There are: {namespaces}.", self.name)
    }
}

/// The unknown name, and the remedy.
impl fmt::Display for UnknownTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, &self.did_you_mean) {
            (Some(reason), _) => write!(f, "`{}` {reason}", self.name),
            (None, Some(name)) => write!(f, "unknown tool {:?}; did you mean `{name}`?", self.name),
            (None, None) => write!(f, "unknown tool {:?}; use `namespace.tool` as a search shows it", self.name),
        }
    }
}

impl Page {
    /// Adds to the answer to `query` what only `source` knows: parts of tools that are not used, and why tools cannot be called.
    pub(super) fn explain(&mut self, query: &Query, source: &dyn ProviderSource) {
        for tool in &mut self.tools {
            let parts = source.unread_parts(&tool.namespace, &tool.name);
            tool.unread = if query.describe.is_empty() { shortened(&parts) } else { parts };
            tool.unread.truncate(MAX_UNREAD);
        }
        let mut absent = |name: &str, absent: &AbsentTool| {
            let reason = Some(cut(&absent.to_string(), MAX_REASON));
            match self.unknown.iter_mut().find(|unknown| unknown.name == name) {
                Some(unknown) => unknown.reason = reason,
                None => self.unknown.push(UnknownTool { name: name.to_owned(), did_you_mean: None, reason }),
            }
        };
        for name in query.describe.iter().take(MAX_LIMIT) {
            if let Some((namespace, tool)) = name.split_once('.')
                && let Some(reason) = source.absent_tool(namespace, tool)
            {
                absent(&truncate(name.clone(), MAX_SUMMARY), &reason);
            }
        }
        if query.describe.is_empty() && query.offset == 0 {
            let is_asked_for = |(namespace, tool): &(String, RejectedTool)| {
                query.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
                    && (query.namespace.is_some()
                        || words(&query.text).any(|word| word.eq_ignore_ascii_case(&tool.name)))
            };
            for (namespace, RejectedTool { name, reason }) in
                source.rejected_tools().into_iter().filter(is_asked_for).take(MAX_ABSENT)
            {
                absent(&truncate(format!("{namespace}.{name}"), MAX_SUMMARY), &AbsentTool::Rejected(reason));
            }
        }
    }

    /// How long the instructions on a page of a search may be, in characters. In JSON, each may take two.
    fn room(&self) -> usize {
        let json = serde_json::to_string(self).map_or(MAX_PAGE, |json| json.chars().count());
        (MAX_PAGE.saturating_sub(RESERVED + json.max(self.text("").chars().count())) / 2).min(MAX_SHORT_INSTRUCTIONS)
    }

    /// The page as Markdown, for clients that show only text to models.
    /// `describe` is how tools are described in full.
    pub(super) fn text(&self, describe: &str) -> String {
        let mut text = match (self.tools.len(), self.unknown.len()) {
            (0, _) if let Some(unknown) = &self.unknown_namespace => format!("{unknown}\n"),
            (0, 0) => "No tools found. Try other words; an empty query lists all tools.\n".to_owned(),
            (0, _) => String::new(),
            (1, _) if self.total == 1 => "1 tool:\n".to_owned(),
            (count, _) if count == self.total => format!("{count} tools:\n"),
            (count, _) => format!("{count} of {} tools, best first:\n", self.total),
        };
        for tool in &self.tools {
            let FoundTool { namespace, name, description, signature, effect, unread, is_result_seen } = tool;
            let effect = effect.map(|effect| format!(" ({})", if effect == "readOnly" { "read-only" } else { effect }));
            text += &format!("\n## {namespace}.{name}{}\n", effect.unwrap_or_default());
            if !description.is_empty() {
                text += &format!("{description}\n");
            }
            let seen = if *is_result_seen { " // result: as seen before" } else { "" };
            text += &format!("```ts\n{signature}{seen}\n```\n");
            for part in unread {
                text += &format!("Not checked: {part}\n");
            }
        }
        for Instructions { namespace, text: instructions } in &self.instructions {
            text += &format!("\nInstructions of the server of `{namespace}`:\n");
            instructions.lines().for_each(|line| text += &format!("> {line}\n"));
        }
        text += &self.missing.to_string();
        for unknown in &self.unknown {
            text += &format!("\n{unknown}\n");
        }
        if let Some(next) = self.next_offset {
            text += &format!("\nNext page: `offset: {next}`. Full types: {describe}.\n");
        }
        if let Some(note) = &self.note {
            text += &format!("\nNote: {note}.\n");
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

/// The first place, without its reason, and how many others there are.
fn shortened(parts: &[String]) -> Vec<String> {
    let place = parts.first().and_then(|part| part.split(": ").next()).map(|place| cut(place, MAX_PLACE));
    let more = match parts.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    place.map(|place| place + &more).into_iter().collect()
}

/// How many unread parts of a tool are shown, the length of a place in a search, and that of a reason, in characters.
const MAX_UNREAD: usize = 5;
const MAX_PLACE: usize = 80;
const MAX_REASON: usize = 300;

/// The maximum length of the names of all namespaces, in bytes.
const MAX_NAMESPACES: usize = 600;

/// How many tools that cannot be called are shown in a search.
const MAX_ABSENT: usize = 3;

const DEFAULT_LIMIT: usize = 5;
const MAX_LIMIT: usize = 50;
const MAX_PARAMETERS: usize = 64;

/// The maximum length of a description in a search, in characters.
const MAX_SUMMARY: usize = 160;

/// The maximum length of all signatures on a page of a search, and the maximum lengths of one, in bytes: the greatest that
/// fits is used. A page of five tools has at most about 4 000 characters.
const MAX_SIGNATURES: usize = 2_000;
const OUTLINES: [usize; 3] = [400, 200, 120];

/// The maximum length of a page of a search with instructions, and the part of it that is reserved for their head and for
/// unavailable namespaces, in characters.
const MAX_PAGE: usize = 4_000;
const RESERVED: usize = 700;

/// The maximum length of instructions in a search and beside full descriptions, and the length below which they are
/// omitted, in characters.
const MAX_SHORT_INSTRUCTIONS: usize = 600;
const MAX_INSTRUCTIONS: usize = 2_000;
const MIN_INSTRUCTIONS: usize = 80;

/// The maximum number of namespaces whose instructions are shown beside full descriptions.
const MAX_INSTRUCTED: usize = 3;
