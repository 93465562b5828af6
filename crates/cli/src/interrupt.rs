//! Ctrl-C: the first stops the program, whose result is still printed; the next ends the process.

use std::process;

use execbox::CancellationToken;

use crate::exit::Exit;

/// Does work that Ctrl-C cancels. Tells also whether it did.
///
/// Once the work is over, Ctrl-C ends the process at once, also while nobody reads what it writes.
pub(crate) fn cancels<T>(work: impl FnOnce(CancellationToken) -> T) -> (T, bool) {
    let cancellation = CancellationToken::new();
    cancel_on_interrupt(cancellation.clone());
    let done = work(cancellation.clone());
    let interrupted = cancellation.is_cancelled();
    cancellation.cancel();
    (done, interrupted)
}

fn cancel_on_interrupt(cancellation: CancellationToken) {
    let handler = move || {
        if cancellation.is_cancelled() {
            process::exit(Exit::Interrupted as i32);
        }
        cancellation.cancel();
    };
    // Where no handler can be set, Ctrl-C ends the process as it does by default.
    let _ = ctrlc::set_handler(handler);
}
