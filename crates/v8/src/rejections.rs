//! Rejected promises without a handler: they are logged at the end of a script.

use v8::{Global, Promise, PromiseRejectEvent, PromiseRejectMessage};

use crate::run::Run;
use crate::{console, stack};

/// The maximum number of rejections that are kept one by one.
const MAX: usize = 32;

#[derive(Default)]
pub(crate) struct Rejections {
    promises: Vec<Global<Promise>>,
    /// The number of rejections beyond [`MAX`].
    more: u32,
    closed: bool,
}

/// Called by V8 when a promise without a handler is rejected, and when a rejected promise gets its first handler.
pub(crate) unsafe extern "C" fn track(message: PromiseRejectMessage<'_>) {
    v8::callback_scope!(unsafe scope, &message);
    let run = Run::of(scope);
    let promise = message.get_promise();
    match message.get_event() {
        PromiseRejectEvent::PromiseRejectWithNoHandler => {
            if let Some(value) = message.get_value() {
                let context = promise.get_creation_context(scope);
                let Some(context) = context else { return };
                let scope = &mut v8::ContextScope::new(scope, context);
                stack::note_thrown(scope, &run, value);
            }
            let promise = Global::new(scope, promise);
            run.rejections.borrow_mut().add(promise);
        }
        PromiseRejectEvent::PromiseHandlerAddedAfterReject => {
            let promise = Global::new(scope, promise);
            run.rejections.borrow_mut().remove(&promise);
        }
        _ => {}
    }
}

impl Rejections {
    fn add(&mut self, promise: Global<Promise>) {
        if self.closed {
        } else if self.promises.len() < MAX {
            self.promises.push(promise);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn remove(&mut self, promise: &Global<Promise>) {
        if self.closed {
            return;
        }
        match self.promises.iter().position(|known| known == promise) {
            Some(index) => drop(self.promises.remove(index)),
            None => self.more = self.more.saturating_sub(1),
        }
    }
}

/// Logs the rejections that are unhandled at the program's end.
pub(crate) fn log(scope: &mut v8::PinScope<'_, '_>, run: &Run) {
    let (promises, more) = {
        let mut rejections = run.rejections.borrow_mut();
        rejections.closed = true;
        (std::mem::take(&mut rejections.promises), rejections.more)
    };
    for promise in promises {
        let promise = v8::Local::new(scope, promise);
        let reason = promise.result(scope);
        console::log_uncaught(scope, run, "Uncaught (in promise) ", reason);
    }
    if more > 0 {
        console::log_text(run, &format!("Uncaught (in promise) {more} more errors"));
    }
}
