//! Which versions of the protocol upstream servers speak is found out whatever they do with a first message that they do not
//! know, and remembered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
use execbox_mcp::upstream::{Upstream, UpstreamError, UpstreamOptions};
use rmcp::model::ProtocolVersion;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

/// What a server does with a request of the handshake.
#[derive(Clone)]
enum Reply {
    Result(Json),
    Error(Json),
    /// An error without an id.
    Anonymous(Json),
    /// An answer after this time, in milliseconds, on the first connection.
    Late(u64, Box<Reply>),
    Nothing,
    /// The connection ends.
    End,
}

use Reply::{Anonymous, End, Late, Nothing};

/// A server, by its replies to each `server/discover`, of which the last is repeated, and to `initialize` with a version.
#[derive(Clone)]
struct Server {
    discover: Vec<Reply>,
    initialize: fn(&str) -> Reply,
    /// The requests of each connection: the last part of the method, and the version that the request states.
    log: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Server {
    fn new(discover: impl Into<Vec<Reply>>, initialize: fn(&str) -> Reply) -> Self {
        Self { discover: discover.into(), initialize, log: Arc::default() }
    }

    fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = self.clone();
        tokio::spawn(async move { server.serve(far).await });
        near
    }

    async fn serve(self, stream: DuplexStream) {
        self.log.lock().unwrap().push(Vec::new());
        let connection = self.log.lock().unwrap().len() - 1;
        let (reader, writer) = tokio::io::split(stream);
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let mut lines = BufReader::new(reader).lines();
        let mut discoveries = self.discover.iter().chain(std::iter::repeat(self.discover.last().unwrap()));
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Json = serde_json::from_str(&line).unwrap();
            let (method, id) = (message["method"].as_str().unwrap(), message["id"].clone());
            let meta = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            let version = message["params"]["protocolVersion"].as_str().or(meta.as_str()).unwrap_or_default();
            let request = format!("{} {version}", method.rsplit('/').next().unwrap());
            self.log.lock().unwrap()[connection].push(request.trim_end().to_owned());
            let reply = match method {
                "server/discover" => discoveries.next().unwrap().clone(),
                "initialize" => (self.initialize)(version),
                "tools/list" => {
                    let tool = json!({ "name": "die", "inputSchema": { "type": "object" } });
                    Reply::Result(json!({ "resultType": "complete", "tools": [tool] }))
                }
                "tools/call" => End,
                _ => Nothing,
            };
            let (reply, pause) =
                if let Late(ms, reply) = reply { (*reply, if connection == 0 { ms } else { 0 }) } else { (reply, 0) };
            let answer = match reply {
                Reply::Result(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                Reply::Error(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
                Anonymous(error) => json!({ "jsonrpc": "2.0", "id": null, "error": error }),
                Nothing | Late(..) => continue,
                End => return,
            };
            let writer = Arc::clone(&writer);
            let write = async move {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let _ = writer.lock().await.write_all(format!("{answer}\n").as_bytes()).await;
            };
            if pause > 0 {
                tokio::spawn(write);
            } else {
                write.await;
            }
        }
    }

    async fn open(&self) -> Result<Upstream, UpstreamError> {
        self.open_with(UpstreamOptions::default()).await
    }

    async fn open_with(&self, options: UpstreamOptions) -> Result<Upstream, UpstreamError> {
        let server = self.clone();
        let options = options.restart_pause(Duration::ZERO);
        Upstream::open_stream("far", move || server.connect(), options).await
    }

    /// The requests without subscriptions.
    fn logged(&self) -> String {
        let connections = self.log.lock().unwrap();
        let requests = |requests: &Vec<String>| {
            let called = requests.iter().filter(|request| !request.starts_with("listen"));
            called.map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        connections.iter().map(requests).collect::<Vec<_>>().join(" | ")
    }
}

fn discovered(versions: &[&str]) -> Reply {
    Reply::Result(json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": versions,
        "capabilities": { "tools": {} }, "serverInfo": { "name": "far", "version": "1" }
    }))
}

fn initialized(version: &str) -> Reply {
    Reply::Result(json!({
        "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": { "name": "far", "version": "1" }
    }))
}

fn error(code: i64, message: &str) -> Json {
    json!({ "code": code, "message": message })
}

fn unsupported(versions: &[&str]) -> Reply {
    Reply::Error(json!({
        "code": -32022, "message": "Unsupported protocol version", "data": { "supported": versions, "requested": "2026-07-28" }
    }))
}

fn unknown() -> Reply {
    Reply::Error(error(-32601, "Method not found"))
}

/// Only the version 2024-11-05 is accepted.
fn oldest(version: &str) -> Reply {
    match version {
        "2024-11-05" => initialized(version),
        _ => Reply::Error(error(-32602, "unsupported version; use 2024-11-05")),
    }
}

/// Only the version 2024-11-05 is accepted, and no error says so.
fn oldest_and_silent(version: &str) -> Reply {
    if version == "2024-11-05" { initialized(version) } else { Reply::Error(error(-32602, "bad parameters")) }
}

/// Only the version 2025-03-26 is accepted; the error names the version that is refused.
fn repeating(version: &str) -> Reply {
    match version {
        "2025-03-26" => initialized(version),
        _ => Reply::Error(error(-32603, &format!("protocol version {version} is not implemented"))),
    }
}

/// The methods of the requests of each connection are separated by ` | `; versions follow the methods that state them.
#[tokio::test(start_paused = true)]
async fn each_server_is_connected_in_the_way_that_it_knows() {
    let modern = || discovered(&["2026-07-28"]);
    let starting = |reply: Reply| Late(5000, Box::new(reply));
    let refusing = |error| Server::new([error], initialized);
    let (called_modern, called_legacy) =
        ("discover 2026-07-28, list 2026-07-28", "discover 2026-07-28, initialize 2025-11-25, initialized, list");
    let cases = [
        ("modern", Server::new([modern()], |_| unknown()), called_modern),
        ("both eras", Server::new([discovered(&["2025-11-25", "2026-07-28"])], initialized), called_modern),
        (
            "modern, and rejects the version once",
            Server::new([unsupported(&["2026-07-28"]), modern()], |_| unknown()),
            "discover 2026-07-28, discover 2026-07-28, list 2026-07-28",
        ),
        (
            "modern, and starting",
            Server::new([starting(modern())], |_| Late(5000, Box::new(unknown()))),
            "discover 2026-07-28, initialize 2025-11-25, list 2026-07-28",
        ),
        (
            "modern, starting, and ignores `initialize`",
            Server::new([starting(modern())], |_| Nothing),
            "discover 2026-07-28, initialize 2025-11-25, list 2026-07-28",
        ),
        (
            "both eras, and starting",
            Server::new([starting(modern())], |version| Late(3000, Box::new(initialized(version)))),
            called_legacy,
        ),
        ("unknown method", refusing(unknown()), called_legacy),
        ("not initialized", refusing(Reply::Error(error(-32602, "not initialized"))), called_legacy),
        ("an error of the server", refusing(Reply::Error(error(1, "oh"))), called_legacy),
        ("an error as a text", refusing(Reply::Error(json!("what?"))), called_legacy),
        ("an error without an id", refusing(Anonymous(error(-32600, "invalid"))), called_legacy),
        ("headers do not match", refusing(Reply::Error(error(-32020, "header mismatch"))), called_legacy),
        ("an empty result", refusing(Reply::Result(json!({}))), called_legacy),
        ("a text as the result", refusing(Reply::Result(json!("hello"))), called_legacy),
        ("no answer", refusing(Nothing), called_legacy),
        ("unsupported version, no others", refusing(unsupported(&[])), called_legacy),
        ("the version in a text", refusing(Reply::Error(error(-32602, "2026-07-28 is unknown"))), called_legacy),
        (
            "the version and others in a text",
            refusing(Reply::Error(error(-32602, "2026-07-28 is unknown; use 2025-03-26"))),
            "discover 2026-07-28, initialize 2025-03-26, initialized, list",
        ),
        (
            "unsupported version, others",
            refusing(unsupported(&["2024-11-05", "2025-06-18"])),
            "discover 2026-07-28, initialize 2025-06-18, initialized, list",
        ),
        (
            "other versions",
            refusing(discovered(&["2025-03-26"])),
            "discover 2026-07-28, initialize 2025-03-26, initialized, list",
        ),
        ("ends", refusing(End), "discover 2026-07-28 | initialize 2025-11-25, initialized, list"),
        (
            "an old version",
            Server::new([unknown()], oldest),
            "discover 2026-07-28, initialize 2025-11-25 | initialize 2024-11-05, initialized, list",
        ),
        (
            "ends, or an old version",
            Server::new([End], oldest),
            "discover 2026-07-28 | initialize 2025-11-25 | initialize 2024-11-05, initialized, list",
        ),
    ];
    for (name, server, requests) in cases {
        assert_connected(name, server, requests).await;
    }
}

/// A server that knows the modern version is not asked for it, and others that it names are tried.
#[tokio::test]
async fn a_configured_version_is_the_first_that_a_server_is_asked_for() {
    for (initialize, requests) in [
        (initialized as fn(&str) -> Reply, "initialize 2025-06-18, initialized, list"),
        (oldest, "initialize 2025-06-18 | initialize 2024-11-05, initialized, list"),
    ] {
        let server = Server::new([discovered(&["2026-07-28"])], initialize);
        let protocol_version = Some(ProtocolVersion::V_2025_06_18);
        server.open_with(UpstreamOptions::default().protocol_version(protocol_version)).await.unwrap();
        assert_eq!(server.logged(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn versions_that_no_error_names_are_tried_once_each() {
    let cases = [
        (
            "an old version that no error names",
            Server::new([unknown()], oldest_and_silent),
            "discover 2026-07-28, initialize 2025-11-25 | initialize 2025-06-18 | initialize 2025-03-26 | \
             initialize 2024-11-05, initialized, list",
        ),
        (
            "ends, or an old version that no error names",
            Server::new([End, unknown()], |version| match version {
                "2025-03-26" => initialized(version),
                _ => Reply::Error(error(-32600, "")),
            }),
            "discover 2026-07-28 | initialize 2025-11-25 | discover 2026-07-28 | initialize 2025-06-18 | \
             initialize 2025-03-26, initialized, list",
        ),
        (
            "an error that names the refused version only",
            Server::new([unknown()], repeating),
            "discover 2026-07-28, initialize 2025-11-25 | initialize 2025-11-25 | discover 2026-07-28, \
             initialize 2025-11-25 | initialize 2025-06-18 | initialize 2025-03-26, initialized, list",
        ),
    ];
    for (name, server, requests) in cases {
        assert_connected(name, server, requests).await;
    }
}

/// Connects a server with these requests, and a second time in the way that is known then.
async fn assert_connected(name: &str, server: Server, requests: &str) {
    let upstream = server.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(server.logged(), requests, "{name}");
    tokio::time::resume();
    let program = "for (const _ of [1, 2]) await far.die({}).catch(() => 0)"; // The second call connects again.
    let execution = ExecuteRequest::new(program).provider(upstream.provider());
    let result = InlineExecutor::new().unwrap().execute(execution).await;
    assert!(result.is_ok(), "{name}: {result:?}");
    tokio::time::pause();
    let last = requests.rsplit(" | ").next().unwrap();
    let known = last.rsplit(", ").find(|request| request.starts_with("initialize ")).filter(|_| last.ends_with("list"));
    let again = format!("{requests}, call | {}", known.unwrap_or("discover 2026-07-28"));
    assert!(server.logged().replace("call 2026-07-28", "call").starts_with(&again), "{name}: {}", server.logged());
}

/// The error that tells most is reported.
#[tokio::test(start_paused = true)]
async fn servers_that_refuse_both_ways_are_not_connected() {
    let capability = || Reply::Error(error(-32021, "elicitation is required"));
    let cases = [
        ("elicitation is required", Server::new([capability()], |_| unknown())),
        ("no license", Server::new([unknown()], |_| Reply::Error(error(-32000, "no license")))),
        ("no license", Server::new([End], |_| Reply::Error(error(-32000, "no license")))),
        ("handshake failed", Server::new([End], |_| End)),
        ("no response within 1m", Server::new([Nothing], |_| Nothing)),
    ];
    for (reason, server) in cases {
        let error = server.open().await.map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, format!("MCP server \"far\": {reason}"));
    }
}

/// What a server over HTTP answers `server/discover` with: status and body, after a time.
#[derive(Clone, Copy)]
struct Refusal(u16, &'static str, Duration);

/// Serves HTTP, a request for each connection. `refusals` are the answers to the first requests in the modern way; later ones are
/// served. Without `is_modern`, all of them are refused. Returns the URL.
async fn site(is_modern: bool, refusals: &'static [Refusal], log: &Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (log, refused) = (Arc::clone(log), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (log, refused) = (Arc::clone(&log), Arc::clone(&refused));
            tokio::spawn(async move {
                let (head, message, mut stream) = read_request(stream).await;
                let method = message["method"].as_str().unwrap_or_default().to_owned();
                let has_metadata = head.contains("mcp-protocol-version: 2026-07-28")
                    && head.contains(&format!("mcp-method: {method}"))
                    && message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "execbox";
                let name = method.rsplit('/').next().unwrap();
                log.lock().unwrap().push(format!("{name}{}", if has_metadata { " with metadata" } else { "" }));
                let result = match (&*method, has_metadata) {
                    ("server/discover", _) => {
                        let at = refused.fetch_add(1, Ordering::SeqCst);
                        let refusal = if is_modern { refusals.get(at) } else { refusals.get(at).or(refusals.last()) };
                        if let Some(Refusal(status, body, pause)) = refusal {
                            tokio::time::sleep(*pause).await;
                            return respond(&mut stream, *status, &body.replace("%ID%", &message["id"].to_string()))
                                .await;
                        }
                        let Reply::Result(result) = discovered(&["2026-07-28"]) else { unreachable!() };
                        result
                    }
                    ("initialize", _) if !is_modern => {
                        let Reply::Result(result) = initialized("2025-06-18") else { unreachable!() };
                        result
                    }
                    ("tools/list", _) if has_metadata == is_modern => json!({ "resultType": "complete", "tools": [] }),
                    ("notifications/initialized", _) => return respond(&mut stream, 202, "").await,
                    _ => {
                        let error = json!({ "code": -32020, "message": "Mcp-Method is missing" });
                        let error = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                        return respond(&mut stream, 400, &error.to_string()).await;
                    }
                };
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                respond(&mut stream, 200, &answer.to_string()).await;
            });
        }
    });
    url
}

async fn read_request(mut stream: TcpStream) -> (String, Json, TcpStream) {
    let mut request = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).await.unwrap_or_default();
        request.extend_from_slice(&chunk[..length]);
        let text = String::from_utf8(request.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(length > 0, "the request has no end");
            continue;
        };
        let head = head.to_ascii_lowercase();
        let stated = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= stated.map_or(0, |length| length.parse().unwrap()) {
            return (head.clone(), serde_json::from_str(body).unwrap_or_default(), stream);
        }
    }
}

async fn respond(stream: &mut TcpStream, status: u16, body: &str) {
    if body.starts_with(':') {
        let head = "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all((head.to_owned() + body).as_bytes()).await;
        return std::future::pending().await; // The stream stays open.
    }
    let kind = match body.chars().next() {
        Some('{') => "application/json",
        Some('e') => "text/event-stream",
        _ => "text/html",
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all((head + body).as_bytes()).await;
}

#[tokio::test]
async fn servers_over_http_are_connected_in_the_way_that_they_know() {
    const ERROR: &str = r#"{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32601,"message":"unknown"}}"#;
    const UNSUPPORTED: &str =
        r#"{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}"#;
    const MISMATCH: &str =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"Unsupported protocol version"}}"#;
    const NOW: Duration = Duration::ZERO;
    const NEVER: Duration = Duration::from_hours(1);
    const LEGACY: &[&str] = &["discover with metadata", "initialize", "initialized", "list"];
    const MODERN: &[&str] = &["discover with metadata", "list with metadata"];
    let again = ["discover with metadata", "discover with metadata", "list with metadata"];
    let slow = ["discover with metadata", "initialize", "discover with metadata", "list with metadata"];
    let cases: [(bool, &'static [Refusal], &[&str]); 16] = [
        (true, &[], MODERN),
        (true, &[Refusal(400, UNSUPPORTED, NOW)], &again),
        (true, &[Refusal(200, "", NEVER)], &slow),
        (false, &[Refusal(200, ERROR, NOW)], LEGACY),
        (false, &[Refusal(400, ERROR, NOW)], LEGACY),
        (false, &[Refusal(404, ERROR, NOW)], LEGACY),
        (false, &[Refusal(400, MISMATCH, NOW)], LEGACY),
        (false, &[Refusal(404, "<h1>Not found</h1>", NOW)], LEGACY),
        (false, &[Refusal(405, "", NOW)], LEGACY),
        (false, &[Refusal(406, "Not acceptable", NOW)], LEGACY),
        (false, &[Refusal(500, "<h1>Oh</h1>", NOW)], LEGACY),
        (false, &[Refusal(200, "<h1>Hello</h1>", NOW)], LEGACY),
        (false, &[Refusal(202, "", NOW)], LEGACY),
        (false, &[Refusal(200, "", NEVER)], LEGACY),
        (false, &[Refusal(200, ": no answer\n\n", NOW)], LEGACY),
        (false, &[Refusal(200, "event: end\n\n", NOW)], LEGACY),
    ];
    let connected = cases.map(|(is_modern, refusals, expected)| async move {
        let log = Arc::<Mutex<Vec<String>>>::default();
        let url = site(is_modern, refusals, &log).await;
        let upstream = Upstream::open_http("far", &url, &[], UpstreamOptions::default()).await;
        let (status, body) = refusals.first().map_or((0, ""), |Refusal(status, body, _)| (*status, *body));
        assert!(upstream.is_ok(), "{status} {body}: {upstream:?}");
        let requests: Vec<_> = log.lock().unwrap().iter().filter(|name| !name.starts_with("listen")).cloned().collect();
        assert_eq!(requests.iter().filter(|name| !name.is_empty()).collect::<Vec<_>>(), expected, "{status} {body}");
    });
    // One after another: a server that answers late, as on a busy machine, is asked in the other way, too.
    for connected in connected {
        connected.await;
    }
}
