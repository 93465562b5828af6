//! The snapshot that every isolate starts from: the realm.

use std::mem;

use v8::{
    Context, ContextScope, CreateParams, FunctionCodeHandling, Isolate, Local, Object, Script, StartupData, String,
};

const BOOTSTRAP: &str = include_str!("bootstrap.js");

/// The index of the realm's intrinsics (the result of bootstrap.js) in the data of the context.
pub(crate) const INTRINSICS: usize = 0;

/// The snapshot. It lives as long as the process, as V8 does.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot(&'static [u8]);

impl Snapshot {
    /// Runs bootstrap.js in a fresh isolate.
    pub(crate) fn new() -> Result<Self, &'static str> {
        let mut creator = Isolate::snapshot_creator(None, None);
        let made = make_realm(&mut creator);
        let blob = creator.create_blob(FunctionCodeHandling::Keep);
        made?;
        let snapshot = Self(blob.ok_or("no snapshot was made")?.to_vec().leak());
        snapshot.keep_shared_heap();
        Ok(snapshot)
    }

    /// Makes an isolate that is never used and never disposed of. V8 shares the read-only part of heaps between isolates. If
    /// there is no other isolate, it loads that part again, which takes a fifth of the time of a new isolate.
    fn keep_shared_heap(self) {
        let isolate = Isolate::new(CreateParams::default().snapshot_blob(self.blob()));
        // SAFETY: the isolate was entered by `new` on this thread, as the last one.
        unsafe { isolate.exit() };
        mem::forget(isolate);
    }

    pub(crate) fn blob(&self) -> StartupData {
        StartupData::from(self.0)
    }
}

fn make_realm(creator: &mut v8::OwnedIsolate) -> Result<(), &'static str> {
    v8::scope!(let scope, creator);
    let context = Context::new(scope, v8::ContextOptions::default());
    let scope = &mut ContextScope::new(scope, context);
    let source = String::new(scope, BOOTSTRAP).ok_or("bootstrap.js is too long")?;
    let intrinsics = Script::compile(scope, source, None).and_then(|script| script.run(scope));
    let intrinsics: Local<'_, Object> =
        intrinsics.and_then(|value| value.try_into().ok()).ok_or("bootstrap.js failed")?;
    scope.add_context_data(context, intrinsics);
    scope.set_default_context(context);
    Ok(())
}
