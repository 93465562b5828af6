//! The report about the servers of a configuration.

use std::io;

use execbox_core::text::cut;

use super::servers::{Diagnosis, Entry, ServerReport};
use super::{Mark, client};
use crate::gateway::running::State;
use crate::options::servers::tools_of;
use crate::output::report;
use crate::output::style::{self, Colors};
use crate::output::table::{Cell, Table};
use crate::output::terminal::{safe_json, safe_line};

pub(super) fn print_json(diagnosis: &Diagnosis) -> io::Result<()> {
    report::print(&serde_json::to_string(diagnosis)?)
}

/// Prints the verdict, the files, the servers, and the entry for a client.
pub(super) fn print(diagnosis: &Diagnosis) -> io::Result<()> {
    let mut lines = vec![verdict(diagnosis)];
    lines.extend(diagnosis.warnings.iter().map(|text| warning("", text)));
    lines.push(String::new());
    let mut table = Table::new(0);
    for server in &diagnosis.servers {
        table.row(row(server));
    }
    for (line, server) in table.lines().into_iter().zip(&diagnosis.servers) {
        lines.push(line);
        lines.extend(details(server));
    }
    if let Some(entry) = &diagnosis.entry {
        lines.extend(entry_lines(entry)?);
    }
    report::print_lines(&lines)
}

fn verdict(Diagnosis { ok, servers, depends_on_directory, .. }: &Diagnosis) -> String {
    let skipped = servers.iter().filter(|server| server.mark() == Mark::Skipped).count();
    let used = servers.len() - skipped;
    let failed = servers.iter().filter(|server| server.is_failure).count();
    let have_mistakes = servers.iter().any(|server| server.is_failure && server.state == State::Ready);
    let text = match (used, failed) {
        (0, _) => "no server is left: all are skipped".to_owned(),
        (used, failed) if have_mistakes => {
            format!("{failed} of {used} servers failed, or have mistakes in their patterns")
        }
        (1, 0) => "the server is ready".to_owned(),
        (used, 0) => format!("all {used} servers are ready"),
        (1, _) => "the server cannot be used".to_owned(),
        (used, failed) => format!("{failed} of {used} servers cannot be used"),
    };
    let mark = if *ok { Mark::Passed } else { Mark::Failed };
    let place = if *ok && *depends_on_directory { ", from the current directory: see the warnings" } else { "" };
    format!("{} {text}{place}", Colors::of_stdout().paint(mark.style(), mark.symbol()))
}

impl ServerReport {
    fn mark(&self) -> Mark {
        match self.state {
            _ if self.is_failure => Mark::Failed,
            State::Ready => Mark::Passed,
            _ => Mark::Skipped,
        }
    }
}

/// The mark, name, state, duration, version of MCP and transport of a server.
fn row(server: &ServerReport) -> [Cell; 6] {
    let mark = server.mark();
    let duration = server.duration_ms.map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100)).unwrap_or_default();
    let version = server.protocol_version.as_ref().map(|version| format!("MCP {version}")).unwrap_or_default();
    [
        Cell::new(mark.style(), mark.symbol()),
        Cell::cut(style::NAME, &server.name, MAX_NAME),
        Cell::new(style::PLAIN, &state(server)),
        Cell::new(style::DETAIL, &duration),
        Cell::cut(style::DETAIL, &version, MAX_VERSION),
        Cell::new(style::PLAIN, server.transport.as_deref().unwrap_or_default()),
    ]
}

fn state(server: &ServerReport) -> String {
    let Some(tools) = server.tools else { return server.state.name().to_owned() };
    let others = [(server.filtered, "filtered"), (server.rejected, "rejected")];
    let others = others.into_iter().filter_map(|(count, what)| Some((count?, what)));
    let others: Vec<_> =
        others.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if others.is_empty() { tools_of(tools) } else { format!("{} ({})", tools_of(tools), others.join(", ")) }
}

/// The lines below that of a server: its namespace, why it cannot be used, what helps, and what may not work.
fn details(server: &ServerReport) -> Vec<String> {
    let mut lines = Vec::new();
    if server.namespace != server.name {
        lines.push(detail(&format!("in code: `{}`", server.namespace)));
    }
    lines.extend(server.reason.iter().map(|reason| detail(reason)));
    if !server.stderr.is_empty() {
        lines.push(detail("last lines of standard error:"));
        lines.extend(server.stderr.iter().map(|line| detail(&format!("  {line}"))));
    }
    lines.extend(server.remedy.iter().map(|remedy| detail(&format!("remedy: {remedy}"))));
    lines.extend(server.warnings.iter().map(|text| warning(INDENT, text)));
    lines
}

fn detail(text: &str) -> String {
    format!("{INDENT}{}", safe_line(&cut(text, MAX_LINE)))
}

fn warning(indent: &str, text: &str) -> String {
    let prefix = Colors::of_stdout().paint(style::WARNING_PREFIX, "warning:");
    format!("{indent}{prefix} {}", safe_line(&cut(text, MAX_LINE)))
}

fn entry_lines(entry: &Entry) -> io::Result<Vec<String>> {
    let mut lines = vec![
        String::new(),
        "Entry for the configuration of your client, instead of these servers:".to_owned(),
        format!("  {}", safe_json(&entry.text()?)),
        "  (VS Code: \"servers\" instead of \"mcpServers\")".to_owned(),
    ];
    if entry.env.values().any(|value| value == client::VALUE) {
        lines.push(
            "  (write the values of \"env\": a desktop client does not have the variables of your shell)".to_owned(),
        );
    }
    Ok(lines)
}

/// The indentation of lines below that of a server: to its name.
const INDENT: &str = "   ";

/// The maximum widths of columns, and the maximum length of other lines, in characters.
const MAX_NAME: usize = 40;
const MAX_VERSION: usize = 20;
const MAX_LINE: usize = 2_000;
