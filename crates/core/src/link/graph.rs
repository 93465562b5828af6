//! The result of linking.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::{LinkError, LinkFailure};
use crate::hint;
use crate::language::Code;

/// A graph that links.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The entry's name.
    pub entry: String,
    /// The entry and all of [`Sources::modules`](super::Sources::modules), compiled: first those that the entry reaches
    /// by static imports, in that order. They import only each other, modules of
    /// [`Sources::imports`](super::Sources::imports), and [`GLOBALS_MODULE`](crate::language::GLOBALS_MODULE).
    pub modules: Vec<LinkedModule>,
    pub(super) exports: BTreeSet<String>,
    pub(super) ambiguous: BTreeSet<String>,
    pub(super) types: BTreeSet<String>,
}

/// One compiled module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedModule {
    /// The name of the module; see [names](super#names).
    pub name: String,
    /// The code that the engine runs.
    pub code: Code,
    /// The link error that the code throws, if the module cannot link.
    pub broken: Option<Arc<LinkError>>,
}

impl Graph {
    /// The names that the entry exports.
    pub fn exports(&self) -> impl Iterator<Item = &str> + Clone {
        self.exports.iter().map(String::as_str)
    }

    /// Checks that the entry has the selected export (§3.1). The specification reads it after evaluation (§5.1), so
    /// effects of the modules have happened by then.
    pub fn check_export(&self, name: &str) -> Result<(), LinkError> {
        if self.exports.contains(name) {
            return Ok(());
        }
        let hint = if self.ambiguous.contains(name) {
            "; two modules in `export *` export that name, so it is ambiguous".to_owned()
        } else if self.types.contains(name) {
            "; it is a type, which does not exist at run time".to_owned()
        } else {
            hint::hint(name, self.exports(), "it exports")
        };
        let failure = Box::new(LinkFailure::NoSelectedExport { name: name.to_owned(), hint });
        Err(LinkError { failure, specifier: None, filename: Some(self.entry.clone()), position: None })
    }
}
