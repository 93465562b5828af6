//! An engine and a language: the parts that run guests.
//!
//! Nothing else in the crate names one: the feature `standard` only adds constructors with QuickJS and TypeScript.

use std::sync::Arc;

use execbox_core::engine::Engine;
use execbox_core::language::Language;

#[derive(Clone)]
pub(crate) struct EngineAndLanguage {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) language: Arc<dyn Language>,
}

/// The engine cannot run in the process of the host, because a guest can end its process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a guest of the engine {engine} can end the process that it runs in: use a ProcessExecutor whose runner has this engine"
)]
#[non_exhaustive]
pub struct NeedsOwnProcess {
    /// The name of the engine.
    pub engine: String,
}

impl EngineAndLanguage {
    /// Fails unless guests may run in the process of the host.
    pub(crate) fn check_in_process(&self) -> Result<(), NeedsOwnProcess> {
        match self.engine.needs_own_process() {
            true => Err(NeedsOwnProcess { engine: self.engine.name().to_owned() }),
            false => Ok(()),
        }
    }

    /// The shared QuickJS engine of this process, and a front end that accepts TypeScript.
    #[cfg(feature = "standard")]
    pub(crate) fn standard() -> Result<Self, execbox_quickjs::LoadError> {
        let engine = execbox_quickjs::QuickJs::shared()?;
        Ok(Self::with(engine))
    }

    /// A QuickJS engine of its own, with room for `max_guests` from the start and for as many whose memory is being cleared,
    /// and a front end that accepts TypeScript.
    #[cfg(feature = "standard")]
    pub(crate) fn with_max_guests(max_guests: u32) -> Result<Self, execbox_quickjs::LoadError> {
        execbox_quickjs::QuickJs::with_max_guests(max_guests.saturating_mul(2)).map(Self::with)
    }

    #[cfg(feature = "standard")]
    pub(crate) fn with(engine: execbox_quickjs::QuickJs) -> Self {
        Self { engine: Arc::new(engine), language: Arc::new(execbox_typescript::TypeScript) }
    }
}
