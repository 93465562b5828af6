//! The inline executor: the guest runs in this process, on the task that awaits it.

use std::sync::Arc;

use execbox_core::engine::Engine;
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::language::Language;
use futures_util::future::BoxFuture;

use crate::code::{self, CodeExecution, CodeExecutionOptions};
use crate::events::Observation;
use crate::executor::Executor;
use crate::executor::self_test::{self, SelfTestReport};
use crate::request::ExecuteRequest;
use crate::runtime;
use crate::session::parts::{EngineAndLanguage, NeedsOwnProcess};
use crate::session::runner::Runner;
use crate::session::script::execute_here;

/// Runs guests in this process, each on the task that awaits it.
///
/// A guest that computes yields its thread every two milliseconds, and other tasks, timers and sockets are served before
/// it or another guest continues. Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct InlineExecutor {
    parts: EngineAndLanguage,
}

impl InlineExecutor {
    /// Creates an executor with QuickJS, which accepts TypeScript. All such executors in a process share one engine.
    ///
    /// # Errors
    /// The engine does not load.
    #[cfg(feature = "standard")]
    pub fn new() -> Result<Self, execbox_quickjs::LoadError> {
        Ok(Self { parts: EngineAndLanguage::standard()? })
    }

    /// [`new`](Self::new) with an engine of its own, which has room for `max_guests` at once: [`new`](Self::new) has room for
    /// 1 000. Each reserves 4 GiB of address space, of which Linux grants 128 TiB, and no memory.
    ///
    /// # Errors
    /// The engine does not load.
    #[cfg(feature = "standard")]
    pub fn with_max_guests(max_guests: u32) -> Result<Self, execbox_quickjs::LoadError> {
        execbox_quickjs::QuickJs::with_max_guests(max_guests)
            .map(|engine| Self::with_parts(EngineAndLanguage::with(engine)))
    }

    /// Creates an executor with another engine and language.
    ///
    /// # Errors
    /// A guest of the engine can end the process.
    pub fn with_engine(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> Result<Self, NeedsOwnProcess> {
        let parts = EngineAndLanguage { engine, language };
        parts.check_in_process().map(|()| Self::with_parts(parts))
    }

    /// Creates an executor with the engine and the language of a runner, for a process that [locks
    /// itself](crate::RunnerProcess) and executes programs without being a runner for hosts.
    ///
    /// # Errors
    /// A guest of the engine can end the process.
    pub fn of_runner(runner: &Runner) -> Result<Self, NeedsOwnProcess> {
        let parts = runner.parts.clone();
        parts.check_in_process().map(|()| Self::with_parts(parts))
    }

    /// Creates an executor with any engine, for a process that is a runner.
    pub(crate) fn with_parts(parts: EngineAndLanguage) -> Self {
        Self { parts }
    }
}

impl Executor for InlineExecutor {
    fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(request.observed(async |request, observation| execute_here(&self.parts, request, observation).await))
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        let parts = self.parts.clone();
        code::Run::begin(source, options, |request, run| code::run_inline(parts, request, run))
    }

    /// Executes an empty script once, whatever the `count`: there is one engine.
    fn prewarm(&self, _count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        Box::pin(async {
            runtime::with_timers()?;
            execute_here(&self.parts, ExecuteRequest::new(""), Observation::default()).await.outcome.map(drop)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn self_test(&self) -> BoxFuture<'_, SelfTestReport> {
        Box::pin(async {
            let (jail, checks) = self_test::no_jail("guests run in this process");
            SelfTestReport { checks: [self_test::check_limits(self).await, checks].concat(), jail }
        })
    }
}

impl std::fmt::Debug for InlineExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InlineExecutor").field("engine", &self.parts.engine.name()).finish_non_exhaustive()
    }
}
