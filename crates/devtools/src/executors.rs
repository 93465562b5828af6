//! The executors and engines of programs.

use std::fmt;
use std::sync::Arc;

use clap::ValueEnum;
use execbox::{
    Executor, InlineExecutor, LoadError, PoolOptions, ProcessExecutor, RemoteExecutor, Runner, WorkerExecutor,
};

use crate::ToolError;
use crate::binary::{Binary, Engine, ListeningRunner};

/// A value of `--executor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Inline,
    Worker,
    Process,
    Remote,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Worker => "worker",
            Self::Process => "process",
            Self::Remote => "remote",
        }
    }
}

/// An executor with an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) engine: Engine,
}

impl Subject {
    /// The executors with their engines. V8 runs in child processes only.
    pub(crate) fn all(kinds: &[Kind], engines: &[Engine]) -> Vec<Self> {
        let pairs = kinds.iter().flat_map(|kind| engines.iter().map(|engine| Self { kind: *kind, engine: *engine }));
        pairs.filter(|subject| subject.engine == Engine::QuickJs || subject.kind == Kind::Process).collect()
    }

    /// Makes the executor. `max_programs` is the number of programs that it runs at once; the default is the number of cores,
    /// at most 4, or a thousand for the inline executor.
    pub(crate) fn start(self, binary: &Binary, max_programs: Option<usize>) -> Result<Started, ToolError> {
        let failed = |error: LoadError| ToolError::Start(error.to_string());
        let pool = PoolOptions::default();
        let pool = pool.max_size(max_programs.unwrap_or(pool.max_size));
        let mut listening = None;
        let executor: Arc<dyn Executor> = match self.kind {
            Kind::Inline => Arc::new(match max_programs {
                Some(max) => InlineExecutor::with_max_guests(u32::try_from(max).unwrap_or(u32::MAX)).map_err(failed)?,
                None => InlineExecutor::new().map_err(failed)?,
            }),
            Kind::Worker => {
                let runner = Runner::new().map_err(failed)?;
                let builder = WorkerExecutor::builder(runner).map_err(|error| ToolError::Start(error.to_string()))?;
                Arc::new(builder.pool(pool).build())
            }
            Kind::Process => Arc::new(ProcessExecutor::builder(binary.runner(self.engine)).pool(pool).build()),
            Kind::Remote => {
                let (runner, address) = binary.listen()?;
                listening = Some(runner);
                Arc::new(RemoteExecutor::with_address(address, None))
            }
        };
        Ok(Started { subject: self, executor, listening })
    }
}

/// Shows the executor, and the engine unless it is QuickJS, the engine of all executors but one.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine {
            Engine::QuickJs => f.write_str(self.kind.name()),
            engine @ Engine::V8 => write!(f, "{} ({})", self.kind.name(), engine.name()),
        }
    }
}

/// A running executor, and the runner to which the remote executor connects.
pub(crate) struct Started {
    pub(crate) subject: Subject,
    pub(crate) executor: Arc<dyn Executor>,
    listening: Option<ListeningRunner>,
}

impl Started {
    /// The id of the process of the listening runner.
    pub(crate) fn listening(&self) -> Option<u32> {
        self.listening.as_ref().map(ListeningRunner::process)
    }
}
