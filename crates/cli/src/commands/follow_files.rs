//! `execbox follow-files`: reads the files of TLS for a runner that is locked, and can open none itself. Runners start it before
//! they lock themselves; it is not for users, and the help does not have it.
//!
//! It writes a line to standard output for the files as they are, and one whenever they have changed: the JSON array of their
//! texts. It ends when no process can read that any more.

use std::env;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Parser;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;

use crate::exit::Exit;
use crate::options::tls::{PemTexts, ServerTlsArguments, ServerTlsFiles};
use crate::process::secrecy;

const NAME: &str = "follow-files";

#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    tls: ServerTlsArguments,
}

/// Follows the files, if this process was started for that.
pub(crate) fn run_if_started() -> Option<Exit> {
    let mut arguments = env::args_os().skip(1).peekable();
    arguments.peek().filter(|name| *name == NAME)?;
    let files = Arguments::try_parse_from(arguments).ok()?.tls.files()?;
    secrecy::protect();
    let write = |texts: &PemTexts| {
        let line = serde_json::to_string(texts).expect("texts are JSON");
        // When no process reads any more, waiting ends.
        let _ = writeln!(io::stdout(), "{line}");
    };
    files.follow(is_read_after, write);
    Some(Exit::Success)
}

/// Waits for a time. Returns whether a process can read standard output then.
fn is_read_after(time: Duration) -> bool {
    let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    // Without an event to wait for, only the end of the reader is one.
    match poll(&mut [PollFd::new(io::stdout().as_fd(), PollFlags::empty())], time) {
        Ok(count) => count == 0,
        Err(error) => error == Errno::EINTR,
    }
}

/// Starts the command for these files. This process reads what it writes from standard input.
pub(super) fn start(files: &ServerTlsFiles) -> io::Result<()> {
    let child = Command::new(env::current_exe()?)
        .arg(NAME)
        .args(files.to_arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    nix::unistd::dup2_stdin(child.stdout.expect("it is a pipe"))?;
    Ok(())
}

/// What the command writes.
pub(super) struct Changes(Lines<BufReader<pipe::Receiver>>);

impl Changes {
    /// Reads standard input, after [`start`].
    pub(super) fn new() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self(BufReader::new(pipe::Receiver::from_owned_fd(input)?).lines()))
    }

    /// The next texts; `None` after the command has ended.
    pub(super) async fn next(&mut self) -> Option<PemTexts> {
        let line = self.0.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }
}
