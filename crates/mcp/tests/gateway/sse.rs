//! Servers with the older transport: HTTP with SSE.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use execbox::{ExecuteRequest, Executor as _, InlineExecutor, Limits};
use execbox_mcp::config::{Config, Variables};
use execbox_mcp::servers::{ServerState, Servers};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::fakes::until;
use crate::remote::{fine, one_tool, run};

/// A server: messages are posted to `/messages`, and answered in a stream at `/sse`.
#[derive(Clone)]
struct Older {
    url: String,
    /// The data of the event `endpoint`, before which others come.
    endpoint: Arc<Mutex<String>>,
    /// Whether notifications are not answered.
    is_mute: Arc<AtomicBool>,
    /// The status of messages that are posted.
    status: Arc<Mutex<u16>>,
    /// Sends whole events over the last stream; dropping it ends the stream.
    stream: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>,
    /// The heads of requests.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Older {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let older = Self {
            url: format!("http://{}/sse", listener.local_addr().unwrap()),
            endpoint: Arc::new(Mutex::new("/messages?session=1".to_owned())),
            is_mute: Arc::default(),
            status: Arc::new(Mutex::new(202)),
            stream: Arc::default(),
            heads: Arc::default(),
        };
        let server = older.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        older
    }

    async fn serve(self, mut stream: TcpStream) -> Option<()> {
        let mut request = Vec::new();
        let (head, body) = loop {
            if stream.read_buf(&mut request).await.ok()? == 0 {
                return None;
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length =
                head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break (head.to_owned(), body.to_owned());
            }
        };
        let status = if head.starts_with("POST /messages?session=1") { *self.status.lock().unwrap() } else { 404 };
        self.heads.lock().unwrap().push(head.to_lowercase());
        if head.starts_with("GET /sse") {
            return self.events(stream).await;
        }
        if self.is_mute.load(Ordering::Relaxed) && body.contains("notifications/") {
            std::future::pending::<()>().await;
        }
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 8\r\nConnection: close\r\n\r\nAccepted");
        stream.write_all(answer.as_bytes()).await.ok()?;
        let (_, _, answer) = one_tool(&body, |_| fine());
        if status == 202 && !answer.is_empty() {
            self.send(&format!("event: message\ndata: {answer}\n\n"));
        }
        Some(())
    }

    async fn events(self, mut stream: TcpStream) -> Option<()> {
        let (events, mut received) = mpsc::unbounded_channel();
        let endpoint = self.endpoint.lock().unwrap().clone();
        *self.stream.lock().unwrap() = Some(events);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hello\n\n";
        let others = "retry: 1000\n\nevent: ping\ndata: 1\n\nid: 7\n\ndata: hello\n\nevent: message\ndata: {}\n\n";
        stream.write_all(format!("{head}{others}event: endpoint\ndata: {endpoint}\n\n").as_bytes()).await.ok()?;
        while let Some(event) = received.recv().await {
            stream.write_all(event.as_bytes()).await.ok()?;
        }
        Some(())
    }

    fn send(&self, event: &str) {
        if let Some(stream) = &*self.stream.lock().unwrap() {
            let _ = stream.send(event.to_owned());
        }
    }

    async fn open(&self) -> Result<Upstream, String> {
        let headers = [("X-Key".to_owned(), "s3cret".to_owned())];
        let options = UpstreamOptions::default().restart_pause(Duration::from_millis(1));
        Upstream::open_http("far", &self.url, &headers, options).await.map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn a_server_that_rejects_streamable_http_is_connected_over_sse() {
    let older = Older::new().await;
    let upstream = older.open().await.unwrap();
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
    let calls = "(await Promise.all(Array.from({ length: 100 }, () => far.ask({})))).length";
    assert_eq!(run(&upstream, calls).await.outcome, Ok(Some(json!(100))));
    assert!(older.heads.lock().unwrap().iter().all(|head| head.contains("x-key: s3cret")));
    // Lines with several `data` fields, and events of other kinds.
    let requests = || older.heads.lock().unwrap().len();
    let before = requests();
    older.send("event: ping\ndata: x\n\n");
    older.send("data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/tools/list_changed\"}\n\n");
    until(|| requests() > before).await;
    upstream.close().await;
}

#[tokio::test]
async fn notifications_that_are_not_answered_delay_the_start_by_three_seconds() {
    let older = Older::new().await;
    older.is_mute.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let upstream = older.open().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
}

#[tokio::test]
async fn a_server_that_sends_without_an_end_is_disconnected() {
    for event in [": comment\n", "\n", "event: ping\ndata: x\n\n", "data: x\n\n", "id: 1\n\n"] {
        let older = Older::new().await;
        let upstream = older.open().await.unwrap();
        *older.status.lock().unwrap() = 200; // Calls are not answered.
        let requests = || older.heads.lock().unwrap().len();
        let before = requests();
        let call = tokio::spawn({
            let provider = upstream.provider();
            let limits = Limits::default().timeout(Duration::from_mins(10));
            async move {
                let execution = ExecuteRequest::new("await far.ask({})").provider(provider).limits(limits);
                InlineExecutor::new().unwrap().execute(execution).await
            }
        });
        until(|| requests() > before).await;
        older.send(&event.repeat(30_000));
        let message = call.await.unwrap().outcome.unwrap_err().message;
        assert!(message.contains("disconnected: the server sent too much without a request"), "{event:?}: {message}");
        *older.status.lock().unwrap() = 202;
        until_async(async || run(&upstream, "await far.ask({})").await.is_ok()).await;
    }
}

/// Waits until `is_so`.
async fn until_async(is_so: impl AsyncFn() -> bool) {
    while !is_so().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_type_of_a_server_selects_its_transport() {
    let older = Older::new().await;
    let mut config = Config::default();
    let entries = json!({ "sse": { "type": "sse", "url": older.url }, "http": { "type": "http", "url": older.url } });
    config.read(&json!({ "mcpServers": entries }).to_string(), &Variables(|_| None)).unwrap();
    let servers = Servers::start(config.servers, &UpstreamOptions::default(), None);
    servers.settled().await;
    let states: Vec<ServerState> = servers.status().into_iter().map(|status| status.state).collect();
    assert!(matches!(states[0], ServerState::Ready { tools: 1, .. }), "{states:?}");
    assert!(
        matches!(&states[1], ServerState::Failed(failure) if failure.to_string() == "HTTP 404 Not Found: Accepted"),
        "{states:?}"
    );
    // The server called "http" is asked in both ways.
    assert_eq!(older.heads.lock().unwrap().iter().filter(|head| head.starts_with("post /sse")).count(), 2);
    servers.close().await;
}

#[tokio::test]
async fn messages_are_posted_to_the_origin_of_the_server_only() {
    let (older, other) = (Older::new().await, Older::new().await);
    let elsewhere = other.url.replace("/sse", "/messages");
    for endpoint in [elsewhere.as_str(), "http://[", "//far.example/x", "file:///etc/passwd"] {
        *older.endpoint.lock().unwrap() = endpoint.to_owned();
        let error = older.open().await.unwrap_err();
        // The answer to the first message is reported: the server has no older transport that can be used.
        assert_eq!(error, "MCP server \"far\": HTTP 404 Not Found: Accepted", "{endpoint}");
        let error = open_sse(&older).await;
        assert!(error.contains("another origin") || error.contains("no valid URL"), "{endpoint}: {error}");
    }
    assert_eq!(other.heads.lock().unwrap().len(), 0);
    *older.endpoint.lock().unwrap() = String::new() + &older.url.replace("/sse", "/messages?session=1");
    assert!(older.open().await.is_ok(), "an absolute URL");
}

/// The error of a server that is configured with this transport.
async fn open_sse(older: &Older) -> String {
    let mut config = Config::default();
    let text = json!({ "mcpServers": { "far": { "type": "sse", "url": older.url } } }).to_string();
    config.read(&text, &Variables(|_| None)).unwrap();
    let options = UpstreamOptions::default().connect_timeout(Duration::from_mins(1));
    let servers = Servers::start(config.servers, &options, None);
    servers.settled().await;
    let status = servers.status().remove(0).state;
    servers.close().await;
    if let ServerState::Failed(failure) = status { failure.to_string() } else { String::new() }
}

#[tokio::test]
async fn a_stream_that_ends_or_exceeds_a_limit_fails_its_calls_and_the_next_one_connects_again() {
    let older = Older::new().await;
    let upstream = older.open().await.unwrap();
    for (end, reason) in [
        (None, "connection lost"),
        (Some(format!("data: {}\n\n", "x".repeat(17 << 20))), "response longer than 16777216 bytes"),
        (Some("data: not json\n\n".to_owned()), ""),
    ] {
        *older.status.lock().unwrap() = 204; // Posted, and not answered.
        let posted = older.heads.lock().unwrap().len();
        let (provider, code) = (upstream.provider(), "await far.ask({})");
        let calling = tokio::spawn(async move {
            use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
            InlineExecutor::new().unwrap().execute(ExecuteRequest::new(code).provider(provider)).await
        });
        until(|| older.heads.lock().unwrap().len() > posted).await;
        match end {
            None => *older.stream.lock().unwrap() = None,
            Some(event) => older.send(&event),
        }
        *older.status.lock().unwrap() = 202;
        if reason.is_empty() {
            calling.abort(); // Invalid messages are ignored.
            continue;
        }
        let message = calling.await.unwrap().outcome.unwrap_err().message;
        assert!(message.contains(reason), "{message}");
        assert_eq!(connected_again(&upstream).await, json!("fine"));
    }
    assert_eq!(connected_again(&upstream).await, json!("fine"));
    *older.status.lock().unwrap() = 503;
    let message = run(&upstream, "await far.ask({})").await.outcome.unwrap_err().message;
    assert!(message.contains("HTTP 503 Service Unavailable"), "{message}");
}

/// Calls until the pause before connecting again is over. Returns the result.
async fn connected_again(upstream: &Upstream) -> Json {
    loop {
        if let Ok(result) = run(upstream, "await far.ask({})").await.outcome {
            return result.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
