//! Configurations of MCP servers, with the real binary: keys without effect, `envFile`, variables of editors, and inputs, which
//! are asked for on a pseudo-terminal.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::support::transcript::{BINARY, Typed, directory, text, transcript};
use nix::sys::stat::Mode;
use nix::sys::termios::{LocalFlags, tcgetattr};
use serde_json::{Value as Json, json};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

const SECRET: &str = "s3cr3t-A1b2C3d4";

/// A directory with the fake server `fake.sh` and a configuration.
fn workspace(name: &str, file: &str, config: &Json) -> PathBuf {
    let dir = directory(name);
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let file = dir.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, config.to_string()).unwrap();
    dir
}

/// A command whose values of inputs are below `dir/home`, and which has no controlling terminal.
fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(BINARY).args(arguments).current_dir(dir).stdin(Stdio::null());
    command.env("XDG_CONFIG_HOME", dir.join("home")).env("NO_COLOR", "1");
    command
}

fn stderr(output: &Output) -> String {
    text(output.stderr.clone())
}

#[test]
fn keys_without_effect() {
    let dir = directory("configuration-keys");
    let config = r#"{
  "mcpServers": {
    "github": {
      "command": "/nonexistent/server", "autoStart": false,
      "exposed": ["get_*"], "description": "GitHub", "timeout": 60,
      "frobnicate": true, "headers": { "A": "b" }
    },
    "off": { "command": "x", "disabled": true, "dney": ["*"] }
  }
}"#;
    fs::write(dir.join("servers.json"), config).unwrap();
    let commands = [
        &["mcp", "--config", "servers.json"][..],
        &["mcp", "--config", "servers.json", "--quiet"],
        &["tools", "--config", "servers.json"],
        &["types", "--config", "servers.json"],
        &["run", "--config", "servers.json", "-e", "1"],
    ];
    insta::assert_snapshot!(transcript(&dir, &commands.map(Typed::new)));
}

#[test]
fn variables_come_from_env_files() {
    let config = json!({ "servers": { "a": {
        "command": "sh", "args": ["${workspaceFolder}/fake.sh"], "envFile": "conf/.env", "env": { "MODE": "second" },
        "results": "envelope"
    } } });
    let dir = workspace("configuration-env-file", ".vscode/mcp.json", &config);
    fs::create_dir_all(dir.join("conf")).unwrap();
    fs::write(dir.join("conf/.env"), format!("# x\nexport GREETING='hello all'\nMODE=first\nTOKEN={SECRET}\n"))
        .unwrap();
    // The path is relative to the workspace, not to the current directory.
    let code = "const text = JSON.stringify(await a.env());
        [text.includes('GREETING=hello all'), text.includes('MODE=second'), text.includes('MODE=first'), text.includes('TOKEN=s3cr3t'), text]";
    let output = command(&dir, &["run", "--config", "../.vscode/mcp.json", "-e", code, "--json"]);
    let output = { output }.current_dir(dir.join("conf")).output().unwrap();
    let result: Json = serde_json::from_slice(&output.stdout).unwrap();
    let items = result["result"].as_array().unwrap();
    assert_eq!(items[..4], [true, true, false, true], "{result} {}", stderr(&output));
    assert!(items[4].as_str().unwrap().contains("TOKEN=${TOKEN}"), "{result}");
    assert!(!text(output.stdout).contains(SECRET));
}

#[test]
fn env_files_that_cannot_be_read_skip_their_server() {
    let servers = ["none.env", "directory", "fifo", "/dev/zero", "long.env", "latin1.env", "broken.env"];
    let entry = |file: &&str| ((*file).to_owned(), json!({ "command": "x", "envFile": file }));
    let config = json!({ "mcpServers": servers.iter().map(entry).collect::<serde_json::Map<_, _>>() });
    let dir = workspace("configuration-env-files", "servers.json", &config);
    fs::create_dir(dir.join("directory")).unwrap();
    nix::unistd::mkfifo(&dir.join("fifo"), Mode::S_IRWXU).unwrap();
    fs::write(dir.join("long.env"), "A=1\n".repeat(20_000)).unwrap();
    fs::write(dir.join("latin1.env"), b"A=1\nB=\xe4\n").unwrap();
    fs::write(dir.join("broken.env"), format!("A=1\n\n{SECRET}\n")).unwrap();
    insta::assert_snapshot!(transcript(&dir, &[Typed::new(&["tools", "--config", "servers.json"])]));
}

#[test]
fn the_workspace_folder_depends_on_the_file() {
    let config = json!({ "mcpServers": { "a": {
        "command": "sh", "args": ["fake.sh", "${workspaceFolder}|${workspaceFolderBasename}|${userHome}|${/}"]
    } } });
    let dir = workspace("configuration-workspace", ".cursor/mcp.json", &config);
    fs::create_dir(dir.join("other")).unwrap();
    fs::copy(dir.join(".cursor/mcp.json"), dir.join("other/mcp.json")).unwrap();
    fs::copy(FAKE, dir.join("other/fake.sh")).unwrap();
    fs::copy(FAKE, dir.join(".cursor/fake.sh")).unwrap();
    let real = fs::canonicalize(&dir).unwrap();
    for (directory, file, workspace) in [
        (dir.clone(), ".cursor/mcp.json", &real),
        (dir.join("other"), "../.cursor/mcp.json", &real),
        (dir.join(".cursor"), "mcp.json", &real),
        (dir.join(".cursor"), "./../.cursor/../.cursor/mcp.json", &real),
        (dir.clone(), "other/mcp.json", &real),
        (dir.join("other"), "mcp.json", &real.join("other")),
    ] {
        let mut command = command(&dir, &["run", "--config", file, "-e", "await a.hello()"]);
        let output = command.current_dir(directory).env("HOME", "/srv/ann").output().unwrap();
        let name = workspace.file_name().unwrap().to_str().unwrap();
        let expected = format!("\"hello from {}|{name}|/srv/ann|/\"\n", workspace.display());
        assert_eq!(text(output.stdout.clone()), expected, "{file}: {}", stderr(&output));
    }
}

/// A program on a pseudo-terminal, which is its controlling terminal.
struct OnTerminal {
    child: Child,
    master: File,
    slave: OwnedFd,
    printed: Receiver<Vec<u8>>,
    seen: String,
    /// The number of bytes of `seen` that were waited for.
    waited_for: usize,
}

impl OnTerminal {
    /// Runs a shell command with `execbox` as `$0`. Values of inputs are below `dir/home`.
    fn start(dir: &Path, line: &str) -> Self {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let end = || Stdio::from(terminal.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "sh", "-c", line, BINARY]).current_dir(dir);
        command.env("XDG_CONFIG_HOME", dir.join("home")).env("NO_COLOR", "1");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let master = File::from(terminal.master);
        let (send, printed) = channel();
        let mut reader = master.try_clone().unwrap();
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                let _ = send.send(bytes[..read].to_vec());
            }
        });
        Self { child, master, slave: terminal.slave, printed, seen: String::new(), waited_for: 0 }
    }

    /// Waits until the program has printed a text after the one that was waited for before.
    fn wait_for(&mut self, expected: &str) -> &mut Self {
        loop {
            if let Some(at) = self.seen[self.waited_for..].find(expected) {
                self.waited_for += at + expected.len();
                return self;
            }
            match self.printed.recv_timeout(Duration::from_mins(1)) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(error) => panic!("{error}: waiting for {expected:?}: {}", self.seen),
            }
        }
    }

    fn type_keys(&mut self, keys: &str) -> &mut Self {
        self.master.write_all(keys.as_bytes()).unwrap();
        self
    }

    fn echoes(&self) -> bool {
        let flags = tcgetattr(&self.slave).unwrap().local_flags;
        flags.contains(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG)
    }

    /// Waits for the end of the program. Returns all of its output, the exit code, and whether the terminal echoes.
    fn end(mut self) -> (String, Option<i32>, bool) {
        let code = self.child.wait().unwrap().code();
        let echoes = self.echoes();
        drop(self.slave);
        loop {
            match self.printed.recv_timeout(Duration::from_mins(1)) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(RecvTimeoutError::Disconnected) => return (self.seen.replace("\r\n", "\n"), code, echoes),
                Err(error) => panic!("{error}: {}", self.seen),
            }
        }
    }
}

/// A configuration with inputs of all kinds.
fn with_inputs() -> Json {
    json!({
        "inputs": [
            { "type": "promptString", "id": "api-key", "description": "The key of the shop", "password": true },
            { "type": "promptString", "id": "name", "default": "Ann" },
            { "type": "pickString", "id": "region", "options": ["eu", { "label": "America", "value": "us" }] }
        ],
        "servers": {
            "a": {
                "command": "sh", "args": ["fake.sh", "${input:name} in ${input:region}"],
                "env": { "VALUE": "${input:api-key}", "TOKEN": "token-of-a" }, "results": "envelope"
            },
            "b": { "command": "sh", "args": ["fake.sh", "b"] }
        }
    })
}

const RUN: &[&str] = &["run", "--config", "servers.json", "-e", "[await a.hello(), await a.env()]"];

fn stored(dir: &Path) -> Json {
    serde_json::from_slice(&fs::read(dir.join("home/execbox/inputs.json")).unwrap()).unwrap()
}

#[test]
fn inputs_are_asked_for_once_and_stored() {
    let dir = workspace("configuration-inputs", "servers.json", &with_inputs());
    let without = command(&dir, &["tools", "--config", "servers.json"]).output().unwrap();
    assert_eq!(
        stderr(&without),
        "warning: server \"a\" skipped: servers.a.args[1]: no value for the input \"name\": none is stored, and there is no \
         terminal to ask; run `execbox tools --config servers.json` in a terminal once\n\
         warning: b: tool \"broken\": inputSchema/type is not used: invalid type \"\": expected null, boolean, integer, \
         number, string, array or object\n\
         execbox: 7 tools\n"
    );
    assert_eq!(without.status.code(), Some(1), "server b has tools");
    assert!(text(without.stdout).contains("b.hello"));

    let mut asked = OnTerminal::start(&dir, "exec \"$0\" tools --config servers.json");
    asked
        .wait_for("servers.json needs a value for the input \"name\"")
        .wait_for("name [default: Ann]: ")
        .type_keys("\n");
    asked.wait_for("1) eu").wait_for("2) America (us)").wait_for("region: ").type_keys("3\n");
    asked.wait_for("region: ").type_keys("2\n");
    asked.wait_for("The key of the shop: ");
    assert!(!asked.echoes());
    asked.type_keys(&format!("wrong\x15{SECRET}éx\x7f\x7f\r"));
    asked.wait_for("stored in");
    let (seen, code, echoes) = asked.end();
    assert_eq!((code, echoes), (Some(0), true), "{seen}");
    assert!(seen.contains("a.hello") && seen.contains("b.hello") && !seen.contains("s3cr3t"), "{seen}");

    let file = fs::canonicalize(dir.join("servers.json")).unwrap();
    let values = json!({ "api-key": SECRET, "name": "Ann", "region": "us" });
    assert_eq!(stored(&dir), json!({ file.to_str().unwrap(): values }));
    let mode = |path: &str| fs::metadata(dir.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("home/execbox/inputs.json"), mode("home/execbox")), (0o600, 0o700));

    // The values are neither asked for again nor shown.
    let output = command(&dir, RUN).output().unwrap();
    let printed = text(output.stdout.clone());
    assert!(printed.contains("hello from Ann in us") && printed.contains("VALUE=${api-key}"), "{}", stderr(&output));
    assert!(!printed.contains(SECRET), "{printed}");
}

#[test]
fn stored_values_are_used_only_for_their_configuration() {
    let dir = workspace("configuration-inputs-other", "servers.json", &with_inputs());
    fs::copy(dir.join("servers.json"), dir.join("copy.json")).unwrap();
    store(&dir, 0o600);
    assert_eq!(command(&dir, RUN).output().unwrap().status.code(), Some(0));
    let copy = command(&dir, &["tools", "--config", "copy.json"]).output().unwrap();
    assert!(stderr(&copy).contains("run `execbox tools --config copy.json` in a terminal once"), "{}", stderr(&copy));
}

/// Stores values of all inputs.
fn store(dir: &Path, mode: u32) {
    let file = fs::canonicalize(dir.join("servers.json")).unwrap();
    let values = json!({ file.to_str().unwrap(): { "api-key": SECRET, "name": "Ann", "region": "eu" } });
    let path = dir.join("home/execbox/inputs.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&path, values.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_of_values_that_others_can_read_is_rejected() {
    let dir = workspace("configuration-inputs-open", "servers.json", &with_inputs());
    store(&dir, 0o644);
    let output = command(&dir, &["tools", "--config", "servers.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = "inputs.json can be read by other users; run `chmod 600 ";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    assert!(!stderr(&output).contains(SECRET));
}

#[test]
fn ctrl_c_at_a_question_ends_the_command_and_restores_the_terminal() {
    let mut config = with_inputs();
    config["servers"]["a"]["args"] = json!(["fake.sh", "${input:api-key}", "${input:name}"]);
    let dir = workspace("configuration-inputs-interrupt", "servers.json", &config);
    let mut asked = OnTerminal::start(&dir, "exec \"$0\" tools --config servers.json");
    asked.wait_for("The key of the shop: ").type_keys("abc\x03");
    let (seen, code, echoes) = asked.end();
    assert_eq!((code, echoes), (Some(130), true), "{seen}");
    assert!(!seen.contains("\"name\"") && !seen.contains("abc"), "{seen}");
    assert!(!dir.join("home").exists());
}

#[test]
fn the_end_of_input_at_a_question_skips_the_server() {
    let mut config = with_inputs();
    config["servers"]["a"]["args"] = json!(["fake.sh", "${input:api-key}"]);
    let dir = workspace("configuration-inputs-end", "servers.json", &config);
    let mut asked = OnTerminal::start(&dir, "exec \"$0\" tools --config servers.json");
    asked.wait_for("The key of the shop: ").type_keys("\x04");
    let (seen, code, echoes) = asked.end();
    assert_eq!((code, echoes), (Some(1), true), "{seen}");
    assert!(seen.contains("no value for the input \"api-key\": no answer") && seen.contains("b.hello"), "{seen}");
}

/// A client with a terminal of its own starts servers that could open it.
#[test]
fn the_gateway_of_a_client_and_programs_in_the_background_do_not_ask() {
    let dir = workspace("configuration-inputs-client", "servers.json", &with_inputs());
    for line in [
        "exec \"$0\" mcp --config servers.json < /dev/null",
        "exec \"$0\" tools --config servers.json < /dev/null 2> log; cat log",
        "set -m; \"$0\" tools --config servers.json & wait",
    ] {
        let (seen, _, _) = OnTerminal::start(&dir, line).end();
        let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!((seen + &log).contains("there is no terminal to ask"), "{line}");
        assert!(!dir.join("home").exists(), "{line}");
    }
}

#[test]
fn a_configuration_from_a_pipe_is_asked_for_but_not_stored() {
    let mut config = with_inputs();
    config["servers"]["a"]["args"] = json!(["fake.sh", "${input:name} and ${input:name}"]);
    config["servers"]["a"]["env"] = json!({ "TOKEN": "x" });
    let dir = workspace("configuration-inputs-pipe", "servers.json", &config);
    let line = "cat servers.json | \"$0\" run --config /dev/stdin -e 'await a.hello()'";
    let mut asked = OnTerminal::start(&dir, line);
    asked.wait_for("name [default: Ann]: ").type_keys("Bob\n");
    let (seen, code, _) = asked.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("hello from Bob and Bob") && !dir.join("home").exists(), "{seen}");
}
