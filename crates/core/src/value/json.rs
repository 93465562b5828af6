//! JSON into values, and values narrowed to JSON.
//!
//! The way in recurses, bounded by [`MAX_JSON_DEPTH`]: what it walks is the host's. The way out does
//! not recurse at all: what it walks is the guest's.

use std::collections::HashMap;

use serde_json::{Map, Number, Value as Json};

use super::wire::{self, Malformed, Reader, put_f64, put_int, put_text, put_varint};
use super::{Foreign, MAX_JSON_DEPTH, too_large};

/// Why a value may not cross, with the path to the part that may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} {reason}")]
pub struct Refusal {
    /// For example `result.items[3].at`.
    pub path: String,
    /// What is wrong there and what to write instead, as the rest of a sentence.
    pub reason: String,
}

// ---- JSON into a value --------------------------------------------------------------------------

pub(super) fn encode(json: Option<&Json>, what: &str, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let Some(json) = json else {
        out.push(wire::UNDEFINED);
        return Ok(());
    };
    let mut keys = HashMap::new();
    encode_one(json, out, &mut keys, 0).map_err(|TooDeep| Refusal { path: what.to_owned(), reason: too_deep() })
}

struct TooDeep;

fn encode_one<'j>(
    json: &'j Json,
    out: &mut Vec<u8>,
    keys: &mut HashMap<&'j str, u32>,
    depth: usize,
) -> Result<(), TooDeep> {
    match json {
        Json::Null => out.push(wire::NULL),
        Json::Bool(false) => out.push(wire::FALSE),
        Json::Bool(true) => out.push(wire::TRUE),
        Json::Number(number) => encode_number(number, out),
        Json::String(text) => {
            out.push(wire::STRING);
            put_text(out, text);
        }
        Json::Array(_) | Json::Object(_) if depth == MAX_JSON_DEPTH => return Err(TooDeep),
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
                encode_key(key, out, keys);
                encode_one(member, out, keys, depth + 1)?;
            }
            put_varint(out, wire::KEY_END);
        }
    }
    Ok(())
}

/// A key that comes in `keys` the first time is written out.
pub(super) fn encode_key<'j>(key: &'j str, out: &mut Vec<u8>, keys: &mut HashMap<&'j str, u32>) {
    let next = keys.len() as u32;
    if let Some(known) = keys.get(key) {
        put_varint(out, wire::KEY_KNOWN + known);
    } else {
        keys.insert(key, next);
        put_varint(out, wire::KEY_NEW);
        put_text(out, key);
    }
}

/// As `JSON.parse` reads it: every number is a double.
fn encode_number(number: &Number, out: &mut Vec<u8>) {
    match number.as_i64().and_then(|n| i32::try_from(n).ok()) {
        Some(small) => put_int(out, small),
        None => put_f64(out, number.as_f64().unwrap_or(f64::NAN)),
    }
}

// ---- A value narrowed to JSON -------------------------------------------------------------------

/// What one JSON value, one member and one object take on the host beside their text: rough, and on the safe side.
const NODE_COST: usize = size_of::<Json>();
const MEMBER_COST: usize = size_of::<String>() + 3 * size_of::<usize>();
const OBJECT_COST: usize = size_of::<Map<String, Json>>();

pub(super) fn narrow(bytes: &[u8], what: &str, budget: usize) -> Result<Option<Json>, Refusal> {
    let mut narrower = Narrower {
        at: Cursor { reader: Reader::new(bytes), containers: 0, keys: 0 },
        containers: Vec::new(),
        keys: Vec::new(),
        path: Vec::new(),
        members_hint: 0,
        budget,
        left: budget,
    };
    let outcome = narrower.value().and_then(|value| match value {
        _ if !narrower.at.reader.is_at_end() => Err(Reason::Malformed),
        Read::Json(json) => Ok(Some(json)),
        Read::Undefined => Ok(None),
        Read::Hole => Err(Reason::Malformed),
    });
    outcome.map_err(|reason| Refusal { path: path_text(what, &narrower.path), reason: reason.to_string() })
}

/// A place in the bytes, and how many containers and distinct keys came before it: what numbers count from there.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    reader: Reader<'a>,
    containers: usize,
    keys: usize,
}

/// An array or object that has been opened. Where it is referred to, it is read again from `start`.
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

/// Reads with recursion, which [`MAX_JSON_DEPTH`] bounds: the path is as long as the recursion is deep.
struct Narrower<'a> {
    at: Cursor<'a>,
    containers: Vec<Container<'a>>,
    keys: Vec<&'a str>,
    path: Vec<Step<'a>>,
    /// How many members the last object had: the next one is likely of its kind.
    members_hint: usize,
    budget: usize,
    /// Of the budget.
    left: usize,
}

impl<'a> Narrower<'a> {
    fn value(&mut self) -> Result<Read, Reason> {
        self.spend(NODE_COST)?;
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
                self.spend(text.len())?;
                Json::String(text.to_owned())
            }
            wire::ARRAY => self.container(start, Self::array)?,
            wire::OBJECT => self.container(start, Self::object)?,
            wire::REFERENCE => return self.referred(),
            wire::FOREIGN => return Err(self.foreign()?),
            tag => return Err(rich(tag).map_or(Reason::Malformed, |kind| Reason::Foreign(kind, String::new()))),
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
        let len = self.at.reader.varint()? as usize;
        if len > self.at.reader.left() {
            return Err(Reason::Malformed);
        }
        let mut items = Vec::with_capacity(len.min(self.left / NODE_COST));
        for index in 0..len {
            self.path.push(Step::Index(index));
            match self.value()? {
                Read::Json(json) => items.push(json),
                Read::Undefined => return Err(Reason::UndefinedInArray),
                Read::Hole => return Err(Reason::Hole),
            }
            self.path.pop();
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self) -> Result<Json, Reason> {
        self.spend(OBJECT_COST)?;
        let mut members = Map::with_capacity(self.members_hint.min(16));
        while let Some(key) = self.key()? {
            self.path.push(Step::Key(key));
            match self.value()? {
                Read::Json(json) => {
                    self.spend(MEMBER_COST + key.len())?;
                    members.insert(key.to_owned(), json);
                }
                Read::Undefined => {}
                Read::Hole => return Err(Reason::Malformed),
            }
            self.path.pop();
        }
        self.members_hint = members.len();
        Ok(Json::Object(members))
    }

    /// The next key of an object; `None` at its end.
    fn key(&mut self) -> Result<Option<&'a str>, Reason> {
        match self.at.reader.varint()? {
            wire::KEY_END => Ok(None),
            wire::KEY_NEW => {
                let key = self.at.reader.string()?;
                if self.at.keys == self.keys.len() {
                    self.keys.push(key);
                }
                self.at.keys += 1;
                Ok(Some(key))
            }
            known => {
                let number = (known - wire::KEY_KNOWN) as usize;
                self.keys.get(number).copied().map(Some).ok_or(Reason::Malformed)
            }
        }
    }

    fn referred(&mut self) -> Result<Read, Reason> {
        let number = self.at.reader.varint()? as usize;
        let container = self.containers.get(number).ok_or(Reason::Malformed)?;
        if container.open {
            return Err(Reason::Cycle);
        }
        let after = std::mem::replace(&mut self.at, container.start);
        let value = self.value()?;
        self.at = after;
        Ok(value)
    }

    fn foreign(&mut self) -> Result<Reason, Reason> {
        let kind = Foreign::from_kind(self.at.reader.byte()?).ok_or(Reason::Malformed)?;
        let name = if kind == Foreign::Instance { self.at.reader.string()? } else { "" };
        Ok(Reason::Foreign(kind, name.chars().filter(|c| c.is_alphanumeric()).take(64).collect()))
    }

    fn spend(&mut self, cost: usize) -> Result<(), Reason> {
        self.left = self.left.checked_sub(cost).ok_or(Reason::TooLarge(self.budget))?;
        Ok(())
    }
}

/// What a tag stands for that JSON has no counterpart of. What it holds does not matter.
fn rich(tag: u8) -> Option<Foreign> {
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

/// As `JSON.stringify` writes it: whole numbers without a fraction, negative zero as zero.
fn number(value: f64) -> Result<Json, Reason> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Ok(Json::Number((value as i64).into()));
    }
    Number::from_f64(value).map(Json::Number).ok_or(Reason::NotFinite(value))
}

// ---- Words --------------------------------------------------------------------------------------

enum Reason {
    Foreign(Foreign, String),
    UndefinedInArray,
    Hole,
    NotFinite(f64),
    Cycle,
    TooDeep,
    TooLarge(usize),
    Malformed,
}

impl From<Malformed> for Reason {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign(Foreign::Instance, name) if !name.is_empty() => {
                write!(f, "is an instance of {name}; use a plain object ({{ ...value }})")
            }
            Self::Foreign(kind, _) => f.write_str(kind.advice()),
            Self::UndefinedInArray => f.write_str("is undefined, which an array in JSON cannot hold; use null"),
            Self::Hole => f.write_str("is a hole in an array; use null"),
            Self::NotFinite(value) if value.is_nan() => f.write_str("is NaN; use null or a finite number"),
            Self::NotFinite(_) => f.write_str("is infinite; use null or a finite number"),
            Self::Cycle => f.write_str("refers back to an object that contains it; JSON cannot hold a cycle"),
            Self::TooDeep => f.write_str(&too_deep()),
            Self::TooLarge(budget) => f.write_str(&too_large(*budget)),
            Self::Malformed => f.write_str("is not in the format of values"),
        }
    }
}

fn too_deep() -> String {
    format!("nests deeper than {MAX_JSON_DEPTH} levels")
}

/// `result.items[3]["odd key"]`; a long path keeps its ends.
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

    fn narrowed(bytes: &[u8]) -> Result<Option<Json>, String> {
        narrow(bytes, "result", BUDGET).map_err(|refusal| refusal.to_string())
    }

    /// A value of `bytes` under the key `a` of an object in an array, as a guest would hand it out.
    fn nested(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![wire::ARRAY, 1, wire::OBJECT, wire::KEY_NEW as u8, 1, b'a'];
        out.extend_from_slice(bytes);
        out.push(wire::KEY_END as u8);
        out
    }

    #[test]
    fn undefined_is_allowed_at_the_top_left_out_of_objects_and_refused_in_arrays() {
        assert_eq!(narrowed(&[wire::UNDEFINED]), Ok(None));
        assert_eq!(narrowed(&nested(&[wire::UNDEFINED])), Ok(Some(json!([{}]))));
        let refused = "result[0] is undefined, which an array in JSON cannot hold; use null";
        assert_eq!(narrowed(&[wire::ARRAY, 1, wire::UNDEFINED]), Err(refused.into()));
    }

    #[test]
    fn foreign_values_are_refused_with_their_path() {
        let date = nested(&[wire::FOREIGN, Foreign::Date as u8]);
        assert_eq!(
            narrowed(&date),
            Err("result[0].a is a Date; use a string (toISOString) or a number (getTime)".into())
        );
        let instance = nested(&[wire::FOREIGN, Foreign::Instance as u8, 3, b'F', b'o', b'o']);
        assert_eq!(
            narrowed(&instance),
            Err("result[0].a is an instance of Foo; use a plain object ({ ...value })".into())
        );
    }

    #[test]
    fn what_crosses_whole_elsewhere_is_refused_in_the_same_words() {
        for (bytes, words) in [
            (&[wire::BIGINT, 1, 7][..], "is a bigint; use a number, or a string for more than 2^53"),
            (&[wire::DATE, 0, 0, 0, 0, 0, 0, 0, 0], "is a Date; use a string (toISOString) or a number (getTime)"),
            (&[wire::SET, 1, wire::NULL], "is a Set; use an array ([...set])"),
            (&[wire::VIEW, 2, 0, 1, wire::BUFFER, 0, 0], "is a typed array; use an array (Array.from)"),
            (&[wire::FUNCTION, 7, 0, 0], "is a function; pass the value that it returns"),
            (&[wire::PROMISE, 7], "is a Promise; await it"),
        ] {
            assert_eq!(narrowed(&nested(bytes)), Err(format!("result[0].a {words}")));
        }
    }

    #[test]
    fn every_foreign_kind_has_its_number() {
        for (number, kind) in Foreign::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        assert_eq!(Foreign::from_kind(17), None);
    }

    #[test]
    fn what_is_shared_is_copied_and_a_cycle_is_refused() {
        // const o = {a: 1}; [o, o, {a: o}]
        let shared = [7, 3, 8, 1, 1, b'a', 4, 2, 0, 10, 1, 8, 2, 10, 1, 0];
        assert_eq!(narrowed(&shared), Ok(Some(json!([{"a": 1}, {"a": 1}, {"a": {"a": 1}}]))));
        // const o = {}; o.a = o; [o]
        let cycle = nested(&[wire::REFERENCE, 1]);
        let refused = "result[0].a refers back to an object that contains it; JSON cannot hold a cycle";
        assert_eq!(narrowed(&cycle), Err(refused.into()));
    }

    #[test]
    fn doubling_by_reference_is_stopped_by_the_budget() {
        // let a = []; for (…) a = [a, a]: 60 levels name 2^60 arrays in some 200 bytes.
        let mut bytes = [wire::ARRAY, 2].repeat(60);
        bytes.extend([wire::ARRAY, 0]);
        for level in (1..=60).rev() {
            bytes.extend([wire::REFERENCE, level]);
        }
        assert!(narrowed(&bytes).is_err_and(|e| e.contains("is too large to cross")));
    }

    #[test]
    fn depth_is_capped_both_ways() {
        let deep = [[wire::ARRAY, 1].repeat(1_000_000), vec![wire::NULL]].concat();
        assert!(narrowed(&deep).is_err_and(|e| e.ends_with("nests deeper than 100 levels")));
        let nest = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let most = nest(MAX_JSON_DEPTH);
        let crossed = Value::from_json(Some(&most), "result").and_then(|v| v.to_json("result", BUDGET));
        assert_eq!(crossed, Ok(Some(most)));
        let refused = Value::from_json(Some(&nest(MAX_JSON_DEPTH + 1)), "result of `x`").unwrap_err();
        assert_eq!(refused.to_string(), "result of `x` nests deeper than 100 levels");
    }

    #[test]
    fn numbers_are_as_json_has_them() {
        let f64_bytes = |value: f64| [vec![wire::F64], value.to_le_bytes().to_vec()].concat();
        for (value, text) in [(-0.0, "0"), (3.0, "3"), (1.5, "1.5"), (9_007_199_254_740_992.0, "9007199254740992")] {
            assert_eq!(narrowed(&f64_bytes(value)).unwrap().unwrap().to_string(), text);
        }
        assert_eq!(narrowed(&f64_bytes(f64::NAN)), Err("result is NaN; use null or a finite number".into()));
        assert_eq!(
            narrowed(&f64_bytes(f64::NEG_INFINITY)),
            Err("result is infinite; use null or a finite number".into())
        );
    }

    #[test]
    fn truncated_and_trailing_bytes_are_refused() {
        let whole = nested(&[wire::STRING, 2, b'h', b'i']);
        assert!(narrowed(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(narrowed(&whole[..end]).is_err(), "cut at {end}");
        }
        assert!(narrowed(&[whole, vec![0]].concat()).is_err());
        assert!(narrowed(&[wire::ARRAY, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err(), "a length beyond the end");
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
        fn json_survives_the_way_in_and_out(json in any_json()) {
            let value = Value::from_json(Some(&json), "value").unwrap();
            prop_assert_eq!(value.to_json("value", BUDGET), Ok(Some(json)));
        }

        #[test]
        fn any_bytes_are_a_value_or_a_refusal(bytes in prop::collection::vec(0_u8..16, 0..64)) {
            let _ = narrow(&bytes, "value", BUDGET);
        }
    }
}
