//! What sources become: each `DIRECTORY/NAME.cases` has a snapshot of its results beside it, `NAME.snap`.
//!
//! - `scripts/`: the code of scripts. `modules/`: the code of modules, and their records for linking.
//! - `links/`: graphs of modules, and link errors. `errors/`: errors of scripts.
//!
//! A case of `links/` is described in `links.rs`; the others have one source:
//!
//! ```text
//! === the title
//! language: both                  (modules only: the same in JavaScript; default typescript)
//! escapes: \r \u{feff}            (what the source has in place of characters that are not visible)
//! ---
//! the source
//! ```

mod errors;
mod links;
mod modules;
mod scripts;

use std::fmt::Write;
use std::path::Path;

use execbox_core::language::Position;
use execbox_testkit::cases::{Case, CaseFile};
use insta::Settings;

/// Compares the results of all cases in `directory`, one snapshot per file.
fn snapshots(directory: &str, mut result: impl FnMut(&CaseFile, &Case) -> String) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(directory);
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path(&directory);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for file in CaseFile::read_all(&directory) {
        let mut results = String::new();
        for case in &file.cases {
            write!(results, "=== {}\n\n{}\n\n", case.title, result(&file, case)).expect("a string takes text");
        }
        settings.bind(|| insta::assert_snapshot!(file.name(), results));
    }
}

/// The source of a case, without a line feed at its end.
fn source(case: &Case) -> String {
    let mut source = case.body().to_owned();
    for (key, value) in case.fields() {
        match (key.as_str(), value.as_str()) {
            ("escapes", _) => value.split(' ').for_each(|escape| source = source.replace(escape, character(escape))),
            ("language", "both") => {}
            _ => panic!("{}: unknown field {key}: {value}", case.title),
        }
    }
    source
}

fn character(escape: &str) -> &'static str {
    match escape {
        r"\n" => "\n",
        r"\r" => "\r",
        r"\u{a0}" => "\u{a0}",
        r"\u{2028}" => "\u{2028}",
        r"\u{feff}" => "\u{feff}",
        _ => panic!("unknown escape {escape}"),
    }
}

/// The line of a source at a position, and a mark below the column.
fn excerpt(source: &str, Position { line, column }: Position) -> String {
    let line = source.split(['\n', '\u{2028}']).nth(line as usize - 1).unwrap_or_default();
    format!("    {line}\n    {}^", " ".repeat(column as usize - 1))
}
