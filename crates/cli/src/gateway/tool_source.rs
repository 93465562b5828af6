//! The tools of a gateway: those of stub files and of MCP servers, as a source of providers.

use execbox::Provider;
use execbox_mcp::server::{AbsentTool, ProviderSource, UnavailableNamespace};
use execbox_mcp::servers::Servers;
use execbox_mcp::upstream::RejectedTool;
use futures_util::future::BoxFuture;

use crate::options::servers;

/// The tools of stub files and of servers.
#[derive(Clone)]
pub(crate) struct ToolSource {
    pub(crate) stubs: Vec<Provider>,
    pub(crate) servers: Servers,
}

impl ProviderSource for ToolSource {
    fn providers(&self) -> Vec<Provider> {
        servers::all_providers(&self.stubs, &self.servers)
    }

    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        self.servers.unavailable()
    }

    fn settled<'a>(&'a self, namespaces: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(self.servers.settled_if(|name| namespaces.iter().any(|needed| needed == name)))
    }

    fn is_exposed(&self, namespace: &str, names: [&str; 2]) -> bool {
        self.servers.is_exposed(namespace, names)
    }

    fn has_prefix(&self, namespace: &str) -> bool {
        self.servers.has_prefix(namespace)
    }

    fn features(&self) -> Option<Vec<Provider>> {
        Some(self.servers.features())
    }

    fn absent_tool(&self, namespace: &str, tool: &str) -> Option<AbsentTool> {
        self.servers.absent_tool(namespace, tool)
    }

    fn rejected_tools(&self) -> Vec<(String, RejectedTool)> {
        self.servers.rejected_tools()
    }

    fn unread_parts(&self, namespace: &str, tool: &str) -> Vec<String> {
        self.servers.unread_parts(namespace, tool)
    }
}
