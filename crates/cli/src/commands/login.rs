//! `execbox login`: logs in to an MCP server with OAuth, or lists which servers need that.

use std::error::Error;
use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use execbox::CancellationToken;
use execbox_core::text::cut;
use execbox_mcp::config::{Config, ServerConfig, Transport};
use execbox_mcp::oauth::{Credentials, Login, LoginError, LoginState, OAuthClient, login_state};
use futures_util::future::join_all;

use crate::config::keyring::KeyringError;
use crate::config::logins::{LoginStore, LoginsError, Storage};
use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::options::servers::{self, Purpose, ServerArguments, ServerSources};
use crate::options::units::Time;
use crate::output::report;
use crate::output::terminal::safe_line;
use crate::process::interrupt;

/// Log in to an MCP server, or list the servers that need a login
///
/// Prints the address of a page where you log in, and opens it in a browser. The tokens are stored in a file that only you
/// can read, encrypted with a key in the keyring of the system if it has one, and are sent to the URL of this server only.
/// Running gateways use them at once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Log in to this server of the configuration [default: list the servers]
    #[arg(value_name = "SERVER")]
    name: Option<String>,

    /// Print the address, and open no browser
    #[arg(long)]
    no_browser: bool,

    /// Store the tokens as plain text, also if the system has a keyring
    #[arg(long)]
    no_keyring: bool,

    /// Fail if the login is not complete within TIME: `2m`
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value_t = Time(TIMEOUT))]
    timeout: Time,

    #[command(flatten)]
    servers: ServerSources,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let config = load(&arguments.servers)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = async |cancellation: CancellationToken| {
        let work = async {
            match &arguments.name {
                Some(name) => log_in(Remote::find(&config, name)?, arguments).await,
                None => list(&config).await,
            }
        };
        // A future of several kilobytes.
        cancellation.run_until_cancelled(Box::pin(work)).await.unwrap_or(Err(SystemError::Interrupted.into()))
    };
    let (done, _) = interrupt::cancel_on_interrupt(|cancellation| runtime.block_on(work(cancellation)));
    runtime.shutdown_background();
    done
}

/// Why a login or a logout fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginFailure {
    #[error("cannot log in to {server:?}: {error}")]
    Login { server: String, error: LoginError },
    #[error("cannot log in to {server:?}: the login was not complete within {}", humantime::format_duration(*.limit))]
    Timeout { server: String, limit: Duration },
    #[error("the stored logins cannot be used: {0}")]
    Logins(Box<dyn Error + Send + Sync>),
}

impl LoginFailure {
    pub(super) fn logins(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Logins(error.into())
    }
}

impl CliError for LoginFailure {
    fn exit(&self) -> Exit {
        match self {
            Self::Login { .. } | Self::Timeout { .. } => Exit::ProgramFailed,
            Self::Logins(_) => Exit::BadInput,
        }
    }
}

/// Reads the configuration of the servers.
pub(super) fn load(sources: &ServerSources) -> Result<Config, CommandError> {
    let arguments = ServerArguments::from(sources.clone());
    let config = servers::read(&arguments, &[], Purpose::Once)?.config;
    if config.servers.is_empty() && config.skipped.is_empty() {
        return Err(servers::none(&arguments).into());
    }
    Ok(config)
}

/// A server to which users can log in.
pub(super) struct Remote<'a> {
    pub(super) name: &'a str,
    pub(super) url: &'a str,
    client: &'a OAuthClient,
}

/// Why a server has no login.
#[derive(Debug, thiserror::Error)]
enum NoLogin {
    #[error("server {0:?} is a program (`command`): only servers with a `url` have a login")]
    Program(String),
    #[error("server {0:?} has the header `Authorization` in the configuration; remove it to log in")]
    Header(String),
}

impl CliError for NoLogin {}

impl<'a> Remote<'a> {
    pub(super) fn find(config: &'a Config, name: &str) -> Result<Self, CommandError> {
        Ok(Self::new(servers::find(config, name)?)?)
    }

    fn new(server: &'a ServerConfig) -> Result<Self, NoLogin> {
        let name = &server.name;
        match &server.transport {
            Transport::Http { headers, .. } if headers.iter().any(|(name, _)| is_authorization(name)) => {
                Err(NoLogin::Header(name.clone()))
            }
            Transport::Http { url, oauth, .. } => Ok(Self { name, url, client: oauth }),
            _ => Err(NoLogin::Program(name.clone())),
        }
    }
}

fn is_authorization(header: &str) -> bool {
    header.eq_ignore_ascii_case("authorization")
}

async fn log_in(Remote { name, url, client }: Remote<'_>, arguments: &Arguments) -> Result<Exit, CommandError> {
    let failed = |error| LoginFailure::Login { server: name.to_owned(), error };
    let store = Arc::new(store()?);
    // A store that cannot be used is reported before the user logs in.
    let previous = match stored(&store, name, url).await? {
        Err(error @ LoginsError::File(_)) => return Err(LoginFailure::logins(error).into()),
        Err(error) => {
            report::warn(&format_args!(
                "the stored login at {name:?} cannot be read, and this one replaces it: {error}"
            ));
            None
        }
        Ok(previous) => previous,
    };
    let login = Login::start(url, client, previous.as_ref(), "", REQUEST_TIMEOUT).await.map_err(failed)?;
    let (no_keyring, shared) = (arguments.no_keyring, Arc::clone(&store));
    let (storage, stored) = interruptible(move || storage(&shared, no_keyring)).await??;
    if let Some(missing) = previous.and_then(|previous| not_requested(client, &previous)) {
        report::warn(&format_args!("calls have lacked the scope {missing:?}: add it to `oauth.scopes`"));
    }
    report::note(&format_args!("to log in to {name:?}, open {}", safe_line(login.url())));
    if !arguments.no_browser && !open_browser(login.url()) {
        report::note(&"no browser could be started; open the address yourself");
    }
    let finished = tokio::time::timeout(arguments.timeout.0, login.finish()).await;
    let limit = arguments.timeout.0;
    let finished = finished.map_err(|_| LoginFailure::Timeout { server: name.to_owned(), limit })?;
    let credentials = finished.map_err(failed)?;
    store.replace(name, url, &credentials, &storage).map_err(LoginFailure::logins)?;
    report::note(&format_args!("logged in to {name:?}; the tokens are in {}, {stored}", store.path().display()));
    Ok(Exit::Success)
}

/// How the tokens are stored, with a description of that.
fn storage(store: &LoginStore, no_keyring: bool) -> Result<(Storage, String), LoginFailure> {
    if no_keyring {
        return Ok((Storage::Plain, "as plain text".to_owned()));
    }
    match store.encrypted() {
        Ok(storage) => Ok((storage, "encrypted with a key in the keyring".to_owned())),
        Err(error @ LoginsError::File(_)) => Err(LoginFailure::logins(error)),
        Err(LoginsError::Keyring(KeyringError::Unavailable(_))) => {
            Ok((Storage::Plain, "as plain text, because no keyring is available".to_owned()))
        }
        Err(error) => Ok((Storage::Plain, format!("as plain text, because {error}"))),
    }
}

/// Runs what can wait for the keyring, so that Ctrl-C ends it.
async fn interruptible<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, io::Error> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// The credentials of a server.
async fn stored(
    store: &Arc<LoginStore>,
    name: &str,
    url: &str,
) -> Result<Result<Option<Credentials>, LoginsError>, io::Error> {
    let (store, name, url) = (Arc::clone(store), name.to_owned(), url.to_owned());
    interruptible(move || store.stored(&name, &url)).await
}

/// The scopes that calls have lacked, and that the configuration does not request.
fn not_requested(client: &OAuthClient, previous: &Credentials) -> Option<String> {
    let is_missing = |scope: &&String| !client.scopes.is_empty() && !client.scopes.contains(scope);
    let missing: Vec<_> = previous.missing_scopes().iter().filter(is_missing).map(String::as_str).collect();
    Some(missing.join(" ")).filter(|missing| !missing.is_empty())
}

/// Prints a line for each server.
async fn list(config: &Config) -> Result<Exit, CommandError> {
    let store = Arc::new(store()?);
    let states = join_all(config.servers.iter().map(|server| state(server, &store))).await;
    let states = states.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut rows: Vec<_> = config.servers.iter().map(|server| &server.name).zip(states).collect();
    rows.extend(config.skipped.iter().map(|skipped| (&skipped.name, format!("skipped: {}", skipped.reason))));
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().min(MAX_NAME);
    let lines = rows.iter().map(|(name, state)| {
        let line = format!("{:width$}  {state}", cut(name, MAX_NAME));
        safe_line(&line).into_owned()
    });
    report::print(&lines.collect::<Vec<_>>().join("\n")).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

async fn state(server: &ServerConfig, store: &Arc<LoginStore>) -> Result<String, CommandError> {
    let Remote { name, url, .. } = match Remote::new(server) {
        Ok(remote) => remote,
        Err(NoLogin::Program(_)) => return Ok("no login: a program".to_owned()),
        Err(NoLogin::Header(_)) => return Ok("no login: has the header `Authorization`".to_owned()),
    };
    let stored = match stored(store, name, url).await? {
        Err(error @ LoginsError::File(_)) => return Err(LoginFailure::logins(error).into()),
        Err(error) => return Ok(format!("login unknown: {error}; log in again, with --no-keyring to need none")),
        Ok(stored) => stored,
    };
    if let Some(credentials) = stored.filter(Credentials::is_usable) {
        return Ok(match credentials.missing_scopes() {
            [] => "logged in".to_owned(),
            missing => format!("logged in; log in again for the scope {:?}", missing.join(" ")),
        });
    }
    Ok(match login_state(url, "", REQUEST_TIMEOUT).await {
        Ok(LoginState::Needed) => "login required".to_owned(),
        Ok(LoginState::NotNeeded) => "no login needed".to_owned(),
        Err(error) => error.to_string(),
    })
}

pub(super) fn store() -> Result<LoginStore, LoginFailure> {
    LoginStore::of_user().map_err(LoginFailure::logins)
}

/// Opens a page in a browser, without a shell. Returns whether a program for that was started.
fn open_browser(url: &str) -> bool {
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return false;
    }
    let mut command = Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    let command = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut browser) = command.spawn() else { return false };
    // The program may run as long as the browser does.
    std::thread::spawn(move || browser.wait());
    true
}

/// How long a user may take.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The time limit of each request to a server.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum width of the first column, in characters.
const MAX_NAME: usize = 40;

const EXAMPLES: &str = "\
Examples:
  execbox login --config ~/.cursor/mcp.json
  execbox login wiki --config ~/.cursor/mcp.json
  execbox login wiki --server wiki=https://wiki.example.com/mcp --no-browser

Exit codes:
  0    logged in, or the servers were listed
  1    the login failed
  2    bad usage or a bad configuration
  4    the list could not be written
  130  interrupted by Ctrl-C";
