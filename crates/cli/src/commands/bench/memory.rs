//! The memory of runners and of waiting guests. Each sample is measured in a new process, because a process reuses the memory
//! of earlier programs.

use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use execbox_measure::memory::{self, meet};
use execbox_measure::processes::{children, resident_bytes};

use super::subject::{ExecutorName, Subject};
use crate::error::{CommandError, SystemError};

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

    /// The memory of all `count` runners or guests, in bytes, measured by another process of this binary. Fails with the
    /// reason.
    pub(super) async fn measure(self, subject: Subject, count: usize) -> Result<f64, String> {
        let binary = std::env::current_exe().map_err(|error| error.to_string())?;
        let held = self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        memory::probe(&binary, &held, count, &subject.executor.to_string(), &subject.engine.to_string()).await
    }
}

/// Measures, in this process, the growth of the memory of this process and its children by `count` more runners or guests. One
/// program is executed before.
pub(super) async fn probe(held: Held, subject: Subject, count: usize) -> Result<u64, CommandError> {
    let executor = subject.start(Some(count + 1))?;
    let failed = |reason| SystemError::Engine(reason);
    meet(&executor, 1, || {}).await.map_err(failed)?;
    let before = total_bytes().ok_or_else(|| SystemError::Engine("this system has no /proc".to_owned()))?;
    let met = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&met);
    let see = move || *seen.lock().unwrap_or_else(PoisonError::into_inner) = total_bytes();
    meet(&executor, count + 1, see).await.map_err(failed)?;
    let after = match held {
        Held::Waiting => *met.lock().unwrap_or_else(PoisonError::into_inner),
        Held::Warm => total_bytes(),
    };
    executor.close().await;
    Ok(after.unwrap_or_default().saturating_sub(before))
}

/// The resident memory of this process and of its children.
fn total_bytes() -> Option<u64> {
    let children: u64 = children().into_iter().filter_map(resident_bytes).sum();
    Some(resident_bytes(std::process::id())? + children)
}
