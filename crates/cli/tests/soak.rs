//! `execbox soak`: a short one on every executor, and its report.

mod support;

use std::process::{Command, Stdio};

use serde_json::Value as Json;

use support::transcript::text;

/// Runs a soak and returns its report and its exit code.
fn soak(arguments: &[&str]) -> (Json, Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_execbox"));
    let output = command.arg("soak").arg("--json").args(arguments).stdin(Stdio::null()).output().unwrap();
    let errors = text(output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    (report, output.status.code(), errors)
}

#[test]
fn a_short_soak_finds_no_growth_and_no_unexpected_end() {
    let (report, exit, errors) = soak(&["--time", "15s", "--seed", "7"]);
    assert_eq!(exit, Some(0), "{}\n{}\n{errors}", report["trends"], report["unexpected"]);
    let executors = report["executors"].as_object().unwrap();
    assert!(
        ["inline", "worker", "process", "remote"].iter().all(|name| executors[*name]["executions"].as_u64() > Some(0))
    );
    assert!(report["killed"].as_u64() > Some(0), "runner processes are killed: {report}");
}

#[test]
fn a_soak_by_count_executes_that_many_programs() {
    let (report, _, _) = soak(&["--executor", "inline", "--executions", "600"]);
    assert_eq!((&report["executions"], report["samples"].as_array().map(Vec::len)), (&600.into(), Some(60)));
    assert_eq!(report["executors"].as_object().unwrap().keys().collect::<Vec<_>>(), ["inline"]);
}

#[test]
#[cfg(feature = "v8")]
fn a_soak_of_v8_executes_programs_in_processes() {
    let (report, exit, errors) = soak(&["--engine", "v8", "--executions", "600"]);
    assert_eq!(exit, Some(0), "{}\n{}\n{errors}", report["trends"], report["unexpected"]);
    assert_eq!(report["executors"].as_object().unwrap().keys().collect::<Vec<_>>(), ["process"]);
}
