//! The tools of all providers: search, pages and full descriptions.

use std::fmt;
use std::iter;
use std::sync::OnceLock;

use execbox::declarations::{self, Signatures, ToolSignature};
use execbox::{Effect, Provider};
use execbox_core::hint::near;
use execbox_core::text::cut;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::descriptions::list;
use super::guidance::Guidance;
use super::search::{Document, Index};
use super::sentences::split_sentence;
use super::{AbsentTool, Missing, ProviderSource, typed};
use crate::Shapes;
use crate::text::{truncate, words};
use crate::upstream::RejectedTool;

/// The input of the search tool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Query {
    /// Keywords; if empty, all tools are found.
    #[serde(default, rename = "query")]
    pub text: String,
    /// Only tools of this namespace.
    #[serde(default, deserialize_with = "typed::stated")]
    pub namespace: Option<String>,
    /// Only tools whose authors state that they change nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Matches per page, at most 50. Default: the best 5, and up to 5 more that fit into 4 000 characters and match about as well.
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
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Instructions {
    /// The name of the provider.
    pub namespace: String,
    /// The text: in a search on one line, and only as long as the page has room; else at most 2 000 characters.
    pub text: String,
}

/// A name that no tool has, or that of a tool that cannot be called.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnknownTool {
    /// The name, truncated if it is long.
    pub name: String,
    /// The tool whose name is most similar, else the one that a search for the name ranks first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
    /// Why the tool cannot be called, if its server has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The name of a namespace that does not exist.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct UnknownNamespace {
    /// The name, truncated if it is long.
    pub name: String,
    /// The names of the namespaces: as many as fit into 600 bytes.
    pub namespaces: Vec<String>,
}

/// A tool on a [`Page`].
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct FoundTool {
    /// The name of the tool's provider.
    pub namespace: String,
    /// The name of the tool in guest code.
    pub name: String,
    /// The description: in a search the first sentence, of at most 160 characters, after a note if the tool is deprecated.
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

impl Query {
    execbox_core::setters! {
        text: impl Into<String>,
        namespace: impl Into<Option<String>>,
        read_only: bool,
        limit: impl Into<Option<usize>>,
        offset: usize,
        describe: Vec<String>,
    }
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
    fn scored(&self, other: Option<&Self>, query: &Query) -> Vec<Scored<'_>> {
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
        let shown = signature.description(None).output(signature.output.or(seen.as_ref()));
        FoundTool {
            namespace: provider.name().to_owned(),
            name: signature.safe_name.to_owned(),
            description: format.description(description),
            effect: match self.effects[tool] {
                Effect::ReadOnly => Some("readOnly"),
                Effect::Destructive => Some("destructive"),
                _ => None,
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
        let found = self.found(query);
        let best = found.first().map_or(0.0, |&(score, ..)| score);
        let rest = found.get(query.offset..).unwrap_or_default();
        let sure = query.limit.map_or(MIN_DEFAULT_LIMIT, |limit| limit.clamp(1, MAX_LIMIT));
        let (first, more) = rest.split_at(sure.min(rest.len()));
        let unknown_namespace = query.namespace.as_deref().and_then(|name| self.unknown_namespace(name));
        let note = query.limit.and_then(|wanted| typed::reduced("limit", wanted, MAX_LIMIT));
        let mut page = Page { total: found.len(), unknown_namespace, note, ..Page::default() };
        for outline in outline(sure)..OUTLINES.len() {
            page.tools = shown(first, outline);
            page.set_next(query);
            if query.limit.is_some() || page.length("") + RESERVED <= MAX_PAGE {
                break;
            }
        }
        if let (Some(namespace), 0) = (&query.namespace, query.offset) {
            page.instructions = self.first.instructions(namespace, page.room()).into_iter().collect();
            page.instructions.iter_mut().for_each(Instructions::join_lines);
        }
        if query.limit.is_none() {
            let more = &more[..more.len().min(MAX_DEFAULT_LIMIT - sure)];
            let end = more.iter().position(|&(score, ..)| score < MIN_SHARE * best).unwrap_or(more.len());
            page.tools.extend(shown(&more[..end], OUTLINES.len() - 1));
            page.set_next(query);
            page.shorten(query, "");
        }
        page
    }

    /// The matches of both catalogs, best first.
    fn found(&self, query: &Query) -> Vec<Scored<'a>> {
        let mut found = self.first.scored(self.second, query);
        if let Some(second) = self.second {
            found.extend(second.scored(Some(self.first), query));
            found.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        }
        found
    }

    fn describe(&self, names: &[String]) -> Page {
        let mut page = Page::default();
        let mut format = Format::Full(Signatures::default());
        for name in names.iter().take(MAX_LIMIT) {
            match self.tool(name) {
                Some((catalog, tool)) => page.tools.push(catalog.found(tool, &mut format)),
                None => page.unknown.push(UnknownTool {
                    name: truncate(name.clone(), MAX_SUMMARY),
                    did_you_mean: self.similar(name),
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
        UnknownNamespace::find(name, catalogs.flat_map(|catalog| &catalog.providers).map(Provider::name))
    }

    fn tool(&self, name: &str) -> Option<(&'a Catalog, usize)> {
        let mut all = iter::once(self.first).chain(self.second);
        all.find_map(|catalog| catalog.tool(name).map(|tool| (catalog, tool)))
    }

    /// The name of the tool that is most similar to `name`, else of the one that a search for it ranks first.
    fn similar(&self, name: &str) -> Option<String> {
        let found = self.found(&Query { text: name.to_owned(), ..Query::default() });
        let catalogs = iter::once(self.first).chain(self.second);
        let all = catalogs.flat_map(|catalog| (0..catalog.len()).map(move |tool| (catalog, tool)));
        // Not all names of large catalogs are compared. A search ranks those first of which a word is right.
        let names = found.iter().map(|&(_, catalog, tool)| (catalog, tool)).chain(all).take(MAX_COMPARED);
        let names: Vec<String> = names.map(|(catalog, tool)| catalog.name(tool)).collect();
        let ranked_first = names.first().filter(|_| !found.is_empty());
        near(name, names.iter().map(String::as_str)).or(ranked_first.map(String::as_str)).map(str::to_owned)
    }
}

/// A match: its score, and the tool.
type Scored<'a> = (f32, &'a Catalog, usize);

/// The tools on a line each, with signatures of the length at this position in [`OUTLINES`].
fn shown(found: &[Scored<'_>], outline: usize) -> Vec<FoundTool> {
    found.iter().map(|&(_, catalog, tool)| catalog.found(tool, &mut Format::Short { outline })).collect()
}

/// How the tools of a page are shown.
enum Format {
    /// On a line each, with signatures of the length at this position in [`OUTLINES`].
    Short { outline: usize },
    /// In full. Each type is declared once.
    Full(Signatures),
}

/// The position in [`OUTLINES`] of the length of signatures on a page of this many tools.
fn outline(tools: usize) -> usize {
    OUTLINES.iter().position(|max| max * tools <= MAX_SIGNATURES).unwrap_or(OUTLINES.len() - 1)
}

impl Format {
    fn description(&self, text: String) -> String {
        match self {
            Self::Short { .. } => short_description(&text),
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

/// The first sentence of a description, on a line. If the tool is deprecated, the line says so first.
fn short_description(text: &str) -> String {
    let sentence = split_sentence(text).0.split_whitespace().collect::<Vec<_>>().join(" ");
    let Guidance::Deprecated { replacement } = Guidance::of(text) else { return cut(&sentence, MAX_SUMMARY) };
    let is_said = sentence.chars().take(MAX_SUMMARY).collect::<String>();
    let is_said =
        is_said.to_lowercase().contains("deprecated") && replacement.as_ref().is_none_or(|name| is_said.contains(name));
    let note = match replacement {
        _ if is_said => String::new(),
        Some(name) => format!("Deprecated: use {name}. "),
        None => "Deprecated. ".to_owned(),
    };
    cut(&(note + &sentence), MAX_SUMMARY)
}

impl Instructions {
    fn join_lines(&mut self) {
        self.text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

impl UnknownNamespace {
    /// `None` if the name is among those of `namespaces`.
    pub(super) fn find<'a>(name: &str, namespaces: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (mut shown, mut room) = (Vec::new(), MAX_NAMESPACES);
        for namespace in namespaces {
            if namespace == name {
                return None;
            }
            room = room.saturating_sub(namespace.len());
            if room > 0 {
                shown.push(namespace.to_owned());
            }
        }
        Some(Self { name: cut(name, MAX_SUMMARY), namespaces: shown })
    }
}

/// The unknown name, and those that there are.
impl fmt::Display for UnknownNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown namespace {:?}; ", self.name)?;
        match &*self.namespaces {
            [] => f.write_str("no server has tools now"),
            names => write!(f, "there are: {}", list(names.iter().map(String::as_str), usize::MAX)),
        }
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

    /// Removes tools from the end of a page without `limit` until its text and its JSON have at most [`MAX_PAGE`] characters.
    /// The next page begins with what is removed.
    pub(super) fn shorten(&mut self, query: &Query, describe: &str) {
        if query.limit.is_some() || !query.describe.is_empty() {
            return;
        }
        while self.tools.len() > 1 && self.length(describe) > MAX_PAGE {
            self.tools.pop();
            self.set_next(query);
        }
    }

    fn set_next(&mut self, query: &Query) {
        let next = query.offset.saturating_add(self.tools.len());
        self.next_offset = (!self.tools.is_empty() && next < self.total).then_some(next);
    }

    /// The length of the text or JSON of the page, whichever is greater, in characters.
    fn length(&self, describe: &str) -> usize {
        let json = serde_json::to_string(self).map_or(MAX_PAGE, |json| json.chars().count());
        json.max(self.text(describe).chars().count())
    }

    /// Adds namespaces whose tools cannot be found. One that the search selects is known, then.
    pub(super) fn set_missing(&mut self, missing: Missing) {
        let is_known = |name: &str| missing.unavailable.iter().any(|known| known.name == name);
        self.unknown_namespace.take_if(|unknown| is_known(&unknown.name));
        self.missing = missing;
    }

    /// How long the instructions on a page of a search may be, in characters. In JSON, each may take two.
    fn room(&self) -> usize {
        (MAX_PAGE.saturating_sub(RESERVED + self.length("")) / 2).min(MAX_SHORT_INSTRUCTIONS)
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

/// How many names of tools are compared with an unknown one.
const MAX_COMPARED: usize = 256;

/// How many tools that cannot be called are shown in a search.
const MAX_ABSENT: usize = 3;

/// The number of tools on a page without `limit`, if they fit: the best ones, and up to a maximum those whose scores are not
/// below a part of the best one.
const MIN_DEFAULT_LIMIT: usize = 5;
const MAX_DEFAULT_LIMIT: usize = 10;
const MIN_SHARE: f32 = 0.6;

/// The maximum number of tools on a page.
const MAX_LIMIT: usize = 50;
const MAX_PARAMETERS: usize = 64;

/// The maximum length of a description in a search, in characters.
const MAX_SUMMARY: usize = 160;

/// The maximum length of all signatures on a page of a search, and the maximum lengths of one, in bytes: the greatest that
/// fits is used.
const MAX_SIGNATURES: usize = 2_000;
const OUTLINES: [usize; 3] = [400, 200, 120];

/// The maximum length of a page of a search without `limit`, and the part of it that instructions leave for their head and for
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use execbox::Tool;
    use serde_json::json;

    use super::*;

    /// A catalog of one provider `api`, of tools with descriptions.
    fn catalog(tools: impl IntoIterator<Item = (String, String)>) -> Catalog {
        let tools = tools.into_iter().map(|(name, description)| {
            let input = json!({ "type": "object", "properties": { "id": { "type": "string" } } });
            Tool::new(name, async |input, _| Ok(input)).description(description).input_schema(input)
        });
        Catalog::new(vec![Provider::builder("api").tools(tools).build().unwrap()])
    }

    fn length(page: &Page) -> usize {
        page.length("`describe: [\"ns.tool\"]`")
    }

    #[test]
    fn pages_without_limit_follow_one_another_without_gaps() {
        let lengths = [0, 40, 160, 400];
        for (extra, is_filled) in lengths.into_iter().zip([true, true, false, false]) {
            let name = |n: usize| format!("send_letter_{n}{}", "x".repeat(extra / 4));
            let catalog = catalog((0..33).map(|n| (name(n), "\"y\" ".repeat(extra / 4))));
            let mut seen = BTreeSet::new();
            let mut query = Query { text: "letter".into(), ..Query::default() };
            loop {
                let page = catalog.query(&query);
                assert!(length(&page) <= MAX_PAGE, "{extra}: {}", length(&page));
                assert!(page.tools.len() <= MAX_DEFAULT_LIMIT);
                seen.extend(page.tools.iter().map(|tool| tool.name.clone()));
                let next = page.next_offset;
                assert_eq!(seen.len(), next.unwrap_or(33), "{extra}");
                let Some(next) = next else { break };
                assert!(page.tools.len() >= MIN_DEFAULT_LIMIT, "{extra}: {}", page.tools.len());
                assert!(!is_filled || page.tools.len() == MAX_DEFAULT_LIMIT, "{extra}: {}", page.tools.len());
                query.offset = next;
            }
        }
    }

    #[test]
    fn a_limit_is_kept_and_weak_matches_do_not_fill_a_page() {
        let tools = (0..12).map(|n| match n {
            0..4 => (format!("print_poster_{n}"), "Prints a poster".to_owned()),
            _ => (format!("scan_{n}"), format!("Scans photo {n}, also that of a poster")),
        });
        let catalog = catalog(tools);
        let page = |limit| catalog.query(&Query { text: "print a poster".into(), limit, ..Query::default() });
        assert_eq!((page(None).tools.len(), page(None).next_offset), (MIN_DEFAULT_LIMIT, Some(MIN_DEFAULT_LIMIT)));
        assert_eq!((page(Some(9)).tools.len(), page(Some(9)).next_offset), (9, Some(9)));
        assert_eq!((page(Some(1)).tools.len(), page(Some(50)).next_offset), (1, None));
    }

    #[test]
    fn the_tool_with_the_most_similar_name_is_suggested_for_an_unknown_one() {
        let get_order = "Gets the lines of a purchase";
        let tools = [("get_customer", "Gets one customer of the shop"), ("get_order", get_order), ("list_orders", "")];
        let catalog = catalog(tools.map(|(name, description)| (name.to_owned(), description.to_owned())));
        let other = Catalog::new(vec![
            Provider::builder("snippets").tool(Tool::new("total", async |_, _| Ok(Json::Null))).build().unwrap(),
        ]);
        let suggested = |name: &str| {
            let query = Query { describe: vec![name.to_owned()], ..Query::default() };
            catalog.query_with(Some(&other), &query).unknown.remove(0).did_you_mean
        };
        for (name, similar) in [
            ("api.get_ordr", Some("api.get_order")),
            ("api.gteorder", Some("api.get_order")),
            ("ap.get_order", Some("api.get_order")),
            ("snippet.totl", Some("snippets.total")),
            // Without a similar name, the search decides.
            ("purchase", Some("api.get_order")),
            ("xyzzy", None),
        ] {
            assert_eq!(suggested(name).as_deref(), similar, "{name}");
        }
    }

    #[test]
    fn what_is_added_to_a_page_shortens_it() {
        let catalog = catalog((0..20).map(|n| (format!("send_letter_{n}"), "Sends a letter ".repeat(10))));
        let query = Query { text: "letter".into(), ..Query::default() };
        let mut page = catalog.query(&query);
        let before = page.tools.len();
        let reason = "is not there, ".repeat(14);
        let unknown = |n| UnknownTool { name: format!("api.t{n}"), did_you_mean: None, reason: Some(reason.clone()) };
        page.unknown = (0..8).map(unknown).collect();
        page.shorten(&query, "");
        assert!(page.tools.len() < before && length(&page) <= MAX_PAGE + 100);
        assert_eq!(page.next_offset, Some(page.tools.len()));
    }

    #[test]
    fn lines_are_first_sentences_and_say_what_is_deprecated() {
        for (description, expected) in [
            ("Scans a photo of\nany size. Slowly.", "Scans a photo of any size."),
            ("Scans a photo. DEPRECATED: Use scan_all instead.", "Deprecated: use scan_all. Scans a photo."),
            ("Scans a photo (deprecated).", "Scans a photo (deprecated)."),
            ("Scans a photo. This tool is deprecated.", "Deprecated. Scans a photo."),
            ("Deprecated: use scan_all. Scans a photo.", "Deprecated: use scan_all."),
            (
                "[Deprecated] Scans a photo. Use scan_all instead.",
                "Deprecated: use scan_all. [Deprecated] Scans a photo.",
            ),
            ("Lists deprecated photos. All of them.", "Lists deprecated photos."),
        ] {
            assert_eq!(short_description(description), expected, "{description}");
        }
        let long = short_description(&format!("{} Deprecated: use {}.", "word ".repeat(900), "x".repeat(100)));
        assert!(long.chars().count() <= MAX_SUMMARY + 1, "{long}");
    }
}
