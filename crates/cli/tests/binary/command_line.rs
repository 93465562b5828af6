//! The command line as a whole: help, hints about mistakes, colors, completions, manual pages, versions.

use std::fs;
use std::process::Command;

use crate::support::transcript::{BINARY, Typed, directory, stub_file, text, transcript};

const COMMANDS: [&str; 18] = [
    "run",
    "run-code",
    "mcp",
    "tools",
    "types",
    "login",
    "logout",
    "status",
    "approvals",
    "snippets",
    "serve",
    "runner",
    "doctor",
    "bench",
    "conform",
    "completions",
    "man",
    "version",
];

#[test]
fn the_help_of_every_command_fits_the_terminal() {
    let dir = directory("command-line-help");
    let without_command = ["-h", "--help"].map(|option| vec![option]);
    let of_commands = COMMANDS.iter().flat_map(|name| [vec![*name, "-h"], vec![*name, "--help"]]);
    for arguments in without_command.into_iter().chain(of_commands) {
        for columns in [80, 100] {
            let (help, code) = Typed::new(&arguments).on_a_terminal_of(&dir, Some(columns));
            assert_eq!(code, Some(0), "{arguments:?}");
            let widest = help.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= columns.into(), "{arguments:?} in {columns} columns: {widest}");
        }
    }
}

#[test]
fn the_help_of_logins_has_no_options_about_tools() {
    let dir = directory("command-line-logins");
    for command in ["login", "logout"] {
        let help = text(Typed::new(&[command, "--help"]).output(&dir).stdout);
        assert!(help.contains("--config") && help.contains("--server"), "{help}");
        assert!(!help.contains("--allow") && !help.contains("--deny") && !help.contains("--read-only"), "{help}");
    }
}

#[test]
fn the_help_lists_the_commands_by_group() {
    insta::assert_snapshot!(transcript(&directory("command-line-groups"), &[Typed::new(&["--help"])]));
}

#[test]
fn mistakes_get_a_hint() {
    let dir = directory("command-line-mistakes");
    fs::write(dir.join("none.json"), r#"{ "mcpServers": {} }"#).unwrap();
    fs::write(dir.join("servers.json"), r#"{ "mcpServers": { "a": { "command": "a" } } }"#).unwrap();
    fs::write(dir.join("tools.json"), stub_file("my_notes", "{}")).unwrap();
    let commands: [&[&str]; 18] = [
        &["mpc"],
        &["nope"],
        &["run", "--tiemout", "1s"],
        &["mcp", "servers.json"],
        &["doctor", "servers.json"],
        &["mcp", "--http", "8080"],
        &["mcp", "--http", "http://127.0.0.1:9000/mcp"],
        &["mcp", "--http", "localhost"],
        &["mcp", "--config", "none.json"],
        &["tools", "--config", "none.json"],
        &["version", "--color", "blue"],
        &["run", "servers.json"],
        &["tools", "servers.json"],
        &["types", "servers.json"],
        &["completions"],
        &["run", "--tools", "tools.json", "-e", "await mynotes.get()"],
        &["run", "--tools", "tools.json", "-e", "await my-notes.get()"],
        &["run", "--tools", "tools.json", "-e", "await other.get()"],
    ];
    insta::assert_snapshot!(transcript(&dir, &commands.map(Typed::new)));
}

#[test]
fn numbers_out_of_bounds_are_rejected_with_their_bounds() {
    let dir = directory("command-line-numbers");
    let huge = "99999999999999999999";
    let commands: [&[&str]; 11] = [
        &["tools", "--limit", "-1"],
        &["run", "-e", "1", "--max-calls", "1.5"],
        &["run-code", "-e", "1", "--max-log-lines", huge],
        &["mcp", "--max-programs", "0"],
        &["mcp", "--max-programs", "-1"],
        &["mcp", "--http", "127.0.0.1:0", "--max-connections", "many"],
        &["mcp", "--http", "127.0.0.1:0", "--max-sessions", huge],
        &["runner", "--listen", "unix:none.sock", "--max-connections", "-1"],
        &["runner", "--listen", "unix:none.sock", "--max-calls", "1e3"],
        &["runner", "--engine", "v8", "--warm", "1.0"],
        &["conform", "--jobs", "0", "--list"],
    ];
    insta::assert_snapshot!(transcript(&dir, &commands.map(Typed::new)));
}

#[test]
fn output_is_colored_where_the_user_wants_it() {
    let is_colored = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(BINARY);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"] {
            command.env_remove(name);
        }
        let output = command.args(arguments).envs(variables.iter().copied()).output().unwrap();
        text([output.stdout, output.stderr].concat()).contains('\x1b')
    };
    // The output is not a terminal.
    for (option, variables, expected) in [
        (None, &[][..], false),
        (None, &[("CLICOLOR_FORCE", "1")], true),
        (None, &[("FORCE_COLOR", "1")], true),
        (None, &[("FORCE_COLOR", "0")], false),
        (None, &[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], false),
        (Some("always"), &[("NO_COLOR", "1")], true),
        (Some("never"), &[("CLICOLOR_FORCE", "1")], false),
        (Some("auto"), &[], false),
    ] {
        let option = option.map(|choice| format!("--color={choice}"));
        let commands: [&[&str]; 5] = [
            &["run", "-e", "nope"],
            &["run", "--help"],
            &["mpc"],
            &["run", "none.ts"],
            &["doctor", "--config", "none.json"],
        ];
        for command in commands {
            let arguments: Vec<_> = command.iter().copied().chain(option.as_deref()).collect();
            assert_eq!(is_colored(&arguments, variables), expected, "{arguments:?} with {variables:?}");
        }
    }
}

#[test]
fn completions_know_commands_and_options() {
    let dir = directory("command-line-completions");
    for (shell, option) in [
        ("bash", "--gateway"),
        ("zsh", "--gateway"),
        ("fish", "-l gateway"),
        ("elvish", "--gateway"),
        ("powershell", "--gateway"),
    ] {
        let output = Typed::new(&["completions", shell]).output(&dir);
        let script = text(output.stdout);
        assert!(output.status.success() && script.contains(option) && script.contains("approvals"), "{shell}");
    }
    let script = dir.join("execbox.bash");
    fs::write(&script, Typed::new(&["completions", "bash"]).output(&dir).stdout).unwrap();
    let complete = "source execbox.bash; COMP_WORDS=(execbox run --gate); COMP_CWORD=2; \
         _execbox execbox --gate run; echo \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash").args(["-c", complete]).current_dir(&dir).output().unwrap();
    assert_eq!(text(completed.stdout), "--gateway\n");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = directory("command-line-man");
    let output = Typed::new(&["man", "--dir", "man1"]).output(&dir);
    assert!(output.status.success(), "{}", text(output.stderr));
    for name in COMMANDS {
        let page = fs::read_to_string(dir.join(format!("man1/execbox-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH execbox-{name} 1")), "{page}");
    }
    let page = fs::read_to_string(dir.join("man1/execbox.1")).unwrap();
    assert_eq!(page.trim_end(), text(Typed::new(&["man"]).output(&dir).stdout).trim_end());
    assert!(page.contains(".TH execbox 1") && page.contains("execbox\\-run\\-code(1)"), "{page}");
    let of = |words: &[&str]| text(Typed::new(&[&["man"], words].concat()).output(&dir).stdout);
    assert!(of(&["approvals", "approve"]).contains(".TH execbox-approvals-approve 1"));
    let run = of(&["run"]);
    for part in [
        "\\-\\-no\\-common\\-globals\\fR\nDo not give the program",
        "\\-\\-cancel\\-unawaited\\fR\nCancel calls",
        ".SH \"EXAMPLES\"\n.nf\nexecbox run program.ts",
        ".fi\n.SH \"EXIT CODES\"\n.nf\n0    the program succeeded",
    ] {
        assert!(run.contains(part), "{part}: {run}");
    }
    assert!(!run.contains("EXTRA"), "{run}");
    let (said, code) = Typed::new(&["man", "rnu"]).on_a_terminal(&dir);
    assert!(said.starts_with("error: unknown command \"rnu\": expected one of run, "), "{said}");
    assert_eq!(code, Some(2));
}

#[test]
fn versions_are_those_of_the_binary_and_its_engines() {
    let dir = directory("command-line-version");
    let version = env!("CARGO_PKG_VERSION");
    let shown = text(Typed::new(&["version"]).output(&dir).stdout);
    assert!(shown.starts_with(&format!("execbox {version}\nquickjs 0.")), "{shown}");
    let json: serde_json::Value =
        serde_json::from_slice(&Typed::new(&["version", "--json"]).output(&dir).stdout).unwrap();
    assert_eq!(json["execbox"], version);
    assert!(json["engines"]["quickjs"].is_string(), "{json}");
}

#[test]
fn tables_are_cut_to_the_width_of_the_terminal() {
    let dir = directory("command-line-tables");
    let tools = r#"{ "find": { "description": "Finds what is stored under any of the names, in the order of their age.", "answers": [] } }"#;
    fs::write(dir.join("tools.json"), stub_file("shelf", tools)).unwrap();
    let tools = Typed::new(&["tools", "--tools", "tools.json"]);
    let (shown, _) = tools.on_a_terminal_of(&dir, Some(40));
    assert_eq!(shown, "shelf.find  Finds what is stored under…\nexecbox: 1 tool\n");
    let (shown, _) = tools.on_a_terminal_of(&dir, Some(120));
    assert!(shown.contains("in the order of their age."), "{shown}");
}
