//! `--clients`: the clients of a gateway over HTTP that have tokens of their own, and what each of them can use.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox::transport::Token;
use execbox::{Effect, Limits, Provider};
use execbox_mcp::Pattern;
use execbox_mcp::config::{ClientConfig, ConfigError, Context, TokenPlace};
use execbox_mcp::server::{
    CodeServer, Grant, NamedClient, NamedClients, ProviderSource, Restricted, ServerOptions, StateStore,
};
use execbox_mcp::servers::Servers;

use crate::config::files;
use crate::config::files::Files;
use crate::error::CliError;
use crate::files::source::TextError;
use crate::gateway::approvals::{Approvals, ClientApprover};
use crate::gateway::policy::PolicySource;
use crate::options::servers;
use crate::options::state::{StateFile, StateFileError};
use crate::options::token;
use crate::output::report;
use crate::process::secrecy;

/// A client, with its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Client {
    config: ClientConfig,
    token: Token,
}

/// Why a file of clients cannot be used. Contains no tokens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientsError {
    #[error("--clients: {0}")]
    Text(#[from] TextError),
    #[error("--clients: {file}:{error}")]
    Config { file: String, error: ConfigError },
    #[error("--clients: {file}: client {client:?}: tokenFile {path}: {reason}")]
    Token { file: String, client: String, path: String, reason: String },
    #[error("--clients: {file}: client {client:?} has the token of {other:?}: each client needs its own")]
    SameToken { file: String, client: String, other: String },
    #[error(
        "--clients: {file}: client {client:?} may use more memory than the gateway gives to programs; raise `--memory`, or \
         lower `limits.memory`"
    )]
    Memory { file: String, client: String },
    #[error("--clients: {file}: client {client:?} has a `state`, but there is no file for it; add `--state FILE`")]
    NoStateFile { file: String, client: String },
    #[error("--clients: the state of client {client:?} cannot be used: {error}")]
    State { client: String, error: StateFileError },
}

impl CliError for ClientsError {}

/// The file of `--clients`, and what its clients are compared with.
#[derive(Debug, Clone)]
pub(crate) struct ClientsFile {
    pub(crate) path: PathBuf,
    /// The limits of the gateway.
    pub(crate) limits: Limits,
    pub(crate) has_state: bool,
}

/// The environment, for variables in the file.
struct Environment<'a>(&'a Path);

impl Context for Environment<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn file_name(&self) -> Option<String> {
        Some(self.0.display().to_string())
    }

    fn user_home(&self) -> Option<PathBuf> {
        env::home_dir()
    }
}

impl ClientsFile {
    /// Reads the clients and their tokens. The files that are read are recorded in `files`.
    pub(crate) fn read(&self, files: &mut Files) -> Result<Vec<Client>, ClientsError> {
        secrecy::protect();
        let text = servers::read_text(files, &self.path)?;
        warn_if_readable(&self.path);
        let configs = ClientConfig::read(&text, &Environment(&self.path))
            .map_err(|error| ClientsError::Config { file: self.name(), error })?;
        let mut clients: Vec<Client> = Vec::new();
        for config in configs {
            let client = self.client(config, files)?;
            if let Some(other) = clients.iter().find(|other| other.token == client.token) {
                let (client, other) = (client.config.name, other.config.name.clone());
                return Err(ClientsError::SameToken { file: self.name(), client, other });
            }
            clients.push(client);
        }
        Ok(clients)
    }

    fn client(&self, config: ClientConfig, files: &mut Files) -> Result<Client, ClientsError> {
        let (file, client) = (self.name(), config.name.clone());
        if config.limits.of_program(self.limits).memory_bytes > self.limits.memory_bytes {
            return Err(ClientsError::Memory { file, client });
        }
        if config.state.is_some() && !self.has_state {
            return Err(ClientsError::NoStateFile { file, client });
        }
        let token = match &config.token {
            TokenPlace::Here(token) => token.clone(),
            TokenPlace::File(path) => {
                let path = self.path.parent().unwrap_or(Path::new("")).join(path);
                files.record(&path);
                warn_if_readable(&path);
                let read = token::read_file(&path)
                    .and_then(|text| ClientConfig::parse_token(&text).map_err(|error| error.to_string()));
                read.map_err(|reason| ClientsError::Token { file, client, path: path.display().to_string(), reason })?
            }
        };
        Ok(Client { config, token })
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Prints a message if all users of this machine can read a file with tokens.
fn warn_if_readable(path: &Path) {
    if files::is_readable_by_others(path) {
        let path = path.display();
        report::warn(&format_args!("{path} can be read by other users; run `chmod 600 {path}`, and change its tokens"));
    }
}

/// The servers of the named clients of a running gateway.
pub(crate) struct ClientServers {
    /// The file of the clients; `None` if there is none.
    pub(crate) file: Option<ClientsFile>,
    /// The server of clients without a name.
    pub(crate) gateway: CodeServer,
    /// The options of `gateway`.
    pub(crate) options: ServerOptions,
    pub(crate) source: Arc<dyn ProviderSource>,
    pub(crate) servers: Servers,
    pub(crate) policy: Arc<PolicySource>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) state: Option<Arc<StateFile>>,
    pub(crate) named: NamedClients,
    pub(crate) current: Mutex<Vec<(Client, NamedClient)>>,
}

impl ClientServers {
    /// Replaces the clients. Those that are equal to earlier ones go on. Returns a line about what has changed; `None` if nothing
    /// has.
    pub(crate) fn replace(&self, clients: Vec<Client>) -> Result<Option<String>, ClientsError> {
        let mut current = self.lock();
        let mut next = Vec::with_capacity(clients.len());
        for client in clients {
            let known = current.iter().find(|(other, _)| *other == client).map(|(_, named)| named.clone());
            let named = match known {
                Some(named) => named,
                None => self.serve(&client)?,
            };
            next.push((client, named));
        }
        self.named.replace(next.iter().map(|(_, named)| named.clone()).collect());
        let before = std::mem::replace(&mut *current, next);
        Ok(changes(&before, &current))
    }

    /// Reads the providers of all clients again.
    pub(crate) async fn refresh(&self) {
        let named: Vec<_> = self.lock().iter().map(|(_, named)| named.clone()).collect();
        for named in named {
            named.server().refresh().await;
        }
    }

    /// A line for each pattern of a client that matches no server or tool: it may be misspelled.
    pub(crate) fn unmatched(&self, stubs: &[Provider]) -> Vec<String> {
        let mut names: Vec<_> =
            self.servers.status().into_iter().map(|status| (status.name, status.namespace)).collect();
        names.extend(stubs.iter().map(|stub| (stub.name().to_owned(), stub.name().to_owned())));
        let mut lines = Vec::new();
        for (Client { config, .. }, _) in &*self.lock() {
            let is_server = |pattern: &Pattern| {
                names.iter().any(|(name, namespace)| pattern.matches(name) || pattern.matches(namespace))
            };
            let mut add = |what: &str, pattern: &Pattern| {
                lines.push(format!("--clients: client {:?}: no {what} matches {:?}", config.name, pattern.as_str()));
            };
            config.servers.iter().filter(|pattern| !is_server(pattern)).for_each(|pattern| add("server", pattern));
            for pattern in config.allow.iter().chain(&config.deny) {
                if servers::is_unmatched(&in_code(pattern, &names), &self.servers, stubs) {
                    add("tool", pattern);
                }
            }
        }
        lines
    }

    fn serve(&self, client: &Client) -> Result<NamedClient, ClientsError> {
        let Client { config, token } = client;
        let state = match &self.state {
            Some(file) => {
                let name = config.state.as_deref().unwrap_or(&config.name);
                let failed = |error| ClientsError::State { client: config.name.clone(), error };
                Some(Arc::new(file.named(name).map_err(failed)?) as Arc<dyn StateStore>)
            }
            None => None,
        };
        let (limits, base) = (&config.limits, &self.options);
        let approver = ClientApprover { approvals: Arc::clone(&self.approvals), client: Some(config.name.clone()) };
        let options = base
            .clone()
            .limits(limits.of_program(base.limits))
            .max_timeout(limits.max_timeout.unwrap_or(base.max_timeout))
            .max_programs(limits.max_programs.map_or(base.max_programs, Into::into))
            .policy(self.policy.policy(&self.servers, Some(&config.name)).approver(Arc::new(approver)))
            .state(base.state.clone().shared(state));
        let grant = ServerGrant { config: config.clone(), servers: self.servers.clone() };
        let server = self.gateway.for_client(Restricted::new(Arc::clone(&self.source), grant), options);
        Ok(NamedClient::new(&config.name, token.clone(), server))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Client, NamedClient)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pattern with the namespace of a server in place of its name in the configuration.
fn in_code(pattern: &Pattern, names: &[(String, String)]) -> Pattern {
    let tool = |name: &str| pattern.as_str().strip_prefix(name)?.strip_prefix('.');
    let found = names.iter().find_map(|(name, namespace)| Some(format!("{namespace}.{}", tool(name)?)));
    found.map_or_else(|| pattern.clone(), Pattern::new)
}

/// What a client can use, where servers are named as in the configuration or as in code.
struct ServerGrant {
    config: ClientConfig,
    servers: Servers,
}

impl ServerGrant {
    /// The name of a server in the configuration; that of a stub file is its namespace.
    fn name(&self, namespace: &str) -> String {
        self.servers.configured_name(namespace).unwrap_or_else(|| namespace.to_owned())
    }
}

impl Grant for ServerGrant {
    fn grants_namespace(&self, namespace: &str) -> bool {
        self.config.grants_server([namespace, &self.name(namespace)])
    }

    fn grants_tool(&self, namespace: &str, names: [&str; 2], effect: Effect) -> bool {
        self.config.grants([namespace, &self.name(namespace)], names, effect)
    }
}

/// A line about clients that are new, have changed, or are gone.
fn changes(before: &[(Client, NamedClient)], after: &[(Client, NamedClient)]) -> Option<String> {
    let name = |(client, _): &(Client, NamedClient)| client.config.name.clone();
    let find = |all: &[(Client, NamedClient)], name: &str| {
        all.iter().find(|(client, _)| client.config.name == name).map(|(client, _)| client.clone())
    };
    let names = |of: &[(Client, NamedClient)], is_wanted: &dyn Fn(&str) -> bool| {
        let names = of.iter().map(name).filter(|name| is_wanted(name));
        names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
    };
    let added = names(after, &|name| find(before, name).is_none());
    let changed = names(after, &|name| find(before, name).is_some() && find(before, name) != find(after, name));
    let removed = names(before, &|name| find(after, name).is_none());
    let parts = [("added", added), ("changed", changed), ("removed", removed)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| format!("{what} {names}"));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("clients: {}", parts.join("; ")))
}
