//! One WebAssembly instance: messages go in, and it runs until the program waits or ends.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use execbox_core::engine::{Interrupt, Outcome};
use execbox_core::program::Program;
use wasmtime::{Engine, Extern, Func, Global, InstancePre, Linker, Memory, Module, ModuleExport, Store};
use wasmtime::{Trap, TypedFunc, UpdateDeadline};

use crate::host::{self, Host, Interrupted, SharedState, note_peak, parse};

/// The compiled guest, linked to its imports, and its exports.
pub(crate) struct Code {
    pre: InstancePre<Host>,
    memory: ModuleExport,
    stack_pointer: ModuleExport,
    alloc: ModuleExport,
    start: ModuleExport,
    advance: ModuleExport,
}

impl Code {
    pub(crate) fn new(engine: &Engine, module: &Module) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(engine);
        host::define_imports(&mut linker)?;
        let export = |name: &str| {
            let export = module.get_export_index(name);
            export.ok_or_else(|| wasmtime::Error::msg(format!("the guest does not export {name}")))
        };
        Ok(Self {
            pre: linker.instantiate_pre(module)?,
            memory: export("memory")?,
            stack_pointer: export("__stack_pointer")?,
            alloc: export("guest_alloc")?,
            start: export("guest_start")?,
            advance: export("guest_advance")?,
        })
    }
}

pub(crate) struct Instance {
    store: Store<Host>,
    memory: Memory,
    stack_pointer: Global,
    alloc: TypedFunc<u32, u32>,
    start: TypedFunc<(u32, u32), ()>,
    advance: TypedFunc<(u32, u32), ()>,
    /// For exports that are called in debug builds only.
    exports: wasmtime::Instance,
}

/// The address and length of the guest's inbox, for messages that fit (see guest.c and build.rs).
const INBOX: usize = parse(env!("GUEST_INBOX"));
const INBOX_LEN: usize = 4096;

impl Instance {
    pub(crate) fn new(code: &Code, program: &Program) -> wasmtime::Result<Self> {
        let mut store = Store::new(code.pre.module().engine(), Host::new(program));
        store.limiter(|host| &mut host.memory_limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            note_peak(&context);
            if context.data().interrupt.is_triggered() { Err(Interrupted.into()) } else { Ok(UpdateDeadline::Yield(1)) }
        });
        let instance = ready(code.pre.instantiate_async(&mut store))?;
        let mut export = |export| instance.get_module_export(&mut store, export);
        let memory = export(&code.memory).and_then(Extern::into_memory).ok_or_else(missing)?;
        let stack_pointer = export(&code.stack_pointer).and_then(Extern::into_global).ok_or_else(missing)?;
        let mut function =
            |name| -> wasmtime::Result<Func> { export(name).and_then(Extern::into_func).ok_or_else(missing) };
        let (alloc, start, advance) = (function(&code.alloc)?, function(&code.start)?, function(&code.advance)?);
        store.data_mut().memory = Some(memory);
        Ok(Self {
            memory,
            stack_pointer,
            alloc: alloc.typed(&store)?,
            start: start.typed(&store)?,
            advance: advance.typed(&store)?,
            exports: instance,
            store,
        })
    }

    pub(crate) fn shared(&self) -> SharedState {
        Arc::clone(&self.store.data().shared)
    }

    pub(crate) fn interrupt(&self) -> Interrupt {
        self.store.data().interrupt.clone()
    }

    /// Runs the program until it waits (`None`) or ends.
    pub(crate) async fn start(&mut self, message: Vec<u8>) -> Option<Outcome> {
        let entry = self.start.clone();
        self.enter(&entry, message).await
    }

    /// Delivers answers and runs the program until it waits (`None`) or ends.
    pub(crate) async fn advance(&mut self, message: Vec<u8>) -> Option<Outcome> {
        let entry = self.advance.clone();
        self.enter(&entry, message).await
    }

    async fn enter(&mut self, entry: &TypedFunc<(u32, u32), ()>, message: Vec<u8>) -> Option<Outcome> {
        let len = message.len() as u32;
        self.store.set_epoch_deadline(1); // the epoch advanced while the guest waited
        let put = self.put(&message).await;
        drop(message); // before a run that may be long
        let ran = match put {
            Ok(address) => entry.call_async(&mut self.store, (address, len)).await,
            Err(error) => Err(error),
        };
        note_peak(&self.store);
        let outcome = self.store.data_mut().outcome.take();
        match ran {
            Ok(()) if cfg!(debug_assertions) && outcome.is_some() => self.check_accounting().await.or(outcome),
            Ok(()) => outcome,
            Err(error) => Some(outcome.unwrap_or_else(|| self.classify(&error))),
        }
    }

    /// In debug builds, checks that the ended program returns all memory that was counted as in use. `Some` if not.
    async fn check_accounting(&mut self) -> Option<Outcome> {
        let check = self.exports.get_typed_func::<(), u32>(&mut self.store, "guest_check");
        let left = match check {
            Ok(check) => check.call_async(&mut self.store, ()).await,
            Err(error) => Err(error),
        };
        match left {
            Ok(0) => None,
            Ok(left) => Some(Outcome::Fault(format!("{left} bytes are counted as in use after everything was freed"))),
            Err(error) if error.is::<Interrupted>() => None,
            Err(error) => Some(Outcome::Fault(format!("freeing everything failed: {error}"))),
        }
    }

    /// The outcome of a trap that no import caused.
    fn classify(&mut self, error: &wasmtime::Error) -> Outcome {
        if error.is::<Interrupted>() {
            return Outcome::Interrupted;
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => Outcome::StackOverflow,
            // C code that recurses without a check of its own exhausts the stack in linear memory, at address 0.
            Some(Trap::MemoryOutOfBounds) if self.is_stack_exhausted() => Outcome::StackOverflow,
            Some(trap) => Outcome::Fault(format!("the engine of the guest failed: {trap}")),
            None => Outcome::Fault(format!("the engine of the guest failed: {error}")),
        }
    }

    fn is_stack_exhausted(&mut self) -> bool {
        const NEARLY_EXHAUSTED: i32 = 16 << 10;
        let pointer = self.stack_pointer.get(&mut self.store);
        pointer.i32().is_some_and(|at| at < NEARLY_EXHAUSTED)
    }

    /// Copies a message into the guest and returns its address.
    async fn put(&mut self, message: &[u8]) -> wasmtime::Result<u32> {
        let address = match message.len() {
            0..=INBOX_LEN => INBOX as u32,
            len => self.alloc.call_async(&mut self.store, u32::try_from(len)?).await?,
        };
        self.memory.write(&mut self.store, address as usize, message)?;
        Ok(address)
    }
}

fn missing() -> wasmtime::Error {
    wasmtime::Error::msg("an export of the guest has an unexpected type")
}

/// The result of a future that does not wait: the guest has no start function.
fn ready<T>(future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(wasmtime::Error::msg("the guest waits during instantiation")),
    }
}
