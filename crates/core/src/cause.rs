//! Why a program failed, as data. Error messages are rendered from it, so that clients need not parse them.
//!
//! The host sets the cause of a call that it fails. The engine keeps it with the error that the guest gets, under a name that guest
//! code cannot forge. If that error ends the program, the cause comes back with it.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

use crate::engine::CallId;
use crate::limits::{Amount, Limits, Unit, Wire};
use crate::names::is_identifier;
use crate::text::cut;
use crate::usage::LimitError;
use crate::value::json_size;

/// Why a program failed. In JSON an object with `kind`, for example `{"kind": "not_defined", "name": "shp"}`.
///
/// Guest code can cause [`NotDefined`](Self::NotDefined), [`NotAFunction`](Self::NotAFunction) and
/// [`PropertyOfNothing`](Self::PropertyOfNothing) by throwing an error of its own, so these serve only to explain the error.
/// The others come from the host, or from a runner if they pass the checks of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// There is no variable with this name.
    NotDefined {
        /// The name of the variable, cut to 256 characters.
        name: String,
    },
    /// The value that was called is not a function.
    NotAFunction {
        /// The callee; empty if it is not known.
        path: MemberPath,
    },
    /// A property of `undefined` or `null` was read.
    PropertyOfNothing {
        /// The property; empty if it is not known.
        path: MemberPath,
    },
    /// The host failed a call of a tool, and the guest did not catch that very error.
    FailedCall {
        /// The id of the call, as in events.
        call: CallId,
        /// The name of the provider.
        provider: String,
        /// The name of the tool in guest code.
        tool: String,
    },
    /// A limit was reached.
    Limit(ReachedLimit),
    /// The caller cancelled the execution, or terminated the run.
    Cancelled {
        /// The reason that the caller gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The program waited for something that nothing could settle.
    Stuck,
}

/// The most characters of a name in a [`Cause`], and the most names of a path.
const MAX_NAME: usize = 256;
const MAX_NAMES: usize = 16;

/// The most bytes of a cause as JSON.
pub(crate) const MAX_BYTES: usize = 16 << 10;

impl Cause {
    /// The cause of an error that names an undefined variable.
    pub(crate) fn not_defined(name: &str) -> Self {
        Self::NotDefined { name: cut(name, MAX_NAME) }
    }

    /// Reads the cause that another process reports. Causes are not part of the specification: one that is invalid or takes
    /// more than 16 KiB is ignored. The size is checked first.
    pub fn read(json: Json) -> Option<Self> {
        if json_size(&json) > MAX_BYTES {
            return None;
        }
        let cause: Self = serde_json::from_value(json).ok()?;
        let is_bounded = match &cause {
            Self::NotDefined { name } => is_short(name),
            Self::NotAFunction { path } | Self::PropertyOfNothing { path } => path.is_bounded(),
            _ => true,
        };
        is_bounded.then_some(cause)
    }
}

/// Whether a name has at most the length that [`cut`] leaves.
fn is_short(name: &str) -> bool {
    name.chars().nth(MAX_NAME + 1).is_none()
}

/// A variable and its members, as in `shop.orders["by-id"]`. Empty where it is not known: a member is computed, or the
/// object is not a variable.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemberPath(pub Vec<String>);

impl MemberPath {
    /// The path with these names; empty where there are too many, or one is too long.
    pub(crate) fn new(names: &[&str]) -> Self {
        let path = Self(names.iter().map(|&name| name.to_owned()).collect());
        if path.is_bounded() { path } else { Self::default() }
    }

    fn is_bounded(&self) -> bool {
        self.0.len() <= MAX_NAMES && self.0.iter().all(|name| is_short(name))
    }
}

impl fmt::Display for MemberPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((base, members)) = self.0.split_first() else { return Ok(()) };
        f.write_str(base)?;
        members.iter().try_for_each(|member| match is_identifier(member) {
            true => write!(f, ".{member}"),
            false => write!(f, "[{member:?}]"),
        })
    }
}

/// A limit that a program has reached. In JSON an object with `limit`, `used`, `allowed` and `calls`; durations are in
/// milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReachedLimit {
    /// The name of the limit in the options of the protocol, for example `maxCalls`.
    pub limit: &'static str,
    /// How much the program used, if that is known. Includes what the limit refused.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "amount_or_none")]
    pub used: Option<Amount>,
    /// The value of the limit.
    #[serde(serialize_with = "amount")]
    pub allowed: Amount,
    /// The calls of the script, if the limit is the timeout of a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallsSoFar>,
}

/// The calls that a program had made when its timeout passed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallsSoFar {
    /// The number of answered calls.
    pub answered: u64,
    /// The number of unanswered calls.
    pub unanswered: u64,
    /// The first unanswered call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Unanswered>,
}

/// A call that has not been answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unanswered {
    /// The name of the provider.
    pub provider: String,
    /// The name of the tool in guest code.
    pub tool: String,
    /// The time since the call was made, in milliseconds.
    pub ms: u64,
}

/// `; shop.slow has not answered for 480 ms, nor has 1 other call; 3 calls were answered`.
impl fmt::Display for CallsSoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Unanswered { provider, tool, ms }) = &self.first {
            write!(f, "; {provider}.{tool} has not answered for {ms} ms")?;
        }
        match self.unanswered {
            0 | 1 => {}
            2 => f.write_str(", nor has 1 other call")?,
            unanswered => write!(f, ", nor have {} other calls", unanswered - 1)?,
        }
        match self.answered {
            0 => Ok(()),
            1 => f.write_str("; 1 call was answered"),
            answered => write!(f, "; {answered} calls were answered"),
        }
    }
}

impl ReachedLimit {
    /// The limit with this field of [`Limits`].
    ///
    /// # Panics
    /// There is no such limit, or it has no name in the protocol.
    pub(crate) fn new(field: &str, used: Option<Amount>, allowed: Amount) -> Self {
        let limit = wire_name(|(row, _)| row == field).expect("the limit is in the table");
        Self { limit: limit.0, used, allowed, calls: None }
    }

    /// The limit [`Limits::timeout`].
    pub(crate) fn timeout(allowed: Duration, used: Option<Duration>) -> Self {
        Self::new("timeout", used.map(Amount::Time), Amount::Time(allowed))
    }

    /// The limit as an error, if it is a limit on CPU time.
    pub fn as_cpu_time(&self) -> Option<LimitError> {
        let (Some(Amount::Time(used)), Amount::Time(limit)) = (self.used, self.allowed) else { return None };
        match self.limit {
            "cpuTimeMs" => Some(LimitError::CpuTime { used, limit }),
            "cpuTimeBeforeCallsMs" => Some(LimitError::CpuTimeBeforeCalls { used, limit }),
            _ => None,
        }
    }

    /// The allowed time, if this is [`Limits::timeout`].
    pub fn as_timeout(&self) -> Option<Duration> {
        match self.allowed {
            Amount::Time(time) if self.limit == "timeoutMs" => Some(time),
            _ => None,
        }
    }
}

impl From<&LimitError> for ReachedLimit {
    fn from(error: &LimitError) -> Self {
        let time = |field, used, limit| Self::new(field, Some(Amount::Time(used)), Amount::Time(limit));
        let count = |field, used, limit| Self::new(field, Some(Amount::Count(used)), Amount::Count(limit));
        match *error {
            LimitError::CpuTime { used, limit } => time("cpu_time", used, limit),
            LimitError::CpuTimeBeforeCalls { used, limit } => time("cpu_time_before_calls", used, limit),
            LimitError::HostWait { used, limit } => time("host_wait", used, limit),
            LimitError::Calls { used, limit } => count("max_calls", used, limit),
            LimitError::BytesIn { used, limit } => count("max_bytes_in", used, limit),
            LimitError::BytesOut { used, limit } => count("max_bytes_out", used, limit),
        }
    }
}

/// The name in the protocol, and the unit, of the first limit for which `is_it` accepts the field and that name.
fn wire_name(is_it: impl Fn((&str, &str)) -> bool) -> Option<(&'static str, Unit)> {
    Limits::TABLE.iter().find_map(|row| match row.wire {
        Wire::Always(name) | Wire::IfSet(name) => is_it((row.field, name)).then_some((name, row.unit)),
        Wire::Never => None,
    })
}

/// The fields of a [`ReachedLimit`] to deserialize.
#[derive(Deserialize)]
struct ReadLimit {
    limit: String,
    #[serde(default)]
    used: Option<f64>,
    allowed: f64,
    #[serde(default)]
    calls: Option<CallsSoFar>,
}

impl<'de> Deserialize<'de> for ReachedLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = ReadLimit::deserialize(deserializer)?;
        let found = wire_name(|(_, name)| name == read.limit);
        let (limit, unit) = found.ok_or_else(|| D::Error::custom("unknown limit"))?;
        let amount = |number: f64| match unit {
            Unit::Time => Duration::try_from_secs_f64(number / 1000.0).map(Amount::Time).map_err(D::Error::custom),
            Unit::Size | Unit::Count => Ok(Amount::Count(number as u64)),
        };
        let used = read.used.map(amount).transpose()?;
        Ok(Self { limit, used, allowed: amount(read.allowed)?, calls: read.calls })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn amount<S: Serializer>(amount: &Amount, to: S) -> Result<S::Ok, S::Error> {
    match amount {
        Amount::Time(time) => to.serialize_f64(time.as_micros() as f64 / 1000.0),
        Amount::Count(count) => to.serialize_u64(*count),
    }
}

#[allow(clippy::ref_option)] // as serde calls it
fn amount_or_none<S: Serializer>(used: &Option<Amount>, to: S) -> Result<S::Ok, S::Error> {
    match used {
        Some(used) => amount(used, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn causes_serialize_with_their_kind_and_are_read_again() {
        let calls = CallsSoFar {
            answered: 3,
            unanswered: 2,
            first: Some(Unanswered { provider: "shop".into(), tool: "slow".into(), ms: 480 }),
        };
        let timeout = Amount::Time(Duration::from_micros(1_500_250));
        let timeout = ReachedLimit { calls: Some(calls), ..ReachedLimit::new("timeout", None, timeout) };
        let max_calls = ReachedLimit::new("max_calls", Some(Amount::Count(4)), Amount::Count(3));
        for (cause, wire) in [
            (Cause::NotDefined { name: "shp".into() }, json!({"kind": "not_defined", "name": "shp"})),
            (
                Cause::NotAFunction { path: MemberPath::new(&["shop", "by-id"]) },
                json!({"kind": "not_a_function", "path": ["shop", "by-id"]}),
            ),
            (
                Cause::PropertyOfNothing { path: MemberPath::new(&[]) },
                json!({"kind": "property_of_nothing", "path": []}),
            ),
            (
                Cause::FailedCall { call: CallId(7), provider: "shop".into(), tool: "get".into() },
                json!({"kind": "failed_call", "call": 7, "provider": "shop", "tool": "get"}),
            ),
            (Cause::Limit(max_calls), json!({"kind": "limit", "limit": "maxCalls", "used": 4, "allowed": 3})),
            (
                Cause::Limit(timeout),
                json!({
                    "kind": "limit", "limit": "timeoutMs", "allowed": 1500.25,
                    "calls": {"answered": 3, "unanswered": 2, "first": {"provider": "shop", "tool": "slow", "ms": 480}},
                }),
            ),
            (Cause::Cancelled { reason: None }, json!({"kind": "cancelled"})),
            (Cause::Cancelled { reason: Some("no".into()) }, json!({"kind": "cancelled", "reason": "no"})),
            (Cause::Stuck, json!({"kind": "stuck"})),
        ] {
            assert_eq!(serde_json::to_value(&cause).unwrap(), wire);
            assert_eq!(Cause::read(wire.clone()), Some(cause), "{wire}");
        }
    }

    #[test]
    fn causes_that_cannot_be_are_ignored() {
        let long = "é".repeat(MAX_NAME + 2);
        for wire in [
            json!(null),
            json!("not_defined"),
            json!({}),
            json!({"kind": "made_up"}),
            json!({"kind": "not_defined"}),
            json!({"kind": "not_defined", "name": long}),
            json!({"kind": "not_a_function", "path": [long]}),
            json!({"kind": "not_a_function", "path": vec!["x"; MAX_NAMES + 1]}),
            json!({"kind": "failed_call", "call": -1, "provider": "shop", "tool": "get"}),
            json!({"kind": "limit", "limit": "made_up", "allowed": 1}),
            json!({"kind": "cancelled", "reason": "x".repeat(MAX_BYTES)}),
            json!({"kind": "stuck", "more": vec![0; MAX_BYTES]}),
            json!({"kind": "limit", "limit": "timeoutMs", "allowed": -1}),
            json!({"kind": "limit", "limit": "timeoutMs", "allowed": 1e300}),
            json!({"kind": "limit", "limit": "timeoutMs", "allowed": 1, "used": "much"}),
        ] {
            assert_eq!(Cause::read(wire.clone()), None, "{wire}");
        }
    }

    #[test]
    fn each_error_of_a_limit_is_a_limit_of_the_protocol() {
        let (used, limit) = (Duration::from_millis(3), Duration::from_millis(2));
        for (error, name) in [
            (LimitError::CpuTime { used, limit }, "cpuTimeMs"),
            (LimitError::CpuTimeBeforeCalls { used, limit }, "cpuTimeBeforeCallsMs"),
            (LimitError::HostWait { used, limit }, "hostWaitMs"),
            (LimitError::Calls { used: 3, limit: 2 }, "maxCalls"),
            (LimitError::BytesIn { used: 3, limit: 2 }, "maxBytesIn"),
            (LimitError::BytesOut { used: 3, limit: 2 }, "maxBytesOut"),
        ] {
            let reached = ReachedLimit::from(&error);
            let is_cpu = matches!(error, LimitError::CpuTime { .. } | LimitError::CpuTimeBeforeCalls { .. });
            assert_eq!((reached.limit, reached.as_cpu_time()), (name, Some(error).filter(|_| is_cpu)));
            assert_eq!(Cause::read(json!(Cause::Limit(reached.clone()))), Some(Cause::Limit(reached)));
        }
    }

    #[test]
    fn paths_are_written_as_in_code() {
        for (names, text) in [
            (&["shop"] as &[_], "shop"),
            (&["shop", "orders", "list"], "shop.orders.list"),
            (&["shop", "list-orders", "x"], "shop[\"list-orders\"].x"),
            (&[], ""),
        ] {
            assert_eq!(MemberPath::new(names).to_string(), text);
        }
    }
}
