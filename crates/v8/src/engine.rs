//! The engine: the [`Engine`] of this crate.

use std::sync::{Arc, Once};

use execbox_core::engine::{Engine, Guest, StartError};
use execbox_core::program::Program;

use crate::exhaustion;
use crate::guest::V8Guest;
use crate::pool::Pool;
use crate::resident::Resident;
use crate::snapshot::Snapshot;

/// How many isolates the engine keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The isolates that are made ahead, so that a program finds one. Default 1.
    pub spare_isolates: usize,
    /// The most guests at once. Each has a thread. Default 4.
    pub max_guests: usize,
}

impl Options {
    execbox_core::setters! {
        spare_isolates: usize,
        max_guests: usize,
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { spare_isolates: 1, max_guests: 4 }
    }
}

/// The V8 engine. Clones share the isolates.
#[derive(Clone)]
pub struct V8 {
    pool: Arc<Pool>,
    max_guests: usize,
}

/// The error of an engine that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot load the V8 engine: {0}")]
pub struct LoadError(String);

impl V8 {
    /// Starts V8 and the threads of the engine: [`Prepared::start`] of a process that can open files.
    pub fn new(options: &Options) -> Result<Self, LoadError> {
        Prepared::new().start(options)
    }
}

/// Resources that the engine opens before the process is locked and can open no files.
pub struct Prepared {
    resident: Option<Resident>,
}

impl Prepared {
    /// Opens the file that reports how much memory the process uses. On a system without it, the memory that a program takes in
    /// a single step of native code is not bounded.
    #[allow(clippy::new_without_default)] // it opens a file
    pub fn new() -> Self {
        Self { resident: Resident::open() }
    }

    /// Starts V8 and the threads of the engine. A locked process cannot start threads later.
    ///
    /// This function sets the time zone of the process to UTC and its locale to American English. Call it before the process
    /// has threads that read the environment.
    pub fn start(self, options: &Options) -> Result<V8, LoadError> {
        initialize();
        let snapshot = Snapshot::new().map_err(|reason| LoadError(reason.to_owned()))?;
        let max_guests = options.max_guests.max(1);
        let threads = max_guests + options.spare_isolates;
        let pool = Pool::start(snapshot, threads, options.spare_isolates, self.resident);
        let pool = pool.map_err(|error| LoadError(format!("cannot start its threads: {error}")))?;
        Ok(V8 { pool: Arc::new(pool), max_guests })
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}

/// Flags of V8. Stacks are as deep as in Node, in KiB. Programs are short, so the space for new objects begins at its maximum,
/// in MiB: see [`memory::YOUNG_BYTES`](crate::memory::YOUNG_BYTES). Where V8 unrolls a loop inside of a loop, such as that of
/// `new Array(1000)`, it also drops the interrupt check of the outer loop, which then cannot be interrupted.
const FLAGS: &str = "--stack-size=984 --min-semi-space-size=8 --no-turboshaft-loop-unrolling";

/// Initializes V8, once for each process: V8 cannot be stopped and started again.
fn initialize() {
    static INITIALIZED: Once = Once::new();
    INITIALIZED.call_once(|| {
        fix_place();
        v8::V8::set_flags_from_string(FLAGS);
        v8::V8::set_entropy_source(entropy);
        v8::V8::initialize_platform(v8::new_unprotected_default_platform(1, false).make_shared());
        v8::V8::initialize();
        exhaustion::handle();
    });
}

/// Sets UTC and American English for guests, wherever they run. V8 takes both from the environment.
fn fix_place() {
    // SAFETY: no other thread reads the environment at the same time: see `Prepared::start`.
    unsafe {
        std::env::set_var("TZ", "UTC");
        std::env::set_var("LC_ALL", "en_US.UTF-8");
    }
}

/// Fills `bytes` with random numbers: the seeds of hash tables and of `Math.random`. V8 would read them from the random device,
/// which a locked process cannot open.
fn entropy(bytes: &mut [u8]) -> bool {
    getrandom::fill(bytes).is_ok()
}

impl Engine for V8 {
    fn name(&self) -> &'static str {
        "v8"
    }

    fn needs_own_process(&self) -> bool {
        true
    }

    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError> {
        let guests = self.pool.enter();
        if guests >= self.max_guests {
            self.pool.leave();
            return Err(StartError::Full(self.max_guests));
        }
        Ok(Box::new(V8Guest::new(Arc::clone(&self.pool), program)))
    }
}

impl std::fmt::Debug for V8 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("V8").field("max_guests", &self.max_guests).finish_non_exhaustive()
    }
}
