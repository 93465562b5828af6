//! What a host checks of every runner, under both contracts.

use std::collections::HashMap;
use std::time::Duration;

use super::Misbehaviour;
use crate::engine::CallId;
use crate::language::Position;
use crate::mailbox::CALL_COST;
use crate::program::Limits;

/// The calls that are not settled, with what the contract keeps of each. Their number and the size of their inputs are
/// bounded.
#[derive(Debug)]
pub(super) struct PendingCalls<T> {
    calls: HashMap<CallId, PendingCall<T>>,
    max_calls: usize,
    input_bytes: usize,
    max_input_bytes: usize,
}

#[derive(Debug)]
struct PendingCall<T> {
    kept: T,
    input_bytes: usize,
}

impl<T> PendingCalls<T> {
    /// No calls. A guest's inputs stay within its memory limit; `factor` is how many times longer they may be as the
    /// runner sends them.
    pub(super) fn new(limits: &Limits, factor: usize) -> Self {
        Self {
            calls: HashMap::new(),
            // As many as fit into the guest's memory by the count of `Mailbox`; a minimum for runners that count otherwise.
            max_calls: (limits.memory_len() / CALL_COST).max(1024),
            input_bytes: 0,
            max_input_bytes: limits.memory_len().max(1 << 20).saturating_mul(factor),
        }
    }

    pub(super) fn insert(&mut self, id: CallId, kept: T, input_bytes: usize) -> Result<(), Misbehaviour> {
        if self.calls.len() >= self.max_calls {
            return Err(Misbehaviour::TooManyCalls(self.max_calls));
        }
        if self.input_bytes.saturating_add(input_bytes) > self.max_input_bytes {
            return Err(Misbehaviour::TooMuchInput(self.max_input_bytes));
        }
        self.input_bytes += input_bytes;
        self.calls.insert(id, PendingCall { kept, input_bytes });
        Ok(())
    }

    pub(super) fn remove(&mut self, id: CallId) -> Option<T> {
        let PendingCall { kept, input_bytes } = self.calls.remove(&id)?;
        self.input_bytes -= input_bytes;
        Some(kept)
    }
}

/// Whether a source of `len` bytes can contain that position.
pub(super) fn can_contain(len: usize, at: Position) -> bool {
    [at.line, at.column].into_iter().all(|number| (1..=len + 1).contains(&(number as usize)))
}

/// What is wrong with a runner that reports the end of `timeout` after `elapsed`, by the clock here. It may be early by one
/// per cent, as clocks differ.
pub(super) fn too_early(timeout: Duration, elapsed: Duration) -> Option<String> {
    let [timeout_ms, elapsed_ms] = [timeout, elapsed].map(|time| time.as_millis());
    let is_early = elapsed < timeout.saturating_sub(timeout / 100);
    is_early.then(|| format!("the runner reported a timeout after {elapsed_ms} of {timeout_ms} ms"))
}
