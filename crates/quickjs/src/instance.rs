//! One WebAssembly instance: what goes in, what it may ask of the host, and how it ends.
//!
//! Everything that comes out is hostile, as if the C engine inside had been taken over: addresses and
//! lengths are checked against linear memory, and what the bytes say is for others to check.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use execbox_core::engine::{Cause, FunctionId, Interrupt, LinkError, LogLevel, Outcome, Thrown};
use execbox_core::error::{ErrorCode, ExecuteError};
use execbox_core::mailbox::Mailbox;
use execbox_core::program::{Limits, Program};
use execbox_core::value::Value;
use serde_json::Value as Json;
use wasmtime::{
    AsContext, AsContextMut, Caller, Global, Linker, Memory, ResourceLimiter, Store, Trap, TypedFunc, UpdateDeadline,
};

use crate::engine::Loaded;
use crate::stack::Files;

/// What the guest and its driver both reach: the driver between polls, the guest inside them.
pub(crate) type SharedState = Arc<Mutex<Shared>>;

pub(crate) struct Shared {
    pub(crate) mailbox: Mailbox,
    pub(crate) inside: Inside,
    /// The most memory that the program had in use when it last gave way, in bytes.
    pub(crate) peak_memory_bytes: u64,
}

/// Where the guest stands: a synchronous call keeps it there, with its frames on its stack.
pub(crate) enum Inside {
    /// In no synchronous call.
    Nothing,
    /// In one that is not answered yet.
    Call,
    /// In one that is, with the answer as it goes in.
    Answered(Vec<u8>),
}

impl Inside {
    /// Stands for the one synchronous call in the mailbox; slots never have this number.
    pub(crate) const HANDLE: u32 = u32::MAX;
}

/// Nothing that holds this lock can panic half-way, so a poisoned one is as good as new.
pub(crate) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Instance {
    store: Store<Host>,
    memory: Memory,
    stack_pointer: Global,
    alloc: TypedFunc<u32, u32>,
    start: TypedFunc<(u32, u32), ()>,
    advance: TypedFunc<(u32, u32), ()>,
    /// For what is called in debug builds only.
    exports: wasmtime::Instance,
}

/// Where the guest's inbox is, and how long: messages that fit go there (see guest.c and build.rs).
const INBOX: usize = parse(env!("GUEST_INBOX"));
const INBOX_LEN: usize = 4096;

/// Where the guest keeps the most bytes that were in use, and how many the image takes of them.
const PEAK: usize = parse(env!("GUEST_PEAK"));
const IMAGE_BYTES: usize = parse(env!("GUEST_IMAGE_BYTES"));

const fn parse(number: &str) -> usize {
    match usize::from_str_radix(number, 10) {
        Ok(value) => value,
        Err(_) => panic!("the build script writes numbers"),
    }
}

/// The host's side of an instance.
pub(crate) struct Host {
    shared: SharedState,
    interrupt: Interrupt,
    memory: Option<Memory>,
    memory_limiter: MemoryLimiter,
    files: Files,
    /// An answer to a synchronous call that the guest is yet to fetch.
    answer: Vec<u8>,
    /// Set once, by whatever ended the guest.
    outcome: Option<Outcome>,
}

impl Instance {
    pub(crate) fn new(loaded: &Loaded, program: &Program) -> wasmtime::Result<Self> {
        let mut store = Store::new(loaded.code.module().engine(), Host::new(program));
        store.limiter(|host| &mut host.memory_limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            note_peak(&context);
            if context.data().interrupt.is_triggered() { Err(Stopped.into()) } else { Ok(UpdateDeadline::Yield(1)) }
        });
        let instance = at_once(loaded.code.instantiate_async(&mut store))?;
        let exports = &loaded.exports;
        let mut function = |export| {
            let export = instance.get_module_export(&mut store, export);
            export.and_then(wasmtime::Extern::into_func).ok_or_else(|| wasmtime::Error::msg("not a function"))
        };
        let (alloc, start, advance) =
            (function(&exports.alloc)?, function(&exports.start)?, function(&exports.advance)?);
        let memory = instance.get_module_export(&mut store, &exports.memory);
        let memory = memory.and_then(wasmtime::Extern::into_memory);
        let memory = memory.ok_or_else(|| wasmtime::Error::msg("not a memory"))?;
        let stack_pointer = instance.get_module_export(&mut store, &exports.stack_pointer);
        let stack_pointer = stack_pointer.and_then(wasmtime::Extern::into_global);
        let stack_pointer = stack_pointer.ok_or_else(|| wasmtime::Error::msg("not a global"))?;
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

    /// Runs the program until it can go no further. `Some` when that was its end.
    pub(crate) async fn start(&mut self, message: Vec<u8>) -> Option<Outcome> {
        let entry = self.start.clone();
        self.enter(&entry, message).await
    }

    /// Hands in answers and runs on until the program can go no further. `Some` when that was its end.
    pub(crate) async fn advance(&mut self, message: Vec<u8>) -> Option<Outcome> {
        let entry = self.advance.clone();
        self.enter(&entry, message).await
    }

    async fn enter(&mut self, entry: &TypedFunc<(u32, u32), ()>, message: Vec<u8>) -> Option<Outcome> {
        let len = message.len() as u32;
        self.store.set_epoch_deadline(1); // The epoch has moved on while the guest waited.
        let put = self.put(&message).await;
        drop(message); // the guest has it, and may compute for long
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

    /// In debug builds, whether the program that has ended gives back all memory that was counted as in use: `Some` if not.
    async fn check_accounting(&mut self) -> Option<Outcome> {
        let check = self.exports.get_typed_func::<(), u32>(&mut self.store, "guest_check");
        let left = match check {
            Ok(check) => check.call_async(&mut self.store, ()).await,
            Err(error) => Err(error),
        };
        match left {
            Ok(0) => None,
            Ok(left) => Some(Outcome::Fault(format!("{left} bytes are counted as in use after everything was freed"))),
            Err(error) if error.is::<Stopped>() => None,
            Err(error) => Some(Outcome::Fault(format!("freeing everything failed: {error}"))),
        }
    }

    /// What a trap comes to when nothing has set the outcome.
    fn classify(&mut self, error: &wasmtime::Error) -> Outcome {
        if error.is::<Stopped>() {
            return Outcome::Interrupted;
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => Outcome::StackOverflow,
            // Where the C engine recurses without a check of its own, the stack in linear memory runs out at address 0.
            Some(Trap::MemoryOutOfBounds) if self.stack_has_run_out() => Outcome::StackOverflow,
            Some(trap) => Outcome::Fault(format!("the guest's engine failed: {trap}")),
            None => Outcome::Fault(format!("the guest's engine failed: {error}")),
        }
    }

    fn stack_has_run_out(&mut self) -> bool {
        const NEARLY_NOTHING: i32 = 16 << 10;
        let pointer = self.stack_pointer.get(&mut self.store);
        pointer.i32().is_some_and(|at| at < NEARLY_NOTHING)
    }

    /// Copies a message into the guest and says where it is.
    async fn put(&mut self, message: &[u8]) -> wasmtime::Result<u32> {
        let address = match message.len() {
            0..=INBOX_LEN => INBOX as u32,
            len => self.alloc.call_async(&mut self.store, u32::try_from(len)?).await?,
        };
        self.memory.write(&mut self.store, address as usize, message)?;
        Ok(address)
    }
}

/// Reads off the guest's memory how much it has had in use, for whoever asks while it computes or is over. What is there is
/// the guest's word, like all that comes out of it.
fn note_peak(guest: &impl AsContext<Data = Host>) {
    let host = guest.as_context().data();
    let Some(memory) = host.memory else { return };
    let mut bytes = [0; 4];
    if memory.read(guest, PEAK, &mut bytes).is_ok() {
        let peak = (u32::from_le_bytes(bytes) as usize).saturating_sub(IMAGE_BYTES);
        lock(&host.shared).peak_memory_bytes = peak as u64;
    }
}

/// What a future gives that has nothing to wait for: the guest has no start function.
fn at_once<T>(future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(wasmtime::Error::msg("the guest waits before it has begun")),
    }
}

impl Host {
    fn new(program: &Program) -> Self {
        let shared = Shared { mailbox: Mailbox::new(&program.limits), inside: Inside::Nothing, peak_memory_bytes: 0 };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            interrupt: Interrupt::new(),
            memory: None,
            memory_limiter: MemoryLimiter::new(&program.limits),
            files: Files::of(program),
            answer: Vec::new(),
            outcome: None,
        }
    }
}

/// Bounds linear memory. The program's own limit is kept exactly, inside, by the engine's allocator; this is the wall
/// behind it, with room for the image, for fragmentation, and for messages on their way in.
struct MemoryLimiter {
    most: usize,
}

impl MemoryLimiter {
    fn new(limits: &Limits) -> Self {
        let limit = limits.memory_len();
        Self { most: limit.saturating_add(limit / 2).saturating_add(16 << 20) }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= self.most)
    }

    fn table_growing(&mut self, current: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(current == 0) // as the instance is made; the guest's one table never grows
    }
}

// ---- What the guest may ask of the host -----------------------------------------------------------

/// The guest was interrupted.
#[derive(Debug, thiserror::Error)]
#[error("the guest was stopped")]
struct Stopped;

/// The guest has ended, and its outcome is set: unwinds out of it.
#[derive(Debug, thiserror::Error)]
#[error("the guest has ended")]
struct Ended;

type Guest<'a> = Caller<'a, Host>;

/// The eight imports of guest.c.
pub(crate) fn define_imports(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    linker.func_wrap("host", "call", call)?;
    linker.func_wrap_async("host", "call_now", |guest: Guest<'_>, args| Box::new(call_now(guest, args)))?;
    linker.func_wrap("host", "answer", answer)?;
    linker.func_wrap("host", "notify", notify)?;
    linker.func_wrap("host", "log", log)?;
    linker.func_wrap("host", "done", done)?;
    linker.func_wrap("host", "memory_refused", memory_refused)?;
    linker.func_wrap("host", "now_us", |_: Guest<'_>| now_us())?;
    Ok(())
}

fn call(mut guest: Guest<'_>, function: u32, slot: u32, at: u32, len: u32) -> wasmtime::Result<()> {
    let (input, host) = memory_and_host(&mut guest, at, len)?;
    let taken = lock(&host.shared).mailbox.call(FunctionId(function), slot, input, false);
    taken.map(|_| ()).map_err(|full| end(host, Outcome::HostMemory(full)))
}

/// The guest stands in here until its call is answered: its fiber is suspended, and the driver polls it again once there
/// is an answer. Says how long the answer is; one that fits is in `room` already.
async fn call_now(
    mut guest: Guest<'_>,
    (function, at, len, room, room_len): (u32, u32, u32, u32, u32),
) -> wasmtime::Result<u32> {
    note_peak(&guest);
    let (input, host) = memory_and_host(&mut guest, at, len)?;
    let shared = Arc::clone(&host.shared);
    let taken = lock(&shared).mailbox.call(FunctionId(function), Inside::HANDLE, input, true);
    taken.map_err(|full| end(host, Outcome::HostMemory(full)))?;
    lock(&shared).inside = Inside::Call;
    let answer = poll_fn(|_| take_answer(&mut lock(&shared).inside)).await;
    let answer_len = u32::try_from(answer.len())?;
    if answer_len <= room_len {
        write(&mut guest, room, &answer)?;
    } else {
        guest.data_mut().answer = answer;
    }
    Ok(answer_len)
}

fn take_answer(inside: &mut Inside) -> Poll<Vec<u8>> {
    match inside {
        Inside::Answered(answer) => {
            let answer = std::mem::take(answer);
            *inside = Inside::Nothing;
            Poll::Ready(answer)
        }
        Inside::Nothing | Inside::Call => Poll::Pending,
    }
}

/// Fetches an answer that was too long for the room that was offered first.
fn answer(mut guest: Guest<'_>, room: u32) -> wasmtime::Result<()> {
    let answer = std::mem::take(&mut guest.data_mut().answer);
    write(&mut guest, room, &answer)
}

fn notify(mut guest: Guest<'_>, function: u32, is_log: u32, at: u32, len: u32) -> wasmtime::Result<u32> {
    let (args, host) = memory_and_host(&mut guest, at, len)?;
    if is_log != 0 {
        let left = lock(&host.shared).mailbox.log_record(FunctionId(function), args);
        return Ok(u32::try_from(left).unwrap_or(u32::MAX));
    }
    let taken = lock(&host.shared).mailbox.notify(FunctionId(function), args);
    taken.map(|()| 0).map_err(|full| end(host, Outcome::HostMemory(full)))
}

/// Ends the guest.
fn end(host: &mut Host, outcome: Outcome) -> wasmtime::Error {
    host.outcome = Some(outcome);
    Ended.into()
}

fn log(mut guest: Guest<'_>, level: u32, at: u32, len: u32) -> wasmtime::Result<u32> {
    let (text, host) = memory_and_host(&mut guest, at, len)?;
    let level = match level {
        1 => LogLevel::Info,
        2 => LogLevel::Warn,
        3 => LogLevel::Error,
        4 => LogLevel::Debug,
        _ => LogLevel::Log,
    };
    let left = lock(&host.shared).mailbox.log(level, text);
    Ok(u32::try_from(left).unwrap_or(u32::MAX))
}

fn done(mut guest: Guest<'_>, kind: u32, at: u32, len: u32) -> wasmtime::Result<()> {
    let (message, host) = memory_and_host(&mut guest, at, len)?;
    let value = Value::from_bytes(message);
    let outcome = match kind {
        0 => Outcome::Returned(value),
        1 => thrown(&value, &host.files),
        2 => failed(&value, &host.files),
        _ => unlinked(&value, &host.files),
    };
    host.outcome.get_or_insert(outcome);
    Ok(())
}

fn memory_refused(mut guest: Guest<'_>) -> wasmtime::Result<()> {
    Err(end(guest.data_mut(), Outcome::OutOfMemory))
}

#[allow(clippy::cast_precision_loss)] // exact until the year 2255
fn now_us() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |elapsed| elapsed.as_micros() as f64)
}

/// `len` bytes of guest memory at `at`, and the host's side.
fn memory_and_host<'a>(guest: &'a mut Guest<'_>, at: u32, len: u32) -> wasmtime::Result<(&'a [u8], &'a mut Host)> {
    let memory = guest.data().memory.ok_or(Ended)?;
    let (bytes, host) = memory.data_and_store_mut(guest.as_context_mut());
    let bytes = bytes.get(at as usize..).and_then(|rest| rest.get(..len as usize)).ok_or(Trap::MemoryOutOfBounds)?;
    Ok((bytes, host))
}

fn write(guest: &mut Guest<'_>, at: u32, bytes: &[u8]) -> wasmtime::Result<()> {
    let memory = guest.data().memory.ok_or(Ended)?;
    Ok(memory.write(guest.as_context_mut(), at as usize, bytes)?)
}

/// An array of strings, as guest.c writes the kinds of failure.
fn strings<const N: usize>(value: &Value) -> Option<[String; N]> {
    let Ok(Some(Json::Array(items))) = value.to_json("end", 1 << 20) else { return None };
    let texts: Option<Vec<String>> = items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect();
    texts?.try_into().ok()
}

fn thrown(value: &Value, files: &Files) -> Outcome {
    match strings(value) {
        Some([name, message, stack]) => {
            let cause = cause(&name, &message);
            Outcome::Threw(Thrown { name, message, frames: files.frames(&stack), cause })
        }
        None => Outcome::Fault("the guest's engine reported an error that cannot be read".to_owned()),
    }
}

/// The cause behind a message of QuickJS. A guest can throw an error with the same message.
fn cause(name: &str, message: &str) -> Option<Cause> {
    match name {
        "TypeError" if message == "not a function" => Some(Cause::NotAFunction),
        "TypeError" if message.starts_with("cannot read property '") => Some(Cause::PropertyOfNothing),
        "ReferenceError" => message.strip_suffix(" is not defined").map(|name| Cause::NotDefined(name.to_owned())),
        _ => None,
    }
}

/// A guest's engine that was taken over may name a module that there is not: it stays nameless.
fn unlinked(value: &Value, files: &Files) -> Outcome {
    let Some([kind, module, name, message, stack]) = strings(value) else {
        return Outcome::Fault("the guest's engine reported a failure to link that cannot be read".to_owned());
    };
    let module = || files.module(&module).unwrap_or_default();
    Outcome::Unlinked(match kind.as_str() {
        "syntax" => {
            let position = files.frames(&stack).first().map(|frame| frame.position);
            LinkError::Syntax { module: module(), message, position }
        }
        "specifier" => LinkError::Specifier { module: module(), specifier: name },
        "export" => LinkError::Export { export: name },
        _ => LinkError::Binding { message },
    })
}

fn failed(value: &Value, files: &Files) -> Outcome {
    match strings(value) {
        Some([code, message, stack]) => {
            let code = ErrorCode::from_name(&code).unwrap_or(ErrorCode::ToolError);
            let frames = files.frames(&stack);
            Outcome::Failed { error: ExecuteError::new(code, message), frames }
        }
        None => Outcome::Fault("the guest's engine reported a failure that cannot be read".to_owned()),
    }
}
