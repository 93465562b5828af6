//! A tool that runs code with access to a thread's files (code-execution specification §10.4).

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use execbox::code::CodeExecutionOptions;
use execbox::{ExecuteRequest, Executor, InlineExecutor, ToolError};
use execbox_thread::{ThreadState, ThreadStore, ThreadTool};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let code = "import { readFile } from 'thread'; export default (await readFile('/notes.txt')).length;";
    println!("{}", call_evaluate(code).await?);
    Ok(())
}

/// A tool that evaluates code with read access to the thread's files, for at most two seconds.
fn evaluate_tool(executor: Arc<dyn Executor>) -> ThreadTool {
    ThreadTool::new("evaluate", move |thread, input: Value, _| {
        let executor = Arc::clone(&executor);
        async move { evaluate(&thread, &*executor, input["code"].as_str().unwrap_or_default()).await }
    })
    .description("Evaluate an expression against thread data")
    .input_schema(json!({ "type": "object", "properties": { "code": { "type": "string" } }, "required": ["code"] }))
}

async fn evaluate(thread: &ThreadState, executor: &dyn Executor, code: &str) -> Result<Value, ToolError> {
    let bridge = thread.bridge().read_file("/");
    let options = CodeExecutionOptions::new().import("thread", bridge.exports()?);
    let mut run = thread.run_code(executor, code, options);
    let result = if let Ok(result) = tokio::time::timeout(Duration::from_secs(2), &mut run).await {
        result
    } else {
        run.terminate(Some("2s budget"));
        run.await
    };
    match result.error {
        None => Ok(json!({ "status": "success", "result": result.to_json()?["result"] })),
        Some(error) => Ok(json!({ "status": "error", "error": error.message })),
    }
}

/// Calls the tool from a script.
pub(crate) async fn call_evaluate(code: &str) -> Result<Value, Box<dyn Error>> {
    let executor: Arc<dyn Executor> = Arc::new(InlineExecutor::new()?);
    let thread = ThreadStore::in_memory().await?.thread("t")?;
    thread.write_file("/notes.txt", "buy milk").await?;

    let tools = thread.provider("tools", [&evaluate_tool(Arc::clone(&executor))])?;
    let script = format!("await tools.evaluate({})", json!({ "code": code }));
    let result = executor.execute(ExecuteRequest::new(script).provider(tools)).await;
    Ok(result.outcome?.unwrap_or_default())
}
