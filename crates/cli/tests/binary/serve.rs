//! `execbox serve`: the conversations of `execbox-serve` with the binary, MCP servers, sockets, and how it ends.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};

use crate::docs::page::root;
use crate::support::transcript::{BINARY, Typed, directory, transcript};
use crate::support::{Signal, children, exists, send, wait_until};

/// A service on standard input and output.
struct Service {
    process: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("serve").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        let mut service = Self { process, input, output: BufReader::new(output).lines() };
        service.request(0, "initialize", &json!({ "protocolVersion": 1 }));
        service
    }

    fn send(&mut self, id: u64, method: &str, params: &Json) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next message.
    fn receive(&mut self) -> Json {
        let line = self.output.next().expect("the service has ended").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request and returns its result, the next message.
    fn request(&mut self, id: u64, method: &str, params: &Json) -> Json {
        self.send(id, method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    /// Closes standard input and returns the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.process.wait().unwrap().code()
    }
}

/// Every conversation with every executor, by the script for authors of clients and services.
#[test]
fn conversations_are_the_same_with_every_executor() {
    let dir = directory("serve-conversations");
    let socket = format!("unix:{}", dir.join("runner").display());
    let mut runner = Command::new(BINARY);
    let runner = runner.args(["runner", "--listen", &socket]).stderr(Stdio::piped());
    let mut runner = runner.spawn().unwrap();
    BufReader::new(runner.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
    let conformance = root().join("crates/serve/conformance");
    let files = fs::read_dir(&conformance).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "conversation")).collect();
    let remote = format!("remote={socket}");
    for executor in ["process", "inline", "worker", remote.as_str()] {
        let mut play = Command::new("python3");
        play.arg(conformance.join("play")).args(&files).arg(root().join("docs/embedding-other-languages.md"));
        let output = play.args(["--", BINARY, "serve", "--executor", executor]).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, "7 of 7 conversations passed\n", "{executor}: {:?}", String::from_utf8(output.stderr));
    }
    runner.kill().unwrap();
    runner.wait().unwrap();
}

/// A conversation that does not go as it is written fails.
#[test]
fn the_script_sees_what_differs() {
    let dir = directory("serve-script");
    let begins = r#"→ {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}"#;
    for (number, expected) in [
        r#"← {"jsonrpc": "2.0", "id": 2, "result": "…"}"#,
        r#"← {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}"#,
        r#"← {"jsonrpc": "2.0", "id": 1, "result": "…", "error": "…"}"#,
        "← *300 7",
    ]
    .into_iter()
    .enumerate()
    {
        let file = dir.join(format!("{number}.conversation"));
        fs::write(&file, format!("{begins}\n{expected}\n")).unwrap();
        let mut play = Command::new("python3");
        play.arg(root().join("crates/serve/conformance/play")).arg(&file);
        let output = play.args(["--", BINARY, "serve"]).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && printed.contains("line 2"), "{expected}: {printed}");
        assert!(printed.ends_with("0 of 1 conversations passed\n"), "{printed}");
    }
}

#[test]
fn servers_of_the_configuration_are_granted_by_name() {
    let shop = format!("shop={}", Path::new(BINARY).with_file_name("shop").display());
    let mut service = Service::start(&["--server", &shop, "--server", "broken=/nonexistent/server"]);
    let servers = service.request(1, "servers", &json!({}));
    let [shop, broken] = [&servers["servers"][0], &servers["servers"][1]];
    assert!(shop["types"].as_str().unwrap().contains("namespace shop") && shop.get("problem").is_none(), "{servers}");
    assert!(broken["problem"].as_str().unwrap().contains("broken") && broken.get("types").is_none(), "{servers}");
    let code = "(await shop.get_order({ order_id: 1620 })).status";
    let result = service.request(
        2,
        "execute",
        &json!({ "code": code, "providers": ["shop"], "limits": { "timeoutMs": 60000 } }),
    );
    assert_eq!(result["result"], "shipped", "{result}");
    service.send(3, "execute", &json!({ "code": "1", "providers": ["broken"] }));
    let error = service.receive()["error"]["message"].to_string();
    assert!(error.contains("params.providers: server \\\"broken\\\" cannot be granted"), "{error}");
    let result = service.request(4, "execute", &json!({ "code": "await broken.tool()" }));
    assert!(result["error"]["message"].as_str().unwrap().contains("broken is not available"), "{result}");
    assert_eq!(service.end(), Some(0));
}

#[test]
fn each_connection_of_a_socket_is_an_application_of_its_own() {
    for executor in ["inline", "process"] {
        let dir = directory(&format!("serve-socket-{executor}"));
        let path = dir.join("socket");
        let mut service = Command::new(BINARY);
        service.args(["serve", "--executor", executor, "--listen", &format!("unix:{}", path.display())]);
        let mut service = service.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(service.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("execbox: listening on unix:"), "{line}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "only for its owner");
        let connect = || {
            let stream = UnixStream::connect(&path).unwrap();
            (stream.try_clone().unwrap(), BufReader::new(stream).lines())
        };
        let (mut first, mut of_first) = connect();
        let (mut second, mut of_second) = connect();
        for stream in [&mut first, &mut second] {
            let initialize =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
            writeln!(stream, "{initialize}").unwrap();
        }
        let tools = json!({ "name": "t", "tools": [{ "name": "f" }] });
        writeln!(first, "{}", json!({ "jsonrpc": "2.0", "id": 2, "method": "add_provider", "params": tools })).unwrap();
        let execute = json!({ "code": "typeof t", "providers": [1] });
        let execute = json!({ "jsonrpc": "2.0", "id": 3, "method": "execute", "params": execute }).to_string();
        writeln!(first, "{execute}").unwrap();
        let last = of_first.by_ref().map(Result::unwrap).find(|line| line.contains("\"id\":3")).unwrap();
        assert!(last.contains("\"result\":\"object\""), "{last}");
        writeln!(second, "{execute}").unwrap();
        let last = of_second.by_ref().map(Result::unwrap).find(|line| line.contains("\"id\":3")).unwrap();
        assert!(last.contains("provider 1 does not exist"), "{last}");
        drop((first, of_first));
        writeln!(
            second,
            "{}",
            json!({ "jsonrpc": "2.0", "id": 4, "method": "execute", "params": { "code": "6 * 7" } })
        )
        .unwrap();
        assert!(of_second.next().unwrap().unwrap().contains("\"result\":42"));
        send(Signal::SIGTERM, service.id());
        assert_eq!(service.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn an_inline_service_is_locked_before_its_first_message() {
    let mut service = Service::start(&["--executor", "inline"]);
    let status = fs::read_to_string(format!("/proc/{}/status", service.process.id())).unwrap();
    assert!(status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"), "{status}");
    assert_eq!(service.request(1, "execute", &json!({ "code": "6 * 7" }))["result"], 42);
    // The limits of the programs bound the memory of the process, which has many.
    let limits = fs::read_to_string(format!("/proc/{}/limits", service.process.id())).unwrap();
    let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert_eq!(data.split_whitespace().nth(3), Some("unlimited"), "{data}");
    assert_eq!(service.end(), Some(0));
}

#[test]
fn a_killed_service_and_a_killed_application_leave_nothing() {
    let mut service = Service::start(&["--max-programs", "2"]);
    for id in 1..4 {
        let code = "console.log(1); for (;;);";
        let params = json!({ "code": code, "events": ["log"], "limits": { "timeoutMs": 600_000 } });
        service.send(id, "execute", &params);
    }
    for _ in 0..2 {
        assert_eq!(service.receive()["params"]["type"], "log");
    }
    let runners = children(service.process.id());
    assert_eq!(runners.len(), 2, "the third program waits");
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    wait_until("the runners end with the service", || !runners.iter().any(|runner| exists(*runner)));

    // What is left of an application that was killed is the end of its pipes.
    let mut service = Service::start(&[]);
    service.send(1, "execute", &json!({ "code": "console.log(1); for (;;);", "events": ["log"] }));
    service.receive();
    let runners = children(service.process.id());
    assert_eq!(service.end(), Some(0));
    wait_until("the runners end with the application", || !runners.iter().any(|runner| exists(*runner)));
}

#[test]
fn help_and_bad_input() {
    let dir = directory("serve-help");
    let commands = [
        Typed::new(&["serve", "--help"]),
        Typed::new(&["serve", "--listen", "tcp:127.0.0.1:0"]),
        Typed::new(&["serve", "--executor", "inline", "--server", "shop=shop"]),
        Typed::new(&["serve", "--executor", "inline", "--engine", "auto"]),
        Typed::new(&["serve", "--max-programs", "0"]),
        Typed::new(&["serve", "--config", "missing.json"]),
        Typed::new(&["serve"]).stdin("hello\n"),
        Typed::new(&["serve"]).stdin("*300\nhello\n"),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}
