//! Resources of servers, read by programs.

use std::sync::atomic::Ordering;

use execbox::Provider;
use execbox_mcp::server::ServerOptions;
use execbox_mcp::upstream::UpstreamOptions;
use execbox_mcp::{Pattern, Secrets, ToolFilter};
use rmcp::model::CallToolResult;
use serde_json::{Value as Json, json};

use crate::fakes::{Fake, call, client, tool, until};

fn with_resources() -> Fake {
    Fake { has_resources: true, ..Fake::standard() }
}

async fn run_with(fake: &Fake, options: UpstreamOptions, code: &str) -> CallToolResult {
    let upstream = fake.open("docs", options).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    call(&client, "mcp_execute_code", json!({ "code": code })).await
}

async fn run(code: &str) -> CallToolResult {
    run_with(&with_resources(), UpstreamOptions::default(), code).await
}

fn result(answer: &CallToolResult) -> &Json {
    let content = answer.structured_content.as_ref().unwrap();
    assert_eq!(content["ok"], true, "{content}");
    &content["result"]
}

#[tokio::test]
async fn resources_are_listed_page_by_page() {
    let pages = run(
        "const first = await docs.list_resources(); return [first, await docs.list_resources({ cursor: first.nextCursor })]",
    );
    let expected = json!([
        { "resources": [{ "uri": "demo://text", "name": "one" }], "nextCursor": "2",
          "templates": [{ "uriTemplate": "demo://{id}", "name": "by id" }] },
        { "resources": [{ "uri": "demo://json", "name": "one" }] }
    ]);
    assert_eq!(result(&pages.await), &expected);
}

#[tokio::test]
async fn resources_are_read_as_data() {
    let read =
        run("return await Promise.all(['text', 'json', 'two'].map(id => docs.read_resource({ uri: `demo://${id}` })))");
    let two = [
        json!({ "uri": "demo://1", "mimeType": "text/plain", "text": "1" }),
        json!({ "uri": "demo://2", "mimeType": "text/plain", "text": "2" }),
    ];
    assert_eq!(result(&read.await), &json!(["words of hunter22", { "tools": [1] }, two]));
}

#[tokio::test]
async fn images_of_resources_reach_the_model() {
    let answer = run("return await docs.read_resource({ uri: 'demo://image' })").await;
    let image = answer.content.iter().find_map(|block| block.as_image()).unwrap();
    assert_eq!((&*image.data, &*image.mime_type), ("aW1hZ2U=", "image/png"));
}

#[tokio::test]
async fn failures_and_large_resources_are_errors_and_texts_are_not_changed() {
    let secrets = Secrets::new([("API_KEY".to_owned(), "hunter22".to_owned())]);
    let options = UpstreamOptions::default().secrets(secrets).max_result_bytes(1 << 19);
    let code = "const read = id => docs.read_resource({ uri: `demo://${id}` }).catch(error => error.message);
        return await Promise.all(['other', 'huge', 'text'].map(read))";
    let answer = run_with(&with_resources(), options, code).await;
    let expected = json!([
        "docs.read_resource failed: there is no demo://other",
        "docs.read_resource failed: result longer than 524288 bytes",
        "words of hunter22"
    ]);
    assert_eq!(result(&answer), &expected);
}

#[tokio::test]
async fn only_servers_with_resources_have_the_tools_and_filters_apply() {
    let has = "return ['list_resources', 'read_resource', 'echo'].map(name => name in docs)";
    assert_eq!(
        result(&run_with(&Fake::standard(), UpstreamOptions::default(), has).await),
        &json!([false, false, true])
    );
    let filter = ToolFilter::default().deny(vec![Pattern::new("read_*")]);
    let options = UpstreamOptions::default().filter(filter);
    assert_eq!(result(&run_with(&with_resources(), options, has).await), &json!([true, false, true]));
}

#[tokio::test]
async fn a_tool_of_the_server_comes_before_that_for_resources() {
    let own = tool("read_resource", "Its own", json!({ "type": "object" }));
    let fake = Fake { has_resources: true, ..Fake::new(vec![own]) };
    let answer = run_with(&fake, UpstreamOptions::default(), "return await docs.read_resource({})").await;
    assert_eq!(result(&answer), "called read_resource");
}

/// Many servers declare the capability `resources`, and list none.
#[tokio::test]
async fn the_tools_are_there_when_the_server_has_its_first_resource() {
    let fake = with_resources();
    fake.has_no_resources_yet.store(true, Ordering::SeqCst);
    let upstream = fake.open("docs", UpstreamOptions::default()).await;
    let has = |provider: &Provider| provider.original_name("read_resource").is_some();
    assert!(!has(&upstream.provider()));
    fake.has_no_resources_yet.store(false, Ordering::SeqCst);
    let peer = fake.peer.lock().unwrap().clone().unwrap();
    peer.notify_resource_list_changed().await.unwrap();
    until(|| has(&upstream.provider())).await;
}
