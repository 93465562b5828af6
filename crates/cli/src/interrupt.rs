//! Ctrl-C and SIGTERM: the first stops the program, whose result is still printed, or the server; the next ends the process.

use std::{io, process};

use execbox::CancellationToken;
use tokio::signal::unix::{SignalKind, signal};

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

/// Tells a server to stop by SIGTERM or Ctrl-C. Another one of these ends the process.
pub(crate) fn stops(stop: CancellationToken) -> io::Result<()> {
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
