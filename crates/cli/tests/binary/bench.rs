//! `execbox bench`: the shapes of its output, comparisons, and errors. No test depends on how long anything takes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::support::transcript::{Typed, directory, interrupt, text, transcript};

fn bench(arguments: &[&str]) -> Typed {
    Typed::new(&[&["bench"], arguments].concat())
}

/// The standard output of a command that succeeds.
fn output(dir: &Path, arguments: &[&str]) -> String {
    let output = bench(arguments).output(dir);
    let errors = text(output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    text(output.stdout)
}

fn json_output(dir: &Path, arguments: &[&str]) -> Json {
    serde_json::from_str(&output(dir, arguments)).unwrap()
}

/// A report of one row.
fn report(p50: f64, noise: f64) -> Json {
    json!({
        "format": 1,
        "execbox": { "version": "0.1.0", "profile": "release", "engines": { "quickjs": "0.16.2" } },
        "machine": { "os": "linux", "arch": "x86_64", "cpu": "A processor", "cores": 2 },
        "quick": false,
        "rows": [{
            "row": "1+1", "executor": "inline", "engine": "quickjs", "unit": "ms", "samples": 10000,
            "p50": p50, "p95": 0.02, "p99": 0.03, "noise": noise,
        }],
    })
}

#[test]
fn help_lists_and_errors() {
    let dir = directory("bench-errors");
    let format_of_later = {
        report(1.0, 0.0)["format"] = json!(2);
        json!({ "format": 2, "measurements": {} })
    };
    let mut negative = report(1.0, 0.0);
    negative["rows"][0]["p50"] = json!(-1.0);
    fs::write(dir.join("later.json"), format_of_later.to_string()).unwrap();
    fs::write(dir.join("negative.json"), negative.to_string()).unwrap();
    fs::write(dir.join("text.json"), "no JSON").unwrap();
    fs::write(dir.join("other.json"), r#"{ "format": 1, "rows": [] }"#).unwrap();
    let commands = [
        bench(&["--help"]),
        bench(&["--list"]),
        bench(&["--list", "--json"]),
        bench(&["clals"]),
        bench(&["weather"]),
        bench(&["1+1", "--executor", "thread"]),
        bench(&["1+1", "--engine", "spidermonkey"]),
        bench(&["memory-warm", "--executor", "inline"]),
        bench(&["--compare", "missing.json"]),
        bench(&["--compare", "text.json"]),
        bench(&["--compare", "other.json"]),
        bench(&["--compare", "later.json"]),
        bench(&["--load", "negative.json"]),
        bench(&["--load", "later.json", "calls"]),
        bench(&["1+1", "--save", "missing/report.json"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn reports_are_compared_and_a_change_beyond_the_noise_has_a_verdict() {
    let dir = directory("bench-compare");
    let mut other_machine = report(0.16, 0.1);
    other_machine["machine"]["cores"] = json!(64);
    other_machine["execbox"]["version"] = json!("0.0.9");
    other_machine["execbox"]["profile"] = json!("debug");
    let mut other_row = report(1.0, 0.0);
    other_row["rows"][0]["row"] = json!("1+1+1");
    for (name, report) in [
        ("now.json", report(0.016, 0.02)),
        ("same.json", report(0.016, 0.02)),
        ("near.json", report(0.0155, 0.02)),
        ("slow.json", report(0.16, 0.02)),
        ("fast.json", report(0.0016, 0.02)),
        ("machine.json", other_machine),
        ("row.json", other_row),
    ] {
        fs::write(dir.join(name), report.to_string()).unwrap();
    }
    let mut commands = vec![bench(&["--load", "now.json"])];
    for earlier in ["same.json", "near.json", "slow.json", "fast.json", "machine.json", "row.json"] {
        commands.push(bench(&["--load", "now.json", "--compare", earlier]));
    }
    commands.push(bench(&["--load", "now.json", "--compare", "slow.json", "--json"]));
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn a_report_has_its_machine_and_a_row_for_each_executor() {
    let dir = directory("bench-json");
    let report = json_output(&dir, &["--quick", "--json", "1+1", "throughput-2", "memory", "cold"]);
    assert_eq!((&report["format"], &report["quick"]), (&json!(1), &json!(true)));
    assert_eq!(report["execbox"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["execbox"]["engines"]["quickjs"].is_string());
    assert!(report["machine"]["cores"].as_u64() > Some(0), "{report}");
    let rows = report["rows"].as_array().unwrap();
    let of_quickjs = |row: &&Json| row["engine"] == "quickjs";
    let names: Vec<String> =
        rows.iter().filter(of_quickjs).map(|row| format!("{} {}", row["row"], row["executor"])).collect();
    insta::assert_snapshot!(names.join("\n").replace('"', ""));
    for row in rows {
        let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        let quantiles: &[&str] = if row["unit"] == "ms" { &["p50", "p95", "p99"] } else { &["p50"] };
        let expected = [&["row", "executor", "engine", "unit", "samples"], quantiles, &["noise"]].concat();
        assert_eq!(keys, expected);
        assert!(row["samples"].as_u64() >= Some(5) && row["p50"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn every_program_has_its_result_on_every_executor() {
    let words = ["call", "result", "input", "fib", "json", "typescript", "stop"];
    let dir = directory("bench-results");
    let table = output(&dir, &[&["--quick"], &words[..]].concat());
    for title in ["one call", "each further call in sequence", "result of 1 MB", "tool input of 1 MB", "fib(27)"] {
        assert!(table.lines().any(|line| line.starts_with(title) && line.contains(" inline ")), "{table}");
    }
}

#[test]
fn a_saved_report_is_the_printed_one_and_can_be_compared_with() {
    let dir = directory("bench-save");
    let printed =
        json_output(&dir, &["--quick", "--json", "1+1", "--executor", "inline,worker", "--save", "saved.json"]);
    let saved: Json = serde_json::from_str(&fs::read_to_string(dir.join("saved.json")).unwrap()).unwrap();
    assert_eq!(printed, saved);
    let executors: Vec<&Json> = saved["rows"].as_array().unwrap().iter().map(|row| &row["executor"]).collect();
    assert_eq!(executors, ["inline", "worker"]);
    let compared = json_output(&dir, &["--load", "saved.json", "--compare", "saved.json", "--json"]);
    assert_eq!(compared["rows"][0]["compared"]["verdict"], "noise");
    assert_eq!(compared["rows"][0]["compared"]["ratio"], 1.0);
    let measured = json_output(&dir, &["--quick", "--json", "1+1", "--executor", "inline", "--compare", "saved.json"]);
    assert!(measured["rows"][0]["compared"]["ratio"].is_number(), "{measured}");
}

#[test]
fn an_interrupt_ends_the_command_and_saves_nothing() {
    let dir = directory("bench-interrupt");
    let child = bench(&["memory", "loop", "--save", "saved.json"]).start(&dir);
    // Memory is measured in child processes: the first has been started when signals are handled.
    let tasks = format!("/proc/{}/task", child.id());
    let has_children =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).is_ok_and(|ids| !ids.is_empty());
    while !fs::read_dir(&tasks).unwrap().flatten().any(has_children) {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(text(output.stderr).ends_with("error: interrupted\n"));
    assert!(!dir.join("saved.json").exists());
}
