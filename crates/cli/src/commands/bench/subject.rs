//! The executors and engines that are measured.

use std::fmt;
use std::sync::Arc;

use clap::ValueEnum;
use execbox::jail::Mode;
use execbox::{Executor, InlineExecutor, Limits};

use crate::error::{CommandError, SystemError};
use crate::options::engine::{Engine, EngineChoice, RunnerEngine};
use crate::options::executor::{ExecutorConfig, ExecutorError, ExecutorKind, RemoteSource, token_source};
use crate::options::tls::ClientTlsArguments;

/// A value of `--executor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExecutorName {
    Inline,
    Worker,
    Process,
}

impl ExecutorName {
    pub(super) fn kind(self) -> ExecutorKind {
        match self {
            Self::Inline => ExecutorKind::Inline,
            Self::Worker => ExecutorKind::Worker,
            Self::Process => ExecutorKind::Process,
        }
    }
}

impl fmt::Display for ExecutorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

/// An executor with an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) executor: ExecutorName,
    pub(super) engine: Engine,
}

impl Subject {
    /// The chosen executors with the engines of this binary. Without a choice, all.
    pub(super) fn choose(executors: &[ExecutorName], engine: Option<Engine>) -> Result<Vec<Self>, CommandError> {
        if let Some(engine) = engine {
            RunnerEngine::new(engine, None)?;
        }
        let engines = engine.as_ref().map_or(Engine::built_in(), std::slice::from_ref);
        let all = ExecutorName::value_variants().iter().copied();
        let subjects = all.filter(|name| executors.is_empty() || executors.contains(name)).flat_map(|executor| {
            let subjects = engines.iter().map(move |engine| Self { executor, engine: *engine });
            subjects.filter(|subject| subject.is_possible())
        });
        let subjects: Vec<Self> = subjects.collect();
        match (engine, executors) {
            (Some(engine), [executor, ..]) if subjects.is_empty() => {
                Err(ExecutorError::EngineNeedsProcess(engine, executor.kind()).into())
            }
            _ => Ok(subjects),
        }
    }

    fn is_possible(self) -> bool {
        self.engine == Engine::QuickJs || self.executor == ExecutorName::Process
    }

    /// Makes the executor as `execbox run` does. `max_programs` is the number of programs that it runs at once; the default is
    /// the number of cores, at most 4, or a thousand for the inline executor.
    pub(super) fn start(self, max_programs: Option<usize>) -> Result<Arc<dyn Executor>, CommandError> {
        if let (ExecutorName::Inline, Some(max)) = (self.executor, max_programs) {
            let executor = InlineExecutor::with_max_guests(u32::try_from(max).unwrap_or(u32::MAX));
            return Ok(Arc::new(executor.map_err(|error| SystemError::Engine(error.to_string()))?));
        }
        let engine = Some(EngineChoice::One(self.engine));
        let remote =
            RemoteSource { token: token_source("--token-file", None), tls: ClientTlsArguments::default().options() };
        let config = ExecutorConfig::new(self.executor.kind(), engine, remote, Mode::default(), &Limits::default())?;
        let config = match max_programs {
            Some(max) => config.with_max_programs(max),
            None => config,
        };
        Ok(config.executor().map_err(|error| SystemError::Engine(error.message))?)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.executor.to_string(), &self.engine.to_string()))
    }
}

/// The name of a subject in the table: QuickJS, the engine of all executors but one, is not mentioned.
pub(super) fn text(executor: &str, engine: &str) -> String {
    if engine == Engine::QuickJs.to_string() { executor.to_owned() } else { format!("{executor} ({engine})") }
}
