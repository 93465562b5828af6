//! `execbox runner --listen`: connections of hosts, with and without tokens, and the signals that stop the runner.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use execbox::transport::{Address, Socket, Token};
use execbox::{ErrorCode, ExecuteRequest, ExecuteResult, Executor, Limits, Provider, RemoteExecutor, Tool};
use serde_json::{Value as Json, json};

use tokio::sync::Notify;

use crate::support::{Signal, send};

struct Listening {
    runner: Child,
    address: Address,
    errors: BufReader<ChildStderr>,
}

/// A runner that listens, started with these arguments.
fn listen(address: &str, more: &[&str]) -> Listening {
    let mut runner = command(&["--listen", address]).args(more).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(runner.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("execbox: listening on ").unwrap_or_else(|| panic!("{line}"));
    Listening { runner, address: address.parse().unwrap(), errors }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_execbox"));
    command.arg("runner").args(arguments).env_remove("EXECBOX_TOKEN").stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

impl Listening {
    fn executor(&self, token: Option<&str>) -> RemoteExecutor {
        RemoteExecutor::with_address(self.address.clone(), token.map(|token| Token::new(token).unwrap()))
    }

    fn end(mut self) -> (ExitStatus, String) {
        let status = self.runner.wait().unwrap();
        let mut said = String::new();
        self.runner.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "standard output is for the protocol");
        self.errors.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.runner.kill();
        let _ = self.runner.wait();
    }
}

/// The path of a socket that no other test uses.
fn path(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("execbox-{}-{count}-{name}", std::process::id()))
}

fn addresses() -> [String; 3] {
    let unix = format!("unix:{}", path("runner.sock").display());
    ["tcp:127.0.0.1:0".into(), "ws://127.0.0.1:0/runner".into(), unix]
}

async fn run(executor: &RemoteExecutor, code: &str) -> ExecuteResult {
    let nap = Tool::new("nap", async |input: Json, _| {
        tokio::time::sleep(Duration::from_millis(input.as_u64().unwrap_or(1))).await;
        Ok(input)
    });
    let tools = Provider::builder("tools").tool(nap).build().unwrap();
    executor.execute(ExecuteRequest::new(code).provider(tools).limits(generous_limits())).await
}

/// Limits that a busy machine does not reach.
fn generous_limits() -> Limits {
    Limits::default().timeout(Duration::from_mins(10))
}

#[tokio::test]
async fn many_hosts_are_served_at_once() {
    for address in addresses() {
        let runner = listen(&address, &[]);
        let executor = runner.executor(None);
        let tasks: Vec<_> = (0..40)
            .map(|i| {
                let executor = executor.clone();
                tokio::spawn(async move { run(&executor, &format!("await tools.nap({i})")).await })
            })
            .collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap().outcome, Ok(Some(json!(i))), "{address}");
        }
    }
}

#[tokio::test]
async fn hosts_beyond_max_connections_wait() {
    let runner = listen("tcp:127.0.0.1:0", &["--max-connections", "1"]);
    let executor = Arc::new(runner.executor(None));
    let started = Instant::now();
    let naps = (0..3).map(|_| run(&executor, "await tools.nap(100)"));
    for result in futures_util::future::join_all(naps).await {
        assert!(result.is_ok(), "{result:?}");
    }
    assert!(started.elapsed() >= Duration::from_millis(300), "one after another");
}

#[tokio::test]
async fn a_runner_with_a_token_serves_only_hosts_that_present_it() {
    let file = path("token");
    fs::write(&file, "s3cret\n").unwrap();
    for address in addresses() {
        let mut runner = listen(&address, &["--token-file", file.to_str().unwrap()]);
        assert!(run(&runner.executor(Some("s3cret")), "1").await.is_ok(), "{address}");
        for (wrong, message) in [
            (None, "the runner requires a token"),
            (Some("secret"), "the runner rejected the token"),
            (Some("s3cret!"), "the runner rejected the token"),
        ] {
            let result = run(&runner.executor(wrong), "1").await;
            let error = result.error().unwrap();
            assert_eq!((error.code, &*error.message), (ErrorCode::InternalError, message), "{address} {wrong:?}");
        }
        let from = if address.starts_with("unix:") { "connection:" } else { "connection from 127.0.0.1:" };
        let mut reported = 0; // in any order: connections are closed beside each other
        while reported < 3 {
            let mut line = String::new();
            runner.errors.read_line(&mut line).unwrap();
            let (first, more) = line.trim_end().split_once("; and ").unwrap_or((line.trim_end(), "0 more"));
            let reasons = [": it presented no token", ": its token is wrong"];
            assert!(first.contains(from) && reasons.iter().any(|reason| first.ends_with(reason)), "{line}");
            reported += 1 + more.strip_suffix(" more").unwrap().parse::<u32>().unwrap();
        }
        assert_eq!(reported, 3, "{address}");
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn run_and_run_code_use_a_remote_runner() {
    let file = path("token");
    fs::write(&file, "s3cret").unwrap();
    for address in addresses() {
        let runner = listen(&address, &["--token-file", file.to_str().unwrap()]);
        let executor = format!("remote={}", runner.address);
        for (command, code) in [("run", "6 * 7"), ("run-code", "export default 6 * 7")] {
            let execbox = || {
                let mut execbox = Command::new(env!("CARGO_BIN_EXE_execbox"));
                execbox.args([command, "-e", code, "--executor", &executor]);
                execbox.env_remove("EXECBOX_TOKEN").env_remove("EXECBOX_REMOTE_TOKEN");
                execbox
            };
            let output = |execbox: &mut Command| {
                let output = execbox.stdin(Stdio::null()).output().unwrap();
                (output.status.code(), String::from_utf8(output.stdout).unwrap())
            };
            let expected = (Some(0), "42\n".to_owned());
            assert_eq!(output(execbox().arg("--token-file").arg(&file)), expected, "{address} {command}");
            assert_eq!(output(execbox().env("EXECBOX_TOKEN", "s3cret")), expected, "{address} {command}");
            let mut with_role = execbox();
            with_role.env("EXECBOX_TOKEN", "wrong").env("EXECBOX_REMOTE_TOKEN", "s3cret");
            assert_eq!(output(&mut with_role), expected, "{address} {command}");
            assert_eq!(output(&mut execbox()).0, Some(4), "{address} {command}: without the token");
            let mut other_role = execbox();
            other_role.env("EXECBOX_LISTEN_TOKEN", "s3cret");
            assert_eq!(output(&mut other_role).0, Some(4), "{address} {command}: with the token of the other role");
        }
    }
    fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn a_runner_without_a_token_accepts_any_token() {
    for address in addresses() {
        let runner = listen(&address, &[]);
        assert!(run(&runner.executor(Some("any")), "1").await.is_ok(), "{address}");
    }
}

#[tokio::test]
async fn sigterm_lets_running_programs_finish_and_starts_no_more() {
    for address in addresses() {
        let runner = listen(&address, &["--drain", "10m"]);
        let executor = runner.executor(None);
        let (called, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, opened) = (Arc::clone(&called), Arc::clone(&gate));
        let wait = Tool::new("wait", move |_: Json, _| {
            tell.notify_one();
            let opened = Arc::clone(&opened);
            async move {
                opened.notified().await;
                Ok(json!("over"))
            }
        });
        let tools = Provider::builder("tools").tool(wait).build().unwrap();
        let execution = ExecuteRequest::new("await tools.wait()").provider(tools).limits(generous_limits());
        let running = executor.clone();
        let running = tokio::spawn(async move { running.execute(execution).await });
        called.notified().await;
        send(Signal::SIGTERM, runner.runner.id());
        let refused = loop {
            let result = run(&executor, "1").await; // the signal is delivered asynchronously
            if let Err(error) = result.outcome {
                break error;
            }
        };
        assert_eq!(refused.code, ErrorCode::InternalError, "{address}");
        gate.notify_one();
        assert_eq!(running.await.unwrap().outcome, Ok(Some(json!("over"))), "{address}");
        let (status, said) = runner.end();
        assert!(status.success() && said.is_empty(), "{address}: {status} {said}");
        if let Some(socket) = address.strip_prefix("unix:") {
            assert!(fs::exists(socket).unwrap(), "a locked runner cannot remove files");
            fs::remove_file(socket).unwrap();
        }
    }
}

#[tokio::test]
async fn sigterm_cancels_programs_after_the_drain_time() {
    let runner = listen("tcp:127.0.0.1:0", &["--drain", "100ms"]);
    let executor = runner.executor(None);
    let began = Arc::new(Notify::new());
    let tell = Arc::clone(&began);
    let execution = ExecuteRequest::new("console.log('began'); for (;;);").limits(generous_limits());
    let execution = execution.on_log(move |_| tell.notify_one());
    let running = tokio::spawn(async move { executor.execute(execution).await });
    began.notified().await;
    let started = Instant::now();
    send(Signal::SIGTERM, runner.runner.id());
    let result = running.await.unwrap();
    let error = result.error().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::InternalError, "the runner is shutting down"));
    assert_eq!(result.logs, ["began"]);
    assert!(runner.end().0.success() && started.elapsed() < Duration::from_mins(1));
}

#[test]
fn sigterm_ends_a_runner_on_standard_input_after_its_program() {
    let mut runner = Command::new(env!("CARGO_BIN_EXE_execbox"))
        .args(["runner", "--drain", "200ms"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = runner.stdin.take().unwrap();
    writeln!(
        input,
        r#"{{"type":"execute","id":"a","code":"for(;;);","options":{{"timeoutMs":60000}},"providers":[]}}"#
    )
    .unwrap();
    let mut output = BufReader::new(runner.stdout.take().unwrap()).lines();
    assert!(output.next().unwrap().unwrap().contains("started"));
    send(Signal::SIGTERM, runner.id());
    let done: Json = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
    assert_eq!((&done["id"], &done["error"]["code"]), (&json!("a"), &json!("internal_error")));
    assert!(runner.wait().unwrap().success());
}

#[test]
fn requests_of_web_pages_are_rejected() {
    let runner = listen("ws://127.0.0.1:0", &[]);
    let Socket::Tcp(authority) = runner.address.socket() else { panic!() };
    for (header, status) in [("Origin: https://example.com\r\n", "403"), ("", "101")] {
        let mut stream = TcpStream::connect(authority).unwrap();
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{header}\r\n"
        )
        .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes(), "{header}");
    }
}

#[tokio::test]
async fn invalid_input_does_not_affect_other_connections() {
    for address in addresses() {
        let runner = listen(&address, &[]);
        let invalid = b"GET / HTTP/1.0\r\n\r\n\xff\xfe{\"type\":\n".repeat(100);
        match runner.address.socket() {
            Socket::Tcp(authority) => {
                let _ = TcpStream::connect(authority).unwrap().write_all(&invalid);
            }
            Socket::Unix(path) => {
                let _ = std::os::unix::net::UnixStream::connect(path).unwrap().write_all(&invalid);
            }
            other => panic!("{other:?}"),
        }
        assert!(run(&runner.executor(None), "1").await.is_ok(), "{address}");
    }
}

#[test]
fn a_socket_is_private_and_does_not_replace_other_files() {
    let path = path("owned.sock");
    let address = format!("unix:{}", path.display());
    let first = listen(&address, &[]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let second = command(&["--listen", &address]).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(second.status.code() == Some(2) && said.contains("address in use"), "{said}");

    // The socket of a killed runner is replaced.
    send(Signal::SIGKILL, first.runner.id());
    drop(first);
    assert!(fs::exists(&path).unwrap());
    drop(listen(&address, &[]));
    fs::remove_file(&path).unwrap();

    fs::write(&path, "precious").unwrap();
    let refused = command(&["--listen", &address]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
}

#[test]
fn invalid_options_are_named() {
    let empty = path("empty");
    fs::write(&empty, " \n").unwrap();
    let empty = empty.to_str().unwrap();
    for (arguments, expected) in [
        (&["--listen", "7000"][..], "error: invalid value '7000' for '--listen <ADDRESS>': "),
        (
            &["--listen", "tcp:0.0.0.0:0"],
            "error: --listen: 0.0.0.0:0 is reachable from other machines; use 127.0.0.1 or [::1], or require a token",
        ),
        (
            &["--listen", "tcp:127.0.0.1:0", "--token-file", "/nowhere"],
            "error: --token-file /nowhere: no such file or directory",
        ),
        (
            &["--listen", "tcp:127.0.0.1:0", "--token-file", empty],
            "expected 1 to 1024 visible ASCII characters without spaces",
        ),
        (
            &["--listen", "unix:/nowhere/x.sock"],
            "error: --listen: cannot listen on /nowhere/x.sock: no such file or directory\n",
        ),
        (&["--drain", "soon"], "error: invalid value 'soon' for '--drain <TIME>': "),
        (
            &["--listen", "tcp:127.0.0.1:0", "--max-connections", "-1"],
            "error: invalid value '-1' for '--max-connections <COUNT>': ",
        ),
    ] {
        let output = command(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{said}");
    }
    fs::remove_file(empty).unwrap();
}
