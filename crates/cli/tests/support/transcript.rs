//! Commands and transcripts of them: standard output, standard error and the exit code.
//!
//! Durations, times and amounts of memory are replaced by `#`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_execbox");

/// A command with its standard input, and variables of its environment.
#[derive(Debug)]
pub(crate) struct Typed {
    arguments: Vec<String>,
    stdin: String,
    env: Vec<(&'static str, String)>,
}

impl Typed {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        Self { arguments: arguments.iter().map(ToString::to_string).collect(), stdin: String::new(), env: Vec::new() }
    }

    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    pub(crate) fn stdin(self, text: &str) -> Self {
        Self { stdin: text.to_owned(), ..self }
    }

    pub(crate) fn start(&self, dir: &Path) -> Child {
        Command::new(BINARY)
            .args(&self.arguments)
            .current_dir(dir)
            .env("NO_COLOR", "1")
            .env_remove("COLUMNS")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn output(&self, dir: &Path) -> Output {
        let mut child = self.start(dir);
        // A command that does not read its input may be gone before it is written.
        let _ = child.stdin.take().unwrap().write_all(self.stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Runs the command on a terminal of any width. Returns what it prints, without colors, and the exit code.
    pub(crate) fn on_a_terminal(&self, dir: &Path) -> (String, Option<i32>) {
        self.on_a_terminal_of(dir, None)
    }

    /// Runs the command on a terminal with this number of columns.
    pub(crate) fn on_a_terminal_of(&self, dir: &Path, columns: Option<u16>) -> (String, Option<i32>) {
        let size = columns.map(|ws_col| nix::pty::Winsize { ws_row: 24, ws_col, ws_xpixel: 0, ws_ypixel: 0 });
        let terminal = nix::pty::openpty(size.as_ref(), None).unwrap();
        let end = || Stdio::from(terminal.slave.try_clone().unwrap());
        let mut command = Command::new(BINARY);
        command.args(&self.arguments).current_dir(dir).env("NO_COLOR", "1").env_remove("COLUMNS");
        let mut child = command.stdin(Stdio::null()).stdout(end()).stderr(end()).spawn().unwrap();
        drop((command, terminal.slave));
        let mut seen = Vec::new();
        // After the end of the child, reading fails on Linux, and reports the end of the file elsewhere.
        let _ = fs::File::from(terminal.master).read_to_end(&mut seen);
        let code = child.wait().unwrap().code();
        (text(seen).replace("\r\n", "\n"), code)
    }

    /// The command in the syntax of a shell.
    fn line(&self) -> String {
        let mut line = match self.stdin.as_str() {
            "" => "$ execbox".to_owned(),
            text => format!("$ printf {} | execbox", quoted(&text.escape_default().to_string())),
        };
        for argument in &self.arguments {
            line += &format!(" {}", quoted(&argument.replace('\x1b', "␛")));
        }
        line
    }
}

fn quoted(argument: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    match argument {
        "" => "''".to_owned(),
        _ if argument.chars().all(plain) => argument.to_owned(),
        _ if argument.contains('\'') => format!("\"{argument}\""),
        _ => format!("'{argument}'"),
    }
}

/// The transcript: each command with its standard error, standard output and exit code.
pub(crate) fn transcript(dir: &Path, commands: &[Typed]) -> String {
    let mut transcript = String::new();
    for command in commands {
        let output = command.output(dir);
        let stderr = settled(&marked(&text(output.stderr)));
        let stdout = settled(&text(output.stdout));
        let code = output.status.code().expect("no signal ends it");
        transcript += &format!("{}\n{stderr}{stdout}[exit {code}]\n\n", command.line());
    }
    transcript
}

/// Marks the lines of standard error.
fn marked(stderr: &str) -> String {
    let mut marked = String::new();
    for line in stderr.lines() {
        marked += format!("2> {line}").trim_end();
        marked.push('\n');
    }
    marked
}

/// Replaces durations, times and amounts of memory.
fn settled(text: &str) -> String {
    let keys = ["\"durationMs\":", "\"timestamp\":", "\"memoryUsedBytes\":"];
    let text = keys.iter().fold(text.to_owned(), |text, key| without_number(&text, key));
    let text = without_usage(&text);
    let lines = text.split_inclusive('\n').map(|line| {
        if USAGE.iter().any(|what| line.starts_with(what)) {
            return digits_marked(line).replacen('#', "2", 1);
        }
        let status = ["success", "error", "memory", "terminated", "link_error"]
            .into_iter()
            .find(|status| line.strip_prefix("2> ").unwrap_or(line).starts_with(&format!("{status} in ")));
        match status {
            Some(_) if line.contains(" ms") && line.contains("iB") => format!("{}in # ms, # MiB\n", before_in(line)),
            Some(_) if line.contains(" ms") => format!("{}in # ms\n", before_in(line)),
            _ => line.to_owned(),
        }
    });
    lines.collect()
}

/// Replaces the content of `"usage":{…}`.
fn without_usage(text: &str) -> String {
    let mut parts = text.split("\"usage\":{");
    let mut settled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once('}').unwrap_or_default();
        settled += &format!("\"usage\":{{#}}{rest}");
    }
    settled
}

/// The beginnings of the lines of `--usage`.
const USAGE: [&str; 4] = ["2> time    ", "2> calls   ", "2> memory  ", "2> data    "];

/// Replaces every number by `#`.
fn digits_marked(text: &str) -> String {
    let mut marked = String::new();
    for character in text.chars().map(|c| if c.is_ascii_digit() || c == '.' { '#' } else { c }) {
        if !(character == '#' && marked.ends_with('#')) {
            marked.push(character);
        }
    }
    marked
}

fn before_in(line: &str) -> &str {
    line.split_once("in ").map_or("", |(before, _)| before)
}

/// Replaces every number after `key` by `#`.
fn without_number(text: &str, key: &str) -> String {
    let mut parts = text.split(key);
    let mut settled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
        settled += &format!("{key}#{rest}");
    }
    settled
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// An empty directory for one test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A tools file with one provider.
pub(crate) fn stub_file(provider: &str, tools: &str) -> String {
    format!("{{ \"providers\": {{ \"{provider}\": {{ \"tools\": {tools} }} }} }}")
}

/// Waits for a log line of the running program.
pub(crate) fn wait_for_line(child: &mut Child) {
    // A buffer of one byte: nothing after the line is read.
    let mut stderr = BufReader::with_capacity(1, child.stderr.as_mut().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
}

pub(crate) fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}
