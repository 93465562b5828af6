//! `execbox mcp --clients`: clients over HTTP with tokens of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::transcript::{BINARY, Typed, directory, text, transcript};
use crate::support::wait_until;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

/// A gateway with the servers `one` and `my-two`, and the clients `ann` and `ben`.
struct Gateway {
    dir: PathBuf,
    url: String,
    lines: Lines<BufReader<ChildStderr>>,
    _process: Child,
}

/// A file with two clients.
fn clients() -> Json {
    json!({ "clients": {
        "ann": { "token": "${ANN_TOKEN}", "servers": ["one"], "limits": { "timeout": "20s" } },
        "ben": { "tokenFile": "ben.token", "servers": ["my-two"], "deny": ["my-two.e*"] }
    } })
}

fn prepare(name: &str) -> PathBuf {
    let dir = directory(name);
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let server = |name: &str| json!({ "command": "sh", "args": ["fake.sh", name] });
    let servers = json!({ "mcpServers": { "one": server("one"), "my-two": server("my-two") } });
    fs::write(dir.join("servers.json"), servers.to_string()).unwrap();
    private(&dir, "clients.json", &clients().to_string());
    private(&dir, "ben.token", "token-of-ben-0123\n");
    dir
}

/// Writes a file that only this user can read.
fn private(dir: &Path, name: &str, content: &str) {
    fs::write(dir.join(name), content).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o600)).unwrap();
}

impl Gateway {
    async fn start(name: &str, arguments: &[&str]) -> Self {
        let dir = prepare(name);
        let mut command = tokio::process::Command::new(BINARY);
        command.args(["mcp", "--config", "servers.json", "--http", "127.0.0.1:0", "--clients", "clients.json"]);
        command.args(arguments).current_dir(&dir).env("XDG_RUNTIME_DIR", &dir).env("ANN_TOKEN", "token-of-ann-0123");
        let mut process = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut gateway = Self { dir, url: String::new(), lines, _process: process };
        gateway.url = gateway.until_reported("listening on ").await;
        gateway
    }

    /// Waits for a line of standard error. Returns what follows this text in it.
    async fn until_reported(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.next_line().await.unwrap().expect("a further line");
            if let Some((_, rest)) = line.split_once(text) {
                return rest.to_owned();
            }
        }
    }

    /// Runs a program as the client with this token. Execbox is the client.
    fn run(&self, token: &str, code: &str) -> Output {
        let headers = json!({ "Authorization": format!("Bearer {token}") });
        let far = json!({ "mcpServers": { "far": { "url": self.url, "headers": headers, "results": "envelope" } } });
        fs::write(self.dir.join("far.json"), far.to_string()).unwrap();
        let code = format!(
            "const {{ ok, result, error }} = (await far.mcp_execute_code({{ code: {} }})).structuredContent; \
             return ok ? result : error.message",
            json!(code)
        );
        Typed::new(&["run", "--config", "far.json", "-e", &code]).output(&self.dir)
    }

    /// The result of a program.
    fn result(&self, token: &str, code: &str) -> Json {
        let output = tokio::task::block_in_place(|| self.run(token, code));
        let stdout = text(output.stdout);
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{}", text(output.stderr)))
    }
}

const ANN: &str = "token-of-ann-0123";
const BEN: &str = "token-of-ben-0123";

#[test]
fn mistakes_in_a_file_of_clients_are_reported() {
    let dir = prepare("clients-mistakes");
    for (name, content) in [
        ("invalid.json", r#"{ "clients": { "a": { "token": "0123456789abcdef", "denny": ["one.x"] } } }"#),
        ("weak.json", r#"{ "clients": { "a": { "tokenFile": "weak.token" } } }"#),
        ("weak.token", "hunter22"),
        ("lost.json", r#"{ "clients": { "a": { "tokenFile": "lost.token" } } }"#),
        ("same.json", r#"{ "clients": { "a": { "tokenFile": "ben.token" }, "b": { "token": "token-of-ben-0123" } } }"#),
        ("large.json", r#"{ "clients": { "a": { "tokenFile": "ben.token", "limits": { "memory": "1GiB" } } } }"#),
        ("state.json", r#"{ "clients": { "a": { "tokenFile": "ben.token", "state": "team" } } }"#),
    ] {
        private(&dir, name, content);
    }
    let files =
        ["none", "invalid", "weak", "lost", "same", "large", "state", "open"].map(|name| format!("{name}.json"));
    fs::copy(dir.join("weak.json"), dir.join("open.json")).unwrap();
    fs::set_permissions(dir.join("open.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let mut commands: Vec<_> = files
        .iter()
        .map(|file| Typed::new(&["mcp", "--server", "a=b", "--http", "127.0.0.1:0", "--clients", file]))
        .collect();
    commands.push(Typed::new(&["mcp", "--server", "a=b", "--clients", "clients.json"]));
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_what_its_token_grants() {
    let mut gateway = Gateway::start("clients-grants", &["--audit-log", "audit.log"]).await;
    gateway.until_reported("server \"my-two\"").await;
    assert_eq!(gateway.result(ANN, "await one.hello()"), "hello from one");
    assert_eq!(gateway.result(ANN, "typeof my_two"), "undefined");
    assert_eq!(gateway.result(BEN, "await my_two.hello()"), "hello from my-two");
    let denied = gateway.result(BEN, "await my_two.env()");
    assert_eq!(denied, "my_two.env is not allowed by the configuration");
    let other = tokio::task::block_in_place(|| gateway.run("another-0123456789", "1"));
    assert!(text(other.stderr).contains("401"));
    let log = fs::read_to_string(gateway.dir.join("audit.log")).unwrap();
    let lines: Vec<Json> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<_> = lines.iter().map(|line| (&line["client"], &line["tool"])).collect();
    assert_eq!(calls, [(&json!("ann"), &json!("one.hello")), (&json!("ben"), &json!("my_two.hello"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_its_own_state_in_the_file() {
    let gateway = Gateway::start("clients-state", &["--state", "state.db"]).await;
    for (token, value) in [(ANN, 1), (BEN, 2)] {
        gateway.result(token, &format!("await store.set({{ key: 'a', value: {value} }})"));
    }
    let save = "await snippets.save({ name: 'double', code: '(x) => 2 * x' })";
    gateway.result(ANN, save);
    assert_eq!(gateway.result(ANN, "[await store.get('a'), await snippets.double(3)]"), json!([1, 6]));
    assert_eq!(gateway.result(BEN, "[await store.get('a'), typeof snippets.double]"), json!([2, "undefined"]));
    let list = |arguments: &[&str]| {
        let arguments = [&["snippets", "--state", "state.db"], arguments].concat();
        text(Typed::new(&arguments).output(&gateway.dir).stdout)
    };
    assert_eq!(tokio::task::block_in_place(|| list(&["--state-name", "ann"])), "double\n");
    assert_eq!(tokio::task::block_in_place(|| list(&[])), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_approval_name_their_client() {
    let gateway = Gateway::start("clients-approvals", &["--ask", "one.hello"]).await;
    let approvals = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        text(command.arg("approvals").args(arguments).env("XDG_RUNTIME_DIR", &gateway.dir).output().unwrap().stdout)
    };
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let running = scope.spawn(|| gateway.run(ANN, "await one.hello()"));
            wait_until("a call waits", || approvals(&[]).contains("one.hello"));
            assert!(approvals(&[]).contains("  ann  "), "{}", approvals(&[]));
            let waiting: Json = serde_json::from_str(&approvals(&["--json"])).unwrap();
            assert_eq!(waiting[0]["client"], "ann");
            approvals(&["approve", "--all"]);
            assert_eq!(text(running.join().unwrap().stdout), "\"hello from one\"\n");
        });
    });
}

/// Clients are added, changed and removed while others go on. A file with a mistake changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_clients_is_read_again_when_it_changes() {
    let mut gateway = Gateway::start("clients-reload", &["--state", "state.db"]).await;
    gateway.until_reported("server \"my-two\"").await;
    assert_eq!(gateway.result(BEN, "await my_two.hello()"), "hello from my-two");
    let mut file = clients();
    file["clients"].as_object_mut().unwrap().remove("ann");
    file["clients"]["cleo"] = json!({ "token": "token-of-cleo-0123", "servers": ["on"], "allow": ["nowhere.*"] });
    file["clients"]["ben"]["deny"] = json!(["my_two.hello"]);
    private(&gateway.dir, "clients.json", &file.to_string());
    let changes = gateway.until_reported("clients: ").await;
    assert_eq!(changes, r#"added "cleo"; changed "ben"; removed "ann""#);
    assert!(text(tokio::task::block_in_place(|| gateway.run(ANN, "1")).stderr).contains("401"));
    assert_eq!(gateway.result(BEN, "await my_two.hello()"), "my_two.hello is not allowed by the configuration");
    assert_eq!(gateway.result("token-of-cleo-0123", "typeof one"), "undefined");
    private(&gateway.dir, "clients.json", "{");
    gateway.until_reported("configuration not reloaded: --clients: clients.json:1:").await;
    assert_eq!(gateway.result(BEN, "1"), 1);
    // The token of a file.
    private(&gateway.dir, "clients.json", &file.to_string());
    private(&gateway.dir, "ben.token", "another-of-ben-0123");
    assert_eq!(gateway.until_reported("clients: ").await, r#"changed "ben""#);
    assert_eq!(gateway.result("another-of-ben-0123", "1"), 1);
}
