//! `--ask`: calls wait for `execbox approvals`, or for the user of a terminal, and decisions are recorded.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::session::Session;
use crate::support::transcript::{BINARY, directory, text};
use crate::support::wait_until;
use execbox_mcp::rmcp::service::{RoleClient, Service};
use nix::pty::PtyMaster;
use serde_json::{Value as Json, json};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

/// A directory with a server `one`, whose entry has these keys, too.
pub(super) fn shop(name: &str, keys: Json) -> PathBuf {
    let dir = directory(name);
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let mut server = json!({ "command": "sh", "args": ["fake.sh", "one"], "env": { "TOKEN": "plain" } });
    let Json::Object(keys) = keys else { panic!("keys are an object") };
    server.as_object_mut().unwrap().extend(keys);
    fs::write(dir.join("servers.json"), json!({ "mcpServers": { "one": server } }).to_string()).unwrap();
    dir
}

pub(super) fn approvals(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("approvals").args(arguments).env("XDG_RUNTIME_DIR", dir).output().unwrap()
}

/// The calls that wait for approval.
pub(super) fn pending(dir: &Path) -> Vec<Json> {
    let output = approvals(dir, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The id of the only call that waits for approval, as soon as there is one.
pub(super) fn only_pending(dir: &Path) -> String {
    wait_until("a call waits", || pending(dir).len() == 1);
    pending(dir)[0]["id"].as_str().unwrap().to_owned()
}

/// Runs a program, and calls `decide` on another thread meanwhile.
pub(super) async fn run_with<C: Service<RoleClient>>(
    session: &Session<C>,
    code: &str,
    decide: impl FnOnce() + Send + 'static,
) -> Json {
    let (result, decided) = tokio::join!(session.run(code), tokio::task::spawn_blocking(decide));
    decided.unwrap();
    result
}

#[tokio::test]
async fn calls_wait_for_an_approval() {
    let dir = shop("approvals", json!({}));
    let arguments = ["--config", "servers.json", "--ask", "one.h*", "--audit-log", "audit.jsonl", "--timeout", "30s"];
    let session = Session::start(&dir, &arguments).await;
    let pid = session.process.id().unwrap();

    let here = dir.clone();
    let approved = run_with(&session, "await one.hello({ n: 1 })", move || {
        let id = only_pending(&here);
        let listed = text(approvals(&here, &[]).stdout);
        assert!(listed.starts_with(&format!("{pid}.1  one.hello  ")) && listed.ends_with("  {\"n\":1}\n"), "{listed}");
        let shown = text(approvals(&here, &["show", &id]).stdout);
        let expected = "A program wants to call one.hello (its server does not state whether it changes something) with:\n\
                        \n{\n  \"n\": 1\n}\n\nLine 1 of the program: await one.hello({ n: 1 })\n";
        assert_eq!(shown, expected);
        let decided = approvals(&here, &["approve", &id]);
        assert_eq!((text(decided.stderr), decided.status.code()), (format!("execbox: {id} approved\n"), Some(0)));
    });
    assert_eq!(approved.await["result"], "hello from one");

    let here = dir.clone();
    let code =
        "try { await one.hello({ n: 2 }) } catch (error) { return [error.message, await one.fail().catch(String)] }";
    let refused = run_with(&session, code, move || {
        let id = only_pending(&here);
        assert_eq!(id, format!("{pid}.2"), "an id is not used twice");
        assert_eq!(approvals(&here, &["approve", &format!("{pid}.1")]).status.code(), Some(2));
        assert_eq!(approvals(&here, &["deny", &id, "--reason", "not today"]).status.code(), Some(0));
    });
    assert_eq!(
        refused.await["result"],
        json!(["one.hello failed: not approved: not today", "Error: one.fail failed: failed with plain"])
    );

    let save = "await snippets.save({ name: 'greet', code: '\\nawait one.hello({ n: 3 })' })";
    assert_eq!(session.run(save).await["ok"], true);
    let here = dir.clone();
    let greeting = "await snippets.greet()";
    run_with(&session, greeting, move || _ = approvals(&here, &["approve", &only_pending(&here)])).await;

    for list in [&[][..], &["list"]] {
        assert_eq!(text(approvals(&dir, list).stderr), "execbox: no call waits for approval\n");
    }
    let (stderr, code) = session.end().await;
    assert_eq!(code, Some(0));
    assert!(stderr.contains(&format!("warning: one.hello waits for approval: execbox approvals approve {pid}.1\n")));
    assert_eq!(fs::read_dir(dir.join("execbox")).unwrap().count(), 0, "the socket is removed");
    let unknown = approvals(&dir, &["approve", &format!("{pid}.2")]);
    assert!(text(unknown.stderr).contains("no call with the id"), "the gateway has ended");

    let log = fs::read_to_string(dir.join("audit.jsonl")).unwrap();
    let records: Vec<Json> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decisions: Vec<_> = records.iter().map(|record| (&record["tool"], &record["decision"])).collect();
    assert_eq!(
        json!(decisions),
        json!([
            ["one.hello", "approved"],
            ["one.hello", "refused"],
            ["one.fail", "allowed"],
            ["one.hello", "approved"]
        ])
    );
    let lines = [&records[0]["lines"], &records[3]["lines"], &records[3]["linesOfFunctions"]];
    assert_eq!(json!(lines), json!([[1], [], { "snippets.greet": [2] }]));
    assert_eq!((&records[0]["arguments"], &records[1]["reason"]), (&json!({ "n": 1 }), &json!("not today")));
}

#[tokio::test]
async fn calls_are_decided_by_tool_together_and_for_later() {
    let dir = shop("approvals-tools", json!({}));
    let options = ["--config", "servers.json", "--ask", "one.*", "--ask", "one.nam", "--always-allow", "one.gone_*"];
    let mut session = Session::start(&dir, &[&options[..], &["--timeout", "30s"]].concat()).await;
    let unmatched = ["--ask: no tool matches \"one.nam\"", "--always-allow: no tool matches \"one.gone_*\""];
    session.until_reported(&unmatched.map(|line| format!("execbox: {line}\n")).concat()).await;
    let code = "const said = (call) => call.then((text) => text, (error) => error.message);
        return await Promise.all([said(one.hello()), said(one.hello()), said(one.fail())])";

    // Questions of one program come one after another.
    let here = dir.clone();
    let decided = run_with(&session, code, move || {
        only_pending(&here);
        let other = approvals(&here, &["approve", "--tool", "one.delete_*"]);
        let expected =
            "error: no call of \"one.delete_*\" waits for approval; `execbox approvals` lists those that do\n";
        assert_eq!((text(other.stderr), other.status.code()), (expected.to_owned(), Some(2)));
        for _ in 0..2 {
            let id = only_pending(&here);
            assert_eq!(approvals(&here, &["approve", "--tool", "one.h*"]).status.code(), Some(0));
            wait_until("the call is decided", || pending(&here).iter().all(|call| call["id"] != id));
        }
        only_pending(&here);
        assert_eq!(approvals(&here, &["deny", "--all", "--reason", "enough"]).status.code(), Some(0));
    });
    let failed = "one.fail failed: not approved: enough";
    assert_eq!(decided.await["result"], json!(["hello from one", "hello from one", failed]));

    let here = dir.clone();
    let later = run_with(&session, "[await one.hello(), await one.hello()]", move || {
        assert_eq!(approvals(&here, &["approve", &only_pending(&here), "--later"]).status.code(), Some(0));
    });
    assert_eq!(later.await["result"], json!(["hello from one", "hello from one"]));
    assert_eq!(session.run("await one.hello()").await["result"], "hello from one", "the next program is not asked");
    assert_eq!(text(approvals(&dir, &["approve", "--all"]).stderr), "execbox: no call waits for approval\n");
    assert_eq!(approvals(&dir, &["approve"]).status.code(), Some(2), "nothing is selected");
    session.end().await;
}

#[tokio::test]
async fn waiting_calls_are_shown_as_they_arrive() {
    let dir = shop("approvals-watch", json!({}));
    let session = Session::start(&dir, &["--config", "servers.json", "--ask", "one.*", "--timeout", "30s"]).await;
    let mut command = Command::new(BINARY);
    command.args(["approvals", "watch", "--json"]).env("XDG_RUNTIME_DIR", &dir).stdout(Stdio::piped());
    let mut watch = command.stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    let mut shown = BufReader::new(watch.stdout.take().unwrap());
    let here = dir.clone();
    let results = run_with(&session, "[await one.hello({ n: 1 }), await one.hello({ n: 2 })]", move || {
        for n in 1..=2 {
            let mut line = String::new();
            shown.read_line(&mut line).unwrap();
            let call: Json = serde_json::from_str(&line).unwrap();
            assert_eq!((&call["tool"], &call["arguments"]), (&json!("one.hello"), &json!(format!("{{\"n\":{n}}}"))));
            assert_eq!(approvals(&here, &["approve", call["id"].as_str().unwrap()]).status.code(), Some(0));
        }
        watch.kill().unwrap();
        watch.wait().unwrap();
    });
    assert_eq!(results.await["result"], json!(["hello from one", "hello from one"]));
    session.end().await;
}

#[tokio::test]
async fn calls_are_decided_at_the_terminal_as_they_arrive() {
    let dir = shop("approvals-watch-terminal", json!({}));
    let session = Session::start(&dir, &["--config", "servers.json", "--ask", "one.*", "--timeout", "30s"]).await;
    let (mut terminal, mut watch) = on_terminal(&dir, &["approvals", "watch"]);
    let code = "const said = (call) => call.catch((error) => error.message);
        return [await said(one.hello({ n: 1 })), await said(one.fail()), await one.hello(), await one.hello()]";
    let here = dir.clone();
    let results = run_with(&session, code, move || {
        let question = type_at(&mut terminal, "l = later: ", "s");
        assert!(question.contains("A program wants to call one.hello"), "{question}");
        for answer in ["y", "n", "a"] {
            type_at(&mut terminal, "l = later: ", answer);
        }
        wait_until("the last answer is sent", || pending(&here).is_empty());
        watch.kill().unwrap();
        watch.wait().unwrap();
    });
    let refused = "one.fail failed: not approved: the user refused the call";
    assert_eq!(results.await["result"], json!(["hello from one", refused, "hello from one", "hello from one"]));
    session.end().await;
}

#[tokio::test]
async fn configurations_select_tools_and_a_program_that_ends_withdraws_its_question() {
    let dir = shop("approvals-config", json!({ "ask": "destructive", "alwaysAllow": ["hello"] }));
    let session = Session::start(&dir, &["--config", "servers.json", "--approval-timeout", "100ms"]).await;
    assert_eq!(session.run("await one.hello()").await["result"], "hello from one");
    let late = session.run("await one.fail()").await;
    assert_eq!(late["error"]["message"], "one.fail failed (line 1): not approved: no answer within 100ms");
    assert!(pending(&dir).is_empty());
    assert_eq!(session.end().await.1, Some(0));
}

/// Some requests to the socket are endless, slow, or invalid.
#[tokio::test]
async fn hostile_requests_do_not_keep_others_from_deciding() {
    let dir = shop("approvals-hostile", json!({ "ask": ["all"] }));
    let session = Session::start(&dir, &["--config", "servers.json", "--timeout", "10m"]).await;
    let here = dir.clone();
    let result = run_with(&session, "await one.hello()", move || {
        let id = only_pending(&here);
        let socket = here.join(format!("execbox/mcp-{}.sock", id.split_once('.').unwrap().0));
        let silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let long = vec![b'x'; 100_000];
        for request in [&b"{\"decide\":{\"id\":\"1.1\"}}\n"[..], b"[]\n", b"\n", b"\xff\n", &long] {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let _ = stream.write_all(request);
            let mut response = String::new();
            let _ = BufReader::new(stream).read_line(&mut response);
            assert!(matches!(&*response, "" | "\"unknown\"\n"), "{response}");
        }
        assert_eq!(approvals(&here, &["approve", &id]).status.code(), Some(0));
        drop(silent);
    });
    assert_eq!(result.await["result"], "hello from one");
    assert_eq!(session.end().await.1, Some(0));
}

/// Starts execbox with a terminal that is its controlling terminal.
pub(super) fn on_terminal(dir: &Path, arguments: &[&str]) -> (PtyMaster, std::process::Child) {
    let (terminal, input) = crate::support::terminal();
    let mut command = Command::new("setsid");
    command.args(["--ctty", BINARY]).args(arguments).current_dir(dir).env("XDG_RUNTIME_DIR", dir);
    let child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    (terminal, child)
}

/// Types an answer when the terminal shows this prompt. Returns what it has shown.
pub(super) fn type_at(terminal: &mut PtyMaster, prompt: &str, answer: &str) -> String {
    let shown = until_shown(terminal, prompt);
    terminal.write_all(format!("{answer}\n").as_bytes()).unwrap();
    shown
}

/// Waits until the terminal shows this prompt. Returns what it has shown.
pub(super) fn until_shown(terminal: &mut PtyMaster, prompt: &str) -> String {
    let (mut shown, mut byte) = (Vec::new(), [0]);
    while !shown.ends_with(prompt.as_bytes()) {
        terminal.read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    text(shown)
}

#[test]
fn the_user_of_a_terminal_is_asked() {
    let dir = shop("approvals-terminal", json!({}));
    let code = "const ask = (n) => one.hello({ n }).catch((error) => error.message); [await ask(1), await ask(2), await ask(3)]";
    let refused = "one.hello failed: not approved: the user refused the call";
    for (options, answers, expected) in [
        (&[][..], &["y", "huh?", "n", "y"][..], ["hello from one", refused, "hello from one"]),
        (&[], &["a"], ["hello from one"; 3]),
        (&[], &["q"], [refused; 3]),
        (&["--ask-once"], &["y", "a"], ["hello from one"; 3]),
    ] {
        let run = ["run", "--config", "servers.json", "--ask", "all", "-e", code];
        let (mut terminal, mut child) = on_terminal(&dir, &[&run[..], options].concat());
        for answer in answers {
            type_at(&mut terminal, "q = no further call: ", answer);
        }
        let mut result = String::new();
        child.stdout.take().unwrap().read_to_string(&mut result).unwrap();
        assert_eq!(serde_json::from_str::<Json>(&result).unwrap(), json!(expected), "{answers:?}");
        child.wait().unwrap();
    }
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let dir = shop("approvals-nobody", json!({}));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(["run", "--config", "servers.json", "-e", "await one.hello()"]).args(arguments).current_dir(&dir);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), text(output.stderr))
    };
    let (code, stderr) = run(&["--ask", "writes", "--audit-log", "audit.jsonl"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("not approved: there is no terminal to ask at"), "{stderr}");
    assert!(fs::read_to_string(dir.join("audit.jsonl")).unwrap().contains("\"decision\":\"refused\""));
    assert_eq!(run(&["--ask", "all", "--always-allow", "one.*"]).0, Some(0));
    for (arguments, expected) in [
        (
            &["--ask", "two.x"][..],
            "invalid --ask \"two.x\": expected destructive, writes, all or SERVER.TOOL, where SERVER is one of one",
        ),
        (
            &["--ask", "destrctive"],
            "invalid --ask \"destrctive\": expected destructive, writes, all or SERVER.TOOL, where SERVER is one of one; did you mean destructive?",
        ),
        (&["--always-allow", "x"], "invalid --always-allow \"x\": expected SERVER.TOOL, where SERVER is one of one"),
        (&["--audit-log", "."], "--audit-log .: not a file"),
    ] {
        let (code, stderr) = run(arguments);
        assert_eq!((code, stderr.trim_end()), (Some(2), &*format!("error: {expected}")));
    }
}

#[tokio::test]
async fn all_of_a_call_is_shown_and_hidden_characters_are_escaped() {
    let dir = shop("approvals-hidden", json!({}));
    let arguments = ["--config", "servers.json", "--ask", "all", "--audit-log", "audit.jsonl", "--timeout", "30s"];
    let session = Session::start(&dir, &arguments).await;
    let here = dir.clone();
    let code = "const n = 'x\u{9b}31m\u{202e}\u{2028}'; await one.hello({ n, long: 'ab'.repeat(20_000) + 'END' })";
    let result = run_with(&session, code, move || {
        let id = only_pending(&here);
        let question = pending(&here)[0]["question"].as_str().unwrap().to_owned();
        assert!(question.contains(" of 40003 characters not shown … \"") && question.contains("bEND\""), "{question}");
        let shown = text(approvals(&here, &["show", &id]).stdout);
        assert!(shown.contains(&format!("\"long\": \"{}END\"", "ab".repeat(20_000))));
        assert!(shown.contains(r#""n": "x\u009b31m\u202e\u2028""#));
        assert_eq!(approvals(&here, &["show", "1.1"]).status.code(), Some(2));
        assert_eq!(approvals(&here, &["approve", &id]).status.code(), Some(0));
    });
    assert_eq!(result.await["result"], "hello from one");
    let code = "await one.hello({ n: 'x\u{9b}31m\u{202e}\u{2028}\u{e0041}' })";
    let here = dir.clone();
    run_with(&session, code, move || _ = approvals(&here, &["approve", &only_pending(&here)])).await;
    let log = fs::read_to_string(dir.join("audit.jsonl")).unwrap();
    let last = log.lines().last().unwrap();
    assert!(last.contains(r"x\u009b31m\u202e\u2028\udb40\udc41"), "{last}");
    let record: Json = serde_json::from_str(last).unwrap();
    assert_eq!(record["arguments"]["n"], "x\u{9b}31m\u{202e}\u{2028}\u{e0041}");
    assert_eq!(session.end().await.1, Some(0));
}

/// The record fails on a full disk, and in a log that has reached its limit.
#[test]
fn a_call_that_cannot_be_recorded_is_not_made() {
    let dir = shop("approvals-full", json!({}));
    let log = File::create(dir.join("audit.jsonl")).unwrap();
    log.set_len(1 << 30).unwrap(); // a sparse file
    let mut command = Command::new(BINARY);
    command.args(["run", "--config", "servers.json", "-e", "await one.hello()", "--audit-log", "audit.jsonl"]);
    let output = command.current_dir(&dir).stdin(Stdio::null()).output().unwrap();
    assert!(text(output.stderr).contains("not allowed: the decision could not be recorded"));
    assert_eq!((output.status.code(), log.metadata().unwrap().len()), (Some(1), 1 << 30));
}

/// The server gets the arguments as the program passes them.
#[test]
fn secrets_in_arguments_are_not_recorded() {
    let dir = shop("approvals-secrets", json!({ "env": { "API_KEY": "ghp_A1b2C3d4e5F6" } }));
    let code = "await one.hello({ key: 'ghp_A1b2C3d4e5F6', ghp_A1b2C3d4e5F6: 'ghp_A1b2C3d4e5F6x' })";
    let mut command = Command::new(BINARY);
    command.args(["run", "--config", "servers.json", "-e", code, "--audit-log", "audit.jsonl"]);
    let output = command.current_dir(&dir).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(output.stderr));
    let record: Json = serde_json::from_str(&fs::read_to_string(dir.join("audit.jsonl")).unwrap()).unwrap();
    let expected = json!({ "key": "${API_KEY}", "ghp_A1b2C3d4e5F6": "ghp_A1b2C3d4e5F6x" });
    assert_eq!(record["arguments"], expected);
}
