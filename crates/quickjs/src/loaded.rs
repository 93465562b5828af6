//! The compiled guest, loaded into this process.

use wasmtime::{Enabled, InstanceAllocationStrategy, Module, PoolingAllocationConfig};

use crate::instance::Code;
use crate::ticker::Ticker;

include!("config.rs");

/// Compiled by the build script from the image of every guest.
static GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest.cwasm"));

/// The most guests at once. Each reserves some 4 GiB of address space, and no memory.
pub(crate) const MAX_GUESTS: u32 = 1000;
/// The most guests at once on systems that grant little address space.
const FALLBACK_MAX_GUESTS: u32 = 32;

/// How much memory of a finished guest stays mapped for the next one, in bytes: more than most programs use.
const KEEP_RESIDENT: usize = 512 << 10;

pub(crate) struct Loaded {
    pub(crate) code: Code,
    pub(crate) ticker: Ticker,
    pub(crate) max_guests: u32,
}

impl Loaded {
    pub(crate) fn new(max_guests: u32) -> wasmtime::Result<Self> {
        let (engine, max_guests) = wasmtime_engine(max_guests)?;
        #[allow(unsafe_code)]
        // The code is compiled at build time, so that the program does not contain a compiler.
        // SAFETY: GUEST is the unaltered output of `Engine::precompile_module` in our build script, part of the
        // program's own read-only data; Wasmtime checks its version and settings.
        let module = unsafe { Module::deserialize(&engine, GUEST)? };
        Ok(Self { code: Code::new(&engine, &module)?, ticker: Ticker::new(&engine), max_guests })
    }
}

/// An engine with as large a pool of address space as the system grants, or without a pool.
fn wasmtime_engine(max_guests: u32) -> wasmtime::Result<(wasmtime::Engine, u32)> {
    for guests in [max_guests, max_guests.min(FALLBACK_MAX_GUESTS)] {
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
        // Resets only the pages that a guest wrote where the kernel can list them (Linux 6.7), or else KEEP_RESIDENT.
        .pagemap_scan(Enabled::Auto);
    pool
}
