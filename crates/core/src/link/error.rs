//! What can be wrong with a graph, and what is said about it.

use std::fmt;

use super::MAX_MODULES;
use super::specifier::Unresolved;
use crate::language::Position;
use crate::text::Quoted;

/// Why a graph does not link, and where (§4.2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{failure}")]
pub struct LinkError {
    /// What is wrong. Its text is the message.
    pub failure: Box<LinkFailure>,
    /// The specifier that fails, as it is written where it is imported. For a module that does not parse, its
    /// name.
    pub specifier: Option<String>,
    /// The module that the position is in.
    pub filename: Option<String>,
    /// Where, in its source as given.
    pub position: Option<Position>,
}

impl LinkError {
    /// What it is called (§4.2, `name`).
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

    /// The message with its place, on one line.
    pub(super) fn on_one_line(&self) -> String {
        match (&self.filename, self.position) {
            (Some(filename), Some(position)) => format!("{self} ({filename}:{position})"),
            (Some(filename), None) => format!("{self} ({filename})"),
            _ => self.to_string(),
        }
    }
}

/// What is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFailure {
    /// An option is not what it must be: the caller's error, whatever the sources say.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A source is not a module.
    #[error("{0}")]
    Syntax(String),
    /// A specifier that leads nowhere.
    #[error("{} {reason}{hint}", Quoted(specifier))]
    Unresolved {
        /// The specifier.
        specifier: String,
        /// Why.
        reason: Unresolved,
        /// What could be meant.
        hint: String,
    },
    /// A bare specifier that is none of `imports`.
    #[error("nothing can be imported from {}{hint}", Quoted(specifier))]
    UnknownImport {
        /// The specifier.
        specifier: String,
        /// What could be meant.
        hint: String,
    },
    /// A relative specifier that leads to none of `modules`.
    #[error("there is no module {}{hint}", Quoted(name))]
    UnknownModule {
        /// What the specifier leads to.
        name: String,
        /// What could be meant.
        hint: String,
    },
    /// An imported name that the module does not export.
    #[error("{} has no {}{hint}", Quoted(module), ExportNamed(name))]
    NoExport {
        /// The module's name.
        module: String,
        /// The export's.
        name: String,
        /// What could be meant.
        hint: String,
    },
    /// A name that `export *` finds more than once, and so does not export.
    #[error(
        "{} has no {}: {first} and {second} both come under that name, and `export *` takes neither; export one by name",
        Quoted(module),
        ExportNamed(name)
    )]
    AmbiguousExport {
        /// The module's name.
        module: String,
        /// The export's.
        name: String,
        /// What it finds.
        first: String,
        /// What else it finds.
        second: String,
    },
    /// The entry does not have the export that was selected.
    #[error("the entry has no {}{hint}", ExportNamed(name))]
    NoSelectedExport {
        /// The export's name.
        name: String,
        /// What could be meant.
        hint: String,
    },
    /// More than [`MAX_STEPS`](super::MAX_STEPS).
    #[error("the modules re-export too many names from too many modules")]
    TooTangled,
}

/// An option that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A key of `modules` that is no relative specifier from the root, in its shortest form.
    #[error("the key {} in `modules` must be a relative specifier from the root{hint}", Quoted(key))]
    ModuleKey {
        /// The key.
        key: String,
        /// What to write instead.
        hint: String,
    },
    /// A key of `imports` that is no bare specifier.
    #[error("the key {} in `imports` must be a bare specifier, such as 'fs' or '@scope/pkg'{hint}", Quoted(key))]
    ImportKey {
        /// The key.
        key: String,
        /// What to write instead.
        hint: String,
    },
    /// A global that could not be written as an identifier.
    #[error("the global {} cannot be one: {reason}", Quoted(name))]
    Global {
        /// Its name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A filename that cannot name a module.
    #[error("the filename {} cannot be one: {reason}", Quoted(filename))]
    Filename {
        /// The filename.
        filename: String,
        /// Why.
        reason: &'static str,
    },
    /// More than [`MAX_MODULES`].
    #[error("{0} modules are too many; the limit is {MAX_MODULES}")]
    TooManyModules(usize),
}

/// An export in a message.
struct ExportNamed<'a>(&'a str);

impl fmt::Display for ExportNamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "default" => f.write_str("default export"),
            name => write!(f, "export {}", Quoted(name)),
        }
    }
}
