//! `execbox types`: the tools of MCP servers as TypeScript declarations.

use crate::args::TypesArguments;
use crate::exit::Exit;
use crate::report;
use crate::tools::{self, NoTools};

/// Does what the command line asks for.
pub(crate) fn run(arguments: &TypesArguments) -> Exit {
    let loaded = match tools::load(&arguments.servers, &arguments.tools) {
        Ok(loaded) => loaded,
        Err(error) => return tools::failed(&error),
    };
    let providers = &loaded.providers;
    if let Some(unknown) = arguments.namespaces.iter().find(|name| providers.iter().all(|p| p.name() != *name)) {
        return tools::failed(&NoTools::namespace(unknown, providers));
    }
    let is_wanted = |name: &str| arguments.namespaces.is_empty() || arguments.namespaces.iter().any(|n| n == name);
    let wanted = providers.iter().filter(|provider| is_wanted(provider.name()));
    let types: Vec<&str> = wanted.map(|provider| provider.types().trim_end()).collect();
    match report::print(&types.join("\n\n")) {
        Err(error) => report::unwritten(&error),
        Ok(()) => loaded.exit(),
    }
}
