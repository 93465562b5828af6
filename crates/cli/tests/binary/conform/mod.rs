//! `execbox conform`, with the real binary: the runner of execbox passes every case, and each broken runner fails exactly the
//! cases about its fault.

mod broken;
mod spoil;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;

const EXECBOX: &str = env!("CARGO_BIN_EXE_execbox");

fn conform(arguments: &[&str]) -> Output {
    let output = Command::new(EXECBOX).arg("conform").args(arguments).env_remove("NO_COLOR").output().unwrap();
    assert_ne!(output.status.code(), Some(101), "it panicked: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs a command. Returns standard output, standard error and the exit code.
fn transcript(arguments: &[&str]) -> String {
    let output = conform(arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    format!("{stdout}{stderr}exit code {}\n", output.status.code().unwrap())
}

/// A directory that contains only these files.
fn directory(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conform").join(test);
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    for (name, text) in files {
        fs::write(root.join(name), text).unwrap();
    }
    root
}

#[test]
fn our_runner_passes_every_case() {
    let output = conform(&["--strict", "--extensions", "--jobs", "8", "--", EXECBOX, "runner"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn broken_runners_fail_the_cases_about_their_fault() {
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for (fault, report) in broken::reports(&["--strict", "--jobs", "5", "--json"]) {
        let failures = failures(&report);
        if failures.is_empty() != fault.starts_with("none") {
            wrong.push(format!("{fault}: {failures}"));
        }
        text += &format!("fault: {fault}\n{failures}\n");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!(text);
}

/// The cases, or whole sections, that did not pass.
fn failures(report: &Json) -> String {
    let section = |case: &Json| case["name"].as_str().unwrap().split_once('/').unwrap().0.to_owned();
    let mut text = String::new();
    for cases in report["cases"].as_array().unwrap().chunk_by(|a, b| section(a) == section(b)) {
        let failed: Vec<_> = cases.iter().filter(|case| case["verdict"] != "passed").collect();
        if failed.len() == cases.len() && failed.len() > 1 {
            text += &format!("    {}: all\n", section(&cases[0]));
            continue;
        }
        for case in failed {
            text += &format!("    {} ({})\n", case["name"].as_str().unwrap(), case["level"].as_str().unwrap());
        }
    }
    text
}

#[test]
fn should_cases_do_not_fail_a_run() {
    let report = broken::report("omits started", &["--json", "--only", "state-machine"]);
    let count = |name: &str| report[name].as_u64().unwrap();
    assert_eq!((&report["conforms"], count("failed"), count("fellShort")), (&Json::Bool(true), 0, 4));
    assert!(count("passed") > 0, "{report}");
}

#[test]
fn our_runner_passes_every_case_over_every_transport() {
    // The path of a socket must be short.
    let socket = std::env::temp_dir().join(format!("execbox-conform-{}", std::process::id()));
    let token = directory("token", &[("token.txt", "s3cret\n")]).join("token.txt");
    let token = ["--token-file", token.to_str().unwrap()];
    let folder = crate::tls::folder("conform");
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name).display().to_string());
    let authority = crate::tls::pem("authority.pem");
    let (presented, trusted) = (["--tls-cert", &cert, "--tls-key", &key], ["--tls-ca", &authority]);
    for (address, token, presented, trusted) in [
        ("tcp:127.0.0.1:0".to_owned(), &token[..], &[][..], &[][..]),
        (format!("unix:{}", socket.display()), &[], &[], &[]),
        ("ws://127.0.0.1:0".to_owned(), &token, &[], &[]),
        ("tls:127.0.0.1:0".to_owned(), &token, &presented, &trusted),
        ("wss://127.0.0.1:0".to_owned(), &[], &presented, &trusted),
    ] {
        let mut runner = Command::new(EXECBOX)
            .args(["runner", "--listen", &address])
            .args(token)
            .args(presented)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(runner.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("execbox: listening on ").unwrap();
        // What the runner answers is compared, not how fast a busy machine is.
        let arguments = ["--strict", "--extensions", "--jobs", "8", "--time-factor", "5", "--connect", address];
        let output = conform(&[&arguments, token, trusted].concat());
        let _ = runner.kill();
        let _ = runner.wait();
        assert!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let _ = fs::remove_file(socket);
}

const FIRST: &str = r#"
=== fails
title: One and one are three
---
> execute
    1 + 1
< started
< done {"result": 3}

=== passes
title: One and one are two
---
> execute
    1 + 1
< started
< done {"result": 2}
"#;

const SECOND: &str = r"
=== falls-short
title: The guest paints the terminal
level: should
---
> execute
    await tools.echo('\u001b[2J\u202e')
< started
< done

=== silent
title: It sends done
---
< within 50ms done
";

const THIRD: &str = r#"
=== calls
title: It calls twice
---
> execute
    await tools.echo(1)
< started
in any order
  < tool_call {"input": 2}
  < tool_call {"input": 3}
end

=== ends
title: It ends
---
> close
< closed

=== extension
title: It sings
level: extension
---
< done
"#;

#[test]
fn reports_as_text() {
    let known = "# Why\nsecond/silent  it sends nothing\nthird/ends  it does not end\n";
    let dir = directory(
        "reports",
        &[("first.cases", FIRST), ("second.cases", SECOND), ("third.cases", THIRD), ("known.txt", known)],
    );
    let dir = dir.to_str().unwrap().to_owned();
    let (known, runner) = (format!("{dir}/known.txt"), ["--", EXECBOX, "runner"]);
    let run = |arguments: &[&str]| {
        let arguments: Vec<_> = ["--cases", &dir].iter().chain(arguments).chain(&runner).copied().collect();
        transcript(&arguments)
    };
    let text = [
        run(&[]),
        run(&["--only", "second", "--strict", "--known", &known]),
        run(&["--only", "ends", "--known", &known]),
        run(&["--only", "passes", "--json"]),
        run(&["--list", "--extensions"]),
    ];
    insta::assert_snapshot!(without_paths(&text.join("\n════\n\n"), &dir));
}

#[test]
fn bad_usage() {
    let case = "=== b\ntitle: It has a fault\n---\n> execute\n< don\n";
    let dir = directory("bad", &[("a.cases", case), ("known.txt", "a/b\n")]);
    let empty = directory("empty", &[("README.md", "no case")]);
    let (dir, empty) = (dir.to_str().unwrap(), empty.to_str().unwrap());
    let known = format!("{dir}/known.txt");
    let mut text = String::new();
    for arguments in [
        &[] as &[&str],
        &["--", "./no-such-runner"],
        &["--connect", "localhost:7000"],
        &["--connect", "tcp:127.0.0.1:1"],
        &["--jobs", "0", "--", "true"],
        &["--jobs", "many", "--", "true"],
        &["--time-factor", "-1", "--", "true"],
        &["--only", "no such case", "--", "true"],
        &["--cases", dir, "--", "true"],
        &["--cases", empty, "--", "true"],
        &["--cases", "no/such/directory", "--", "true"],
        &["--known", &known, "--", "true"],
        &["--known", "no/such/file", "--", "true"],
        &["--connect", "tcp:127.0.0.1:1", "--", "true"],
    ] {
        text += &format!("$ execbox conform {}\n{}\n", arguments.join(" "), transcript(arguments));
    }
    insta::assert_snapshot!(without_paths(&text, Path::new(dir).parent().unwrap().to_str().unwrap()));
}

#[test]
fn the_stderr_tail_of_a_runner_is_shown() {
    let text =
        transcript(&["--only", "session-model/tool", "--", "sh", "-c", "read line; echo 'no module' >&2; exit 1"]);
    insta::assert_snapshot!(text);
}

/// Replaces everything that differs between machines and runs.
fn without_paths(text: &str, dir: &str) -> String {
    let text = text.replace(EXECBOX, "execbox").replace(dir, "DIR");
    let mut parts = text.split("\"usage\":{");
    let first = parts.next().unwrap().to_owned();
    let text = parts.fold(first, |text, part| text + "\"usage\":{#}" + part.split_once('}').unwrap().1);
    let mut parts = text.split("\"durationMs\":");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if part.starts_with("0,") { text + "\"durationMs\":" + part } else { text + "\"durationMs\":#" + digits }
    })
}
