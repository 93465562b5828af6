//! The description of the tool: how code is written, and the types of the tools that it can call.

use serde_json::{Value as Json, json};

use crate::Provider;
use crate::declarations::ToolSignature;

/// What code is.
const CODE: &str = "Write the body of an async function in JavaScript or TypeScript: ";

/// How code calls tools.
const CALLS: &str = "`await` tools, compute, and `return` a JSON value. Tools are async functions in namespaces and take one \
    object: `const r = await ns.tool({ key: 1 })`. A failed call throws an error. Run independent calls with `Promise.all`. \
    `console.log` output is returned.";

/// The same for code without tools.
const COMPUTES: &str = "compute, and `return` a JSON value. `console.log` output is returned.";

/// The description of a tool that runs code with these providers, for a model. The types of the tools have at most `max_types`
/// characters: if they do not fit, names and parameters are shown, or else as many names as fit.
pub fn description(providers: &[Provider], timers: bool, max_types: usize) -> String {
    if providers.iter().all(|provider| provider.signatures().next().is_none()) {
        let others = if timers {
            "There is `setTimeout`, and there are no imports, network or files."
        } else {
            "There are no imports, network, files or timers."
        };
        return format!("Runs code. {CODE}{COMPUTES} {others}");
    }
    let types = types(providers, max_types, "");
    format!("Runs code that calls tools. {} Available tools:\n{types}", how_to(timers))
}

/// How a model writes code that calls tools, as sentences. `timers` states whether code has `setTimeout`.
pub fn how_to(timers: bool) -> String {
    let others = if timers {
        "There are no imports, network or files, only the tools and `setTimeout`."
    } else {
        "There are no imports, network, files or timers, only the tools."
    };
    format!("{CODE}{CALLS} {others} Return only what you need.")
}

/// The JSON Schema of the tool's input: an object with the member `code`.
pub fn input_schema() -> Json {
    json!({
        "type": "object",
        "properties": { "code": { "type": "string", "description": "JavaScript or TypeScript" } },
        "required": ["code"],
        "additionalProperties": false
    })
}

/// The types of all tools if they fit into `max` characters, otherwise their names and parameters, otherwise as many
/// names as fit. `hint` states where the rest is.
pub fn types(providers: &[Provider], max: usize, hint: &str) -> String {
    let whole: usize = providers.iter().map(|provider| provider.types().chars().count() + 1).sum();
    if whole <= max {
        return providers.iter().map(Provider::types).collect::<Vec<_>>().join("\n");
    }
    let calls = listed(providers, max, |tool| format!("{}({})", tool.safe_name, parameters(tool)));
    if let (text, 0) = calls {
        return format!("Names and parameters only{hint}:\n{text}");
    }
    let (text, missing) = listed(providers, max, |tool| tool.safe_name.to_owned());
    let more = match missing {
        0 => String::new(),
        1 => "\n… and 1 more tool".to_owned(),
        missing => format!("\n… and {missing} more tools"),
    };
    format!("Names only{hint}:\n{text}{more}")
}

/// A line for each provider, and the number of tools that do not fit into `max` characters.
fn listed(providers: &[Provider], max: usize, show: impl Fn(&ToolSignature<'_>) -> String) -> (String, usize) {
    let (mut text, mut missing) = (String::new(), 0);
    for provider in providers {
        for (at, tool) in provider.signatures().enumerate() {
            let name = match at {
                0 => format!("\n{}: {}", provider.name(), show(&tool)),
                _ => format!(", {}", show(&tool)),
            };
            // The rest is reserved for the line with the number of missing tools.
            if text.len() + name.len() + RESERVED > max {
                missing += 1;
            } else {
                text += &name;
            }
        }
    }
    (text, missing)
}

/// The names of parameters, as `a, b?`; only those that are identifiers.
fn parameters(tool: &ToolSignature<'_>) -> String {
    let Some(input) = tool.input else { return String::new() };
    let required = |name: &str| {
        let required = input.get("required").and_then(Json::as_array);
        required.is_some_and(|names| names.iter().take(MAX_PARAMETERS).any(|required| required == name))
    };
    let is_identifier =
        |name: &&String| name.len() <= MAX_NAME && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let names = input.get("properties").and_then(Json::as_object).into_iter().flat_map(|all| all.keys());
    let names = names.take(MAX_PARAMETERS).filter(is_identifier);
    let marked = names.map(|name| format!("{name}{}", if required(name) { "" } else { "?" }));
    marked.collect::<Vec<_>>().join(", ")
}

/// Characters reserved for the lines around a list of tools.
const RESERVED: usize = 128;

/// The maximum number of parameters that are listed per tool, and the maximum length of their names, in bytes.
const MAX_PARAMETERS: usize = 16;
const MAX_NAME: usize = 40;
