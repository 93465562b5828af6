//! The tables of servers in the files of MCP clients, and what else in these files selects servers.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;

use super::input::{self, Item};
use super::node::Node;
use super::secret::Candidates;
use super::skipped::MAX_VALUES;
use super::variables::Scope;
use super::{ConfigError, Context, Entry, Format, IgnoredKey, Problem, SkipReason, entry};
use crate::Secrets;
use crate::filter::Pattern;

/// Reads the entries of a file, in their order.
///
/// - `mcpServers` of most clients, `servers` and `mcp.servers` of VS Code, `context_servers` of Zed, `mcp_servers` of Codex.
/// - `inputs` and `mcp.inputs` of VS Code.
/// - `mcp.allowed`, `mcp.excluded`, and the older `allowMCPServers` and `excludeMCPServers` of Gemini CLI: names of servers.
/// - `expose` of execbox: tools as `SERVER.TOOL`, which the entries can have, too.
/// - `projects` of Claude Code: the project that contains the workspace folder has servers of its own, which override others
///   of the same name, and it disables servers by name. Outside of all projects, the servers of each are read.
pub(super) fn entries(file: &Node<'_>, format: Format, context: &dyn Context) -> Result<Vec<Entry>, ConfigError> {
    let tables = Tables::of(file)?;
    if tables.all.is_empty() {
        return Err(file.error(Problem::NoServers(format)));
    }
    let current = tables.current_project(context);
    let mut entries = tables.read_entries(tables.located(|_| current)?, format, context);
    for item in &tables.exposed {
        if !expose(item, &mut entries)
            && let Some(first) = entries.first_mut()
        {
            first.ignored.push(IgnoredKey::exposed(item));
        }
    }
    Ok(entries)
}

/// The entries of the user, or of the project with a folder.
pub(super) type ScopeEntries = (Option<String>, Vec<Entry>);

/// Reads the entries of a file apart: those of the user, and those of each project that has some.
pub(super) fn scopes(file: &Node<'_>, format: Format, context: &dyn Context) -> Result<Vec<ScopeEntries>, ConfigError> {
    let tables = Tables::of(file)?;
    let mut scopes: Vec<(Option<usize>, Vec<Located<'_>>)> = Vec::new();
    for located in tables.located(|table| table.project)? {
        match scopes.iter_mut().find(|(project, _)| *project == located.project) {
            Some((_, entries)) => entries.push(located),
            None => scopes.push((located.project, vec![located])),
        }
    }
    let folder = |project: Option<usize>| project.map(|at| tables.projects[at].folder.to_owned());
    let scopes = scopes.into_iter();
    Ok(scopes.map(|(project, located)| (folder(project), tables.read_entries(located, format, context))).collect())
}

/// The secrets of all entries, also of those that are not used, and what else in the file is a credential by its form.
pub(super) fn secrets(file: &Node<'_>, format: Format, context: &dyn Context) -> Result<Secrets, ConfigError> {
    let (tables, mut candidates) = (Tables::of(file)?, Candidates::default());
    file.visit_strings(&mut |key, strings| {
        for string in strings {
            candidates.add(key, string);
            candidates.add_url(string);
        }
        candidates.add_arguments(&strings.iter().map(ToString::to_string).collect::<Vec<_>>());
    });
    let all = candidates.into_secrets();
    let located = tables.located(|table| table.project)?;
    let read = |scope: Scope<'_>, Located { name, node, .. }: Located<'_>| entry::secrets(name, &node, scope);
    tables.each(located, format, context, read).iter().for_each(|secrets| all.add(secrets));
    Ok(all)
}

/// The entries with this name that are used.
pub(super) fn used<'a>(file: &Node<'a>, name: &str, context: &dyn Context) -> Result<Vec<Node<'a>>, ConfigError> {
    let tables = Tables::of(file)?;
    let current = tables.current_project(context);
    let located = tables.located(|_| current)?.into_iter();
    let named = located.filter(|entry| entry.name == name && entry.exclusion.is_none());
    Ok(named.map(|entry| entry.node).filter(|node| !entry::is_disabled(node)).collect())
}

/// An entry of a file.
struct Located<'a> {
    name: &'a str,
    node: Node<'a>,
    /// The index of the project whose server it is.
    project: Option<usize>,
    /// Why another part of the file excludes the entry.
    exclusion: Option<SkipReason>,
}

/// Adds an item of `expose` to the servers that it names. Returns whether there is one.
fn expose(item: &Node<'_>, entries: &mut [Entry]) -> bool {
    let Ok(text) = item.string() else { return false };
    let mut found = false;
    for entry in entries {
        let of = |name: &str| text.strip_prefix(name)?.strip_prefix('.');
        let Some(tool) = of(&entry.name).or_else(|| of("*")).filter(|tool| !tool.is_empty()) else { continue };
        found = true;
        if let Ok(server) = &mut entry.server {
            server.filter.expose.push(Pattern::new(tool));
        }
    }
    found
}

/// What a file has about servers.
#[derive(Default)]
pub(super) struct Tables<'a> {
    /// The tables, those of the projects last.
    all: Vec<Table<'a>>,
    projects: Vec<Project<'a>>,
    /// `inputs`.
    pub(super) inputs: Vec<Node<'a>>,
    /// The only servers that are enabled; all if it is empty.
    allowed: Vec<&'a str>,
    excluded: Vec<&'a str>,
    /// The items of `expose`.
    exposed: Vec<Node<'a>>,
}

struct Table<'a> {
    servers: Node<'a>,
    /// The index of the project whose servers they are.
    project: Option<usize>,
}

/// A project that has servers of its own, or disables others.
struct Project<'a> {
    folder: &'a str,
    names: Vec<&'a str>,
    disabled: Vec<&'a str>,
}

impl<'a> Tables<'a> {
    pub(super) fn of(file: &Node<'a>) -> Result<Self, ConfigError> {
        let mut tables = Self::default();
        tables.read(file)?;
        Ok(tables)
    }

    /// The tables of the project with this folder, or of the user.
    pub(super) fn scope(&self, project: Option<&str>) -> impl Iterator<Item = &Node<'a>> {
        let of_scope = move |table: &&Table<'a>| table.project.map(|at| self.projects[at].folder) == project;
        self.all.iter().filter(of_scope).map(|table| &table.servers)
    }

    /// The index of the project that contains the workspace folder.
    fn current_project(&self, context: &dyn Context) -> Option<usize> {
        let workspace = if self.projects.is_empty() { None } else { context.workspace_folder() };
        workspace.as_deref().and_then(|workspace| self.project_of(workspace))
    }

    fn read_entries(&self, located: Vec<Located<'a>>, format: Format, context: &dyn Context) -> Vec<Entry> {
        let read = |scope: Scope<'_>, Located { name, node, exclusion, .. }: Located<'_>| match exclusion {
            Some(reason) => Entry { name: name.to_owned(), server: Err(reason), ignored: Vec::new() },
            None => entry::read(name, &node, scope),
        };
        self.each(located, format, context, read)
    }

    /// What `read` makes of each entry, with the values that it can refer to.
    fn each<T>(
        &self,
        located: Vec<Located<'a>>,
        format: Format,
        context: &dyn Context,
        read: impl Fn(Scope<'_>, Located<'a>) -> T,
    ) -> Vec<T> {
        let mut inputs: Vec<_> = self.inputs.iter().flat_map(input::read).collect();
        inputs.sort_by_key(|item| matches!(item, Item::Invalid { id: None, .. }));
        let left = Cell::new(MAX_VALUES);
        let scope = Scope { context, inputs: &inputs, expands: format == Format::Json, left: &left };
        located.into_iter().map(|located| read(scope, located)).collect()
    }

    fn read(&mut self, file: &Node<'a>) -> Result<(), ConfigError> {
        let mut projects = Vec::new();
        for (key, value) in file.entries()? {
            match key {
                _ if value.is_null() => {}
                "mcpServers" | "servers" | "context_servers" | "mcp_servers" => self.add(value, None),
                "inputs" => self.inputs.push(value),
                "expose" => match value.items("an array of tools") {
                    Ok(items) => self.exposed.extend(items),
                    Err(_) => self.exposed.push(value),
                },
                "mcp" => self.read_mcp(&value),
                "allowMCPServers" => self.allowed.extend(names(&value)),
                "excludeMCPServers" => self.excluded.extend(names(&value)),
                "projects" => projects.extend(value.entries().unwrap_or_default()),
                _ => {}
            }
        }
        for (folder, value) in projects {
            self.read_project(folder, &value);
        }
        Ok(())
    }

    /// Reads `mcp`, which VS Code and Gemini CLI have.
    fn read_mcp(&mut self, mcp: &Node<'a>) {
        for (key, value) in mcp.entries().unwrap_or_default() {
            match key {
                _ if value.is_null() => {}
                "servers" => self.add(value, None),
                "inputs" => self.inputs.push(value),
                "allowed" => self.allowed.extend(names(&value)),
                "excluded" => self.excluded.extend(names(&value)),
                _ => {}
            }
        }
    }

    fn read_project(&mut self, folder: &'a str, value: &Node<'a>) {
        let mut project = Project { folder, names: Vec::new(), disabled: Vec::new() };
        for (key, value) in value.entries().unwrap_or_default() {
            match key {
                "mcpServers" if value.is_object() && !value.is_empty() => {
                    project.names.extend(value.entries().unwrap_or_default().iter().map(|(name, _)| *name));
                    self.add(value, Some(self.projects.len()));
                }
                "disabledMcpServers" => project.disabled.extend(names(&value)),
                _ => {}
            }
        }
        if !project.names.is_empty() || !project.disabled.is_empty() {
            self.projects.push(project);
        }
    }

    fn add(&mut self, servers: Node<'a>, project: Option<usize>) {
        self.all.push(Table { servers, project });
    }

    /// The entries of all tables, in their order. `current` is the index of the project in use, for a table.
    fn located(&self, current: impl Fn(&Table<'a>) -> Option<usize>) -> Result<Vec<Located<'a>>, ConfigError> {
        let mut located = Vec::new();
        for table in &self.all {
            let servers = table.servers.entries()?;
            // As in JSON.parse, the last of two equal keys counts.
            let last: HashMap<_, _> = servers.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
            for (at, (name, node)) in servers.into_iter().enumerate() {
                let is_overridden = (last[name] != at).then_some(SkipReason::Overridden);
                let exclusion = is_overridden.or_else(|| self.exclusion(name, table, current(table)));
                located.push(Located { name, node, project: table.project, exclusion });
            }
        }
        Ok(located)
    }

    /// The index of the innermost project that contains a folder.
    fn project_of(&self, folder: &Path) -> Option<usize> {
        let containing = self.projects.iter().enumerate().filter(|(_, project)| folder.starts_with(project.folder));
        containing.max_by_key(|(_, project)| Path::new(project.folder).components().count()).map(|(at, _)| at)
    }

    /// Why another part of the file excludes an entry. `current` is the project that contains the workspace folder.
    fn exclusion(&self, name: &str, table: &Table<'_>, current: Option<usize>) -> Option<SkipReason> {
        let own = table.project.map(|at| (at, &self.projects[at]));
        let disabled_by = current.map(|at| &self.projects[at]).or(own.map(|(_, project)| project));
        match own {
            Some((at, project)) if current.is_some_and(|current| current != at) => {
                Some(SkipReason::OtherProject { project: project.folder.to_owned() })
            }
            _ if disabled_by.is_some_and(|project| project.disabled.contains(&name)) => Some(SkipReason::Disabled),
            None if current.is_some_and(|at| self.projects[at].names.contains(&name)) => Some(SkipReason::Overridden),
            _ if self.excluded.contains(&name) => Some(SkipReason::Disabled),
            _ if !self.allowed.is_empty() && !self.allowed.contains(&name) => Some(SkipReason::Disabled),
            _ => None,
        }
    }
}

/// The strings of an array. Anything else has none.
fn names<'a>(node: &Node<'a>) -> Vec<&'a str> {
    let items = node.items("an array of names").unwrap_or_default();
    items.iter().filter_map(|item| item.string().ok()).collect()
}
