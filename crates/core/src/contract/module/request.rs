//! What the host asks for: sources, values and limits.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{FunctionId, LogLevel, Notification};
use crate::error::StackFrame;
use crate::language::Dialect;
use crate::program::Limits;
use crate::unawaited::CallPlace;
use crate::value::{Datum, FunctionKind, Graph, Node, Reason, SerializationError, Value};

/// The number of the `report` global (§5.2).
pub(crate) const REPORT: u32 = 0;

/// The functions of the captured console (§4.3), with the numbers from 1.
pub(super) const CONSOLE: [(&str, LogLevel); 5] = [
    ("log", LogLevel::Log),
    ("info", LogLevel::Info),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
    ("debug", LogLevel::Debug),
];

impl Notification {
    /// The size of a report; 0 for the captured console, which has limits of its own.
    pub(crate) fn report_bytes(&self) -> usize {
        if self.function.0 == REPORT { self.args.as_bytes().len() } else { 0 }
    }
}

/// The first number of the host's functions.
pub const FIRST_FUNCTION: u32 = 6;

/// The request for a run: the parts of `CodeExecutionOptions` (§3) as data.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The source of the entry module.
    pub source: String,
    /// The name of the entry module (`filename`).
    pub filename: Option<String>,
    /// The language of all sources.
    pub language: Dialect,
    /// Further source modules, by relative specifier.
    pub modules: BTreeMap<String, String>,
    /// Bridged modules, by bare specifier.
    pub imports: BTreeMap<String, Bridge>,
    /// Bridged globals, with `console` and `report`: see [`add_own_globals`].
    pub globals: Bridge,
    /// The export that is called or read (`execute.fn`).
    pub function: String,
    /// The arguments (`execute.args`): an array.
    pub args: Value,
    /// `memoryLimitBytes`; the safety cap as the timeout; the limits of the captured console.
    pub limits: Limits,
}

impl Request {
    /// The length of the longest source in bytes.
    pub(crate) fn longest_source(&self) -> usize {
        self.modules.values().chain([&self.source]).map(String::len).max().unwrap_or_default()
    }

    /// The names of the functions that it gives.
    pub(crate) fn function_names(&self) -> FunctionNames {
        let imports = self.imports.iter().map(|(specifier, bridge)| (specifier.as_str(), bridge));
        let given = imports.chain([("", &self.globals)]).flat_map(|(specifier, bridge)| {
            bridge.functions.iter().map(move |(&id, name)| (id, (specifier.to_owned(), name.clone())))
        });
        FunctionNames(given.collect())
    }
}

/// The names of the functions of a run: specifier, or nothing for a global, and name.
#[derive(Debug)]
pub(crate) struct FunctionNames(BTreeMap<FunctionId, (String, String)>);

impl FunctionNames {
    /// A call of the function. Functions that only answers have given have no names.
    pub(crate) fn call(&self, function: FunctionId, at: Option<StackFrame>) -> CallPlace {
        let (provider, tool) = self.0.get(&function).cloned().unwrap_or_default();
        CallPlace { provider, tool, at, calls: 1 }
    }

    /// Whether there can be such a call.
    pub(crate) fn has(&self, call: &CallPlace) -> bool {
        let CallPlace { provider, tool, .. } = call;
        tool.is_empty() && provider.is_empty() || self.0.values().any(|name| (&name.0, &name.1) == (provider, tool))
    }
}

/// An object of values for the guest: the exports of a bridged module, or the globals.
#[derive(Debug, Clone, PartialEq)]
pub struct Bridge {
    /// The names of the object's members.
    pub names: BTreeSet<String>,
    /// The functions among the members, and among the members of those that are objects, by name: `get`, `state.get`.
    pub functions: BTreeMap<FunctionId, String>,
    /// The object, encoded.
    pub value: Value,
}

impl Bridge {
    /// Makes a bridge of a plain object. `what` names the object in errors.
    ///
    /// # Errors
    /// The value is not a plain object, or a member is not serializable.
    pub fn new(object: &Graph, what: &str) -> Result<Self, SerializationError> {
        Self::of(object, object.to_value(what)?, what)
    }

    /// Makes a bridge of bytes from the runner protocol.
    ///
    /// # Errors
    /// As [`new`](Self::new); or the bytes are not a value, or the value takes more than `budget` bytes.
    pub fn from_value(value: Value, what: &str, budget: usize) -> Result<Self, SerializationError> {
        Self::of(&value.to_graph(what, budget)?, value, what)
    }

    fn of(object: &Graph, value: Value, what: &str) -> Result<Self, SerializationError> {
        let Some(Node::Object(members)) = object.node(object.root()) else {
            return Err(SerializationError { path: what.to_owned(), reason: Reason::NotAnObject });
        };
        let names = members.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self { names, functions: functions(object, members), value })
    }
}

fn functions(graph: &Graph, members: &[(String, Datum)]) -> BTreeMap<FunctionId, String> {
    let mut functions = BTreeMap::new();
    let mut add = |name: String, datum: &Datum| {
        if let Some(Node::Function(function)) = graph.node(datum) {
            functions.entry(FunctionId(function.number)).or_insert(name);
        }
    };
    for (name, datum) in members {
        add(name.clone(), datum);
        if let Some(Node::Object(inner)) = graph.node(datum) {
            for (key, datum) in inner {
                add(format!("{name}.{key}"), datum);
            }
        }
    }
    functions
}

/// Adds the contract's own globals: a captured `console`, unless the caller has one (§4.3), and `report`, if the caller
/// asks for reports (§5.2).
pub fn add_own_globals(globals: &mut Graph, report: bool) {
    let Datum::Node(root) = *globals.root() else { return };
    let mut own = Vec::new();
    if globals.member(globals.root(), "console").is_none() {
        let functions = CONSOLE.iter().zip(1..).map(|((name, _), number)| (*name, number));
        let functions: Vec<_> =
            functions.map(|(name, number)| (name, globals.function(number, FunctionKind::Log, name))).collect();
        own.push(("console".to_owned(), globals.object(functions)));
    }
    if report {
        own.push(("report".to_owned(), globals.function(REPORT, FunctionKind::Notify, "report")));
    }
    if let Some(Node::Object(members)) = globals.get_mut(root) {
        members.retain(|(name, _)| own.iter().all(|(added, _)| added != name));
        members.extend(own);
    }
}
