//! `execbox approvals`: the calls of running gateways that wait for approval.

use std::io;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use execbox::core::text::{Keep, cut, escape};

use crate::approvals::{self, Request, Response, WaitingApproval};
use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::gateways::{self, GatewaysError};
use crate::report;
use crate::terminal::safe;

/// List, approve and refuse calls of running gateways that wait for approval (`execbox mcp --ask`)
///
/// A program waits for the answer with its clocks stopped. Without a command, lists the calls.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Print JSON: an array of calls
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show calls with all of their arguments
    Show {
        /// The calls, by their ids in the list
        #[arg(required = true)]
        id: Vec<String>,
    },
    /// Make calls
    Approve {
        /// The calls, by their ids in the list
        #[arg(required = true)]
        id: Vec<String>,
    },
    /// Do not make calls: they fail in the program
    Deny {
        /// The calls, by their ids in the list
        #[arg(required = true)]
        id: Vec<String>,

        /// What the program and the model learn
        #[arg(long, value_name = "TEXT", default_value = "the user refused the call")]
        reason: String,
    },
}

/// The error for an id that no waiting call has.
#[derive(Debug, thiserror::Error)]
#[error("no call with the id {0:?} waits for approval; `execbox approvals` lists those that do")]
struct UnknownApproval(String);

impl CliError for UnknownApproval {}

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CommandError> {
    match arguments.command {
        None => list(arguments.json),
        Some(Command::Show { id }) => show(&id),
        Some(Command::Approve { id }) => decide(&id, None),
        Some(Command::Deny { id, reason }) => decide(&id, Some(&reason)),
    }
}

fn list(json: bool) -> Result<Exit, CommandError> {
    let calls = pending()?;
    let text = match json {
        true => serde_json::to_string(&calls).map_err(|error| SystemError::Output(error.into()))?,
        false if calls.is_empty() => {
            report::note(&"no call waits for approval");
            return Ok(Exit::Success);
        }
        false => calls.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    report::print(&text).map_err(SystemError::Output)?;
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

fn decide(ids: &[String], refused: Option<&str>) -> Result<Exit, CommandError> {
    for id in ids {
        match of_gateway(id, &Request::Decide { id: id.clone(), refused: refused.map(str::to_owned) })? {
            Response::Decided => {
                report::note(&format_args!("{id} {}", if refused.is_some() { "refused" } else { "approved" }));
            }
            _ => return Err(UnknownApproval(id.clone()).into()),
        }
    }
    Ok(Exit::Success)
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
    for gateway in gateways::list()? {
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

/// A line of the list: `4711.3  shop.delete_order  12s  {"order_id":"A17"}`.
fn line(call: &WaitingApproval) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let age = humantime::format_duration(Duration::from_secs(now.as_secs().saturating_sub(call.since_ms / 1000)));
    let line = format!("{}  {}  {age}  {}", call.id, call.tool, cut(&call.arguments, MAX_ARGUMENTS));
    escape(&line, Keep::Nothing).into_owned()
}

/// The maximum number of characters of arguments in a line.
const MAX_ARGUMENTS: usize = 100;

const EXIT_CODES: &str = "\
Exit codes:
  0    the calls were listed or decided, or none waits
  2    no call with this id waits
  4    a gateway could not be reached, or the list could not be written";
