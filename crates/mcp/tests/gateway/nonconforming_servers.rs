//! Servers that are not quite as MCP defines them: each case of `tests/nonconforming-servers` is played over a byte stream,
//! and over HTTP with JSON and with events.
//!
//! A case is a title, the script of a server, after `---` a program, and after `--- gives` what is expected: tools that are not
//! used, warnings, why connecting failed, and the result or the error of the program.
//! `UPDATE=1 cargo test --workspace --test gateway nonconforming` rewrites what is expected; review the difference.
//!
//! Members of a script: the results of `initialize`, `tools` (the list of tools), `list` (the whole result of `tools/list`),
//! `call`, `resources`, `templates`, `read`, `prompt`; or the whole lines of `initLine`, `listLine`, `callLine`, in which `%ID%` is the id of the
//! request; `versions`, which `initialize` does not refuse with its `error`.

use std::{env, fs};

use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
use execbox_mcp::upstream::{Upstream, UpstreamError, UpstreamOptions};
use execbox_testkit::cases::{Case, CaseFile};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::remote::canned;

#[tokio::test]
async fn imperfect_servers_are_read_as_far_as_possible() {
    let files = CaseFile::read_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nonconforming-servers"));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in &files {
        let text = fs::read_to_string(&file.path).unwrap();
        let mut actual = Vec::new();
        for case in &file.cases {
            actual.push(played(case).await);
            count += 1;
        }
        let actual = actual.join("\n");
        if env::var_os("UPDATE").is_some() {
            fs::write(&file.path, &actual).unwrap();
        } else if actual != text {
            wrong.push(format!("{}:\n{actual}", file.path.display()));
        }
    }
    assert!(count >= 60, "only {count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The case with what it gives, which is the same over all transports.
async fn played(case: &Case) -> String {
    let script: Json = serde_json::from_str(&case.head).unwrap_or_else(|error| panic!("{}: {error}", case.title));
    let program = &case.sections[0].1;
    let given = over(Transport::Stream, &script, program).await;
    for transport in [Transport::Json, Transport::Events] {
        assert_eq!(over(transport, &script, program).await, given, "{}: {transport:?}", case.title);
    }
    format!("=== {}\n{}\n---\n{program}\n--- gives\n{given}", case.title, case.head)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stream,
    Json,
    Events,
}

async fn over(transport: Transport, script: &Json, program: &str) -> String {
    let upstream = match open(transport, script).await {
        Ok(upstream) => upstream,
        Err(error) => return format!("failed: {error}\n"),
    };
    let imported = upstream.imported();
    let mut given = String::new();
    for rejected in &imported.rejected {
        given += &format!("rejected {}: {}\n", rejected.name, rejected.reason);
    }
    for warning in &imported.warnings {
        given += &format!("warning: {warning}\n");
    }
    let request = ExecuteRequest::new(program).provider(upstream.provider());
    let result = InlineExecutor::new().unwrap().execute(request).await;
    given += &match result.outcome {
        Ok(value) => format!("{}\n", value.unwrap_or_default()),
        Err(error) => format!("{}: {}\n", error.code, error.message),
    };
    upstream.close().await;
    given
}

async fn open(transport: Transport, script: &Json) -> Result<Upstream, UpstreamError> {
    let script = script.clone();
    match transport {
        Transport::Stream => {
            let connect = move || {
                let (near, far) = tokio::io::duplex(1 << 16);
                tokio::spawn(serve(far, script.clone()));
                near
            };
            Upstream::open_stream("s", connect, UpstreamOptions::default()).await
        }
        Transport::Json | Transport::Events => {
            let url = canned(move |head, body| respond(transport, &script, head, body)).await;
            Upstream::open_http("s", &url, &[], UpstreamOptions::default()).await
        }
    }
}

/// Serves a script.
pub(crate) async fn serve(stream: tokio::io::DuplexStream, script: Json) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(answer) = answer(&script, &serde_json::from_str(&line).unwrap()) {
            let _ = writer.write_all(format!("{answer}\n").as_bytes()).await;
        }
    }
}

fn respond(transport: Transport, script: &Json, head: &str, body: &str) -> (u16, String, String) {
    if !head.starts_with("POST") {
        return (405, String::new(), String::new());
    }
    let kind = |kind: &str| format!("Content-Type: {kind}\r\n");
    match answer(script, &serde_json::from_str(body).unwrap()) {
        None => (202, String::new(), String::new()),
        Some(answer) if transport == Transport::Json => (200, kind("application/json"), answer),
        Some(answer) => (200, kind("text/event-stream"), format!("data: {answer}\n\n")),
    }
}

/// The line that answers a message; `None` for a notification.
fn answer(script: &Json, message: &Json) -> Option<String> {
    let id = message.get("id")?;
    let method = message["method"].as_str()?;
    let line = match method {
        "initialize" => &script["initLine"],
        "tools/list" => &script["listLine"],
        "tools/call" => &script["callLine"],
        _ => &Json::Null,
    };
    if let Some(line) = line.as_str() {
        return Some(line.replace("%ID%", &id.to_string()));
    }
    let has_resources = script.get("resources").is_some() || script.get("read").is_some();
    let capabilities = if has_resources { json!({ "tools": {}, "resources": {} }) } else { json!({ "tools": {} }) };
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": { "name": "fake", "version": "1" }
    });
    let or = |name: &str, otherwise: Json| script.get(name).cloned().unwrap_or(otherwise);
    let result = match method {
        "initialize" => {
            let version = &message["params"]["protocolVersion"];
            match script.get("versions").and_then(Json::as_array) {
                Some(versions) if versions.contains(version) => hello,
                _ => or("initialize", hello),
            }
        }
        "tools/list" => {
            let tools = or("tools", json!([{ "name": "echo", "inputSchema": { "type": "object" } }]));
            or("list", json!({ "tools": tools }))
        }
        "tools/call" => {
            let text = json!({ "args": message["params"]["arguments"] }).to_string();
            or("call", json!({ "content": [{ "type": "text", "text": text }] }))
        }
        "resources/list" => or("resources", json!({ "resources": [{ "uri": "a://1", "name": "one" }] })),
        "resources/templates/list" if script.get("templates").is_some() => script["templates"].clone(),
        "prompts/get" => or("prompt", json!({ "messages": [] })),
        "resources/read" => or("read", json!({ "contents": [{ "uri": "a://1", "text": "hi" }] })),
        "ping" => json!({}),
        _ => json!({ "error": { "code": -32601, "message": "Method not found" } }),
    };
    let (name, value) = match result.get("error") {
        Some(error) => ("error", error),
        None => ("result", &result),
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, name: value }).to_string())
}
