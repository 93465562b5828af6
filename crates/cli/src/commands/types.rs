//! `execbox types`: prints the tools of MCP servers as TypeScript declarations.

use std::path::PathBuf;

use clap::Args;
use execbox::{Provider, ToolManifest};

use super::tools;
use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::options::servers::ServerArguments;
use crate::output::report;

/// Print the tools of MCP servers as TypeScript declarations
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print only these namespaces and tools [default: all]
    #[arg(value_name = "NAMESPACE or NAMESPACE.TOOL")]
    names: Vec<String>,

    /// Include the stub tools in FILE (repeatable)
    #[arg(long, value_name = "FILE")]
    tools: Vec<PathBuf>,

    #[command(flatten)]
    servers: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let loaded = tools::load(&arguments.servers, &arguments.tools, &arguments.names, |_| ())?;
    for name in &arguments.names {
        loaded.check_name(name)?;
    }
    let selected = loaded.providers.iter().filter_map(|provider| select(provider, &arguments.names));
    let types: Vec<String> = selected.map(|provider| provider.types().trim_end().to_owned()).collect();
    report::print(&types.join("\n\n")).map_err(SystemError::Output)?;
    Ok(loaded.exit())
}

/// The provider with the tools that `names` select; `None` if they select none. No names select everything.
fn select(provider: &Provider, names: &[String]) -> Option<Provider> {
    if names.is_empty() || names.iter().any(|name| name == provider.name()) {
        return Some(provider.clone());
    }
    let of_provider = |name: &'_ String| Some(name.strip_prefix(provider.name())?.strip_prefix('.')?.to_owned());
    let tools: Vec<_> = names.iter().filter_map(of_provider).collect();
    let is_selected = |tool: &ToolManifest, _| tools.contains(&tool.safe_name) || tools.contains(&tool.original_name);
    (!tools.is_empty()).then(|| provider.only(is_selected))
}

const EXAMPLES: &str = "\
Examples:
  execbox types --config ~/.cursor/mcp.json > tools.d.ts
  execbox types --config servers.json github
  execbox types --config servers.json github.create_issue

Exit codes: see `execbox tools --help`.";
