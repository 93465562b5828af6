//! The clients that were found, with their servers and the tools of these.

use std::mem;
use std::time::Duration;

use execbox::CancellationToken;
use execbox_mcp::config::{Config, ServerConfig, SkipReason};
use execbox_mcp::servers::ServerState;
use execbox_mcp::upstream::UpstreamOptions;
use serde::Serialize;

use super::place::{Found, Place, Search};
use crate::error::{CommandError, SystemError};
use crate::options::servers::{self, tools_of};
use crate::output::path::shown;
use crate::output::style::{self, Colors};
use crate::output::table::{Cell, Table};
use crate::output::terminal::safe_line;
use crate::process::interrupt;

/// The clients, as JSON has them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listing {
    clients: Vec<ClientReport>,
    /// The clients without servers.
    without_servers: Vec<AbsentClient>,
    /// Files that cannot be used, and why.
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientReport {
    id: String,
    name: String,
    file: String,
    servers: Vec<ServerReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerReport {
    name: String,
    /// Whether the server is behind execbox.
    behind: bool,
    /// Whether it is moved behind execbox if its client is selected.
    movable: bool,
    /// The command without arguments, or the origin of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<String>,
    /// The names of its tools, if it was connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    /// Why the server cannot be used, or why it was not reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AbsentClient {
    id: &'static str,
    name: &'static str,
    file: String,
    exists: bool,
}

/// What a connection to a server has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Check {
    /// The names of its tools.
    Tools(Vec<String>),
    Failed(String),
}

/// The servers that were connected to, each once.
#[derive(Debug, Default)]
pub(super) struct Checks(Vec<(ServerConfig, Check)>);

impl Checks {
    /// Connects to servers, each of which has `timeout` until it is ready.
    pub(super) fn of<'a>(found: impl Iterator<Item = &'a Found>, timeout: Duration) -> Result<Self, CommandError> {
        let mut config = Config::default();
        for server in found.filter_map(|found| found.server.as_ref().ok()) {
            if !config.servers.contains(server) {
                config.servers.push(server.clone());
            }
        }
        if config.servers.is_empty() {
            return Ok(Self::default());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = async |cancellation: CancellationToken| {
            let connect = Box::pin(connect(&config, timeout));
            cancellation.run_until_cancelled(connect).await.ok_or(SystemError::Interrupted)
        };
        let (checks, _) = interrupt::cancel_on_interrupt(|cancellation| runtime.block_on(work(cancellation)));
        runtime.shutdown_background();
        Ok(Self(config.servers.into_iter().zip(checks?).collect()))
    }

    /// The check of a server, if it was connected to.
    pub(super) fn get(&self, found: &Found) -> Option<&Check> {
        let server = found.server.as_ref().ok()?;
        self.0.iter().find(|(checked, _)| checked == server).map(|(_, check)| check)
    }
}

async fn connect(config: &Config, timeout: Duration) -> Vec<Check> {
    let options = UpstreamOptions::default().connect_timeout(timeout);
    let servers = servers::start(config, options, None);
    servers::settled(&servers, |_| true, || ()).await;
    let providers = servers.providers();
    let tools = |namespace: &str| {
        let provider = providers.iter().find(|provider| provider.name() == namespace);
        let tools = provider.into_iter().flat_map(|provider| &provider.manifest().tools);
        tools.map(|tool| tool.original_name.clone()).collect()
    };
    let checks = servers.status().into_iter().map(|status| match status.state {
        ServerState::Ready { .. } => Check::Tools(tools(&status.namespace)),
        ServerState::Failed(failure) if failure.needs_login => Check::Failed("login required".to_owned()),
        ServerState::Failed(mut failure) => {
            let last = mem::take(&mut failure.stderr).pop().map(|line| format!(": {line}"));
            Check::Failed(format!("{}{}", failure.to_string().trim(), last.unwrap_or_default()))
        }
        _ => Check::Failed("not ready in time".to_owned()),
    });
    let checks = checks.collect();
    servers.close().await;
    checks
}

impl Listing {
    pub(super) fn new(search: &Search, checks: &Checks) -> Self {
        let clients = search.places.iter().map(|place| {
            let report = |found: &Found, behind| ServerReport::new(found, behind, place, checks.get(found));
            let own = place.servers.iter().map(|found| report(found, false));
            let servers = place.behind.iter().map(|found| report(found, true)).chain(own).collect();
            ClientReport { id: place.id(), name: place.title(), file: shown(&place.path), servers }
        });
        let clients = clients.collect();
        let without_servers = search.without.iter().map(|(client, path, exists)| AbsentClient {
            id: client.id,
            name: client.name,
            file: shown(path),
            exists: *exists,
        });
        Self { clients, without_servers: without_servers.collect(), problems: search.problems.clone() }
    }

    /// The lines for standard output.
    pub(super) fn lines(&self) -> Vec<String> {
        let (colors, mut lines) = (Colors::of_stdout(), Vec::new());
        for client in &self.clients {
            let title = colors.paint(style::TITLE, &safe_line(&client.name));
            let place = format!("({}, {})", client.id, client.file);
            lines.push(format!("{title} {}", colors.paint(style::DETAIL, &safe_line(&place))));
            let mut table = Table::new(2);
            client.servers.iter().for_each(|server| table.row(server.cells()));
            lines.extend(table.lines());
            lines.push(String::new());
        }
        let absent = self.without_servers.iter().map(|client| client.name);
        let absent = absent.collect::<Vec<_>>().join(", ");
        if !absent.is_empty() {
            lines.push(format!("No servers: {absent}"));
        }
        lines
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}

impl ServerReport {
    fn new(found: &Found, behind: bool, place: &Place, check: Option<&Check>) -> Self {
        let movable = !behind && place.movable().contains(&found.name);
        let transport = found.server.as_ref().ok().and_then(servers::transport);
        let mut report = Self { name: found.name.clone(), behind, movable, transport, tools: None, reason: None };
        match (&found.server, check) {
            (Err(SkipReason::MissingInput { id, .. }), _) => {
                report.reason = Some(format!("needs a value for the input {id:?}"));
            }
            (Err(SkipReason::Invalid { error, .. }), _) => report.reason = Some(error.to_string()),
            (Err(reason), _) => report.reason = Some(reason.to_string()),
            (_, Some(Check::Tools(tools))) => report.tools = Some(tools.clone()),
            (_, Some(Check::Failed(reason))) => report.reason = Some(reason.clone()),
            (Ok(_), None) => {}
        }
        report
    }

    fn cells(&self) -> [Cell; 4] {
        let is_usable = self.movable || self.behind;
        let (text, color) = match (&self.reason, &self.tools) {
            (Some(reason), _) => (reason.clone(), if is_usable { style::ERROR } else { style::DETAIL }),
            (None, Some(tools)) if tools.is_empty() => (tools_of(0), style::PLAIN),
            (None, Some(tools)) => (format!("{}: {}", tools_of(tools.len()), tools.join(", ")), style::PLAIN),
            (None, None) => (String::new(), style::PLAIN),
        };
        [
            Cell::cut(style::NAME, &self.name, MAX_NAME),
            Cell::cut(style::PLAIN, self.transport.as_deref().unwrap_or_default(), MAX_NAME),
            Cell::new(style::SUCCESS, if self.behind { "behind execbox" } else { "" }),
            Cell::of_words(color, &text),
        ]
    }
}

/// The maximum width of the first two columns, in characters.
const MAX_NAME: usize = 40;
