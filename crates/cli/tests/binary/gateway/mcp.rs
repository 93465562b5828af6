//! `execbox mcp`, `tools` and `types`, with the real binary: transcripts, and sessions of an MCP client.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::session::Session;
use crate::support::transcript::{BINARY, Typed, directory, stub_file, text, transcript};
use crate::support::{Signal, children, computes, exists, send, wait_until};
use execbox_mcp::rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use execbox_mcp::rmcp::service::PeerRequestOptions;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

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
        with(&["tools", "--read-only"]),
        with(&["tools", "--namespace", "three"]),
        with(&["types", "one", "--allow", "one.hello"]),
        with(&["types", "server-two"]),
        with(&["types", "one.hello", "server_two.hello"]),
        with(&["types", "one.helo"]),
        with(&["types", "one.goodbye"]),
        Typed::new(&["tools", "--server", "a b=sh fake.sh 'my name'", "--allow", "a_b.hello"]),
        Typed::new(&["run", "--server", "it=sh fake.sh 'my name'", "-e", "await it.hello()"]),
        Typed::new(&[
            "tools",
            "--server",
            "a='npx -y some-server'",
            "--server",
            "b=sh -c 'echo first >&2; echo last >&2; exit 3'",
        ]),
        Typed::new(&["tools", "--server", "late=sh -c 'sleep 4; echo too late >&2'"]),
        with(&["run", "-e", "Object.values(await one.env())"]),
        with(&["run", "-e", "await servertwo.hello()"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn programs_wait_for_the_servers_that_they_name() {
    let dir = directory("mcp-named");
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    for (code, expected) in [("await it.hello()", "\"hello from it\"\n"), ("6 * 7", "42\n")] {
        let mut command = std::process::Command::new(BINARY);
        command.args(["run", "--server", "silent=sh fake.sh silent", "--server", "it=sh fake.sh it", "-e", code]);
        let started = Instant::now();
        let output = command.current_dir(&dir).output().unwrap();
        assert_eq!(text(output.stdout), expected);
        assert!(!text(output.stderr).contains("silent"));
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
    // All are waited for where the name may be computed.
    let mut command = std::process::Command::new(BINARY);
    command.args([
        "run",
        "--server",
        "late=sh -c 'sleep 1; exec sh fake.sh late'",
        "-e",
        "globalThis['la' + 'te'].hello()",
    ]);
    assert_eq!(text(command.current_dir(&dir).output().unwrap().stdout), "\"hello from late\"\n");
}

#[test]
fn a_gateway_on_a_terminal_says_that_it_waits_for_a_client() {
    let dir = directory("mcp-terminal");
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let (_terminal, input) = crate::support::terminal();
    let mut command = std::process::Command::new(BINARY);
    command.args(["mcp", "--server", "it=sh fake.sh it"]).current_dir(&dir).stdin(input).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(stderr).map(Result::unwrap);
    let expected = "execbox: waiting for a client on standard input; Ctrl-C ends the gateway";
    assert!(lines.any(|line| line == expected));
    send(Signal::SIGINT, child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_tools_of_ready_servers_are_listed_while_others_start() {
    let dir = directory("mcp-slow");
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let late = "late=sh -c 'while [ ! -e go ]; do sleep 0.02; done; exec sh fake.sh late'";
    let mut child = Typed::new(&["tools", "--server", "it=sh fake.sh it", "--server", late]).start(&dir);
    let stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(stdout).map(Result::unwrap);
    let of_ready: Vec<_> = lines.by_ref().take(7).collect();
    assert!(of_ready.iter().all(|line| line.starts_with("it.")), "{of_ready:?}");
    fs::write(dir.join("go"), "").unwrap();
    let others: Vec<_> = lines.collect();
    assert!(others.len() == 7 && others.iter().all(|line| line.starts_with("late.")), "{others:?}");
    let stderr = text(child.wait_with_output().unwrap().stderr);
    assert!(stderr.contains("execbox: waiting for \"late\" to start …\n"), "{stderr}");
    assert!(stderr.ends_with("execbox: 14 tools: it 7, late 7\n"), "{stderr}");
}

#[test]
fn every_signature_in_json_is_complete() {
    // The types of envelopes are declared beside the function.
    let dir = shop("mcp-json");
    let servers = fs::read_to_string(dir.join("servers.json")).unwrap();
    let servers = servers.replace("\"command\"", "\"results\": \"envelope\", \"command\"");
    fs::write(dir.join("servers.json"), servers).unwrap();
    let output = Typed::new(&["tools", "--config", "servers.json", "--json"]).output(&dir);
    let tools: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(tools.len(), 13);
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
        mcp(&["--server", "a=b", "--expose", "b.get"]),
        mcp(&["--server", "a=b", "--call-name", "mcp_search_tools"]),
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
        mcp(&["--server", "a=b", "--log-file", "none/log.txt"]),
        mcp(&["--server", "a=b", "--audit-log", "."]),
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

/// `crates/mcp/tests/unreadable-messages.cases` has the messages.
#[test]
fn requests_that_cannot_be_read_are_answered() {
    let dir = directory("mcp-reading");
    fs::write(dir.join("tools.json"), stub_file("shop", "{}")).unwrap();
    let lines = [
        r#"{"jsonrpc":"2.0","id":3,"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"mcp_execute_code","arguments":"{\"code\":\"1\"}"}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"mcp_execute_code","arguments":{"code":"\"a\ud83d\".length"}}}"#,
    ];
    let mut command = std::process::Command::new(BINARY);
    command.args(["mcp", "--tools", "tools.json"]).current_dir(&dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, (lines.join("\n") + "\n").as_bytes()).unwrap();
    // The end of the input would end the program that a busy machine has not finished.
    let answers = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let answers: Vec<Json> = answers.take(4).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    drop(input);
    assert!(child.wait().unwrap().success());
    let answer = |id: &Json| answers.iter().find(|answer| answer["id"] == *id).unwrap();
    assert_eq!(answer(&Json::Null)["error"]["code"], -32700);
    let expected = "invalid params of tools/call: \"arguments\": expected an object, got a string";
    assert_eq!(answer(&json!(5))["error"], json!({ "code": -32602, "message": expected }));
    assert_eq!(answer(&json!(6))["result"]["structuredContent"]["result"], 2);
}

#[tokio::test]
async fn a_client_searches_and_runs_code_over_two_servers() {
    let session = Session::start(&shop("mcp-session"), &["--config", "servers.json"]).await;
    let tools = session.client.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["mcp_search_tools", "mcp_execute_code"]);
    let found = session.call("mcp_search_tools", json!({ "query": "hello" })).await.structured_content.unwrap();
    assert_eq!((&found["total"], &found["tools"][1]["namespace"]), (&json!(2), &json!("server_two")));
    let code = "const [a, b] = await Promise.all([one.hello(), server_two.hello()]);
        return [a, b, typeof server_two.die, typeof gone]";
    let result = session.run(code).await;
    assert_eq!(result["result"], json!(["hello from one", "hello from two", "undefined", "undefined"]));
    let result = session.run("await one.refuse()").await;
    assert_eq!(result["error"]["code"], "validation_error");
    // The transcript has standard error from the start to the end.
    let code = "[Object.values(await one.env()), await one.fail(), await one.refuse().catch(String)]";
    let mut said = format!("{tools:?}{found}{result}{}", session.run(code).await);
    assert!(said.contains("failed with ${TOKEN}") && said.contains("refused with ${TOKEN}"), "{said}");
    let (stderr, code) = session.end().await;
    said += &stderr;
    // The name of a property is not changed.
    assert!(!said.replace(&format!("key_{SECRET}"), "").contains(SECRET), "{said}");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn a_server_that_dies_is_restarted_and_does_not_affect_others() {
    let session = Session::start(&shop("mcp-dies"), &["--config", "servers.json"]).await;
    let result = session.run("await one.die()").await;
    assert_eq!(result["error"]["code"], "tool_error", "{result}");
    let hello = "await server_two.hello()";
    assert_eq!(session.run(hello).await["result"], "hello from two");
    assert_eq!(session.run(&hello.replace("server_two", "one")).await["result"], "hello from one");
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test]
async fn a_cancelled_call_stops_its_code() {
    let arguments = ["--config", "servers.json", "--timeout", "10m"];
    let session = Session::start(&shop("mcp-cancel"), &arguments).await;
    let gateway = session.process.id().unwrap();
    let is_computing = || children(gateway).into_iter().any(computes);
    let arguments = json!({ "code": "for (;;) {}" }).as_object().unwrap().clone();
    let request = CallToolRequestParams::new("mcp_execute_code").with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
    let busy = session.client.send_request_with_option(request, PeerRequestOptions::no_options()).await.unwrap();
    assert_eq!(session.run("1 + 1").await["result"], 2, "beside it");
    wait_until("the start of the code", is_computing);
    busy.cancel(None).await.unwrap();
    wait_until("the end of the code", || !is_computing());
    assert_eq!(session.run("2 + 2").await["result"], 4);
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test]
async fn names_layout_limits_and_executor_are_taken_from_the_command_line() {
    let dir = directory("mcp-options");
    let arguments = ["--layout", "both", "--search-name", "find", "--execute-name", "run", "--timeout", "500ms"];
    for executor in ["inline", "worker", "process"] {
        let tools =
            "{ \"providers\": { \"shop\": { \"tools\": { \"open\": { \"answers\": [{ \"returns\": 7 }] } } } } }";
        fs::write(dir.join("tools.json"), tools).unwrap();
        let arguments = [&arguments[..], &["--tools", "tools.json", "--executor", executor]].concat();
        let session = Session::start(&dir, &arguments).await;
        let tools = session.client.list_all_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["find", "run", "mcp_code"]);
        let result = session.call("run", json!({ "code": "await shop.open()" })).await.structured_content.unwrap();
        assert_eq!(result["result"], 7, "{executor}");
        let result = session.call("run", json!({ "code": "for (;;) {}" })).await.structured_content.unwrap();
        assert_eq!(result["error"]["code"], "timeout", "{executor}");
        assert_eq!(session.end().await.1, Some(0));
    }
}

#[tokio::test]
async fn tools_are_exposed_and_called_without_code() {
    let dir = directory("mcp-exposed");
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let config = json!({
        "mcpServers": { "one": { "command": "sh", "args": ["fake.sh", "one"], "expose": "hello" },
                        "two": { "command": "sh", "args": ["fake.sh", "two"] } },
        "expose": ["two.hello*"],
    });
    fs::write(dir.join("servers.json"), config.to_string()).unwrap();
    let names = async |session: &Session| {
        let tools = session.client.list_all_tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name.into_owned()).collect::<Vec<_>>()
    };
    let session = Session::start(&dir, &["--config", "servers.json", "--layout", "single"]).await;
    session.call("mcp_code", json!({ "code": "await Promise.all([one.hello(), two.hello()])" })).await;
    assert_eq!(names(&session).await, ["mcp_code", "one_hello", "two_hello"]);
    let called = session.call("two_hello", json!({})).await;
    assert_eq!(called.content[0].as_text().unwrap().text, "hello from two");
    session.end().await;

    let options = ["--server", "three=sh fake.sh three", "--layout", "passthrough", "--call-name", "call"];
    let session =
        Session::start(&dir, &[&options[..], &["--expose", "three.hello", "--expose", "*.nothing"]].concat()).await;
    let called = session.call("call", json!({ "tool": "three.hello" })).await;
    assert_eq!(called.content[0].as_text().unwrap().text, "hello from three");
    assert_eq!(names(&session).await, ["mcp_search_tools", "mcp_describe_tools", "call", "three_hello"]);
    let (lines, _) = session.end().await;
    assert!(lines.contains("three: no tool matches \"nothing\""), "{lines}");
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
async fn a_server_that_does_not_answer_delays_searches_by_a_limited_time() {
    let dir = shop("mcp-silent");
    let servers = ["silent=sh fake.sh silent", "gone=/no/such/program", "it=sh fake.sh it"];
    let mut session = Session::start(&dir, &servers.map(|server| ["--server", server]).concat()).await;
    assert_eq!(session.run("await it.hello()").await["result"], "hello from it");
    // Models get the reasons without paths of the host.
    let found = session.call("mcp_search_tools", json!({ "query": "hello" })).await;
    let page = found.structured_content.as_ref().unwrap();
    assert_eq!(page["unavailable"], json!([{ "name": "gone", "reason": "failed to start: program not found" }]));
    assert_eq!(page["starting"], json!({ "count": 1, "names": ["silent"] }));
    let missing = "Not available: `gone`: failed to start: program not found.\n\n\
        1 server is still starting: `silent`. Its tools are not found yet; search again later.";
    let shown = serde_json::to_value(&found.content).unwrap()[0]["text"].to_string();
    assert!(shown.contains(&missing.replace('\n', "\\n")), "{shown}");
    for (code, message) in [
        ("await silent.hello()", "silent is not available: its server is still starting; try again later"),
        ("gone.hello()", "gone is not available: failed to start: program not found"),
    ] {
        assert_eq!(session.run(code).await["error"]["message"], message);
    }
    assert!(session.run("await other.hello()").await["error"]["message"].as_str().unwrap().contains("not defined"));
    session.until_reported("server \"silent\": still starting").await;
    assert_eq!(session.end().await.1, Some(0));
}

/// `initialize` does not wait for the server, which starts after it.
#[tokio::test]
async fn clients_are_answered_while_servers_start_and_code_that_names_one_waits_for_it() {
    let dir = directory("mcp-starting");
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let starting = "it=sh -c 'while [ ! -e go ]; do sleep 0.02; done; exec sh fake.sh it'";
    let session = Session::start(&dir, &["--server", starting]).await;
    assert_eq!(session.run("1 + 1").await["result"], 2);
    let (said, ()) = tokio::join!(session.run("await it.hello()"), async { fs::write(dir.join("go"), "").unwrap() });
    assert_eq!(said["result"], "hello from it");
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test]
async fn the_state_of_running_gateways_is_shown_and_logged() {
    let dir = shop("mcp-status");
    let status = |arguments: &[&str]| {
        let output = std::process::Command::new(BINARY)
            .arg("status")
            .args(arguments)
            .env("XDG_RUNTIME_DIR", &dir)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        (text(output.stdout), text(output.stderr))
    };
    assert_eq!(status(&[]), (String::new(), "execbox: no gateway is running\n".to_owned()));
    let session = Session::start(&dir, &["--config", "servers.json", "--quiet", "--log-file", "gateway.log"]).await;
    session.call("mcp_search_tools", json!({ "query": "hello" })).await; // when all have started
    let pid = session.process.id().unwrap();
    let shown = || status(&[]).0;
    wait_until("the state is published", || shown().contains("server_two  ready     6 tools"));
    let shown = shown();
    assert!(shown.starts_with(&format!("gateway {pid}: standard input and output, running for ")), "{shown}");
    assert!(shown.contains("\n  gone        failed    failed to start: program not found: "), "{shown}");
    let published: Json = serde_json::from_str(&status(&["--json"]).0).unwrap();
    // What of the tools is not used is said, too.
    let note = published[0]["servers"][0]["notes"][0].as_str().unwrap().to_owned();
    assert!(note.starts_with("one: tool \"broken\": inputSchema/type is not used: invalid type"), "{note}");
    assert!(shown.contains(&format!("\n    {note}\n")), "{shown}");
    let server = json!({ "name": "one", "namespace": "one", "state": "ready", "tools": 7, "notes": [note] });
    assert_eq!(published[0]["servers"][0], server);
    let log = || fs::read_to_string(dir.join("gateway.log")).unwrap();
    wait_until("the state is logged", || log().contains("Z server \"one\": 7 tools\n"));
    assert!(log().contains("Z one: started with ${TOKEN}\n") && !log().contains(SECRET), "{}", log());
    let (stderr, _) = session.end().await;
    assert!(!stderr.contains("7 tools"), "quiet: {stderr}");
    assert_eq!(status(&["--json"]).0, "[]\n");

    // A killed gateway removes no file, not even one that it was writing.
    let mut session = Session::start(&dir, &["--config", "servers.json"]).await;
    wait_until("the state is published", || !status(&[]).0.is_empty());
    fs::write(dir.join(format!("execbox/mcp-{}.json5Yq3", session.process.id().unwrap())), "{").unwrap();
    session.process.kill().await.unwrap();
    assert_eq!(status(&["--json"]).0, "[]\n");
    assert_eq!(fs::read_dir(dir.join("execbox")).unwrap().count(), 0);
}

/// There are more programs than an executor runs at once by default, which is at most four.
#[tokio::test]
async fn programs_that_wait_leave_room_for_others() {
    let arguments = ["--server", "it=sh fake.sh it", "--timeout", "10m"];
    let session = Session::start(&shop("mcp-waiting"), &arguments).await;
    let code = json!({ "code": "await it.slow()" }).as_object().unwrap().clone();
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let request = CallToolRequestParams::new("mcp_execute_code").with_arguments(code.clone());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
        let sent = session.client.send_request_with_option(request, PeerRequestOptions::no_options()).await.unwrap();
        waiting.push(sent);
    }
    let processes = || children(session.process.id().unwrap()).len();
    while processes() <= waiting.len() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await; // each has one, beside the server
    }
    assert_eq!(session.run("1 + 1").await["result"], 2);
    assert_eq!(session.end().await.1, Some(0), "although programs are running");
}

#[tokio::test]
async fn calls_of_denied_tools_say_that_they_are_not_allowed() {
    let server = ["--server", "it=sh fake.sh it"];
    let read_only = Session::start(&shop("mcp-read-only"), &[&server[..], &["--read-only"]].concat()).await;
    let error = &read_only.run("await it.hello()").await["error"]["message"];
    assert_eq!(error, "it.hello is not allowed by the configuration");
    let session = Session::start(&shop("mcp-denied"), &[&server[..], &["--deny", "it.hello"]].concat()).await;
    for code in ["await it.hello()", "await it['hello']()", "await it.hello.world()"] {
        let message = session.run(code).await["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.starts_with("it.hello") && message.ends_with(" is not allowed by the configuration"),
            "{message}"
        );
    }
    assert!(session.run("await it.bye()").await["error"]["message"].as_str().unwrap().contains("is not a function"));
}

#[tokio::test]
async fn standard_error_of_servers_is_printed_with_verbose() {
    let arguments = ["--config", "servers.json", "--verbose"];
    let session = Session::start(&shop("mcp-verbose"), &arguments).await;
    session.call("mcp_search_tools", json!({ "query": "hello" })).await; // when all have started
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
    assert_eq!(session.run("await late.hello()").await["result"], "hello from it");
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
        let code = "(await far.mcp_execute_code({ code: 'await one.hello()' })).result";
        let run = Typed::new(&["run", "--config", "far.json", "-e", code]);
        let output = tokio::task::block_in_place(|| run.output(&dir));
        let stderr = text(output.stderr);
        assert_eq!((text(output.stdout).as_str(), output.status.code()), (result, Some(exit)), "{stderr}");
        assert!(!stderr.contains("another"), "{stderr}");
    }
    send(Signal::SIGTERM, process.id().unwrap());
    assert_eq!(process.wait().await.unwrap().code(), Some(0));
}

/// A process with few files has fewer connections, and says which limit was reached by clients.
#[tokio::test(flavor = "multi_thread")]
async fn shortages_of_clients_over_http_are_printed() {
    let dir = shop("mcp-crowd");
    let mut command = Command::new("sh");
    let run =
        "ulimit -n 600; exec \"$0\" mcp --config servers.json --quiet --http 127.0.0.1:0 --max-programs 1 --timers";
    command.args(["-c", run, BINARY]).current_dir(&dir).stderr(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let few = lines.next_line().await.unwrap().unwrap();
    let expected =
        "warning: at most 300 connections instead of 4096: the hard limit of open files is 600 (`ulimit -Hn`)";
    assert_eq!(few, expected);
    let line = lines.next_line().await.unwrap().unwrap();
    let address = line.strip_prefix("execbox: listening on http://").unwrap().strip_suffix("/mcp").unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "busy", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({ "code": "await new Promise((end) => setTimeout(end, 1e6))" });
    let params = json!({ "name": "mcp_execute_code", "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp_execute_code\r\n\r\n{body}"
    );
    let mut connections = Vec::new();
    for _ in 0..40 {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        connections.push(connection);
    }
    // A client has 37 of 75 places.
    let reason = " refused: too many at once of one client; --max-connections allows more";
    while !lines.next_line().await.unwrap().unwrap().ends_with(reason) {}
    process.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_tokens_of_clients_over_http_are_printed() {
    let dir = shop("mcp-token");
    fs::write(dir.join("token"), "s3cret").unwrap();
    let mut command = Command::new(BINARY);
    command.args(["mcp", "--config", "servers.json", "--quiet", "--http", "127.0.0.1:0", "--token-file", "token"]);
    command.current_dir(&dir).stderr(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let address = line.split_once("http://").unwrap().1.strip_suffix("/mcp").unwrap();
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request =
        format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer x\r\nContent-Length: 0\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    while !lines.next_line().await.unwrap().unwrap().ends_with("1 request refused: the token is not valid") {}
    process.kill().await.unwrap();
}

/// The recursion cannot be detected by reading the configuration.
#[test]
fn a_recursive_configuration_is_rejected() {
    let dir = directory("mcp-itself");
    fs::write(dir.join("wrapper.sh"), format!("p=mcp; exec {BINARY} $p --config servers.json")).unwrap();
    let config = json!({ "mcpServers": { "again": { "command": "sh", "args": ["wrapper.sh"] } } });
    fs::write(dir.join("servers.json"), config.to_string()).unwrap();
    let output = Typed::new(&["tools", "--config", "servers.json"]).output(&dir);
    let stdout = text(output.stdout);
    assert!(stdout.contains("again.mcp_execute_code"), "{stdout}{}", text(output.stderr));
}

#[test]
fn configurations_that_are_not_regular_files_are_an_error_at_once() {
    let dir = directory("mcp-fifo");
    nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let output = |args: &[&str]| {
        let output =
            std::process::Command::new(BINARY).args(args).current_dir(&dir).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (args, reason) in [
        (&["tools", "--config", "fifo"][..], "cannot read fifo: is a FIFO; name a regular file"),
        (&["tools", "--config", "/dev/zero"], "cannot read /dev/zero: is a device; name a regular file"),
        (&["tools", "--config", "."], "cannot read .: is a directory"),
        (&["tools", "--tools", "fifo"], "is a FIFO"),
        (&["run", "fifo"], "cannot read fifo: is a FIFO"),
        (&["run-code", "fifo"], "is a FIFO"),
        (&["mcp", "--server", "a=true", "--http", "127.0.0.1:0", "--token-file", "fifo"], "is a FIFO"),
    ] {
        let (code, stderr) = output(args);
        assert!(code == Some(2) && stderr.contains(reason), "{args:?}: {code:?} {stderr}");
    }
}

/// The id of an ordinary user, if this process is root.
fn nobody() -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    (fs::metadata("/proc/self").unwrap().uid() == 0).then_some(65_534)
}

#[tokio::test]
async fn a_process_with_secrets_cannot_be_read_by_other_processes_of_its_user() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = shop("mcp-secrecy");
    let mut command = Command::new(BINARY);
    command.args(["mcp", "--config", "servers.json", "--http", "127.0.0.1:0"]).current_dir(&dir).kill_on_drop(true);
    command.env("EXECBOX_LISTEN_TOKEN", "a-token-of-thirty-two-characters").stdin(Stdio::null()).stderr(Stdio::piped());
    if let Some(uid) = nobody() {
        command.uid(uid).gid(uid);
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("listening") {
            break;
        }
    }
    // Files of a process in `/proc` that belong to root instead of its user cannot be read by the user.
    let pid = child.id().unwrap();
    assert_eq!(fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid(), 0);
    assert_eq!(fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid(), 0);
    // Children of the gateway do not have the token. Until a new process executes its program, it shares the memory of the
    // gateway.
    let program = |id: u32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let started = || children(pid).into_iter().filter(|&child| program(child) != program(pid)).collect::<Vec<_>>();
    let servers = || started().into_iter().filter(|&child| program(child).starts_with(b"sh\0")).count();
    wait_until("the start of both servers", || servers() == 2);
    let environments: Vec<Vec<u8>> =
        started().iter().filter_map(|child| fs::read(format!("/proc/{child}/environ")).ok()).collect();
    let holding = |text: &str| environments.iter().filter(|all| String::from_utf8_lossy(all).contains(text)).count();
    assert_eq!((holding(SECRET), holding("a-token-of")), (2, 0), "{} children", environments.len());
}
