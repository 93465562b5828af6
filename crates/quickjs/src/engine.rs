//! The engine: compiled code, loaded once, and room for instances.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use execbox_core::engine::{Engine, Guest, StartError};
use execbox_core::program::{self, ModuleBody, Modules, Program, Source};
use wasmtime::{
    Enabled, InstanceAllocationStrategy, InstancePre, Linker, Module, ModuleExport, PoolConcurrencyLimitError,
    PoolingAllocationConfig,
};

use crate::guest::QuickJsGuest;
use crate::instance::{self, Host, Instance, lock};
use crate::message;
use crate::ticker::Ticker;

include!("config.rs");

/// Compiled by the build script from the image of every guest.
static GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest.cwasm"));

/// How many guests may exist at once, where address space allows. Each reserves some 4 GiB of it, and no memory.
const MAX_GUESTS: u32 = 1000;
/// The same on systems that grant little address space.
const FEWER_GUESTS: u32 = 32;

/// How much of a finished guest's memory stays mapped for the next one: more than most programs touch.
const KEEP_RESIDENT: usize = 512 << 10;

/// The QuickJS engine. Cheap to clone: clones share code and room.
///
/// ```
/// use execbox_core::engine::Engine;
/// let engine = execbox_quickjs::QuickJs::new()?;
/// assert_eq!(engine.name(), "quickjs");
/// # Ok::<_, execbox_quickjs::LoadError>(())
/// ```
#[derive(Clone)]
pub struct QuickJs(Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) code: InstancePre<Host>,
    pub(crate) exports: Exports,
    pub(crate) ticker: Ticker,
    guests: u32,
}

/// Where the guest's exports are, looked up once.
pub(crate) struct Exports {
    pub(crate) memory: ModuleExport,
    pub(crate) stack_pointer: ModuleExport,
    pub(crate) alloc: ModuleExport,
    pub(crate) start: ModuleExport,
    pub(crate) advance: ModuleExport,
}

/// The engine could not be loaded: the machine refuses address space or executable memory, or its
/// processor lacks what the code was compiled for.
#[derive(Debug, thiserror::Error)]
#[error("the QuickJS engine cannot be loaded on this machine: {0}")]
pub struct LoadError(String);

impl QuickJs {
    /// The process's one engine, loaded at the first call (in about a millisecond) and never unloaded. What everybody
    /// wants: executors share code, room and ticker.
    pub fn shared() -> Result<Self, LoadError> {
        static SHARED: OnceLock<QuickJs> = OnceLock::new();
        match SHARED.get() {
            Some(engine) => Ok(engine.clone()),
            None => Self::new().map(|engine| SHARED.get_or_init(|| engine).clone()),
        }
    }

    /// An engine of its own: its own copy of the code, its own reservation of address space (some terabytes, and no
    /// memory), its own ticker thread. All of it goes with the last clone.
    pub fn new() -> Result<Self, LoadError> {
        let (engine, guests) = wasmtime_engine().map_err(|error| LoadError(error.to_string()))?;
        Self::load(&engine, guests).map_err(|error| LoadError(error.to_string()))
    }

    fn load(engine: &wasmtime::Engine, guests: u32) -> wasmtime::Result<Self> {
        #[allow(unsafe_code)]
        // Needed because the code is compiled at build time, so that no compiler is part of the program.
        // SAFETY: GUEST is the unaltered output of `Engine::precompile_module` in our build script, part of the
        // program's own read-only data; Wasmtime checks its version and settings.
        let module = unsafe { Module::deserialize(engine, GUEST)? };
        let mut linker = Linker::new(engine);
        instance::define_imports(&mut linker)?;
        let code = linker.instantiate_pre(&module)?;
        let exports = Exports::find(&module)?;
        Ok(Self(Arc::new(Loaded { code, exports, ticker: Ticker::new(engine), guests })))
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
        let instance = Instance::new(&self.0, &program).map_err(|error| {
            if error.is::<PoolConcurrencyLimitError>() {
                StartError::Full(self.0.guests as usize)
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

/// What [`Modules`] promises about its names: the guest relies on it.
fn check(modules: &Modules) -> Result<(), String> {
    let mut names = HashSet::new();
    for module in &modules.modules {
        if module.name.contains('\0') {
            return Err(format!("the module name {:?} has a NUL", module.name));
        }
        if !names.insert(&module.name) {
            return Err(format!("two modules have the name {:?}", module.name));
        }
    }
    let is_entry =
        |module: &program::Module| module.name == modules.entry && matches!(module.body, ModuleBody::Source(_));
    if modules.modules.iter().any(is_entry) {
        Ok(())
    } else {
        Err(format!("there is no source of the entry {:?}", modules.entry))
    }
}

impl std::fmt::Debug for QuickJs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuickJs").field("guests", &self.0.guests).finish_non_exhaustive()
    }
}

impl Exports {
    fn find(module: &Module) -> wasmtime::Result<Self> {
        let export = |name: &str| {
            module
                .get_export_index(name)
                .ok_or_else(|| wasmtime::Error::msg(format!("the guest does not export {name}")))
        };
        Ok(Self {
            memory: export("memory")?,
            stack_pointer: export("__stack_pointer")?,
            alloc: export("guest_alloc")?,
            start: export("guest_start")?,
            advance: export("guest_advance")?,
        })
    }
}

/// Instances from a pool of address space, as large as the system grants; without a pool where it grants none.
fn wasmtime_engine() -> wasmtime::Result<(wasmtime::Engine, u32)> {
    for guests in [MAX_GUESTS, FEWER_GUESTS] {
        let mut config = config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(guests)));
        if let Ok(engine) = wasmtime::Engine::new(&config) {
            return Ok((engine, guests));
        }
    }
    Ok((wasmtime::Engine::new(&config())?, u32::MAX))
}

fn pool(guests: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(guests)
        .total_memories(guests)
        .total_tables(guests)
        .total_stacks(guests)
        .max_memory_size(4 << 30)
        .table_elements(8192)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(64 << 10)
        .max_unused_warm_slots(guests)
        // Resets only the pages that a guest touched, where the kernel can tell (Linux 6.7); else by size.
        .pagemap_scan(Enabled::Auto);
    pool
}
