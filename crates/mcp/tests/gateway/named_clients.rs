//! Clients over HTTP with names, tokens and servers of their own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use execbox::transport::Token;
use execbox::{Effect, InlineExecutor, Limits, Provider};
use execbox_mcp::server::{
    CodeServer, Grant, HttpOptions, NamedClient, NamedClients, ProviderSource, Restricted, ServerOptions,
};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use serde_json::json;

use crate::fakes::{Fake, until};
use crate::http::{Answer, Served, message, run, serve_code};

/// Grants one namespace, and tools whose names begin with a letter.
struct Only(&'static str, char);

impl Grant for Only {
    fn grants_namespace(&self, namespace: &str) -> bool {
        namespace == self.0
    }

    fn grants_tool(&self, _: &str, [name, _]: [&str; 2], _: Effect) -> bool {
        name.starts_with(self.1)
    }
}

/// The servers `api` and `other`.
struct Source([Upstream; 2]);

impl ProviderSource for Source {
    fn providers(&self) -> Vec<Provider> {
        self.0.iter().map(Upstream::provider).collect()
    }

    fn features(&self) -> Option<Vec<Provider>> {
        Some(self.0.iter().filter_map(|upstream| upstream.imported().features).collect())
    }
}

struct Gateway {
    fake: Fake,
    source: Arc<dyn ProviderSource>,
    whole: CodeServer,
    named: NamedClients,
    served: Served,
}

impl Gateway {
    /// A gateway with two servers, which only named clients can use.
    async fn new() -> Self {
        let fake = Fake { has_resources: true, ..Fake::standard() };
        let open = async |name| fake.open(name, UpstreamOptions::default()).await;
        let source: Arc<dyn ProviderSource> = Arc::new(Source([open("api").await, open("other").await]));
        let executor = Arc::new(InlineExecutor::new().unwrap());
        let providers = Arc::clone(&source);
        let whole = CodeServer::new(executor, move || providers.providers(), ServerOptions::default());
        let named = NamedClients::default();
        let options = HttpOptions::default().clients(named.clone());
        let served = serve_code(whole.clone(), options).await;
        Self { fake, source, whole, named, served }
    }

    /// A client whose token is its name and `-token`, and which runs this number of programs at once.
    fn client(&self, name: &str, grant: Only, max_programs: usize) -> NamedClient {
        let limits = Limits::default().timeout(Duration::from_hours(1));
        let options = ServerOptions::default().limits(limits).max_programs(max_programs);
        let server = self.whole.for_client(Restricted::new(Arc::clone(&self.source), grant), options);
        NamedClient::new(name, Token::new(&format!("{name}-token")).unwrap(), server)
    }

    async fn post(&self, name: &str, headers: &str, body: &str) -> Answer {
        let headers = format!("Authorization: Bearer {name}-token\r\n{headers}");
        self.served.raw(self.served.post(&headers, body)).await
    }

    /// Opens a session, and returns its header.
    async fn session(&self, name: &str) -> String {
        let client = json!({ "name": "raw", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let answer = self.post(name, "", &message("initialize", Some(1), &params)).await;
        let session = format!("Mcp-Session-Id: {}\r\n", answer.header("mcp-session-id").unwrap());
        let initialized = message("notifications/initialized", None, &json!({}));
        assert_eq!(self.post(name, &session, &initialized).await.status, 202);
        session
    }

    /// Runs a program without a session, in MCP 2026-07-28.
    async fn run_without_session(&self, name: &str, code: &str) -> Answer {
        let request = sessionless(code);
        self.post(name, &request.0, &request.1).await
    }
}

/// The headers and the body of a request without a session.
fn sessionless(code: &str) -> (String, String) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "mcp_code", "arguments": { "code": code }, "_meta": meta });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp_code\r\n";
    (headers.to_owned(), message("tools/call", Some(2), &params))
}

/// Code that returns the tools of both servers.
const TOOLS: &str = "const of = (name, space) => Object.keys(space).map((tool) => `${name}.${tool}`); \
    return [typeof api === 'object' ? of('api', api) : [], typeof other === 'object' ? of('other', other) : []].flat().join()";

#[tokio::test]
async fn each_client_has_the_tools_that_it_is_granted() {
    let gateway = Gateway::new().await;
    gateway
        .named
        .replace(vec![gateway.client("ann", Only("api", 'e'), 8), gateway.client("ben", Only("other", 'f'), 8)]);
    for (name, tools) in [("ann", "\"text\":\"api.echo\""), ("ben", "\"text\":\"other.fail\"")] {
        let session = gateway.session(name).await;
        let old = gateway.post(name, &session, &run(2, TOOLS)).await;
        for answer in [old, gateway.run_without_session(name, TOOLS).await] {
            assert!(answer.status == 200 && answer.body.contains(tools), "{name}: {answer:?}");
        }
    }
    let answer = gateway.run_without_session("ann", "await api.fail({})").await;
    assert!(answer.body.contains("api.fail is not allowed by the configuration"), "{answer:?}");
    for wrong in ["cleo", "ann-token ben", ""] {
        assert_eq!(gateway.run_without_session(wrong, "1").await.status, 401, "{wrong}");
    }
}

/// A token says whose state it is, so that a client without sessions has one.
#[tokio::test]
async fn a_client_without_sessions_has_a_state_of_its_own() {
    let gateway = Gateway::new().await;
    gateway.named.replace(["ann", "ben"].map(|name| gateway.client(name, Only("api", 'e'), 8)).into());
    for (name, code, expected) in [
        ("ann", "await store.set({ key: 'a', value: 1 }); return 'stored'", "stored"),
        ("ann", "await store.get('a')", "1"),
        ("ben", "await store.get('a')", "null"),
    ] {
        let answer = gateway.run_without_session(name, code).await;
        assert!(answer.body.contains(&format!("\"text\":\"{expected}\"")), "{answer:?}");
    }
    let tools = gateway.session("ann").await;
    let answer = gateway.post("ann", &tools, &run(2, "await store.get('a')")).await;
    assert!(answer.body.contains("\"text\":\"null\""), "a session has its own: {answer:?}");
}

/// Requests about resources have the filters of the tools with the same purpose.
#[tokio::test]
async fn resources_are_granted_as_the_tools_for_them() {
    let gateway = Gateway::new().await;
    for (letter, has_list, has_text) in [('l', true, false), ('r', false, true)] {
        gateway.named.replace(vec![gateway.client("ann", Only("other", letter), 8)]);
        let session = gateway.session("ann").await;
        let list = gateway.post("ann", &session, &message("resources/list", Some(2), &json!({}))).await.body;
        assert_eq!(list.contains("demo://text"), has_list, "{list}");
        let params = json!({ "uri": "other+demo://text" });
        let read = gateway.post("ann", &session, &message("resources/read", Some(3), &params)).await.body;
        assert_eq!(read.contains("\"contents\""), has_text, "{read}");
    }
}

#[tokio::test]
async fn a_session_is_of_the_client_that_opened_it() {
    let gateway = Gateway::new().await;
    gateway.named.replace(["ann", "ben"].map(|name| gateway.client(name, Only("api", 'e'), 8)).into());
    let session = gateway.session("ann").await;
    let unknown = "Mcp-Session-Id: 00000000-0000-4000-8000-000000000000\r\n";
    for (line, body) in [("POST", &*run(2, "1")), ("DELETE", ""), ("GET", "")] {
        let mut answers = Vec::new();
        for session in [&*session, unknown] {
            let headers = format!("Authorization: Bearer ben-token\r\nAccept: text/event-stream\r\n{session}");
            let request = match line {
                "POST" => gateway.served.post(&format!("Authorization: Bearer ben-token\r\n{session}"), body),
                _ => gateway.served.head(&format!("{line} /mcp"), &headers),
            };
            let answer = gateway.served.raw(request).await;
            answers.push((answer.status, answer.body));
        }
        assert_eq!(answers[0], answers[1], "{line}");
    }
    let answer = gateway.post("ann", &session, &run(3, "6 * 7")).await;
    assert!(answer.body.contains("\"text\":\"42\""), "{answer:?}");
}

#[tokio::test]
async fn a_removed_client_ends_at_once_and_others_go_on() {
    let gateway = Gateway::new().await;
    let [ann, ben] = ["ann", "ben"].map(|name| gateway.client(name, Only("api", 's'), 8));
    gateway.named.replace(vec![ann, ben.clone()]);
    let session = gateway.session("ann").await;
    let other = gateway.session("ben").await;
    let begin = async |name: &str, headers: &str, body: &str| {
        let headers = format!("Authorization: Bearer {name}-token\r\n{headers}");
        gateway.served.begin(gateway.served.post(&headers, body)).await
    };
    let (headers, body) = sessionless(SLOW);
    let running = [begin("ann", &session, &run(2, SLOW)).await, begin("ann", &headers, &body).await];
    let kept = begin("ben", &other, &run(2, SLOW)).await;
    let headers = format!("Authorization: Bearer ann-token\r\nAccept: text/event-stream\r\n{session}");
    let stream = gateway.served.begin(gateway.served.head("GET /mcp", &headers)).await;
    until(|| gateway.fake.running.load(Ordering::SeqCst) == 3).await;
    gateway.named.replace(vec![ben]);
    for ended in running.into_iter().chain([stream]) {
        let answer = Served::answer(ended).await;
        assert!(!answer.body.contains("\"result\""), "{answer:?}");
    }
    gateway.fake.cancelled.notified().await;
    let answer = gateway.post("ben", &other, &run(3, "6 * 7")).await;
    assert!(answer.body.contains("\"text\":\"42\""), "{answer:?}");
    let mut head = [0; 4096];
    let length = kept.try_read(&mut head).unwrap(); // The stream has begun, and goes on.
    assert!(!String::from_utf8_lossy(&head[..length]).contains("\"result\""));
    assert_eq!(kept.try_read(&mut head).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(gateway.post("ann", &session, &run(3, "1")).await.status, 401);
    // Another client with the same token does not get the session.
    gateway.named.replace(vec![gateway.client("ann", Only("api", 's'), 8)]);
    assert_eq!(gateway.post("ann", &session, &run(3, "1")).await.status, 404);
}

/// Programs of one client wait for their part, those of others do not.
#[tokio::test]
async fn a_client_takes_only_its_part_of_the_places() {
    let gateway = Gateway::new().await;
    gateway.named.replace(vec![
        gateway.client("ann", Only("api", 's'), 1),
        gateway.client("ben", Only("api", 's'), 2),
        gateway.client("cleo", Only("api", 's'), 2),
    ]);
    let (headers, body) = sessionless(SLOW);
    let begin = async |name: &str| {
        let headers = format!("Authorization: Bearer {name}-token\r\n{headers}");
        gateway.served.begin(gateway.served.post(&headers, &body)).await
    };
    let started = || gateway.fake.running.load(Ordering::SeqCst);
    let first = begin("ann").await;
    until(|| started() == 1).await;
    let _second = begin("ann").await;
    let _others = [begin("ben").await, begin("ben").await];
    until(|| started() == 3).await;
    assert_eq!(gateway.run_without_session("cleo", "1").await.status, 200, "there are places");
    assert_eq!(started(), 3, "the second program of the first client waits");
    drop(first);
    until(|| started() == 4).await;
}

const SLOW: &str = "await api.slow({})";
