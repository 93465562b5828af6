//! Tools that clients see beside those of the server, and call without code.

use std::collections::{HashMap, HashSet};

use execbox::{Effect, Provider};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value as Json;

use super::{ProviderSource, ServerOptions};
use crate::text::make_visible;

/// An exposed tool.
#[derive(Debug, Clone)]
pub(super) struct Exposed {
    /// As clients see it.
    pub(super) tool: Tool,
    pub(super) provider: Provider,
    /// The name of the tool in code.
    pub(super) safe_name: String,
}

/// The exposed tools, as `namespace_tool`, or with their own names. Names are numbered where they collide.
pub(super) fn exposed(providers: &[Provider], source: &dyn ProviderSource, options: &ServerOptions) -> Vec<Exposed> {
    let mut names = Names::default();
    names.taken.extend(options.layout.tools().iter().map(|&tool| options.name_of(tool).to_owned()));
    let mut all = Vec::new();
    for provider in providers {
        let prefix = if source.has_prefix(provider.name()) { format!("{}_", provider.name()) } else { String::new() };
        let tools = provider.signatures().zip(&provider.manifest().tools).zip(provider.effects());
        for ((signature, manifest), effect) in tools {
            if !source.is_exposed(provider.name(), [signature.safe_name, &manifest.original_name]) {
                continue;
            }
            // Without the namespace, the name is that on the server.
            let own = if prefix.is_empty() { &manifest.original_name } else { signature.safe_name };
            let name = names.add(&format!("{prefix}{own}"));
            let tool = described(name, signature.description, signature.input, effect);
            all.push(Exposed { tool, provider: provider.clone(), safe_name: signature.safe_name.to_owned() });
        }
    }
    all
}

/// The names that clients see.
#[derive(Default)]
struct Names {
    taken: HashSet<String>,
    /// The last number of each name that was taken.
    numbers: HashMap<String, usize>,
}

impl Names {
    fn add(&mut self, name: &str) -> String {
        // Names in code may have letters of any script, those of clients may not.
        let ascii = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' });
        let name: String = ascii.take(MAX_NAME).collect();
        let mut unique = name.clone();
        while !self.taken.insert(unique.clone()) {
            let number = self.numbers.entry(name.clone()).or_insert(1);
            *number += 1;
            let suffix = format!("_{number}");
            unique = format!("{}{suffix}", &name[..name.len().min(MAX_NAME - suffix.len())]);
        }
        unique
    }
}

fn described(name: String, description: Option<&str>, input: Option<&Json>, effect: Effect) -> Tool {
    let mut schema = match input {
        Some(Json::Object(schema)) => schema.clone(),
        _ => JsonObject::new(),
    };
    schema.entry("type").or_insert_with(|| "object".into());
    let mut schema = Json::Object(schema);
    make_descriptions_visible(&mut schema);
    let Json::Object(schema) = schema else { unreachable!("the schema is an object") };
    let mut tool = Tool::new_with_raw(name, description.map(|text| text.to_owned().into()), schema);
    tool.annotations = match effect {
        Effect::ReadOnly => Some(ToolAnnotations::new().read_only(true)),
        Effect::Additive => Some(ToolAnnotations::new().read_only(false).destructive(false)),
        Effect::Destructive => Some(ToolAnnotations::new().read_only(false).destructive(true)),
        Effect::Unstated => None,
    };
    tool
}

/// Escapes hidden characters in the texts of a schema for people and models. Names and values stay as they are.
fn make_descriptions_visible(schema: &mut Json) {
    let mut waiting = vec![schema];
    while let Some(value) = waiting.pop() {
        match value {
            Json::Array(items) => waiting.extend(items),
            Json::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member) {
                        ("description" | "title", Json::String(text)) => make_visible(text),
                        (_, member) => waiting.push(member),
                    }
                }
            }
            _ => {}
        }
    }
}

/// The longest name, in bytes: what the interfaces of models accept.
const MAX_NAME: usize = 64;
