//! An MCP client that sends anything: the code server keeps serving until the client disconnects.

#![no_main]

use std::sync::{Arc, LazyLock};

use execbox::{InlineExecutor, Provider, Tool};
use execbox_mcp::rmcp::ServiceExt as _;
use execbox_mcp::server::{CodeServer, ServerOptions};
use execbox_testkit::scripted::{Moves, Scripted};
use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

static SERVER: LazyLock<CodeServer> = LazyLock::new(|| {
    let executor = InlineExecutor::with_engine(Arc::new(Scripted), Arc::new(Moves)).unwrap();
    let tool = Tool::new("list", async |_, _| Ok(Json::Null)).description("Lists orders");
    let provider = Provider::builder("shop").tool(tool).build().unwrap();
    CodeServer::new(Arc::new(executor), move || vec![provider.clone()], ServerOptions::default())
});

const HANDSHAKE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

// The first part is a search, the rest is sent as it is; without the handshake if the length of the search is odd.
fuzz_target!(|input: (&str, &[u8])| {
    static WORKS: LazyLock<()> = LazyLock::new(|| {
        let answers = serve("orders", b"");
        assert!(answers.contains("shop.list"), "the handshake does not work: {answers}");
    });
    *WORKS;
    serve(input.0, input.1);
});

/// Sends a search and `rest` to the server, and returns its answers.
fn serve(query: &str, rest: &[u8]) -> String {
    let search = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"mcp_search_tools","arguments":{{"query":{query:?}}}}}}}"#
    );
    let handshake = if query.len().is_multiple_of(2) { HANDSHAKE } else { "" };
    let sent = [handshake.as_bytes(), search.as_bytes(), b"\n", rest, b"\n"].concat();
    RUNTIME.block_on(async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let serving = tokio::spawn(async {
            if let Ok(service) = SERVER.clone().serve(far).await {
                let _ = service.waiting().await;
            }
        });
        let (mut reader, mut writer) = tokio::io::split(near);
        let reading = tokio::spawn(async move {
            let mut answers = Vec::new();
            let _ = reader.read_to_end(&mut answers).await;
            String::from_utf8_lossy(&answers).into_owned()
        });
        let _ = writer.write_all(&sent).await;
        let _ = writer.shutdown().await;
        serving.await.expect("the server does not panic");
        drop(writer);
        reading.await.unwrap()
    })
}
