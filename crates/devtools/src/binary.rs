//! The binary `execbox`, which runs programs in its processes.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use execbox::RunnerCommand;
use execbox::transport::Address;
use execbox_measure::head::Head;

use crate::ToolError;

/// A value of `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    #[value(name = "quickjs")]
    QuickJs,
    V8,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::QuickJs => "quickjs",
            Self::V8 => "v8",
        }
    }
}

/// The path of a binary.
#[derive(Debug)]
pub(crate) struct Binary(PathBuf);

impl Binary {
    /// Fails if the file does not exist.
    pub(crate) fn new(path: PathBuf) -> Result<Self, ToolError> {
        if path.is_file() { Ok(Self(path)) } else { Err(ToolError::NoExecbox(path)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The head of a report of the binary, which names the engines that are built into it.
    pub(crate) fn head(&self) -> Result<Head, ToolError> {
        let mut command = Command::new(&self.0);
        command.args(["bench", "1+1", "--executor", "process", "--quick", "--json"]).stdin(Stdio::null());
        let output = command.stderr(Stdio::inherit()).output()?;
        let invalid = |error| ToolError::Start(format!("{} printed no report: {error}", self.0.display()));
        serde_json::from_slice(&output.stdout).map_err(invalid)
    }

    /// Fails if the engine is not built into the binary.
    pub(crate) fn check(&self, engine: Engine) -> Result<(), ToolError> {
        let has = engine == Engine::QuickJs || self.head()?.execbox.engines.contains_key(engine.name());
        if has { Ok(()) } else { Err(ToolError::NoEngine { path: self.0.clone(), engine: engine.name().to_owned() }) }
    }

    /// The command of a runner process, as the binary itself starts one.
    pub(crate) fn runner(&self, engine: Engine) -> RunnerCommand {
        let command = RunnerCommand::new(&self.0).args(["runner", "--engine", engine.name()]);
        command.env("MIMALLOC_ARENA_RESERVE", "32MiB")
    }

    /// Starts a runner that listens on a free port of this machine.
    pub(crate) fn listen(&self) -> io::Result<(ListeningRunner, Address)> {
        let mut command = Command::new(&self.0);
        command.args(["runner", "--listen", "tcp:127.0.0.1:0"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.env_remove("EXECBOX_TOKEN").env_remove("EXECBOX_LISTEN_TOKEN").spawn()?;
        let mut errors = BufReader::new(process.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let runner = ListeningRunner(process);
        let mut line = String::new();
        errors.read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
        // The runner would block if its standard error was not read.
        std::thread::spawn(move || io::copy(&mut errors, &mut io::sink()));
        Ok((runner, address.ok_or_else(|| io::Error::other("the runner did not start"))?))
    }
}

/// Ends the runner when it is dropped.
pub(crate) struct ListeningRunner(Child);

impl ListeningRunner {
    /// The id of the runner's process.
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
