//! Memory of parent and child over many executions of one pooled child. A separate test binary, so that other tests do not affect
//! the measurement.

mod support;

use execbox::{ExecuteRequest, Executor, Provider, Tool, ToolError};
use serde_json::{Value as Json, json};

use support::{children, processes, status_kib};

/// The resident memory of a process, in KiB.
fn resident_kib(process: u32) -> u64 {
    status_kib(process, "VmRSS")
}

#[tokio::test]
async fn memory_of_parent_and_child_does_not_grow_over_thousands_of_executions() {
    let echo = Tool::new("echo", async |input: Json, _| Ok(input));
    let fail = Tool::new("fail", async |_: Json, _| Err::<Json, _>(ToolError::new("no")));
    let hang = Tool::new("hang", async |_: Json, _| std::future::pending().await);
    let tools = Provider::builder("tools").tools([echo, fail, hang]).build().unwrap();
    let executor = processes(1).build();
    let code = "const a = Array.from({ length: 100 }, (_, i) => ({ i })); console.log(a.length); tools.hang();
                const b = await tools.echo(a); (await tools.fail().catch(String)).length + b.length";
    executor.prewarm(1).await.unwrap();
    let parent = std::process::id();
    let child = children(parent)[0];
    let mut after_warm_up = (0, 0);
    for i in 0..4_000 {
        let request = ExecuteRequest::new(code).provider(tools.clone()).wait_for_calls(false);
        let result = executor.execute(request).await;
        assert_eq!(result.outcome, Ok(Some(json!(109))));
        if i == 1000 {
            after_warm_up = (resident_kib(parent), resident_kib(child));
        }
    }
    assert_eq!(children(parent), [child], "it is one child all along");
    for (whose, before, after) in
        [("the parent", after_warm_up.0, resident_kib(parent)), ("the child", after_warm_up.1, resident_kib(child))]
    {
        assert!(after < before + 1024, "{whose} grew from {before} to {after} KiB in 3000 executions");
    }
}
