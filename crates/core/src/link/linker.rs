//! The phases of linking: load modules, then bind names.
//!
//! Modules that the entry reaches by static imports must link. Each other module links or is marked as broken.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::bind::{Binding, Resolution, Resolver};
use super::costs::Costs;
use super::error::{LinkError, LinkFailure};
use super::graph::{Graph, LinkedModule};
use super::nodes::{Goal, Kind, Loaded, NameId, Names, Node, NodeId, Provider, Wanted};
use super::sources::Sources;
use super::specifier::{self, Unresolved, resolve};
use crate::budget::{Charge, Refused};
use crate::hint;
use crate::language::{CompileLimits, Export, Imported, Language, Module, Request};
use crate::text::Quoted;

/// A graph while it is being linked.
pub(super) struct Linker<'a> {
    sources: &'a Sources,
    language: &'a dyn Language,
    reading: &'a CompileLimits<'a>,
    nodes: Vec<Node<'a>>,
    by_name: HashMap<&'a str, NodeId>,
    /// Modules with a source, in the order of loading.
    order: Vec<NodeId>,
    names: Names,
    resolver: Resolver,
    costs: Costs<'a>,
    /// How many more errors get a hint that compares names.
    hints: usize,
}

impl<'a> Linker<'a> {
    pub(super) fn new(
        sources: &'a Sources,
        language: &'a dyn Language,
        reading: &'a CompileLimits<'a>,
    ) -> Result<Self, LinkError> {
        Ok(Self {
            sources,
            language,
            reading,
            nodes: Vec::new(),
            by_name: HashMap::new(),
            order: Vec::new(),
            names: Names::default(),
            resolver: Resolver::new(),
            costs: Costs::new(reading)?,
            hints: MAX_HINTS,
        })
    }

    pub(super) fn link(mut self) -> Result<Graph, LinkError> {
        let entry = self.node(self.sources.entry_name());
        self.load_reachable(entry)?;
        for id in self.dependencies_first(entry) {
            self.check_names(id)?;
        }
        self.load_rest()?;
        self.finish(entry)
    }

    /// Finds or creates the node named `name`.
    fn node(&mut self, name: &'a str) -> NodeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let kind = self.sources.imports.get(name).map_or(Kind::Unloaded, Kind::Bridge);
        self.nodes.push(Node { name, kind });
        self.by_name.insert(name, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    // ---- loading

    /// Loads `entry` and the modules that it reaches by static imports, in the order of their first import.
    fn load_reachable(&mut self, entry: NodeId) -> Result<(), LinkError> {
        let mut open = vec![entry];
        while let Some(id) = open.pop() {
            if matches!(self.nodes[id].kind, Kind::Unloaded) {
                let loaded = self.load(id)?;
                open.extend(loaded.targets.iter().rev());
                self.nodes[id].kind = Kind::Loaded(Box::new(loaded));
                self.order.push(id);
            }
        }
        Ok(())
    }

    /// Loads the modules that the entry does not reach. Those that cannot link are marked as broken, and so are the
    /// modules that import them.
    fn load_rest(&mut self) -> Result<(), LinkError> {
        let reachable = self.order.len();
        for key in self.sources.modules.keys() {
            let id = self.node(key);
            if matches!(self.nodes[id].kind, Kind::Unloaded) {
                self.nodes[id].kind = match self.load(id) {
                    Err(error) if error.is_final() => return Err(error),
                    loaded => loaded
                        .map_or_else(|error| Kind::Broken(Arc::new(error)), |loaded| Kind::Loaded(Box::new(loaded))),
                };
                self.order.push(id);
            }
        }
        let rest = self.order[reachable..].to_vec();
        let importers = self.importers();
        for id in &rest {
            if matches!(self.nodes[*id].kind, Kind::Broken(_)) {
                self.break_importers(*id, &importers);
            }
        }
        for id in rest {
            match self.check_names(id) {
                Ok(()) => continue,
                Err(error) if error.is_final() => return Err(error),
                Err(error) => self.nodes[id].kind = Kind::Broken(Arc::new(error)),
            }
            self.break_importers(id, &importers);
        }
        Ok(())
    }

    /// The modules that `entry` reaches, each after its imports (cycles aside), so that a missing name is reported
    /// where it is re-exported first.
    fn dependencies_first(&self, entry: NodeId) -> Vec<NodeId> {
        let mut ordered = Vec::with_capacity(self.order.len());
        let mut entered = vec![false; self.nodes.len()];
        // The path from the entry, each module with the number of its targets that are done.
        let mut path = vec![(entry, 0)];
        while let Some((id, done)) = path.last_mut() {
            let Kind::Loaded(loaded) = &self.nodes[*id].kind else {
                path.pop();
                continue;
            };
            entered[*id] = true;
            if let Some(target) = loaded.targets.get(*done) {
                *done += 1;
                if !entered[*target] {
                    path.push((*target, 0));
                }
            } else {
                ordered.push(*id);
                path.pop();
            }
        }
        ordered
    }

    /// The importers of each module, by node.
    fn importers(&self) -> Vec<Vec<NodeId>> {
        let mut importers = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            if let Kind::Loaded(loaded) = &node.kind {
                loaded.targets.iter().for_each(|target| importers[*target].push(id));
            }
        }
        importers
    }

    /// Marks all direct and indirect importers of the broken module `id` as broken.
    fn break_importers(&mut self, id: NodeId, importers: &[Vec<NodeId>]) {
        let Kind::Broken(error) = &self.nodes[id].kind else { return };
        let error = Arc::clone(error);
        let mut open = importers[id].clone();
        while let Some(id) = open.pop() {
            if matches!(self.nodes[id].kind, Kind::Loaded(_)) {
                self.nodes[id].kind = Kind::Broken(Arc::clone(&error));
                open.extend(&importers[id]);
            }
        }
    }

    /// Compiles a module and resolves its specifiers.
    fn load(&mut self, id: NodeId) -> Result<Loaded, LinkError> {
        let name = self.nodes[id].name;
        let source = self.sources.source(name).expect("only modules with a source are loaded");
        let module = self.language.module(source, self.reading).map_err(|error| LinkError {
            specifier: (name != self.sources.entry_name()).then(|| name.to_owned()),
            filename: Some(name.to_owned()),
            ..LinkError::from(error)
        })?;
        let mut targets = Vec::with_capacity(module.requests.len());
        for request in &module.requests {
            self.costs.step()?;
            targets.push(self.target(name, request)?);
        }
        let names = self.names.bytes();
        let loaded = self.loaded(module, targets)?;
        self.costs.kept.add(loaded.bytes() + self.names.bytes() - names)?;
        Ok(loaded)
    }

    fn loaded(&mut self, module: Module, targets: Vec<NodeId>) -> Result<Loaded, LinkError> {
        // What is made of the records is about as large as they are.
        const RECORD: usize = 128;
        let _making = self.costs.budget.charge(RECORD * (module.imports.len() + module.exports.len()))?;
        let mut wanted = Vec::new();
        let mut imported = HashMap::new();
        for import in &module.imports {
            let provider = self.provider(&targets, import.request, &import.imported);
            if let Provider::Other((_, name)) = provider {
                wanted.push(Wanted { request: import.request, name, position: import.position });
            }
            imported.insert(import.local.as_str(), provider);
        }
        let mut exported = HashMap::new();
        let mut stars = Vec::new();
        for export in &module.exports {
            match export {
                Export::Local { name, local } => {
                    // An imported name that is exported belongs to the module that it is imported from.
                    let here = Provider::Local(self.names.id(local));
                    let provider = imported.get(local.as_str()).copied().unwrap_or(here);
                    exported.insert(self.names.id(name), provider);
                }
                Export::From { name, request, imported, position } => {
                    let provider = self.provider(&targets, *request, imported);
                    if let Provider::Other((_, name)) = provider {
                        wanted.push(Wanted { request: *request, name, position: *position });
                    }
                    exported.insert(self.names.id(name), provider);
                }
                Export::All { request } => stars.push(targets[*request]),
            }
        }
        wanted.sort_by_key(|wanted| wanted.position);
        let types = module.types.into_iter().collect();
        Ok(Loaded { code: module.code, requests: module.requests, targets, wanted, exported, stars, types })
    }

    fn provider(&mut self, targets: &[NodeId], request: usize, imported: &Imported) -> Provider {
        match imported {
            Imported::Name(name) => Provider::Other((targets[request], self.names.id(name))),
            Imported::Namespace => Provider::Namespace(targets[request]),
        }
    }

    /// Resolves `request` of the module `importer`.
    fn target(&mut self, importer: &str, request: &Request) -> Result<NodeId, LinkError> {
        let specifier = &request.specifier;
        let sources = self.sources;
        let failure = match resolve(importer, specifier) {
            Err(reason) => self.unresolved(importer, specifier, reason),
            Ok(name) => {
                let module = sources.modules.get_key_value(&name).map(|(key, _)| key);
                match module.or_else(|| sources.imports.get_key_value(&name).map(|(key, _)| key)) {
                    Some(known) => return Ok(self.node(known)),
                    None if name.starts_with("./") => self.unknown_module(importer, name, specifier),
                    None => self.unknown_import(name),
                }
            }
        };
        Err(LinkError {
            failure: Box::new(failure),
            specifier: Some(specifier.clone()),
            filename: Some(importer.to_owned()),
            position: Some(request.position),
        })
    }

    fn unresolved(&self, importer: &str, specifier: &str, reason: Unresolved) -> LinkFailure {
        let without_scheme = specifier.split_once(':').map_or("", |(_, rest)| rest);
        let hint = match reason {
            Unresolved::Url if self.sources.imports.contains_key(without_scheme) => hint::did_you_mean(without_scheme),
            Unresolved::OutsideRoot => format!("; it is relative to {}", Quoted(importer)),
            _ => String::new(),
        };
        LinkFailure::Unresolved { specifier: specifier.to_owned(), reason, hint }
    }

    fn unknown_import(&mut self, specifier: String) -> LinkFailure {
        let known = self.sources.imports.keys().map(String::as_str);
        let relative = format!("./{specifier}");
        let hint = if self.sources.modules.contains_key(&relative) {
            hint::did_you_mean(&relative)
        } else if self.sources.imports.is_empty() {
            "; no imports were given".to_owned()
        } else {
            self.hint(&specifier, known, "known:")
        };
        LinkFailure::UnknownImport { specifier, hint }
    }

    fn unknown_module(&mut self, importer: &str, name: String, specifier: &str) -> LinkFailure {
        let sources = self.sources;
        let known = sources.modules.keys().map(String::as_str);
        let written = if name == specifier { String::new() } else { format!(", resolved from {}", Quoted(specifier)) };
        let entry = specifier::path(sources.entry_name()).map(|path| format!("./{}", path.join("/")));
        let meant = |name: &str| hint::did_you_mean(&specifier::relative(importer, name));
        let hint = if entry.as_ref() == Some(&name) {
            "; the entry cannot be imported".to_owned()
        } else if sources.modules.is_empty() {
            "; no modules were given".to_owned()
        } else if let Some(other) = other_extension(&name).find(|other| sources.modules.contains_key(other)) {
            meant(&other)
        } else if sources.modules.contains_key(specifier) {
            // `./lib/b.js` in `./lib/a.js`: the specifier is relative to the root instead of the importer.
            meant(specifier)
        } else if self.take_hint().is_none() {
            String::new()
        } else if let Some(near) = hint::near(&name, known.clone()) {
            meant(near)
        } else {
            hint::list(known.map(|key| specifier::relative(importer, key)), "known:")
        };
        LinkFailure::UnknownModule { hint: format!("{written}{hint}"), name }
    }

    // ---- binding names

    /// Checks that all names that `id` imports or re-exports exist.
    fn check_names(&mut self, id: NodeId) -> Result<(), LinkError> {
        let Kind::Loaded(loaded) = &self.nodes[id].kind else { return Ok(()) };
        for wanted in &loaded.wanted {
            let target = loaded.targets[wanted.request];
            let goal = (target, wanted.name);
            let failure = match self.resolver.resolve(&self.nodes, &self.names, goal, &mut self.costs)? {
                Resolution::Bound(_) => continue,
                Resolution::Ambiguous(first, second) => LinkFailure::AmbiguousExport {
                    module: self.nodes[target].name.to_owned(),
                    name: self.names.text(wanted.name).to_owned(),
                    first: self.describe(first),
                    second: self.describe(second),
                },
                Resolution::Missing => {
                    let (module, name) = (self.nodes[target].name.to_owned(), self.names.text(wanted.name).to_owned());
                    LinkFailure::NoExport { module, name, hint: String::new() }
                }
            };
            let specifier = Some(loaded.requests[wanted.request].specifier.clone());
            let (filename, position) = (Some(self.nodes[id].name.to_owned()), Some(wanted.position));
            let mut error = LinkError { failure: Box::new(failure), specifier, filename, position };
            if let LinkFailure::NoExport { name, hint, .. } = &mut *error.failure {
                *hint = self.hint_for_export(target, name);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Describes a binding in an error message.
    fn describe(&self, binding: Binding) -> String {
        let module = Quoted(self.nodes[binding.node].name);
        match binding.name.map(|name| self.names.text(name)) {
            None => format!("the namespace of {module}"),
            Some("*default*") => format!("the default of {module}"),
            Some(name) => format!("{} of {module}", Quoted(name)),
        }
    }

    fn hint_for_export(&mut self, target: NodeId, name: &str) -> String {
        if self.hints == 0 {
            return String::new();
        }
        let is_type = match &self.nodes[target].kind {
            Kind::Loaded(loaded) => loaded.types.contains(name),
            _ => false,
        };
        if is_type {
            return "; it is a type, which does not exist at run time: use `import type` or `export type`".to_owned();
        }
        let Ok((candidates, _charge)) = self.candidates(target) else { return String::new() };
        let known: Vec<_> = candidates.iter().map(|name| self.names.text(*name)).collect();
        if known.contains(&name) {
            return "; it re-exports that name, but no module declares it".to_owned();
        }
        if self.hints == 0 {
            return String::new();
        }
        let hint = hint::hint(name, known.into_iter(), "it exports");
        self.hints -= 1;
        hint
    }

    /// A hint for `name`, empty after [`MAX_HINTS`].
    fn hint<'n>(&mut self, name: &str, known: impl Iterator<Item = &'n str> + Clone, listed: &str) -> String {
        self.take_hint().map_or_else(String::new, |()| hint::hint(name, known, listed))
    }

    fn take_hint(&mut self) -> Option<()> {
        self.hints = self.hints.checked_sub(1)?;
        Some(())
    }

    // ---- the result

    /// The names that `id` may export, sorted: its own and those behind `export *`. The charge covers them.
    fn candidates(&mut self, id: NodeId) -> Result<(Vec<NameId>, Charge), Refused> {
        const CANDIDATE: usize = 64;
        let mut charge = self.costs.budget.charge(self.nodes.len())?;
        let default = self.names.id("default");
        let mut found = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![id];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            self.costs.step()?;
            let is_exported = |name: &NameId| at == id || *name != default;
            match &self.nodes[at].kind {
                Kind::Loaded(loaded) => {
                    charge.add(loaded.stars.len() * 2 * size_of::<NodeId>() + loaded.exported.len() * CANDIDATE)?;
                    open.extend(&loaded.stars);
                    found.extend(loaded.exported.keys().copied().filter(is_exported));
                }
                Kind::Bridge(exports) => {
                    charge.add(exports.len() * CANDIDATE)?;
                    found.extend(exports.iter().map(|name| self.names.id(name)).filter(is_exported));
                }
                Kind::Unloaded | Kind::Broken(_) => {}
            }
        }
        found.sort_unstable_by_key(|name| self.names.text(*name));
        found.dedup();
        Ok((found, charge))
    }

    fn finish(mut self, entry: NodeId) -> Result<Graph, LinkError> {
        let (mut exports, mut ambiguous) = (BTreeSet::new(), BTreeSet::new());
        let (candidates, _charge) = self.candidates(entry)?;
        for name in candidates {
            let goal: Goal = (entry, name);
            let text = self.names.text(name);
            self.costs.kept.add(text.len())?;
            match self.resolver.resolve(&self.nodes, &self.names, goal, &mut self.costs)? {
                Resolution::Bound(_) => exports.insert(text.to_owned()),
                Resolution::Ambiguous(..) => ambiguous.insert(text.to_owned()),
                Resolution::Missing => false,
            };
        }
        let mut types = BTreeSet::new();
        let mut modules = Vec::with_capacity(self.order.len());
        for id in self.order {
            let node = &mut self.nodes[id];
            let mut broken = None;
            let code = match &mut node.kind {
                Kind::Loaded(loaded) => {
                    if id == entry {
                        types = std::mem::take(&mut loaded.types);
                    }
                    std::mem::take(&mut loaded.code)
                }
                Kind::Broken(error) => {
                    broken = Some(Arc::clone(error));
                    let code = throwing(error);
                    self.costs.kept.add(code.len())?;
                    code.into()
                }
                Kind::Unloaded | Kind::Bridge(_) => continue,
            };
            modules.push(LinkedModule { name: node.name.to_owned(), code, broken });
        }
        Ok(Graph { entry: self.nodes[entry].name.to_owned(), modules, exports, ambiguous, types })
    }
}

/// How many errors get a hint that compares names. More than one error occurs only in modules that the entry does not
/// reach.
const MAX_HINTS: usize = 64;

/// Variants of `name` with another extension, with none, or with `/index`.
fn other_extension(name: &str) -> impl Iterator<Item = String> {
    const EXTENSIONS: [&str; 8] = [".js", ".ts", ".mjs", ".mts", "", "/index.js", "/index.ts", ".json"];
    let stem = EXTENSIONS.iter().filter(|one| !one.is_empty()).find_map(|one| name.strip_suffix(one)).unwrap_or(name);
    EXTENSIONS.iter().map(move |extension| format!("{stem}{extension}")).filter(move |other| other != name)
}

/// A module that throws `error` when it is imported.
fn throwing(error: &LinkError) -> String {
    let message = serde_json::Value::String(error.on_one_line());
    format!("throw new SyntaxError({message});")
}
