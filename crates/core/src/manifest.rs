//! What a runner knows about providers (runner specification, "Inputs To The Runner"): names and descriptions, and no
//! functions.

use std::sync::Arc;

use crate::program::Namespace;

/// One provider: a global object in guest code whose members are its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct ToolManifest {
    /// The name in guest code.
    pub safe_name: String,
    /// The name that the host gave the tool.
    pub original_name: String,
    /// A description for models.
    pub description: Option<String>,
}

impl ToolManifest {
    /// A tool without a description.
    pub fn new(safe_name: impl Into<String>, original_name: impl Into<String>) -> Self {
        Self { safe_name: safe_name.into(), original_name: original_name.into(), description: None }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<Option<String>>) -> Self {
        self.description = description.into();
        self
    }
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
