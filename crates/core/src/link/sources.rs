//! The input of linking, and the checks of it that do not depend on any source text.

use std::collections::{BTreeMap, BTreeSet};

use super::error::OptionError;
use super::limits::{MAX_MODULES, MAX_NAME_BYTES, MAX_SOURCES_BYTES};
use super::specifier::{Unresolved, path, resolve};
use crate::language::{Dialect, GLOBALS_MODULE, ModuleSource};
use crate::names::is_identifier;
use crate::text::Quoted;

/// The default name of the entry (§3).
pub(crate) const DEFAULT_FILENAME: &str = "<runCode>";

/// The parts of `CodeExecutionOptions` (§3) that linking depends on.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The entry's source.
    pub entry: String,
    /// The entry's name: a label, and the base of its relative specifiers if it is a path below the root, as
    /// `src/main.ts` is. Default `<runCode>`.
    pub filename: Option<String>,
    /// The language of the sources. A module whose key ends in `.ts`, `.mts` or `.cts` is always TypeScript; the
    /// filename of the entry has no influence.
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

    /// The source of the module `name`, the entry included.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.source(name).map(|source| source.text)
    }

    pub(super) fn source(&self, name: &str) -> Option<ModuleSource<'_>> {
        let (text, dialect) = if name == self.entry_name() {
            (&self.entry, self.dialect)
        } else {
            let typescript = [".ts", ".mts", ".cts"].iter().any(|extension| name.ends_with(extension));
            (self.modules.get(name)?, if typescript { Dialect::TypeScript } else { self.dialect })
        };
        Some(ModuleSource { text, dialect, globals: &self.globals })
    }
}

impl Sources {
    pub(super) fn check(&self) -> Result<(), OptionError> {
        if self.modules.len() > MAX_MODULES {
            return Err(OptionError::TooManyModules(self.modules.len()));
        }
        let bytes = self.entry.len() + self.modules.values().map(String::len).sum::<usize>();
        if bytes > MAX_SOURCES_BYTES {
            return Err(OptionError::TooLong(bytes));
        }
        self.modules.keys().try_for_each(|key| check_module_key(key))?;
        self.imports.keys().try_for_each(|key| check_import_key(key))?;
        self.globals.iter().try_for_each(|name| check_global(name))?;
        self.check_filename()
    }

    fn check_filename(&self) -> Result<(), OptionError> {
        let name = self.entry_name();
        let reason = if self.modules.contains_key(name) {
            "it is also the name of a module in `modules`"
        } else if self.imports.contains_key(name) || name == GLOBALS_MODULE {
            "it is already the name of an import"
        } else if let Some(reason) = not_a_name(name) {
            reason
        } else {
            return Ok(());
        };
        Err(OptionError::Filename { filename: name.to_owned(), reason })
    }
}

fn check_module_key(key: &str) -> Result<(), OptionError> {
    let canonical =
        path(key.trim_start_matches('/')).map(|segments| segments.into_iter().filter(|one| !one.is_empty()));
    let canonical = canonical.map(|segments| segments.collect::<Vec<_>>().join("/"));
    let hint = match (not_a_name(key), canonical) {
        (None, Some(canonical)) if key.strip_prefix("./") == Some(&canonical) && !canonical.is_empty() => return Ok(()),
        (Some(reason), _) => format!("; {reason}"),
        (None, Some(canonical)) if !canonical.is_empty() => format!("; write {}", Quoted(&format!("./{canonical}"))),
        _ => ", such as './lib/math.js'".to_owned(),
    };
    Err(OptionError::ModuleKey { key: key.to_owned(), hint })
}

fn check_import_key(key: &str) -> Result<(), OptionError> {
    let hint = match (not_a_name(key), resolve("", key)) {
        (None, Ok(name)) if name == key && !key.starts_with('.') => return Ok(()),
        (Some(reason), _) => format!("; {reason}"),
        (None, Ok(_) | Err(Unresolved::OutsideRoot)) => "; relative modules belong in `modules`".to_owned(),
        (None, Err(Unresolved::Url)) => "; it is a URL".to_owned(),
        (None, Err(Unresolved::Absolute | Unresolved::Empty)) => "; it is an absolute path".to_owned(),
    };
    Err(OptionError::ImportKey { key: key.to_owned(), hint })
}

/// Checks the name of a global (§3.4).
pub(crate) fn check_global(name: &str) -> Result<(), OptionError> {
    let reason = if matches!(name, "undefined" | "NaN" | "Infinity" | "globalThis") {
        "it is a built-in value of the language"
    } else if !is_identifier(name) {
        "expected an identifier: letters, digits, `_` and `$`, no digit first, and not a reserved word"
    } else {
        return Ok(());
    };
    Err(OptionError::Global { name: name.to_owned(), reason })
}

/// Why `text` cannot name a module.
fn not_a_name(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > MAX_NAME_BYTES {
        Some("it is too long")
    } else if text.contains(char::is_control) {
        Some("it has control characters")
    } else {
        None
    }
}
