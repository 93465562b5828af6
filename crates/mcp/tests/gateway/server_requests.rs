//! Requests of upstream servers during calls: they reach the client whose program makes the call, and are never answered in
//! its place.

#![allow(deprecated)] // Sampling and roots.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use execbox::policy::{Decision, Policy};
use execbox::{InlineExecutor, Limits};
use execbox_mcp::server::{CodeServer, HttpOptions, HttpServer, Layout, ServerOptions};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use execbox_mcp::{Clients, Secrets};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, Implementation, InputRequest, InputRequiredResult, InputResponses,
    ListRootsRequest, ListRootsResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, Request, Root,
    RootsCapabilities, SamplingCapability, SamplingMessage, ServerCapabilities, ServerConfig,
};
use rmcp::service::{ClientServiceExt as _, RequestContext, RoleClient, RoleServer, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ServerHandler, ServiceExt as _};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fakes::{begin, call, tool, until};
use crate::http::both_generations;

/// A server that asks its client: `ask` the user, `think` the model, `look` for directories. `wait` wants to be called three
/// times, `stall` for ever. `weigh` wants to be called twice: its first result has 400 000 values more, and waits for the second
/// calls of those before. `nag` asks the user as often as it is called, `count` questions at once.
#[derive(Clone, Default)]
struct Asking {
    /// Whether it speaks MCP 2026-07-28, or an older version.
    is_modern: bool,
    /// The capabilities that the client offers, and those that it stated in its last call.
    offered: Arc<Mutex<Option<ClientCapabilities>>>,
    stated: Arc<Mutex<Option<ClientCapabilities>>>,
    /// How often `weigh` was called for the first time, and for the second time.
    weighed: Arc<[AtomicUsize; 2]>,
}

impl ServerHandler for Asking {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.is_modern {
            true => Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]),
            false => Cow::Borrowed(&[ProtocolVersion::V_2025_06_18]),
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = context.peer.peer_info().map(|info| info.capabilities.clone());
        *self.offered.lock().unwrap() = offered.or(context.meta.client_capabilities());
        let tools = ["ask", "think", "look", "wait", "nag", "stall", "weigh"]
            .map(|name| tool(name, name, json!({ "type": "object" })));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        *self.stated.lock().unwrap() = context.meta.client_capabilities();
        if self.is_modern && request.name == "weigh" {
            return Ok(self.weigh(&request).await);
        }
        if self.is_modern {
            return Ok(asked(request));
        }
        let answer = match &*request.name {
            "ask" => context.peer.create_elicitation(form()).await.map(|answer| json!(answer)),
            "think" => context.peer.create_message(thought()).await.map(|answer| json!(answer)),
            _ => context.peer.list_roots().await.map(|answer| json!(answer.roots)),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        Ok(CallToolResult::structured(json!({ "answer": answer })).into())
    }
}

impl Asking {
    async fn weigh(&self, request: &CallToolRequestParams) -> CallToolResponse {
        let [first, second] = &*self.weighed;
        if request.request_state.is_some() {
            second.fetch_add(1, Ordering::SeqCst);
            until(|| second.load(Ordering::SeqCst) == 40).await;
            return CallToolResult::structured(json!({})).into();
        }
        let before = first.fetch_add(1, Ordering::SeqCst);
        until(|| second.load(Ordering::SeqCst) >= before).await;
        let values = json!({ "test/values": vec![0; 400_000] });
        let meta = serde_json::from_value(values).unwrap();
        InputRequiredResult::from_request_state("weighed").with_meta(meta).into()
    }
}

/// The answer to a call, or what has to be answered before. The state has spaces and text that JSON escapes.
fn asked(request: CallToolRequestParams) -> CallToolResponse {
    let state = format!(" {}\t\u{e9}\"", request.name);
    if request.name == "nag" {
        let kinds = request.arguments.unwrap_or_default();
        let count = kinds.get("count").and_then(Json::as_u64).unwrap_or(1);
        let input = |at| (format!("key {at}"), InputRequest::Elicitation(Request::new(form())));
        return InputRequiredResult::from_input_requests((0..count).map(input).collect()).into();
    }
    if request.name == "stall" {
        return InputRequiredResult::from_request_state("later").into();
    }
    let input = match &*request.name {
        "ask" => InputRequest::Elicitation(Request::new(form())),
        "think" => InputRequest::CreateMessage(Request::new(thought())),
        "look" => InputRequest::ListRoots(ListRootsRequest::default()),
        _ => {
            let rounds = request.request_state.unwrap_or_default() + ".";
            return match (&*rounds, request.input_responses) {
                ("...", None) => CallToolResult::structured(json!({ "answer": rounds })).into(),
                (_, None) => InputRequiredResult::from_request_state(rounds).into(),
                (_, Some(_)) => panic!("answers that nobody asked for"),
            };
        }
    };
    match request.input_responses {
        Some(answers) => {
            assert_eq!(request.request_state.as_deref(), Some(&*state));
            let answer = &answers["key"];
            let answer = answer.get("roots").unwrap_or(answer);
            CallToolResult::structured(json!({ "answer": answer })).into()
        }
        None => InputRequiredResult::new(Some([("key".to_owned(), input)].into()), Some(state)).into(),
    }
}

fn form() -> ElicitRequestParams {
    let name = json!({ "type": "string", "title": "Name\u{1b}[31m", "description": "of hunter22\u{200b}" });
    let schema = json!({ "type": "object", "properties": { "name": name } });
    let requested_schema = serde_json::from_value(schema).unwrap();
    let message = "Which name has hunter22?\u{1b}[2J\u{202e}".to_owned();
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

fn thought() -> CreateMessageRequestParams {
    CreateMessageRequestParams::new(vec![SamplingMessage::user_text("What is six\u{e0041} times seven?")], 100)
}

/// A client that offers all capabilities, or none.
#[derive(Clone, Default)]
struct Asked {
    offers: bool,
    /// Whether it speaks MCP 2026-07-28, or an older version.
    is_modern: bool,
    questions: Arc<Mutex<Vec<String>>>,
    /// The forms of the questions, and the requests for the model.
    shown: Arc<Mutex<Vec<Json>>>,
    /// The user does not answer before this is notified.
    answer: Option<Arc<Notify>>,
    withdrawn: Arc<Notify>,
}

impl ClientHandler for Asked {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.offers {
            capabilities.elicitation = Some(ElicitationCapability::default());
            capabilities.sampling = Some(SamplingCapability::default());
            let mut roots = RootsCapabilities::default();
            roots.list_changed = Some(true);
            capabilities.roots = Some(roots);
        }
        ClientConfig::new(capabilities, Implementation::new("asked", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            panic!("a form")
        };
        self.questions.lock().unwrap().push(message);
        self.shown.lock().unwrap().push(json!(requested_schema));
        if let Some(answer) = &self.answer {
            tokio::select! {
                () = answer.notified() => {}
                () = context.ct.cancelled() => self.withdrawn.notify_one(),
            }
        }
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "name": "Ada" })))
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.shown.lock().unwrap().push(json!(request.messages));
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("42"), "a model".to_owned()))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///work")]))
    }
}

struct Gateway {
    server: CodeServer,
    asking: Asking,
    upstream: Arc<OnceLock<Upstream>>,
    clients: Clients,
}

impl Gateway {
    fn new(clients: Clients, limits: Limits) -> Self {
        Self::of(Asking::default(), clients, limits)
    }

    fn of(asking: Asking, clients: Clients, limits: Limits) -> Self {
        Self::with(asking, ServerOptions::default().clients(clients).limits(limits))
    }

    fn with(asking: Asking, options: ServerOptions) -> Self {
        let upstream = Arc::<OnceLock<Upstream>>::default();
        let source = Arc::clone(&upstream);
        let providers = move || source.get().map(Upstream::provider).into_iter().collect();
        let clients = options.clients.clone();
        let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), providers, options);
        Self { server, asking, upstream, clients }
    }

    /// Connects to the upstream server, whose calls may take 1 s.
    async fn open(&self) {
        self.open_within(Duration::from_secs(1)).await;
    }

    /// The same, whose calls may take this time.
    async fn open_within(&self, call_timeout: Duration) {
        let asking = self.asking.clone();
        let connect = move || {
            let (near, far) = tokio::io::duplex(1 << 16);
            let asking = asking.clone();
            tokio::spawn(async move { asking.serve(far).await.unwrap().waiting().await });
            near
        };
        let options = UpstreamOptions::default()
            .clients(self.clients.clone())
            .call_timeout(call_timeout)
            .secrets(Secrets::new([("KEY".to_owned(), "hunter22".to_owned())]));
        assert!(self.upstream.set(Upstream::open_stream("crm", connect, options).await.unwrap()).is_ok());
    }

    async fn connect(&self, client: &Asked) -> RunningService<RoleClient, Asked> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = self.server.clone();
        tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
        let [older, newest] = both_generations();
        let lifecycle = if client.is_modern { newest } else { older };
        client.clone().serve_with_lifecycle(near, lifecycle).await.unwrap()
    }
}

/// A gateway for one client, over a stream.
async fn one(client: &Asked, limits: Limits) -> (Gateway, RunningService<RoleClient, Asked>) {
    one_before(Asking::default(), client, limits).await
}

/// The same with this upstream server.
async fn one_before(asking: Asking, client: &Asked, limits: Limits) -> (Gateway, RunningService<RoleClient, Asked>) {
    let gateway = Gateway::of(asking, Clients::one(), limits);
    // The server starts before the client has connected.
    let ((), connected) = tokio::join!(Box::pin(gateway.open()), Box::pin(gateway.connect(client)));
    (gateway, connected)
}

const ASK_ALL: &str = "
    const all = [];
    for (const tool of ['ask', 'think', 'look']) {
        all.push(await crm[tool]({}).then((result) => result.answer, (error) => error.message));
    }
    return all;
";

async fn run(client: &RunningService<RoleClient, Asked>, code: &str) -> Json {
    let result = call(client, "mcp_execute_code", json!({ "code": code })).await.structured_content.unwrap();
    result.get("result").unwrap_or(&result).clone()
}

#[tokio::test]
async fn requests_of_servers_reach_the_client() {
    for [server_is_modern, client_is_modern] in [[false, false], [false, true], [true, false], [true, true]] {
        let asking = Asking { is_modern: server_is_modern, ..Asking::default() };
        requests_reach_the_client(asking, Asked { offers: true, is_modern: client_is_modern, ..Asked::default() })
            .await;
    }
}

async fn requests_reach_the_client(asking: Asking, client: Asked) {
    let (gateway, connected) = one_before(asking, &client, Limits::default()).await;
    let offered = gateway.asking.offered.lock().unwrap().clone().unwrap();
    let mut expected = json!({ "sampling": {}, "elicitation": {} });
    if !client.is_modern {
        expected["roots"] = json!({}); // The others can be asked during calls only.
    }
    assert_eq!(serde_json::to_value(offered).unwrap(), expected, "what the client offers");
    let answers = run(&connected, ASK_ALL).await;
    assert_eq!(answers[0], json!({ "action": "accept", "content": { "name": "Ada" } }));
    assert_eq!(answers[1]["content"], json!({ "type": "text", "text": "42" }));
    assert_eq!(answers[2][0]["uri"], "file:///work");
    let question = "The server \"crm\" asks:\n\nWhich name has ${KEY}?\\u001b[2J\\u202e";
    assert_eq!(*client.questions.lock().unwrap(), [question], "with its name, escaped, and without secrets");
    let shown = client.shown.lock().unwrap();
    let name = json!({ "type": "string", "title": "Name\\u001b[31m", "description": "of ${KEY}\\u200b" });
    assert_eq!(shown[0]["properties"]["name"], name);
    assert!(shown[1].to_string().contains(r"six\\u{e0041} times"), "{}", shown[1]);
}

#[tokio::test]
async fn servers_are_offered_nothing_that_the_client_does_not_offer() {
    let (gateway, connected) = one(&Asked::default(), Limits::default()).await;
    assert_eq!(*gateway.asking.offered.lock().unwrap(), Some(ClientCapabilities::default()));
    let answers = run(&connected, ASK_ALL).await;
    for answer in answers.as_array().unwrap() {
        assert!(answer["error"].is_string(), "an error, not a refusal of the user: {answer}");
    }
}

#[tokio::test]
async fn servers_do_not_wait_for_a_client_that_is_absent() {
    let gateway = Gateway::new(Clients::one(), Limits::default());
    gateway.clients.set_absent();
    gateway.open().await;
    assert_eq!(*gateway.asking.offered.lock().unwrap(), Some(ClientCapabilities::default()));
}

/// A server may want to be called again without asking anything.
#[tokio::test]
async fn a_call_is_made_again_with_the_state_that_its_server_wants() {
    let asking = Asking { is_modern: true, ..Asking::default() };
    let (_gateway, connected) = one_before(asking, &Asked::default(), Limits::default()).await;
    let answers = run(&connected, "return Promise.all([crm.wait({}), crm.wait({})])").await;
    assert_eq!(answers, json!([{ "answer": "..." }, { "answer": "..." }]));
}

#[tokio::test]
async fn calls_fail_whose_input_nobody_can_supply() {
    let asking = Asking { is_modern: true, ..Asking::default() };
    let (_gateway, connected) = one_before(asking, &Asked::default(), Limits::default()).await;
    let failed = run(&connected, "await crm.ask({})").await;
    let message = failed["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(
        message, "crm.ask failed (line 1): the MCP server requires further input: the client cannot ask its user",
        "{failed}"
    );
}

#[tokio::test]
async fn servers_do_not_ask_without_an_end() {
    let asking = Asking { is_modern: true, ..Asking::default() };
    let client = Asked { offers: true, ..Asked::default() };
    let (_gateway, connected) = one_before(asking, &client, Limits::default()).await;
    let failure = async |code: &str| run(&connected, code).await["error"]["message"].as_str().unwrap().to_owned();
    let required = "failed (line 1): the MCP server requires further input:";
    assert_eq!(failure("await crm.nag({})").await, format!("crm.nag {required} it has asked 10 times"));
    assert_eq!(client.questions.lock().unwrap().len(), 10);
    assert_eq!(failure("await crm.nag({ count: 9 })").await, format!("crm.nag {required} more than 8 answers at once"));
    assert_eq!(client.questions.lock().unwrap().len(), 10, "no question is asked");
    let stalled = failure("await crm.stall({})").await;
    assert_eq!(stalled, "crm.stall failed (line 1): no response within 1s");
}

/// Otherwise, each call of a program could keep as much as one answer may have.
#[tokio::test]
async fn what_servers_send_between_the_requests_of_a_call_is_charged() {
    let asking = Asking { is_modern: true, ..Asking::default() };
    let gateway = Gateway::of(asking, Clients::one(), Limits::default().timeout(Duration::from_mins(10)));
    gateway.clients.set_absent();
    gateway.open_within(Duration::from_mins(10)).await;
    let connected = gateway.connect(&Asked::default()).await;
    // Nothing waits for the other calls.
    let calls = "throw await Promise.race(Array.from({ length: 40 }, () => crm.weigh({}).catch((error) => error)))";
    let first = run(&connected, calls).await.to_string();
    assert!(first.contains("too many large responses at once"), "{first}");
}

/// Clients of MCP 2026-07-28 get them in one result.
#[tokio::test]
async fn questions_at_the_same_time_are_asked_together() {
    let client = Asked { offers: true, is_modern: true, ..Asked::default() };
    let (_gateway, connected) = one(&client, Limits::default()).await;
    let ask =
        json!({ "code": "const all = await Promise.all([crm.ask({}), crm.ask({}), crm.ask({})]); return all.length" });
    let Json::Object(arguments) = ask else { unreachable!("arguments are an object") };
    let mut call = CallToolRequestParams::new("mcp_execute_code").with_arguments(arguments);
    let response = connected.peer().call_tool_once(call.clone()).await.unwrap();
    let CallToolResponse::InputRequired(asked) = response else { panic!("no question: {response:?}") };
    let requests = asked.input_requests.unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["request1", "request2", "request3"]);
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    call.input_responses = Some(requests.into_keys().map(|key| (key, answer.clone())).collect());
    call.request_state = asked.request_state;
    let response = connected.peer().call_tool_once(call).await.unwrap();
    let CallToolResponse::Complete(result) = response else { panic!("no result: {response:?}") };
    assert_eq!(result.structured_content.unwrap()["result"], 3);
}

/// While the user is asked, neither the timeout of the call nor that of the program ends the call.
#[tokio::test]
async fn time_in_which_a_user_is_asked_does_not_count() {
    for is_modern in [false, true] {
        let answer = Arc::new(Notify::new());
        let client = Asked { offers: true, is_modern, answer: Some(Arc::clone(&answer)), ..Asked::default() };
        let (asking, timeout) = (Asking { is_modern, ..Asking::default() }, Duration::from_secs(1));
        let (_gateway, connected) = one_before(asking, &client, Limits::default().timeout(timeout)).await;
        let answers = tokio::join!(run(&connected, "return (await crm.ask({})).answer.action"), async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            answer.notify_one();
        });
        assert_eq!(answers.0, "accept");
    }
}

#[tokio::test]
async fn the_end_of_a_program_withdraws_what_its_servers_ask() {
    for is_modern in [false, true] {
        let client = Asked { offers: true, answer: Some(Arc::default()), ..Asked::default() };
        let asking = Asking { is_modern, ..Asking::default() };
        let (_gateway, connected) = one_before(asking, &client, Limits::default()).await;
        let handle = begin(&connected, "mcp_execute_code", "await crm.ask({})").await;
        until(|| !client.questions.lock().unwrap().is_empty()).await;
        handle.cancel(None).await.unwrap();
        client.withdrawn.notified().await;
    }
}

/// A request of a server does not name the call that it belongs to.
#[tokio::test]
async fn over_http_a_server_reaches_the_client_whose_calls_alone_are_in_progress() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let gateway = Gateway::new(Clients::many(), Limits::default());
    gateway.open().await;
    let offered = gateway.asking.offered.lock().unwrap().clone().unwrap();
    assert_eq!(serde_json::to_value(offered).unwrap(), json!({ "elicitation": {} }));
    let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
    let url = http.url();
    tokio::spawn(http.serve(gateway.server.clone(), CancellationToken::new()));
    let answer = Arc::new(Notify::new());
    let asked = Asked { offers: true, answer: Some(Arc::clone(&answer)), ..Asked::default() };
    let (one, other) = (asked.clone(), Asked { offers: true, ..Asked::default() });
    let one = one.serve(StreamableHttpClientTransport::from_uri(url.clone())).await.unwrap();
    let two = other.clone().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap();
    let first = begin(&one, "mcp_execute_code", "return (await crm.ask({})).answer").await;
    until(|| !asked.questions.lock().unwrap().is_empty()).await;
    let ambiguous = run(&two, "return (await crm.ask({})).answer").await;
    assert!(
        ambiguous["error"].as_str().unwrap().contains("calls of several clients, or none, are in progress"),
        "{ambiguous}"
    );
    assert!(other.questions.lock().unwrap().is_empty());
    answer.notify_one();
    let rmcp::model::ServerResult::CallToolResult(result) = first.await_response().await.unwrap() else { panic!() };
    assert_eq!(result.structured_content.unwrap()["result"]["action"], "accept");
    assert_eq!(run(&two, "return (await crm.ask({})).answer.action").await, "accept");
}

/// A result that requires input belongs to its call: servers may ask for all that the client of the call offers.
#[tokio::test]
async fn over_http_modern_servers_reach_each_client() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let gateway = Gateway::of(Asking { is_modern: true, ..Asking::default() }, Clients::many(), Limits::default());
    gateway.open().await;
    let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
    let url = http.url();
    tokio::spawn(http.serve(gateway.server.clone(), CancellationToken::new()));
    let stated = || serde_json::to_value(gateway.asking.stated.lock().unwrap().take()).unwrap();
    for (is_modern, lifecycle) in [false, true].into_iter().zip(both_generations()) {
        let connect = async |asked: &Asked| {
            let transport = StreamableHttpClientTransport::from_uri(url.clone());
            asked.clone().serve_with_lifecycle(transport, lifecycle.clone()).await.unwrap()
        };
        let silent = Asked { offers: true, is_modern, answer: Some(Arc::default()), ..Asked::default() };
        let asked = Asked { offers: true, is_modern, ..Asked::default() };
        let [one, two, three] = [connect(&silent).await, connect(&asked).await, connect(&Asked::default()).await];
        let _waiting = tokio::spawn(async move { run(&one, "return (await crm.ask({})).answer").await });
        until(|| !silent.questions.lock().unwrap().is_empty()).await;
        assert_eq!(run(&two, "return (await crm.ask({})).answer.action").await, "accept");
        assert_eq!((silent.questions.lock().unwrap().len(), asked.questions.lock().unwrap().len()), (1, 1));
        assert_eq!(run(&two, "return (await crm.think({})).answer.content.text").await, "42");
        let expected = match is_modern {
            true => json!({ "roots": {}, "sampling": {}, "elicitation": {} }),
            false => json!({ "sampling": {}, "elicitation": {} }),
        };
        assert_eq!(stated(), expected);
        assert!(run(&three, "await crm.ask({})").await.to_string().contains("the client cannot ask its user"));
        assert_eq!(stated(), json!({}));
    }
}

/// Calls `crm.ask` without code. What the server requires, and the answer of the user or its error.
async fn asked_without_code(
    connected: &RunningService<RoleClient, Asked>,
    state: Option<String>,
    answers: Option<InputResponses>,
) -> Result<CallToolResponse, ServiceError> {
    let Json::Object(arguments) = json!({ "tool": "crm.ask" }) else { unreachable!("arguments are an object") };
    let mut call = CallToolRequestParams::new("mcp_call_tool").with_arguments(arguments);
    (call.request_state, call.input_responses) = (state, answers);
    connected.peer().call_tool_once(call).await
}

fn answered(response: Result<CallToolResponse, ServiceError>) -> Json {
    let Ok(CallToolResponse::Complete(result)) = response else { panic!("no result: {response:?}") };
    result.structured_content.unwrap()["answer"].clone()
}

/// The requirements of a server are those of its client, with the keys and the state of the server, and the client answers them
/// without the gateway.
#[tokio::test]
async fn calls_without_code_get_what_their_servers_require() {
    let asking = Asking { is_modern: true, ..Asking::default() };
    let options = ServerOptions::default().clients(Clients::one()).layout(Layout::Passthrough);
    let gateway = Gateway::with(asking, options);
    let client = Asked { offers: true, is_modern: true, ..Asked::default() };
    let ((), connected) = tokio::join!(Box::pin(gateway.open()), Box::pin(gateway.connect(&client)));
    let response = asked_without_code(&connected, None, None).await;
    let Ok(CallToolResponse::InputRequired(required)) = response else { panic!("no question: {response:?}") };
    let state = required.request_state;
    assert_eq!(state.as_deref(), Some(" ask\t\u{e9}\""), "that of the server");
    let asked = json!(required.input_requests)["key"]["params"]["message"].clone();
    assert_eq!(asked, "The server \"crm\" asks:\n\nWhich name has ${KEY}?\\u001b[2J\\u202e");
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let answers: InputResponses = [("key".to_owned(), answer.clone())].into();
    for _ in 0..2 {
        let response = asked_without_code(&connected, state.clone(), Some(answers.clone())).await;
        assert_eq!(answered(response), answer, "the server decides whether a state is valid twice");
    }
    // A client that cannot be asked: the call fails.
    let connected = gateway.connect(&Asked { is_modern: true, ..Asked::default() }).await;
    let response = asked_without_code(&connected, None, None).await;
    let Ok(CallToolResponse::Complete(result)) = response else { panic!("{response:?}") };
    assert!(json!(result).to_string().contains("the client cannot ask its user"), "{result:?}");
}

/// An approval is valid for one call: what its server requires then is part of the same call, and answers are not passed on that
/// nobody asked for.
#[tokio::test]
async fn an_approved_call_without_code_keeps_its_approval() {
    let asking = Asking { is_modern: true, ..Asking::default() };
    let policy = Some(Policy::new().rule(|_| Some(Decision::Ask)));
    let options = ServerOptions::default().clients(Clients::one()).layout(Layout::Passthrough).policy(policy);
    let gateway = Gateway::with(asking, options);
    let client = Asked { offers: true, is_modern: true, ..Asked::default() };
    let ((), connected) = tokio::join!(Box::pin(gateway.open()), Box::pin(gateway.connect(&client)));
    let unasked: InputResponses =
        [("key".to_owned(), json!({ "action": "accept", "content": { "name": "Eve" } }))].into();
    let (mut state, mut answers, mut questions) = (None, Some(unasked), Vec::new());
    let response = loop {
        match asked_without_code(&connected, state, answers).await {
            Ok(CallToolResponse::InputRequired(required)) => {
                let (key, request) = required.input_requests.unwrap().pop_first().unwrap();
                questions.push(json!(request)["params"]["message"].as_str().unwrap().to_owned());
                let content = json!({ "decision": "approve", "name": "Ada" });
                answers = Some([(key, json!({ "action": "accept", "content": content }))].into());
                state = required.request_state;
            }
            response => break response,
        }
    };
    assert_eq!(answered(response)["content"]["name"], "Ada");
    assert_eq!(questions.len(), 2, "{questions:?}");
    assert!(questions[0].starts_with("The client wants to call crm.ask"), "{questions:?}");
    assert!(questions[1].starts_with("The server \"crm\" asks:"), "{questions:?}");
}
