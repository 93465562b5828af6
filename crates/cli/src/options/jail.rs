//! The options of the jail, and its report.

use std::io;
use std::sync::Once;

use clap::Args;
use execbox::jail::{Incomplete, Mode, Report, may_lack_layers};
use execbox::{Probe, RunnerCommand, RunnerProcessOptions};

use crate::error::CliError;
use crate::exit::Exit;
use crate::options::engine::{RunnerEngine, own_runner};
use crate::options::units::{Size, UnitError};
use crate::output::report;

/// The jail options of a process that is a runner.
#[derive(Debug, Args)]
#[command(next_help_heading = "Jail")]
pub(crate) struct RunnerJailArguments {
    /// Lock the process: `required`, `best-effort` or `off`
    ///
    /// `required` fails if the system lacks a layer, `best-effort` reports it.
    #[arg(long, value_name = "MODE", default_value_t = Mode::default())]
    jail: Mode,

    /// Limit the memory of the process to SIZE; a plain number, as hosts pass it, is bytes [default: 4GiB without `--listen`]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size_or_bytes)]
    jail_memory: Option<Size>,

    /// Print what is enforced to standard error
    #[arg(short, long)]
    verbose: bool,

    /// Instead of serving, try something that the jail refuses: report, file, socket, process, thread, memory or growth
    #[arg(long, value_name = "ATTEMPT", hide = true, conflicts_with = "listen")]
    probe: Option<Probe>,
}

/// A size. [`RunnerCommand`] passes numbers of bytes.
fn size_or_bytes(text: &str) -> Result<Size, UnitError> {
    text.parse::<u64>().map(Size).or_else(|_| text.parse())
}

impl CliError for Incomplete {
    fn exit(&self) -> Exit {
        Exit::ExecboxFailed
    }
}

/// Prints the layers that child processes lack, once in a process. On a system that has all of them, the check is cheap.
pub(crate) fn note_missing_layers(command: &RunnerCommand) {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        if !may_lack_layers() {
            return;
        }
        // A child that cannot be started is reported when a program is executed.
        let Ok(report) = command.jail_report() else { return };
        let missing: Vec<&str> = report.missing().map(|(layer, _)| layer.name()).collect();
        if !missing.is_empty() {
            report::warn(&format_args!(
                "child processes lack layers of the jail, so a program that takes over its engine is less confined: {}; see \
                 `execbox doctor`",
                missing.join(", ")
            ));
        }
    });
}

impl RunnerJailArguments {
    pub(crate) fn options(&self, engine: RunnerEngine) -> RunnerProcessOptions {
        RunnerProcessOptions::default()
            .jail(self.jail)
            .memory_bytes(self.jail_memory.map(|size| size.0))
            .compiles(engine.compiles_programs())
            .probe(self.probe)
    }

    /// The command that starts this binary as a runner process with the same jail.
    pub(crate) fn command(&self) -> io::Result<RunnerCommand> {
        let command = own_runner()?.jail(self.jail);
        Ok(match self.jail_memory {
            Some(size) => command.jail_memory(size.0),
            None => command,
        })
    }

    pub(crate) fn mode(&self) -> Mode {
        self.jail
    }

    /// Prints the report with `--verbose`, otherwise the missing layers.
    pub(crate) fn print(&self, jail: &Report) {
        if self.verbose {
            report::note(&format_args!("the jail of this process:\n{jail}"));
        } else {
            for (layer, reason) in jail.missing() {
                report::warn(&format_args!("not enforced: {layer}: {reason}"));
            }
        }
    }
}
