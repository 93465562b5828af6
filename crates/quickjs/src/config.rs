// The Wasmtime configuration that decides what compiled guest code looks like: the same for the build script, which
// compiles, and for the engine, which loads. Included by both.

use wasmtime::Config;

/// Room for wasm frames on a guest's stack, in bytes. The JavaScript stack limit is kept on the shadow stack in linear
/// memory (768 KiB of 1 MiB, see guest.c); native frames of the engine's deepest recursion before that limit hits
/// fit in here several times.
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
