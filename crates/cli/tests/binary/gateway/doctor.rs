//! `execbox doctor` with servers: what is wrong with a configuration, and what helps.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::transcript::{BINARY, Typed, directory, interrupt, text, transcript};
use crate::support::{children, is_alive, wait_until};
use serde_json::Value as Json;

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

/// Servers that are ready, fail, and are skipped. The control characters are those of a hostile file.
const CONFIG: &str = r#"{
  "mcpServers": {
    "ready": { "command": "sh", "args": ["fake.sh", "a"], "env": { "TOKEN": "ghp_A1b2C3d4e5F6" }, "exposed": ["*"], "icon": 1 },
    "a-b": { "command": "sh", "args": ["fake.sh", "b"], "allow": ["hello", "missing_*"] },
    "a.b": { "command": "./fake", "args": ["fake.sh", "c"] },
    "lost": { "command": "execbox-no-such-program", "args": ["--key", "ghp_A1b2C3d4e5F6"] },
    "near": { "command": "bin/no-such-program" },
    "ends": { "command": "sh", "args": ["-c", "echo 'TypeError: no \u009b31mport' >&2; exit 7"] },
    "e\u001b[2J\nvil": { "command": "sh", "args": ["fake.sh", "rude"], "env": { "TOKEN": "\u001b]0;title" } },
    "away": { "url": "http://user:password@127.0.0.1:1/mcp?token=ghp_A1b2C3d4e5F6" },
    "off": { "command": "x", "disabled": true },
    "ext": { "source": "extension", "settings": {} },
    "unset": { "command": "x", "args": ["${EXECBOX_TEST_UNSET}"] }
  }
}"#;

/// A directory with the fake server and these files.
fn place(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = directory(name);
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    fs::write(dir.join("fake"), "#!/bin/sh\nexec sh \"$@\"\n").unwrap();
    fs::set_permissions(dir.join("fake"), fs::Permissions::from_mode(0o755)).unwrap();
    for (file, content) in files {
        fs::write(dir.join(file), content).unwrap();
        fs::set_permissions(dir.join(file), fs::Permissions::from_mode(0o600)).unwrap();
    }
    dir
}

fn doctor(dir: &Path, arguments: &[&str]) -> Output {
    Typed::new(&[&["doctor"], arguments].concat()).output(dir)
}

/// The transcript without what differs between runs and machines: durations and the width of their column, the lines of slow
/// starts, and paths.
fn shown(dir: &Path, commands: &[Typed]) -> String {
    let paths = [(dir.to_str().unwrap(), "/dir"), (BINARY, "/bin/execbox")];
    let shown = paths.iter().fold(transcript(dir, commands), |text, (path, name)| text.replace(path, name));
    let lines = shown.lines().filter(|line| !line.starts_with("2> execbox: waiting for "));
    lines.map(|line| without_duration(line) + "\n").collect()
}

fn without_duration(line: &str) -> String {
    let is_duration = |cell: &str| cell.strip_suffix(" s").is_some_and(|number| number.parse::<f32>().is_ok());
    let cells: Vec<_> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    if !cells.iter().any(|cell| is_duration(cell)) {
        return line.to_owned();
    }
    cells.iter().map(|cell| if is_duration(cell) { "# s" } else { cell }).collect::<Vec<_>>().join("  ")
}

#[test]
fn each_server_is_reported_with_its_reason_and_remedy() {
    let dir = place("doctor-report", &[("servers.json", CONFIG)]);
    fs::set_permissions(dir.join("servers.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let commands = [&["doctor", "--config", "servers.json"][..], &["doctor", "--config", "servers.json", "--json"]];
    let shown = shown(&dir, &commands.map(Typed::new));
    assert!(!shown.contains("ghp_") && !shown.contains("password"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn the_entry_for_the_client_has_absolute_paths_and_all_options() {
    let ready = r#"{ "servers": { "ready": { "command": "sh", "args": ["fake.sh", "a"] } } }"#;
    let dir = place("doctor-entry", &[("servers.json", ready)]);
    let commands = [
        Typed::new(&["doctor", "--config", "servers.json"]),
        Typed::new(&["doctor", "--server", "it's=sh fake.sh ghp_A1b2C3d4e5F6", "--allow", "*.hello", "--read-only"]),
        Typed::new(&["doctor", "--config", "/dev/stdin"]).stdin(ready),
    ];
    insta::assert_snapshot!(shown(&dir, &commands));
}

/// A server that is ready here, and the environment in which a client starts it otherwise.
const HERE_ONLY: &str = r#"{
  "mcpServers": {
    "argument": { "command": "sh", "args": ["./fake.sh", "a"] },
    "directory": { "command": "sh", "args": ["fake.sh", "a"], "cwd": "." },
    "workspace": { "command": "sh", "args": ["${workspaceFolder}/fake.sh", "a"] },
    "variable": { "command": "sh", "args": ["/dir/fake.sh", "a"], "env": { "TOKEN": "${EXECBOX_TEST_TOKEN}" } },
    "path": { "command": "fake", "args": ["/dir/fake.sh", "a"] }
  }
}"#;

#[test]
fn what_a_client_starts_in_another_place_is_reported() {
    let dir = place("doctor-client", &[]);
    let here = dir.to_str().unwrap();
    fs::write(dir.join("servers.json"), HERE_ONLY.replace("/dir", here)).unwrap();
    let path = format!("{here}:/usr/bin:/bin");
    let typed = |arguments| Typed::new(arguments).env("EXECBOX_TEST_TOKEN", "ghp_A1b2C3d4e5F6").env("PATH", &path);
    let commands = [&["doctor", "--config", "servers.json"][..], &["doctor", "--config", "servers.json", "--json"]];
    let shown = shown(&dir, &commands.map(typed));
    assert!(!shown.contains("ghp_"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn a_configuration_without_usable_servers_is_an_error() {
    let itself = r#""execbox": { "command": "execbox", "args": ["mcp", "--config", "x"] }"#;
    let ready = r#""ready": { "command": "sh", "args": ["fake.sh", "a"] }"#;
    let dir = place(
        "doctor-none",
        &[
            ("itself.json", &format!("{{ \"mcpServers\": {{ {itself} }} }}")),
            ("client.json", &format!("{{ \"mcpServers\": {{ {itself}, {ready} }} }}")),
            ("empty.json", r#"{ "mcpServers": {} }"#),
            ("broken.json", r#"{ "mcpServers": "#),
        ],
    );
    let commands = [
        &["doctor", "--config", "itself.json"][..],
        &["doctor", "--config", "client.json"],
        &["doctor", "--config", "empty.json"],
        &["doctor", "--config", "broken.json"],
        &["doctor", "--config", "missing.json"],
        &["doctor", "--allow", "ready.*"],
        &["doctor", "--config", "client.json", "--verbose"],
        &["tools", "--config", "itself.json"],
        &["types", "--config", "itself.json"],
        &["run", "--config", "itself.json", "-e", "1"],
        &["mcp", "--config", "itself.json"],
    ];
    insta::assert_snapshot!(shown(&dir, &commands.map(Typed::new)));
}

#[test]
fn a_mistake_that_leaves_a_server_less_protected_is_a_failure() {
    let server = |keys: &str| format!("{{ \"command\": \"sh\", \"args\": [\"fake.sh\", \"a\"], {keys} }}");
    let one = |keys: &str| format!("{{ \"servers\": {{ \"n\": {} }} }}", server(keys));
    let all = [
        ("ask", r#""ask": ["destrctive"]"#),
        ("pattern", r#""ask": ["helo"], "deny": ["fial*"], "allow": ["hello", "gone"]"#),
        ("key", r#""aks": ["destructive"]"#),
        ("fine", r#""ask": ["destructive"], "deny": ["fail*"]"#),
    ];
    let all = all.map(|(name, keys)| format!("\"{name}\": {}", server(keys))).join(", ");
    let dir = place(
        "doctor-protection",
        &[
            ("all.json", &format!("{{ \"servers\": {{ {all} }} }}")),
            ("one.json", &one(r#""deny": ["fial*"]"#)),
            ("fine.json", &one(r#""allow": ["hello", "gone"]"#)),
        ],
    );
    let files = ["all.json", "one.json", "fine.json"];
    let commands = files.map(|file| Typed::new(&["doctor", "--config", file]));
    insta::assert_snapshot!(shown(&dir, &commands));
}

#[test]
fn a_server_with_the_name_of_a_namespace_of_the_gateway_has_a_warning() {
    let dir = place("doctor-names", &[]);
    let servers = ["tools", "store", "snippets", "results"].map(|name| format!("{name}=sh fake.sh a"));
    let options = servers.iter().flat_map(|server| ["--server", server.as_str()]);
    let names = ["doctor", "--allow", "*.hello"].into_iter().chain(options).collect::<Vec<_>>();
    insta::assert_snapshot!(shown(&dir, &[Typed::new(&names)]));
}

#[test]
fn help() {
    insta::assert_snapshot!(transcript(&directory("doctor-help"), &[Typed::new(&["doctor", "--help"])]));
}

#[test]
fn control_characters_of_servers_do_not_reach_the_terminal() {
    let dir = place("doctor-terminal", &[("servers.json", CONFIG)]);
    let (seen, code) = Typed::new(&["doctor", "--config", "servers.json"]).on_a_terminal(&dir);
    assert!(seen.contains("e\\u001b[2J\\nvil") && !seen.contains(['\x1b', '\u{9b}']), "{seen:?}");
    assert_eq!(code, Some(1));
    let colored = text(doctor(&dir, &["--config", "servers.json", "--color", "always"]).stdout);
    assert!(colored.contains("\x1b[32m✓\x1b[0m  \x1b[36mready\x1b[0m"), "{colored:?}");
    assert!(!colored.contains("\x1b[2J") && !colored.contains("\x1b]"), "{colored:?}");
}

#[test]
fn a_server_that_does_not_answer_fails_after_the_timeout() {
    let dir = directory("doctor-hangs");
    let output = doctor(&dir, &["--server", "hangs=sleep 100", "--timeout", "300ms", "--json"]);
    let diagnosis: Json = serde_json::from_slice(&output.stdout).unwrap();
    let server = &diagnosis["servers"][0];
    assert_eq!((output.status.code(), &diagnosis["ok"]), (Some(1), &Json::Bool(false)));
    assert_eq!(server["state"], "failed");
    assert!(server["reason"].as_str().unwrap().starts_with("no response within "), "{diagnosis}");
    assert!(server["durationMs"].as_u64().unwrap() >= 300, "{diagnosis}");
    assert_eq!(diagnosis.get("entry"), None);
}

#[test]
fn an_interrupt_ends_the_command_and_its_servers() {
    let dir = directory("doctor-interrupt");
    let child = Typed::new(&["doctor", "--server", "hangs=sleep 1000"]).start(&dir);
    wait_until("the server is started", || !children(child.id()).is_empty());
    let server = children(child.id())[0];
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(text(output.stderr).ends_with("error: interrupted\n") && output.stdout.is_empty());
    wait_until("the server is ended", || !is_alive(server));
}
