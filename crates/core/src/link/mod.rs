//! From the sources of a run to a graph of modules that is known to link (module contract, §3.2–§3.4).
//!
//! ```text
//!  Sources ──► check the options ──► load: Language::module, and every specifier leads somewhere
//!                                     │    (from the entry, following static imports)
//!                                     ▼
//!                                    bind: every imported name is exported there
//!                                     ▼
//!                                    Graph ──► program::Source::Modules
//! ```
//!
//! The phases and their order are ECMAScript's (`LoadRequestedModules`, `Link`, `ResolveExport`), so the error
//! that is told is the first one that an engine would meet, but it tells more, and in positions of the
//! source as given. Nothing here runs, reads files or parses: parsing is the [`Language`]'s.
//!
//! # Names
//!
//! A module is named as the caller named it: the entry by `filename`, a further module by its key in
//! `modules` (`./lib/math.js`), a bridged one by its specifier in `imports` (`fs`). A specifier leads
//! from one name to another by [`resolve`], which is also what an engine has to use for dynamic `import()`.
//!
//! # Modules that nothing imports
//!
//! A module that the entry does not reach by static imports can still be imported dynamically, so it is in
//! the graph. If it cannot link, that is no error of the run: it becomes a module that throws the error
//! when it is imported.
//!
//! # Bounds
//!
//! [`MAX_MODULES`], [`MAX_SOURCE_WORK`] and [`MAX_STEPS`]. Nothing recurses.
//!
//! | file | what |
//! |---|---|
//! | `options` | what the caller gave, checked |
//! | `specifier` | where a specifier leads |
//! | `linker` | the phases |
//! | `bind` | what an exported name is bound to |
//! | `error` | what is said when something is wrong |

mod bind;
mod error;
mod linker;
mod options;
mod specifier;

use std::collections::{BTreeMap, BTreeSet};

use self::linker::Linker;
use crate::hint;
use crate::language::{Code, Dialect, Language, ModuleSource, Reading};

pub use self::error::{LinkError, LinkFailure, OptionError};
pub use self::options::check_global;
pub use self::specifier::{Unresolved, resolve};

/// The most modules that a graph may have, the entry not counted.
pub const MAX_MODULES: usize = 10_000;

/// How much of all modules together the front end may come to read, in bytes; see [`Language::module`].
pub const MAX_SOURCE_WORK: u64 = 64 * 1024 * 1024;

/// How many times linking may look for a name in a module. Most names are found where they are looked for
/// first; `export *` makes it look in every module that it leads to.
pub const MAX_STEPS: usize = 4_000_000;

/// The longest filename or specifier that can name a module, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// The filename of an entry that was given none (§3).
pub const DEFAULT_FILENAME: &str = "<runCode>";

/// What is linked: the parts of `CodeExecutionOptions` (§3) that linking depends on.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The entry's source.
    pub entry: String,
    /// The entry's name: a label, and where its relative specifiers start from if it is a path below the
    /// root, as `src/main.ts` is. Default [`DEFAULT_FILENAME`].
    pub filename: Option<String>,
    /// What the sources are written in. A module whose key ends in `.ts`, `.mts` or `.cts` is TypeScript
    /// in any case; the entry is what this says, whatever its filename.
    pub dialect: Dialect,
    /// Further modules by relative specifier from the root (§3.3).
    pub modules: BTreeMap<String, String>,
    /// Bridged modules by bare specifier, with the names that they export (§3.2).
    pub imports: BTreeMap<String, BTreeSet<String>>,
    /// The names of the globals (§3.4). Each is an export of [`GLOBALS_MODULE`](crate::language::GLOBALS_MODULE).
    pub globals: BTreeSet<String>,
}

impl Sources {
    /// The entry's name.
    pub fn entry_name(&self) -> &str {
        self.filename.as_deref().unwrap_or(DEFAULT_FILENAME)
    }

    /// The source of the entry, or of a further module.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.source(name).map(|source| source.text)
    }

    fn source(&self, name: &str) -> Option<ModuleSource<'_>> {
        let (text, dialect) = if name == self.entry_name() {
            (&self.entry, self.dialect)
        } else {
            let typescript = [".ts", ".mts", ".cts"].iter().any(|extension| name.ends_with(extension));
            (self.modules.get(name)?, if typescript { Dialect::TypeScript } else { self.dialect })
        };
        Some(ModuleSource { text, dialect, globals: &self.globals })
    }
}

/// Modules that link.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The entry's name.
    pub entry: String,
    /// The entry and all of [`Sources::modules`], compiled: first those that the entry reaches by static
    /// imports, in the order in which it does. What they import is in here, in [`Sources::imports`], or
    /// [`GLOBALS_MODULE`](crate::language::GLOBALS_MODULE).
    pub modules: Vec<LinkedModule>,
    exports: BTreeSet<String>,
    ambiguous: BTreeSet<String>,
    types: BTreeSet<String>,
}

/// One module, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedModule {
    /// Its name; see [names](self#names).
    pub name: String,
    /// Its source, as the engine runs it.
    pub code: Code,
    /// Why it cannot link: its code throws this.
    pub broken: Option<LinkError>,
}

impl Graph {
    /// The names that the entry exports.
    pub fn exports(&self) -> impl Iterator<Item = &str> + Clone {
        self.exports.iter().map(String::as_str)
    }

    /// Whether the entry has the export `name`, the one that is selected (§3.1). The specification reads it
    /// after evaluation (§5.1), so what the modules did before has happened by then.
    pub fn check_export(&self, name: &str) -> Result<(), LinkError> {
        if self.exports.contains(name) {
            return Ok(());
        }
        let hint = if self.ambiguous.contains(name) {
            "; two modules that it re-exports export that name, so it exports neither".to_owned()
        } else if self.types.contains(name) {
            "; the type of that name is gone when it runs".to_owned()
        } else {
            hint::hint(name, self.exports(), "it exports")
        };
        let failure = Box::new(LinkFailure::NoSelectedExport { name: name.to_owned(), hint });
        Err(LinkError { failure, specifier: None, filename: Some(self.entry.clone()), position: None })
    }
}

/// Links `sources`, which `language` compiles. How long that takes is bounded, whatever they are.
pub fn link(sources: &Sources, language: &dyn Language, reading: &Reading<'_>) -> Result<Graph, LinkError> {
    sources.check().map_err(LinkError::new)?;
    Linker::new(sources, language, reading).link()
}
