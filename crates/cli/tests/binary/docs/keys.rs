//! Keys of files: those that the code reads are on the page about them, and a table of keys has no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use execbox::code::CodeExecutionOptions;
use execbox_mcp::config::{ClientConfig, Variables};
use serde_json::json;

use super::page::{Page, code_in, root};

const CONFIGURATION: &str = "docs/gateway-configuration.md";

#[test]
fn keys_of_servers_are_described() {
    let ignored = |name| quoted(between("ignored.rs", &format!("const {name}: &[&str] = &["), "];"));
    check(CONFIGURATION, "key of an entry", &ignored("KNOWN"));
    check(CONFIGURATION, "key of `oauth`", &ignored("OAUTH_KEYS"));
    check(CONFIGURATION, "key of an input", &arms(between("input.rs", "fn item(", "\n}")));
    let file = ["fn read(&mut self", "fn read_mcp(", "fn read_project("];
    let file = file.iter().flat_map(|function| arms(between("tables.rs", function, "\n    }")));
    let file: BTreeSet<String> = file.collect();
    assert!(file.contains("mcpServers") && file.contains("allowed") && file.contains("disabledMcpServers"), "{file:?}");
    check_named(&Page::read(CONFIGURATION), &file);
}

#[test]
fn keys_of_clients_of_a_gateway_are_described() {
    let page = "docs/gateway-operations.md";
    let expected = |client: &str| {
        let file = format!("{{ \"clients\": {{ \"a\": {client} }} }}");
        list(&ClientConfig::read(&file, &Variables(|_| None)).unwrap_err().to_string())
    };
    check(page, "key of a client", &expected(r#"{ "unknown": 1 }"#));
    check(page, "key of `limits`", &expected(r#"{ "limits": { "unknown": 1 } }"#));
}

#[test]
fn keys_of_options_of_runs_are_described() {
    let expected = |options| list(&CodeExecutionOptions::from_json(&options).unwrap_err().to_string());
    let of_execute = expected(json!({ "execute": { "unknown": 1 } }));
    let known = expected(json!({ "unknown": 1 })).into_iter().filter(|key| key != "execute");
    let known = known.chain(of_execute.iter().map(|key| format!("execute.{key}"))).collect();
    check("docs/modules.md", "key in `options.json`", &known);
}

#[test]
fn keys_of_tools_files_are_described() {
    let places = [
        ("a tools file", r#"{ "unknown": 1 }"#),
        ("a provider", r#"{ "providers": { "a": { "unknown": 1 } } }"#),
        ("a tool", r#"{ "providers": { "a": { "tools": { "b": { "unknown": 1 } } } } }"#),
        ("an answer", r#"{ "providers": { "a": { "tools": { "b": { "answers": [{ "unknown": 1 }] } } } } }"#),
    ];
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs-tools.json");
    for (place, text) in places {
        fs::write(&path, text).unwrap();
        let run = Command::new(env!("CARGO_BIN_EXE_execbox")).args(["types", "--tools"]).arg(&path).output().unwrap();
        let known = code_in(&String::from_utf8(run.stderr).unwrap()).map(str::to_owned).collect::<BTreeSet<_>>();
        let known = known.into_iter().filter(|key| key != "unknown").collect();
        check("docs/command-line.md", &format!("key of {place}"), &known);
    }
}

/// Checks that the column of a table has these keys and no others.
fn check(path: &str, column: &str, known: &BTreeSet<String>) {
    assert!(known.len() > 1, "{known:?}");
    let page = Page::read(path);
    let rows = page.tables.iter().find_map(|table| table.columns([column]));
    let rows = rows.unwrap_or_else(|| panic!("{path} has no table with a column {column:?}"));
    let described: BTreeSet<String> = rows.iter().flat_map(|[cell]| code_in(cell)).map(str::to_owned).collect();
    let missing: Vec<_> = known.difference(&described).collect();
    let unknown: Vec<_> = described.difference(known).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "{path}, {column}: missing {missing:?}, unknown {unknown:?}");
}

/// Checks that a page names these keys, alone or in a path of keys.
fn check_named(page: &Page, known: &BTreeSet<String>) {
    let named: BTreeSet<&str> = page.code.iter().flat_map(|code| code.split('.')).collect();
    let missing: Vec<_> = known.iter().filter(|key| !named.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "{} does not describe {missing:?}", page.path);
}

/// A part of a source of the configuration.
fn between(file: &str, start: &str, end: &str) -> String {
    let text = fs::read_to_string(root().join("crates/mcp/src/config").join(file)).unwrap();
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{file} has no {start:?}"));
    rest.split_once(end).unwrap().0.to_owned()
}

/// The strings of a source.
fn quoted(source: impl AsRef<str>) -> BTreeSet<String> {
    source.as_ref().split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The strings that arms of a `match` begin with.
fn arms(source: impl AsRef<str>) -> BTreeSet<String> {
    let arms = source.as_ref().lines().filter(|line| line.trim_start().starts_with('"'));
    arms.filter_map(|line| line.split_once("=>")).flat_map(|(pattern, _)| quoted(pattern)).collect()
}

/// The keys that an error lists at its end.
fn list(error: &str) -> BTreeSet<String> {
    let (_, keys) = error.rsplit_once("expected one of ").or(error.rsplit_once("expected ")).unwrap();
    keys.split(", ").map(str::to_owned).collect()
}
