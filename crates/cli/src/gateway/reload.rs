//! Reads the configuration of a gateway again when its files change, and on SIGHUP.
//!
//! The metadata of the files is read every second. A change is applied once the files have not changed for [`SETTLE`], so that
//! a file is not read while it is written. A configuration with a new mistake changes nothing.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use execbox::{CancellationToken, Provider};
use execbox_mcp::server::CodeServer;
use execbox_mcp::servers::{Servers, Update};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::config::files::Files;
use crate::gateway::always::Always;
use crate::gateway::clients::ClientServers;
use crate::gateway::watch::Lines;
use crate::options::servers::{self, Loaded, ServerArguments};

/// The sources of a configuration, apart from its files.
pub(crate) struct Sources {
    pub(crate) arguments: ServerArguments,
    pub(crate) stubs: Vec<Provider>,
}

/// SIGHUP. It no longer ends this process, unless the terminal is closed.
pub(crate) struct Hangup {
    signal: Signal,
    has_terminal: bool,
}

impl Hangup {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { signal: signal(SignalKind::hangup())?, has_terminal: has_terminal() })
    }

    /// Waits for a request to reload. Triggers `stop` if the signal says that the terminal is closed.
    async fn requested(&mut self, stop: &CancellationToken) {
        if self.signal.recv().await.is_none() || self.has_terminal && !has_terminal() {
            stop.cancel();
            std::future::pending::<()>().await;
        }
    }
}

/// Whether this process has a controlling terminal.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Replaces the configuration of a running gateway.
pub(crate) struct Reloader {
    pub(crate) sources: Arc<Sources>,
    /// The configuration that is in use.
    pub(crate) loaded: Loaded,
    pub(crate) servers: Servers,
    pub(crate) code_server: CodeServer,
    pub(crate) clients: Arc<ClientServers>,
    pub(crate) always: Arc<Always>,
    pub(crate) lines: Lines,
    /// Why the configuration that was read last is not in use.
    pub(crate) error: watch::Sender<Option<String>>,
}

impl Reloader {
    /// Reloads on every change and signal. Runs until the future is dropped.
    pub(crate) async fn run(mut self, mut hangup: Hangup, stop: CancellationToken) {
        loop {
            let is_requested = tokio::select! {
                () = hangup.requested(&stop) => true,
                () = changed(&self.loaded.files) => false,
            };
            settled(&self.loaded.files).await;
            self.reload(is_requested).await;
        }
    }

    async fn reload(&mut self, is_requested: bool) {
        let (sources, before, quiet) = (Arc::clone(&self.sources), self.loaded.files.clone(), self.lines.quiet);
        let clients = self.clients.file.clone();
        let read = move || {
            let (mut loaded, error) = servers::read_again(&sources.arguments, &sources.stubs, quiet, &before);
            let clients = clients.map(|file| file.read(&mut loaded.files));
            (loaded, error, clients)
        };
        // Reading blocks, and parsing a large file takes long.
        let Ok((loaded, error, clients)) = tokio::task::spawn_blocking(read).await else { return };
        let had_error = self.error.borrow().is_some();
        let mistake = match error.or_else(|| servers::new_mistake(&loaded.config, &self.loaded.config)) {
            None => {
                self.apply(loaded, is_requested || had_error).await;
                None
            }
            Some(error) => {
                self.loaded.files = loaded.files;
                Some(error.to_string())
            }
        };
        let replaced = match clients {
            Some(read) => read.and_then(|clients| self.clients.replace(clients)),
            None => Ok(None),
        };
        if let Ok(Some(changes)) = &replaced {
            self.lines.add(changes, false);
        }
        self.clients.refresh().await;
        let mistakes = [mistake, replaced.err().map(|error| error.to_string())];
        let mistakes: Vec<String> = mistakes.into_iter().flatten().collect();
        self.reject(&mistakes, is_requested);
    }

    async fn apply(&mut self, loaded: Loaded, is_requested: bool) {
        let update = servers::update(&self.servers, &loaded.config);
        if is_requested || !update.is_empty() {
            self.lines.add(&summary(&update), false);
        }
        self.report_new(&loaded);
        self.always.set(&loaded);
        self.loaded = loaded;
        // Servers that were removed are closed when nothing uses their tools.
        self.code_server.refresh().await;
    }

    /// Reports unused entries and keys without effect, unless they were reported before.
    fn report_new(&self, loaded: &Loaded) {
        let before = servers::skipped_lines(&self.loaded.config);
        for (line, is_failure) in servers::skipped_lines(&loaded.config) {
            if !before.contains(&(line.clone(), is_failure)) {
                self.lines.add(&line, is_failure);
            }
        }
        for line in loaded.ignored.iter().filter(|line| !self.loaded.ignored.contains(line)) {
            self.lines.add(line, true);
        }
    }

    /// Reports each mistake once, and whenever a reload is requested.
    fn reject(&self, mistakes: &[String], is_requested: bool) {
        let known = self.error.borrow().clone().unwrap_or_default();
        for mistake in mistakes.iter().filter(|mistake| is_requested || !known.contains(mistake.as_str())) {
            self.lines.add(&format!("configuration not reloaded: {mistake}"), true);
        }
        self.error.send_replace((!mistakes.is_empty()).then(|| mistakes.join("; ")));
    }
}

fn summary(update: &Update) -> String {
    let parts = [("added", &update.added), ("restarted", &update.restarted), ("removed", &update.removed)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| {
        let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        format!("{what} {}", names.join(", "))
    });
    let parts: Vec<String> = parts.collect();
    let text = if parts.is_empty() { "all servers are as before".to_owned() } else { parts.join("; ") };
    format!("configuration reloaded: {text}")
}

/// Waits until the stamp of a file changes.
async fn changed(files: &Files) {
    if files.is_empty() {
        std::future::pending::<()>().await;
    }
    loop {
        sleep(POLL).await;
        if now(files).await != *files {
            return;
        }
    }
}

/// Waits until the files have not changed for [`SETTLE`].
async fn settled(files: &Files) {
    let mut before = now(files).await;
    loop {
        sleep(SETTLE).await;
        let now = now(files).await;
        if now == before {
            return;
        }
        before = now;
    }
}

/// The files with their present stamps.
async fn now(files: &Files) -> Files {
    let files = files.clone();
    // A network file system may not answer.
    tokio::task::spawn_blocking(move || files.now()).await.unwrap_or_default()
}

/// The time between two checks of the files.
const POLL: Duration = Duration::from_secs(1);

/// How long files must have been unchanged before they are read.
const SETTLE: Duration = Duration::from_millis(250);
