//! Adds the name of a tool to `alwaysAllow` of an entry in the text of a file.
//!
//! The edit only inserts: the item, or the key with it, in the style of the item or the member before it, and a comma where
//! one is needed. Comments, order, indentation and line ends of the rest stay as they are. The result is read again, and an
//! edit that changes anything else is an error.

use std::ops::Range;

use super::{EditError, comma, line_break, line_start, quoted, remark_end};
use crate::config::node::{Node, Token};
use crate::config::{ConfigError, Context, Format, entry, node, tables};
use crate::filter::Pattern;

/// A text with one more tool that needs no approval.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edited {
    /// The whole text.
    pub text: String,
    /// The pattern that was added: a name of the tool.
    pub pattern: String,
    /// The key of the entry that has the pattern: `alwaysAllow` or `autoApprove`.
    pub key: &'static str,
}

/// Adds a tool to `alwaysAllow` of the entry for `server`, or to its `autoApprove` if it has only that. `names` are the names of
/// the tool on its server and in code. `None` if a pattern of the entry matches one of them already.
///
/// `context` says in which file the text is and which project is in use; variables, files and inputs are not read.
pub fn always_allow(
    text: &str,
    context: &dyn Context,
    server: &str,
    names: [&str; 2],
) -> Result<Option<Edited>, EditError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format = Format::of(body, context.file_name().as_deref());
    let place = Place { format, context, server };
    let edited = node::parse(body, format, |file| place.edit(&file, names))?;
    let mark = &text[..text.len() - body.len()];
    Ok(edited.map(|edited| Edited { text: format!("{mark}{}", edited.text), ..edited }))
}

/// An entry, by its name.
#[derive(Clone, Copy)]
struct Place<'a> {
    format: Format,
    context: &'a dyn Context,
    server: &'a str,
}

impl Place<'_> {
    fn edit(self, file: &Node<'_>, names: [&str; 2]) -> Result<Option<Edited>, EditError> {
        let entry = self.entry(file)?;
        let patterns = entry::never_asked(&entry)?;
        if patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name))) {
            return Ok(None);
        }
        let usable = names.into_iter().find(|name| !name.contains('*'));
        let pattern = usable.ok_or_else(|| EditError::NoPattern { tool: names[0].to_owned() })?.to_owned();
        let (members, item) = (entry.entries()?, quoted(&pattern));
        let list = KEYS.into_iter().find_map(|key| Some((key, members.iter().find(|(name, _)| *name == key)?)));
        let (key, insertions) = match list {
            Some((key, (_, list))) => (key, extended(list, &item, self.format)?),
            None => (KEYS[0], with_list(&entry, &item, self.format).unwrap_or_default()),
        };
        let edited = Edited { text: inserted(file.file_text(), &insertions), pattern, key };
        if self.adds_only(file, &edited, &patterns) {
            return Ok(Some(edited));
        }
        let (server, line) = (self.server.to_owned(), entry.key_position().0);
        Err(EditError::Unsupported { server, line, pattern: edited.pattern })
    }

    fn entry<'a>(self, file: &Node<'a>) -> Result<Node<'a>, EditError> {
        let server = || self.server.to_owned();
        let mut entries = tables::used(file, self.server, self.context)?;
        if entries.len() > 1 {
            let lines = entries.iter().map(|entry| entry.key_position().0).collect();
            return Err(EditError::Ambiguous { server: server(), lines });
        }
        entries.pop().ok_or_else(|| EditError::NoEntry { server: server() })
    }

    /// Whether an edited text has what the file has and one more item or list, and its entry the pattern beside `patterns`.
    fn adds_only(self, file: &Node<'_>, edited: &Edited, patterns: &[Pattern]) -> bool {
        let read = node::parse(&edited.text, self.format, |after| {
            let mut now = entry::never_asked(&self.entry(&after)?)?;
            let added = now.iter().position(|pattern| pattern.as_str() == edited.pattern).map(|at| now.remove(at));
            Ok::<_, EditError>(added.is_some() && now == patterns && has_one_more(&file.tokens(), &after.tokens()))
        });
        read == Ok(true)
    }
}

/// The keys with patterns of tools that need no approval. A new list has the first.
const KEYS: [&str; 2] = ["alwaysAllow", "autoApprove"];

/// Whether `after` is `before` with one more item, or one more key with a list of one item, anywhere.
fn has_one_more(before: &[Token<'_>], after: &[Token<'_>]) -> bool {
    let same = before.iter().zip(after).take_while(|(before, after)| before == after).count();
    let [item, list] = [1, 4]; // The tokens of `"name"`, and of `key`, `[`, `"name"` and `]`.
    let more = after.len().checked_sub(before.len());
    more.is_some_and(|more| (more == item || more == list) && before[same..] == after[same + more..])
}

/// A text to insert, and its offset in bytes.
type Insertion = (usize, String);

fn inserted(text: &str, insertions: &[Insertion]) -> String {
    let (mut result, mut from) = (String::with_capacity(text.len() + 100), 0);
    for (at, insertion) in insertions {
        result += &text[from..*at];
        result += insertion;
        from = *at;
    }
    result + &text[from..]
}

/// Adds an item to a list.
fn extended(array: &Node<'_>, item: &str, format: Format) -> Result<Vec<Insertion>, ConfigError> {
    let items = array.items("an array of strings [\"…\", \"…\"]")?;
    let last = items.last().map(Node::range);
    Ok(appended(array.file_text(), array.range().start, last, item, format))
}

/// Adds a list to an entry. `None` if the way in which the entry is written is not known.
fn with_list(entry: &Node<'_>, item: &str, format: Format) -> Option<Vec<Insertion>> {
    let (text, start, members) = (entry.file_text(), entry.range().start, entry.entries().ok()?);
    if text[start..].starts_with('{') {
        let last = members.last().map(|(_, member)| member.key_start()..member.range().end);
        let member = match format {
            Format::Json => format!("\"{}\": [{item}]", KEYS[0]),
            Format::Toml => format!("{} = [{item}]", KEYS[0]),
        };
        return Some(appended(text, start, last, &member, format));
    }
    // A table of TOML with a header, or with dotted keys: `shop.command = "…"`.
    let is_on_line = |member: &Node<'_>| !member.is_object() || text[member.range().start..].starts_with('{');
    let (_, last) = members.iter().rfind(|(_, member)| is_on_line(member))?;
    let before = &text[line_start(text, last.key_start())..last.key_start()];
    let at = remark_end(text, last.range().end, format);
    Some(vec![(at, format!("{}{before}{} = [{item}]", line_break(text), KEYS[0]))])
}

/// Adds an item or a member after the last one of a container that starts at `start`: on a line of its own if the last one
/// begins its line.
fn appended(text: &str, start: usize, last: Option<Range<usize>>, item: &str, format: Format) -> Vec<Insertion> {
    let Some(last) = last else { return vec![(start + 1, item.to_owned())] };
    let before = &text[line_start(text, last.start)..last.start];
    if !before.trim().is_empty() {
        return vec![(last.end, format!(", {item}"))];
    }
    let line = format!("{}{before}{item}", line_break(text));
    match comma(text, last.end, format) {
        Some(comma) => vec![(remark_end(text, comma + 1, format), line + ",")],
        None => vec![(last.end, ",".to_owned()), (remark_end(text, last.end, format), line)],
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::always_allow;
    use crate::config::{Config, Context};
    use crate::filter::Pattern;

    /// A project of Claude Code, in which every variable is set.
    struct Project;

    impl Context for Project {
        fn variable(&self, _: &str) -> Option<String> {
            Some("x".to_owned())
        }

        fn workspace_folder(&self) -> Option<PathBuf> {
            Some("/work/shop".into())
        }
    }

    /// The configuration of a text, with sorted patterns, and with one more for the server `shop`.
    fn read(text: &str, pattern: Option<&str>) -> Config {
        let mut config = Config::default();
        config.read(text, &Project).unwrap();
        let shop = config.servers.iter_mut().find(|server| server.name == "shop").unwrap();
        shop.ask.never.extend(pattern.map(Pattern::new));
        shop.ask.never.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        config
    }

    /// Checks that the edit adds a pattern, and that removing what it inserts gives the text again.
    fn check(text: &str, tool: &str) {
        let edited = always_allow(text, &Project, "shop", [tool, "safe"]).unwrap().unwrap();
        let (before, after) = (read(text, Some(&edited.pattern)), read(&edited.text, None));
        assert_eq!((before.servers, before.skipped), (after.servers, after.skipped), "{}", edited.text);
        let mut rest = text.chars().peekable();
        edited.text.chars().for_each(|character| _ = rest.next_if_eq(&character));
        assert_eq!(rest.next(), None, "{text}\n{}", edited.text);
        let more = edited.text.len() - text.len();
        assert!(more < 100 + 6 * tool.len(), "{more} bytes more: {}", edited.text);
        assert_eq!(always_allow(&edited.text, &Project, "shop", [tool, "safe"]), Ok(None));
    }

    /// An entry in a file, with white space and comments, which are repeated in turn.
    fn json(members: &[&str], gaps: &[&str], layout: &str, trailing: bool) -> String {
        let mut gaps = gaps.iter().cycle();
        let mut entry = "{".to_owned();
        for (at, member) in members.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            entry.extend([comma, gaps.next().unwrap(), member, gaps.next().unwrap()]);
        }
        entry.extend([if trailing { "," } else { "" }, gaps.next().unwrap(), "}"]);
        layout.replace("ENTRY", &entry)
    }

    const LAYOUTS: [&str; 6] = [
        r#"{"mcpServers":{"shop":ENTRY}}"#,
        "// c\n{ \"servers\": { \"a\": { \"command\": \"a\", \"alwaysAllow\": [] }, \"shop\": ENTRY } }\n",
        "{ \"mcp\": { \"servers\": {\r\n  \"shop\": ENTRY,\r\n  \"b\": { \"url\": \"http://x/\" }, } } }",
        "\u{feff}{ \"context_servers\": { \"shop\": ENTRY } } // shop",
        r#"{ "projects": { "/work/shop": { "mcpServers": { "shop": ENTRY } }, "/x": { "mcpServers": { "shop": {} } } },
             "mcpServers": { "shop": { "command": "z" } } }"#,
        r#"{ "servers": { "shop": null, "shop": ENTRY } }"#,
    ];

    const GAPS: [&str; 7] = ["", " ", "\n    ", " // \"],}\n  ", "/*,*/", "\r\n\t", " /* a\n */ "];

    /// Members of an entry, by their keys.
    const MEMBERS: [&[&str]; 5] = [
        &["\"args\": [\"a\", // ]\n  \"b\" ]"],
        &["\"env\": { \"A\": \"1\", /* } */ }"],
        &[r#""cwd": "${D}/]\"""#],
        &[
            r#""alwaysAllow": []"#,
            r#""alwaysAllow": [ "a" ,]"#,
            r#""alwaysAllow": [/* ] */ "a", "b" /* , */ ]"#,
            "\"alwaysAllow\": [ // none\n]",
            "\"alwaysAllow\": [\r\n\t\"a\", // a,\r\n\t\"b\" // ,b\r\n]",
            "\"alwaysAllow\": [\n  \"a\"\n  /* c */ , // d\n]",
        ],
        &[r#""autoApprove": []"#, "\"autoApprove\": [1,\n2\n,]"],
    ];

    const TOML_MEMBERS: [&str; 8] = [
        "",
        "alwaysAllow = []",
        "alwaysAllow = [\"a\", 'b'] # ]",
        "autoApprove = [\n  \"a\", # a,\n  # ]\n  \"b\" # b\n]",
        "\"alwaysAllow\" = [\n  'a',\n  # none\n]",
        "args = [\n  \"a\" ]# c",
        "env.A = \"1\"",
        "env = { A = '}' }",
    ];

    const TOML_LAYOUTS: [&str; 7] = [
        "[mcp_servers.shop] # shop\ncommand = \"x\" # c\nMEMBER\n\n[mcp_servers.b]\ncommand = 'b'\n",
        "[mcp_servers.shop.oauth]\nissuer = '1'\n[mcp_servers.shop]\n  url = '''http://x/'''\n  MEMBER",
        "mcp_servers.shop.command = \"x\"\n[x]\nMEMBER\n",
        "[mcp_servers]\n\"shop\" . command = \"x\"\nb.command = \"b\"\n[y]\nMEMBER",
        "[mcp_servers]\nshop = { command = \"x\" }\nb = { command = \"b\" }\n[y]\nMEMBER",
        "mcp_servers = { shop = { command = \"x\", cwd = \"}\" }, b = { command = \"b\" } }",
        "[mcp_servers.shop]\nMEMBER\ncommand = \"\"\"\nx\"\"\"",
    ];

    proptest! {
        #[test]
        fn any_text_is_edited_or_an_error(
            text in "\\PC{0,60}",
            members in r#"(["{}\[\]:,a$ ]|"alwaysAllow"|"command"|"autoApprove"|null|1|é|//|/\*|\n){0,24}"#,
            toml in r#"(["'{}\[\]=.,a$ ]|mcp_servers|command|alwaysAllow|autoApprove|é|true|#|\r?\n){0,24}"#,
        ) {
            let json = format!("{{ \"mcpServers\": {{ \"a\": {{ {members} }}, \"b\": {{ \"command\": \"b\" }} }} }}");
            let table = format!("[mcp_servers.a]\n{toml}");
            for text in [text, json, members, table, format!("mcp_servers = {{ {toml} }}")] {
                if let Ok(Some(edited)) = always_allow(&text, &Project, "a", ["get", "get"]) {
                    prop_assert_eq!(always_allow(&edited.text, &Project, "a", ["get", "get"]), Ok(None), "{}", text);
                }
            }
        }

        #[test]
        fn json_has_one_more_pattern_and_is_otherwise_the_same(
            chosen in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 5),
            order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
            gaps in prop::collection::vec(prop::sample::select(&GAPS[..]), 1..6),
            layout in prop::sample::select(&LAYOUTS[..]),
            trailing: bool,
            tool in "[a-z\"\\\\é\u{202e} '-]{1,6}\\.delete",
        ) {
            let member = |at: usize| match MEMBERS.get(at) {
                None => Some(r#""command": "x""#),
                Some(variants) => chosen[at].map(|index| *index.get(variants)),
            };
            let members: Vec<_> = order.into_iter().filter_map(member).collect();
            check(&json(&members, &gaps, layout, trailing), &tool);
        }

        #[test]
        fn toml_has_one_more_pattern_and_is_otherwise_the_same(
            member in prop::sample::select(&TOML_MEMBERS[..]),
            layout in prop::sample::select(&TOML_LAYOUTS[..]),
            is_crlf: bool,
            tool in "[a-z\"\\\\é\u{202e} '-]{1,6}\\.delete",
        ) {
            let text = layout.replace("MEMBER", member);
            check(&if is_crlf { text.replace('\n', "\r\n") } else { text }, &tool);
        }
    }
}
