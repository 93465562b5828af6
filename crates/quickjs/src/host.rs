//! The imports of a guest: its calls, console lines and end.
//!
//! Everything that comes from a guest is hostile, as if the C engine in it were compromised: addresses and lengths are
//! checked against linear memory, and the content is checked where it is decoded.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use execbox_core::engine::{FunctionId, Interrupt, MAX_UNAWAITED, Outcome, UnawaitedCall};
use execbox_core::mailbox::Mailbox;
use execbox_core::program::{Limits, Program};
use execbox_core::stack::Files;
use execbox_core::value::Value;
use wasmtime::{AsContext, AsContextMut, Caller, Linker, Memory, ResourceLimiter, Trap};

use crate::boundary::{End, Level, LibraryNumber};
use crate::outcome;

/// State that the guest accesses while it is polled, and its driver between polls.
pub(crate) type SharedState = Arc<Mutex<Shared>>;

pub(crate) struct Shared {
    pub(crate) mailbox: Mailbox,
    pub(crate) sync_call: SyncCall,
    /// The peak memory of the program in bytes, as of the last time that it yielded.
    pub(crate) peak_memory_bytes: u64,
}

/// The state of the synchronous call that blocks the guest.
pub(crate) enum SyncCall {
    /// The guest is not in a synchronous call.
    None,
    /// The call is not answered yet.
    Pending,
    /// The call is answered, with this message.
    Answered(Vec<u8>),
}

impl SyncCall {
    /// The handle of the synchronous call in the mailbox; no slot has this number.
    pub(crate) const HANDLE: u32 = u32::MAX;
}

/// Code that holds this lock leaves the state consistent even if it panics, so a poisoned lock is usable.
pub(crate) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host's side of an instance.
pub(crate) struct Host {
    pub(crate) shared: SharedState,
    pub(crate) interrupt: Interrupt,
    pub(crate) memory: Option<Memory>,
    pub(crate) memory_limiter: MemoryLimiter,
    files: Files,
    /// The answer to a synchronous call, until the guest fetches it.
    answer: Vec<u8>,
    /// The number of calls that the guest has reported as unawaited.
    unawaited: usize,
    /// Set once, when the guest ends.
    pub(crate) outcome: Option<Outcome>,
}

/// How many bytes a request about a locale may take as JSON: two texts of the greatest length, and options.
const MAX_LOCALE_REQUEST: usize = 1 << 20;

/// The address where the guest keeps its peak memory, and the part of it that the image takes.
const PEAK: usize = parse(env!("GUEST_PEAK"));
const IMAGE_BYTES: usize = parse(env!("GUEST_IMAGE_BYTES"));

/// Parses a number that the build script computed.
pub(crate) const fn parse(number: &str) -> usize {
    match usize::from_str_radix(number, 10) {
        Ok(value) => value,
        Err(_) => panic!("not a number"),
    }
}

impl Host {
    pub(crate) fn new(program: &Program) -> Self {
        let shared = Shared {
            mailbox: Mailbox::new(&program.limits, program.budget.clone()),
            sync_call: SyncCall::None,
            peak_memory_bytes: 0,
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            interrupt: Interrupt::new(),
            memory: None,
            memory_limiter: MemoryLimiter::new(&program.limits),
            files: Files::of(program),
            answer: Vec::new(),
            unawaited: 0,
            outcome: None,
        }
    }
}

/// Limits linear memory, in case the guest is compromised. The allocator in the guest enforces the exact limit of the
/// program; this limit adds room for the image, fragmentation, and messages.
pub(crate) struct MemoryLimiter {
    max: usize,
}

impl MemoryLimiter {
    fn new(limits: &Limits) -> Self {
        let limit = limits.memory_len();
        Self { max: limit.saturating_add(limit / 2).saturating_add(16 << 20) }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= self.max)
    }

    fn table_growing(&mut self, current: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(current == 0) // only when the instance is created
    }
}

/// Reads the peak memory of the program from linear memory. A compromised guest can write any number there.
pub(crate) fn note_peak(guest: &impl AsContext<Data = Host>) {
    let host = guest.as_context().data();
    let Some(memory) = host.memory else { return };
    let mut bytes = [0; 4];
    if memory.read(guest, PEAK, &mut bytes).is_ok() {
        let peak = (u32::from_le_bytes(bytes) as usize).saturating_sub(IMAGE_BYTES);
        lock(&host.shared).peak_memory_bytes = peak as u64;
    }
}

// ---- The imports of the guest ---------------------------------------------------------------------

#[derive(Debug, thiserror::Error)]
#[error("the guest was interrupted")]
pub(crate) struct Interrupted;

/// The guest has ended, and its outcome is set. Unwinds the guest.
#[derive(Debug, thiserror::Error)]
#[error("the guest has ended")]
struct Ended;

type Guest<'a> = Caller<'a, Host>;

/// Defines the twelve imports of guest.c.
pub(crate) fn define_imports(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    linker.func_wrap("host", "call", call)?;
    linker.func_wrap_async("host", "call_now", |guest: Guest<'_>, args| Box::new(call_now(guest, args)))?;
    linker.func_wrap("host", "answer", answer)?;
    linker.func_wrap("host", "notify", notify)?;
    linker.func_wrap("host", "log", log)?;
    linker.func_wrap("host", "unawaited", unawaited)?;
    linker.func_wrap("host", "timer", timer)?;
    linker.func_wrap("host", "library", library)?;
    linker.func_wrap("host", "locale", locale)?;
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

/// Blocks the guest until its call is answered: its fiber is suspended, and the driver polls it again once there is an
/// answer. Returns the length of the answer, and writes it to `room` if it fits.
async fn call_now(
    mut guest: Guest<'_>,
    (function, at, len, room, room_len): (u32, u32, u32, u32, u32),
) -> wasmtime::Result<u32> {
    note_peak(&guest);
    let (input, host) = memory_and_host(&mut guest, at, len)?;
    let shared = Arc::clone(&host.shared);
    let taken = lock(&shared).mailbox.call(FunctionId(function), SyncCall::HANDLE, input, true);
    taken.map_err(|full| end(host, Outcome::HostMemory(full)))?;
    lock(&shared).sync_call = SyncCall::Pending;
    let answer = poll_fn(|_| take_answer(&mut lock(&shared).sync_call)).await;
    let answer_len = u32::try_from(answer.len())?;
    if answer_len <= room_len {
        write(&mut guest, room, &answer)?;
    } else {
        guest.data_mut().answer = answer;
    }
    Ok(answer_len)
}

fn take_answer(call: &mut SyncCall) -> Poll<Vec<u8>> {
    match call {
        SyncCall::Answered(answer) => {
            let answer = std::mem::take(answer);
            *call = SyncCall::None;
            Poll::Ready(answer)
        }
        SyncCall::None | SyncCall::Pending => Poll::Pending,
    }
}

/// Writes an answer that was too long for the room of `call_now`, or the source of a library, or what is known of a
/// locale.
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

/// Sets the outcome. Returning the error ends the guest.
fn end(host: &mut Host, outcome: Outcome) -> wasmtime::Error {
    host.outcome = Some(outcome);
    Ended.into()
}

fn log(mut guest: Guest<'_>, level: u32, at: u32, len: u32) -> wasmtime::Result<u32> {
    let (text, host) = memory_and_host(&mut guest, at, len)?;
    let level = Level::from_number(level).unwrap_or(Level::Log);
    let left = lock(&host.shared).mailbox.log(level.into(), text);
    Ok(u32::try_from(left).unwrap_or(u32::MAX))
}

/// A compromised guest can report a call as often as it likes: more than the first ones are ignored.
fn unawaited(mut guest: Guest<'_>, count: u32, function: u32, at: u32, len: u32) -> wasmtime::Result<()> {
    let (frame, host) = memory_and_host(&mut guest, at, len)?;
    if host.unawaited < MAX_UNAWAITED {
        host.unawaited += 1;
        let frame = host.files.frames(&String::from_utf8_lossy(frame)).pop();
        let call = UnawaitedCall { count: count.into(), function: FunctionId(function), frame };
        lock(&host.shared).mailbox.unawaited(call);
    }
    Ok(())
}

/// A delay that is no time, which only a compromised guest asks for, is none.
#[allow(clippy::needless_pass_by_value)] // Wasmtime's signature
fn timer(guest: Guest<'_>, milliseconds: f64) {
    let after = Duration::try_from_secs_f64(milliseconds / 1e3).ok();
    lock(&guest.data().shared).mailbox.timer(after);
}

fn library(mut guest: Guest<'_>, number: u32) -> wasmtime::Result<u32> {
    let source = LibraryNumber::from_number(number).ok_or(Ended)?.source();
    guest.data_mut().answer = source.as_bytes().to_vec();
    Ok(u32::try_from(source.len())?)
}

/// Answers with an array of a value, or of a hole and the message of a `RangeError`.
fn locale(mut guest: Guest<'_>, at: u32, len: u32) -> wasmtime::Result<u32> {
    let (request, host) = memory_and_host(&mut guest, at, len)?;
    let answer = match ask_about_locale(request) {
        Ok(value) => serde_json::json!([value]),
        Err(message) => serde_json::json!([null, message]),
    };
    host.answer = Value::from_json(Some(&answer), "answer")?.as_bytes().to_vec();
    Ok(u32::try_from(host.answer.len())?)
}

fn ask_about_locale(request: &[u8]) -> Result<serde_json::Value, String> {
    let too_long = || "the text is too long for a function that depends on a locale".to_owned();
    if request.len() > MAX_LOCALE_REQUEST {
        return Err(too_long()); // before it is copied
    }
    let request = Value::from_bytes(request).to_json("request", MAX_LOCALE_REQUEST).map_err(|_| too_long())?;
    execbox_locale::call(&request.unwrap_or_default())
}

fn done(mut guest: Guest<'_>, kind: u32, at: u32, len: u32) -> wasmtime::Result<()> {
    let (message, host) = memory_and_host(&mut guest, at, len)?;
    let outcome = outcome::read(End::from_number(kind), Value::from_bytes(message), &host.files);
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

/// `len` bytes of guest memory at `at`, and the host.
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
