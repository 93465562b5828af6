//! Every configuration in `tests/config` is understood as it says beside it, or refused so.
//!
//! A case is a title, a configuration, and after `---` the servers that it has, those that are left out, and the error if
//! it is none. `UPDATE=1 cargo test -p execbox-mcp --test config` rewrites what comes after `---`; read the difference.
//! The environment has `TOKEN` (`ghp_A1b2C3d4`), `PROJECT` (`/work/shop`), `MODE` (`production`) and `EMPTY`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use execbox_mcp::Pattern;
use execbox_mcp::config::{Config, Place, ServerConfig};
use execbox_mcp::servers::namespaces;
use execbox_mcp::upstream::Results;

#[test]
fn configurations_are_understood_as_it_says_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut count, mut wrong) = (0, Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let actual: String = text.split_inclusive("\n=== ").map(|case| answered(case, &mut count)).collect();
        if env::var_os("UPDATE").is_some() {
            fs::write(file, &actual).unwrap();
        } else if actual != text {
            wrong.push(format!("{}:\n{actual}", file.display()));
        }
    }
    assert!(count >= 40, "only {count} cases were found in {}", folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The case with what its configuration is understood as now.
fn answered(case: &str, count: &mut usize) -> String {
    *count += 1;
    let (title, rest) = case.split_once('\n').expect("a case has a title");
    let (input, after) = rest.split_once("\n---\n").unwrap_or_else(|| panic!("{title}: there is no `---`"));
    let next = if after.ends_with("=== ") { "\n=== " } else { "" };
    format!("{title}\n{input}\n---\n{}{next}", understood(input))
}

fn understood(input: &str) -> String {
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
        let kind = if skipped.trouble.is_failure() { "unusable" } else { "left out" };
        text += &format!("{kind}: {}: {}\n", skipped.name, skipped.trouble);
    }
    read.err().map_or(text, |error| format!("error: {error}\n"))
}

fn server(server: &ServerConfig, namespace: &str) -> String {
    let mut text = match namespace == server.name {
        true => format!("server: {}\n", server.name),
        false => format!("server: {} (in code: {namespace})\n", server.name),
    };
    let mut line = |key: &str, value: &str| text += &format!("  {key}: {value}\n");
    match &server.place {
        Place::Program { command, args, env, directory } => {
            line("command", &[std::slice::from_ref(command), args].concat().join(" "));
            for (name, value) in env {
                line("env", &format!("{name}={value}"));
            }
            if let Some(directory) = directory {
                line("cwd", &directory.display().to_string());
            }
        }
        Place::Http { url, headers } => {
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
    if server.results == Results::Unwrapped {
        line("results", "unwrapped");
    }
    if !server.secrets.is_empty() {
        line("secret", &format!("{:?}", server.secrets));
    }
    text
}
