//! Where clients keep servers: the servers of the user and those of each project, in the file of each client.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use execbox_mcp::config::{
    Config, ConfigError, Gateway, GatewayCommand, GatewayFiles, Problem, ServerConfig, SkipReason,
};

use super::SetupError;
use super::clients::{CLIENTS, Client};
use super::store::{self, Store};
use crate::config::context::{FileContext, Needs, Placeholders};
use crate::config::files::Files;
use crate::files::private_file::PrivateError;
use crate::files::rewrite::{Rewrite, RewriteError};
use crate::files::source::RegularFileError;
use crate::output::path::shown;
use crate::prompt::Attended;

/// The servers of a user, or of a project, in the file of a client.
pub(super) struct Place {
    pub(super) client: &'static Client,
    /// The folder of the project.
    pub(super) project: Option<String>,
    /// The path of the client's file, as it was looked for.
    pub(super) path: PathBuf,
    /// The file, which other places can be in, too.
    pub(super) file: Rc<Rewrite>,
    /// The servers in the client's file, but for its own gateway.
    pub(super) servers: Vec<Found>,
    /// The servers behind the gateway of this place.
    pub(super) behind: Vec<Found>,
    /// The file of the servers behind the gateway, and the text of the file, which is empty if there is none.
    pub(super) servers_file: PathBuf,
    pub(super) servers_text: String,
    pub(super) gateway: State,
    /// Another file of the client that has a gateway, which uses the same file of servers.
    other_file: Option<PathBuf>,
}

/// A server in a file.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) server: Result<ServerConfig, SkipReason>,
}

/// The gateway's entry in the file of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    /// The entry uses the file of servers of this place.
    Own,
    /// The user has written an entry with the name of the gateway.
    Other,
}

/// What a search for clients found.
#[derive(Default)]
pub(super) struct Search {
    pub(super) places: Vec<Place>,
    /// The clients without servers, with the paths of their files, and whether these exist.
    pub(super) without: Vec<(&'static Client, PathBuf, bool)>,
    /// Files that cannot be used, and why.
    pub(super) problems: Vec<String>,
}

/// Reads the files of all clients.
pub(super) fn search(store: &Store) -> Result<Search, PrivateError> {
    let (mut search, records) = (Search::default(), store.records()?);
    for client in CLIENTS {
        let Some(path) = client.file() else { continue };
        let other_file = records.get(client.id).map(|record| &record.file).filter(|file| **file != path);
        match read(client, &path, other_file, store) {
            Ok(Some(places)) if !places.is_empty() => search.places.extend(places),
            Ok(places) => search.without.push((client, path, places.is_some())),
            Err(problem) => search.problems.push(problem),
        }
    }
    Ok(search)
}

/// The places in the file of a client; `None` if it does not exist.
fn read(
    client: &'static Client,
    path: &Path,
    other_file: Option<&PathBuf>,
    store: &Store,
) -> Result<Option<Vec<Place>>, String> {
    let file = match Rewrite::read(path) {
        Err(RewriteError::Read { error: RegularFileError::Io(error), .. }) if is_missing(&error) => return Ok(None),
        file => Rc::new(file.map_err(|error| error.to_string())?),
    };
    let invalid = |path: &Path, error: &dyn std::fmt::Display| format!("{}:{error}", shown(path));
    let scopes = match read_scopes(path, file.text()) {
        Err(ConfigError { problem: Problem::Empty, .. }) => Vec::new(),
        scopes => scopes.map_err(|error| invalid(path, &error))?,
    };
    let place = |(project, config): (Option<String>, Config)| {
        let id = id(client, project.as_deref());
        let servers_file = store.servers_file(&id, path);
        let servers_text =
            store::read_servers(&servers_file).map_err(|error| format!("{}: {error}", shown(&servers_file)))?;
        let mut behind = Config::default();
        if !servers_text.is_empty() {
            let read = behind.read(&servers_text, &context(&servers_file));
            read.map_err(|error| invalid(&servers_file, &error))?;
        }
        let (mut servers, own) = (found(config), gateway_name(project.as_deref()));
        let gateway = match servers.iter().any(|found| found.name == own) {
            true if file.text().contains(&*servers_file.to_string_lossy()) => State::Own,
            true => State::Other,
            false => State::Absent,
        };
        servers.retain(|found| found.name != own || gateway == State::Other);
        // Without its gateway, a file of servers is a left-over.
        let behind = if gateway == State::Own { found(behind) } else { Vec::new() };
        let (path, file, other_file) = (path.to_owned(), Rc::clone(&file), other_file.cloned());
        Ok(Place { client, project, path, file, servers, behind, servers_file, servers_text, gateway, other_file })
    };
    let places = scopes.into_iter().map(place).collect::<Result<Vec<_>, String>>()?;
    Ok(Some(places.into_iter().filter(|place| !place.servers.is_empty() || !place.behind.is_empty()).collect()))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read_scopes(path: &Path, text: &str) -> Result<Vec<(Option<String>, Config)>, ConfigError> {
    Config::scopes(text, &context(path))
}

/// A context that asks nobody.
fn context(path: &Path) -> FileContext<'_> {
    FileContext::new(path, Attended::Never, Files::default())
}

/// The servers of a configuration, in the order of their names.
fn found(config: Config) -> Vec<Found> {
    let used = config.servers.into_iter().map(|server| Found { name: server.name.clone(), server: Ok(server) });
    let skipped = config.skipped.into_iter().map(|skipped| Found { name: skipped.name, server: Err(skipped.reason) });
    let mut found: Vec<_> = used.chain(skipped).collect();
    found.retain(|found| !matches!(found.server, Err(SkipReason::Duplicate | SkipReason::Overridden)));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The name of a place on the command line.
pub(super) fn id(client: &Client, project: Option<&str>) -> String {
    match project {
        Some(project) => format!("{}:{project}", client.id),
        None => client.id.to_owned(),
    }
}

/// The name of the gateway's entry. In a project, the servers of the user are used, too.
fn gateway_name(project: Option<&str>) -> &'static str {
    if project.is_some() { "execbox-project" } else { "execbox" }
}

impl Found {
    /// Whether the server is moved if its client is selected: it can be used behind a gateway, if the user answers some questions.
    pub(super) fn is_movable(&self) -> bool {
        matches!(self.server, Ok(_) | Err(SkipReason::MissingInput { .. }))
    }

    /// Whether the server can be moved if the user names it: it may be usable in the environment of the client.
    pub(super) fn is_movable_by_name(&self) -> bool {
        match &self.server {
            Ok(_) => true,
            Err(reason) => !matches!(
                reason,
                SkipReason::Disabled | SkipReason::SelfReference | SkipReason::Extension | SkipReason::Invalid { .. }
            ),
        }
    }
}

impl Place {
    pub(super) fn id(&self) -> String {
        id(self.client, self.project.as_deref())
    }

    /// The name of the place for people.
    pub(super) fn title(&self) -> String {
        title(self.client, self.project.as_deref())
    }

    /// The names of the servers that are moved if the client is selected.
    pub(super) fn movable(&self) -> Vec<String> {
        if self.gateway == State::Other {
            return Vec::new();
        }
        self.servers.iter().filter(|found| found.is_movable()).map(|found| found.name.clone()).collect()
    }

    /// The texts of both files after servers were moved. `text` is that of the client's file.
    pub(super) fn with_gateway(
        &self,
        text: &str,
        names: &[String],
        launcher: &[String],
        options: &[String],
    ) -> Result<GatewayFiles, SetupError> {
        if self.gateway == State::Other {
            return Err(SetupError::OtherGateway { client: self.title(), file: shown(&self.path) });
        }
        if let Some(other) = &self.other_file {
            return Err(SetupError::OtherFile { client: self.client.name, id: self.client.id, file: shown(other) });
        }
        // What a file has that no gateway uses is a left-over.
        let servers = if self.gateway == State::Own { &*self.servers_text } else { "" };
        let servers_file = self.servers_file.to_str().ok_or(SetupError::NotUtf8)?.to_owned();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (program, first) = launcher.split_first().ok_or(SetupError::NotUtf8)?;
        let args = first.iter().cloned().chain(["mcp".to_owned(), "--config".to_owned(), servers_file]);
        let command = GatewayCommand::new(program, args.chain(options.iter().cloned()).collect());
        let command = command.keys(self.client.keys.to_vec());
        let context = Placeholders::of(&self.path);
        let gateway = gateway(&context, self.project.as_deref());
        let insert = |command: &GatewayCommand| {
            let files = gateway.insert(text, servers, &names, command);
            files.map_err(|error| SetupError::edit(&self.path, &self.servers_file, error))
        };
        let files = insert(&command)?;
        let Some((before, after)) = self.client.reference else { return Ok(files) };
        let names = variables(&self.servers_file, &files.servers).into_iter();
        let variables = names.map(|name| (name.clone(), format!("{before}{name}{after}")));
        insert(&command.variables(variables.collect()))
    }
}

/// Whether the gateway of a place in a client's file is disabled by another part of the file, which selects servers.
pub(super) fn is_disabled(path: &Path, text: &str, project: Option<&str>) -> bool {
    let scopes = Config::scopes(text, &Placeholders::of(path)).unwrap_or_default();
    let scope = scopes.into_iter().find(|(other, _)| other.as_deref() == project);
    let mut skipped = scope.into_iter().flat_map(|(_, config)| config.skipped);
    skipped.any(|skipped| skipped.name == gateway_name(project) && skipped.reason == SkipReason::Disabled)
}

/// The gateway of the user, or of a project.
pub(super) fn gateway<'a>(context: &'a Placeholders, project: Option<&'a str>) -> Gateway<'a> {
    Gateway::new(context, gateway_name(project)).project(project)
}

pub(super) fn title(client: &Client, project: Option<&str>) -> String {
    match project {
        Some(project) => format!("{}, project {project}", client.name),
        None => client.name.to_owned(),
    }
}

/// The variables of the environment that a file of servers uses, but for those that each process has.
fn variables(path: &Path, text: &str) -> Vec<String> {
    let (context, mut needs) = (context(path), Needs::default());
    let _ = Config::default().read(text, &context);
    let _ = context.finish(&mut needs);
    mem::take(&mut needs.variables).into_iter().filter(|name| !COMMON_VARIABLES.contains(&name.as_str())).collect()
}

/// The variables that each process has.
const COMMON_VARIABLES: [&str; 3] = ["HOME", "PATH", "USER"];
