//! Reports the state of the servers of a gateway whenever it changes: on standard error, in the log file, and for
//! `execbox status`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use execbox::CancellationToken;
use execbox_mcp::servers::{ServerState, Servers, Status};
use tokio::sync::watch;

use crate::gateway::running::{Publisher, Server};
use crate::options::servers;
use crate::output::report;
use crate::output::terminal::safe_line;

/// The destinations of lines about servers.
#[derive(Clone)]
pub(crate) struct Lines {
    /// Whether only failures are printed. The log file receives all lines.
    pub(crate) quiet: bool,
    pub(crate) log: Option<Arc<LogFile>>,
}

impl Lines {
    pub(crate) fn add(&self, line: &str, is_failure: bool) {
        match is_failure {
            true => report::warn(&line),
            false if self.quiet => {}
            false => report::note(&line),
        }
        if let Some(log) = &self.log {
            log.add(line);
        }
    }
}

/// A log file with a line for each event: its time, and its text. A file that becomes longer than [`MAX_LOG`] is renamed, and
/// replaces the one that was renamed before.
pub(crate) struct LogFile {
    path: PathBuf,
    open: Mutex<(File, u64)>,
}

impl LogFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), open: Mutex::new((file, length)) })
    }

    /// Adds a line. A line that cannot be written is lost: a full disk must not stop the gateway.
    pub(crate) fn add(&self, line: &str) {
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        let lines: Vec<_> = line.lines().map(safe_line).collect();
        let line = format!("{time} {}\n", lines.join("\n    "));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.1 + line.len() as u64 > MAX_LOG {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            if fs::rename(&self.path, older).is_ok()
                && let Ok(new) = Self::open(&self.path)
            {
                *open = new.open.into_inner().unwrap_or_else(PoisonError::into_inner);
            }
        }
        if open.1 + line.len() as u64 <= MAX_LOG && open.0.write_all(line.as_bytes()).is_ok() {
            open.1 += line.len() as u64;
        }
    }
}

/// The state that `execbox status` shows.
pub(crate) struct Published {
    /// The publisher of the state; `None` where publishing is not possible.
    pub(crate) publisher: Option<Publisher>,
    /// Why the configuration that was read last is not in use.
    pub(crate) reload_error: watch::Receiver<Option<String>>,
}

impl Published {
    fn publish(&mut self, states: &[Status]) {
        let reload_error = self.reload_error.borrow_and_update().clone();
        if let Some(publisher) = &self.publisher {
            let _ = publisher.publish(states.iter().cloned().map(Server::from).collect(), reload_error);
        }
    }
}

/// Reports the states of `servers`: all of them when they have started, or after [`START_TIMEOUT`], and then each that changes.
/// `changes` is notified when a state may have changed, and `reported` after the first report. `unmatched` returns lines about
/// patterns of options, each of which is reported once. Runs until the future is dropped.
pub(crate) async fn follow(
    servers: Servers,
    mut changes: watch::Receiver<()>,
    lines: Lines,
    mut published: Published,
    unmatched: impl Fn() -> Vec<String>,
    reported: CancellationToken,
) {
    let started = tokio::time::sleep(START_TIMEOUT);
    tokio::pin!(started);
    let mut states = servers.status();
    while states.iter().any(is_starting) && !started.is_elapsed() {
        published.publish(&states);
        tokio::select! {
            () = changed(&mut changes) => {}
            () = changed(&mut published.reload_error) => {}
            () = &mut started => {}
        }
        states = servers.status();
    }
    for status in &states {
        report_state(status, &lines);
    }
    let mut known = HashSet::new();
    loop {
        for line in unmatched() {
            if !known.contains(&line) {
                lines.add(&line, false);
                known.insert(line);
            }
        }
        reported.cancel();
        published.publish(&states);
        tokio::select! {
            () = changed(&mut changes) => {}
            () = changed(&mut published.reload_error) => {}
        }
        let before = std::mem::replace(&mut states, servers.status());
        for status in states.iter().filter(|status| !before.contains(status) && !is_starting(status)) {
            report_state(status, &lines);
        }
    }
}

/// Waits for a notification; for ever, if the sender was dropped.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn is_starting(status: &Status) -> bool {
    status.state == ServerState::Connecting
}

/// Reports the state of a server. Entries that are not used are reported when the configuration is read.
fn report_state(status: &Status, lines: &Lines) {
    if matches!(status.state, ServerState::Skipped { .. }) {
        return;
    }
    for (line, is_failure) in [servers::state_line(status)].into_iter().chain(servers::note_lines(status)) {
        lines.add(&line, is_failure);
    }
}

/// The maximum time that the first report waits for servers that are starting.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of a log file, in bytes.
const MAX_LOG: u64 = 16 << 20;
