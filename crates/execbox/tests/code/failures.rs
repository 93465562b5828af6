//! The whole `status` and `error` of every kind of failure: `failures/NAME.cases`, and `NAME.snap` next to it.
//!
//! The cases are as in `cases.rs`, without their expectations. The snapshot is the same on every executor with QuickJS. Another
//! engine has a snapshot of its own, `NAME@ENGINE.snap`, where it differs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use execbox::Executor;
use serde_json::json;

use crate::cases::Case;

/// The cases by file.
pub(crate) fn files(cases: &[Arc<Case>]) -> Vec<(String, Vec<Arc<Case>>)> {
    let files = cases.chunk_by(|one, other| one.file == other.file);
    files.map(|cases| (cases[0].file.clone(), cases.to_vec())).collect()
}

pub(crate) fn check(executor: &Arc<dyn Executor>, engine: &'static str, file: &str, cases: &[Arc<Case>]) {
    let mut output = String::new();
    for case in cases {
        let result = case.run(executor).0.to_json().unwrap();
        assert_ne!(result["status"], "success", "{}: it succeeds with {}", case.name, result["result"]);
        let failure = json!({ "status": result["status"], "error": result["error"] });
        let (_, title) = case.name.split_once(": ").unwrap();
        let source = case.runs[0].lines().enumerate();
        let source = source.fold(String::new(), |text, (line, code)| format!("{text}{:>4} | {code}\n", line + 1));
        let _ = write!(output, "=== {title}\n\n{source}\n{failure:#}\n\n");
    }
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(folder());
    if engine != "quickjs" && !is_snapshot(file, &output) {
        settings.set_snapshot_suffix(engine);
    }
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(file, output));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code/failures")
}

/// Whether the output is that of QuickJS.
fn is_snapshot(file: &str, output: &str) -> bool {
    let snapshot = fs::read_to_string(folder().join(format!("{file}.snap"))).unwrap_or_default();
    let content = snapshot.splitn(3, "---\n").nth(2);
    content.is_some_and(|content| content.trim() == output.trim())
}
