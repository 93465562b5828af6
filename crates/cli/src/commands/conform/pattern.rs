//! Expected messages of a runner: JSON with matchers, and the comparison.
//!
//! Choices of the runner are never compared: the form of a `callId`, the duration of an execution, and the message of the error
//! that ends it (`conformance/README.md`, "What is not compared").

use std::fmt;

use execbox_core::text::cut;
use serde_json::{Map, Value as Json};

/// An expected message.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// The message as JSON, including defaults.
    pub(crate) text: String,
    /// The name of a tool call in the case.
    pub(crate) call: Option<String>,
    kind: Kind,
    fields: Vec<(String, Pattern)>,
}

/// The type of a message from a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Started,
    ToolCall,
    Done,
    /// A streamed log line.
    Log,
    /// A message of the module contract.
    Further,
}

impl Kind {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "started" => Some(Self::Started),
            "tool_call" => Some(Self::ToolCall),
            "done" => Some(Self::Done),
            "log" => Some(Self::Log),
            "hello" | "code_call" | "code_notify" | "code_done" => Some(Self::Further),
            _ => None,
        }
    }

    pub(crate) fn of(message: &Map<String, Json>) -> Option<Self> {
        Self::from_name(message.get("type")?.as_str()?)
    }

    /// The fields in the specification. Others are ignored.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Started => &["type", "id"],
            Self::ToolCall => &["type", "callId", "providerName", "safeToolName", "input"],
            Self::Done => &["type", "id", "ok", "durationMs", "logs", "result", "error"],
            Self::Log => &["type", "id", "level", "text"],
            Self::Further => &["type", "id", "call", "function", "now", "args", "ok", "result", "status", "error"],
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Pattern {
    Any,
    String,
    Number,
    Boolean,
    /// A number, string or boolean with this value, or null.
    Literal(Json),
    Array(Vec<Pattern>),
    Object(Vec<(String, Pattern)>),
    /// An object with at least these fields.
    ObjectWith(Vec<(String, Pattern)>),
    OneOf(Vec<Pattern>),
    /// An array of values that match these patterns in any order.
    AnyOrder(Vec<Pattern>),
    /// A string of this many UTF-16 units, or an array of this many elements.
    Length(usize),
    /// A number that is at least this one.
    Min(f64),
    Contains(String),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("unknown message {0}: expected `started`, `tool_call`, `log` or `done`")]
    Kind(String),
    #[error("unknown matcher {0:?}: expected {MATCHERS}; a string that begins with `$` is written with `$$`")]
    Matcher(String),
    #[error("matcher {0:?} must be the only field of its object")]
    NotAlone(String),
    #[error("invalid operand of {0:?}: expected {1}")]
    Operand(String, &'static str),
}

const MATCHERS: &str = "\"$any\", \"$string\", \"$number\", \"$boolean\", {\"$oneOf\": […]}, {\"$anyOrder\": […]}, \
     {\"$with\": {…}}, {\"$length\": 3}, {\"$min\": 0}, {\"$contains\": \"…\"}";

/// A value that does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The path of the value in the message.
    path: String,
    fault: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path, self.fault)
    }
}

impl Expected {
    pub(crate) fn new(object: &Map<String, Json>) -> Result<Self, PatternError> {
        let name = object.get("type").unwrap_or(&Json::Null);
        let kind = name.as_str().and_then(Kind::from_name).ok_or_else(|| PatternError::Kind(name.to_string()))?;
        let call = object.get("callId").and_then(Json::as_str).filter(|name| !name.starts_with('$'));
        let fields = object.iter().map(|(name, json)| Ok((name.clone(), field(kind, name, json)?)));
        Ok(Self {
            text: Json::Object(object.clone()).to_string(),
            call: call.map(str::to_owned),
            kind,
            fields: fields.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn is_started(&self) -> bool {
        self.kind == Kind::Started
    }

    /// Compares a message. Fields outside of the specification are ignored; fields of the specification that the case does not
    /// name must be absent.
    pub(crate) fn check(&self, message: &Map<String, Json>) -> Result<(), Mismatch> {
        for (name, pattern) in &self.fields {
            check_field(pattern, message, name, name)?;
        }
        for (name, json) in message {
            let is_named = self.fields.iter().any(|(field, _)| field == name);
            if !is_named && self.kind.fields().contains(&name.as_str()) {
                return Err(unexpected(name, json));
            }
        }
        Ok(())
    }
}

/// The pattern of a field of a message, with a matcher where the choice is left to the runner.
fn field(kind: Kind, name: &str, json: &Json) -> Result<Pattern, PatternError> {
    match (kind, name, json) {
        (Kind::ToolCall, "callId", Json::String(name)) if !name.starts_with('$') => Ok(Pattern::String),
        (Kind::Done, "durationMs", Json::Number(_)) => Ok(Pattern::Min(0.0)),
        (Kind::Done, "error", Json::Object(error)) if matcher_in(error).is_none() => {
            let fields = error.iter().map(|(name, json)| match (name.as_str(), json) {
                ("message", Json::String(text)) if !text.starts_with('$') => Ok((name.clone(), Pattern::String)),
                _ => Ok((name.clone(), Pattern::new(json)?)),
            });
            Ok(Pattern::ObjectWith(fields.collect::<Result<_, _>>()?))
        }
        _ => Pattern::new(json),
    }
}

impl Pattern {
    fn new(json: &Json) -> Result<Self, PatternError> {
        match json {
            Json::String(text) => match text.strip_prefix('$') {
                None => Ok(Self::Literal(json.clone())),
                Some("any") => Ok(Self::Any),
                Some("string") => Ok(Self::String),
                Some("number") => Ok(Self::Number),
                Some("boolean") => Ok(Self::Boolean),
                Some(escaped) if escaped.starts_with('$') => Ok(Self::Literal(Json::String(escaped.to_owned()))),
                Some(_) => Err(PatternError::Matcher(text.clone())),
            },
            Json::Array(items) => Ok(Self::Array(patterns(items)?)),
            Json::Object(object) => match matcher_in(object) {
                Some((name, operand)) if object.len() == 1 => Self::matcher(name, operand),
                Some((name, _)) => Err(PatternError::NotAlone(name.clone())),
                None => Ok(Self::Object(fields(object)?)),
            },
            _ => Ok(Self::Literal(json.clone())),
        }
    }

    fn matcher(name: &str, operand: &Json) -> Result<Self, PatternError> {
        let takes = |operand| Err(PatternError::Operand(name.to_owned(), operand));
        match (name, operand) {
            ("$oneOf", Json::Array(items)) => Ok(Self::OneOf(patterns(items)?)),
            ("$anyOrder", Json::Array(items)) => Ok(Self::AnyOrder(patterns(items)?)),
            ("$oneOf" | "$anyOrder", _) => takes("an array of patterns"),
            ("$with", Json::Object(object)) => Ok(Self::ObjectWith(fields(object)?)),
            ("$with", _) => takes("an object"),
            ("$length", operand) => match operand.as_u64().map(usize::try_from) {
                Some(Ok(length)) => Ok(Self::Length(length)),
                _ => takes("a whole number"),
            },
            ("$min", operand) => operand.as_f64().map(Self::Min).map_or_else(|| takes("a number"), Ok),
            ("$contains", Json::String(text)) => Ok(Self::Contains(text.clone())),
            ("$contains", _) => takes("a string"),
            _ => Err(PatternError::Matcher(name.to_owned())),
        }
    }

    /// Compares a value. `path` is its path in the message.
    fn check(&self, json: &Json, path: &str) -> Result<(), Mismatch> {
        let holds = match (self, json) {
            (Self::Any, _)
            | (Self::String, Json::String(_))
            | (Self::Number, Json::Number(_))
            | (Self::Boolean, Json::Bool(_)) => true,
            (Self::Literal(expected), json) => is_same(expected, json),
            (Self::Min(min), Json::Number(number)) => number.as_f64().is_some_and(|number| number >= *min),
            (Self::Contains(part), Json::String(text)) => text.contains(part),
            (Self::Length(length), Json::String(text)) => utf16_len(text) == *length,
            (Self::Length(length), Json::Array(items)) => items.len() == *length,
            (Self::OneOf(patterns), json) => patterns.iter().any(|pattern| pattern.check(json, path).is_ok()),
            (Self::AnyOrder(patterns), Json::Array(items)) => are_in_any_order(patterns, items),
            (Self::Array(patterns), Json::Array(items)) if patterns.len() == items.len() => {
                let mut pairs = patterns.iter().zip(items).enumerate();
                return pairs.try_for_each(|(at, (pattern, item))| pattern.check(item, &format!("{path}[{at}]")));
            }
            (Self::Object(fields), Json::Object(object)) => {
                check_fields(fields, object, path)?;
                let extra = object.iter().find(|(name, _)| !fields.iter().any(|(field, _)| field == *name));
                return extra.map_or(Ok(()), |(name, json)| Err(unexpected(&join(path, name), json)));
            }
            (Self::ObjectWith(fields), Json::Object(object)) => return check_fields(fields, object, path),
            _ => false,
        };
        let fault = || format!("expected {self}, got {}", clipped(json));
        if holds { Ok(()) } else { Err(Mismatch { path: path.to_owned(), fault: fault() }) }
    }
}

fn patterns(items: &[Json]) -> Result<Vec<Pattern>, PatternError> {
    items.iter().map(Pattern::new).collect()
}

fn fields(object: &Map<String, Json>) -> Result<Vec<(String, Pattern)>, PatternError> {
    let unescaped = |name: &str| name.strip_prefix('$').unwrap_or(name).to_owned();
    object.iter().map(|(name, json)| Ok((unescaped(name), Pattern::new(json)?))).collect()
}

/// The field that makes an object a matcher.
fn matcher_in(object: &Map<String, Json>) -> Option<(&String, &Json)> {
    object.iter().find(|(name, _)| name.starts_with('$') && !name.starts_with("$$"))
}

fn check_fields(fields: &[(String, Pattern)], object: &Map<String, Json>, path: &str) -> Result<(), Mismatch> {
    fields.iter().try_for_each(|(name, pattern)| check_field(pattern, object, name, &join(path, name)))
}

fn check_field(pattern: &Pattern, object: &Map<String, Json>, name: &str, path: &str) -> Result<(), Mismatch> {
    match object.get(name) {
        Some(json) => pattern.check(json, path),
        None => Err(Mismatch { path: path.to_owned(), fault: format!("expected {pattern}, but it is missing") }),
    }
}

fn unexpected(path: &str, json: &Json) -> Mismatch {
    Mismatch { path: path.to_owned(), fault: format!("expected to be absent, got {}", clipped(json)) }
}

/// Whether two values are the same number, string or boolean, or both null. `3` and `3.0` are the same.
fn is_same(expected: &Json, json: &Json) -> bool {
    match (expected, json) {
        (Json::Number(expected), Json::Number(number)) => {
            expected == number || (expected.is_f64() || number.is_f64()) && expected.as_f64() == number.as_f64()
        }
        _ => expected == json,
    }
}

/// The length in UTF-16 units.
fn utf16_len(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// Whether each item matches a pattern of its own: the first free one that matches.
fn are_in_any_order(patterns: &[Pattern], items: &[Json]) -> bool {
    let mut left: Vec<_> = patterns.iter().collect();
    patterns.len() == items.len()
        && items.iter().all(|item| {
            let at = left.iter().position(|pattern| pattern.check(item, "").is_ok());
            at.map(|at| left.remove(at)).is_some()
        })
}

fn join(path: &str, name: &str) -> String {
    format!("{path}.{name}")
}

/// A value as text of limited length.
pub(crate) fn clipped(json: &Json) -> String {
    cut(&json.to_string(), 200)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::String => f.write_str("a string"),
            Self::Number => f.write_str("a number"),
            Self::Boolean => f.write_str("true or false"),
            Self::Literal(json) => f.write_str(&clipped(json)),
            Self::Array(items) => write!(f, "an array of {}", items.len()),
            Self::Object(fields) | Self::ObjectWith(fields) => {
                let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "an object with {{{}}}", cut(&names.join(", "), 100))
            }
            Self::OneOf(patterns) => {
                let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
                f.write_str(&patterns.join(" or "))
            }
            Self::AnyOrder(patterns) => {
                let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
                write!(f, "in any order: {}", cut(&patterns.join(", "), 200))
            }
            Self::Length(length) => write!(f, "of length {length}"),
            Self::Min(min) => write!(f, "a number of at least {min}"),
            Self::Contains(text) => write!(f, "a string that contains {text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn expected(json: &Json) -> Result<Expected, PatternError> {
        Expected::new(json.as_object().unwrap())
    }

    fn done(result: &Json) -> Json {
        json!({ "type": "done", "id": "1", "ok": true, "durationMs": 0, "logs": [], "result": result })
    }

    /// The mismatch; empty for a match.
    fn verdict(pattern: &Json, message: &Json) -> String {
        let verdict = expected(pattern).unwrap().check(message.as_object().unwrap());
        verdict.map_or_else(|mismatch| mismatch.to_string(), |()| String::new())
    }

    fn result_verdict(pattern: &Json, result: &Json) -> String {
        verdict(&done(pattern), &done(result))
    }

    #[test]
    fn values_are_compared_as_json() {
        for (pattern, value) in [
            (json!(3), json!(3.0)),
            (json!(1e21), json!(1e21)),
            (json!({ "a": 1, "b": [null, true, "x"] }), json!({ "b": [null, true, "x"], "a": 1 })),
            (json!("$$any"), json!("$any")),
            (json!({ "$$length": 1 }), json!({ "$length": 1 })),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_993_u64)),
        ] {
            assert_eq!(result_verdict(&pattern, &value), "", "{pattern}");
        }
        for (pattern, value, verdict) in [
            (json!(3), json!("3"), r#"`result`: expected 3, got "3""#),
            (json!(0), json!(false), "`result`: expected 0, got false"),
            (
                json!(9_007_199_254_740_993_u64),
                json!(9_007_199_254_740_992_u64),
                "`result`: expected 9007199254740993, got 9007199254740992",
            ),
            (json!({}), json!([]), "`result`: expected an object with {}, got []"),
            (json!({ "a": [1, 2] }), json!({ "a": [1, 5] }), "`result.a[1]`: expected 2, got 5"),
            (json!({ "a": 1 }), json!({}), "`result.a`: expected 1, but it is missing"),
            (json!({}), json!({ "a": 1 }), "`result.a`: expected to be absent, got 1"),
            (json!([1]), json!([1, 2]), "`result`: expected an array of 1, got [1,2]"),
        ] {
            assert_eq!(result_verdict(&pattern, &value), verdict);
        }
    }

    #[test]
    fn matchers() {
        for (pattern, fits, mismatch) in [
            (json!("$any"), json!(null), None),
            (json!("$string"), json!(""), Some(json!(1))),
            (json!("$number"), json!(0.5), Some(json!("0.5"))),
            (json!("$boolean"), json!(false), Some(json!(null))),
            (json!({ "$oneOf": [1, "$string"] }), json!("x"), Some(json!(2))),
            (json!({ "$anyOrder": [1, 2, "$any"] }), json!([2, 3, 1]), Some(json!([2, 2, 3]))),
            (json!({ "$anyOrder": [1, 1] }), json!([1, 1]), Some(json!([1, 1, 1]))),
            (json!({ "$with": { "a": 1 } }), json!({ "a": 1, "b": 2 }), Some(json!({ "b": 2 }))),
            (json!({ "$length": 2 }), json!("🦀"), Some(json!("é"))),
            (json!({ "$length": 2 }), json!([1, 2]), Some(json!({ "length": 2 }))),
            (json!({ "$min": 5 }), json!(5), Some(json!(4.9))),
            (json!({ "$contains": "b" }), json!("abc"), Some(json!("ac"))),
        ] {
            assert_eq!(result_verdict(&pattern, &fits), "", "{pattern}");
            if let Some(value) = mismatch {
                assert_ne!(result_verdict(&pattern, &value), "", "{pattern}");
            }
        }
    }

    #[test]
    fn choices_of_the_runner_are_not_compared() {
        let mut message = done(&json!(1));
        message["durationMs"] = json!(70.5);
        assert_eq!(verdict(&done(&json!(1)), &message), "");
        message["durationMs"] = json!(-1);
        assert_eq!(verdict(&done(&json!(1)), &message), "`durationMs`: expected a number of at least 0, got -1");

        let failed = |message: &Json| {
            let error = json!({ "code": "timeout", "message": message });
            json!({ "type": "done", "id": "1", "ok": false, "durationMs": 0, "logs": [], "error": error })
        };
        assert_eq!(verdict(&failed(&json!("slow")), &failed(&json!("too late"))), "");
        assert_eq!(verdict(&failed(&json!("slow")), &failed(&json!(5))), "`error.message`: expected a string, got 5");
        assert_ne!(verdict(&failed(&json!({ "$contains": "slow" })), &failed(&json!("too late"))), "");

        let call = |id: &str| json!({ "type": "tool_call", "callId": id, "providerName": "p", "safeToolName": "t" });
        assert_eq!(verdict(&call("call-1"), &call("f6a1")), "");
    }

    #[test]
    fn fields_outside_of_the_specification_are_ignored() {
        let mut message = done(&json!(1));
        message["memoryUsedBytes"] = json!(1);
        assert_eq!(verdict(&done(&json!(1)), &message), "");
        message["error"] = json!(null);
        assert_eq!(verdict(&done(&json!(1)), &message), "`error`: expected to be absent, got null");
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        let error = |result: &Json| expected(&done(result)).unwrap_err().to_string();
        assert!(error(&json!("$sting")).starts_with("unknown matcher \"$sting\": expected \"$any\", \"$string\""));
        assert!(error(&json!({ "$legnth": 1 })).starts_with("unknown matcher \"$legnth\""));
        assert_eq!(error(&json!({ "$min": 1, "a": 2 })), "matcher \"$min\" must be the only field of its object");
        assert_eq!(error(&json!({ "$length": "1" })), "invalid operand of \"$length\": expected a whole number");
        assert_eq!(
            expected(&json!({ "type": "cancel" })).unwrap_err().to_string(),
            "unknown message \"cancel\": expected `started`, `tool_call`, `log` or `done`"
        );
    }
}
