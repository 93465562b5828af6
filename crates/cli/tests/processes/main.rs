//! Runner processes: their environment, their end, and the treatment of misbehaving ones by a pool.

mod killed_children;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{
    ErrorCode, ExecuteRequest, ExecuteResult, Executor, Limits, PoolOptions, ProcessExecutor, Provider, RunnerCommand,
    Tool,
};
use serde_json::{Value as Json, json};

use support::{Signal, children, exists, processes, send, wait_until};

/// A tool that calls `at` while the child that calls the tool waits.
fn inspect(at: impl Fn() + Send + Sync + 'static) -> Provider {
    let inspect = Tool::new("inspect", move |_: Json, _| {
        at();
        async { Ok(json!(null)) }
    });
    Provider::builder("tools").tool(inspect).build().unwrap()
}

/// Each test holds this lock, so that it can identify its own children.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn only_child() -> u32 {
    let children = children(std::process::id());
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

async fn run(executor: &ProcessExecutor, code: &str) -> ExecuteResult {
    executor.execute(ExecuteRequest::new(code).limits(generous_limits())).await
}

/// Limits that a busy machine does not reach.
fn generous_limits() -> Limits {
    Limits::default().timeout(Duration::from_mins(10))
}

/// Waits for the first log line of a program.
fn first_line(stderr: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(stderr).read_line(&mut line).unwrap();
    line
}

async fn end(executor: ProcessExecutor) {
    executor.close().await;
    wait_until("the end of every child", || children(std::process::id()).is_empty());
}

fn code(result: &ExecuteResult) -> Option<ErrorCode> {
    result.error().map(|error| error.code)
}

#[tokio::test]
async fn a_child_is_reused_unless_its_execution_failed_uncleanly() {
    let _alone = ALONE.lock().await;
    let executor = processes(1).build();
    assert!(run(&executor, "1").await.is_ok());
    let first = only_child();
    assert_eq!(code(&run(&executor, "throw 1").await), Some(ErrorCode::RuntimeError));
    let hungry = ExecuteRequest::new("const a = []; for (;;) a.push('x'.repeat(1e6) + a.length)");
    assert_eq!(code(&executor.execute(hungry.limits(generous_limits())).await), Some(ErrorCode::MemoryLimit));
    assert!(run(&executor, "1").await.is_ok());
    assert_eq!(only_child(), first, "the same one all along");
    let limits = Limits::default().timeout(Duration::from_millis(30));
    let result = executor.execute(ExecuteRequest::new("for (;;);").limits(limits)).await;
    assert_eq!(code(&result), Some(ErrorCode::Timeout));
    wait_until("the end of the first child", || !exists(first));
    assert!(run(&executor, "1").await.is_ok());
    assert_ne!(only_child(), first);
    end(executor).await;
}

#[tokio::test]
async fn an_ephemeral_executor_never_reuses_a_child() {
    let _alone = ALONE.lock().await;
    let executor = processes(1).ephemeral().build();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let note = Arc::clone(&seen);
        let tools = inspect(move || note.lock().unwrap().push(only_child()));
        assert!(executor.execute(ExecuteRequest::new("await tools.inspect()").provider(tools)).await.is_ok());
        wait_until("the end of the child", || children(std::process::id()).is_empty());
    }
    let mut seen = seen.lock().unwrap().clone();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn a_killed_child_fails_only_its_execution() {
    let _alone = ALONE.lock().await;
    let executor = processes(1).build();
    let tools = inspect(|| send(Signal::SIGKILL, only_child()));
    let hit = executor.execute(ExecuteRequest::new("await tools.inspect(); 1").provider(tools)).await;
    assert_eq!(code(&hit), Some(ErrorCode::InternalError));
    assert_eq!(hit.error().unwrap().message, "the runner ended with signal 9 before it was done");
    assert!(run(&executor, "1").await.is_ok());

    // Killing an idle child has no effect.
    send(Signal::SIGKILL, only_child());
    wait_until("the end of the idle child", || children(std::process::id()).is_empty());
    assert!(run(&executor, "1").await.is_ok());
    end(executor).await;
}

#[tokio::test]
async fn a_child_that_hangs_is_killed() {
    let _alone = ALONE.lock().await;
    let executor = processes(1).build();
    executor.prewarm(1).await.unwrap();
    let limits = Limits::default().timeout(Duration::from_secs(2));
    let stopped = Arc::new(Mutex::new(0));
    let note = Arc::clone(&stopped);
    let tools = inspect(move || {
        *note.lock().unwrap() = only_child();
        send(Signal::SIGSTOP, only_child());
    });
    let hung = executor.execute(ExecuteRequest::new("await tools.inspect(); 1").provider(tools).limits(limits)).await;
    assert_eq!(code(&hung), Some(ErrorCode::Timeout));
    assert!(hung.duration < Duration::from_mins(1), "{:?}", hung.duration);
    let stopped = *stopped.lock().unwrap();
    wait_until("the end of the hung child", || !exists(stopped));
    assert!(run(&executor, "1").await.is_ok());
    end(executor).await;
}

#[tokio::test]
async fn a_command_that_is_not_a_runner_fails_every_execution() {
    let _alone = ALONE.lock().await;
    let shell = |script: &str| RunnerCommand::new("/bin/sh").arg("-c").arg(script);
    for (command, message) in [
        (shell("echo hello; cat > /dev/null"), "the runner sent an invalid message: a line is not JSON"),
        (shell("exit 3"), "the runner ended with exit code 3 before it was done"),
        (shell("exec >&-; cat > /dev/null"), "the runner closed the connection before it was done"),
        (shell("read line; printf '{\"type\"'"), "the runner ended with exit code 0 before it was done"),
        (
            shell("read line; printf '{\"type\"'; exec >&-; cat > /dev/null"),
            "the connection to the runner was cut off in the middle of a message",
        ),
        (RunnerCommand::new("/nowhere/execbox"), "cannot start a runner process \"execbox\": entity not found"),
    ] {
        let executor = ProcessExecutor::builder(command.clone()).pool(PoolOptions::default().max_size(1)).build();
        for _ in 0..3 {
            let result = run(&executor, "1").await;
            let error = result.error().unwrap();
            assert_eq!(error.code, ErrorCode::InternalError);
            assert!(error.message.contains(message) && !error.message.contains("nowhere"), "{command:?}: {error}");
        }
        assert!(executor.prewarm(1).await.is_err());
        end(executor).await;
    }
}

#[tokio::test]
async fn a_child_has_no_environment_and_no_descriptor_of_its_parent() {
    let _alone = ALONE.lock().await;
    // A descriptor that stays open across exec, such as one of a C library.
    let file = tempfile("secret");
    let flags = nix::fcntl::OFlag::O_RDONLY;
    let leaked = nix::fcntl::open(&file, flags, nix::sys::stat::Mode::empty()).unwrap();
    let executor = processes(1).build();
    let found = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let note = Arc::clone(&found);
    let tools = inspect(move || {
        let child = only_child();
        let descriptors = fs::read_dir(format!("/proc/{child}/fd")).unwrap();
        let targets = descriptors.map(|entry| fs::read_link(entry.unwrap().path()).unwrap());
        *note.lock().unwrap() = (fs::read(format!("/proc/{child}/environ")).unwrap(), targets.collect());
        assert_eq!(fs::read_link(format!("/proc/{child}/cwd")).unwrap().to_str(), Some("/"));
    });
    assert!(executor.execute(ExecuteRequest::new("await tools.inspect()").provider(tools)).await.is_ok());
    let (environment, descriptors) = found.lock().unwrap().clone();
    assert_eq!(environment, b"");
    // The descriptors of a runner: its pipes, and those of its runtime and engine.
    let own = |target: &std::path::PathBuf| {
        let target = target.to_string_lossy();
        let kinds = ["pipe:", "anon_inode:", "socket:", "/dev/null", "/memfd:wasm"];
        // The list of its own pages is in a file system that is detached.
        kinds.iter().any(|kind| target.starts_with(kind)) || target.ends_with("/pagemap")
    };
    assert!(descriptors.len() >= 3 && descriptors.iter().all(own), "{descriptors:?}");
    drop(leaked);
    fs::remove_file(file).unwrap();
    end(executor).await;
}

fn tempfile(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("execbox-{name}-{}", std::process::id()));
    fs::File::create(&path).unwrap().write_all(b"secret").unwrap();
    path
}

#[tokio::test]
async fn children_end_when_their_parent_is_killed_even_while_they_compute() {
    let _alone = ALONE.lock().await;
    let mut parent = Command::new(env!("CARGO_BIN_EXE_execbox"))
        .args(["run", "--executor", "process", "--timeout", "10m", "-e", "console.log('ran'); for (;;);"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    assert!(first_line(parent.stderr.take().unwrap()).contains("ran"), "it computes by now");
    let child = children(parent.id())[0];
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the end of the child", || !exists(child));
}

#[tokio::test]
async fn ctrl_c_reaches_the_host_and_not_its_children() {
    let _alone = ALONE.lock().await;
    let mut parent = Command::new(env!("CARGO_BIN_EXE_execbox"))
        .args(["run", "--executor", "process", "--timeout", "10m", "--json", "-e", "console.log('ran'); for (;;);"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut errors = parent.stderr.take().unwrap();
    assert!(first_line(&mut errors).contains("ran"));
    // A terminal sends the signal to the whole process group.
    let group = nix::unistd::Pid::from_raw(parent.id().try_into().unwrap());
    nix::sys::signal::killpg(group, Signal::SIGINT).unwrap();
    let output = parent.wait_with_output().unwrap();
    let result: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["error"]["message"], &result["logs"]), (&json!("Execution was cancelled"), &json!(["ran"])));
}

/// Pools live longer than runtimes: a child is registered with the runtime of each execution.
#[test]
fn an_executor_serves_several_runtimes() {
    let alone = ALONE.blocking_lock();
    let executor = processes(1).build();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime().block_on(run(&executor, "1")).is_ok());
    let first = only_child();
    assert!(runtime().block_on(run(&executor, "1")).is_ok());
    assert_eq!(only_child(), first);
    runtime().block_on(end(executor));
    drop(alone);
}
