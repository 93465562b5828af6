//! What a runner is told of providers (runner specification, "Inputs To The Runner"): names and
//! words, and no capability.

use std::sync::Arc;

use crate::program::Namespace;

/// One provider: one guest-visible global namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderManifest {
    /// The namespace's name.
    pub name: String,
    /// Its tools, in order. Their safe names are distinct.
    pub tools: Vec<ToolManifest>,
    /// TypeScript declarations of the namespace, for models to read.
    pub types: String,
    namespace: Arc<Namespace>,
}

/// One tool of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolManifest {
    /// The property that guest code calls.
    pub safe_name: String,
    /// The name that the tool's owner gave it.
    pub original_name: String,
    /// What it does, for models to read.
    pub description: Option<String>,
}

impl ProviderManifest {
    /// A manifest of these parts.
    pub fn new(name: impl Into<String>, tools: Vec<ToolManifest>, types: impl Into<String>) -> Self {
        let name = name.into();
        let functions = tools.iter().map(|tool| tool.safe_name.clone()).collect();
        let namespace = Arc::new(Namespace { name: name.clone(), functions });
        Self { name, tools, types: types.into(), namespace }
    }

    /// The provider as the engine sees it. Shared: many executions use one manifest.
    pub fn namespace(&self) -> Arc<Namespace> {
        Arc::clone(&self.namespace)
    }
}
