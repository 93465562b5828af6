//! The engine: the [`Engine`] of this crate.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use execbox_core::engine::{Engine, Guest, StartError};
use execbox_core::program::{self, ModuleBody, Modules, Program, Source};
use wasmtime::PoolConcurrencyLimitError;

use crate::guest::QuickJsGuest;
use crate::host::lock;
use crate::instance::Instance;
use crate::loaded::{Loaded, MAX_GUESTS};
use crate::message;

/// The QuickJS engine. Clones are cheap: they share the code and the limit on guests.
///
/// Address space for a thousand guests is prepared in two steps, since it takes milliseconds, a third of a cold start: for 64 when
/// the engine is loaded, and for the others when so many run at once. [`with_max_guests`](Self::with_max_guests) prepares all at
/// once, as a process must that a jail confines: the jail refuses what preparing takes.
///
/// ```
/// use execbox_core::engine::Engine;
/// let engine = execbox_quickjs::QuickJs::new()?;
/// assert_eq!(engine.name(), "quickjs");
/// # Ok::<_, execbox_quickjs::LoadError>(())
/// ```
#[derive(Clone)]
pub struct QuickJs(Arc<Pools>);

/// The pools of address space that guests run in.
struct Pools {
    first: Arc<Loaded>,
    /// For the guests that `first` has no room for. `None` if the system refuses the address space.
    others: OnceLock<Option<Arc<Loaded>>>,
    max_guests: u32,
}

/// How many guests the engine has room for at first.
const FIRST_GUESTS: u32 = 64;

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
        Self::load(FIRST_GUESTS, MAX_GUESTS)
    }

    /// [`new`](Self::new) with room for `max_guests` at once, at least one: each reserves 4 GiB of address space, and 4 MiB
    /// of what the system counts as private memory. All is prepared at once: a process that a jail confines after this can start
    /// so many guests.
    pub fn with_max_guests(max_guests: u32) -> Result<Self, LoadError> {
        let max_guests = max_guests.max(1);
        Self::load(max_guests, max_guests)
    }

    fn load(first_guests: u32, max_guests: u32) -> Result<Self, LoadError> {
        let first = Loaded::new(first_guests).map_err(|error| LoadError(error.to_string()))?;
        Ok(Self(Arc::new(Pools { first: Arc::new(first), others: OnceLock::new(), max_guests })))
    }
}

impl Pools {
    /// The number of guests that there is room for now.
    fn room(&self) -> usize {
        let others = self.others.get().and_then(Option::as_ref);
        self.first.max_guests as usize + others.map_or(0, |others| others.max_guests as usize)
    }

    /// Creates an instance in the first pool that is not full.
    fn instance(&self, program: &Program) -> Result<(Arc<Loaded>, Instance), StartError> {
        if let Some(started) = instance_in(&self.first, program)? {
            return Ok(started);
        }
        let left = self.max_guests.saturating_sub(self.first.max_guests);
        let load = || if left == 0 { None } else { Loaded::new(left).ok().map(Arc::new) };
        let others = self.others.get_or_init(load);
        let started = others.as_ref().map_or(Ok(None), |others| instance_in(others, program))?;
        started.ok_or_else(|| StartError::Full(self.room()))
    }
}

/// Creates an instance; `None` if the pool is full.
fn instance_in(loaded: &Arc<Loaded>, program: &Program) -> Result<Option<(Arc<Loaded>, Instance)>, StartError> {
    let no_ticker = |error| StartError::Failed(format!("cannot start the ticker thread: {error}"));
    loaded.ticker.start().map_err(no_ticker)?;
    match Instance::new(&loaded.code, program) {
        Ok(instance) => Ok(Some((Arc::clone(loaded), instance))),
        Err(error) if error.is::<PoolConcurrencyLimitError>() => Ok(None),
        Err(error) => Err(StartError::Failed(error.to_string())),
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
        let (loaded, instance) = self.0.instance(&program)?;
        let log_units = lock(&instance.shared()).mailbox.log_units_left();
        let first_message =
            message::start(&program, log_units).ok_or(StartError::Unsupported("programs of this kind"))?;
        Ok(Box::new(QuickJsGuest::new(loaded, instance, first_message)))
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
