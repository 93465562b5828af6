//! JSON to values, and values to JSON.
//!
//! Both directions recurse, at most [`MAX_JSON_DEPTH`] deep. The rules about what becomes JSON are those of the contracts, and the
//! work is on a meter, which no serializer for `serde_json` has.

use std::collections::HashMap;

use serde_json::{Map, Number, Value as Json};

use super::MAX_JSON_DEPTH;
use super::error::{Foreign, Reason, SerializationError};
use super::wire::{self, Keys, Reader, put_f64, put_int, put_key, put_string, put_varint};
use crate::budget::Meter;

// ---- JSON to a value ----------------------------------------------------------------------------

pub(super) fn encode(json: Option<&Json>, what: &str, out: &mut Vec<u8>) -> Result<(), SerializationError> {
    let Some(json) = json else {
        out.push(wire::UNDEFINED);
        return Ok(());
    };
    let mut keys = HashMap::new();
    encode_one(json, out, &mut keys, 0).map_err(|reason| SerializationError::new(what, reason))
}

fn encode_one<'j>(
    json: &'j Json,
    out: &mut Vec<u8>,
    keys: &mut HashMap<&'j str, u32>,
    depth: usize,
) -> Result<(), Reason> {
    match json {
        Json::Null => out.push(wire::NULL),
        Json::Bool(false) => out.push(wire::FALSE),
        Json::Bool(true) => out.push(wire::TRUE),
        Json::Number(number) => encode_number(number, out),
        Json::String(text) => {
            out.push(wire::STRING);
            put_string(out, text);
        }
        Json::Array(_) | Json::Object(_) if depth == MAX_JSON_DEPTH => return Err(Reason::TooDeep),
        Json::Array(items) => {
            out.push(wire::ARRAY);
            put_varint(out, u32::try_from(items.len()).unwrap_or(u32::MAX));
            for item in items {
                encode_one(item, out, keys, depth + 1)?;
            }
        }
        Json::Object(members) => {
            out.push(wire::OBJECT);
            for (key, member) in members {
                put_key(out, key, keys);
                encode_one(member, out, keys, depth + 1)?;
            }
            put_varint(out, wire::KEY_END);
        }
    }
    Ok(())
}

/// As `JSON.parse` reads it: every number is a double.
fn encode_number(number: &Number, out: &mut Vec<u8>) {
    match number.as_i64().and_then(|n| i32::try_from(n).ok()) {
        Some(small) => put_int(out, small),
        None => put_f64(out, number.as_f64().unwrap_or(f64::NAN)),
    }
}

// ---- A value to JSON ----------------------------------------------------------------------------

/// What one JSON value, one member and one object take on the host besides their text, in bytes: rough upper bounds.
pub(crate) const NODE_COST: usize = size_of::<Json>();
pub(crate) const MEMBER_COST: usize = size_of::<String>() + 3 * size_of::<usize>();
pub(crate) const OBJECT_COST: usize = size_of::<Map<String, Json>>();

/// What a tree of JSON takes on the host, by the same count as one that is read. The depth of the tree is bounded.
pub(crate) fn cost(json: &Json) -> usize {
    NODE_COST
        + match json {
            Json::String(text) => text.len(),
            Json::Array(items) => items.iter().map(cost).sum(),
            Json::Object(members) => {
                let members = members.iter().map(|(key, member)| MEMBER_COST + key.len() + cost(member));
                OBJECT_COST + members.sum::<usize>()
            }
            _ => 0,
        }
}

/// About how many bytes a value takes as JSON text. The depth of the tree is bounded.
pub fn size(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) => 4,
        Json::Number(_) => 2,
        Json::String(text) => 2 + text.len(),
        Json::Array(items) => 2 + items.iter().map(|item| 1 + size(item)).sum::<usize>(),
        Json::Object(members) => 2 + members.iter().map(|(key, member)| 4 + key.len() + size(member)).sum::<usize>(),
    }
}

pub(super) fn decode(bytes: &[u8], what: &str, meter: &mut Meter<'_>) -> Result<Option<Json>, SerializationError> {
    let mut decoder = Decoder {
        at: Cursor { reader: Reader::new(bytes), containers: 0, keys: 0 },
        containers: Vec::new(),
        keys: Keys::default(),
        path: Vec::new(),
        members_hint: 0,
        meter,
    };
    let read = decoder.value().and_then(|value| match value {
        _ if !decoder.at.reader.is_at_end() => Err(Reason::InvalidFormat),
        Read::Json(json) => Ok(Some(json)),
        Read::Undefined => Ok(None),
        Read::Hole => Err(Reason::InvalidFormat),
    });
    read.map_err(|reason| SerializationError::new(path_text(what, &decoder.path), reason))
}

/// Appends a value without references as text. Recurses at most [`MAX_JSON_DEPTH`] deep.
pub(super) fn write(bytes: &[u8], text: &mut Vec<u8>) -> Result<(), Reason> {
    let mut writer = TextWriter { reader: Reader::new(bytes), keys: Vec::new(), text };
    writer.value(0)?;
    if writer.reader.is_at_end() { Ok(()) } else { Err(Reason::InvalidFormat) }
}

struct TextWriter<'a, 't> {
    reader: Reader<'a>,
    keys: Vec<&'a str>,
    text: &'t mut Vec<u8>,
}

impl TextWriter<'_, '_> {
    fn value(&mut self, depth: usize) -> Result<(), Reason> {
        match self.reader.byte()? {
            wire::NULL => self.text.extend_from_slice(b"null"),
            wire::FALSE => self.text.extend_from_slice(b"false"),
            wire::TRUE => self.text.extend_from_slice(b"true"),
            wire::INT => {
                let int = self.reader.int()?;
                self.put(&int);
            }
            wire::F64 => {
                let number = number(self.reader.f64()?)?;
                self.put(&number);
            }
            wire::STRING => {
                let string = self.reader.string()?;
                self.put(string);
            }
            wire::ARRAY | wire::OBJECT if depth == MAX_JSON_DEPTH => return Err(Reason::TooDeep),
            wire::ARRAY => self.array(depth)?,
            wire::OBJECT => self.object(depth)?,
            _ => return Err(Reason::InvalidFormat),
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), Reason> {
        self.text.push(b'[');
        for index in 0..self.reader.count()? {
            if index > 0 {
                self.text.push(b',');
            }
            self.value(depth + 1)?;
        }
        self.text.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), Reason> {
        self.text.push(b'{');
        let mut separator = None;
        loop {
            let key = match self.reader.varint()? {
                wire::KEY_END => break,
                wire::KEY_NEW => {
                    let key = self.reader.string()?;
                    self.keys.push(key);
                    key
                }
                known => self.keys.get((known - wire::KEY_KNOWN) as usize).copied().ok_or(Reason::InvalidFormat)?,
            };
            self.text.extend(separator.replace(b','));
            self.put(key);
            self.text.push(b':');
            self.value(depth + 1)?;
        }
        self.text.push(b'}');
        Ok(())
    }

    fn put(&mut self, part: &(impl serde::Serialize + ?Sized)) {
        serde_json::to_writer(&mut *self.text, part).expect("a primitive, into memory");
    }
}

/// A position in the bytes, and how many containers and distinct keys precede it.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    reader: Reader<'a>,
    containers: usize,
    keys: usize,
}

/// An array or object that has begun. A reference to it reads it again from `start`.
struct Container<'a> {
    start: Cursor<'a>,
    open: bool,
}

enum Step<'a> {
    Index(usize),
    Key(&'a str),
}

enum Read {
    Json(Json),
    Undefined,
    Hole,
}

/// Reads recursively; `path` is as long as the recursion is deep.
struct Decoder<'a, 'm, 's> {
    at: Cursor<'a>,
    containers: Vec<Container<'a>>,
    keys: Keys<'a>,
    path: Vec<Step<'a>>,
    /// How many members the last object had: the next one likely has as many.
    members_hint: usize,
    meter: &'m mut Meter<'s>,
}

impl<'a> Decoder<'a, '_, '_> {
    fn value(&mut self) -> Result<Read, Reason> {
        self.meter.spend(NODE_COST)?;
        let start = self.at;
        let reader = &mut self.at.reader;
        Ok(Read::Json(match reader.byte()? {
            wire::UNDEFINED => return Ok(Read::Undefined),
            wire::HOLE => return Ok(Read::Hole),
            wire::NULL => Json::Null,
            wire::FALSE => Json::Bool(false),
            wire::TRUE => Json::Bool(true),
            wire::INT => Json::Number(reader.int()?.into()),
            wire::F64 => number(reader.f64()?)?,
            wire::STRING => {
                let text = reader.string()?;
                self.meter.spend(text.len())?;
                Json::String(text.to_owned())
            }
            wire::ARRAY => self.container(start, Self::array)?,
            wire::OBJECT => self.container(start, Self::object)?,
            wire::REFERENCE => return self.referred(),
            wire::FOREIGN => return Err(self.foreign()?),
            tag => return Err(foreign(tag).map_or(Reason::InvalidFormat, Reason::Foreign)),
        }))
    }

    /// Reads an array or object whose tag is at `start`, for the first time or again.
    fn container(&mut self, start: Cursor<'a>, read: fn(&mut Self) -> Result<Json, Reason>) -> Result<Json, Reason> {
        if self.path.len() == MAX_JSON_DEPTH {
            return Err(Reason::TooDeep);
        }
        let number = self.at.containers;
        self.at.containers += 1;
        match self.containers.get_mut(number) {
            Some(again) => again.open = true,
            None => self.containers.push(Container { start, open: true }),
        }
        let json = read(self)?;
        self.containers[number].open = false;
        Ok(json)
    }

    fn array(&mut self) -> Result<Json, Reason> {
        let len = self.at.reader.count()?;
        let mut items = Vec::with_capacity(len.min(self.meter.left() / NODE_COST));
        for index in 0..len {
            self.path.push(Step::Index(index));
            match self.value()? {
                Read::Json(json) => items.push(json),
                Read::Undefined => return Err(Reason::UndefinedItem),
                Read::Hole => return Err(Reason::Hole),
            }
            self.path.pop();
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self) -> Result<Json, Reason> {
        self.meter.spend(OBJECT_COST)?;
        let mut members = Map::with_capacity(self.members_hint.min(16));
        while let Some(key) = self.keys.read(&mut self.at.reader, &mut self.at.keys, self.meter)? {
            self.path.push(Step::Key(key));
            match self.value()? {
                Read::Json(json) => {
                    self.meter.spend(MEMBER_COST + key.len())?;
                    members.insert(key.to_owned(), json);
                }
                Read::Undefined => {}
                Read::Hole => return Err(Reason::InvalidFormat),
            }
            self.path.pop();
        }
        self.members_hint = members.len();
        Ok(Json::Object(members))
    }

    fn referred(&mut self) -> Result<Read, Reason> {
        let number = self.at.reader.varint()? as usize;
        let container = self.containers.get(number).ok_or(Reason::InvalidFormat)?;
        if container.open {
            return Err(Reason::Cycle);
        }
        let after = std::mem::replace(&mut self.at, container.start);
        let value = self.value()?;
        self.at = after;
        Ok(value)
    }

    /// The kind of a foreign value, and the name of its class if it is an instance of one.
    fn foreign(&mut self) -> Result<Reason, Reason> {
        let kind = Foreign::from_kind(self.at.reader.byte()?).ok_or(Reason::InvalidFormat)?;
        let class = if kind == Foreign::Instance { self.at.reader.string()? } else { "" };
        let class: String = class.chars().filter(|c| c.is_alphanumeric()).take(64).collect();
        Ok(if class.is_empty() { Reason::Foreign(kind) } else { Reason::Instance(class) })
    }
}

/// The kind of value behind a tag that JSON has no counterpart for.
fn foreign(tag: u8) -> Option<Foreign> {
    Some(match tag {
        wire::BIGINT => Foreign::BigInt,
        wire::DATE => Foreign::Date,
        wire::MAP => Foreign::Map,
        wire::SET => Foreign::Set,
        wire::REGEXP => Foreign::RegExp,
        wire::ERROR => Foreign::Error,
        wire::BUFFER => Foreign::ArrayBuffer,
        wire::VIEW => Foreign::TypedArray,
        wire::BOXED => Foreign::BoxedPrimitive,
        wire::SPARSE => Foreign::SparseArray,
        wire::FUNCTION => Foreign::Function,
        wire::PROMISE => Foreign::Promise,
        _ => return None,
    })
}

/// As `JSON.stringify` writes it: integers without a fraction, negative zero as zero.
fn number(value: f64) -> Result<Json, Reason> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Ok(Json::Number((value as i64).into()));
    }
    let reason = if value.is_nan() { Reason::NotANumber } else { Reason::Infinite };
    Number::from_f64(value).map(Json::Number).ok_or(reason)
}

/// A path as text, for example `result.items[3]["odd key"]`. The middle of a long path is left out.
fn path_text(what: &str, path: &[Step<'_>]) -> String {
    const ENDS: usize = 8;
    let mut text = what.to_owned();
    for (i, step) in path.iter().enumerate() {
        if path.len() > 2 * ENDS && i == ENDS {
            text.push('…');
        }
        if path.len() > 2 * ENDS && (ENDS..path.len() - ENDS).contains(&i) {
            continue;
        }
        match step {
            Step::Index(index) => text += &format!("[{index}]"),
            Step::Key(key) if crate::names::is_property_name(key) => text += &format!(".{key}"),
            Step::Key(key) => text += &format!("[{:?}]", key.chars().take(64).collect::<String>()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const BUDGET: usize = 1 << 20;

    fn decoded(bytes: &[u8]) -> Result<Option<Json>, SerializationError> {
        decode(bytes, "result", &mut Meter::alone(BUDGET))
    }

    fn error(path: &str, reason: Reason) -> Result<Option<Json>, SerializationError> {
        Err(SerializationError::new(path, reason))
    }

    fn reason(bytes: &[u8]) -> Reason {
        decoded(bytes).unwrap_err().reason
    }

    /// A value of `bytes` under the key `a` of an object in an array, as a guest would encode it.
    fn nested(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![wire::ARRAY, 1, wire::OBJECT, wire::KEY_NEW as u8, 1, b'a'];
        out.extend_from_slice(bytes);
        out.push(wire::KEY_END as u8);
        out
    }

    #[test]
    fn undefined_is_none_at_the_top_omitted_in_objects_and_an_error_in_arrays() {
        assert_eq!(decoded(&[wire::UNDEFINED]), Ok(None));
        assert_eq!(decoded(&nested(&[wire::UNDEFINED])), Ok(Some(json!([{}]))));
        assert_eq!(decoded(&[wire::ARRAY, 1, wire::UNDEFINED]), error("result[0]", Reason::UndefinedItem));
    }

    #[test]
    fn foreign_values_are_errors_with_their_path() {
        let date = nested(&[wire::FOREIGN, Foreign::Date as u8]);
        assert_eq!(decoded(&date), error("result[0].a", Reason::Foreign(Foreign::Date)));
        let instance = nested(&[wire::FOREIGN, Foreign::Instance as u8, 3, b'F', b'o', b'o']);
        assert_eq!(decoded(&instance), error("result[0].a", Reason::Instance("Foo".into())));
        let nameless = nested(&[wire::FOREIGN, Foreign::Instance as u8, 0]);
        assert_eq!(decoded(&nameless), error("result[0].a", Reason::Foreign(Foreign::Instance)));
    }

    #[test]
    fn tags_without_a_counterpart_in_json_are_foreign() {
        for (bytes, kind) in [
            (&[wire::BIGINT, 1, 7][..], Foreign::BigInt),
            (&[wire::DATE, 0, 0, 0, 0, 0, 0, 0, 0], Foreign::Date),
            (&[wire::SET, 1, wire::NULL], Foreign::Set),
            (&[wire::VIEW, 2, 0, 1, wire::BUFFER, 0, 0], Foreign::TypedArray),
            (&[wire::FUNCTION, 7, 0, 0], Foreign::Function),
            (&[wire::PROMISE, 7], Foreign::Promise),
        ] {
            assert_eq!(decoded(&nested(bytes)), error("result[0].a", Reason::Foreign(kind)));
        }
    }

    #[test]
    fn shared_objects_are_copied_and_cycles_are_errors() {
        // const o = {a: 1}; [o, o, {a: o}]
        let shared = [7, 3, 8, 1, 1, b'a', 4, 2, 0, 10, 1, 8, 2, 10, 1, 0];
        assert_eq!(decoded(&shared), Ok(Some(json!([{"a": 1}, {"a": 1}, {"a": {"a": 1}}]))));
        // const o = {}; o.a = o; [o]
        let cycle = nested(&[wire::REFERENCE, 1]);
        assert_eq!(decoded(&cycle), error("result[0].a", Reason::Cycle));
    }

    #[test]
    fn doubling_by_reference_exceeds_the_budget() {
        // let a = []; for (…) a = [a, a]: 60 levels name 2^60 arrays in some 200 bytes.
        let mut bytes = [wire::ARRAY, 2].repeat(60);
        bytes.extend([wire::ARRAY, 0]);
        for level in (1..=60).rev() {
            bytes.extend([wire::REFERENCE, level]);
        }
        assert_eq!(reason(&bytes), Reason::TooLarge(BUDGET));
    }

    #[test]
    fn depth_is_limited_in_both_directions() {
        let deep = [[wire::ARRAY, 1].repeat(1_000_000), vec![wire::NULL]].concat();
        assert_eq!(reason(&deep), Reason::TooDeep);
        let nest = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let deepest = nest(MAX_JSON_DEPTH);
        let back = Value::from_json(Some(&deepest), "result").and_then(|v| v.to_json("result", BUDGET));
        assert_eq!(back, Ok(Some(deepest)));
        let error = Value::from_json(Some(&nest(MAX_JSON_DEPTH + 1)), "result of `x`").unwrap_err();
        assert_eq!(error, SerializationError::new("result of `x`", Reason::TooDeep));
        assert_eq!(error.to_string(), "result of `x` nests deeper than 100 levels");
    }

    #[test]
    fn numbers_are_written_as_json_stringify_does() {
        let f64_bytes = |value: f64| [vec![wire::F64], value.to_le_bytes().to_vec()].concat();
        for (value, text) in [(-0.0, "0"), (3.0, "3"), (1.5, "1.5"), (9_007_199_254_740_992.0, "9007199254740992")] {
            assert_eq!(decoded(&f64_bytes(value)).unwrap().unwrap().to_string(), text);
        }
        assert_eq!(reason(&f64_bytes(f64::NAN)), Reason::NotANumber);
        assert_eq!(reason(&f64_bytes(f64::NEG_INFINITY)), Reason::Infinite);
    }

    #[test]
    fn truncated_and_trailing_bytes_are_invalid() {
        let whole = nested(&[wire::STRING, 2, b'h', b'i']);
        assert!(decoded(&whole).is_ok());
        for end in 0..whole.len() {
            assert_eq!(reason(&whole[..end]), Reason::InvalidFormat, "cut at {end}");
        }
        assert_eq!(reason(&[whole, vec![0]].concat()), Reason::InvalidFormat);
        assert_eq!(
            reason(&[wire::ARRAY, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            Reason::InvalidFormat,
            "a length beyond the end"
        );
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i32>().prop_map(Json::from),
            (-1e15..1e15_f64).prop_map(|n| number(n).unwrap_or(Json::Null)),
            ".*".prop_map(Json::from),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
                prop::collection::vec((".{0,4}", inner), 0..8).prop_map(|m| Json::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_unchanged_by_encoding_and_decoding(json in any_json()) {
            let value = Value::from_json(Some(&json), "value").unwrap();
            prop_assert_eq!(value.to_json("value", BUDGET), Ok(Some(json)));
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(0_u8..16, 0..64)) {
            let _ = decode(&bytes, "value", &mut Meter::alone(BUDGET));
        }
    }
}
