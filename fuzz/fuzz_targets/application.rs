//! An application that sends anything: the embedding service keeps serving until the application disconnects.

#![no_main]

use std::sync::{Arc, LazyLock};

use execbox::InlineExecutor;
use execbox::transport::StreamTransport;
use execbox_serve::Service;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

static SERVICE: LazyLock<Service> =
    LazyLock::new(|| Service::new(Arc::new(InlineExecutor::new().unwrap()), "inline").max_running(4));

const BEGINNING: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"attachments":true}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":1,"method":"add_provider","params":{"name":"shop","tools":[{"name":"list"}]}}"#,
    "\n"
);

fuzz_target!(|input: &[u8]| {
    static WORKS: LazyLock<()> = LazyLock::new(|| {
        let answers = serve(br#"{"jsonrpc":"2.0","id":2,"method":"usage"}"#);
        assert!(answers.contains("\"providers\":1"), "the beginning does not work: {answers}");
    });
    *WORKS;
    serve(input);
});

/// Sends lines to the service, and returns its answers.
fn serve(lines: &[u8]) -> String {
    let sent = [BEGINNING.as_bytes(), lines, b"\n"].concat();
    RUNTIME.block_on(async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let serving = tokio::spawn(async { SERVICE.serve(Box::new(StreamTransport::over(far))).await });
        let (mut reader, mut writer) = tokio::io::split(near);
        let reading = tokio::spawn(async move {
            let mut answers = Vec::new();
            let _ = reader.read_to_end(&mut answers).await;
            String::from_utf8_lossy(&answers).into_owned()
        });
        let _ = writer.write_all(&sent).await;
        let _ = writer.shutdown().await;
        // A stream that ends in an attachment is cut off.
        let _ = serving.await.expect("the service does not panic");
        drop(writer);
        reading.await.unwrap()
    })
}
