//! Logs, calls and progress as they happen.

use std::error::Error;

use execbox::events::{EventKind, Observer, ToolProgress};
use execbox::{ExecuteRequest, Executor, InlineExecutor, Provider, Tool};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let copy = Tool::new("copy", async |_, context| {
        for done in [1.0, 2.0] {
            context.report(&ToolProgress::new(done).total(2.0));
            tokio::task::yield_now().await;
        }
        Ok(json!("copied"))
    });
    let files = Provider::builder("files").tool(copy).build()?;

    let calls = Observer::new(|event| match event.kind {
        EventKind::CallBegan { call, input_bytes, .. } => println!("{call} begins with {input_bytes} bytes"),
        EventKind::CallProgress { call, progress, .. } => {
            println!("{call}: {} of {}", progress.done, progress.total.unwrap_or_default());
        }
        EventKind::CallEnded { call, .. } => println!("{call} has ended"),
        EventKind::Ended(_) => println!("the script has ended"),
        _ => {}
    });
    let code = "console.log('before'); const text = await files.copy('a.txt'); console.warn('after'); text";
    let request = ExecuteRequest::new(code)
        .provider(files)
        .on_log(|line| println!("{}: {}", line.level.as_str(), line.text))
        .observer(calls);
    let result = InlineExecutor::new()?.execute(request).await;
    println!("{}", result.value::<String>()?);
    Ok(())
}
