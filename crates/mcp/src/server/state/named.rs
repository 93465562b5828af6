//! The snippets that a program names, as functions of it.
//!
//! Snippets have the limits, tools and permissions of the program. Names are searched in the text, without parsing it: a
//! snippet that is found by mistake does no harm.

use std::collections::BTreeMap;
use std::sync::Arc;

use execbox::ScriptFunction;
use serde_json::Value as Json;

use super::snippets::{Library, NAMESPACE, Snippets};
use crate::text::{is_in_name, words};

/// The snippets that the program `source` names, and those that these name. May block.
///
/// A snippet that cannot be read throws the reason when it is called.
pub(in super::super) fn named(source: &str, snippets: &Snippets, library: &Library) -> Vec<ScriptFunction> {
    let mut found = BTreeMap::new();
    let mut unread = vec![Arc::<str>::from(source)];
    while let Some(text) = unread.pop() {
        if library.is_empty() || !text.contains(NAMESPACE) {
            continue;
        }
        for name in names_in(&text).into_iter().filter(|name| library.has(name)) {
            if found.contains_key(name) {
                continue;
            }
            let read = snippets.read(name).map_err(|error| error.to_string());
            let code = match read.and_then(|snippet| snippet.ok_or_else(|| "it was deleted".to_owned())) {
                Ok(snippet) => {
                    unread.push(snippet.code.as_str().into());
                    snippet.code
                }
                Err(reason) => throwing(name, &reason),
            };
            found.insert(name.to_owned(), code);
        }
    }
    let function = |(name, code)| ScriptFunction::new(NAMESPACE, name, code);
    found.into_iter().map(function).collect()
}

/// The names that a text uses as members of `snippets`: `snippets.total`, `snippets?.total`, `snippets['total']`. If it uses
/// `snippets` in another way, such as in `const { total } = snippets`, all its words.
fn names_in(text: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(NAMESPACE) {
        let (before, after) = (&rest[..at], &rest[at + NAMESPACE.len()..]);
        rest = after;
        if before.ends_with(is_in_name) || after.starts_with(is_in_name) {
            continue;
        }
        match member(after.trim_start()) {
            Some(name) => members.push(name),
            None => return words(text).collect(),
        }
    }
    members
}

/// The name of the member access at the beginning of a text that follows an object.
fn member(text: &str) -> Option<&str> {
    if let Some(computed) = text.strip_prefix('[') {
        let computed = computed.trim_start();
        let quote = computed.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'))?;
        let (name, end) = computed[1..].split_once(quote)?;
        return (end.trim_start().starts_with(']') && name.chars().all(is_in_name)).then_some(name);
    }
    let name = text.strip_prefix("?.").or_else(|| text.strip_prefix('.'))?.trim_start();
    let name = &name[..name.find(|c| !is_in_name(c)).unwrap_or(name.len())];
    (!name.is_empty()).then_some(name)
}

/// The code of a snippet that cannot be read.
fn throwing(name: &str, reason: &str) -> String {
    let message = Json::String(format!("{NAMESPACE}.{name} cannot be used: {reason}"));
    format!("throw new Error({message})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippets_are_named_by_member_accesses() {
        for text in [
            "await snippets.total(1)",
            "await snippets\n  .total(1)",
            "snippets . total",
            "snippets?.total()",
            "snippets['total']()",
            "snippets[ \"total\" ]()",
            "snippets[`total`]()",
            "for (let i = 0; i < 3; i++) await snippets.total(i)",
            "const mysnippets = 1, snippets2 = i; snippets.total(i) // i",
            "tools.snippets.total(i)",
        ] {
            assert_eq!(names_in(text), ["total"], "{text}");
        }
        for (text, names) in [
            ("await snippets.list()", &["list"] as &[_]),
            ("snippets.a() + snippets.b(i)", &["a", "b"]),
            ("a.b(i)", &[]),
            ("snippets2.i()", &[]),
            // Everything may be named where `snippets` is used in another way.
            ("const { total } = snippets", &["const", "total", "snippets"]),
            ("snippets[total]()", &["snippets", "total"]),
            ("snippets['to' + 'tal']", &["snippets", "to", "tal"]),
            ("snippets /* */ .total", &["snippets", "total"]),
            ("snippets.total; f(snippets)", &["snippets", "total", "f", "snippets"]),
            ("snippets", &["snippets"]),
            ("snippets.", &["snippets"]),
            ("snippets[", &["snippets"]),
            ("snippets['ä']", &["ä"]),
        ] {
            assert_eq!(names_in(text), names, "{text}");
        }
    }
}
