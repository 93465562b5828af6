//! Reads every configuration in `tests/config` and compares the result with the expected one.
//!
//! A case is a title, a configuration, and after `---` its servers, the skipped servers, and the error if it is invalid.
//! `UPDATE=1 cargo test --workspace --test config` rewrites the expected results; review the difference.
//! The environment has `TOKEN` (`ghp_A1b2C3d4`), `PROJECT` (`/work/shop`), `MODE` (`production`) and `EMPTY`.

use std::{env, fs};

use execbox_mcp::Pattern;
use execbox_mcp::config::{Config, ServerConfig, Transport};
use execbox_mcp::servers::namespaces;
use execbox_mcp::upstream::ResultFormat;
use execbox_testkit::cases::{Case, CaseFile};

#[test]
fn configurations_are_read_as_expected() {
    let files = CaseFile::read_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config"));
    let mut wrong = Vec::new();
    for file in &files {
        let text = fs::read_to_string(&file.path).unwrap();
        let actual = file.cases.iter().map(actual).collect::<Vec<_>>().join("\n");
        if env::var_os("UPDATE").is_some() {
            fs::write(&file.path, &actual).unwrap();
        } else if actual != text {
            wrong.push(format!("{}:\n{actual}", file.path.display()));
        }
    }
    let count: usize = files.iter().map(|file| file.cases.len()).sum();
    assert!(count >= 40, "only {count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The case with the actual result of its configuration.
fn actual(Case { title, head, .. }: &Case) -> String {
    format!("=== {title}\n{head}\n---\n{}", read(head))
}

fn read(input: &str) -> String {
    let mut config = Config::default();
    let variables = |name: &str| match name {
        "TOKEN" => Some("ghp_A1b2C3d4".to_owned()),
        "PROJECT" => Some("/work/shop".to_owned()),
        "MODE" => Some("production".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let read = config.read(input, &variables);
    let namespaces = namespaces(config.servers.iter().map(|server| server.name.as_str()));
    let mut text: String = config.servers.iter().zip(namespaces).map(|(one, space)| server(one, &space)).collect();
    for skipped in &config.skipped {
        let kind = if skipped.reason.is_failure() { "failed" } else { "skipped" };
        text += &format!("{kind}: {}: {}\n", skipped.name, skipped.reason);
    }
    read.err().map_or(text, |error| format!("error: {error}\n"))
}

fn server(server: &ServerConfig, namespace: &str) -> String {
    let mut text = match namespace == server.name {
        true => format!("server: {}\n", server.name),
        false => format!("server: {} (in code: {namespace})\n", server.name),
    };
    let mut line = |key: &str, value: &str| text += &format!("  {key}: {value}\n");
    match &server.transport {
        Transport::Stdio { command, args, env, directory } => {
            line("command", &[std::slice::from_ref(command), args].concat().join(" "));
            for (name, value) in env {
                line("env", &format!("{name}={value}"));
            }
            if let Some(directory) = directory {
                line("cwd", &directory.display().to_string());
            }
        }
        Transport::Http { url, headers } => {
            line("url", url);
            for (name, value) in headers {
                line("header", &format!("{name}: {value}"));
            }
        }
    }
    let patterns = |patterns: &[Pattern]| patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().join(" ");
    if !server.filter.allow.is_empty() {
        line("allow", &patterns(&server.filter.allow));
    }
    if !server.filter.deny.is_empty() {
        line("deny", &patterns(&server.filter.deny));
    }
    if let Some(timeout) = server.call_timeout {
        line("timeout", &format!("{timeout:?}"));
    }
    if server.results == ResultFormat::Unwrapped {
        line("results", "unwrapped");
    }
    if !server.secrets.is_empty() {
        line("secret", &format!("{:?}", server.secrets));
    }
    text
}
