//! The shapes of earlier results, in searches and descriptions of tools whose servers declare no output.

use std::sync::Arc;

use execbox_mcp::server::{ServerOptions, StateArea, StateStore};
use execbox_mcp::upstream::{ResultFormat, UpstreamOptions};
use execbox_mcp::{Secrets, Shapes};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value as Json, json};

use crate::fakes::{Fake, Listener, call, client, text, tool, until};
use crate::state::Texts;

type Client = RunningService<RoleClient, Listener>;

/// A client of a gateway in front of a server with these tools, which remembers `shapes`.
async fn gateway(fake: &Fake, shapes: &Shapes, options: UpstreamOptions) -> Client {
    let upstream = fake.open("api", options.shapes(shapes.clone())).await;
    let options = ServerOptions::default().shapes(shapes.clone());
    client(move || vec![upstream.provider()], options).await.0
}

async fn run(client: &Client, code: &str) -> Json {
    call(client, "mcp_execute_code", json!({ "code": code })).await.structured_content.unwrap()["result"].take()
}

async fn search(client: &Client, arguments: Json) -> (String, Json) {
    let found = call(client, "mcp_search_tools", arguments).await;
    (text(&found).to_owned(), found.structured_content.unwrap()["tools"][0].take())
}

#[tokio::test]
async fn results_that_were_seen_are_the_types_of_tools_without_an_output_schema() {
    let client = gateway(&Fake::standard(), &Shapes::default(), UpstreamOptions::default()).await;
    let (_, tool) = search(&client, json!({ "query": "echo" })).await;
    assert_eq!(tool["signature"], "echo({ text?: unknown }): Promise<unknown>");
    assert_eq!(tool["isResultSeen"], Json::Null);
    run(&client, "await api.echo({ id: 7, rows: [{ name: 'Anna' }] })").await;
    let (shown, tool) = search(&client, json!({ "query": "echo" })).await;
    let seen = "echo({ text?: unknown }): Promise<{ id: number; rows: { name: string }[] }>";
    assert_eq!((&tool["signature"], &tool["isResultSeen"]), (&json!(seen), &json!(true)));
    assert!(shown.contains(&format!("{seen} // result: as seen before\n```")), "{shown}");
    run(&client, "await api.echo({ id: 'A-8', more: null })").await;
    for arguments in [json!({ "query": "echo" }), json!({ "describe": ["api.echo"] })] {
        let (shown, tool) = search(&client, arguments).await;
        for part in ["id: number | string", "more?: null", "rows?: ", "// result: as seen before"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("Anna") && !shown.contains("A-8"), "{shown}");
        assert_eq!(tool["isResultSeen"], true);
    }
    let described = run(&client, "(await tools.describe('api.echo')).signature").await;
    assert!(described.as_str().unwrap().contains("id: number | string"), "{described}");
}

#[tokio::test]
async fn names_that_are_data_and_failures_leave_no_trace() {
    let secrets = Secrets::new([("API_KEY".to_owned(), "hunter22".to_owned())]);
    let client = gateway(&Fake::standard(), &Shapes::default(), UpstreamOptions::default().secrets(secrets)).await;
    run(&client, "await api.fail({}).catch(() => 0)").await;
    assert_eq!(search(&client, json!({ "query": "fail" })).await.1["isResultSeen"], Json::Null);
    for (member, value) in [("user@example.com", "1"), ("hunter22", "2"), ("2026-11-28", "[3]"), ("/etc/passwd", "4")] {
        run(&client, &format!("await api.echo({{ byKey: {{ {member:?}: {value} }} }})")).await;
        let (shown, _) = search(&client, json!({ "describe": ["api.echo"] })).await;
        assert!(shown.contains("byKey: { [key: string]: "), "{shown}");
        assert!(!shown.contains(member), "{shown}");
    }
}

#[tokio::test]
async fn what_a_server_declares_is_shown_as_it_is() {
    let output = json!({ "type": "object", "properties": { "n": { "type": "number" } }, "required": ["n"] });
    let declared = tool("echo", "", json!({ "type": "object" }));
    let declared = declared.with_raw_output_schema(output.as_object().unwrap().clone().into());
    let client = gateway(&Fake::new(vec![declared]), &Shapes::default(), UpstreamOptions::default()).await;
    run(&client, "await api.echo({ n: 1, more: true })").await;
    let (_, tool) = search(&client, json!({ "query": "echo" })).await;
    assert_eq!((&tool["signature"], &tool["isResultSeen"]), (&json!("echo(): Promise<{ n: number }>"), &Json::Null));
    let envelopes = UpstreamOptions::default().results(ResultFormat::Envelope);
    let client = gateway(&Fake::standard(), &Shapes::default(), envelopes).await;
    run(&client, "await api.echo({ n: 1 })").await;
    assert_eq!(search(&client, json!({ "query": "echo" })).await.1["isResultSeen"], Json::Null);
}

#[tokio::test]
async fn shapes_are_kept_for_later_gateways_until_the_tool_changes() {
    let texts = Arc::new(Texts::default());
    let shapes = || Shapes::kept_in(Arc::clone(&texts) as Arc<dyn StateStore>);
    let echo = |parameter: &str| {
        let parameters = json!({ "type": "object", "properties": { parameter: { "type": "number" } } });
        Fake::new(vec![tool("echo", "", parameters)])
    };
    let first = gateway(&echo("a"), &shapes(), UpstreamOptions::default()).await;
    run(&first, "await api.echo({ a: 1, secretive: 'value' })").await;
    until(|| !texts.list(StateArea::Shapes, "").unwrap().is_empty()).await;
    let key = texts.list(StateArea::Shapes, "").unwrap().remove(0).key;
    let text = texts.get(StateArea::Shapes, &key).unwrap().unwrap();
    assert!(text.contains("secretive") && !text.contains("value"), "{text}");
    for (parameter, is_known) in [("a", json!(true)), ("b", Json::Null)] {
        let later = shapes();
        later.load();
        let client = gateway(&echo(parameter), &later, UpstreamOptions::default()).await;
        assert_eq!(search(&client, json!({ "query": "echo" })).await.1["isResultSeen"], is_known);
    }
    // What another program has written is ignored.
    for text in ["", "{", "{\"schema\":\"x\",\"shape\":{\"plain\":[\"function\"]}}"] {
        texts.set(StateArea::Shapes, &key, text.to_owned()).unwrap();
        let later = shapes();
        later.load();
        let client = gateway(&echo("a"), &later, UpstreamOptions::default()).await;
        assert_eq!(search(&client, json!({ "query": "echo" })).await.1["isResultSeen"], Json::Null);
    }
}
