//! Runner processes: child processes of this program, the `execbox` binary, and listening servers.

use std::io::{self, stdin};
use std::os::fd::AsFd as _;
use std::time::Duration;
use std::{env, fs, process, thread};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::task::JoinSet;

use crate::session::runner::Runner;
use crate::transport::{Incoming, Listener, stdio};

/// The argument that starts a program as [its own runner](crate::RunnerCommand::this_program).
pub(crate) const ARGUMENT: &str = "execbox-runner";

/// How long a runner process outlives its host at most. Longer than a runner needs to close.
const ORPHAN_GRACE: Duration = Duration::from_millis(1500);

/// How long to wait after a connection could not be accepted: the system may be out of descriptors for a while.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Whether this process was started as this program's own runner.
pub(crate) fn is_runner() -> bool {
    let mut arguments = env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.next().is_none()
}

/// Serves and exits if this process was started as a runner of its own program
/// ([`RunnerCommand::this_program`](crate::RunnerCommand::this_program)); otherwise does nothing.
///
/// Call it first in `main`, before opening files or starting threads:
///
/// ```no_run
/// # #[allow(clippy::needless_doctest_main)]
/// fn main() {
///     execbox::serve_if_runner();
///     // … the program
/// }
/// ```
#[cfg(feature = "standard")]
pub fn serve_if_runner() {
    serve_if_runner_with(|| Runner::new().map_err(io::Error::other));
}

/// [`serve_if_runner`] with another runner.
pub fn serve_if_runner_with(runner: impl FnOnce() -> io::Result<Runner>) {
    if is_runner() {
        init_runner_process();
        process::exit(i32::from(runner().and_then(|runner| serve_stdio(&runner)).is_err()));
    }
}

fn serve_stdio(runner: &Runner) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async { runner.serve(stdio()?).await });
    // If standard input is a file, reading it occupies a thread that cannot be interrupted.
    runtime.shutdown_background();
    served
}

/// Prepares a runner process: closes all descriptors except the three standard ones, and ends the process soon after its
/// standard input has ended, whatever it is doing.
///
/// Only for runners on standard input and output, first in `main`: it closes descriptors of the whole process.
pub fn init_runner_process() {
    close_inherited();
    let watch = thread::Builder::new().name("execbox-host-watch".into()).spawn(|| {
        let stdin = stdin();
        let mut ends = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        // Only the end of the other side wakes this thread.
        if poll(&mut ends, PollTimeout::NONE).is_ok() {
            thread::sleep(ORPHAN_GRACE);
            process::exit(0);
        }
    });
    // Without the thread, the runner ends when it reads the end of standard input.
    drop(watch);
}

/// Closes the descriptors that were inherited from the parent process.
fn close_inherited() {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let Ok(entries) = fs::read_dir(folder) else { return };
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // One of them belonged to the directory listing and is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

impl Runner {
    /// Serves the connections of `listener`, at most `max_connections` at once; further ones wait. Returns when the
    /// runner is [drained](Self::drain_when), otherwise never.
    ///
    /// A connection that fails or violates the protocol does not affect the others.
    pub async fn listen(&self, listener: Listener, max_connections: usize) {
        let mut connections = JoinSet::new();
        let drained = self.drain_token();
        let accepting = async {
            loop {
                while connections.len() >= max_connections.max(1) {
                    connections.join_next().await;
                }
                match listener.accept().await {
                    Ok(incoming) => drop(connections.spawn(self.clone().serve_incoming(incoming))),
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
                }
                while connections.try_join_next().is_some() {}
            }
        };
        drained.run_until_cancelled(accepting).await;
        drop(listener);
        connections.join_all().await;
    }

    async fn serve_incoming(self, incoming: Incoming) {
        let drained = self.drain_token();
        if let Some(Ok(transport)) = drained.run_until_cancelled(incoming.handshake()).await {
            // However it ends, it ends for that host.
            let _ = self.serve(transport).await;
        }
    }
}
