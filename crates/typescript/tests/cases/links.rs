//! Linking of modules: graphs, and errors with their positions. The format of a case:
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

use execbox_core::language::{CompileLimits, Dialect};
use execbox_core::link::{Graph, LinkError, Sources, link};
use execbox_testkit::cases;
use execbox_typescript::TypeScript;

use crate::{excerpt, snapshots};

#[derive(Default)]
struct Case {
    sources: Sources,
    export: Option<String>,
}

#[test]
fn modules_are_linked_or_errors_have_positions() {
    let mut failed = 0;
    snapshots("links", |file, text| {
        let case = case(&file.prelude, text);
        let linked = link(&case.sources, &TypeScript, &CompileLimits::default()).and_then(|graph| {
            case.export.as_ref().map_or(Ok(()), |name| graph.check_export(name))?;
            Ok(graph)
        });
        match linked {
            Ok(graph) => shown_graph(&graph),
            Err(error) => {
                assert_ne!(file.name(), "graphs", "{}: {error}", text.title);
                failed += 1;
                shown_error(&case.sources, &error)
            }
        }
    });
    assert!(failed >= 60, "only {failed} cases fail to link");
}

fn shown_graph(graph: &Graph) -> String {
    let exports: Vec<_> = graph.exports().collect();
    let modules = graph.modules.iter().map(|module| format!("\n--- {}\n{}", module.name, module.code.text.trim_end()));
    format!("exports: {}{}", exports.join(", "), modules.collect::<String>())
}

fn shown_error(sources: &Sources, error: &LinkError) -> String {
    let mut shown = format!("{}: {error}", error.name());
    if let Some(specifier) = &error.specifier {
        shown += &format!("\nspecifier {specifier}");
    }
    match (&error.filename, error.position) {
        (Some(filename), Some(position)) => {
            let source = if filename == sources.entry_name() { &sources.entry } else { &sources.modules[filename] };
            shown += &format!("\nat {filename}:{position}\n{}", excerpt(source, position));
        }
        (Some(filename), None) => shown += &format!("\nin {filename}"),
        _ => {}
    }
    shown
}

fn case(prelude: &str, text: &cases::Case) -> Case {
    let title = &text.title;
    let mut case = Case::default();
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
