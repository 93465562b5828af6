//! MCP servers with tools that tests choose, and clients that record notifications.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{InlineExecutor, Limits, Provider};
use execbox_mcp::server::{CodeServer, ServerOptions};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, Resource, ResourceContents,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RequestContext, RequestHandle, RoleClient, RoleServer,
    RunningService, SubscriptionContext,
};
use rmcp::{ClientHandler, ServerHandler, ServiceExt as _};
use serde_json::{Value as Json, json};
use tokio::io::DuplexStream;
use tokio::sync::Notify;

pub(crate) fn tool(name: &str, description: &str, input: Json) -> Tool {
    let Json::Object(input) = input else { panic!("a schema is an object") };
    Tool::new_with_raw(name.to_owned(), Some(description.to_owned().into()), input)
}

/// A server. `echo` returns its arguments as structured content, `fail` fails, `slow` waits until it is cancelled, `die`
/// closes the connection, `media` returns content other than text, every other tool returns a text.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) tools: Arc<Mutex<Vec<Tool>>>,
    pub(crate) page: usize,
    pub(crate) started: Arc<Notify>,
    pub(crate) cancelled: Arc<Notify>,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) kill: Arc<Notify>,
    pub(crate) peer: Arc<Mutex<Option<Peer<RoleServer>>>>,
    /// Whether it supports protocol 2026-07-28 only.
    pub(crate) newest: bool,
    /// Notified by the test when tools changed, for protocol 2026-07-28.
    pub(crate) news: Arc<Notify>,
    pub(crate) listeners: Arc<Notify>,
}

impl Fake {
    pub(crate) fn new(tools: Vec<Tool>) -> Self {
        Self { tools: Arc::new(Mutex::new(tools)), page: 1_000, ..Self::default() }
    }

    /// A server with `echo`, `fail`, `slow` and `die`.
    pub(crate) fn standard() -> Self {
        let any = || json!({ "type": "object" });
        Self::new(vec![
            tool("echo", "Gives back what it gets", json!({ "type": "object", "properties": { "text": {} } })),
            tool("fail", "Fails", any()),
            tool("slow", "Takes for ever", any()),
            tool("die", "Ends", any()),
        ])
    }

    /// A stream to a new instance of the server.
    pub(crate) fn connect(&self) -> DuplexStream {
        let (near, mut client_end) = tokio::io::duplex(1 << 16);
        let (mut server_end, far) = tokio::io::duplex(1 << 16);
        let (fake, kill) = (self.clone(), Arc::clone(&self.kill));
        tokio::spawn(async move {
            // Both directions close at once, as when a process ends.
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut client_end, &mut server_end) => {}
                () = kill.notified() => {}
            }
        });
        self.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let peer = Arc::clone(&fake.peer);
            let Ok(service) = fake.serve(far).await else { return };
            *peer.lock().unwrap() = Some(service.peer().clone());
            let _ = service.waiting().await;
        });
        near
    }

    pub(crate) async fn open(&self, name: &str, options: UpstreamOptions) -> Upstream {
        let fake = self.clone();
        Upstream::open_stream(name, move || fake.connect(), options).await.unwrap()
    }

    /// Notifies the client that the tools changed.
    pub(crate) async fn changed(&self) {
        let peer = self.peer.lock().unwrap().clone().unwrap();
        peer.notify_tool_list_changed().await.unwrap();
    }
}

impl ServerHandler for Fake {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.newest {
            true => Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]),
            false => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.listeners.notify_one();
        self.news.notified().await;
        subscription.sink().notify_tool_list_changed().await.unwrap();
        subscription.cancelled().await;
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let from: usize = request.and_then(|page| page.cursor).map_or(0, |cursor| cursor.parse().unwrap());
        let tools = self.tools.lock().unwrap();
        let page: Vec<Tool> = tools.iter().skip(from).take(self.page).cloned().collect();
        let next = (from + page.len() < tools.len()).then(|| (from + page.len()).to_string());
        let mut result = ListToolsResult::with_all_items(page);
        result.next_cursor = next;
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(match &*request.name {
            "echo" => CallToolResult::structured(Json::Object(request.arguments.unwrap_or_default())),
            "fail" => CallToolResult::error(vec![ContentBlock::text("no such thing")]),
            "half" => CallToolResult::structured(match request.arguments.unwrap_or_default().get("of") {
                Some(Json::Number(of)) => json!({ "half": of.as_f64().unwrap() / 2.0 }),
                of => json!({ "half": of }), // Violates the output schema.
            }),
            "silent" => CallToolResult::success(vec![]),
            "slow" => {
                self.started.notify_one();
                context.ct.cancelled().await;
                self.cancelled.notify_one();
                CallToolResult::success(vec![])
            }
            "die" => {
                self.kill.notify_one();
                std::future::pending().await
            }
            "media" => CallToolResult::success(vec![
                ContentBlock::image("aW1hZ2U=", "image/png"),
                ContentBlock::resource(ResourceContents::text("words", "demo://text")),
                ContentBlock::resource_link(Resource::new("demo://link", "linked")),
            ]),
            "huge" => CallToolResult::success(vec![ContentBlock::text("x".repeat(1 << 20))]),
            name => CallToolResult::success(vec![ContentBlock::text(format!("called {name}"))]),
        }
        .into())
    }
}

/// A client that records progress and counts notifications of changed tools.
#[derive(Clone, Default)]
pub(crate) struct Listener {
    pub(crate) progress: Arc<Mutex<Vec<String>>>,
    pub(crate) changes: Arc<AtomicUsize>,
}

impl ClientHandler for Listener {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().unwrap().push(params.message.unwrap_or_default());
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

/// A client of a code server with the providers that `providers` returns.
pub(crate) async fn client(
    providers: impl Fn() -> Vec<Provider> + Send + Sync + 'static,
    options: ServerOptions,
) -> (RunningService<RoleClient, Listener>, Listener) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), providers, options);
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    let listener = Listener::default();
    (listener.clone().serve(near).await.unwrap(), listener)
}

/// A code server with the tools of a fake, and with a timeout that no test reaches.
pub(crate) async fn code_server(fake: &Fake) -> CodeServer {
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let executor = Arc::new(InlineExecutor::new().unwrap());
    let limits = Limits { timeout: Duration::from_hours(1), ..Limits::default() };
    CodeServer::new(executor, move || vec![upstream.provider()], ServerOptions { limits, ..ServerOptions::default() })
}

/// Waits until a condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn call(client: &Peer<RoleClient>, name: &str, arguments: Json) -> CallToolResult {
    let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
    client.call_tool(CallToolRequestParams::new(name.to_owned()).with_arguments(arguments)).await.unwrap()
}

/// Starts a call that runs code.
pub(crate) async fn begin(client: &Peer<RoleClient>, name: &str, code: &str) -> RequestHandle<RoleClient> {
    let Json::Object(arguments) = json!({ "code": code }) else { unreachable!("arguments are an object") };
    let request = CallToolRequest::new(CallToolRequestParams::new(name.to_owned()).with_arguments(arguments));
    let request = ClientRequest::CallToolRequest(request);
    client.send_request_with_option(request, PeerRequestOptions::no_options()).await.unwrap()
}

pub(crate) fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}
