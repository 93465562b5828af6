//! Scripts in child processes. The program is its own runner: no other binary is needed.

use std::error::Error;

use execbox::jail::Mode;
use execbox::{ExecuteRequest, Executor, ProcessExecutor, Provider, RunnerCommand, Tool};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    // First in `main`, before threads are started and files opened: in a child process, it does not return.
    execbox::serve_if_runner();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    // `Mode::Required` rejects scripts where a layer of the jail is missing.
    let command = RunnerCommand::this_program()?.jail(Mode::BestEffort);
    let executor = ProcessExecutor::builder(command).build();

    // The script runs in the child, the tool here.
    let here = std::process::id();
    let pid = Tool::new("pid", move |_, _| async move { Ok(json!(std::process::id())) });
    let host = Provider::builder("host").tool(pid).build()?;
    let result = executor.execute(ExecuteRequest::new("await host.pid()").provider(host)).await;
    println!("the tool runs in this process: {}", result.value::<u32>()? == here);

    // Nothing of the process is visible to the guest.
    let result = executor.execute(ExecuteRequest::new("[typeof process, typeof require, typeof fetch]")).await;
    println!("{:?}", result.value::<Vec<String>>()?);
    executor.close().await;
    Ok(())
}
