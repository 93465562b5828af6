//! `execbox tools`: what the tools of MCP servers are.

use std::io;
use std::path::PathBuf;

use execbox::core::text::cut;
use execbox::declarations::{self, ToolSignature};
use execbox::{CancellationToken, Provider};
use execbox_mcp::Changes;
use execbox_mcp::server::{Catalogue, FoundTool, Query};

use crate::args::{ServerArguments, ToolsArguments};
use crate::exit::Exit;
use crate::servers::{self, ServersError};
use crate::stub::{self, StubError};
use crate::terminal::safe_line;
use crate::units::{self, UnitError};
use crate::{interrupt, report, source};

/// Does what the command line asks for.
pub(crate) fn run(arguments: &ToolsArguments) -> Exit {
    match list(arguments) {
        Ok(exit) => exit,
        Err(error) => failed(&error),
    }
}

/// Why there are no tools to be seen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoTools {
    #[error(transparent)]
    Stub(#[from] StubError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error("--limit: {0}")]
    Limit(#[from] UnitError),
    #[error("there is no server: name a configuration by --config FILE, or a server by --server 'NAME=COMMAND'")]
    NoServer,
    #[error("there is no namespace {name:?}: there is {}", or_none(.known))]
    Namespace { name: String, known: Vec<String> },
    #[error("interrupted")]
    Interrupted,
    #[error("cannot begin: {}", source::reason(.0))]
    System(#[from] io::Error),
}

impl NoTools {
    pub(crate) fn namespace(name: &str, providers: &[Provider]) -> Self {
        let known = providers.iter().map(|provider| provider.name().to_owned()).collect();
        Self::Namespace { name: name.to_owned(), known }
    }
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Says why, and how the process ends.
pub(crate) fn failed(error: &NoTools) -> Exit {
    report::complain(error);
    match error {
        NoTools::Interrupted => Exit::Interrupted,
        NoTools::System(_) => Exit::ExecboxFailed,
        _ => Exit::BadInput,
    }
}

/// The tools of all servers that were there for a moment. None of them can be called any more.
pub(crate) struct Loaded {
    pub(crate) providers: Vec<Provider>,
    has_failures: bool,
}

impl Loaded {
    /// How the process ends that has shown them.
    pub(crate) fn exit(&self) -> Exit {
        if self.has_failures { Exit::ProgramFailed } else { Exit::Success }
    }
}

/// Asks the servers, and says which are not there.
pub(crate) fn load(arguments: &ServerArguments, stubs: &[PathBuf]) -> Result<Loaded, NoTools> {
    let stubs = stub::load(stubs)?;
    let config = servers::read(arguments, &stubs)?;
    if config.servers.is_empty() && config.skipped.is_empty() && stubs.is_empty() {
        return Err(NoTools::NoServer);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ask = async |cancellation: CancellationToken| {
        let servers = servers::start(&config, Changes::default(), false);
        tokio::select! {
            () = servers::settled(&servers) => {}
            () = cancellation.cancelled() => return Err(NoTools::Interrupted),
        }
        let has_failures = servers::report_failures(&config, &servers);
        let providers = servers::all(&stubs, &servers);
        servers.close().await;
        Ok(Loaded { providers, has_failures })
    };
    let (loaded, _) = interrupt::cancels(|cancellation| runtime.block_on(ask(cancellation)));
    runtime.shutdown_background();
    loaded
}

fn list(arguments: &ToolsArguments) -> Result<Exit, NoTools> {
    let limit = arguments.limit.as_deref().map(units::count).transpose()?;
    let loaded = load(&arguments.servers, &arguments.tools)?;
    if let Some(name) = &arguments.namespace
        && loaded.providers.iter().all(|provider| provider.name() != name)
    {
        return Err(NoTools::namespace(name, &loaded.providers));
    }
    let found = found(arguments, &loaded.providers, limit.unwrap_or(usize::MAX));
    let printed = match arguments.json {
        true => print_json(found, &loaded.providers),
        false => print_table(&found),
    };
    Ok(match printed {
        Err(error) => report::unwritten(&error),
        Ok(()) => loaded.exit(),
    })
}

/// Page after page.
fn found(arguments: &ToolsArguments, providers: &[Provider], limit: usize) -> Vec<FoundTool> {
    let catalogue = Catalogue::new(providers.to_vec());
    let mut query =
        Query { text: arguments.query.join(" "), namespace: arguments.namespace.clone(), ..Query::default() };
    let mut found = Vec::new();
    loop {
        query.limit = Some(limit.saturating_sub(found.len()).min(PAGE));
        if query.limit == Some(0) {
            return found;
        }
        let page = catalogue.query(&query);
        found.extend(page.tools);
        match page.next_offset {
            Some(offset) => query.offset = offset,
            None => return found,
        }
    }
}

/// Each by itself and whole: a model's page cuts, and declares a type once for all that use it.
fn print_json(mut found: Vec<FoundTool>, providers: &[Provider]) -> io::Result<()> {
    for tool in &mut found {
        let provider = providers.iter().find(|provider| provider.name() == tool.namespace);
        let signature = provider.and_then(|provider| provider.signatures().find(|one| one.safe_name == tool.name));
        if let Some(signature) = signature {
            tool.description = declarations::prose(signature.description.unwrap_or_default());
            tool.signature = declarations::signature(&ToolSignature { description: None, ..signature });
        }
    }
    report::print(&serde_json::to_string(&found).map_err(io::Error::other)?)
}

/// A line for each: its name, and the beginning of what it does.
fn print_table(found: &[FoundTool]) -> io::Result<()> {
    let names: Vec<String> = found.iter().map(|tool| format!("{}.{}", tool.namespace, tool.name)).collect();
    let width = names.iter().map(String::len).max().unwrap_or_default().min(WIDEST_NAME);
    let lines = names.iter().zip(found).map(|(name, tool)| {
        let summary = tool.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let summary = cut(&summary, WIDEST_SUMMARY);
        safe_line(format!("{name:width$}  {summary}").trim_end()).into_owned()
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        report::note(&"no tool found");
        return Ok(());
    }
    report::print(&lines.join("\n"))
}

/// How many tools the library gives at once.
const PAGE: usize = 50;

/// Columns of the table.
const WIDEST_NAME: usize = 48;
const WIDEST_SUMMARY: usize = 100;
