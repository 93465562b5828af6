//! Entries of configurations that are not used: each costs its own server only, and is shown with its reason by every command,
//! to the client, and to programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::session::Session;
use crate::support::transcript::{BINARY, Typed, directory, text, transcript};
use crate::support::wait_until;
use serde_json::{Value as Json, json};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

/// A good entry among others: with a mistake, with an unset variable, and disabled.
const CONFIG: &str = r#"{
  "mcpServers": {
    "bad": { "command": "sh", "args": true },
    "good": { "command": "sh", "args": ["fake.sh", "good"] },
    "un-set": { "command": "sh", "args": ["${EXECBOX_TEST_UNSET}"] },
    "off": { "command": "sh", "disabled": true }
  }
}"#;

fn place(name: &str) -> PathBuf {
    let dir = directory(name);
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    fs::write(dir.join("servers.json"), CONFIG).unwrap();
    dir
}

#[test]
fn commands_use_the_other_servers_and_say_what_they_skip() {
    let dir = place("skipped-commands");
    fs::write(dir.join("empty.json"), r#"{ "mcpServers": {} }"#).unwrap();
    let commands = [
        &["tools", "hello", "--config", "servers.json"][..],
        &["tools", "--namespace", "bad", "--config", "servers.json"],
        &["types", "un_set", "--config", "servers.json"],
        &["run", "--config", "servers.json", "-e", "await good.hello()", "--deny", "bad.*", "--ask", "un-set.*"],
        &["run", "--config", "servers.json", "-e", "await un_set.hello()"],
        &["run", "--config", "servers.json", "-e", "await off.hello()", "--json"],
        &["login", "--config", "servers.json"],
        &["login", "bad", "--config", "servers.json"],
        &["logout", "un_set", "--config", "servers.json"],
        &["tools", "--config", "empty.json"],
    ];
    insta::assert_snapshot!(transcript(&dir, &commands.map(Typed::new)));
}

#[tokio::test]
async fn the_client_programs_and_the_state_of_the_gateway_say_why_a_server_is_missing() {
    let dir = place("skipped-gateway");
    let session = Session::start(&dir, &["--config", "servers.json"]).await;
    let search = async |arguments: Json| {
        let found = session.call("mcp_search_tools", arguments).await;
        found.content[0].as_text().unwrap().text.clone()
    };
    let found = search(json!({ "query": "hello" })).await;
    assert!(found.contains("good.hello"), "{found}");
    let mistake = "Not available: `bad`: its entry in the configuration has a mistake.";
    let unset = "Not available: `un_set`: its entry in the configuration was skipped: the environment variable EXECBOX_TEST_UNSET is not set.";
    assert!(found.contains(mistake) && found.contains(unset) && !found.contains("`off`"), "{found}");
    let found = search(json!({ "query": "hello", "namespace": "off" })).await;
    assert!(found.contains("Not available: `off`: its server is disabled in the configuration."), "{found}");
    for (code, message) in [
        ("bad.hello()", "bad is not available: its entry in the configuration has a mistake"),
        ("off.hello()", "off is not available: its server is disabled in the configuration"),
    ] {
        assert_eq!(session.run(code).await["error"]["message"], message);
    }
    let status = |arguments: &[&str]| {
        let output = Command::new(BINARY).arg("status").args(arguments).env("XDG_RUNTIME_DIR", &dir).output().unwrap();
        text(output.stdout)
    };
    wait_until("the state is published", || status(&[]).contains("good    ready"));
    let shown = status(&[]);
    let mistake = "servers.json:3:39: mcpServers.bad.args: invalid type: expected an array of strings";
    assert!(shown.contains(&format!("\n  bad     skipped   {mistake}")), "{shown}");
    assert!(shown.contains("\n  off     skipped   disabled in the configuration"), "{shown}");
    let published: Json = serde_json::from_str(&status(&["--json"])).unwrap();
    let skipped = &published[0]["servers"][2];
    assert_eq!([&skipped["name"], &skipped["namespace"], &skipped["state"]], ["un-set", "un_set", "skipped"]);
    assert!(skipped["reason"].as_str().unwrap().contains("EXECBOX_TEST_UNSET is not set"), "{skipped}");

    // An entry that was skipped before, with the same mistake or another, does not keep other changes from being applied, and one
    // that is mended is used.
    let two = r#""good": { "command": "sh", "args": ["fake.sh", "good"] }, "two": { "command": "sh", "args": ["fake.sh", "2"] },"#;
    let changed = CONFIG.replace(r#""good": { "command": "sh", "args": ["fake.sh", "good"] },"#, two);
    fs::write(dir.join("servers.json"), changed.replace(r#""args": true"#, r#""args": 1"#)).unwrap();
    wait_until("the new server is used", || status(&[]).contains("two     ready"));
    assert!(status(&[]).contains(r#"["…", "…"], got a number"#), "{}", status(&[]));
    fs::write(dir.join("servers.json"), changed.replace(r#""args": true"#, r#""args": ["fake.sh", "mended"]"#))
        .unwrap();
    wait_until("the mended server is used", || status(&[]).contains("bad     ready"));
    assert_eq!(session.run("await bad.hello()").await["result"], "hello from mended");
    let (stderr, code) = session.end().await;
    assert!(stderr.contains(&format!("warning: server \"bad\" skipped: {mistake}")), "{stderr}");
    assert!(!stderr.contains("not reloaded"), "{stderr}");
    assert_eq!((stderr.matches("\"un-set\" skipped").count(), code), (1, Some(0)), "{stderr}");
}

/// Writes a file of a client, and runs a program with its servers in a folder. Returns the result, or the error.
fn runs(dir: &Path, file: &str, config: &str, directory: &str, code: &str) -> String {
    let file = dir.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::create_dir_all(dir.join(directory)).unwrap();
    fs::write(&file, config.replace("DIR", dir.to_str().unwrap())).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["run", "-e", code, "--config"]).arg(&file).current_dir(dir.join(directory));
    let output = command.env("HOME", dir).env("NO_COLOR", "1").env("MY_MODE", "of the user").output().unwrap();
    if output.stdout.is_empty() { text(output.stderr) } else { text(output.stdout) }
}

#[test]
fn files_of_other_clients_are_read() {
    let dir = fs::canonicalize(place("skipped-clients")).unwrap();
    let codex = "[mcp_servers.fake]\ncommand = \"sh\"\nargs = [\"DIR/fake.sh\", \"codex\"]\nenv_vars = [\"MY_MODE\"]\nresults = \"envelope\"\n\n\
        [mcp_servers.fake.env]\nLEVEL = 3\n";
    let code = "const env = JSON.stringify(await fake.env());
        `${(await fake.hello()).content[0].text} ${/LEVEL=3/.test(env)} ${/MY_MODE=of the user/.test(env)}`";
    assert_eq!(runs(&dir, ".codex/config.toml", codex, ".", code), "\"hello from codex true true\"\n");
    let zed = r#"{ "context_servers": { "fake": { "source": "custom", "command": "sh", "args": ["~/fake.sh", "zed"], "env": {} } }, }"#;
    assert_eq!(runs(&dir, ".config/zed/settings.json", zed, ".", "await fake.hello()"), "\"hello from zed\"\n");
    let gemini = r#"{ "mcpServers": { "fake": { "command": "sh", "args": ["DIR/fake.sh", "${MODE}"], "env": { "MODE": "$MY_MODE" } } } }"#;
    let said = runs(&dir, ".gemini/settings.json", gemini, ".", "await fake.hello()");
    assert_eq!(said, "\"hello from of the user\"\n");
    let claude = r#"{ "projects": {
        "DIR/shop": { "mcpServers": { "fake": { "type": "stdio", "command": "sh", "args": ["DIR/fake.sh", "shop"], "env": {} } } },
        "DIR/wiki": { "mcpServers": { "fake": { "type": "stdio", "command": "sh", "args": ["DIR/fake.sh", "wiki"], "env": {} } } }
    } }"#;
    for (directory, expected) in [("shop", "shop"), ("wiki/pages", "wiki"), (".", "shop")] {
        let said = runs(&dir, ".claude.json", claude, directory, "await fake.hello()");
        assert_eq!(said, format!("\"hello from {expected}\"\n"), "{directory}");
    }
    let broken = runs(&dir, "config.toml", "[mcp_servers.a\n", ".", "1");
    assert!(broken.contains("config.toml:1:15: invalid TOML: "), "{broken}");
}

#[tokio::test]
async fn the_state_of_the_gateway_shows_what_a_failed_server_has_written() {
    let dir = place("failed-output");
    let script = "echo up >&2; echo '^' >&2; echo 'TypeError: no port' >&2; echo '  at main (x.js:1)' >&2; exit 7";
    let session = Session::start(&dir, &["--server", &format!("bad=sh -c \"{script}\"")]).await;
    let status = || {
        let output = Command::new(BINARY).arg("status").env("XDG_RUNTIME_DIR", &dir).output().unwrap();
        text(output.stdout)
    };
    let expected =
        "  bad  failed    process ended (exit status: 7); last lines of standard error:\n    TypeError: no port\n";
    wait_until("the failure is published", || status().ends_with(expected));
    let ended = "process ended (exit status: 7): TypeError: no port";
    let missing = session.run("await bad.call()").await;
    assert_eq!(missing["error"]["message"], format!("bad is not available: {ended}"));
    session.end().await;
}
