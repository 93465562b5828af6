//! What a runner knows about providers (runner specification, "Inputs To The Runner"): names and descriptions, and no
//! functions.

use std::sync::Arc;

use crate::program::Namespace;

/// One provider: a global object in guest code whose members are its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderManifest {
    /// The name of the global.
    pub name: String,
    /// The tools, in order. Their safe names are distinct.
    pub tools: Vec<ToolManifest>,
    /// TypeScript declarations of the global, for models.
    pub types: String,
    namespace: Arc<Namespace>,
}

/// One tool of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolManifest {
    /// The name in guest code.
    pub safe_name: String,
    /// The name that the host gave the tool.
    pub original_name: String,
    /// A description for models.
    pub description: Option<String>,
}

impl ProviderManifest {
    /// Creates a manifest. The safe names of `tools` must be distinct.
    pub fn new(name: impl Into<String>, tools: Vec<ToolManifest>, types: impl Into<String>) -> Self {
        let name = name.into();
        let namespace = Arc::new(Namespace::new(&name, tools.iter().map(|tool| &tool.safe_name)));
        Self { name, tools, types: types.into(), namespace }
    }

    /// The provider as the engine sees it, shared between executions.
    pub fn namespace(&self) -> Arc<Namespace> {
        Arc::clone(&self.namespace)
    }
}
