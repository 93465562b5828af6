//! The memory of one isolate: how it is measured, limited, and what happens beyond the limit.
//!
//! Three places enforce the limit. V8 itself calls [`near_limit`] before its heap is exhausted. Every allocation of an
//! `ArrayBuffer` uses [`VTABLE`], because its content is outside V8's heap. Each tick compares the memory in use with the
//! limit. The first of them that finds the limit exceeded terminates the program. Where V8 cannot continue even so, it ends the
//! process: see [`exhaustion`](crate::exhaustion).
//!
//! In a single step of native code, V8 allocates one large object whatever the limit, and serves no interrupt. So the ticker's
//! thread compares the memory of the whole process with the sum that its programs may use, and [ends](Memory::end) them.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use v8::{Isolate, IsolateHandle, RustAllocatorVtable};

/// The minimum of the maximum heap of a program, in bytes: the limit of most programs, and what V8 takes at first.
pub(crate) const HEAP_BYTES: usize = 72 << 20;

/// The maximum heap of a spare isolate, in bytes. V8 can lower it when the limit of a program is known. It can raise it only when the
/// heap is nearly exhausted, after many collections in vain, which takes longer than the program. With a maximum of several
/// gigabytes, a spare isolate takes 2 MiB more.
pub(crate) const SPARE_HEAP_BYTES: usize = 1 << 30;

/// The maximum size of the space for new objects, in bytes: three semi-spaces.
pub(crate) const YOUNG_BYTES: usize = 24 << 20;

/// The minimum that V8 gets beyond an exceeded limit to terminate the program, in bytes; half of the limit if that is more.
const SLACK_BYTES: usize = 16 << 20;

/// The memory that the process may have beyond one and a half times the limits of its programs, in bytes: new objects and
/// garbage, machine code, and copies of values that cross.
const PROCESS_BYTES: usize = 64 << 20;

/// The minimum that is reported for a program, in bytes: the realm of a spare isolate has about as much garbage, which a
/// collection removes.
const PROGRAM_BYTES: usize = 8 << 10;

/// How often V8 asks for an `ArrayBuffer` again, after collections, before it gives up.
const ATTEMPTS: usize = 4;

#[derive(Default)]
pub(crate) struct Memory {
    isolate: OnceLock<IsolateHandle>,
    /// The maximum memory of the program, in bytes.
    limit: AtomicUsize,
    /// The size of the heap before the program started, in bytes.
    base: AtomicUsize,
    /// The content of all `ArrayBuffer`s, in bytes.
    buffers: AtomicUsize,
    /// The number of consecutive allocations of an `ArrayBuffer` that were refused.
    refused: AtomicUsize,
    /// The memory that was live after the last collection that a tick asked for, in bytes.
    collected: AtomicUsize,
    peak: AtomicUsize,
    exceeded: AtomicBool,
    /// [`end`](Self::end) was called before.
    ended: AtomicBool,
}

impl Memory {
    /// Makes an account without a limit.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { limit: AtomicUsize::new(usize::MAX), ..Self::default() })
    }

    /// Begins to count: what the heap has now is not counted.
    pub(crate) fn begin(&self, isolate: &mut Isolate) {
        let _ = self.isolate.set(isolate.thread_safe_handle());
        self.base.store(isolate.get_heap_statistics().used_heap_size(), Ordering::Relaxed);
    }

    /// Applies the limit of a program, to which the isolate belongs from now on.
    pub(crate) fn limit(self: &Arc<Self>, isolate: &mut Isolate, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        isolate.remove_near_heap_limit_callback(near_limit, self.max_heap_bytes().max(HEAP_BYTES));
        isolate.add_near_heap_limit_callback(near_limit, Arc::as_ptr(self).cast_mut().cast());
    }

    /// The heap that V8 may have for this program, with what it had before and new objects.
    fn max_heap_bytes(&self) -> usize {
        let (limit, base) = (self.limit.load(Ordering::Relaxed), self.base.load(Ordering::Relaxed));
        limit.saturating_add(base).saturating_add(YOUNG_BYTES / 3)
    }

    /// Whether the program has exceeded its limit.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::SeqCst)
    }

    /// Whether the limit allows for a value of this length. A tick would never see a value that is freed before it.
    pub(crate) fn has_room_for(&self, len: usize) -> bool {
        len <= self.limit.load(Ordering::Relaxed)
    }

    /// The maximum memory of the program that was measured, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed) as u64
    }

    /// The memory that the program uses now, with garbage, in bytes. Counts for the [peak](Self::peak).
    pub(crate) fn measure(&self, isolate: &mut Isolate) -> usize {
        let heap = isolate.get_heap_statistics().used_heap_size();
        let heap = heap.saturating_sub(self.base.load(Ordering::Relaxed)).max(PROGRAM_BYTES);
        let used = heap + self.buffers.load(Ordering::Relaxed);
        self.peak.fetch_max(used.min(self.limit.load(Ordering::Relaxed)), Ordering::Relaxed);
        used
    }

    /// Terminates the program if what it uses exceeds the limit even after a collection.
    pub(crate) fn check(&self, isolate: &mut Isolate) {
        let (used, limit) = (self.measure(isolate), self.limit.load(Ordering::Relaxed));
        // Garbage counts until it is collected. One collection for each half of the limit bounds their cost.
        // V8 collects before its heap is larger than this, so garbage is not the reason.
        if used > limit.max(HEAP_BYTES).saturating_add(YOUNG_BYTES + SLACK_BYTES) {
            self.exceed();
            return;
        }
        if used <= limit || used < self.collected.load(Ordering::Relaxed).saturating_add(limit / 2) {
            return;
        }
        isolate.low_memory_notification();
        let live = self.measure(isolate);
        self.collected.store(live, Ordering::Relaxed);
        if live > limit {
            self.exceed();
        }
    }

    /// The most memory that the process may have for this program.
    pub(crate) fn max_process_bytes(&self) -> usize {
        let limit = self.limit.load(Ordering::Relaxed);
        limit.saturating_add(limit / 2).saturating_add(PROCESS_BYTES)
    }

    /// Terminates the program, for which the process has too much memory. Returns whether that was done before: it has had no effect
    /// until the next tick.
    pub(crate) fn end(&self) -> bool {
        self.exceed();
        self.ended.swap(true, Ordering::Relaxed)
    }

    /// Notes that the process ends because its memory is exhausted. Returns the [peak](Self::peak), which is the limit then.
    pub(crate) fn exhaust(&self) -> u64 {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit < usize::MAX {
            self.peak.store(limit, Ordering::Relaxed);
        }
        self.peak()
    }

    fn exceed(&self) {
        self.exceeded.store(true, Ordering::SeqCst);
        if let Some(isolate) = self.isolate.get() {
            isolate.terminate_execution();
        }
    }

    fn allocate(&self, len: usize, zeroed: bool) -> *mut c_void {
        let used = self.buffers.load(Ordering::Relaxed).saturating_add(len);
        let layout = layout(len);
        if used > self.limit.load(Ordering::Relaxed) || layout.is_none() {
            if self.refused.fetch_add(1, Ordering::Relaxed) + 1 >= ATTEMPTS {
                self.exceed();
            }
            return ptr::null_mut();
        }
        self.refused.store(0, Ordering::Relaxed);
        let Some(layout) = layout else { return ptr::null_mut() };
        // SAFETY: the layout has a size that is not 0.
        let data = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        if !data.is_null() {
            self.buffers.fetch_add(len, Ordering::Relaxed);
        }
        data.cast()
    }
}

/// The layout of the content of a buffer; `None` if it is too long for any address space.
fn layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(len.max(1), 16).ok()
}

/// Allocates the content of `ArrayBuffer`s. Each isolate holds a reference to its memory until it has dropped the allocator.
pub(crate) static VTABLE: RustAllocatorVtable<Memory> =
    RustAllocatorVtable { allocate, allocate_uninitialized, free, drop: drop_reference };

unsafe extern "C" fn allocate(memory: &Memory, len: usize) -> *mut c_void {
    memory.allocate(len, true)
}

unsafe extern "C" fn allocate_uninitialized(memory: &Memory, len: usize) -> *mut c_void {
    memory.allocate(len, false)
}

unsafe extern "C" fn free(memory: &Memory, data: *mut c_void, len: usize) {
    memory.buffers.fetch_sub(len, Ordering::Relaxed);
    if let Some(layout) = layout(len) {
        // SAFETY: V8 frees what `allocate` returned, with the length that it asked for.
        unsafe { dealloc(data.cast(), layout) };
    }
}

unsafe extern "C" fn drop_reference(memory: *const Memory) {
    // SAFETY: the pointer is that of `Arc::into_raw` in isolate.rs, and V8 drops the allocator once.
    drop(unsafe { Arc::from_raw(memory) });
}

/// Called by V8 when its heap is nearly exhausted, with the [`Memory`] of the isolate. Returns the new limit of the heap.
pub(crate) unsafe extern "C" fn near_limit(memory: *mut c_void, current: usize, _initial: usize) -> usize {
    // SAFETY: isolate.rs passes its `Memory`, which it drops after the isolate.
    let memory = unsafe { &*memory.cast::<Memory>() };
    let (limit, allowed) = (memory.limit.load(Ordering::Relaxed), memory.max_heap_bytes());
    if current < allowed && !memory.is_exceeded() {
        return allowed;
    }
    memory.peak.store(limit, Ordering::Relaxed);
    let is_first = !memory.is_exceeded();
    memory.exceed();
    // Native code that does not check for termination gets no further memory: V8 then ends the process.
    if is_first { current + SLACK_BYTES.max(limit / 2) } else { current }
}
