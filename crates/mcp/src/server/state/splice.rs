//! A program together with the snippets that it names.
//!
//! The snippets become functions of the program, so that its limits, its tools and its permissions are theirs, and a snippet
//! that calls itself ends as any function does. The program stays on its lines:
//!
//! ```text
//! const snippets={__proto__:globalThis.snippets,total:$snippet1_total};return(async()=>{ the first line of the program
//! the other lines
//! })();
//! async function $snippet1_total(input){
//! the lines of the snippet
//! }
//! ```
//!
//! Program and snippets are compiled each on its own before, so that none is part of another one by mistake. The functions do
//! not see the variables of the program. [`Spliced::locate`] names the snippet where an error has a position in one.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use execbox::{ExecuteResult, Limits};
use execbox_core::error::{SCRIPT_NAME, StackFrame};
use execbox_core::language::{Code, Position};
use serde_json::Value as Json;

use super::Checker;
use super::snippets::{Library, MAX_COMPILE_TIME, NAMESPACE, Snippets};
use crate::text::{is_in_name, words};

/// A program with snippets.
pub(in super::super) struct Spliced {
    /// The whole program.
    pub(in super::super) text: String,
    /// What is where in it, by line.
    parts: Vec<Part>,
    /// What the names of the functions begin with.
    mark: String,
}

/// The program, or a snippet.
struct Part {
    /// `None` is the program.
    snippet: Option<String>,
    code: Code,
    /// Its first line in the text, and how many lines its source has.
    first: u32,
    lines: u32,
    /// The columns of the first line that are not part of it.
    indent: u32,
}

/// A program and the snippets that it names, before the engine has compiled them.
pub(in super::super) struct Draft {
    source: String,
    code: Code,
    named: Named,
    checker: Arc<Checker>,
}

/// The program `source` and the snippets that it names; `None` if it names none or is invalid. May block.
///
/// A snippet that cannot be read or compiled throws the reason when it is called.
pub(in super::super) fn draft(source: &str, snippets: &Snippets, library: &Library, limits: &Limits) -> Option<Draft> {
    if library.is_empty() || !source.contains(NAMESPACE) {
        return None;
    }
    let until = Instant::now() + MAX_COMPILE_TIME.min(limits.timeout);
    let named = named(source, snippets, library, until);
    if named.is_empty() {
        return None;
    }
    // The executor reports what is wrong with an invalid program.
    let code = snippets.compile_program(source, limits, until).ok()?;
    Some(Draft { source: source.to_owned(), code, named, checker: Arc::clone(snippets.checker()) })
}

impl Draft {
    /// Replaces snippets that the engine rejects, for at most [`MAX_COMPILE_TIME`]: one that was saved by an earlier version or by
    /// somebody else would break the program.
    pub(in super::super) async fn check(&mut self) {
        let checking = async {
            for (name, (source, code)) in &mut self.named {
                if let Err(reason) = self.checker.check(source, code).await {
                    (*source, *code) = (String::new(), throwing(name, &reason));
                }
            }
        };
        let _ = tokio::time::timeout(MAX_COMPILE_TIME, checking).await;
    }

    pub(in super::super) fn splice(self) -> Spliced {
        Spliced::new(&self.source, self.code, self.named)
    }
}

/// A snippet to add: its source and its code.
type Named = BTreeMap<String, (String, Code)>;

/// The snippets that the program names, and those that these name.
fn named(source: &str, snippets: &Snippets, library: &Library, until: Instant) -> Named {
    let mut found = Named::new();
    let mut unread = vec![Arc::<str>::from(source)];
    while let Some(text) = unread.pop() {
        for name in names_in(&text).into_iter().filter(|name| library.has(name)) {
            if found.contains_key(name) {
                continue;
            }
            let read = snippets.read(name).map_err(|error| error.to_string());
            let read = read.and_then(|snippet| snippet.ok_or_else(|| "it was deleted".to_owned()));
            let compiled = read.and_then(|snippet| Ok((snippets.compile(&snippet.code, until)?, snippet.code)));
            let (code, source) = compiled.unwrap_or_else(|reason| (throwing(name, &reason), String::new()));
            if source.contains(NAMESPACE) {
                unread.push(source.as_str().into());
            }
            found.insert(name.to_owned(), (source, code));
        }
    }
    found
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

/// The name of the member at the beginning of what follows an object.
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

/// The code of a snippet that cannot be used.
fn throwing(name: &str, reason: &str) -> Code {
    let message = Json::String(format!("{NAMESPACE}.{name} cannot be used: {reason}"));
    format!("throw new Error({message})").into()
}

impl Spliced {
    /// A program that does nothing, with a snippet.
    pub(super) fn uncalled(source: &str, code: &Code) -> Self {
        let named = Named::from([("snippet".to_owned(), (source.to_owned(), code.clone()))]);
        Self::new("return", Code::from("return"), named)
    }

    fn new(source: &str, code: Code, named: Named) -> Self {
        let mark = unused_mark(named.values().map(|(_, code)| &*code.text).chain([&*code.text]));
        let mut head = format!("const {NAMESPACE}={{__proto__:globalThis.{NAMESPACE}");
        for name in named.keys() {
            let _ = write!(head, ",{name}:{mark}{name}");
        }
        head += "};return(async()=>{";
        let indent = u32::try_from(head.len()).unwrap_or(u32::MAX);
        let mut text = head + &code.text;
        text += "\n})();";
        let mut parts = vec![Part::new(None, source, code, 1, indent)];
        let mut line = line_count(&text);
        for (name, (source, code)) in named {
            let _ = write!(text, "\nasync function {mark}{name}(input){{\n{}\n}}", code.text);
            let next = line.saturating_add(2 + line_count(&code.text));
            parts.push(Part::new(Some(name), &source, code, line.saturating_add(2), 0));
            line = next;
        }
        Self { text, parts, mark }
    }

    /// Replaces positions in the whole program by those in the source of the program or of a snippet.
    pub(in super::super) fn locate(&self, result: &mut ExecuteResult) {
        let Err(error) = &mut result.outcome else { return };
        if error.stack.is_empty() {
            let found = error.position.and_then(|at| self.part(at));
            error.position = found.filter(|(part, _)| part.snippet.is_none()).map(|(_, at)| at);
            if let Some((Part { snippet: Some(name), .. }, at)) = found {
                error.message = format!("{NAMESPACE}.{name} (line {}): {}", at.line, error.message);
            }
            return;
        }
        error.stack = std::mem::take(&mut error.stack).into_iter().filter_map(|frame| self.frame(frame)).collect();
        error.position = error.stack.iter().find(|frame| frame.file == SCRIPT_NAME).map(StackFrame::position);
    }

    /// The frame in the part that it is in; `None` if it is in what stands around the parts.
    fn frame(&self, frame: StackFrame) -> Option<StackFrame> {
        if frame.file != SCRIPT_NAME {
            return Some(frame);
        }
        let (part, at) = self.part(frame.position())?;
        let function = frame.function.filter(|name| !name.starts_with(&self.mark));
        Some(StackFrame { function, file: part.file(), line: at.line, column: at.column })
    }

    /// The part at a position, and the position in its source.
    fn part(&self, at: Position) -> Option<(&Part, Position)> {
        let part = self.parts.iter().find(|part| (part.first..part.first + part.lines).contains(&at.line))?;
        let line = at.line - part.first + 1;
        let column =
            if line == 1 { at.column.checked_sub(part.indent).filter(|&column| column > 0)? } else { at.column };
        Some((part, part.code.source_position(Position { line, column })))
    }
}

impl Part {
    fn new(snippet: Option<String>, source: &str, code: Code, first: u32, indent: u32) -> Self {
        Self { snippet, code, first, lines: line_count(source), indent }
    }

    /// The name of the file in stacks.
    fn file(&self) -> String {
        self.snippet.as_ref().map_or_else(|| SCRIPT_NAME.to_owned(), |name| format!("{NAMESPACE}.{name}"))
    }
}

/// What no name in `texts` begins with: `$snippet1_`.
fn unused_mark<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let name = "$snippet";
    let number = |(at, text): (usize, &'a str)| {
        let rest = &text[at + name.len()..];
        &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())]
    };
    let used: HashSet<&str> =
        texts.flat_map(|text| text.match_indices(name).map(move |(at, _)| number((at, text)))).collect();
    let mut free = 1_u64;
    while used.contains(&*free.to_string()) {
        free += 1;
    }
    format!("{name}{free}_")
}

/// The number of lines of a text, as ECMAScript counts them.
fn line_count(text: &str) -> u32 {
    let ends = |c: char| matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}');
    let ends = text.matches(ends).count() - text.matches("\r\n").count();
    u32::try_from(ends).unwrap_or(u32::MAX).saturating_add(1)
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
