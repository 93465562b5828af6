//! `execbox run`, with the real binary: standard output, standard error and exit codes.
//!
//! Every snapshot is a transcript of commands.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use crate::support::transcript::{BINARY, Typed, directory, interrupt, stub_file, text, transcript, wait_for_line};

/// The newcomer's first command, exactly as the README has it.
#[test]
fn first_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commands = [run(&["examples/first-run/orders.ts", "--tools", "examples/first-run/tools.json"])];
    insta::assert_snapshot!(transcript(&root, &commands));
}

#[test]
fn shapes_of_programs() {
    let dir = directory("shapes");
    fs::write(
        dir.join("enum.ts"),
        "enum Level { Low = 1, High = 9 }\nconst level: Level = Level.High;\nlevel as number\n",
    )
    .unwrap();
    fs::write(dir.join("answer.md"), "```ts\nconst a: number = 6;\na * 7\n```\n").unwrap();
    let commands = [
        run(&["--json", "-e", "const xs=[1,2,3]; xs.reduce((a,b)=>a+b,0)"]),
        run(&["--json", "answer.md"]),
        run(&["--json", "-e", "async () => { return 6 * 7; }"]),
        run(&["--json", "-e", "function answer() { return 6 * 7; }"]),
        run(&["--json", "-e", "const a = 6;\nreturn a * 7;"]),
        run(&["--json", "enum.ts"]),
        run(&["--json", "-e", "export default async function () { return 6 * 7; }"]),
        run(&["--json", "-e", "-6 * -7"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn results_and_logs() {
    let dir = directory("results");
    let logs = "console.log('one', { two: [2] }); console.warn('three'); console.error('four'); 'five'";
    let commands = [
        run(&["-e", "({ list: [1, { deep: 'text' }], none: null, empty: [] })"]),
        run(&["-e", "undefined"]),
        run(&["--json", "-e", "undefined"]),
        run(&["-e", "null"]),
        run(&["-e", logs]),
        run(&["--json", "-e", logs]),
        run(&["--quiet", "-e", logs]),
        run(&["--json", "--max-log-lines", "2", "--max-log-chars", "5", "-e", logs]),
        run(&["--max-log-lines", "2", "-e", logs]),
        run(&["--max-log-chars", "20", "-e", logs]),
        run(&["--quiet", "--max-log-lines", "2", "-e", logs]),
        run(&["-e", r"console.log('\x1b[2J\x07 rings,\r \u202e turns, \x9b31m colors,\n\ta second line')"]),
        run(&["-e", r"'\x1b\n'"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn calls_that_are_not_awaited() {
    let dir = directory("unawaited");
    let tools = r#"{ "close": { "answers": [{ "when": { "id": 9 }, "fails": "no such order" }, { "returns": "closed" }], "delay": "20ms" },
        "hang": { "answers": [{ "returns": 1 }], "delay": "1h" } }"#;
    fs::write(dir.join("tools.json"), stub_file("shop", tools)).unwrap();
    let all = "const seen = [];\n[1, 2].forEach(async (id) => seen.push(await shop.close({ id })));\nseen";
    let main = "main();\nasync function main() { await shop.close({ id: 1 }); return 5 }";
    let commands = [
        run(&["--tools", "tools.json", "-e", all]),
        run(&["--tools", "tools.json", "--cancel-unawaited", "-e", all]),
        run(&["--tools", "tools.json", "-e", main]),
        run(&["--tools", "tools.json", "-e", "shop.close({ id: 9 }); 1"]),
        run(&["--tools", "tools.json", "-e", "await Promise.all([shop.close({ id: 9 }), shop.hang({})])"]),
        run(&["--tools", "tools.json", "--json", "--cancel-unawaited", "-e", "shop.hang({}); 1"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn standard_input() {
    let dir = directory("stdin");
    let commands = [
        run(&[]).stdin("6 * 7"),
        run(&["-"]).stdin("\u{feff}const x: number = 6; x * 7"),
        run(&["-"]).stdin("\n\nnothing.here"),
        run(&["-e", "1"]).stdin("2"),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn failures_of_programs() {
    let dir = directory("failures");
    let total = "interface Order { lines: number[] }\n\nfunction total(order: Order): number {\n  return \
                 order.lines.reduce((a, b) => a + b, 0);\n}\n\nconst main = () => total({} as Order);\n\nmain();\n";
    fs::write(dir.join("total.ts"), total).unwrap();
    fs::write(dir.join("broken.ts"), "const a = 1;\nconst b = (;\n").unwrap();
    let long = format!("const a = '{}'; missing(a); const b = '{}';", "x".repeat(300), "y".repeat(300));
    fs::write(dir.join("long.js"), long).unwrap();
    let commands = [
        run(&["total.ts"]),
        run(&["--json", "total.ts"]),
        run(&["broken.ts"]),
        run(&["--json", "broken.ts"]),
        run(&["long.js"]),
        run(&["-e", "throw new RangeError('first\\nsecond \\x1b[31m')"]),
        run(&["-e", "throw 'just words'"]),
        run(&["-e", "const fetched = await fetch('https://example.com')"]),
        run(&["-e", "() => 1; () => 2"]),
        run(&["-e", "console.log('on'); for (;;) {}", "--timeout", "500ms"]),
        run(&["-e", "await new Promise(() => {})", "--timeout", "500ms"]),
        run(&["-e", "const all = []; for (;;) all.push(new Array(1000).fill(all.length))", "--memory", "8MiB"]),
        // Both the timeout and the position are forged by the program, and neither is trusted.
        run(&["-e", "throw Object.assign(new Error('no\\n    at <script>:99:1'), { code: 'timeout' })"]),
        run(&["--json", "-e", "throw Object.assign(new Error('no\\n    at <script>:99:1'), { code: 'timeout' })"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn bad_input() {
    let dir = directory("bad-input");
    fs::write(dir.join("latin1.js"), b"const a = 1;\nconst b = 'caf\xe9';\n").unwrap();
    fs::write(dir.join("empty.ts"), " \n\t\n").unwrap();
    fs::create_dir_all(dir.join("folder")).unwrap();
    let commands = [
        run(&["missing.ts"]),
        run(&["1 + 1"]),
        run(&["folder"]),
        run(&["latin1.js"]),
        run(&["empty.ts"]),
        run(&["-e", ""]),
        run(&[]).stdin(""),
        run(&["-e", "1", "--timeout", "5 parsecs"]),
        run(&["-e", "1", "--timeout", "-5"]),
        run(&["-e", "1", "--timeout", "5"]),
        run(&["-e", "1", "--timeout", "99999999999999999999"]),
        run(&["-e", "1", "--memory", "64"]),
        run(&["-e", "1", "--memory", "64 MiBs"]),
        run(&["-e", "1", "--memory", "99999999999EiB"]),
        run(&["-e", "1", "--max-log-lines", "ten"]),
        run(&["-e", "1", "--max-log-chars", "-1"]),
        run(&["--json", "missing.ts"]),
        run(&["bad\x1b[31m\nname.ts"]),
        run(&["--tiemout", "5s", "-e", "1"]),
        run(&["-e", "1", "program.ts"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

const SHOP: &str = r#"{
  "$comment": "orders by status",
  "providers": { "shop": { "tools": { "list-orders": {
    "input": { "type": "object", "properties": { "status": { "type": "string" } }, "required": ["status"] },
    "output": { "type": "array", "items": { "type": "integer" } },
    "answers": [
      { "when": { "status": "open" }, "returns": [7, 9] },
      { "when": { "status": "lost" }, "fails": "there is no such status" },
      { "when": { "page": { "size": 1 } }, "returns": [7] }
    ],
    "delay": "1ms"
  } } } }
}"#;

#[test]
fn stub_tools() {
    let dir = directory("stub-tools");
    fs::write(dir.join("shop.json"), SHOP).unwrap();
    fs::write(dir.join("clock.json"), stub_file("clock", r#"{ "now": { "answers": [{ "returns": null }] } }"#))
        .unwrap();
    let shop = |code| run(&["--tools", "shop.json", "-e", code]);
    let caught =
        "try { await shop.list_orders({ status: 'lost' }) } catch (error) { error.code + ': ' + error.message }";
    let commands = [
        shop("await shop.list_orders({ status: 'open', extra: 1 })"),
        shop("await shop.list_orders({ status: '', page: { size: 1.0, at: 3 } })"),
        shop("await shop.list_orders({ status: 'lost' })"),
        shop(caught),
        shop("await shop.list_orders({ status: 'odd' })"),
        shop("await shop.list_orders({ state: 'open' })"),
        shop("await shop.lst_orders({ status: 'open' })"),
        run(&["--tools", "shop.json", "--tools", "clock.json", "-e", "[await clock.now(), typeof shop.list_orders]"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn bad_tools_files() {
    let dir = directory("bad-tools");
    let files = [
        ("syntax.json", r#"{ "providers": "#.to_owned()),
        ("shape.json", r#"{ "providers": [] }"#.to_owned()),
        ("nothing.json", "{}".to_owned()),
        ("key.json", stub_file("shop", "{\n \"find\": { \"answers\": [\n  { \"retruns\": 1 }\n] } }")),
        ("tool-key.json", stub_file("shop", r#"{ "find": { "answer": [] } }"#)),
        ("neither.json", stub_file("shop", r#"{ "find": { "answers": [{ "returns": 1 }, { "when": {} }] } }"#)),
        ("both.json", stub_file("shop", r#"{ "find": { "answers": [{ "returns": 1, "fails": "no" }] } }"#)),
        ("twice.json", stub_file("shop", r#"{ "find": { "answers": [] }, "find": { "answers": [] } }"#)),
        ("delay.json", stub_file("shop", r#"{ "find": { "answers": [], "delay": "soon" } }"#)),
        ("unit.json", stub_file("shop", r#"{ "find": { "answers": [], "delay": "20" } }"#)),
        ("input.json", stub_file("shop", r#"{ "find": { "input": { "type": "strin" }, "answers": [] } }"#)),
        ("output.json", stub_file("shop", r#"{ "find": { "output": { "type": "strin" }, "answers": [] } }"#)),
        (
            "returns.json",
            stub_file(
                "shop",
                r#"{ "find": {
                    "output": { "properties": { "id": { "type": "integer" } } },
                    "answers": [{ "returns": { "id": 1 } }, { "returns": { "id": "two" } }]
                } }"#,
            ),
        ),
        ("name.json", stub_file("my shop", "{}")),
        ("global.json", stub_file("console", "{}")),
        ("shop.json", SHOP.to_owned()),
        ("again.json", SHOP.to_owned()),
    ];
    let mut commands = vec![run(&["--tools", "missing.json", "-e", "1"])];
    for (name, text) in &files[..files.len() - 2] {
        fs::write(dir.join(name), text).unwrap();
        commands.push(run(&["--tools", name, "-e", "1"]));
    }
    for (name, text) in &files[files.len() - 2..] {
        fs::write(dir.join(name), text).unwrap();
    }
    commands.push(run(&["--tools", "shop.json", "--tools", "again.json", "-e", "1"]));
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn executors() {
    let dir = directory("executors");
    let tools = r#"{ "say": { "answers": [{ "when": "no", "fails": "it says no" }, { "returns": "yes" }] } }"#;
    fs::write(dir.join("tools.json"), stub_file("tools", tools)).unwrap();
    let mut commands = Vec::new();
    for executor in ["inline", "worker", "process"] {
        let run = |code| run(&["--executor", executor, "--tools", "tools.json", "-e", code]);
        commands.push(run("console.log('up'); await tools.say('hello')"));
        commands.push(run("const a = 1;\nnothing.here"));
        commands.push(run("await tools.say('no')"));
    }
    commands.push(run(&["-e", "1", "--executor", "thread"]));
    commands.push(run(&["-e", "1", "--executor", "remote=localhost:7000"]));
    commands.push(run(&["-e", "1", "--executor", "remote=unix:missing.sock"]));
    commands.push(run(&["-e", "1", "--executor", "remote=unix:missing.sock", "--token-file", "no.txt"]));
    commands.push(run(&["-e", "1", "--token-file", "no.txt"]));
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn help() {
    let dir = directory("help");
    let commands = [
        Typed::new(&[]),
        Typed::new(&["--version"]),
        Typed::new(&["run", "-h"]),
        Typed::new(&["run", "--help"]),
        Typed::new(&["runner", "--help"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

/// The limit is enforced by the library.
#[test]
fn a_source_that_is_too_long_is_a_syntax_error() {
    let output = run(&["--json"]).stdin(&"1;".repeat(3 << 20)).output(&directory("too-long"));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains(r#""name":"SyntaxError""#) && stdout.contains("limit"), "{stdout}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_deep_result_is_a_failure() {
    let code = "let deep = []; for (let i = 0; i < 200000; i++) deep = [deep]; deep";
    let output = run(&["-e", code]).output(&directory("deep"));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = run(&["-e", "console.log('on'); 'x'.repeat(1e6)"]).start(&directory("closed-stdout"));
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(output.stderr)), (Some(0), "on\n".into()));

    let mut child = run(&["-e", "console.log('x'.repeat(1e4)); 1"]).start(&directory("closed-stderr"));
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(output.stdout)), (Some(0), "1\n".into()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(BINARY).args(["run", "-e", "1"]).stdout(full).output().unwrap();
    assert_eq!(
        (output.status.code(), text(output.stderr)),
        (Some(4), "error: cannot write to standard output: no space left on device\n".into())
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_busy_program_and_prints_its_result() {
    let code = "console.log('up'); for (;;) try { for (;;) {} } finally { continue }";
    let mut child = run(&["--json", "--timeout", "60s", "-e", code]).start(&directory("interrupt"));
    wait_for_line(&mut child);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let stdout = text(output.stdout);
    assert!(
        stdout
            .contains(r#""error":{"code":"timeout","message":"Execution was cancelled","cause":{"kind":"cancelled"}}"#),
        "{stdout}"
    );
    assert_eq!(output.status.code(), Some(130));
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_program_that_waits_for_a_tool() {
    let dir = directory("interrupt-tool");
    let tools = r#"{ "wait": { "answers": [{ "returns": 1 }], "delay": "60s" } }"#;
    fs::write(dir.join("slow.json"), stub_file("slow", tools)).unwrap();
    let code = "console.log('up'); await slow.wait()";
    let mut child = run(&["--timeout", "60s", "--tools", "slow.json", "-e", code]).start(&dir);
    wait_for_line(&mut child);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// The program has completed and its result is being written, but the pipe is not read.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_process_whose_write_blocks() {
    let mut child = run(&["-e", "'x'.repeat(1e6)"]).start(&directory("interrupt-writing"));
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// `execbox run …`
fn run(arguments: &[&str]) -> Typed {
    Typed::new(&[&["run"], arguments].concat())
}
