//! `execbox approvals`: the calls of running gateways that wait for approval.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use execbox_core::text::{Keep, escape};
use execbox_mcp::Pattern;
use serde::Serialize;

use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::gateway::always::AlwaysError;
use crate::gateway::approvals::{self, Request, Response, WaitingApproval};
use crate::gateway::running::{self, GatewaysError};
use crate::output::report;
use crate::output::style;
use crate::output::table::{Cell, Table};
use crate::output::terminal::{safe, safe_line};
use crate::prompt::{Attended, Terminal};

/// List, approve and refuse calls that wait for approval
///
/// The calls are those of programs of running gateways, whose time limits are paused until the answer. Without a command, lists the calls.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Print JSON: an array of calls; with `watch`, a call on each line
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the calls, as without a command
    List,
    /// Show calls as they arrive, and ask about each at a terminal; ends with Ctrl-C
    Watch,
    /// Show calls with all of their arguments
    Show {
        /// The calls, by their ids in the list
        #[arg(required = true)]
        id: Vec<String>,
    },
    /// Make calls
    Approve {
        #[command(flatten)]
        calls: Selection,

        /// Also make all later calls of these tools, of any client, until the gateway ends
        #[arg(long)]
        later: bool,

        /// Also make all later calls of these tools, of any client, for ever: show the change of the configuration, ask, and write it
        #[arg(long, conflicts_with = "later")]
        always: bool,

        /// Write the change without asking
        #[arg(long, requires = "always")]
        yes: bool,
    },
    /// Do not make calls: they fail in the program
    Deny {
        #[command(flatten)]
        calls: Selection,

        /// What the program and the model learn
        #[arg(long, value_name = "TEXT", default_value = REFUSED)]
        reason: String,
    },
}

/// Calls that wait.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Selection {
    /// The calls, by their ids in the list
    id: Vec<String>,

    /// All waiting calls of tools that match: `github.create_*` (repeatable)
    #[arg(long, value_name = "SERVER.TOOL")]
    tool: Vec<String>,

    /// All waiting calls
    #[arg(long)]
    all: bool,
}

/// The error for a pattern that no waiting call matches.
#[derive(Debug, thiserror::Error)]
#[error("no call of {0:?} waits for approval; `execbox approvals` lists those that do")]
struct NoSuchCall(String);

impl CliError for NoSuchCall {}

/// The error for an id that no waiting call has.
#[derive(Debug, thiserror::Error)]
#[error("no call with the id {0:?} waits for approval; `execbox approvals` lists those that do")]
struct UnknownApproval(String);

impl CliError for UnknownApproval {}

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CommandError> {
    match arguments.command {
        None | Some(Command::List) => list(arguments.json),
        Some(Command::Show { id }) => show(&id),
        Some(Command::Approve { calls, always: true, yes, .. }) => decide(&calls, |id| approve_always(id, yes)),
        Some(Command::Approve { calls, later, .. }) => {
            let extent = if later { Extent::Later } else { Extent::Call };
            decide(&calls, |id| decide_one(id, None, extent))
        }
        Some(Command::Deny { calls, reason }) => decide(&calls, |id| decide_one(id, Some(&reason), Extent::Call)),
        Some(Command::Watch) => watch(arguments.json),
    }
}

fn list(json: bool) -> Result<Exit, CommandError> {
    let calls = pending()?;
    if !json && calls.is_empty() {
        report::note(&"no call waits for approval");
        return Ok(Exit::Success);
    }
    let printed = if json { print_json(&calls) } else { report::print_lines(&table(&calls).lines()) };
    printed.map_err(SystemError::Output)?;
    Ok(Exit::Success)
}

fn show(ids: &[String]) -> Result<Exit, CommandError> {
    for id in ids {
        let Response::Call(text) = of_gateway(id, &Request::Show { id: id.clone() })? else {
            return Err(UnknownApproval(id.clone()).into());
        };
        report::print(&safe(&text)).map_err(SystemError::Output)?;
    }
    Ok(Exit::Success)
}

/// The calls that an approval is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Call,
    /// All calls of the tool until the gateway ends.
    Later,
    /// All calls of the tool, because the configuration says so.
    Always,
}

/// Decides about calls by `decide_one`, which returns false if no call with the id waits.
fn decide(calls: &Selection, decide_one: impl Fn(&str) -> Result<bool, CommandError>) -> Result<Exit, CommandError> {
    for id in &calls.id {
        if !decide_one(id)? {
            return Err(UnknownApproval(id.clone()).into());
        }
    }
    let waiting = if calls.all || !calls.tool.is_empty() { pending()? } else { return Ok(Exit::Success) };
    if calls.all && waiting.is_empty() {
        report::note(&"no call waits for approval");
    }
    let patterns: Vec<_> = calls.tool.iter().map(|text| Pattern::new(text.as_str())).collect();
    if let Some(unmatched) = patterns.iter().find(|pattern| !waiting.iter().any(|call| pattern.matches(&call.tool))) {
        return Err(NoSuchCall(unmatched.as_str().to_owned()).into());
    }
    let is_selected = |call: &&WaitingApproval| calls.all || patterns.iter().any(|pattern| pattern.matches(&call.tool));
    for call in waiting.iter().filter(is_selected) {
        decide_one(&call.id)?; // Somebody else may have decided meanwhile.
    }
    Ok(Exit::Success)
}

/// Adds the tool of a call to the configuration, and approves the call. Returns false if no call with this id waits.
fn approve_always(id: &str, is_confirmed: bool) -> Result<bool, CommandError> {
    let target = match of_gateway(id, &Request::Where { id: id.to_owned() })? {
        Response::Entry(target) => target,
        Response::NoEntry(error) => return Err(error.into()),
        _ => return Ok(false),
    };
    match target.change()? {
        None => report::note(&format_args!("{} allows {} already", target.file(), target.tool())),
        Some(change) => {
            match (is_confirmed, Terminal::open(Attended::InputOrError)) {
                (false, Some(mut terminal)) => change.write_if_confirmed(&mut terminal)?,
                (true, _) => {
                    report::note(&change.text());
                    change.write()?;
                }
                (false, None) => {
                    report::note(&change.text());
                    return Err(AlwaysError::NoTerminal.into());
                }
            }
            report::note(&format_args!("{} written", target.file()));
        }
    }
    if !decide_one(id, None, Extent::Always)? {
        report::note(&format_args!("{id} does not wait any more"));
    }
    Ok(true)
}

/// Returns false if no call with this id waits.
fn decide_one(id: &str, refused: Option<&str>, extent: Extent) -> Result<bool, CommandError> {
    let (later, always) = (extent == Extent::Later, extent == Extent::Always);
    let decision = Request::Decide { id: id.to_owned(), refused: refused.map(str::to_owned), later, always };
    let is_decided = match of_gateway(id, &decision) {
        Ok(Response::Decided) => true,
        Ok(_) => false,
        Err(error) => return Err(error),
    };
    if is_decided {
        report::note(&format_args!("{id} {}", if refused.is_some() { "refused" } else { "approved" }));
    }
    Ok(is_decided)
}

/// Shows the calls that wait as they arrive.
fn watch(json: bool) -> Result<Exit, CommandError> {
    report::note(&"waiting for calls; Ctrl-C ends");
    let mut known = HashSet::new();
    loop {
        let waiting = pending()?;
        known.retain(|id| waiting.iter().any(|call| call.id == *id));
        for call in waiting {
            if !known.insert(call.id.clone()) {
                continue;
            }
            if let Some(mut terminal) = Terminal::open(Attended::InputOrError).filter(|_| !json) {
                ask(&mut terminal, &call)?;
            } else {
                let table = || report::print_lines(&table(std::slice::from_ref(&call)).lines());
                let printed = if json { print_json(&call) } else { table() };
                printed.map_err(SystemError::Output)?;
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks about a call at the terminal, and sends the answer.
fn ask(terminal: &mut Terminal, call: &WaitingApproval) -> Result<(), CommandError> {
    let target = match of_gateway(&call.id, &Request::Where { id: call.id.clone() }) {
        Ok(Response::Entry(target)) => Some(target),
        _ => None, // A gateway of an earlier version does not know the request.
    };
    let always = target.as_ref().map(|target| format!("w = always, written to {}, ", target.file()));
    let (letters, always) = (if always.is_some() { "yanslw" } else { "yansl" }, always.unwrap_or_default());
    let of = call.client.as_ref().map(|client| format!(" of client {client}")).unwrap_or_default();
    let choice = format!(
        "Make call {}{of}? y = yes, a = all calls of {} until the gateway ends, {always}n = no, s = show all of it, l = later: ",
        call.id, call.tool
    );
    let mut text = call.question.clone();
    let decided = loop {
        match terminal.choose(&format!("\n{text}\n"), &safe_line(&choice), letters) {
            Ok('s') => match of_gateway(&call.id, &Request::Show { id: call.id.clone() })? {
                Response::Call(whole) => text = whole,
                _ => break false,
            },
            Ok('w') if !target.as_ref().is_some_and(|target| target.write_at(terminal)) => {}
            Ok('w') => break decide_one(&call.id, None, Extent::Always)?,
            Ok('y') => break decide_one(&call.id, None, Extent::Call)?,
            Ok('a') => break decide_one(&call.id, None, Extent::Later)?,
            Ok('n') => break decide_one(&call.id, Some(REFUSED), Extent::Call)?,
            Ok(_) | Err(_) => return Ok(()), // The call still waits.
        }
    };
    if !decided {
        report::note(&format_args!("{} does not wait any more", call.id));
    }
    Ok(())
}

/// The response of the gateway that has the call with this id.
fn of_gateway(id: &str, request: &Request) -> Result<Response, CommandError> {
    let unknown = || UnknownApproval(id.to_owned());
    let pid = id.split_once('.').and_then(|(pid, _)| pid.parse().ok()).ok_or_else(unknown)?;
    approvals::request(pid, request)
        .map_err(|error| if is_gone(&error) { unknown().into() } else { GatewaysError(error).into() })
}

/// The calls of all gateways that wait for approval.
fn pending() -> Result<Vec<WaitingApproval>, CommandError> {
    let mut calls = Vec::new();
    for gateway in running::list()? {
        match approvals::request(gateway.pid, &Request::List) {
            Ok(Response::Pending(pending)) => calls.extend(pending),
            Ok(_) => {}
            Err(error) if is_gone(&error) => {} // The gateway has no socket, or has ended.
            Err(error) => return Err(GatewaysError(error).into()),
        }
    }
    Ok(calls)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn print_json(value: &impl Serialize) -> io::Result<()> {
    report::print(&serde_json::to_string(value).map_err(io::Error::other)?)
}

/// A line for each call: `4711.3  shop.delete_order  ci  12s  {"order_id":"A17"}`, where `ci` is the name of a client that has one.
fn table(calls: &[WaitingApproval]) -> Table {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut table = Table::new(0);
    for call in calls {
        let age = humantime::format_duration(Duration::from_secs(now.as_secs().saturating_sub(call.since_ms / 1000)));
        let client = call.client.as_ref().map(ToString::to_string).unwrap_or_default();
        // No character of a call may mislead the person who approves it.
        let cell = |style, text: &str| Cell::new(style, &escape(text, Keep::Nothing));
        table.row([
            cell(style::TITLE, &call.id),
            cell(style::NAME, &call.tool),
            cell(style::PLAIN, &client),
            cell(style::DETAIL, &age.to_string()),
            cell(style::PLAIN, &call.arguments),
        ]);
    }
    table
}

/// What programs learn about calls that are refused without a reason.
const REFUSED: &str = "the user refused the call";

/// The pause between looks for new calls.
const PAUSE: Duration = Duration::from_millis(300);

const EXIT_CODES: &str = "\
Exit codes:
  0    the calls were listed or decided, or none waits
  2    no call with this id waits, or the configuration was not changed
  4    a gateway could not be reached, or the list could not be written";
