//! Providers: tools under one guest-visible name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use execbox_core::manifest::{ProviderManifest, ToolManifest};
use execbox_core::names::{self, ProviderNameError, SafeNames};
use serde_json::Value as Json;

use crate::tools::declarations::{self, ToolSignature};
use crate::tools::schema::Schema;
use crate::tools::tool::{HostFunction, Tool};

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
    description: Option<String>,
    input_schema: Option<Json>,
    output_schema: Option<Json>,
    pub(crate) input: Option<Arc<Schema>>,
    pub(crate) output: Option<Arc<Schema>>,
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

    /// What the declarations of each tool are made from, in order: for those that show or search tools one by one.
    pub fn signatures(&self) -> impl ExactSizeIterator<Item = ToolSignature<'_>> {
        self.0.tools.iter().map(HostTool::signature)
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
        let (provider, refused) = self.build_valid()?;
        refused.into_iter().next().map_or(Ok(provider), Err)
    }

    /// Like [`build`](Self::build), but a tool that cannot be is left out, and why is told: for catalogues that
    /// somebody else wrote.
    pub fn build_valid(self) -> Result<(Provider, Vec<ProviderError>), ProviderNameError> {
        names::check_provider_name(&self.name)?;
        let mut refused = Vec::new();
        let mut safe_names = SafeNames::default();
        let mut schemas = Schemas::default();
        let mut tools: Vec<HostTool> = Vec::with_capacity(self.tools.len());
        let (mut by_safe_name, mut by_original_name) = (HashMap::new(), HashMap::new());
        for tool in self.tools {
            if by_original_name.contains_key(tool.name.as_str()) {
                refused.push(ProviderError::DuplicateTool { provider: self.name.clone(), tool: tool.name });
                continue;
            }
            match HostTool::compile(tool, &mut safe_names, &mut schemas) {
                Ok(tool) => {
                    by_safe_name.insert(Arc::clone(&tool.safe_name), tools.len());
                    by_original_name.insert(Arc::clone(&tool.original_name), tools.len());
                    tools.push(tool);
                }
                Err(error) => refused.push(error),
            }
        }
        let manifest = Arc::new(manifest(&self.name, self.description.as_deref(), &tools));
        let (name, description) = (self.name.into(), self.description);
        let inner = Inner { name, description, manifest, tools, by_safe_name, by_original_name };
        Ok((Provider(Arc::new(inner)), refused))
    }
}

fn manifest(name: &str, description: Option<&str>, tools: &[HostTool]) -> ProviderManifest {
    let signatures: Vec<ToolSignature<'_>> = tools.iter().map(HostTool::signature).collect();
    let types = declarations::namespace(name, description, &signatures);
    let tools = tools.iter().map(|tool| ToolManifest {
        safe_name: tool.safe_name.to_string(),
        original_name: tool.original_name.to_string(),
        description: tool.description.clone(),
    });
    ProviderManifest::new(name, tools.collect(), types)
}

/// The schemas of a provider, each compiled once: many tools of one server have the same.
#[derive(Default)]
struct Schemas(HashMap<String, Arc<Schema>>);

impl Schemas {
    fn compile(&mut self, schema: &Json) -> Result<Arc<Schema>, String> {
        let text = schema.to_string();
        if let Some(known) = self.0.get(&text) {
            return Ok(Arc::clone(known));
        }
        let compiled = Arc::new(Schema::compile(schema)?);
        if text.len() <= MAX_SHARED {
            self.0.insert(text, Arc::clone(&compiled));
        }
        Ok(compiled)
    }
}

impl HostTool {
    /// A tool that cannot be takes no safe name.
    fn compile(tool: Tool, safe_names: &mut SafeNames, schemas: &mut Schemas) -> Result<Self, ProviderError> {
        let mut compile = |schema: Option<&Json>, which| {
            let compiled = schema.map(|schema| schemas.compile(schema)).transpose();
            compiled.map_err(|reason| ProviderError::Schema { tool: tool.name.clone(), which, reason })
        };
        let input = compile(tool.input_schema.as_ref(), "input")?;
        let output = compile(tool.output_schema.as_ref(), "output")?;
        Ok(Self {
            safe_name: safe_names.assign(&tool.name).into(),
            original_name: tool.name.into(),
            description: tool.description,
            input_schema: tool.input_schema,
            output_schema: tool.output_schema,
            input,
            output,
            function: tool.function,
        })
    }

    fn signature(&self) -> ToolSignature<'_> {
        ToolSignature {
            safe_name: &self.safe_name,
            description: self.description.as_deref(),
            input: self.input_schema.as_ref(),
            output: self.output_schema.as_ref(),
        }
    }
}

/// The longest schema, in bytes of JSON, that is kept to be compared with: longer ones are seldom twice there.
const MAX_SHARED: usize = 4 << 10;
