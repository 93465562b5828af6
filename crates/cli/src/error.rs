//! The interface of all errors of commands: a message of one line, and an exit code.
//!
//! Each command and each group of options defines its own errors. A command returns any of them as a [`CommandError`].

use std::error::Error;
use std::io;

use execbox::transport::ListenError;

use crate::exit::Exit;

/// An error of a command, other than the outcome of a program.
pub(crate) trait CliError: Error + Send + Sync {
    /// The exit code. The default is that of bad usage and bad input.
    fn exit(&self) -> Exit {
        Exit::BadInput
    }
}

/// An error of any command.
pub(crate) type CommandError = Box<dyn CliError>;

impl<E: CliError + 'static> From<E> for CommandError {
    fn from(error: E) -> Self {
        Box::new(error)
    }
}

/// Errors that every command can have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SystemError {
    #[error("interrupted")]
    Interrupted,
    /// The engine cannot be started.
    #[error("{0}")]
    Engine(String),
    #[error("cannot start: {}", reason(.0))]
    Start(io::Error),
    #[error("cannot write to standard output: {}", reason(.0))]
    Output(io::Error),
}

impl CliError for SystemError {
    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted => Exit::Interrupted,
            Self::Engine(_) | Self::Start(_) | Self::Output(_) => Exit::ExecboxFailed,
        }
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        SystemError::Start(error).into()
    }
}

/// The message of an error of the operating system, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_lowercase(),
        None => text,
    }
}

/// Why a command cannot listen, with the option that helps.
pub(crate) fn listen_reason(error: &ListenError) -> String {
    match error {
        ListenError::Io { socket, error } => format!("cannot listen on {socket}: {}", reason(error)),
        ListenError::NeedsToken(_) => format!("{error} (--token-file)"),
        ListenError::ClearText(_) => {
            format!("{error} (--tls-cert and --tls-key), or --insecure behind a proxy or a tunnel that encrypts")
        }
        ListenError::NeedsCertificate(_) => format!("{error} (--tls-cert and --tls-key)"),
        error => error.to_string(),
    }
}
