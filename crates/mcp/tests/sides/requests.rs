//! Requests of upstream servers during calls: they reach the client whose program makes the call, and are never answered in
//! its place.

#![allow(deprecated)] // Sampling and roots.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use execbox::{InlineExecutor, Limits};
use execbox_mcp::server::{CodeServer, HttpOptions, HttpServer, ServerOptions};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use execbox_mcp::{Clients, Secrets};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, Implementation, ListRootsResult, ListToolsResult, PaginatedRequestParams, Root,
    RootsCapabilities, SamplingCapability, SamplingMessage, ServerCapabilities, ServerConfig,
};
use rmcp::service::{Peer, RequestContext, RoleClient, RoleServer, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ServerHandler, ServiceExt as _};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fake::{begin, call, tool, until};

/// A server that asks its client: `ask` the user, `think` the model, `look` for directories.
#[derive(Clone, Default)]
struct Asking {
    /// The capabilities that the client offers.
    offered: Arc<Mutex<Option<ClientCapabilities>>>,
}

impl ServerHandler for Asking {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        *self.offered.lock().unwrap() = context.peer.peer_info().map(|info| info.capabilities.clone());
        let tools = ["ask", "think", "look"].map(|name| tool(name, name, json!({ "type": "object" })));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer = match &*request.name {
            "ask" => ask(&context.peer).await,
            "think" => {
                let message = SamplingMessage::user_text("What is six\u{e0041} times seven?");
                let answer = context.peer.create_message(CreateMessageRequestParams::new(vec![message], 100)).await;
                answer.map(|answer| json!(answer))
            }
            _ => context.peer.list_roots().await.map(|answer| json!(answer.roots)),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        Ok(CallToolResult::structured(json!({ "answer": answer })).into())
    }
}

async fn ask(peer: &Peer<RoleServer>) -> Result<Json, rmcp::ServiceError> {
    let name = json!({ "type": "string", "title": "Name\u{1b}[31m", "description": "of hunter22\u{200b}" });
    let schema = json!({ "type": "object", "properties": { "name": name } });
    let requested_schema = serde_json::from_value(schema).unwrap();
    let message = "Which name has hunter22?\u{1b}[2J\u{202e}".to_owned();
    let form = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    peer.create_elicitation(form).await.map(|answer| json!(answer))
}

/// A client that offers all capabilities, or none.
#[derive(Clone, Default)]
struct Asked {
    offers: bool,
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
        let upstream = Arc::<OnceLock<Upstream>>::default();
        let source = Arc::clone(&upstream);
        let providers = move || source.get().map(Upstream::provider).into_iter().collect();
        let options = ServerOptions { clients: clients.clone(), limits, ..ServerOptions::default() };
        let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), providers, options);
        Self { server, asking: Asking::default(), upstream, clients }
    }

    /// Connects to the upstream server, whose calls may take 1 s.
    async fn open(&self) {
        let asking = self.asking.clone();
        let connect = move || {
            let (near, far) = tokio::io::duplex(1 << 16);
            let asking = asking.clone();
            tokio::spawn(async move { asking.serve(far).await.unwrap().waiting().await });
            near
        };
        let options = UpstreamOptions {
            clients: self.clients.clone(),
            call_timeout: Duration::from_secs(1),
            secrets: Secrets::new([("KEY".to_owned(), "hunter22".to_owned())]),
            ..UpstreamOptions::default()
        };
        assert!(self.upstream.set(Upstream::open_stream("crm", connect, options).await.unwrap()).is_ok());
    }

    async fn connect(&self, client: &Asked) -> RunningService<RoleClient, Asked> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = self.server.clone();
        tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
        client.clone().serve(near).await.unwrap()
    }
}

/// A gateway for one client, over a stream.
async fn one(client: &Asked, limits: Limits) -> (Gateway, RunningService<RoleClient, Asked>) {
    let gateway = Gateway::new(Clients::one(), limits);
    // The server starts before the client has connected.
    let ((), connected) = tokio::join!(Box::pin(gateway.open()), Box::pin(gateway.connect(client)));
    (gateway, connected)
}

const ASK_ALL: &str =
    "const all = []; for (const tool of ['ask', 'think', 'look']) all.push((await crm[tool]({})).answer); return all;";

async fn run(client: &RunningService<RoleClient, Asked>, code: &str) -> Json {
    let result = call(client, "mcp_execute_code", json!({ "code": code })).await.structured_content.unwrap();
    result.get("result").unwrap_or(&result).clone()
}

#[tokio::test]
async fn requests_of_servers_reach_the_client() {
    let client = Asked { offers: true, ..Asked::default() };
    let (gateway, connected) = one(&client, Limits::default()).await;
    let offered = gateway.asking.offered.lock().unwrap().clone().unwrap();
    let expected = json!({ "roots": {}, "sampling": {}, "elicitation": {} });
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

/// While the user is asked, neither the timeout of the call nor that of the program ends the call.
#[tokio::test]
async fn time_in_which_a_user_is_asked_does_not_count() {
    let answer = Arc::new(Notify::new());
    let client = Asked { offers: true, answer: Some(Arc::clone(&answer)), ..Asked::default() };
    let (_gateway, connected) = one(&client, Limits { timeout: Duration::from_secs(1), ..Limits::default() }).await;
    let answers = tokio::join!(run(&connected, "return (await crm.ask({})).answer.action"), async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        answer.notify_one();
    });
    assert_eq!(answers.0, "accept");
}

#[tokio::test]
async fn the_end_of_a_program_withdraws_what_its_servers_ask() {
    let client = Asked { offers: true, answer: Some(Arc::default()), ..Asked::default() };
    let (_gateway, connected) = one(&client, Limits::default()).await;
    let handle = begin(&connected, "mcp_execute_code", "await crm.ask({})").await;
    until(|| !client.questions.lock().unwrap().is_empty()).await;
    handle.cancel(None).await.unwrap();
    client.withdrawn.notified().await;
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
