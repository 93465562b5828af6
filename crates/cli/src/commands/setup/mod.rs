//! `execbox setup`: puts a gateway in front of the servers of MCP clients.
//!
//! The entries of the servers move from the file of a client to a file of execbox, and an entry that starts `execbox mcp` with
//! that file takes their place.

mod change;
mod clients;
mod launcher;
mod listing;
mod place;
mod selection;
mod store;

use std::env;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use execbox_core::hint::near;
use execbox_mcp::config::{Config, EditError};

use self::change::{Change, Kind, Part};
use self::clients::CLIENTS;
use self::listing::{Check, Checks, Listing};
use self::place::{Place, Search};
use self::selection::Selected;
use self::store::Store;
use crate::commands::mcp;
use crate::config::context::{FileContext, Needs};
use crate::config::files::Files;
use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::files::private_file::{Lock, PrivateError};
use crate::files::rewrite::RewriteError;
use crate::files::source::RegularFileError;
use crate::options::units::Time;
use crate::output::path::shown;
use crate::output::report;
use crate::process::secrecy;
use crate::prompt::{Attended, PromptError, Terminal};

/// Put execbox in front of the MCP servers of your clients
///
/// Finds the servers of Claude Code, Claude Desktop, Codex, Cursor, Gemini CLI, VS Code, Windsurf and Zed. Those that you
/// select move to a file of execbox, and the client starts `execbox mcp` with that file instead. Comments and order of
/// everything else stay. Without CLIENT, lists the clients, and asks about each at a terminal.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Select the servers of these clients: `cursor`, or one server: `cursor.github`
    #[arg(value_name = "CLIENT[.SERVER]")]
    clients: Vec<String>,

    /// Select the servers of all clients
    #[arg(long, conflicts_with = "clients")]
    all: bool,

    #[command(flatten)]
    consent: Consent,

    /// Move the servers back, and remove the entry that starts execbox
    #[arg(long, conflicts_with_all = ["no_connect", "command", "options"])]
    undo: bool,

    /// Print JSON: the clients and their servers
    #[arg(long, conflicts_with_all = ["clients", "all", "dry_run", "yes", "undo"])]
    json: bool,

    #[command(flatten)]
    connection: Connection,

    /// Let clients start execbox with COMMAND [default: this binary, or what has fetched it: `uvx execbox`]
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,

    /// Options of `execbox mcp` for these clients: `-- --read-only`
    #[arg(last = true, value_name = "GATEWAY_OPTION")]
    options: Vec<String>,
}

/// Whether the servers are started, to list their tools and to find those that do not work.
#[derive(Debug, Args)]
struct Connection {
    /// Do not start the servers to list their tools
    #[arg(long)]
    no_connect: bool,

    /// Wait at most TIME for each server
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value_t = Time(TIMEOUT))]
    timeout: Time,
}

/// What to do before something is written. By default, the changes are shown, and the user is asked.
#[derive(Debug, Args)]
struct Consent {
    /// Show the changes, and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Write the changes without asking
    #[arg(short, long, conflicts_with = "dry_run")]
    yes: bool,
}

#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error("unknown client or server {name:?}: {hint}")]
    Unknown { name: String, hint: String },
    #[error("{client}: the server {server:?} cannot be moved: {reason}")]
    NotMovable { client: String, server: String, reason: String },
    #[error(
        "{client} starts execbox already, with servers of your choice: add the others there, or rename the entry \"execbox\" in {file}"
    )]
    OtherGateway { client: String, file: String },
    #[error("{client} is set up in {file}: run `execbox setup --undo {id}` first")]
    OtherFile { client: &'static str, id: &'static str, file: String },
    #[error("{}", edit_text(.file, .other, .error))]
    Edit { file: String, other: String, error: Box<EditError> },
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error(transparent)]
    Private(#[from] PrivateError),
    #[error("{file}: {error}")]
    Servers { file: String, error: RegularFileError },
    #[error(
        "{file} is missing or empty: write the servers into {client} by hand{}",
        .backup.as_ref().map(|backup| format!("; {backup} is a copy from before")).unwrap_or_default()
    )]
    NoServers { file: String, client: String, backup: Option<String> },
    #[error("invalid --command {0:?}: expected a program with arguments, such as 'npx --yes execbox'")]
    Command(String),
    #[error(
        "the path of this binary, or of the configuration, is not UTF-8; use --command, or another XDG_CONFIG_HOME"
    )]
    NotUtf8,
    #[error("invalid options of `execbox mcp`: {0}")]
    Options(String),
    #[error("no client was set up by `execbox setup`{}", .0.as_ref().map(|name| format!(" with the name {name:?}")).unwrap_or_default())]
    NothingToUndo(Option<String>),
    #[error(
        "there is no terminal to ask at; use --yes to write this without a question, or --dry-run to see the changes only"
    )]
    NoTerminal,
    #[error("nothing is written")]
    Declined,
    #[error("interrupted; nothing is written")]
    Interrupted,
}

/// Why the file of a client cannot be edited. `other` is the file of the servers behind the gateway.
fn edit_text(file: &str, other: &str, error: &EditError) -> String {
    match error {
        EditError::Invalid(error) => format!("{file}:{error}"),
        EditError::Exists { server } => format!(
            "{file}: the server {server:?} is in {other}, too, and differs there; rename it, or remove one of the two"
        ),
        error => format!("{file}: {error}"),
    }
}

impl CliError for SetupError {
    fn exit(&self) -> Exit {
        match self {
            Self::Declined => Exit::ProgramFailed,
            Self::Interrupted => Exit::Interrupted,
            _ => Exit::BadInput,
        }
    }
}

impl From<PromptError> for SetupError {
    fn from(error: PromptError) -> Self {
        if matches!(error, PromptError::Interrupted) { Self::Interrupted } else { Self::Declined }
    }
}

impl SetupError {
    fn edit(file: &Path, other: &Path, error: EditError) -> Self {
        Self::Edit { file: shown(file), other: shown(other), error: Box::new(error) }
    }

    /// The error for an argument that selects nothing.
    fn unknown(argument: &str, places: &[Place]) -> Self {
        let id = argument.split(['.', ':']).next().unwrap_or_default();
        let hint = match CLIENTS.iter().find(|client| client.id == id) {
            Some(client) if places.iter().any(|place| place.client.id == id) => {
                let of_client = places.iter().filter(|place| place.client.id == id);
                let names = of_client.flat_map(|place| &place.servers).map(|found| format!("{id}.{}", found.name));
                format!("{} has {}", client.name, listed(names))
            }
            Some(client) => {
                let file = client.file().map(|file| format!(" in {}", shown(&file))).unwrap_or_default();
                format!("{} has no servers{file}", client.name)
            }
            None => match near(id, CLIENTS.iter().map(|client| client.id)) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("expected one of {}", listed(CLIENTS.iter().map(|client| client.id.to_owned()))),
            },
        };
        Self::Unknown { name: argument.to_owned(), hint }
    }
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "no other servers".to_owned() } else { names.join(", ") }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    secrecy::protect();
    let store = Store::of_user().map_err(SetupError::from)?;
    if arguments.undo {
        return undo(arguments, &store);
    }
    mcp::check_options(&arguments.options).map_err(SetupError::Options)?;
    let launcher = launcher(arguments)?;
    let search = place::search(&store).map_err(SetupError::from)?;
    let is_named = arguments.all || arguments.consent.dry_run || !arguments.clients.is_empty();
    let selected = match (is_named, &arguments.clients[..]) {
        (true, []) => selection::all(&search.places),
        (true, names) => selection::named(&search.places, names)?,
        (false, _) => match list(&search, arguments)? {
            Some(mut terminal) => selection::ask(&search.places, &mut terminal).map_err(SetupError::from)?,
            None => return Ok(Exit::Success),
        },
    };
    if is_named {
        search.problems.iter().for_each(report::warn);
        if selected.is_empty() {
            report::note(&NO_SERVERS);
        }
        if !arguments.connection.no_connect && !arguments.consent.dry_run {
            // Errors are found before servers are started.
            changes(&search, &selected, &launcher, &arguments.options)?;
            warn_of_failures(&search, &selected, arguments.connection.timeout.0)?;
        }
    }
    // Clients write their files often: those that were read before servers were started may be old.
    let lock = reading(&store, arguments)?;
    let search = place::search(&store).map_err(SetupError::from)?;
    let mut changes = changes(&search, &selected, &launcher, &arguments.options)?;
    drop(lock);
    for change in changes.extract_if(.., |change| change.is_empty()) {
        report::note(&format_args!("{}: execbox is in front of these servers already", change.client.name));
    }
    confirm(&changes, arguments)?;
    changes.iter().for_each(Change::warn_of_disabled_gateways);
    if !arguments.consent.dry_run {
        changes.iter().try_for_each(|change| change.write(&store))?;
        changes.iter().flat_map(|change| &change.parts).for_each(ask_for_inputs);
    }
    Ok(Exit::Success)
}

/// A lock for reading files that belong together. None to show changes only, which writes nothing.
fn reading(store: &Store, arguments: &Arguments) -> Result<Option<Lock>, SetupError> {
    if arguments.consent.dry_run { Ok(None) } else { Ok(Some(store.lock()?)) }
}

/// The changes of files that put a gateway in front of the selected servers.
fn changes(
    search: &Search,
    selected: &Selected,
    launcher: &[String],
    options: &[String],
) -> Result<Vec<Change>, SetupError> {
    let mut changes: Vec<Change> = Vec::new();
    for (id, names) in selected {
        let place = search.places.iter().find(|place| place.id() == *id);
        let place = place.ok_or_else(|| SetupError::unknown(id, &search.places))?;
        if changes.last().is_none_or(|change| change.client.id != place.client.id) {
            changes.push(Change::new(place.client, &place.path, Rc::clone(&place.file), Kind::Setup));
        }
        if let Some(change) = changes.last_mut() {
            change.insert_gateway(place, names, launcher, options)?;
        }
    }
    Ok(changes)
}

/// Prints the clients. Returns the terminal at which the user can choose, if there is one and something to choose.
fn list(search: &Search, arguments: &Arguments) -> Result<Option<Terminal>, CommandError> {
    let checks = if arguments.connection.no_connect {
        Checks::default()
    } else {
        let found = search.places.iter().flat_map(|place| place.servers.iter().chain(&place.behind));
        Checks::of(found, arguments.connection.timeout.0)?
    };
    let listing = Listing::new(search, &checks);
    if arguments.json {
        let text = serde_json::to_string(&listing).map_err(|error| SystemError::Output(error.into()))?;
        report::print(&text).map_err(SystemError::Output)?;
        return Ok(None);
    }
    report::print_lines(&listing.lines()).map_err(SystemError::Output)?;
    search.problems.iter().for_each(report::warn);
    if listing.is_empty() {
        report::note(&NO_SERVERS);
        return Ok(None);
    }
    if selection::all(&search.places).iter().all(|(_, names)| names.is_empty()) {
        report::note(&"no server is left to put execbox in front of; `execbox setup --undo` moves them back");
        return Ok(None);
    }
    let terminal = Terminal::open(Attended::InputOrError);
    if terminal.is_none() {
        report::note(&"to put execbox in front of servers, name clients, or use --all; --dry-run shows the changes");
    }
    Ok(terminal)
}

/// Warns of servers that do not work behind execbox.
fn warn_of_failures(search: &Search, selected: &Selected, timeout: Duration) -> Result<(), CommandError> {
    let is_selected =
        |place: &Place, name: &String| selected.iter().any(|(id, names)| *id == place.id() && names.contains(name));
    let all = search.places.iter().flat_map(|place| place.servers.iter().map(move |found| (place, found)));
    let moved: Vec<_> = all.filter(|(place, found)| is_selected(place, &found.name)).collect();
    let checks = Checks::of(moved.iter().map(|(_, found)| *found), timeout)?;
    for (place, found) in moved {
        if let Some(Check::Failed(reason)) = checks.get(found) {
            report::warn(&format_args!("{}: the server {:?} does not work: {reason}", place.title(), found.name));
        }
    }
    Ok(())
}

/// The command with which clients start execbox.
fn launcher(arguments: &Arguments) -> Result<Vec<String>, CommandError> {
    if let Some(command) = &arguments.command {
        let words = shlex::split(command).filter(|words| !words.is_empty());
        return Ok(words.ok_or_else(|| SetupError::Command(command.clone()))?);
    }
    let binary = env::current_exe()?;
    let search = env::var("PATH").ok();
    Ok(launcher::of(&binary, search.as_deref()).ok_or(SetupError::NotUtf8)?)
}

/// Shows the changes, and asks for consent unless the arguments give it.
fn confirm(changes: &[Change], arguments: &Arguments) -> Result<(), CommandError> {
    if changes.is_empty() || arguments.consent.yes {
        return Ok(());
    }
    let lines: Vec<_> = changes.iter().flat_map(Change::lines).collect();
    report::print_lines(&lines).map_err(SystemError::Output)?;
    if arguments.consent.dry_run {
        return Ok(());
    }
    let mut terminal = Terminal::open(Attended::InputOrError).ok_or(SetupError::NoTerminal)?;
    match terminal.choose("", "Write this? y/n: ", "yn").map_err(SetupError::from)? {
        'y' => Ok(()),
        _ => Err(SetupError::Declined.into()),
    }
}

fn undo(arguments: &Arguments, store: &Store) -> Result<Exit, CommandError> {
    let lock = reading(store, arguments)?;
    let records = store.records().map_err(SetupError::from)?;
    let mut selected = arguments.clients.iter().map(|name| (name, false)).collect::<Vec<_>>();
    let mut changes = Vec::new();
    for (client, record) in &records {
        let mut is_selected = |id: &String| {
            let named = selected.iter_mut().filter(|(name, _)| *name == id || *name == client);
            named.map(|(_, found)| *found = true).count() > 0 || arguments.clients.is_empty()
        };
        let ids: Vec<_> = record.places.keys().filter(|id| is_selected(id)).cloned().collect();
        if !ids.is_empty() {
            changes.push(Change::undo(store, client, record, &ids)?);
        }
    }
    if let Some((name, _)) = selected.iter().find(|(_, found)| !found) {
        return Err(SetupError::NothingToUndo(Some((*name).clone())).into());
    }
    drop(lock);
    if changes.is_empty() {
        return Err(SetupError::NothingToUndo(None).into());
    }
    confirm(&changes, arguments)?;
    if !arguments.consent.dry_run {
        changes.iter().try_for_each(|change| change.write(store))?;
    }
    Ok(Exit::Success)
}

/// Asks for the values of inputs: a gateway cannot do that when a client starts it.
fn ask_for_inputs(part: &Part) {
    let context = FileContext::new(&part.servers_file, Attended::InputOrError, Files::default());
    let mut config = Config::default();
    let read = config.read(&part.servers_after, &context);
    let _ = context.finish(&mut Needs::default());
    if read.is_err() {
        return;
    }
    for skipped in &config.skipped {
        let (title, name, reason) = (&part.title, &skipped.name, &skipped.reason);
        report::warn(&format_args!("{title}: the server {name:?} cannot be used yet: {reason}"));
    }
}

const NO_SERVERS: &str = "no MCP client of this user has servers to put execbox in front of";

/// The default of `--timeout`.
const TIMEOUT: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  execbox setup
  execbox setup cursor claude-desktop.github --dry-run
  execbox setup --all --yes -- --read-only
  execbox setup --undo cursor

Exit codes:
  0    listed, shown or written
  1    declined
  2    bad usage, or a file that cannot be read, edited or written
  4    the list could not be written
  130  interrupted by Ctrl-C";
