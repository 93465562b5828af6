//! The files of execbox for the gateways of clients: the servers behind each, copies of the clients' files, and what was written
//! when.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::files::private_file::{self, Lock, PrivateError, PrivateFile};
use crate::files::source::{self, RegularFileError};

/// The files of this user.
pub(super) struct Store {
    directory: PathBuf,
    /// By the ids of the clients.
    records: PrivateFile<BTreeMap<String, Record>>,
}

/// The gateways in the file of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The file of the client.
    pub(super) file: PathBuf,
    /// The copy of the file without gateways; `None` if others have changed the file since.
    pub(super) original: Option<PathBuf>,
    /// The hash of the file as it was written.
    pub(super) hash: String,
    /// The places with gateways, by their ids.
    pub(super) places: BTreeMap<String, PlaceRecord>,
}

/// A gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlaceRecord {
    /// The folder of the project whose servers were moved; `None` for those of the user.
    pub(super) project: Option<String>,
    /// The hash of the file of servers as it was written.
    pub(super) hash: String,
}

impl Store {
    pub(super) fn of_user() -> Result<Self, PrivateError> {
        let records = PrivateFile::of_user("setup.json", "what `execbox setup` has written")?;
        Ok(Self { directory: private_file::directory_of_user()?, records })
    }

    pub(super) fn records(&self) -> Result<BTreeMap<String, Record>, PrivateError> {
        self.records.read()
    }

    /// Sets the record of a client.
    pub(super) fn set_record(&self, client: &str, record: Option<Record>) -> Result<(), PrivateError> {
        self.records.update(|records| match record {
            Some(record) => _ = records.insert(client.to_owned(), record),
            None => _ = records.remove(client),
        })
    }

    /// Waits until no other process reads or writes files of execbox and of clients together.
    pub(super) fn lock(&self) -> Result<Lock, PrivateError> {
        self.records.lock("writing.lock")?.wait()
    }

    /// The file of the servers behind the gateway of a place, in the language of the client's file.
    pub(super) fn servers_file(&self, id: &str, client: &Path) -> PathBuf {
        let extension = if client.extension() == Some("toml".as_ref()) { "toml" } else { "json" };
        self.directory.join("servers").join(format!("{}.{extension}", file_name(id)))
    }

    /// Keeps a copy of a file's text. Returns the path of the copy.
    pub(super) fn back_up(&self, file: &Path, id: &str, text: &str) -> Result<PathBuf, PrivateError> {
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string().replace([':', '.'], "-");
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let path = self.directory.join("backups").join(format!("{}-{time}-{name}", file_name(id)));
        private_file::write(&path, text)?;
        Ok(path)
    }
}

/// The text of a file of servers; empty if there is none.
pub(super) fn read_servers(path: &Path) -> Result<String, RegularFileError> {
    match source::read_regular(path, MAX_FILE) {
        Err(RegularFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Writes a file of servers, or removes it if the text is empty.
pub(super) fn write_servers(path: &Path, text: &str) -> Result<(), PrivateError> {
    if !text.is_empty() {
        return private_file::write(path, text);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PrivateError::Io { path: path.display().to_string(), error })
        }
        _ => Ok(()),
    }
}

/// The hash of a text, by which a later change is noticed.
pub(super) fn hash(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
    format!("{:032x}", u128::from_be_bytes(first))
}

/// A part of a file name for an id. Ids of projects contain paths, which differ in more than the characters that remain.
fn file_name(id: &str) -> String {
    let Some((client, project)) = id.split_once(':') else { return id.to_owned() };
    let name = Path::new(project).file_name().unwrap_or_default().to_string_lossy();
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let name: String = name.chars().filter(is_kept).take(MAX_NAME).collect();
    format!("{client}-{name}-{}", &hash(project)[..8])
}

/// The maximum length of a file, in bytes: that of a configuration.
const MAX_FILE: usize = 16 << 20;

/// The maximum length of a project's name in the name of a file.
const MAX_NAME: usize = 40;

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn projects_have_files_of_their_own() {
        assert_eq!(file_name("cursor"), "cursor");
        let [a, b] = ["claude-code:/work/shop", "claude-code:/shop"].map(file_name);
        assert!(a.starts_with("claude-code-shop-") && b.starts_with("claude-code-shop-") && a != b, "{a} {b}");
        assert!(!file_name("claude-code:/x/../é/..").contains(['/', '.']));
    }
}
