//! The memory of runners and of waiting guests, measured in a process of its own for each sample: memory that earlier programs
//! have used is used again.

use std::process::Stdio;
use std::sync::Arc;

use clap::ValueEnum;
use execbox::{ExecuteRequest, Executor, Limits, Provider, Tool};
use serde_json::json;
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;

use super::programs::{TIMEOUT, check_number, value};
use super::subject::{ExecutorName, Subject};
use crate::error::{CommandError, SystemError};
use crate::processes::{children, resident_bytes};

/// What holds the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Held {
    /// A worker thread or a runner process that has executed a program.
    Warm,
    /// A guest that waits for the answer to a call, with its runner.
    Waiting,
}

impl Held {
    /// How many runners or guests are measured at once.
    pub(super) fn count(executor: ExecutorName) -> usize {
        match executor {
            ExecutorName::Inline => 64,
            ExecutorName::Worker => 16,
            ExecutorName::Process => 4,
        }
    }

    /// The memory of all `count`, in bytes, measured by another process of this binary. Fails with the reason.
    pub(super) async fn measure(self, subject: Subject, count: usize) -> Result<f64, String> {
        let binary = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = tokio::process::Command::new(binary);
        let held = self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        command.args(["bench", "--probe-memory", &held, "--probe-count", &count.to_string()]);
        command.args(["--executor", &subject.executor.to_string(), "--engine", &subject.engine.to_string()]);
        let output =
            command.stdin(Stdio::null()).kill_on_drop(true).output().await.map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().trim_start_matches("execbox: ").to_owned();
        match text(&output.stdout).parse() {
            Ok(bytes) if output.status.success() => Ok(bytes),
            _ => Err(text(&output.stderr)),
        }
    }
}

/// Measures in this process: the memory of this process and its children after `count` more runners or guests, less that
/// before. One program has been executed before.
pub(super) async fn probe(held: Held, subject: Subject, count: usize) -> Result<u64, CommandError> {
    let executor = subject.start(Some(count + 1))?;
    let failed = |reason| SystemError::Engine(reason);
    meet(&executor, 1, None).await.map_err(failed)?;
    let before = total_bytes().ok_or_else(|| SystemError::Engine("this system has no /proc".to_owned()))?;
    let (seen, mut after) = watch::channel(None);
    let at_meeting = (held == Held::Waiting).then_some(seen);
    meet(&executor, count + 1, at_meeting).await.map_err(failed)?;
    let after = match held {
        Held::Waiting => *after.borrow_and_update(),
        Held::Warm => total_bytes(),
    };
    executor.dispose().await;
    Ok(after.unwrap_or_default().saturating_sub(before))
}

/// Executes `count` programs at once, each of which waits until all make a call. Then `seen` gets the memory. Fails with the
/// reason of the first failure.
pub(super) async fn meet(executor: &Arc<dyn Executor>, count: usize, seen: Option<Seen>) -> Result<(), String> {
    let meeting = Meeting::with_memory(count, seen);
    let mut programs = JoinSet::new();
    for _ in 0..count {
        let limits = Limits { timeout: TIMEOUT, ..Limits::default() };
        let request = ExecuteRequest::new("await tools.meet()").provider(meeting.provider.clone()).limits(limits);
        let executor = Arc::clone(executor);
        programs.spawn(async move { executor.execute(request).await });
    }
    // Dropping the set at the first failure stops the others, which would wait for it.
    while let Some(ended) = programs.join_next().await {
        check_number(value(ended.map_err(|error| error.to_string())?)?.as_ref(), 1.0)?;
    }
    Ok(())
}

/// Receives the memory of all processes while guests wait.
pub(super) type Seen = watch::Sender<Option<u64>>;

/// A tool, `tools.meet`, whose calls are answered when there are as many as were announced.
pub(super) struct Meeting {
    pub(super) provider: Provider,
}

impl Meeting {
    pub(super) fn new(count: usize) -> Self {
        Self::with_memory(count, None)
    }

    fn with_memory(count: usize, seen: Option<Seen>) -> Self {
        let (all, seen) = (Arc::new(Barrier::new(count)), Arc::new(seen));
        let meet = Tool::new("meet", move |_, _| {
            let (all, seen) = (Arc::clone(&all), Arc::clone(&seen));
            async move {
                if all.wait().await.is_leader()
                    && let Some(seen) = &*seen
                {
                    let _ = seen.send(total_bytes());
                }
                Ok(json!(1))
            }
        });
        Self { provider: Provider::builder("tools").tool(meet).build().expect("one valid name") }
    }
}

/// The resident memory of this process and of its children.
fn total_bytes() -> Option<u64> {
    let children: u64 = children().into_iter().filter_map(resident_bytes).sum();
    Some(resident_bytes(std::process::id())? + children)
}
