//! Calls without code: the layout that passes calls through, and tools that clients see beside those of the gateway.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::policy::{Decision, Policy};
use execbox::{Effect, InlineExecutor, Limits, Provider, Tool};
use execbox_mcp::Secrets;
use execbox_mcp::server::{AbsentTool, CodeServer, Layout, ProviderSource, ServerOptions, UnavailableNamespace};
use execbox_mcp::upstream::UpstreamOptions;
use rmcp::model::{
    CallToolResult, ClientCapabilities, ClientConfig, ContentBlock, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorData, Implementation, ProgressNotificationParam,
};
use rmcp::service::{
    ClientServiceExt as _, NotificationContext, RequestContext, RoleClient, RunningService, ServiceError,
};
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value as Json, json};

use crate::fakes::{Fake, call, text, tool, until};
use crate::http::both_generations;

/// A client whose user approves what it is asked. Records the questions, and progress.
#[derive(Clone, Default)]
struct User {
    asked: Arc<Mutex<Vec<ElicitRequestParams>>>,
    progress: Arc<Mutex<Vec<Reported>>>,
}

/// How much is done, of how much, and a message.
type Reported = (f64, Option<f64>, Option<String>);

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("user", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.lock().unwrap().push(request);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "decision": "approve" })))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().unwrap().push((params.progress, params.total, params.message));
    }
}

type Client = RunningService<RoleClient, User>;

/// Clients of both generations.
async fn clients(server: &CodeServer) -> [Client; 2] {
    let [older, newest] = both_generations().map(|lifecycle| async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
        User::default().serve_with_lifecycle(near, lifecycle).await.unwrap()
    });
    [older.await, newest.await]
}

/// A source that exposes tools by name, denies `shop.secret`, and lacks the namespace `late`.
struct Source {
    providers: Vec<Provider>,
    exposed: &'static [&'static str],
}

impl ProviderSource for Source {
    fn providers(&self) -> Vec<Provider> {
        self.providers.clone()
    }

    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        let state = execbox_mcp::server::Unavailability::Starting;
        vec![UnavailableNamespace::new("late", "its server is still starting", state)]
    }

    fn is_exposed(&self, namespace: &str, names: [&str; 2]) -> bool {
        names.iter().any(|name| self.exposed.contains(&&*format!("{namespace}.{name}")))
    }

    fn absent_tool(&self, namespace: &str, tool: &str) -> Option<AbsentTool> {
        (namespace == "api" && tool == "secret").then_some(AbsentTool::Denied)
    }
}

fn serve(providers: Vec<Provider>, exposed: &'static [&'static str], options: ServerOptions) -> CodeServer {
    let limits = Limits::default().timeout(Duration::from_hours(1));
    let executor = Arc::new(InlineExecutor::new().unwrap());
    let options = options.limits(limits).start_timeout(Duration::ZERO);
    CodeServer::new(executor, Source { providers, exposed }, options)
}

fn passthrough() -> ServerOptions {
    ServerOptions::default().layout(Layout::Passthrough)
}

/// A server with the tools of a fake, without code.
async fn fake() -> (CodeServer, Fake) {
    let any = || json!({ "type": "object" });
    let fake = Fake::standard();
    let names = ["media", "import", "silent", "odd", "get-sum", "half"];
    fake.tools.lock().unwrap().extend(names.map(|name| tool(name, name, any())));
    let options = UpstreamOptions::default().secrets(Secrets::new([("KEY".to_owned(), "hunter22".to_owned())]));
    let upstream = fake.open("api", options.clone()).await;
    let provider = upstream.provider();
    std::mem::forget(upstream);
    let options = passthrough().secrets(options.secrets);
    (serve(vec![provider], &[], options), fake)
}

async fn call_named(client: &Client, tool: &str, arguments: Json) -> CallToolResult {
    call(client, "mcp_call_tool", json!({ "tool": tool, "arguments": arguments })).await
}

#[tokio::test]
async fn results_are_those_of_the_server() {
    let (server, _fake) = fake().await;
    for client in clients(&server).await {
        let echoed = call_named(&client, "api.echo", json!({ "text": "hi", "n": [1, null] })).await;
        assert_eq!(echoed.structured_content, Some(json!({ "text": "hi", "n": [1, null] })));
        assert_eq!(text(&echoed), r#"{"text":"hi","n":[1,null]}"#);
        let media = call_named(&client, "api.media", json!({})).await;
        let [ContentBlock::Image(image), ContentBlock::Resource(_), ContentBlock::ResourceLink(link)] = &*media.content
        else {
            panic!("other blocks: {media:?}")
        };
        assert_eq!((&*image.data, &*link.uri), ("aW1hZ2U=", "demo://link"));
        let failed = call_named(&client, "api.fail", json!({})).await;
        assert_eq!((failed.is_error, text(&failed)), (Some(true), "no such thing"));
        assert_eq!(call_named(&client, "api.silent", json!({})).await.content, vec![]);
        assert_eq!(text(&call_named(&client, "api.get-sum", json!({})).await), "called get-sum", "the server's name");
        assert_eq!(text(&call_named(&client, "api.get_sum", json!({})).await), "called get-sum", "the name in code");
        let media = json!(call_named(&client, "api.media", json!({})).await.content);
        assert_eq!(media[1]["resource"]["text"], r"words\u200b");
        let echoed = call_named(&client, "api.echo", json!({ "text": "my hunter22\u{200b}" })).await;
        assert!(text(&echoed).contains(r"my ${KEY}\u200b"), "{}", text(&echoed));
    }
}

#[tokio::test]
async fn arguments_are_read_as_models_write_them() {
    let (server, _fake) = fake().await;
    let [client, _] = clients(&server).await;
    let echoed = call_named(&client, "api.echo", json!(r#"{"text":"in a string"}"#)).await;
    assert_eq!(echoed.structured_content, Some(json!({ "text": "in a string" })));
    for without in [json!({ "tool": "api.echo" }), json!({ "tool": "api.echo", "arguments": null })] {
        assert_eq!(call(&client, "mcp_call_tool", without).await.structured_content, Some(json!({})));
    }
    let misspelt = call(&client, "mcp_call_tool", json!({ "tool": "api.echo", "argument": {} })).await;
    assert_eq!(text(&misspelt), r#"invalid arguments: unknown member "argument"; did you mean "arguments"?"#);
    for (arguments, expected) in [
        (json!([1]), r#"invalid arguments: "arguments": expected an object, got an array"#),
        (json!("x"), r#"invalid arguments: "arguments": expected an object, got a string"#),
        (json!("[{}]"), r#"invalid arguments: "arguments": expected an object, got a string"#),
        (json!(true), r#"invalid arguments: "arguments": expected an object, got true"#),
    ] {
        assert_eq!(text(&call_named(&client, "api.echo", arguments).await), expected);
    }
    let described = call(&client, "mcp_describe_tools", json!({ "tools": "api.echo" })).await;
    assert!(text(&described).contains("function echo(input?: {"), "{}", text(&described));
}

#[tokio::test]
async fn tools_that_cannot_be_called_are_explained() {
    let (server, _fake) = fake().await;
    let [client, _] = clients(&server).await;
    for (name, expected) in [
        ("api.ekho", r#"unknown tool "api.ekho"; did you mean `api.echo`?"#),
        ("echo", r#"unknown tool "echo"; did you mean `api.echo`?"#),
        ("api.secret", "`api.secret` is not allowed by the configuration"),
        ("late.tool", "late is not available: its server is still starting; try again later"),
        ("nope.tool", r#"unknown namespace "nope"; there are: `api`"#),
    ] {
        let failed = call_named(&client, name, json!({})).await;
        assert_eq!((failed.is_error, text(&failed)), (Some(true), expected));
    }
    let error = client.peer().call_tool_once(rmcp::model::CallToolRequestParams::new("mcp_execute_code")).await;
    let Err(ServiceError::McpError(error)) = error else { panic!("no error") };
    assert_eq!(error.message, r#"unknown tool "mcp_execute_code""#, "there is no code in this layout");
}

/// As the server counts it, and for no other call.
#[tokio::test]
async fn progress_is_that_of_the_tool() {
    let (server, fake) = fake().await;
    for client in clients(&server).await {
        let progress = Arc::clone(&client.service().progress);
        let seen = async {
            until(|| progress.lock().unwrap().len() >= 3).await;
            fake.heard.notify_one();
        };
        tokio::join!(call_named(&client, "api.import", json!({})), seen);
        let progress = progress.lock().unwrap();
        assert_eq!(progress[0], (0.0, Some(100.0), Some("reading ${KEY} orders".to_owned())));
        assert!(progress.is_sorted_by(|a, b| a.0 < b.0), "{progress:?}");
    }
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_on_its_server() {
    let (server, fake) = fake().await;
    for client in clients(&server).await {
        let before = fake.running.load(std::sync::atomic::Ordering::SeqCst);
        let arguments = json!({ "tool": "api.slow" });
        let running = tokio::spawn(async move {
            let params = rmcp::model::CallToolRequestParams::new("mcp_call_tool")
                .with_arguments(arguments.as_object().unwrap().clone());
            let request = rmcp::model::ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(params));
            let options = rmcp::service::PeerRequestOptions::no_options();
            let sent = client.send_request_with_option(request, options).await.unwrap();
            (client, sent)
        });
        until(|| fake.running.load(std::sync::atomic::Ordering::SeqCst) > before).await;
        let (_client, sent) = running.await.unwrap();
        sent.cancel(None).await.unwrap();
        fake.cancelled.notified().await;
    }
}

/// A shop that asks before `remove`, and exposes it.
fn shop() -> CodeServer {
    let remove = Tool::new("remove", async |_, _| Ok(json!({ "removed": true }))).effect(Effect::Destructive);
    let remove = remove.description("Removes an order\u{200b}").input_schema(json!({
        "type": "object", "properties": { "id": { "type": "integer", "description": "Which\u{200b}" } }
    }));
    let list = Tool::new("list", async |_, _| Ok(json!(["A1", "A2"]))).effect(Effect::ReadOnly);
    let shop = Provider::builder("shop").tools([remove, list]).build().unwrap();
    let other = Tool::new("remove", async |_, _| Ok(json!("of another"))).effect(Effect::Additive);
    let unstated = Tool::new("päckchen", async |_, _| Ok(json!(null)));
    let other = Provider::builder("shop_").tools([other, unstated]).build().unwrap();
    let policy = Some(Policy::new().effect(Effect::Destructive, Decision::Ask));
    let exposed = &["shop.remove", "shop_.remove", "shop_.päckchen"];
    serve(vec![shop, other], exposed, ServerOptions::default().policy(policy).layout(Layout::Split))
}

#[tokio::test]
async fn exposed_tools_are_listed_and_called_as_their_own() {
    let server = shop();
    for client in clients(&server).await {
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        let expected =
            ["mcp_search_tools", "mcp_execute_code", "shop_remove", "shop__remove", "shop__p_ckchen_6dd86d81"];
        assert_eq!(names, expected);
        assert_eq!(tools[2].description.as_deref(), Some(r"Removes an order\u200b"));
        let properties = json!({ "id": { "type": "integer", "description": r"Which\u200b" } });
        assert_eq!(tools[2].input_schema["properties"], properties);
        let hints = |at: usize| {
            let annotations = tools[at].annotations.as_ref()?;
            Some((annotations.read_only_hint, annotations.destructive_hint))
        };
        assert_eq!([2, 3, 4].map(hints), [Some((Some(false), Some(true))), Some((Some(false), Some(false))), None]);

        let removed = call(&client, "shop_remove", json!({ "id": 1 })).await;
        assert_eq!(removed.structured_content, Some(json!({ "removed": true })));
        let asked = std::mem::take(&mut *client.service().asked.lock().unwrap());
        let [ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }] = &*asked else {
            panic!("one question: {asked:?}")
        };
        assert!(
            message.starts_with("The client wants to call shop.remove (its server states that it may"),
            "{message}"
        );
        let decisions = &json!(requested_schema)["properties"]["decision"]["oneOf"];
        let decisions: Vec<_> = decisions.as_array().unwrap().iter().map(|decision| &decision["const"]).collect();
        assert_eq!(decisions, ["approve", "approve_session", "refuse"]);
        assert_eq!(text(&call(&client, "shop__remove", json!({})).await), "of another");
        let invalid = call(&client, "shop_remove", json!({ "id": "x" })).await;
        assert!(text(&invalid).starts_with("Invalid input for shop.remove: input.id"), "{}", text(&invalid));
        let error = client.peer().call_tool_once(rmcp::model::CallToolRequestParams::new("shop_list")).await;
        assert!(error.is_err(), "a tool that is not exposed has no name of its own");
    }
}

#[tokio::test]
async fn names_of_exposed_tools_collide_with_no_other() {
    let tool = |name: &str| Tool::new(name, async |_, _| Ok(json!(null)));
    let names = ["search_tools".to_owned(), "a-b".to_owned(), "a_b".to_owned(), "x".repeat(80), "x".repeat(90)];
    let mcp = Provider::builder("mcp").tools(names.iter().map(|name| tool(name))).build().unwrap();
    let server = CodeServer::new(
        Arc::new(InlineExecutor::new().unwrap()),
        All(mcp),
        ServerOptions::default().layout(Layout::Split),
    );
    let tools = server.tools();
    let names: Vec<&str> = tools.iter().skip(2).map(|tool| &*tool.name).collect();
    let [long, longer] = ["cc077e8f", "64765680"].map(|hash| format!("mcp_{}_{hash}", "x".repeat(51)));
    assert_eq!(names, ["mcp_search_tools_1cd73de1", "mcp_a_b_a84463b0", "mcp_a_b", &long, &longer]);
}

/// A provider, all of whose tools are exposed.
struct All(Provider);

impl ProviderSource for All {
    fn providers(&self) -> Vec<Provider> {
        vec![self.0.clone()]
    }

    fn is_exposed(&self, _: &str, _: [&str; 2]) -> bool {
        true
    }
}
