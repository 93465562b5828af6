//! Runs code that computes one value (code-execution specification §10.1).

use std::error::Error;

use execbox::InlineExecutor;
use execbox::code::{CodeExecutionOptions, Datum};
use execbox_thread::ThreadStore;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("{:?}", sum().await?);
    Ok(())
}

pub(crate) async fn sum() -> Result<Option<f64>, Box<dyn Error>> {
    let thread = ThreadStore::in_memory().await?.thread("t")?;
    let source = "
        const n = input.reduce((a, b) => a + b, 0);
        export default n;
    ";
    let options = CodeExecutionOptions::new().global("input", json!([1, 2, 3]));
    let result = thread.run_code(&InlineExecutor::new()?, source, options).await;
    Ok(result.result.and_then(|value| Datum::as_number(value.root())))
}
