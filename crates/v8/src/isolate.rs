//! One isolate of V8, for one program: contexts of one isolate would share its heap, its limits and its termination.

use std::sync::Arc;

use v8::{Context, ContextScope, CreateParams, Global, Local, Message, MicrotasksPolicy, OwnedIsolate, Value};

use crate::memory::{self, Memory};
use crate::realm::Realm;
use crate::snapshot::Snapshot;
use crate::{console, exhaustion, globals, modules, program, rejections, stack};

/// An isolate that belongs to the thread that made it.
pub(crate) struct Isolate {
    /// The context and its intrinsics. Dropped before the isolate.
    pub(crate) parts: Option<(Global<Context>, Realm)>,
    pub(crate) v8: OwnedIsolate,
    /// The memory account. Dropped after the isolate, which refers to it.
    pub(crate) memory: Arc<Memory>,
}

/// The maximum number of frames that V8 records for an error.
const MAX_FRAMES: i32 = 64;

impl Isolate {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let memory = Memory::new();
        // SAFETY: the table drops the reference to the memory that the pointer stands for.
        let allocator = unsafe { v8::new_rust_allocator(Arc::into_raw(Arc::clone(&memory)), &memory::VTABLE) };
        let params = CreateParams::default()
            .snapshot_blob(snapshot.blob())
            .array_buffer_allocator(allocator)
            // Decides about the address space for machine code, too.
            .heap_limits(0, memory::HEAP_BYTES)
            .set_max_old_generation_size_in_bytes(memory::SPARE_HEAP_BYTES)
            .set_max_young_generation_size_in_bytes(memory::YOUNG_BYTES)
            .allow_atomics_wait(false);
        let mut v8 = v8::Isolate::new(params);
        v8.set_microtasks_policy(MicrotasksPolicy::Explicit);
        v8.set_capture_stack_trace_for_uncaught_exceptions(true, MAX_FRAMES);
        v8.set_oom_error_handler(exhaustion::of_isolate);
        v8.add_near_heap_limit_callback(memory::near_limit, Arc::as_ptr(&memory).cast_mut().cast());
        v8.set_prepare_stack_trace_callback(stack::prepare);
        v8.set_promise_reject_callback(rejections::track);
        v8.set_host_import_module_dynamically_callback(modules::import);
        v8.set_host_initialize_import_meta_object_callback(modules::import_meta);
        v8.add_message_listener(ignore);
        let parts = hardened(&mut v8);
        memory.begin(&mut v8);
        Self { parts, v8, memory }
    }
}

/// Ignores messages. Without a listener, V8 writes uncaught exceptions to standard output, which carries the protocol.
unsafe extern "C" fn ignore(_: Local<'_, Message>, _: Local<'_, Value>) {}

/// The realm of the snapshot, with the globals of the host and without those that V8 adds. `None` if the snapshot was not made
/// by [`Snapshot`](crate::snapshot::Snapshot).
fn hardened(isolate: &mut OwnedIsolate) -> Option<(Global<Context>, Realm)> {
    v8::scope!(let scope, isolate);
    let context = Context::new(scope, v8::ContextOptions::default());
    let scope = &mut ContextScope::new(scope, context);
    let global = context.global(scope);
    let console = console::new(scope);
    let realm = Realm::harden(scope, console)?;
    globals::add(scope, global);
    program::warm_up(scope);
    Some((Global::new(scope, context), realm))
}
