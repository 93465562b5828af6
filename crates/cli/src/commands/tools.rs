//! `execbox tools`: lists or searches the tools of MCP servers.

use std::io;
use std::path::PathBuf;

use clap::Args;
use execbox::declarations;
use execbox::{CancellationToken, Provider};
use execbox_core::hint;
use execbox_mcp::server::{Catalog, FoundTool, Query, UnavailableNamespace};
use execbox_mcp::upstream::UpstreamOptions;

use crate::error::{CliError, CommandError, SystemError};
use crate::exit::Exit;
use crate::options::servers::{self, Purpose, ServerArguments, tools_of};
use crate::options::stub;
use crate::options::units::count;
use crate::output::report;
use crate::output::style;
use crate::output::table::{Cell, Table};
use crate::process::interrupt;

/// List or search the tools of MCP servers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print the tools that match these words, best match first [default: all tools]
    #[arg(value_name = "QUERY")]
    query: Vec<String>,

    /// Print only tools of this namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// Print at most COUNT tools
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = count::<usize>)]
    limit: Option<usize>,

    /// Print one line of JSON, with signatures
    #[arg(long)]
    json: bool,

    /// Include the stub tools in FILE (repeatable)
    #[arg(long, value_name = "FILE")]
    tools: Vec<PathBuf>,

    #[command(flatten)]
    servers: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    // The list of all tools is printed in two parts if servers are slow to start; matches are ranked together.
    let is_list = arguments.query.is_empty() && arguments.limit.is_none() && !arguments.json;
    let mut printed = Vec::new();
    let mut loaded = load(&arguments.servers, &arguments.tools, &arguments.query, |ready| {
        if is_list && print_table(&find(arguments, ready)).is_ok() {
            printed.extend(ready.iter().map(|provider| provider.name().to_owned()));
        }
    })?;
    if let Some(name) = &arguments.namespace {
        loaded.check_namespace(name)?;
    }
    let all = find(arguments, &loaded.providers);
    if arguments.json {
        print_json(all, &loaded.providers).map_err(SystemError::Output)?;
        return Ok(loaded.exit());
    }
    loaded.providers.retain(|provider| !printed.iter().any(|name| name == provider.name()));
    print_table(&find(arguments, &loaded.providers)).map_err(SystemError::Output)?;
    if !all.is_empty() {
        if is_list {
            report::note(&total(&all));
        }
    } else if !loaded.has_failures {
        report::note(&"no matching tools");
    }
    Ok(loaded.exit())
}

/// The tools of the servers and of the stub files. The servers are closed, so the tools cannot be called.
pub(super) struct Loaded {
    pub(super) providers: Vec<Provider>,
    unavailable: Vec<UnavailableNamespace>,
    has_failures: bool,
}

impl Loaded {
    pub(super) fn check_namespace(&self, name: &str) -> Result<(), NamespaceError> {
        let known: Vec<_> = self.providers.iter().map(|provider| provider.name().to_owned()).collect();
        if known.iter().any(|one| one == name) {
            return Ok(());
        }
        let unavailable = self.unavailable.iter().find(|unavailable| unavailable.name == name);
        let unknown = || NamespaceError::Unknown { name: name.to_owned(), known };
        Err(unavailable.cloned().map_or_else(unknown, NamespaceError::Unavailable))
    }

    /// Checks the name of a namespace, or of a tool: `NAMESPACE.TOOL`.
    pub(super) fn check_name(&self, name: &str) -> Result<(), NamespaceError> {
        let Some((namespace, tool)) = name.split_once('.') else { return self.check_namespace(name) };
        self.check_namespace(namespace)?;
        let is_named = |provider: &&Provider| provider.name() == namespace;
        let Some(provider) = self.providers.iter().find(is_named) else { return Ok(()) };
        let mut tools = provider.signatures().map(|one| one.safe_name);
        if provider.safe_name(tool).is_some() || tools.any(|known| known == tool) {
            return Ok(());
        }
        let near = hint::near(tool, provider.signatures().map(|one| one.safe_name));
        let hint = match near {
            Some(near) => format!("did you mean \"{namespace}.{near}\"?"),
            None => format!("`execbox tools --namespace {namespace}` lists those that exist"),
        };
        Err(NamespaceError::UnknownTool { name: name.to_owned(), hint })
    }

    pub(super) fn exit(&self) -> Exit {
        if self.has_failures { Exit::ProgramFailed } else { Exit::Success }
    }
}

/// The error for a name that no provider has.
#[derive(Debug, thiserror::Error)]
pub(super) enum NamespaceError {
    #[error("unknown namespace {name:?}: expected {}", one_of(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("unknown tool {name:?}; {hint}")]
    UnknownTool { name: String, hint: String },
    #[error("{0}")]
    Unavailable(UnavailableNamespace),
}

impl CliError for NamespaceError {}

fn one_of(names: &[String]) -> String {
    match names {
        [] => "none; no server is available".to_owned(),
        [name] => name.clone(),
        names => format!("one of {}", names.join(", ")),
    }
}

/// Starts the servers, lists their tools, and prints which servers failed. An error about missing servers names a file among
/// `words`. If servers are slow to start, `on_slow` gets the providers
/// of the others.
pub(super) fn load(
    arguments: &ServerArguments,
    stubs: &[PathBuf],
    words: &[String],
    mut on_slow: impl FnMut(&[Provider]),
) -> Result<Loaded, CommandError> {
    let stubs = stub::load(stubs)?;
    let config = servers::read(arguments, &stubs, Purpose::Once)?.config;
    if config.servers.is_empty() && config.skipped.is_empty() && stubs.is_empty() {
        return Err(servers::none_but(arguments, words).into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut list = async |cancellation: CancellationToken| {
        let servers = servers::start(&config, UpstreamOptions::default(), None);
        let on_slow = || on_slow(&servers::all_providers(&stubs, &servers));
        tokio::select! {
            () = servers::settled(&servers, |_| true, on_slow) => {}
            () = cancellation.cancelled() => return Err(SystemError::Interrupted.into()),
        }
        let has_failures = servers::print_failures(&servers, |_| true);
        let (providers, unavailable) = (servers::all_providers(&stubs, &servers), servers.unavailable());
        servers.close().await;
        Ok(Loaded { providers, unavailable, has_failures })
    };
    let (loaded, _) = interrupt::cancel_on_interrupt(|cancellation| runtime.block_on(list(cancellation)));
    runtime.shutdown_background();
    loaded
}

/// Finds tools, and collects all pages of the catalog.
fn find(arguments: &Arguments, providers: &[Provider]) -> Vec<FoundTool> {
    let limit = arguments.limit.unwrap_or(usize::MAX);
    let catalog = Catalog::new(providers.to_vec());
    let mut query = Query::default()
        .text(arguments.query.join(" "))
        .namespace(arguments.namespace.clone())
        .read_only(arguments.servers.read_only);
    let mut found = Vec::new();
    loop {
        query.limit = Some(limit.saturating_sub(found.len()).min(PAGE));
        if query.limit == Some(0) {
            return found;
        }
        let page = catalog.query(&query);
        found.extend(page.tools);
        match page.next_offset {
            Some(offset) => query.offset = offset,
            None => return found,
        }
    }
}

/// Prints tools as JSON. Complete descriptions and signatures replace those of the pages, which are cut and share their types.
fn print_json(mut found: Vec<FoundTool>, providers: &[Provider]) -> io::Result<()> {
    for tool in &mut found {
        let provider = providers.iter().find(|provider| provider.name() == tool.namespace);
        let signature = provider.and_then(|provider| provider.signatures().find(|one| one.safe_name == tool.name));
        if let Some(signature) = signature {
            tool.description = declarations::prose(signature.description.unwrap_or_default());
            tool.signature = declarations::signature(&signature.description(None));
        }
    }
    report::print(&serde_json::to_string(&found).map_err(io::Error::other)?)
}

/// Prints a line for each tool: its name, its effect and the beginning of its description.
fn print_table(found: &[FoundTool]) -> io::Result<()> {
    let mut table = Table::new(0);
    for tool in found {
        let (effect, style) = match tool.effect {
            Some(effect @ "destructive") => (effect, style::ERROR),
            Some("readOnly") => ("read-only", style::SUCCESS),
            effect => (effect.unwrap_or_default(), style::PLAIN),
        };
        let name = format!("{}.{}", tool.namespace, tool.name);
        table.row([
            Cell::new(style::NAME, &name),
            Cell::new(style, effect),
            Cell::of_words(style::PLAIN, &tool.description),
        ]);
    }
    report::print_lines(&table.lines())
}

/// The number of tools, and that of each namespace if there are several: `14 tools: shop 8, time 6`.
fn total(found: &[FoundTool]) -> String {
    let mut namespaces: Vec<(&str, usize)> = Vec::new();
    for tool in found {
        match namespaces.iter_mut().find(|(name, _)| *name == tool.namespace) {
            Some((_, count)) => *count += 1,
            None => namespaces.push((&tool.namespace, 1)),
        }
    }
    if namespaces.len() == 1 {
        return tools_of(found.len());
    }
    let parts: Vec<_> = namespaces.iter().take(MAX_COUNTED).map(|(name, count)| format!("{name} {count}")).collect();
    let more = namespaces.len().checked_sub(MAX_COUNTED + 1).map(|more| format!(" and {} more", more + 1));
    format!("{}: {}{}", tools_of(found.len()), parts.join(", "), more.unwrap_or_default())
}

/// The maximum number of tools of one page of the catalog.
const PAGE: usize = 50;

/// The maximum number of namespaces whose tools are counted.
const MAX_COUNTED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  execbox tools --config ~/.cursor/mcp.json
  execbox tools --config servers.json create issue
  execbox tools --server 'time=uvx mcp-server-time' --json

Exit codes:
  0    all tools were listed
  1    the tools were listed, except those of servers that failed to start
  2    bad usage or a bad configuration
  4    the list could not be written
  130  interrupted by Ctrl-C";
