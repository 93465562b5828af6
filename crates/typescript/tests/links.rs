//! Linking of modules: graphs, and errors with their positions.
//!
//! `tests/links/NAME.cases` holds cases, `NAME.snap` next to it their results. The format of a case:
//!
//! ```text
//! === the title
//! language: javascript            (default typescript)
//! filename: src/main.ts
//! import fs: readFile, default    (a bridged module and its exports)
//! globals: console, input
//! export: scan                    (the selected export)
//! --- entry
//! the entry's source
//! --- ./lib/math.js
//! a further module's source
//! ```
//!
//! Text before the first case of a file is prepended to the source of each entry.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use execbox_core::language::{CompileLimits, Dialect, Position};
use execbox_core::link::{LinkError, Sources, link};
use execbox_testkit::cases::{self, CaseFile};
use execbox_typescript::TypeScript;
use insta::Settings;

#[derive(Default)]
struct Case {
    title: String,
    sources: Sources,
    export: Option<String>,
}

#[test]
fn link_errors_have_positions() {
    let failed: usize = ["specifiers", "names", "syntax", "typescript", "options"].map(snapshot).iter().sum();
    assert!(failed >= 60, "only {failed} cases fail to link");
}

#[test]
fn linked_modules_are_a_graph() {
    assert_eq!(snapshot("graphs"), 0);
}

/// Links each case of a file. Returns how many failed.
fn snapshot(name: &str) -> usize {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/links");
    let file = CaseFile::read(directory.join(format!("{name}.cases")));
    let mut output = String::new();
    let mut failed = 0;
    for case in file.cases.iter().map(|text| case(&file.prelude, text)) {
        let linked = link(&case.sources, &TypeScript, &CompileLimits::default()).and_then(|graph| {
            case.export.as_ref().map_or(Ok(()), |name| graph.check_export(name))?;
            Ok(graph)
        });
        write!(output, "=== {}\n\n", case.title).expect("a string takes text");
        match linked {
            Ok(graph) => {
                let exports: Vec<_> = graph.exports().collect();
                writeln!(output, "exports: {}", exports.join(", ")).expect("a string takes text");
                for module in &graph.modules {
                    writeln!(output, "--- {}\n{}", module.name, module.code.text.trim_end())
                        .expect("a string takes text");
                }
                output.push('\n');
            }
            Err(error) => {
                failed += 1;
                write_error(&mut output, &case.sources, &error);
            }
        }
    }
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path(&directory);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, output));
    failed
}

fn write_error(output: &mut String, sources: &Sources, error: &LinkError) {
    let mut line = |text: String| writeln!(output, "{text}").expect("a string takes text");
    line(format!("{}: {error}", error.name()));
    if let Some(specifier) = &error.specifier {
        line(format!("specifier {specifier}"));
    }
    match (&error.filename, error.position) {
        (Some(filename), Some(Position { line: at, column })) => {
            line(format!("at {filename}:{at}:{column}"));
            let source = if filename == sources.entry_name() { &sources.entry } else { &sources.modules[filename] };
            let excerpt = source.lines().nth(at as usize - 1).unwrap_or_default();
            line(format!("    {excerpt}\n    {}^", " ".repeat(column as usize - 1)));
        }
        (Some(filename), None) => line(format!("in {filename}")),
        _ => {}
    }
    output.push('\n');
}

fn case(prelude: &str, text: &cases::Case) -> Case {
    let title = &text.title;
    let mut case = Case { title: title.clone(), ..Case::default() };
    for (key, value) in text.fields() {
        let names = || value.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>();
        match key.as_str() {
            "language" => {
                case.sources.dialect = if value == "javascript" { Dialect::JavaScript } else { Dialect::TypeScript }
            }
            "filename" => case.sources.filename = Some(value),
            "globals" => case.sources.globals = names(),
            "export" => case.export = Some(value),
            _ => {
                let specifier = key.strip_prefix("import ").unwrap_or_else(|| panic!("{title}: unknown key {key:?}"));
                case.sources.imports.insert(specifier.to_owned(), names());
            }
        }
    }
    for (name, source) in &text.sections {
        match name.as_str() {
            "entry" => case.sources.entry = format!("{prelude}{source}"),
            _ => drop(case.sources.modules.insert(name.clone(), source.clone())),
        }
    }
    case
}
