//! Values as text: JSON where possible, as in `execbox run`, otherwise JavaScript expressions, and brackets where there is no
//! literal.
//!
//! An object that is referenced again is marked: `<ref *1> {…}` at its first occurrence, `<ref *1>` at the others. A text is
//! therefore never longer than its value. Bytes, and values beyond the nesting limit of JSON, are cut; `--json` prints them in
//! full.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::ops::AddAssign;
use std::time::{Duration, UNIX_EPOCH};

use execbox::code::{Datum, Graph, Node, Primitive};
use execbox_core::value::{ErrorNode, MAX_JSON_DEPTH, NodeId, TimeValue, ViewKind};
use serde_json::Number;

use crate::output::terminal::safe_line;

/// The maximum number of elements of bytes and typed arrays that are printed.
const MAX_ELEMENTS: usize = 100;

/// 2^53: above it, not every integer is a number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The last millisecond of the year 9999.
const LAST_YEAR: u64 = 253_402_300_799_999;

/// Writes a value on several lines.
pub(super) fn write_block(graph: &Graph, value: &Datum, to: &mut dyn io::Write) -> io::Result<()> {
    Printer::new(graph, true).print(value, to)
}

/// Writes a value on one line.
pub(super) fn write_line(graph: &Graph, value: &Datum, to: &mut dyn io::Write) -> io::Result<()> {
    Printer::new(graph, false).print(value, to)
}

/// A value on one line.
pub(super) fn line(graph: &Graph, value: &Datum) -> String {
    let mut text = Vec::new();
    let _ = write_line(graph, value, &mut text); // memory takes every write
    String::from_utf8(text).unwrap_or_default()
}

/// Prints a value. Recursion is limited to [`MAX_JSON_DEPTH`] levels. Each value is printed twice: the first time, without
/// output, finds the objects that occur again.
struct Printer<'g> {
    graph: &'g Graph,
    is_block: bool,
    depth: usize,
    /// The numbers of the objects that have begun, in the order of their beginnings.
    begun: HashMap<NodeId, usize>,
    /// The objects that occur again, by those numbers.
    repeated: HashSet<NodeId>,
    marks: HashMap<NodeId, usize>,
    text: Text<'g>,
}

/// The destination of the text.
struct Text<'w> {
    /// `None` the first time, when no text is kept.
    to: Option<&'w mut dyn io::Write>,
    /// The result of writing: the first error.
    written: io::Result<()>,
}

impl io::Write for Text<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if let (Some(to), Ok(())) = (&mut self.to, &self.written) {
            self.written = to.write_all(text);
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AddAssign<&str> for Text<'_> {
    fn add_assign(&mut self, text: &str) {
        let _ = self.write_all(text.as_bytes());
    }
}

impl<'g> Printer<'g> {
    fn new(graph: &'g Graph, is_block: bool) -> Self {
        let (begun, repeated, marks) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { graph, is_block, depth: 0, begun, repeated, marks, text: Text { to: None, written: Ok(()) } }
    }

    fn print(mut self, value: &'g Datum, to: &'g mut dyn io::Write) -> io::Result<()> {
        self.datum(value);
        let mut repeated: Vec<NodeId> = self.repeated.drain().collect();
        repeated.sort_unstable_by_key(|id| self.begun[id]);
        self.marks = repeated.into_iter().zip(1..).collect();
        self.begun.clear();
        self.text.to = Some(to);
        self.datum(value);
        self.text.written
    }

    fn datum(&mut self, datum: &'g Datum) {
        match datum {
            Datum::Undefined => self.text += "undefined",
            Datum::Null => self.text += "null",
            Datum::Primitive(value) => self.primitive(value),
            Datum::Node(id) => self.object(*id),
        }
    }

    fn primitive(&mut self, value: &Primitive) {
        if self.text.to.is_none() {
            return;
        }
        match value {
            Primitive::Bool(value) => self.text += if *value { "true" } else { "false" },
            Primitive::Number(value) => self.text += &number(*value),
            Primitive::BigInt(value) => {
                let _ = write!(self.text, "{value}n");
            }
            Primitive::String(text) => self.string(text),
        }
    }

    fn string(&mut self, text: &str) {
        if self.text.to.is_none() {
            return;
        }
        let _ = serde_json::to_writer(&mut self.text, text);
    }

    fn object(&mut self, id: NodeId) {
        let graph: &'g Graph = self.graph;
        let Some(node) = graph.get(id) else { return };
        let has_begun = self.begun.contains_key(&id);
        if has_begun {
            self.repeated.insert(id);
        } else if self.depth == MAX_JSON_DEPTH {
            self.text += "…";
            return;
        }
        if let Some(mark) = self.marks.get(&id) {
            let _ = write!(self.text, "<ref *{mark}>{}", if has_begun { "" } else { " " });
        }
        if !has_begun {
            self.begun.insert(id, self.begun.len());
            self.node(node, id);
        }
    }

    fn node(&mut self, node: &'g Node, id: NodeId) {
        match node {
            Node::Array(items) => self.list("[", items, "]", Self::datum),
            Node::Object(members) => self.list("{", members, "}", Self::member),
            Node::Set(items) => self.list("new Set([", items, "])", Self::datum),
            Node::Map(entries) => self.list("new Map([", entries, "])", Self::entry),
            Node::SparseArray(len, members) => {
                let opening = format!("Object.assign(new Array({len}), {{");
                self.list(&opening, members, "})", Self::member);
            }
            Node::Date(time) => self.text += &date(*time),
            Node::RegExp { source, flags } => {
                let _ = write!(self.text, "/{}/{}", safe_line(source), safe_line(flags));
            }
            Node::Error(error) => self.error(error),
            Node::Buffer { bytes, .. } => self.buffer("ArrayBuffer", bytes),
            Node::View { kind, .. } => {
                let bytes = self.graph.bytes_of(&Datum::Node(id)).unwrap_or_default();
                self.view(*kind, bytes);
            }
            Node::Boxed(primitive) => {
                self.text += "Object(";
                self.primitive(primitive);
                self.text += ")";
            }
            Node::Function(function) => {
                let _ = write!(self.text, "[function {}]", safe_line(&function.name));
            }
            Node::Promise(_) => self.text += "[promise]",
        }
    }

    /// The members of an object, one per line in a block.
    fn list<T>(&mut self, opening: &str, parts: &'g [T], closing: &str, part: fn(&mut Self, &'g T)) {
        self.text += opening;
        self.depth += 1;
        for (number, one) in parts.iter().enumerate() {
            if number > 0 {
                self.text += ",";
            }
            self.next_line();
            part(self, one);
        }
        self.depth -= 1;
        if !parts.is_empty() {
            self.next_line();
        }
        self.text += closing;
    }

    fn next_line(&mut self) {
        if self.is_block {
            let _ = write!(self.text, "\n{:width$}", "", width = 2 * self.depth);
        }
    }

    fn member(&mut self, (key, value): &'g (String, Datum)) {
        self.string(key);
        self.text += if self.is_block { ": " } else { ":" };
        self.datum(value);
    }

    fn entry(&mut self, (key, value): &'g (Datum, Datum)) {
        self.text += "[";
        self.datum(key);
        self.text += if self.is_block { ", " } else { "," };
        self.datum(value);
        self.text += "]";
    }

    fn error(&mut self, error: &'g ErrorNode) {
        let _ = write!(self.text, "[{}", safe_line(&error.name));
        if let Some(message) = &error.message {
            self.text += ": ";
            self.string(message);
        }
        if let Some(cause) = &error.cause {
            self.text += ", cause: ";
            self.depth += 1;
            self.datum(cause);
            self.depth -= 1;
        }
        self.text += "]";
    }

    fn buffer(&mut self, name: &str, bytes: &[u8]) {
        let _ = write!(self.text, "[{name} of {} bytes", bytes.len());
        let mut before = ": ";
        for byte in bytes.iter().take(MAX_ELEMENTS) {
            let _ = write!(self.text, "{before}{byte:02x}");
            before = " ";
        }
        self.text += if bytes.len() > MAX_ELEMENTS { " …]" } else { "]" };
    }

    fn view(&mut self, kind: ViewKind, bytes: &[u8]) {
        if kind == ViewKind::DataView {
            return self.buffer("DataView", bytes);
        }
        let elements = bytes.chunks_exact(kind.element_len() as usize);
        let more = elements.len().saturating_sub(MAX_ELEMENTS);
        let shown: Vec<String> = elements.take(MAX_ELEMENTS).map(|bytes| element(kind, bytes)).collect();
        let _ = write!(self.text, "new {}([{}", kind.name(), shown.join(", "));
        if more > 0 {
            let _ = write!(self.text, ", … {more} more");
        }
        self.text += "])";
    }
}

/// A number as JSON, or as JavaScript where JSON has no notation.
fn number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ if value == 0.0 && value.is_sign_negative() => "-0".to_owned(),
        _ if value.fract() == 0.0 && value.abs() <= EXACT => format!("{value:.0}"),
        _ => Number::from_f64(value).map(|number| number.to_string()).unwrap_or_default(),
    }
}

fn date(time: TimeValue) -> String {
    let Some(milliseconds) = time.milliseconds() else { return "new Date(NaN)".to_owned() };
    match u64::try_from(milliseconds) {
        Ok(after) if after <= LAST_YEAR => {
            format!("new Date(\"{}\")", humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(after)))
        }
        _ => format!("new Date({milliseconds})"),
    }
}

/// One element of a typed array, of little-endian bytes.
fn element(kind: ViewKind, bytes: &[u8]) -> String {
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(padded);
    let unused = 64 - 8 * bytes.len();
    let signed = (bits << unused).cast_signed() >> unused;
    match kind {
        ViewKind::Uint8 | ViewKind::Uint8Clamped | ViewKind::Uint16 | ViewKind::Uint32 => bits.to_string(),
        ViewKind::Int8 | ViewKind::Int16 | ViewKind::Int32 => signed.to_string(),
        ViewKind::BigUint64 => format!("{bits}n"),
        ViewKind::BigInt64 => format!("{signed}n"),
        ViewKind::Float16 => number(half(bits)),
        ViewKind::Float32 => number(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into()),
        ViewKind::Float64 => number(f64::from_bits(bits)),
        ViewKind::DataView => String::new(),
    }
}

/// A 16-bit float: 1 bit of sign, 5 of exponent, 10 of fraction.
fn half(bits: u64) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::try_from(bits >> 10 & 0x1f).unwrap_or_default();
    let fraction = f64::from(u16::try_from(bits & 0x3ff).unwrap_or_default()) / 1024.0;
    sign * match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn block(graph: &Graph) -> String {
        let mut text = Vec::new();
        write_block(graph, graph.root(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn shown(tagged: &Json) -> String {
        let graph = Graph::from_tagged_json(tagged, "value").unwrap();
        line(&graph, graph.root())
    }

    #[test]
    fn what_json_can_say_is_json() {
        let value =
            json!({"list": [1, -2.5, {"deep": "te\"xt\u{1b}"}], "none": null, "empty": [], "nothing": {}, "yes": true});
        let graph = Graph::from_json(&value);
        assert_eq!(block(&graph), serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(line(&graph, graph.root()), value.to_string());
    }

    #[test]
    fn the_rest_is_written_as_javascript_makes_it() {
        for (tagged, expected) in [
            (json!({"$undefined": true}), "undefined"),
            (
                json!([{"$number": "NaN"}, {"$number": "-0"}, {"$number": "-Infinity"}, 1e300]),
                "[NaN,-0,-Infinity,1e+300]",
            ),
            (json!({"$bigint": "-123"}), "-123n"),
            (json!({"$date": 1_700_000_000_123_i64}), "new Date(\"2023-11-14T22:13:20.123Z\")"),
            (
                json!([{"$date": null}, {"$date": -1}, {"$date": 8.64e15}]),
                "[new Date(NaN),new Date(-1),new Date(8640000000000000)]",
            ),
            (
                json!({"$map": [["a", 1], [{"b": 1}, {"$set": [1, "2"]}]]}),
                r#"new Map([["a",1],[{"b":1},new Set([1,"2"])]])"#,
            ),
            (json!({"$regexp": "a\u{1b}/", "flags": "g"}), r"/a\u001b//g"),
            (
                json!({"$error": "TypeError", "message": "no", "stack": "…", "cause": {"$error": "odd\n"}}),
                r#"[TypeError: "no", cause: [odd\n]]"#,
            ),
            (json!({"$boxed": "a"}), r#"Object("a")"#),
            (json!({"$sparse": 3, "items": {"1": 2}}), r#"Object.assign(new Array(3), {"1":2})"#),
            (json!({"$function": 7, "name": "f"}), "[function f]"),
            (json!({"$promise": 1}), "[promise]"),
        ] {
            assert_eq!(shown(&tagged), expected, "{tagged}");
        }
    }

    #[test]
    fn bytes_are_numbers_by_their_kind() {
        let buffer = json!({"$buffer": "AAH+/wA8APz/gAB+"}); // 00 01 fe ff 00 3c 00 fc ff 80 00 7e
        let view = |kind: &str, length: u32| shown(&json!({"$view": kind, "of": buffer.clone(), "length": length}));
        assert_eq!(view("Uint8Array", 4), "new Uint8Array([0, 1, 254, 255])");
        assert_eq!(view("Int8Array", 4), "new Int8Array([0, 1, -2, -1])");
        assert_eq!(view("Int16Array", 2), "new Int16Array([256, -2])");
        assert_eq!(view("Uint32Array", 1), "new Uint32Array([4294836480])");
        assert_eq!(
            view("BigInt64Array", 1),
            format!("new BigInt64Array([{}n])", i64::from_le_bytes([0, 1, 254, 255, 0, 60, 0, 252]))
        );
        assert_eq!(
            view("Float16Array", 6),
            "new Float16Array([0.0000152587890625, NaN, 1, -Infinity, -0.00001519918441772461, NaN])"
        );
        assert_eq!(shown(&buffer), "[ArrayBuffer of 12 bytes: 00 01 fe ff 00 3c 00 fc ff 80 00 7e]");
        assert_eq!(view("DataView", 1), "[DataView of 1 bytes: 00]");
    }

    #[test]
    fn what_is_long_is_cut() {
        let mut graph = Graph::default();
        let bytes = graph.bytes(vec![7; 1000]);
        graph.set_root(bytes);
        let text = block(&graph);
        assert!(text.starts_with("new Uint8Array([7, 7, ") && text.ends_with(" 7, … 900 more])"), "{text}");
    }

    #[test]
    fn an_object_that_comes_again_is_named() {
        let cycle =
            json!({"$id": 0, "$value": {"self": {"$ref": 0}, "one": {"$id": 1, "$value": []}, "two": {"$ref": 1}}});
        assert_eq!(shown(&cycle), r#"<ref *1> {"self":<ref *1>,"one":<ref *2> [],"two":<ref *2>}"#);
    }

    /// Each of thirty arrays contains the one before twice.
    #[test]
    fn sharing_does_not_make_a_text_long() {
        let mut graph = Graph::default();
        let mut value = graph.array([]);
        for _ in 0..30 {
            value = graph.array([value.clone(), value]);
        }
        graph.set_root(value);
        assert!(line(&graph, graph.root()).len() < 1000);
    }

    #[test]
    fn depth_does_no_harm() {
        let mut graph = Graph::default();
        let mut value = graph.array([]);
        for _ in 0..100_000 {
            value = graph.array([value]);
        }
        graph.set_root(value);
        assert_eq!(line(&graph, graph.root()), format!("{}…{}", "[".repeat(100), "]".repeat(100)));
    }
}
