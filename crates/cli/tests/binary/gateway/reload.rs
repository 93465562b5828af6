//! `execbox mcp` reads its configuration again when the files change, and on SIGHUP.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::session::Session;
use crate::support::transcript::{BINARY, directory, text};
use crate::support::{Signal, children, exists, is_alive, send, wait_until};
use serde_json::{Value as Json, json};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

/// A gateway over `servers.json`, which the test changes.
struct Gateway {
    dir: PathBuf,
    session: Session,
}

impl Gateway {
    async fn start(name: &str, servers: &Json) -> Self {
        let dir = directory(name);
        let fake = fs::read_to_string(FAKE).unwrap();
        // `hello` answers with a file that the test writes, and each start is counted.
        let fake = fake
            .replace("hello from $1", "$(cat said)$MODE")
            .replace("echo \"started", "echo $1 >> starts; echo \"started");
        fs::write(dir.join("fake.sh"), fake).unwrap();
        fs::write(dir.join("said"), "hello").unwrap();
        configure(&dir, servers);
        let arguments = ["--config", "servers.json", "--log-file", "gateway.log", "--timeout", "10m"];
        let session = Session::start(&dir, &arguments).await;
        session.call("mcp_search_tools", json!({})).await; // when all have started
        Self { dir, session }
    }

    fn pid(&self) -> u32 {
        self.session.process.id().unwrap()
    }

    /// The process of a fake server with this name.
    fn server(&self, name: &str) -> u32 {
        let is_it = |id: &u32| {
            let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.split('\0').any(|word| word == name)
        };
        children(self.pid()).into_iter().find(is_it).unwrap()
    }

    fn starts(&self, name: &str) -> usize {
        fs::read_to_string(self.dir.join("starts")).unwrap().lines().filter(|line| *line == name).count()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("gateway.log")).unwrap()
    }

    fn wait_for(&self, line: &str) {
        wait_until(line, || self.log().contains(line));
    }

    fn status(&self) -> String {
        let mut status = Command::new(BINARY);
        text(status.arg("status").env("XDG_RUNTIME_DIR", &self.dir).output().unwrap().stdout)
    }

    /// Calls `hello` of a server that is starting.
    async fn hello(&self, name: &str) -> Json {
        loop {
            let result = self.session.run(&format!("await {name}.hello()")).await;
            let is_missing = result["error"]["message"].as_str().is_some_and(|text| text.contains("is still starting"));
            if !is_missing {
                return result["result"].clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn configure(dir: &Path, servers: &Json) {
    let new = dir.join("servers.json.new");
    fs::write(&new, json!({ "mcpServers": servers }).to_string()).unwrap();
    fs::rename(new, dir.join("servers.json")).unwrap();
}

fn fake(name: &str) -> Json {
    json!({ "command": "sh", "args": ["fake.sh", name] })
}

#[tokio::test]
async fn a_change_of_the_file_restarts_only_servers_that_differ() {
    let servers = json!({ "same": fake("same"), "gone": fake("gone"), "other": fake("before") });
    let gateway = Gateway::start("reload-change", &servers).await;
    let [same, gone, before] = ["same", "gone", "before"].map(|name| gateway.server(name));
    configure(&gateway.dir, &json!({ "added": fake("added"), "same": fake("same"), "other": fake("after") }));
    gateway.wait_for("configuration reloaded: added \"added\"; restarted \"other\"; removed \"gone\"\n");
    wait_until("servers are closed", || !exists(gone) && !exists(before));
    for name in ["same", "added", "other"] {
        assert_eq!(gateway.hello(name).await, "hello");
    }
    assert_eq!(gateway.session.run("typeof gone").await["result"], "undefined");
    let found = gateway.session.call("mcp_search_tools", json!({})).await.structured_content.unwrap();
    assert_eq!(found["total"], 21, "{found}");
    assert!(format!("{:?}", gateway.session.client.list_all_tools().await.unwrap()).contains("`added`"));
    assert_eq!((gateway.server("same"), gateway.starts("same")), (same, 1));
    gateway.server("after");
    wait_until("the state is published", || gateway.status().contains("added  ready"));
    assert!(!gateway.status().contains("gone"), "{}", gateway.status());
    assert_eq!(gateway.session.end().await.1, Some(0));
}

#[tokio::test]
async fn programs_that_run_keep_their_servers() {
    let gateway = Gateway::start("reload-running", &json!({ "one": fake("one"), "two": fake("two") })).await;
    let (one, two) = (gateway.server("one"), gateway.server("two"));
    let code = "while (await one.hello() !== 'go'); return await two.hello()";
    let change = async {
        configure(&gateway.dir, &json!({ "two": fake("another") }));
        let reloaded = || gateway.log().contains("configuration reloaded: restarted \"two\"; removed \"one\"");
        while !reloaded() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(gateway.session.run("typeof one").await["result"], "undefined", "a program that starts now");
        assert!(is_alive(one) && is_alive(two));
        fs::write(gateway.dir.join("said.new"), "go").unwrap();
        fs::rename(gateway.dir.join("said.new"), gateway.dir.join("said")).unwrap();
    };
    let (result, ()) = tokio::join!(gateway.session.run(code), change);
    assert_eq!(result["result"], "go");
    wait_until("servers are closed", || !exists(one) && !exists(two));
    assert_eq!(gateway.session.end().await.1, Some(0));
}

#[tokio::test]
async fn a_mistake_changes_nothing_and_is_reported_once() {
    let gateway = Gateway::start("reload-mistake", &json!({ "one": fake("one") })).await;
    let one = gateway.server("one");
    let mistake = "{\n  \"mcpServers\": { \"one\": { \"command\": 7 } }\n}";
    let line = "configuration not reloaded: servers.json:2:39: mcpServers.one.command: ";
    let reports = |gateway: &Gateway| gateway.log().matches("not reloaded").count();
    fs::write(gateway.dir.join("servers.json"), mistake).unwrap();
    gateway.wait_for(line);
    wait_until("the mistake is published", || gateway.status().contains(line));
    assert_eq!(gateway.hello("one").await, "hello");
    // The test waits for the effect of another file with the same mistake: a signal that is sent later is handled later.
    fs::write(gateway.dir.join("servers.json"), format!("{mistake}\n\n")).unwrap();
    send(Signal::SIGHUP, gateway.pid());
    wait_until("the signal is answered", || reports(&gateway) == 2);
    configure(&gateway.dir, &json!({ "one": fake("one") }));
    gateway.wait_for("configuration reloaded: all servers are as before\n");
    wait_until("the mistake is published no more", || !gateway.status().contains("not reloaded"));
    assert_eq!((reports(&gateway), gateway.server("one"), gateway.starts("one")), (2, one, 1));
    let (stderr, code) = gateway.session.end().await;
    assert!(stderr.contains(line), "{stderr}");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn sighup_reloads_and_entries_that_are_skipped_are_reported() {
    let gateway = Gateway::start("reload-signal", &json!({ "one": fake("one") })).await;
    let one = gateway.server("one");
    send(Signal::SIGHUP, gateway.pid());
    gateway.wait_for("configuration reloaded: all servers are as before\n");
    let missing = json!({ "command": "x", "env": { "A": "${EXECBOX_TEST_UNSET}" } });
    configure(&gateway.dir, &json!({ "one": fake("one"), "two": missing }));
    send(Signal::SIGHUP, gateway.pid());
    gateway.wait_for("server \"two\" skipped: ");
    assert_eq!((gateway.hello("one").await, gateway.server("one")), (json!("hello"), one));
    assert_eq!(gateway.session.end().await.1, Some(0));
}

#[tokio::test]
async fn a_change_of_an_env_file_restarts_its_servers() {
    let dir = directory("reload-env-file");
    fs::write(dir.join("one.env"), "MODE=' first'\n").unwrap();
    let mut one = fake("one");
    one["envFile"] = json!(dir.join("one.env"));
    let gateway = Gateway::start("reload-env", &json!({ "one": one, "two": fake("two") })).await;
    let two = gateway.server("two");
    fs::write(dir.join("one.env"), "MODE=' second'\n").unwrap();
    gateway.wait_for("configuration reloaded: restarted \"one\"\n");
    assert_eq!(gateway.hello("one").await, "hello second");
    assert_eq!((gateway.server("two"), gateway.starts("one")), (two, 2));
    assert_eq!(gateway.session.end().await.1, Some(0));
}

#[tokio::test]
async fn files_that_cannot_be_read_change_nothing() {
    let servers = json!({ "one": fake("one") });
    let gateway = Gateway::start("reload-unreadable", &servers).await;
    let (one, file) = (gateway.server("one"), gateway.dir.join("servers.json"));
    fs::remove_file(&file).unwrap();
    gateway.wait_for("configuration not reloaded: cannot read servers.json: no such file\n");
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    gateway.wait_for("configuration not reloaded: cannot read servers.json: is a FIFO; name a regular file");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    gateway.wait_for("configuration not reloaded: cannot read servers.json: is a directory");
    fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    gateway.wait_for("configuration not reloaded: cannot read servers.json: is a device");
    fs::remove_file(&file).unwrap();
    File::create(&file).unwrap().set_len(1 << 30).unwrap();
    gateway.wait_for("configuration not reloaded: servers.json is longer than 16 MiB\n");
    assert_eq!(gateway.session.run("1 + 1").await["result"], 2);
    configure(&gateway.dir, &servers);
    gateway.wait_for("configuration reloaded: all servers are as before\n");
    assert_eq!((gateway.hello("one").await, gateway.server("one"), gateway.starts("one")), (json!("hello"), one, 1));
    assert_eq!(gateway.session.end().await.1, Some(0));
}

/// The last of many changes is applied, and few of the others are read.
#[tokio::test]
async fn a_file_that_changes_all_the_time_does_not_start_servers_in_a_loop() {
    let gateway = Gateway::start("reload-flood", &json!({ "one": fake("one") })).await;
    let (one, dir) = (gateway.server("one"), gateway.dir.clone());
    let flood = thread::spawn(move || {
        for n in 0..300 {
            let other = json!({ "one": fake("one"), "other": { "command": "sh", "args": ["fake.sh", "other", n] } });
            let file = dir.join("servers.json");
            match n % 3 {
                0 => configure(&dir, &other),
                1 => fs::write(file, "{ \"mcpServers\": { \"one\": {").unwrap(),
                _ => fs::remove_file(file).unwrap(),
            }
            thread::sleep(Duration::from_millis(10));
        }
        configure(&dir, &json!({ "one": fake("one"), "last": fake("last") }));
    });
    while !flood.is_finished() {
        send(Signal::SIGHUP, gateway.pid());
        assert_eq!(gateway.session.run("await one.hello()").await["result"], "hello");
    }
    flood.join().unwrap();
    gateway.wait_for("added \"last\"");
    assert_eq!(gateway.hello("last").await, "hello");
    assert_eq!((gateway.server("one"), gateway.starts("one")), (one, 1));
    assert!(gateway.starts("other") <= 20, "{}", gateway.log());
    assert_eq!(gateway.session.end().await.1, Some(0));
}

/// The system sends SIGHUP in this case, too.
#[test]
fn a_gateway_ends_when_its_terminal_is_closed() {
    let dir = directory("reload-terminal");
    let (terminal, input) = crate::support::terminal();
    let mut command = Command::new("setsid");
    command.args(["--ctty", BINARY, "mcp", "--server", "a=true", "--http", "127.0.0.1:0", "--log-file", "log"]);
    command.current_dir(&dir).stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    let mut gateway = command.spawn().unwrap();
    drop(command);
    let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
    wait_until("the gateway runs", || log().contains("server \"a\""));
    send(Signal::SIGHUP, gateway.id());
    wait_until("the configuration is reloaded", || log().contains("configuration reloaded"));
    drop(terminal);
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
}
