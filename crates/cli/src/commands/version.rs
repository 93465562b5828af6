//! `execbox version`: the versions of the binary and of its engines.

use std::iter;

use clap::Args;
use serde_json::json;

use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::options::engine::Engine;
use crate::output::report;

/// Print the versions of execbox and of its engines
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let version = env!("CARGO_PKG_VERSION");
    let engines = Engine::built_in().iter().map(|engine| (engine.to_string(), engine.version().unwrap_or_default()));
    let text = if arguments.json {
        let engines: serde_json::Map<_, _> = engines.map(|(name, version)| (name, json!(version))).collect();
        json!({ "execbox": version, "engines": engines }).to_string()
    } else {
        let lines = engines.map(|(name, version)| format!("{name} {version}"));
        iter::once(format!("execbox {version}")).chain(lines).collect::<Vec<_>>().join("\n")
    };
    report::print(&text).map_err(SystemError::Output)?;
    Ok(Exit::Success)
}
