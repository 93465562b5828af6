//! Why a command fails, other than by the outcome of a program.

use std::io;

use execbox::transport::ListenError;
use execbox_mcp::server::HttpError;

use crate::commands::conform::{CasesError, KnownError};
use crate::commands::run_code::{ModulesError, OptionsFileError};
use crate::exit::Exit;
use crate::servers::ServersError;
use crate::source::{SourceError, reason};
use crate::stub::StubError;
use crate::token::TokenSourceError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Token(#[from] TokenSourceError),
    #[error(transparent)]
    Stub(#[from] StubError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error(transparent)]
    Options(#[from] OptionsFileError),
    #[error(transparent)]
    Modules(#[from] ModulesError),
    #[error(transparent)]
    Cases(#[from] CasesError),
    #[error(transparent)]
    Known(#[from] KnownError),
    #[error("no MCP server given: use --config FILE or --server 'NAME=COMMAND'")]
    NoServer,
    #[error("unknown namespace {name:?}: expected {}", one_of(.known))]
    UnknownNamespace { name: String, known: Vec<String> },
    #[error("{NOTHING_TO_SERVE}")]
    NothingToServe,
    #[error("no MCP server left: every configured server is disabled or is execbox itself")]
    AllServersSkipped,
    #[error("the configuration starts execbox recursively: remove the server that starts `execbox mcp`")]
    Recursion,
    #[error("duplicate tool name {0:?}: --search-name, --execute-name and --code-name must differ")]
    DuplicateToolName(String),
    #[error(
        "no runner given: use `execbox conform -- COMMAND` to start one, or `execbox conform --connect ADDRESS` to connect to one"
    )]
    NoRunner,
    #[error("cannot reach the runner `{runner}`: {}", reason(.error))]
    RunnerUnreachable { runner: String, error: io::Error },
    #[error("--listen: {}", listen_reason(.0))]
    Listen(#[from] ListenError),
    #[error("--http: {}", http_reason(.0))]
    Http(#[from] HttpError),
    #[error("interrupted")]
    Interrupted,
    /// The engine does not start.
    #[error("{0}")]
    Engine(String),
    #[error("connection to the host failed: {}", reason(.0))]
    Host(io::Error),
    #[error("cannot start: {}", reason(.0))]
    System(#[from] io::Error),
    #[error("cannot write to standard output: {}", reason(.0))]
    Output(io::Error),
}

impl CliError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Interrupted => Exit::Interrupted,
            Self::Engine(_) | Self::Host(_) | Self::System(_) | Self::Output(_) => Exit::ExecboxFailed,
            _ => Exit::BadInput,
        }
    }
}

fn one_of(names: &[String]) -> String {
    match names {
        [] => "none; no server is available".to_owned(),
        [name] => name.clone(),
        names => format!("one of {}", names.join(", ")),
    }
}

fn listen_reason(error: &ListenError) -> String {
    match error {
        ListenError::Io { socket, error } => format!("cannot listen on {socket}: {}", reason(error)),
        ListenError::NeedsToken(_) => format!("{error} (--token-file)"),
        error => error.to_string(),
    }
}

fn http_reason(error: &HttpError) -> String {
    match error {
        HttpError::Listen(error) => listen_reason(error),
        error => error.to_string(),
    }
}

const NOTHING_TO_SERVE: &str = "no MCP server given: use `execbox mcp --config FILE`, where FILE is the configuration of \
    your MCP client or contains { \"mcpServers\": { \"NAME\": { \"command\": \"PROGRAM\", \"args\": [\"…\"] } } }, or \
    `execbox mcp --server 'NAME=PROGRAM ARGUMENTS'` (see `--help`)";
