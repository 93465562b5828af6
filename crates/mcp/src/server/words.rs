//! What models are told: the descriptions of the three tools, and their schemas.

use std::sync::Arc;

use execbox::Provider;
use execbox::declarations::ToolSignature;
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value as Json, json};

use super::ServerOptions;
use super::catalogue::Catalogue;

/// How code for this server is written.
const HOW_TO: &str = "Write the body of an async function in JavaScript or TypeScript: `await` tools, compute, and \
    `return` a JSON value. Tools are async functions of namespaces and take one object: `const r = await \
    ns.tool({ key: 1 })`. A failed call throws; `try` it. Run independent calls with `Promise.all`. `console.log` \
    is shown. There are no imports, no network, no files, no timers: only the tools. Return what you need, not \
    everything.";

const ENVELOPE: &str = " Where a result's type has `content`: if `isError`, `content[0].text` says why; else the data is in \
    `structuredContent`, or as text in `content[0].text`.";

pub(super) fn search_tool(options: &ServerOptions, catalogue: &Catalogue) -> Tool {
    let namespaces = list(catalogue.providers().iter().map(Provider::name), MAX_NAMESPACES);
    let description = format!(
        "Finds tools that code can call, by words of what they do. {} tools in: {namespaces}. Each hit has its \
         namespace, name, description and TypeScript signature. Search first; then call what you found in code. \
         `describe: [\"ns.tool\"]` shows a tool in full.",
        catalogue.len()
    );
    let input = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "Words to look for; empty lists all" },
            "namespace": { "type": "string", "description": "Only tools of this namespace" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 50, "description": "Hits per page; 10 if left out" },
            "offset": { "type": "integer", "minimum": 0, "description": "Where the page begins" },
            "describe": {
                "type": "array", "items": { "type": "string" }, "maxItems": 50,
                "description": "Instead of a search: these tools in full, each as namespace.tool"
            }
        },
        "additionalProperties": false
    });
    tool(&options.search_name, description, input)
}

pub(super) fn execute_tool(options: &ServerOptions) -> Tool {
    let find = format!("Runs code that calls tools. Find them with `{}` first. ", options.search_name);
    code_tool(&options.execute_name, find + HOW_TO + ENVELOPE)
}

pub(super) fn one_tool(options: &ServerOptions, catalogue: &Catalogue) -> Tool {
    let head = format!("Runs code that calls tools. {HOW_TO}{ENVELOPE} What there is:\n");
    let room = options.max_types().saturating_sub(head.chars().count());
    code_tool(&options.code_name, head + &types(catalogue.providers(), room))
}

/// The namespaces' types, whole where there is room; else what tools are called and take; else names alone, as far as
/// there is room for them.
fn types(providers: &[Provider], room: usize) -> String {
    let whole: usize = providers.iter().map(|provider| provider.types().chars().count() + 1).sum();
    if whole <= room {
        return providers.iter().map(Provider::types).collect::<Vec<_>>().join("\n");
    }
    let calls = listed(providers, room, |tool| format!("{}({})", tool.safe_name, parameters(tool)));
    if let (text, 0) = calls {
        return format!("For want of room, parameters only:\n{text}");
    }
    let (text, missing) = listed(providers, room, |tool| tool.safe_name.to_owned());
    let more = if missing > 0 { format!("\n… and {missing} more tools") } else { String::new() };
    format!("For want of room, names only:\n{text}{more}")
}

/// A line for each provider, and how many tools there was no room for.
fn listed(providers: &[Provider], room: usize, show: impl Fn(&ToolSignature<'_>) -> String) -> (String, usize) {
    let (mut text, mut missing) = (String::new(), 0);
    for provider in providers {
        for (at, tool) in provider.signatures().enumerate() {
            let name = match at {
                0 => format!("\n{}: {}", provider.name(), show(&tool)),
                _ => format!(", {}", show(&tool)),
            };
            // The end is for the line that says how many are missing.
            if text.len() + name.len() + RESERVED > room {
                missing += 1;
            } else {
                text += &name;
            }
        }
    }
    (text, missing)
}

/// `a, b?`: the names of what a tool takes, where those are names as code has them.
fn parameters(tool: &ToolSignature<'_>) -> String {
    let Some(input) = tool.input else { return String::new() };
    let required = |name: &str| {
        let required = input.get("required").and_then(Json::as_array);
        required.is_some_and(|names| names.iter().take(MAX_PARAMETERS).any(|required| required == name))
    };
    let is_code =
        |name: &&String| name.len() <= MAX_NAME && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let names = input.get("properties").and_then(Json::as_object).into_iter().flat_map(|all| all.keys());
    let names = names.take(MAX_PARAMETERS).filter(is_code);
    let marked = names.map(|name| format!("{name}{}", if required(name) { "" } else { "?" }));
    marked.collect::<Vec<_>>().join(", ")
}

fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let all = names.len();
    let mut list = String::new();
    for (at, name) in names.enumerate() {
        if list.len() + name.len() > most {
            return format!("{list} and {} more", all - at);
        }
        list += &format!("{}`{name}`", if at == 0 { "" } else { ", " });
    }
    if all == 0 { "no namespace yet".to_owned() } else { list }
}

fn code_tool(name: &str, description: String) -> Tool {
    let input = json!({
        "type": "object",
        "properties": { "code": { "type": "string", "description": "JavaScript or TypeScript" } },
        "required": ["code"],
        "additionalProperties": false
    });
    let output = json!({
        "type": "object",
        "properties": {
            "ok": { "type": "boolean" },
            "durationMs": { "type": "number" },
            "logs": { "type": "array", "items": { "type": "string" } },
            "result": {},
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

/// How many characters of namespaces the search lists.
const MAX_NAMESPACES: usize = 600;

/// Room for the lines around a list of tools.
const RESERVED: usize = 80;

/// The most parameters of a tool that are named, and the longest name, in bytes.
const MAX_PARAMETERS: usize = 16;
const MAX_NAME: usize = 40;
