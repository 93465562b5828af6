//! `--engine`: the combinations that are rejected, and the reasons.

use crate::support::transcript::{Typed, directory, transcript};

#[test]
fn engines_of_runners() {
    let commands = [Typed::new(&["runner", "--engine", "spidermonkey"]), Typed::new(&["runner", "--warm", "2"])];
    insta::assert_snapshot!(transcript(&directory("engines"), &commands));
}

#[test]
#[cfg(not(feature = "v8"))]
fn an_engine_that_is_not_built_in_names_its_feature() {
    let commands = [
        Typed::new(&["runner", "--engine", "v8"]),
        Typed::new(&["runner", "--engine", "v8", "--listen", "tcp:127.0.0.1:0"]),
        Typed::new(&["runner", "--engine", "v8", "--self-test"]),
        Typed::new(&["run", "--engine", "v8", "-e", "1"]),
        Typed::new(&["run", "--engine", "auto", "-e", "1"]),
        Typed::new(&["mcp", "--engine", "v8"]),
    ];
    insta::assert_snapshot!(transcript(&directory("engine-missing"), &commands));
}

/// A program that returns the message of an error that the engine throws. The message shows which engine ran it.
#[cfg(feature = "v8")]
const QUICK: &str = "console.log('once'); try { null.a } catch (error) { error.message }";

#[cfg(feature = "v8")]
const GROWS: &str = "const all = []; for (;;) all.push({ all })";

/// `QUICK` after 10 million steps.
#[cfg(feature = "v8")]
const COMPUTES: &str =
    "console.log('once'); let n = 0; while (n < 1e8) n++; try { null.a } catch (error) { error.message }";

#[test]
#[cfg(feature = "v8")]
fn v8_runs_in_child_processes() {
    let commands = [
        Typed::new(&["run", "--engine", "v8", "--jail", "required", "-e", "console.log('up'); 6 * 7"]),
        Typed::new(&["run", "--engine", "v8", "--timeout", "60s", "--json", "-e", GROWS]),
        Typed::new(&["run-code", "--engine", "v8", "-e", "export default new Map([[1, { two: 3n }]])"]),
        // Lines of the first attempt are not shown. The message shows the engine.
        Typed::new(&["run", "--engine", "auto", "-e", QUICK]),
        Typed::new(&["run", "--engine", "auto", "--auto-cpu", "50ms", "-e", COMPUTES]),
        Typed::new(&["run", "--engine", "auto", "--executor", "process", "--auto-cpu", "50ms", "-e", COMPUTES]),
    ];
    insta::assert_snapshot!(transcript(&directory("v8"), &commands));
}

/// The outcome of a program in a child with V8: its error code, or `ok`.
#[cfg(feature = "v8")]
fn end_on_v8(memory: &str, code: &str) -> String {
    let limits = ["--memory", memory, "--timeout", "60s"];
    let command = Typed::new(&[&["run", "--engine", "v8", "--json"], &limits[..], &["-e", code]].concat());
    let output = command.output(std::path::Path::new(".")).stdout;
    let result: serde_json::Value = serde_json::from_slice(&output).unwrap();
    result["error"]["code"].as_str().unwrap_or("ok").to_owned()
}

/// Each program needs more memory in one step than its child may have, or an object that is larger than V8 can make.
#[test]
#[cfg(feature = "v8")]
fn a_native_step_that_exhausts_the_child_is_a_memory_limit() {
    let steps = [
        ("32MiB", "Math.max.apply(null, { length: 5e7 })"),
        ("32MiB", "'\\u0149'.repeat(2e8).toLocaleUpperCase('tr')"),
        ("32MiB", "Uint8Array.fromBase64('A'.repeat(4e8))"),
        ("64MiB", "structuredClone(['x'.repeat(5e8)])"),
        ("64MiB", "'x'.repeat(5e8).split('')"),
        ("64MiB", "'x'.repeat(5e8).normalize('NFKD')"),
        ("64MiB", "JSON.parse('[' + '1,'.repeat(2.6e8) + '1]')"),
        ("64MiB", "Number('0x' + 'f'.repeat(5e8))"),
        ("64MiB", "(1e21).toLocaleString('x'.repeat(5e8))"),
        ("64MiB", "'a'.localeCompare('b', 'x-' + 'a'.repeat(5e8))"),
        ("512MiB", "'x'.repeat(2e8).split('')"),
        ("1GiB", "'x'.repeat(2e8).split('x')"),
        ("2GiB", "'x'.repeat(5e8).split('')"),
    ];
    for (memory, code) in steps {
        assert_eq!(end_on_v8(memory, code), "memory_limit", "{code}");
    }
}

#[cfg(feature = "v8")]
const EXHAUSTS: &str = "for (let n = 0; n < 3e7; n++); report(1); console.log(2); new Array(1e9).fill(0)";

#[test]
#[cfg(feature = "v8")]
fn what_a_program_did_before_it_exhausts_its_child_is_kept() {
    let command = ["run-code", "--engine", "v8", "--json", "--memory", "32MiB", "--timeout", "60s", "-e", EXHAUSTS];
    let output = Typed::new(&command).output(std::path::Path::new(".")).stdout;
    let result: serde_json::Value = serde_json::from_slice(&output).unwrap();
    assert_eq!((&result["status"], &result["reports"]), (&"memory".into(), &serde_json::json!([1])), "{result}");
    assert_eq!((&result["logs"][0]["args"], &result["memoryUsedBytes"]), (&serde_json::json!([2]), &(32 << 20).into()));
}

#[tokio::test]
#[cfg(feature = "v8")]
async fn the_program_after_one_that_exhausts_its_child_gets_another() {
    use execbox::{ErrorCode, ExecuteRequest, Executor as _, Limits, PoolOptions, ProcessExecutor, RunnerCommand};
    let command = RunnerCommand::new(crate::support::transcript::BINARY).args(["runner", "--engine", "v8"]);
    let executor = ProcessExecutor::builder(command).pool(PoolOptions::default().max_size(1)).build();
    let limits = Limits::default().memory_bytes(32 << 20).timeout(std::time::Duration::from_mins(1));
    for _ in 0..5 {
        let code = "console.log('before'); new Array(1e9).fill(0)";
        let exhausted = executor.execute(ExecuteRequest::new(code).limits(limits)).await;
        assert_eq!(exhausted.error().map(|error| error.code), Some(ErrorCode::MemoryLimit), "{exhausted:?}");
        assert_eq!(exhausted.logs, ["before"]);
        let next = executor.execute(ExecuteRequest::new("6 * 7").limits(limits)).await;
        assert_eq!(next.outcome, Ok(Some(42.into())));
    }
    executor.close().await;
}

#[test]
#[cfg(feature = "v8")]
fn an_engine_that_can_end_its_process_does_not_listen() {
    let commands = [Typed::new(&["runner", "--engine", "v8", "--listen", "tcp:127.0.0.1:0"])];
    insta::assert_snapshot!(transcript(&directory("engine-listens"), &commands));
}

#[test]
fn engines_of_executors() {
    let mut commands = vec![
        Typed::new(&["run", "-e", "1 + 1", "--engine", "quickjs"]),
        Typed::new(&["run-code", "-e", "export default 1 + 1", "--engine", "quickjs", "--executor", "process"]),
    ];
    for executor in ["remote=unix:missing.sock", "inline", "worker"] {
        commands.push(Typed::new(&["run", "-e", "1", "--engine", "v8", "--executor", executor]));
    }
    commands.push(Typed::new(&["run", "-e", "1", "--engine", "quickjs", "--executor", "remote=unix:missing.sock"]));
    commands.push(Typed::new(&["run", "-e", "1", "--engine", "auto", "--executor", "remote=unix:missing.sock"]));
    commands.push(Typed::new(&["run", "-e", "1", "--engine", "spidermonkey"]));
    commands.push(Typed::new(&["run", "-e", "1", "--auto-cpu", "1s"]));
    commands.push(Typed::new(&["mcp", "--engine", "v8", "--executor", "worker", "--server", "a=b"]));
    insta::assert_snapshot!(transcript(&directory("engine-executors"), &commands));
}
