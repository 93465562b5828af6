//! Providers: tools under one guest-visible name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use execbox_core::manifest::{ProviderManifest, ToolManifest};
use execbox_core::names::{self, ProviderNameError, SafeNames};

use crate::declarations::{self, ToolSignature};
use crate::schema::Schema;
use crate::tool::{HostFunction, Tool};

/// Tools under one name, ready to be granted: guest code sees a global of that name whose members are
/// async functions. Cheap to clone; serves any number of executions at once.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    description: Option<String>,
    manifest: Arc<ProviderManifest>,
    tools: Vec<HostTool>,
    by_safe_name: HashMap<Arc<str>, usize>,
    by_original_name: HashMap<Arc<str>, usize>,
}

/// A tool with everything compiled.
pub(crate) struct HostTool {
    pub(crate) safe_name: Arc<str>,
    pub(crate) original_name: Arc<str>,
    pub(crate) input: Option<Schema>,
    pub(crate) output: Option<Schema>,
    pub(crate) function: Arc<HostFunction>,
}

/// Collects tools for a [`Provider`].
#[derive(Debug)]
pub struct ProviderBuilder {
    name: String,
    description: Option<String>,
    tools: Vec<Tool>,
}

/// Why a provider cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// Its name cannot be a global of guest code.
    #[error(transparent)]
    Name(#[from] ProviderNameError),
    /// A tool's schema is not a JSON Schema.
    #[error("the {which} schema of tool {tool:?} is not a valid JSON Schema: {reason}")]
    Schema {
        /// The tool's own name.
        tool: String,
        /// `input` or `output`.
        which: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Two tools of one name.
    #[error("two tools of provider {provider:?} are named {tool:?}: give each its own name")]
    DuplicateTool {
        /// The provider's name.
        provider: String,
        /// The tools' own name.
        tool: String,
    },
}

impl Provider {
    /// Starts a provider. `name` is what guest code calls it by: an identifier, no reserved word, and no
    /// global that guest code has already.
    pub fn builder(name: impl Into<String>) -> ProviderBuilder {
        ProviderBuilder { name: name.into(), description: None, tools: Vec::new() }
    }

    /// The guest-visible name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What the provider is for, in words for models.
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// TypeScript declarations of the namespace (`declare namespace …`), for models to read.
    pub fn types(&self) -> &str {
        &self.0.manifest.types
    }

    /// What a runner is told of this provider: names and words, no capability.
    pub fn manifest(&self) -> &ProviderManifest {
        &self.0.manifest
    }

    /// The name that guest code calls a tool by, from the tool's own name.
    pub fn safe_name(&self, original: &str) -> Option<&str> {
        self.0.by_original_name.get(original).map(|&tool| &*self.0.tools[tool].safe_name)
    }

    /// A tool's own name, from the name that guest code calls it by.
    pub fn original_name(&self, safe: &str) -> Option<&str> {
        self.0.by_safe_name.get(safe).map(|&tool| &*self.0.tools[tool].original_name)
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    pub(crate) fn shared_manifest(&self) -> Arc<ProviderManifest> {
        Arc::clone(&self.0.manifest)
    }

    pub(crate) fn number_of(&self, safe_name: &str) -> Option<usize> {
        self.0.by_safe_name.get(safe_name).copied()
    }

    pub(crate) fn tool(&self, number: usize) -> Option<&HostTool> {
        self.0.tools.get(number)
    }
}

impl AsRef<ProviderManifest> for Provider {
    fn as_ref(&self) -> &ProviderManifest {
        &self.0.manifest
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.0.tools.iter().map(|tool| &*tool.safe_name).collect();
        f.debug_struct("Provider").field("name", &self.0.name).field("tools", &tools).finish()
    }
}

impl ProviderBuilder {
    /// What the provider is for, in words for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Checks names and schemas, assigns safe names, and writes the declarations.
    pub fn build(self) -> Result<Provider, ProviderError> {
        names::check_provider_name(&self.name)?;
        let mut safe_names = SafeNames::default();
        let safe_names: Vec<Arc<str>> = self.tools.iter().map(|tool| safe_names.assign(&tool.name).into()).collect();
        let manifest = self.manifest(&safe_names);
        let mut inner = Inner {
            name: self.name.as_str().into(),
            description: self.description,
            manifest: Arc::new(manifest),
            tools: Vec::with_capacity(self.tools.len()),
            by_safe_name: HashMap::new(),
            by_original_name: HashMap::new(),
        };
        for (number, (tool, safe_name)) in self.tools.into_iter().zip(safe_names).enumerate() {
            let tool = HostTool::compile(tool, safe_name)?;
            inner.by_safe_name.insert(Arc::clone(&tool.safe_name), number);
            if inner.by_original_name.insert(Arc::clone(&tool.original_name), number).is_some() {
                return Err(ProviderError::DuplicateTool { provider: self.name, tool: tool.original_name.to_string() });
            }
            inner.tools.push(tool);
        }
        Ok(Provider(Arc::new(inner)))
    }

    fn manifest(&self, safe_names: &[Arc<str>]) -> ProviderManifest {
        let tools = || self.tools.iter().zip(safe_names);
        let signatures: Vec<ToolSignature<'_>> = tools()
            .map(|(tool, safe_name)| ToolSignature {
                safe_name,
                description: tool.description.as_deref(),
                input: tool.input_schema.as_ref(),
                output: tool.output_schema.as_ref(),
            })
            .collect();
        let types = declarations::namespace(&self.name, self.description.as_deref(), &signatures);
        let tools = tools().map(|(tool, safe_name)| ToolManifest {
            safe_name: safe_name.to_string(),
            original_name: tool.name.clone(),
            description: tool.description.clone(),
        });
        ProviderManifest::new(self.name.clone(), tools.collect(), types)
    }
}

impl HostTool {
    fn compile(tool: Tool, safe_name: Arc<str>) -> Result<Self, ProviderError> {
        let compile = |schema: Option<&serde_json::Value>, which| {
            let compiled = schema.map(Schema::compile).transpose();
            compiled.map_err(|reason| ProviderError::Schema { tool: tool.name.clone(), which, reason })
        };
        let input = compile(tool.input_schema.as_ref(), "input")?;
        let output = compile(tool.output_schema.as_ref(), "output")?;
        Ok(Self { safe_name, original_name: tool.name.into(), input, output, function: tool.function })
    }
}
