// The Wasmtime configuration that compiled guest code depends on. Included by the build script, which compiles, and by the
// engine, which loads.

use wasmtime::Config;

/// The size of a guest's stack for wasm frames, in bytes. The JavaScript stack limit applies to the shadow stack in linear
/// memory (768 KiB of 1 MiB, see build.sh); the native frames of the deepest recursion within that limit take a fraction of
/// this.
const WASM_STACK: usize = 4 << 20;

fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.memory_init_cow(true);
    config.max_wasm_stack(WASM_STACK);
    config.async_stack_size(WASM_STACK + (256 << 10));
    config.memory_reservation(4 << 30);
    config.memory_guard_size(32 << 20);
    config.wasm_relaxed_simd(false);
    config.wasm_backtrace_max_frames(None);
    config
}
