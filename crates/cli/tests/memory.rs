//! Memory of parent and child over many executions of one pooled child, and of results as JSON. A separate test binary, so that
//! other tests do not affect the measurement.

mod support;

use std::io::Read as _;
use std::process::{Command, Stdio};

use execbox::{ExecuteRequest, Executor, Provider, Tool, ToolError};
use serde_json::{Value as Json, json};

use support::{children, processes};

/// A lock that each test holds, because one of them identifies its only child among those of this process.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A line of a process's status, in KiB.
fn status_kib(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

fn resident_kib(process: u32) -> u64 {
    status_kib(process, "VmRSS")
}

fn peak_kib(process: u32) -> u64 {
    status_kib(process, "VmHWM")
}

#[tokio::test]
async fn memory_of_parent_and_child_does_not_grow_over_ten_thousand_executions() {
    let _alone = ALONE.lock().await;
    let echo = Tool::new("echo", async |input: Json, _| Ok(input));
    let fail = Tool::new("fail", async |_: Json, _| Err::<Json, _>(ToolError::new("no")));
    let hang = Tool::new("hang", async |_: Json, _| std::future::pending().await);
    let tools = Provider::builder("tools").tools([echo, fail, hang]).build().unwrap();
    let executor = processes(1).build();
    let code = "const a = Array.from({ length: 100 }, (_, i) => ({ i })); console.log(a.length); tools.hang();
                const b = await tools.echo(a); (await tools.fail().catch(String)).length + b.length";
    executor.prewarm(1).await.unwrap();
    let parent = std::process::id();
    let child = children(parent)[0];
    let mut after_warm_up = (0, 0);
    for i in 0..10_000 {
        let result = executor.execute(ExecuteRequest::new(code).provider(tools.clone())).await;
        assert_eq!(result.outcome, Ok(Some(json!(109))));
        if i == 1000 {
            after_warm_up = (resident_kib(parent), resident_kib(child));
        }
    }
    assert_eq!(children(parent), [child], "it is one child all along");
    for (whose, before, after) in
        [("the parent", after_warm_up.0, resident_kib(parent)), ("the child", after_warm_up.1, resident_kib(child))]
    {
        assert!(after < before + 2048, "{whose} grew from {before} to {after} KiB in 9000 executions");
    }
}

/// The result and reports of a run take little memory in JSON beyond their memory in the host. The tree of each of these values
/// would take hundreds of MiB.
#[test]
fn results_of_runs_are_written_as_json_without_a_tree() {
    let _alone = ALONE.blocking_lock();
    for source in [
        "export default new Array(2e6).fill(undefined)",
        "export default new Array(2e6).fill(NaN)",
        "const one = {}; export default new Array(15e5).fill(one)",
        "export default new Array(1e6).fill(5n)",
        "export default new Array(1e6).fill(-0)",
        "export default Array.from({ length: 1e5 }, (_, i) => ({ $a: undefined, b: -0 }))",
        "export default new Map(Array.from({ length: 1e5 }, (_, i) => [i, undefined]))",
        "export default new Set(Array.from({ length: 1e5 }, (_, i) => BigInt(i)))",
        "export default '\\u0001'.repeat(15e6)",
        "export default new Uint8Array(15e6)",
        "report(new Array(1e6).fill(undefined)); export default 1",
        "const one = {}; for (let i = 0; i < 50; i++) report(new Array(1e4).fill(one)); export default 1",
        "export default new Array(5e4).fill(2n ** 2000n)",
    ] {
        let (first, peak) = printed(&["--json"], source);
        assert_eq!(&first, br#"{"status":"success","#, "{source}");
        assert!(peak < 32 + 128, "{peak} MiB: {source}");
    }
}

#[test]
fn results_of_runs_are_written_as_text_as_they_are_printed() {
    let _alone = ALONE.blocking_lock();
    for source in [
        "export default '\\u0001'.repeat(25e6)",
        "export default new Array(2e6).fill(NaN)",
        "const one = {}; export default new Array(15e5).fill(one)",
        "export default new Array(1e6).fill([1])",
        "export default new Array(5e4).fill(2n ** 2000n)",
        "report('\\u0001'.repeat(12e6)); export default new Array(1e6).fill(undefined)",
    ] {
        let (_, peak) = printed(&[], source);
        assert!(peak < 32 + 128, "{peak} MiB: {source}");
    }
}

/// The beginning of the output of `run-code`, and the memory that the process has used until then, in MiB. A text or a tree
/// would be complete by then: the process blocks at the full pipe.
fn printed(options: &[&str], source: &str) -> ([u8; 20], u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_execbox"));
    command.args(["run-code", "--memory", "32MiB", "--timeout", "10m"]).args(options).args(["-e", source]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let mut first = [0; 20];
    stdout.read_exact(&mut first).unwrap();
    let peak = peak_kib(process.id()) >> 10;
    drop(stdout);
    process.wait().unwrap();
    println!("{peak} MiB: {source}");
    (first, peak)
}
