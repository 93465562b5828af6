//! The MCP server over providers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{Limits, Provider, Tool};
use execbox_mcp::server::{Layout, ServerOptions};
use execbox_mcp::upstream::UpstreamOptions;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value as Json, json};

use crate::fake::{Fake, begin, call, client, text, until};

#[tokio::test]
async fn code_calls_tools_of_two_servers() {
    let (one, two) = (Fake::standard(), Fake::standard());
    let one = one.open("one", UpstreamOptions::default()).await;
    let two = two.open("two", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![one.provider(), two.provider()], ServerOptions::default()).await;
    let found = call(&client, "mcp_search_tools", json!({ "query": "gives back", "namespace": "two" })).await;
    let tool = &found.structured_content.as_ref().unwrap()["tools"][0];
    assert_eq!((&tool["namespace"], &tool["name"]), (&json!("two"), &json!("echo")));
    assert!(tool["signature"].as_str().unwrap().contains("function echo(input?: { text?: unknown }): Promise<"));
    let code = "const [a, b] = await Promise.all([one.echo({ n: 1 }), two.echo({ n: 2 })]);
        console.log('both'); return a.structuredContent.n + b.structuredContent.n";
    for name in ["mcp_execute_code", "mcp_code"] {
        let result = call(&client, name, json!({ "code": code })).await;
        assert_eq!(result.is_error, Some(false));
        assert_eq!(text(&result), "3\n\nLogs:\nboth");
        let content = result.structured_content.unwrap();
        assert_eq!((&content["ok"], &content["result"]), (&json!(true), &json!(3)));
    }
}

#[tokio::test]
async fn failures_are_errors_that_models_can_read() {
    let (client, _) = client(Vec::new, ServerOptions::default()).await;
    let result = call(&client, "mcp_execute_code", json!({ "code": "throw new TypeError('no')" })).await;
    assert_eq!(result.is_error, Some(true));
    assert!(text(&result).starts_with("runtime_error: TypeError: no"), "{}", text(&result));
    let content = result.structured_content.unwrap();
    let error = &content["error"];
    assert_eq!(
        (&error["code"], &error["name"], &error["message"]),
        (&json!("runtime_error"), &json!("TypeError"), &json!("no"))
    );
    assert_eq!(
        (&error["stack"][0]["file"], &error["position"]["line"]),
        (&json!("<script>"), &error["stack"][0]["line"])
    );
    for arguments in [json!({}), json!({ "code": 1 }), json!({ "code": "1", "cod": 2 })] {
        let result = call(&client, "mcp_execute_code", arguments).await;
        assert!(result.is_error == Some(true) && text(&result).contains("invalid arguments"));
    }
    let unknown = client.call_tool(CallToolRequestParams::new("other")).await;
    assert!(unknown.is_err());
}

#[tokio::test]
async fn text_is_truncated_and_structured_content_is_complete() {
    let (client, _) = client(Vec::new, ServerOptions::default()).await;
    let result = call(&client, "mcp_execute_code", json!({ "code": "'ä'.repeat(30_000)" })).await;
    assert!(text(&result).ends_with("… [truncated: 6000 more characters]"));
    assert_eq!(result.structured_content.unwrap()["result"].as_str().unwrap().chars().count(), 30_000);
}

#[tokio::test]
async fn progress_reports_log_lines_and_calls() {
    let provider = Provider::builder("api").tool(Tool::new("echo", async |input, _| Ok(input))).build().unwrap();
    let (client, listener) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let code = "console.log('before'); await api.echo(1); console.log('after')";
    call(&client, "mcp_execute_code", json!({ "code": code })).await;
    while listener.progress.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    let mut received = listener.progress.lock().unwrap().clone();
    received.sort_unstable(); // Handlers of notifications run concurrently.
    assert_eq!(received, ["after", "before", "calling api.echo"]);
}

#[tokio::test]
async fn progress_is_sent_while_code_runs() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let limits = Limits { timeout: Duration::from_hours(1), ..Limits::default() };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let (client, listener) = client(move || vec![upstream.provider()], options).await;
    let handle = begin(&client, "mcp_execute_code", "console.log('before'); await api.slow({})").await;
    fake.started.notified().await;
    until(|| listener.progress.lock().unwrap().len() == 2).await;
    handle.cancel(None).await.unwrap();
    fake.cancelled.notified().await;
}

#[tokio::test]
async fn cancelling_a_call_cancels_the_guest_and_its_tools() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    let handle = begin(&client, "mcp_execute_code", "await api.slow({})").await;
    fake.started.notified().await;
    handle.cancel(None).await.unwrap();
    fake.cancelled.notified().await;
}

#[tokio::test]
async fn layouts_and_names_are_configurable() {
    for (layout, names) in [
        (Layout::Both, &["find", "mcp_execute_code", "mcp_code"][..]),
        (Layout::Split, &["find", "mcp_execute_code"]),
        (Layout::Single, &["mcp_code"]),
    ] {
        let options = ServerOptions { layout, search_name: "find".into(), ..ServerOptions::default() };
        let (client, _) = client(Vec::new, options).await;
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), names);
        let absent = client.call_tool(CallToolRequestParams::new("mcp_search_tools")).await;
        assert!(absent.is_err(), "its name is `find`");
    }
}

#[tokio::test]
async fn descriptions_stay_short_and_pages_follow_one_another() {
    let echo = |n: usize| {
        Tool::new(format!("tool_number_{n}"), async |input, _| Ok(input))
            .description("Does one of a thousand things")
            .input_schema(json!({ "type": "object", "properties": { "value": { "type": "string" } } }))
    };
    let provider = Provider::builder("many").tools((0..1_000).map(echo)).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let tools = client.list_all_tools().await.unwrap();
    let length: usize = tools.iter().map(|tool| tool.description.as_ref().unwrap().chars().count()).sum();
    assert!(length <= 6_000, "{length}");
    assert!(tools[2].description.as_ref().unwrap().ends_with("more tools"));
    assert!(tools[2].description.as_ref().unwrap().contains("Names only (full signatures: mcp_search_tools):"));

    let mut seen = std::collections::HashSet::new();
    let mut offset = json!(0);
    while offset.is_number() {
        let arguments = json!({ "query": "number", "offset": offset, "limit": 50 });
        let page = call(&client, "mcp_search_tools", arguments).await.structured_content.unwrap();
        assert_eq!(page["total"], 1_000);
        seen.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()));
        offset = page["nextOffset"].clone();
    }
    assert_eq!(seen.len(), 1_000);
    let exact = call(&client, "mcp_search_tools", json!({ "query": "toolNumber77" })).await;
    assert_eq!(exact.structured_content.unwrap()["tools"][0]["name"], "tool_number_77");
}

#[tokio::test]
async fn tools_are_described_in_full_and_the_list_is_live() {
    let provider = |name: &str| {
        let tool = Tool::new("long", async |input, _| Ok(input)).description("word ".repeat(100));
        Provider::builder(name).tool(tool).build().unwrap()
    };
    let live = Arc::new(Mutex::new(vec![provider("first")]));
    let providers = Arc::clone(&live);
    let (client, _) = client(move || providers.lock().unwrap().clone(), ServerOptions::default()).await;
    let describe = async || {
        let answer = call(&client, "mcp_search_tools", json!({ "describe": ["first.long", "second.long"] })).await;
        answer.structured_content.unwrap()
    };
    let before = describe().await;
    assert_eq!(before["tools"][0]["description"].as_str().unwrap().len(), 499);
    assert_eq!(before["unknown"], json!(["second.long"]));
    live.lock().unwrap().push(provider("second"));
    assert_eq!(describe().await["tools"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_page_declares_a_type_once_and_shows_the_best_matches_in_full() {
    let address = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let input = json!({
        "type": "object", "properties": { "to": { "$ref": "#/$defs/Address" } }, "$defs": { "Address": address }
    });
    let long: serde_json::Map<_, _> =
        (0..190).map(|n| (format!("parameter{n}"), json!({ "type": "string" }))).collect();
    let long = json!({ "type": "object", "properties": long });
    let tool = |name: &str, input: &Json| Tool::new(name, async |input, _| Ok(input)).input_schema(input.clone());
    let tools = [tool("send", &input), tool("return", &input), tool("long1", &long), tool("long2", &long)];
    let provider = Provider::builder("post").tools(tools).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let page = call(&client, "mcp_search_tools", json!({})).await.structured_content.unwrap();
    let signatures: Vec<&str> =
        page["tools"].as_array().unwrap().iter().map(|tool| tool["signature"].as_str().unwrap()).collect();
    assert_eq!(
        signatures[0],
        "function send(input?: { to?: Address }): Promise<unknown>;\ntype Address = { city?: string };"
    );
    assert_eq!(signatures[1], "function return_(input?: { to?: Address }): Promise<unknown>;");
    assert!(signatures[2].ends_with("Promise<unknown>;"), "one of these fits");
    assert!(signatures[3].contains("[truncated:"), "two do not fit");
    let one = call(&client, "mcp_search_tools", json!({ "describe": ["post.long2"] })).await;
    assert!(text(&one).contains("parameter189"), "`describe` returns it in full");
}

#[tokio::test]
async fn types_that_do_not_fit_are_replaced_by_parameters_or_names() {
    let input = json!({
        "type": "object", "properties": { "id": { "type": "string" }, "x y": {}, "limit": { "type": "integer" } },
        "required": ["id"]
    });
    let tool = |n: usize| {
        let tool = Tool::new(format!("t{n}"), async |input, _| Ok(input)).input_schema(input.clone());
        tool.description("Does what its number says, and nothing else in the world")
    };
    let provider = Provider::builder("api").tools((0..40).map(tool)).build().unwrap();
    for (max_types, shown, not_shown) in [
        (12_000, "function t39(input: {", "only:"),
        (3_000, "Names and parameters only:\n\napi: t0(id, limit?), t1(id, limit?), t2", "function t0"),
        (1_200, "Names only:\n\napi: t0, t1, t2", "limit?"),
    ] {
        let provider = provider.clone();
        let options = ServerOptions { layout: Layout::Single, max_types: Some(max_types), ..ServerOptions::default() };
        let (client, _) = client(move || vec![provider.clone()], options).await;
        let text = client.list_all_tools().await.unwrap()[0].description.clone().unwrap();
        assert!(text.contains(shown) && text.contains("t39") && !text.contains(not_shown), "{max_types}: {text}");
        assert!(text.chars().count() <= max_types, "{max_types}");
    }
}
