//! Puts a gateway in front of servers: moves their entries from the file of a client to a file of the gateway, and leaves an
//! entry that starts the gateway in their place.

use std::fmt;
use std::ops::Range;

use super::members::{Container, Layout, Member};
use super::toml_tables::{self, TomlFile};
use super::{EditError, quoted};
use crate::config::node::{self, Node, Token};
use crate::config::tables::Tables;
use crate::config::{ConfigError, Context, Format};

/// A gateway that is an entry in the file of a client.
#[derive(Clone, Copy)]
pub struct Gateway<'a> {
    context: &'a dyn Context,
    project: Option<&'a str>,
    name: &'a str,
}

/// The command with which a client starts the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayCommand {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) keys: Vec<(&'static str, &'static str)>,
    pub(super) variables: Vec<(String, String)>,
}

/// The texts of two files after servers were moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayFiles {
    /// The file of the client.
    pub client: String,
    /// The file of the servers behind the gateway, in the language of the client's file.
    pub servers: String,
}

impl<'a> Gateway<'a> {
    /// A gateway with an entry of this name beside the servers of the user. `context` says in which file the text of the client
    /// is; variables, files and inputs are not read.
    pub fn new(context: &'a dyn Context, name: &'a str) -> Self {
        Self { context, project: None, name }
    }

    /// Puts the gateway beside the servers of the project of Claude Code with this folder, or of the user.
    #[must_use]
    pub fn project(self, folder: Option<&'a str>) -> Self {
        Self { project: folder, ..self }
    }

    /// Moves the entries with these names from `client` to `servers`, which is empty if there is no such file yet. Inputs are
    /// copied. An entry of the gateway that has this command already stays as it is.
    pub fn insert(
        &self,
        client: &str,
        servers: &str,
        names: &[&str],
        command: &GatewayCommand,
    ) -> Result<GatewayFiles, EditError> {
        let (mark, client) = split_mark(client);
        let format = self.format(client);
        let is_moved = |name: &str| names.contains(&name) && name != self.name;
        let edited = node::parse(client, format, |file| {
            if format == Format::Json && has_broken_strings(&file) {
                return Err(self.unsupported(&file));
            }
            let moved = self.entries(&file, is_moved)?;
            let missing = with_servers(servers, format, |known| missing(&moved, &known))?;
            let is_missing = |name: &str| missing.contains(&name);
            match format {
                Format::Json => self.insert_in_json(&file, servers, is_moved, is_missing, command),
                Format::Toml => {
                    let edited = self.insert_in_toml(&file, servers, is_moved, is_missing, command);
                    edited.ok_or_else(|| self.unsupported(&file))
                }
            }
        })?;
        let is_right = |before: &Node<'_>, after: &Node<'_>| {
            let stays = |name: &str| !is_moved(name) && name != self.name;
            let all = with_servers(servers, format, |known| {
                let all = sorted([known, self.entries(before, is_moved)?].concat());
                with_servers(&edited.servers, format, |now| Ok(now == all))
            })?;
            let is_own = |name: &str| name == self.name;
            let (rest, own) = (self.entries(after, |name| name != self.name)?, self.entries(after, is_own)?);
            Ok(all && rest == self.entries(before, stays)? && own.len() == 1)
        };
        self.check(client, &edited.client, format, is_right)?;
        Ok(GatewayFiles { client: format!("{mark}{}", edited.client), ..edited })
    }

    /// Moves the entries of `servers` back to `client`, in the place of the gateway's entry. Returns the text of the client's file.
    pub fn remove(&self, client: &str, servers: &str) -> Result<String, EditError> {
        let (mark, client) = split_mark(client);
        let format = self.format(client);
        let edited = node::parse(client, format, |file| {
            let known = self.entries(&file, |name| name != self.name)?;
            with_servers(servers, format, |moved| {
                let missing = missing(&moved, &known)?;
                let is_missing = |name: &str| missing.contains(&name);
                match format {
                    Format::Json => self.remove_from_json(&file, servers, is_missing),
                    Format::Toml => {
                        self.remove_from_toml(&file, servers, is_missing).ok_or_else(|| self.unsupported(&file))
                    }
                }
            })
        })?;
        let is_right = |before: &Node<'_>, after: &Node<'_>| {
            let known = self.entries(before, |name| name != self.name)?;
            with_servers(servers, format, |moved| {
                let now = self.entries(after, |_| true)?;
                Ok(now == sorted([moved, known].concat()))
            })
        };
        self.check(client, &edited, format, is_right)?;
        Ok(format!("{mark}{edited}"))
    }

    fn format(&self, client: &str) -> Format {
        Format::of(client, self.context.file_name().as_deref())
    }

    /// Fails if an edit has changed anything but the entries, or `is_right` is false for the file before and after it.
    fn check(
        &self,
        before: &str,
        after: &str,
        format: Format,
        is_right: impl FnOnce(&Node<'_>, &Node<'_>) -> Result<bool, EditError>,
    ) -> Result<(), EditError> {
        node::parse(before, format, |before| {
            let checked = node::parse(after, format, |after| {
                Ok::<_, EditError>(self.others(&before)? == self.others(&after)? && is_right(&before, &after)?)
            });
            if checked == Ok(true) { Ok(()) } else { Err(self.unsupported(&before)) }
        })
    }

    fn insert_in_json(
        &self,
        file: &Node<'_>,
        servers: &str,
        is_moved: impl Fn(&str) -> bool,
        is_missing: impl Fn(&str) -> bool,
        command: &GatewayCommand,
    ) -> Result<GatewayFiles, EditError> {
        let tables = Tables::of(file)?;
        let mut scope = JsonScope::of(&tables, self.project);
        let (at, first) = scope.place(|name| is_moved(name) || name == self.name).ok_or(EditError::NoTable)?;
        let layout = scope.0[at].layout.clone();
        let own = scope.take(|name| name == self.name).into_iter().flat_map(|(members, _)| members).next();
        let new = Member::object(self.name, &command.members(), &layout);
        let own = match own {
            Some(own) if self.starts(&tables, command) => own,
            Some(own) => own.with_text(new),
            None => new,
        };
        let moved = scope.take(is_moved);
        scope.0[at].insert(first, vec![own], &layout);
        let servers = if servers.trim().is_empty() { NO_SERVERS } else { servers };
        let servers = with_members(servers, moved, is_missing)?;
        let servers = tables.inputs.iter().try_fold(servers, |servers, inputs| with_inputs(&servers, inputs))?;
        Ok(GatewayFiles { client: scope.text(file), servers })
    }

    fn remove_from_json(
        &self,
        file: &Node<'_>,
        servers: &str,
        is_missing: impl Fn(&str) -> bool,
    ) -> Result<String, EditError> {
        let tables = Tables::of(file)?;
        let mut scope = JsonScope::of(&tables, self.project);
        let (at, first) = scope.place(|name| name == self.name).ok_or(EditError::NoTable)?;
        scope.0.iter_mut().for_each(|table| table.remove(|name| name == self.name));
        let servers = if servers.trim().is_empty() { NO_SERVERS } else { servers };
        let back = node::parse(servers, Format::Json, |servers| {
            let tables = JsonScope::of(&Tables::of(&servers)?, None).0.into_iter();
            let back = tables.map(|mut table| (table.take_with_tail(&is_missing), table.layout));
            Ok::<_, EditError>(back.collect::<Vec<_>>())
        })?;
        for (members, layout) in back.into_iter().rev() {
            scope.0[at].insert(first, members, &layout);
        }
        Ok(scope.text(file))
    }

    fn insert_in_toml(
        &self,
        file: &Node<'_>,
        servers: &str,
        is_moved: impl Fn(&str) -> bool,
        is_missing: impl Fn(&str) -> bool,
        command: &GatewayCommand,
    ) -> Option<GatewayFiles> {
        let text = file.file_text();
        let (mut client, mut target) = (TomlFile::parse(text, text)?, TomlFile::parse(servers, text)?);
        let (mut moved, position) = client.take(is_moved);
        if !self.starts(&Tables::of(file).ok()?, command) {
            let (_, own) = client.take(|name| name == self.name);
            client.insert(vec![toml_tables::gateway(self.name, command)], own.or(position));
        }
        moved.retain(|(key, _)| is_missing(key.get()));
        target.insert(moved, None);
        target.trim();
        if !text.starts_with(['\n', '\r']) {
            client.trim(); // The first table begins with a blank line if it is new.
        }
        Some(GatewayFiles { client: client.text(), servers: target.text() })
    }

    fn remove_from_toml(&self, file: &Node<'_>, servers: &str, is_missing: impl Fn(&str) -> bool) -> Option<String> {
        let text = file.file_text();
        let (mut client, mut source) = (TomlFile::parse(text, text)?, TomlFile::parse(servers, text)?);
        let (_, position) = client.take(|name| name == self.name);
        let (back, _) = source.take(is_missing);
        client.insert(back, position);
        Some(client.text())
    }

    /// Whether the gateway's entry has this command.
    fn starts(&self, tables: &Tables<'_>, command: &GatewayCommand) -> bool {
        let mut entries = tables.scope(self.project).flat_map(|table| table.entries().unwrap_or_default());
        let Some((_, entry)) = entries.find(|(name, _)| *name == self.name) else { return false };
        let members = entry.entries().unwrap_or_default();
        let member = |key: &str| members.iter().find(|(other, _)| *other == key).map(|(_, value)| value);
        let args = member("args").and_then(|args| args.strings().ok()).unwrap_or_default();
        let env = member("env").and_then(|env| env.entries().ok()).unwrap_or_default();
        let named = member("env_vars").and_then(|names| names.items("").ok()).unwrap_or_default();
        let passes = |(variable, _): &(String, String)| {
            env.iter().any(|(name, _)| name == variable) || named.iter().any(|name| name.text() == *variable)
        };
        member("command").is_some_and(|node| node.text() == command.program)
            && command.variables.iter().all(passes)
            && args.iter().map(Node::text).eq(command.args.iter().map(String::as_str))
    }

    /// The entries that `is_selected` selects, in the order of their names.
    fn entries<'n>(&self, file: &Node<'n>, is_selected: impl Fn(&str) -> bool) -> Result<Entries<'n>, ConfigError> {
        let tables = Tables::of(file)?;
        let mut entries = Vec::new();
        for table in tables.scope(self.project) {
            let selected = table.entries()?.into_iter().filter(|(name, _)| is_selected(name));
            entries.extend(selected.map(|(name, node)| (name, node.tokens())));
        }
        Ok(sorted(entries))
    }

    /// What the file has beside the entries.
    fn others<'n>(&self, file: &Node<'n>) -> Result<Vec<Token<'n>>, ConfigError> {
        let tables = Tables::of(file)?;
        let paths: Vec<_> = tables.scope(self.project).map(Node::path).collect();
        Ok(file.tokens_without(&paths))
    }

    fn unsupported(&self, file: &Node<'_>) -> EditError {
        let tables = Tables::of(file).unwrap_or_default();
        let line = tables.scope(self.project).next().map_or(1, |table| table.key_position().0);
        EditError::UnsupportedTable { line }
    }
}

impl fmt::Debug for Gateway<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("project", &self.project).field("name", &self.name).finish_non_exhaustive()
    }
}

impl GatewayCommand {
    /// A program with arguments.
    pub fn new(program: impl Into<String>, args: Vec<String>) -> Self {
        Self { program: program.into(), args, keys: Vec::new(), variables: Vec::new() }
    }

    /// Further keys that the client requires, with strings as values: `"type": "stdio"`.
    #[must_use]
    pub fn keys(self, keys: Vec<(&'static str, &'static str)>) -> Self {
        Self { keys, ..self }
    }

    /// Names of variables of the environment that the client passes on, with references to them in the notation of the client:
    /// `"env": { "NAME": "$NAME" }`. In TOML, `env_vars` has the names.
    #[must_use]
    pub fn variables(self, variables: Vec<(String, String)>) -> Self {
        Self { variables, ..self }
    }

    /// The members of an entry in JSON.
    fn members(&self) -> Vec<(&str, String)> {
        let args: Vec<_> = self.args.iter().map(|arg| quoted(arg)).collect();
        let keys = self.keys.iter().map(|(key, value)| (*key, quoted(value)));
        let command = [("command", quoted(&self.program)), ("args", format!("[{}]", args.join(", ")))];
        let env = self.variables.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)));
        let env = env.collect::<Vec<_>>().join(", ");
        keys.chain(command).chain((!env.is_empty()).then(|| ("env", format!("{{ {env} }}")))).collect()
    }
}

/// The tables of the user, or of a project.
struct JsonScope<'a>(Vec<Container<'a>>);

impl<'a> JsonScope<'a> {
    fn of(tables: &Tables<'a>, project: Option<&str>) -> Self {
        Self(tables.scope(project).map(Container::of_object).collect())
    }

    /// The table and the index in it of the first member that `is_wanted` selects, or of the end of the first table. `None` if
    /// there is no table.
    fn place(&self, is_wanted: impl Fn(&str) -> bool) -> Option<(usize, usize)> {
        let mut tables = self.0.iter().enumerate();
        let index = |table: &Container<'_>| table.members.iter().position(|member| is_wanted(&member.name));
        let found = tables.find_map(|(at, table)| Some((at, index(table)?)));
        found.or_else(|| Some((0, self.0.first()?.members.len())))
    }

    /// Removes members. Returns them with the layout of each table.
    fn take(&mut self, is_taken: impl Fn(&str) -> bool) -> Vec<(Vec<Member>, Layout)> {
        self.0.iter_mut().map(|table| (table.take(&is_taken), table.layout.clone())).collect()
    }

    fn text(&self, file: &Node<'_>) -> String {
        replaced(file.file_text(), self.0.iter().map(Container::edit).collect())
    }
}

type Entries<'a> = Vec<(&'a str, Vec<Token<'a>>)>;

/// Calls `read` with the entries of a file of servers, which can be empty.
fn with_servers<T>(
    text: &str,
    format: Format,
    read: impl FnOnce(Entries<'_>) -> Result<T, EditError>,
) -> Result<T, EditError> {
    if text.trim().is_empty() {
        return read(Vec::new());
    }
    node::parse(text, format, |file| {
        let tables = Tables::of(&file)?;
        let entries = tables.scope(None).flat_map(|table| table.entries().unwrap_or_default());
        read(sorted(entries.map(|(name, node)| (name, node.tokens())).collect()))
    })
}

/// The entries without repetitions, in the order of their names.
fn sorted(mut entries: Entries<'_>) -> Entries<'_> {
    entries.sort();
    entries.dedup();
    entries
}

/// The names of entries that `known` has not. Fails if it has one that differs.
fn missing<'a>(entries: &Entries<'a>, known: &Entries<'_>) -> Result<Vec<&'a str>, EditError> {
    let mut missing = Vec::new();
    for (name, entry) in entries {
        match known.iter().find(|(other, _)| other == name) {
            None => missing.push(*name),
            Some((_, other)) if other == entry => {}
            Some(_) => return Err(EditError::Exists { server: (*name).to_owned() }),
        }
    }
    Ok(missing)
}

/// Adds the members that are missing to the servers of a file.
fn with_members(
    servers: &str,
    moved: Vec<(Vec<Member>, Layout)>,
    is_missing: impl Fn(&str) -> bool,
) -> Result<String, EditError> {
    node::parse(servers, Format::Json, |file| {
        let tables = Tables::of(&file)?;
        let table = tables.scope(None).next().ok_or(EditError::NoTable)?;
        let mut container = Container::of_object(table);
        for (mut members, layout) in moved {
            members.retain(|member| is_missing(&member.name));
            container.insert(container.members.len(), members, &layout);
        }
        Ok(replaced(servers, vec![container.edit()]))
    })
}

/// Adds inputs to a file of servers, but for those whose ids it has. Recurses once.
fn with_inputs(servers: &str, inputs: &Node<'_>) -> Result<String, EditError> {
    let id = |item: &Node<'_>| {
        let members = item.entries().unwrap_or_default();
        members.iter().find(|(key, _)| *key == "id").map(|(_, id)| id.text().into_owned()).unwrap_or_default()
    };
    node::parse(servers, Format::Json, |file| {
        let tables = Tables::of(&file)?;
        let Some(known) = tables.inputs.first() else {
            let mut root = Container::of_object(&file);
            let member = Member::new("inputs", "[\n  ]", &root.layout);
            root.insert(root.members.len(), vec![member], &root.layout.clone());
            return with_inputs(&replaced(servers, vec![root.edit()]), inputs);
        };
        let (mut known, mut new) = (Container::of_array(known, id), Container::of_array(inputs, id));
        let added = new.take(|id| known.members.iter().all(|member| member.name != id));
        known.insert(known.members.len(), added, &new.layout);
        Ok(replaced(servers, vec![known.edit()]))
    })
}

/// Whether a string has a line break, which no client accepts: it would not survive other line breaks and indentation.
fn has_broken_strings(file: &Node<'_>) -> bool {
    let is_broken = |token: &Token<'_>| matches!(token, Token::Key(text) | Token::Scalar(text) if text.contains('\n'));
    file.tokens().iter().any(is_broken)
}

/// A text with other parts in some places.
fn replaced(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let (mut result, mut from) = (String::with_capacity(text.len() + 200), 0);
    for (range, new) in edits {
        result += &text[from..range.start];
        result += &new;
        from = range.end;
    }
    result + &text[from..]
}

/// A byte order mark, and the text without it.
fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
}

/// A file without servers.
const NO_SERVERS: &str = "{\n  \"mcpServers\": {\n  }\n}\n";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::Variables;

    fn gateway(project: Option<&str>) -> Gateway<'_> {
        Gateway::new(&Variables(|_| None), "execbox").project(project)
    }

    fn command() -> GatewayCommand {
        let args = ["mcp", "--config", "/s.json"].map(str::to_owned).to_vec();
        GatewayCommand::new("/bin/execbox", args)
    }

    #[test]
    fn entries_move_with_their_comments() {
        let client = r#"{
  // Settings of the editor.
  "theme": "dark",
  "mcpServers": { // servers
    // Issues and
    // pull requests.
    "github": {
      "command": "npx", // from npm
      "args": ["-y", "github"]
    }, // slow

    /* files */ "files": { "command": "files" },
    "wiki": { "url": "https://wiki.example.com/mcp" }
    // more to come
  }
}
"#;
        let moved = gateway(None).insert(client, "", &["github", "wiki"], &command()).unwrap();
        assert_eq!(
            moved.client,
            r#"{
  // Settings of the editor.
  "theme": "dark",
  "mcpServers": { // servers
    "execbox": {
      "command": "/bin/execbox",
      "args": ["mcp", "--config", "/s.json"]
    },

    /* files */ "files": { "command": "files" }
    // more to come
  }
}
"#
        );
        assert_eq!(
            moved.servers,
            r#"{
  "mcpServers": {
    // Issues and
    // pull requests.
    "github": {
      "command": "npx", // from npm
      "args": ["-y", "github"]
    }, // slow
    "wiki": { "url": "https://wiki.example.com/mcp" }
  }
}
"#
        );
    }

    #[test]
    fn tables_of_toml_move_with_their_comments() {
        let client = r#"model = "gpt" # the model

# Issues.
[mcp_servers.github] # GitHub
command = "npx" # from npm
args = [
  "-y", # yes
  "github",
]

[mcp_servers.github.env]
TOKEN = "t"

[profiles.fast]
model = "mini"

[mcp_servers.files]
command = "files"
# The end.
"#;
        let moved = gateway(None).insert(client, "", &["github"], &command()).unwrap();
        assert_eq!(
            moved.client,
            r#"model = "gpt" # the model

[mcp_servers.execbox]
command = "/bin/execbox"
args = ["mcp", "--config", "/s.json"]

[profiles.fast]
model = "mini"

[mcp_servers.files]
command = "files"
# The end.
"#
        );
        assert_eq!(
            moved.servers,
            r#"# Issues.
[mcp_servers.github] # GitHub
command = "npx" # from npm
args = [
  "-y", # yes
  "github",
]

[mcp_servers.github.env]
TOKEN = "t"
"#
        );
        let back = gateway(None).remove(&moved.client, &moved.servers).unwrap();
        assert_eq!(back, client.replace("\n\n# Issues", "\n# Issues"));
    }

    #[test]
    fn a_file_of_toml_does_not_begin_with_a_blank_line() {
        let client = "[mcp_servers.a]\ncommand = \"a\"\n";
        let moved = gateway(None).insert(client, "", &["a"], &command()).unwrap();
        assert!(moved.client.starts_with("[mcp_servers.execbox]\n"), "{}", moved.client);
        assert_eq!(gateway(None).remove(&moved.client, &moved.servers).as_deref(), Ok(client));
    }

    #[test]
    fn inputs_are_copied() {
        let client = r#"{
    "inputs": [
        { "type": "promptString", "id": "key" }, // the key
        { "type": "promptString", "id": "other" }
    ],
    "servers": { "a": { "command": "a", "env": { "KEY": "${input:key}" } }, "b": { "url": "https://b/" } }
}"#;
        let moved = gateway(None).insert(client, "", &["a"], &command()).unwrap();
        let moved = gateway(None).insert(&moved.client, &moved.servers, &["b"], &command()).unwrap();
        assert_eq!(
            moved.servers,
            r#"{
  "mcpServers": {
    "a": { "command": "a", "env": { "KEY": "${input:key}" } },
    "b": { "url": "https://b/" }
  },
  "inputs": [
    { "type": "promptString", "id": "key" }, // the key
    { "type": "promptString", "id": "other" }
  ]
}
"#
        );
        assert_eq!(gateway(None).remove(&moved.client, &moved.servers).unwrap(), client);
    }

    #[test]
    fn the_servers_of_a_project_move_apart() {
        let client =
            r#"{"mcpServers":{"a":{"command":"a"}},"projects":{"/work/shop":{"mcpServers":{"b":{"command":"b"}}}}}"#;
        let moved = gateway(Some("/work/shop")).insert(client, "", &["a", "b"], &command()).unwrap();
        let own = r#"{ "command": "/bin/execbox", "args": ["mcp", "--config", "/s.json"] }"#;
        let expected = client.replace(r#""b":{"command":"b"}"#, &format!(" \"execbox\": {own}"));
        assert_eq!(moved.client, expected);
        assert_eq!(gateway(Some("/x")).insert(client, "", &["a"], &command()), Err(EditError::NoTable));
        let broken = client.replace(r#""b":{"#, "\"b\":{\"x\":\"\n\",");
        assert_eq!(gateway(None).insert(&broken, "", &["a"], &command()), Err(EditError::UnsupportedTable { line: 1 }));
    }

    #[test]
    fn an_entry_that_both_files_have_must_be_equal() {
        let client = r#"{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#;
        let servers = |command: &str| format!(r#"{{ "mcpServers": {{ "a": {{ "command": "{command}" }} }} }}"#);
        let moved = gateway(None).insert(client, &servers("a"), &["a", "b"], &command()).unwrap();
        assert_eq!(moved.servers.matches("\"a\":").count(), 1);
        let differs = Err(EditError::Exists { server: "a".to_owned() });
        assert_eq!(gateway(None).insert(client, &servers("x"), &["a"], &command()), differs);
        assert_eq!(gateway(None).remove(client, &servers("x")).map(|_| ()), differs.map(|_| ()));
        assert_eq!(gateway(None).remove(client, &servers("a")).as_deref(), Ok(client));
        assert_eq!(gateway(None).remove(client, "").as_deref(), Ok(client));
    }

    #[test]
    fn an_own_entry_with_another_command_is_replaced() {
        let client =
            r#"{ "mcpServers": { /* x */ "execbox": { "command": "execbox", "env": { "A": "1" } }, "b": null } }"#;
        let moved = gateway(None).insert(client, "", &[], &command()).unwrap().client;
        assert_eq!(
            moved,
            r#"{ "mcpServers": { /* x */ "execbox": { "command": "/bin/execbox", "args": ["mcp", "--config", "/s.json"] }, "b": null } }"#
        );
        let with_env = moved.replace("] }", "], \"env\": { \"A\": \"1\" } }");
        assert_eq!(gateway(None).insert(&with_env, "", &[], &command()).unwrap().client, with_env);
    }

    /// Moves some entries and back again. No comment is lost, and what was moved all comes back.
    fn check(text: &str, project: Option<&str>, names: &[&str], comments: usize) {
        let gateway = gateway(project);
        let moved = gateway.insert(text, "", names, &command()).unwrap_or_else(|error| panic!("{error}: {text}"));
        let again = gateway.insert(&moved.client, &moved.servers, names, &command());
        assert_eq!(again.as_ref(), Ok(&moved), "{text}");
        let back = gateway.remove(&moved.client, &moved.servers).unwrap_or_else(|error| panic!("{error}: {text}"));
        for comment in 0..comments {
            let count = |text: &str| text.matches(&format!("<{comment}>")).count();
            assert_eq!((count(text), count(&moved.client) + count(&moved.servers), count(&back)), (1, 1, 1), "{text}");
        }
    }

    const ENTRIES: [&str; 5] = [
        r#""a": { "command": "a" }"#,
        "\"b\": {\n    \"command\": \"b\", // }\n    \"args\": [\"//\"]\n  }",
        r#""c": { "url": "https://c/", /* , */ }"#,
        r#""d": null"#,
        r#""é\"": { "command": "x", "env": { "K": "\u0000" } }"#,
    ];

    const GAPS: [&str; 8] =
        ["", " ", "\n    ", " // <N>\n  ", "/*<N>,*/", "\n\t", " /* <N>\n */ ", "\n\n  // <N> \"\n  "];

    const LAYOUTS: [(Option<&str>, &str); 4] = [
        (None, r#"{"mcpServers":TABLE}"#),
        (None, "\u{feff}// c\n{ \"x\": [1, { \"y\": null }], \"mcp\": { \"servers\": TABLE }, } // d\n"),
        (None, "{ \"servers\": TABLE, \"mcpServers\": { \"a\": { \"command\": \"z\" } } }"),
        (Some("/w"), r#"{ "mcpServers": { "a": { "url": "u" } }, "projects": { "/w": { "mcpServers": TABLE } } }"#),
    ];

    /// Four servers and three other tables.
    const BLOCKS: [&str; 7] = [
        "[mcp_servers.a]\ncommand = \"a\" # <N>\n",
        "[mcp_servers.b] # <N>\ncommand = 'b'\nenv = { A = \"1\" }\n\n[mcp_servers.b.tools.x]\ny = 1\n",
        "[mcp_servers.\"c d\"]\n# <N>\nurl = \"https://c/\"\n",
        "[profiles.x] # <N>\nmodel = \"m\"\n",
        "[[hooks]]\nrun = 1 # <N>\n",
        "[mcp_servers.e]\nargs = [\n  'a', # <N>\n]\ncommand = \"\"\"\nx\"\"\"\n",
        "[tui]\n[tui.x]\n# <N>\n",
    ];

    const PREFIXES: [&str; 3] = ["", "\n", "\n# <N>\n"];

    /// The text with a number in the place of each `N`, and how many there are.
    fn numbered(text: &str) -> (String, usize) {
        let parts: Vec<_> = text.split("<N>").collect();
        let mut numbered = parts[0].to_owned();
        for (at, part) in parts[1..].iter().enumerate() {
            numbered += &format!("<{at}>{part}");
        }
        (numbered, parts.len() - 1)
    }

    proptest! {
        #[test]
        fn json_loses_nothing(
            entries in prop::sample::subsequence(&ENTRIES[..], 1..=5).prop_shuffle(),
            moved in prop::sample::subsequence(&["a", "b", "c", "d", "é\""][..], 0..=5),
            gaps in prop::collection::vec(prop::sample::select(&GAPS[..]), 1..8),
            (project, layout) in prop::sample::select(&LAYOUTS[..]),
            trailing: bool,
            is_crlf: bool,
        ) {
            let mut gaps = gaps.iter().cycle();
            let mut table = "{".to_owned();
            for (at, entry) in entries.iter().enumerate() {
                table.extend([if at == 0 { "" } else { "," }, gaps.next().unwrap(), entry, gaps.next().unwrap()]);
            }
            table.extend([if trailing { "," } else { "" }, gaps.next().unwrap(), "}"]);
            let (text, comments) = numbered(&layout.replace("TABLE", &table));
            let text = if is_crlf { text.replace('\n', "\r\n") } else { text };
            check(&text, project, &moved, comments);
        }

        #[test]
        fn toml_loses_nothing(
            blocks in prop::sample::subsequence(&BLOCKS[..], 4..=7).prop_shuffle(),
            moved in prop::sample::subsequence(&["a", "b", "c d", "e"][..], 0..=4),
            prefixes in prop::collection::vec(prop::sample::select(&PREFIXES[..]), 1..4),
            is_crlf: bool,
        ) {
            let mut prefixes = prefixes.iter().cycle();
            let mut text = "model = 'm' # <N>\n".to_owned();
            for block in &blocks {
                text.extend([*prefixes.next().unwrap(), *block]);
            }
            let (text, comments) = numbered(&(text + "# <N>\n"));
            check(&if is_crlf { text.replace('\n', "\r\n") } else { text }, None, &moved, comments);
        }

        #[test]
        fn any_text_is_edited_or_an_error(
            text in "\\PC{0,60}",
            members in r#"(["{}\[\]:,a$ ]|"a"|"execbox"|"command"|null|1|é|//|/\*|\n){0,24}"#,
            toml in r#"(["'{}\[\]=.,a$ ]|mcp_servers|command|\[mcp_servers.a\]|é|true|#|\r?\n){0,24}"#,
            servers in r#"(["{}\[\]:,a ]|"mcpServers"|"a"|mcp_servers|=|\n){0,12}"#,
        ) {
            let json = format!("{{ \"mcpServers\": {{ \"a\": {{ {members} }}, \"b\": {{ \"command\": \"b\" }} }} }}");
            let table = format!("[mcp_servers.a]\n{toml}");
            for text in [text, json, members, table, format!("mcp_servers = {{ {toml} }}")] {
                for servers in ["", &servers] {
                    if let Ok(moved) = gateway(None).insert(&text, servers, &["a"], &command()) {
                        let _ = gateway(None).remove(&moved.client, &moved.servers);
                    }
                }
            }
        }
    }
}
