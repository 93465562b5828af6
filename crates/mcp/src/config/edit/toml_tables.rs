//! The tables of servers in a TOML file, which are moved with their comments.

use toml_edit::{Array, DocumentMut, Item, Key, Table, TableLike, Value};

use super::GatewayCommand;

/// An entry: its key and its value, as they are written.
pub(super) type TomlEntry = (Key, Item);

/// A parsed file.
pub(super) struct TomlFile {
    document: DocumentMut,
    has_crlf: bool,
}

impl TomlFile {
    /// `None` if the text is not TOML. `like` is a text with the line breaks of the result.
    pub(super) fn parse(text: &str, like: &str) -> Option<Self> {
        let document = text.parse().ok()?;
        Some(Self { document, has_crlf: super::line_break(like) == "\r\n" })
    }

    pub(super) fn text(&self) -> String {
        let text = self.document.to_string().replace("\r\n", "\n");
        if self.has_crlf { text.replace('\n', "\r\n") } else { text }
    }

    fn servers(&mut self) -> Option<&mut dyn TableLike> {
        self.document.get_mut(KEY)?.as_table_like_mut()
    }

    /// Removes the entries that `is_taken` selects. Also returns where the first of them was in the file.
    pub(super) fn take(&mut self, is_taken: impl Fn(&str) -> bool) -> (Vec<TomlEntry>, Option<isize>) {
        let Some(servers) = self.servers() else { return (Vec::new(), None) };
        let names: Vec<_> = servers.iter().map(|(name, _)| name.to_owned()).filter(|name| is_taken(name)).collect();
        let entry = |name: &String| Some((servers.key(name)?.clone(), servers.remove(name)?));
        let entries: Vec<_> = names.iter().filter_map(entry).collect();
        let position = entries.first().and_then(|(_, item)| item.as_table()?.position());
        (entries, position)
    }

    /// Adds entries, at a position in the file or at its end.
    pub(super) fn insert(&mut self, entries: Vec<TomlEntry>, position: Option<isize>) {
        let servers = self.document.entry(KEY).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let Some(servers) = servers.as_table_like_mut() else { return };
        for (key, mut item) in entries {
            place(&mut item, position);
            servers.entry_format(&key).or_insert(item);
        }
    }

    /// Removes blank lines at the beginning.
    pub(super) fn trim(&mut self) {
        let text = self.text();
        if let Ok(document) = text.trim_start().parse() {
            self.document = document;
        }
    }
}

/// Gives the tables of an entry a position in the file.
fn place(item: &mut Item, position: Option<isize>) {
    let Item::Table(table) = item else { return };
    table.set_position(position);
    for (_, item) in table.iter_mut() {
        place(item, position);
    }
}

/// The entry of a gateway.
pub(super) fn gateway(name: &str, command: &GatewayCommand) -> TomlEntry {
    let mut table = Table::new();
    let list = |words: &mut dyn Iterator<Item = &String>| Item::Value(Value::Array(words.collect::<Array>()));
    table.insert("command", Item::Value(Value::from(command.program.as_str())));
    table.insert("args", list(&mut command.args.iter()));
    if !command.variables.is_empty() {
        table.insert("env_vars", list(&mut command.variables.iter().map(|(name, _)| name)));
    }
    for (key, value) in &command.keys {
        table.insert(key, Item::Value(Value::from(*value)));
    }
    table.decor_mut().set_prefix("\n");
    (Key::new(name), Item::Table(table))
}

/// The key of the tables of servers.
const KEY: &str = "mcp_servers";
