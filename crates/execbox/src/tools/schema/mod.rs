//! JSON Schemas, and validation errors that a model can act on.
//!
//! Schemas and values are untrusted: the author of a schema chooses how much work each value is. So schemas are compiled and
//! values are checked on a [`Meter`], which no validator that we know allows: they run until they are done. A check that takes
//! long continues on a thread that may block ([`Schema::check_input`]). In a sandbox, the crate `jsonschema` would take longer than
//! the call that it checks: 0.3 µs of 3.6 µs are validation. Tests compare both on random schemas, and this validator with the
//! official suite. A validator with a meter would replace it.
//!
//! | module | purpose |
//! |---|---|
//! | `compile` | from JSON to `nodes` |
//! | `unchecked` | parts that are not checked, and where they are |
//! | `cost` | bounds on chains and branches |
//! | `loosen` | keywords that would be wrong without the parts that are not checked |
//! | `reference` | `$ref`, `$dynamicRef`, `$id`, `$anchor` |
//! | `pattern` | regular expressions in linear time |
//! | `validate` | a value against the nodes |
//! | `explain` | messages that help to repair a value |
//! | `show` | values in messages |

mod compile;
mod cost;
mod explain;
mod loosen;
mod nodes;
mod pattern;
pub(super) mod reference;
mod show;
mod unchecked;
mod validate;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use execbox_core::budget::{Budget, Charge, Meter, Refused};
use execbox_core::text::cut;
use serde_json::Value as Json;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use compile::Compiled;
use cost::{MAX_CHAIN, MAX_IN_PLACE};
use reference::MAX_SCOPES;
pub(super) use unchecked::Reading;
use validate::{Check, MAX_DEPTH, PathStep, Stop};

/// A compiled JSON Schema.
///
/// Tools do not need it: a [`Provider`](crate::Provider) compiles and checks the schemas of its tools.
///
/// ```
/// use execbox::Schema;
/// use serde_json::json;
///
/// # fn main() -> Result<(), execbox::SchemaError> {
/// let schema = Schema::compile(&json!({ "type": "object", "properties": { "q": { "type": "string" } } }))?;
/// let error = schema.check(&json!({ "q": 1 }), "input").unwrap_err();
/// assert_eq!(error.to_string(), "input.q: 1 is not of type \"string\"");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Schema {
    compiled: Compiled,
    describes_object: bool,
    /// Held by the one check of this schema that runs on another thread.
    turn: Mutex<()>,
    _charge: Charge,
}

/// Why a JSON value is not a JSON Schema that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The value of a keyword is invalid.
    #[error("invalid {keyword} {value}: expected {expected}")]
    Keyword {
        /// The keyword, or `schema`.
        keyword: &'static str,
        /// The value of the keyword as JSON, truncated.
        value: String,
        /// The values that the keyword accepts.
        expected: &'static str,
    },
    /// A `pattern` is not a regular expression of ECMAScript.
    #[error("invalid pattern {0:?}: expected a regular expression")]
    Pattern(String),
    /// A `pattern` has look-around or back-references, which cannot be matched in linear time, or is too long.
    /// [`Schema::compile`] does not fail with it.
    #[error(
        "pattern {0:?} cannot be checked in linear time; write it without look-around and back-references, and shorter"
    )]
    UncheckedPattern(String),
    /// A `$ref` does not lead to a schema in the same document. Nothing is fetched.
    #[error("unknown $ref {0:?}: expected a reference to a schema in the same document; nothing is fetched")]
    Reference(String),
    /// References lead back to a schema without a property or item between.
    #[error("a $ref leads back to itself without a property or item between")]
    Cycle,
    /// Too many references in a chain.
    #[error("more than {MAX_CHAIN} references and combinators in a chain; refer to the last schema directly")]
    Chain,
    /// Too many schemas that apply to one value.
    #[error("more than {MAX_IN_PLACE} alternatives for one value; use fewer references in anyOf, oneOf and allOf")]
    Branches,
    /// Too many combinations of resources that a `$dynamicRef` depends on.
    #[error(
        "more than {MAX_SCOPES} combinations of resources with the same $dynamicAnchor; use $ref, or other names of anchors"
    )]
    Scopes,
    /// Compiled, the schema is too large.
    #[error("too large: {0}")]
    Size(Refused),
}

impl From<Refused> for SchemaError {
    fn from(refused: Refused) -> Self {
        Self::Size(refused)
    }
}

/// A part of a schema that values are not checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UncheckedPart {
    /// Where in the schema: a JSON pointer, as `/properties/n/pattern`, whose beginning is replaced by `…` if it is longer than
    /// 300 characters.
    pub place: String,
    /// Why the part is not checked.
    pub reason: SchemaError,
}

/// Why a schema does not admit a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// The value violates the schema.
    #[error("{}", render(.violations, *.more))]
    Violations {
        /// The first 8 violations.
        violations: Vec<Violation>,
        /// The number of further violations.
        more: usize,
    },
    /// Checking the value takes too many steps.
    #[error(
        "{name} takes more than {MAX_STEPS} steps to check against its schema; use a smaller value or a simpler schema"
    )]
    Steps {
        /// The name of the value.
        name: String,
    },
    /// The value is nested too deeply for the schema.
    #[error("{name} is nested so deeply that more than {MAX_DEPTH} schemas apply in one another; use a flatter value")]
    Depth {
        /// The name of the value.
        name: String,
    },
    /// The check was cancelled.
    #[error("the check of {name} was cancelled")]
    Cancelled {
        /// The name of the value.
        name: String,
    },
}

/// One violation of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Where in the value, as JavaScript would write it: `input.items[3].at`.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl ValidationError {
    /// The violations, at most 8.
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Violations { violations, .. } => violations,
            _ => &[],
        }
    }

    fn stopped(stop: Stop, name: &str) -> Self {
        let name = name.to_owned();
        match stop {
            Stop::Steps => Self::Steps { name },
            Stop::Depth => Self::Depth { name },
            Stop::Interrupted => Self::Cancelled { name },
        }
    }
}

fn render(violations: &[Violation], more: usize) -> String {
    let violations = violations.iter().map(|Violation { path, message }| format!("{path}: {message}"));
    let more = (more > 0).then(|| format!("and {more} more"));
    violations.chain(more).collect::<Vec<_>>().join("; ")
}

impl Schema {
    /// Compiles a schema. References to other documents fail: nothing is fetched.
    ///
    /// # Errors
    /// The value is not a JSON Schema, or it takes more than 64 MiB of memory or too many steps for a single value.
    pub fn compile(schema: &Json) -> Result<Self, SchemaError> {
        Self::compile_within(schema, &Budget::new(MAX_SCHEMA_BYTES))
    }

    /// Compiles a schema whose memory is charged to `budget`.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_within(schema: &Json, budget: &Budget) -> Result<Self, SchemaError> {
        Self::compile_as(Reading::Strict, schema, budget)
    }

    /// Compiles a schema that other people wrote. A part that cannot be read admits everything, and so does a part that takes
    /// too many steps for a single value; [`unchecked`](Self::unchecked) returns them. A member that is `null` counts as left
    /// out. Whatever the author may have meant by an unchecked part, no value is rejected because of it.
    ///
    /// ```
    /// use execbox::Schema;
    /// use serde_json::json;
    ///
    /// # fn main() -> Result<(), execbox::SchemaError> {
    /// let schema = json!({ "type": "object", "properties": { "at": { "type": "datetime" }, "n": { "type": "integer" } } });
    /// let schema = Schema::compile_lenient(&schema)?;
    /// assert_eq!(schema.unchecked()[0].place, "/properties/at/type");
    /// assert!(schema.check(&json!({ "at": 5, "n": 1 }), "input").is_ok());
    /// assert!(schema.check(&json!({ "at": 5, "n": "x" }), "input").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SchemaError::Size`]: the schema takes more than 64 MiB of memory.
    pub fn compile_lenient(schema: &Json) -> Result<Self, SchemaError> {
        Self::compile_as(Reading::Lenient, schema, &Budget::new(MAX_SCHEMA_BYTES))
    }

    pub(super) fn compile_as(reading: Reading, schema: &Json, budget: &Budget) -> Result<Self, SchemaError> {
        let mut meter = Meter::new(budget, MAX_SCHEMA_BYTES, &|| false);
        let compiled = compile::compile(schema, reading, &mut meter)?;
        let describes_object = schema.get("type").is_some_and(|kind| kind == "object")
            || schema.get("properties").is_some_and(|properties| !properties.is_null());
        Ok(Self { compiled, describes_object, turn: Mutex::new(()), _charge: meter.finish() })
    }

    /// The first 8 parts of the schema that values are not checked against. [`compile`](Self::compile) leaves only patterns
    /// unchecked: those with look-around or back-references, which cannot be matched in linear time, and very long ones.
    pub fn unchecked(&self) -> &[UncheckedPart] {
        &self.compiled.unchecked
    }

    /// The number of unchecked parts beyond the first 8.
    pub fn more_unchecked(&self) -> usize {
        self.compiled.more_unchecked
    }

    /// The value of an argument that the guest omitted: `{}` for a schema that describes an object, else `null`.
    pub(crate) fn omitted_input(schema: Option<&Self>) -> Json {
        match schema {
            Some(schema) if schema.describes_object => Json::Object(serde_json::Map::new()),
            _ => Json::Null,
        }
    }

    /// Checks a value. The paths of the error start with `name`: `input`, `result`.
    ///
    /// # Errors
    /// The violations; or the check takes more than 50 000 000 steps, of about 10 ns each.
    pub fn check(&self, value: &Json, name: &str) -> Result<(), ValidationError> {
        self.check_within(value, name, MAX_STEPS, &|| false)
    }

    /// Checks a value that is returned if it is valid. After about a millisecond the check is moved to a thread that may
    /// block; it ends when the future is dropped.
    pub(crate) async fn check_async(
        self: &Arc<Self>,
        value: Json,
        name: &'static str,
    ) -> Result<Json, ValidationError> {
        let Ok(runtime) = Handle::try_current() else { return self.check(&value, name).map(|()| value) };
        match self.check_within(&value, name, STEPS_AT_ONCE, &|| false) {
            Err(ValidationError::Steps { .. }) => {}
            checked => return checked.map(|()| value),
        }
        let _turn = self.turn.lock().await;
        let _thread = THREADS.acquire().await;
        let (dropped, schema) = (CancellationToken::new(), Arc::clone(self));
        let _guard = dropped.clone().drop_guard();
        let check = move || schema.check_within(&value, name, MAX_STEPS, &|| dropped.is_cancelled()).map(|()| value);
        let checked = runtime.spawn_blocking(check).await;
        checked.unwrap_or_else(|_| Err(ValidationError::stopped(Stop::Interrupted, name)))
    }

    fn check_within(
        &self,
        value: &Json,
        name: &str,
        steps: usize,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<(), ValidationError> {
        let budget = Budget::new(steps);
        let mut meter = Meter::new(&budget, steps, should_stop);
        let mut check = Check::new(&self.compiled.nodes, &mut meter, name);
        match check.run(value) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ValidationError::Violations { violations: check.violations, more: check.more }),
            Err(stop) => Err(ValidationError::stopped(stop, name)),
        }
    }
}

/// A path as JavaScript: `input.items[3].at`.
fn path_text(name: &str, path: &[PathStep<'_>]) -> String {
    let mut text = name.to_owned();
    for place in path {
        let _ = match place {
            PathStep::Index(at) => write!(text, "[{at}]"),
            PathStep::Key(key) if execbox_core::names::is_property_name(key) => write!(text, ".{key}"),
            PathStep::Key(key) => write!(text, "[{key:?}]"),
        };
        if text.len() > MAX_PATH {
            return cut(&text, MAX_PATH);
        }
    }
    text
}

/// How many checks run on threads that may block, in all of the process. A schema has at most one of them, so that calls of
/// one tool do not delay those of the others.
static THREADS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)));

/// The number of violations in a [`ValidationError`].
const MAX_VIOLATIONS: usize = 8;

/// The length of the path of a violation, in characters.
const MAX_PATH: usize = 1_000;

/// The most steps of a check: about half a second.
const MAX_STEPS: usize = 50_000_000;

/// The most steps of a check in the task of the call.
const STEPS_AT_ONCE: usize = 50_000;

/// The most memory that one compiled schema takes, in bytes.
const MAX_SCHEMA_BYTES: usize = 64 << 20;
