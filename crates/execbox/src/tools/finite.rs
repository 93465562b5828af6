//! Rust values to JSON, with an error for NaN and infinities, which `serde_json` silently converts to `null`.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Serializer};
use serde_json::Value as Json;

/// Converts a value to JSON. Fails if it has no form in JSON or contains a number that is not finite.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<Json, String> {
    let json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    // Such a number became null.
    if has_null(&json) {
        let mut path = String::new();
        value.serialize(Finder { path: &mut path }).map_err(|error| error.0)?;
    }
    Ok(json)
}

fn has_null(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::Array(items) => items.iter().any(has_null),
        Json::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// Fails at the first number that is not finite. `path` is the path of the visited value.
struct Finder<'a> {
    path: &'a mut String,
}

#[derive(Debug)]
struct NotFinite(String);

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl Finder<'_> {
    fn number(&self, number: f64) -> Result<(), NotFinite> {
        let what = match number {
            number if number.is_nan() => "NaN",
            number if number.is_infinite() => "infinite",
            _ => return Ok(()),
        };
        Err(NotFinite(format!("result{} is {what}; use null or a finite number", self.path)))
    }
}

/// Visits the parts of a list or an object.
struct Parts<'a> {
    path: &'a mut String,
    index: usize,
}

impl<'a> Parts<'a> {
    fn of(Finder { path }: Finder<'a>) -> Self {
        Self { path, index: 0 }
    }

    fn visit<T: Serialize + ?Sized>(&mut self, step: &str, part: &T) -> Result<(), NotFinite> {
        let len = self.path.len();
        self.path.push_str(step);
        part.serialize(Finder { path: self.path })?;
        self.path.truncate(len);
        Ok(())
    }

    fn item<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), NotFinite> {
        let step = format!("[{}]", self.index);
        self.index += 1;
        self.visit(&step, part)
    }
}

macro_rules! accept {
    ($($method:ident($($type:ty),*))*) => {
        $(fn $method(self, $(_: $type),*) -> Result<(), NotFinite> { Ok(()) })*
    };
}

macro_rules! compound {
    ($($method:ident($($type:ty),*))*) => {
        $(fn $method(self, $(_: $type),*) -> Result<Parts<'a>, NotFinite> { Ok(Parts::of(self)) })*
    };
}

macro_rules! compound_variant {
    ($($method:ident)*) => {
        $(fn $method(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Parts<'a>, NotFinite> {
            self.path.push_str(&format!(".{variant}"));
            Ok(Parts::of(self))
        })*
    };
}

impl<'a> Serializer for Finder<'a> {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    accept! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_char(char)
        serialize_str(&str) serialize_bytes(&[u8]) serialize_none() serialize_unit() serialize_unit_struct(&'static str)
        serialize_unit_variant(&'static str, u32, &'static str)
    }

    fn serialize_f32(self, number: f32) -> Result<(), NotFinite> {
        self.number(number.into())
    }

    fn serialize_f64(self, number: f64) -> Result<(), NotFinite> {
        self.number(number)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotFinite> {
        Parts::of(self).visit(&format!(".{variant}"), value)
    }

    compound! {
        serialize_seq(Option<usize>) serialize_tuple(usize) serialize_tuple_struct(&'static str, usize)
        serialize_map(Option<usize>) serialize_struct(&'static str, usize)
    }

    compound_variant! { serialize_tuple_variant serialize_struct_variant }
}

macro_rules! lists {
    ($($trait:ident::$method:ident)*) => {
        $(impl ser::$trait for Parts<'_> {
            type Ok = ();
            type Error = NotFinite;

            fn $method<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), NotFinite> {
                self.item(part)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

lists! {
    SerializeSeq::serialize_element
    SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field
    SerializeTupleVariant::serialize_field
}

macro_rules! objects {
    ($($trait:ident)*) => {
        $(impl ser::$trait for Parts<'_> {
            type Ok = ();
            type Error = NotFinite;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, part: &T) -> Result<(), NotFinite> {
                self.visit(&format!(".{key}"), part)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

objects! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), NotFinite> {
        self.item(part)
    }

    fn serialize_entry<K: Serialize + ?Sized, T: Serialize + ?Sized>(
        &mut self,
        key: &K,
        part: &T,
    ) -> Result<(), NotFinite> {
        match serde_json::to_value(key) {
            Ok(Json::String(key)) => self.visit(&format!(".{key}"), part),
            _ => self.item(part),
        }
    }

    fn end(self) -> Result<(), NotFinite> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::json;

    #[derive(Serialize)]
    enum Shape {
        Circle(f64),
        Square { side: f32 },
        Pair(Option<f64>, ()),
    }

    #[test]
    fn numbers_that_are_not_finite_fail_with_their_path() {
        let error = |value: Result<Json, String>| value.unwrap_err();
        assert_eq!(error(to_json(&f64::NAN)), "result is NaN; use null or a finite number");
        assert_eq!(
            error(to_json(&[Some(1.0), Some(f64::INFINITY)])),
            "result[1] is infinite; use null or a finite number"
        );
        let by_name = BTreeMap::from([("a", vec![Shape::Circle(1.0)]), ("b", vec![Shape::Square { side: f32::NAN }])]);
        assert_eq!(error(to_json(&by_name)), "result.b[0].Square.side is NaN; use null or a finite number");
        let pair = Shape::Pair(Some(f64::NEG_INFINITY), ());
        assert_eq!(error(to_json(&pair)), "result.Pair[0] is infinite; use null or a finite number");
        assert_eq!(error(to_json(&Shape::Circle(f64::NAN))), "result.Circle is NaN; use null or a finite number");
    }

    #[test]
    fn null_stays_null() {
        assert_eq!(to_json(&(None::<f64>, (), 1.5)), Ok(json!([null, null, 1.5])));
        assert_eq!(to_json(&BTreeMap::from([(1, None::<f64>)])), Ok(json!({ "1": null })));
        assert!(to_json(&BTreeMap::from([([1], 1)])).is_err(), "keys are strings");
    }
}
