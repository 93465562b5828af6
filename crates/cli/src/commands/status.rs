//! `execbox status`: the running gateways and the servers behind them.

use std::time::{Duration, SystemTime};

use anstyle::Style;
use clap::Args;

use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::gateway::running::{self, Gateway, Server, State};
use crate::options::servers::tools_of;
use crate::output::report;
use crate::output::style::{self, Colors};
use crate::output::table::{Cell, Table};
use crate::output::terminal::safe_line;

/// Show the running gateways and the state of their servers
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Print JSON: an array of gateways
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let gateways = running::list()?;
    let printed = if arguments.json {
        let text = serde_json::to_string(&gateways).map_err(|error| SystemError::Output(error.into()))?;
        report::print(&text)
    } else if gateways.is_empty() {
        report::note(&"no gateway is running");
        Ok(())
    } else {
        let blocks: Vec<_> = gateways.iter().map(lines).collect();
        report::print_lines(&blocks.join(&String::new()))
    };
    printed.map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

/// The lines about a gateway and its servers.
fn lines(gateway: &Gateway) -> Vec<String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let age = Duration::from_secs(now.as_secs().saturating_sub(gateway.started_ms / 1000));
    let age = humantime::format_duration(age);
    let colors = Colors::of_stdout();
    let title = format!("gateway {}: {}, running for {age}", gateway.pid, gateway.serves);
    let mut lines = vec![colors.paint(style::TITLE, &safe_line(&title))];
    if let Some(error) = &gateway.reload_error {
        let text = format!("configuration not reloaded: {}", error.lines().next().unwrap_or_default());
        lines.push(format!("  {}", colors.paint(style::ERROR, &safe_line(&text))));
    }
    let mut table = Table::new(2);
    for server in &gateway.servers {
        let text = server.reason.clone().or(server.tools.map(tools_of)).unwrap_or_default();
        let name = Cell::cut(style::NAME, &server.namespace, MAX_NAME);
        let first = Cell::new(style::PLAIN, text.lines().next().unwrap_or_default());
        // The column keeps its width when states change.
        let state = format!("{:8}", server.state.name());
        table.row([name, Cell::new(state_style(server.state), &state), first]);
    }
    for (line, server) in table.whole_lines().into_iter().zip(&gateway.servers) {
        lines.push(line);
        lines.extend(details(server).iter().map(|line| format!("    {}", safe_line(line.trim()))));
    }
    lines
}

/// The lines below that of a server: what it wrote before it failed, and notes.
fn details(server: &Server) -> Vec<String> {
    let text = server.reason.as_deref().unwrap_or_default();
    let output: Vec<_> = text.lines().skip(1).filter(|line| is_output(line)).map(str::to_owned).collect();
    let mut details = output[output.len().saturating_sub(MAX_OUTPUT)..].to_vec();
    details.extend(server.notes.iter().take(MAX_NOTES).cloned());
    if let Some(more) = server.notes.len().checked_sub(MAX_NOTES + 1) {
        details.push(format!("{} more: see `execbox status --json`", more + 1));
    }
    details
}

fn state_style(state: State) -> Style {
    match state {
        State::Ready => style::SUCCESS,
        State::Failed => style::ERROR,
        State::Starting | State::Skipped => style::WARNING,
        State::Closed => style::PLAIN,
    }
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
