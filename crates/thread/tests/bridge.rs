//! Tests bridges from the guest's side: each grant, access without a grant, and error messages.

use std::time::Duration;

use execbox::code::{CodeExecutionOptions, CodeExecutionResult};
use execbox::{InlineExecutor, Provider, Tool, ToolError};
use execbox_thread::{Bridge, EventQuery, Origin, ThreadError, ThreadLimits, ThreadState, ThreadStore};
use serde_json::{Value, json};

/// A thread with content of every kind, including secrets.
async fn thread() -> ThreadState {
    thread_with(ThreadLimits::default()).await
}

async fn thread_with(limits: ThreadLimits) -> ThreadState {
    let store = ThreadStore::builder()
        .limits(limits)
        .clock(|| std::time::UNIX_EPOCH + Duration::from_secs(1))
        .in_memory()
        .await
        .unwrap();
    let thread = store.thread("t").unwrap();
    for (path, text) in [("/data/a.txt", "A"), ("/data/deep/b.txt", "B"), ("/database.txt", "no"), ("/secret", "no")] {
        thread.write_file(path, text).await.unwrap();
    }
    thread.write_file("/data/raw.bin", [255, 0]).await.unwrap();
    thread.add_message("system", json!("the system's")).await.unwrap();
    thread.add_message("user", json!({"text": "hello"})).await.unwrap();
    thread.add_message("assistant", json!("hi")).await.unwrap();
    thread.set_env("API_URL", "https://api.example").await.unwrap();
    thread.set_env("API_KEY", "s3cret").await.unwrap();
    thread
}

async fn run_raw(thread: &ThreadState, bridge: Bridge, source: &str) -> CodeExecutionResult {
    let options = CodeExecutionOptions::new().import("thread", bridge.exports().unwrap());
    thread.run_code(&InlineExecutor::new().unwrap(), source, options).await
}

/// Runs a program and returns its default export.
async fn run(thread: &ThreadState, bridge: Bridge, source: &str) -> Value {
    let result = run_raw(thread, bridge, source).await;
    assert!(result.error.is_none(), "{:?}", result.error);
    result.to_json().unwrap()["result"].clone()
}

/// Evaluates expressions. Returns the value of each, or its error as a string.
async fn evaluate(thread: &ThreadState, bridge: Bridge, expressions: &[&str]) -> Vec<Value> {
    let list = format!("async () => {}", expressions.join(", async () => "));
    let source = format!(
        "import * as thread from 'thread';
         const results = [];
         for (const attempt of [{list}]) {{
             try {{ results.push((await attempt()) ?? null); }} catch (error) {{ results.push(`${{error.name}}: ${{error.message}}`); }}
         }}
         export default results;"
    );
    serde_json::from_value(run(thread, bridge, &source).await).unwrap()
}

async fn exported(thread: &ThreadState, bridge: Bridge) -> Value {
    run(thread, bridge, "import * as thread from 'thread'; export default Object.keys(thread);").await
}

// ---- Each grant alone -----------------------------------------------------------------------------

#[tokio::test]
async fn only_granted_functions_are_exported() {
    let thread = thread().await;
    let bridge = || thread.bridge();
    assert_eq!(exported(&thread, bridge()).await, json!([]));
    assert_eq!(exported(&thread, bridge().read_file("/")).await, json!(["readFile"]));
    assert_eq!(exported(&thread, bridge().write_file("/")).await, json!(["writeFile"]));
    assert_eq!(exported(&thread, bridge().list_files("/")).await, json!(["listFiles"]));
    assert_eq!(exported(&thread, bridge().get_messages()).await, json!(["getMessages"]));
    assert_eq!(exported(&thread, bridge().emit()).await, json!(["emit"]));
    assert_eq!(exported(&thread, bridge().get_env(["API_URL"])).await, json!(["getEnv"]));
    let nothing: [&str; 0] = [];
    let narrowed_to_nothing = bridge().get_messages_of(nothing).emit_only(nothing).get_env(nothing);
    assert_eq!(exported(&thread, narrowed_to_nothing).await, json!([]));

    let result =
        run_raw(&thread, bridge().read_file("/"), "import { writeFile } from 'thread'; export default 1;").await;
    assert_eq!(result.status.as_str(), "link_error");
    let nothing =
        thread.run_code(&InlineExecutor::new().unwrap(), "import 'thread'", CodeExecutionOptions::new()).await;
    assert_eq!(nothing.status.as_str(), "link_error");
}

#[tokio::test]
async fn files_are_read_as_text_or_bytes() {
    let thread = thread().await;
    let expressions = [
        "thread.readFile('/data/a.txt')",
        "thread.readFile('data//./a.txt', 'utf8')",
        "thread.readFile('/data/a.txt', { encoding: 'utf-8' })",
        "Array.from(await thread.readFile('/data/raw.bin', 'bytes'))",
        "(await thread.readFile('/data/raw.bin', { encoding: 'bytes' })) instanceof Uint8Array",
        "thread.readFile('/data/raw.bin')",
        "thread.readFile('/data/none')",
        "thread.readFile('/data/a.txt', 'latin1')",
        "thread.readFile('/data/a.txt', { flag: 'r' })",
        "thread.readFile('/data/a.txt', 'utf8', 1)",
        "thread.readFile(new URL_())",
        "thread.readFile()",
        "thread.readFile(['/data/a.txt'])",
    ];
    let results = evaluate(&thread, thread.bridge().read_file("/"), &expressions).await;
    assert_eq!(results[..5], [json!("A"), json!("A"), json!("A"), json!([255, 0]), json!(true)]);
    insta::assert_snapshot!(lines(&expressions[5..], &results[5..]));
}

#[tokio::test]
async fn files_are_written_from_text_or_bytes() {
    let thread = thread().await;
    let expressions = [
        "thread.writeFile('/out/text', 'ü')",
        "thread.writeFile('/out/bytes', new Uint8Array([9, 8, 7, 6]).subarray(1, 3))",
        "thread.writeFile('/out/buffer', new Uint16Array([258]).buffer)",
        "thread.writeFile('/out/object', { a: 1 })",
        "thread.writeFile('/out/nothing')",
        "thread.writeFile('/out/', 'x')",
    ];
    let results = evaluate(&thread, thread.bridge().write_file("/out/"), &expressions).await;
    assert_eq!(results[..3], [json!(null), json!(null), json!(null)]);
    insta::assert_snapshot!(lines(&expressions[3..], &results[3..]));
    assert_eq!(thread.read_file("/out/text").await.unwrap(), "ü".as_bytes());
    assert_eq!(thread.read_file("/out/bytes").await.unwrap(), [8, 7]);
    assert_eq!(thread.read_file("/out/buffer").await.unwrap(), [2, 1]);
}

#[tokio::test]
async fn files_are_listed_within_the_grant() {
    let thread = thread().await;
    let expressions = [
        "(await thread.listFiles()).map((file) => file.path)",
        "thread.listFiles('/data/deep')",
        "(await thread.listFiles('/')).map((file) => file.path)",
        "(await thread.listFiles({ after: '/data/a.txt', limit: 1 })).map((file) => file.path)",
        "thread.listFiles('/secret')",
        "thread.listFiles('/data/..')",
        "thread.listFiles({ limit: -1 })",
        "thread.listFiles({ limit: 0.5 })",
        "thread.listFiles({ prefix: '/' })",
        "thread.listFiles(7)",
    ];
    let bridge = thread.bridge().list_files("/data/").list_files("/data/deep/").list_files("/empty/");
    let results = evaluate(&thread, bridge, &expressions).await;
    let all = json!(["/data/a.txt", "/data/deep/b.txt", "/data/raw.bin"]);
    assert_eq!(results[0], all);
    assert_eq!(results[1], json!([{"path": "/data/deep/b.txt", "size": 1, "modifiedAt": 1000}]));
    assert_eq!(results[2], all, "the result is limited to the grant");
    assert_eq!(results[3], json!(["/data/deep/b.txt"]));
    insta::assert_snapshot!(lines(&expressions[4..], &results[4..]));
}

#[tokio::test]
async fn messages_are_filtered_by_role() {
    let thread = thread().await;
    let expressions = [
        "(await thread.getMessages()).map((message) => message.role)",
        "thread.getMessages({ role: 'user' })",
        "(await thread.getMessages({ role: ['user', 'assistant'], after: 2 })).length",
        "(await thread.getMessages({ limit: 1, before: 3 })).map((message) => message.seq)",
        "thread.getMessages({ role: 'system' })",
        "thread.getMessages({ role: ['user', 'system'] })",
        "thread.getMessages({ role: [] })",
        "thread.getMessages({ role: 7 })",
        "thread.getMessages({ limit: '5' })",
        "thread.getMessages({ where: '1=1' })",
        "thread.getMessages('all')",
    ];
    let results = evaluate(&thread, thread.bridge().get_messages_of(["user", "assistant"]), &expressions).await;
    assert_eq!(results[0], json!(["user", "assistant"]));
    assert_eq!(results[1], json!([{"seq": 2, "role": "user", "content": {"text": "hello"}, "createdAt": 1000}]));
    assert_eq!(results[2..4], [json!(1), json!([2])]);
    insta::assert_snapshot!(lines(&expressions[4..], &results[4..]));

    let all = evaluate(&thread, thread.bridge().get_messages_of(["user"]).get_messages(), &expressions[..1]).await;
    assert_eq!(all[0], json!(["system", "user", "assistant"]));
}

#[tokio::test]
async fn events_of_guests_have_the_origin_guest() {
    let thread = thread().await;
    let expressions = [
        "thread.emit('progress', { done: 1, of: [2, undefined].length, origin: 'host' })",
        "thread.emit('progress')",
        "thread.emit('thread.deleted', {})",
        "thread.emit('progress', { at: new Date(0) })",
        "thread.emit('progress', { f() {} })",
        "thread.emit('progress', (() => { const a = {}; a.a = a; return a; })())",
        "thread.emit('progress', 'x'.repeat(300000))",
        "thread.emit('progress', bomb())",
        "thread.emit(1)",
    ];
    let mut results = evaluate(
        &thread,
        thread.bridge().emit_only(["progress"]),
        &expressions.map(|e| e.replace("bomb()", BOMB)).iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
    assert_eq!(results.drain(..2).collect::<Vec<_>>(), [json!(null), json!(null)]);
    insta::assert_snapshot!(lines(&expressions[2..], &results));
    let events = thread.events(EventQuery::default()).await.unwrap();
    let emitted: Vec<_> = events.iter().map(|event| (event.origin, &event.data)).collect();
    let data = json!({"done": 1, "of": 2, "origin": "host"});
    assert_eq!(emitted, [(Origin::Guest, &data), (Origin::Guest, &json!(null))]);
}

/// Thirty arrays that expand to 2^30 elements.
const BOMB: &str = "(() => { let a = []; for (let i = 0; i < 30; i++) a = [a, a]; return a; })()";

#[tokio::test]
async fn environment_values_are_returned_by_name() {
    let thread = thread().await;
    let expressions = [
        "thread.getEnv('API_URL')",
        "thread.getEnv('NOT_SET')",
        "thread.getEnv('API_KEY')",
        "thread.getEnv('api_url')",
        "thread.getEnv('__proto__')",
        "thread.getEnv()",
    ];
    let results = evaluate(&thread, thread.bridge().get_env(["API_URL"]).get_env(["NOT_SET"]), &expressions).await;
    assert_eq!(results[..2], [json!("https://api.example"), json!(null)]);
    insta::assert_snapshot!(lines(&expressions[2..], &results[2..]));
    assert!(!format!("{results:?}").contains("s3cret"));
}

#[tokio::test]
async fn tools_validate_input_and_report_their_errors() {
    let thread = thread().await;
    let double = Tool::new("double-it", async |input: Value, _| Ok(json!(input["n"].as_f64().unwrap() * 2.0)))
        .input_schema(json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}));
    let fail = Tool::new("fail", async |_, _| Err(ToolError::new("out of paper")));
    let crash = Tool::new("crash", async |_, _| panic!("with the host's own words"));
    let provider = Provider::builder("tools").tools([double, fail, crash]).build().unwrap();
    let expressions = [
        "Object.keys(thread.tools)",
        "thread.tools.double_it({ n: 4 })",
        "thread.tools.double_it({ n: 'x' })",
        "thread.tools.double_it()",
        "thread.tools.double_it({ n: 1n })",
        "thread.tools.fail()",
        "thread.tools.crash()",
        "thread.tools.no_such_tool()",
    ];
    let results = evaluate(&thread, thread.bridge().provider(provider.clone()), &expressions).await;
    assert_eq!(results[..2], [json!(["double_it", "fail", "crash"]), json!(8)]);
    insta::assert_snapshot!(lines(&expressions[2..], &results[2..]));

    let twice = thread.bridge().provider(provider.clone()).provider(provider).exports();
    assert!(matches!(twice, Err(ThreadError::DuplicateExport(name)) if name == "tools"));
}

fn lines(expressions: &[&str], results: &[Value]) -> String {
    let lines: Vec<String> =
        expressions.iter().zip(results).map(|(expression, result)| format!("{expression}\n  {result}")).collect();
    lines.join("\n")
}

// ---- Narrowing ------------------------------------------------------------------------------------

#[tokio::test]
async fn paths_cannot_escape_their_scope() {
    let thread = thread().await;
    let paths = [
        "/secret",
        "secret",
        "/database.txt",
        "/data",
        "/data/../secret",
        "/data/./../secret",
        "/data/deep/../../secret",
        "..",
        "/data/a.txt\\u0000/../../secret",
        "/data\\\\..\\\\secret",
        "/DATA/a.txt",
        "/data%2f..%2fsecret",
        "/data/\\u2025/secret",
        "file:///secret",
        "~/secret",
    ];
    let (reads, writes): (Vec<String>, Vec<String>) = paths
        .iter()
        .map(|path| (format!("thread.readFile(\"{path}\")"), format!("thread.writeFile(\"{path}\", 'mine')")))
        .unzip();
    let bridge = thread.bridge().read_file("/data/").write_file("/data/deep/").write_file("/data/x");
    let before = thread.list_files(execbox_thread::FileQuery::default()).await.unwrap();
    let attempts: Vec<&str> = reads.iter().chain(&writes).map(String::as_str).collect();
    for (attempt, result) in attempts.iter().zip(evaluate(&thread, bridge, &attempts).await) {
        let result = result.as_str().unwrap_or_default();
        assert!(result.starts_with("Error: ") || result.starts_with("TypeError: "), "{attempt}: {result}");
    }
    assert_eq!(thread.list_files(execbox_thread::FileQuery::default()).await.unwrap(), before);

    // Errors do not reveal whether a file exists outside the scope.
    let there = evaluate(&thread, thread.bridge().read_file("/data/"), &["thread.readFile('/secret')"]).await;
    let not = evaluate(&thread, thread.bridge().read_file("/data/"), &["thread.readFile('/nothing')"]).await;
    assert_eq!(there[0].as_str().unwrap().replace("secret", ""), not[0].as_str().unwrap().replace("nothing", ""));
}

#[tokio::test]
async fn invalid_grants_are_rejected_by_exports() {
    let thread = thread().await;
    assert!(matches!(thread.bridge().read_file("/data/../x").exports(), Err(ThreadError::Path(_))));
    assert!(matches!(thread.bridge().write_file("").exports(), Err(ThreadError::Path(_))));
    assert!(matches!(thread.bridge().get_env([""]).exports(), Err(ThreadError::Name { .. })));
    assert!(matches!(thread.bridge().emit_only(["a\n"]).exports(), Err(ThreadError::Name { .. })));
}

// ---- Budgets and failures -------------------------------------------------------------------------

#[tokio::test]
async fn each_run_has_its_own_budget_of_calls() {
    let thread = thread().await;
    let bridge = thread.bridge().read_file("/").emit().max_calls(3);
    let expressions = [
        "thread.emit('a')",
        "thread.readFile(1)",
        "thread.emit('a')",
        "thread.emit('a')",
        "thread.readFile('/data/a.txt')",
    ];
    for _ in 0..2 {
        let results = evaluate(&thread, bridge.clone(), &expressions).await;
        assert_eq!(results[2], json!(null));
        assert_eq!(results[3], "RangeError: emit: call limit exceeded: 3 calls per run");
        assert_eq!(results[4], "RangeError: readFile: call limit exceeded: 3 calls per run");
    }
    assert_eq!(thread.events(EventQuery::default()).await.unwrap().len(), 4);
}

#[tokio::test]
async fn calls_beyond_the_concurrency_limit_are_answered() {
    let thread = thread().await;
    let source = "
        import { readFile, emit } from 'thread';
        const numbers = Array.from({ length: 400 }, (_, number) => number);
        const texts = await Promise.all(numbers.map((number) => number % 2 ? emit('n', number) : readFile('/data/a.txt')));
        export default texts.filter((text) => text === 'A').length;";
    assert_eq!(run(&thread, thread.bridge().read_file("/").emit(), source).await, json!(200));
    assert_eq!(thread.events(EventQuery::default().limit(1_000)).await.unwrap().len(), 200);
}

#[tokio::test]
async fn limit_errors_do_not_reveal_the_size_of_the_thread() {
    let limits = ThreadLimits::default().thread_bytes(10_000).file_bytes(5_000);
    let thread = thread_with(limits).await;
    let expressions =
        ["thread.writeFile('/x', 'x'.repeat(5001))", "thread.writeFile('/x', 'x'.repeat(4000))", WRITE_MORE];
    let results = evaluate(&thread, thread.bridge().write_file("/"), &expressions).await;
    assert_eq!(results[0], "RangeError: writeFile: file too large: 5001 bytes; the limit is 5000");
    assert_eq!(results[1], json!(null));
    assert_eq!(results[2], "RangeError: writeFile: thread storage is full");
}

#[tokio::test]
async fn guests_cannot_fill_the_space_reserved_for_the_application() {
    let limits = ThreadLimits::default().thread_bytes(20_000).guest_bytes(10_000);
    let thread = thread_with(limits).await;
    let flood = "import { emit, writeFile } from 'thread';
        let refused = 0;
        for (let i = 0; i < 100; i++) {
            try { await emit('x', 'x'.repeat(500)); } catch { refused++; }
            try { await writeFile('/' + i, 'x'.repeat(500)); } catch { refused++; }
        }
        export default refused > 100;";
    assert_eq!(run(&thread, thread.bridge().emit().write_file("/"), flood).await, json!(true));
    thread.add_message("user", json!("x".repeat(9_000))).await.unwrap();
    assert!(matches!(thread.add_message("user", json!("x".repeat(9_000))).await, Err(ThreadError::Full { .. })));
}

const WRITE_MORE: &str = "thread.writeFile('/y', 'y'.repeat(4900))";

#[tokio::test]
async fn storage_errors_do_not_reveal_the_host() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("threads.db");
    let store = ThreadStore::builder().busy_timeout(Duration::ZERO).open(&path).await.unwrap();
    let thread = store.thread("t").unwrap();
    thread.write_file("/a", "x").await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let bridge = thread.bridge().read_file("/").write_file("/").emit().get_messages();
    let results = evaluate(&thread, bridge.clone(), &["thread.emit('x')", "thread.writeFile('/a', 'y')"]).await;
    assert_eq!(results[0], "Error: emit: thread storage is not available");
    assert_eq!(results[1], "Error: writeFile: thread storage is not available");
    other.execute_batch("COMMIT; UPDATE files SET bytes = -1; DROP TABLE messages").unwrap();
    let results = evaluate(&thread, bridge.clone(), &["thread.getMessages()", "thread.writeFile('/a', 'y')"]).await;
    assert_eq!(results[0], "Error: getMessages: thread storage is not available");
    assert_eq!(results[1], "Error: writeFile: thread storage is not available");
    store.close().await;
    let results = evaluate(&thread, bridge, &["thread.readFile('/a')"]).await;
    assert_eq!(results[0], "Error: readFile: thread storage is not available");
}

#[tokio::test]
async fn pending_tool_calls_are_cancelled_when_a_run_ends() {
    let thread = thread().await;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let forever = Tool::new("forever", move |_, context: execbox::ToolContext| {
        sender.send(context.cancellation).unwrap();
        std::future::pending()
    });
    let provider = Provider::builder("tools").tool(forever).build().unwrap();
    let source = "import { tools } from 'thread'; tools.forever(); export default 1;";
    assert_eq!(run(&thread, thread.bridge().provider(provider), source).await, json!(1));
    receiver.recv().await.unwrap().cancelled().await;
}

// ---- Declarations ---------------------------------------------------------------------------------

#[tokio::test]
async fn declarations_match_the_grants() {
    let thread = thread().await;
    let add = Tool::new("add", async |_, _| Ok(json!(0)))
        .description("Adds.\ndeclare namespace x {")
        .input_schema(json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}));
    let provider = Provider::builder("tools").description("declare namespace tools {").tool(add).build().unwrap();
    let everything = thread
        .bridge()
        .read_file("/data/")
        .read_file("/*/ export const x = 1; /*")
        .write_file("/")
        .list_files("/data/")
        .get_messages()
        .emit_only(["progress", "a \"quoted\" one"])
        .get_env(["API_URL"])
        .provider(provider);
    insta::assert_snapshot!(everything.types("thread"));
    insta::assert_snapshot!(thread.bridge().get_messages_of(["user", "assistant"]).types("my-thread"));
}

// ---- Executors ------------------------------------------------------------------------------------

#[tokio::test]
async fn bridges_work_with_the_worker_executor() {
    let thread = thread().await;
    let executor = execbox::WorkerExecutor::new().unwrap();
    let source = "
        import { readFile, writeFile, getMessages } from 'thread';
        await writeFile('/out', await readFile('/data/raw.bin', 'bytes'));
        export default (await getMessages()).map((message) => message.role);";
    let bridge = thread.bridge().read_file("/data/").write_file("/out").get_messages();
    let options = CodeExecutionOptions::new().import("thread", bridge.exports().unwrap());
    let result = thread.run_code(&executor, source, options).await;
    assert_eq!(result.to_json().unwrap()["result"], json!(["system", "user", "assistant"]), "{:?}", result.error);
    assert_eq!(thread.read_file("/out").await.unwrap(), [255, 0]);
}
