//! `devtools soak`: a short soak on every executor, and its report. With `EXECBOX_TEST_ENGINE=v8`, a soak of V8.
//!
//! The binary is `execbox` beside `devtools`: `cargo test --workspace` builds it, and so does `cargo build`.

use std::process::{Command, Stdio};

use serde_json::Value as Json;

fn devtools(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_devtools"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a soak and returns its report and its exit code.
fn soak(arguments: &[&str]) -> (Json, Option<i32>, String) {
    let output = devtools(&["soak", "--json"]).args(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    (report, output.status.code(), errors)
}

fn is_v8() -> bool {
    match std::env::var("EXECBOX_TEST_ENGINE").as_deref() {
        Ok("v8") => true,
        Err(_) => false,
        Ok(engine) => panic!("unknown engine {engine:?}: expected v8"),
    }
}

#[test]
fn a_short_soak_finds_no_growth_and_no_unexpected_end() {
    let (arguments, expected): (&[&str], &[&str]) = match is_v8() {
        true => (&["--engine", "v8", "--executions", "600"], &["process"]),
        false => (&["--time", "15s", "--seed", "7"], &["inline", "process", "remote", "worker"]),
    };
    let (report, exit, errors) = soak(arguments);
    assert_eq!(exit, Some(0), "{}\n{}\n{errors}", report["trends"], report["unexpected"]);
    let executors = report["executors"].as_object().unwrap();
    assert_eq!(executors.keys().collect::<Vec<_>>(), expected);
    assert!(executors.values().all(|executor| executor["executions"].as_u64() > Some(0)), "{report}");
    assert!(is_v8() || report["killed"].as_u64() > Some(0), "runner processes are killed: {report}");
}

#[test]
fn a_soak_by_count_executes_that_many_programs() {
    let (report, _, _) = soak(&["--executor", "inline", "--executions", "600"]);
    assert_eq!((&report["executions"], report["samples"].as_array().map(Vec::len)), (&600.into(), Some(60)));
    assert_eq!(report["executors"].as_object().unwrap().keys().collect::<Vec<_>>(), ["inline"]);
}

#[test]
fn help_and_errors() {
    let mut seen = String::new();
    for arguments in [
        &["soak", "--help"][..],
        &["growth", "--help"],
        &["soak", "--execbox", "missing/execbox"],
        &["soak", "--engine", "v8", "--executor", "inline"],
        &["growth", "clals"],
    ] {
        let output = devtools(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        let text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        seen += &format!("$ devtools {}\n{text}\n[exit {}]\n\n", arguments.join(" "), output.status.code().unwrap());
    }
    insta::assert_snapshot!(seen);
}
