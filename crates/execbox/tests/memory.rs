//! Memory over many executions. In a separate test binary, so that other tests do not affect the measurement.

use execbox::{ExecuteRequest, Executor, InlineExecutor, Provider, Tool, ToolError};
use serde_json::{Value as Json, json};

/// Resident memory of this process, in KiB, or `None` if the system does not report it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[tokio::test]
async fn memory_does_not_grow_over_ten_thousand_executions() {
    let echo = Tool::new("echo", async |input: Json, _| Ok(input));
    let fail = Tool::new("fail", async |_: Json, _| Err::<Json, _>(ToolError::new("no")));
    let hang = Tool::new("hang", async |_: Json, _| std::future::pending().await);
    let tools = Provider::builder("tools").tools([echo, fail, hang]).build().unwrap();
    let executor = InlineExecutor::new().unwrap();
    let code = "const a = Array.from({ length: 100 }, (_, i) => ({ i })); console.log(a.length); tools.hang();
                const b = await tools.echo(a); (await tools.fail().catch(String)).length + b.length";
    let mut after_warm_up = None;
    for i in 0..10_000 {
        let request = ExecuteRequest::new(code).provider(tools.clone()).wait_for_calls(false);
        let result = executor.execute(request).await;
        assert_eq!(result.outcome, Ok(Some(json!(109))));
        if i == 1000 {
            after_warm_up = resident_kib();
        }
    }
    if let (Some(before), Some(after)) = (after_warm_up, resident_kib()) {
        assert!(after < before + 2048, "resident memory grew from {before} to {after} KiB in 9000 executions");
    }
}
