//! MCP servers as providers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use execbox::{Effect, ErrorCode, ExecuteRequest, ExecuteResult, Executor as _, InlineExecutor, Provider};
use execbox_mcp::ToolFilter;
use execbox_mcp::upstream::{self, ChildCommand, ResultFormat, Upstream, UpstreamError, UpstreamOptions};
use rmcp::ServiceExt as _;
use rmcp::model::ToolAnnotations;
use serde_json::{Value as Json, json};

use crate::fakes::{Fake, tool};

async fn run(provider: Provider, code: &str) -> ExecuteResult {
    InlineExecutor::new().unwrap().execute(ExecuteRequest::new(code).provider(provider)).await
}

fn envelopes() -> UpstreamOptions {
    UpstreamOptions::default().results(ResultFormat::Envelope)
}

async fn value(provider: Provider, code: &str) -> Json {
    run(provider, code).await.outcome.unwrap().unwrap()
}

#[tokio::test]
async fn results_are_envelopes_on_request() {
    let upstream = Fake::standard().open("api", envelopes()).await;
    let code = "const r = await api.echo({ text: 'hi' }); return [r.structuredContent, r.isError, r.content[0].type]";
    assert_eq!(value(upstream.provider(), code).await, json!([{ "text": "hi" }, false, "text"]));
    let code = "const r = await api.fail({}); return [r.isError, r.content[0].text]";
    assert_eq!(value(upstream.provider(), code).await, json!([true, "no such thing"]));
    assert!(upstream.server_info().is_some());
    upstream.close().await;
}

#[tokio::test]
async fn annotations_say_what_calls_do() {
    let object = || json!({ "type": "object" });
    let with = |name: &str, annotations: Json| {
        let annotations = serde_json::from_value(annotations).unwrap();
        tool(name, "", object()).with_annotations(annotations)
    };
    let fake = Fake::new(vec![
        with("read", json!({ "readOnlyHint": true, "destructiveHint": true })),
        with("add", json!({ "readOnlyHint": false, "destructiveHint": false })),
        with("erase", json!({ "destructiveHint": true })),
        with("title", json!({ "title": "A title says nothing" })),
        tool("bare", "", object()),
    ]);
    let effects: Vec<Effect> = fake.open("api", envelopes()).await.provider().effects().collect();
    assert_eq!(effects, [Effect::ReadOnly, Effect::Additive, Effect::Destructive, Effect::Unstated, Effect::Unstated]);
}

#[tokio::test]
async fn content_other_than_text_is_passed_unchanged() {
    let fake = Fake::new(vec![tool("media", "", json!({ "type": "object" }))]);
    let read = json!(["aW1hZ2U=", "image/png", "words\u{200b}", "demo://text", "resource_link", "demo://link"]);
    let code = "const [image, embedded, link] = LIST;
        return [image.data, image.mimeType, embedded.resource.text, embedded.resource.uri, link.type, link.uri]";
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    assert_eq!(value(upstream.provider(), &code.replace("LIST", "await api.media()")).await, read);
    let upstream = fake.open("api", envelopes()).await;
    assert_eq!(value(upstream.provider(), &code.replace("LIST", "(await api.media()).content")).await, read);
    let provider = upstream.provider();
    let types = provider.types();
    assert!(types.contains("resource?: Resource") && types.contains("type Resource = {"), "{types}");
}

#[tokio::test]
async fn results_are_data() {
    let upstream = Fake::standard().open("api", UpstreamOptions::default()).await;
    assert_eq!(value(upstream.provider(), "await api.echo({ text: 'hi' })").await, json!({ "text": "hi" }));
    let error = run(upstream.provider(), "await api.fail({})").await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    assert!(error.message.contains("no such thing"), "{error}");
    let caught = "await api.fail({}).catch(error => [error instanceof Error, error.message])";
    assert_eq!(value(upstream.provider(), caught).await, json!([true, "api.fail failed: no such thing"]));
}

#[tokio::test]
async fn a_result_of_one_text_is_an_object_a_list_or_the_text() {
    let connect = async |text: &'static str| {
        let answer = json!({ "content": [{ "type": "text", "text": text }] });
        let script = SHELL_SERVER
            .replace(r#"{\"content\":[{\"type\":\"text\",\"text\":\"$GIVEN|$CARGO_MANIFEST_DIR\"}]}"#, "$GIVEN");
        let command =
            ChildCommand::new("sh").args(["-c", &script]).env(vec![("GIVEN".into(), answer.to_string().into())]);
        let upstream = Upstream::open_child("sh", command, UpstreamOptions::default()).await.unwrap();
        value(upstream.provider(), "await sh.env()").await
    };
    assert_eq!(connect("[1, {}]").await, json!([1, {}]));
    assert_eq!(connect("42").await, json!("42"));
    assert_eq!(connect("007").await, json!("007"));
    assert_eq!(connect("ENOENT: no such file").await, json!("ENOENT: no such file"));
    assert_eq!(connect("").await, json!(""));
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
        let options = UpstreamOptions::default().results(results);
        let upstream = Fake::new(vec![half(input)]).open("api", options).await;
        run(upstream.provider(), &format!("await api.half({{ of: {of} }})")).await.outcome
    };
    let strict = json!({ "type": "object", "properties": { "of": number } });
    for results in [ResultFormat::Envelope, ResultFormat::Data] {
        assert!(run_half(strict.clone(), results, json!(4)).await.is_ok());
        for (input, what) in [(&strict, "api.half failed: invalid input: "), (&any, "does not match its output schema")]
        {
            let error = run_half(input.clone(), results, json!("four")).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::ValidationError);
            assert!(error.message.contains(what), "{error}");
        }
    }
    let silent =
        tool("silent", "", any).with_raw_output_schema(json!({ "type": "object" }).as_object().unwrap().clone().into());
    let options = UpstreamOptions::default().results(ResultFormat::Data);
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
    for options in [UpstreamOptions::default().max_tools(14), UpstreamOptions::default().max_pages(2)] {
        let upstream = fake.open("api", options).await;
        assert_eq!(count(&upstream), 14);
        assert_eq!(upstream.rejected().len(), 1);
    }
}

#[tokio::test]
async fn tools_of_a_connection_of_the_caller_are_imported() {
    let service = ().serve(Fake::standard().connect()).await.unwrap();
    let imported = upstream::import("api", service.peer().clone(), &UpstreamOptions::default()).await.unwrap();
    let code = "await api.echo({ n: 1 })";
    assert_eq!(value(imported.provider.clone(), code).await, json!({ "n": 1 }));
    service.cancel().await.unwrap();
    let error = run(imported.provider, code).await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
}

#[tokio::test]
async fn a_call_that_times_out_is_cancelled_on_the_server() {
    let fake = Fake::standard();
    let options = UpstreamOptions::default().call_timeout(Duration::from_secs(1));
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
    let options = UpstreamOptions::default().restart_pause(Duration::from_hours(1));
    let upstream = fake.open("api", options).await;
    let other = Fake::standard().open("other", UpstreamOptions::default()).await;
    let error = run(upstream.provider(), "await api.die({})").await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    let echo = "await api.echo({ n: 1 })";
    assert_eq!(value(upstream.provider(), echo).await, json!({ "n": 1 }));
    assert_eq!(fake.connections.load(Ordering::SeqCst), 2);
    assert_eq!(value(other.provider(), &echo.replace("api", "other")).await, json!({ "n": 1 }));
    // The connection is lost again: the second attempt is delayed, and the error states the delay.
    let code = "try { await api.die({}) } catch {}\n await api.echo({})";
    let error = run(upstream.provider(), code).await.outcome.unwrap_err();
    assert!(error.message.contains("next attempt in"), "{error}");
    upstream.close().await;
}

/// A server as a shell script: `env` returns two variables, `exit` ends the process, `odd` answers with members of other
/// results.
const SHELL_SERVER: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"env","inputSchema":{}},{"name":"exit","inputSchema":{}},{"name":"odd","inputSchema":{}}]}' ;;
    *'"name":"exit"'*) exit 1 ;;
    *'"name":"odd"'*) answer '{"content":[{"type":"text","text":"odd"}],"isError":false,"tools":[],"prompts":[],"contents":[]}' ;;
    *'"method":"tools/call"'*) answer "{\"content\":[{\"type\":\"text\",\"text\":\"$GIVEN|$CARGO_MANIFEST_DIR\"}]}" ;;
  esac
done"#;

#[tokio::test]
async fn a_child_process_gets_only_its_environment_and_is_restarted() {
    let command = ChildCommand::new("sh").args(["-c", SHELL_SERVER]).env(vec![("GIVEN".into(), "given".into())]);
    let upstream = Upstream::open_child("sh", command, UpstreamOptions::default()).await.unwrap();
    assert_eq!(value(upstream.provider(), "await sh.odd()").await, "odd");
    let info = upstream.server_info().unwrap();
    assert_eq!(info.server_info.as_ref().map(|server| server.name.as_str()), Some("sh"));
    let env = "await sh.env()";
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
    let missing = ChildCommand::new("/nonexistent/server");
    let open = |name, command| Upstream::open_child(name, command, UpstreamOptions::default());
    assert!(matches!(open("api", missing.clone()).await, Err(UpstreamError::Connect { .. })));
    let silent = ChildCommand::new("true");
    assert!(matches!(open("api", silent).await, Err(UpstreamError::Connect { .. })));
    let header = [("no header".to_owned(), "x".to_owned())];
    let opened = Upstream::open_http("api", "http://127.0.0.1:1/", &header, UpstreamOptions::default()).await;
    assert!(matches!(opened, Err(UpstreamError::Header(_))));
}

#[tokio::test]
async fn read_only_means_tools_whose_server_states_it() {
    let stated = |name: &str, annotations: Option<ToolAnnotations>| {
        let mut tool = tool(name, "One of five", json!({ "type": "object" }));
        tool.annotations = annotations;
        tool
    };
    let hints = |read_only: bool| Some(ToolAnnotations::new().read_only(read_only));
    let fake = Fake::new(vec![
        stated("read", hints(true)),
        stated("write", hints(false)),
        stated("destroy", Some(ToolAnnotations::new().destructive(true))),
        stated("unknown", Some(ToolAnnotations::new())),
        stated("silent", None),
    ]);
    let filter = ToolFilter::default().read_only(true);
    let upstream = fake.open("api", UpstreamOptions::default().filter(filter)).await;
    let names: Vec<_> = upstream.provider().manifest().tools.iter().map(|tool| tool.original_name.clone()).collect();
    assert_eq!(names, ["read"]);
    assert_eq!(upstream.imported().filtered, ["write", "destroy", "unknown", "silent"]);
}

#[tokio::test]
async fn a_tool_without_a_description_is_described_by_its_title() {
    let described = |name: &str, description: &str, title: Option<&str>, annotated: Option<&str>| {
        let mut tool = tool(name, description, json!({ "type": "object" }));
        tool.title = title.map(str::to_owned);
        tool.annotations = annotated.map(ToolAnnotations::with_title);
        tool
    };
    let fake = Fake::new(vec![
        described("a", "Described", Some("Title"), None),
        described("b", " ", Some("Title of b"), Some("Another")),
        described("c", "", None, Some("Title of c")),
        described("d", "", None, None),
    ]);
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let descriptions: Vec<_> =
        upstream.provider().manifest().tools.iter().map(|tool| tool.description.clone()).collect();
    let expected = [Some("Described"), Some("Title of b"), Some("Title of c"), None];
    assert_eq!(descriptions, expected.map(|text| text.map(str::to_owned)));
}
