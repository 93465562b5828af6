//! Errors of linking.

use std::fmt;

use super::limits::{MAX_MODULES, MAX_SOURCES_BYTES};
use super::specifier::Unresolved;
use crate::budget::{Exhausted, Refused};
use crate::language::{CompileError, Position};
use crate::text::{Quoted, bytes_text, cut};

/// Why a graph does not link, and where (§4.2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{failure}")]
pub struct LinkError {
    /// The cause, whose text is the message.
    pub failure: Box<LinkFailure>,
    /// The specifier that fails, as written by the importer. For a syntax error in a module other than the entry, the
    /// name of that module.
    pub specifier: Option<String>,
    /// The module that contains the position.
    pub filename: Option<String>,
    /// The position in the source as given.
    pub position: Option<Position>,
}

impl LinkError {
    /// The `name` of the error (§4.2).
    pub fn name(&self) -> &'static str {
        match *self.failure {
            LinkFailure::Syntax(_) => "SyntaxError",
            LinkFailure::Option(_) => "TypeError",
            _ => "LinkError",
        }
    }

    pub(super) fn new(failure: impl Into<LinkFailure>) -> Self {
        Self { failure: Box::new(failure.into()), specifier: None, filename: None, position: None }
    }

    /// The message and its location, on one line.
    pub(super) fn on_one_line(&self) -> String {
        const MAX: usize = 2000;
        let message = cut(&self.to_string(), MAX);
        match (&self.filename, self.position) {
            (Some(filename), Some(position)) => format!("{message} ({filename}:{position})"),
            (Some(filename), None) => format!("{message} ({filename})"),
            _ => message,
        }
    }

    /// Whether the error ends linking, whichever module it is in.
    pub(super) fn is_final(&self) -> bool {
        matches!(*self.failure, LinkFailure::Memory(_) | LinkFailure::Stopped | LinkFailure::TooTangled)
    }
}

/// The cause of a link error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFailure {
    /// An option is invalid.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A source does not parse as a module.
    #[error("{0}")]
    Syntax(String),
    /// A specifier that cannot be resolved.
    #[error("{} {reason}{hint}", Quoted(specifier))]
    Unresolved {
        /// The specifier, as written by the importer.
        specifier: String,
        /// Why the specifier cannot be resolved.
        reason: Unresolved,
        /// A suggestion, or empty.
        hint: String,
    },
    /// A bare specifier that is not in `imports`.
    #[error("unknown import {}{hint}", Quoted(specifier))]
    UnknownImport {
        /// The specifier, as written by the importer.
        specifier: String,
        /// A suggestion, or empty.
        hint: String,
    },
    /// A relative specifier that is not in `modules`.
    #[error("unknown module {}{hint}", Quoted(name))]
    UnknownModule {
        /// The name that the specifier resolves to.
        name: String,
        /// A suggestion, or empty.
        hint: String,
    },
    /// An imported name that the module does not export.
    #[error("{} has no {}{hint}", Quoted(module), ExportNamed(name))]
    NoExport {
        /// The name of the module.
        module: String,
        /// The name of the export.
        name: String,
        /// A suggestion, or empty.
        hint: String,
    },
    /// A name that two modules behind `export *` export, so that it is not exported.
    #[error(
        "{} has no {}: `export *` finds both {first} and {second}; export one of them by name",
        Quoted(module),
        ExportNamed(name)
    )]
    AmbiguousExport {
        /// The name of the module.
        module: String,
        /// The name of the export.
        name: String,
        /// One declaration.
        first: String,
        /// The other declaration.
        second: String,
    },
    /// The entry does not have the export that was selected.
    #[error("the entry has no {}{hint}", ExportNamed(name))]
    NoSelectedExport {
        /// The name of the export.
        name: String,
        /// A suggestion, or empty.
        hint: String,
    },
    /// Compiling or linking takes more memory than [`CompileLimits::budget`](crate::language::CompileLimits::budget) has.
    #[error("linking the modules takes too much host memory: {0}; write less code, or raise host_memory_bytes")]
    Memory(#[from] Exhausted),
    /// [`CompileLimits::should_stop`](crate::language::CompileLimits::should_stop) returned true.
    #[error("linking was stopped")]
    Stopped,
    /// Binding names takes more than [`MAX_STEPS`](super::MAX_STEPS).
    #[error("the modules re-export too many names from too many modules")]
    TooTangled,
}

impl From<Refused> for LinkError {
    fn from(refused: Refused) -> Self {
        Self::new(match refused {
            Refused::TooLarge(_) => LinkFailure::TooTangled,
            Refused::Exhausted(exhausted) => LinkFailure::Memory(exhausted),
            Refused::Stopped => LinkFailure::Stopped,
        })
    }
}

impl From<Exhausted> for LinkError {
    fn from(exhausted: Exhausted) -> Self {
        Self::new(exhausted)
    }
}

impl From<CompileError> for LinkError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Syntax(error) => {
                Self { position: error.position, ..Self::new(LinkFailure::Syntax(error.message)) }
            }
            CompileError::Memory(exhausted) => exhausted.into(),
            CompileError::Stopped => Self::new(LinkFailure::Stopped),
        }
    }
}

/// An invalid option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A key of `modules` that is not a normalized relative specifier from the root.
    #[error("the key {} in `modules` must be a relative specifier from the root{hint}", Quoted(key))]
    ModuleKey {
        /// The invalid key.
        key: String,
        /// The reason or the remedy.
        hint: String,
    },
    /// A key of `imports` that is not a bare specifier.
    #[error("the key {} in `imports` must be a bare specifier, such as 'fs' or '@scope/pkg'{hint}", Quoted(key))]
    ImportKey {
        /// The invalid key.
        key: String,
        /// The reason or the remedy.
        hint: String,
    },
    /// A global whose name is not an identifier.
    #[error("invalid global name {}: {reason}", Quoted(name))]
    Global {
        /// The invalid name.
        name: String,
        /// Why the name is invalid.
        reason: &'static str,
    },
    /// A filename that cannot name the entry.
    #[error("invalid filename {}: {reason}", Quoted(filename))]
    Filename {
        /// The invalid filename.
        filename: String,
        /// Why the filename is invalid.
        reason: &'static str,
    },
    /// More than [`MAX_MODULES`].
    #[error("too many modules: {0}; the limit is {MAX_MODULES}")]
    TooManyModules(usize),
    /// More than [`MAX_SOURCES_BYTES`] of sources together.
    #[error("the sources have {} together; the limit is {}", bytes_text(*.0 as u64), bytes_text(MAX_SOURCES_BYTES as u64))]
    TooLong(usize),
}

/// Displays an export in a message.
struct ExportNamed<'a>(&'a str);

impl fmt::Display for ExportNamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "default" => f.write_str("default export"),
            name => write!(f, "export {}", Quoted(name)),
        }
    }
}
