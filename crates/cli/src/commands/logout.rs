//! `execbox logout`: removes the tokens of an MCP server.

use clap::Args;
use execbox::CancellationToken;
use execbox_mcp::oauth::{TokenStore as _, revoke};

use super::login::{LoginFailure, REQUEST_TIMEOUT, Remote, load, store};
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::servers::ServerArguments;
use crate::{interrupt, report};

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
    servers: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let (config, store) = (load(&arguments.servers)?, store()?);
    let Remote { name, url, .. } = Remote::find(&config, &arguments.name)?;
    let Some(credentials) = store.load(name, url).map_err(LoginFailure::logins)? else {
        report::note(&format_args!("not logged in to {name:?}"));
        return Ok(Exit::Success);
    };
    store.replace(name, url, None).map_err(LoginFailure::logins)?;
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
        Err(error) => {
            report::note(&format_args!("logged out of {name:?}"));
            report::note(&format_args!(
                "warning: its tokens were not revoked and are valid until they expire: {error}"
            ));
        }
    }
    Ok(Exit::Success)
}

const EXAMPLES: &str = "\
Examples:
  execbox logout wiki --config ~/.cursor/mcp.json

Exit codes:
  0    logged out, or there were no tokens; tokens that could not be revoked are mentioned
  2    bad usage or a bad configuration
  130  interrupted by Ctrl-C";
