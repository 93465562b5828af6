//! MCP servers with tools that tests choose, and clients that record notifications.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use execbox::{InlineExecutor, Limits, Provider};
use execbox_mcp::server::{CodeServer, ServerOptions};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ContentBlock, ErrorData, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
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

/// A server. `echo` returns its arguments as structured content, `fail` fails, `slow` waits until it is cancelled, `import`
/// reports progress until `heard` is notified, `die` closes the connection, `media` returns content other than text, every
/// other tool returns a text.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) tools: Arc<Mutex<Vec<Tool>>>,
    pub(crate) page: usize,
    pub(crate) started: Arc<Notify>,
    /// How many calls of `slow` have started.
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) cancelled: Arc<Notify>,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Ends a call of `import`.
    pub(crate) heard: Arc<Notify>,
    pub(crate) kill: Arc<Notify>,
    pub(crate) peer: Arc<Mutex<Option<Peer<RoleServer>>>>,
    /// Whether the server has resources.
    pub(crate) has_resources: bool,
    /// Whether the list of resources is still empty.
    pub(crate) has_no_resources_yet: Arc<AtomicBool>,
    /// Whether the server supports protocol 2026-07-28 only.
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
        let mut capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        capabilities.resources = self.has_resources.then(Default::default);
        ServerConfig::new(capabilities)
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

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let is_first = request.and_then(|page| page.cursor).is_none();
        if self.has_no_resources_yet.load(Ordering::SeqCst) {
            return Ok(ListResourcesResult::default());
        }
        let uri = if is_first { "demo://text" } else { "demo://json" };
        let mut list = ListResourcesResult::with_all_items(vec![Resource::new(uri, "one")]);
        list.next_cursor = is_first.then(|| "2".to_owned());
        Ok(list)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if self.has_no_resources_yet.load(Ordering::SeqCst) {
            return Ok(ListResourceTemplatesResult::default());
        }
        Ok(ListResourceTemplatesResult::with_all_items(vec![ResourceTemplate::new("demo://{id}", "by id")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let contents = match &*uri {
            "demo://text" => vec![ResourceContents::text("words of hunter22", uri)],
            "demo://json" => vec![ResourceContents::text(r#"{"tools": [1]}"#, uri).with_mime_type("application/json")],
            "demo://image" => vec![ResourceContents::blob("aW1hZ2U=", uri).with_mime_type("image/png")],
            "demo://two" => vec![ResourceContents::text("1", "demo://1"), ResourceContents::text("2", "demo://2")],
            "demo://huge" => vec![ResourceContents::text("x".repeat(1 << 20), uri)],
            _ => return Err(ErrorData::resource_not_found(format!("there is no {uri}"), None)),
        };
        Ok(ReadResourceResult::new(contents).into())
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
                self.running.fetch_add(1, Ordering::SeqCst);
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
                ContentBlock::resource(ResourceContents::text("words\u{200b}", "demo://text")),
                ContentBlock::resource_link(Resource::new("demo://link", "linked")),
            ]),
            "import" => {
                let token = context.meta.get_progress_token().unwrap();
                let mut done = 0.0;
                while tokio::time::timeout(Duration::from_millis(10), self.heard.notified()).await.is_err() {
                    let progress = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
                    context.peer.notify_progress(progress.with_message("reading hunter22 orders")).await.unwrap();
                    done += 1.0;
                }
                CallToolResult::success(vec![])
            }
            "trace" => {
                let (parent, baggage) = (context.meta.get_traceparent(), context.meta.get_baggage());
                CallToolResult::structured(json!({ "parent": parent, "baggage": baggage }))
            }
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
    /// The name that the client states.
    pub(crate) name: &'static str,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new(self.name, "1"))
    }

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
    let client = client_of(CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), providers, options)).await;
    let listener = client.service().clone();
    (client, listener)
}

/// A client of a code server.
pub(crate) async fn client_of(server: CodeServer) -> RunningService<RoleClient, Listener> {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    Listener::default().serve(near).await.unwrap()
}

/// A code server with the tools of a fake, and with a timeout that no test reaches.
pub(crate) async fn code_server(fake: &Fake) -> CodeServer {
    code_server_with(fake, ServerOptions::default()).await
}

pub(crate) async fn code_server_with(fake: &Fake, options: ServerOptions) -> CodeServer {
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let executor = Arc::new(InlineExecutor::new().unwrap());
    let limits = Limits::default().timeout(Duration::from_hours(1));
    CodeServer::new(executor, move || vec![upstream.provider()], options.limits(limits))
}

/// Waits until the condition holds. Fails after two minutes.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_mins(2), "what the test waits for does not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Calls a tool. The client answers what the server asks.
pub(crate) async fn call<C: ClientHandler>(
    client: &RunningService<RoleClient, C>,
    name: &str,
    arguments: Json,
) -> CallToolResult {
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
