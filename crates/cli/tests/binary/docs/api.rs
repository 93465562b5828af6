//! Types and members of the libraries that pages name exist: those in backticks as `Type::member`, and all of the page
//! `docs/api-at-a-glance.md`. The listings `public-api.txt` of the crates say what exists.

use std::collections::BTreeSet;
use std::fs;

use super::page::{Page, code_in, root};

/// What the names of crates begin with.
const CRATES: &str = "execbox-";

const OVERVIEW: &str = "docs/api-at-a-glance.md";

/// The beginnings of names that are not of this project.
const OTHERS: [&str; 5] = ["Arc", "Display", "cargo", "serde_json", "tokio"];

#[test]
fn members_that_pages_name_exist() {
    let api = Api::read();
    let (mut count, mut wrong) = (0, Vec::new());
    for page in Page::for_users() {
        let sketches = page.blocks.iter().filter(|block| block.info == "rust,ignore").map(|block| &block.text);
        let paths: BTreeSet<&str> = page.code.iter().chain(sketches).flat_map(|code| paths_in(code)).collect();
        count += paths.len();
        let unknown = paths.iter().filter(|path| !is_other(path) && !api.has(path));
        wrong.extend(unknown.map(|path| format!("{}: {path}", page.path)));
    }
    assert!(wrong.is_empty(), "no public-api.txt has\n{}", wrong.join("\n"));
    assert!(count > 60, "{count} paths");
}

#[test]
fn names_of_the_overview_exist() {
    let api = Api::read();
    let page = Page::read(OVERVIEW);
    let mut wrong = Vec::new();
    for table in &page.tables {
        for row in &table.rows {
            // What the names of members in this row can be members of.
            let mut owners = vec!["execbox".to_owned()];
            for name in row.iter().flat_map(|cell| code_in(cell)).flat_map(expanded) {
                if !is_other(&name) && !api.has_one_of(&name, &owners) {
                    wrong.push(format!("{name}: {}", row.join(" | ")));
                }
                owners.extend(type_in(&name).or(name.strip_prefix(CRATES).map(str::to_owned)));
            }
        }
    }
    assert!(wrong.is_empty(), "no public-api.txt has\n{}", wrong.join("\n"));
}

fn is_other(name: &str) -> bool {
    name.is_empty() || name.starts_with(CRATES) || OTHERS.iter().any(|other| name.starts_with(other))
}

/// The public names of all crates, as paths of segments. Those of `execbox_core` begin with `core`, and so the others.
struct Api(BTreeSet<String>);

impl Api {
    fn read() -> Self {
        let mut paths = BTreeSet::new();
        for entry in fs::read_dir(root().join("crates")).unwrap() {
            let Ok(listing) = fs::read_to_string(entry.unwrap().path().join("public-api.txt")) else { continue };
            for line in listing.lines().filter(|line| !line.starts_with("impl")) {
                let line = line.replace("<E>::", "::").replace("<T>::", "::");
                let Some(at) = line.find("execbox") else { continue };
                let end = line[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                let path = line[at..].get(..end.unwrap_or(line.len() - at)).unwrap().trim_end_matches(':');
                paths.extend(suffixes(own_name(path)).map(str::to_owned));
            }
        }
        Self(paths)
    }

    /// Whether a path of a listing ends with these segments. Listings leave out what is derived.
    fn has(&self, path: &str) -> bool {
        let path = own_name(path);
        self.0.contains(path) || path.strip_suffix("::default").is_some_and(|of| self.0.contains(of))
    }

    /// Whether a name exists: a path with a type, a constant, an error code, or a member of one of `owners`.
    fn has_one_of(&self, name: &str, owners: &[String]) -> bool {
        let is_member = || owners.iter().any(|owner| self.has(&format!("{owner}::{name}")));
        match name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains("::") {
            true => is_member() || self.has(&format!("ErrorCode::{}", in_camel_case(name))),
            false => self.has(name),
        }
    }
}

/// A path without what the names of other crates than `execbox` begin with.
fn own_name(path: &str) -> &str {
    path.strip_prefix("execbox_").unwrap_or(path)
}

/// `tool_error` as `ToolError`.
fn in_camel_case(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// The path, and the rest of it behind each `::`.
fn suffixes(path: &str) -> impl Iterator<Item = &str> {
    std::iter::once(path).chain(path.match_indices("::").map(|(at, _)| &path[at + 2..]))
}

/// The paths with a type and its member in a piece of Rust: `Type::member`, also behind modules.
fn paths_in(code: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = code.split(move |c: char| !is_of_path(c)).map(|word| word.trim_end_matches(':'));
    words.filter(|path| type_in(path).is_some_and(|of| of.len() < path.len()))
}

/// The path up to its first type.
fn type_in(path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split("::").collect();
    let place = segments.iter().position(|segment| segment.starts_with(|c: char| c.is_ascii_uppercase()))?;
    Some(segments[..=place].join("::"))
}

/// The names that a cell means: `a::{B, C}` is `a::B` and `a::C`, `arg(s)` is `arg` and `args`, and arguments are left out.
fn expanded(code: &str) -> Vec<String> {
    if code.starts_with(CRATES) {
        return vec![code.to_owned()];
    }
    if let Some((module, names)) = code.split_once("::{") {
        return names.trim_end_matches('}').split(", ").map(|name| format!("{module}::{name}")).collect();
    }
    let end = code.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(code.len());
    let name = code[..end].trim_end_matches(':').to_owned();
    if code[end..].starts_with("(s)") { vec![format!("{name}s"), name] } else { vec![name] }
}
