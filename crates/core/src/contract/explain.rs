//! Explains uncaught errors: which value is not a function, and what the guest code should use instead.
//!
//! An engine reports a [`NativeError`] and a position. The source at that position shows what was called or read, and the
//! [`AvailableNames`] say what it could have been. The message changes only where source and error agree, so that an error
//! that guest code throws keeps its message. Source and message are untrusted: at most [`WINDOW`] bytes of source on
//! either side of the position are read.

use std::fmt;

use crate::cause::{Cause, MemberPath};
use crate::contract::answers::{self, Answer};
use crate::engine::{NativeError, Thrown};
use crate::hint::{near, same_words};
use crate::language::Position;
use crate::names::{is_identifier, is_identifier_part};

/// The most bytes of source that are read before the position, and after it.
const WINDOW: usize = 512;

/// The most names that a message lists.
const MAX_NAMES: usize = 20;

/// Globals of other platforms that authors of scripts may expect and the sandbox does not have.
#[rustfmt::skip]
pub(crate) const HOST_NAMES: &[&str] = &[
    "setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "fetch", "require", "process", "global",
    "window", "self", "document", "Buffer", "Deno", "Bun", "URL", "URLSearchParams", "Request", "Response", "Headers",
    "FormData", "Blob", "WebSocket", "XMLHttpRequest", "WebAssembly", "crypto", "performance", "atob", "btoa", "TextEncoder",
    "TextDecoder", "AbortController", "AbortSignal", "Intl", "eval", "SharedArrayBuffer", "Atomics", "navigator",
    "localStorage", "alert", "module", "exports", "__dirname", "__filename", "fs", "path",
];

/// The [`HOST_NAMES`] of timers.
const TIMERS: [&str; 5] = ["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval"];

/// The names that a program can use.
#[derive(Debug, Default)]
pub(crate) struct AvailableNames<'a> {
    /// Objects whose members are functions, with the names of these functions.
    pub(crate) namespaces: Vec<(&'a str, Vec<&'a str>)>,
    /// Other globals.
    pub(crate) names: Vec<&'a str>,
    /// The last answers of tools.
    pub(crate) answers: Vec<Answer>,
    /// The program can have imports.
    pub(crate) imports: bool,
}

/// What is known of an uncaught error.
pub(crate) struct Explained {
    pub(crate) message: String,
    pub(crate) cause: Option<Cause>,
}

/// Explains an uncaught error whose innermost frame is at `at` in `source`.
pub(crate) fn explain(thrown: &Thrown, source: &str, at: Position, given: &AvailableNames<'_>) -> Explained {
    let message = thrown.message.as_str();
    let window = window(source, at);
    let (explained, cause) = match &thrown.native {
        None => (None, None),
        Some(NativeError::NotAFunction) => {
            let path = window.and_then(|window| window.callee());
            let explained = path.as_ref().and_then(|path| given.not_a_function(path, source));
            // An error that guest code throws is also at something that looks like a callee: `TypeError('not a function')`.
            let cause = explained.as_ref().map(|_| Cause::NotAFunction { path: member_path(path.as_ref()) });
            (explained, cause)
        }
        Some(NativeError::NotDefined(name)) => {
            let explained = match HOST_NAMES.contains(&name.as_str()) {
                true => Some(given.not_here(name)),
                false => window.and_then(|window| given.not_defined(&window, message, name)),
            };
            (explained, Some(Cause::not_defined(name)))
        }
        Some(NativeError::PropertyOfNothing) => {
            let path = window.and_then(|window| window.member());
            let explained = path.as_ref().and_then(|path| given.property_of_nothing(path, source, message));
            (explained, Some(Cause::PropertyOfNothing { path: member_path(path.as_ref()) }))
        }
    };
    Explained { message: explained.unwrap_or_else(|| message.to_owned()), cause }
}

/// The path as data; empty where it is not known, or a member is computed.
fn member_path(path: Option<&Path<'_>>) -> MemberPath {
    let names = path.filter(|path| path.base != NAMELESS).and_then(|path| {
        let keys = path.keys()?;
        Some(MemberPath::new(&[&[path.base], &*keys].concat()))
    });
    names.unwrap_or_default()
}

impl AvailableNames<'_> {
    fn not_a_function(&self, path: &Path<'_>, source: &str) -> Option<String> {
        if path.base == "TypeError" {
            return None;
        }
        let hint = self.namespace(path.base).and_then(|(name, functions)| match path.keys() {
            Some(keys) if keys.is_empty() => Some(list(name, functions)),
            Some(keys) if functions.contains(&keys[0]) => {
                (keys.len() > 1).then(|| format!("; {name}.{} is a tool itself: call {name}.{}(…)", keys[0], keys[0]))
            }
            Some(keys) => Some(suggest(name, functions, &keys)),
            None => Some(list(name, functions)),
        });
        let hint = hint.or_else(|| self.answered(path, source));
        Some(format!("{path} is not a function{}", hint.unwrap_or_default()))
    }

    /// The message for `shop.orders.list()`, where `shop.orders` is not defined.
    fn property_of_nothing(&self, path: &Path<'_>, source: &str, message: &str) -> Option<String> {
        let Some((name, functions)) = self.namespace(path.base) else {
            return self.answered(path, source).map(|hint| format!("{message}{hint}"));
        };
        let keys = path.keys().filter(|keys| !keys.is_empty() && !functions.contains(&keys[0]))?;
        Some(format!("{message}; {} is not a tool{}", path.first(), suggest(name, functions, &keys)))
    }

    /// What the tool answered whose answer is read in `res.items.map(…)`, if that has no member `items`.
    fn answered(&self, path: &Path<'_>, source: &str) -> Option<String> {
        let (Member::Name(member) | Member::Key(member)) = path.members.first()? else { return None };
        answers::hint(&self.answers, source, path.base, member)
    }

    fn not_defined(&self, window: &Window<'_>, message: &str, name: &str) -> Option<String> {
        let window = window.at_name(name)?;
        let path = window.member().filter(|path| path.base == name)?;
        let namespaces = || self.namespaces.iter().map(|(name, _)| *name);
        let hint = match near(path.base, namespaces().chain(self.names.iter().copied())) {
            Some(near) => format!("; did you mean {near}?"),
            None if self.namespaces.is_empty() => return None,
            None if window.is_followed_by('.') || window.is_followed_by('[') => {
                format!("; available: {}", first_names(namespaces()))
            }
            None if window.is_followed_by('(') => self.example()?,
            None => return None,
        };
        Some(format!("{message}{hint}"))
    }

    /// How to call a tool, for `callTool("shop.list_orders", {})`.
    fn example(&self) -> Option<String> {
        let (name, function) = self.namespaces.iter().find_map(|(name, functions)| Some((name, functions.first()?)))?;
        let namespaces = first_names(self.namespaces.iter().map(|(name, _)| *name));
        Some(format!("; to call a tool, write {name}.{function}(…); available: {namespaces}"))
    }

    /// The message for a missing global of another platform.
    fn not_here(&self, name: &str) -> String {
        if TIMERS.contains(&name) {
            return format!(
                "{name} is not available in this sandbox, which has no timers: call tools one after another, with `await`"
            );
        }
        let mut text = format!("{name} is not available in this sandbox, which has the ECMAScript built-ins");
        if self.imports {
            return text + " and what the program imports";
        }
        let names = self.names.iter().copied().chain(self.namespaces.iter().map(|(name, _)| *name));
        names.for_each(|name| text.extend([", ", name]));
        text
    }

    fn namespace(&self, name: &str) -> Option<(&str, &[&str])> {
        let (name, functions) = self.namespaces.iter().find(|(namespace, _)| *namespace == name)?;
        Some((name, functions))
    }
}

/// The function of a namespace that a path probably means, and a list of its functions.
fn suggest(name: &str, functions: &[&str], path: &[&str]) -> String {
    let known = || functions.iter().copied();
    let path = path.join("_");
    match near(&path, known()).or_else(|| same_words(&path, known())) {
        Some(near) => format!("; did you mean {name}.{near}? {}", list(name, functions).trim_start_matches("; ")),
        None => list(name, functions),
    }
}

fn list(name: &str, functions: &[&str]) -> String {
    match functions {
        [] => format!("; {name} has no tools"),
        _ => format!("; {name} has {}", first_names(functions.iter().copied())),
    }
}

fn first_names<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let first: Vec<&str> = names.by_ref().take(MAX_NAMES).collect();
    format!("{}{}", first.join(", "), if names.next().is_some() { ", …" } else { "" })
}

// ---- Reading the source -------------------------------------------------------------------------

/// The source around a position.
struct Window<'a> {
    text: &'a str,
    /// The position as an offset in `text`, in bytes.
    place: usize,
}

fn window(source: &str, at: Position) -> Option<Window<'_>> {
    let place = offset(source, at)?;
    let start = source.ceil_char_boundary(place.saturating_sub(WINDOW));
    let end = source.floor_char_boundary(place.saturating_add(WINDOW));
    Some(Window { text: &source[start..end], place: place - start })
}

/// The byte offset of a position; the end of its line if the line is shorter. Line terminators are those of ECMAScript.
fn offset(source: &str, at: Position) -> Option<usize> {
    let mut start = 0;
    for _ in 1..at.line {
        let rest = &source[start..];
        let end = rest.find(['\n', '\r', '\u{2028}', '\u{2029}'])?;
        let crlf = rest[end..].starts_with("\r\n");
        start += end + if crlf { 2 } else { rest[end..].chars().next()?.len_utf8() };
    }
    let mut units = at.column.checked_sub(1)? as usize;
    let line = source[start..].char_indices();
    let place = line.take_while(|(_, c)| !matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')).find_map(|(byte, c)| {
        let left = units.checked_sub(c.len_utf16());
        units = left.unwrap_or(units);
        left.is_none().then_some(byte)
    });
    let line_end =
        || source[start..].find(['\n', '\r', '\u{2028}', '\u{2029}']).map_or(source.len(), |end| start + end);
    (at.line > 0).then(|| place.map_or_else(line_end, |byte| start + byte))
}

/// A name and its members, as in `shop["list-orders"]`.
#[derive(Debug, PartialEq)]
struct Path<'a> {
    base: &'a str,
    members: Vec<Member<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Member<'a> {
    /// `.name`
    Name(&'a str),
    /// `["key"]`
    Key(&'a str),
    /// `[expression]`
    Computed(&'a str),
}

/// Replaces a base that is not a name, as in `f().x`.
const NAMELESS: &str = "(intermediate value)";

impl<'a> Path<'a> {
    /// The members' names; `None` where one is computed.
    fn keys(&self) -> Option<Vec<&'a str>> {
        let key = |member: &Member<'a>| match member {
            Member::Name(key) | Member::Key(key) => Some(*key),
            Member::Computed(_) => None,
        };
        self.members.iter().map(key).collect()
    }

    /// The base and its first member.
    fn first(&self) -> Self {
        Self { base: self.base, members: self.members.iter().take(1).copied().collect() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base)?;
        self.members.iter().try_for_each(|member| match member {
            Member::Name(name) => write!(f, ".{name}"),
            Member::Key(key) => write!(f, "[{key:?}]"),
            Member::Computed(text) => write!(f, "[{text}]"),
        })
    }
}

impl<'a> Window<'a> {
    /// The callee at the place. The place can be in the callee or among its arguments.
    fn callee(&self) -> Option<Path<'a>> {
        let end = self.call_from(self.place).or_else(|| self.call_around(self.place))?;
        let path = self.path_to(end)?;
        // After `new`, the error is that the value is not a constructor: another cause.
        let before = self.text[..path.1].trim_end();
        let is_new = before.strip_suffix("new").is_some_and(|rest| !rest.ends_with(is_identifier_part));
        (!is_new).then_some(path.0)
    }

    /// The path that is read at the place, up to the member there.
    fn member(&self) -> Option<Path<'a>> {
        let rest = &self.text[self.place..];
        let end = self.place + rest.find(|c| !is_identifier_part(c)).unwrap_or(rest.len());
        Some(self.path_to(end)?.0)
    }

    /// The window at a name: at the place, or where the name is next read. Some engines give the place of the statement.
    fn at_name(&self, name: &str) -> Option<Self> {
        if self.member().is_some_and(|path| path.base == name) {
            return Some(Self { ..*self });
        }
        let rest = &self.text[self.place..];
        let is_name = |at: &usize| {
            let (before, after) = (&rest[..*at], &rest[at + name.len()..]);
            !before.ends_with(|c| is_identifier_part(c) || matches!(c, '.' | '\'' | '"' | '`'))
                && !after.starts_with(is_identifier_part)
        };
        let at = rest.match_indices(name).map(|(at, _)| at).find(is_name)?;
        Some(Self { text: self.text, place: self.place + at })
    }

    fn is_followed_by(&self, character: char) -> bool {
        self.text[self.place..].trim_start_matches(is_identifier_part).starts_with(character)
    }

    /// The end of the callee, if there are only names and members between `at` and the parenthesis of the call.
    fn call_from(&self, at: usize) -> Option<usize> {
        let mut rest = &self.text[at..];
        let mut end = at;
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix("?.").or_else(|| rest.strip_prefix('.')) {
                rest = after;
                continue;
            }
            match rest.chars().next()? {
                '(' | '`' => return Some(end),
                '[' => rest = &rest[rest.find(']')?..],
                ']' => rest = &rest[1..],
                quote @ ('\'' | '"') => rest = &rest[1 + rest[1..].find(quote)? + 1..],
                c if is_identifier_part(c) => rest = rest.trim_start_matches(is_identifier_part),
                _ => return None,
            }
            end = self.text.len() - rest.len();
        }
    }

    /// The end of the callee whose arguments contain `at`.
    fn call_around(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (i, c) in self.text[..at].char_indices().rev() {
            match c {
                ')' | ']' | '}' => depth += 1,
                '(' if depth == 0 => return Some(i),
                '[' | '{' | '(' => depth = depth.saturating_sub(1),
                ';' => return None,
                _ => {}
            }
        }
        None
    }

    /// The path that ends at `end`, and its start.
    fn path_to(&self, end: usize) -> Option<(Path<'a>, usize)> {
        let mut rest = self.text[..end].trim_end();
        let mut members = Vec::new();
        let base = loop {
            rest = rest.trim_end();
            rest = rest.strip_suffix("?.").unwrap_or(rest).trim_end(); // of `?.[…]` and `?.(…)`
            if let Some(inner) = rest.strip_suffix(']') {
                let (member, before) = computed(inner)?;
                members.push(member);
                rest = before;
                continue;
            }
            let name = &rest[rest.trim_end_matches(is_identifier_part).len()..];
            if name.is_empty() {
                break if members.is_empty() { return None } else { NAMELESS };
            }
            rest = rest[..rest.len() - name.len()].trim_end();
            match rest.strip_suffix('.') {
                Some(before) if !before.ends_with('.') => {
                    members.push(Member::Name(name));
                    rest = before.strip_suffix('?').unwrap_or(before);
                }
                _ if name == "this" || is_identifier(name) => break name,
                _ => return None,
            }
        };
        members.reverse();
        Some((Path { base, members }, rest.len()))
    }
}

/// The member in brackets; `text` ends before the closing one. Also returns the text before the opening one.
fn computed(text: &str) -> Option<(Member<'_>, &str)> {
    let text = text.trim_end();
    if let Some(quote) = text.chars().next_back().filter(|c| matches!(c, '\'' | '"' | '`')) {
        let inner = &text[..text.len() - 1];
        let start = inner.rfind(quote)?;
        let key = &inner[start + 1..];
        let before = inner[..start].trim_end().strip_suffix('[')?;
        return (!key.contains(['\\', '\n']) && !key.contains("${")).then_some((Member::Key(key), before));
    }
    let (before, inner) = text.rsplit_once('[')?;
    let inner = inner.trim_start();
    let is_plain =
        inner.chars().all(|c| is_identifier_part(c) || matches!(c, '.' | '\'' | '"' | '`')) && !inner.is_empty();
    is_plain.then_some((Member::Computed(inner), before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The callee at a column of the first line.
    fn callee(source: &str, column: usize) -> Option<String> {
        let at = Position { line: 1, column: u32::try_from(column).unwrap() };
        Some(window(source, at)?.callee()?.to_string())
    }

    fn explained(native: NativeError, message: &str, source: &str, column: u32) -> String {
        let given = AvailableNames {
            namespaces: vec![("shop", vec!["get_order", "list_orders"]), ("empty", vec![])],
            names: vec!["console", "input"],
            answers: Vec::new(),
            imports: false,
        };
        let thrown = Thrown { message: message.into(), native: Some(native), ..Thrown::default() };
        explain(&thrown, source, Position { line: 1, column }, &given).message
    }

    #[test]
    fn a_missing_name_is_found_from_the_beginning_of_its_statement() {
        let at = |column| {
            explained(NativeError::NotDefined("shp".into()), "shp is not defined", "await shop.shp(shp.get(1))", column)
        };
        assert_eq!(at(1), "shp is not defined; did you mean shop?");
        assert_eq!(at(16), "shp is not defined; did you mean shop?");
    }

    #[test]
    fn a_global_of_another_platform_is_answered_with_what_there_is() {
        assert_eq!(HOST_NAMES.len(), 46);
        for name in HOST_NAMES {
            let message = format!("{name} is not defined");
            let here = "is not available in this sandbox, which has the ECMAScript built-ins";
            let not_defined = NativeError::NotDefined((*name).to_owned());
            let in_script = explained(not_defined.clone(), &message, "", 1);
            if TIMERS.contains(name) {
                assert!(in_script.contains("no timers"), "{in_script}");
                continue;
            }
            assert_eq!(in_script, format!("{name} {here}, console, input, shop, empty"));
            let thrown = Thrown { message, native: Some(not_defined), ..Thrown::default() };
            let given = AvailableNames { imports: true, ..AvailableNames::default() };
            let in_module = explain(&thrown, "", Position { line: 1, column: 1 }, &given);
            assert_eq!(in_module.message, format!("{name} {here} and what the program imports"));
            assert_eq!(in_module.cause, Some(Cause::NotDefined { name: (*name).to_owned() }));
        }
    }

    #[test]
    fn the_callee_is_found_from_any_position_in_a_call() {
        let source = "await shop['list-orders']({ status: x })";
        for place in ["shop", "op[", "['", "'list", "](", "({", "{ status", "x }", "})"] {
            let column = source.find(place).unwrap() + 1;
            assert_eq!(callee(source, column).as_deref(), Some("shop[\"list-orders\"]"), "at {place}");
        }
        let source = "const r = await tools.nope({ é: f('x') });";
        for (column, expected) in [(17, "tools.nope"), (23, "tools.nope"), (28, "tools.nope"), (33, "f"), (35, "f")] {
            assert_eq!(callee(source, column).as_deref(), Some(expected), "column {column}");
        }
    }

    #[test]
    fn callees_are_printed_as_written() {
        for (source, column, expected) in [
            ("a ?. b ?. ( )", 1, Some("a.b")),
            ("a?.['b']()", 1, Some("a[\"b\"]")),
            ("a[0][i].x`t`", 1, Some("a[0][i].x")),
            ("this.x()", 6, Some("this.x")),
            ("f().x()", 5, Some("(intermediate value).x")),
            ("größe.ändern()", 7, Some("größe.ändern")),
            ("(() => 1)()()", 12, None),
            ("a[b + c]()", 1, None),
            ("new Shop()", 5, None),
            ("x = 1;", 1, None),
            ("if (x) y;", 5, None),
            ("", 1, None),
            ("x", 9, None),
        ] {
            assert_eq!(callee(source, column).as_deref(), expected, "{source}");
        }
        let window = |source, line, column| window(source, Position { line, column });
        assert_eq!(window("a\r\n  .b\u{2028}  .c()", 3, 4).unwrap().callee().unwrap().to_string(), "a.b.c");
        for (line, column) in [(0, 0), (0, 1), (1, 0), (9, 9), (u32::MAX, u32::MAX)] {
            assert!(window("x()", line, column).is_none(), "{line}:{column}");
        }
    }

    #[test]
    fn an_unknown_tool_suggests_and_lists_the_known_ones() {
        let has = "shop has get_order, list_orders";
        for (source, column, expected) in [
            (
                "shop['list-orders']()",
                1,
                format!("shop[\"list-orders\"] is not a function; did you mean shop.list_orders? {has}"),
            ),
            (
                "shop.listOrders()",
                6,
                format!("shop.listOrders is not a function; did you mean shop.list_orders? {has}"),
            ),
            (
                "shop.ordersList()",
                6,
                format!("shop.ordersList is not a function; did you mean shop.list_orders? {has}"),
            ),
            ("shop.refund()", 6, format!("shop.refund is not a function; {has}")),
            ("shop[name]()", 6, format!("shop[name] is not a function; {has}")),
            ("shop()", 1, format!("shop is not a function; {has}")),
            ("empty.x()", 7, "empty.x is not a function; empty has no tools".to_owned()),
            (
                "shop.get_order.byId()",
                16,
                "shop.get_order.byId is not a function; shop.get_order is a tool itself: call shop.get_order(…)"
                    .to_owned(),
            ),
            ("other.x()", 7, "other.x is not a function".to_owned()),
            ("throw TypeError('')", 7, "not a function".to_owned()),
            ("throw new TypeError('')", 11, "not a function".to_owned()),
        ] {
            assert_eq!(explained(NativeError::NotAFunction, "not a function", source, column), expected);
        }
        let cannot_read = "cannot read property 'list' of undefined";
        assert_eq!(
            explained(NativeError::PropertyOfNothing, cannot_read, "shop.orders.list()", 13),
            format!("{cannot_read}; shop.orders is not a tool; did you mean shop.list_orders? {has}")
        );
        assert_eq!(explained(NativeError::PropertyOfNothing, cannot_read, "a.orders.list()", 10), cannot_read);
    }

    #[test]
    fn an_undefined_name_suggests_a_similar_one() {
        let not_defined = |name: &str, source, column| {
            explained(NativeError::NotDefined(name.to_owned()), &format!("{name} is not defined"), source, column)
        };
        let shopp = |source, column| not_defined("shopp", source, column);
        assert_eq!(shopp("shopp.list()", 1), "shopp is not defined; did you mean shop?");
        assert_eq!(shopp("x = shopp", 5), "shopp is not defined; did you mean shop?");
        assert_eq!(shopp("throw ReferenceError('shopp is not defined')", 7), "shopp is not defined");
        let database = |source| not_defined("database", source, 1);
        assert_eq!(database("database.query()"), "database is not defined; available: shop, empty");
        assert_eq!(database("database"), "database is not defined");
        let available = "to call a tool, write shop.get_order(…); available: shop, empty";
        assert_eq!(
            not_defined("callTool", "callTool('shop.get', {})", 1),
            format!("callTool is not defined; {available}")
        );
    }

    #[test]
    fn only_a_window_of_the_source_is_read() {
        for source in ["(".repeat(1 << 20), "a.".repeat(1 << 20), "a[".repeat(1 << 20), "é".repeat(1 << 20)] {
            for column in [1, 1 << 19, 1 << 20] {
                assert!(callee(&source, column).is_none_or(|callee| callee.len() <= 4 * WINDOW));
            }
        }
    }
}
