//! `execbox login` and `execbox logout`, with a server that requires OAuth. The tests act as the browser.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use super::keyring::Keyring;
use crate::support::session::Session;
use crate::support::transcript::{BINARY, directory, text};
use crate::support::{Signal, send};
use serde_json::{Value as Json, json};

const TOKEN: &str = "access-A1b2C3d4";

/// Serves an MCP server with the tool `ask`, and its authorization server, at the address that is returned. Tokens are valid
/// after a login, until they are revoked.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let (at, is_valid) = (origin.clone(), Arc::new(Mutex::new(false)));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (at, is_valid) = (at.clone(), Arc::clone(&is_valid));
            thread::spawn(move || answer(stream.unwrap(), &at, &is_valid));
        }
    });
    origin
}

fn answer(mut stream: TcpStream, origin: &str, is_valid: &Mutex<bool>) -> Option<()> {
    let mut request = String::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
        request += std::str::from_utf8(&chunk[..length]).ok()?;
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head, body);
        }
    };
    let json = |value: Json| ("200 OK", "Content-Type: application/json\r\n".to_owned(), value.to_string());
    let has_token = *is_valid.lock().unwrap() && head.contains(TOKEN);
    let (status, headers, text) = match head.split(['?', ' ']).take(2).collect::<Vec<_>>()[..] {
        ["POST", "/mcp"] if has_token && body.contains("\"write\"") => {
            let challenge = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"w:all\"\r\n";
            ("403 X", challenge.to_owned(), String::new())
        }
        ["POST", "/mcp"] if has_token => mcp(body),
        [_, "/mcp"] => ("401 X", "WWW-Authenticate: Bearer\r\n".to_owned(), String::new()),
        ["GET", "/.well-known/oauth-protected-resource/mcp"] => {
            json(json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] }))
        }
        ["GET", "/.well-known/oauth-authorization-server"] => json(json!({
            "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
            "revocation_endpoint": format!("{origin}/revoke"), "code_challenge_methods_supported": ["S256"],
        })),
        ["POST", "/register"] => json(json!({ "client_id": "c", "redirect_uris": [] })),
        ["GET", "/authorize"] => {
            let (back, state) = (parameter(head, "redirect_uri"), parameter(head, "state"));
            let back = back.replace("%3A", ":").replace("%2F", "/");
            ("302 X", format!("Location: {back}?code=c&state={state}\r\n"), String::new())
        }
        ["POST", "/token"] => {
            *is_valid.lock().unwrap() = true;
            json(json!({ "access_token": TOKEN, "refresh_token": "refresh-A1b2C3d4", "token_type": "Bearer" }))
        }
        ["POST", "/revoke"] => {
            *is_valid.lock().unwrap() = false;
            json(Json::Null)
        }
        _ => ("404 X", String::new(), String::new()),
    };
    let length = text.len();
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{text}").ok()
}

fn mcp(body: &str) -> (&'static str, String, String) {
    let message: Json = serde_json::from_str(body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "w", "version": "1" }
        }),
        "tools/list" => json!({ "tools": [{ "name": "ask", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": format!("fine {TOKEN}") }] }),
        _ => return ("202 X", String::new(), String::new()),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    ("200 OK", "Content-Type: application/json\r\n".to_owned(), answer.to_string())
}

fn parameter(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("{name}=")).unwrap();
    rest.split(['&', ' ']).next().unwrap().to_owned()
}

/// A page, as a browser shows it: redirects are followed.
fn browse(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    match page.lines().find_map(|line| line.strip_prefix("Location: ")) {
        Some(next) => browse(next),
        None => page,
    }
}

/// A directory with a configuration of three servers, one of which requires a login.
fn workspace(name: &str) -> PathBuf {
    let dir = directory(name);
    let servers = json!({
        "wiki": { "url": format!("{}/mcp", serve()) },
        "program": { "command": "/nonexistent/server" },
        "keyed": { "url": "http://127.0.0.1:1/mcp", "headers": { "authorization": "Bearer x" } },
    });
    fs::write(dir.join("servers.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
    dir
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).args(["--config", "servers.json"]).current_dir(dir).stdin(Stdio::null());
    command.env("XDG_CONFIG_HOME", dir.join("home")).env("NO_COLOR", "1");
    // Tests do not use the keyring of the user.
    command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

/// Runs a command. Returns its output, and the exit code.
fn shown(dir: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = run(dir, arguments);
    (text(output.stdout) + &text(output.stderr), output.status.code())
}

/// Starts a login that waits for the browser. Returns it with the address that it has printed, and the rest of its standard
/// error.
fn start_login(command: &mut Command) -> (Child, String, BufReader<ChildStderr>) {
    let mut login = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let url = line.strip_prefix("execbox: to log in to \"wiki\", open ").unwrap_or_else(|| panic!("{line}")).trim();
    (login, url.to_owned(), lines)
}

fn log_in(dir: &Path) -> String {
    log_in_with(&mut command(dir, &["login", "wiki", "--no-browser"]))
}

fn log_in_with(command: &mut Command) -> String {
    let (mut login, url, mut rest) = start_login(command);
    assert!(browse(&url).contains("You can close this page"));
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert_eq!(login.wait().unwrap().code(), Some(0), "{said}");
    said
}

fn list(dir: &Path) -> String {
    let (list, code) = shown(dir, &["login"]);
    assert_eq!(code, Some(0), "{list}");
    list
}

#[test]
fn a_login_is_listed_kept_for_its_owner_used_and_revoked() {
    let dir = workspace("login-kept");
    let others = "program  no login: a program\nkeyed    no login: has the header `Authorization`\n";
    assert_eq!(list(&dir), format!("wiki     login required\n{others}"));
    let (said, code) = shown(&dir, &["tools"]);
    assert!(said.contains("server \"wiki\": login required: run `execbox login wiki`"), "{said}");
    assert_eq!(code, Some(1));
    let said = log_in(&dir);
    assert!(said.starts_with("execbox: logged in to \"wiki\"; the tokens are in ") && !said.contains(TOKEN), "{said}");
    assert!(said.ends_with("logins.json, as plain text, because no keyring is available\n"), "{said}");
    let file = dir.join("home/execbox/logins.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains(TOKEN));
    assert_eq!(list(&dir), format!("wiki     logged in\n{others}"));
    let (said, _) = shown(&dir, &["tools"]);
    assert!(said.contains("wiki.ask"), "{said}");
    let (said, code) = shown(&dir, &["run", "-e", "await wiki.ask({})"]);
    assert!(said.contains("fine ${access_token}") && !said.contains(TOKEN), "{said}");
    assert_eq!(code, Some(0));
    let (said, code) = shown(&dir, &["logout", "wiki"]);
    assert_eq!((said.as_str(), code), ("execbox: logged out of \"wiki\"; its tokens are revoked\n", Some(0)));
    assert!(!fs::read_to_string(&file).unwrap().contains("A1b2C3d4"));
    assert_eq!(shown(&dir, &["logout", "wiki"]).0, "execbox: not logged in to \"wiki\"\n");
    assert_eq!(list(&dir), format!("wiki     login required\n{others}"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (said, code) = shown(&dir, &["login", "wiki"]);
    assert!(said.contains("the stored logins cannot be used: ") && said.contains("run `chmod 600 "), "{said}");
    assert_eq!(code, Some(2));
}

#[test]
fn the_doctor_names_the_command_that_logs_in() {
    let dir = workspace("login-doctor");
    let servers = json!({ "mcpServers": { "my wiki": { "url": format!("{}/mcp", serve()) } } });
    fs::write(dir.join("my servers.json"), servers.to_string()).unwrap();
    let arguments = ["doctor", "--config", "my servers.json", "--server", "key=sh ghp_A1b2C3d4e5F6"];
    let (said, code) = shown(&dir, &arguments);
    let options = "--config 'my servers.json' --config servers.json --server 'key=sh ${argument}'";
    for name in ["'my wiki'", "wiki"] {
        let line = format!(
            "\n   login required: run `execbox login {name}`\n   remedy: run `execbox login {name} {options}`\n"
        );
        assert!(said.contains(&line), "{said}");
    }
    assert_eq!(code, Some(1));
}

#[test]
fn tokens_are_encrypted_with_a_key_in_the_keyring() {
    let dir = workspace("login-keyring");
    let (keyring, bus) = Keyring::serve(&dir);
    let with_bus = |arguments: &[&str]| {
        let mut command = command(&dir, arguments);
        command.env("DBUS_SESSION_BUS_ADDRESS", &bus);
        command
    };
    let shown = |arguments: &[&str]| {
        let output = with_bus(arguments).output().unwrap();
        text(output.stdout) + &text(output.stderr)
    };
    let log_in = || log_in_with(&mut with_bus(&["login", "wiki", "--no-browser"]));
    let file = dir.join("home/execbox/logins.json");
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    assert!(log_in().ends_with("logins.json, encrypted with a key in the keyring\n"));
    let stored = fs::read_to_string(&file).unwrap();
    assert!(keyring.has_item() && !stored.contains("A1b2C3d4") && !stored.contains("refresh"), "{stored}");
    assert!(shown(&["run", "-e", "await wiki.ask({})"]).contains("fine ${access_token}"));
    assert_eq!(first_line(shown(&["login"])), "wiki     logged in");
    // The next login uses the same key, and an encrypted login needs it.
    assert!(log_in().ends_with("encrypted with a key in the keyring\n"));
    assert_eq!(first_line(shown(&["login"])), "wiki     logged in");
    let (said, code) = self::shown(&dir, &["run", "-e", "await wiki.ask({})"]);
    assert!(said.contains("login unknown: the stored logins cannot be read; run `execbox login` to see why"), "{said}");
    assert_eq!(code, Some(1));
    assert!(list(&dir).starts_with("wiki     login unknown: no keyring is available: "));
    *keyring.is_locked.lock().unwrap() = true;
    let listed = first_line(shown(&["login"]));
    assert!(listed.starts_with("wiki     login unknown: "), "{listed}");
    *keyring.is_locked.lock().unwrap() = false;
    keyring.clear();
    let reason = "the keyring has no key of execbox; log in again, with --no-keyring to need none";
    assert_eq!(first_line(shown(&["login"])), format!("wiki     login unknown: {reason}"));
    let warning = "warning: its tokens were not revoked and are valid until they expire: the keyring has no key";
    assert!(shown(&["logout", "wiki"]).contains(warning));
    assert_eq!(first_line(shown(&["login"])), "wiki     login required");
    // Plain text, by option.
    let said = log_in_with(&mut with_bus(&["login", "wiki", "--no-browser", "--no-keyring"]));
    assert!(said.ends_with("logins.json, as plain text\n") && !keyring.has_item(), "{said}");
    assert!(fs::read_to_string(&file).unwrap().contains(TOKEN));
}

#[tokio::test]
async fn a_running_gateway_says_that_a_login_is_needed_and_uses_it() {
    let dir = workspace("login-gateway");
    let arguments =
        ["--config", "servers.json", "--log-file", "gateway.log", "--timeout", "10m", "--executor", "inline"];
    let session = Session::start(&dir, &arguments).await;
    let needs = "login required: run `execbox login wiki`";
    let found = session.call("mcp_search_tools", json!({})).await;
    let found = serde_json::to_string(&found).unwrap();
    assert!(found.contains(needs), "{found}");
    let failed = session.run("await wiki.ask({})").await.to_string();
    assert!(failed.contains(needs), "{failed}");
    let status = || {
        let mut status = Command::new(BINARY);
        text(status.arg("status").env("XDG_RUNTIME_DIR", &dir).output().unwrap().stdout)
    };
    crate::support::wait_until("the status", || status().contains(&format!("wiki     failed    {needs}")));
    let place = dir.clone();
    tokio::task::spawn_blocking(move || log_in(&place)).await.unwrap();
    loop {
        let result = session.run("await wiki.ask({})").await;
        if result["result"] == "fine ${access_token}" {
            break;
        }
        let result = result.to_string();
        let is_expected =
            [needs, "is still starting", "was not available when"].iter().any(|text| result.contains(text));
        assert!(is_expected, "{result}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    crate::support::wait_until("the status", || status().contains("wiki     ready     1 tool"));
    let (said, _) = session.end().await;
    let log = fs::read_to_string(dir.join("gateway.log")).unwrap();
    assert!(!said.contains("A1b2C3d4") && !log.contains("A1b2C3d4") && log.contains(needs), "{said}\n{log}");
}

#[test]
fn a_scope_that_a_call_lacks_is_listed_and_requested_by_the_next_login() {
    let dir = workspace("login-scope");
    log_in(&dir);
    let (said, code) = shown(&dir, &["run", "-e", "await wiki.ask({ write: true })"]);
    let reason = "the login lacks the scope \"w:all\": run `execbox login wiki` to request it";
    assert!(said.contains(reason) && code == Some(1), "{said}");
    assert!(list(&dir).starts_with("wiki     logged in; log in again for the scope \"w:all\"\n"));
    let (mut login, url, _) = start_login(&mut command(&dir, &["login", "wiki", "--no-browser"]));
    assert!(url.contains("&scope=w%3Aall"), "{url}");
    send(Signal::SIGINT, login.id());
    login.wait().unwrap();
    // A configuration with scopes requests these, and the login says what is missing.
    let file = dir.join("servers.json");
    let mut servers: Json = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    servers["mcpServers"]["wiki"]["oauth"] = json!({ "scopes": ["w:some"] });
    fs::write(&file, servers.to_string()).unwrap();
    let output = command(&dir, &["login", "wiki", "--no-browser", "--timeout", "1ms"]).output().unwrap();
    let said = text(output.stderr);
    assert!(said.starts_with("warning: calls have lacked the scope \"w:all\": add it to `oauth.scopes`\n"), "{said}");
    assert!(said.contains("&scope=w%3Asome"), "{said}");
}

#[test]
fn the_browser_gets_the_address_as_one_argument() {
    let dir = workspace("login-browser");
    let programs = dir.join("programs");
    fs::create_dir_all(&programs).unwrap();
    for name in ["xdg-open", "open"] {
        let script = programs.join(name);
        fs::write(&script, "#!/bin/sh\necho \"$# $1\" > opened.new\nmv opened.new opened\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let (mut login, url, _) = start_login(command(&dir, &["login", "wiki"]).env("PATH", path));
    crate::support::wait_until("the browser", || dir.join("opened").exists());
    assert_eq!(fs::read_to_string(dir.join("opened")).unwrap(), format!("1 {url}\n"));
    send(Signal::SIGINT, login.id());
    assert_eq!(login.wait().unwrap().code(), Some(130));
    // Without a browser, the address is still printed.
    let (mut login, url, mut rest) = start_login(command(&dir, &["login", "wiki"]).env("PATH", "/nonexistent"));
    browse(&url);
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("execbox: no browser could be started; open the address yourself\n"), "{said}");
    assert_eq!(login.wait().unwrap().code(), Some(0));
}

#[test]
fn logins_that_are_not_possible() {
    let dir = workspace("login-failures");
    for (arguments, said, code) in [
        (&["login", "wki"][..], "unknown server \"wki\": expected one of wiki, program, keyed", 2),
        (&["logout", "wki"], "unknown server \"wki\": expected one of wiki, program, keyed", 2),
        (
            &["login", "program"],
            "server \"program\" is a program (`command`): only servers with a `url` have a login",
            2,
        ),
        (
            &["login", "keyed"],
            "server \"keyed\" has the header `Authorization` in the configuration; remove it to log in",
            2,
        ),
        (
            &["login", "down", "--server", "down=http://127.0.0.1:1/mcp"],
            "cannot log in to \"down\": http://127.0.0.1:1: cannot connect: connection refused",
            1,
        ),
    ] {
        let expected = (format!("error: {said}\n"), Some(code));
        assert_eq!(shown(&dir, arguments), expected, "{arguments:?}");
    }
    let (said, code) = shown(&dir, &["login", "wiki", "--no-browser", "--timeout", "1ms"]);
    assert!(said.ends_with("cannot log in to \"wiki\": the login was not complete within 1ms\n"), "{said}");
    assert_eq!(code, Some(1));
}
