//! Options that pages name exist, and the defaults that pages state are those of the help.
//!
//! An option in backticks is looked up in the commands that its section names (`execbox COMMAND`, or `COMMAND` alone in
//! backticks), and in those that its page is about ([`SUBJECTS`]). A default is stated by
//!
//! - a table with the columns `option` and `default`;
//! - a value in parentheses: `--option` (5 s), (`--option`, 5 s), 128 programs (`--option`);
//! - "5 s by default" behind the first option of a passage, "`VALUE` (the default)" and "`VALUE` by default" behind an option,
//!   and `--option VALUE` (the default).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::page::{Page, Passage, code_in};

/// The commands of the binary.
const COMMANDS: [&str; 28] = [
    "",
    "approvals",
    "approvals approve",
    "approvals deny",
    "approvals list",
    "approvals show",
    "approvals watch",
    "bench",
    "completions",
    "conform",
    "doctor",
    "login",
    "logout",
    "man",
    "mcp",
    "run",
    "run-code",
    "runner",
    "serve",
    "setup",
    "snippets",
    "snippets delete",
    "snippets list",
    "snippets show",
    "status",
    "tools",
    "types",
    "version",
];

/// The commands that pages are about, by the beginning of their paths.
const SUBJECTS: [(&str, &[&str]); 10] = [
    ("README.md", &["mcp", "run"]),
    ("LIMITATIONS.md", &["mcp", "run", "runner"]),
    ("docs/embedding.md", &[]),
    ("docs/embedding-other-languages.md", &["serve"]),
    ("docs/gateway", &["mcp"]),
    ("docs/gateway-setup.md", &["setup"]),
    ("docs/language.md", &["run"]),
    ("docs/limits.md", &["run"]),
    ("docs/runner-protocol.md", &["conform"]),
    ("docs/security.md", &["mcp", "run", "runner"]),
];

/// Options of other programs that pages name.
const OTHERS: [&str; 4] = ["--bench", "--execbox", "--features", "--header"];

/// The number of defaults that pages state at least: a sentence that no longer has one of the forms is not checked.
const MIN_DEFAULTS: usize = 50;

/// The options of a command with the texts of their defaults, which are empty if there are none.
type Known = BTreeMap<String, String>;

#[test]
fn every_option_of_a_page_is_one_of_the_commands_that_it_is_about() {
    let known = known();
    let mut wrong = Vec::new();
    for page in Page::for_users() {
        for passage in &page.passages {
            for code in code_in(&passage.text).filter(|code| code.starts_with("--")) {
                let option = option_in(code);
                let commands = subjects(&page, passage.section);
                if !OTHERS.contains(&option) && !commands.iter().any(|command| known[command].contains_key(option)) {
                    wrong.push(format!("{}: {option}: not an option of {commands:?}: {}", page.path, passage.text));
                }
            }
        }
        let texts = page.passages.iter().flat_map(|passage| code_in(&passage.text));
        for text in texts.chain(page.blocks.iter().flat_map(|block| block.text.lines())) {
            let Some((command, options)) = command_line(text) else { continue };
            let unknown = options.iter().filter(|option| !known[command].contains_key(**option));
            wrong.extend(unknown.map(|option| format!("{}: {option}: {text}", page.path)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn defaults_of_pages_are_those_of_the_help() {
    let known = known();
    let (mut count, mut wrong) = (0, Vec::new());
    for page in Page::for_users() {
        for Stated { option, value, section } in stated(&page) {
            let commands = subjects(&page, section);
            let defaults: Vec<&str> =
                commands.iter().filter_map(|name| Some(known[name].get(option)?.as_str())).collect();
            count += 1;
            if !defaults.iter().any(|default| is_same(value, default)) {
                wrong.push(format!("{}: {option}: {value:?} instead of {defaults:?}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= MIN_DEFAULTS, "{count} defaults");
}

#[test]
fn the_commands_are_all_those_of_the_binary() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs-man");
    let _ = fs::remove_dir_all(&directory);
    let man = Command::new(env!("CARGO_BIN_EXE_execbox")).args(["man", "--dir"]).arg(&directory).output().unwrap();
    assert!(man.status.success(), "{man:?}");
    let names = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: BTreeSet<String> = names.map(|name| name.trim_end_matches(".1").to_owned()).collect();
    let page = |command: &str| format!("execbox {command}").trim_end().replace(' ', "-");
    assert_eq!(pages, COMMANDS.iter().map(|command| page(command)).collect());
}

/// The options of each command.
fn known() -> BTreeMap<&'static str, Known> {
    COMMANDS.into_iter().map(|command| (command, options_of(command))).collect()
}

fn options_of(command: &str) -> Known {
    let mut help = Command::new(env!("CARGO_BIN_EXE_execbox"));
    let help = help.args(command.split_whitespace()).arg("--help").output().unwrap();
    let mut options = Vec::<(String, String)>::new();
    for line in String::from_utf8(help.stdout).unwrap().lines() {
        let text = line.trim_start();
        let is_option = text.starts_with('-') && line.len() - text.len() <= 6;
        match (text.split(' ').find(|word| word.starts_with("--")), options.last_mut()) {
            (Some(name), _) if is_option => options.push((name.to_owned(), text.to_owned())),
            (_, Some((_, help))) => *help += &format!(" {text}"),
            _ => {}
        }
    }
    let default = |help: &str| Some(help.split_once("[default: ")?.1.split_once(']')?.0.to_owned());
    options.into_iter().map(|(name, help)| (name, default(&help).unwrap_or_default())).collect()
}

/// The commands whose options a section of a page names.
fn subjects(page: &Page, section: usize) -> BTreeSet<&'static str> {
    let mut subjects = BTreeSet::from([""]); // for options of all commands
    for (_, commands) in SUBJECTS.iter().filter(|(start, _)| page.path.starts_with(start)) {
        subjects.extend(*commands);
    }
    let passages = page.passages.iter().filter(|passage| passage.section == section);
    for code in passages.flat_map(|passage| code_in(&passage.text)) {
        subjects.extend(COMMANDS.iter().find(|command| **command == code));
        subjects.extend(command_line(code).map(|(command, _)| command));
    }
    let blocks = page.blocks.iter().filter(|block| block.section == section);
    let lines = blocks.flat_map(|block| block.text.lines());
    subjects.extend(lines.filter_map(|line| command_line(line).map(|(command, _)| command)));
    subjects
}

/// The command and the options of a command line.
fn command_line(text: &str) -> Option<(&'static str, Vec<&str>)> {
    let (before, arguments) = text.split_once("execbox ")?;
    if !before.is_empty() && !before.ends_with("$ ") && !before.ends_with("| ") {
        return None;
    }
    let is_start = |command: &&str| arguments.starts_with(*command) && !command.is_empty();
    let command = COMMANDS.into_iter().filter(is_start).max_by_key(|command| command.len()).unwrap_or("");
    let words = arguments.split(' ').take_while(|word| !["--", "|", "&", ";"].contains(word));
    Some((command, words.filter(|word| word.starts_with("--")).map(option_in).collect()))
}

/// The option at the start of a text, without its value.
fn option_in(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    &text[..end.unwrap_or(text.len())]
}

/// A default that a page states.
struct Stated<'a> {
    option: &'a str,
    value: &'a str,
    section: usize,
}

fn stated(page: &Page) -> Vec<Stated<'_>> {
    let mut stated = Vec::new();
    for table in &page.tables {
        for [options, value] in table.columns(["option", "default"]).unwrap_or_default() {
            let options = code_in(options).filter(|code| code.starts_with("--")).map(option_in);
            stated.extend(options.map(|option| Stated { option, value, section: table.section }));
        }
    }
    for passage in &page.passages {
        let values = stated_in_prose(passage);
        stated.extend(values.into_iter().map(|(option, value)| Stated { option, value, section: passage.section }));
    }
    stated
}

fn stated_in_prose(passage: &Passage) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = passage.text.split('`').collect();
    let is_code = |at: usize| at % 2 == 1;
    let options: Vec<usize> = (0..parts.len()).filter(|at| is_code(*at) && parts[*at].starts_with("--")).collect();
    let mut stated = Vec::new();
    for &at in &options {
        let (option, before, after) = (option_in(parts[at]), parts[at - 1], parts[at + 1]);
        let value = after.strip_prefix(" (").or(after.strip_prefix(", ").filter(|_| before.ends_with('(')));
        let value =
            value.filter(|value| Quantity::at_start(value).is_some_and(|(_, rest)| rest.starts_with([')', ';'])));
        stated.extend(value.map(|value| (option, value)));
        if after.starts_with(')')
            && let Some(value) = before.strip_suffix(" (").and_then(last_quantity)
        {
            stated.push((option, value));
        }
    }
    for (at, part) in parts.iter().enumerate().filter(|(at, _)| !is_code(*at)) {
        let option = options.iter().rev().find(|option| **option < at).map(|option| option_in(parts[*option]));
        if part.starts_with(" (the default") || part.starts_with(" by default") {
            let code = parts[at - 1];
            let (own, value) = code.split_once(' ').unwrap_or((code, ""));
            match (own.starts_with("--"), option) {
                (true, _) => stated.push((own, value)),
                (false, Some(option)) => stated.push((option, code)),
                (false, None) => {}
            }
        }
        if let Some((before, _)) = part.split_once(" by default")
            && let Some(value) = last_quantity(before)
            && let Some(first) = options.first()
        {
            stated.push((option_in(parts[*first]), value));
        }
    }
    stated
}

/// The last quantity of a text, with at most two further words behind it.
fn last_quantity(text: &str) -> Option<&str> {
    let starts = text.rmatch_indices(' ').map(|(at, _)| at + 1).chain([0]).take(6);
    let is_near = |rest: &str| rest.split_whitespace().count() <= 2;
    let found = starts.filter(|at| Quantity::at_start(&text[*at..]).is_some_and(|(_, rest)| is_near(rest)));
    found.last().map(|at| &text[at..])
}

/// A number with its unit, as in pages (`5 minutes`, `4 096`) and in the help (`5m`, `4096`).
#[derive(Debug, PartialEq)]
enum Quantity {
    Milliseconds(u64),
    Bytes(u64),
    Count(u64),
}

impl Quantity {
    /// The quantity at the start of a text, and what follows.
    fn at_start(text: &str) -> Option<(Self, &str)> {
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut end = digits(text);
        while end > 0 && text[end..].starts_with(' ') && digits(&text[end + 1..]) == 3 {
            end += 4;
        }
        let number: u64 = text[..end].replace(' ', "").parse().ok()?;
        let rest = &text[end..];
        let word = rest.strip_prefix(' ').unwrap_or(rest);
        let length = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        let quantity = match &word[..length] {
            "ms" => Self::Milliseconds(number),
            "s" => Self::Milliseconds(number * 1000),
            "m" | "minute" | "minutes" => Self::Milliseconds(number * 60_000),
            "h" | "hour" | "hours" => Self::Milliseconds(number * 3_600_000),
            "KiB" => Self::Bytes(number << 10),
            "MiB" => Self::Bytes(number << 20),
            "GiB" => Self::Bytes(number << 30),
            _ => return Some((Self::Count(number), rest)),
        };
        Some((quantity, &word[length..]))
    }
}

/// Whether a page states this default of the help, as one of several that semicolons separate.
fn is_same(stated: &str, default: &str) -> bool {
    stated.split("; ").any(|stated| is_one(stated, default))
}

fn is_one(stated: &str, default: &str) -> bool {
    match (Quantity::at_start(stated), Quantity::at_start(default)) {
        (Some((stated, _)), Some((default, _))) => stated == default,
        (None, None) => {
            let text = |text: &str| text.replace('`', "").split(',').next().unwrap_or_default().to_owned();
            let default = if default.is_empty() || default == "no limit" { "none" } else { default };
            text(stated) == text(default)
        }
        _ => false,
    }
}

#[test]
fn quantities_of_pages_and_of_the_help_are_compared() {
    assert!(is_same("5 minutes", "5m") && is_same("4 096", "4096") && is_same("none; 1 GiB", "1GiB"));
    assert!(is_same("`none`", "no limit") && is_same("that of `--max-memory`", "that of --max-memory"));
    assert!(!is_same("5 s", "5m") && !is_same("100", "100ms") && !is_same("none", "5s"));
    assert_eq!(last_quantity("at most 4 096 programs"), Some("4 096 programs"));
    assert_eq!(last_quantity("4 programs of many others"), None);
}
