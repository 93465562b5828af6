//! The text that models read: descriptions and schemas of the three tools.

use std::sync::Arc;

use execbox::{Provider, code_tool};
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value as Json, json};

use super::catalog::Catalog;
use super::{Layout, ServerOptions, Unavailability, UnavailableNamespace, finder, missing, state};

/// Added if code can search.
const FINDER: &str = " Code can search, too: `await tools.search(\"words\")`, `await tools.describe(\"ns.tool\")`.";

/// Added if code can keep values for later programs, and if it can keep code.
const STORE: &str =
    "`store.set({ key, value })`, `store.get(key)`, atomic `store.update({ key, update: (old) => new })`";
const SNIPPETS: &str = "`snippets.save({ name, code, description })`, `snippets.NAME(input)`";

/// Added if tools return the results of MCP as they are.
const ENVELOPE: &str = " If a result has `content`: with `isError`, `content[0].text` is the error; otherwise the data is \
    in `structuredContent`, or as text in `content[0].text`.";

/// How the tools of this server are used: clients show it to models beside their descriptions.
pub(super) fn instructions(
    options: &ServerOptions,
    providers: &[Provider],
    missing: &[UnavailableNamespace],
) -> String {
    let ServerOptions { search_name, describe_name, call_name, execute_name, code_name, .. } = options;
    let how = match options.layout {
        Layout::Both | Layout::Split => format!(
            "Find tools with `{search_name}`, then write one program for `{execute_name}` that calls them, computes with their \
             results, and returns only what is needed"
        ),
        Layout::Single => format!(
            "Write one program for `{code_name}` that calls the tools, computes with their results, and returns only what is \
             needed"
        ),
        Layout::Passthrough => format!(
            "Find tools with `{search_name}`, read their parameters with `{describe_name}`, call them with `{call_name}`"
        ),
    };
    let names = providers.iter().map(Provider::name);
    let others = missing.iter().filter(|missing| is_expected(missing.state)).map(|missing| &*missing.name);
    let all: Vec<&str> = names.chain(others).collect();
    match &*all {
        [] => format!("{how}."),
        all => format!("{how}. Namespaces: {}.", list(all.iter().copied(), MAX_NAMESPACES)),
    }
}

/// Whether the tools of a namespace may come.
fn is_expected(state: Unavailability) -> bool {
    matches!(state, Unavailability::Starting | Unavailability::Temporary | Unavailability::Failed)
}

/// Which tools there are, as sentences: `12 tools in: …`.
fn available(catalog: &Catalog, missing: &[UnavailableNamespace]) -> String {
    let starting = missing::names(missing, |state| state == Unavailability::Starting);
    let failed = missing::names(missing, |state| is_expected(state) && state != Unavailability::Starting);
    let ready = list(catalog.providers().iter().map(Provider::name), MAX_NAMESPACES);
    let tools = if catalog.len() == 1 { "1 tool".to_owned() } else { format!("{} tools", catalog.len()) };
    let mut text = match (catalog.providers().is_empty(), starting.is_empty()) {
        (false, true) => format!("{tools} in: {ready}."),
        (false, false) => format!("{tools} in: {ready}. More in servers that are starting: {starting}."),
        (true, false) => format!("The servers are starting: {starting}."),
        (true, true) => "No server has tools now.".to_owned(),
    };
    if !failed.is_empty() {
        text += &format!(" Not available: {failed}.");
    }
    text
}

pub(super) fn search_tool(options: &ServerOptions, catalog: &Catalog, missing: &[UnavailableNamespace]) -> Tool {
    let describe = options.describe_hint();
    let (which, then) = match options.layout {
        Layout::Passthrough => ("tools", format!("call them with `{}`", options.call_name)),
        _ => ("tools that code can call", "call the tools from code".to_owned()),
    };
    let description = format!(
        "Searches the {which}, by keywords. {} Each match has its namespace, name, one line of description and a short \
         TypeScript signature; {describe} returns them in full. Search first, then {then}.",
        available(catalog, missing)
    );
    let mut input = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "Keywords; empty lists all tools" },
            "namespace": { "type": "string", "description": "Only tools of this namespace" },
            "readOnly": { "type": "boolean", "description": "Only tools that state that they change nothing" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 50, "description": "Matches per page; default 5 to 10" },
            "offset": { "type": "integer", "minimum": 0, "description": "Matches to skip; see the end of a page" },
            "describe": {
                "type": "array", "items": { "type": "string" }, "maxItems": 50,
                "description": "Instead of a search: tools to return in full, as namespace.tool"
            }
        },
        "additionalProperties": false
    });
    if options.layout == Layout::Passthrough
        && let Some(properties) = input["properties"].as_object_mut()
    {
        properties.remove("describe");
    }
    tool(&options.search_name, description, input)
}

pub(super) fn describe_tool(options: &ServerOptions) -> Tool {
    let description = format!(
        "Returns the descriptions and TypeScript signatures of tools in full, by their names as `{}` shows them.",
        options.search_name
    );
    let input = json!({
        "type": "object",
        "properties": {
            "tools": { "type": "array", "items": { "type": "string" }, "maxItems": 50, "description": "As ns.tool" }
        },
        "required": ["tools"],
        "additionalProperties": false
    });
    tool(&options.describe_name, description, input)
}

pub(super) fn call_tool(options: &ServerOptions) -> Tool {
    let description = format!(
        "Calls one tool and returns its result. `{}` finds tools, `{}` shows their parameters.",
        options.search_name, options.describe_name
    );
    let input = json!({
        "type": "object",
        "properties": {
            "tool": { "type": "string", "description": "As ns.tool" },
            "arguments": { "type": "object", "description": "The arguments of the tool" }
        },
        "required": ["tool"],
        "additionalProperties": false
    });
    tool(&options.call_name, description, input)
}

pub(super) fn execute_tool(options: &ServerOptions, catalog: &Catalog, has_state: bool) -> Tool {
    let find = format!("Runs code that calls tools. Find tools with `{}` first. ", options.search_name);
    let kept = kept(options, catalog, has_state);
    tool_with_code(
        &options.execute_name,
        find + &code_tool::how_to(options.timers) + finder(catalog) + &kept + envelope(catalog),
        options,
    )
}

pub(super) fn code_tool(
    options: &ServerOptions,
    catalog: &Catalog,
    missing: &[UnavailableNamespace],
    has_state: bool,
) -> Tool {
    let (finder, kept, envelope) = (finder(catalog), kept(options, catalog, has_state), envelope(catalog));
    let how_to = code_tool::how_to(options.timers);
    let tools = match missing::names(missing, |state| state == Unavailability::Starting) {
        starting if starting.is_empty() => "Available tools:".to_owned(),
        starting => format!("Servers that are starting: {starting}. Available tools of the others:"),
    };
    let head = format!("Runs code that calls tools. {how_to}{finder}{kept}{envelope} {tools}\n");
    let max = options.max_type_chars().saturating_sub(head.chars().count());
    tool_with_code(
        &options.code_name,
        head + &code_tool::types(catalog.providers(), max, &full_signatures(options)),
        options,
    )
}

/// How code searches, unless a provider has the name of the namespace.
fn finder(catalog: &Catalog) -> &'static str {
    if catalog.providers().iter().any(|provider| provider.name() == finder::NAMESPACE) { "" } else { FINDER }
}

/// What code can keep, unless providers have the names of the namespaces.
fn kept(options: &ServerOptions, catalog: &Catalog, has_state: bool) -> String {
    let offered = state::offered(catalog.providers(), &options.state);
    match if has_state { offered } else { (false, false) } {
        (true, true) => format!(" Keep JSON and code for later programs: {STORE}, {SNIPPETS}."),
        (true, false) => format!(" Keep JSON for later programs: {STORE}."),
        (false, true) => format!(" Keep code for later programs: {SNIPPETS}."),
        (false, false) => String::new(),
    }
}

/// How to read envelopes, if a tool returns them.
fn envelope(catalog: &Catalog) -> &'static str {
    let has_envelopes = |provider: &Provider| {
        let types = provider.types();
        types.contains("type CallToolResult = ") || types.contains("type CallToolFailure = ")
    };
    if catalog.providers().iter().any(has_envelopes) { ENVELOPE } else { "" }
}

/// Where a model finds the signatures that are not part of the description, in the layouts with a search.
fn full_signatures(options: &ServerOptions) -> String {
    match options.layout {
        Layout::Single | Layout::Passthrough => String::new(),
        Layout::Both | Layout::Split => format!(" (full signatures: {})", options.search_name),
    }
}

/// The names, as far as they fit into `max` bytes, and how many there are more.
pub(super) fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>, max: usize) -> String {
    let all = names.len();
    let mut list = String::new();
    for (at, name) in names.enumerate() {
        if list.len() + name.len() > max {
            return format!("{list} and {} more", all - at);
        }
        list += &format!("{}`{name}`", if at == 0 { "" } else { ", " });
    }
    list
}

fn tool_with_code(name: &str, description: String, options: &ServerOptions) -> Tool {
    let max_ms = options.max_timeout.max(options.limits.timeout).as_millis();
    let timeout = format!("Stop after this time; default {}, at most {max_ms}", options.limits.timeout.as_millis());
    let input = json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "description": "JavaScript or TypeScript" },
            "timeoutMs": { "type": "integer", "minimum": 1, "description": timeout }
        },
        "required": ["code"],
        "additionalProperties": false
    });
    let output = json!({
        "type": "object",
        "properties": {
            "ok": { "type": "boolean" },
            "durationMs": { "type": "number" },
            "logs": { "type": "array", "items": { "type": "string" } },
            "droppedLogs": { "type": "integer" },
            "result": {},
            "truncated": {
                "type": "object",
                "description": "In place of a result that is too large",
                "properties": {
                    "characters": { "type": "integer" },
                    "outline": { "type": "string" },
                    "handle": { "type": "string" }
                },
                "required": ["characters", "outline"]
            },
            "note": { "type": "string" },
            "unawaited": {
                "type": "object",
                "description": "Calls that the code did not await",
                "properties": {
                    "waitedFor": { "type": "integer" },
                    "unanswered": { "type": "integer" },
                    "places": { "type": "array", "items": { "type": "object" } }
                }
            },
            "error": {
                "type": "object",
                "properties": {
                    "code": { "type": "string" },
                    "message": { "type": "string" },
                    "name": { "type": "string" },
                    "position": {
                        "type": "object",
                        "properties": { "line": { "type": "integer" }, "column": { "type": "integer" } }
                    },
                    "stack": { "type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "function": { "type": "string" }, "file": { "type": "string" },
                            "line": { "type": "integer" }, "column": { "type": "integer" }
                        }
                    } }
                },
                "required": ["code", "message"]
            }
        },
        "required": ["ok", "durationMs", "logs"]
    });
    tool(name, description, input).with_raw_output_schema(object(output))
}

fn tool(name: &str, description: String, input: Json) -> Tool {
    Tool::new_with_raw(name.to_owned(), Some(description.into()), object(input))
}

fn object(schema: Json) -> Arc<JsonObject> {
    match schema {
        Json::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

/// The maximum length of the list of namespaces, in bytes.
const MAX_NAMESPACES: usize = 600;
