//! Providers: tools under one name, with checked names and compiled schemas.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use execbox_core::manifest::{ProviderManifest, ToolManifest};
use execbox_core::names::{self, ProviderNameError, SafeNames};
use serde_json::Value as Json;

use crate::tools::declarations::{self, ToolSignature};
use crate::tools::schema::{Schema, SchemaError};
use crate::tools::tool::{HostFunction, Tool};

/// Tools under one name. A guest that is granted a provider has a global object of that name, whose members are async
/// functions.
///
/// Cheap to clone; clones share the tools.
///
/// ```
/// use execbox::{Provider, Tool};
/// use serde_json::json;
///
/// # fn main() -> Result<(), execbox::ProviderError> {
/// let add = Tool::new("add-all", async |input, _| {
///     let numbers = input["numbers"].as_array().into_iter().flatten();
///     Ok(json!(numbers.filter_map(|number| number.as_i64()).sum::<i64>()))
/// });
/// let provider = Provider::builder("calculator").tool(add).build()?;
/// assert_eq!(provider.safe_name("add-all"), Some("add_all"));
/// # Ok(())
/// # }
/// ```
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

/// A tool with compiled schemas.
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

/// Builds a [`Provider`].
#[derive(Debug)]
pub struct ProviderBuilder {
    name: String,
    description: Option<String>,
    tools: Vec<Tool>,
}

/// Why a provider was not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The name is not allowed as a global of guest code.
    #[error(transparent)]
    Name(#[from] ProviderNameError),
    /// The schema of a tool is not a JSON Schema.
    #[error("the {which} schema of tool {tool:?} is not a valid JSON Schema: {reason}")]
    Schema {
        /// The tool's own name.
        tool: String,
        /// `input` or `output`.
        which: &'static str,
        /// What is wrong with it.
        reason: SchemaError,
    },
    /// Two tools have one name.
    #[error("duplicate tool {tool:?} in provider {provider:?}")]
    DuplicateTool {
        /// The provider's name.
        provider: String,
        /// The tools' own name.
        tool: String,
    },
}

impl Provider {
    /// Builds a provider. `name` is the name of the global in guest code: an identifier that is neither a reserved word nor
    /// an existing global.
    pub fn builder(name: impl Into<String>) -> ProviderBuilder {
        ProviderBuilder { name: name.into(), description: None, tools: Vec::new() }
    }

    /// The guest-visible name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The description for models.
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// The TypeScript declarations of the namespace (`declare namespace …`), for prompts.
    pub fn types(&self) -> &str {
        &self.0.manifest.types
    }

    /// The names and descriptions that are sent to runners.
    pub fn manifest(&self) -> &ProviderManifest {
        &self.0.manifest
    }

    /// The signatures of the tools, in order, for catalogs that show or search single tools.
    pub fn signatures(&self) -> impl ExactSizeIterator<Item = ToolSignature<'_>> {
        self.0.tools.iter().map(HostTool::signature)
    }

    /// The name of a tool in guest code, by its original name.
    pub fn safe_name(&self, original: &str) -> Option<&str> {
        self.0.by_original_name.get(original).map(|&tool| &*self.0.tools[tool].safe_name)
    }

    /// The original name of a tool, by its name in guest code.
    pub fn original_name(&self, safe: &str) -> Option<&str> {
        self.0.by_safe_name.get(safe).map(|&tool| &*self.0.tools[tool].original_name)
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    pub(crate) fn shared_manifest(&self) -> Arc<ProviderManifest> {
        Arc::clone(&self.0.manifest)
    }

    pub(crate) fn index_of(&self, safe_name: &str) -> Option<usize> {
        self.0.by_safe_name.get(safe_name).copied()
    }

    pub(crate) fn tool(&self, index: usize) -> Option<&HostTool> {
        self.0.tools.get(index)
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
    /// Sets the description for models.
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
    ///
    /// # Errors
    /// The name of the provider, a schema, or the name of a tool is invalid.
    pub fn build(self) -> Result<Provider, ProviderError> {
        let (provider, errors) = self.build_valid()?;
        errors.into_iter().next().map_or(Ok(provider), Err)
    }

    /// Like [`build`](Self::build), but skips invalid tools and returns their errors, for catalogs from elsewhere.
    ///
    /// # Errors
    /// The name of the provider is invalid.
    pub fn build_valid(self) -> Result<(Provider, Vec<ProviderError>), ProviderNameError> {
        names::check_provider_name(&self.name)?;
        let mut errors = Vec::new();
        let mut safe_names = SafeNames::default();
        let mut schemas = Schemas::default();
        let mut tools: Vec<HostTool> = Vec::with_capacity(self.tools.len());
        let (mut by_safe_name, mut by_original_name) = (HashMap::new(), HashMap::new());
        for tool in self.tools {
            if by_original_name.contains_key(tool.name.as_str()) {
                errors.push(ProviderError::DuplicateTool { provider: self.name.clone(), tool: tool.name });
                continue;
            }
            match HostTool::compile(tool, &mut safe_names, &mut schemas) {
                Ok(tool) => {
                    by_safe_name.insert(Arc::clone(&tool.safe_name), tools.len());
                    by_original_name.insert(Arc::clone(&tool.original_name), tools.len());
                    tools.push(tool);
                }
                Err(error) => errors.push(error),
            }
        }
        let manifest = Arc::new(manifest(&self.name, self.description.as_deref(), &tools));
        let (name, description) = (self.name.into(), self.description);
        let inner = Inner { name, description, manifest, tools, by_safe_name, by_original_name };
        Ok((Provider(Arc::new(inner)), errors))
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

/// The schemas of a provider. Many tools of one server share schemas, each of which is compiled once.
#[derive(Default)]
struct Schemas(HashMap<String, Arc<Schema>>);

impl Schemas {
    fn compile(&mut self, schema: &Json) -> Result<Arc<Schema>, SchemaError> {
        let text = schema.to_string();
        if let Some(known) = self.0.get(&text) {
            return Ok(Arc::clone(known));
        }
        let compiled = Arc::new(Schema::compile(schema)?);
        if text.len() <= MAX_SHARED_BYTES {
            self.0.insert(text, Arc::clone(&compiled));
        }
        Ok(compiled)
    }
}

impl HostTool {
    /// Compiles the schemas, then assigns the safe name: an invalid tool takes none.
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

/// The longest schema, in bytes of JSON, that is shared between tools: longer ones are seldom equal.
const MAX_SHARED_BYTES: usize = 4 << 10;
