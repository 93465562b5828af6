//! Compiling snippets with the engine, which rejects code that the front end accepts, such as `return super.x`.
//!
//! A [`Checker`] executes a program without tools that has the snippet as a function, and reads the function without calling
//! it. This fails if the snippet cannot be compiled.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox::{ErrorCode, ExecuteRequest, Executor, Limits, ScriptFunction};
use execbox_core::text::cut;
use tokio::sync::Semaphore;

use super::snippets::{MAX_COMPILE_TIME, NAMESPACE};

/// Checks whether the engine compiles snippets, and caches the results.
pub(in super::super) struct Checker {
    executor: Arc<dyn Executor>,
    /// Limits checks to one at a time, so that they do not occupy the whole executor.
    turn: Semaphore,
    hasher: RandomState,
    /// The results, by the hash of the code.
    known: Mutex<HashMap<u64, Result<(), String>>>,
}

impl Checker {
    pub(in super::super) fn new(executor: &Arc<dyn Executor>) -> Self {
        let (turn, known) = (Semaphore::new(1), Mutex::default());
        Self { executor: Arc::clone(executor), turn, hasher: RandomState::new(), known }
    }

    /// Fails with the reason if the engine rejects a snippet. Succeeds if the check cannot be completed.
    pub(super) async fn check(&self, code: &str) -> Result<(), String> {
        let key = self.hasher.hash_one(code);
        if let Some(found) = self.known().get(&key) {
            return found.clone();
        }
        let Ok(Some(found)) = tokio::time::timeout(MAX_COMPILE_TIME, self.compile(code)).await else {
            return Ok(());
        };
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, found.clone());
        found
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Result<(), String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles a snippet. `None` if the executor failed for another reason.
    async fn compile(&self, code: &str) -> Option<Result<(), String>> {
        let [namespace, name] = [NAMESPACE, "snippet"].map(str::to_owned);
        let program = ExecuteRequest::new(format!("void {namespace}.{name}"));
        let program = program.functions([ScriptFunction::new(namespace, name, code)]);
        let limits = Limits::default().timeout(MAX_COMPILE_TIME);
        let _turn = self.turn.acquire().await.ok()?;
        let result = self.executor.execute(program.limits(limits)).await;
        let Err(error) = result.outcome else { return Some(Ok(())) };
        let message = cut(&error.message, MAX_MESSAGE);
        match error.code {
            ErrorCode::RuntimeError | ErrorCode::MemoryLimit => {}
            _ => return None,
        }
        Some(Err(match error.stack.first() {
            Some(at) => format!("{message} (line {}, column {})", at.line, at.column),
            None => message,
        }))
    }
}

/// The maximum number of cached results, and the maximum length of a reason, in characters.
const MAX_KNOWN: usize = 4_096;
const MAX_MESSAGE: usize = 200;
