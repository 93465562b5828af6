//! The limits of a program in messages: the names of the runner protocol, in milliseconds, bytes and plain numbers.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use execbox::{Amount, Limits};
use execbox_core::program::{Limit, Unit, Wire};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The longest time that a limit can be: about 30 years.
const MAX_MS: u64 = 1_000_000_000_000;

/// The limits that a request sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LimitValues(Vec<(&'static str, u64)>);

impl LimitValues {
    /// Sets the memory limit, as the options of a run name it. It replaces that of the limits.
    pub(crate) fn set_memory(&mut self, bytes: u64) {
        self.0.push(("memoryLimitBytes", bytes));
    }

    /// The limits, with those of `base` for what is not set.
    pub(crate) fn over(&self, base: Limits) -> Limits {
        let mut limits = base;
        for (name, value) in &self.0 {
            if let Some(limit) = all().find(|limit| self::name(limit) == *name) {
                let is_time = limit.unit == Unit::Time;
                let amount = if is_time { Amount::Time(Duration::from_millis(*value)) } else { Amount::Count(*value) };
                limit.set(&mut limits, Some(amount));
            }
        }
        limits
    }
}

/// The limits that an application can set: not the one that starts a program again, which is an option of the service.
fn all() -> impl Iterator<Item = &'static Limit> {
    Limits::TABLE.iter().filter(|limit| limit.field != "cpu_time_before_calls")
}

/// The name of a limit in messages. What runners do not learn has none in their protocol.
fn name(limit: &Limit) -> &'static str {
    match limit.wire {
        Wire::Always(name) | Wire::IfSet(name) => name,
        Wire::Never => "maxCallsInFlight",
    }
}

impl<'de> Deserialize<'de> for LimitValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = LimitValues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of limits")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<LimitValues, M::Error> {
                let mut values = Vec::new();
                while let Some(key) = map.next_key::<Cow<'_, str>>()? {
                    let limit = all().find(|limit| name(limit) == key).ok_or_else(|| {
                        let names: Vec<_> = all().map(name).collect();
                        M::Error::custom(format!("unknown limit `{key}`, expected one of {}", names.join(", ")))
                    })?;
                    let value = map.next_value::<u64>()?;
                    if limit.unit == Unit::Time && value > MAX_MS {
                        return Err(M::Error::custom(format!("`{key}` is more than {MAX_MS} ms")));
                    }
                    values.push((name(limit), value));
                }
                Ok(LimitValues(values))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl JsonSchema for LimitValues {
    fn schema_name() -> Cow<'static, str> {
        "Limits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties = all().map(|limit| {
            let unit = match limit.unit {
                Unit::Time => "in milliseconds",
                Unit::Size => "in bytes",
                Unit::Count => "a number",
            };
            let default = limit.get(&Limits::default()).map_or_else(
                || "none".to_owned(),
                |amount| match amount {
                    Amount::Time(time) => time.as_millis().to_string(),
                    Amount::Count(count) => count.to_string(),
                },
            );
            let description = format!("{}, {unit}. Default: {default}.", limit.effect);
            let schema = serde_json::json!({ "type": "integer", "minimum": 0, "description": description });
            (name(limit).to_owned(), schema)
        });
        let properties: serde_json::Map<_, _> = properties.collect();
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_their_names() {
        let json = r#"{"timeoutMs": 70, "memoryLimitBytes": 1048576, "maxCallsInFlight": 3, "maxCalls": 0}"#;
        let limits = serde_json::from_str::<LimitValues>(json).unwrap().over(Limits::default());
        let expected = Limits::default().timeout(Duration::from_millis(70)).memory_bytes(1 << 20);
        assert_eq!(limits, expected.max_calls_in_flight(3).max_calls(0));
        for (json, expected) in [
            (r#"{"timeout": 7}"#, "unknown limit `timeout`, expected one of timeoutMs, memoryLimitBytes,"),
            (r#"{"timeoutMs": -1}"#, "invalid value: integer `-1`, expected u64"),
            (r#"{"timeoutMs": 18446744073709551615}"#, "`timeoutMs` is more than 1000000000000 ms"),
            ("[]", "invalid type: sequence, expected an object of limits"),
        ] {
            let error = serde_json::from_str::<LimitValues>(json).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
