//! Prompts, resources, completions and log messages of servers reach clients, with the namespaces of their servers.

#![allow(deprecated)] // Levels of log messages, and subscriptions before MCP 2026-07-28.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{InlineExecutor, Provider};
use execbox_mcp::server::{CodeServer, ProviderSource, ServerOptions};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use execbox_mcp::{Changes, Pattern, Secrets, ToolFilter};
use rmcp::model::{
    ArgumentInfo, ClientCapabilities, ClientConfig, ClientRequest, CompleteRequestParams, CompleteResult,
    CompletionInfo, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorData,
    GetPromptRequest, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, InputRequest,
    InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, LoggingLevel,
    LoggingMessageNotificationParam, PaginatedRequestParams, Prompt, PromptMessage, PromptsCapability, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference, Request, RequestMetaObject,
    Resource, ResourceContents, ResourceTemplate, ResourceUpdatedNotificationParam, ResourcesCapability, Role,
    ServerCapabilities, ServerConfig, ServerNotification, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{
    ClientServiceExt as _, NotificationContext, Peer, PeerRequestOptions, RequestContext, RoleClient, RoleServer,
    RunningService, ServiceError, SubscriptionContext,
};
use rmcp::{ClientHandler, ServerHandler, ServiceExt as _};
use serde_json::{Value as Json, json};
use tokio::io::DuplexStream;
use tokio::sync::Notify;

use crate::fakes::until;
use crate::http::both_generations;
use crate::nonconforming_servers;

/// A server with prompts and resources of its own name, in two pages, and one that all have. The prompt `ask` asks the user. Each
/// prompt is logged.
#[derive(Clone, Default)]
struct Library {
    name: &'static str,
    peer: Arc<Mutex<Option<Peer<RoleServer>>>>,
    /// The URIs that it was asked for.
    read: Arc<Mutex<Vec<String>>>,
    has_nothing: bool,
    /// The length of the descriptions of prompts, whose list has no end then.
    endless: Option<usize>,
    /// Whether it speaks only versions before MCP 2026-07-28.
    is_older: bool,
    /// The resources that are subscribed to, in one or the other way.
    subscribed: Arc<Mutex<Vec<String>>>,
    /// Notified when `docs://index` is updated, for MCP 2026-07-28.
    updated: Arc<Notify>,
}

impl ServerHandler for Library {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.is_older {
            true => Cow::Borrowed(&[ProtocolVersion::V_2025_11_25]),
            false => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap().push(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap().retain(|uri| *uri != request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let uris = subscription.accepted().resource_subscriptions.clone().unwrap_or_default();
        *self.subscribed.lock().unwrap() = uris;
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = self.updated.notified() => {
                    let _ = subscription.sink().notify_resource_updated("docs://index").await;
                }
            }
        }
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        if !self.has_nothing {
            capabilities.prompts = Some(PromptsCapability::default());
            let mut resources = ResourcesCapability::default();
            resources.subscribe = Some(true);
            capabilities.resources = Some(resources);
            capabilities.logging = Some(serde_json::Map::new());
            capabilities.completions = Some(serde_json::Map::new());
        }
        ServerConfig::new(capabilities)
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        *self.peer.lock().unwrap() = Some(context.peer);
        if let Some(length) = self.endless {
            let next = page.and_then(|page| page.cursor).map_or(1, |cursor| cursor.parse::<u64>().unwrap() + 1);
            let prompt = Prompt::new(format!("p{next}"), Some("x".repeat(length)), None);
            let mut result = ListPromptsResult::with_all_items(vec![prompt]);
            result.next_cursor = Some(next.to_string());
            return Ok(result);
        }
        let prompt = |name: &str, text: &str| Prompt::new(name.to_owned(), Some(text.to_owned()), None);
        let mut result = ListPromptsResult::with_all_items(match page.and_then(|page| page.cursor) {
            None => vec![prompt("greet", "Greets hunter22\u{200b}")],
            Some(_) => vec![prompt("ask", "Asks")],
        });
        if result.prompts[0].name == "greet" {
            result.next_cursor = Some("more".to_owned());
        }
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let log = async |level, text: &str| {
            let message = LoggingMessageNotificationParam::new(level, json!({ "text": text })).with_logger("shelf");
            context.peer.notify_logging_message(message).await.unwrap();
        };
        log(LoggingLevel::Info, "looking").await;
        log(LoggingLevel::Error, "hunter22\u{200b}").await;
        let who = match (&*request.name, request.input_responses) {
            ("greet", _) => json!(request.arguments)["who"].as_str().unwrap_or("nobody").to_owned(),
            ("ask", Some(answers)) => answers["key"]["content"]["who"].as_str().unwrap_or_default().to_owned(),
            ("ask", None) if context.meta.protocol_version().is_some() => {
                let input = InputRequest::Elicitation(Request::new(form()));
                let asked = InputRequiredResult::from_input_requests([("key".to_owned(), input)].into());
                return Ok(asked.into());
            }
            _ => return Err(ErrorData::invalid_params("no such prompt", Some(json!({ "secret": "hunter22" })))),
        };
        let message =
            PromptMessage::new_text(Role::User, format!("{} of {}: hello {who}\u{200b}", request.name, self.name));
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let own = Resource::new(format!("{}://index", self.name), "Index");
        Ok(ListResourcesResult::with_all_items(vec![own, Resource::new("file:///shared", "Shared")]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new(format!("{}://pages/{{number}}/text", self.name), "Page");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read.lock().unwrap().push(request.uri.clone());
        let text = format!("{} of {}", request.uri, self.name);
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let of = match request.r#ref {
            Reference::Prompt(prompt) => prompt.name,
            Reference::Resource(resource) => resource.uri,
            _ => "?".to_owned(),
        };
        let values = vec![format!("{of} of {}: {}", self.name, request.argument.value)];
        Ok(CompleteResult::new(CompletionInfo::new(values).unwrap()))
    }
}

fn form() -> ElicitRequestParams {
    let schema = json!({ "type": "object", "properties": { "who": { "type": "string" } } });
    let requested_schema = serde_json::from_value(schema).unwrap();
    ElicitRequestParams::FormElicitationParams { meta: None, message: "Who?".to_owned(), requested_schema }
}

/// A client whose user is Ada. Counts notifications of changed prompts and resources.
#[derive(Clone, Default)]
struct User {
    questions: Arc<Mutex<Vec<String>>>,
    changes: Arc<[AtomicUsize; 2]>,
    logs: Arc<Mutex<Vec<Json>>>,
    updated: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for User {
    async fn on_logging_message(&self, message: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.logs.lock().unwrap().push(json!(message));
    }

    async fn on_resource_updated(&self, updated: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.updated.lock().unwrap().push(updated.uri);
    }

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
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else { panic!("a form") };
        self.questions.lock().unwrap().push(message);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "who": "Ada" })))
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes[0].fetch_add(1, Ordering::SeqCst);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes[1].fetch_add(1, Ordering::SeqCst);
    }
}

type Client = RunningService<RoleClient, User>;

/// A gateway for servers, which can be added.
#[derive(Clone, Default)]
struct Gateway {
    servers: Arc<Mutex<Vec<Upstream>>>,
    changes: Changes,
}

impl ProviderSource for Gateway {
    fn providers(&self) -> Vec<Provider> {
        self.servers.lock().unwrap().iter().map(Upstream::provider).collect()
    }

    fn features(&self) -> Option<Vec<Provider>> {
        let servers = self.servers.lock().unwrap();
        Some(servers.iter().filter_map(|server| server.imported().features).collect())
    }
}

impl Gateway {
    async fn add(&self, library: Library, filter: ToolFilter) {
        let name = library.name;
        let connect = move || {
            let (near, far) = tokio::io::duplex(1 << 16);
            let library = library.clone();
            tokio::spawn(async move { library.serve(far).await.unwrap().waiting().await });
            near
        };
        self.open(name, connect, filter).await;
    }

    async fn open(&self, name: &str, connect: impl Fn() -> DuplexStream + Send + Sync + 'static, filter: ToolFilter) {
        let secrets = secrets();
        let options = UpstreamOptions::default().filter(filter).secrets(secrets).changes(self.changes.clone());
        let upstream = Upstream::open_stream(name, connect, options).await.unwrap();
        self.servers.lock().unwrap().push(upstream);
        self.changes.notify();
    }

    fn server(&self) -> CodeServer {
        let (changes, secrets) = (self.changes.clone(), secrets());
        let options = ServerOptions::default().changes(changes).secrets(secrets);
        CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), self.clone(), options)
    }
}

fn secrets() -> Secrets {
    Secrets::new([("KEY".to_owned(), "hunter22".to_owned())])
}

/// Clients of both generations, of a gateway for these servers.
async fn clients(libraries: &[Library]) -> ([Client; 2], Gateway) {
    let gateway = Gateway::default();
    for library in libraries {
        gateway.add(library.clone(), ToolFilter::default()).await;
    }
    (clients_of(&gateway).await, gateway)
}

async fn clients_of(gateway: &Gateway) -> [Client; 2] {
    let server = gateway.server();
    let [older, newest] = both_generations().map(|lifecycle| async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
        User::default().serve_with_lifecycle(near, lifecycle).await.unwrap()
    });
    [older.await, newest.await]
}

fn library(name: &'static str) -> Library {
    Library { name, ..Library::default() }
}

fn texts(result: &GetPromptResult) -> String {
    let text = |message: &PromptMessage| json!(message)["content"]["text"].as_str().unwrap().to_owned();
    result.messages.iter().map(text).collect()
}

#[tokio::test]
async fn prompts_have_the_namespaces_of_their_servers() {
    let (clients, _gateway) = clients(&[library("docs"), library("docs_old")]).await;
    for client in clients {
        let prompts = client.list_all_prompts().await.unwrap();
        let names: Vec<&str> = prompts.iter().map(|prompt| &*prompt.name).collect();
        assert_eq!(names, ["docs_greet", "docs_ask", "docs_old_greet", "docs_old_ask"]);
        assert_eq!(prompts[0].description.as_deref(), Some(r"Greets ${KEY}\u200b"));
        for (name, expected) in [
            ("docs_greet", r"greet of docs: hello Bob\u200b"),
            ("docs_old_greet", r"greet of docs_old: hello Bob\u200b"),
        ] {
            let arguments = json!({ "who": "Bob" }).as_object().unwrap().clone();
            let request = GetPromptRequestParams::new(name).with_arguments(arguments);
            assert_eq!(texts(&client.get_prompt(request).await.unwrap()), expected);
        }
        for (name, expected) in [("docs_nope", "no such prompt"), ("greet", r#"unknown prompt "greet""#)] {
            let failed = client.get_prompt(GetPromptRequestParams::new(name)).await.unwrap_err();
            let ServiceError::McpError(error) = failed else { panic!("{failed}") };
            assert_eq!((error.code.0, &*error.message), (-32602, expected));
            assert!(!json!(error).to_string().contains("hunter22"), "{error:?}");
        }
    }
}

/// In both generations, the question of a server reaches the user.
#[tokio::test]
async fn a_prompt_may_ask_the_user() {
    let (clients, _gateway) = clients(&[library("docs")]).await;
    for client in clients {
        let prompt = client.get_prompt(GetPromptRequestParams::new("docs_ask")).await.unwrap();
        assert_eq!(texts(&prompt), r"ask of docs: hello Ada\u200b");
        assert_eq!(*client.service().questions.lock().unwrap(), ["The server \"docs\" asks:\n\nWho?"]);
    }
}

/// The answers of a server that is not quite as MCP defines it.
#[tokio::test]
async fn invalid_answers_reach_clients_as_far_as_possible() {
    let script = json!({
        "initialize": {
            "protocolVersion": "2025-06-18", "capabilities": { "prompts": {}, "resources": {} },
            "serverInfo": { "name": "odd", "version": "1" }
        },
        "read": { "contents": { "text": "hunter22\u{200b}", "mimeType": 7 } },
        "prompt": { "messages": [{ "role": "developer", "content": ["one hunter22", { "type": "chart", "n": 1 }] }] }
    });
    let gateway = Gateway::default();
    let connect = move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(nonconforming_servers::serve(far, script.clone()));
        near
    };
    gateway.open("odd", connect, ToolFilter::default()).await;
    for client in clients_of(&gateway).await {
        let read = client.read_resource(ReadResourceRequestParams::new("odd+odd://1")).await.unwrap();
        assert_eq!(json!(read)["contents"], json!([{ "uri": "odd://1", "text": r"${KEY}\u200b" }]));
        let prompt = client.get_prompt(GetPromptRequestParams::new("odd_any")).await.unwrap();
        assert!(prompt.messages.iter().all(|message| message.role == Role::User));
        assert_eq!(texts(&prompt), r#"one ${KEY}{"type":"chart","n":1}"#);
    }
}

#[tokio::test]
async fn resources_are_read_from_their_servers_alone() {
    let (docs, wiki) = (library("docs"), library("wiki"));
    let (clients, _gateway) = clients(&[docs.clone(), wiki.clone()]).await;
    for client in clients {
        let resources = client.list_all_resources().await.unwrap();
        let uris: Vec<&str> = resources.iter().map(|resource| &*resource.uri).collect();
        assert_eq!(uris, ["docs://index", "file:///shared", "wiki://index", "wiki+file:///shared"]);
        let templates = client.list_all_resource_templates().await.unwrap();
        assert_eq!(templates[1].uri_template, "wiki://pages/{number}/text");
        let read = async |uri: &str| {
            let result = client.read_resource(ReadResourceRequestParams::new(uri)).await;
            result.map(|result| json!(result)["contents"][0]["text"].as_str().unwrap().to_owned())
        };
        for (uri, expected) in [
            ("wiki://index", "wiki://index of wiki"),
            ("file:///shared", "file:///shared of docs"),
            ("wiki+file:///shared", "file:///shared of wiki"),
            ("wiki://pages/7/text", "wiki://pages/7/text of wiki"),
            ("docs+secret://x", "secret://x of docs"),
        ] {
            assert_eq!(read(uri).await.unwrap(), expected);
        }
        let ServiceError::McpError(error) = read("secret://x").await.unwrap_err() else { panic!("another error") };
        assert_eq!(
            (error.data, &*error.message),
            (
                Some(json!({ "uri": "secret://x" })),
                "unknown resource; if a server has it without listing it, write NAMESPACE+URI",
            )
        );
    }
    assert!(!wiki.read.lock().unwrap().contains(&"secret://x".to_owned()), "no other server gets a URI");
    assert!(docs.read.lock().unwrap().iter().all(|uri| !uri.starts_with("wiki")));
}

#[tokio::test]
async fn completions_are_those_of_the_server_of_the_prompt_or_resource() {
    let (clients, _gateway) = clients(&[library("docs"), library("wiki")]).await;
    for client in clients {
        for (reference, expected) in [
            (Reference::for_prompt("wiki_greet"), "greet of wiki: B"),
            (Reference::for_resource("docs://pages/{number}/text"), "docs://pages/{number}/text of docs: B"),
        ] {
            let argument: ArgumentInfo = serde_json::from_value(json!({ "name": "who", "value": "B" })).unwrap();
            let completed = client.complete(CompleteRequestParams::new(reference, argument)).await.unwrap();
            assert_eq!(completed.completion.values, [expected]);
        }
    }
}

/// Otherwise, a server could keep clients waiting, and take their memory.
#[tokio::test]
async fn lists_without_an_end_are_cut() {
    let many = Library { endless: Some(1), ..library("many") };
    let large = Library { endless: Some(300_000), ..library("large") };
    let (clients, _gateway) = clients(&[many, large]).await;
    for client in clients {
        let prompts = client.list_all_prompts().await.unwrap();
        let count = |prefix: &str| prompts.iter().filter(|prompt| prompt.name.starts_with(prefix)).count();
        assert_eq!([count("many_"), count("large_")], [101, 3]);
    }
}

/// A client of either generation watches at most 256 resources.
#[tokio::test]
async fn clients_watch_a_limited_number_of_resources() {
    let docs = library("docs");
    let ([older, newest], _gateway) = clients(std::slice::from_ref(&docs)).await;
    let uris = (0..2_000).map(|number| format!("docs://{number}"));
    let filter = SubscriptionFilter::builder().resource_subscriptions(uris).build();
    let subscription = newest.listen(filter).await.unwrap();
    until(|| docs.subscribed.lock().unwrap().len() == 256).await;
    drop(subscription);
    until(|| docs.subscribed.lock().unwrap().is_empty()).await;
    for number in 0..256 {
        older.subscribe(SubscribeRequestParams::new(format!("docs://{number}"))).await.unwrap();
    }
    let ServiceError::McpError(error) = older.subscribe(SubscribeRequestParams::new("docs://256")).await.unwrap_err()
    else {
        panic!("another error")
    };
    assert_eq!(error.message, "too many resources are watched; end another subscription");
}

#[tokio::test]
async fn filters_apply_to_resources() {
    let gateway = Gateway::default();
    let filter = ToolFilter::default().deny(vec![Pattern::new("read_resource")]);
    gateway.add(library("docs"), filter).await;
    let server = gateway.server();
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    let client = User::default().serve(near).await.unwrap();
    assert_eq!(client.list_all_resources().await.unwrap().len(), 2);
    assert!(client.read_resource(ReadResourceRequestParams::new("docs://index")).await.is_err());
}

/// A server that starts, and one that notifies.
#[tokio::test]
async fn clients_are_notified_of_changes() {
    let docs = library("docs");
    let ([older, _], gateway) = clients(&[]).await;
    let changes = Arc::clone(&older.service().changes);
    let counts = || [changes[0].load(Ordering::SeqCst), changes[1].load(Ordering::SeqCst)];
    gateway.add(docs.clone(), ToolFilter::default()).await;
    until(|| counts() == [1, 1]).await;
    older.list_all_prompts().await.unwrap();
    let peer = docs.peer.lock().unwrap().clone().unwrap();
    for _ in 0..20 {
        peer.notify_prompt_list_changed().await.unwrap();
    }
    until(|| counts()[0] > 1).await;
    assert!(counts()[0] < 15, "changes in quick succession are collected: {:?}", counts());
    gateway.add(Library { has_nothing: true, ..library("tools_only") }, ToolFilter::default()).await;
    let before = counts()[0];
    peer.notify_prompt_list_changed().await.unwrap();
    until(|| counts()[0] > before).await;
    assert_eq!(counts()[1], 1, "a server without resources changes none");
}

/// Log messages of servers reach the client during its own requests, from the level on that it wants, and before the answer.
#[tokio::test]
async fn log_messages_of_servers_reach_clients_that_want_them() {
    for is_older in [false, true] {
        let ([older, newest], _gateway) = clients(&[Library { is_older, ..library("docs") }]).await;
        let greet = || GetPromptRequestParams::new("docs_greet");
        for client in [&older, &newest] {
            client.get_prompt(greet()).await.unwrap();
            assert!(client.service().logs.lock().unwrap().is_empty(), "it wants none");
        }
        older.set_level(SetLevelRequestParams::new(LoggingLevel::Warning)).await.unwrap();
        older.get_prompt(greet()).await.unwrap();
        let mut options = PeerRequestOptions::no_options();
        let mut meta = RequestMetaObject::new();
        meta.set_log_level(LoggingLevel::Warning);
        options.meta = Some(meta);
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(greet()));
        newest.send_request_with_option(request, options).await.unwrap().await_response().await.unwrap();
        for client in [&older, &newest] {
            let logs = || client.service().logs.lock().unwrap().clone();
            until(|| !logs().is_empty()).await;
            let expected = json!({ "level": "error", "logger": "docs.shelf", "data": { "text": "${KEY}\\u200b" } });
            assert_eq!(logs(), [expected], "{is_older}");
        }
    }
}

/// Whatever the versions of client and server, and until the client ends it.
#[tokio::test]
async fn updates_of_resources_reach_clients_that_subscribe() {
    for is_older in [false, true] {
        let docs = Library { is_older, ..library("docs") };
        let ([older, newest], _gateway) = clients(&[docs.clone(), library("wiki")]).await;
        older.list_all_prompts().await.unwrap();
        let subscribed = |expected: &'static [&'static str]| {
            let docs = docs.clone();
            async move { until(|| *docs.subscribed.lock().unwrap() == expected).await }
        };
        let update = async || match is_older {
            true => {
                let peer = docs.peer.lock().unwrap().clone().unwrap();
                let updated = ResourceUpdatedNotificationParam::new("docs://index");
                peer.notify_resource_updated(updated).await.unwrap();
            }
            false => docs.updated.notify_waiters(),
        };
        older.subscribe(SubscribeRequestParams::new("docs+docs://index")).await.unwrap();
        subscribed(&["docs://index"]).await;
        let updated = Arc::clone(&older.service().updated);
        let mut sent = 0;
        while updated.lock().unwrap().is_empty() {
            update().await;
            sent += 1;
            assert!(sent < 1_000, "no update arrives");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(updated.lock().unwrap()[0], "docs+docs://index", "as the client knows it");

        let filter = SubscriptionFilter::builder().resource_subscriptions(["docs://index".to_owned()]).build();
        let mut subscription = newest.listen(filter).await.unwrap();
        let next = tokio::spawn(async move { (subscription.next().await, subscription) });
        while !next.is_finished() {
            update().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (notification, subscription) = next.await.unwrap();
        let Ok(Some(ServerNotification::ResourceUpdatedNotification(updated))) = notification else {
            panic!("{notification:?}")
        };
        assert_eq!(updated.params.uri, "docs://index");

        drop(subscription);
        older.unsubscribe(UnsubscribeRequestParams::new("docs+docs://index")).await.unwrap();
        drop(newest);
        subscribed(&[]).await;
    }
}
