//! The table of claims in `docs/security.md`: each claim names tests, and the tests that it names exist.

use std::fs;
use std::path::Path;

use super::page::root;

const PAGE: &str = "docs/security.md";
const HEADER: &str = "| claim | test |";

#[test]
fn each_claim_about_security_names_tests_that_exist() {
    let sources = rust_sources();
    let mut wrong = Vec::new();
    let rows = rows();
    assert!(rows.len() > 10, "{PAGE} has no table `{HEADER}`");
    for (claim, tests) in rows {
        let named: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        if !named.iter().any(|name| is_test(name, &sources)) {
            wrong.push(format!("{claim}: names no test"));
        }
        let unknown = named.iter().filter(|name| !is_setting(name) && !is_test(name, &sources));
        wrong.extend(unknown.map(|name| format!("{claim}: there is no `{name}`")));
    }
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

/// The rows of the table, as claim and tests.
fn rows() -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let table = page.lines().skip_while(|line| *line != HEADER).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let (claim, tests) = row.trim_matches('|').rsplit_once('|').unwrap();
        (claim.trim().to_owned(), tests.trim().to_owned())
    };
    table.map(cells).collect()
}

/// Whether a name describes how a test is run: an environment variable (`NAME=VALUE`) or a command of the binary.
fn is_setting(name: &str) -> bool {
    name.contains('=') || name.starts_with("execbox ")
}

/// Whether a name is that of a file or directory of tests, or of a function in one of the sources that is marked as a test.
fn is_test(name: &str, sources: &[String]) -> bool {
    if name.contains('/') {
        return root().join(name).exists();
    }
    let function = format!("fn {name}(");
    let is_marked = |before: &str| {
        before.rsplit("\n\n").next().is_some_and(|start| start.contains("#[test") || start.contains("::test"))
    };
    sources.iter().any(|source| source.split_once(&function).is_some_and(|(before, _)| is_marked(before)))
}

fn rust_sources() -> Vec<String> {
    fn read(directory: &Path, sources: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut sources = Vec::new();
    read(&root().join("crates"), &mut sources);
    sources
}
