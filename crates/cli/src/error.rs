//! Why a command fails, other than by the outcome of a program.

use std::io;
use std::time::Duration;

use execbox::jail::{Incomplete, Mode};
use execbox::transport::ListenError;
use execbox_mcp::oauth::LoginError;
use execbox_mcp::server::{HttpError, StateError};

use crate::commands::bench::BenchError;
use crate::commands::conform::{CasesError, KnownError};
use crate::commands::login::NoLogin;
use crate::commands::run_code::{ModulesError, OptionsFileError};
use crate::engine::{Engine, EngineChoice};
use crate::executor::ExecutorKind;
use crate::exit::Exit;
use crate::policy::PolicyError;
use crate::servers::ServersError;
use crate::source::{SourceError, reason};
use crate::state::StateFileError;
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
    #[error(transparent)]
    NoLogin(#[from] NoLogin),
    #[error("cannot log in to {server:?}: {error}")]
    Login { server: String, error: LoginError },
    #[error("cannot log in to {server:?}: nobody has logged in within {}", humantime::format_duration(*.limit))]
    LoginTimeout { server: String, limit: Duration },
    #[error("the stored logins cannot be used: {0}")]
    Logins(String),
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
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("no call with the id {0:?} waits for approval; `execbox approvals` lists those that do")]
    UnknownApproval(String),
    #[error("--log-file: {}", reason(.0))]
    LogFile(io::Error),
    #[error("--state {path}: {error}")]
    State { path: String, error: StateFileError },
    #[error("no file given: use --state FILE, where FILE is that of `execbox mcp --state FILE`")]
    NoStateFile,
    #[error("unknown snippet {name:?} in {path}; `execbox snippets --state {path}` lists all")]
    UnknownSnippet { name: String, path: String },
    #[error(transparent)]
    StateAccess(#[from] StateError),
    #[error("cannot read the state of the running gateways: {}", reason(.0))]
    Gateways(io::Error),
    #[error("--http: {}", http_reason(.0))]
    Http(#[from] HttpError),
    #[error(transparent)]
    Jail(#[from] Incomplete),
    #[error("--jail {0} needs --executor process: other executors have no process of their own to lock")]
    NothingToLock(Mode),
    #[error(
        "this execbox is built without the engine {0}; `cargo install execbox-cli --features {0}` builds one with it"
    )]
    EngineNotBuilt(Engine),
    #[error("--engine {0} needs --executor process, got {1}: a program can end the process that it runs in")]
    EngineNeedsProcess(Engine, ExecutorKind),
    #[error("--engine {0} needs --executor process: a program can end the process that it runs in")]
    SoakNeedsProcess(Engine),
    #[error(
        "--engine {0} is not supported with a remote executor: its runner chooses the engine (`execbox runner --engine ENGINE`)"
    )]
    RemoteEngine(EngineChoice),
    #[error("--auto-cpu needs --engine auto: with other engines, no program is started again")]
    NothingToStartAgain,
    #[error("--warm needs --engine v8: other engines have no isolates to keep ready")]
    NothingToWarm,
    #[error(
        "--engine {0} is not supported with --listen: a program can end the process, and with it those of other hosts; \
         start `execbox runner --engine {0}` on standard input and output for each connection, with systemd (Accept=yes) or socat"
    )]
    SharedEngine(Engine),
    #[error(transparent)]
    Bench(#[from] BenchError),
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
            Self::Interrupted | Self::Servers(ServersError::Interrupted) => Exit::Interrupted,
            Self::Login { .. } | Self::LoginTimeout { .. } | Self::Bench(BenchError::Failed { .. }) => {
                Exit::ProgramFailed
            }
            Self::Engine(_)
            | Self::Jail(_)
            | Self::Host(_)
            | Self::System(_)
            | Self::Output(_)
            | Self::Gateways(_)
            | Self::StateAccess(_) => Exit::ExecboxFailed,
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
