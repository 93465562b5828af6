//! Messages of clients that cannot be read: every request gets an answer, and nothing else does.

use std::collections::HashMap;
use std::time::Duration;

use execbox_mcp::server::{HttpOptions, LineTransport};
use execbox_testkit::cases::{Case, CaseFile};
use proptest::prelude::*;
use proptest::sample::Index;
use rmcp::ServiceExt as _;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport as _;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::fakes::{Fake, code_server};
use crate::http::serve;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unreadable-messages.cases");

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"initialize","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A section of a case as bytes: `«ff»` is a byte, and `«3 × x»` is `xxx`.
fn bytes(section: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, part) in section.split(['«', '»']).enumerate() {
        match part.split_once(" × ") {
            _ if at % 2 == 0 => bytes.extend(part.as_bytes()),
            Some((times, text)) => bytes.extend(text.repeat(times.parse().unwrap()).bytes()),
            None => bytes.extend(part.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap())),
        }
    }
    bytes
}

fn section(case: &Case, name: &str) -> Option<Vec<u8>> {
    case.sections.iter().find(|(own, _)| own == name).map(|(_, text)| bytes(text))
}

fn json_of(text: &[u8]) -> Option<Json> {
    (!text.is_empty()).then(|| serde_json::from_slice(text).unwrap())
}

/// Whether a value has everything that `part` has.
fn includes(value: &Json, part: &Json) -> bool {
    match part {
        Json::Object(members) => {
            members.iter().all(|(key, part)| value.get(key).is_some_and(|value| includes(value, part)))
        }
        part => value == part,
    }
}

fn check(case: &Case, expected: Option<&Json>, answers: &[Json]) {
    let is_expected = match (expected, answers) {
        (None, []) => true,
        (Some(expected), [answer]) => includes(answer, expected),
        _ => false,
    };
    assert!(is_expected, "{}:\n  expected {}\n  got {answers:?}", case.title, json!(expected));
}

/// Sends lines to a server, and returns its answers, without that to [`INITIALIZE`].
async fn answers(lines: &[&[u8]]) -> Vec<Json> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(far);
    let server = code_server(&Fake::standard()).await;
    let serving = tokio::spawn(async move {
        if let Ok(running) = server.serve(LineTransport::new(reader, writer)).await {
            running.waiting().await.unwrap();
        }
    });
    let (mut reader, mut writer) = tokio::io::split(near);
    let lines = lines.join(&b'\n');
    tokio::spawn(async move {
        writer.write_all(&lines).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut answers = String::new();
    reader.read_to_string(&mut answers).await.unwrap();
    serving.await.unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    answers.filter(|answer| answer["id"] != "initialize").collect()
}

#[tokio::test]
async fn lines_are_answered_as_the_cases_state() {
    for case in CaseFile::read(CASES).cases {
        let line = section(&case, "").unwrap();
        let lines = [INITIALIZE.as_bytes(), INITIALIZED.as_bytes(), &line, b""];
        check(&case, json_of(&section(&case, "answer").unwrap()).as_ref(), &answers(&lines).await);
    }
}

#[tokio::test]
async fn bodies_are_answered_as_the_cases_state() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    let session = served.session("2025-11-25").await;
    for case in CaseFile::read(CASES).cases {
        let body = section(&case, "").unwrap();
        let json = "Content-Type: application/json\r\nAccept: application/json, text/event-stream";
        let head = served.head("POST /mcp", &format!("{session}{json}\r\nContent-Length: {}\r\n", body.len()));
        let answer = served.raw([head.into_bytes(), body].concat()).await;
        let status = &case.fields()[0];
        assert_eq!(("http", answer.status.to_string()), (&*status.0, status.1.clone()), "{}: {answer:?}", case.title);
        let expected = section(&case, "answer over HTTP").or_else(|| section(&case, "answer")).unwrap();
        // JSON or a stream of events, in chunks.
        let lines = answer.body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let messages = lines.filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap());
        let messages: Vec<Json> = messages.collect();
        let is_json = answer.header("content-type") == Some("application/json");
        assert!(is_json || answer.status != 400, "{}: {answer:?}", case.title);
        check(&case, json_of(&expected).as_ref(), &messages);
    }
}

#[tokio::test]
async fn unreadable_bodies_are_answered_after_the_checks_of_the_head() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    let post = |headers: &str| served.head("POST /mcp", &format!("{headers}Content-Length: 1\r\n")) + "{";
    let accept = "Accept: application/json, text/event-stream\r\n";
    for (headers, status) in [
        (format!("{accept}Content-Type: application/json\r\n"), 400),
        (format!("{accept}Content-Type: text/plain\r\n"), 415),
        (accept.to_owned(), 415),
        ("Content-Type: application/json\r\nAccept: text/html\r\n".to_owned(), 406),
        (format!("{accept}Content-Type: application/json\r\nOrigin: https://example.com\r\n"), 403),
    ] {
        let answer = served.raw(post(&headers)).await;
        assert_eq!(answer.status, status, "{headers}: {answer:?}");
        assert_eq!(answer.body.contains("-32700"), status == 400, "{headers}: {answer:?}");
    }
}

#[tokio::test]
async fn messages_before_the_handshake_do_not_end_the_connection() {
    let lines = [
        "no JSON",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":3}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"other"}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"initialize","params":{}}"#,
        INITIALIZE,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
    ];
    let answers = answers(&lines.map(str::as_bytes)).await;
    let found: Vec<_> = answers.iter().map(|answer| (answer["id"].clone(), answer["error"]["code"].clone())).collect();
    let expected = [
        (Json::Null, json!(-32700)),
        (json!(1), Json::Null),
        (json!(4), json!(-32601)),
        (json!(5), json!(-32602)),
        (json!(6), json!(-32602)),
        (json!(7), Json::Null),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_answered_once_and_the_next_one_is_read() {
    let long = "x".repeat(17 << 20);
    let lines = [
        INITIALIZE.to_owned(),
        format!(r#"{{"method":"tools/call","params":{{"id":4,"name":"{long}"}},"jsonrpc":"2.0","id":3}}"#),
        long.clone(),
        format!(r#"{{"jsonrpc":"2.0","id":5,"result":"{long}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":6,"method":"ping","params":{{"a":[{}0]}}}}"#, "0,".repeat(1 << 20)),
        r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#.to_owned(),
    ];
    let answers = answers(&lines.each_ref().map(String::as_bytes)).await;
    let message = "invalid request: longer than 16 MiB";
    let values = "invalid request: so many values that it takes more than 128 MiB";
    let expected = [
        json!({ "jsonrpc": "2.0", "id": 3, "error": { "code": -32600, "message": message } }),
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": message } }),
        json!({ "jsonrpc": "2.0", "id": 6, "error": { "code": -32600, "message": values } }),
        json!({ "jsonrpc": "2.0", "id": 7, "result": {} }),
    ];
    assert_eq!(answers, expected);
}

/// The bytes that a server reads from a client that writes the same line again and again, and reads nothing.
async fn read_of_a_flood(line: &str) -> usize {
    let (near, far) = tokio::io::duplex(1 << 10);
    let (reader, writer) = tokio::io::split(far);
    let server = code_server(&Fake::standard()).await;
    tokio::spawn(async move { server.serve(LineTransport::new(reader, writer)).await.unwrap().waiting().await });
    let (_reader, mut writer) = tokio::io::split(near);
    let line = format!("{line}\n");
    writer.write_all(format!("{INITIALIZE}\n").as_bytes()).await.unwrap();
    let mut written = 0;
    while let Ok(result) = tokio::time::timeout(Duration::from_millis(500), writer.write_all(line.as_bytes())).await {
        result.unwrap();
        written += line.len();
        assert!(written < 8 << 20, "not bounded");
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_not_read() {
    for line in
        ["x", "{}", r#"{"jsonrpc":"2.0","id":1,"method":"other"}"#, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#]
    {
        let read = read_of_a_flood(line).await;
        assert!(read < 1 << 20, "{line}: {read}");
    }
}

/// What a transport passes to the server and what it writes, for lines before the handshake.
async fn outcome(lines: Vec<u8>) -> (Vec<ClientJsonRpcMessage>, Vec<Json>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let mut transport = LineTransport::new(std::io::Cursor::new(lines), far);
    let mut messages = Vec::new();
    while let Some(message) = transport.receive().await {
        messages.push(message);
    }
    transport.close().await.unwrap();
    let (mut reader, mut written) = (near, String::new());
    reader.read_to_string(&mut written).await.unwrap();
    (messages, written.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[tokio::test]
async fn a_response_that_cannot_be_read_fails_the_request_of_the_server() {
    for response in [
        r#"{"jsonrpc":"2.0","id":0,"error":"no"}"#.to_owned(),
        r#"{"id":0,"result":{}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{}"}}"#, "x".repeat(17 << 20)),
        format!(r#"{{"jsonrpc":"2.0","id":0,"result":{}{}}}"#, "[".repeat(200), "]".repeat(200)),
    ] {
        let (messages, written) = outcome(format!("{INITIALIZE}\n{response}\n").into_bytes()).await;
        let [JsonRpcMessage::Request(_), JsonRpcMessage::Error(error)] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!((json!(error.id), written.len()), (json!(0), 0), "{error:?}");
    }
}

#[tokio::test]
async fn a_line_that_arrives_in_parts_is_read_although_reading_is_interrupted() {
    let (mut near, far) = tokio::io::duplex(1 << 10);
    let mut transport = LineTransport::new(far, tokio::io::sink());
    for part in INITIALIZE.as_bytes().chunks(40) {
        near.write_all(part).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(5), transport.receive()).await.is_err());
    }
    near.write_all(b"\n").await.unwrap();
    assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_the_end() {
    let (_near, far) = tokio::io::duplex(8);
    let mut transport = LineTransport::new(tokio::io::empty(), far);
    let error = ErrorData::internal_error("longer than the buffer", None);
    let sending = tokio::spawn(transport.send(ServerJsonRpcMessage::error(error, None)));
    tokio::task::yield_now().await;
    tokio::time::timeout(Duration::from_secs(5), transport.close()).await.unwrap().unwrap();
    assert!(!sending.is_finished());
}

/// A change to a line: bytes at a place, in place of some of its own.
type Edit = (Index, usize, Vec<u8>);

fn edited(line: &str, edits: &[Edit]) -> Vec<u8> {
    let mut line = line.as_bytes().to_vec();
    for (at, removed, inserted) in edits {
        let at = at.index(line.len() + 1);
        let end = line.len().min(at + removed);
        line.splice(at..end, inserted.iter().copied());
    }
    line.retain(|byte| *byte != b'\n');
    line
}

fn edit() -> impl Strategy<Value = Edit> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        prop::sample::select(vec![
            "null",
            "5",
            "1.5",
            "\"\"",
            "{}",
            "[]",
            "\\ud83d",
            "\"id\":",
            ",",
            "}",
            "{",
            "\"error\":1,"
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
    ];
    (any::<Index>(), prop_oneof![Just(0), 0usize..8], piece)
}

/// The id with which a line must be answered once: `None` if it need not be answered.
fn owed(line: &[u8]) -> Option<Json> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return None;
    }
    let mended =
        std::str::from_utf8(line).ok().map(|line| execbox_core::text::mend_surrogates(line).unwrap_or(line.to_owned()));
    let Some(Ok(message)) = mended.map(|line| serde_json::from_str::<Json>(&line)) else { return Some(Json::Null) };
    let has = |member: &str| message.get(member).is_some();
    let is_response = !has("method") && (has("result") || has("error"));
    let is_notification =
        !has("id") && message["method"].is_string() && message["jsonrpc"] == "2.0" && !has("result") && !has("error");
    match &message["id"] {
        _ if is_response || is_notification => None,
        Json::Number(id) if id.as_i64().is_some() => Some(json!(id.as_i64())),
        Json::Number(id) if id.as_f64().is_some_and(|id| id.fract() == 0.0 && id.abs() < 9e15) => None,
        Json::String(id) => Some(json!(id)),
        _ => Some(Json::Null),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_line_with_an_id_gets_one_answer(
        edits in prop::collection::vec((0usize..4, prop::collection::vec(edit(), 0..4)), 1..6),
    ) {
        let requests = [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"code":"1"}}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":null,"_meta":{"progressToken":1}}}"#,
            "",
        ];
        let lines: Vec<_> = edits.iter().map(|(request, edits)| edited(requests[*request], edits)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (messages, written) = runtime.block_on(outcome(lines.join(&b'\n')));
        let mut answers = HashMap::<String, i32>::new();
        for message in messages {
            let JsonRpcMessage::Request(request) = message else { panic!("not a request: {message:?}") };
            *answers.entry(json!(request.id).to_string()).or_default() += 1;
        }
        for answer in written {
            prop_assert!(answer["error"]["code"].is_i64() && answer.get("id").is_some(), "{}", answer);
            *answers.entry(answer["id"].to_string()).or_default() += 1;
        }
        for id in lines.iter().filter_map(|line| owed(line)) {
            *answers.entry(id.to_string()).or_default() -= 1;
        }
        answers.retain(|_, count| *count != 0);
        let lines: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        prop_assert!(answers.is_empty(), "{answers:?}: {lines:#?}");
    }
}
