//! "Always" as an answer about a call: the tool is added to the configuration, after the change was shown.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use execbox_mcp::rmcp::ClientHandler;
use execbox_mcp::rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, Implementation,
};
use execbox_mcp::rmcp::service::{RequestContext, RoleClient};
use serde_json::{Value as Json, json};
use tokio::io::AsyncBufReadExt as _;

use super::approvals::{approvals, on_terminal, only_pending, pending, run_with, shop, type_at, until_shown};
use crate::support::session::Session;
use crate::support::transcript::{BINARY, text};
use crate::support::wait_until;

const CONFIG: &str = "{\r\n\t\"mcpServers\": {\r\n\t\t// The shop.\r\n\t\t\"one\": {\r\n\t\t\t\"command\": \"sh\",\r\n\t\t\t\
    \"args\": [\"fake.sh\", \"one\"], // as it was\r\n\t\t\t\"ask\": \"all\"\r\n\t\t}\r\n\t}\r\n}\r\n";

const CHANGED: &str = "{\r\n\t\"mcpServers\": {\r\n\t\t// The shop.\r\n\t\t\"one\": {\r\n\t\t\t\"command\": \"sh\",\r\n\t\t\t\
    \"args\": [\"fake.sh\", \"one\"], // as it was\r\n\t\t\t\"ask\": \"all\",\r\n\t\t\t\"alwaysAllow\": [\"hello\"]\r\n\
    \t\t}\r\n\t}\r\n}\r\n";

const DIFF: &str = "7 -             \"ask\": \"all\"\n7 +             \"ask\": \"all\",\n8 +             \"alwaysAllow\": [\"hello\"]\n";

/// A directory with a server `one` in `servers.json`, which is a link to `real.json`.
fn linked(name: &str) -> PathBuf {
    let dir = shop(name, json!({}));
    fs::remove_file(dir.join("servers.json")).unwrap();
    fs::write(dir.join("real.json"), CONFIG).unwrap();
    fs::set_permissions(dir.join("real.json"), Permissions::from_mode(0o640)).unwrap();
    symlink("real.json", dir.join("servers.json")).unwrap();
    dir
}

fn real(dir: &Path) -> String {
    fs::read_to_string(dir.join("real.json")).unwrap()
}

fn lines(text: &str) -> String {
    text.lines().flat_map(|line| [line.trim_start_matches("execbox: ").trim_start(), "\n"]).collect()
}

#[tokio::test]
async fn a_tool_is_added_to_the_file_once_that_was_shown_and_confirmed() {
    let dir = linked("always");
    let session = Session::start(&dir, &["--config", "servers.json", "--timeout", "30s"]).await;
    let here = dir.clone();
    let result = run_with(&session, "await one.hello()", move || {
        let id = only_pending(&here);
        let unconfirmed = approvals(&here, &["approve", &id, "--always"]);
        let stderr = text(unconfirmed.stderr);
        let error = "there is no terminal to ask at; use --yes to write this without a question\n";
        assert!(lines(&stderr).contains(DIFF) && stderr.ends_with(error), "{stderr}");
        assert_eq!((unconfirmed.status.code(), real(&here), pending(&here).len()), (Some(2), CONFIG.to_owned(), 1));
        assert_eq!(approvals(&here, &["approve", &id, "--yes"]).status.code(), Some(2), "--yes needs --always");

        let (file, link) = (here.join("real.json"), here.join("servers.json"));
        let written = approvals(&here, &["approve", "--tool", "one.h*", "--always", "--yes"]);
        let expected = format!("{0} -> {1}\n{DIFF}{0} written\n{id} approved\n", link.display(), file.display());
        assert_eq!((lines(&text(written.stderr)), written.status.code()), (expected, Some(0)));
        assert_eq!(real(&here), CHANGED);
        assert!(link.is_symlink() && fs::metadata(&file).unwrap().permissions().mode() & 0o7777 == 0o640);
    });
    assert_eq!(result.await["result"], "hello from one");
    assert_eq!(session.run("await one.hello()").await["result"], "hello from one", "before the file is read again");
    session.end().await;

    let session = Session::start(&dir, &["--config", "servers.json", "--timeout", "30s"]).await;
    assert_eq!(session.run("await one.hello()").await["result"], "hello from one", "the next gateway does not ask");
    let here = dir.clone();
    let other = run_with(&session, "await one.fail().catch((error) => error.message)", move || {
        assert_eq!(approvals(&here, &["deny", &only_pending(&here)]).status.code(), Some(0));
    });
    assert_eq!(other.await["result"], "one.fail failed: not approved: the user refused the call");
    session.end().await;
}

/// The user removes the tool from the file, and is asked again.
#[tokio::test]
async fn an_addition_holds_as_long_as_the_file_has_it() {
    let dir = linked("always-removed");
    let log = ["--log-file", "gateway.log", "--timeout", "30s"];
    let session = Session::start(&dir, &[&["--config", "servers.json"][..], &log].concat()).await;
    let here = dir.clone();
    run_with(&session, "await one.hello()", move || {
        assert_eq!(approvals(&here, &["approve", &only_pending(&here), "--always", "--yes"]).status.code(), Some(0));
    })
    .await;
    let pid = session.process.id().unwrap().cast_signed();
    let mut reloads = 0;
    let mut reload = || {
        reloads += 1;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGHUP).unwrap();
        let is_reloaded = || {
            let log = fs::read_to_string(dir.join("gateway.log")).unwrap();
            assert!(!log.contains("restarted"), "the server stays connected: {log}");
            log.matches("configuration reloaded").count() == reloads
        };
        wait_until("the file is read again", is_reloaded);
    };
    reload();
    assert_eq!(session.run("await one.hello()").await["result"], "hello from one");
    fs::write(dir.join("real.json"), CONFIG).unwrap();
    reload();
    let here = dir.clone();
    let asked = run_with(&session, "await one.hello()", move || {
        assert_eq!(approvals(&here, &["approve", &only_pending(&here)]).status.code(), Some(0));
    });
    assert_eq!(asked.await["result"], "hello from one");
    session.end().await;
}

#[tokio::test]
async fn a_file_that_changes_during_the_question_is_not_overwritten() {
    let dir = linked("always-changed");
    let session = Session::start(&dir, &["--config", "servers.json", "--timeout", "30s"]).await;
    let here = dir.clone();
    let result = run_with(&session, "await one.hello()", move || {
        let id = only_pending(&here);
        for (answer, changed) in [("n", false), ("y", true)] {
            let (mut terminal, mut approve) = on_terminal(&here, &["approvals", "approve", &id, "--always"]);
            let shown = until_shown(&mut terminal, "Write this? y/n: ");
            assert!(lines(&shown).contains(DIFF), "{shown}");
            if changed {
                fs::write(here.join("real.json"), format!("{CONFIG} ")).unwrap();
            }
            terminal.write_all(format!("{answer}\n").as_bytes()).unwrap();
            assert_eq!(approve.wait().unwrap().code(), Some(2), "{answer}");
            assert_eq!(real(&here), if changed { format!("{CONFIG} ") } else { CONFIG.to_owned() });
        }
        let (mut terminal, mut approve) = on_terminal(&here, &["approvals", "approve", &id, "--always"]);
        type_at(&mut terminal, "Write this? y/n: ", "y");
        assert_eq!(approve.wait().unwrap().code(), Some(0));
        assert_eq!(real(&here), format!("{CHANGED} "));
    });
    assert_eq!(result.await["result"], "hello from one");
    session.end().await;
}

#[tokio::test]
async fn calls_are_allowed_for_ever_at_the_terminal_as_they_arrive() {
    let dir = linked("always-watch");
    let session = Session::start(&dir, &["--config", "servers.json", "--timeout", "30s"]).await;
    let (mut terminal, mut watch) = on_terminal(&dir, &["approvals", "watch"]);
    let here = dir.clone();
    let results = run_with(&session, "[await one.hello(), await one.hello()]", move || {
        let question = type_at(&mut terminal, "l = later: ", "w");
        let file = here.join("servers.json");
        assert!(question.contains(&format!("w = always, written to {}, ", file.display())), "{question}");
        type_at(&mut terminal, "Write this? y/n: ", "n");
        assert_eq!(real(&here), CONFIG);
        type_at(&mut terminal, "l = later: ", "w");
        type_at(&mut terminal, "Write this? y/n: ", "y");
        wait_until("the answer is sent", || pending(&here).is_empty());
        assert_eq!(real(&here), CHANGED);
        watch.kill().unwrap();
        watch.wait().unwrap();
    });
    assert_eq!(results.await["result"], json!(["hello from one", "hello from one"]));
    session.end().await;
}

#[test]
fn the_terminal_of_a_run_adds_tools_to_toml() {
    let dir = shop("always-run", json!({}));
    let toml =
        "# Mine.\n[mcp_servers.one] # the shop\ncommand = \"sh\"\nargs = ['fake.sh', 'one'] # as it was\n\n[other]\n";
    fs::write(dir.join("config.toml"), toml).unwrap();
    let run = ["run", "--config", "config.toml", "--ask", "all", "-e", "[await one.hello(), await one.hello()]"];
    let (mut terminal, mut child) = on_terminal(&dir, &run);
    type_at(&mut terminal, "q = no further call: ", "w");
    let shown = type_at(&mut terminal, "Write this? y/n: ", "y");
    assert!(shown.contains("config.toml\r\n5 + alwaysAllow = [\"hello\"]\r\n"), "{shown}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let changed = toml.replace("was\n", "was\nalwaysAllow = [\"hello\"]\n");
    assert_eq!(fs::read_to_string(dir.join("config.toml")).unwrap(), changed);
    let output = Command::new(BINARY).args(run).current_dir(&dir).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "the next run does not ask");
}

#[tokio::test]
async fn a_tool_without_an_entry_in_a_file_is_not_written() {
    let dir = shop("always-option", json!({}));
    let arguments = ["--server", "one=sh fake.sh one", "--ask", "all", "--timeout", "30s"];
    let session = Session::start(&dir, &arguments).await;
    let here = dir.clone();
    let result = run_with(&session, "await one.hello()", move || {
        let id = only_pending(&here);
        let refused = approvals(&here, &["approve", &id, "--always", "--yes"]);
        let expected = "error: cannot write that one.hello is always allowed: its server is in no file of --config; start \
                        the gateway with `--always-allow one.hello` instead\n";
        assert_eq!((text(refused.stderr), refused.status.code()), (expected.to_owned(), Some(2)));
        assert_eq!(approvals(&here, &["approve", &id]).status.code(), Some(0));
    });
    assert_eq!(result.await["result"], "hello from one");
    session.end().await;
}

/// A client whose user chooses `approve_always` where that is offered, and otherwise approves one call. Records the titles of the
/// choices.
#[derive(Clone, Default)]
struct User(Arc<Mutex<Vec<String>>>);

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("user", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let form = serde_json::to_value(request).unwrap();
        let decisions = form["requestedSchema"]["properties"]["decision"]["oneOf"].as_array().unwrap();
        let offered = |name: &str| decisions.iter().find(|decision| decision["const"] == name);
        let chosen = offered("approve_always").or_else(|| offered("approve")).unwrap();
        self.0.lock().unwrap().push(chosen["title"].as_str().unwrap().to_owned());
        let content: Json = json!({ "decision": chosen["const"] });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }
}

#[tokio::test]
async fn the_form_of_a_client_shows_what_it_writes() {
    let dir = linked("always-form");
    let (user, arguments) = (User::default(), ["--config", "servers.json", "--timeout", "30s"]);
    let session = Session::start_with(user.clone(), &dir, &arguments).await;
    for _ in 0..2 {
        assert_eq!(session.run("await one.hello()").await["result"], "hello from one");
    }
    let file = dir.join("servers.json");
    let title = format!("Always: adds \"hello\" to \"alwaysAllow\" of \"one\" in {}", file.display());
    assert_eq!((&*user.0.lock().unwrap(), real(&dir)), (&vec![title], CHANGED.to_owned()));
    let (stderr, _) = session.end().await;
    assert!(
        stderr.contains("execbox: the user of the client adds \"hello\" to \"alwaysAllow\" of \"one\" in "),
        "{stderr}"
    );
}

/// The client over HTTP is another gateway, which puts the form to its own client.
#[tokio::test]
async fn clients_over_http_are_not_offered_to_change_the_configuration() {
    let (dir, near) = (linked("always-http"), shop("always-http-client", json!({})));
    fs::write(dir.join("token.txt"), "a-token-of-some-length\n").unwrap();
    let mut command = tokio::process::Command::new(BINARY);
    command.args(["mcp", "--config", "servers.json", "--quiet", "--http", "127.0.0.1:0", "--token-file", "token.txt"]);
    let mut process = command.current_dir(&dir).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(process.stderr.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.strip_prefix("execbox: listening on ").unwrap();
    let headers = json!({ "Authorization": "Bearer a-token-of-some-length" });
    fs::write(near.join("far.json"), json!({ "servers": { "far": { "url": url, "headers": headers } } }).to_string())
        .unwrap();
    let user = User::default();
    let session = Session::start_with(user.clone(), &near, &["--config", "far.json", "--timeout", "30s"]).await;
    let result = session.run("await far.mcp_execute_code({ code: 'await one.hello()' })").await;
    assert_eq!(
        (&result["ok"], &*user.0.lock().unwrap()),
        (&json!(true), &vec!["Make this call".to_owned()]),
        "{result}"
    );
    assert_eq!(real(&dir), CONFIG);
    session.end().await;
}
