//! What the options must be, whatever the sources say: the caller's side of linking.

use super::error::OptionError;
use super::specifier::{Unresolved, path, resolve};
use super::{MAX_MODULES, MAX_NAME_BYTES, Sources};
use crate::language::GLOBALS_MODULE;
use crate::names::is_identifier;
use crate::text::Quoted;

impl Sources {
    pub(super) fn check(&self) -> Result<(), OptionError> {
        if self.modules.len() > MAX_MODULES {
            return Err(OptionError::TooManyModules(self.modules.len()));
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
            "something else is imported by that name"
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

/// Checks that `name` can be the name of a global (§3.4).
pub fn check_global(name: &str) -> Result<(), OptionError> {
    let reason = if matches!(name, "undefined" | "NaN" | "Infinity" | "globalThis") {
        "the language itself has a value of that name"
    } else if !is_identifier(name) {
        "an identifier has letters, digits, `_` and `$`, does not start with a digit, and is no reserved word"
    } else {
        return Ok(());
    };
    Err(OptionError::Global { name: name.to_owned(), reason })
}

/// Why `text` can be nothing's name.
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
