//! The options of a run (code-execution specification §3), and the request that they are lowered to.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use execbox_core::contract::module::{Bridge, CodeExecutionLog, Failure, Request, add_own_globals};
use execbox_core::language::Dialect;
use execbox_core::program::Limits;
use execbox_core::value::{AttachedBytes, Graph, SerializationError};
use serde_json::{Map, Value as Json};
use tokio_util::sync::CancellationToken;

use super::calls::HostCalls;
use super::value::{Handles, HostError, HostValue, NoHandles, try_clone_members};
use crate::call::Attached;
use crate::events::{EventKind, LogEntry, Observation, Observer, Observers};
use crate::limits::{SingleLimits, limit_setters};

/// What a run executes, what is granted to it, and its limits (§3). By default it executes the default export of a TypeScript
/// module, without arguments, and nothing is granted.
#[derive(Debug)]
#[must_use = "options do nothing until they are passed to `run_code`"]
pub struct CodeExecutionOptions {
    function: Option<String>,
    args: Vec<HostValue>,
    imports: BTreeMap<String, Vec<(String, HostValue)>>,
    modules: BTreeMap<String, String>,
    globals: Vec<(String, HostValue)>,
    language: Dialect,
    filename: Option<String>,
    limits: Limits,
    single_limits: SingleLimits,
    grants_report: bool,
    cancellation: CancellationToken,
    attached: Attached,
    observers: Observers,
    /// Whether the host knows functions by numbers.
    by_number: bool,
}

impl Default for CodeExecutionOptions {
    fn default() -> Self {
        Self {
            function: None,
            args: Vec::new(),
            imports: BTreeMap::new(),
            modules: BTreeMap::new(),
            globals: Vec::new(),
            language: Dialect::default(),
            filename: None,
            limits: Self::default_limits(),
            single_limits: SingleLimits::default(),
            grants_report: false,
            cancellation: CancellationToken::new(),
            attached: Attached::default(),
            observers: Observers::default(),
            by_number: false,
        }
    }
}

/// Why options as data are invalid (§3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A key of the options, or of `execute`, that is not defined.
    #[error("unknown option {option:?}: expected one of {expected}")]
    Unknown {
        /// The key, with its path: `execute.function`.
        option: String,
        /// The keys that are defined there.
        expected: &'static str,
    },
    /// An option has the wrong type.
    #[error("invalid {path}: expected {expected}")]
    Invalid {
        /// The path of the value: `imports.fs`.
        path: String,
        /// What the value should be.
        expected: &'static str,
    },
    /// A value is not tagged JSON.
    #[error(transparent)]
    Value(#[from] SerializationError),
}

impl CodeExecutionOptions {
    /// Creates options with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the export that is executed (`execute.fn`). Default `default`.
    pub fn function(mut self, name: impl Into<String>) -> Self {
        self.function = Some(name.into());
        self
    }

    /// Sets the arguments of the export, if it is a function (`execute.args`). Default: none.
    pub fn args(mut self, args: impl IntoIterator<Item = HostValue>) -> Self {
        self.args = args.into_iter().collect();
        self
    }

    /// Grants a module of host values, which is imported by this bare specifier (`imports`).
    pub fn import<K: Into<String>>(
        mut self,
        specifier: impl Into<String>,
        exports: impl IntoIterator<Item = (K, HostValue)>,
    ) -> Self {
        let exports = exports.into_iter().map(|(name, value)| (name.into(), value));
        self.imports.entry(specifier.into()).or_default().extend(exports);
        self
    }

    /// Adds a module of source text, which is imported by this relative specifier (`modules`).
    pub fn module(mut self, specifier: impl Into<String>, source: impl Into<String>) -> Self {
        self.modules.insert(specifier.into(), source.into());
        self
    }

    /// Grants a global variable of every module (`globals`).
    pub fn global(mut self, name: impl Into<String>, value: impl Into<HostValue>) -> Self {
        self.globals.push((name.into(), value.into()));
        self
    }

    /// Sets the language of all sources. Default TypeScript.
    pub fn language(mut self, language: Dialect) -> Self {
        self.language = language;
        self
    }

    /// Sets all limits but those that are set one by one, such as with [`memory_bytes`](Self::memory_bytes). `timeout` is the
    /// safety cap of §6.4, for runs that are not [terminated](super::CodeExecution::terminate). Default:
    /// [`default_limits`](Self::default_limits).
    ///
    /// The timeout of `limits` applies: 5 s with [`Limits::default`]. To keep that of runs, which is 5 minutes, begin with
    /// their own defaults:
    ///
    /// ```
    /// use execbox::Limits;
    /// use execbox::code::CodeExecutionOptions;
    ///
    /// let limits = CodeExecutionOptions::default_limits().max_bytes_out(1 << 20);
    /// let options = CodeExecutionOptions::new().limits(limits).memory_bytes(16 << 20);
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    limit_setters!();

    /// The default limits of a run: those of [`Limits::default`] with a timeout of 5 minutes.
    pub fn default_limits() -> Limits {
        Limits::default().timeout(Duration::from_mins(5))
    }

    /// Sets the name of the source in stacks and errors, from which its relative imports are resolved. Default `<runCode>`.
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }

    /// Grants the global function `report`, with which the guest reports values while it runs. The result contains them.
    pub fn grant_report(mut self) -> Self {
        self.grants_report = true;
        self
    }

    /// Sets a token that terminates the run, as [`CodeExecution::terminate`](super::CodeExecution::terminate) does
    /// without a reason.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Attaches a value for the tools of [providers](Self::provider), as
    /// [`ExecuteRequest::attach`](crate::ExecuteRequest::attach) does.
    pub fn attach<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.attached.add(value);
        self
    }

    /// Adds an observer of the [events](crate::events) of the run, beside those that it has.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observers.add(observer);
        self
    }

    /// [Grants `report`](Self::grant_report), and adds an observer that receives each report while the guest runs. It must not
    /// block.
    pub fn on_report(self, receive: impl Fn(&Graph) + Send + Sync + 'static) -> Self {
        self.grant_report().observer(Observer::new(move |event| {
            if let EventKind::Reported(report) = event.kind {
                receive(report);
            }
        }))
    }

    /// Adds an observer that receives each line of the captured console while the guest runs. The result contains the lines,
    /// too. It must not block.
    pub fn on_log(self, receive: impl Fn(&CodeExecutionLog) + Send + Sync + 'static) -> Self {
        self.observer(Observer::new(move |event| {
            if let EventKind::Log(LogEntry::ConsoleCall(entry)) = event.kind {
                receive(entry);
            }
        }))
    }

    /// Reads options from an object with the keys of §3 and values in [tagged JSON](execbox_core::value#tagged-json).
    /// Functions and promises cannot be given as data.
    ///
    /// # Errors
    /// An unknown key, or an invalid value.
    pub fn from_json(options: &Json) -> Result<Self, OptionsError> {
        let read = Self::from_json_with(options, &mut AttachedBytes::default(), &NoHandles)?;
        Ok(Self { by_number: false, ..read })
    }

    /// [`from_json`](Self::from_json) with byte strings that are attached, and with functions and promises. In what the guest
    /// passes back, functions have the numbers of `handles`, and all others, such as tools, [`OTHER_FUNCTION`](super::OTHER_FUNCTION).
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json), and a function or promise that `handles` lacks.
    pub fn from_json_with(
        options: &Json,
        attached: &mut AttachedBytes,
        handles: &dyn Handles,
    ) -> Result<Self, OptionsError> {
        let mut reader = ValueReader { attached, handles };
        let mut read = Self { by_number: true, ..Self::new() };
        for (key, value) in object(options, "options")? {
            match key.as_str() {
                "execute" => read = read.execute_from_json(value, &mut reader)?,
                "imports" => {
                    for (specifier, exports) in object(value, "imports")? {
                        let what = format!("imports.{specifier}");
                        let exports = reader.members(exports, &what)?;
                        read = read.import(specifier, exports);
                    }
                }
                "modules" => {
                    for (specifier, source) in object(value, "modules")? {
                        read = read.module(specifier, string(source, &format!("modules[{specifier:?}]"))?);
                    }
                }
                "globals" => read.globals.extend(reader.members(value, "globals")?),
                "language" => {
                    read.language = match value.as_str() {
                        Some("typescript") => Dialect::TypeScript,
                        Some("javascript") => Dialect::JavaScript,
                        _ => return Err(invalid("language", "\"typescript\" or \"javascript\"")),
                    }
                }
                "memoryLimitBytes" => {
                    let bytes = value.as_u64();
                    let bytes = bytes.ok_or_else(|| invalid("memoryLimitBytes", "an integer of 0 or more"))?;
                    read = read.memory_bytes(bytes);
                }
                "filename" => read = read.filename(string(value, "filename")?),
                _ => return Err(unknown(key.clone(), KEYS)),
            }
        }
        Ok(read)
    }

    fn execute_from_json(mut self, execute: &Json, reader: &mut ValueReader<'_>) -> Result<Self, OptionsError> {
        for (key, value) in object(execute, "execute")? {
            match key.as_str() {
                "fn" => self = self.function(string(value, "execute.fn")?),
                "args" => {
                    let args = value.as_array().ok_or_else(|| invalid("execute.args", "an array"))?;
                    let args = args.iter().enumerate();
                    let args = args.map(|(number, arg)| reader.value(arg, &format!("execute.args[{number}]")));
                    self.args = args.collect::<Result<_, _>>()?;
                }
                _ => return Err(unknown(format!("execute.{key}"), EXECUTE_KEYS)),
            }
        }
        Ok(self)
    }

    /// Copies the options. Returns `None` if a value contains a promise.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        let imports = self.imports.iter();
        let imports = imports.map(|(specifier, exports)| Some((specifier.clone(), try_clone_members(exports)?)));
        Some(Self {
            function: self.function.clone(),
            args: self.args.iter().map(HostValue::try_clone).collect::<Option<_>>()?,
            imports: imports.collect::<Option<_>>()?,
            modules: self.modules.clone(),
            globals: try_clone_members(&self.globals)?,
            language: self.language,
            filename: self.filename.clone(),
            limits: self.limits,
            single_limits: self.single_limits,
            grants_report: self.grants_report,
            cancellation: self.cancellation.clone(),
            attached: self.attached.clone(),
            observers: self.observers.clone(),
            by_number: self.by_number,
        })
    }

    pub(crate) fn cancellation_ref(&self) -> &CancellationToken {
        &self.cancellation
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Replaces the observers.
    pub(crate) fn with_observers(self, observers: Observers) -> Self {
        Self { observers, ..self }
    }

    /// Splits the options into a request of data, and the functions and promises that stay here.
    pub(crate) fn lower(self, source: String, observation: &Observation) -> Result<(Request, HostCalls), Failure> {
        let limits = self.effective_limits();
        let mut calls = HostCalls::new(limits.max_calls_in_flight, observation.clone(), self.attached, self.by_number);
        let mut imports = BTreeMap::new();
        for (specifier, exports) in self.imports {
            let what = format!("imports.{specifier}");
            let exports = calls.lower(HostValue::object(exports)).map_err(|error| internal(&error))?;
            imports.insert(specifier, Bridge::new(&exports, &what).map_err(|error| Failure::serialization(&error))?);
        }
        let mut globals = calls.lower(HostValue::object(self.globals)).map_err(|error| internal(&error))?;
        add_own_globals(&mut globals, self.grants_report);
        let globals = Bridge::new(&globals, "globals").map_err(|error| Failure::serialization(&error))?;
        let args = calls.lower(HostValue::array(self.args)).map_err(|error| internal(&error))?;
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
            limits,
        };
        Ok((request, calls))
    }
}

fn internal(error: &HostError) -> Failure {
    Failure::internal(error.to_string())
}

const KEYS: &str = "execute, imports, modules, globals, language, memoryLimitBytes, filename";
const EXECUTE_KEYS: &str = "fn, args";

fn unknown(option: String, expected: &'static str) -> OptionsError {
    OptionsError::Unknown { option, expected }
}

fn invalid(path: &str, expected: &'static str) -> OptionsError {
    OptionsError::Invalid { path: path.to_owned(), expected }
}

fn object<'j>(json: &'j Json, path: &str) -> Result<&'j Map<String, Json>, OptionsError> {
    json.as_object().ok_or_else(|| invalid(path, "an object"))
}

fn string<'j>(json: &'j Json, path: &str) -> Result<&'j str, OptionsError> {
    json.as_str().ok_or_else(|| invalid(path, "a string"))
}

/// Reads values in tagged JSON.
struct ValueReader<'a> {
    attached: &'a mut AttachedBytes,
    handles: &'a dyn Handles,
}

impl ValueReader<'_> {
    fn value(&mut self, json: &Json, path: &str) -> Result<HostValue, OptionsError> {
        let graph = Graph::from_tagged_json_with(json, path, self.attached)?;
        HostValue::with_handles(graph, path, self.handles)
    }

    /// Reads an object of values.
    fn members(&mut self, json: &Json, path: &str) -> Result<Vec<(String, HostValue)>, OptionsError> {
        let members = object(json, path)?.iter();
        members.map(|(name, value)| Ok((name.clone(), self.value(value, &format!("{path}.{name}"))?))).collect()
    }
}
