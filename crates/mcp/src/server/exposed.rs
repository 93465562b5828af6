//! Tools that clients see beside those of the server, and call without code.

use std::collections::{HashMap, HashSet};

use execbox::{Effect, Provider};
use execbox_core::names::safe_name;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

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

/// The exposed tools, as `namespace_tool`, or with their own names.
pub(super) fn exposed(providers: &[Provider], source: &dyn ProviderSource, options: &ServerOptions) -> Vec<Exposed> {
    let mut all = Vec::new();
    let mut wanted = Vec::new();
    for provider in providers {
        let has_prefix = source.has_prefix(provider.name());
        let tools = provider.signatures().zip(&provider.manifest().tools).zip(provider.effects());
        for ((signature, manifest), effect) in tools {
            let original = &manifest.original_name;
            if !source.is_exposed(provider.name(), [signature.safe_name, original]) {
                continue;
            }
            wanted.push(WantedName::new(provider.name(), original, has_prefix));
            let tool = described(signature.description, signature.input, effect);
            all.push(Exposed { tool, provider: provider.clone(), safe_name: signature.safe_name.to_owned() });
        }
    }
    let own = options.layout.tools().iter().map(|&tool| options.name_of(tool));
    for (exposed, name) in all.iter_mut().zip(distinct(&wanted, own)) {
        exposed.tool.name = name.into();
    }
    all
}

/// The name that clients would see if there were no other tools.
#[derive(Debug, Clone)]
struct WantedName {
    /// In the characters that the interfaces of models accept.
    name: String,
    /// Whether the name is that of the tool, after the namespace if it has one.
    is_exact: bool,
    /// Whether the name does not tell what it was made of: letters were replaced, or its end is cut.
    is_lossy: bool,
    /// Tells the tool from all others.
    identity: String,
}

impl WantedName {
    fn new(namespace: &str, original: &str, has_prefix: bool) -> Self {
        // Without the namespace, the name is that on the server.
        let full = if has_prefix { format!("{namespace}_{}", safe_name(original)) } else { original.to_owned() };
        let is_lossy = !original.is_ascii() || !full.is_ascii() || !(1..=MAX_NAME).contains(&full.len());
        let mut name = String::new();
        for c in full.chars() {
            if name.len() == MAX_NAME {
                break;
            } else if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                name.push(c);
            } else if !is_lossy || !name.ends_with('_') {
                name.push('_');
            }
        }
        let is_exact = name == if has_prefix { format!("{namespace}_{original}") } else { full };
        Self { name, is_exact, is_lossy, identity: format!("{namespace}.{original}") }
    }

    /// The name with a hash of the tool.
    fn with_hash(&self, attempt: u32) -> String {
        let hash: [u8; 32] = Sha256::digest(format!("{}\n{attempt}", self.identity)).into();
        let hash = format!("_{:08x}", u32::from_be_bytes(std::array::from_fn(|at| hash[at])));
        let kept = &self.name[..self.name.len().min(MAX_NAME - hash.len())];
        format!("{}{hash}", kept.trim_end_matches('_'))
    }
}

/// Distinct names, which do not depend on the order of the tools. A name that is exact wins over those that were changed, and
/// the names in `own` over all. Of equal names none wins: a permission for one tool must not become one for another.
fn distinct<'a>(wanted: &[WantedName], own: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken: HashSet<String> = own.map(str::to_owned).collect();
    let mut counts: HashMap<&str, [usize; 2]> = HashMap::new();
    for WantedName { name, is_exact, .. } in wanted.iter().filter(|wanted| !wanted.is_lossy) {
        counts.entry(name).or_default()[usize::from(*is_exact)] += 1;
    }
    let keeps = |wanted: &&WantedName| {
        let [changed, exact] = counts.get(&*wanted.name).copied().unwrap_or_default();
        !wanted.is_lossy && if wanted.is_exact { exact == 1 } else { changed == 1 && exact == 0 }
    };
    let keeping: Vec<bool> = wanted.iter().map(|wanted| keeps(&wanted) && taken.insert(wanted.name.clone())).collect();
    let mut names: Vec<String> = wanted.iter().map(|wanted| wanted.name.clone()).collect();
    let mut others: Vec<usize> = (0..wanted.len()).filter(|&at| !keeping[at]).collect();
    others.sort_by_key(|&at| &wanted[at].identity);
    for at in others {
        names[at] = wanted[at].with_hash(0);
        let mut attempt = 0;
        while !taken.insert(names[at].clone()) {
            attempt += 1;
            names[at] = wanted[at].with_hash(attempt);
        }
    }
    names
}

/// A tool whose name is added later.
fn described(description: Option<&str>, input: Option<&Json>, effect: Effect) -> Tool {
    let mut schema = match input {
        Some(Json::Object(schema)) => schema.clone(),
        _ => JsonObject::new(),
    };
    schema.entry("type").or_insert_with(|| "object".into());
    let mut schema = Json::Object(schema);
    make_descriptions_visible(&mut schema);
    let Json::Object(schema) = schema else { unreachable!("the schema is an object") };
    let mut tool = Tool::new_with_raw("", description.map(|text| text.to_owned().into()), schema);
    tool.annotations = match effect {
        Effect::ReadOnly => Some(ToolAnnotations::new().read_only(true)),
        Effect::Additive => Some(ToolAnnotations::new().read_only(false).destructive(false)),
        Effect::Destructive => Some(ToolAnnotations::new().read_only(false).destructive(true)),
        _ => None,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MAX_NAME, WantedName, distinct};

    fn names(tools: &[(&str, &str)], has_prefix: bool) -> Vec<String> {
        let wanted: Vec<_> = tools.iter().map(|(space, tool)| WantedName::new(space, tool, has_prefix)).collect();
        distinct(&wanted, ["mcp_call_tool"].into_iter())
    }

    #[test]
    fn names_without_loss_are_kept() {
        let tools =
            ["get", "a-b", "x.y", "two words", "2fa", "delete", "camelCase", "call_tool"].map(|name| ("s", name));
        let plain = ["get", "a-b", "x_y", "two_words", "2fa", "delete", "camelCase", "call_tool"];
        assert_eq!(names(&tools, false), plain);
        let prefixed = ["get", "a_b", "x_y", "two_words", "_2fa", "delete_", "camelCase", "call_tool"];
        assert_eq!(names(&tools, true), prefixed.map(|name| format!("s_{name}")));
    }

    #[test]
    fn names_that_lose_what_tells_them_apart_have_a_hash() {
        let tools = ["Создать", "Удалить", "größe", "grüße", "a b", "a_b", "p/q", "p:q", "📅", "🗑"];
        let tools: Vec<_> = tools.map(|name| ("s", name)).into();
        for (has_prefix, expected) in [
            (
                true,
                [
                    "s_",
                    "s_",
                    "s_gr_e_",
                    "s_gr_e_",
                    "s_a_b_",
                    "s_a_b",
                    "s_p_q_",
                    "s_p_q_",
                    "s_tool_1f4c5_",
                    "s_tool_1f5d1_",
                ],
            ),
            (false, ["_", "_", "gr_e_", "gr_e_", "a_b_", "a_b", "p_q_", "p_q_", "_", "_"]),
        ] {
            let names = names(&tools, has_prefix);
            for (name, expected) in names.iter().zip(expected) {
                let hash = name.strip_prefix(expected).unwrap_or_else(|| panic!("{name}: {expected}"));
                let is_hash = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
                assert!(is_hash || expected.ends_with("a_b"), "{name}");
            }
        }
    }

    #[test]
    fn equal_names_and_those_of_the_gateway_are_given_to_no_tool() {
        assert!(names(&[("mcp", "call_tool")], true)[0].starts_with("mcp_call_tool_"));
        let tools = [("a", "search"), ("b", "search"), ("a_b", "c"), ("a", "b_c")];
        for (name, start) in names(&tools, false).iter().zip(["search_", "search_", "c", "b_c"]) {
            assert!(name.starts_with(start) && name != "search", "{name}");
        }
        let ambiguous = names(&tools[2..], true);
        assert!(ambiguous.iter().all(|name| name.starts_with("a_b_c_")) && ambiguous[0] != ambiguous[1]);
        // What the hash makes is the name of another tool.
        let first = names(&[("s", "größe")], false).remove(0);
        let both = names(&[("s", "größe"), ("t", &first)], false);
        assert!(both[1] == first && both[0].starts_with("gr_e_") && both[0] != first, "{both:?}");
    }

    proptest! {
        #[test]
        fn names_are_distinct_and_accepted_in_any_order(
            tools in prop::collection::hash_set(("s|t|s_a|天気", "[ab予定ß._/ -]{0,4}|[x]{60,70}|mcp_call_tool"), 1..12),
            has_prefix: bool,
        ) {
            let tools: Vec<(&str, &str)> = tools.iter().map(|(space, tool)| (&**space, &**tool)).collect();
            let all = names(&tools, has_prefix);
            let accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            for (at, name) in all.iter().enumerate() {
                prop_assert!((1..=MAX_NAME).contains(&name.len()) && name.chars().all(accepted), "{name}");
                prop_assert!(name != "mcp_call_tool" && !all[..at].contains(name), "{name}");
            }
            let reversed: Vec<_> = tools.iter().rev().copied().collect();
            prop_assert_eq!(names(&reversed, has_prefix).into_iter().rev().collect::<Vec<_>>(), all);
        }
    }
}
