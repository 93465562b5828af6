//! Scripts on a pool of worker threads, with limits, and how each fails.

use std::error::Error;
use std::time::Duration;

use execbox::{CancellationToken, Cause, ExecuteRequest, ExecuteResult, Executor, Limits, WorkerExecutor};
use serde_json::Value;

/// What became of a script.
fn describe(result: &ExecuteResult) -> String {
    let Some(error) = result.error() else { return result.value::<Value>().unwrap_or_default().to_string() };
    match error.cause.as_deref() {
        Some(Cause::Cancelled { .. }) => "cancelled by the caller".to_owned(),
        Some(Cause::Limit(limit)) => format!("stopped by the limit {}", limit.limit),
        _ => error.to_string(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let executor = WorkerExecutor::new()?; // as many threads as cores, at most 4
    let limits = Limits::default().timeout(Duration::from_secs(10)).memory_bytes(32 << 20);
    let request = |code: &str| ExecuteRequest::new(code).limits(limits);

    // Each runs on a thread of its own; one that waits for a thread is queued.
    let sum = |n| executor.execute(request(&format!("let s = 0; for (let i = 0; i <= {n}; i++) s += i; s")));
    for result in <[ExecuteResult; 3]>::from(tokio::join!(sum(1), sum(2), sum(3))) {
        println!("{}", describe(&result));
    }

    println!(
        "{}",
        describe(&executor.execute(request("const all = []; for (;;) all.push('x'.repeat(1e6) + all.length)")).await)
    );
    println!("{}", describe(&executor.execute(request("for (;;);").timeout(Duration::from_millis(50))).await));
    println!("{}", describe(&executor.execute(request("JSON.parse('{')")).await));

    let token = CancellationToken::new();
    let endless = executor.execute(request("for (;;);").cancellation(token.clone()));
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        token.cancel();
    };
    println!("{}", describe(&tokio::join!(endless, cancel).0));
    executor.close().await;
    Ok(())
}
