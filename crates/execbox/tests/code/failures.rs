//! The whole `status` and `error` of every kind of failure: `failures/NAME.cases`, and `NAME.snap` next to it.
//!
//! The cases are as in `cases.rs`, without their expectations. The snapshot is the same on every executor.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use execbox::Executor;
use serde_json::json;

use crate::cases::Case;

/// The cases by file.
pub(crate) fn files(cases: &[Arc<Case>]) -> Vec<(String, Vec<Arc<Case>>)> {
    let files = cases.chunk_by(|one, other| one.file == other.file);
    files.map(|cases| (cases[0].file.clone(), cases.to_vec())).collect()
}

pub(crate) fn check(executor: &Arc<dyn Executor>, file: &str, cases: &[Arc<Case>]) {
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
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code/failures"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(file, output));
}
