//! Guests that wait at the same time, and their memory.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use execbox::{ExecuteRequest, Executor, Limits, Provider, Tool};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::programs::{TIMEOUT, check_number, value};

/// Executes `count` programs at once, each of which waits until all make a call. Then `at_meeting` is called. Fails with the
/// reason of the first failure.
pub async fn meet(
    executor: &Arc<dyn Executor>,
    count: usize,
    at_meeting: impl Fn() + Send + Sync + 'static,
) -> Result<(), String> {
    let meeting = meeting(count, at_meeting);
    let mut programs = JoinSet::new();
    for _ in 0..count {
        let limits = Limits::default().timeout(TIMEOUT);
        let request = ExecuteRequest::new("await tools.meet()").provider(meeting.clone()).limits(limits);
        let executor = Arc::clone(executor);
        programs.spawn(async move { executor.execute(request).await });
    }
    // Dropping the set at the first failure stops the others, which would wait for it.
    while let Some(ended) = programs.join_next().await {
        check_number(value(ended.map_err(|error| error.to_string())?)?.as_ref(), 1.0)?;
    }
    Ok(())
}

/// A tool, `tools.meet`, whose calls are answered when there are `count` of them. Then `at_meeting` is called.
pub fn meeting(count: usize, at_meeting: impl Fn() + Send + Sync + 'static) -> Provider {
    let (all, at_meeting) = (Arc::new(Barrier::new(count)), Arc::new(at_meeting));
    let meet = Tool::new("meet", move |_, _| {
        let (all, at_meeting) = (Arc::clone(&all), Arc::clone(&at_meeting));
        async move {
            if all.wait().await.is_leader() {
                at_meeting();
            }
            Ok(json!(1))
        }
    });
    Provider::builder("tools").tool(meet).build().expect("one valid name")
}

/// The memory of `count` runners (`warm`) or guests (`waiting`), in bytes, measured in a new process of the binary: a process
/// uses the memory of earlier programs again. Fails with the reason.
pub async fn probe(binary: &Path, held: &str, count: usize, executor: &str, engine: &str) -> Result<f64, String> {
    let mut command = Command::new(binary);
    command.args(["bench", "--probe-memory", held, "--probe-count", &count.to_string()]);
    command.args(["--executor", executor, "--engine", engine]).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().trim_start_matches("execbox: ").to_owned();
    match text(&output.stdout).parse() {
        Ok(bytes) if output.status.success() => Ok(bytes),
        _ => Err(text(&output.stderr)),
    }
}
