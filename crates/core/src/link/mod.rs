//! Links the sources of a run into a graph of modules (module contract, §3.2–§3.4).
//!
//! ```text
//!  Sources ──► check the options ──► load: compile modules, resolve specifiers
//!                                     │    (from the entry, along static imports)
//!                                     ▼
//!                                    bind: every imported name is exported
//!                                     ▼
//!                                    Graph ──► program::Source::Modules
//! ```
//!
//! The phases and their order are ECMAScript's (`LoadRequestedModules`, `Link`, `ResolveExport`), so the error
//! that is reported is the first one that an engine would find, with positions in the source as given. Nothing
//! here runs code, reads files or parses: the [`Language`] parses.
//!
//! # Names
//!
//! The entry is named by `filename`, a further module by its key in `modules` (`./lib/math.js`), a bridged module
//! by its specifier in `imports` (`fs`). [`resolve`] maps a specifier in one module to the name of another; engines
//! use the same function for dynamic `import()`.
//!
//! # Modules that nothing imports statically
//!
//! A module that nothing imports statically can still be imported dynamically, so it is part of the graph. If it cannot link,
//! it does not fail the run: it becomes a module that throws the link error when it is imported.
//!
//! # Bounds
//!
//! [`MAX_MODULES`], [`MAX_SOURCES_BYTES`] and [`MAX_STEPS`]. Everything that is kept is charged to the budget of the
//! [`CompileLimits`], whose `should_stop` is called between any two steps. Nothing recurses.
//!
//! | file | content |
//! |---|---|
//! | `sources` | the input, and checks of it |
//! | `specifier` | resolution of specifiers |
//! | `nodes` | the modules while they are being linked |
//! | `linker` | the phases |
//! | `bind` | resolution of exported names |
//! | `costs` | the work and the memory |
//! | `graph` | the result |
//! | `error`, `limits` | errors and bounds |

mod bind;
mod costs;
mod error;
mod graph;
mod limits;
mod linker;
mod nodes;
mod sources;
mod specifier;

use self::linker::Linker;
use crate::language::{CompileLimits, Language};

pub use self::error::{LinkError, LinkFailure, OptionError};
pub use self::graph::{Graph, LinkedModule};
pub(crate) use self::limits::MAX_NAME_BYTES;
pub use self::limits::{MAX_MODULES, MAX_SOURCES_BYTES, MAX_STEPS};
pub use self::sources::Sources;
pub use self::specifier::{Unresolved, resolve};

/// Links `sources`, compiled by `language`, in bounded time.
pub fn link(sources: &Sources, language: &dyn Language, reading: &CompileLimits<'_>) -> Result<Graph, LinkError> {
    sources.check().map_err(LinkError::new)?;
    Linker::new(sources, language, reading)?.link()
}
