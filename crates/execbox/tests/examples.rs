//! Runs the examples of the crate and compares what they print. `cargo test` builds them.

use std::env;
use std::process::Command;

const OUTPUTS: &[(&str, &str)] = &[
    (
        "state",
        r#"
{"left":{"name":"pen","count":3},"failure":"there is no cup"}
{"pen": 3}
"#,
    ),
    (
        "streaming",
        "
log: before
files.copy begins with 7 bytes
files.copy: 1 of 2
files.copy: 2 of 2
files.copy has ended
warn: after
the script has ended
copied
",
    ),
    (
        "worker",
        "
1
3
6
stopped by the limit memoryLimitBytes
stopped by the limit timeoutMs
runtime_error: SyntaxError: Expected property name or '}' in JSON at position 1 (line 1 column 2)
    at <script>:1:6
cancelled by the caller
",
    ),
    (
        "process",
        r#"
the tool runs in this process: true
["undefined", "undefined", "undefined"]
"#,
    ),
    (
        "modules",
        r#"
report {"orders":3}
{"$map":[["ada",1300],["bob",306]]}
ada: 1300 cents
bob: 306 cents
"#,
    ),
    (
        "policy",
        r#"
files.list Allowed
files.remove "a"? Approve
files.remove Approved
files.remove "b"? Refuse("b is needed")
files.remove Refused("b is needed")
files.remove "c"? RefuseAll("nobody answers")
files.remove Refused("nobody answers")
removed "a"
not approved: b is needed
not approved: nobody answers
"#,
    ),
];

#[test]
fn examples_print_what_they_show() {
    let test = env::current_exe().unwrap(); // in target/PROFILE/deps
    let examples = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    for (name, expected) in OUTPUTS {
        let output = Command::new(examples.join(name)).output();
        let output = output.unwrap_or_else(|error| panic!("{name} (cargo build -p execbox --examples): {error}"));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, expected.trim_start(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {}", output.status);
    }
}
