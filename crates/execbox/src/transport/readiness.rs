//! Waiting for a descriptor. Signals that the program handles do not end the wait.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollTimeout, poll};

pub(crate) use nix::poll::PollFlags;

/// Blocks the thread until one of the events occurs, or the other side is closed. Returns false if the timeout passes first.
///
/// # Errors
/// The operating system cannot wait for the descriptor, or the timeout is longer than 24 days.
pub(crate) fn wait(descriptor: &impl AsFd, events: PollFlags, timeout: Option<Duration>) -> io::Result<bool> {
    let started = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        let left = left.map_or(Ok(PollTimeout::NONE), PollTimeout::try_from).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(descriptor.as_fd(), events)], left) {
            Err(Errno::EINTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::gettid;
    use tokio::signal::unix::{SignalKind, signal};

    use super::*;

    #[tokio::test]
    async fn signals_do_not_end_the_wait() {
        let mut signals = signal(SignalKind::user_defined2()).unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let is_over = AtomicBool::new(false);
        let (sender, id) = std::sync::mpsc::channel();
        let ready = thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                sender.send(gettid()).unwrap();
                let ready = wait(&reader, PollFlags::POLLIN, Some(Duration::from_mins(10)));
                is_over.store(true, Ordering::Relaxed);
                ready
            });
            let id = id.recv().unwrap();
            for _ in 0..20 {
                kill(id, Signal::SIGUSR2).unwrap();
                thread::sleep(Duration::from_millis(2));
            }
            assert!(!is_over.load(Ordering::Relaxed));
            writer.write_all(b"x").unwrap();
            waiting.join().unwrap()
        });
        assert!(ready.unwrap(), "the descriptor is ready, and not the timeout over");
        signals.recv().await.unwrap();
    }

    #[test]
    fn a_wait_ends_after_its_timeout_and_when_the_other_side_is_closed() {
        let (reader, writer) = io::pipe().unwrap();
        let wait_for = |millis| wait(&reader, PollFlags::POLLIN, Some(Duration::from_millis(millis))).unwrap();
        assert!(!wait_for(0) && !wait_for(5));
        drop(writer);
        assert!(wait_for(60_000));
        assert!(wait(&reader, PollFlags::empty(), None).unwrap());
    }
}
