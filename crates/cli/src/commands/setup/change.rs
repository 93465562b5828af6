//! A change of the file of a client, and of the files of the servers behind its gateways.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use execbox_mcp::Secrets;
use execbox_mcp::config::Config;

use super::SetupError;
use super::clients::{CLIENTS, Client};
use super::place::{self, Place};
use super::store::{PlaceRecord, Record, Store, hash, read_servers, write_servers};
use crate::config::context::Placeholders;
use crate::error::CommandError;
use crate::files::rewrite::{Rewrite, RewriteError};
use crate::output::diff;
use crate::output::path::shown;
use crate::output::report;
use crate::output::style::Colors;

/// A change, which is not written yet.
pub(super) struct Change {
    pub(super) client: &'static Client,
    path: PathBuf,
    file: Rc<Rewrite>,
    /// The new text of the client's file.
    text: String,
    pub(super) parts: Vec<Part>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Setup,
    Undo,
}

/// The servers of the user, or of a project.
pub(super) struct Part {
    pub(super) id: String,
    pub(super) title: String,
    project: Option<String>,
    pub(super) servers_file: PathBuf,
    /// The texts of the file of servers, which are empty if there is none.
    servers_before: String,
    pub(super) servers_after: String,
    /// The servers that are moved.
    pub(super) names: Vec<String>,
}

impl Change {
    pub(super) fn new(client: &'static Client, path: &Path, file: Rc<Rewrite>, kind: Kind) -> Self {
        let (path, text, parts) = (path.to_owned(), file.text().to_owned(), Vec::new());
        Self { client, path, file, text, parts, kind }
    }

    /// Puts a gateway in front of servers of a place in the file.
    pub(super) fn insert_gateway(
        &mut self,
        place: &Place,
        names: &[String],
        launcher: &[String],
        options: &[String],
    ) -> Result<(), SetupError> {
        let files = place.with_gateway(&self.text, names, launcher, options)?;
        if files.client == self.text && files.servers == place.servers_text {
            return Ok(());
        }
        self.text = files.client;
        self.parts.push(Part {
            id: place.id(),
            title: place.title(),
            project: place.project.clone(),
            servers_file: place.servers_file.clone(),
            servers_before: place.servers_text.clone(),
            servers_after: files.servers,
            names: names.to_vec(),
        });
        Ok(())
    }

    /// Moves the servers behind gateways back. If nothing has changed since these were written, and all are removed, the file is
    /// as it was before them.
    pub(super) fn undo(store: &Store, client: &str, record: &Record, ids: &[String]) -> Result<Self, SetupError> {
        let client = CLIENTS.iter().find(|other| other.id == client);
        let client = client.ok_or(SetupError::NothingToUndo(None))?;
        let mut change = Self::new(client, &record.file, Rc::new(Rewrite::read(&record.file)?), Kind::Undo);
        let mut is_as_written = hash(&change.text) == record.hash && ids.len() == record.places.len();
        for (id, place) in record.places.iter().filter(|(id, _)| ids.contains(id)) {
            let servers_file = store.servers_file(id, &record.file);
            let servers = read_servers(&servers_file);
            let servers = servers.map_err(|error| SetupError::Servers { file: shown(&servers_file), error })?;
            if servers.trim().is_empty() {
                let (file, client) = (shown(&servers_file), shown(&record.file));
                return Err(SetupError::NoServers { file, client, backup: record.original.as_deref().map(shown) });
            }
            is_as_written &= hash(&servers) == place.hash;
            let context = Placeholders::of(&record.file);
            let removed = place::gateway(&context, place.project.as_deref()).remove(&change.text, &servers);
            change.text = removed.map_err(|error| SetupError::edit(&record.file, &servers_file, error))?;
            change.parts.push(Part {
                id: id.clone(),
                title: place::title(client, place.project.as_deref()),
                project: place.project.clone(),
                servers_file,
                servers_before: servers,
                servers_after: String::new(),
                names: Vec::new(),
            });
        }
        // Without the copy, the file has the same content, and may be written in another way.
        let original = record.original.as_ref().filter(|_| is_as_written);
        if let Some(original) = original.and_then(|original| Rewrite::read(original).ok()) {
            original.text().clone_into(&mut change.text);
        }
        Ok(change)
    }

    /// Warns of gateways that the client does not start.
    pub(super) fn warn_of_disabled_gateways(&self) {
        for part in &self.parts {
            if place::is_disabled(&self.path, &self.text, part.project.as_deref()) {
                let (title, file) = (&part.title, shown(&self.path));
                report::warn(&format_args!(
                    "{title}: {file} disables execbox: select it where the file selects servers"
                ));
            }
        }
    }

    /// Whether nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The changes of all files as unified diffs, without secrets.
    pub(super) fn lines(&self) -> Vec<String> {
        let secrets = Config::secrets(self.file.text(), &Placeholders::of(&self.path));
        for part in &self.parts {
            secrets.add(&Config::secrets(&part.servers_before, &Placeholders::of(&part.servers_file)));
        }
        let mut lines = diff(&self.path, [self.file.text(), &self.text], &secrets);
        for part in &self.parts {
            lines.extend(diff(&part.servers_file, [&part.servers_before, &part.servers_after], &secrets));
        }
        lines
    }

    /// Writes all files, unless one of them has changed. The client has its servers, or the gateway with them, at each moment.
    pub(super) fn write(&self, store: &Store) -> Result<(), CommandError> {
        let _lock = store.lock().map_err(SetupError::from)?;
        if let Some(part) = self.parts.iter().find(|part| !part.is_unchanged()) {
            return Err(SetupError::from(RewriteError::Changed { path: part.servers_file.clone() }).into());
        }
        let backup = store.back_up(&self.path, self.client.id, self.file.text()).map_err(SetupError::from)?;
        match self.kind {
            Kind::Setup => self.write_setup(store, &backup),
            Kind::Undo => self.write_undo(store),
        }?;
        let backup = shown(&backup);
        for part in &self.parts {
            let what = match (self.kind, &part.names[..]) {
                (Kind::Undo, _) => "its servers are in its own file again".to_owned(),
                (_, []) => "the entry of execbox is changed".to_owned(),
                (_, names) => format!("execbox is in front of {}", names.join(", ")),
            };
            report::note(&format_args!("{}: {what}; restart it (backup: {backup})", part.title));
        }
        Ok(())
    }

    fn write_setup(&self, store: &Store, backup: &Path) -> Result<(), SetupError> {
        let before = store.records()?.remove(self.client.id);
        let place = |part: &Part| {
            let (project, hash) = (part.project.clone(), hash(&part.servers_after));
            (part.id.clone(), PlaceRecord { project, hash })
        };
        let known = before.iter().flat_map(|record| record.places.clone());
        let record = Record {
            file: self.path.clone(),
            original: match &before {
                Some(record) if record.hash == hash(self.file.text()) => record.original.clone(),
                Some(_) => None,
                None => Some(backup.to_owned()),
            },
            hash: hash(&self.text),
            places: known.chain(self.parts.iter().map(place)).collect(),
        };
        for part in &self.parts {
            if !part.servers_before.is_empty() {
                store.back_up(&part.servers_file, &part.id, &part.servers_before)?;
            }
            write_servers(&part.servers_file, &part.servers_after)?;
        }
        store.set_record(self.client.id, Some(record))?;
        self.file.replace(&self.text).map_err(|error| {
            // The client has its servers still.
            for part in &self.parts {
                let _ = write_servers(&part.servers_file, &part.servers_before);
            }
            let _ = store.set_record(self.client.id, before);
            error.into()
        })
    }

    fn write_undo(&self, store: &Store) -> Result<(), SetupError> {
        self.file.replace(&self.text)?;
        for part in &self.parts {
            if !part.servers_before.is_empty() {
                store.back_up(&part.servers_file, &part.id, &part.servers_before)?;
            }
            write_servers(&part.servers_file, "")?;
        }
        let mut record = store.records()?.remove(self.client.id);
        if let Some(record) = &mut record {
            self.parts.iter().for_each(|part| _ = record.places.remove(&part.id));
            (record.original, record.hash) = (None, hash(&self.text));
        }
        let record = record.filter(|record| !record.places.is_empty());
        Ok(store.set_record(self.client.id, record)?)
    }
}

impl Part {
    /// Whether the file of servers is as it was when the change was made.
    fn is_unchanged(&self) -> bool {
        read_servers(&self.servers_file).is_ok_and(|text| text == self.servers_before)
    }
}

/// The unified diff of a file. A text that is empty stands for no file.
fn diff(path: &Path, texts: [&str; 2], secrets: &Secrets) -> Vec<String> {
    let names = texts.map(|text| if text.is_empty() { "/dev/null".to_owned() } else { shown(path) });
    // Redacted as a whole: of a secret that is cut, a part would remain.
    let [old, new] = texts.map(|text| secrets.redact(text.to_owned()));
    diff::unified(&old, &new, names.each_ref().map(String::as_str), Colors::of_stdout())
}
