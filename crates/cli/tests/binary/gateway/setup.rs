//! `execbox setup`: finds the servers of MCP clients, and puts a gateway in front of them.
//!
//! The directory `home` has a file of each client as its users have it. `applications` and `config` stand for the directories
//! of graphical applications and of configurations, and `/srv/fake.sh` for a server.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::pty::PtyMaster;
use serde_json::Value as Json;

use super::approvals::{type_at, until_shown};
use crate::support::session::Session;
use crate::support::transcript::{BINARY, Typed, directory, text};

const HOME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/binary/gateway/home");
const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

/// The text that stands for a server in the files of `home`.
const SERVER: &str = "/srv/fake.sh";

/// The directory of graphical applications in a home directory.
const APPLICATIONS: &str = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };

/// A home directory with the files of all clients.
fn home(name: &str) -> PathBuf {
    let home = directory(name);
    for (path, content) in files(Path::new(HOME)) {
        let path = path.replace("applications/", &format!("{APPLICATIONS}/"));
        write(&home, &path.replace("config/zed", ".config/zed"), &content.replace(SERVER, FAKE));
    }
    // Packages are not fetched.
    write(&home, "bin/npx", "#!/bin/sh\necho not fetched >&2\nexit 1\n");
    fs::set_permissions(home.join("bin/npx"), fs::Permissions::from_mode(0o755)).unwrap();
    home
}

/// A home directory with one file.
fn home_with(name: &str, path: &str, content: &str) -> PathBuf {
    let home = directory(name);
    write(&home, path, content);
    home
}

fn write(home: &Path, path: &str, content: &str) {
    let path = home.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn read(home: &Path, path: &str) -> String {
    fs::read_to_string(home.join(path)).unwrap()
}

/// The files in a directory by their paths, without those of execbox.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let (mut found, mut directories) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true if entry.ends_with("execbox") => {}
                true => directories.push(entry),
                false => {
                    let path = entry.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                    found.insert(path, fs::read_to_string(entry).unwrap());
                }
            }
        }
    }
    found
}

fn command(home: &Path, arguments: &[&str]) -> Typed {
    let home = home.to_str().unwrap();
    let path = format!("{home}/bin:{}", std::env::var("PATH").unwrap());
    Typed::new(&[&["setup"], arguments].concat())
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", "")
        .env("CODEX_HOME", "")
        .env("CLAUDE_CONFIG_DIR", "")
        .env("GEMINI_CLI_HOME", "")
        .env("EXECBOX_TEST_KEY", "from the shell")
        .env("XDG_RUNTIME_DIR", home)
        .env("PATH", &path)
}

fn setup(home: &Path, arguments: &[&str]) -> Output {
    command(home, arguments).output(home)
}

/// Runs a command that must succeed. Returns standard output and standard error.
fn succeeds(home: &Path, arguments: &[&str]) -> (String, String) {
    let output = setup(home, arguments);
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stdout}{stderr}");
    (stdout, stderr)
}

/// Runs a command that must fail with this exit code. Returns standard error.
fn fails(home: &Path, arguments: &[&str], code: i32) -> String {
    let before = files(home);
    let output = setup(home, arguments);
    let stderr = text(output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert_eq!(files(home), before, "{arguments:?}");
    stderr
}

/// A text without what differs between machines and runs.
fn shown(home: &Path, text: &str) -> String {
    let paths = [(FAKE, SERVER), (BINARY, "/bin/execbox"), (home.to_str().unwrap(), "/ada"), (APPLICATIONS, ".config")];
    paths.iter().fold(text.to_owned(), |text, (path, name)| text.replace(path, name))
}

#[test]
fn help() {
    insta::assert_snapshot!(text(Typed::new(&["setup", "--help"]).output(&directory("setup-help")).stdout));
}

#[test]
fn clients_are_listed_with_their_servers_and_tools() {
    let home = home("setup-list");
    let (stdout, stderr) = succeeds(&home, &[]);
    insta::assert_snapshot!(shown(&home, &stdout));
    assert!(stderr.ends_with("name clients, or use --all; --dry-run shows the changes\n"), "{stderr}");

    let (json, _) = succeeds(&home, &["--json"]);
    let listing: Json = serde_json::from_str(&json).unwrap();
    let client = |id: &str| listing["clients"].as_array().unwrap().iter().find(|client| client["id"] == id).unwrap();
    let windsurf = &client("windsurf")["servers"];
    assert_eq!(windsurf[0]["tools"], serde_json::json!(["hello", "env", "fail", "refuse", "slow", "die", "broken"]));
    assert!(windsurf[1]["reason"].as_str().unwrap().contains("connection refused"), "{windsurf}");
    assert_eq!(client("cursor")["servers"][2]["movable"], false);
    assert_eq!(listing["withoutServers"].as_array().unwrap().len(), 2);
    assert!(!json.contains("ghp_"), "{json}");
}

#[test]
fn each_change_is_shown_as_a_diff_without_secrets_and_nothing_is_written() {
    let home = home("setup-dry-run");
    let before = files(&home);
    let (diff, _) = succeeds(&home, &["--dry-run"]);
    insta::assert_snapshot!(shown(&home, &diff.replace('\r', "")));
    assert!(files(&home) == before && !home.join(".config/execbox").exists());
    assert_eq!(succeeds(&home, &["--all", "-n"]).0, diff);
}

/// Beside the entries that move are others, and what the client keeps for itself.
#[test]
fn secrets_beside_the_servers_are_not_shown() {
    let key = "sk-ant-api03-A1b2C3d4e5F6g7H8i9J0k1L2m3N4o5P6";
    let json = r#"{
  "primaryApiKey": "KEY",
  "accounts": [ { "urls": ["https://x.example/?token=KEY"] }, "KEY" ],
  "mcpServers": {
    "moved": { "command": "moved" },
    "invalid": { "command": 1, "env": { "TOKEN": "KEY" } },
    "off": { "command": "x", "args": ["--header", "Authorization: Bearer KEY"], "disabled": true }
  }
}"#;
    let home = home_with("setup-beside", ".claude.json", &json.replace("KEY", key));
    let toml = "api_key = \"KEY\"\n[mcp_servers.moved]\ncommand = \"moved\"\n[mcp_servers.invalid]\ncommand = 1\nenv = { TOKEN = \"KEY\" }\n";
    write(&home, ".codex/config.toml", &toml.replace("KEY", key));
    let (diff, _) = succeeds(&home, &["--dry-run"]);
    assert_eq!(diff.matches("\n+++ ").count(), 4, "{diff}");
    assert!(diff.contains("primaryApiKey") && diff.contains("\"urls\"") && diff.contains("api_key"), "{diff}");
    assert!(!diff.contains("sk-ant-"), "{diff}");
}

#[test]
fn all_servers_move_and_come_back_byte_for_byte() {
    let home = home("setup-undo");
    let before = files(&home);
    let (_, stderr) = succeeds(&home, &["--all", "--yes", "--no-connect"]);
    assert!(stderr.contains("Cursor: execbox is in front of fake, linear; restart it (backup: ~/.config/"), "{stderr}");
    let changed = files(&home).iter().filter(|(path, content)| before[*path] != **content).count();
    assert_eq!(changed, 8);
    let own = home.join(".config/execbox");
    for directory in ["", "servers", "backups"] {
        let mode = fs::metadata(own.join(directory)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{directory}");
    }
    for file in fs::read_dir(own.join("servers")).unwrap().chain(fs::read_dir(own.join("backups")).unwrap()) {
        let file = file.unwrap().path();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    let (_, again) = succeeds(&home, &["--all", "--yes", "--no-connect"]);
    assert_eq!(again.matches("is in front of these servers already").count(), 8, "{again}");

    let (diff, _) = succeeds(&home, &["--undo", "--dry-run"]);
    assert!(diff.contains("+++ /dev/null") && !diff.contains("ghp_"), "{diff}");
    succeeds(&home, &["--undo", "--yes"]);
    assert_eq!(files(&home), before);
    assert!(fs::read_dir(own.join("servers")).unwrap().next().is_none());
    assert!(fails(&home, &["--undo", "--yes"], 2).contains("no client was set up"));
}

/// The client's entry starts a gateway with its servers.
#[tokio::test]
async fn the_entry_of_a_client_starts_its_servers() {
    let home = home("setup-start");
    succeeds(&home, &["cursor.fake", "windsurf", "--yes", "--", "--timeout", "20s"]);
    for (file, code, expected) in [
        (".cursor/mcp.json", "await fake.hello()", "hello from cursor"),
        (".codeium/windsurf/mcp_config.json", "await fake.hello()", "hello from windsurf"),
    ] {
        let config: String = read(&home, file).lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let config = config.replace("/* not now */", "");
        let entry = serde_json::from_str::<Json>(&config).unwrap()["mcpServers"]["execbox"].take();
        assert_eq!(entry["command"], BINARY);
        let args: Vec<_> = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        assert_eq!((args[0], &args[3..]), ("mcp", &["--timeout", "20s"][..]));
        let session = Session::start(&home, &args[1..]).await;
        assert_eq!(session.run(code).await["result"], expected);
        session.end().await;
    }
    let moved = read(&home, ".cursor/mcp.json");
    assert!(moved.contains("\"linear\"") && moved.contains("/* not now */") && !moved.contains("sh\",\r\n"), "{moved}");
}

#[test]
fn undo_keeps_what_has_changed_since() {
    let home = home("setup-changed");
    succeeds(&home, &["cursor", "codex", "claude-code", "--yes", "--no-connect"]);
    let edit = |path: &str, old: &str, new: &str| {
        let text = read(&home, path);
        assert!(text.contains(old), "{text}");
        write(&home, path, &text.replacen(old, new, 1));
    };
    edit(".claude.json", "\"numStartups\": 12", "\"numStartups\": 13");
    edit(".cursor/mcp.json", "/* not now */", "\"new\": { \"command\": \"new\" },");
    edit(".config/execbox/servers/cursor.json", "\"command\": \"sh\"", "\"ask\": \"all\",\n      \"command\": \"sh\"");
    edit(".codex/config.toml", "[profiles.fast]", "[mcp_servers.new]\ncommand = \"new\"\n\n[profiles.fast]");
    succeeds(&home, &["cursor", "codex", "--yes", "--no-connect"]);
    assert!(read(&home, ".config/execbox/servers/codex.toml").contains("[mcp_servers.new]"));
    edit(".codex/config.toml", "[tools]", "[tools] # since");
    succeeds(&home, &["--undo", "--yes"]);

    let expected = fs::read_to_string(Path::new(HOME).join(".claude.json")).unwrap();
    let expected = expected.replace("\"numStartups\": 12", "\"numStartups\": 13");
    assert_eq!(read(&home, ".claude.json"), expected.replace(SERVER, FAKE));
    let cursor = read(&home, ".cursor/mcp.json");
    for kept in
        ["\"new\": { \"command\": \"new\" }", "\"ask\": \"all\"", "// The tracker of the team.\r\n", "// of 2026\r\n"]
    {
        assert!(cursor.contains(kept), "{cursor}");
    }
    let codex = read(&home, ".codex/config.toml");
    for kept in [
        "[tools] # since",
        "[mcp_servers.new]",
        "# Documentation of libraries.\n[mcp_servers.context7]",
        "# from the shell",
    ] {
        assert!(codex.contains(kept), "{codex}");
    }
    assert!(!cursor.contains("execbox") && !codex.contains("execbox"));

    // The servers are not dropped because their file is gone.
    succeeds(&home, &["zed", "--yes", "--no-connect"]);
    fs::remove_file(home.join(".config/execbox/servers/zed.json")).unwrap();
    let stderr = fails(&home, &["--undo", "--yes"], 2);
    assert!(stderr.contains("zed.json is missing or empty: write the servers into ~/.config/zed"), "{stderr}");
    assert!(stderr.contains("-settings.json is a copy from before"), "{stderr}");
}

#[test]
fn what_cannot_be_selected_is_an_error() {
    let home = home("setup-selection");
    write(
        &home,
        ".cursor/mcp.json",
        r#"{ "mcpServers": { "a": { "command": 1 }, "b": { "command": "b", "disabled": true } } }"#,
    );
    for (arguments, expected) in [
        (&["cursr", "--yes"][..], "unknown client or server \"cursr\": did you mean \"cursor\"?"),
        (&["emacs", "--yes"], "expected one of claude-code, claude-desktop, codex,"),
        (&["vscode-insiders", "--yes"], "VS Code Insiders has no servers in ~/"),
        (&["codex.nope", "--yes"], "\"codex.nope\": Codex has codex.context7, codex.fake, codex.off"),
        (&["cursor.b", "--yes"], "Cursor: the server \"b\" cannot be moved: disabled in the configuration"),
        (&["cursor.a", "--yes"], "cannot be moved: /"),
        (&["claude-code:/work/nope", "--yes"], "unknown client or server"),
        (&["codex", "--yes", "--", "--no-such-option"], "invalid options of `execbox mcp`: unexpected argument"),
        (&["codex", "--yes", "--", "--layout", "round"], "invalid value 'round'"),
        (&["codex", "--yes", "--command", "npx '"], "invalid --command"),
        (&["codex", "--no-connect"], "there is no terminal to ask at; use --yes"),
        (&["--undo", "codex"], "no client was set up by `execbox setup` with the name \"codex\""),
    ] {
        let stderr = fails(&home, arguments, 2);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    assert!(!home.join(".config/execbox/servers").exists());
}

#[test]
fn files_that_cannot_be_used_are_reported_and_others_are() {
    let home = home("setup-problems");
    write(&home, ".cursor/mcp.json", "{ \"mcpServers\": { \"a\": }");
    fs::remove_file(home.join(".codex/config.toml")).unwrap();
    fs::create_dir(home.join(".codex/config.toml")).unwrap();
    fs::remove_dir_all(home.join(".codeium")).unwrap();
    fs::write(home.join(".codeium"), "no directory").unwrap();
    write(&home, ".gemini/settings.json", "");
    let (stdout, stderr) = succeeds(&home, &["--no-connect"]);
    assert!(stdout.contains("Zed") && stdout.contains("Gemini CLI, "), "{stdout}");
    assert!(stderr.contains("~/.cursor/mcp.json:1:24: invalid JSON: "), "{stderr}");
    assert!(stderr.contains(".codex/config.toml: is a directory"), "{stderr}");
    let empty = directory("setup-empty");
    let (stdout, stderr) = succeeds(&empty, &[]);
    assert!(
        stdout.starts_with("No servers: Claude Code, ") && stderr.contains("no MCP client of this user"),
        "{stderr}"
    );
}

/// A gateway that the user has written keeps its servers, and files with different servers of one name are not merged.
#[test]
fn entries_of_the_user_stay() {
    let own = r#"{ "mcpServers": { "execbox": { "command": "execbox", "args": ["mcp", "--config", "mine.json"] }, "a": { "command": "a" } } }"#;
    let home = home_with("setup-own", ".cursor/mcp.json", own);
    let stderr = fails(&home, &["cursor", "--yes", "--no-connect"], 2);
    assert!(stderr.contains("Cursor starts execbox already"), "{stderr}");
    let (stdout, _) = succeeds(&home, &["--no-connect"]);
    assert!(stdout.contains("starts execbox itself"), "{stdout}");

    write(&home, ".cursor/mcp.json", r#"{ "mcpServers": { "a": { "command": "a" } } }"#);
    succeeds(&home, &["cursor", "--yes", "--no-connect"]);
    let with_gateway = read(&home, ".cursor/mcp.json");
    let twice = with_gateway.replace("{ \"execbox\"", "{ \"a\": { \"command\": \"other\" }, \"execbox\"");
    write(&home, ".cursor/mcp.json", &twice);
    let expected = "the server \"a\" is in ~/.config/execbox/servers/cursor.json, too, and differs there";
    for arguments in [&["cursor", "--yes", "--no-connect"][..], &["--undo", "--yes"]] {
        let stderr = fails(&home, arguments, 2);
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn servers_that_do_not_work_are_named_and_inputs_are_missing_until_they_are_asked_for() {
    let home = home("setup-warnings");
    let (_, stderr) = succeeds(&home, &["windsurf", "vscode", "--yes"]);
    assert!(stderr.contains("warning: Windsurf: the server \"figma\" does not work: cannot connect"), "{stderr}");
    let asked =
        "warning: VS Code: the server \"fake\" cannot be used yet: mcpServers.fake.env.TOKEN: no value for the input";
    assert!(stderr.contains(asked), "{stderr}");

    write(
        &home,
        ".gemini/settings.json",
        r#"{ "mcp": { "allowed": ["a"] }, "mcpServers": { "a": { "command": "a" } } }"#,
    );
    let (_, stderr) = succeeds(&home, &["gemini-cli", "--yes", "--no-connect"]);
    assert!(stderr.contains("Gemini CLI: ~/.gemini/settings.json disables execbox: select it"), "{stderr}");
}

#[test]
fn servers_that_need_a_variable_which_is_not_set_move_by_name_only() {
    let unset = r#"{ "mcpServers": { "a": { "command": "a", "env": { "K": "${EXECBOX_TEST_UNSET}" } }, "b": { "command": "b" } } }"#;
    let home = home_with("setup-unset", ".cursor/mcp.json", unset);
    succeeds(&home, &["--all", "--yes", "--no-connect"]);
    let servers = || read(&home, ".config/execbox/servers/cursor.json");
    assert!(read(&home, ".cursor/mcp.json").contains("EXECBOX_TEST_UNSET") && servers().contains("\"b\""));
    succeeds(&home, &["cursor.a", "--yes", "--no-connect"]);
    assert!(
        !read(&home, ".cursor/mcp.json").contains("EXECBOX_TEST_UNSET") && servers().contains("EXECBOX_TEST_UNSET")
    );
}

#[test]
fn clients_start_execbox_as_the_command_says() {
    let home = home("setup-command");
    succeeds(&home, &["zed", "codex", "--yes", "--no-connect", "--command", "npx --yes execbox@latest"]);
    let zed = read(&home, ".config/zed/settings.json");
    assert!(
        zed.contains("\"command\": \"npx\",\n      \"args\": [\"--yes\", \"execbox@latest\", \"mcp\", \"--config\", "),
        "{zed}"
    );
    let codex = read(&home, ".codex/config.toml");
    assert!(codex.contains("command = \"npx\"") && codex.contains("env_vars = [\"EXECBOX_TEST_KEY\"]"), "{codex}");
    let (stdout, _) = succeeds(&home, &["--no-connect"]);
    assert!(!stdout.contains("starts execbox itself") && stdout.contains("behind execbox"), "{stdout}");

    // The file of servers is that of one file of the client.
    write(&home, "other/config.toml", "[mcp_servers.other]\ncommand = \"other\"\n");
    let other =
        command(&home, &["codex", "--yes", "--no-connect"]).env("CODEX_HOME", home.join("other").to_str().unwrap());
    let output = other.output(&home);
    let stderr = text(output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr.contains("Codex is set up in ~/.codex/config.toml: run `execbox setup --undo codex` first"),
        "{stderr}"
    );
}

/// What a user has restored by hand is not mixed with what was moved before.
#[test]
fn servers_of_an_earlier_gateway_do_not_come_back() {
    let home = home_with("setup-left-over", ".cursor/mcp.json", r#"{ "mcpServers": { "a": { "command": "a" } } }"#);
    succeeds(&home, &["cursor", "--yes", "--no-connect"]);
    write(&home, ".cursor/mcp.json", r#"{ "mcpServers": { "b": { "command": "b" } } }"#);
    succeeds(&home, &["cursor", "--yes", "--no-connect"]);
    let servers = read(&home, ".config/execbox/servers/cursor.json");
    assert!(servers.contains("\"b\"") && !servers.contains("\"a\""), "{servers}");
    let backups = fs::read_dir(home.join(".config/execbox/backups")).unwrap();
    let texts: Vec<_> = backups.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert!(texts.iter().any(|text| text.starts_with("{\n  \"mcpServers\"") && text.contains("\"a\"")), "{texts:?}");
    succeeds(&home, &["--undo", "--yes"]);
    assert_eq!(read(&home, ".cursor/mcp.json"), r#"{ "mcpServers": { "b": { "command": "b" } } }"#);
}

/// Of several commands at once, one writes each file, and no server is lost.
#[test]
fn commands_at_once_lose_nothing() {
    let home = home("setup-at-once");
    let before = files(&home);
    for undo in [false, true] {
        let arguments = if undo { &["--undo", "--yes"][..] } else { &["--all", "--yes", "--no-connect"] };
        let children: Vec<_> = (0..6).map(|_| command(&home, arguments).start(&home)).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            let stderr = text(output.stderr);
            let is_late = stderr.contains("has changed meanwhile") || undo && stderr.contains("no client was set up");
            assert!(output.status.success() || is_late, "{stderr}");
        }
        succeeds(&home, &["--all", "--yes", "--no-connect"]);
    }
    succeeds(&home, &["--undo", "--yes"]);
    assert_eq!(files(&home), before);
}

/// Starts the command with a terminal that is its controlling terminal.
fn on_terminal(home: &Path, arguments: &[&str]) -> (PtyMaster, std::process::Child) {
    let (terminal, input) = crate::support::terminal();
    let mut command = Command::new("setsid");
    command.args(["--ctty", BINARY, "setup", "--no-connect"]).args(arguments).current_dir(home);
    command.env("HOME", home).env_remove("XDG_CONFIG_HOME").env("NO_COLOR", "1");
    let child = command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (terminal, child)
}

#[test]
fn at_a_terminal_the_user_selects_servers_and_confirms_the_changes() {
    let files = |name: &str| {
        let home =
            home_with(name, ".codeium/windsurf/mcp_config.json", r#"{ "mcpServers": { "one": { "command": "x" } } }"#);
        write(&home, ".cursor/mcp.json", r#"{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#);
        home
    };
    let home = files("setup-terminal");
    let before = self::files(&home);
    for answer in ["n", "y"] {
        let (mut terminal, mut child) = on_terminal(&home, &[]);
        type_at(&mut terminal, "Cursor: put execbox in front of 2 servers? y/n, s to select: ", "s");
        type_at(&mut terminal, "\"a\"? y/n: ", "n");
        type_at(&mut terminal, "\"b\"? y/n: ", "y");
        type_at(&mut terminal, "Windsurf: put execbox in front of the server \"one\"? y/n: ", "n");
        type_at(&mut terminal, "Write this? y/n: ", answer);
        assert_eq!(child.wait().unwrap().code(), Some(i32::from(answer != "y")));
        assert_eq!(self::files(&home) == before, answer == "n");
    }
    let cursor = read(&home, ".cursor/mcp.json");
    assert!(cursor.contains("\"a\"") && !cursor.contains("\"b\""), "{cursor}");

    // A file that another program writes meanwhile is not overwritten.
    let home = files("setup-terminal-changed");
    let (mut terminal, mut child) = on_terminal(&home, &["cursor"]);
    until_shown(&mut terminal, "Write this? y/n: ");
    write(&home, ".cursor/mcp.json", r#"{ "mcpServers": { "c": { "command": "c" } } }"#);
    let before = self::files(&home);
    terminal.write_all(b"y\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!(self::files(&home), before);
    assert!(!home.join(".config/execbox/servers/cursor.json").exists());

    // The end of the input, and of the terminal, write nothing.
    for end in [true, false] {
        let (mut terminal, mut child) = on_terminal(&home, &["cursor"]);
        until_shown(&mut terminal, "Write this? y/n: ");
        if end {
            terminal.write_all(b"\x04").unwrap();
        } else {
            drop(terminal);
        }
        child.wait().unwrap();
        assert_eq!(self::files(&home), before);
    }
}

#[test]
fn values_of_inputs_are_asked_for_at_a_terminal() {
    let home = home("setup-inputs");
    let (mut terminal, mut child) = on_terminal(&home, &["vscode"]);
    type_at(&mut terminal, "Write this? y/n: ", "y");
    type_at(&mut terminal, "The key of the fake server: ", "a value");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (json, _) = succeeds(&home, &["--json"]);
    let listing: Json = serde_json::from_str(&json).unwrap();
    let clients = listing["clients"].as_array().unwrap();
    let vscode = clients.iter().find(|client| client["id"] == "vscode").unwrap();
    assert_eq!(vscode["servers"][0]["tools"][0], "hello", "{vscode}");
}
