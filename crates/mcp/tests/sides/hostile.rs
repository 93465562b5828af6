//! Hostile lists of tools and hostile results.

use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
use execbox_mcp::server::ServerOptions;
use execbox_mcp::upstream::UpstreamOptions;
use serde_json::{Map, Value as Json, json};

use crate::fake::{Fake, call, client, text, tool};

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
        let execution =
            ExecuteRequest::new(format!("(await api.{safe}({{}})).content[0].text")).provider(provider.clone());
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

#[tokio::test]
async fn invalid_schemas_are_rejected_and_the_other_tools_work() {
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
    .open("api", UpstreamOptions { max_schema_bytes: 300_000, ..UpstreamOptions::default() })
    .await;
    let names: Vec<String> = upstream.provider().manifest().tools.iter().map(|tool| tool.safe_name.clone()).collect();
    assert_eq!(names, ["twice", "wide", "itself", "endless", "deep"]);
    let mut rejected: Vec<String> = upstream.rejected().into_iter().map(|tool| tool.name).collect();
    rejected.sort_unstable();
    assert_eq!(rejected, ["", "elsewhere", "invalid", "too_long", "twice"]);
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
    assert!(text(&result).chars().count() < 24_100 && text(&result).contains("[truncated:"));
}
