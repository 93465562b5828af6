//! Providers: tools under one name, with checked names and compiled schemas.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use execbox_core::budget::{Budget, Charge, Exhausted, Refused};
use execbox_core::manifest::{ProviderManifest, ToolManifest};
use execbox_core::memory;
use execbox_core::names::{self, ProviderNameError};
use serde_json::Value as Json;

use crate::call::Effect;
use crate::policy::Policy;
use crate::tools::declarations::{Namespace, ToolSignature};
use crate::tools::dispatch::failed_call_prefix;
use crate::tools::schema::{Reading, Schema, SchemaError, UncheckedPart};
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
pub struct Provider {
    inner: Arc<Inner>,
    /// The policies, all of which must allow a call.
    policies: Vec<Arc<Policy>>,
}

struct Inner {
    name: Arc<str>,
    description: Option<String>,
    names_failed_calls: bool,
    manifest: Arc<ProviderManifest>,
    tools: Vec<Arc<HostTool>>,
    by_safe_name: HashMap<Arc<str>, usize>,
    by_original_name: HashMap<Arc<str>, usize>,
}

/// A tool with compiled schemas.
pub(crate) struct HostTool {
    pub(crate) safe_name: Arc<str>,
    pub(crate) original_name: Arc<str>,
    description: Option<String>,
    input_schema: Option<Arc<Json>>,
    output_schema: Option<Arc<Json>>,
    pub(crate) effect: Effect,
    pub(crate) input: Option<Arc<Schema>>,
    pub(crate) output: Option<Arc<Schema>>,
    pub(crate) function: Arc<HostFunction>,
    /// Charged for everything but the compiled schemas, which have charges of their own.
    charge: Charge,
}

/// Builds a [`Provider`].
#[derive(Debug)]
pub struct ProviderBuilder {
    name: String,
    description: Option<String>,
    names_failed_calls: bool,
    tools: Vec<Tool>,
    budget: Budget,
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
        /// The original name of the tool.
        tool: String,
        /// `input` or `output`.
        which: &'static str,
        /// Why the schema is invalid.
        reason: SchemaError,
    },
    /// Values are not checked against a part of a schema of the tool. The tool is not skipped.
    #[error("the {which} schema of tool {tool:?} is not checked at {place:?}: {reason}")]
    UncheckedSchema {
        /// The original name of the tool.
        tool: String,
        /// `input` or `output`.
        which: &'static str,
        /// The JSON pointer of the part, as in [`UncheckedPart`](crate::UncheckedPart).
        place: String,
        /// Why the part is not checked.
        reason: SchemaError,
    },
    /// Values are not checked against further parts of a schema of the tool. The tool is not skipped.
    #[error("the {which} schema of tool {tool:?} is not checked at {more} further places")]
    MoreUnchecked {
        /// The original name of the tool.
        tool: String,
        /// `input` or `output`.
        which: &'static str,
        /// The number of the parts.
        more: usize,
    },
    /// The tools take more memory than the [budget](ProviderBuilder::budget).
    #[error("tool {tool:?} does not fit into the memory for the tools of provider {provider:?}: {reason}")]
    Budget {
        /// The name of the provider.
        provider: String,
        /// The original name of the tool.
        tool: String,
        /// The memory that was used and requested.
        reason: Refused,
    },
    /// Two tools have one name.
    #[error("duplicate tool {tool:?} in provider {provider:?}")]
    DuplicateTool {
        /// The name of the provider.
        provider: String,
        /// The original name of the tools.
        tool: String,
    },
}

impl Provider {
    /// Builds a provider. `name` is the name of the global in guest code: an identifier that is neither a reserved word nor
    /// an existing global.
    pub fn builder(name: impl Into<String>) -> ProviderBuilder {
        ProviderBuilder {
            name: name.into(),
            description: None,
            names_failed_calls: false,
            tools: Vec::new(),
            budget: Budget::new(usize::MAX),
        }
    }

    /// Returns the same tools with a policy that decides about their calls. A provider can have several policies: each must
    /// allow a call.
    #[must_use]
    pub fn with_policy(&self, policy: &Policy) -> Self {
        let mut provider = self.clone();
        provider.policies.push(Arc::new(policy.clone()));
        provider
    }

    /// Returns the tools that `keep` selects, with their names here and the same policies: for a caller that is granted only a
    /// part.
    #[must_use]
    pub fn only(&self, mut keep: impl FnMut(&ToolManifest, Effect) -> bool) -> Self {
        let Inner { name, description, names_failed_calls, manifest, tools, .. } = &*self.inner;
        let kept = manifest.tools.iter().zip(tools).filter(|(shown, tool)| keep(shown, tool.effect));
        let tools: Vec<_> = kept.map(|(_, tool)| Arc::clone(tool)).collect();
        let mut types = Namespace::default();
        for tool in &tools {
            types.add(&tool.signature());
        }
        let inner = Inner::new(Arc::clone(name), description.clone(), *names_failed_calls, tools, types);
        Self { inner: Arc::new(inner), policies: self.policies.clone() }
    }

    /// The name in guest code.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The description for models.
    pub fn description(&self) -> Option<&str> {
        self.inner.description.as_deref()
    }

    /// The TypeScript declarations of the namespace (`declare namespace …`), for prompts.
    pub fn types(&self) -> &str {
        &self.inner.manifest.types
    }

    /// The names and descriptions that are sent to runners.
    pub fn manifest(&self) -> &ProviderManifest {
        &self.inner.manifest
    }

    /// The signatures of the tools, in order, for catalogs that show or search single tools.
    pub fn signatures(&self) -> impl ExactSizeIterator<Item = ToolSignature<'_>> {
        self.inner.tools.iter().map(|tool| tool.signature())
    }

    /// What calls of the tools do, in the same order.
    pub fn effects(&self) -> impl ExactSizeIterator<Item = Effect> {
        self.inner.tools.iter().map(|tool| tool.effect)
    }

    /// The name of a tool in guest code, by its original name.
    pub fn safe_name(&self, original: &str) -> Option<&str> {
        self.inner.by_original_name.get(original).map(|&tool| &*self.inner.tools[tool].safe_name)
    }

    /// The original name of a tool, by its name in guest code.
    pub fn original_name(&self, safe: &str) -> Option<&str> {
        self.inner.by_safe_name.get(safe).map(|&tool| &*self.inner.tools[tool].original_name)
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.inner.name)
    }

    pub(crate) fn shared_manifest(&self) -> Arc<ProviderManifest> {
        Arc::clone(&self.inner.manifest)
    }

    pub(crate) fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// Whether the messages of failed calls begin with the call.
    pub(crate) fn names_failed_calls(&self) -> bool {
        self.inner.names_failed_calls
    }

    /// The message of a failed call of a tool without the call, if this provider puts that before it.
    pub fn bare_message<'a>(&self, safe_name: &str, message: &'a str) -> &'a str {
        let named = if self.names_failed_calls() { failed_call_prefix(self.name(), safe_name).len() } else { 0 };
        message.get(named..).unwrap_or(message)
    }

    pub(crate) fn index_of(&self, safe_name: &str) -> Option<usize> {
        self.inner.by_safe_name.get(safe_name).copied()
    }

    pub(crate) fn tool(&self, index: usize) -> Option<&HostTool> {
        self.inner.tools.get(index).map(|tool| &**tool)
    }
}

impl AsRef<ProviderManifest> for Provider {
    fn as_ref(&self) -> &ProviderManifest {
        &self.inner.manifest
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.inner.tools.iter().map(|tool| &*tool.safe_name).collect();
        f.debug_struct("Provider").field("name", &self.inner.name).field("tools", &tools).finish_non_exhaustive()
    }
}

impl ProviderBuilder {
    /// Sets the description for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Puts the call before the message of each failed call: `shop.get_order failed: …`. The message then shows which of several
    /// calls it is about, also where code catches and logs it. Default: messages of tools reach the guest word for word.
    #[must_use]
    pub fn name_failed_calls(mut self) -> Self {
        self.names_failed_calls = true;
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

    /// Charges the memory of the tools to `budget`: their names, descriptions, schemas, compiled schemas and declarations.
    /// A tool that does not fit is an error. Default: no limit.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Checks names and schemas, assigns safe names, and writes the declarations.
    ///
    /// # Errors
    /// The name of the provider, a schema, or the name of a tool is invalid; or a schema has a `pattern` that cannot be
    /// checked in linear time.
    pub fn build(self) -> Result<Provider, ProviderError> {
        let (provider, errors) = self.assemble(Reading::Strict)?;
        errors.into_iter().next().map_or(Ok(provider), Err)
    }

    /// Like [`build`](Self::build), but skips invalid tools and returns their errors, for catalogs from elsewhere.
    ///
    /// A part of a schema that cannot be read does not make its tool invalid: values are not checked against that part, as by
    /// [`Schema::compile_lenient`], and the errors name it: [`ProviderError::UncheckedSchema`] for the first 8 parts of a schema
    /// and the first 1 000 of the provider, and [`ProviderError::MoreUnchecked`] for the others of a schema.
    ///
    /// # Errors
    /// The name of the provider is invalid.
    pub fn build_valid(self) -> Result<(Provider, Vec<ProviderError>), ProviderNameError> {
        self.assemble(Reading::Lenient)
    }

    fn assemble(self, reading: Reading) -> Result<(Provider, Vec<ProviderError>), ProviderNameError> {
        names::check_provider_name(&self.name)?;
        let mut assembly = Assembly::new(&self.name, &self.budget, reading);
        let safe_names = safe_names(&self.tools);
        for (tool, safe_name) in self.tools.into_iter().zip(safe_names) {
            let name = tool.name.clone();
            if let Err(error) = assembly.add(tool, safe_name) {
                let error = match error {
                    ProviderError::Schema { reason: SchemaError::Size(reason @ Refused::Exhausted(_)), .. } => {
                        ProviderError::Budget { provider: self.name.clone(), tool: name, reason }
                    }
                    error => error,
                };
                assembly.errors.push(error);
            }
        }
        let Assembly { types, tools, errors, .. } = assembly;
        let inner = Inner::new(self.name.into(), self.description, self.names_failed_calls, tools, types);
        Ok((Provider { inner: Arc::new(inner), policies: Vec::new() }, errors))
    }
}

impl Inner {
    fn new(
        name: Arc<str>,
        description: Option<String>,
        names_failed_calls: bool,
        tools: Vec<Arc<HostTool>>,
        types: Namespace,
    ) -> Self {
        let types = types.finish(&name, description.as_deref());
        let manifest = Arc::new(manifest(&name, types, &tools));
        let by = |name: fn(&HostTool) -> &Arc<str>| {
            tools.iter().enumerate().map(|(at, tool)| (Arc::clone(name(tool)), at)).collect()
        };
        let (by_safe_name, by_original_name) = (by(|tool| &tool.safe_name), by(|tool| &tool.original_name));
        Self { name, description, names_failed_calls, manifest, tools, by_safe_name, by_original_name }
    }
}

/// The parts of a provider, tool by tool.
struct Assembly<'a> {
    provider: &'a str,
    budget: &'a Budget,
    schemas: Schemas,
    types: Namespace,
    tools: Vec<Arc<HostTool>>,
    /// The original names of the tools.
    names: HashSet<Arc<str>>,
    errors: Vec<ProviderError>,
    /// The number of errors that name an unchecked part of a schema.
    unchecked: usize,
}

impl<'a> Assembly<'a> {
    fn new(provider: &'a str, budget: &'a Budget, reading: Reading) -> Self {
        Self {
            provider,
            budget,
            schemas: Schemas { reading, by_text: HashMap::new(), by_address: HashMap::new() },
            types: Namespace::default(),
            tools: Vec::new(),
            names: HashSet::new(),
            errors: Vec::new(),
            unchecked: 0,
        }
    }

    /// Compiles the schemas, and adds the tool if they are valid.
    fn add(&mut self, tool: Tool, safe_name: String) -> Result<(), ProviderError> {
        if self.names.contains(tool.name.as_str()) {
            return Err(ProviderError::DuplicateTool { provider: self.provider.to_owned(), tool: tool.name });
        }
        let exhausted = |reason: Exhausted| ProviderError::Budget {
            provider: self.provider.to_owned(),
            tool: tool.name.clone(),
            reason: reason.into(),
        };
        let schemas = [&tool.input_schema, &tool.output_schema].into_iter().flatten();
        let schemas: usize = schemas.map(|schema| self.schemas.bytes(schema)).sum();
        let mut charge = self.budget.charge(tool_bytes(&tool) + schemas).map_err(exhausted)?;
        let mut compile = |which, schema: Option<&Arc<Json>>| {
            let compiled = schema.map(|schema| self.schemas.compile(schema, self.budget)).transpose();
            compiled.map_err(|reason| ProviderError::Schema { tool: tool.name.clone(), which, reason })
        };
        let input = compile("input", tool.input_schema.as_ref())?;
        let output = compile("output", tool.output_schema.as_ref())?;
        charge.add(MAX_DECLARATIONS).map_err(exhausted)?;
        for (which, schema) in [("input", &input), ("output", &output)] {
            if let Some(schema) = schema {
                self.report_unchecked(&tool.name, which, schema);
            }
        }
        let mut tool = HostTool {
            safe_name: safe_name.into(),
            original_name: tool.name.into(),
            description: tool.description,
            input_schema: tool.input_schema,
            output_schema: tool.output_schema,
            effect: tool.effect,
            input,
            output,
            function: tool.function,
            charge,
        };
        let surplus = MAX_DECLARATIONS.saturating_sub(self.types.add(&tool.signature()));
        tool.charge.shrink_to(tool.charge.bytes() - surplus);
        self.names.insert(Arc::clone(&tool.original_name));
        self.tools.push(Arc::new(tool));
        Ok(())
    }

    /// Adds an error for each unchecked part of a schema, as far as there may be more of them.
    fn report_unchecked(&mut self, tool: &str, which: &'static str, schema: &Schema) {
        let parts = schema.unchecked();
        let named = &parts[..parts.len().min(MAX_UNCHECKED - self.unchecked)];
        self.unchecked += named.len();
        self.errors.extend(named.iter().cloned().map(|UncheckedPart { place, reason }| {
            ProviderError::UncheckedSchema { tool: tool.to_owned(), which, place, reason }
        }));
        let more = parts.len() - named.len() + schema.more_unchecked();
        if more > 0 {
            self.errors.push(ProviderError::MoreUnchecked { tool: tool.to_owned(), which, more });
        }
    }
}

/// The safe names of tools, which depend on the names of all of them, also of invalid ones, and not on their order.
fn safe_names(tools: &[Tool]) -> Vec<String> {
    let kept: HashSet<&str> = tools.iter().filter(|tool| tool.keeps_reserved_name).map(|tool| &*tool.name).collect();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    names::distinct(&names, |name| if kept.contains(name) { name.to_owned() } else { names::safe_name(name) })
}

/// The memory of a tool, in bytes, without its schemas and declarations. The name and the description are in the manifest, too.
fn tool_bytes(tool: &Tool) -> usize {
    let texts = tool.name.len() + tool.description.as_ref().map_or(0, String::len);
    size_of::<HostTool>() + size_of::<ToolManifest>() + 4 * texts
}

fn manifest(name: &str, types: String, tools: &[Arc<HostTool>]) -> ProviderManifest {
    let tools = tools.iter().map(|tool| {
        ToolManifest::new(tool.safe_name.to_string(), tool.original_name.to_string())
            .description(tool.description.clone())
    });
    ProviderManifest::new(name, tools.collect(), types)
}

/// The schemas of a provider. Many tools of one server share schemas, each of which is compiled once.
struct Schemas {
    reading: Reading,
    by_text: HashMap<String, Arc<Schema>>,
    /// Schemas that several tools share as one value in memory, which is kept here so that no other one gets its address.
    by_address: HashMap<*const Json, (Arc<Json>, Arc<Schema>)>,
}

impl Schemas {
    /// The memory that one more tool with this schema takes for it, in bytes: 0 if another tool has the same value.
    fn bytes(&self, schema: &Arc<Json>) -> usize {
        if self.by_address.contains_key(&Arc::as_ptr(schema)) { 0 } else { memory::of_json(schema) }
    }

    /// Compiles a schema on `budget`.
    fn compile(&mut self, schema: &Arc<Json>, budget: &Budget) -> Result<Arc<Schema>, SchemaError> {
        if let Some((_, known)) = self.by_address.get(&Arc::as_ptr(schema)) {
            return Ok(Arc::clone(known));
        }
        let text = schema.to_string();
        if let Some(known) = self.by_text.get(&text) {
            return Ok(Arc::clone(known));
        }
        let compiled = Arc::new(Schema::compile_as(self.reading, schema, budget)?);
        if Arc::strong_count(schema) > 1 {
            self.by_address.insert(Arc::as_ptr(schema), (Arc::clone(schema), Arc::clone(&compiled)));
        }
        if text.len() <= MAX_SHARED_BYTES {
            self.by_text.insert(text, Arc::clone(&compiled));
        }
        Ok(compiled)
    }
}

impl HostTool {
    fn signature(&self) -> ToolSignature<'_> {
        ToolSignature {
            safe_name: &self.safe_name,
            description: self.description.as_deref(),
            input: self.input_schema.as_deref(),
            output: self.output_schema.as_deref(),
        }
    }
}

/// The longest schema, in bytes of JSON, that is shared between tools: longer ones are seldom equal.
const MAX_SHARED_BYTES: usize = 4 << 10;

/// How many unchecked parts of schemas the errors of a provider name; further ones are counted.
const MAX_UNCHECKED: usize = 1_000;

/// An upper bound for the declarations of one tool, in bytes, which the limits on their characters imply.
const MAX_DECLARATIONS: usize = 128 << 10;
