//! What runs guests: an engine and a language, put together.

use std::sync::Arc;

use execbox_core::engine::Engine;
use execbox_core::language::Language;

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) language: Arc<dyn Language>,
}

impl Parts {
    /// QuickJS, and TypeScript accepted. The engine is the process's one.
    #[cfg(feature = "standard")]
    pub(crate) fn standard() -> Result<Self, execbox_quickjs::LoadError> {
        let engine = execbox_quickjs::QuickJs::shared()?;
        Ok(Self { engine: Arc::new(engine), language: Arc::new(execbox_typescript::TypeScript) })
    }
}
