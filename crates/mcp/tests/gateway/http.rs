//! The server over streamable HTTP: clients of both generations, and hostile requests.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use execbox::CancellationToken;
use execbox::transport::{ListenError, Token};
use execbox_mcp::server::{CodeServer, HttpError, HttpOptions, HttpServer, ServerOptions};
use futures_util::future::join_all;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::fakes::{Fake, Listener, begin, call, code_server, code_server_with, text, until};
use crate::https::server_tls;

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    ended: CancellationToken,
    serving: JoinHandle<()>,
}

/// Serves the fake over HTTP, behind a code server.
pub(crate) async fn serve(fake: &Fake, options: HttpOptions) -> Served {
    serve_code(code_server(fake).await, options).await
}

pub(crate) async fn serve_code(server: CodeServer, options: HttpOptions) -> Served {
    let http = HttpServer::bind("127.0.0.1:0", options).await.unwrap();
    let (address, ended) = (http.address(), CancellationToken::new());
    let serving = tokio::spawn(http.serve(server, ended.clone()));
    Served { address, ended, serving }
}

/// A response: status, headers in lower case, body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Served {
    /// Sends a request unchanged.
    pub(crate) async fn raw(&self, request: impl AsRef<[u8]>) -> Answer {
        Self::answer(self.begin(request).await).await
    }

    /// Sends a request unchanged, without waiting for the response.
    pub(crate) async fn begin(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_ref()).await.unwrap();
        stream
    }

    /// Reads the response.
    pub(crate) async fn answer(mut stream: impl AsyncRead + Unpin) -> Answer {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let (status, headers) = head.split_once("\r\n").unwrap();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, headers: headers.to_lowercase(), body: body.to_owned() }
    }

    /// The head of a request whose connection is closed after the response.
    pub(crate) fn head(&self, line: &str, headers: &str) -> String {
        let host = if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        format!("{line} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n")
    }

    pub(crate) fn post(&self, headers: &str, body: &str) -> String {
        let length = body.len();
        let json = "Content-Type: application/json\r\nAccept: application/json, text/event-stream";
        self.head("POST /mcp", &format!("{headers}{json}\r\nContent-Length: {length}\r\n")) + body
    }

    /// Opens a session of an older protocol and returns its header.
    pub(crate) async fn session(&self, version: &str) -> String {
        self.session_with(version, json!({})).await
    }

    /// The same, for a client with these capabilities.
    pub(crate) async fn session_with(&self, version: &str, capabilities: Json) -> String {
        let answer = self.raw(&self.post("", &initialize(version, &capabilities))).await;
        assert!(answer.body.contains(&format!(r#""protocolVersion":"{version}""#)), "{answer:?}");
        let session = format!("Mcp-Session-Id: {}\r\n", answer.header("mcp-session-id").unwrap());
        let initialized = message("notifications/initialized", None, &json!({}));
        assert_eq!(self.raw(&self.post(&session, &initialized)).await.status, 202);
        session
    }
}

pub(crate) fn initialize(version: &str, capabilities: &Json) -> String {
    let client = json!({ "name": "raw", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
    message("initialize", Some(1), &params)
}

pub(crate) fn message(method: &str, id: Option<u32>, params: &Json) -> String {
    let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    if let Some(id) = id {
        message["id"] = id.into();
    }
    message.to_string()
}

pub(crate) fn run(id: u32, code: &str) -> String {
    message("tools/call", Some(id), &json!({ "name": "mcp_code", "arguments": { "code": code } }))
}

pub(crate) fn both_generations() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
}

async fn connect(
    address: SocketAddr,
    lifecycle: ClientLifecycleMode,
) -> (RunningService<RoleClient, Listener>, Listener) {
    connect_as("test", address, lifecycle).await
}

pub(crate) async fn connect_as(
    name: &'static str,
    address: SocketAddr,
    lifecycle: ClientLifecycleMode,
) -> (RunningService<RoleClient, Listener>, Listener) {
    rustls::crypto::ring::default_provider().install_default().ok();
    let (listener, transport) = (
        Listener { name, ..Listener::default() },
        StreamableHttpClientTransport::from_uri(format!("http://{address}/mcp")),
    );
    (listener.clone().serve_with_lifecycle(transport, lifecycle).await.unwrap(), listener)
}

#[tokio::test]
async fn clients_of_both_generations_search_run_code_and_receive_progress() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    for lifecycle in both_generations() {
        let (client, listener) = connect(served.address, lifecycle).await;
        assert_eq!(client.list_all_tools().await.unwrap().len(), 3);
        let found = call(&client, "mcp_search_tools", json!({ "query": "gives back" })).await;
        assert_eq!(found.structured_content.unwrap()["tools"][0]["name"], "echo");
        let code = "console.log('before'); return (await api.echo({ n: 7 })).n";
        let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
        assert_eq!(text(&result), "7\n\nLogs:\nbefore");
        until(|| listener.progress.lock().unwrap().len() == 2).await;
    }
}

/// Clients ignore progress of a call that has ended. On a busy server, the result could overtake the last lines of progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn progress_precedes_the_result() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    let session = served.session("2025-11-25").await;
    let check = async |id| {
        let params = json!({
            "name": "mcp_code", "arguments": { "code": "await api.echo({}); return 'the result'" },
            "_meta": { "progressToken": id },
        });
        let answer = served.raw(&served.post(&session, &message("tools/call", Some(id), &params))).await;
        let (progress, result) = (answer.body.find("calling api.echo"), answer.body.find("the result"));
        assert!(progress.is_some() && progress < result, "{answer:?}");
    };
    for round in 0..300 {
        join_all((0..8).map(|nth| check(2 + 8 * round + nth))).await;
    }
}

/// A second client is served although the first one has started more programs than there are permits.
#[tokio::test]
async fn a_client_with_many_programs_does_not_keep_others_waiting() {
    for lifecycle in both_generations() {
        let fake = Fake::standard();
        let options = ServerOptions::default().max_programs(8);
        let served = serve_code(code_server_with(&fake, options).await, HttpOptions::default()).await;
        let (greedy, _) = connect_as("greedy", served.address, lifecycle.clone()).await;
        let mut calls = Vec::new();
        for number in 1..=20 {
            calls.push(begin(&greedy, "mcp_execute_code", "await api.slow({})").await);
            // Requests overtake each other. The first seven are those that run.
            if number == 7 {
                until(|| fake.running.load(Ordering::SeqCst) == 7).await;
            }
        }
        let (modest, _) = connect_as("modest", served.address, lifecycle).await;
        assert_eq!(text(&call(&modest, "mcp_execute_code", json!({ "code": "1" })).await), "1");
        assert_eq!(fake.running.load(Ordering::SeqCst), 7, "the last place is not for a client with running programs");
        calls.pop().unwrap().cancel(None).await.unwrap(); // The call waits, and leaves the queue.
        calls.remove(0).cancel(None).await.unwrap();
        until(|| fake.running.load(Ordering::SeqCst) == 8).await;
    }
}

#[tokio::test]
async fn older_protocols_have_sessions_that_end() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = served.session(version).await;
        let answer = served.raw(&served.post(&session, &run(2, "6 * 7"))).await;
        assert!(answer.status == 200 && answer.body.contains(r#""text":"42""#), "{answer:?}");
        let deleted = served.raw(&served.head("DELETE /mcp", &session)).await;
        assert_eq!(deleted.status, 204);
        assert_eq!(served.raw(&served.post(&session, &run(3, "1"))).await.status, 404);
    }
    assert_eq!(served.raw(&served.post("", &run(3, "1"))).await.status, 400, "no session, and none is created");
    assert_eq!(served.raw(&served.post("Mcp-Session-Id: other\r\n", &run(3, "1"))).await.status, 404);
}

#[tokio::test]
async fn unauthorized_requests_are_rejected_with_a_reason() {
    let token = Some(Token::new("s3cret").unwrap());
    let options = HttpOptions::default()
        .token(token)
        .hosts(vec!["box.example.com".into()])
        .origins(vec!["https://app.example.com:*".into()])
        .max_body(1_000);
    let served = serve(&Fake::standard(), options).await;
    let list = message("tools/list", Some(1), &json!({}));
    let status = async |headers: &str| served.raw(&served.post(headers, &list)).await.status;
    let authorized = "Authorization: Bearer s3cret\r\n";
    assert_eq!(status(authorized).await, 400, "authorized, but without a session");
    let missing = ("bearer", "A token is required: send `Authorization: Bearer …`.\n");
    let wrong = ("bearer error=\"invalid_token\"", "The token is not valid.\n");
    for (headers, (challenge, body)) in [
        ("", missing),
        ("Authorization: Basic s3cret\r\n", missing),
        ("Authorization: Bearer \r\n", missing),
        ("X-Token: s3cret\r\n", missing),
        ("Authorization: Bearer s3creT\r\n", wrong),
        ("Authorization: bearer s3cret s3cret\r\n", wrong),
    ] {
        let answer = served.raw(&served.post(headers, &list)).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some(challenge)), "{headers}");
        assert_eq!(answer.body, body);
    }
    for (headers, expected) in [
        ("Host: localhost:1\r\n", 400),
        ("Host: box.example.com\r\n", 400),
        ("Host: BOX.example.com:8080\r\n", 400),
        ("Host: evil.example.com\r\n", 403),
        ("Host: localhost.evil.example.com\r\n", 403),
        ("Origin: https://app.example.com\r\n", 400),
        ("Origin: https://app.example.com:8443\r\n", 400),
        ("Origin: http://app.example.com\r\n", 403),
        ("Origin: https://evil.example.com\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: \r\n", 403),
    ] {
        assert_eq!(status(&format!("{authorized}{headers}")).await, expected, "{headers}");
    }
}

/// What a browser asks and reads for a page of an accepted origin (CORS).
#[tokio::test]
async fn pages_of_accepted_origins_can_send_requests() {
    let token = Some(Token::new("s3cret").unwrap());
    let options = HttpOptions::default().token(token).origins(vec!["https://app.example.com".into()]);
    let served = serve(&Fake::standard(), options).await;
    let asks = "Access-Control-Request-Method: POST\r\n\
                Access-Control-Request-Headers: authorization,content-type,mcp-method,x-other\r\n";
    let preflight = async |origin: &str, asks: &str| {
        served.raw(&served.head("OPTIONS /mcp", &format!("Origin: {origin}\r\n{asks}"))).await
    };
    let answer = preflight("https://app.example.com", asks).await;
    assert_eq!((answer.status, &*answer.body), (204, ""), "without a token: browsers send none");
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("get, post, delete"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization, content-type, mcp-method"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    let answer = preflight("https://evil.example.com", asks).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None));
    assert_eq!(preflight("https://app.example.com", "").await.status, 401, "no preflight");

    let page = "Origin: https://app.example.com\r\n";
    let initialize = served
        .raw(&served.post(&format!("Authorization: Bearer s3cret\r\n{page}"), &initialize("2025-11-25", &json!({}))))
        .await;
    assert_eq!(initialize.status, 200);
    assert_eq!(initialize.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert!(initialize.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    assert_eq!(initialize.header("vary"), Some("origin"));
    let refused = served.raw(&served.post(page, "{}")).await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some("https://app.example.com")));
    let program = served.raw(&served.post("", "{}")).await;
    assert_eq!((program.header("access-control-allow-origin"), program.header("vary")), (None, Some("origin")));
}

#[tokio::test]
async fn web_pages_are_rejected_by_default() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    for headers in ["Origin: http://localhost:1\r\n", "Host: rebound.example.com\r\n", "Origin: null\r\n"] {
        assert_eq!(served.raw(&served.post(headers, "{}")).await.status, 403, "{headers}");
    }
    let port = served.address.port();
    for name in ["localhost", "127.0.0.1"] {
        let own = format!("Host: {name}:{port}\r\nOrigin: http://{name}:{port}\r\n");
        assert_eq!(served.raw(&served.post(&own, &initialize("2025-11-25", &json!({})))).await.status, 200, "{own}");
    }
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let served = serve(&Fake::standard(), HttpOptions::default().max_body(1_000)).await;
    for path in ["/", "/mcp//", "/.well-known/oauth-protected-resource", "/MCP", "/mcp/../secret"] {
        let answer = served.raw(&served.head(&format!("GET {path}"), "")).await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.body, "Not found. MCP clients connect to /mcp.\n");
    }
    let huge = served.raw(&served.post("", &"x".repeat(1_001))).await;
    assert_eq!((huge.status, &*huge.body), (413, "Request body longer than 1000 bytes.\n"));
    let chunks = format!(
        "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n3E9\r\n{}\r\n0\r\n\r\n",
        "x".repeat(1_001)
    );
    let request = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{chunks}");
    assert_eq!(served.raw(&request).await.status, 413);
    assert_eq!(served.raw(&served.head("PUT /mcp", "")).await.status, 405);
    assert_eq!(served.raw(&served.head("GET /mcp", "Accept: text/event-stream\r\n")).await.status, 400);
    assert_eq!(served.raw(&served.head("DELETE /mcp", "")).await.status, 400);
    let long = format!("X-Long: {}\r\n", "x".repeat(70_000));
    assert_eq!(served.raw(&served.head("GET /", &long)).await.status, 431);
    let deep = "[".repeat(900);
    for invalid in ["", "{", "null", "[]", r#"{"jsonrpc":"2.0"}"#, &deep] {
        let answer = served.raw(&served.post("", invalid)).await;
        assert!((400..500).contains(&answer.status), "{invalid}: {answer:?}");
    }
    let session = served.session("2025-06-18").await;
    let wrong = served.raw(&served.post(&format!("{session}MCP-Protocol-Version: 1999-01-01\r\n"), &run(2, "1"))).await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn media_ranges_and_a_slash_after_the_path_are_accepted() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    let client = json!({ "name": "raw", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let body = message("initialize", Some(1), &params);
    for (path, accept, status) in [
        ("/mcp", "Accept: */*\r\n", 200),
        ("/mcp", "Accept: application/*, text/*;q=0.5\r\n", 200),
        ("/mcp", "Accept: text/html\r\nAccept: */*;q=0.1\r\n", 200),
        ("/mcp", "", 200),
        ("/mcp/", "Accept: application/json, text/event-stream\r\n", 200),
        ("/mcp", "Accept: text/html\r\n", 406),
        ("/mcp", "Accept: */*, text/event-stream;q=0\r\n", 406),
        ("/mcp//", "Accept: */*\r\n", 404),
    ] {
        let length = body.len();
        let headers = format!("Content-Type: application/json\r\n{accept}Content-Length: {length}\r\n");
        let answer = served.raw(&(served.head(&format!("POST {path}"), &headers) + &body)).await;
        assert_eq!(answer.status, status, "{path} {accept:?}: {answer:?}");
    }
    // A stream of events that stays open, and not 406.
    let session = served.session("2025-06-18").await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = served.head("GET /mcp/", &format!("{session}Accept: text/*\r\n"));
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
}

#[tokio::test]
async fn addresses_other_than_loopback_require_a_token_and_tls() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let error = HttpServer::bind(address, HttpOptions::default()).await.unwrap_err();
        assert!(matches!(error, HttpError::Listen(ListenError::NeedsToken(_))), "{error}");
    }
    let error = HttpServer::bind("0.0.0.0:0", HttpOptions::default()).await.unwrap_err().to_string();
    assert_eq!(error, "0.0.0.0:0 is reachable from other machines; use 127.0.0.1 or [::1], or require a token");
    let with_token = HttpOptions::default().token(Token::new("s3cret").unwrap());
    let error = HttpServer::bind("0.0.0.0:0", with_token.clone()).await.unwrap_err();
    assert!(matches!(error, HttpError::Listen(ListenError::ClearText(_))), "{error}");
    let with_certificates = HttpOptions::default().tls(server_tls(Some("authority")));
    for options in [with_token.clone().tls(server_tls(None)), with_certificates, with_token.clone().insecure(true)] {
        HttpServer::bind("0.0.0.0:0", options).await.unwrap();
    }
    let open = HttpServer::bind("127.0.0.1:0", with_token.clone()).await.unwrap();
    assert_ne!(open.address().port(), 0);
    let error = HttpServer::bind(&open.address().to_string(), with_token).await.unwrap_err();
    assert!(matches!(error, HttpError::Listen(ListenError::Io { .. })), "{error}");
    for host in ["", "http://box.example.com", "two words"] {
        let error = HttpServer::bind("127.0.0.1:0", HttpOptions::default().hosts(vec![host.into()]));
        assert!(matches!(error.await, Err(HttpError::Host(_))), "{host}");
    }
    for origin in ["", "app.example.com", "https://app.example.com/", "https://app.example.com/path", "*"] {
        let options = HttpOptions::default().origins(vec![origin.into()]);
        assert!(matches!(HttpServer::bind("127.0.0.1:0", options).await, Err(HttpError::Origin(_))), "{origin}");
    }
}

#[tokio::test]
async fn cancelling_a_call_cancels_the_guest_and_its_tools() {
    let fake = Fake::standard();
    let served = serve(&fake, HttpOptions::default()).await;
    for lifecycle in both_generations() {
        let (client, _) = connect(served.address, lifecycle).await;
        let handle = begin(&client, "mcp_code", "await api.slow({})").await;
        fake.started.notified().await;
        handle.cancel(None).await.unwrap();
        fake.cancelled.notified().await;
    }
}

#[tokio::test]
async fn dropping_a_request_cancels_the_guest_and_its_tools() {
    let fake = Fake::standard();
    let served = serve(&fake, HttpOptions::default()).await;
    let session = served.session("2025-06-18").await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "mcp_code", "arguments": { "code": "await api.slow({})" }, "_meta": meta });
    let newest = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp_code\r\n";
    for request in [
        served.post(&session, &run(2, "await api.slow({})")),
        served.post(newest, &message("tools/call", Some(2), &params)),
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        fake.started.notified().await;
        drop(stream);
        fake.cancelled.notified().await;
    }
}

#[tokio::test]
async fn closing_a_session_cancels_its_calls() {
    let fake = Fake::standard();
    let served = serve(&fake, HttpOptions::default()).await;
    let session = served.session("2025-06-18").await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(served.post(&session, &run(2, "await api.slow({})")).as_bytes()).await.unwrap();
    fake.started.notified().await;
    let same_id = served.raw(&served.post(&session, &run(2, "1"))).await;
    assert_eq!(same_id.status, 400, "{same_id:?}");
    assert_eq!(
        serde_json::from_str::<Json>(&same_id.body).unwrap(),
        json!({ "jsonrpc": "2.0", "id": 2, "error": {
            "code": -32600, "message": "invalid request: another request with this id is not answered yet"
        } })
    );
    let again = served.raw(&served.post(&session, &run(3, "1"))).await;
    assert_eq!(again.status, 200, "the session goes on: {again:?}");
    let again = served.raw(&served.post(&session, &run(3, "1"))).await;
    assert_eq!(again.status, 200, "the id is free again: {again:?}");
    assert_eq!(served.raw(&served.head("DELETE /mcp", &session)).await.status, 204);
    fake.cancelled.notified().await;
}

#[tokio::test]
async fn stopping_the_server_cancels_all_calls() {
    for lifecycle in both_generations() {
        let fake = Fake::standard();
        let served = serve(&fake, HttpOptions::default()).await;
        let (client, _) = connect(served.address, lifecycle).await;
        let _running = begin(&client, "mcp_code", "await api.slow({})").await;
        fake.started.notified().await;
        served.ended.cancel();
        fake.cancelled.notified().await;
        served.serving.await.unwrap();
    }
}

#[tokio::test]
async fn a_further_session_closes_one_that_is_not_in_use_or_is_refused() {
    let fake = Fake::standard();
    let served = serve(&fake, HttpOptions::default().max_sessions(3)).await;
    let [busy, used, unused] =
        [served.session("2025-06-18").await, served.session("2025-06-18").await, served.session("2025-06-18").await];
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(served.post(&busy, &run(2, "await api.slow({})")).as_bytes()).await.unwrap();
    fake.started.notified().await;
    let one = |session: &str| served.post(session, &run(3, "1"));
    assert_eq!(served.raw(&one(&used)).await.status, 200);
    let further = served.session("2025-06-18").await;
    assert_eq!(served.raw(&one(&unused)).await.status, 404, "it has called nothing");
    for session in [&further, &used, &busy] {
        assert_eq!(served.raw(&one(session)).await.status, 200);
    }
    let client = json!({ "name": "raw", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    for _ in 0..20 {
        let refused = served.raw(&served.post("", &message("initialize", Some(1), &params))).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "all are in use: {refused:?}");
        assert_eq!(refused.body, "All sessions are in use; end one, or try again later.\n");
    }
    assert_eq!(served.raw(&served.head("DELETE /mcp", &used)).await.status, 204);
    served.session("2025-06-18").await;
}

/// Every client that can connect can open sessions.
#[tokio::test]
async fn a_flood_of_sessions_ends_no_session_in_use_and_loses_no_state() {
    let served = serve(&Fake::standard(), HttpOptions::default().max_sessions(128)).await;
    let session = served.session("2025-06-18").await;
    let store = run(2, "await store.set({ key: 'a', value: 'kept' })");
    assert_eq!(served.raw(&served.post(&session, &store)).await.status, 200);
    for _ in 0..5 {
        join_all((0..50).map(|_| served.session("2025-06-18"))).await;
    }
    let kept = served.raw(&served.post(&session, &run(3, "await store.get('a')"))).await;
    assert!(kept.status == 200 && kept.body.contains(r#""text":"kept""#), "{kept:?}");
    // The flood calls tools, too: then further sessions are refused.
    let client = json!({ "name": "raw", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    loop {
        let answer = served.raw(&served.post("", &message("initialize", Some(1), &params))).await;
        if answer.status == 503 {
            break;
        }
        let flood = format!("Mcp-Session-Id: {}\r\n", answer.header("mcp-session-id").unwrap());
        assert_eq!(
            served.raw(&served.post(&flood, &run(2, "await store.set({ key: 'a', value: 1 })"))).await.status,
            200
        );
    }
    let kept = served.raw(&served.post(&session, &run(4, "await store.get('a')"))).await;
    assert!(kept.status == 200 && kept.body.contains(r#""text":"kept""#), "{kept:?}");
}

#[tokio::test]
async fn idle_sessions_end() {
    let served = serve(&Fake::standard(), HttpOptions::default().idle(Duration::from_millis(50))).await;
    let session = served.session("2025-06-18").await;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if served.raw(&served.post(&session, &run(2, "1"))).await.status == 404 {
            break;
        }
    }
}

#[tokio::test]
async fn a_further_connection_closes_an_idle_one_whose_response_is_whole() {
    let served = serve(&Fake::standard(), HttpOptions::default().max_connections(8)).await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        let mut stream = served.begin("GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 400");
        idle.push(stream);
    }
    assert_eq!(served.raw(&served.head("GET /", "")).await.status, 404);
    let mut rest = Vec::new();
    idle[0].read_to_end(&mut rest).await.unwrap();
    let rest = String::from_utf8(rest).unwrap();
    let (head, body) = rest.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}\r\n", body.len())) && !body.is_empty(), "whole: {rest}");
}

/// Bodies that never end must not block other connections, whatever was sent before them.
#[tokio::test]
async fn connections_with_an_incomplete_request_give_way() {
    let served = serve(&Fake::standard(), HttpOptions::default().max_connections(8)).await;
    let session = served.session("2025-06-18").await;
    let whole = served.post(&session, &run(2, "1")).replace("Connection: close\r\n", "");
    let incomplete = &whole[..whole.len() - 1];
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n";
    let first = "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let chunk = format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nabc");
    for (before, attack) in
        [("", incomplete), ("", head), ("", &chunk), (first, incomplete), (first, head), (first, ""), (first, &chunk)]
    {
        let mut flood = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            let mut answer = [0; 12];
            if !before.is_empty() {
                stream.write_all(before.as_bytes()).await.unwrap();
                stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(&answer, b"HTTP/1.1 400", "a client that sends its request is answered");
            }
            stream.write_all(attack.as_bytes()).await.unwrap();
            flood.push(stream);
        }
        let answer = served.raw(&served.post(&session, &run(3, "6 * 7"))).await;
        assert!(answer.status == 200 && answer.body.contains(r#""text":"42""#), "{attack:?}: {answer:?}");
        // The request did not wait until the connections of the flood timed out: the last one is still open.
        let mut rest = vec![0; 1 << 16];
        let last = flood.last().unwrap();
        while let Ok(read) = last.try_read(&mut rest) {
            assert_ne!(read, 0, "{attack:?}: the newest connection has ended");
        }
    }
}

/// A proxy before the server and the server could read such requests differently.
#[tokio::test]
async fn ambiguous_requests_are_rejected() {
    let served = serve(&Fake::standard(), HttpOptions::default()).await;
    let (host, list) = (format!("Host: {}\r\n", served.address), message("tools/list", Some(1), &json!({})));
    let json = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let (length, chunks) = (list.len(), format!("{:x}\r\n{list}\r\n0\r\n\r\n", list.len()));
    let by_length =
        |fields: &str| format!("POST /mcp HTTP/1.1\r\n{json}{fields}Content-Length: {length}\r\n\r\n{list}");
    let in_chunks = |fields: &str| format!("POST /mcp HTTP/1.1\r\n{json}{host}{fields}\r\n{chunks}");
    let at = |url: &str| by_length(&host).replace(" /mcp ", &format!(" {url} "));
    let no_session = "session ID is required";
    for unambiguous in [
        by_length(&host),
        in_chunks("Transfer-Encoding: chunked\r\n"),
        at(&format!("http://{}/mcp", served.address)),
        "\r\n".to_owned() + &by_length(&host),
    ] {
        let answer = served.raw(&unambiguous.replacen("\r\nAccept", "\r\nConnection: close\r\nAccept", 1)).await;
        let body = answer.body.to_lowercase();
        assert!(answer.status == 400 && body.contains(&no_session.to_lowercase()), "{unambiguous:?}: {answer:?}");
    }
    let other = "evil.example.com";
    for ambiguous in [
        by_length(""),
        by_length(&format!("{host}{host}")),
        by_length(&format!("{host}Host: {other}\r\n")),
        by_length(&format!("Host: {other}\r\n{host}")),
        by_length(&format!("{host}hOST: localhost\r\n")),
        by_length(&format!("{host}Content-Length: {length}\r\n")),
        by_length(&format!("{host}Content-Length: 1\r\n")),
        by_length(&format!("{host}Content-Length : {length}\r\n")),
        by_length(&format!("{host}X: a\r\n b\r\n")),
        by_length(&format!("{host}X: a\nY: b\r\n")),
        by_length(&format!("{host}X: a\rY: b\r\n")),
        by_length(&format!("{host}X: a\0b\r\n")),
        by_length(&host).replace("\r\n", "\n"),
        by_length(&host).replace(&format!("Length: {length}"), &format!("Length: +{length}")),
        by_length(&host).replace(&format!("Length: {length}"), &format!("Length: {length}, {length}")),
        by_length(&host).replace(&format!("Length: {length}"), "Length: -1"),
        in_chunks(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n")),
        in_chunks(&format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n")),
        in_chunks("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"),
        in_chunks("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        in_chunks("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
        in_chunks("Transfer-Encoding: identity, chunked\r\n"),
        in_chunks("Transfer-Encoding: xchunked\r\n"),
        in_chunks("Transfer-Encoding : chunked\r\n"),
        at(&format!("http://{other}/mcp")),
        at(&format!("http://{}@{other}/mcp", served.address)),
        at("http://localhost:1/mcp"),
    ] {
        let answer = served.raw(&ambiguous).await;
        let body = answer.body.to_lowercase();
        assert!(answer.status == 400 && !body.contains(&no_session.to_lowercase()), "{ambiguous:?}: {answer:?}");
    }
    // An ambiguous request after another one is rejected, too, and data after a chunked body is not read as a request.
    let two = by_length(&host) + &by_length(&format!("{host}{host}"));
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(two.as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    assert!(answers.contains("expected exactly one Host field"), "{answers}");
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all((in_chunks("Transfer-Encoding: chunked\r\n") + &by_length(&host)).as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers).await; // The rest is not read, so that the connection may be reset.
    assert_eq!(String::from_utf8(answers).unwrap().matches("HTTP/1.1 ").count(), 1);
}

#[tokio::test]
async fn connections_without_a_token_give_way_to_those_that_have_one() {
    let options = HttpOptions::default().token(Token::new(&"t".repeat(40)).unwrap()).max_connections(4);
    let served = serve(&Fake::standard(), options).await;
    let authorization = format!("Authorization: Bearer {}\r\n", "t".repeat(40));
    let request = served.post(&authorization, "{}");
    let (most, rest) = request.split_at(request.len() - 1);
    let mut slow = TcpStream::connect(served.address).await.unwrap();
    slow.write_all(most.as_bytes()).await.unwrap();
    // The server has received the head on `slow` when a later connection is answered.
    assert_eq!(served.raw(&served.head("GET /mcp", &authorization)).await.status, 400);
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(b"POST /mcp HTTP/1.1\r\nX: ").await.unwrap();
        idle.push(stream);
    }
    let answer = served.raw(&served.head("GET /mcp", &authorization)).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    slow.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 4"), "its body may take longer");
    assert_eq!(served.raw(&served.head("GET /mcp", "")).await.status, 401);
}
