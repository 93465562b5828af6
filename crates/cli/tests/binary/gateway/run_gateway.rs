//! `execbox run --gateway`: programs of a gateway without it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::session::Session;
use crate::support::transcript::{Typed, directory, interrupt, stub_file, text, transcript, wait_for_line};
use serde_json::{Value as Json, json};

use super::approvals::{on_terminal, type_at};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/fake-server.sh");

/// A directory with a server `one`, one that fails, and a stub provider `shop`.
fn place(name: &str) -> PathBuf {
    let dir = directory(name);
    fs::copy(FAKE, dir.join("fake.sh")).unwrap();
    let one = json!({ "command": "sh", "args": ["fake.sh", "one"] });
    let servers = json!({ "one": one, "gone": { "command": "sh", "args": ["-c", "exit 3"] }, "off": { "command": "sh", "disabled": true } });
    fs::write(dir.join("servers.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
    let order = r#"{ "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] }"#;
    let tools = format!(
        r#"{{ "open": {{ "description": "Lists open orders", "answers": [{{ "returns": [7, 9] }}] }},
            "order": {{ "input": {order}, "answers": [{{ "when": {{ "id": 404 }}, "fails": "no such order" }}, {{ "returns": {{ "id": 7 }} }}] }},
            "hidden": {{ "answers": [{{ "returns": 1 }}] }} }}"#
    );
    fs::write(dir.join("tools.json"), stub_file("shop", &tools)).unwrap();
    dir
}

const BOTH: [&str; 4] = ["--tools", "tools.json", "--config", "servers.json"];

/// `execbox run --gateway …`
fn repeat(arguments: &[&str]) -> Typed {
    Typed::new(&[&["run", "--gateway"], arguments].concat())
}

/// The whole result of a program with the stub provider and the file `state.db`.
fn repeated(dir: &Path, code: &str) -> Json {
    let arguments = ["--tools", "tools.json", "--state", "state.db", "--json", "-e", code];
    let output = tokio::task::block_in_place(|| repeat(&arguments).output(dir));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{code}: {}", text(output.stderr)))
}

/// Each program with what earlier ones have kept.
const PROGRAMS: &[&str] = &[
    // Tools, and what finds them.
    "[await one.hello(), await shop.open()]",
    "await tools.search({ query: 'open orders', limit: 3 })",
    "(await tools.search('')).tools.map((tool) => tool.name)",
    "await tools.describe('shop.order')",
    "await one.hello(); await tools.describe('one.hello')",
    "console.log('first');\n\nawait tools.describe('shop.ordr')",
    // What is kept.
    "[await store.get('a'), await store.set({ key: 'a', value: [1] }), await store.get({ key: 'a' }), await store.list()]",
    "[await store.update({ key: 'a', update: (all) => [...all, 2] }), await store.entry('a')]",
    "await store.set('a', 1)",
    "await store.set({ key: 'a' })",
    "await snippets.save({ name: 'total', description: 'Adds', code: 'async ({ ids }) => {\\n  const all = ids.map((id) => shop.order({ id }));\\n  return (await Promise.all(all)).length;\\n}' })",
    "await snippets.save({ name: 'broken', code: 'return 1 +\\n super.x' })",
    "[await snippets.list(), await snippets.total({ ids: [1, 2] }), (await tools.search('adds')).tools]",
    "\n\nawait snippets.total({ ids: [1, 404] })",
    "const { total } = snippets;\nawait total();",
    "await snippets.other()",
    "await results.get('r0123')",
    "await results.get({ handel: 'r0123' })",
    // Errors.
    "try { await shop.order({ id: 404 }) } catch (error) { return [error.name, error.code, error.message] }",
    "\n  await shop.order({ id: 404 })",
    "await shop.order({ ident: 7 })",
    "await shop.ordr({ id: 7 })",
    "await gone.hello()",
    "await off.hello()",
    "shp.open()",
    "const a = 1;\nthrow new RangeError(`a is ${a}`)",
    "const a = 1;\nconst b = (;",
    "await new Promise(() => {})",
    "for (;;);",
    "const all = []; for (;;) all.push(new Array(1000).fill(all.length))",
    "[1].map((id) => shop.order({ id })); 5",
    "() => new Map([[1, 2]])",
    "() => Symbol('a')",
    // Globals. `run` waits for the servers that a program names.
    "Object.getOwnPropertyNames(globalThis).sort()",
    "setTimeout(() => 1, 1)",
    "fetch('https://example.com') // one",
    "undefined",
];

#[tokio::test(flavor = "multi_thread")]
async fn programs_have_the_results_and_errors_of_the_gateway() {
    let dir = place("repeat-same");
    // One program ends by its timeout. The others have more time than a busy machine takes.
    let [short, long] = ["500ms", "5m"].map(|timeout| ["--timeout", timeout, "--memory", "16MiB"]);
    let hasty = Session::start(&dir, &[&BOTH[..], &short, &["--state", "hasty.db"]].concat()).await;
    let session = Session::start(&dir, &[&BOTH[..], &long, &["--state", "gateway.db"]].concat()).await;
    while session.run("await one.hello()").await["ok"] != true {}
    for code in PROGRAMS {
        let (gateway, limits) = if code.starts_with("for (;;)") { (&hasty, &short) } else { (&session, &long) };
        let mut expected = gateway.run(code).await;
        let arguments = [&BOTH[..], limits, &["--state", "run.db", "--json", "-e", code]].concat();
        let output = tokio::task::block_in_place(|| repeat(&arguments).output(&dir));
        let mut result: Json = serde_json::from_slice(&output.stdout).unwrap();
        for result in [&mut expected, &mut result] {
            let result = result.as_object_mut().unwrap();
            result.remove("durationMs");
            result.remove("usage");
            // What was used of a limit is measured, and the calls are not known of a runner that is ended from outside: on a
            // busy machine, it may be late with its own timeout.
            if let Some(cause) = result.get_mut("error").and_then(|error| error["cause"].as_object_mut()) {
                cause.retain(|key, _| !matches!(key.as_str(), "used" | "calls"));
            }
        }
        assert_eq!(result, expected, "{code}");
    }
    assert_eq!(hasty.end().await.1, Some(0));
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_that_of_a_running_gateway() {
    let dir = place("repeat-state");
    let session = Session::start(&dir, &[&BOTH[..], &["--state", "state.db", "--timeout", "5m"]].concat()).await;
    let save = "await snippets.save({ name: 'hello', code: 'return await one.hello()' }); await store.set({ key: 'n', value: 0 })";
    assert_eq!(session.run(save).await["ok"], true);
    // The server is not named by the program, and started for it.
    let arguments = [&BOTH[..], &["--state", "state.db", "-e", "await snippets.hello()"]].concat();
    let output = tokio::task::block_in_place(|| repeat(&arguments).output(&dir));
    assert_eq!(text(output.stdout), "\"hello from one\"\n", "{}", text(output.stderr));
    let count = "for (let i = 0; i < 50; i++) await store.update({ key: 'n', update: (n) => n + 1 }); return await store.get('n')";
    let here = dir.clone();
    let running = tokio::task::spawn_blocking(move || {
        repeat(&["--state", "state.db", "--timeout", "5m", "-e", count]).output(&here).status.code()
    });
    let (result, code) = tokio::join!(session.run(count), running);
    assert_eq!((&result["ok"], code.unwrap()), (&json!(true), Some(0)), "{result}");
    assert_eq!(session.run("await store.get('n')").await["result"], 100);
    repeated(&dir, "await snippets.save({ name: 'twice', code: '2 * input' })");
    assert_eq!(session.run("await snippets.twice(21)").await["result"], 42);
    assert_eq!(session.end().await.1, Some(0));
    assert_eq!(repeated(&dir, "[await snippets.twice(1), await store.get('n')]")["result"], json!([2, 100]));
}

#[test]
fn what_is_kept_without_a_file_ends_with_the_program() {
    let dir = place("repeat-memory");
    let code = "[await store.get('a'), await store.set({ key: 'a', value: 1 }), await store.get('a'),
        await snippets.save({ name: 'f', code: '1' }), (await snippets.list()).total]";
    for _ in 0..2 {
        let output = repeat(&["--json", "-e", code]).output(&dir);
        let result: Json = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&result["result"][0], &result["result"][2]), (&Json::Null, &json!(1)), "{result}");
        assert_eq!(result["result"][4], 1, "{result}");
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "no file is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_shown_in_the_program() {
    let dir = place("repeat-errors");
    let save = |name: &str, code: &str| {
        let saved = repeated(&dir, &format!("await snippets.save({})", json!({ "name": name, "code": code })));
        assert_eq!(saved["ok"], true, "{saved}");
    };
    save("lines", "async (id) => {\n  const { lines } = await shop.order({ id });\n  return lines.length;\n}");
    save("first", "(lines) => {\n  return lines[0].id;\n}");
    let program = "interface Order { lines: object[] }\n\nconst order: Order = { lines: [] };\nawait snippets.first(order.lines);\n";
    fs::write(dir.join("program.ts"), program).unwrap();
    let slow = r#"{ "slow": { "delay": "20ms", "answers": [{ "returns": 1 }] } }"#;
    fs::write(dir.join("slow.json"), stub_file("shop", slow)).unwrap();
    fs::write(dir.join("text.db"), "no database, ".repeat(20)).unwrap();
    fs::set_permissions(dir.join("text.db"), Permissions::from_mode(0o600)).unwrap();
    let with_state =
        |arguments: &[&str]| repeat(&[&["--tools", "tools.json", "--state", "state.db"], arguments].concat());
    let run = |code: &str| Typed::new(&["run", "-e", code]);
    let commands = [
        with_state(&["program.ts"]),
        with_state(&["-e", "\n  await snippets.lines(404)"]),
        with_state(&["-e", "\n  await snippets.lines(7)"]),
        with_state(&["-e", "\nawait snippets.line(7)", "--quiet"]),
        with_state(&["-e", "console.log('on'); await results.get('r1')"]),
        repeat(&["--tools", "slow.json", "-e", "await shop.slow()", "--usage"]),
        repeat(&["--state", "text.db", "-e", "1"]),
        repeat(&["-e", "for (;;);", "--timeout", "100ms"]),
        Typed::new(&["run", "--state", "state.db", "-e", "1"]),
        run("await store.get('a')"),
        run("1;\nawait snippets.total()"),
        run("await results.get('r1')"),
        run("await tools.search('orders')"),
        run("[typeof store, globalThis.store]"),
        Typed::new(&["run", "--executor", "process", "--json", "-e", "await store.get('a')"]),
    ];
    insta::assert_snapshot!(tokio::task::block_in_place(|| transcript(&dir, &commands)));
}

/// The gateway would show its client an outline of it.
#[test]
fn long_results_are_printed_whole() {
    let output = repeat(&["-e", "Array.from({ length: 20_000 }, (_, at) => at)"]).output(&directory("repeat-long"));
    let printed: Vec<u32> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, (0..20_000).collect::<Vec<_>>());
}

#[test]
fn the_user_of_the_terminal_is_asked_about_tools_only() {
    let dir = place("repeat-approvals");
    let code = "[await store.get('a'), await one.hello(), await one.hello().catch((error) => error.message)]";
    let arguments = ["run", "--gateway", "--config", "servers.json", "--ask", "all", "-e", code];
    let (mut terminal, child) = on_terminal(&dir, &arguments);
    for answer in ["y", "n"] {
        type_at(&mut terminal, "q = no further call: ", answer);
    }
    let result: Json = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(result, json!([null, "hello from one", "one.hello failed: not approved: the user refused the call"]));
}

#[test]
fn ctrl_c_ends_a_program_that_waits_for_a_server() {
    let dir = directory("repeat-interrupt");
    let arguments = ["--server", "slow=sleep 600", "-e", "await slow.hello()"];
    let mut child = repeat(&arguments).start(&dir);
    wait_for_line(&mut child);
    let began = Instant::now();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(8), "the server is not waited for again");
}
