//! What an engine runs.
//!
//! A [contract](crate::contract) makes a [`Program`] with everything that an engine needs: code, the functions that it may
//! call, and limits. Engines know nothing of providers, tools or schemas.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use crate::budget::Budget;
use crate::language::{Code, DEFAULT_MAX_SOURCE_BYTES};
use crate::text::bytes_text;
use crate::value::Value;

/// Code, the functions that it may call, and its limits.
#[derive(Debug, Clone)]
pub struct Program {
    /// The code.
    pub source: Source,
    /// Global objects whose members are host functions. Empty for modules, which import what they use.
    pub namespaces: Vec<Arc<Namespace>>,
    /// The limits that the engine enforces.
    pub limits: Limits,
    /// What the host keeps for the guest: pending calls and notifications. As large as the memory limit.
    pub budget: Budget,
}

impl Program {
    /// A program with a budget of its own.
    pub fn new(source: Source, namespaces: Vec<Arc<Namespace>>, limits: Limits) -> Self {
        Self { source, namespaces, limits, budget: Budget::new(limits.host_memory_len()) }
    }
}

/// The code of a program.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Source {
    /// The body of an async arrow function without parameters, at global scope. The engine compiles the whole
    /// text as that body and calls the function. The outcome is that of the promise that it returns. No other code can be
    /// compiled after that.
    Script {
        /// The file name in stack frames.
        name: String,
        /// The function's body. The engine reports positions in its source: see [`Code`].
        code: Code,
    },
    /// ES modules (code-execution specification §8). The engine links and evaluates them; the outcome is that of one export
    /// of the entry. An engine may [not support](crate::engine::StartError::Unsupported) modules.
    Modules(Modules),
}

/// A graph of ES modules, and the export that is its outcome.
///
/// Imports are resolved within the graph. A specifier that begins with `./` or `../` is joined to the directory of the
/// importing module's name; the result begins with `./`. Every other specifier is a module's name. For example, `main.ts`
/// imports `./lib/math.js` by that specifier, and `./lib/math.js` imports `./data.js` as `../data.js`. A specifier that
/// leads above the top has no module.
///
/// A guest can compile no other code than these modules. The global object has the globals of ECMAScript,
/// `structuredClone` and `queueMicrotask` (§6.1), and no `console`.
///
/// Values are copied whole, and may contain functions and promises of the host: see [`crate::value`].
#[derive(Debug, Clone)]
pub struct Modules {
    /// The name of the entry, one of `modules` with source.
    pub entry: Arc<str>,
    /// All modules. Names are distinct and contain no NUL. Modules that are not imported are not compiled.
    pub modules: Vec<Module>,
    /// The export of the entry that is the outcome (§5.1). The engine reads it when the entry is evaluated, calls it with
    /// `args` if it is a function, and awaits it while it is a thenable.
    pub export: String,
    /// The arguments: an array. Arguments for an export that is not a function are an error.
    pub args: Value,
}

/// One ES module.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// The name in imports and stack frames.
    pub name: Arc<str>,
    /// The source or the exports.
    pub body: ModuleBody,
    /// Whether `import(…)` finds the module. Modules for the front end's own use are not importable: only `import`
    /// declarations find them, which are all known before the program starts.
    pub importable: bool,
}

/// The content of a module.
#[derive(Debug, Clone, PartialEq)]
pub enum ModuleBody {
    /// Source text as the engine runs it. The engine reports positions in its source: see [`Code`].
    Source(Code),
    /// A *synthetic* module: an object whose members are the exports, created when the program starts.
    Synthetic(Value),
}

impl Module {
    /// An importable module of source text.
    pub fn source(name: impl Into<Arc<str>>, code: impl Into<Code>) -> Self {
        Self { name: name.into(), body: ModuleBody::Source(code.into()), importable: true }
    }

    /// An importable module of values.
    pub fn synthetic(name: impl Into<Arc<str>>, exports: Value) -> Self {
        Self { name: name.into(), body: ModuleBody::Synthetic(exports), importable: true }
    }
}

/// A global object in guest code whose members are asynchronous host functions. It is frozen and inherits from
/// `Object.prototype`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The global's name.
    pub name: String,
    /// The functions' names, in order.
    pub functions: Vec<String>,
}

/// Limits of one execution or run (runner specification, `ExecutorRuntimeOptions`).
///
/// Fields may be added: write `Limits { timeout, ..Limits::default() }`. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall time from acceptance to result. Enforced by the driver, not by the engine. Default 5 s.
    pub timeout: Duration,
    /// CPU time that the program computes, parsing included. Checked after each turn of the guest, which takes about two
    /// milliseconds at most. Default: none, as the timeout bounds it.
    pub cpu_time: Option<Duration>,
    /// CPU time that the program computes before its first call or report, parsing included. Default: none.
    pub cpu_time_before_calls: Option<Duration>,
    /// The time in which the program only waits for calls. Default: none, as the timeout bounds it.
    pub host_wait: Option<Duration>,
    /// The most calls of tools, or of host functions in modules. Default: none.
    pub max_calls: Option<u64>,
    /// The most calls that the host makes at once; further calls wait for their turn. At least 1. Default 256.
    pub max_calls_in_flight: usize,
    /// The most bytes of the answers to all calls together. A value counts about as much as it takes as JSON; in modules, as
    /// its [bytes](Value::as_bytes). Default: none.
    pub max_bytes_in: Option<u64>,
    /// The most bytes of the inputs of all calls, the reports and the result together. Default: none.
    pub max_bytes_out: Option<u64>,
    /// Memory that the program may use at once beyond its initial realm, in bytes. Default 64 MiB.
    pub memory_bytes: u64,
    /// Memory that the host may hold for the program at once, in bytes: inputs of pending calls, answers, reports.
    /// Default: `None`, which is as much as `memory_bytes`.
    pub host_memory_bytes: Option<u64>,
    /// The most console lines that are kept; later ones are dropped. In modules, each call of a
    /// [log function](crate::value::FunctionKind::Log) is a line. Default 100.
    pub max_log_lines: usize,
    /// The most UTF-16 code units of all kept lines together; in modules, the most bytes of the arguments. Default 64 000.
    pub max_log_chars: usize,
    /// The most bytes of the source of a script, and of each module. Default 4 MiB.
    pub max_source_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            cpu_time: None,
            cpu_time_before_calls: None,
            host_wait: None,
            max_calls: None,
            max_calls_in_flight: 256,
            max_bytes_in: None,
            max_bytes_out: None,
            memory_bytes: 64 << 20,
            host_memory_bytes: None,
            max_log_lines: 100,
            max_log_chars: 64_000,
            max_source_bytes: DEFAULT_MAX_SOURCE_BYTES,
        }
    }
}

impl Limits {
    /// No limits, for [`capped_by`](Self::capped_by).
    pub fn unlimited() -> Self {
        Self {
            timeout: Duration::MAX,
            memory_bytes: u64::MAX,
            max_calls_in_flight: usize::MAX,
            max_log_lines: usize::MAX,
            max_log_chars: usize::MAX,
            max_source_bytes: usize::MAX,
            ..Self::default()
        }
    }

    /// Each limit, or that of `max` if it is lower; and which were lower.
    pub fn capped_by(&self, max: &Self) -> (Self, CappedLimits) {
        let (mut limits, mut capped) = (*self, CappedLimits::default());
        let bytes = |bytes: &u64| bytes_text(*bytes);
        let time = |time: &Duration| format!("{time:?}");
        let Self {
            timeout,
            cpu_time,
            cpu_time_before_calls,
            host_wait,
            max_calls,
            max_calls_in_flight,
            max_bytes_in,
            max_bytes_out,
            memory_bytes,
            host_memory_bytes,
            max_log_lines,
            max_log_chars,
            max_source_bytes,
        } = &mut limits;
        capped.cap("timeout", timeout, max.timeout, time);
        capped.cap_option("CPU time", cpu_time, max.cpu_time, time);
        capped.cap_option("CPU time before calls", cpu_time_before_calls, max.cpu_time_before_calls, time);
        capped.cap_option("time waiting for calls", host_wait, max.host_wait, time);
        capped.cap_option("calls", max_calls, max.max_calls, u64::to_string);
        capped.cap("calls in flight", max_calls_in_flight, max.max_calls_in_flight, usize::to_string);
        capped.cap_option("bytes in", max_bytes_in, max.max_bytes_in, bytes);
        capped.cap_option("bytes out", max_bytes_out, max.max_bytes_out, bytes);
        capped.cap("memory", memory_bytes, max.memory_bytes, bytes);
        let mut host_memory = host_memory_bytes.unwrap_or(*memory_bytes);
        let max_host_memory = max.host_memory_bytes.unwrap_or(max.memory_bytes);
        if host_memory > max_host_memory {
            capped.cap("host memory", &mut host_memory, max_host_memory, bytes);
            *host_memory_bytes = Some(host_memory);
        }
        capped.cap("log lines", max_log_lines, max.max_log_lines, usize::to_string);
        capped.cap("log characters", max_log_chars, max.max_log_chars, usize::to_string);
        capped.cap("source", max_source_bytes, max.max_source_bytes, |len| bytes_text(*len as u64));
        (limits, capped)
    }

    /// The CPU time after which a program that has made no call or report is stopped; `None` without a limit.
    pub fn cpu_time_at_first(&self) -> Option<Duration> {
        self.cpu_time.into_iter().chain(self.cpu_time_before_calls).min()
    }

    /// [`memory_bytes`](Self::memory_bytes), capped to `usize`.
    pub fn memory_len(&self) -> usize {
        usize::try_from(self.memory_bytes).unwrap_or(usize::MAX)
    }

    /// [`host_memory_bytes`](Self::host_memory_bytes) or its default, capped to `usize`.
    pub fn host_memory_len(&self) -> usize {
        usize::try_from(self.host_memory_bytes.unwrap_or(self.memory_bytes)).unwrap_or(usize::MAX)
    }
}

/// The limits that [`Limits::capped_by`] has lowered. As text: `timeout 30s (1m requested), memory 64 MiB (1 GiB requested)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CappedLimits(Vec<String>);

impl CappedLimits {
    /// Whether no limit was lowered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn cap<T: PartialOrd>(&mut self, name: &str, limit: &mut T, max: T, text: impl Fn(&T) -> String) {
        if *limit > max {
            let requested = mem::replace(limit, max);
            self.0.push(format!("{name} {} ({} requested)", text(limit), text(&requested)));
        }
    }

    /// `None` is no limit.
    fn cap_option<T: PartialOrd>(
        &mut self,
        name: &str,
        limit: &mut Option<T>,
        max: Option<T>,
        text: impl Fn(&T) -> String,
    ) {
        match (limit.as_mut(), max) {
            (_, None) => {}
            (Some(limit), Some(max)) => self.cap(name, limit, max, text),
            (None, Some(max)) => {
                self.0.push(format!("{name} {} (none requested)", text(&max)));
                *limit = Some(max);
            }
        }
    }
}

impl fmt::Display for CappedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_lowers_limits_and_says_which() {
        let requested = Limits { max_calls: Some(9), max_bytes_in: Some(1), ..Limits::default() };
        let (limits, capped) = requested.capped_by(&Limits::unlimited());
        assert_eq!((limits, capped.is_empty()), (requested, true));

        let max = Limits {
            timeout: Duration::from_secs(1),
            cpu_time: Some(Duration::from_millis(500)),
            max_calls: Some(3),
            memory_bytes: 32 << 20,
            max_source_bytes: 100,
            ..Limits::unlimited()
        };
        let (limits, capped) = requested.capped_by(&max);
        let expected = Limits { max_bytes_in: Some(1), max_log_lines: 100, max_log_chars: 64_000, ..max };
        assert_eq!(limits, Limits { max_calls_in_flight: 256, ..expected });
        assert_eq!(
            capped.to_string(),
            "timeout 1s (5s requested), CPU time 500ms (none requested), calls 3 (9 requested), \
             memory 32 MiB (64 MiB requested), source 100 bytes (4 MiB requested)"
        );
        assert_eq!(limits.capped_by(&max), (limits, CappedLimits::default()));
    }

    #[test]
    fn host_memory_is_capped_by_memory_unless_it_has_a_cap_of_its_own() {
        let host = |memory_bytes, host_memory_bytes| Limits { memory_bytes, host_memory_bytes, ..Limits::unlimited() };
        for (requested, max, expected) in [
            ((10, None), (5, None), 5),
            ((10, Some(20)), (10, None), 10),
            ((10, Some(20)), (10, Some(15)), 15),
            ((10, None), (10, Some(5)), 5),
            ((10, Some(3)), (5, None), 3),
        ] {
            let (limits, _) = host(requested.0, requested.1).capped_by(&host(max.0, max.1));
            assert_eq!(limits.host_memory_len(), expected, "{requested:?} {max:?}");
        }
    }
}
