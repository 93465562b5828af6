//! An MCP server that answers the handshake and then sends anything: its tools are imported or it is an error, and their
//! declarations can be read.

#![no_main]

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

/// The answer to `initialize`, which is the first request.
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}}"#;

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
    let listed = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":{tools}}}}}"#);
    let listed = [listed.as_bytes(), b"\n", rest, b"\n"].concat();
    RUNTIME.block_on(async {
        let listed = Mutex::new(Some(listed));
        let connect = move || {
            let (near, far) = tokio::io::duplex(1 << 20);
            let listed = listed.lock().unwrap().take().unwrap_or_default();
            tokio::spawn(async move {
                let (reader, mut writer) = tokio::io::split(far);
                let _ = writer.write_all(format!("{INITIALIZED}\n").as_bytes()).await;
                // An answer before its request would be ignored. Disconnects afterwards, so that nothing waits for the server.
                let mut lines = BufReader::new(reader).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.contains("tools/list") {
                        let _ = writer.write_all(&listed).await;
                        break;
                    }
                }
            });
            near
        };
        let options = UpstreamOptions { connect_timeout: wait, call_timeout: wait, ..UpstreamOptions::default() };
        let upstream = Upstream::open_stream("s", connect, options).await.ok()?;
        let types = upstream.provider().types().to_owned();
        upstream.close().await;
        Some(types)
    })
}
