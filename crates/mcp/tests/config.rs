//! Reads every configuration in `tests/config`, and every file of clients in `tests/clients`, and compares the result with the
//! expected one.
//!
//! A case is a title, a configuration, and after `---` its servers, the skipped servers and the ignored keys, or its clients; or the
//! error if the configuration is invalid.
//! `UPDATE=1 cargo test --workspace --test config` rewrites the expected results; review the difference.
//! The environment has `TOKEN` (`ghp_A1b2C3d4`), `CI_TOKEN` (`0123456789-of-ci`), `PROJECT` (`/work/shop`), `MODE` (`production`) and `EMPTY`. The workspace
//! folder is `/work/shop`, the home directory `/srv/ann`. In the workspace folder are the files of [`ENV_FILES`]. The value of
//! every input is `answer to ID`, except that the input `none` has none.
//!
//! The cases in `tests/always` have after `---` the configuration in which the server `shop` always allows its tool
//! `delete-order`, or why there is none.

use std::path::{Path, PathBuf};
use std::{env, fs};

use execbox::Limits;
use execbox::transport::Token;
use execbox_mcp::Pattern;
use execbox_mcp::config::{
    ClientConfig, Config, Context, Input, ServerConfig, TokenPlace, Transport, Unavailable, always_allow,
};
use execbox_mcp::oauth::OAuthClient;
use execbox_mcp::upstream::{HttpProtocol, ResultFormat};
use execbox_testkit::cases::{Case, CaseFile};

#[test]
fn configurations_are_read_as_expected() {
    assert!(check("config", read) >= 40);
}

#[test]
fn files_of_clients_are_read_as_expected() {
    assert!(check("clients", read_clients) >= 20);
}

#[test]
fn tools_are_added_to_configurations_as_expected() {
    let added = |text: &str| match always_allow(text, &Shop, "shop", ["delete-order", "delete_order"]) {
        Ok(Some(edited)) => edited.text + "\n",
        Ok(None) => "as before\n".to_owned(),
        Err(error) => format!("error: {error}\n"),
    };
    assert!(check("always", added) >= 20);
}

/// Compares the cases in a directory with what `read` makes of them. Returns how many there are.
fn check(directory: &str, read: fn(&str) -> String) -> usize {
    let files = CaseFile::read_all(format!("{}/tests/{directory}", env!("CARGO_MANIFEST_DIR")));
    let mut wrong = Vec::new();
    for file in &files {
        let text = fs::read_to_string(&file.path).unwrap();
        let actual = |Case { title, head, .. }: &Case| format!("=== {title}\n{head}\n---\n{}", read(head));
        let actual: Vec<_> = file.cases.iter().map(actual).collect();
        if env::var_os("UPDATE").is_some() {
            fs::write(&file.path, actual.join("\n")).unwrap();
        } else if actual.join("\n") != text {
            let others = actual.into_iter().filter(|case| !text.contains(case));
            wrong.push(format!(
                "{}: other results, which UPDATE=1 accepts:\n{}",
                file.path.display(),
                others.collect::<String>()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    files.iter().map(|file| file.cases.len()).sum()
}

/// The context in which the cases are read.
struct Shop;

impl Context for Shop {
    fn variable(&self, name: &str) -> Option<String> {
        let variables = [
            ("TOKEN", "ghp_A1b2C3d4"),
            ("CI_TOKEN", "0123456789-of-ci"),
            ("PROJECT", "/work/shop"),
            ("MODE", "production"),
            ("EMPTY", ""),
        ];
        variables.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
    }

    fn workspace_folder(&self) -> Option<PathBuf> {
        Some("/work/shop".into())
    }

    fn user_home(&self) -> Option<PathBuf> {
        Some("/srv/ann".into())
    }

    fn env_file(&self, path: &Path) -> Result<String, Unavailable> {
        let name = path.strip_prefix("/work/shop").ok().and_then(Path::to_str);
        let file = ENV_FILES.iter().find(|(other, _)| Some(*other) == name);
        file.map(|(_, text)| (*text).to_owned()).ok_or_else(|| Unavailable("no such file".to_owned()))
    }

    fn input(&self, input: &Input) -> Result<String, Unavailable> {
        match input.id.as_str() {
            "none" => Err(Unavailable("nobody to ask".to_owned())),
            "plain" => Ok("production".to_owned()),
            id => Ok(format!("answer to {id}")),
        }
    }
}

const ENV_FILES: &[(&str, &str)] = &[
    (".env", "# The shop.\nexport API_KEY='k3y of the shop'\nMODE=\"test\" # not production\nPORT=8080\n"),
    ("production.env", "DB_PASSWORD=horse\n"),
    ("broken.env", "MODE=test\n\nS3CRET\n"),
];

fn read(input: &str) -> String {
    let mut config = Config::default();
    let read = config.read(input, &Shop);
    let namespaces = config.namespaces();
    let mut text: String = config.servers.iter().zip(namespaces).map(|(one, space)| server(one, &space)).collect();
    for skipped in &config.skipped {
        let kind = if skipped.reason.is_failure() { "failed" } else { "skipped" };
        text += &format!("{kind}: {}: {}\n", skipped.name, skipped.reason);
    }
    for ignored in &config.ignored {
        text += &format!("ignored: {ignored}\n");
    }
    read.err().map_or(text, |error| format!("error: {error}\n"))
}

fn read_clients(input: &str) -> String {
    match ClientConfig::read(input, &Shop) {
        Ok(clients) => clients.iter().map(client).collect(),
        Err(error) => format!("error: {error}\n"),
    }
}

fn client(client: &ClientConfig) -> String {
    let mut text = format!("client: {}\n", client.name);
    let mut line = |key: &str, value: &str| text += &format!("  {key}: {value}\n");
    match &client.token {
        TokenPlace::Here(token) => {
            let given = ["0123456789-of-ci", "0123456789abcdef"];
            line("token", given.iter().find(|text| Token::new(text).as_ref() == Ok(token)).unwrap());
        }
        TokenPlace::File(path) => line("token in", &path.display().to_string()),
    }
    let patterns = |patterns: &[Pattern]| patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().join(" ");
    for (key, list) in [("servers", &client.servers), ("allow", &client.allow), ("deny", &client.deny)] {
        if !list.is_empty() {
            line(key, &patterns(list));
        }
    }
    if client.read_only {
        line("read only", "yes");
    }
    if let Some(state) = &client.state {
        line("state", state);
    }
    let (limits, base) = (client.limits.of_program(Limits::default()), Limits::default());
    for limit in Limits::TABLE.iter().filter(|limit| limit.get(&limits) != limit.get(&base)) {
        line(limit.name, &format!("{:?}", limit.get(&limits).unwrap()));
    }
    if let Some(timeout) = client.limits.max_timeout {
        line("maximum timeout", &format!("{timeout:?}"));
    }
    if let Some(programs) = client.limits.max_programs {
        line("programs", &programs.to_string());
    }
    text
}

fn server(server: &ServerConfig, namespace: &str) -> String {
    let mut text = match namespace == server.name {
        true => format!("server: {}\n", server.name),
        false => format!("server: {} (in code: {namespace})\n", server.name),
    };
    let mut line = |key: &str, value: &str| text += &format!("  {key}: {value}\n");
    match &server.transport {
        Transport::Stdio { command, args, env, unset, directory } => {
            line("command", &[std::slice::from_ref(command), args].concat().join(" "));
            for (name, value) in env {
                line("env", &format!("{name}={value}"));
            }
            for name in unset {
                line("env", &format!("without {name}"));
            }
            if let Some(directory) = directory {
                line("cwd", &directory.display().to_string());
            }
        }
        Transport::Http { url, headers, protocol, oauth } => {
            line("url", url);
            if *protocol == HttpProtocol::Sse {
                line("protocol", &format!("{protocol:?}"));
            }
            if *oauth != OAuthClient::default() {
                line("oauth", &format!("{oauth:?}, secret: {}", oauth.client_secret.as_deref().unwrap_or("none")));
            }
            for (name, value) in headers {
                line("header", &format!("{name}: {value}"));
            }
        }
        other => panic!("{other:?}"),
    }
    let patterns = |patterns: &[Pattern]| patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().join(" ");
    if !server.filter.allow.is_empty() {
        line("allow", &patterns(&server.filter.allow));
    }
    if !server.filter.deny.is_empty() {
        line("deny", &patterns(&server.filter.deny));
    }
    if !server.filter.expose.is_empty() {
        line("expose", &patterns(&server.filter.expose));
    }
    if !server.has_prefix {
        line("prefix", "no");
    }
    if let Some(version) = &server.protocol_version {
        line("protocol version", version.as_str());
    }
    if server.filter.read_only {
        line("read only", "yes");
    }
    if let Some(effect) = server.ask.effect {
        line("ask", &format!("{effect:?}"));
    }
    if !server.ask.tools.is_empty() {
        line("ask", &patterns(&server.ask.tools));
    }
    if !server.ask.never.is_empty() {
        line("always allow", &patterns(&server.ask.never));
    }
    if let Some(timeout) = server.call_timeout {
        line("timeout", &format!("{timeout:?}"));
    }
    if server.results == ResultFormat::Envelope {
        line("results", "envelope");
    }
    if !server.secrets.is_empty() {
        line("secret", &format!("{:?}", server.secrets));
    }
    text
}
