//! The running gateways (`execbox mcp`) of this user. Each publishes its state in a file, and locks another file until it ends.
//!
//! A gateway that can ask for approvals has a socket beside them. The files are in a directory that only this user can read:
//! `$XDG_RUNTIME_DIR/execbox`, or `execbox-UID` below the directory for temporary files.

use std::fs::{self, DirBuilder, DirEntry, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use execbox_mcp::servers::{ServerState, Status};
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};

use crate::error::{CliError, reason};
use crate::exit::Exit;
use crate::files::ownership;
use crate::files::private_file;
use crate::options::servers::note_lines;

/// The published state of a gateway. The reasons are for its operator: they name programs and paths.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gateway {
    pub(crate) pid: u32,
    /// The start of the gateway, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// The address of the gateway: a URL, or `standard input and output`.
    pub(crate) serves: String,
    /// Why the configuration that was read last is not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reload_error: Option<String>,
    pub(crate) servers: Vec<Server>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Server {
    pub(crate) name: String,
    /// The namespace of the server in guest code.
    pub(crate) namespace: String,
    pub(crate) state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What of the server is not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    Starting,
    Ready,
    Failed,
    Skipped,
    Closed,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Closed => "closed",
        }
    }
}

impl From<Status> for Server {
    fn from(status: Status) -> Self {
        let notes = note_lines(&status).into_iter().map(|(line, _)| line).collect();
        let Status { name, namespace, state, .. } = status;
        let (state, tools, reason) = match state {
            ServerState::Connecting => (State::Starting, None, None),
            ServerState::Ready { tools, .. } => (State::Ready, Some(tools), None),
            ServerState::Failed(failure) => (State::Failed, None, Some(failure.to_string())),
            ServerState::Skipped { reason } => (State::Skipped, None, Some(reason.to_string())),
            _ => (State::Closed, None, None),
        };
        Self { name, namespace, state, tools, reason, notes }
    }
}

/// Publishes the state of this process. Dropping it removes the published state.
pub(crate) struct Publisher {
    directory: PathBuf,
    serves: String,
    started_ms: u64,
    /// A lock that shows other processes that this one runs.
    _lock: File,
}

impl Publisher {
    pub(crate) fn new(serves: String) -> io::Result<Self> {
        running()?; // Removes the files of gateways that have ended.
        let directory = directory()?;
        let lock = lock(&lock_file(&directory, pid()))?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let started_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { directory, serves, started_ms, _lock: lock })
    }

    pub(crate) fn publish(&self, servers: Vec<Server>, reload_error: Option<String>) -> io::Result<()> {
        let gateway =
            Gateway { pid: pid(), started_ms: self.started_ms, serves: self.serves.clone(), reload_error, servers };
        private_file::replace(&state_file(&self.directory, pid()), &serde_json::to_vec(&gateway)?)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        remove(&self.directory, pid());
    }
}

/// The error of listing the running gateways, or of a request to one of them.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the state of the running gateways: {}", reason(.0))]
pub(crate) struct GatewaysError(pub(crate) io::Error);

impl CliError for GatewaysError {
    fn exit(&self) -> Exit {
        Exit::ExecboxFailed
    }
}

/// The running gateways, by process id. Removes the files of gateways that have ended.
pub(crate) fn list() -> Result<Vec<Gateway>, GatewaysError> {
    running().map_err(GatewaysError)
}

fn running() -> io::Result<Vec<Gateway>> {
    let directory = directory()?;
    let mut gateways = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("mcp-")?.strip_suffix(".lock")?.parse().ok());
        let Some(pid) = pid else { continue };
        let Ok(lock) = File::open(lock_file(&directory, pid)) else { continue };
        match lock.try_lock() {
            Ok(()) => remove(&directory, pid),
            Err(TryLockError::WouldBlock) => {
                let text = fs::read(state_file(&directory, pid)).ok();
                gateways.extend(text.and_then(|text| serde_json::from_slice::<Gateway>(&text).ok()));
            }
            Err(TryLockError::Error(_)) => {}
        }
    }
    gateways.sort_by_key(|gateway| gateway.pid);
    Ok(gateways)
}

/// Creates and locks a file. Another process may remove the file before it is locked; then it is created again.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.lock()?;
        if fs::metadata(path).is_ok_and(|found| found.ino() == file.metadata().map_or(0, |locked| locked.ino())) {
            return Ok(file);
        }
    }
}

/// Removes the files of a process, and last its lock, by which all others are found.
fn remove(directory: &Path, pid: u32) {
    let (lock, prefix) = (lock_file(directory, pid), format!("mcp-{pid}."));
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_own = |entry: &DirEntry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
    for entry in entries.filter(is_own).filter(|entry| entry.path() != lock) {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_file(lock);
}

fn pid() -> u32 {
    std::process::id()
}

fn state_file(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("mcp-{pid}.json"))
}

fn socket_file(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("mcp-{pid}.sock"))
}

/// The socket on which a gateway lists and decides its pending approvals.
pub(crate) fn approvals_socket(pid: u32) -> io::Result<PathBuf> {
    Ok(socket_file(&directory()?, pid))
}

fn lock_file(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("mcp-{pid}.lock"))
}

/// The directory, created if it is missing. Other users must not be able to write to it: they could add files of gateways that
/// do not exist.
fn directory() -> io::Result<PathBuf> {
    let user = Uid::effective();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_absolute());
    let path = match runtime {
        Some(runtime) => Path::new(&runtime).join("execbox"),
        None => std::env::temp_dir().join(format!("execbox-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&path)?;
    if !found.is_dir() || found.uid() != user.as_raw() || found.mode().trailing_zeros() < 6 {
        let reason = "the directory belongs to somebody else, or others can use it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    ownership::resolve_directory(&path).map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))
}
