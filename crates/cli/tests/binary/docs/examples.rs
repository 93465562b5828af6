//! The commands and examples of the pages for users.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use execbox_mcp::config::{ClientConfig, Config, SkipReason, Variables};

use super::page::{Block, Page, code_in, root};

/// The number of blocks that are not run. Each states the reason.
const NOT_RUN: usize = 13;

#[test]
fn every_command_prints_what_the_page_shows() {
    let (mut not_run, mut failures) = (0, Vec::new());
    // The programs of docs/node.md need the package, which `packages/node/check` builds, and those of adapters need their
    // frameworks: the tests of the packages run them.
    let in_packages = ["docs/node.md", "docs/node-adapters.md", "docs/python-adapters.md"];
    let not_here = [&["ARCHITECTURE.md", "CONTRIBUTING.md"], &in_packages[..]].concat();
    for page in Page::all(&["", "docs", "examples/shop"]) {
        if !not_here.contains(&page.path.as_str()) {
            not_run += check(&page, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(not_run, NOT_RUN, "blocks that are not run");
}

/// Checks the blocks of a page. Returns the number of blocks that are not run.
fn check(page: &Page, failures: &mut Vec<String>) -> usize {
    let directory = directory(&page.path);
    let mut not_run = 0;
    for block in &page.blocks {
        let place = || format!("{}, block:\n{}", page.path, block.text);
        let (language, rest) = block.info.split_once(' ').unwrap_or((&block.info, ""));
        match (language, rest) {
            ("console", "") => {
                failures.extend(run(block, &directory).into_iter().map(|failure| format!("{}: {failure}", page.path)));
            }
            ("json", "config") => {
                let mut config = Config::default();
                let read = config.read(&block.text, &Variables(|_| Some("value".to_owned())));
                failures.extend(read.err().map(|error| format!("{}: {error}", place())));
                failures.extend(config.ignored.iter().map(|key| format!("{}: {key}", place())));
                let invalid = config.skipped.iter().filter(|entry| matches!(entry.reason, SkipReason::Invalid { .. }));
                failures.extend(invalid.map(|entry| format!("{}: {:?}", place(), entry.reason)));
            }
            ("json", "clients") => {
                let read = ClientConfig::read(&block.text, &Variables(|_| Some("a-value-of-a-variable".to_owned())));
                failures.extend(read.err().map(|error| format!("{}: {error}", place())));
            }
            ("conversation", "") => {} // crates/serve/tests/conversations.rs
            (language, "") if language == "text" || language.starts_with("rust") => {}
            _ if rest.starts_with("file:") => fs::write(directory.join(&rest["file:".len()..]), &block.text).unwrap(),
            _ if rest.starts_with("not-run: ") => not_run += 1,
            _ => failures.push(format!(
                "{}: unknown info string {:?}; see crates/cli/tests/binary/docs/mod.rs",
                place(),
                block.info
            )),
        }
    }
    not_run
}

/// The table of the README: each program ends with the error code of its row.
#[test]
fn hostile_programs_of_the_readme_end_as_it_says() {
    let page = Page::read("README.md");
    let rows = page.table("a program").columns(["a program", "what happens"]).unwrap();
    assert!(rows.len() >= 5, "{rows:?}");
    let runs: Vec<_> =
        ["inline", "process"].iter().flat_map(|executor| rows.iter().map(move |row| (executor, row))).collect();
    let runs = runs.into_iter().map(|(executor, [program, end])| {
        let (program, end) = (code_in(program).next().unwrap(), code_in(end).next().unwrap());
        let timeout = if end == "timeout" { "1s" } else { "60s" };
        let mut run = Command::new(env!("CARGO_BIN_EXE_execbox"));
        run.args(["run", "--tools", "examples/first-run/tools.json", "--executor", executor, "--timeout", timeout]);
        run.args(["-e", program]).current_dir(root()).env("NO_COLOR", "1").stderr(Stdio::piped());
        (program, end, run.spawn().unwrap())
    });
    for (program, end, run) in runs.collect::<Vec<_>>() {
        let output = run.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(printed.contains(&format!("error[{end}]: ")), "{program}: {printed}");
    }
}

/// A fresh directory that looks like a checkout with a release build.
fn directory(page: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs").join(page.replace('/', "-"));
    let _ = fs::remove_dir_all(&directory);
    let binaries = directory.join("target/release");
    fs::create_dir_all(&binaries).unwrap();
    symlink(root().join("examples"), directory.join("examples")).unwrap();
    let execbox = Path::new(env!("CARGO_BIN_EXE_execbox"));
    let shop = execbox.with_file_name("shop");
    assert!(shop.exists(), "the shop is not built: cargo build --workspace --bins");
    symlink(execbox, binaries.join("execbox")).unwrap();
    symlink(shop, binaries.join("shop")).unwrap();
    directory
}

/// Programs of this project that a page may call.
const PRELUDE: &str = r#"
exec 2>&1
PATH="$PWD/target/release:$PATH"
cargo() { case "$1" in
  run) while [ "$1" != -- ]; do shift; done; shift; execbox "$@" ;; # the binary under test
  build) ;; # it is built
  *) echo "cargo $1 is not run in tests"; return 1 ;;
esac; }
# Starts a server, and waits until it has printed a line.
background() {
  "$@" > background.log 2>&1 &
  servers="$servers $!"
  while ! [ -s background.log ]; do sleep 0.01; done
  cat background.log
}
trap 'kill $servers 2> /dev/null' EXIT
"#;

/// The beginning of the line that separates the outputs of commands. The line ends with the exit code of a command.
const MARK: &str = "-- end of a command:";

/// Runs the commands of a block in one shell. Returns the commands whose output differs from the text below them.
fn run(block: &Block, directory: &Path) -> Vec<String> {
    let mut script = PRELUDE.to_owned();
    let mut expected = Vec::<(&str, Vec<&str>)>::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), expected.last_mut()) {
            (Some(command), _) => {
                match command.strip_suffix(" &") {
                    Some(server) => script += &format!("background {server}\n"),
                    None => script += &format!("{command}\n"),
                }
                script += &format!("set -- $?; printf '\\n%s %d\\n' '{MARK}' $1; (exit $1)\n");
                expected.push((command, Vec::new()));
            }
            (None, Some((_, output))) => output.push(line.trim_end()),
            (None, None) => return vec![format!("a console block begins with `$ `:\n{}", block.text)],
        }
    }
    let mut shell = Command::new("timeout");
    shell.args(["120", "sh", "-c", &script]).current_dir(directory).env("NO_COLOR", "1").stdin(Stdio::null());
    shell.env("PYTHONPATH", root().join("packages/python/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    let printed = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let mut printed = printed.lines().map(str::trim_end);
    let mut failures = Vec::new();
    for (command, expected) in expected {
        let mut lines: Vec<&str> = printed.by_ref().take_while(|line| !line.starts_with(MARK)).collect();
        lines.pop_if(|line| line.is_empty()); // the end of line that is printed before the mark
        if !lines_fit(&expected, &lines) {
            failures.push(format!("$ {command}\n{}\n", lines.join("\n")));
        }
    }
    failures
}

/// Whether lines are as expected; the line `...` stands for any lines.
fn lines_fit(expected: &[&str], lines: &[&str]) -> bool {
    match expected {
        [] => lines.is_empty(),
        ["...", rest @ ..] => (0..=lines.len()).any(|skipped| lines_fit(rest, &lines[skipped..])),
        [first, rest @ ..] => lines.first().is_some_and(|line| line_fits(first, line)) && lines_fit(rest, &lines[1..]),
    }
}

/// Whether a line is as expected; `...` stands for any text.
fn line_fits(expected: &str, line: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last.is_some_and(|part| rest.ends_with(part))
}

#[test]
fn dots_stand_for_any_text() {
    assert!(line_fits("a ... c", "a b c") && line_fits("a...", "a b") && line_fits("a...c", "a c b c"));
    assert!(!line_fits("a ... c", "a b d") && !line_fits("a", "a b"));
    assert!(lines_fit(&["a", "...", "c"], &["a", "b", "b", "c"]) && lines_fit(&["..."], &[]));
    assert!(!lines_fit(&["a"], &["a", "b"]));
}
