//! Clients are notified of changed tools.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{CancellationToken, InlineExecutor, Provider, Tool};
use execbox_mcp::Changes;
use execbox_mcp::server::{CodeServer, HttpOptions, HttpServer, ServerOptions};
use execbox_mcp::upstream::UpstreamOptions;
use rmcp::ServiceExt as _;
use rmcp::model::{ProtocolVersion, ServerNotification, SubscriptionFilter};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::json;

use crate::fakes::{Fake, Listener, call, text, tool, until};

/// A server whose tools the test changes.
struct Changing {
    providers: Arc<Mutex<Vec<Provider>>>,
    changes: Changes,
    server: CodeServer,
}

impl Changing {
    fn new() -> Self {
        let (providers, changes) = (Arc::new(Mutex::new(Vec::new())), Changes::default());
        let options = ServerOptions::default().changes(changes.clone());
        let shown = Arc::clone(&providers);
        let executor = Arc::new(InlineExecutor::new().unwrap());
        let server = CodeServer::new(executor, move || shown.lock().unwrap().clone(), options);
        Self { providers, changes, server }
    }

    fn add(&self, name: &str) {
        let tool = Tool::new("echo", async |input, _| Ok(input));
        self.providers.lock().unwrap().push(Provider::builder(name).tool(tool).build().unwrap());
        self.changes.notify();
    }
}

async fn expect_one_notification_per_burst(
    changing: &Changing,
    client: &RunningService<RoleClient, Listener>,
    listener: &Listener,
) {
    let notifications = || listener.changes.load(Ordering::SeqCst);
    let before = notifications();
    changing.changes.notify(); // Nothing has changed yet.
    let burst: Vec<String> = (0..20).map(|n| format!("burst{before}_{n}")).collect();
    for name in &burst {
        changing.add(name);
    }
    until(|| notifications() > before).await;
    let shown = client.list_all_tools().await.unwrap();
    let described = shown.iter().any(|tool| tool.description.as_ref().unwrap().contains(burst.last().unwrap()));
    assert!(described, "the list has the tools of the notification");
    assert_eq!(notifications(), before + 1);
    changing.add(&format!("last{before}"));
    until(|| notifications() > before + 1).await;
    assert_eq!(notifications(), before + 2, "a second change is a second notification");
}

/// Connects a client over a stream.
async fn serve(changing: &Changing) -> (RunningService<RoleClient, Listener>, Listener) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let server = changing.server.clone();
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    let listener = Listener::default();
    (listener.clone().serve(near).await.unwrap(), listener)
}

#[tokio::test]
async fn a_burst_of_changes_is_one_notification_over_a_stream() {
    let changing = Changing::new();
    let (client, listener) = serve(&changing).await;
    let tools = &client.peer_info().unwrap().capabilities.tools;
    assert_eq!(tools.as_ref().unwrap().list_changed, Some(true));
    expect_one_notification_per_burst(&changing, &client, &listener).await;
}

#[tokio::test]
async fn a_burst_of_changes_is_one_notification_for_each_client_over_http() {
    let changing = Changing::new();
    let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
    let url = http.url();
    tokio::spawn(http.serve(changing.server.clone(), CancellationToken::new()));
    let connect = async || {
        let listener = Listener::default();
        let client = listener.clone().serve(StreamableHttpClientTransport::from_uri(url.clone())).await.unwrap();
        (client, listener)
    };
    rustls::crypto::ring::default_provider().install_default().ok();
    let ((one, listener_one), (_two, listener_two)) = (connect().await, connect().await);
    // A notification before the stream of a session is open waits for the stream.
    expect_one_notification_per_burst(&changing, &one, &listener_one).await;
    until(|| listener_two.changes.load(Ordering::SeqCst) == 2).await;
}

#[tokio::test]
async fn clients_of_the_newest_protocol_are_notified_by_their_subscription() {
    let changing = Changing::new();
    let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
    let url = http.url();
    tokio::spawn(http.serve(changing.server.clone(), CancellationToken::new()));
    rustls::crypto::ring::default_provider().install_default().ok();
    let newest = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = Listener::default().serve_with_lifecycle(transport, newest).await.unwrap();
    let mut subscription = client.listen(SubscriptionFilter::builder().tools_list_changed().build()).await.unwrap();
    changing.add("one");
    changing.add("two");
    let notification = subscription.next().await.unwrap();
    assert!(matches!(notification, Some(ServerNotification::ToolListChangedNotification(_))), "{notification:?}");
    let shown = client.list_all_tools().await.unwrap();
    assert!(shown[2].description.as_ref().unwrap().contains("two"));
}

#[tokio::test]
async fn upstream_changes_notify_downstream_clients() {
    for newest in [false, true] {
        let fake = Fake { newest, ..Fake::standard() };
        let changes = Changes::default();
        let options = UpstreamOptions::default().changes(changes.clone());
        let upstream = fake.open("api", options).await;
        let executor = Arc::new(InlineExecutor::new().unwrap());
        let options = ServerOptions::default().changes(changes);
        let server = CodeServer::new(executor, move || vec![upstream.provider()], options);
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
        let listener = Listener::default();
        let client = listener.clone().serve(near).await.unwrap();
        fake.tools.lock().unwrap().push(tool("fresh", "New", json!({ "type": "object" })));
        if newest {
            fake.listeners.notified().await;
            fake.news.notify_one();
        } else {
            fake.changed().await;
        }
        until(|| listener.changes.load(Ordering::SeqCst) == 1).await;
        let result = call(&client, "mcp_code", json!({ "code": "await api.fresh({})" })).await;
        assert_eq!(text(&result), "called fresh");
    }
}

#[tokio::test]
async fn clients_are_not_notified_of_the_list_that_they_have_read() {
    let changing = Changing::new();
    let (client, listener) = serve(&changing).await;
    let notifications = || listener.changes.load(Ordering::SeqCst);
    changing.add("one");
    client.list_all_tools().await.unwrap();
    // Changes are collected for 0.1 s.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(notifications(), 0, "the client has listed the tools after the change");
    changing.add("two");
    until(|| notifications() == 1).await;
    changing.providers.lock().unwrap().pop();
    changing.changes.notify();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(notifications(), 1, "the tools are those that the client has listed");
    changing.add("three");
    until(|| notifications() == 2).await;
}
