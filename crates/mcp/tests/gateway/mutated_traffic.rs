//! Recorded traffic of published servers, with one part changed: nothing hangs, and what is wrong concerns that part only.
//!
//! Each file of `tests/recorded` has the answers of one server (`server-everything`, `server-filesystem`, `server-memory`,
//! `mcp-server-git`, `mcp-server-time`), one on a line, with the method that it answers. Texts are replaced by others of the same
//! length; names, types and schemas are as recorded.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
use execbox_mcp::upstream::{Upstream, UpstreamError, UpstreamOptions};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::runtime::Runtime;

/// The answers of one server: a message without an id for each method. Calls are answered in turn.
type Recording = HashMap<String, Vec<Json>>;

static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| recording(&fs::read_to_string(path).unwrap())).collect()
});

fn recording(lines: &str) -> Recording {
    let mut recording = Recording::new();
    for line in lines.lines() {
        let mut message: Json = serde_json::from_str(line).unwrap();
        let method = message.as_object_mut().unwrap().remove("answers").unwrap();
        recording.entry(method.as_str().unwrap().to_owned()).or_default().push(message);
    }
    recording
}

/// A change of one value of a message.
#[derive(Debug, Clone)]
enum Change {
    Replace(Json),
    Remove,
    Repeat,
}

fn change() -> impl Strategy<Value = Change> {
    let odd = vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("\u{0}\u{202e}`${}"),
        json!([]),
        json!([null]),
        json!({}),
        json!({ "type": "x", "$ref": "#/x" }),
        json!({ "a": { "a": { "a": [] } } }),
    ];
    prop_oneof![8 => select(odd).prop_map(Change::Replace), 2 => Just(Change::Remove), 1 => Just(Change::Repeat)]
}

/// Changes the value at a place that `index` selects, below `root`. Returns the path to it.
fn changed(root: &mut Json, index: Index, change: Change) -> Vec<String> {
    let mut paths = Vec::new();
    let mut waiting = vec![(Vec::new(), &*root)];
    while let Some((path, value)) = waiting.pop() {
        let below = |name: String| path.iter().cloned().chain([name]).collect::<Vec<_>>();
        match value {
            Json::Array(items) => {
                waiting.extend(items.iter().enumerate().map(|(at, item)| (below(at.to_string()), item)));
            }
            Json::Object(members) => waiting.extend(members.iter().map(|(name, member)| (below(name.clone()), member))),
            _ => {}
        }
        paths.push(path);
    }
    let path = paths.swap_remove(index.index(paths.len()));
    let Some((last, above)) = path.split_last() else {
        if let Change::Replace(value) = change {
            *root = value;
        }
        return path;
    };
    let parent = above.iter().fold(root, |value, name| match value {
        Json::Array(items) => &mut items[name.parse::<usize>().unwrap()],
        value => &mut value[name],
    });
    match (parent, change) {
        (Json::Array(items), Change::Replace(value)) => items[last.parse::<usize>().unwrap()] = value,
        (Json::Array(items), Change::Remove) => drop(items.remove(last.parse().unwrap())),
        (Json::Array(items), Change::Repeat) => items.push(items[last.parse::<usize>().unwrap()].clone()),
        (Json::Object(members), Change::Replace(value)) => drop(members.insert(last.clone(), value)),
        (Json::Object(members), Change::Remove) => drop(members.remove(last)),
        (Json::Object(members), Change::Repeat) => drop(members.insert(format!("{last}2"), members[last].clone())),
        _ => unreachable!("the parent of a value is a list or an object"),
    }
    path
}

async fn open(recording: Recording) -> Result<Upstream, UpstreamError> {
    let recording = Arc::new(recording);
    let connect = move || {
        let (near, far) = tokio::io::duplex(1 << 20);
        let recording = Arc::clone(&recording);
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(far);
            let (mut lines, mut counts) = (BufReader::new(reader).lines(), HashMap::<String, usize>::new());
            while let Ok(Some(line)) = lines.next_line().await {
                let request: Json = serde_json::from_str(&line).unwrap();
                let (Some(id), Some(method)) = (request.get("id"), request["method"].as_str()) else { continue };
                let count = counts.entry(method.to_owned()).or_default();
                let missing = json!({ "error": { "code": -32601, "message": "Method not found" } });
                let answers = recording.get(method);
                let mut answer = answers.map_or(missing, |answers| answers[*count % answers.len()].clone());
                *count += 1;
                if let Some(answer) = answer.as_object_mut() {
                    answer.extend(Map::from_iter([("jsonrpc".into(), json!("2.0")), ("id".into(), id.clone())]));
                }
                let _ = writer.write_all(format!("{answer}\n").as_bytes()).await;
            }
        });
        near
    };
    // Where nothing is answered, the test ends by these, and then fails.
    let wait = Duration::from_mins(2);
    let options = UpstreamOptions::default().connect_timeout(wait).call_timeout(wait);
    Upstream::open_stream("s", connect, options).await
}

fn names(upstream: &Upstream) -> Vec<String> {
    upstream.provider().manifest().tools.iter().map(|tool| tool.original_name.clone()).collect()
}

fn assert_answered(reason: &str) {
    assert!(!reason.contains("no response within"), "{reason}");
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    thread_local!(static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    RUNTIME.with(|runtime| runtime.block_on(work))
}

fn config() -> ProptestConfig {
    let config = ProptestConfig::with_cases(CASES);
    ProptestConfig { failure_persistence: None, max_shrink_iters: 100, ..config }
}

const CASES: u32 = 150;

proptest! {
    #![proptest_config(config())]

    /// Whatever describes a server: it is used unless there is no handshake at all.
    #[test]
    fn a_changed_handshake_loses_no_server(server: Index, place: Index, change in change()) {
        let mut recording = RECORDINGS[server.index(RECORDINGS.len())].clone();
        let path = changed(&mut recording.get_mut("initialize").unwrap()[0]["result"], place, change);
        block_on(async {
            match open(recording).await {
                Ok(upstream) => upstream.close().await,
                Err(error) => {
                    assert_answered(&error.to_string());
                    prop_assert_eq!(path, Vec::<String>::new(), "{}", error);
                }
            }
            Ok(())
        })?;
    }

    /// A change within the entry of one tool loses at most that tool, and one beside the list loses none.
    #[test]
    fn a_changed_entry_loses_no_other_tool(server: Index, place: Index, change in change()) {
        let mut recording = RECORDINGS[server.index(RECORDINGS.len())].clone();
        let list = &mut recording.get_mut("tools/list").unwrap()[0]["result"];
        let all: Vec<Json> = list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        let path = changed(list, place, change);
        block_on(async {
            let is_whole = path.len() < 2 && path.first().is_none_or(|name| name == "tools");
            match open(recording).await {
                Ok(upstream) => {
                    let entry = path.get(1).and_then(|at| at.parse::<usize>().ok());
                    let known = names(&upstream);
                    for (at, name) in all.iter().enumerate() {
                        let is_kept = known.iter().any(|known| known == name);
                        prop_assert!(is_whole || is_kept || entry == Some(at), "{name} is lost by a change at {path:?}");
                    }
                    upstream.close().await;
                }
                Err(error) => {
                    assert_answered(&error.to_string());
                    prop_assert!(is_whole, "{} at {:?}", error, path);
                }
            }
            Ok(())
        })?;
    }

    /// A changed result is data or a failure with a text, and the connection remains.
    #[test]
    fn a_changed_result_is_an_answer(server: Index, call: Index, place: Index, change in change()) {
        let mut recording = RECORDINGS[server.index(RECORDINGS.len())].clone();
        let calls = recording.get_mut("tools/call").unwrap();
        let mut call = calls.swap_remove(call.index(calls.len()));
        let path = changed(&mut call, place, change);
        prop_assume!(!path.is_empty()); // Not even an answer.
        *calls = vec![call, json!({ "result": { "content": [{ "type": "text", "text": "fine" }] } })];
        // The tools are called without arguments, which their schemas do not admit.
        let tool = json!({ "name": "call", "inputSchema": { "type": "object" } });
        recording.insert("tools/list".into(), vec![json!({ "result": { "tools": [tool] } })]);
        block_on(async {
            let upstream = open(recording).await.unwrap();
            let code = "const said = await s.call({}).catch(error => error.message); [said === undefined, String(said), await s.call({})]";
            let execution = ExecuteRequest::new(code).provider(upstream.provider());
            let outcome = InlineExecutor::new().unwrap().execute(execution).await.outcome;
            let said = outcome.unwrap_or_else(|error| panic!("{path:?}: {error}")).unwrap();
            assert_answered(said[1].as_str().unwrap());
            prop_assert_eq!((&said[0], &said[2]), (&json!(false), &json!("fine")), "{:?}", path);
            upstream.close().await;
            Ok(())
        })?;
    }
}
