//! The table of claims in `docs/security.md`: each claim names tests, and the tests that it names exist.

use super::page::{Page, code_in, root, sources};

const PAGE: &str = "docs/security.md";

#[test]
fn each_claim_about_security_names_tests_that_exist() {
    let sources = sources(&root().join("crates"));
    let mut wrong = Vec::new();
    let page = Page::read(PAGE);
    let rows = page.table("claim").columns(["claim", "test"]).unwrap();
    assert!(rows.len() > 10, "{rows:?}");
    for [claim, tests] in rows {
        let named: Vec<_> = code_in(tests).collect();
        if !named.iter().any(|name| is_test(name, &sources)) {
            wrong.push(format!("{claim}: names no test"));
        }
        let unknown = named.iter().filter(|name| !is_setting(name) && !is_test(name, &sources));
        wrong.extend(unknown.map(|name| format!("{claim}: there is no `{name}`")));
    }
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
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
