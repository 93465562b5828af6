//! What an engine is given to run.
//!
//! A [`Program`] is made by a contract (see [`crate::script`]) and says everything an engine needs:
//! code, the functions it may call, and limits. It says nothing of providers, tools or schemas.

use std::sync::Arc;
use std::time::Duration;

/// Code with what it may use.
#[derive(Debug, Clone)]
pub struct Program {
    /// What to run.
    pub source: Source,
    /// Global objects whose members are host functions.
    pub namespaces: Vec<Arc<Namespace>>,
    /// What the engine must hold it to.
    pub limits: Limits,
}

/// What to run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Source {
    /// One expression: an async function without parameters. The engine evaluates it, calls it, and
    /// the promise that it returns is the program's outcome. From the moment it is compiled, no other
    /// code can be.
    Function {
        /// Stands for the code in stack frames.
        name: String,
        /// The expression.
        code: String,
    },
    /// ES modules. They are linked and evaluated, and one export of the entry is the program's outcome.
    /// An engine without modules refuses to [start](crate::engine::StartError::Unsupported) it.
    Modules {
        /// Where it begins: the name of one of the modules.
        entry: String,
        /// The whole graph. Nothing else can be imported.
        modules: Vec<Module>,
        /// The export that is the outcome.
        export: String,
    },
}

/// One ES module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// What it is imported by, and what stands for it in stack frames.
    pub name: String,
    /// Its source, as the engine runs it.
    pub code: String,
}

/// A global object of the guest whose members are asynchronous host functions. Frozen, and without a
/// prototype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The global's name.
    pub name: String,
    /// The functions' names, in order.
    pub functions: Vec<String>,
}

/// Limits of one execution (runner specification, `ExecutorRuntimeOptions`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall time from acceptance to result. Kept by the driver, not by the engine. Default 5 s.
    pub timeout: Duration,
    /// What the program may have in use at once, in bytes, beyond the realm that it starts with. The
    /// host keeps no more than that for it either (calls in flight; each value that crosses). Default 64 MiB.
    pub memory_bytes: u64,
    /// How many console lines are kept: the earliest. Default 100.
    pub max_log_lines: usize,
    /// How many UTF-16 code units the kept lines may have together. Default 64 000.
    pub max_log_chars: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), memory_bytes: 64 << 20, max_log_lines: 100, max_log_chars: 64_000 }
    }
}

impl Limits {
    /// [`memory_bytes`](Self::memory_bytes) as a length of this machine.
    pub fn memory_len(&self) -> usize {
        usize::try_from(self.memory_bytes).unwrap_or(usize::MAX)
    }
}
