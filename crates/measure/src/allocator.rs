//! The allocator of every program that uses this crate: the binary, its benchmarks, and what measures its memory.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_get, mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;

/// Values cross between guest and host as many small allocations; this allocator makes that twice as fast as glibc's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: mi_option_t = 15;

/// The allocator's own default of the purge delay, in milliseconds.
const DEFAULT_MS: c_long = 1000;

/// How long freed memory is kept for further allocations, in milliseconds. With the default, a guest that makes the host
/// allocate and free much within a second takes two or three times the memory that is in use at once. In return, values of
/// 1 MB take 10 % longer.
const SHORT_MS: c_long = 10;

/// Makes the allocator return freed memory to the system soon, unless the environment (`MIMALLOC_PURGE_DELAY`) says when.
/// To be called first in `main`, while no other thread runs.
pub fn return_memory_soon() {
    #[allow(unsafe_code)]
    // The bindings have no safe functions.
    // SAFETY: reads and writes one number in a table of the allocator, which ignores unknown options, and on which nothing
    // but the times of `madvise` depends. No other thread runs yet.
    let before = unsafe {
        let before = mi_option_get(PURGE_DELAY);
        mi_option_set_default(PURGE_DELAY, SHORT_MS);
        before
    };
    debug_assert!(
        before == DEFAULT_MS || std::env::var_os("MIMALLOC_PURGE_DELAY").is_some(),
        "another option: {before}"
    );
}
