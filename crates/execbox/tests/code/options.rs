//! Options as data (§3): what is accepted, and what is said of what is not.

use std::fmt::Write as _;
use std::path::Path;

use execbox::code::CodeExecutionOptions;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("3-options: what is wrong is told with its path", || {
            refused();
            Ok(())
        }),
        Trial::test("3-options: everything of the reference is accepted", || {
            accepted();
            Ok(())
        }),
    ]
}

/// One JSON value per line.
const REFUSED: &str = include_str!("options/refused.txt");

fn refused() {
    let mut told = String::new();
    for line in REFUSED.lines() {
        let error = CodeExecutionOptions::from_json(&serde_json::from_str(line).unwrap()).expect_err(line);
        let _ = write!(told, "{line}\n    {error}\n");
    }
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code/options"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("refused", told));
}

/// §12, without what data cannot say: functions, and so `report`.
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
