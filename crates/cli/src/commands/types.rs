//! `execbox types`: prints the tools of MCP servers as TypeScript declarations.

use std::path::PathBuf;

use clap::Args;

use super::tools;
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::options::servers::ServerArguments;
use crate::output::report;

/// Print the tools of MCP servers as TypeScript declarations
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print only these namespaces
    #[arg(value_name = "NAMESPACE")]
    namespaces: Vec<String>,

    /// Include the stub tools in FILE (repeatable)
    #[arg(long, value_name = "FILE")]
    tools: Vec<PathBuf>,

    #[command(flatten)]
    servers: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let loaded = tools::load(&arguments.servers, &arguments.tools, |_| ())?;
    for name in &arguments.namespaces {
        loaded.check_namespace(name)?;
    }
    let is_selected = |name: &str| arguments.namespaces.is_empty() || arguments.namespaces.iter().any(|n| n == name);
    let selected = loaded.providers.iter().filter(|provider| is_selected(provider.name()));
    let types: Vec<&str> = selected.map(|provider| provider.types().trim_end()).collect();
    report::print(&types.join("\n\n")).map_err(SystemError::Output)?;
    Ok(loaded.exit())
}

const EXAMPLES: &str = "\
Examples:
  execbox types --config ~/.cursor/mcp.json > tools.d.ts
  execbox types --config servers.json github

Exit codes: see `execbox tools --help`.";
