//! The last answers of tools, for what errors say of them: where a program reads a member that an answer
//! lacks, the error lists the members that it has.

use std::fmt;

use serde_json::Value as Json;

use crate::names::is_identifier_part;
use crate::value::Value;

/// The most tools whose last answers are kept.
const MAX_TOOLS: usize = 8;

/// The longest answer that is kept, in bytes.
const MAX_BYTES: usize = 8 << 10;

/// The most members that a message lists.
const MAX_MEMBERS: usize = 20;

/// The last answer of each tool.
#[derive(Debug, Default)]
pub(super) struct Answers(Vec<((usize, usize), Value)>);

impl Answers {
    /// Keeps an answer in place of an earlier one of the same tool, if it is short.
    pub(super) fn keep(&mut self, tool: (usize, usize), answer: &Value) {
        let is_short = answer.as_bytes().len() <= MAX_BYTES;
        match self.0.iter().position(|(kept, _)| *kept == tool) {
            Some(at) if is_short => self.0[at].1.clone_from(answer),
            Some(at) => drop(self.0.remove(at)),
            None if is_short && self.0.len() < MAX_TOOLS => self.0.push((tool, answer.clone())),
            None => {}
        }
    }

    /// The answers, with the names of their tools.
    pub(super) fn named(&self, name: impl Fn(usize, usize) -> String) -> Vec<Answer> {
        let answers = self.0.iter().filter_map(|((provider, tool), value)| {
            let value = value.to_json("answer", MAX_BYTES).ok()?.unwrap_or_default();
            Some(Answer { tool: name(*provider, *tool), shape: Shape::of(&value) })
        });
        answers.collect()
    }
}

/// The answer of a tool.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The tool, as `shop.list`.
    tool: String,
    shape: Shape,
}

/// The members of a value; of an array those of its first element.
#[derive(Debug)]
enum Shape {
    Object(Vec<String>),
    Array(Option<Vec<String>>),
    Text,
    Other(String),
}

impl Shape {
    fn of(value: &Json) -> Self {
        let members = |value: &Json| Some(value.as_object()?.keys().cloned().collect());
        match value {
            Json::Object(_) => Self::Object(members(value).unwrap_or_default()),
            Json::Array(elements) => Self::Array(elements.first().and_then(members)),
            Json::String(_) => Self::Text,
            other => Self::Other(other.to_string()),
        }
    }

    fn has(&self, member: &str) -> bool {
        match self {
            Self::Object(members) => members.iter().any(|known| known == member),
            Self::Array(_) | Self::Text => {
                ["length", "map", "filter", "slice", "at", "indexOf", "includes"].contains(&member)
            }
            Self::Other(_) => false,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = |members: &[String]| {
            let first: Vec<&str> = members.iter().take(MAX_MEMBERS).map(String::as_str).collect();
            format!("{{ {}{} }}", first.join(", "), if members.len() > MAX_MEMBERS { ", …" } else { "" })
        };
        match self {
            Self::Object(names) if names.is_empty() => f.write_str("{}"),
            Self::Object(names) => f.write_str(&members(names)),
            Self::Array(Some(names)) => write!(f, "an array of {}", members(names)),
            Self::Array(None) => f.write_str("an array"),
            Self::Text => f.write_str("a string"),
            Self::Other(value) => f.write_str(value),
        }
    }
}

/// What to add to an error at `base.member`: the members of the answer that `base` was set to, or of the only answer, unless it has
/// that member.
pub(super) fn hint(answers: &[Answer], source: &str, base: &str, member: &str) -> Option<String> {
    let assigned = answers.iter().find(|answer| is_assigned(source, base, &answer.tool));
    let only = if let [only] = answers { Some(only) } else { None };
    let answer = assigned.or(only).filter(|answer| !answer.shape.has(member))?;
    Some(format!("; {} answered with {}", answer.tool, answer.shape))
}

/// Whether the source has `base = await tool(`, perhaps with a type.
fn is_assigned(source: &str, base: &str, tool: &str) -> bool {
    source.match_indices(tool).any(|(at, _)| {
        let is_call = source[at + tool.len()..].trim_start().starts_with('(');
        let before = source[..at].trim_end();
        let before = before.strip_suffix("await").unwrap_or(before).trim_end();
        let Some(target) = before.strip_suffix('=').filter(|_| is_call) else { return false };
        let statement = target.rsplit(['\n', ';', '{', '}', '(']).next().unwrap_or(target);
        let name = statement.split(':').next().unwrap_or(statement).trim_end();
        name.strip_suffix(base).is_some_and(|rest| !rest.ends_with(is_identifier_part) && !rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_found_where_they_are_written() {
        for source in ["const res = await crm.get({})", "res=crm.get ()", "let res: Order = await crm.get({ a: 1 })"] {
            assert!(is_assigned(source, "res", "crm.get"), "{source}");
        }
        for source in
            ["const other = await crm.get({})", "x.res = await crm.get({})", "res = await crm.get", "mres = crm.get()"]
        {
            assert!(!is_assigned(source, "res", "crm.get"), "{source}");
        }
    }

    #[test]
    fn few_and_short_answers_are_kept() {
        let mut answers = Answers::default();
        for tool in 0..20 {
            answers.keep((0, tool), &Value::from_json(Some(&Json::from(tool)), "answer").unwrap());
        }
        answers.keep((0, 1), &Value::from_json(Some(&Json::from("x".repeat(MAX_BYTES))), "answer").unwrap());
        let named = answers.named(|provider, tool| format!("{provider}.{tool}"));
        let tools: Vec<_> = named.iter().map(|answer| answer.tool.as_str()).collect();
        assert_eq!(tools, ["0.0", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]);
    }
}
