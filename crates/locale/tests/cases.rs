//! Runs the cases of `tests/*.cases`: `=== NAME`, then `call: REQUEST` and what node returns for it, `result: VALUE` or
//! `error: MESSAGE`. `tests/node/cases.mjs` checks these with node, and writes them with `--update`.

use std::path::Path;

use execbox_locale::call;
use serde_json::Value;

/// The number of cases of a file, and the cases that fail.
fn run(name: &str) -> (usize, Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let (mut count, mut failures) = (0, Vec::new());
    for case in text.split("=== ").skip(1) {
        count += 1;
        let mut lines = case.lines();
        let title = lines.next().unwrap();
        let request: Value = serde_json::from_str(lines.next().unwrap().strip_prefix("call: ").unwrap()).unwrap();
        let expected = lines.next().unwrap();
        let found = match call(&request) {
            Ok(value) => format!("result: {value}"),
            Err(error) => format!("error: {error}"),
        };
        if found != expected {
            failures.push(format!("{title}\n  expected {expected}\n  found    {found}"));
        }
    }
    (count, failures)
}

#[track_caller]
fn check(name: &str) {
    let (count, failures) = run(name);
    assert!(count > 0, "{name} has no cases");
    assert!(failures.is_empty(), "{name}:\n{}", failures.join("\n"));
}

#[test]
fn numbers_are_written_as_node_writes_them() {
    check("numbers.cases");
}

#[test]
fn dates_are_written_as_node_writes_them() {
    check("dates.cases");
}

#[test]
fn time_zones_have_the_names_that_node_gives_them() {
    check("zones.cases");
}

#[test]
fn texts_are_ordered_as_in_node() {
    check("order.cases");
}

#[test]
fn numbers_have_the_plural_categories_of_node() {
    check("plurals.cases");
}
