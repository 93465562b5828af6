//! Runs the examples and checks their results.

#![allow(dead_code)] // their `main` functions

#[path = "../examples/deadline.rs"]
mod deadline;
#[path = "../examples/flagging.rs"]
mod flagging;
#[path = "../examples/single_value.rs"]
mod single_value;
#[path = "../examples/tools.rs"]
mod tools;

use std::time::Duration;

use execbox::code::Status;
use serde_json::json;

#[tokio::test]
async fn example_single_value_returns_a_number() {
    assert_eq!(single_value::sum().await.unwrap(), Some(6.0));
}

#[tokio::test]
async fn example_flagging_collects_reported_ids() {
    let rows =
        json!([{"id": "a", "flagged": true}, {"id": "b"}, {"id": "c", "flagged": true}, {"id": "a", "flagged": true}]);
    assert_eq!(flagging::flagged(rows).await.unwrap(), ["a".to_owned(), "c".to_owned()].into());
    let error = flagging::flagged(json!([{"id": 7, "flagged": true}])).await.unwrap_err();
    assert_eq!(error.to_string(), "TypeError: argument 0 is not a string\n    at <runCode>:4:30");
}

#[tokio::test]
async fn example_deadline_enforces_time_and_memory_limits() {
    let run = async |code, budget| deadline::run_with_deadline(code, budget).await.unwrap();
    let long = Duration::from_mins(1);
    let result = run("export default JSON.parse(input).rows.length;", long).await;
    assert_eq!(result.to_json().unwrap()["result"], json!(3));
    let result = run("for (;;);", Duration::from_millis(20)).await;
    assert_eq!(result.status, Status::Terminated);
    assert_eq!(result.error.unwrap().message, "The run was terminated: 20ms budget");
    assert_eq!(
        run("const all = []; for (;;) all.push('x'.repeat(1e6) + all.length);", long).await.status,
        Status::Memory
    );
}

#[tokio::test]
async fn example_tools_runs_code_from_a_tool() {
    let code = "import { readFile } from 'thread'; export default (await readFile('/notes.txt')).length;";
    assert_eq!(tools::call_evaluate(code).await.unwrap(), json!({"status": "success", "result": 8}));
    let code = "import { writeFile } from 'thread'; export default 1;";
    let failed = tools::call_evaluate(code).await.unwrap();
    assert_eq!(failed["status"], "error");
    assert!(failed["error"].as_str().unwrap().contains("writeFile"), "{failed}");
}
