//! An engine and a language: the parts that run guests.

use std::sync::Arc;

use execbox_core::engine::Engine;
use execbox_core::language::Language;

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) language: Arc<dyn Language>,
}

impl Parts {
    /// The shared QuickJS engine of this process, and a front end that accepts TypeScript.
    #[cfg(feature = "standard")]
    pub(crate) fn standard() -> Result<Self, execbox_quickjs::LoadError> {
        let engine = execbox_quickjs::QuickJs::shared()?;
        Ok(Self { engine: Arc::new(engine), language: Arc::new(execbox_typescript::TypeScript) })
    }
}
