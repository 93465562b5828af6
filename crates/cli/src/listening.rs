//! A runner of this binary that listens: for commands that test or measure remote executors.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use execbox::transport::Address;

/// Ends the runner when it is dropped.
pub(crate) struct ListeningRunner(Child);

impl ListeningRunner {
    /// Starts a runner that listens on a free port of this machine.
    pub(crate) fn start() -> io::Result<(Self, Address)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["runner", "--listen", "tcp:127.0.0.1:0"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.env_remove("EXECBOX_TOKEN").env_remove("EXECBOX_LISTEN_TOKEN").spawn()?;
        let mut errors = BufReader::new(process.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let runner = Self(process);
        let mut line = String::new();
        errors.read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
        // A pipe that nobody reads would block the runner.
        std::thread::spawn(move || io::copy(&mut errors, &mut io::sink()));
        Ok((runner, address.ok_or_else(|| io::Error::other("the runner did not start"))?))
    }

    /// The id of its process.
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for ListeningRunner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
