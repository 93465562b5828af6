//! `execbox snippets`: the code that programs have saved in a file of `execbox mcp --state`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use execbox_core::hint;
use execbox_core::text::cut;
use execbox_mcp::server::{Snippet, StateArea, StateError, StateStore as _};
use serde_json::json;

use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::options::state::{StateFile, StateFileError, StateOptionError};
use crate::output::report;
use crate::output::style;
use crate::output::table::{Cell, Table};
use crate::output::terminal::safe;

/// List, show and delete the snippets that programs have saved
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// Read the snippets in FILE
    #[arg(long, value_name = "FILE", global = true)]
    state: Option<PathBuf>,

    /// Read the state with this name, such as that of a client of `--clients`
    #[arg(long, value_name = "NAME", global = true)]
    state_name: Option<String>,

    /// Print JSON: an array of snippets, or one snippet with its code
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the snippets, as without a command
    List,
    /// Print the code of a snippet
    Show {
        /// The name of the snippet
        name: String,
    },
    /// Delete a snippet; a running gateway no longer has it in its next program
    Delete {
        /// The name of the snippet
        name: String,
    },
}

/// Why there is no snippet.
#[derive(Debug, thiserror::Error)]
enum SnippetsError {
    #[error("no file given: use --state FILE, where FILE is that of `execbox mcp --state FILE`")]
    NoStateFile,
    #[error("unknown snippet {name:?} in {path}; `execbox snippets --state {path}` lists all")]
    Unknown { name: String, path: String },
    #[error("unknown snippet {name:?} in {path}; did you mean {near:?}?")]
    Misspelled { name: String, path: String, near: String },
}

impl CliError for SnippetsError {}

impl CliError for StateError {
    fn exit(&self) -> Exit {
        Exit::ExecboxFailed
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let path = arguments.state.as_deref().ok_or(SnippetsError::NoStateFile)?;
    let failed = |error| StateOptionError::new(path, error);
    if !path.exists() {
        return Err(failed(StateFileError::Missing).into());
    }
    if let Some(Action::Show { name } | Action::Delete { name }) = &arguments.action
        && name.len() > MAX_NAME
    {
        return Err(unknown(path, name).into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let whole = runtime.block_on(StateFile::open(path)).map_err(failed)?;
    let file = match &arguments.state_name {
        Some(name) => &whole.named(name).map_err(failed)?,
        None => &whole,
    };
    let text = match &arguments.action {
        None | Some(Action::List) => list(file, arguments.json),
        Some(Action::Show { name }) => show(file, path, name, arguments.json),
        Some(Action::Delete { name }) => delete(file, path, name),
    };
    runtime.block_on(whole.close());
    if let Some(text) = text? {
        report::print(&text).map_err(SystemError::Output)?;
    }
    Ok(Exit::Success)
}

/// The list: a line for each snippet.
fn list(file: &StateFile, is_json: bool) -> Result<Option<String>, CommandError> {
    let mut snippets = Vec::new();
    for entry in file.list(StateArea::Snippets, "")? {
        let snippet = read(file, &entry.key)?;
        snippets.push((entry.key, snippet.map_or_else(|| "(invalid)".to_owned(), |snippet| snippet.description)));
    }
    if is_json {
        let all: Vec<_> = snippets.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect();
        return Ok(Some(json!(all).to_string()));
    }
    if snippets.is_empty() {
        report::note(&"no snippet is saved");
        return Ok(None);
    }
    let mut table = Table::new(0);
    for (name, description) in &snippets {
        let first = Cell::new(style::PLAIN, description.lines().next().unwrap_or_default());
        table.row([Cell::cut(style::NAME, name, MAX_NAME), first]);
    }
    report::print_lines(&table.lines()).map_err(SystemError::Output)?;
    Ok(None)
}

fn delete(file: &StateFile, path: &Path, name: &str) -> Result<Option<String>, CommandError> {
    if !file.delete(StateArea::Snippets, name)? {
        return Err(missing(file, path, name)?.into());
    }
    report::note(&format_args!("deleted {name}"));
    Ok(None)
}

fn show(file: &StateFile, path: &Path, name: &str, is_json: bool) -> Result<Option<String>, CommandError> {
    let Some(Snippet { description, code, .. }) = read(file, name)? else {
        return Err(missing(file, path, name)?.into());
    };
    Ok(Some(match is_json {
        true => json!({ "name": name, "description": description, "code": code }).to_string(),
        false => safe(&code).into_owned(),
    }))
}

/// Reads a snippet; `None` if there is none with this name, or its entry is not a valid snippet.
fn read(file: &StateFile, name: &str) -> Result<Option<Snippet>, StateError> {
    let text = file.get(StateArea::Snippets, name)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// The error for a snippet that is not in the file. Names the nearest one.
fn missing(file: &StateFile, path: &Path, name: &str) -> Result<SnippetsError, StateError> {
    let entries = file.list(StateArea::Snippets, "")?;
    let near = hint::near(name, entries.iter().map(|entry| entry.key.as_str()));
    Ok(match (near, unknown(path, name)) {
        (Some(near), SnippetsError::Unknown { name, path }) => {
            SnippetsError::Misspelled { name, path, near: near.to_owned() }
        }
        (_, error) => error,
    })
}

fn unknown(path: &Path, name: &str) -> SnippetsError {
    SnippetsError::Unknown { name: cut(name, MAX_NAME), path: path.display().to_string() }
}

/// The maximum length of a name in the list and in errors, in characters.
const MAX_NAME: usize = 64;

const EXIT_CODES: &str = "\
Examples:
  execbox snippets --state state.db
  execbox snippets show openOrders --state state.db

Exit codes:
  0    the snippets were listed, shown or deleted
  2    bad usage, no such file or no such snippet
  4    the file or standard output could not be read or written";
