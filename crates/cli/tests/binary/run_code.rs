//! `execbox run-code`, with the real binary: standard output, standard error and exit codes.
//!
//! Every snapshot is a transcript of commands.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::status_kib;
use crate::support::transcript::{BINARY, Typed, directory, interrupt, stub_file, text, transcript, wait_for_line};

/// The example, exactly as the README has it.
#[test]
fn example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = |more: &[&str]| {
        let program = ["examples/run-code/src/main.ts", "--modules", "examples/run-code/src"];
        run_code(&[&program[..], &["--options", "examples/run-code/options.json"], more].concat())
    };
    let commands = [example(&[]), example(&["--json"]), example(&["--args", "[null]"])];
    insta::assert_snapshot!(transcript(&root, &commands));
}

#[test]
fn results() {
    let dir = directory("code-results");
    let value = |value: &str| run_code(&["--quiet", "-e", &format!("export default {value}")]);
    let all = "[undefined, NaN, -0, 12n, new Date(0), new Map([['a', new Set([1])]]), /a+/g, new Uint8Array([1, 2]), new \
               TypeError('no', { cause: 1 }), Object('boxed')]";
    let commands = [
        run_code(&["-e", "export default { list: [1, { deep: 'text' }], none: null, empty: [] }"]),
        run_code(&["--json", "-e", "export default { list: [1, { deep: 'text' }], none: null, empty: [] }"]),
        value(all),
        run_code(&["--json", "-e", &format!("export default {all}")]),
        value(
            "(() => { const shared = [1], cycle = { one: shared, two: shared }; cycle.self = cycle; return cycle })()",
        ),
        value("undefined"),
        run_code(&["--json", "-e", "export default undefined"]),
        value("async () => Promise.resolve(6 * 7)"),
        value("'\\x1b[31m'"),
        value("() => () => 1"),
        value("new (class Point {})()"),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn calls_that_are_not_awaited() {
    let dir = directory("code-unawaited");
    fs::write(
        dir.join("tools.json"),
        stub_file("shop", r#"{ "hang": { "answers": [{ "returns": 1 }], "delay": "1h" } }"#),
    )
    .unwrap();
    fs::write(dir.join("main.ts"), "import { hang } from 'shop';\nhang({});\nexport default 1;\n").unwrap();
    let commands = [
        run_code(&["--tools", "tools.json", "main.ts"]),
        run_code(&["--tools", "tools.json", "--json", "main.ts"]),
        run_code(&["--tools", "tools.json", "-e", "import { hang } from 'shop'; hang({}); throw new Error('no')"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn reports_and_logs() {
    let dir = directory("code-logs");
    let code = "report({ topic: 'start', at: new Date(0) }); console.log('one', { two: [2] }, new Map([[1, 2n]])); \
                console.info('info'); console.warn('three'); console.error('four', new TypeError('no')); \
                console.debug('five'); report('end'); export default 'six'";
    let own = "report('mine'); console.log('mine'); export default [report, console]";
    let commands = [
        run_code(&["-e", code]),
        run_code(&["--json", "-e", code]),
        run_code(&["--quiet", "-e", code]),
        run_code(&["--max-log-lines", "2", "--max-log-bytes", "30", "-e", code]),
        // The option has a former name.
        run_code(&["--max-log-lines", "2", "--max-log-chars", "30", "-e", code]),
        run_code(&["--global", "report=7", "--quiet", "-e", "export default report"]),
        run_code(&["--global", "console={}", "-e", own]),
        run_code(&["-e", r"console.log('\x1b[2J\x07 rings,\r \u202e turns,\n\ta second line'); report('\x1b\n')"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn options() {
    let dir = directory("code-options");
    fs::write(dir.join("rows.json"), r#"[1, 2, { "$bigint": "3" }]"#).unwrap();
    let file = r#"{
        "execute": { "fn": "pair", "args": ["from the file", { "$set": [1] }] },
        "imports": { "config": { "rate": 1.5, "default": "the default" } },
        "globals": { "user": "Ada", "since": { "$date": 0 } },
        "modules": { "./lib/x.ts": "export const x: number = 1;" },
        "language": "typescript",
        "memoryLimitBytes": 8388608,
        "filename": "pair.ts"
    }"#;
    fs::write(dir.join("options.json"), file).unwrap();
    let pair = "import config, { rate } from 'config';\nimport { x } from './lib/x.ts';\nexport const pair = (...args) => \
                ({ args, config, rate, x, user, since, url: import.meta.url });\nexport const one = 1;\nexport const add = \
                (a: number, b: number) => a + b;\nexport const fill = () => 'x'.repeat(32 << 20).length;\n";
    fs::write(dir.join("pair.ts"), pair).unwrap();
    fs::create_dir_all(dir.join("lib")).unwrap();
    fs::write(dir.join("lib/x.ts"), "export const x = 'of the directory';").unwrap();
    let quiet = |code: &str, more: &[&str]| run_code(&[&["-q", "-e", code], more].concat());
    let with_file = |more: &[&str]| run_code(&[&["-q", "pair.ts", "--options", "options.json"], more].concat());
    let commands = [
        with_file(&[]),
        with_file(&["--fn", "add", "--args", "[1, 2]"]),
        with_file(&["--args", "[]", "--global", "user=\"Lin\"", "--import", "config={\"rate\":2,\"default\":null}"]),
        with_file(&["--modules", ".", "--args", "@rows.json", "--filename", "other.ts"]),
        with_file(&["--fn", "fill", "--args", "[]"]),
        with_file(&["--fn", "fill", "--args", "[]", "--memory", "64MiB"]),
        with_file(&["--fn", "one"]),
        quiet("export default [rows, label]", &["--global", "rows=@rows.json", "--global", "label=\"a=b\""]),
        quiet(
            "import { a } from '@scope/pkg'; export default a",
            &["--import", "@scope/pkg={\"a\":{\"$undefined\":true}}"],
        ),
        quiet("export default 1 as number", &["--language", "javascript"]),
        quiet("export default 1 as number", &["--language", "typescript"]),
        quiet("export default import.meta.url", &[]),
        run_code(&["-q"]).stdin("export default import.meta.url"),
        run_code(&["-q", "-"]).stdin("\u{feff}export default 6 * 7"),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn modules() {
    let dir = directory("code-modules");
    for (file, code) in [
        (
            "src/main.ts",
            "import { area } from './lib/shapes/circle.mts';\nimport './a.js';\nimport './b.mjs';\nexport default area(2);\n",
        ),
        ("src/a.js", "console.log(import.meta.url);"),
        ("src/b.mjs", "console.log(import.meta.url);"),
        (
            "src/lib/shapes/circle.mts",
            "import { pi } from '../pi.ts';\nexport const area = (r: number) => pi * r ** 2;\n",
        ),
        ("src/lib/pi.ts", "console.log(import.meta.url);\nexport const pi: number = 3;\n"),
        ("src/deep/entry.ts", "import { pi } from '../lib/pi.ts';\nexport default [pi, import.meta.url];\n"),
        ("src/imports-entry.ts", "import './imports-entry.ts';"),
        ("src/node_modules/dep/index.js", "export default 1;"),
        ("src/.git/hook.js", "export default 1;"),
        ("src/notes.txt", "no module"),
        ("outside.ts", "export const secret = 1;\n"),
        ("entry.ts", "import { pi } from './lib/pi.ts';\nexport default [pi, import.meta.url];\n"),
    ] {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, code).unwrap();
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(dir.join("outside.ts"), dir.join("src/linked.ts")).unwrap();
        std::os::unix::fs::symlink(&dir, dir.join("src/loop")).unwrap();
    }
    let in_src = |code| run_code(&["-q", "--modules", "src", "-e", code]);
    let commands = [
        run_code(&["src/main.ts", "--modules", "src"]),
        run_code(&["src/main.ts", "--modules", "src/../src/", "-q"]),
        run_code(&["-q", "src/deep/entry.ts", "--modules", "src"]),
        run_code(&["-q", "entry.ts", "--modules", "src"]),
        run_code(&["-q", "src/imports-entry.ts", "--modules", "src"]),
        in_src("import { pi } from './lib/pi.js'; export default pi"),
        in_src("import { secret } from '../outside.ts'; export default secret"),
        in_src("import { secret } from './linked.ts'; export default secret"),
        in_src("import { secret } from './loop/outside.ts'; export default secret"),
        in_src("import dep from './node_modules/dep/index.js'; export default dep"),
        in_src("import hook from './.git/hook.js'; export default hook"),
        in_src("import fs from 'node:fs'; export default fs"),
        in_src("export default await import('./lib/pi.ts').then(({ pi }) => pi)"),
        run_code(&["-q", "src/main.ts"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn failures_of_programs() {
    let dir = directory("code-failures");
    fs::create_dir_all(dir.join("src/lib")).unwrap();
    for (file, code) in [
        (
            "src/lib/total.ts",
            "interface Order { lines: number[] }\n\nexport function total(order: Order): number {\n  return \
          order.lines.reduce((a, b) => a + b, 0);\n}\n",
        ),
        (
            "src/main.ts",
            "import { total } from './lib/total.ts';\n\nexport default function main() {\n  return total({} as \
          never);\n}\n",
        ),
        ("src/lib/broken.js", "const a = 1;\nconst b = (;\n"),
        ("src/breaks.ts", "import './lib/broken.js';\nexport default 1;\n"),
        ("src/lib/lost.ts", "import { x } from './nowhere.ts';\nexport { x };\n"),
        ("src/loses.ts", "export { x as default } from './lib/lost.ts';\n"),
        ("src/misnames.ts", "import { totl } from './lib/total.ts';\nexport default totl;\n"),
    ] {
        fs::write(dir.join(file), code).unwrap();
    }
    let in_src = |file| run_code(&["--modules", "src", file]);
    let code = |code| run_code(&["-e", code]);
    let commands = [
        in_src("src/main.ts"),
        run_code(&["--json", "--modules", "src", "src/main.ts"]),
        in_src("src/breaks.ts"),
        in_src("src/loses.ts"),
        in_src("src/misnames.ts"),
        run_code(&["--options", "inline.json", "-e", "import { f } from './f.js';\nexport default f"]),
        code("export const a = 1"),
        run_code(&["--args", "[1]", "-e", "export default 1"]),
        code("throw new RangeError('first\\nsecond \\x1b[31m')"),
        code("throw 'just words'"),
        code("throw new Error()"),
        code("export default await fetch('https://example.com')"),
        code("eval('1')"),
        // Both the failure of execbox and the position are forged by the program, and neither is trusted.
        code("throw Object.assign(new Error('no\\n    at ./x.ts:99:1'), { name: 'InternalError' })"),
        run_code(&["-e", "console.log('on'); for (;;) {}", "--timeout", "500ms"]),
        run_code(&["-e", "await new Promise(() => {})"]),
        run_code(&["-e", "export default 'in time'", "--timeout", "none"]),
        run_code(&["-e", "const all = []; for (;;) all.push(new Array(1000).fill(all.length))", "--memory", "8MiB"]),
        run_code(&["--json", "-e", "let deep = []; for (let i = 0; i < 2000; i++) deep = [deep]; export default deep"]),
        run_code(&["--filename", "", "-e", "export default 1"]),
        run_code(&["--global", "no-name=1", "-e", "export default 1"]),
        run_code(&["--import", "./a=1", "-e", "export default 1"]),
    ];
    fs::write(
        dir.join("inline.json"),
        r#"{ "modules": { "./f.js": "export const f = () => {\n  throw new Error('inside');\n};" } }"#,
    )
    .unwrap();
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn bad_input() {
    let dir = directory("code-bad-input");
    fs::create_dir_all(dir.join("latin1")).unwrap();
    fs::write(dir.join("latin1/a.js"), b"const a = 1;\nconst b = 'caf\xe9';\n").unwrap();
    fs::write(dir.join("empty.ts"), " \n\t\n").unwrap();
    let files = [
        ("syntax.json", r#"{ "execute": "#),
        ("array.json", "[]"),
        ("key.json", r#"{ "timeout": 5 }"#),
        ("report.json", r#"{ "report": true }"#),
        ("execute.json", r#"{ "execute": { "function": "a" } }"#),
        ("execute-text.json", r#"{ "execute": "main" }"#),
        ("args.json", r#"{ "execute": { "args": {} } }"#),
        ("tag.json", r#"{ "globals": { "a": [{ "$bigint": "1.5" }] } }"#),
        ("function.json", r#"{ "imports": { "a": { "f": { "$function": 7 } } } }"#),
        ("import.json", r#"{ "imports": { "a": 1 } }"#),
        ("module.json", r#"{ "modules": { "./a.js": 1 } }"#),
        ("language.json", r#"{ "language": "python" }"#),
        ("memory.json", r#"{ "memoryLimitBytes": "64MiB" }"#),
    ];
    let with = |more: &[&str]| run_code(&[&["-e", "export default 1"], more].concat());
    let mut commands = vec![
        run_code(&["missing.ts"]),
        run_code(&["export default 1"]),
        run_code(&["empty.ts"]),
        run_code(&["latin1"]),
        run_code(&[]).stdin(""),
        with(&["program.ts"]),
        with(&["--modules", "missing"]),
        with(&["--modules", "empty.ts"]),
        with(&["--modules", "latin1"]),
        with(&["--global", "rows"]),
        with(&["--global", "=1"]),
        with(&["--global", "name=Ada"]),
        with(&["--global", "name="]),
        with(&["--global", "rows=@missing.json"]),
        with(&["--global", "rows=@syntax.json"]),
        with(&["--global", "rows={\"$dat\":0}"]),
        with(&["--import", "config"]),
        with(&["--import", "config=[1]"]),
        with(&["--import", "config={'rate':1}"]),
        with(&["--args", "1"]),
        with(&["--args", "[1,"]),
        with(&["--args", "[{\"$promise\":1}]"]),
        with(&["--language", "python"]),
        with(&["--timeout", "never"]),
        with(&["--memory", "64 MiBs"]),
        with(&["--max-log-lines", "ten"]),
        with(&["--executor", "thread"]),
        with(&["--tools", "missing.json"]),
        with(&["--token-file", "token.txt"]),
        with(&["--json", "--global", "bad\x1b[31m\n"]),
        with(&["--options", "missing.json"]),
    ];
    for (name, text) in files {
        fs::write(dir.join(name), text).unwrap();
        commands.push(with(&["--options", name]));
    }
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn stub_tools() {
    let dir = directory("code-stub-tools");
    let tools = r#"{ "list-orders": {
        "input": { "type": "object", "properties": { "status": { "type": "string" } }, "required": ["status"] },
        "answers": [{ "when": { "status": "open" }, "returns": [7, 9] }, { "fails": "there is no such status" }],
        "delay": "1ms"
    } }"#;
    fs::write(dir.join("shop.json"), stub_file("shop", tools)).unwrap();
    let shop = |code: &str| {
        run_code(&["--quiet", "--tools", "shop.json", "-e", &format!("import {{ list_orders }} from 'shop';\n{code}")])
    };
    let commands = [
        shop("export default list_orders({ status: 'open' })"),
        shop("export default [list_orders.name, await import('shop').then(Object.keys)]"),
        shop("export default await list_orders({ status: 'lost' })"),
        shop("export default list_orders({ state: 'open' })"),
        shop("export default list_orders(new Map()).catch(({ name, message }) => `caught ${name}: ${message}`)"),
        run_code(&["-q", "--tools", "shop.json", "-e", "import { lst_orders } from 'shop';"]),
    ];
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn executors() {
    let dir = directory("code-executors");
    let tools = r#"{ "say": { "answers": [{ "when": "no", "fails": "it says no" }, { "returns": "yes" }] } }"#;
    fs::write(dir.join("tools.json"), stub_file("tools", tools)).unwrap();
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("src/fail.ts"), "export const fail = () => {\n  throw new Error('far away');\n};\n").unwrap();
    let mut commands = Vec::new();
    for executor in ["inline", "worker", "process"] {
        let run = |code| {
            let given = ["--modules", "src", "--tools", "tools.json", "--global", "since={\"$date\":0}"];
            run_code(&[&["--executor", executor], &given[..], &["-e", code]].concat())
        };
        commands.extend([
            run("import { say } from 'tools'; report(since); console.warn('up'); export default new Set([await say('hello')])"),
            run("import { fail } from './fail.ts';\nexport default fail;"),
            run("import { say } from 'tools'; await say('no')"),
            run("throw Object.assign(new Error('claimed'), { name: 'InternalError' })"),
            run("import './nowhere.ts'"),
            run_code(&["--executor", executor, "--timeout", "2s", "-e", "for (;;) {}"]),
        ]);
    }
    commands.push(run_code(&["-e", "export default 1", "--executor", "remote=unix:missing.sock"]));
    insta::assert_snapshot!(transcript(&dir, &commands));
}

#[test]
fn help() {
    let commands = [Typed::new(&["run-code", "-h"]), Typed::new(&["run-code", "--help"])];
    insta::assert_snapshot!(transcript(&directory("code-help"), &commands));
}

#[test]
fn too_many_modules_are_rejected() {
    let dir = directory("code-too-many");
    fs::create_dir_all(dir.join("src")).unwrap();
    for number in 0..=10_000 {
        fs::write(dir.join(format!("src/{number}.js")), "").unwrap();
    }
    let output = run_code(&["--modules", "src", "-e", "export default 1"]).output(&dir);
    let refusal = "error: --modules: src has more than 10000 modules; use a smaller directory\n";
    assert_eq!((output.status.code(), text(output.stderr)), (Some(2), refusal.into()));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn too_long_modules_are_rejected() {
    let dir = directory("code-too-long");
    fs::create_dir_all(dir.join("src")).unwrap();
    for number in 0..5 {
        fs::write(dir.join(format!("src/{number}.js")), " ".repeat(16 << 20)).unwrap();
    }
    let output = run_code(&["--modules", "src", "-e", "export default 1"]).output(&dir);
    let refusal = "error: --modules: the modules in src have more than 64 MiB; use a smaller directory\n";
    assert_eq!((output.status.code(), text(output.stderr)), (Some(2), refusal.into()));
    fs::remove_dir_all(dir).unwrap();
}

/// Opening a named pipe would block.
#[cfg(unix)]
#[test]
fn only_files_are_read() {
    let dir = directory("code-pipe");
    nix::unistd::mkfifo(&dir.join("pipe.js"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let output = run_code(&["--modules", ".", "-q", "-e", "export default 1"]).output(&dir);
    assert_eq!((output.status.code(), text(output.stdout)), (Some(0), "1\n".into()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(BINARY).args(["run-code", "-q", "-e", "export default 1"]).stdout(full).output().unwrap();
    assert_eq!(
        (output.status.code(), text(output.stderr)),
        (Some(4), "error: cannot write to standard output: no space left on device\n".into())
    );
}

/// Reports are printed while the program runs, and are in the result.
#[cfg(unix)]
#[test]
fn ctrl_c_terminates_a_busy_program_and_prints_its_result() {
    let code = "report('up'); console.log('logged'); for (;;) try { for (;;) {} } finally { continue }";
    let mut child = run_code(&["--timeout", "none", "-e", code]).start(&directory("code-interrupt"));
    wait_for_line(&mut child);
    wait_for_line(&mut child);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let stderr = text(output.stderr);
    assert!(
        stderr.starts_with("error[terminated]: TerminatedError: The run was terminated: interrupted\nterminated in "),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(130));
}

#[cfg(unix)]
#[test]
fn ctrl_c_terminates_a_program_that_waits_for_a_tool() {
    let dir = directory("code-interrupt-tool");
    let tools = r#"{ "wait": { "answers": [{ "returns": 1 }], "delay": "60s" } }"#;
    fs::write(dir.join("slow.json"), stub_file("slow", tools)).unwrap();
    let code = "import { wait } from 'slow'; report('up'); await wait()";
    let mut child = run_code(&["--timeout", "60s", "--tools", "slow.json", "-e", code]).start(&dir);
    wait_for_line(&mut child);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Every output of a program on a terminal, with control characters.
#[cfg(unix)]
#[test]
fn no_control_character_reaches_a_terminal() {
    const HOSTILE: &str = r"\x1b[2J\x9b31m\u202e\u2066\x07\r\u2028\x7f\b\u061c";
    let dir = directory("code-terminal");
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(
        dir.join("odd\x1b[31m\u{202e}.ts"),
        "export const f = () => { throw new Error('in a file of an odd name') };\n",
    )
    .unwrap();
    fs::write(
        dir.join("src/raw.ts"),
        "export default function () { /* \x1b[2J \u{202e} */ throw new Error('in raw source') }\n",
    )
    .unwrap();
    let programs = [
        "export default 'H'",
        "export default { 'H': ['H'] }",
        "export default new Map([['H', new Set(['H'])]])",
        "export default [new RegExp('H'), Object('H'), Symbol.for('H').description]",
        "export default Object.assign(new Error('H', { cause: 'H' }), { name: 'H' })",
        "report('H'); report({ 'H': new Error('H') }); export default 1",
        "console.log('H', ['H']); console.error('H'); console.warn({ 'H': 1 }); export default 1",
        "throw new Error('H')",
        "throw Object.assign(new Error('H'), { name: 'H' })",
        "throw 'H'",
        "throw { toString() { return 'H' } }",
        "const o = { ['H']() { throw new Error('x') } }; o['H']()",
        "Object.defineProperty(f, 'name', { value: 'H' }); function f() { throw new Error('x') } f()",
        "import 'H'",
        "import { x } from './H'",
        "import('H').catch((error) => { throw error }); await import('H')",
        "export const a = 1; export { a as 'H' }; import { 'H' as b } from './raw.ts'",
        "export default () => class H1 {}",
        "const é = `H`; export default {}[é].x",
    ];
    let mut commands: Vec<Typed> =
        programs.iter().map(|code| run_code(&["--modules", "src", "-e", &code.replace('H', HOSTILE)])).collect();
    let raw = "\x1b[2J\u{9b}31m\u{202e}\r\x07";
    commands.push(run_code(&["src/raw.ts"]));
    commands.push(run_code(&["odd\x1b[31m\u{202e}.ts", "--fn", "f"]));
    commands.push(run_code(&["--fn", raw, "-e", "export default 1"]));
    commands.push(run_code(&["--filename", raw, "-e", "throw new Error('x')"]));
    commands.push(run_code(&["--global", &format!("{raw}=1"), "-e", "export default 1"]));
    commands.push(run_code(&["--modules", raw, "-e", "export default 1"]));
    commands.push(run_code(&["--json", "-e", &format!("export default '{HOSTILE}'")]));
    for command in commands {
        let (seen, code) = command.on_a_terminal(&dir);
        assert!(!seen.trim().is_empty(), "{command:?}");
        assert_ne!(code, None, "{command:?}");
        let drives = |c: char| match c {
            '\n' | '\t' => false,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
            c => c.is_control(),
        };
        assert!(!seen.contains(drives), "{command:?}: {seen:?}");
    }
}

/// `execbox run-code …`
fn run_code(arguments: &[&str]) -> Typed {
    Typed::new(&[&["run-code"], arguments].concat())
}

/// The result and reports of a run take little memory in JSON beyond their memory in the host. The tree of each of these values
/// would take hundreds of MiB.
#[test]
fn results_of_runs_are_written_as_json_without_a_tree() {
    for source in [
        "export default new Array(2e6).fill(undefined)",
        "export default new Array(2e6).fill(NaN)",
        "const one = {}; export default new Array(15e5).fill(one)",
        "export default new Array(1e6).fill(5n)",
        "export default new Array(1e6).fill(-0)",
        "export default Array.from({ length: 1e5 }, (_, i) => ({ $a: undefined, b: -0 }))",
        "export default new Map(Array.from({ length: 1e5 }, (_, i) => [i, undefined]))",
        "export default new Set(Array.from({ length: 1e5 }, (_, i) => BigInt(i)))",
        "export default '\\u0001'.repeat(15e6)",
        "export default new Uint8Array(15e6)",
        "report(new Array(1e6).fill(undefined)); export default 1",
        "const one = {}; for (let i = 0; i < 50; i++) report(new Array(1e4).fill(one)); export default 1",
        "export default new Array(5e4).fill(2n ** 2000n)",
    ] {
        let (first, peak) = printed(&["--json"], source);
        assert_eq!(&first, br#"{"status":"success","#, "{source}");
        assert!(peak < 32 + 128, "{peak} MiB: {source}");
    }
}

#[test]
fn results_of_runs_are_written_as_text_as_they_are_printed() {
    for source in [
        "export default '\\u0001'.repeat(25e6)",
        "export default new Array(2e6).fill(NaN)",
        "const one = {}; export default new Array(15e5).fill(one)",
        "export default new Array(1e6).fill([1])",
        "export default new Array(5e4).fill(2n ** 2000n)",
        "report('\\u0001'.repeat(12e6)); export default new Array(1e6).fill(undefined)",
    ] {
        let (_, peak) = printed(&[], source);
        assert!(peak < 32 + 128, "{peak} MiB: {source}");
    }
}

/// The beginning of the output of `run-code`, and the memory that the process has used until then, in MiB. A text or a tree
/// would be complete by then: the process blocks at the full pipe.
fn printed(options: &[&str], source: &str) -> ([u8; 20], u64) {
    let mut command = Command::new(BINARY);
    command.args(["run-code", "--memory", "32MiB", "--timeout", "10m"]).args(options).args(["-e", source]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let mut first = [0; 20];
    stdout.read_exact(&mut first).unwrap();
    let peak = status_kib(process.id(), "VmHWM") >> 10;
    drop(stdout);
    process.wait().unwrap();
    println!("{peak} MiB: {source}");
    (first, peak)
}
