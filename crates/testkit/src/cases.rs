//! Case files: tests as text, so that a case can be read and added without reading code.
//!
//! ```text
//! text before the first case: the prelude of the file
//! === title of a case
//! key: value
//! key: a value
//!   that continues
//! ---
//! a section without a name
//! --- NAME
//! a section with a name
//! ```
//!
//! Which keys and sections a case has, and what they mean, is up to the test that reads it. Functions panic where a file
//! does not have this form.

use std::fs;
use std::path::{Path, PathBuf};

use execbox_core::program::{Amount, Limit, Limits, Wire};
use serde_json::Value as Json;

/// Limits of a case as JSON, with the names of the protocol, for example `{"maxCalls": 2}`; the others are those of `base`.
pub fn limits(json: &Json, base: Limits) -> Limits {
    let mut limits = base;
    for (name, value) in json.as_object().unwrap() {
        let is_named = |limit: &&Limit| match limit.wire {
            Wire::Always(own) | Wire::IfSet(own) => own == name,
            Wire::Never => limit.field == "max_calls_in_flight" && name == "maxCallsInFlight",
        };
        let limit = Limits::TABLE.iter().find(is_named).unwrap_or_else(|| panic!("no such limit: {name}"));
        limit.set(&mut limits, Some(Amount::Count(value.as_u64().unwrap())));
    }
    limits
}

/// A file of cases.
#[derive(Debug, Default)]
pub struct CaseFile {
    /// The path of the file; empty for [parsed](Self::parse) text.
    pub path: PathBuf,
    /// The text before the first case, without the blank lines at its end.
    pub prelude: String,
    /// The cases, in the order of the file; at least one.
    pub cases: Vec<Case>,
}

/// One case of a file.
#[derive(Debug, Default, Clone)]
pub struct Case {
    /// What the case shows.
    pub title: String,
    /// The lines between the title and the first section.
    pub head: String,
    /// The name of each section, empty for a plain `---`, and its text without the line feeds at its end.
    pub sections: Vec<(String, String)>,
}

impl CaseFile {
    /// Reads every file `*.cases` in a directory, in the order of their names; at least one.
    pub fn read_all(directory: impl AsRef<Path>) -> Vec<Self> {
        let directory = directory.as_ref();
        let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "cases"));
        paths.sort();
        assert!(!paths.is_empty(), "{}: no case files", directory.display());
        paths.into_iter().map(Self::read).collect()
    }

    /// Reads a file.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = Self { path, ..Self::parse(&text) };
        assert!(!file.cases.is_empty(), "{}: no cases", file.path.display());
        file
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Self {
        let mut file = Self::default();
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if let Some(title) = line.strip_prefix("=== ") {
                file.cases.push(Case { title: title.to_owned(), ..Case::default() });
                continue;
            }
            let text = match file.cases.last_mut() {
                None => &mut file.prelude,
                Some(case) => {
                    if let Some(name) = section_name(line) {
                        case.sections.push((name.to_owned(), String::new()));
                        continue;
                    }
                    case.sections.last_mut().map_or(&mut case.head, |(_, text)| text)
                }
            };
            text.push_str(line);
            text.push('\n');
        }
        let len = file.prelude.trim_end_matches('\n').len();
        file.prelude.truncate(if len == 0 { 0 } else { len + 1 });
        for case in &mut file.cases {
            for text in [&mut case.head].into_iter().chain(case.sections.iter_mut().map(|(_, text)| text)) {
                text.truncate(text.trim_end_matches('\n').len());
            }
        }
        file
    }

    /// The name of the file without its extension.
    pub fn name(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

fn section_name(line: &str) -> Option<&str> {
    if line == "---" { Some("") } else { line.strip_prefix("--- ") }
}

impl Case {
    /// The fields of the head, in order: each key, and its value, empty for a bare `key:`.
    pub fn fields(&self) -> Vec<(String, String)> {
        let head = self.head.replace("\n  ", " ");
        let field = |line: &str| {
            let bare = || line.strip_suffix(':').map(|key| (key, ""));
            let (key, value) = line.split_once(": ").or_else(bare)?;
            Some((key.to_owned(), value.to_owned()))
        };
        head.lines()
            .map(|line| field(line).unwrap_or_else(|| panic!("{}: {line:?} is not a field", self.title)))
            .collect()
    }

    /// The [fields](Self::fields) on one engine. A field `KEY on ENGINE` replaces `KEY` there, and is left out elsewhere.
    /// `result` and `error`, of which a case has one, replace each other.
    pub fn fields_on(&self, engine: &str) -> Vec<(String, String)> {
        const EITHER: [&str; 2] = ["result", "error"];
        let (mut fields, mut replacements) = (Vec::new(), Vec::new());
        for (key, value) in self.fields() {
            match key.split_once(" on ") {
                None => fields.push((key, value)),
                Some((key, on)) if on == engine => replacements.push((key.to_owned(), value)),
                Some(_) => {}
            }
        }
        let replaces = |new: &str, old: &str| new == old || (EITHER.contains(&new) && EITHER.contains(&old));
        fields.retain(|(old, _)| !replacements.iter().any(|(new, _)| replaces(new, old)));
        fields.extend(replacements);
        fields
    }

    /// The text of the only section.
    pub fn body(&self) -> &str {
        match &self.sections[..] {
            [(name, text)] if name.is_empty() => text,
            _ => panic!("{}: expected one section without a name", self.title),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_fields_and_sections() {
        let text = "prelude\n\n=== first\nresult: {\"a: b\": 1}\nnothing:\nlong: one\n  two\n---\n\ncode\n\n\n--- ./a.js\n--- b\nlast\n\n=== second\n---\n";
        let file = CaseFile::parse(text);
        assert_eq!(file.prelude, "prelude\n");
        let [first, second] = &file.cases[..] else { panic!("{file:?}") };
        let fields = first.fields();
        let fields: Vec<_> = fields.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(fields, [("result", "{\"a: b\": 1}"), ("nothing", ""), ("long", "one two")]);
        let sections: Vec<_> = first.sections.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(sections, [("", "\ncode"), ("./a.js", ""), ("b", "last")]);
        assert_eq!((&*second.title, second.fields().len(), second.body()), ("second", 0, ""));
    }

    #[test]
    fn fields_can_differ_between_engines() {
        let file = CaseFile::parse("=== one\nresult: 1\nlogs: []\nerror on b: 2\nlogs on c: [3]\n---\n");
        let fields = |engine| file.cases[0].fields_on(engine).into_iter().map(|(key, value)| key + "=" + &value);
        for (engine, expected) in
            [("a", ["result=1", "logs=[]"]), ("b", ["logs=[]", "error=2"]), ("c", ["result=1", "logs=[3]"])]
        {
            assert_eq!(fields(engine).collect::<Vec<_>>(), expected, "{engine}");
        }
    }
}
