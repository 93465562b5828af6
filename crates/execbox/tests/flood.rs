//! The memory of a host while a runner floods it. In a separate test binary, so that other tests do not affect the
//! measurement.

use std::time::Duration;

use execbox::transport::StreamTransport;
use execbox::{ErrorCode, ExecuteRequest, ExecuteResult, Executor, Limits, Provider, RemoteExecutor, Tool};
use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

/// How many calls each runner makes.
const CALLS: usize = 100_000;

/// The allowed growth of the host's memory, in KiB. All ids together have 20 MB.
const MAX_GROWTH_KIB: u64 = 24 << 10;

/// Resident memory of this process, in KiB, or `None` if the system does not report it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[derive(Clone, Copy, PartialEq)]
enum Runner {
    /// Reads the results of its calls.
    Reads,
    /// Reads only the request.
    NeverReads,
}

/// Sends [`CALLS`] calls with distinct ids, then `done`.
async fn flood(peer: DuplexStream, runner: Runner, call: String) {
    let (reader, mut writer) = split(peer);
    let mut lines = BufReader::new(reader).lines();
    let execute = lines.next_line().await.unwrap().unwrap();
    let id = execute.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    let reading = async {
        while runner == Runner::Reads && matches!(lines.next_line().await, Ok(Some(_))) {}
        if runner == Runner::NeverReads {
            std::future::pending::<()>().await;
        }
    };
    let writing = async {
        for number in 0..CALLS {
            let line = call.replace("CALL", &format!("{number:0200}"));
            if writer.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
        let done = format!("{{\"type\":\"done\",\"id\":\"{id}\",\"ok\":true,\"durationMs\":1,\"logs\":[]}}\n");
        let _ = writer.write_all(done.as_bytes()).await;
    };
    tokio::join!(reading, writing);
}

/// Returns the result of an execution with `runner`, and the growth of the peak memory in KiB.
async fn execute_with(runner: Runner, tool: &str, input: &str) -> (ExecuteResult, u64) {
    let call = format!(
        "{{\"type\":\"tool_call\",\"callId\":\"CALL\",\"providerName\":\"tools\",\"safeToolName\":\"{tool}\",\"input\":\"{input}\"}}\n"
    );
    let executor = RemoteExecutor::new(move || {
        let call = call.clone();
        async move {
            let (here, there) = duplex(1 << 16);
            tokio::spawn(flood(there, runner, call));
            let (reader, writer) = split(here);
            Ok(StreamTransport::new(reader, writer))
        }
    });
    let echo = Tool::new("echo", async |input: Json, _| Ok(input));
    let hang = Tool::new("hang", async |_: Json, _| std::future::pending().await);
    let tools = Provider::builder("tools").tools([echo, hang]).build().unwrap();
    // Calls that hang exceed the budget of the host, and a runner that reads finishes, also on a slow machine.
    let times_out = runner == Runner::NeverReads && tool != "hang";
    let timeout = Duration::from_secs(if times_out { 1 } else { 300 });
    let limits = Limits::default().timeout(timeout).memory_bytes(1 << 20);
    let before = resident_kib().unwrap_or_default();
    let execution = executor.execute(ExecuteRequest::new("1").provider(tools).limits(limits));
    let mut peak = before;
    let mut watch = tokio::time::interval(Duration::from_millis(20));
    tokio::pin!(execution);
    let result = loop {
        tokio::select! {
            result = &mut execution => break result,
            _ = watch.tick() => peak = peak.max(resident_kib().unwrap_or_default()),
        }
    };
    peak = peak.max(resident_kib().unwrap_or_default());
    println!("{tool}, {} bytes: {} KiB more", input.len(), peak - before);
    (result, peak - before)
}

#[tokio::test]
async fn memory_does_not_grow_with_the_number_of_calls() {
    for tool in ["echo", "nope"] {
        let (result, grown) = execute_with(Runner::Reads, tool, "").await;
        assert_eq!(result.outcome, Ok(None), "{tool}");
        assert!(grown < MAX_GROWTH_KIB, "{tool}: {grown} KiB");
        // The host stops reading from a runner that does not read, until the timeout.
        let (result, grown) = execute_with(Runner::NeverReads, tool, &"x".repeat(2000)).await;
        assert_eq!(result.error().unwrap().code, ErrorCode::Timeout, "{tool}");
        assert!(grown < MAX_GROWTH_KIB, "{tool}, unread: {grown} KiB");
    }
    for input in [String::new(), "x".repeat(100_000)] {
        let (result, grown) = execute_with(Runner::NeverReads, "hang", &input).await;
        assert_eq!(result.error().unwrap().code, ErrorCode::InternalError);
        assert!(grown < MAX_GROWTH_KIB, "{} bytes each: {grown} KiB", input.len());
    }
}
