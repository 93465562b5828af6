//! Runs code of a model with a deadline and a memory limit (code-execution specification §10.3).

use std::error::Error;
use std::time::Duration;

use execbox::InlineExecutor;
use execbox::code::{CodeExecutionOptions, CodeExecutionResult};
use execbox_thread::ThreadStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for code in ["export default JSON.parse(input).rows.length;", "for (;;);"] {
        let result = run_with_deadline(code, Duration::from_secs(2)).await?;
        match result.error {
            None => println!("{}", result.to_json()?["result"]),
            Some(error) => println!("{error}"), // returned to the model as the error of a tool
        }
    }
    Ok(())
}

pub(crate) async fn run_with_deadline(code: &str, budget: Duration) -> Result<CodeExecutionResult, Box<dyn Error>> {
    let thread = ThreadStore::in_memory().await?.thread("t")?;
    thread.write_file("/data/input.json", r#"{"rows": [1, 2, 3]}"#).await?;

    let input = String::from_utf8(thread.read_file("/data/input.json").await?)?;
    let limits = CodeExecutionOptions::default_limits().memory_bytes(64 << 20);
    let options = CodeExecutionOptions::new().limits(limits).global("input", input);
    let mut run = thread.run_code(&InlineExecutor::new()?, code, options);
    if let Ok(result) = tokio::time::timeout(budget, &mut run).await {
        return Ok(result);
    }
    run.terminate(Some(&format!("{budget:?} budget")));
    Ok(run.await)
}
