//! Creates the image of every guest and compiles it ahead of time.
//!
//! guest.wasm (committed, see guest/build.sh) is run once: `guest_init` sets up the realm and runs bootstrap.js. Its
//! memory becomes the initial memory of a new module, which is compiled for the target's baseline processor.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use wasmtime::{Caller, Engine, Instance, Linker, Module, OptLevel, Store, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

include!("src/config.rs");

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    for input in ["guest/guest.wasm", "guest/bootstrap.js", "src/config.rs", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let wasm = fs::read("guest/guest.wasm")?;
    let image = pre_initialize(&wasm, fs::read_to_string("guest/bootstrap.js")?.as_bytes())?;
    let compiled = compile(&image, &env::var("TARGET")?)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("guest.cwasm"), compiled)?;
    Ok(())
}

/// Runs `guest_init`, and returns a module whose initial memory is the memory of the instance.
fn pre_initialize(wasm: &[u8], bootstrap: &[u8]) -> Result<Vec<u8>> {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::None);
    let engine = Engine::new(&config)?;
    let mut wizer = Wizer::new();
    wizer.init_func("guest_init").keep_init_func(false);
    let (context, instrumented) = wizer.instrument(wasm)?;
    let module = Module::new(&engine, instrumented)?;
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    // A fixed clock: the image is a function of its inputs alone.
    linker.func_wrap("host", "now_us", |_: Caller<'_, ()>| 1.0_f64)?;
    linker.define_unknown_imports_as_traps(&module)?;
    let instance = linker.instantiate(&mut store, &module)?;
    instance.get_typed_func::<(), ()>(&mut store, "_initialize")?.call(&mut store, ())?;
    let inbox = instance.get_typed_func::<(), u32>(&mut store, "guest_inbox")?.call(&mut store, ())?;
    println!("cargo::rustc-env=GUEST_INBOX={inbox}");
    let peak = instance.get_typed_func::<(), u32>(&mut store, "guest_peak")?.call(&mut store, ())?;
    println!("cargo::rustc-env=GUEST_PEAK={peak}");
    let address = put(&mut store, &instance, bootstrap)?;
    let init = instance.get_typed_func::<(u32, u32), ()>(&mut store, "guest_init")?;
    init.call(&mut store, (address, u32::try_from(bootstrap.len())?))?;
    println!("cargo::rustc-env=GUEST_IMAGE_BYTES={}", read_u32(&mut store, &instance, peak)?);
    let image = pollster::block_on(wizer.snapshot(&context, &mut Snapshot { store, instance }))?;
    Ok(image)
}

/// Copies text into the instance, with a final NUL, which the engine's parser requires.
fn put(store: &mut Store<()>, instance: &Instance, text: &[u8]) -> Result<u32> {
    let alloc = instance.get_typed_func::<u32, u32>(&mut *store, "guest_alloc")?;
    let address = alloc.call(&mut *store, u32::try_from(text.len() + 1)?)?;
    let memory = instance.get_memory(&mut *store, "memory").ok_or("guest.wasm exports no memory")?;
    memory.write(&mut *store, address as usize, text)?;
    memory.write(&mut *store, address as usize + text.len(), &[0])?;
    Ok(address)
}

fn read_u32(store: &mut Store<()>, instance: &Instance, address: u32) -> Result<u32> {
    let memory = instance.get_memory(&mut *store, "memory").ok_or("guest.wasm exports no memory")?;
    let mut bytes = [0; 4];
    memory.read(&mut *store, address as usize, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

struct Snapshot {
    store: Store<()>,
    instance: Instance,
}

impl Snapshot {
    fn stack_pointer(&mut self) -> usize {
        let pointer = self.instance.get_global(&mut self.store, "__stack_pointer");
        pointer.and_then(|global| global.get(&mut self.store).i32()).map_or(0, |at| at.cast_unsigned() as usize)
    }
}

impl InstanceState for Snapshot {
    async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
        match self.instance.get_global(&mut self.store, name).map(|global| global.get(&mut self.store)) {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            other => unreachable!("guest.wasm has only 32-bit globals, not {name}: {other:?}"),
        }
    }

    async fn memory_contents(&mut self, name: &str, take: impl FnOnce(&[u8]) + Send) {
        // Memory below the stack pointer is left over from finished calls: it is not state.
        let dead = self.stack_pointer();
        if let Some(memory) = self.instance.get_memory(&mut self.store, name) {
            let bytes = memory.data_mut(&mut self.store);
            bytes[..dead].fill(0);
            take(bytes);
        }
    }
}

/// Compiles for the baseline processor of the target: naming the target excludes features of this machine.
fn compile(image: &[u8], target: &str) -> Result<Vec<u8>> {
    let mut config = config();
    config.target(target)?;
    config.cranelift_opt_level(OptLevel::Speed);
    config.generate_address_map(false);
    Ok(Engine::new(&config)?.precompile_module(image)?)
}
