//! MCP servers as providers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use execbox::{ErrorCode, ExecuteRequest, ExecuteResult, Executor as _, InlineExecutor, Provider};
use execbox_mcp::upstream::{self, ChildCommand, ResultFormat, Upstream, UpstreamError, UpstreamOptions};
use rmcp::ServiceExt as _;
use serde_json::{Value as Json, json};

use crate::fake::{Fake, tool};

async fn run(provider: Provider, code: &str) -> ExecuteResult {
    InlineExecutor::new().unwrap().execute(ExecuteRequest::new(code).provider(provider)).await
}

async fn value(provider: Provider, code: &str) -> Json {
    run(provider, code).await.outcome.unwrap().unwrap()
}

#[tokio::test]
async fn results_are_envelopes() {
    let upstream = Fake::standard().open("api", UpstreamOptions::default()).await;
    let code = "const r = await api.echo({ text: 'hi' }); return [r.structuredContent, r.isError, r.content[0].type]";
    assert_eq!(value(upstream.provider(), code).await, json!([{ "text": "hi" }, false, "text"]));
    let code = "const r = await api.fail({}); return [r.isError, r.content[0].text]";
    assert_eq!(value(upstream.provider(), code).await, json!([true, "no such thing"]));
    assert!(upstream.server_info().is_some());
    upstream.close().await;
}

#[tokio::test]
async fn content_other_than_text_is_passed_unchanged() {
    let fake = Fake::new(vec![tool("media", "", json!({ "type": "object" }))]);
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let code = "const [image, embedded, link] = (await api.media()).content;
        return [image.data, image.mimeType, embedded.resource.text, embedded.resource.uri, link.type, link.uri]";
    let read = json!(["aW1hZ2U=", "image/png", "words", "demo://text", "resource_link", "demo://link"]);
    assert_eq!(value(upstream.provider(), code).await, read);
    let provider = upstream.provider();
    let types = provider.types();
    assert!(types.contains("resource?: Resource") && types.contains("type Resource = {"), "{types}");
}

#[tokio::test]
async fn results_are_unwrapped_on_request() {
    let options = UpstreamOptions { results: ResultFormat::Unwrapped, ..UpstreamOptions::default() };
    let upstream = Fake::standard().open("api", options).await;
    assert_eq!(value(upstream.provider(), "await api.echo({ text: 'hi' })").await, json!({ "text": "hi" }));
    let error = run(upstream.provider(), "await api.fail({})").await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    assert!(error.message.contains("no such thing"), "{error}");
}

#[tokio::test]
async fn inputs_and_results_are_checked_against_the_schemas_of_the_server() {
    let number = json!({ "type": "number" });
    let any = json!({ "type": "object" });
    let half = |input: Json| {
        let output = json!({ "type": "object", "properties": { "half": number }, "required": ["half"] });
        tool("half", "", input).with_raw_output_schema(output.as_object().unwrap().clone().into())
    };
    let run_half = async |input: Json, results, of: Json| {
        let options = UpstreamOptions { results, ..UpstreamOptions::default() };
        let upstream = Fake::new(vec![half(input)]).open("api", options).await;
        run(upstream.provider(), &format!("await api.half({{ of: {of} }})")).await.outcome
    };
    let strict = json!({ "type": "object", "properties": { "of": number } });
    for results in [ResultFormat::Envelope, ResultFormat::Unwrapped] {
        assert!(run_half(strict.clone(), results, json!(4)).await.is_ok());
        for (input, what) in [(&strict, "Invalid input"), (&any, "does not match its output schema")] {
            let error = run_half(input.clone(), results, json!("four")).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::ValidationError);
            assert!(error.message.contains(what), "{error}");
        }
    }
    let silent =
        tool("silent", "", any).with_raw_output_schema(json!({ "type": "object" }).as_object().unwrap().clone().into());
    let options = UpstreamOptions { results: ResultFormat::Unwrapped, ..UpstreamOptions::default() };
    let upstream = Fake::new(vec![silent]).open("api", options).await;
    let error = run(upstream.provider(), "await api.silent({})").await.outcome.unwrap_err();
    assert!(error.message.contains("no structured content"), "{error}");
}

#[tokio::test]
async fn all_pages_are_read_up_to_the_limits() {
    let any = || json!({ "type": "object" });
    let fake = Fake { page: 7, ..Fake::new((0..50).map(|n| tool(&format!("t{n}"), "", any())).collect()) };
    let count = |upstream: &Upstream| upstream.provider().manifest().tools.len();
    assert_eq!(count(&fake.open("api", UpstreamOptions::default()).await), 50);
    for options in [
        UpstreamOptions { max_tools: 14, ..UpstreamOptions::default() },
        UpstreamOptions { max_pages: 2, ..UpstreamOptions::default() },
    ] {
        let upstream = fake.open("api", options).await;
        assert_eq!(count(&upstream), 14);
        assert_eq!(upstream.rejected().len(), 1);
    }
}

#[tokio::test]
async fn tools_of_a_connection_of_the_caller_are_imported() {
    let service = ().serve(Fake::standard().connect()).await.unwrap();
    let imported = upstream::import("api", service.peer().clone(), &UpstreamOptions::default()).await.unwrap();
    let code = "(await api.echo({ n: 1 })).structuredContent";
    assert_eq!(value(imported.provider.clone(), code).await, json!({ "n": 1 }));
    service.cancel().await.unwrap();
    let error = run(imported.provider, code).await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
}

#[tokio::test]
async fn a_call_that_times_out_is_cancelled_on_the_server() {
    let fake = Fake::standard();
    let options = UpstreamOptions { call_timeout: Duration::from_secs(1), ..UpstreamOptions::default() };
    let upstream = fake.open("api", options).await;
    let error = run(upstream.provider(), "await api.slow({})").await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    fake.cancelled.notified().await;
}

#[tokio::test]
async fn a_cancelled_execution_cancels_its_calls_on_the_server() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let token = execbox::CancellationToken::new();
    let execution = ExecuteRequest::new("await api.slow({})").provider(upstream.provider()).cancellation(token.clone());
    let run = tokio::spawn(async move { InlineExecutor::new().unwrap().execute(execution).await });
    fake.started.notified().await;
    token.cancel();
    assert_eq!(run.await.unwrap().outcome.unwrap_err().code, ErrorCode::Timeout);
    fake.cancelled.notified().await;
}

#[tokio::test]
async fn changed_tools_are_listed_again() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let before = upstream.provider();
    fake.tools.lock().unwrap().push(tool("fresh", "New", json!({ "type": "object" })));
    fake.changed().await;
    while upstream.provider().safe_name("fresh").is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(before.safe_name("fresh"), None, "running executions keep their tools");
}

#[tokio::test]
async fn a_crash_fails_its_calls_and_the_next_call_connects_again() {
    let fake = Fake::standard();
    let options = UpstreamOptions { restart_pause: Duration::from_hours(1), ..UpstreamOptions::default() };
    let upstream = fake.open("api", options).await;
    let other = Fake::standard().open("other", UpstreamOptions::default()).await;
    let error = run(upstream.provider(), "await api.die({})").await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    let echo = "(await api.echo({ n: 1 })).structuredContent";
    assert_eq!(value(upstream.provider(), echo).await, json!({ "n": 1 }));
    assert_eq!(fake.connections.load(Ordering::SeqCst), 2);
    assert_eq!(value(other.provider(), &echo.replace("api", "other")).await, json!({ "n": 1 }));
    // Lost again: the second attempt is delayed, and the error states the delay.
    let code = "try { await api.die({}) } catch {}\n await api.echo({})";
    let error = run(upstream.provider(), code).await.outcome.unwrap_err();
    assert!(error.message.contains("next attempt in"), "{error}");
    upstream.close().await;
}

/// A server as a shell script: `env` returns two variables, `exit` ends the process.
const SHELL_SERVER: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"env","inputSchema":{}},{"name":"exit","inputSchema":{}}]}' ;;
    *'"name":"exit"'*) exit 1 ;;
    *'"method":"tools/call"'*) answer "{\"content\":[{\"type\":\"text\",\"text\":\"$GIVEN|$CARGO_MANIFEST_DIR\"}]}" ;;
  esac
done"#;

#[tokio::test]
async fn a_child_process_gets_only_its_environment_and_is_restarted() {
    let command = ChildCommand {
        program: "sh".into(),
        args: vec!["-c".into(), SHELL_SERVER.into()],
        env: vec![("GIVEN".into(), "given".into())],
        ..ChildCommand::default()
    };
    let upstream = Upstream::open_child("sh", command, UpstreamOptions::default()).await.unwrap();
    let info = upstream.server_info().unwrap();
    assert_eq!(info.server_info.as_ref().map(|server| server.name.as_str()), Some("sh"));
    let env = "(await sh.env()).content[0].text";
    assert_eq!(value(upstream.provider(), env).await, "given|");
    let error = run(upstream.provider(), "await sh.exit()").await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    assert_eq!(value(upstream.provider(), env).await, "given|");
    let provider = upstream.provider();
    upstream.close().await;
    let error = run(provider, env).await.outcome.unwrap_err();
    assert!(error.message.contains("is closed"), "{error}");
}

#[tokio::test]
async fn failures_to_open_are_typed_errors() {
    let missing = ChildCommand { program: "/nonexistent/server".into(), ..ChildCommand::default() };
    let open = |name, command| Upstream::open_child(name, command, UpstreamOptions::default());
    assert!(matches!(open("api", missing.clone()).await, Err(UpstreamError::Connect { .. })));
    let silent = ChildCommand { program: "true".into(), ..ChildCommand::default() };
    assert!(matches!(open("api", silent).await, Err(UpstreamError::Connect { .. })));
    let header = [("no header".to_owned(), "x".to_owned())];
    let opened = Upstream::open_http("api", "http://127.0.0.1:1/", &header, UpstreamOptions::default()).await;
    assert!(matches!(opened, Err(UpstreamError::Header(_))));
}
