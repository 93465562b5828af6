//! `execbox mcp`, `tools` and `types`, with the real binary: transcripts, and sessions of an MCP client.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use execbox_mcp::rmcp::model::{CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest};
use execbox_mcp::rmcp::service::{PeerRequestOptions, RoleClient, RunningService, ServiceExt as _};
use serde_json::{Value as Json, json};
use support::transcript::{BINARY, Typed, directory, stub_file, text, transcript};
use support::{Signal, children, exists, send, wait_until};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

const SECRET: &str = "s3cr3t-A1b2C3d4";

/// A directory with the fake server and a configuration of two instances of it and one server that does not exist.
fn shop(name: &str) -> PathBuf {
    let dir = directory(name);
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let config = json!({ "mcpServers": {
        "one": { "command": "sh", "args": ["fake.sh", "one"], "env": { "TOKEN": SECRET } },
        "server-two": { "command": "sh", "args": ["fake.sh", "two"], "env": { "TOKEN": SECRET }, "deny": ["die", "delete_*"] },
        "gone": { "command": "/nonexistent/server", "args": [SECRET] },
        "itself": { "command": "execbox", "args": ["mcp", "--config", "servers.json"] },
        "off": { "command": "x", "disabled": true }
    } });
    fs::write(dir.join("servers.json"), config.to_string()).unwrap();
    dir
}

#[test]
fn help() {
    let dir = directory("mcp-help");
    let typed = |words: &str| Typed::new(&words.split(' ').collect::<Vec<_>>());
    let commands = ["mcp -h", "mcp --help", "tools --help", "types --help"].map(typed);
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn tools_and_types() {
    let dir = shop("mcp-tools");
    let config = ["--config", "servers.json"];
    let with = |words: &[&str]| Typed::new(&[&words[..1], &config, &words[1..]].concat());
    let commands = [
        with(&["tools"]),
        with(&["tools", "fail"]),
        with(&["tools", "hello", "--namespace", "server_two", "--json"]),
        with(&["tools", "--limit", "3", "--allow", "one.h*", "--deny", "server-two.h*"]),
        with(&["tools", "--deny", "*.*"]),
        with(&["tools", "--namespace", "three"]),
        with(&["types", "one", "--allow", "one.hello"]),
        with(&["types", "server-two"]),
        Typed::new(&["tools", "--server", "a b=sh fake.sh 'my name'", "--allow", "a_b.hello"]),
        Typed::new(&["run", "--server", "it=sh fake.sh 'my name'", "-e", "(await it.hello()).content[0].text"]),
        Typed::new(&[
            "tools",
            "--server",
            "a='npx -y some-server'",
            "--server",
            "b=sh -c 'echo first >&2; echo last >&2; exit 3'",
        ]),
        Typed::new(&["tools", "--server", "late=sh -c 'sleep 4; echo too late >&2'"]),
        with(&["run", "-e", "(await one.env()).content[0].text.includes('TOKEN=${TOKEN}')"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn every_signature_in_json_is_complete() {
    let output = Typed::new(&["tools", "--config", "servers.json", "--json"]).output(&shop("mcp-json"));
    let tools: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(tools.len(), 11);
    for tool in tools {
        assert!(tool["signature"].as_str().unwrap().contains("type Content = {"), "{tool}");
    }
}

#[test]
fn bad_input() {
    let dir = directory("mcp-bad");
    for (name, text) in [
        ("array.json", "[]"),
        ("words.json", "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"npx\", \"args\": \"-y a\" }\n  }\n}"),
        ("none.json", "{ \"mcpServers\": {} }"),
        ("off.json", "{ \"mcpServers\": { \"execbox\": { \"command\": \"execbox\", \"args\": [\"mcp\"] } } }"),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    fs::write(dir.join("tools.json"), stub_file("shop", "{}")).unwrap();
    let mcp = |words: &[&str]| Typed::new(&[&["mcp"], words].concat());
    let commands = [
        mcp(&[]),
        mcp(&["--config", "missing.json"]),
        mcp(&["--config", "array.json"]),
        mcp(&["--config", "words.json"]),
        mcp(&["--config", "none.json"]),
        mcp(&["--config", "off.json"]),
        mcp(&["--server", "npx -y a"]),
        mcp(&["--server", "a="]),
        mcp(&["--server", "a=npx 'b"]),
        mcp(&["--server", "a=ftp://x/"]),
        mcp(&["--server", "a=execbox mcp"]),
        mcp(&["--server", "my-a=b", "--allow", "b.*"]),
        mcp(&["--deny", "b.*"]),
        mcp(&["--server", "a=b", "--layout", "double"]),
        mcp(&["--server", "a=b", "--search-name", "find it"]),
        mcp(&["--server", "a=b", "--search-name", "mcp_code"]),
        mcp(&["--server", "a=b", "--executor", "cloud"]),
        mcp(&["--server", "a=b", "--executor", "remote=unix:none.sock", "--executor-token-file", "token.txt"]),
        mcp(&["--server", "a=b", "--timeout", "soon"]),
        mcp(&["--server", "a=b", "--token-file", "token.txt"]),
        mcp(&["--server", "a=b", "--http", "127.0.0.1:0", "--token-file", "token.txt"]),
        mcp(&["--server", "a=b", "--http", "0.0.0.0:0"]),
        mcp(&["--server", "a=b", "--http", "nowhere"]),
        mcp(&["--server", "a=b", "--http", "127.0.0.1:0", "--allow-origin", "example.com/x"]),
        mcp(&["--server", "shop=b", "--tools", "tools.json"]),
        Typed::new(&["tools"]),
        Typed::new(&["tools", "--server", "a=b", "--limit", "all"]),
        Typed::new(&["types"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

/// One variable must not be both the token of clients and the token of the runner.
#[test]
fn a_token_variable_without_a_role_is_rejected_where_two_tokens_are_read() {
    let arguments = ["mcp", "--server", "a=b", "--http", "127.0.0.1:0", "--executor", "remote=unix:none.sock"];
    for (variables, is_ambiguous) in [
        (&["EXECBOX_TOKEN"][..], true),
        (&["EXECBOX_TOKEN", "EXECBOX_LISTEN_TOKEN"], false),
        (&["EXECBOX_TOKEN", "EXECBOX_REMOTE_TOKEN"], false),
        (&["EXECBOX_LISTEN_TOKEN", "EXECBOX_REMOTE_TOKEN"], false),
        (&[], false),
    ] {
        let mut command = std::process::Command::new(BINARY);
        // An invalid host is reported after the tokens are read, and before anything is started.
        command.args(arguments).args(["--allow-host", "not a host"]);
        for name in ["EXECBOX_TOKEN", "EXECBOX_LISTEN_TOKEN", "EXECBOX_REMOTE_TOKEN"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().map(|name| (name, "s3cret"))).output().unwrap();
        let stderr = text(output.stderr);
        assert_eq!(output.status.code(), Some(2), "{variables:?}: {stderr}");
        let expected = if is_ambiguous { "EXECBOX_TOKEN is ambiguous" } else { "--http: invalid host \"not a host\"" };
        assert!(stderr.contains(expected), "{variables:?}: {stderr}");
    }
}

#[test]
fn status_is_printed_at_the_start_and_the_end_of_input_ends_the_server() {
    let dir = shop("mcp-start");
    let commands = [
        Typed::new(&["mcp", "--config", "servers.json"]),
        Typed::new(&["mcp", "--config", "servers.json", "--quiet"]),
        Typed::new(&["mcp", "--config", "servers.json"]).stdin("invalid\n{\"also\": 1}\n\n"),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

/// `execbox mcp` and an MCP client.
struct Session {
    client: RunningService<RoleClient, ()>,
    process: Child,
}

impl Session {
    async fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("mcp").args(arguments).current_dir(dir).kill_on_drop(true);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let streams = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
        let client = ().serve(streams).await.unwrap();
        Self { client, process }
    }

    async fn call(&self, name: &str, arguments: Json) -> CallToolResult {
        let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.client.call_tool(CallToolRequestParams::new(name.to_owned()).with_arguments(arguments)).await.unwrap()
    }

    async fn run(&self, code: &str) -> Json {
        self.call("mcp_execute_code", json!({ "code": code })).await.structured_content.unwrap()
    }

    /// Closes the connection. Returns standard error and the exit code.
    async fn end(self) -> (String, Option<i32>) {
        self.client.cancel().await.unwrap();
        let output = self.process.wait_with_output().await.unwrap();
        (text(output.stderr), output.status.code())
    }
}

#[tokio::test]
async fn a_client_searches_and_runs_code_over_two_servers() {
    let session = Session::start(&shop("mcp-session"), &["--config", "servers.json"]).await;
    let tools = session.client.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["mcp_search_tools", "mcp_execute_code", "mcp_code"]);
    let found = session.call("mcp_search_tools", json!({ "query": "hello" })).await.structured_content.unwrap();
    assert_eq!((&found["total"], &found["tools"][1]["namespace"]), (&json!(2), &json!("server_two")));
    let code = "const [a, b] = await Promise.all([one.hello(), server_two.hello()]);
        return [a.content[0].text, b.content[0].text, typeof server_two.die, typeof gone]";
    let result = session.run(code).await;
    assert_eq!(result["result"], json!(["hello from one", "hello from two", "undefined", "undefined"]));
    let result = session.run("await one.refuse()").await;
    assert_eq!(result["error"]["code"], "validation_error");
    // Standard error from the start to the end.
    let code = "[await one.env(), await one.fail(), await one.refuse().catch(String)]";
    let mut said = format!("{tools:?}{found}{result}{}", session.run(code).await);
    assert!(said.contains("failed with ${TOKEN}") && said.contains("refused with ${TOKEN}"), "{said}");
    let (stderr, code) = session.end().await;
    said += &stderr;
    assert!(!said.contains(SECRET), "{said}");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn a_server_that_dies_is_restarted_and_does_not_affect_others() {
    let session = Session::start(&shop("mcp-dies"), &["--config", "servers.json"]).await;
    let result = session.run("await one.die()").await;
    assert_eq!(result["error"]["code"], "tool_error", "{result}");
    let hello = "(await server_two.hello()).content[0].text";
    assert_eq!(session.run(hello).await["result"], "hello from two");
    assert_eq!(session.run(&hello.replace("server_two", "one")).await["result"], "hello from one");
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test]
async fn a_cancelled_call_stops_its_code() {
    let arguments = ["--config", "servers.json", "--timeout", "10m"];
    let session = Session::start(&shop("mcp-cancel"), &arguments).await;
    let runner = children(session.process.id().unwrap());
    let arguments = json!({ "code": "for (;;) {}" }).as_object().unwrap().clone();
    let request = CallToolRequestParams::new("mcp_execute_code").with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
    let busy = session.client.send_request_with_option(request, PeerRequestOptions::no_options()).await.unwrap();
    assert_eq!(session.run("1 + 1").await["result"], 2, "beside it");
    busy.cancel(None).await.unwrap();
    assert_eq!(session.run("2 + 2").await["result"], 4);
    assert!(!runner.is_empty());
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test]
async fn names_layout_limits_and_executor_are_taken_from_the_command_line() {
    let dir = directory("mcp-options");
    let arguments = ["--layout", "split", "--search-name", "find", "--execute-name", "run", "--timeout", "500ms"];
    for executor in ["inline", "worker", "process"] {
        let tools =
            "{ \"providers\": { \"shop\": { \"tools\": { \"open\": { \"answers\": [{ \"returns\": 7 }] } } } } }";
        fs::write(dir.join("tools.json"), tools).unwrap();
        let arguments = [&arguments[..], &["--tools", "tools.json", "--executor", executor]].concat();
        let session = Session::start(&dir, &arguments).await;
        let tools = session.client.list_all_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["find", "run"]);
        let result = session.call("run", json!({ "code": "await shop.open()" })).await.structured_content.unwrap();
        assert_eq!(result["result"], 7, "{executor}");
        let result = session.call("run", json!({ "code": "for (;;) {}" })).await.structured_content.unwrap();
        assert_eq!(result["error"]["code"], "timeout", "{executor}");
        assert_eq!(session.end().await.1, Some(0));
    }
}

#[tokio::test]
async fn signals_end_the_server_and_its_children() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut session = Session::start(&shop("mcp-signals"), &["--config", "servers.json"]).await;
        assert_eq!(session.run("1").await["result"], 1);
        let id = session.process.id().unwrap();
        let children = children(id);
        assert!(children.len() >= 3, "two servers and a runner: {children:?}");
        send(signal, id);
        assert_eq!(session.process.wait().await.unwrap().code(), Some(0));
        wait_until("the end of the children", || !children.iter().any(|&child| exists(child)));
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_delays_the_start_by_a_limited_time() {
    let dir = shop("mcp-silent");
    let session = Session::start(&dir, &["--server", "silent=sh fake.sh silent", "--server", "it=sh fake.sh it"]).await;
    assert_eq!(session.run("(await it.hello()).content[0].text").await["result"], "hello from it");
    let (stderr, code) = session.end().await;
    assert!(stderr.contains("server \"silent\": still starting"), "{stderr}");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn standard_error_of_servers_is_printed_with_verbose() {
    let arguments = ["--config", "servers.json", "--verbose"];
    let session = Session::start(&shop("mcp-verbose"), &arguments).await;
    let (stderr, _) = session.end().await;
    assert!(stderr.contains("execbox: server_two: started with ${TOKEN}\n"), "{stderr}");
}

#[tokio::test]
async fn clients_are_notified_of_a_server_that_starts_late() {
    let dir = directory("mcp-later");
    let session = Session::start(&dir, &["--server", "late=sh late.sh it"]).await;
    assert_eq!(session.run("typeof late").await["result"], "undefined");
    fs::copy(FAKE, dir.join("late.sh")).unwrap();
    while session.run("typeof late").await["result"] == "undefined" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(session.run("(await late.hello()).content[0].text").await["result"], "hello from it");
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_connect_over_http() {
    let dir = shop("mcp-http");
    fs::write(dir.join("token.txt"), "a-token-of-some-length\n").unwrap();
    let mut command = Command::new(BINARY);
    command.args(["mcp", "--config", "servers.json", "--quiet", "--http", "127.0.0.1:0", "--token-file", "token.txt"]);
    let mut process = command.current_dir(&dir).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("the address line");
        if let Some(url) = line.strip_prefix("execbox: listening on ") {
            break url.to_owned();
        }
    };
    // Execbox is a client, too.
    for (token, result, exit) in [("a-token-of-some-length", "\"hello from one\"\n", 0), ("another", "", 1)] {
        let headers = json!({ "Authorization": format!("Bearer {token}") });
        let far = json!({ "mcpServers": { "far": { "url": url, "headers": headers, "results": "unwrapped" } } });
        fs::write(dir.join("far.json"), far.to_string()).unwrap();
        let code = "(await far.mcp_execute_code({ code: '(await one.hello()).content[0].text' })).result";
        let run = Typed::new(&["run", "--config", "far.json", "-e", code]);
        let output = tokio::task::block_in_place(|| run.output(&dir));
        let stderr = text(output.stderr);
        assert_eq!((text(output.stdout).as_str(), output.status.code()), (result, Some(exit)), "{stderr}");
        assert!(!stderr.contains("another"), "{stderr}");
    }
    send(Signal::SIGTERM, process.id().unwrap());
    assert_eq!(process.wait().await.unwrap().code(), Some(0));
}

/// Reading the configuration does not show the recursion.
#[test]
fn a_recursive_configuration_is_rejected() {
    let dir = directory("mcp-itself");
    fs::write(dir.join("wrapper.sh"), format!("p=mcp; exec {BINARY} $p --config servers.json")).unwrap();
    let config = json!({ "mcpServers": { "again": { "command": "sh", "args": ["wrapper.sh"] } } });
    fs::write(dir.join("servers.json"), config.to_string()).unwrap();
    let output = Typed::new(&["tools", "--config", "servers.json"]).output(&dir);
    let stdout = text(output.stdout);
    assert!(stdout.contains("again.mcp_code"), "{stdout}{}", text(output.stderr));
}
