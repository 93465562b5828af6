//! `execbox status`: the running gateways and the servers behind them.

use std::time::{Duration, SystemTime};

use clap::Args;
use execbox::core::text::cut;

use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::gateways::{self, Gateway, Server};
use crate::report;
use crate::servers::tools_of;
use crate::terminal::safe_line;

/// Show the running gateways (`execbox mcp`) of this user and the state of their servers
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Print JSON: an array of gateways
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let gateways = gateways::list()?;
    let text = match arguments.json {
        true => serde_json::to_string(&gateways).map_err(|error| SystemError::Output(error.into()))?,
        false if gateways.is_empty() => {
            report::note(&"no gateway is running");
            return Ok(Exit::Success);
        }
        false => gateways.iter().map(table).collect::<Vec<_>>().join("\n\n"),
    };
    report::print(&text).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

/// The text about a gateway, with a line for each of its servers.
fn table(gateway: &Gateway) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let age = Duration::from_secs(now.as_secs().saturating_sub(gateway.started_ms / 1000));
    let age = humantime::format_duration(age);
    let mut lines = vec![format!("gateway {}: {}, running for {age}", gateway.pid, gateway.serves)];
    if let Some(error) = &gateway.reload_error {
        lines.push(format!("  configuration not reloaded: {}", error.lines().next().unwrap_or_default()));
    }
    let name = |server: &Server| cut(&server.namespace, MAX_NAME);
    let width = gateway.servers.iter().map(|server| name(server).chars().count()).max().unwrap_or_default();
    for server in &gateway.servers {
        let tools = server.tools.map(tools_of);
        let detail = server.reason.clone().or(tools).unwrap_or_default();
        let mut detail = detail.lines();
        let first = detail.next().unwrap_or_default();
        lines.push(format!("  {:width$}  {:8}  {first}", name(server), server.state.name()));
        let output: Vec<_> = detail.filter(|line| is_output(line)).collect();
        lines.extend(
            output.iter().skip(output.len().saturating_sub(MAX_OUTPUT)).map(|line| format!("    {}", line.trim())),
        );
        lines.extend(server.notes.iter().take(MAX_NOTES).map(|note| format!("    {note}")));
        if let Some(more) = server.notes.len().checked_sub(MAX_NOTES + 1) {
            lines.push(format!("    {} more: see `execbox status --json`", more + 1));
        }
    }
    let lines: Vec<_> = lines.iter().map(|line| safe_line(line.trim_end()).into_owned()).collect();
    lines.join("\n")
}

/// Whether a line of the standard error of a failed server is shown: no frame of a stack, no punctuation.
fn is_output(line: &str) -> bool {
    !line.trim_start().starts_with("at ") && line.chars().filter(|c| c.is_alphanumeric()).count() >= 3
}

/// The maximum width of the first column, in characters.
const MAX_NAME: usize = 40;

/// How many notes about a server are shown, and how many lines of its output.
const MAX_NOTES: usize = 3;
const MAX_OUTPUT: usize = 5;

const EXIT_CODES: &str = "\
Exit codes:
  0    the gateways were listed, or none is running
  4    their state could not be read, or the list could not be written";
