//! Data that programs store in a file: `execbox mcp --state` and `execbox snippets`, with the real binary.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::support::session::Session;
use crate::support::transcript::{Typed, directory, stub_file, transcript};
use crate::support::{Signal, send};
use execbox_thread::{ThreadLimits, ThreadStore};
use serde_json::{Value as Json, json};

/// A directory with a stub tool.
fn place(name: &str) -> std::path::PathBuf {
    let dir = directory(name);
    fs::write(dir.join("tools.json"), stub_file("shop", "{ \"open\": { \"answers\": [{ \"returns\": 7 }] } }"))
        .unwrap();
    dir
}

async fn gateway(dir: &Path, arguments: &[&str]) -> Session {
    Session::start(dir, &[&["--tools", "tools.json", "--timeout", "5m"], arguments].concat()).await
}

async fn kept(dir: &Path) -> Session {
    gateway(dir, &["--state", "state.db"]).await
}

async fn result(session: &Session, code: &str) -> Json {
    let mut result = session.run(code).await;
    assert_eq!(result["ok"], true, "{code}: {result}");
    result["result"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn snippets_are_listed_shown_and_deleted() {
    let dir = place("state-snippets");
    let session = kept(&dir).await;
    let save = "await snippets.save({ name: 'openOrders', code: 'async (input) => {\\n  return await shop.open();\\n}',
            description: 'Orders that are open.\\nInput: none' });
        await snippets.save({ name: 'f', code: '\\x1b[31m1', description: '\\x1b[31mred' }).catch((error) => console.log(error.message));
        await snippets.save({ name: 'red', code: '\"\\x1b[31m\"', description: '\\x1b[31mred' });
        await store.set({ key: 'openOrders', value: 1 })";
    result(&session, save).await;
    assert_eq!(result(&session, "await snippets.openOrders()").await, 7);
    let snippets = |words: &[&str]| Typed::new(&[&["snippets"], words, &["--state", "state.db"]].concat());
    let commands = [
        Typed::new(&["snippets", "--help"]),
        snippets(&[]),
        snippets(&["list"]),
        snippets(&["--json"]),
        snippets(&["show", "openOrders"]),
        snippets(&["show", "openOrders", "--json"]),
        snippets(&["show", "red"]),
        snippets(&["show", "other"]),
        snippets(&["show", "opnOrders"]),
        snippets(&["delete", "openOrders"]),
        snippets(&["delete", "openOrders"]),
        snippets(&["delete", "red"]),
        snippets(&[]),
        snippets(&["--json"]),
        Typed::new(&["snippets"]),
        Typed::new(&["snippets", "--state", "missing.db"]),
        Typed::new(&["snippets", "rename", "a", "--state", "state.db"]),
    ];
    let shown = tokio::task::block_in_place(|| transcript(&dir, &commands));
    insta::assert_snapshot!(shown);
    assert!(!dir.join("missing.db").exists());
    // The running gateway no longer has the snippet; stored values do not change.
    let gone = session.run("await snippets.openOrders()").await["error"]["message"].to_string();
    assert!(gone.contains("snippets.openOrders is not a function"), "{gone}");
    assert_eq!(result(&session, "await store.get('openOrders')").await, 1);
    assert_eq!(session.end().await.1, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_are_rejected_with_a_reason() {
    let dir = place("state-rejected");
    let session = kept(&dir).await;
    result(&session, "await store.set({ key: 'a', value: 1 })").await;
    assert_eq!(session.end().await.1, Some(0));
    let good = fs::read(dir.join("state.db")).unwrap();
    assert_eq!(fs::metadata(dir.join("state.db")).unwrap().permissions().mode() & 0o777, 0o600);
    let write = |name: &str, bytes: &[u8], mode| {
        fs::write(dir.join(name), bytes).unwrap();
        fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
    };
    // The header of the file contains the application and the version.
    let with = |offset: usize, bytes: [u8; 4]| {
        let mut all = good.clone();
        all[offset..offset + 4].copy_from_slice(&bytes);
        all
    };
    write("text.db", b"{ \"mcpServers\": {} }, which is no database, however long it is", 0o600);
    write("other.db", &with(68, [1, 2, 3, 4]), 0o600);
    write("newer.db", &with(60, [0, 0, 1, 0]), 0o600);
    write("cut.db", &good[..good.len() / 2], 0o600);
    write("open.db", &good, 0o644);
    fs::create_dir(dir.join("directory.db")).unwrap();
    let names = ["text.db", "other.db", "newer.db", "cut.db", "open.db", "directory.db", "none/state.db"];
    let mcp = |name: &&str| Typed::new(&["mcp", "--tools", "tools.json", "--state", name]);
    let mut commands: Vec<Typed> = names.iter().map(mcp).collect();
    commands.push(Typed::new(&["snippets", "--state", "text.db"]));
    let shown = tokio::task::block_in_place(|| transcript(&dir, &commands));
    insta::assert_snapshot!(shown);
}

/// SQLite applies the journals beside a file, even if another user wrote them: their pages replace those of the file.
#[tokio::test]
async fn files_beside_those_of_others_and_in_directories_of_others_are_rejected() {
    let dir = place("state-ownership");
    let private = |name: &str, mode| {
        let path = dir.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    private("own", 0o700);
    let session = gateway(&dir, &["--state", "own/state.db"]).await;
    result(&session, "await snippets.save({ name: 'total', code: '1' })").await;
    assert_eq!(session.end().await.1, Some(0));
    let rejected = |path: &str| {
        let output = Typed::new(&["mcp", "--tools", "tools.json", "--state", path]).output(&dir);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{path}: {error}");
        error
    };
    // The files that another user would create there have pages in a format that the gateway would apply.
    for suffix in ["-wal", "-shm", "-journal"] {
        let (name, path) = (format!("own/state.db{suffix}"), dir.join(format!("own/state.db{suffix}")));
        for mode in [0o644, 0o606, 0o660] {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = rejected("own/state.db");
            assert!(
                error.contains(&format!("{name} can be read or changed by other users; run `chmod 600 {name}`")),
                "{error}"
            );
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        if std::os::unix::fs::chown(&path, Some(65534), Some(65534)).is_ok() {
            let error = rejected("own/state.db");
            assert!(error.contains(&format!("{name} belongs to another user")), "{error}");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("state.db", &path).unwrap();
        assert!(rejected("own/state.db").contains("is not a regular file"));
        fs::remove_file(&path).unwrap();
    }
    // A directory that all users can write to, such as `/tmp`, for new files and for files that exist.
    private("shared", 0o1777);
    fs::copy(dir.join("own/state.db"), dir.join("shared/state.db")).unwrap();
    for name in ["shared/state.db", "shared/new.db"] {
        let error = rejected(name);
        assert!(error.contains("shared; choose a path in a directory of your own"), "{error}");
    }
    assert!(!dir.join("shared/new.db").exists());
    private("shared/own", 0o700);
    private("group", 0o770);
    private("group/own", 0o700);
    std::os::unix::fs::symlink("../group/own", dir.join("own/link")).unwrap();
    for name in ["group/state.db", "group/own/state.db", "own/link/state.db"] {
        let error = rejected(name);
        assert!(error.contains("group; run `chmod go-w /"), "{error}");
    }
    fs::copy(dir.join("own/state.db"), dir.join("shared/own/state.db")).unwrap();
    let session = gateway(&dir, &["--state", "shared/own/state.db"]).await;
    assert_eq!(result(&session, "await snippets.total()").await, 1);
}

/// Other users must not be able to change the record, nor to have it written to a file of theirs.
#[test]
fn audit_logs_that_others_can_change_are_rejected() {
    let dir = place("state-audit");
    fs::create_dir(dir.join("shared")).unwrap();
    fs::set_permissions(dir.join("shared"), Permissions::from_mode(0o1777)).unwrap();
    fs::write(dir.join("open.log"), "").unwrap();
    fs::set_permissions(dir.join("open.log"), Permissions::from_mode(0o646)).unwrap();
    std::os::unix::fs::symlink("shared/audit.log", dir.join("link.log")).unwrap();
    for (name, reason) in [
        ("open.log", "open.log can be changed by other users; run `chmod go-w open.log`"),
        ("shared/audit.log", "shared; choose a path in a directory of your own"),
        ("link.log", "shared; choose a path in a directory of your own"),
    ] {
        let output = Typed::new(&["mcp", "--tools", "tools.json", "--audit-log", name]).output(&dir);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(reason), "{name}: {error}");
    }
    assert!(!dir.join("shared/audit.log").exists());
    fs::write(dir.join("read.log"), "").unwrap();
    fs::set_permissions(dir.join("read.log"), Permissions::from_mode(0o644)).unwrap();
    let output = Typed::new(&["mcp", "--tools", "tools.json", "--audit-log", "read.log"]).output(&dir);
    assert_eq!(output.status.code(), Some(0), "others may read it");
}

/// The program that saves a snippet uses the only place for programs while the engine compiles the snippet.
#[tokio::test]
async fn snippets_are_compiled_while_all_places_are_taken() {
    let dir = place("state-compiled");
    let session = gateway(&dir, &["--max-programs", "1"]).await;
    let code = "await snippets.save({ name: 'good', code: '7' });
        try { await snippets.save({ name: 'i', code: 'return 1 +\\n super.x' }) } catch (error) { return error.message }";
    let refused = result(&session, code).await;
    let refused = refused.as_str().unwrap();
    assert!(refused.contains("the code of \"i\" is invalid: ") && refused.contains("(line 2, column "), "{refused}");
    assert_eq!(result(&session, "await snippets.good()").await, 7);
}

#[tokio::test]
async fn state_is_that_of_all_gateways_with_the_file() {
    let dir = place("state-shared");
    let (one, two) = (kept(&dir).await, kept(&dir).await);
    let code = |name: &str| {
        format!("for (let i = 0; i < 50; i++) await store.set({{ key: `{name}${{i}}`, value: i }}); return 'done'")
    };
    let (one_code, two_code) = (code("one/"), code("two/"));
    let (first, second) = tokio::join!(result(&one, &one_code), result(&two, &two_code));
    assert_eq!((first, second), (json!("done"), json!("done")));
    result(&one, "await snippets.save({ name: 'twice', code: '2 * input', description: 'Doubles' })").await;
    assert_eq!(result(&two, "[await snippets.twice(21), (await store.list('o')).total]").await, json!([42, 50]));
    result(&two, "await snippets.save({ name: 'twice', code: '20 * input', replace: true })").await;
    assert_eq!(result(&one, "await snippets.twice(21)").await, 420);
    for session in [one, two] {
        assert_eq!(session.end().await.1, Some(0));
    }
    let later = kept(&dir).await;
    assert_eq!(
        result(&later, "[await snippets.twice(1), (await store.list()).total, (await store.list('one/4')).total]")
            .await,
        json!([20, 100, 11])
    );
    let plain = gateway(&dir, &[]).await;
    assert_eq!(result(&plain, "[(await store.list()).total, typeof snippets.twice]").await, json!([0, "undefined"]));
}

#[tokio::test]
async fn updates_of_several_gateways_with_the_file_are_all_kept() {
    let dir = place("state-updates");
    let (one, two) = (kept(&dir).await, kept(&dir).await);
    let code = "await Promise.all(Array.from({ length: 25 }, () =>
            store.update({ key: 'count', update: (count) => (count ?? 0) + 1 })));
        for (let i = 0; i < 25; i++) await store.update({ key: 'list', update: (list) => [...(list ?? []), i] });
        return 'done'";
    let done = tokio::join!(
        result(&one, code),
        result(&two, code),
        result(&one, code),
        result(&two, code),
        result(&two, code)
    );
    assert_eq!(done.0, "done");
    for session in [&one, &two] {
        assert_eq!(
            result(session, "[await store.get('count'), (await store.get('list')).length]").await,
            json!([125, 125])
        );
    }
    let code = "const { revision } = await store.entry('count'); await store.delete('count');
        return [await store.replace({ key: 'count', value: 1, revision }), await store.get('count'),
            await store.replace({ key: 'count', value: 1, revision: 'none' }),
            await store.replace({ key: 'count', value: 2, revision: 'none' }), await store.get('count')]";
    assert_eq!(result(&one, code).await, json!([false, null, true, false, 1]));
}

#[tokio::test]
async fn what_is_stored_survives_a_kill() {
    let dir = place("state-killed");
    let (mut one, two) = (kept(&dir).await, kept(&dir).await);
    let id = one.process.id().unwrap();
    let writing = tokio::spawn(async move {
        one.client
            .call_tool(
                execbox_mcp::rmcp::model::CallToolRequestParams::new("mcp_execute_code").with_arguments(
                    json!({ "code": "for (let i = 0; ; i++) await store.set({ key: String(i).padStart(9, '0'), value: [i, 'x'.repeat(100)] })" })
                        .as_object()
                        .unwrap()
                        .clone(),
                ),
            )
            .await
            .ok();
        one.process.wait().await.unwrap()
    });
    let total = || async { result(&two, "(await store.list()).total").await.as_u64().unwrap() };
    while total().await < 100 {}
    let before = total().await;
    send(Signal::SIGKILL, id);
    writing.await.unwrap();
    assert_eq!(two.end().await.1, Some(0));
    let later = kept(&dir).await;
    let code = "let n = 0; for (; ; n++) { const value = await store.get(String(n).padStart(9, '0')); if (value === null) break;
            if (value[0] !== n || value[1].length !== 100) throw new Error(`entry ${n}`) }
        return [n, (await store.list()).total]";
    let kept = result(&later, code).await;
    assert!(kept[0] == kept[1] && kept[0].as_u64().unwrap() >= before, "{before}: {kept}");
}

#[tokio::test]
async fn a_full_file_says_so() {
    let dir = place("state-full");
    let session = kept(&dir).await;
    let code = "let n = 0; try { for (; ; n++) await store.set({ key: `${n}`, value: 'x'.repeat(1e6) }) } catch (e) { return [n, e.message] }";
    let full = result(&session, code).await;
    assert_eq!(full[0], 16);
    assert!(full[1].as_str().unwrap().starts_with("store.set failed: the store is full: 16004"), "{full}");
    assert!(fs::metadata(dir.join("state.db")).unwrap().len() < 40 << 20);
    result(&session, "await store.delete('3'); await store.set({ key: 'a', value: 'x'.repeat(1e6) })").await;
}

/// Entries of such a file may have any content, and be longer than execbox would write.
#[tokio::test]
async fn files_that_somebody_else_wrote_are_read_within_the_limits() {
    let dir = place("state-hostile");
    let limits = ThreadLimits::default().thread_bytes(1 << 30).file_bytes(1 << 30);
    let store = ThreadStore::builder().limits(limits).open(dir.join("state.db")).await.unwrap();
    let (values, snippets) =
        (store.thread("execbox mcp: store").unwrap(), store.thread("execbox mcp: snippets").unwrap());
    let hex = |name: &str| name.bytes().fold(String::new(), |path, byte| format!("{path}{byte:02x}"));
    for (key, text) in [
        ("long", format!("\"{}\"", "x".repeat(40 << 20))),
        ("wide", format!("[{}0]", "0,".repeat(4_000_000))),
        ("deep", "[".repeat(1_000_000)),
        ("good", "[1]".to_owned()),
    ] {
        values.write_file(&hex(key), text).await.unwrap();
    }
    values.write_file("/no/key", "1").await.unwrap();
    let code = |code: &str| json!({ "code": code }).to_string();
    for (name, text) in [
        ("long", code(&"x".repeat(1 << 20))),
        ("syntax", code("const =")),
        ("text", "no JSON".to_owned()),
        ("constructor", code("1")),
        ("good", code("input + 1")),
    ] {
        snippets.write_file(&hex(name), text).await.unwrap();
    }
    store.close().await;
    let session = kept(&dir).await;
    for (key, why) in
        [("long", "its file has a row that is too long"), ("wide", "cannot be read"), ("deep", "cannot be read")]
    {
        let failed = session.run(&format!("await store.get('{key}')")).await["error"]["message"].to_string();
        assert!(failed.contains(why), "{key}: {failed}");
    }
    assert_eq!(
        result(&session, "[await store.get('good'), await snippets.good(1), (await store.list()).total]").await,
        json!([[1], 2, 4])
    );
    assert_eq!(
        result(&session, "[typeof snippets.constructor, typeof snippets.long, typeof snippets.text]").await,
        json!(["function", "undefined", "undefined"])
    );
    let failed = session.run("await snippets.syntax()").await["error"]["message"].to_string();
    assert!(failed.contains("snippets.syntax cannot be compiled: expected a name"), "{failed}");
    assert_eq!(result(&session, "await snippets.delete('syntax')").await, true);
}

/// Real servers declare no output: the types of their results are known to the next gateway.
#[tokio::test(flavor = "multi_thread")]
async fn types_of_results_are_kept_for_later_gateways_on_request() {
    let dir = directory("state-result-types");
    fs::write(dir.join("fake.sh"), include_str!("../../../../mcp/tests/fake-server.sh")).unwrap();
    let start = async |options: &[&str]| {
        let arguments = [&["--server", "it=sh fake.sh it", "--state", "state.db"], options].concat();
        Session::start(&dir, &arguments).await
    };
    let signature = async |session: &Session| {
        let found = session.call("mcp_search_tools", json!({ "query": "hello" })).await.structured_content.unwrap();
        found["tools"][0]["signature"].as_str().unwrap().to_owned()
    };
    for (options, kept) in [(&["--result-types", "state"][..], "Promise<string>"), (&[], "Promise<unknown>")] {
        let session = start(options).await;
        assert_eq!(session.run("await it.hello()").await["result"], "hello from it");
        assert!(signature(&session).await.ends_with("Promise<string>"));
        session.end().await;
        let later = start(options).await;
        while !signature(&later).await.ends_with(kept) {
            tokio::time::sleep(Duration::from_millis(5)).await; // The file is read while servers start.
        }
        later.end().await;
    }
    let output = Typed::new(&["mcp", "--tools", "t.json", "--result-types", "state"]).output(&dir);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "error: --result-types state: there is no file; add `--state FILE`\n");
    assert_eq!(output.status.code(), Some(2));
}
