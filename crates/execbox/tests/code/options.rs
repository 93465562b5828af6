//! Options as data (§3): accepted options, and the errors of invalid ones.

use std::fmt::Write as _;
use std::path::Path;

use execbox::code::CodeExecutionOptions;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("3-options: errors name the path of the value", || {
            invalid();
            Ok(())
        }),
        Trial::test("3-options: the example of the specification is accepted", || {
            accepted();
            Ok(())
        }),
        Trial::test("3-options: numbers that stand for nothing, and attached bytes", || {
            crate::handles::data();
            Ok(())
        }),
    ]
}

/// One JSON value per line.
const INVALID: &str = include_str!("options/invalid.txt");

fn invalid() {
    let mut errors = String::new();
    for line in INVALID.lines() {
        let error = CodeExecutionOptions::from_json(&serde_json::from_str(line).unwrap()).expect_err(line);
        let _ = write!(errors, "{line}\n    {error}\n");
    }
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code/options"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("invalid", errors));
}

/// §12, without functions, so without `report`.
fn accepted() {
    let reference = r#"{
        "execute": { "fn": "scan", "args": [1, { "$date": 0 }] },
        "imports": { "config": { "depth": 3, "default": { "$map": [] } }, "@scope/pkg": {} },
        "modules": { "./lib/math.js": "export const add = (a, b) => a + b;" },
        "globals": { "input": [1, 2, 3], "nothing": { "$undefined": true } },
        "language": "javascript",
        "memoryLimitBytes": 67108864,
        "filename": "main.js"
    }"#;
    for options in [reference, "{}", r#"{"execute": {}}"#, r#"{"imports": {}, "modules": {}, "globals": {}}"#] {
        let options = serde_json::from_str(options).unwrap();
        assert!(CodeExecutionOptions::from_json(&options).is_ok(), "{options}");
    }
}
