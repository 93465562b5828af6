//! The validator beside the official JSON-Schema-Test-Suite, which `oracles/schemas/run` downloads.
//!
//! `oracles/schemas/expected-differences.json` lists the cases that end differently. The test fails for a difference that is
//! not listed, and for a listed case that is equal or does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use execbox::Schema;
use serde::Deserialize;
use serde_json::Value;

/// The drafts, and the `$schema` of those whose cases have none.
const DRAFTS: [(&str, Option<&str>); 5] = [
    ("2020-12", None),
    ("2019-09", None),
    ("7", Some("http://json-schema.org/draft-07/schema#")),
    ("6", Some("http://json-schema.org/draft-06/schema#")),
    ("4", Some("http://json-schema.org/draft-04/schema#")),
];

/// A schema of the suite with its tests.
#[derive(Deserialize)]
struct Group {
    description: String,
    schema: Value,
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    description: String,
    data: Value,
    valid: bool,
}

/// An entry of `expected-differences.json`.
#[derive(Deserialize)]
struct Entry {
    reason: String,
    outcome: Outcome,
    /// The drafts of each case, which is `FILE: GROUP` if the schema is refused, else `FILE: GROUP: TEST`.
    cases: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// As the suite expects.
    Equal,
    /// The schema does not compile.
    Refused,
    /// An invalid value is valid.
    Admitted,
    /// A valid value is invalid.
    Rejected,
}

/// The draft, the case and its outcome.
type Difference = (String, String, Outcome);

#[test]
#[ignore = "needs the suite: oracles/schemas/run"]
fn the_official_suite_passes_except_for_listed_differences() {
    let suite = PathBuf::from(env::var_os("EXECBOX_SCHEMA_SUITE").expect("the variable EXECBOX_SCHEMA_SUITE"));
    let mut found = BTreeSet::new();
    println!("| draft | tests | as expected | schema refused | wrongly valid | wrongly invalid |");
    println!("|---|--:|--:|--:|--:|--:|");
    for (draft, dialect) in DRAFTS {
        let mut counts = [0; 4];
        for (name, path) in files(&suite.join(format!("draft{draft}"))) {
            for group in groups(&path, dialect) {
                for (case, outcome, tests) in outcomes(&name, &group) {
                    counts[outcome as usize] += tests;
                    if outcome != Outcome::Equal {
                        found.insert((draft.to_owned(), case, outcome));
                    }
                }
            }
        }
        let [equal, refused, admitted, rejected] = counts;
        let all: usize = counts.iter().sum();
        println!("| {draft} | {all} | {equal} | {refused} | {admitted} | {rejected} |");
        assert!(all > 500, "only {all} tests of draft {draft} were found in {}", suite.display());
    }
    let listed = listed();
    let differences: Vec<String> = found
        .difference(&listed)
        .map(|(draft, case, outcome)| format!("not listed: draft {draft}: {case}: {outcome:?}"))
        .chain(listed.difference(&found).map(|(draft, case, outcome)| {
            format!("listed, but otherwise or missing: draft {draft}: {case}: {outcome:?}")
        }))
        .collect();
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// The files of a draft and their names. Those of `optional/format` are left out, because `format` is not checked.
fn files(draft: &Path) -> Vec<(String, PathBuf)> {
    let entries = ["", "optional/"]
        .into_iter()
        .flat_map(|folder| fs::read_dir(draft.join(folder)).unwrap().map(move |entry| (folder, entry.unwrap().path())));
    let files = entries.filter(|(_, path)| path.extension().is_some_and(|extension| extension == "json"));
    files.map(|(folder, path)| (format!("{folder}{}", path.file_stem().unwrap().display()), path)).collect()
}

fn groups(path: &Path, dialect: Option<&str>) -> Vec<Group> {
    let mut groups: Vec<Group> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    for group in &mut groups {
        if let (Some(dialect), Value::Object(schema)) = (dialect, &mut group.schema) {
            schema.entry("$schema").or_insert_with(|| dialect.into());
        }
    }
    groups
}

/// The cases of a group, and the number of tests of each.
fn outcomes(file: &str, Group { description, schema, tests }: &Group) -> Vec<(String, Outcome, usize)> {
    let Ok(schema) = Schema::compile(schema) else {
        return vec![(format!("{file}: {description}"), Outcome::Refused, tests.len())];
    };
    let outcome = |test: &Test| match (schema.check(&test.data, "value").is_ok(), test.valid) {
        (true, false) => Outcome::Admitted,
        (false, true) => Outcome::Rejected,
        _ => Outcome::Equal,
    };
    tests.iter().map(|test| (format!("{file}: {description}: {}", test.description), outcome(test), 1)).collect()
}

fn listed() -> BTreeSet<Difference> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracles/schemas/expected-differences.json");
    let entries: Vec<Entry> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut listed = BTreeSet::new();
    for Entry { reason, outcome, cases } in entries {
        assert!(!reason.is_empty());
        for (case, drafts) in cases {
            for draft in drafts.split(' ') {
                assert!(listed.insert((draft.to_owned(), case.clone(), outcome)), "{case} is listed twice");
            }
        }
    }
    listed
}
