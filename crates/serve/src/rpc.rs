//! JSON-RPC 2.0: lines to messages, and messages to lines.
//!
//! A batch is refused. A request whose `id` is not a string or an integer is answered with the id `null`.

use std::{fmt, io};

pub(crate) use execbox::transport::MAX_MESSAGE_BYTES;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// The longest id of a request, in bytes.
const MAX_ID_BYTES: usize = 256;

/// The id of a request of the application.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub(crate) enum RequestId {
    Number(i64),
    Text(String),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// An error as JSON-RPC defines it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct RpcError {
    /// What kind of error it is: one of JSON-RPC, or one of this protocol.
    pub(crate) code: i64,
    /// What is wrong, for people.
    pub(crate) message: String,
    /// Further data. For functions: `name`, the name of the error that the program sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Json>,
}

/// The line is not JSON, or too long.
pub(crate) const PARSE_ERROR: i64 = -32700;
/// The message is not one of JSON-RPC, or comes at a wrong time.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// There is no method of that name.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid. From an application, as the answer to a call: the program can correct its input.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// The request failed for a reason that is not in its parameters.
pub(crate) const FAILED: i64 = -32000;
/// The service holds too much for requests that are not answered.
pub(crate) const OVERLOADED: i64 = -32001;

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }
}

/// A message of the application.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A request, or without an id a notification.
    Request { id: Option<RequestId>, method: String, params: Option<Box<RawValue>> },
    /// The answer to a request of the service.
    Response { id: u64, outcome: Result<Box<RawValue>, RpcError> },
}

/// A line that is no message, with the id that its answer has, if one could be read.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: RpcError,
}

/// The members of all kinds of messages. Others are ignored.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "present")]
    id: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    jsonrpc: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    method: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Box<RawValue>>,
}

/// A member that is there, also if it is `null`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads a line.
pub(crate) fn read(line: &[u8]) -> Result<Incoming, Box<Malformed>> {
    let malformed = |id, code, message: String| Box::new(Malformed { id, error: RpcError::new(code, message) });
    let text = std::str::from_utf8(line);
    let text = text.map_err(|error| malformed(None, PARSE_ERROR, format!("the line is not UTF-8: {error}")))?;
    let not_json = |error| malformed(None, PARSE_ERROR, format!("the line is not JSON: {error}"));
    if text.trim_start().starts_with('[') {
        serde_json::from_str::<IgnoredAny>(text).map_err(not_json)?;
        let message = "batches are not supported: send each message in a line of its own";
        return Err(malformed(None, INVALID_REQUEST, message.to_owned()));
    }
    let envelope =
        serde_json::from_str::<Envelope>(text).map_err(|error| match serde_json::from_str::<IgnoredAny>(text) {
            Err(error) => not_json(error),
            Ok(_) => malformed(None, INVALID_REQUEST, format!("the line is not a message of JSON-RPC: {error}")),
        })?;
    let Envelope { id, jsonrpc, method, params, result, error } = envelope;
    let read_id = id.clone().map(|id| serde_json::from_value::<RequestId>(id).ok());
    let read_id = read_id.map(|id| id.filter(|id| !matches!(id, RequestId::Text(text) if text.len() > MAX_ID_BYTES)));
    let invalid = |message: &str| malformed(read_id.clone().flatten(), INVALID_REQUEST, message.to_owned());
    if jsonrpc.as_ref().and_then(Json::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` must be \"2.0\""));
    }
    match (method, result, error) {
        (Some(Json::String(method)), None, None) => match read_id {
            Some(None) => Err(invalid("`id` must be an integer, or a string of at most 256 bytes")),
            id => Ok(Incoming::Request { id: id.flatten(), method, params }),
        },
        (Some(_), None, None) => Err(invalid("`method` must be a string")),
        (None, result, error) if result.is_some() != error.is_some() => {
            let id = id.as_ref().and_then(Json::as_u64).ok_or_else(|| invalid("`id` must be that of a request"))?;
            let outcome = match (result, error) {
                (Some(result), _) => Ok(result),
                (None, error) => {
                    Err(error.and_then(|error| serde_json::from_str(error.get()).ok()).unwrap_or_else(|| {
                        RpcError::new(FAILED, "the application's error is not an object with `code` and `message`")
                    }))
                }
            };
            Ok(Incoming::Response { id, outcome })
        }
        _ => Err(invalid("expected a request with `method`, or an answer with either `result` or `error`")),
    }
}

/// Reads parameters, or the result of a request. `what` names them in the error.
pub(crate) fn parse<T: DeserializeOwned>(json: &str, what: &str) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.into_inner().to_string();
        // The position would be in the parameters, not in the line.
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason).to_owned();
        if path == "." { format!("{what}: {reason}") } else { format!("{what}.{path}: {reason}") }
    })
}

/// Why a message was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The text would be longer than a line can be. The program chooses its length: a character can take six bytes.
    #[error("it has more than {} MiB as JSON", MAX_MESSAGE_BYTES >> 20)]
    TooLong,
    /// A value cannot be JSON.
    #[error(transparent)]
    Json(serde_json::Error),
}

/// Writes JSON, within the length of a line.
pub(crate) fn write(json: &impl Serialize) -> Result<Vec<u8>, WriteError> {
    let mut line = Line(Vec::new());
    match serde_json::to_writer(&mut line, json) {
        Ok(()) => Ok(line.0),
        Err(error) if error.is_io() => Err(WriteError::TooLong),
        Err(error) => Err(WriteError::Json(error)),
    }
}

/// [`write`], for a part of a message.
pub(crate) fn write_raw(json: &impl Serialize) -> Result<Box<RawValue>, WriteError> {
    let text = String::from_utf8(write(json)?).unwrap_or_default(); // serde_json writes UTF-8.
    RawValue::from_string(text).map_err(WriteError::Json)
}

/// A text that does not become longer than a line can be.
struct Line(Vec<u8>);

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_MESSAGE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a request with an id, or a notification without one.
pub(crate) fn request(id: Option<u64>, method: &str, params: &impl Serialize) -> Result<Vec<u8>, WriteError> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        method: &'a str,
        params: &'a P,
    }
    write(&Request { jsonrpc: "2.0", id, method, params })
}

/// Writes the result of a request.
pub(crate) fn result(id: &RequestId, result: &impl Serialize) -> Result<Vec<u8>, WriteError> {
    #[derive(Serialize)]
    struct Response<'a, R> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        result: &'a R,
    }
    write(&Response { jsonrpc: "2.0", id, result })
}

/// Writes the error of a request; without an id, that of a line that is none.
pub(crate) fn error(id: Option<&RequestId>, error: &RpcError) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RequestId>,
        error: &'a RpcError,
    }
    // Nothing in an error can fail to be JSON.
    serde_json::to_vec(&Response { jsonrpc: "2.0", id, error }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malformed(line: &str) -> String {
        let Malformed { id, error } = *read(line.as_bytes()).unwrap_err();
        format!("{} {} {}", id.map_or_else(|| "null".to_owned(), |id| id.to_string()), error.code, error.message)
    }

    #[test]
    fn messages_are_requests_notifications_and_responses() {
        let Ok(Incoming::Request { id, method, params }) =
            read(br#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"x": 1}}"#)
        else {
            panic!("a request");
        };
        assert_eq!((id, &*method), (Some(RequestId::Text("a".to_owned())), "m"));
        assert_eq!(params.unwrap().get(), r#"{"x": 1}"#);
        let notification = read(br#"{"jsonrpc":"2.0","method":"m"}"#);
        assert!(matches!(notification, Ok(Incoming::Request { id: None, params: None, .. })));
        let response = read(br#"{"jsonrpc":"2.0","id":7,"result":null}"#);
        assert!(matches!(response, Ok(Incoming::Response { id: 7, outcome: Ok(result) }) if result.get() == "null"));
        let response = read(br#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}"#);
        assert!(matches!(response, Ok(Incoming::Response { outcome: Err(error), .. }) if error.message == "no"));
        let response = read(br#"{"jsonrpc":"2.0","id":7,"error":"no"}"#);
        assert!(matches!(response, Ok(Incoming::Response { outcome: Err(error), .. }) if error.code == FAILED));
    }

    #[test]
    fn other_lines_are_answered_with_what_is_wrong() {
        for (line, expected) in [
            ("", "null -32700 the line is not JSON: EOF while parsing a value at line 1 column 0"),
            ("{", "null -32700 the line is not JSON: EOF while parsing an object at line 1 column 1"),
            ("[]", "null -32600 batches are not supported: send each message in a line of its own"),
            (
                "7",
                "null -32600 the line is not a message of JSON-RPC: invalid type: integer `7`, expected struct Envelope at line 1 column 1",
            ),
            ("{}", "null -32600 `jsonrpc` must be \"2.0\""),
            (r#"{"jsonrpc":"1.0","id":4}"#, "4 -32600 `jsonrpc` must be \"2.0\""),
            (
                r#"{"jsonrpc":"2.0","id":4}"#,
                "4 -32600 expected a request with `method`, or an answer with either `result` or `error`",
            ),
            (r#"{"jsonrpc":"2.0","id":4,"method":7}"#, "4 -32600 `method` must be a string"),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
                "null -32600 `id` must be an integer, or a string of at most 256 bytes",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
                "null -32600 `id` must be an integer, or a string of at most 256 bytes",
            ),
            (r#"{"jsonrpc":"2.0","id":"x","result":1}"#, "\"x\" -32600 `id` must be that of a request"),
            (
                r#"{"jsonrpc":"2.0","id":4,"result":1,"error":{}}"#,
                "4 -32600 expected a request with `method`, or an answer with either `result` or `error`",
            ),
        ] {
            assert_eq!(malformed(line), expected, "{line}");
        }
        assert!(malformed("\u{fffd}").contains("not JSON"));
        let Malformed { error, .. } = *read(b"\xff").unwrap_err();
        assert_eq!((error.code, error.message.starts_with("the line is not UTF-8")), (PARSE_ERROR, true));
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(MAX_ID_BYTES + 1));
        assert!(malformed(&long).starts_with("null -32600 `id` must be"));
    }

    #[test]
    fn errors_of_parameters_name_the_place() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Params {
            #[allow(dead_code)]
            items: Vec<u8>,
        }
        let error = |json| parse::<Params>(json, "params").unwrap_err();
        assert_eq!(error(r#"{"items":[1,"x"]}"#), "params.items[1]: invalid type: string \"x\", expected u8");
        assert_eq!(error(r#"{"entries":[]}"#), "params.entries: unknown field `entries`, expected `items`");
        assert_eq!(error("{}"), "params: missing field `items`");
    }
}
