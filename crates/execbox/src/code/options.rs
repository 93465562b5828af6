//! Options of a run (code-execution specification §3), and what they come to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::contract::module::{Bridge, CodeExecutionLog, Failure, Request, add_own_globals};
use execbox_core::language::Dialect;
use execbox_core::program::Limits;
use execbox_core::value::{Graph, Node, SerializationError};
use serde_json::{Map, Value as Json};

use super::calls::HostCalls;
use super::value::{HostError, HostValue};

/// What is called with what a run says, as it comes.
#[derive(Clone, Default)]
pub(crate) struct Sinks {
    pub(crate) report: Option<Sink<Graph>>,
    pub(crate) log: Option<Sink<CodeExecutionLog>>,
}

pub(crate) type Sink<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// How a run is executed, and what is granted to it (§3). By default: the default export of a TypeScript module, without
/// arguments, and nothing granted.
#[derive(Debug, Default)]
#[must_use = "options do nothing until a run is given them"]
pub struct CodeExecutionOptions {
    function: Option<String>,
    args: Vec<HostValue>,
    imports: BTreeMap<String, Vec<(String, HostValue)>>,
    modules: BTreeMap<String, String>,
    globals: Vec<(String, HostValue)>,
    language: Dialect,
    filename: Option<String>,
    limits: CodeLimits,
    sinks: Sinks,
}

/// What a run is held to.
#[derive(Debug, Clone, Copy)]
struct CodeLimits(Limits);

impl Default for CodeLimits {
    fn default() -> Self {
        Self(Limits { timeout: SAFETY_CAP, ..Limits::default() })
    }
}

impl std::fmt::Debug for Sinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { report, log } = self;
        f.debug_struct("Sinks").field("report", &report.is_some()).field("log", &log.is_some()).finish()
    }
}

/// How long a run may take that nobody terminates (§6.4).
pub const SAFETY_CAP: Duration = Duration::from_mins(5);

/// Options that are not as §3 has them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// "Unknown keys on `options` are rejected."
    #[error("there is no option {0:?}: there are {known}", known = KEYS.join(", "))]
    Unknown(String),
    /// A key of `execute` that there is not.
    #[error("`execute` has `fn` and `args`, and no {0:?}")]
    UnknownInExecute(String),
    /// An option is not what it must be.
    #[error("{path} {problem}")]
    Invalid {
        /// For example `execute.args`.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A value in an option is not valid tagged JSON.
    #[error(transparent)]
    Value(#[from] SerializationError),
}

const KEYS: [&str; 7] = ["execute", "imports", "modules", "globals", "language", "memoryLimitBytes", "filename"];

impl CodeExecutionOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The export that is executed (`execute.fn`). Default `default`.
    pub fn function(mut self, name: impl Into<String>) -> Self {
        self.function = Some(name.into());
        self
    }

    /// Its arguments (`execute.args`), if it is a function.
    pub fn args(mut self, args: impl IntoIterator<Item = HostValue>) -> Self {
        self.args = args.into_iter().collect();
        self
    }

    /// A module of host values that can be imported by this bare specifier (`imports`).
    pub fn import<K: Into<String>>(
        mut self,
        specifier: impl Into<String>,
        exports: impl IntoIterator<Item = (K, HostValue)>,
    ) -> Self {
        let exports = exports.into_iter().map(|(name, value)| (name.into(), value));
        self.imports.entry(specifier.into()).or_default().extend(exports);
        self
    }

    /// A module of source text that can be imported by this relative specifier (`modules`).
    pub fn module(mut self, specifier: impl Into<String>, source: impl Into<String>) -> Self {
        self.modules.insert(specifier.into(), source.into());
        self
    }

    /// A value at the scope of every module (`globals`).
    pub fn global(mut self, name: impl Into<String>, value: impl Into<HostValue>) -> Self {
        self.globals.push((name.into(), value.into()));
        self
    }

    /// What the sources are written in. Default TypeScript.
    pub fn language(mut self, language: Dialect) -> Self {
        self.language = language;
        self
    }

    /// What the run may have in use at once, in bytes. Default 64 MiB.
    pub fn memory_limit_bytes(mut self, bytes: u64) -> Self {
        self.limits.0.memory_bytes = bytes;
        self
    }

    /// What stands for the source in stacks and errors, and where its relative imports start from. Default `<runCode>`.
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }

    /// Gives the run a `report` global. Every report goes to `sink` as it comes, on the task that drives the run, and into
    /// the result.
    pub fn report(mut self, sink: impl Fn(&Graph) + Send + Sync + 'static) -> Self {
        self.sinks.report = Some(Arc::new(sink));
        self
    }

    /// Called with every line of the captured console as it comes, on the task that drives the run; the result carries
    /// them all the same.
    pub fn on_log(mut self, sink: impl Fn(&CodeExecutionLog) + Send + Sync + 'static) -> Self {
        self.sinks.log = Some(Arc::new(sink));
        self
    }

    /// When the runtime stops a run by itself. Default [`SAFETY_CAP`]. For a budget of the caller's, terminate the run.
    pub fn safety_cap(mut self, cap: Duration) -> Self {
        self.limits.0.timeout = cap;
        self
    }

    /// How much of the captured console is kept: calls, and bytes of their arguments. Default 100 and 64 000.
    pub fn log_limits(mut self, calls: usize, bytes: usize) -> Self {
        self.limits.0.max_log_lines = calls;
        self.limits.0.max_log_chars = bytes;
        self
    }

    /// The longest source that is read, in bytes: of the entry, and of each module. Default 4 MiB.
    pub fn max_source_bytes(mut self, bytes: usize) -> Self {
        self.limits.0.max_source_bytes = bytes;
        self
    }

    /// Options as data: an object with the keys of §3, and values in [tagged JSON](execbox_core::value#tagged-json).
    /// Functions cannot be said as data.
    pub fn from_json(options: &Json) -> Result<Self, OptionsError> {
        let mut made = Self::new();
        for (key, value) in object(options, "options")? {
            match key.as_str() {
                "execute" => made = made.execute_from_json(value)?,
                "imports" => {
                    for (specifier, exports) in object(value, "imports")? {
                        let what = format!("imports.{specifier}");
                        let exports = members(exports, &what)?;
                        made = made.import(specifier, exports);
                    }
                }
                "modules" => {
                    for (specifier, source) in object(value, "modules")? {
                        made = made.module(specifier, string(source, &format!("modules[{specifier:?}]"))?);
                    }
                }
                "globals" => made.globals.extend(members(value, "globals")?),
                "language" => {
                    made.language = match value.as_str() {
                        Some("typescript") => Dialect::TypeScript,
                        Some("javascript") => Dialect::JavaScript,
                        _ => return Err(invalid("language", "is neither \"typescript\" nor \"javascript\"")),
                    }
                }
                "memoryLimitBytes" => {
                    let bytes = value.as_u64();
                    let bytes = bytes.ok_or_else(|| invalid("memoryLimitBytes", "is not an integer of 0 or more"))?;
                    made = made.memory_limit_bytes(bytes);
                }
                "filename" => made = made.filename(string(value, "filename")?),
                _ => return Err(OptionsError::Unknown(key.clone())),
            }
        }
        Ok(made)
    }

    fn execute_from_json(mut self, execute: &Json) -> Result<Self, OptionsError> {
        for (key, value) in object(execute, "execute")? {
            match key.as_str() {
                "fn" => self = self.function(string(value, "execute.fn")?),
                "args" => {
                    let args = value.as_array().ok_or_else(|| invalid("execute.args", "is not an array"))?;
                    let args = args.iter().enumerate();
                    let args = args.map(|(number, arg)| tagged(arg, &format!("execute.args[{number}]")));
                    self.args = args.collect::<Result<_, _>>()?;
                }
                _ => return Err(OptionsError::UnknownInExecute(key.clone())),
            }
        }
        Ok(self)
    }

    /// What is asked for as data, and what is kept here: the functions and promises.
    pub(crate) fn lower(self, source: String) -> Result<(Request, HostCalls, Sinks), Failure> {
        let mut calls = HostCalls::default();
        let mut imports = BTreeMap::new();
        for (specifier, exports) in self.imports {
            let what = format!("imports.{specifier}");
            let exports = calls.lower(HostValue::object(exports)).map_err(|error| refused(&error))?;
            imports.insert(specifier, Bridge::new(&exports, &what).map_err(|error| Failure::serialization(&error))?);
        }
        let mut globals = calls.lower(HostValue::object(self.globals)).map_err(|error| refused(&error))?;
        add_own_globals(&mut globals, self.sinks.report.is_some());
        let globals = Bridge::new(&globals, "globals").map_err(|error| Failure::serialization(&error))?;
        let args = calls.lower(HostValue::array(self.args)).map_err(|error| refused(&error))?;
        let args = args.to_value("args").map_err(|error| Failure::serialization(&error))?;
        let request = Request {
            source,
            filename: self.filename,
            language: self.language,
            modules: self.modules,
            imports,
            globals,
            function: self.function.unwrap_or_else(|| "default".to_owned()),
            args,
            limits: self.limits.0,
        };
        Ok((request, calls, self.sinks))
    }
}

fn refused(error: &HostError) -> Failure {
    Failure::internal(error.to_string())
}

fn invalid(path: &str, problem: &'static str) -> OptionsError {
    OptionsError::Invalid { path: path.to_owned(), problem }
}

fn object<'j>(json: &'j Json, path: &str) -> Result<&'j Map<String, Json>, OptionsError> {
    json.as_object().ok_or_else(|| invalid(path, "is not an object"))
}

fn string<'j>(json: &'j Json, path: &str) -> Result<&'j str, OptionsError> {
    json.as_str().ok_or_else(|| invalid(path, "is not a string"))
}

/// One value in tagged JSON. Functions and promises of a host cannot be made of data.
fn tagged(json: &Json, path: &str) -> Result<HostValue, OptionsError> {
    let graph = Graph::from_tagged_json(json, path)?;
    if graph.nodes().any(|node| matches!(node, Node::Function(_) | Node::Promise(_))) {
        return Err(invalid(path, "has a function or a promise, which data cannot give"));
    }
    Ok(HostValue::from(graph))
}

/// The members of an object whose values are in tagged JSON.
fn members(json: &Json, path: &str) -> Result<Vec<(String, HostValue)>, OptionsError> {
    let members = object(json, path)?.iter();
    members.map(|(name, value)| Ok((name.clone(), tagged(value, &format!("{path}.{name}"))?))).collect()
}
