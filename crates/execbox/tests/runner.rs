//! The drivers of the runner and of the remote executor with faulty streams: backpressure, closed connections and failed
//! writes. The sessions are tested in `execbox-core`, the messages by the cases of the contract.

use std::io::{self, ErrorKind};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use execbox::code::{CodeExecutionOptions, Status};
use execbox::transport::{Received, StreamTransport, Transport};
use execbox::{
    CommandError, ErrorCode, ExecuteRequest, Executor, Limits, ProcessExecutor, Provider, RemoteExecutor, Runner,
    RunnerCommand, ServeError, Tool,
};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

struct Host {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    runner: JoinHandle<std::io::Result<()>>,
}

/// A runner behind a pipe that holds 1 KiB.
fn host() -> Host {
    let (here, there) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(there);
    let runner = tokio::spawn(async move { Runner::new().unwrap().serve(StreamTransport::new(reader, writer)).await });
    let (reader, writer) = tokio::io::split(here);
    Host { reader: BufReader::new(reader), writer, runner }
}

impl Host {
    async fn execute(&mut self, code: &str, timeout_ms: u32) {
        let echo = json!({ "echo": { "safeName": "echo", "originalName": "echo" } });
        let message = json!({
            "type": "execute", "id": "e", "code": code, "options": { "timeoutMs": timeout_ms },
            "providers": [{ "name": "tools", "tools": echo, "types": "" }]
        });
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Json {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test]
async fn a_host_that_does_not_read_blocks_the_guest_until_its_timeout() {
    let mut host = host();
    host.execute("for (let i = 0; ; i++) { tools.echo('x'.repeat(10_000)); await null }", 2_000).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let mut calls = 0;
    let done = loop {
        let message = host.receive().await;
        match message["type"].as_str() {
            Some("tool_call") => calls += 1,
            Some("done") => break message,
            _ => {}
        }
    };
    assert_eq!(done["error"]["code"], "timeout");
    assert!((50..2000).contains(&calls), "{calls} calls of 10 kB were sent; about a megabyte is buffered");
}

/// Sends `message` until the runner does not read for a while. Returns how many bytes it has read.
async fn send_until_blocked(host: &mut Host, message: &str) -> usize {
    let mut sent = 0;
    let silence = Duration::from_secs(1);
    while let Ok(Ok(())) = tokio::time::timeout(silence, host.writer.write_all(message.as_bytes())).await {
        sent += message.len();
    }
    sent
}

#[tokio::test]
async fn nothing_is_received_from_an_idle_host_that_does_not_read() {
    for message in ["{\"type\":\"hello\",\"runCode\":1}\n", "{\"type\":\"execute\",\"id\":\"a\"}\n"] {
        let mut host = host();
        let sent = send_until_blocked(&mut host, message).await;
        assert!((100_000..4 << 20).contains(&sent), "{message}: {sent} bytes");
        assert!(!host.runner.is_finished(), "{message}: it goes on when the host reads");
        let mut answers = 0;
        while answers < 1 << 20 {
            answers += host.reader.read_line(&mut String::new()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_host_that_does_not_read_while_its_program_runs_is_disconnected() {
    let mut host = host();
    host.execute("await tools.echo()", 600_000).await;
    let again = "{\"type\":\"execute\",\"id\":\"b\",\"code\":\"1\",\"options\":{},\"providers\":[]}\n";
    while host.writer.write_all(again.as_bytes()).await.is_ok() {}
    let error = host.runner.await.unwrap().unwrap_err();
    let source = error.get_ref().and_then(|source| source.downcast_ref::<ServeError>());
    assert!(matches!(source, Some(ServeError::UnreadAnswers(_))), "{error}");
}

#[tokio::test]
async fn a_host_may_send_an_answer_before_it_reads_the_other_calls() {
    let mut host = host();
    // More than a megabyte of calls is unsent while the host writes its first answer.
    let code = "const calls = Array.from({ length: 300 }, () => tools.echo('x'.repeat(10_000)));
                let sum = 0; for (const text of await Promise.all(calls)) sum += text.length; sum";
    host.execute(code, 600_000).await;
    let mut answer = "x".repeat(2_000_000);
    let done = loop {
        let message = host.receive().await;
        match message["type"].as_str() {
            Some("tool_call") => {
                let result = std::mem::take(&mut answer);
                let result =
                    json!({ "type": "tool_result", "callId": message["callId"], "ok": true, "result": result });
                host.writer.write_all(format!("{result}\n").as_bytes()).await.unwrap();
            }
            Some("done") => break message,
            _ => {}
        }
    };
    assert_eq!(done["result"], 2_000_000);
}

#[tokio::test]
async fn a_message_in_endless_parts_does_not_stop_other_tasks_of_the_thread() {
    let mut hosts = [host(), host()];
    for (host, endless) in hosts.iter_mut().zip(["\n", "*0\n"]) {
        let writer = std::mem::replace(&mut host.writer, tokio::io::split(tokio::io::duplex(1).0).1);
        let endless = endless.repeat(1 << 16);
        tokio::spawn(async move {
            let mut writer = writer;
            while writer.write_all(endless.as_bytes()).await.is_ok() {}
        });
    }
    let mut honest = host();
    for _ in 0..100 {
        honest.execute("1", 600_000).await;
        assert_eq!(honest.receive().await["type"], "started");
        assert_eq!(honest.receive().await["result"], 1);
    }
}

#[tokio::test]
async fn the_runner_fails_if_the_stream_ends_inside_a_line() {
    for (bytes, expected) in [(&b"{}\n"[..], None), (b"{\"type\":", Some(ErrorKind::UnexpectedEof))] {
        let mut host = host();
        host.writer.write_all(bytes).await.unwrap();
        host.writer.shutdown().await.unwrap();
        assert_eq!(host.runner.await.unwrap().err().map(|error| error.kind()), expected);
    }
}

#[tokio::test]
async fn pending_messages_are_written_after_the_host_shuts_down_its_side() {
    let mut host = host();
    host.execute("'x'.repeat(100_000)", 600_000).await;
    assert_eq!(host.receive().await["type"], "started");
    assert!(!host.reader.fill_buf().await.unwrap().is_empty(), "the beginning of `done`");
    host.writer.shutdown().await.unwrap();
    assert_eq!(host.receive().await["result"].as_str().map(str::len), Some(100_000));
    assert!(host.runner.await.unwrap().is_ok());
}

/// Returns the error of an execution whose connections run `peer`.
async fn with_peer<F, Fut>(peer: F, timeout_ms: u64) -> (ErrorCode, String)
where
    F: Fn(DuplexStream) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let executor = RemoteExecutor::new(move || {
        let peer = peer.clone();
        async move {
            let (here, there) = tokio::io::duplex(1024);
            tokio::spawn(peer(there));
            let (reader, writer) = tokio::io::split(here);
            Ok(StreamTransport::new(reader, writer))
        }
    });
    let limits = Limits::default().timeout(Duration::from_millis(timeout_ms));
    let started = Instant::now();
    let result = executor.execute(ExecuteRequest::new("1").limits(limits)).await;
    assert!(started.elapsed() < Duration::from_mins(1));
    let error = result.error().unwrap();
    (error.code, error.message.clone())
}

#[tokio::test]
async fn a_closed_invalid_or_silent_connection_ends_the_execution() {
    let gone = with_peer(|_| async {}, 600_000).await;
    assert_eq!(gone, (ErrorCode::InternalError, "the runner closed the connection before it was done".into()));

    let cut_off = |mut peer: DuplexStream| async move {
        peer.write_all(b"{\"type\":\"started\",\"id\"").await.unwrap();
    };
    assert_eq!(with_peer(cut_off, 600_000).await.0, ErrorCode::InternalError);

    let invalid = |mut peer: DuplexStream| async move {
        peer.write_all(b"hello\n").await.unwrap();
        let _ = peer.read_to_end(&mut Vec::new()).await;
    };
    assert_eq!(with_peer(invalid, 600_000).await.0, ErrorCode::InternalError);

    let silent = |mut peer: DuplexStream| async move { drop(peer.read_to_end(&mut Vec::new()).await) };
    assert_eq!(with_peer(silent, 50).await, (ErrorCode::Timeout, "Execution timed out after 50 ms".into()));

    let never_reads = |peer: DuplexStream| async move {
        std::future::pending::<()>().await;
        drop(peer);
    };
    assert_eq!(with_peer(never_reads, 50).await.0, ErrorCode::Timeout);
}

/// A connection whose writes fail. It receives `messages`, last first, and then stays pending.
struct Unwritable {
    messages: Vec<&'static str>,
    fails_at_once: bool,
    id: Option<String>,
}

impl Transport for Unwritable {
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        let message: Json = serde_json::from_slice(&message).unwrap();
        self.id = self.id.take().or_else(|| message["id"].as_str().map(str::to_owned));
        if self.fails_at_once { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(ErrorKind::BrokenPipe.into()))
    }

    fn poll_receive(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Received>> {
        let (Some(id), Some(line)) = (&self.id, self.messages.pop()) else { return Poll::Pending };
        Poll::Ready(Ok(Received::Message(line.replace("ID", id).into_bytes())))
    }
}

#[tokio::test]
async fn a_connection_that_cannot_be_written_to_ends_the_execution_at_once() {
    for fails_at_once in [false, true] {
        let executor =
            RemoteExecutor::new(
                move || async move { Ok(Unwritable { messages: Vec::new(), fails_at_once, id: None }) },
            );
        let limits = Limits::default().timeout(Duration::from_mins(10));
        let result = executor.execute(ExecuteRequest::new("1").limits(limits)).await;
        let error = result.error().unwrap();
        assert_eq!(error.code, ErrorCode::InternalError);
        assert_eq!(error.message, "the connection to the runner failed: broken pipe");
        let options = CodeExecutionOptions::new().timeout(limits.timeout);
        let error = executor.run_code("export default 1", options).await.error.unwrap();
        assert_eq!(error.message, "the connection to the runner failed: broken pipe");
    }
}

#[tokio::test]
async fn a_result_received_before_a_write_fails_is_kept() {
    let executor = RemoteExecutor::new(|| async {
        let done = r#"{"type":"done","id":"ID","ok":true,"durationMs":1,"logs":[],"result":1}"#;
        let call = r#"{"type":"tool_call","callId":"a","providerName":"tools","safeToolName":"nope"}"#;
        Ok(Unwritable { messages: vec![done, call], fails_at_once: true, id: None })
    });
    assert_eq!(executor.execute(ExecuteRequest::new("1")).await.outcome, Ok(Some(json!(1))));
}

#[tokio::test]
async fn a_connection_error_does_not_reveal_the_address() {
    let executor = RemoteExecutor::new(|| async {
        Err::<execbox::transport::CommandTransport, _>(std::io::Error::new(
            ErrorKind::ConnectionRefused,
            "192.0.2.1:4000 with token s3cret",
        ))
    });
    let result = executor.execute(ExecuteRequest::new("1")).await;
    let error = result.error().unwrap();
    assert_eq!(error.message, "cannot connect to the runner: connection refused");
    assert_eq!(error.code, ErrorCode::InternalError);
}

/// The environment and the working directory of a child.
async fn child_of(name: &str, configure: impl Fn(RunnerCommand) -> RunnerCommand) -> String {
    let file = std::env::temp_dir().join(format!("execbox-child-{name}-{}", std::process::id()));
    let command = RunnerCommand::new("/bin/sh").args(["-c", "{ /usr/bin/env; /bin/pwd; } > \"$0\""]).arg(&file);
    let result = ProcessExecutor::new(configure(command)).execute(ExecuteRequest::new("1")).await;
    assert_eq!(result.error().unwrap().code, ErrorCode::InternalError, "a shell is no runner");
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    written
}

#[tokio::test]
async fn a_child_gets_no_environment_and_the_root_directory_by_default() {
    let child = child_of("default", |command| command).await;
    assert!(!child.contains("CARGO_MANIFEST_DIR") && child.ends_with("\n/\n"), "{child}");
}

#[tokio::test]
async fn a_child_gets_the_environment_and_the_directory_of_its_command() {
    let directory = std::env::temp_dir().canonicalize().unwrap();
    let cargo = || std::env::vars_os().filter(|(name, _)| name == "CARGO_MANIFEST_DIR");
    let configure = |command: RunnerCommand| {
        command.env("GREETING", "hi").env("GREETING", "hello").envs(cargo()).current_dir(&directory)
    };
    let child = child_of("configured", configure).await;
    assert!(child.contains("\nGREETING=hello\n") || child.starts_with("GREETING=hello\n"), "{child}");
    assert!(
        child.contains("CARGO_MANIFEST_DIR=") && child.ends_with(&format!("\n{}\n", directory.display())),
        "{child}"
    );
}

#[test]
fn debug_output_of_a_command_hides_the_values_of_its_environment() {
    let text = format!("{:?}", RunnerCommand::new("/bin/runner").env("TOKEN", "s3cret"));
    assert!(text.contains("TOKEN") && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn large_inputs_and_answers_cross_at_once() {
    let executor = RemoteExecutor::new(|| async {
        let (here, there) = tokio::io::duplex(1024);
        let (reader, writer) = tokio::io::split(there);
        tokio::spawn(async move { Runner::new().unwrap().serve(StreamTransport::new(reader, writer)).await });
        let (reader, writer) = tokio::io::split(here);
        Ok(StreamTransport::new(reader, writer))
    });
    let tool = Tool::new("double", async |text: Json, _| Ok(json!(text.as_str().unwrap_or_default().repeat(2))));
    let tools = Provider::builder("tools").tool(tool).build().unwrap();
    for (count, len) in [(20, 400_000), (200, 20_000), (4, 3_000_000)] {
        let code = format!(
            "const calls = Array.from({{ length: {count} }}, () => tools.double('x'.repeat({len})));
             (await Promise.all(calls)).join('').length"
        );
        let limits = Limits::default().timeout(Duration::from_mins(10)).memory_bytes(512 << 20);
        let result = executor.execute(ExecuteRequest::new(code).provider(tools.clone()).limits(limits)).await;
        assert_eq!(result.outcome, Ok(Some(json!(2 * count * len))), "{count} calls of {len} bytes");
    }
}

/// A runner that ends during programs which say so, and returns 1 from every other one.
const ABORTING: &str = r#"
    while read -r line; do
        case $line in
            *'"hello"'*) echo '{"type":"hello","runCode":1}'; continue ;;
            *exhaust*) printf '{"type":"log'; exit 86 ;;
            *crash*) kill -ABRT $$ ;;
        esac
        id=${line#*'"id":"'}
        echo '{"type":"done","id":"'"${id%%'"'*}"'","ok":true,"durationMs":1,"logs":[],"result":1}'
    done
"#;

#[tokio::test]
async fn a_child_that_its_guest_ended_is_replaced_and_its_exit_code_tells_the_memory_limit() {
    let executor = ProcessExecutor::new(RunnerCommand::new("/bin/sh").arg("-c").arg(ABORTING));
    let limits = Limits::default().timeout(Duration::from_mins(1)).memory_bytes(32 << 20);
    let execute = async |code: &str| executor.execute(ExecuteRequest::new(code).limits(limits)).await;
    let error = execute("exhaust").await.outcome.unwrap_err();
    assert_eq!(
        (error.code, &*error.message),
        (ErrorCode::MemoryLimit, "Execution exceeded its memory limit of 32 MiB")
    );
    assert_eq!(execute("1").await.outcome, Ok(Some(json!(1))));
    let error = execute("crash").await.outcome.unwrap_err();
    assert_eq!(
        (error.code, &*error.message),
        (ErrorCode::InternalError, "the runner ended with signal 6 before it was done")
    );
    assert_eq!(execute("1").await.outcome, Ok(Some(json!(1))));

    let run_code = |code| executor.run_code(code, CodeExecutionOptions::new().limits(limits));
    let result = run_code("exhaust").await;
    let error = result.error.unwrap();
    assert_eq!((result.status, &*error.name), (Status::Memory, "MemoryLimitError"));
    assert_eq!(error.message, "The run exceeded its memory limit of 32 MiB");
    let result = run_code("crash").await;
    assert!(result.status == Status::Error && result.error.as_ref().unwrap().is_internal, "{result:?}");
}

/// Children would run `main` again, and so would theirs.
#[test]
fn a_program_that_does_not_serve_cannot_be_its_own_runner() {
    let forgotten = RunnerCommand::this_program().unwrap_err();
    assert!(matches!(forgotten, CommandError::NotServed), "{forgotten:?}");
    assert!(forgotten.to_string().ends_with("call execbox::serve_if_runner() first in main"), "{forgotten}");

    execbox::serve_if_runner();
    assert!(RunnerCommand::this_program().is_ok());
}
