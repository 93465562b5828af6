//! `execbox doctor`: tests the limits of this machine ([`limits`]), or the servers of a configuration ([`servers`], whose report
//! [`report`] prints), and whether they work where a client starts them ([`client`]).

mod client;
mod limits;
mod report;
mod servers;

use std::time::Duration;

use anstyle::Style;
use clap::Args;
use execbox::jail::Mode;

pub(super) use self::limits::test_runner;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::options::servers::ServerArguments;
use crate::options::units::Time;
use crate::output::style;

/// Test this machine, or the servers of a configuration
///
/// Without servers: runs programs that exceed their limits on the inline, worker and process executors, with each engine
/// that is built in, tries what the jail of a child process refuses, and prints remedies for what is missing.
///
/// With `--config` or `--server`: starts the servers, lists their tools, and prints what is wrong, remedies, and the entry
/// of a client that uses the gateway instead of them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,

    /// Also list the checks that passed, and the features of the kernel
    #[arg(short, long, conflicts_with_all = ["config", "server"])]
    verbose: bool,

    /// Fail if a layer of the jail is missing (`required`), or only report it (`best-effort`)
    #[arg(long, value_name = "MODE", default_value_t = Mode::default(), conflicts_with_all = ["config", "server"])]
    jail: Mode,

    #[command(flatten)]
    servers: ServerArguments,

    /// Fail servers that are not ready within TIME; `execbox mcp` waits 1m
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, help_heading = "MCP servers", default_value_t = Time(TIMEOUT))]
    timeout: Time,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    if arguments.servers.is_given() {
        servers::test(&arguments.servers, arguments.timeout.0, arguments.json)
    } else {
        limits::test(arguments.jail, arguments.verbose, arguments.json)
    }
}

/// The result of a check, as the mark before its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Passed,
    Failed,
    Skipped,
}

impl Mark {
    fn symbol(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Failed => "✗",
            Self::Skipped => "–",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Passed => style::SUCCESS,
            Self::Failed => style::ERROR,
            Self::Skipped => style::WARNING,
        }
    }
}

/// The default of `--timeout`: that of gateways.
const TIMEOUT: Duration = Duration::from_mins(1);

const EXAMPLES: &str = "\
Examples:
  execbox doctor
  execbox doctor --config servers.json
  execbox doctor --server 'time=uvx mcp-server-time'

Exit codes:
  0    every check passed and no required layer is missing, or all servers are ready
  1    a check failed or a required layer is missing, or a server cannot be used
  2    bad usage or a bad configuration
  4    execbox failed
  130  interrupted by Ctrl-C";
