//! The functions of a script, apart from its code: how they become members of the namespaces of a program.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::error::ExecuteError;
use crate::language::{Code, CompileError, CompileLimits, Language, Position, Shift, SyntaxError};
use crate::names;
use crate::program::{Function, Namespace};

/// A function of a script, apart from the script's code.
///
/// It is a member of the global object `namespace`, in place of a tool of that name. It takes one argument, `input`, and is
/// compiled on its own: it does not see the variables of the script, and its text cannot close or change that of the script.
/// Both share the global objects. It has the tools and the limits of the script. Stacks name it `namespace.name`. A function
/// that is invalid throws a `SyntaxError` where the script uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptFunction {
    /// The name of the global object, which may be that of a provider.
    pub namespace: String,
    /// The name of the function in it.
    pub name: String,
    /// The body of an async function with the parameter `input`, or one function.
    pub code: String,
}

impl ScriptFunction {
    /// The function `namespace.name` with this code.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, code: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), code: code.into() }
    }

    /// The name of the function's file in stacks: `namespace.name`.
    pub fn file(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
}

/// The length of all sources of a script together, in bytes.
pub(crate) fn source_bytes(code: &str, functions: &[ScriptFunction]) -> usize {
    functions.iter().map(|function| function.code.len()).fold(code.len(), usize::saturating_add)
}

/// The functions of a script, by namespace and name.
pub(super) type Functions<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a ScriptFunction>>;

/// Sorts the functions of a script. Their names must be [checked](check_names) before.
pub(super) fn by_namespace(functions: &[ScriptFunction]) -> Functions<'_> {
    let mut sorted = Functions::new();
    for function in functions {
        sorted.entry(&function.namespace).or_default().insert(&function.name, function);
    }
    sorted
}

/// # Errors
/// `internal_error` for invalid or duplicate names of providers and functions.
pub(super) fn check_names(providers: &[Arc<Namespace>], functions: &[ScriptFunction]) -> Result<(), ExecuteError> {
    let names = || providers.iter().map(|provider| provider.name.as_str());
    let mut known: HashSet<&str> = names().collect();
    let own = functions.iter().map(|function| function.namespace.as_str()).filter(|name| known.insert(name));
    names::check_provider_names(names().chain(own)).map_err(|error| ExecuteError::internal(error.to_string()))?;
    let mut files = HashSet::new();
    for function in functions {
        if !names::is_function_name(&function.name) {
            let file = function.file();
            return Err(ExecuteError::internal(format!(
                "invalid function name {file:?}: after the dot, expected ASCII letters, digits, `_` and `$`, not starting with \
                 a digit, and none of {}",
                names::MAGIC.join(", ")
            )));
        }
        if !files.insert((&function.namespace, &function.name)) {
            return Err(ExecuteError::internal(format!("duplicate function name {:?}", function.file())));
        }
    }
    Ok(())
}

/// The namespaces of providers as an engine gets them, with the functions of the script.
///
/// # Errors
/// Compiling takes too much memory, or was stopped.
pub(super) fn with_functions(
    providers: &[Arc<Namespace>],
    mut functions: Functions<'_>,
    language: &dyn Language,
    reading: &CompileLimits<'_>,
) -> Result<Vec<Arc<Namespace>>, CompileError> {
    let mut namespaces = Vec::with_capacity(providers.len());
    for provider in providers {
        namespaces.push(match functions.remove(provider.name.as_str()) {
            None => Arc::clone(provider),
            Some(own) => {
                let tools = provider.functions.iter().filter(|name| !own.contains_key(name.as_str()));
                let namespace = Namespace::new(&provider.name, tools);
                Arc::new(Namespace { own: compiled(own, language, reading)?, ..namespace })
            }
        });
    }
    for (name, own) in functions {
        let namespace = Namespace::new(name, [""; 0]);
        namespaces.push(Arc::new(Namespace { own: compiled(own, language, reading)?, ..namespace }));
    }
    Ok(namespaces)
}

fn compiled(
    functions: BTreeMap<&str, &ScriptFunction>,
    language: &dyn Language,
    reading: &CompileLimits<'_>,
) -> Result<Vec<Function>, CompileError> {
    let compile = |function: &ScriptFunction| {
        // A front end asks after so many bytes, which many short functions do not have.
        if (reading.should_stop)() {
            return Err(CompileError::Stopped);
        }
        let code = match language.function(&function.code, reading) {
            Err(CompileError::Syntax(error)) => throwing(&function.file(), &error),
            compiled => compiled?,
        };
        Ok(Function { name: function.name.clone(), file: function.file().into(), code })
    };
    functions.into_values().map(compile).collect()
}

/// The code of a function that the front end rejects: it throws the error, at its position in the source.
fn throwing(file: &str, SyntaxError { message, position }: &SyntaxError) -> Code {
    let message = Json::from(format!("{file} cannot be compiled: {message}"));
    let at = position.unwrap_or(Position { line: 1, column: 1 });
    let lines = "\n".repeat(at.line.saturating_sub(1) as usize);
    let shift = Shift { line: at.line, column: 1, source_column: at.column, inserted: true };
    Code { text: format!("{lines}throw new SyntaxError({message})"), shifts: vec![shift] }
}

/// For every host function of a program, in the order of its namespaces: the number of its provider, and that of the tool in
/// the provider.
pub(super) fn targets(providers: &[Arc<Namespace>], functions: &Functions<'_>) -> Vec<(usize, usize)> {
    let tools = providers.iter().enumerate().flat_map(|(number, provider)| {
        let own = functions.get(provider.name.as_str());
        let is_kept = move |name: &str| own.is_none_or(|own| !own.contains_key(name));
        let tools = provider.functions.iter().enumerate().filter(move |(_, name)| is_kept(name));
        tools.map(move |(tool, _)| (number, tool))
    });
    tools.collect()
}
