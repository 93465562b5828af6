//! `execbox logout`: removes the tokens of an MCP server.

use std::fmt::Display;

use clap::Args;
use execbox::CancellationToken;
use execbox_mcp::oauth::revoke;

use super::login::{LoginFailure, REQUEST_TIMEOUT, Remote, load, store};
use crate::config::logins::LoginsError;
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::options::servers::ServerSources;
use crate::output::report;
use crate::process::interrupt;

/// Log out of an MCP server: remove its tokens, and revoke them
///
/// The tokens are removed first. They are revoked if the authorization server supports that.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Log out of this server of the configuration
    #[arg(value_name = "SERVER")]
    name: String,

    #[command(flatten)]
    servers: ServerSources,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let (config, store) = (load(&arguments.servers)?, store()?);
    let Remote { name, url, .. } = Remote::find(&config, &arguments.name)?;
    let stored = match store.stored(name, url) {
        Err(error @ LoginsError::File(_)) => return Err(LoginFailure::logins(error).into()),
        Ok(None) => {
            report::note(&format_args!("not logged in to {name:?}"));
            return Ok(Exit::Success);
        }
        Ok(Some(credentials)) => Ok(credentials),
        Err(error) => Err(error),
    };
    store.remove(name, url).map_err(LoginFailure::logins)?;
    let credentials = match stored {
        Ok(credentials) => credentials,
        Err(error) => {
            not_revoked(name, &error);
            return Ok(Exit::Success);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let revoked = async |cancellation: CancellationToken| {
        let revoking = revoke(&credentials, "", REQUEST_TIMEOUT);
        cancellation.run_until_cancelled(revoking).await.ok_or(SystemError::Interrupted)
    };
    let (revoked, _) = interrupt::cancel_on_interrupt(|cancellation| runtime.block_on(revoked(cancellation)));
    runtime.shutdown_background();
    match revoked? {
        Ok(true) => report::note(&format_args!("logged out of {name:?}; its tokens are revoked")),
        Ok(false) => report::note(&format_args!(
            "logged out of {name:?}; its authorization server does not revoke tokens: they expire by themselves"
        )),
        Err(error) => not_revoked(name, &error),
    }
    Ok(Exit::Success)
}

fn not_revoked(name: &str, reason: &dyn Display) {
    report::note(&format_args!("logged out of {name:?}"));
    report::warn(&format_args!("its tokens were not revoked and are valid until they expire: {reason}"));
}

const EXAMPLES: &str = "\
Examples:
  execbox logout wiki --config ~/.cursor/mcp.json

Exit codes:
  0    logged out, or there were no tokens
  2    bad usage or a bad configuration
  130  interrupted by Ctrl-C";
