//! The engine: the [`Engine`] of this crate.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use execbox_core::engine::{Engine, Guest, StartError};
use execbox_core::program::{self, ModuleBody, Modules, Program, Source};
use wasmtime::PoolConcurrencyLimitError;

use crate::guest::QuickJsGuest;
use crate::host::lock;
use crate::instance::Instance;
use crate::loaded::Loaded;
use crate::message;

/// The QuickJS engine. Clones are cheap: they share the code and the limit on guests.
///
/// ```
/// use execbox_core::engine::Engine;
/// let engine = execbox_quickjs::QuickJs::new()?;
/// assert_eq!(engine.name(), "quickjs");
/// # Ok::<_, execbox_quickjs::LoadError>(())
/// ```
#[derive(Clone)]
pub struct QuickJs(Arc<Loaded>);

/// The engine cannot be loaded: the system refuses address space or executable memory, or the processor lacks a feature
/// that the code was compiled for.
#[derive(Debug, thiserror::Error)]
#[error("cannot load the QuickJS engine on this machine: {0}")]
pub struct LoadError(String);

impl QuickJs {
    /// The engine that all executors of the process share. The first call loads it, in about a millisecond; it is never
    /// unloaded.
    pub fn shared() -> Result<Self, LoadError> {
        static SHARED: OnceLock<QuickJs> = OnceLock::new();
        match SHARED.get() {
            Some(engine) => Ok(engine.clone()),
            None => Self::new().map(|engine| SHARED.get_or_init(|| engine).clone()),
        }
    }

    /// A separate engine, with its own copy of the code, address space (some terabytes, and no memory) and ticker thread.
    /// They are released with the last clone.
    pub fn new() -> Result<Self, LoadError> {
        Loaded::new().map(|loaded| Self(Arc::new(loaded))).map_err(|error| LoadError(error.to_string()))
    }
}

impl Engine for QuickJs {
    fn name(&self) -> &'static str {
        "quickjs"
    }

    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError> {
        if let Source::Modules(modules) = &program.source {
            check(modules).map_err(StartError::Failed)?;
        }
        let instance = Instance::new(&self.0.code, &program).map_err(|error| {
            if error.is::<PoolConcurrencyLimitError>() {
                StartError::Full(self.0.max_guests as usize)
            } else {
                StartError::Failed(error.to_string())
            }
        })?;
        let log_units = lock(&instance.shared()).mailbox.log_units_left();
        let first_message =
            message::start(&program, log_units).ok_or(StartError::Unsupported("programs of this kind"))?;
        Ok(Box::new(QuickJsGuest::new(Arc::clone(&self.0), instance, first_message)))
    }
}

/// Checks what [`Modules`] requires of names, which the guest relies on.
fn check(modules: &Modules) -> Result<(), String> {
    let mut names = HashSet::new();
    for module in &modules.modules {
        if module.name.contains('\0') {
            return Err(format!("invalid module name {:?}: it has a NUL", module.name));
        }
        if !names.insert(&module.name) {
            return Err(format!("duplicate module name {:?}", module.name));
        }
    }
    let is_entry =
        |module: &program::Module| module.name == modules.entry && matches!(module.body, ModuleBody::Source(_));
    if modules.modules.iter().any(is_entry) {
        Ok(())
    } else {
        Err(format!("the entry {:?} is not a module with source", modules.entry))
    }
}

impl std::fmt::Debug for QuickJs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuickJs").field("max_guests", &self.0.max_guests).finish_non_exhaustive()
    }
}
