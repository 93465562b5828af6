//! `execbox runner` on standard input and output, line by line.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

struct Runner {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Runner {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_execbox"))
            .arg("runner")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    fn execute(&mut self, id: &str, code: &str, options: &Json) {
        let tool = |name: &str| json!({ "safeName": name, "originalName": name });
        let tools = json!({ "echo": tool("echo"), "hang": tool("hang") });
        let providers = json!([{ "name": "tools", "tools": tools, "types": "" }]);
        let message = json!({ "type": "execute", "id": id, "code": code, "options": options, "providers": providers });
        self.send(&message.to_string());
    }

    fn receive_line(&mut self) -> Option<String> {
        self.output.next().map(Result::unwrap)
    }

    fn receive(&mut self) -> Json {
        let line = self.receive_line().expect("the runner has ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Reads until the `done` of this execution and returns it.
    fn done(&mut self, id: &str) -> Json {
        loop {
            let message = self.receive();
            if message["type"] == "done" && message["id"] == id {
                return message;
            }
        }
    }

    fn end(mut self) -> (Vec<String>, ExitStatus) {
        drop(self.input.take());
        let rest = std::iter::from_fn(|| self.receive_line()).collect();
        (rest, self.child.wait().unwrap())
    }
}

/// A line with its duration set to 3, as in the transcript of the specification, which has no usage.
fn without_duration(line: &str) -> String {
    let (before, rest) = line.split_once("\"durationMs\":").unwrap();
    let (_, after) = rest.split_once(',').unwrap();
    let after = after.split_once(",\"usage\"").map_or(after.to_owned(), |(after, _)| format!("{after}}}"));
    format!("{before}\"durationMs\":3,{after}")
}

#[test]
fn minimal_success_transcript() {
    let mut runner = Runner::start();
    runner.send(r#"{"type":"execute","id":"exec-1","code":"const value = await tools.echo({\"ok\":true}); value.ok","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"providers":[{"name":"tools","tools":{"echo":{"safeName":"echo","originalName":"echo","description":"Echo input"}},"types":"declare namespace tools { ... }"}]}"#);
    assert_eq!(runner.receive_line().unwrap(), r#"{"type":"started","id":"exec-1"}"#);
    assert_eq!(
        runner.receive_line().unwrap(),
        r#"{"type":"tool_call","callId":"call-1","providerName":"tools","safeToolName":"echo","input":{"ok":true}}"#
    );
    runner.send(r#"{"type":"tool_result","callId":"call-1","ok":true,"result":{"ok":true}}"#);
    let done = without_duration(&runner.receive_line().unwrap());
    assert_eq!(done, r#"{"type":"done","id":"exec-1","ok":true,"durationMs":3,"logs":[],"result":true}"#);
    let (rest, status) = runner.end();
    assert!(rest.is_empty() && status.success(), "{rest:?} {status}");
}

#[test]
fn minimal_cancellation_transcript() {
    let mut runner = Runner::start();
    runner.execute("exec-2", "await tools.hang({})", &json!({ "timeoutMs": 10_000 }));
    assert_eq!(runner.receive(), json!({ "type": "started", "id": "exec-2" }));
    assert_eq!(runner.receive()["safeToolName"], "hang");
    runner.send(r#"{"type":"cancel","id":"exec-2"}"#);
    let done = runner.receive();
    assert_eq!((&done["ok"], &done["error"]["code"]), (&json!(false), &json!("timeout")));
}

#[test]
fn sequential_executions_share_no_state() {
    let mut runner = Runner::start();
    for i in 0..50 {
        let id = format!("exec-{i}");
        runner.execute(&id, &format!("globalThis.n = (globalThis.n ?? 0) + 1; console.log({i}); n"), &json!({}));
        let done = runner.done(&id);
        assert_eq!((&done["result"], &done["logs"]), (&json!(1), &json!([i.to_string()])));
    }
}

#[test]
fn a_second_execute_is_rejected_and_the_first_continues() {
    let mut runner = Runner::start();
    runner.execute("first", "(await tools.echo({})).x", &json!({}));
    runner.execute("second", "1", &json!({}));
    let (mut call_id, mut rejected) = (Json::Null, Json::Null);
    while call_id.is_null() || rejected.is_null() {
        let message = runner.receive();
        match message["type"].as_str() {
            Some("tool_call") => call_id = message["callId"].clone(),
            Some("done") => rejected = message,
            _ => assert_eq!((&message["type"], &message["id"]), (&json!("started"), &json!("first"))),
        }
    }
    assert_eq!((&rejected["id"], &rejected["error"]["code"]), (&json!("second"), &json!("internal_error")));
    let result = json!({ "type": "tool_result", "callId": call_id, "ok": true, "result": { "x": 7 } });
    runner.send(&result.to_string());
    assert_eq!(runner.done("first")["result"], 7);
}

#[test]
fn a_loop_is_stopped_by_its_timeout_and_by_a_cancel() {
    let mut runner = Runner::start();
    runner.execute("slow", "for (;;);", &json!({ "timeoutMs": 50 }));
    assert_eq!(runner.done("slow")["error"]["code"], "timeout");
    runner.execute("slower", "for (;;);", &json!({ "timeoutMs": 60_000 }));
    assert_eq!(runner.receive()["type"], "started");
    let started = Instant::now();
    runner.send(r#"{"type":"cancel","id":"slower"}"#);
    assert_eq!(runner.done("slower")["error"]["code"], "timeout");
    assert!(started.elapsed() < Duration::from_mins(1));
}

#[test]
fn invalid_input_is_ignored() {
    let mut runner = Runner::start();
    for line in
        ["", "not json", "[]", "{}", r#"{"type":"nonsense"}"#, r#"{"type":"tool_result"}"#, "\u{2028}", "\0\0\0"]
    {
        runner.send(line);
    }
    runner.input.as_mut().unwrap().write_all(b"\xff\xfe\n").unwrap();
    runner.send(&"[".repeat(1_000_000));
    runner.send(r#"{"type":"execute","id":"bad","code":5}"#);
    assert_eq!(runner.done("bad")["error"]["code"], "internal_error");
    runner.execute("good", "1", &json!({}));
    assert_eq!(runner.done("good")["result"], 1);
}

#[test]
fn input_that_is_not_the_protocol_is_reported_once() {
    for (input, lines) in [
        ("nonsense\nmore nonsense\n\0\n[]\n".to_owned(), 1),
        (format!("{}\n", "[".repeat(1_000_000)), 1),
        ("{\"a\":1}\n[]\n".to_owned(), 1),
        ("{\"type\":\"of a later version\"}\n".to_owned(), 0),
        (String::new(), 0),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_execbox"));
        child.arg("runner").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{errors}");
        assert!(errors.lines().count() == lines && errors.len() < 400, "{errors}");
        if lines > 0 {
            let start = "standard input is not the runner protocol: ";
            assert!(errors.contains(start) && errors.ends_with("; expected a JSON object per line\n"), "{errors}");
        }
    }
}

#[test]
fn large_values_cross_in_both_directions() {
    let mut runner = Runner::start();
    runner.execute("big", "(await tools.echo('x'.repeat(3e6))).length", &json!({ "timeoutMs": 60_000 }));
    assert_eq!(runner.receive()["type"], "started");
    let call = runner.receive();
    assert_eq!(call["input"].as_str().unwrap().len(), 3_000_000);
    runner.send(
        &json!({ "type": "tool_result", "callId": call["callId"], "ok": true, "result": call["input"] }).to_string(),
    );
    assert_eq!(runner.done("big")["result"], 3_000_000);
}

#[test]
fn the_end_of_standard_input_ends_the_runner_and_its_guest() {
    let mut runner = Runner::start();
    runner.execute("endless", "for (;;);", &json!({ "timeoutMs": 600_000 }));
    assert_eq!(runner.receive()["type"], "started");
    let started = Instant::now();
    let (rest, status) = runner.end();
    assert!(rest.is_empty() && status.success(), "{rest:?} {status}");
    assert!(started.elapsed() < Duration::from_mins(1));
}

/// A program that exhausts the memory of its process in one step of native code.
#[cfg(feature = "v8")]
const EXHAUSTS: &str = "new Array(1e9).fill(0)";

#[cfg(feature = "v8")]
const SMALL: u64 = 32 << 20;

#[test]
#[cfg(feature = "v8")]
fn a_process_that_a_program_exhausts_sends_its_end_first() {
    for code in [EXHAUSTS, "'x'.repeat(2e8).split('x')", "structuredClone(['x'.repeat(5e8)])"] {
        let mut runner = Runner::start_with(&["--engine", "v8"]);
        let code = format!("console.log('before'); {code}");
        runner.execute("exec-1", &code, &json!({ "timeoutMs": 60_000, "memoryLimitBytes": SMALL }));
        let done = runner.done("exec-1");
        assert_eq!(done["error"]["code"], "memory_limit", "{done}");
        assert_eq!((&done["exits"], &done["logs"]), (&json!(true), &json!(["before"])), "{done}");
        assert_eq!(done["usage"]["peakMemoryBytes"], SMALL, "{done}");
        assert_eq!(runner.child.wait().unwrap().code(), Some(86));
        assert_eq!(runner.receive_line(), None);
    }
}

#[test]
#[cfg(feature = "v8")]
fn a_process_that_a_program_exhausts_ends_if_its_host_does_not_read() {
    let mut runner = Runner::start_with(&["--engine", "v8"]);
    let code = format!("for (let n = 0; n < 1000; n++) console.log('x'.repeat(1000)); {EXHAUSTS}");
    runner.execute("exec-1", &code, &json!({ "timeoutMs": 60_000, "memoryLimitBytes": SMALL, "maxLogChars": 1 << 20 }));
    // The last message does not fit into the pipe.
    assert_eq!(runner.child.wait().unwrap().code(), Some(86));
    let received = std::iter::from_fn(|| runner.receive_line()).last().unwrap();
    assert!(serde_json::from_str::<Json>(&received).is_err(), "the last message is cut: {} bytes", received.len());
}
