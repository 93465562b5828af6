//! JSON text to trees and to values, charged to a meter.
//!
//! A tree takes up to seventy times the memory of its text: `[0,0,…]`. So each part is charged before it is kept. JSON that is
//! only passed to a guest is read [to a value](ValueSeed) without a tree. `serde_json` is the parser; its own trees are not used,
//! because nothing could be charged while it builds one.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};

use super::json::{MEMBER_COST, NODE_COST, OBJECT_COST};
use super::wire::{self, put_int, put_number, put_string, put_varint};
use super::{MAX_JSON_DEPTH, Value};
use crate::budget::{Meter, Refused};

/// Why a text is not read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON, or nests deeper than 128 levels.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    /// The tree would take too much memory, or reading was stopped.
    #[error("the JSON was not read: {0}")]
    Refused(Refused),
}

/// Parses JSON to a tree that is charged to `meter`. Of duplicate keys the last one counts.
///
/// # Errors
/// The text is not JSON, or the meter refuses.
pub fn parse_json(text: &str, meter: &mut Meter<'_>) -> Result<Json, JsonError> {
    parse_with(text, meter, |meter, deserializer| Seed(meter).deserialize(deserializer))
}

/// Parses a text with a seed that charges `meter`.
pub(crate) fn parse_with<'t, 's, T>(
    text: &'t str,
    meter: &mut Meter<'s>,
    read: impl FnOnce(
        &mut Meter<'s>,
        &mut serde_json::Deserializer<serde_json::de::StrRead<'t>>,
    ) -> Result<T, serde_json::Error>,
) -> Result<T, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = read(meter, &mut deserializer).and_then(|parsed| deserializer.end().map(|()| parsed));
    parsed.map_err(|error| meter.refusal().map_or(JsonError::Syntax(error), JsonError::Refused))
}

/// Reads a tree.
pub(crate) struct Seed<'m, 's>(pub(crate) &'m mut Meter<'s>);

impl Seed<'_, '_> {
    fn spend<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.0.spend(bytes).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Every node is charged by the container that it is stored in, except the outermost.
impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<Json, E> {
        self.spend(text.len())?;
        Ok(Json::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        loop {
            if items.len() == items.capacity() {
                let more = items.len().max(4);
                self.spend(more * NODE_COST)?;
                items.reserve_exact(more);
            }
            match sequence.next_element_seed(Seed(self.0))? {
                Some(item) => items.push(item),
                None => break,
            }
        }
        self.0.give_back((items.capacity() - items.len()) * NODE_COST);
        items.shrink_to_fit();
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Json, A::Error> {
        self.spend(OBJECT_COST)?;
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.spend(NODE_COST + 2 * MEMBER_COST + key.len())?; // The table has up to twice the room that it needs.
            members.insert(key, access.next_value_seed(Seed(self.0))?);
        }
        Ok(Json::Object(members))
    }
}

/// Reads a value in the format of [`super`], as [`Value::from_json`] makes it of the tree.
pub(crate) struct ValueSeed<'m, 's>(pub(crate) &'m mut Meter<'s>);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let mut encoder = Encoder { out: Vec::new(), keys: HashMap::new(), meter: self.0, paid: 0 };
        Part { encoder: &mut encoder, depth: 0 }.deserialize(deserializer)?;
        Ok(Value::from_bytes(encoder.out))
    }
}

struct Encoder<'m, 's> {
    out: Vec<u8>,
    keys: HashMap<Box<str>, u32>,
    meter: &'m mut Meter<'s>,
    /// How many bytes of `out` are charged.
    paid: usize,
}

impl Encoder<'_, '_> {
    /// Charges what was written since the last time. A part is at most as long as its text, and a vector has at most twice
    /// its length.
    fn pay<E: serde::de::Error>(&mut self) -> Result<(), E> {
        let written = self.out.len() - self.paid;
        self.paid = self.out.len();
        self.meter.spend(2 * written).map_err(E::custom)
    }

    fn key<E: serde::de::Error>(&mut self, key: &str) -> Result<(), E> {
        if let Some(number) = self.keys.get(key) {
            put_varint(&mut self.out, wire::KEY_KNOWN + number);
            return self.pay();
        }
        self.meter.spend(size_of::<(Box<str>, u32)>() + key.len()).map_err(E::custom)?;
        self.keys.insert(key.into(), self.keys.len() as u32);
        put_varint(&mut self.out, wire::KEY_NEW);
        put_string(&mut self.out, key);
        self.pay()
    }
}

struct Part<'e, 'm, 's> {
    encoder: &'e mut Encoder<'m, 's>,
    depth: usize,
}

impl<'m, 's> Part<'_, 'm, 's> {
    fn byte<E: serde::de::Error>(self, tag: u8) -> Result<(), E> {
        self.encoder.out.push(tag);
        self.encoder.pay()
    }

    fn number<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        put_number(&mut self.encoder.out, value);
        self.encoder.pay()
    }

    fn nested<E: serde::de::Error>(&mut self) -> Result<Part<'_, 'm, 's>, E> {
        if self.depth == MAX_JSON_DEPTH {
            return Err(E::custom(super::Reason::TooDeep));
        }
        Ok(Part { encoder: &mut *self.encoder, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.byte(wire::NULL)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.byte(if value { wire::TRUE } else { wire::FALSE })
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        match i32::try_from(value) {
            Ok(small) => {
                put_int(&mut self.encoder.out, small);
                self.encoder.pay()
            }
            Err(_) => self.number(value as f64),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(small) => self.visit_i64(small),
            Err(_) => self.number(value as f64),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        wire::put_f64(&mut self.encoder.out, value);
        self.encoder.pay()
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.encoder.out.push(wire::STRING);
        put_string(&mut self.encoder.out, text);
        self.encoder.pay()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        self.encoder.out.push(wire::ARRAY);
        let start = self.encoder.out.len();
        let mut count = 0_u32;
        while sequence.next_element_seed(self.nested()?)?.is_some() {
            count += 1; // Each takes at least one byte of the text.
        }
        let mut len = Vec::with_capacity(5);
        put_varint(&mut len, count);
        self.encoder.out.splice(start..start, len);
        self.encoder.pay()
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        self.encoder.out.push(wire::OBJECT);
        while let Some(key) = access.next_key::<std::borrow::Cow<'de, str>>()? {
            self.encoder.key(&key)?;
            access.next_value_seed(self.nested()?)?;
        }
        put_varint(&mut self.encoder.out, wire::KEY_END);
        self.encoder.pay()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use proptest::prelude::*;

    fn arbitrary_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            (-200_i32..200).prop_map(Json::from),
            (-1e300..1e300).prop_map(Json::from),
            ".{0,8}".prop_map(Json::String),
        ];
        leaf.prop_recursive(5, 300, 200, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..200).prop_map(Json::Array),
                prop::collection::vec(("[a-d]{0,2}", inner), 0..8)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn trees_and_values_are_as_those_of_serde_json(json in arbitrary_json()) {
            let text = json.to_string();
            let read: Json = serde_json::from_str(&text).unwrap();
            let mut meter = Meter::alone(1 << 24);
            prop_assert_eq!(&parse_json(&text, &mut meter).unwrap(), &read);
            let value = parse_with(&text, &mut meter, |meter, from| ValueSeed(meter).deserialize(from)).unwrap();
            prop_assert_eq!(value, Value::from_json(Some(&read), "value").unwrap());
        }

        #[test]
        fn invalid_text_is_rejected_as_by_serde_json(text in "[\\[\\]{}0-9,:\"a-c\\\\ .e-]{0,24}") {
            let expected = serde_json::from_str::<Json>(&text).map_err(|error| error.to_string());
            let read = parse_json(&text, &mut Meter::alone(1 << 20)).map_err(|error| error.to_string());
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn a_tree_that_outgrows_its_text_is_refused_before_it_is_built() {
        let text = format!("[{}0]", "0,".repeat(1 << 20));
        let budget = Budget::new(1 << 20);
        let mut meter = Meter::new(&budget, usize::MAX, &|| false);
        assert!(matches!(parse_json(&text, &mut meter), Err(JsonError::Refused(Refused::Exhausted(_)))));
        assert!(budget.peak() <= 1 << 20);
        let mut meter = Meter::alone(1 << 20);
        assert!(matches!(parse_json(&text, &mut meter), Err(JsonError::Refused(Refused::TooLarge(_)))));
        let value = parse_with(&text, &mut Meter::alone(5 << 20), |meter, from| ValueSeed(meter).deserialize(from));
        assert_eq!(value.unwrap().as_bytes().len(), 1 + 3 + 2 * ((1 << 20) + 1));
    }
}
