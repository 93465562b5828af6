//! Hostile lists of tools and hostile results.

use std::time::Duration;

use execbox::{ErrorCode, ExecuteRequest, Executor as _, InlineExecutor, Limits, Provider, Tool, ToolError};
use execbox_mcp::server::ServerOptions;
use execbox_mcp::upstream::{ChildCommand, Upstream, UpstreamError, UpstreamOptions, Warning};
use serde_json::{Map, Value as Json, json};

use crate::fakes::{Fake, call, client, text, tool, until};

fn any() -> Json {
    json!({ "type": "object" })
}

#[tokio::test]
async fn colliding_and_reserved_names_can_all_be_called() {
    let names =
        ["a-b", "a.b", "a_b", "__proto__", "then", "constructor", "delete", "toString", "*/", "\u{2028}", "\u{202e}x"];
    let fake = Fake::new(names.iter().map(|name| tool(name, "", any())).collect());
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let provider = upstream.provider();
    assert_eq!(upstream.rejected(), []);
    for name in names {
        let safe = provider.safe_name(name).unwrap();
        assert_eq!(provider.original_name(safe), Some(name));
        let execution = ExecuteRequest::new(format!("await api.{safe}({{}})")).provider(provider.clone());
        let result = InlineExecutor::new().unwrap().execute(execution).await;
        assert_eq!(result.outcome, Ok(Some(json!(format!("called {name}")))));
    }
}

#[tokio::test]
async fn control_characters_and_comment_ends_in_text_are_removed() {
    let dirt = "before */ alert(1) /* \u{2028}\u{202e}\u{200b}\u{1b}[31m after";
    let mut input = any();
    input["properties"] = json!({ dirt: { "type": "string", "description": dirt, "enum": [dirt] } });
    let upstream = Fake::new(vec![tool(dirt, dirt, input)]).open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    let page = call(&client, "mcp_search_tools", json!({ "describe": [], "query": "alert" })).await;
    let code = client.list_all_tools().await.unwrap()[2].description.clone().unwrap().into_owned();
    for shown in [text(&page), &code] {
        assert!(shown.contains("before"), "{shown}");
        assert!(!shown.contains(['\u{2028}', '\u{202e}', '\u{200b}', '\u{1b}']), "{shown:?}");
        assert!(!shown.contains("*/ alert"), "{shown}");
    }
}

/// Programs compute with the text as the server sent it; clients get it escaped.
#[tokio::test]
async fn hidden_characters_in_results_errors_logs_and_progress_are_escaped() {
    const HIDDEN: &str = "a\u{200b}\u{e0041}\u{202e}\u{1b}[2J\u{9b}\u{3164}\u{2800}\u{ad}z";
    const SHOWN: &str = "a\\u200b\\u{e0041}\\u202e\\u001b[2J\\u009b\\u3164\\u2800\\u00adz";
    let texts = Provider::builder("api")
        .tool(Tool::new("get", async |_, _| Ok(json!(HIDDEN))))
        .tool(Tool::new("fail", async |_, _| Err(ToolError::new(HIDDEN))))
        .build()
        .unwrap();
    let (client, listener) = client(move || vec![texts.clone()], ServerOptions::default()).await;
    let run = async |code: &str| call(&client, "mcp_execute_code", json!({ "code": code })).await;

    let result = run("const text = await api.get({}); console.log(text); return text").await;
    assert_eq!(text(&result), format!("{SHOWN}\n\nLogs:\n{SHOWN}"));
    let structured = result.structured_content.unwrap();
    assert_eq!((&structured["result"], &structured["logs"]), (&json!(SHOWN), &json!([SHOWN])));
    until(|| listener.progress.lock().unwrap().iter().any(|line| line == SHOWN)).await;

    let result =
        run("const text = await api.get({}); return { [text]: [text, '❤️\\tمی‌خواهم\\n'], length: text.length }").await;
    let value: Json = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(value[HIDDEN][0], HIDDEN, "the escapes of JSON text mean the same");
    assert_eq!(value["length"], HIDDEN.encode_utf16().count());
    assert!(!text(&result).chars().any(|c| "\u{200b}\u{e0041}\u{202e}\u{9b}".contains(c)));
    assert_eq!(result.structured_content.unwrap()["result"][SHOWN], json!([SHOWN, "❤️\tمی‌خواهم\n"]));

    for code in ["await api.fail({})", "throw new Error((await api.get({})))"] {
        let result = run(code).await;
        assert!(text(&result).contains(SHOWN), "{}", text(&result));
        assert!(result.structured_content.unwrap()["error"]["message"].as_str().unwrap().contains(SHOWN));
    }

    let long = run("return (await api.get({})).repeat(10000)").await;
    let shown = text(&long);
    assert!(shown.starts_with(SHOWN) && shown.chars().count() < 13_000, "{}", shown.chars().count());
    assert!(!shown.contains('\u{200b}'));
}

#[tokio::test]
async fn unreadable_schemas_are_left_to_the_server_and_too_long_ones_are_rejected() {
    let wide: Map<String, Json> = (0..10_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    let endless = json!({
        "type": "object", "$ref": "#/$defs/a",
        "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } }
    });
    let mut deep = any();
    for _ in 0..60 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    let upstream = Fake::new(vec![
        tool("invalid", "", json!({ "type": "objekt" })),
        tool("elsewhere", "", json!({ "type": "object", "$ref": "https://example.com/x.json" })),
        tool("too_long", "", json!({ "type": "object", "description": "x".repeat(300_000) })),
        tool("", "", any()),
        tool("twice", "", any()),
        tool("twice", "", any()),
        tool("wide", "", json!({ "type": "object", "properties": wide })),
        tool("itself", "", json!({ "type": "object", "properties": { "x": { "$ref": "#" } } })),
        tool("endless", "", endless),
        tool("deep", &"x".repeat(100_000), deep),
    ])
    .open("api", UpstreamOptions::default().max_schema_bytes(300_000))
    .await;
    let names: Vec<String> = upstream.provider().manifest().tools.iter().map(|tool| tool.safe_name.clone()).collect();
    assert_eq!(names, ["invalid", "elsewhere", "twice", "wide", "itself", "endless", "deep"]);
    let mut rejected: Vec<String> = upstream.rejected().into_iter().map(|tool| tool.name).collect();
    rejected.sort_unstable();
    assert_eq!(rejected, ["", "too_long", "twice"]);
    assert!(upstream.provider().types().len() < 60_000, "{}", upstream.provider().types().len());
    for name in names {
        let execution = ExecuteRequest::new(format!("await api.{name}({{}})")).provider(upstream.provider());
        assert!(InlineExecutor::new().unwrap().execute(execution).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn thousands_of_tools_are_searched_and_huge_results_are_truncated() {
    let mut tools: Vec<_> = (0..5_000).map(|n| tool(&format!("tool-{n}"), "One of many", any())).collect();
    tools.push(tool("huge", "Gives a megabyte", any()));
    let upstream = Fake::new(tools).open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    let page = call(&client, "mcp_search_tools", json!({ "query": "megabyte" })).await;
    assert_eq!(page.structured_content.unwrap()["tools"][0]["name"], "huge");
    let result = call(&client, "mcp_execute_code", json!({ "code": "await api.huge({})" })).await;
    assert!(text(&result).chars().count() < 24_100 && text(&result).contains("(this is an outline: the result has "));
}

/// `length` definitions, each of which `definition` makes from a reference to the previous one.
fn chain(length: usize, definition: impl Fn(Json) -> Json) -> Json {
    let definitions: Map<String, Json> = (0..length)
        .map(|at| {
            let previous = json!({ "$ref": format!("#/$defs/{}", at.saturating_sub(1)) });
            (at.to_string(), if at == 0 { any() } else { definition(previous) })
        })
        .collect();
    json!({ "type": "object", "$ref": format!("#/$defs/{}", length - 1), "$defs": definitions })
}

#[tokio::test]
async fn parts_of_schemas_that_take_for_ever_are_left_to_the_server() {
    let doubling = |keyword: &str| chain(40, |previous| json!({ keyword: [previous, previous] }));
    let upstream = Fake::new(vec![
        tool("chained", "", chain(3_500, |previous| previous)),
        tool("any_of", "", doubling("anyOf")),
        tool("one_of", "", doubling("oneOf")),
        tool("good", "", any()),
    ])
    .open("api", UpstreamOptions::default())
    .await;
    let names: Vec<String> = upstream.provider().manifest().tools.iter().map(|tool| tool.safe_name.clone()).collect();
    assert_eq!(names, ["chained", "any_of", "one_of", "good"]);
    assert_eq!(upstream.rejected(), []);
    for name in names {
        let execution = ExecuteRequest::new(format!("await api.{name}({{}})")).provider(upstream.provider());
        assert!(InlineExecutor::new().unwrap().execute(execution).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn a_slow_schema_delays_only_its_own_call() {
    // Each level of the input is checked twice for each level above it; the guest chooses the depth.
    let item = json!({ "anyOf": [
        { "allOf": [{ "properties": { "a": { "$ref": "#/$defs/item" } } }, { "required": ["b"] }] },
        { "properties": { "a": { "$ref": "#/$defs/item" } } }
    ] });
    let heavy = json!({ "type": "object", "allOf": [{ "$ref": "#/$defs/item" }], "$defs": { "item": item } });
    let upstream = Fake::new(vec![tool("heavy", "", heavy), tool("good", "", any())]);
    let upstream = upstream.open("api", UpstreamOptions::default()).await;
    let code = "let a = {}; for (let i = 0; i < 60; i++) a = { a };
        const heavy = api.heavy(a).catch(error => error.message);
        const good = await api.good({});
        [good, await heavy]";
    let limits = Limits::default().timeout(Duration::from_mins(10));
    let execution = ExecuteRequest::new(code).provider(upstream.provider()).limits(limits);
    let result = InlineExecutor::new().unwrap().execute(execution).await.outcome.unwrap().unwrap();
    assert_eq!(result[0], "called good");
    assert!(result[1].as_str().unwrap().contains("takes more than 50000000 steps"), "{result}");
}

#[tokio::test]
async fn tools_beyond_the_memory_of_a_catalog_are_left_out() {
    let wide: Map<String, Json> = (0..2_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    let wide = json!({ "type": "object", "properties": wide });
    let tools = (0..40).map(|n| tool(&format!("wide{n}"), "", wide.clone())).chain([tool("good", "", any())]);
    let options = UpstreamOptions::default().max_catalog_bytes(8 << 20);
    let upstream = Fake::new(tools.collect()).open("api", options).await;
    let imported = upstream.imported();
    let names: Vec<&str> = imported.provider.manifest().tools.iter().map(|tool| tool.safe_name.as_str()).collect();
    assert!(names.len() < 20 && names.ends_with(&["good"]), "small tools still fit: {names:?}");
    let excess = 41 - names.len();
    assert_eq!(imported.warnings, [Warning::NotImported { tools: excess, limit: 8 << 20 }]);
    assert_eq!(
        imported.warnings[0].to_string(),
        format!(
            "{excess} tools not imported: the tools of a server may take 8 MiB of memory; hide tools with a filter"
        )
    );
}

#[tokio::test]
async fn patterns_with_look_around_are_left_to_the_server() {
    let email =
        json!({ "type": "object", "properties": { "to": { "type": "string", "pattern": "^(?!\\.)[a-z.]+@[a-z]+$" } } });
    let upstream = Fake::new(vec![tool("send", "", email)]).open("api", UpstreamOptions::default()).await;
    let [Warning::Unread { tool, place, .. }] = &upstream.imported().warnings[..] else { panic!() };
    assert_eq!((tool.as_str(), place.as_str()), ("send", "inputSchema/properties/to/pattern"));
    let execution = ExecuteRequest::new("await api.send({ to: '.' })").provider(upstream.provider());
    assert!(InlineExecutor::new().unwrap().execute(execution).await.is_ok());
}

/// The server `hostile-server.sh` in one of its modes.
async fn misbehaving(mode: &str, options: UpstreamOptions) -> Result<Upstream, UpstreamError> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile-server.sh");
    Upstream::open_child("api", ChildCommand::new("sh").args([script, mode]), options).await
}

/// Calls the tool. Returns its text, or the message of its error.
async fn said(upstream: &Upstream) -> String {
    let limits = Limits::default().timeout(Duration::from_mins(10));
    let code = "await api.call({}).catch(error => error.message)";
    let execution = ExecuteRequest::new(code).provider(upstream.provider()).limits(limits);
    let result = InlineExecutor::new().unwrap().execute(execution).await;
    result.outcome.unwrap().unwrap().as_str().unwrap().to_owned()
}

#[tokio::test]
async fn unasked_messages_are_ignored() {
    for mode in ["unasked", "pings", "changes", "notifications"] {
        let options = UpstreamOptions::default().connect_timeout(Duration::from_hours(1));
        let upstream = misbehaving(mode, options).await.unwrap();
        assert_eq!(said(&upstream).await, "called", "{mode}");
        upstream.close().await;
    }
}

#[tokio::test]
async fn lists_without_an_end_and_lists_nested_too_deeply_end() {
    let error = misbehaving("deep", UpstreamOptions::default()).await.unwrap_err().to_string();
    assert!(error.contains("failed to list its tools: invalid response"), "{error}");
    let upstream = misbehaving("pages", UpstreamOptions::default().max_pages(5)).await.unwrap();
    assert!(upstream.rejected().iter().any(|tool| tool.reason == "the server repeats a cursor"));
    assert_eq!(said(&upstream).await, "called");
}

#[tokio::test]
async fn a_schema_nested_deeper_than_json_is_read_costs_that_part_only() {
    let upstream = misbehaving("nested", UpstreamOptions::default()).await.unwrap();
    let [Warning::Unread { tool, place, .. }] = &upstream.imported().warnings[..] else { panic!() };
    assert_eq!(tool, "call");
    assert!(place.starts_with("inputSchema") && place.ends_with("/items/items/items"), "{place}");
    let run = async |code| {
        let execution = ExecuteRequest::new(code).provider(upstream.provider());
        InlineExecutor::new().unwrap().execute(execution).await
    };
    assert_eq!(run("await api.call({ a: [[1]] })").await.outcome, Ok(Some(json!("called"))));
    assert_eq!(run("await api.call({ b: 1 })").await.error().unwrap().code, ErrorCode::ValidationError);
}

#[tokio::test]
async fn a_result_of_very_many_values_fails_its_call_only() {
    let upstream = misbehaving("zeros", UpstreamOptions::default()).await.unwrap();
    let expected = "api.call failed: response with so many values that it takes more than 80 MiB";
    assert_eq!(said(&upstream).await, expected);
    assert_eq!(said(&upstream).await, expected, "the connection remains");
}
