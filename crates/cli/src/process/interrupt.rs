//! Ctrl-C and SIGTERM: the first signal stops the program, whose result is still printed, or the server; the second ends the
//! process.

use std::{io, process};

use execbox::CancellationToken;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;

/// Runs work that Ctrl-C cancels. Returns its result and whether it was cancelled.
///
/// After the work, Ctrl-C ends the process at once, even while a write to standard output blocks.
pub(crate) fn cancel_on_interrupt<T>(work: impl FnOnce(CancellationToken) -> T) -> (T, bool) {
    let cancellation = CancellationToken::new();
    set_handler(cancellation.clone());
    let done = work(cancellation.clone());
    let interrupted = cancellation.is_cancelled();
    cancellation.cancel();
    (done, interrupted)
}

fn set_handler(cancellation: CancellationToken) {
    let handler = move || {
        if cancellation.is_cancelled() {
            process::exit(Exit::Interrupted as i32);
        }
        cancellation.cancel();
    };
    // If no handler can be set, Ctrl-C ends the process, which is the default.
    let _ = ctrlc::set_handler(handler);
}

/// Triggers `stop` on SIGTERM or Ctrl-C. A second signal ends the process.
pub(crate) fn stop_on_signal(stop: CancellationToken) -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        for _ in 0..2 {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.is_cancelled() {
                process::exit(Exit::Interrupted as i32);
            }
            stop.cancel();
        }
    });
    Ok(())
}
