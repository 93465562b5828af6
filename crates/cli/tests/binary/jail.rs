//! The jail of runner processes, and self-tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use execbox::jail::{Layer, Status};
use execbox::{
    CheckOutcome, ErrorCode, ExecuteRequest, Executor, InlineExecutor, Limits, ProcessExecutor, RunnerCommand,
    WorkerExecutor,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use serde_json::{Value as Json, json};

use crate::support::{Signal, send};

const BINARY: &str = env!("CARGO_BIN_EXE_execbox");

/// The engines that are built in.
const ENGINES: &[&str] = if cfg!(feature = "v8") { &["quickjs", "v8"] } else { &["quickjs"] };

/// A field of the status of a process.
fn state(process: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("{field} is not in {status}")).trim().to_owned()
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Executes a program on a runner, and returns its `done`.
fn execute(runner: &mut Child, code: &str) -> Json {
    let message = json!({ "type": "execute", "id": "e", "code": code, "options": {}, "providers": [] });
    writeln!(runner.stdin.as_mut().unwrap(), "{message}").unwrap();
    let mut output = BufReader::new(runner.stdout.take().unwrap());
    let done = loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the runner has ended");
        let message: Json = serde_json::from_str(&line).unwrap();
        if message["type"] == "done" {
            break message;
        }
    };
    runner.stdout = Some(output.into_inner());
    done
}

/// Runs `work` on a thread on which these system calls fail with EPERM, also in processes that the thread starts.
fn without<T: Send + 'static>(calls: &[i64], work: impl FnOnce() -> T + Send + 'static) -> T {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let refuse = SeccompAction::Errno(nix::errno::Errno::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    let refused = move || {
        apply_filter(&filter).unwrap();
        work()
    };
    thread::spawn(refused).join().unwrap()
}

/// Runs `work` as on a machine without user namespaces and Landlock, such as in many containers.
fn in_a_container<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    without(&[libc::SYS_unshare, libc::SYS_landlock_create_ruleset], work)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_kernel_confirms_that_a_runner_process_is_locked() {
    for engine in ENGINES {
        a_runner_process_is_locked(engine);
    }
}

fn a_runner_process_is_locked(engine: &str) {
    let mut runner = start(&["runner", "--jail", "required", "--engine", engine]);
    assert_eq!(execute(&mut runner, "6 * 7")["result"], 42);
    let id = runner.id();
    assert_eq!((state(id, "NoNewPrivs"), state(id, "Seccomp")), ("1".to_owned(), "2".to_owned()));
    for set in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
        assert_eq!(state(id, set), "0".repeat(16), "{set}");
    }
    for namespace in ["user", "net", "ipc", "uts", "mnt"] {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{namespace}")).unwrap();
        assert_ne!(of(&id.to_string()), of("self"), "{namespace}");
    }
    drop(runner.stdin.take());
    assert!(runner.wait().unwrap().success());
}

#[test]
fn a_jail_that_is_off_locks_nothing() {
    let mut runner = start(&["runner", "--jail", "off"]);
    assert_eq!(execute(&mut runner, "6 * 7")["result"], 42);
    assert_eq!((state(runner.id(), "NoNewPrivs"), state(runner.id(), "Seccomp")), ("0".to_owned(), "0".to_owned()));
    drop(runner.stdin.take());
    assert!(runner.wait().unwrap().success());
}

#[test]
fn a_signal_drains_a_locked_runner() {
    let mut runner = start(&["runner"]);
    assert_eq!(execute(&mut runner, "1")["result"], 1);
    send(Signal::SIGTERM, runner.id());
    assert!(runner.wait().unwrap().success());
}

/// The runner can only read from and write to the socket.
#[test]
fn a_locked_runner_talks_over_a_socket() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let streams = [&theirs, &theirs].map(|stream| OwnedFd::from(stream.try_clone().unwrap()));
    let [input, output] = streams.map(Stdio::from);
    let mut command = Command::new(BINARY);
    let mut runner = command.args(["runner", "--jail", "required"]).stdin(input).stdout(output).spawn().unwrap();
    drop((command, theirs));
    let code = "'x'.repeat(1_000_000)";
    let message = json!({ "type": "execute", "id": "e", "code": code, "options": {}, "providers": [] });
    writeln!(&ours, "{message}").unwrap();
    let messages = BufReader::new(&ours).lines().map(|line| serde_json::from_str::<Json>(&line.unwrap()).unwrap());
    let done = messages.into_iter().find(|message| message["type"] == "done").unwrap();
    assert_eq!(done["result"].as_str().map(str::len), Some(1_000_000));
    drop(ours);
    assert!(runner.wait().unwrap().success());
}

#[test]
fn a_locked_runner_reads_programs_from_a_file() {
    let file = std::env::temp_dir().join(format!("execbox-jail-{}.jsonl", std::process::id()));
    let line = json!({ "type": "execute", "id": "e", "code": "6 * 7", "options": {}, "providers": [] });
    // Lines that are ignored, so that the file ends after the program.
    std::fs::write(&file, format!("{line}\n{}", "{}\n".repeat(200_000))).unwrap();
    let command = |file: &Path| {
        let input = std::fs::File::open(file).unwrap();
        Command::new(BINARY).args(["runner", "--verbose"]).stdin(input).output().unwrap()
    };
    let output = command(&file);
    std::fs::remove_file(file).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("system calls           enforced"), "{output:?}");
}

#[test]
fn what_is_missing_is_reported_and_with_required_nothing_runs() {
    let run = |mode: &'static str| {
        in_a_container(move || {
            let mut runner = start(&["runner", "--jail", mode]);
            let done = execute(&mut runner, "6 * 7");
            (done, runner.wait_with_output().unwrap())
        })
    };
    let (done, output) = run("best-effort");
    assert_eq!(done["result"], 42);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("warning: not enforced: user namespace: the system does not permit it (EPERM)\n"), "{said}");
    assert!(said.contains("warning: not enforced: Landlock: "), "{said}");
    assert!(!said.contains("system calls"), "{said}");

    let (done, output) = run("required");
    let error = done["error"]["message"].as_str().unwrap();
    let expected = "the jail is required and incomplete: user namespace: the system does not permit it (EPERM); \
                    allow user namespaces: user.max_user_namespaces above 0";
    assert!(error.contains(expected), "{error}");
    assert!(text(&output.stderr).contains(expected), "{output:?}");
    assert_eq!(output.status.code(), Some(4));
}

/// V8 has no other boundary around its memory.
#[cfg(feature = "v8")]
#[test]
fn v8_requires_system_calls_and_landlock_unless_the_jail_is_off() {
    let run = |mode| ["run", "--engine", "v8", "--jail", mode, "-e", "6 * 7"];
    for calls in [&[libc::SYS_landlock_create_ruleset], &[libc::SYS_seccomp]] {
        let output = without(calls, move || run_without_input(&run("best-effort")));
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(text(&output.stderr).contains("an engine that compiles programs requires this layer"), "{output:?}");
        let output = without(calls, move || run_without_input(&run("off")));
        assert_eq!(text(&output.stdout), "42\n", "{output:?}");
    }
    // Namespaces are often missing in containers.
    let output = without(&[libc::SYS_unshare], move || run_without_input(&run("best-effort")));
    assert_eq!(text(&output.stdout), "42\n", "{output:?}");
}

#[test]
fn a_listening_runner_is_locked_as_far_as_it_can_be() {
    let socket = std::env::temp_dir().join(format!("execbox-jail-{}.sock", std::process::id()));
    let address = format!("unix:{}", socket.display());
    let mut runner = start(&["runner", "--listen", &address, "--jail", "required", "--verbose"]);
    let mut said = String::new();
    let mut errors = BufReader::new(runner.stderr.take().unwrap());
    while !said.contains("listening on") {
        assert_ne!(errors.read_line(&mut said).unwrap(), 0, "{said}");
    }
    for line in
        ["Landlock               enforced (ABI ", "system calls           enforced", "network namespace      enforced"]
    {
        assert!(said.contains(line), "{said}");
    }
    let executors =
        Command::new(BINARY).args(["run", "--executor", &format!("remote={address}"), "-e", "6 * 7"]).output().unwrap();
    assert_eq!(text(&executors.stdout), "42\n");
    send(Signal::SIGTERM, runner.id());
    assert!(runner.wait().unwrap().success());
    // The runner cannot remove files. The next start replaces the file.
    assert!(socket.exists());
    let again = listen_at(&address);
    assert_eq!(state(again.id(), "Seccomp"), "2");
    stop(again);
    std::fs::remove_file(&socket).unwrap();

    let refused =
        in_a_container(|| start(&["runner", "--listen", "tcp:127.0.0.1:0", "--jail", "required"]).wait_with_output());
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(4));
    assert!(
        text(&refused.stderr).starts_with("error: the jail is required and incomplete: user namespace: "),
        "{refused:?}"
    );
}

/// Starts a runner that listens at that address, and waits until it does.
fn listen_at(address: &str) -> Child {
    let mut runner = start(&["runner", "--listen", address]);
    let mut line = String::new();
    BufReader::new(runner.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("execbox: listening on "), "{line}");
    runner
}

fn stop(mut runner: Child) {
    send(Signal::SIGTERM, runner.id());
    assert!(runner.wait().unwrap().success());
}

#[test]
fn a_runner_that_listens_is_in_namespaces_of_its_own_and_starts_no_threads() {
    let socket = std::env::temp_dir().join(format!("execbox-jail-namespaces-{}.sock", std::process::id()));
    let unix = format!("unix:{}", socket.display());
    for address in ["tcp:127.0.0.1:0", "ws://127.0.0.1:0", &unix] {
        let runner = listen_at(address);
        for namespace in ["user", "net", "ipc", "uts", "mnt"] {
            let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{namespace}")).unwrap();
            assert_ne!(of(&runner.id().to_string()), of("self"), "{namespace}");
        }
        assert_eq!(state(runner.id(), "CapPrm"), "0".repeat(16));
        stop(runner);
    }
    std::fs::remove_file(&socket).unwrap();
}

#[test]
fn only_the_unused_socket_file_of_the_same_user_is_replaced() {
    let directory = std::env::temp_dir().join(format!("execbox-jail-socket-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("s");
    let address = format!("unix:{}", path.display());
    let refused = |reason: &str| {
        let output = Command::new(BINARY).args(["runner", "--listen", &address]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(reason), "{output:?}");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "nothing is left behind");
    };
    std::fs::write(&path, "precious").unwrap();
    refused("already exists");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    refused("already exists");
    std::fs::remove_file(&path).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    refused("in use");
    drop(other);
    stop(listen_at(&address));
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        refused("denied");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn other_executors_cannot_be_locked() {
    for arguments in [&["run", "-e", "1", "--jail", "required"][..], &["run-code", "-e", "1", "--jail", "required"]] {
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("--jail required needs --executor process"), "{output:?}");
    }
}

#[tokio::test]
async fn memory_of_a_child_is_bounded_beside_the_memory_limit_of_the_guest() {
    // The guest may use 2 GiB, its process 256 MiB. When that is exhausted, the process has little or no memory for an answer.
    let executor = ProcessExecutor::new(runner().env("MIMALLOC_ARENA_RESERVE", "32MiB").jail_memory(256 << 20));
    let limits = Limits::default().memory_bytes(2 << 30).timeout(Duration::from_mins(10));
    let code = "const all = []; for (;;) all.push(new Array(10_000).fill(all.length))";
    let result = executor.execute(ExecuteRequest::new(code).limits(limits)).await;
    let code = result.error().unwrap().code;
    assert!([ErrorCode::MemoryLimit, ErrorCode::InternalError].contains(&code), "{result:?}");
    assert!(executor.execute(ExecuteRequest::new("1")).await.is_ok(), "another child takes its place");
    executor.close().await;
}

/// The shell has no limits of its own. A child that was taken over may likewise have memory that its limits do not count.
#[tokio::test]
async fn a_child_that_has_more_memory_than_it_may_have_is_ended() {
    let grow = "read request; x=$(head -c 400000000 /dev/zero | tr '\\0' x); sleep 600";
    let child = RunnerCommand::new("/bin/sh").env("PATH", "/usr/bin:/bin").args(["-c", grow]);
    let executor = ProcessExecutor::new(child.jail_memory(64 << 20));
    let limits = Limits::default().timeout(Duration::from_mins(5));
    let result = executor.execute(ExecuteRequest::new("1").limits(limits)).await;
    assert_eq!(result.error().unwrap().code, ErrorCode::MemoryLimit, "{result:?}");
    executor.close().await;
}

#[test]
fn missing_layers_are_named_once_where_programs_run() {
    let run = |arguments: &'static [&'static str]| Command::new(BINARY).args(arguments).output().unwrap();
    let complete = run(&["run", "--executor", "process", "-e", "6 * 7"]);
    assert_eq!((text(&complete.stdout).as_str(), text(&complete.stderr).as_str()), ("42\n", ""));
    for arguments in [
        &["run", "--executor", "process", "-e", "6 * 7"][..],
        &["run-code", "--executor", "process", "-e", "export default 6 * 7"],
        // The server of this gateway ends at once.
        &["mcp", "--server", "ended=true"],
    ] {
        let output = in_a_container(move || run_without_input(arguments));
        let said = text(&output.stderr);
        assert!(output.status.success(), "{output:?}");
        let line = "warning: child processes lack layers of the jail, so a program that takes over its engine is less confined: \
                    user namespace, ";
        assert_eq!(said.matches(line).count(), 1, "{said}");
        assert!(said.contains("Landlock; see `execbox doctor`\n") && !said.contains("system calls"), "{said}");
    }
    let off = in_a_container(move || run(&["run", "--executor", "process", "--jail", "off", "-e", "6 * 7"]));
    assert_eq!((text(&off.stdout).as_str(), text(&off.stderr).as_str()), ("42\n", ""));
}

fn run_without_input(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn runner() -> RunnerCommand {
    RunnerCommand::new(BINARY).arg("runner")
}

#[tokio::test]
async fn every_executor_tests_itself() {
    let executors: [Box<dyn Executor>; 3] = [
        Box::new(InlineExecutor::new().unwrap()),
        Box::new(WorkerExecutor::new().unwrap()),
        Box::new(ProcessExecutor::new(runner())),
    ];
    for executor in executors {
        let report = executor.self_test().await;
        let checks: Vec<&str> = report.checks.iter().map(|check| check.check).collect();
        assert_eq!(
            checks,
            [
                "a program runs",
                "a loop is stopped",
                "an allocation is refused",
                "the jail refuses a file",
                "the jail refuses a socket",
                "the jail refuses a process",
                "the jail refuses a thread",
                "the jail refuses memory",
                "a child that grows is ended"
            ]
        );
        assert_eq!(report.failures().count(), 0, "{report:?}");
        assert!(report.checks[..3].iter().all(|check| check.outcome == CheckOutcome::Passed), "{report:?}");
        if let Some(jail) = &report.jail {
            assert_eq!(jail.status(Layer::SystemCalls), Some(&Status::Enforced));
            assert!(report.checks.iter().all(|check| check.outcome == CheckOutcome::Passed), "{report:?}");
        }
        executor.close().await;
    }
}

#[tokio::test]
async fn a_self_test_says_what_it_could_not_test() {
    let reason = |report: &execbox::SelfTestReport| match &report.checks[3].outcome {
        CheckOutcome::Skipped(reason) => reason.clone(),
        outcome => panic!("{outcome:?}"),
    };
    let off = ProcessExecutor::new(runner().jail(execbox::jail::Mode::Off)).self_test().await;
    assert_eq!(reason(&off), "the jail is off");
    let unknown = ProcessExecutor::new(RunnerCommand::new("/bin/true")).self_test().await;
    assert!(reason(&unknown).starts_with("the runner does not report its jail: "), "{unknown:?}");
    assert_eq!(unknown.failures().count(), 1, "{unknown:?}");
}

#[tokio::test]
async fn a_process_executor_that_requires_the_jail_says_what_is_missing() {
    let executor = ProcessExecutor::new(runner().jail(execbox::jail::Mode::Required));
    assert!(executor.execute(ExecuteRequest::new("1")).await.is_ok());
    executor.close().await;

    let error = in_a_container(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let executor = ProcessExecutor::new(runner().jail(execbox::jail::Mode::Required));
        let result = runtime.block_on(executor.execute(ExecuteRequest::new("1")));
        result.error().unwrap().clone()
    });
    assert_eq!(error.code, ErrorCode::InternalError);
    assert!(error.message.contains("the jail is required and incomplete: user namespace"), "{error}");
}

#[test]
fn the_doctor_reports_executors_and_the_kernel() {
    let doctor = |arguments: &[&str]| Command::new(BINARY).arg("doctor").args(arguments).output().unwrap();
    let output = doctor(&["--json", "--jail", "required"]);
    assert!(output.status.success(), "{output:?}");
    let diagnosis: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(diagnosis["ok"], true);
    assert_eq!(diagnosis["kernel"][0]["name"], "kernel");
    let process = &diagnosis["executors"][2];
    assert_eq!((&process["executor"], &process["checks"][4]["outcome"]), (&json!("process"), &json!("passed")));
    assert_eq!(process["jail"]["layers"][11], json!({ "layer": "system-calls", "status": "enforced" }));

    let listed = text(&doctor(&["--verbose"]).stdout);
    assert!(listed.starts_with("✓ all required limits work\nEngines: quickjs"), "{listed}");
    assert!(listed.contains("Executor: inline\n  ✓ a program runs\n"), "{listed}");
    assert!(listed.contains("\n  – the jail refuses a file: not tested: guests run in this process\n"), "{listed}");
    assert!(listed.contains("\n  ✓ Landlock: enforced (ABI "), "{listed}");
    let colored = text(&doctor(&["--color", "always", "--verbose"]).stdout);
    assert!(colored.starts_with("\x1b[32m✓\x1b[0m all required limits work\n"), "{colored}");

    let verdict = text(&doctor(&[]).stdout);
    let passed =
        listed.matches("\n  ✓ ").count() - process["jail"]["layers"].as_array().unwrap().len() * (ENGINES.len());
    assert_eq!(verdict, format!("✓ all required limits work ({passed} checks passed; `--verbose` lists them)\n"));
}

#[test]
fn the_doctor_fails_if_a_required_layer_is_missing_and_names_the_remedy() {
    let doctor = |mode: &'static str| -> Output {
        in_a_container(move || Command::new(BINARY).args(["doctor", "--jail", mode]).output().unwrap())
    };
    let output = doctor("best-effort");
    // V8 requires Landlock.
    assert_eq!(output.status.code(), Some(i32::from(cfg!(feature = "v8"))), "{output:?}");
    let missing = text(&output.stdout);
    let mark = if cfg!(feature = "v8") { "✗" } else { "–" };
    let landlock = format!("\n  {mark} Landlock: NOT ENFORCED: ");
    assert!(missing.contains(&landlock) && missing.contains("; remedy: use Linux 5.13 or later"), "{missing}");
    assert!(!missing.contains("✓ a program runs") && !missing.contains("not tested"), "{missing}");
    let output = doctor("required");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let incomplete = text(&output.stdout);
    assert!(incomplete.contains("the jail lacks required layers\nExecutor: process\n  ✗ "), "{incomplete}");
}

#[test]
fn a_runner_tests_itself() {
    let mut said = String::new();
    let mut child = start(&["runner", "--self-test"]);
    drop(child.stdin.take());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(said.contains("Executor: process\n") && !said.contains("Executor: inline"), "{said}");
    assert!(said.contains("✓ the jail refuses a socket\n"), "{said}");
}
