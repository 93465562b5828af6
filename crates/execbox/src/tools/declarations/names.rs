//! The names of the definitions in a namespace.
//!
//! Two definitions are the same type if they and all definitions reachable from them have equal content. Each distinct
//! content, with pointers instead of names, has a number; the numbers of all definitions reachable from a definition are
//! its identity.

use std::collections::HashMap;
use std::rc::Rc;

use super::document::{Definition, Document};
use super::types::Pointer;

/// The type names of one namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    numbers: HashMap<(Pointer, Rc<Definition>), usize>,
    shared: HashMap<Vec<usize>, String>,
    used: HashMap<String, usize>,
}

impl Names {
    /// A name for every definition that `document` uses, and those of them that are new here, in their order of use.
    pub(super) fn assign(&mut self, document: &Document) -> (HashMap<Pointer, String>, Vec<Pointer>) {
        let mut known = HashMap::new();
        let mut new = Vec::new();
        for pointer in document.reachable(&document.root) {
            let identity = self.identity(document, &pointer);
            let name = if let Some(name) = self.shared.get(&identity) {
                name.clone()
            } else {
                let name = self.unused(&document.definitions[&pointer].base_name);
                self.shared.insert(identity, name.clone());
                new.push(pointer.clone());
                name
            };
            known.insert(pointer, name);
        }
        (known, new)
    }

    fn identity(&mut self, document: &Document, pointer: &Pointer) -> Vec<usize> {
        let mentioned = document.reachable(&document.definitions[pointer].body);
        std::iter::once(pointer).chain(&mentioned).map(|pointer| self.number(document, pointer)).collect()
    }

    fn number(&mut self, document: &Document, pointer: &Pointer) -> usize {
        let next = self.numbers.len();
        let key = (pointer.clone(), document.definitions[pointer].clone());
        *self.numbers.entry(key).or_insert(next)
    }

    /// `base`, `base__2`, `base__3` … A base never contains `__`, so counting per base is enough.
    fn unused(&mut self, base: &str) -> String {
        let count = self.used.entry(base.to_owned()).or_default();
        *count += 1;
        if *count == 1 { base.to_owned() } else { format!("{base}__{count}") }
    }
}
