//! An MCP server that completes the handshake of an old version and then sends anything: its tools are imported or it is an
//! error, and their declarations can be read.

#![no_main]

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

// The first part is the page of tools, the rest is sent as it is.
fuzz_target!(|input: (&str, &[u8])| {
    static WORKS: LazyLock<()> = LazyLock::new(|| {
        let types = import(r#"[{"name":"good","inputSchema":{"type":"object"}}]"#, b"", Duration::from_secs(60));
        assert!(types.is_some_and(|types| types.contains("good(")), "the handshake does not work");
    });
    *WORKS;
    import(input.0, input.1, Duration::from_millis(200));
});

/// The declarations of the tools, if the server was accepted within `wait`.
fn import(tools: &str, rest: &[u8], wait: Duration) -> Option<String> {
    let listed = (format!(r#"{{"tools":{tools}}}"#), rest.to_vec());
    RUNTIME.block_on(async {
        let listed = Mutex::new(Some(listed));
        let connect = move || {
            let (near, far) = tokio::io::duplex(1 << 20);
            let listed = listed.lock().unwrap().take().unwrap_or_default();
            tokio::spawn(serve(far, listed));
            near
        };
        let options = UpstreamOptions::default().connect_timeout(wait).call_timeout(wait);
        let upstream = Upstream::open_stream("s", connect, options).await.ok()?;
        let types = upstream.provider().types().to_owned();
        upstream.close().await;
        Some(types)
    })
}

/// Answers the requests of the handshake and the one for the tools, and ends, so that nothing waits for the server.
async fn serve(stream: DuplexStream, (listed, rest): (String, Vec<u8>)) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // An answer before its request would be ignored.
        let Ok(Json::Object(request)) = serde_json::from_str(&line) else { return };
        let (Some(id), Some(method)) = (request.get("id"), request["method"].as_str()) else { continue };
        let (answer, is_last) = match method {
            "initialize" => (INITIALIZED.to_owned(), false),
            "tools/list" => (format!(r#""result":{listed}"#), true),
            _ => (UNKNOWN.to_owned(), false),
        };
        let _ = writer.write_all(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}\n").as_bytes()).await;
        if is_last {
            let _ = writer.write_all(&[&rest, &b"\n"[..]].concat()).await;
            return;
        }
    }
}

const INITIALIZED: &str = r#""result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#;
const UNKNOWN: &str = r#""error":{"code":-32601,"message":"unknown"}"#;
