//! MCP servers over HTTP as providers: working and failing ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{CancellationToken, ErrorCode, ExecuteRequest, ExecuteResult, Executor as _, InlineExecutor, Limits};
use execbox_mcp::Secrets;
use execbox_mcp::server::{HttpOptions, HttpServer};
use execbox_mcp::upstream::{Upstream, UpstreamError, UpstreamOptions};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

use crate::fakes::{Fake, code_server};

pub(crate) async fn run(upstream: &Upstream, code: &str) -> ExecuteResult {
    // A limit that a busy machine does not reach.
    let limits = Limits::default().timeout(Duration::from_mins(1));
    let request = ExecuteRequest::new(code).limits(limits).provider(upstream.provider());
    InlineExecutor::new().unwrap().execute(request).await
}

pub(crate) async fn failure(upstream: &Upstream, code: &str) -> String {
    let error = run(upstream, code).await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    error.message
}

pub(crate) async fn open(url: &str, options: UpstreamOptions) -> Result<Upstream, UpstreamError> {
    Upstream::open_http("far", url, &[("X-Key".to_owned(), "s3cret".to_owned())], options).await
}

pub(crate) async fn connect_error(url: &str) -> String {
    open(url, UpstreamOptions::default()).await.unwrap_err().to_string()
}

/// An HTTP server that answers each request with a function from head and body to status, headers and body.
pub(crate) async fn canned(answer: impl Fn(&str, &str) -> (u16, String, String) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = Arc::clone(&answer);
            tokio::spawn(async move { serve_one(stream, &*answer).await });
        }
    });
    url
}

pub(crate) async fn serve_one(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &(dyn Fn(&str, &str) -> (u16, String, String) + Send + Sync),
) {
    let mut request = String::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let Ok(length @ 1..) = stream.read(&mut chunk).await else { return };
        request += std::str::from_utf8(&chunk[..length]).unwrap();
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head, body);
        }
    };
    let (status, headers, body) = answer(head, body);
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// The responses of a server with one tool and without sessions.
pub(crate) fn one_tool(body: &str, result: impl FnOnce(&Json) -> Json) -> (u16, String, String) {
    let message: Json = serde_json::from_str(body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "c", "version": "1" }
        }),
        Some("tools/list") => json!({ "tools": [{ "name": "ask", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => result(&message),
        Some(_) => return (202, String::new(), String::new()),
        None => return (405, String::new(), String::new()),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    (200, "Content-Type: application/json\r\n".to_owned(), answer.to_string())
}

pub(crate) fn fine() -> Json {
    json!({ "content": [{ "type": "text", "text": "fine" }] })
}

#[tokio::test]
async fn a_code_server_is_a_provider() {
    let fake = Fake::standard();
    let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
    let url = http.url();
    tokio::spawn(http.serve(code_server(&fake).await, CancellationToken::new()));
    let upstream = open(&url, UpstreamOptions::default()).await.unwrap();
    let code = "(await far.mcp_code({ code: '(await api.echo({ n: 7 })).n' })).result";
    assert_eq!(run(&upstream, code).await.outcome, Ok(Some(json!(7))));
    let slow = "await far.mcp_code({ code: 'await api.slow({})' })";
    let token = CancellationToken::new();
    let limits = Limits::default().timeout(Duration::from_hours(1));
    let execution = ExecuteRequest::new(slow).provider(upstream.provider()).limits(limits).cancellation(token.clone());
    let running = tokio::spawn(async move { InlineExecutor::new().unwrap().execute(execution).await });
    fake.started.notified().await;
    token.cancel();
    fake.cancelled.notified().await;
    running.await.unwrap();
    upstream.close().await;
}

#[tokio::test]
async fn headers_are_sent_to_the_same_origin_only() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let elsewhere = canned(move |head, body| {
        seen.lock().unwrap().push(head.to_lowercase());
        one_tool(body, |_| fine())
    })
    .await;
    let upstream = open(&elsewhere, UpstreamOptions::default()).await.unwrap();
    assert!(run(&upstream, "await far.ask({})").await.is_ok());
    assert!(heads.lock().unwrap().iter().all(|head| head.contains("\r\nx-key: s3cret")));
    heads.lock().unwrap().clear();

    for status in [301, 302, 303, 307, 308] {
        let target = elsewhere.clone();
        let redirecting = canned(move |_, _| (status, format!("Location: {target}\r\n"), String::new())).await;
        let error = connect_error(&redirecting).await;
        assert!(error.contains(&format!("HTTP {status}")), "{error}");
    }
    assert_eq!(heads.lock().unwrap().len(), 0, "nothing was sent to another origin");

    let same_origin = canned(|head, body| match head.starts_with("POST /mcp ") {
        true => (307, "Location: /other\r\n".to_owned(), String::new()),
        false => one_tool(body, |_| fine()),
    });
    assert!(
        run(&open(&same_origin.await, UpstreamOptions::default()).await.unwrap(), "await far.ask({})").await.is_ok()
    );
    let circle = canned(|_, _| (307, "Location: /mcp\r\n".to_owned(), String::new())).await;
    assert!(connect_error(&circle).await.ends_with("too many redirects"));
}

#[tokio::test]
async fn failures_to_connect_have_a_reason() {
    let html = "Content-Type: text/html\r\n";
    let page = "<!doctype html><HTML><Title lang=en>\n Sign in\n </title><body>".to_owned();
    let answers = [
        (200, html, "<html>".to_owned(), "invalid response: text/html instead of JSON or events"),
        (
            200,
            html,
            page.clone(),
            "invalid response: text/html instead of JSON or events: a page with the title \"Sign in\"",
        ),
        (
            200,
            "Content-Type: text/plain\r\n",
            "hello\n you".to_owned(),
            "invalid response: text/plain instead of JSON or events: hello you",
        ),
        (200, "", "[1]".to_owned(), "invalid response: not an MCP message: [1]"),
        (200, "", String::new(), "invalid response: HTTP 200 OK without an answer"),
        (202, "", String::new(), "invalid response: HTTP 202 Accepted without an answer"),
        (204, "", String::new(), "invalid response: HTTP 204 No Content without an answer"),
        (
            200,
            "Content-Type: application/json\r\n",
            "{\"a\":".to_owned(),
            "invalid response: EOF while parsing a value at line 1 column 5; it begins with \"{\\\"a\\\":\"",
        ),
        (
            200,
            "Content-Encoding: br\r\n",
            "\u{b}\u{2}".to_owned(),
            "invalid response: not an MCP message: its Content-Encoding \"br\" is not supported",
        ),
        (
            200,
            "Content-Encoding: gzip\r\n",
            "{}".to_owned(),
            "invalid response: its Content-Encoding cannot be decoded",
        ),
        (503, "", "no".to_owned(), "HTTP 503 Service Unavailable: no"),
        (
            500,
            "Content-Type: application/json\r\n",
            "{\"detail\":\"quota table missing\"}".to_owned(),
            "HTTP 500 Internal Server Error: {\"detail\":\"quota table missing\"}",
        ),
        (502, html, page, "HTTP 502 Bad Gateway: a page with the title \"Sign in\""),
        (
            401,
            "WWW-Authenticate: Bearer\r\n",
            String::new(),
            "credentials rejected (HTTP 401): check the `headers` of the server in the configuration",
        ),
        (403, "", "s3cret paths".to_owned(), "HTTP 403 Forbidden: ${KEY} paths"),
        (404, "", String::new(), "HTTP 404 Not Found"),
        (418, "", "<html><h1>I am a teapot</h1></html>".to_owned(), "HTTP 418 I'm a teapot"),
        (429, "Retry-After: 30\r\n", "slow down".to_owned(), "HTTP 429 Too Many Requests; retry after 30 s: slow down"),
        (
            503,
            "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n",
            String::new(),
            "HTTP 503 Service Unavailable; retry after Wed, 21 Oct 2026 07:28:00 GMT",
        ),
        (
            302,
            "Location: https://user:word@login.example.com/in?state=5#x\r\n",
            String::new(),
            "HTTP 302 Found; not followed: https://login.example.com/in",
        ),
        (
            400,
            "",
            format!("too\n\n{}", "long ".repeat(1000)),
            &format!("HTTP 400 Bad Request: too {}…", "long ".repeat(39) + "l"),
        ),
    ];
    // The socket is bound, so that no other test gets its port, and does not listen.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = closed.local_addr().unwrap();
    let refused = format!("cannot connect to http://{closed}: connection refused");
    let mut reasons = vec![
        (format!("http://user:word@{closed}/mcp?key=word"), &*refused),
        ("http://s3cret.invalid/mcp".to_owned(), "cannot connect to http://${KEY}.invalid: host name not found"),
    ];
    for (status, headers, body, reason) in answers {
        let url = canned(move |_, _| (status, headers.to_owned(), body.clone())).await;
        reasons.push((url, reason));
    }
    for (url, reason) in reasons {
        let secrets = Secrets::new([("KEY".to_owned(), "s3cret".to_owned())]);
        let options = UpstreamOptions::default().secrets(secrets);
        let error = open(&url, options).await.unwrap_err().to_string();
        assert_eq!(error, format!("MCP server \"far\": {reason}"));
    }
    for url in ["", "far.example.com/mcp", "ftp://far.example.com", "file:///etc/passwd"] {
        let error = open(url, UpstreamOptions::default()).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Url(_)), "{error}");
    }
    let reserved = [("MCP-Session-Id".to_owned(), "x".to_owned())];
    let error = Upstream::open_http("far", "http://localhost", &reserved, UpstreamOptions::default()).await;
    assert!(matches!(error, Err(UpstreamError::ReservedHeader(_))));
}

#[tokio::test]
async fn responses_that_are_neither_pages_nor_messages_are_shown() {
    let xml = "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>";
    for (status, kind, body, reason) in [
        (
            200,
            "application/xml",
            xml,
            "invalid response: application/xml instead of JSON or events: \
             <?xml version=\"1.0\"?> <Error><Code>AccessDenied</Code></Error>",
        ),
        (503, "text/plain", "<h1>Overloaded</h1>", "HTTP 503 Service Unavailable: <h1>Overloaded</h1>"),
        (
            200,
            "text/event-stream",
            "event: ping\ndata: 1\n\nevent: error\ndata: {\"detail\":\ndata: \"no workers\"}\n\n",
            "the response has ended without the answer: {\"detail\": \"no workers\"}",
        ),
    ] {
        let url = answering(&[("tools/call", (status, kind, body))]).await;
        let upstream = open(&url, UpstreamOptions::default()).await.unwrap();
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.ends_with(reason), "{message}");
    }
}

#[tokio::test]
async fn connecting_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let options = UpstreamOptions::default().connect_timeout(Duration::from_millis(100));
    let error = open(&url, options).await.unwrap_err().to_string();
    assert_eq!(error, "MCP server \"far\": no response within 100ms");
}

#[tokio::test]
async fn calls_fail_while_a_server_is_down_and_work_when_it_returns() {
    let (state, lists) = (Arc::new(AtomicUsize::new(200)), Arc::new(AtomicUsize::new(0)));
    let (now, listed) = (Arc::clone(&state), Arc::clone(&lists));
    let url = canned(move |_, body| match now.load(Ordering::SeqCst) {
        200 => {
            listed.fetch_add(usize::from(body.contains("tools/list")), Ordering::SeqCst);
            one_tool(body, |_| fine())
        }
        status => (u16::try_from(status).unwrap(), "Content-Type: text/html\r\n".to_owned(), "<html>".to_owned()),
    });
    let upstream = open(&url.await, UpstreamOptions::default()).await.unwrap();
    for (status, reason) in [(502, "HTTP 502"), (404, "HTTP 404"), (299, "invalid response")] {
        state.store(status, Ordering::SeqCst);
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.contains(reason), "{message}");
        state.store(200, Ordering::SeqCst);
        let before = lists.load(Ordering::SeqCst);
        assert!(run(&upstream, "await far.ask({})").await.is_ok());
        while lists.load(Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_millis(5)).await; // The server may have other tools now.
        }
    }
}

/// Without a correction, a call whose error has no id waits for its timeout, here an hour, and a result with members of other
/// results fails.
#[tokio::test]
async fn errors_without_an_id_and_results_with_odd_members_are_corrected() {
    let url = canned(|_, body| {
        let message: Json = serde_json::from_str(body).unwrap_or_default();
        let Some(kind) = message["params"]["arguments"]["as"].as_str() else { return one_tool(body, |_| fine()) };
        if kind == "odd" {
            let result = json!({ "content": [{ "type": "text", "text": "odd" }], "tools": [], "prompts": [] });
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            return (200, "Content-Type: text/event-stream\r\n".to_owned(), format!("data: {answer}\n\n"));
        }
        let error = json!({ "code": -32000, "message": format!("no {kind}") });
        let answer = match kind {
            "missing" => json!({ "jsonrpc": "2.0", "error": error }),
            _ => json!({ "jsonrpc": "2.0", "id": null, "error": error }),
        };
        let json = "Content-Type: application/json\r\n".to_owned();
        match kind {
            "status" => (400, json, answer.to_string()),
            "failure" => (500, json, answer.to_string()),
            "event" => (200, "Content-Type: text/event-stream\r\n".to_owned(), format!("data: {answer}\n\n")),
            _ => (200, json, answer.to_string()),
        }
    });
    let options = UpstreamOptions::default().call_timeout(Duration::from_hours(1));
    let upstream = open(&url.await, options).await.unwrap();
    assert_eq!(run(&upstream, "await far.ask({ as: 'odd' })").await.outcome, Ok(Some(json!("odd"))));
    for kind in ["null", "missing", "status", "failure", "event"] {
        let message = failure(&upstream, &format!("await far.ask({{ as: '{kind}' }})")).await;
        assert!(message.contains(&format!("no {kind}")), "{kind}: {message}");
        assert!(run(&upstream, "await far.ask({})").await.is_ok());
    }
}

/// Serves one tool at `listener`. Calls are not answered: `received` is notified.
async fn unanswering(listener: TcpListener, as_event: bool, received: Arc<tokio::sync::Notify>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let received = Arc::clone(&received);
        let mut start = [0; 8192];
        let length = stream.peek(&mut start).await.unwrap();
        // The body may come later than the head.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let length = stream.peek(&mut start).await.unwrap().max(length);
        if String::from_utf8_lossy(&start[..length]).contains("tools/call") {
            if as_event {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: working\n\n";
                stream.write_all(head.as_bytes()).await.unwrap();
            }
            received.notify_one();
            tokio::spawn(async move {
                let _stream = stream;
                std::future::pending::<()>().await;
            });
        } else {
            serve_one(stream, &|_, body| one_tool(body, |_| fine())).await;
        }
    }
}

#[test]
fn a_call_in_flight_fails_when_its_server_dies_and_the_next_one_finds_the_new_server() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let client = runtime();
    for as_event in [false, true] {
        let (first, received) = (runtime(), Arc::new(tokio::sync::Notify::new()));
        let listener = first.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        first.spawn(unanswering(listener, as_event, Arc::clone(&received)));
        client.block_on(async {
            let options =
                UpstreamOptions::default().call_timeout(Duration::from_hours(1)).restart_pause(Duration::ZERO);
            let upstream = open(&format!("http://{address}/mcp"), options).await.unwrap();
            let limits = Limits::default().timeout(Duration::from_hours(1));
            let execution = ExecuteRequest::new("await far.ask({})").provider(upstream.provider()).limits(limits);
            let call = tokio::spawn(async move { InlineExecutor::new().unwrap().execute(execution).await });
            received.notified().await;
            // The sockets of the first server are closed when this returns.
            tokio::task::spawn_blocking(move || first.shutdown_timeout(Duration::from_mins(1))).await.unwrap();
            let message = call.await.unwrap().outcome.unwrap_err().message;
            assert!(message.contains(" failed: "), "{message}");

            let listener = TcpListener::bind(address).await.unwrap();
            tokio::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(async move { serve_one(stream, &|_, body| one_tool(body, |_| fine())).await });
                }
            });
            assert!(run(&upstream, "await far.ask({})").await.is_ok(), "as event: {as_event}");
        });
    }
}

#[tokio::test]
async fn an_expired_session_is_renewed() {
    for _ in 0..3 {
        let options = HttpOptions::default().max_sessions(1);
        let http = HttpServer::bind("127.0.0.1:0", options).await.unwrap();
        let url = http.url();
        tokio::spawn(http.serve(code_server(&Fake::standard()).await, CancellationToken::new()));
        // There is room for one session, and a session without calls is displaced.
        let one = open(&url, UpstreamOptions::default()).await.unwrap();
        let _two = open(&url, UpstreamOptions::default()).await.unwrap();
        for _ in 0..2 {
            let result = run(&one, "(await far.mcp_code({ code: '1' })).result").await;
            assert_eq!(result.outcome, Ok(Some(json!(1))));
        }
    }
}

#[tokio::test]
async fn a_response_that_is_too_long_fails_only_its_call() {
    let url = canned(|_, body| {
        let (status, mut headers, mut answer) =
            one_tool(body, |message| match message["params"]["arguments"]["as"].as_str() {
                Some("json" | "event") => json!({ "content": [{ "type": "text", "text": "x".repeat(17 << 20) }] }),
                _ => fine(),
            });
        if body.contains(r#""as":"event""#) {
            headers = "Content-Type: text/event-stream\r\n".to_owned();
            answer = format!("data: {answer}\n\n");
        }
        (status, headers, answer)
    });
    let options = UpstreamOptions::default().call_timeout(Duration::from_secs(20));
    let upstream = open(&url.await, options).await.unwrap();
    for kind in ["json", "event"] {
        let message = failure(&upstream, &format!("await far.ask({{ as: '{kind}' }})")).await;
        assert!(message.contains("longer than 16777216 bytes"), "{kind}: {message}");
        assert!(run(&upstream, "await far.ask({})").await.is_ok());
    }
}

/// Without the limit, the values of an answer take up to seventy times the memory of its text.
#[tokio::test]
async fn answers_of_very_many_values_fail_alone() {
    let zeros = format!("{{\"tools\":[],\"a\":[{}0]}}", "0,".repeat(1_100_000));
    let expected = "response with so many values that it takes more than 80 MiB";
    for (as_event, wrong) in [false, true]
        .into_iter()
        .flat_map(|event| ["initialize", "tools/list", "tools/call"].map(|method| (event, method)))
    {
        let zeros = zeros.clone();
        let url = canned(move |_, body| {
            let message: Json = serde_json::from_str(body).unwrap_or_default();
            if message["method"] != wrong || message["params"]["arguments"] == json!({ "fine": true }) {
                return one_tool(body, |_| fine());
            }
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{zeros}}}"#, message["id"]);
            match as_event {
                true => (200, "Content-Type: text/event-stream\r\n".to_owned(), format!("data: {answer}\n\n")),
                false => (200, "Content-Type: application/json\r\n".to_owned(), answer),
            }
        })
        .await;
        let options = UpstreamOptions::default().call_timeout(Duration::from_hours(1));
        match open(&url, options).await {
            Ok(upstream) if wrong == "tools/call" => {
                let limits = Limits::default().timeout(Duration::from_hours(1));
                for _ in 0..2 {
                    let execution =
                        ExecuteRequest::new("await far.ask({})").provider(upstream.provider()).limits(limits);
                    let error = InlineExecutor::new().unwrap().execute(execution).await.outcome.unwrap_err();
                    assert!(error.message.ends_with(expected), "{error}");
                }
                assert!(run(&upstream, "await far.ask({ fine: true })").await.is_ok(), "the connection remains");
            }
            Err(error) if wrong != "tools/call" => assert!(error.to_string().ends_with(expected), "{error}"),
            other => panic!("{wrong}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn results_with_members_of_others_are_results_in_bodies_too() {
    let url = canned(|_, body| {
        one_tool(body, |_| json!({ "content": [{ "type": "text", "text": "odd" }], "tools": [], "contents": [] }))
    });
    let upstream = open(&url.await, UpstreamOptions::default()).await.unwrap();
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("odd"))));
}

#[tokio::test]
async fn a_server_that_sends_events_without_an_end_is_disconnected() {
    for event in [
        ": comment\n",
        "\n",
        "event: ping\ndata: x\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1}\n\n",
    ] {
        let url = canned(move |_, body| {
            let message: Json = serde_json::from_str(body).unwrap_or_default();
            match message["params"]["arguments"]["flood"].as_bool() {
                Some(true) => (200, "Content-Type: text/event-stream\r\n".to_owned(), event.repeat(30_000)),
                _ => one_tool(body, |_| fine()),
            }
        });
        let options = UpstreamOptions::default().call_timeout(Duration::from_hours(1)).restart_pause(Duration::ZERO);
        let upstream = open(&url.await, options).await.unwrap();
        let message = failure(&upstream, "await far.ask({ flood: true })").await;
        assert!(message.contains("disconnected: the server sent too much without a request"), "{event:?}: {message}");
        assert!(run(&upstream, "await far.ask({})").await.is_ok(), "it is connected again");
    }
}

/// The answers of a server with one tool, with the answer to each method in `instead` replaced. `%MSG%` in a body is the usual
/// one.
async fn answering(instead: &[(&'static str, (u16, &'static str, &'static str))]) -> String {
    let instead: Vec<_> = instead.to_vec();
    canned(move |_, body| {
        let usual = one_tool(body, |_| json!({ "content": [{ "type": "text", "text": "fine" }] }));
        let message: Json = serde_json::from_str(body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        let found = instead.iter().find(|(name, _)| *name == method);
        found.map_or(usual.clone(), |(_, (status, kind, text))| {
            let head = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
            (*status, head, text.replace("%MSG%", &usual.2))
        })
    })
    .await
}

async fn assert_works(instead: &[(&'static str, (u16, &'static str, &'static str))]) {
    let url = answering(instead).await;
    let upstream = open(&url, UpstreamOptions::default()).await.unwrap_or_else(|error| panic!("{instead:?}: {error}"));
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))), "{instead:?}");
}

#[tokio::test]
async fn any_success_answers_a_notification() {
    for answer in [
        (200, "", ""),
        (200, "text/html", ""),
        (200, "text/html", "<html></html>"),
        (200, "text/plain", "ok"),
        (200, "application/json", "not JSON"),
        (200, "text/event-stream", ": hello\n\n"),
        (201, "application/json", "{}"),
        (202, "text/plain", "accepted"),
        (204, "", ""),
        (206, "image/png", "x"),
    ] {
        assert_works(&[("notifications/initialized", answer)]).await;
    }
}

/// The next request shows whether the server has taken it.
#[tokio::test]
async fn a_failure_that_answers_a_notification_is_ignored() {
    for status in [302, 400, 403, 404, 405, 406, 409, 410, 415, 422, 429, 500, 501, 502, 503, 504] {
        for (kind, body) in [
            ("text/plain", "no notifications, please"),
            ("application/json", "{\"detail\":\"unknown message\"}"),
            ("application/json", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"no id\"}}"),
        ] {
            assert_works(&[("notifications/initialized", (status, kind, body))]).await;
        }
    }
    let login = answering(&[("notifications/initialized", (401, "text/plain", "who?"))]).await;
    assert!(open(&login, UpstreamOptions::default()).await.is_err(), "a login is required");
}

/// The notification is sent once, and the server may take as long as it likes for it.
#[tokio::test]
async fn a_notification_that_is_not_answered_does_not_end_the_start() {
    for takes in [Duration::ZERO, Duration::from_secs(5), Duration::from_hours(1)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (started, taken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&started), Arc::clone(&taken));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (started, taken) = counts.clone();
                tokio::spawn(async move {
                    let mut bytes = [0; 4096];
                    let request = loop {
                        let length = stream.peek(&mut bytes).await.unwrap();
                        let text = String::from_utf8_lossy(&bytes[..length]);
                        if text.ends_with('}') || !text.starts_with("POST") {
                            break text;
                        }
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    };
                    if request.contains("notifications/initialized") {
                        started.fetch_add(1, Ordering::SeqCst);
                        if takes.is_zero() {
                            return; // The connection is closed.
                        }
                        tokio::time::sleep(takes).await;
                        taken.fetch_add(1, Ordering::SeqCst);
                    }
                    serve_one(stream, &|_, body| one_tool(body, |_| fine())).await;
                });
            }
        });
        let begun = std::time::Instant::now();
        let upstream = open(&url, UpstreamOptions::default()).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
        assert_eq!((started.load(Ordering::SeqCst), taken.load(Ordering::SeqCst)), (1, 0));
    }
}

#[tokio::test]
async fn events_before_the_answer_are_skipped() {
    for events in [
        "event: ping\ndata: 1\n\nevent: message\ndata: %MSG%\n\n",
        "data: {\"type\":\"heartbeat\"}\n\ndata: %MSG%\n\n",
        "data: 1\n\ndata: [DONE]\n\ndata:\n\ndata: %MSG%\n\n",
        ": hello\n\nretry: 1000\n\nid: 5\n\nevent: message\ndata: %MSG%\n\n",
        "event: endpoint\ndata: /messages\n\nevent:\ndata: %MSG%\n\n",
        "\u{feff}data: %MSG%\r\n\r\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\ndata: %MSG%\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":5}\n\ndata: %MSG%\n\n",
    ] {
        for method in ["initialize", "tools/list", "tools/call"] {
            assert_works(&[(method, (200, "text/event-stream", events))]).await;
        }
    }
}

#[tokio::test]
async fn media_types_are_compared_without_case_and_parameters_and_json_is_read_without_one() {
    for (kind, body) in [
        ("Application/JSON; Charset=UTF-8", "%MSG%"),
        ("TEXT/EVENT-STREAM", "data: %MSG%\n\n"),
        ("text/event-stream;charset=utf-8", "data: %MSG%\n\n"),
        ("text/plain", "%MSG%"),
        ("", "%MSG%"),
    ] {
        for method in ["initialize", "tools/list", "tools/call"] {
            assert_works(&[(method, (200, kind, body))]).await;
        }
    }
}

/// A body answers the request that it responds to: the call would otherwise wait for its timeout.
#[tokio::test]
async fn the_body_of_a_response_answers_its_request_whatever_its_id() {
    for id in ["99", "null", "\"x\"", "1.5", "{}"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"fine"}}]}}}}"#);
        let body: &'static str = Box::leak(body.into_boxed_str());
        assert_works(&[("tools/call", (200, "application/json", body))]).await;
    }
}

/// Batches are those of MCP 2025-03-26. The answer is the entry with the id of the request, or the last one.
#[tokio::test]
async fn a_batch_is_read_as_the_answer_in_it() {
    let other = r#"{"jsonrpc":"2.0","id":99,"result":{"content":[{"type":"text","text":"other"}]}}"#;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
    for entries in ["%MSG%".to_owned(), format!("{progress},%MSG%,{other}"), format!("1,null,[],{{}},%MSG%,{progress}")]
    {
        for method in ["initialize", "tools/list", "tools/call"] {
            let body = &*Box::leak(format!("[{entries}]").into_boxed_str());
            assert_works(&[(method, (200, "application/json", body))]).await;
            let events = &*Box::leak(format!("data: [{entries}]\n\n").into_boxed_str());
            assert_works(&[(method, (200, "text/event-stream", events))]).await;
        }
    }
    let url = answering(&[("tools/call", (200, "application/json", "[{\"id\":1},{\"method\":\"x\"}]"))]).await;
    let message = failure(&open(&url, UpstreamOptions::default()).await.unwrap(), "await far.ask({})").await;
    assert!(message.contains("not an MCP message: [{\"id\":1},"), "{message}");
}

/// Events may bring the right answer later: another one counts when the response has ended.
#[tokio::test]
async fn the_last_answer_in_a_response_of_events_answers_its_request_if_none_has_its_id() {
    let answer = |members: &str| {
        format!(r#"data: {{"jsonrpc":"2.0",{members}"result":{{"content":[{{"type":"text","text":"fine"}}]}}}}"#)
    };
    let other =
        "data: {\"jsonrpc\":\"2.0\",\"id\":98,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"other\"}]}}";
    let progress =
        r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":1}}"#;
    for id in ["\"id\":99,", "\"id\":null,", "", "\"id\":\"x\",", "\"id\":1.5,", "\"id\":{},"] {
        let own = answer(id);
        for events in [
            format!("{own}\n\n"),
            format!("{other}\n\n{own}\n\n{progress}\n\ndata: [DONE]\n\n"),
            format!("id: 7\n{own}\n\n"),
            format!("{own}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":97,\"method\":\"ping\"}}\n\n"),
        ] {
            let events: &'static str = Box::leak(events.into_boxed_str());
            assert_works(&[("tools/call", (200, "text/event-stream", events))]).await;
        }
    }
    let initialize =
        "data: {\"id\":null,\"result\":{\"protocolVersion\":\"2025-03-26\",\"capabilities\":{\"tools\":{}}}}\n\n";
    assert_works(&[("initialize", (200, "text/event-stream", initialize))]).await;
    let right = Box::leak(format!("{other}\n\ndata: %MSG%\n\n{other}\n\n").into_boxed_str());
    assert_works(&[("tools/call", (200, "text/event-stream", right))]).await;
    let none = "data: {\"jsonrpc\":\"2.0\",\"id\":99}\n\ndata: {\"method\":\"x\",\"result\":1,\"id\":5}\n\n";
    let url = answering(&[("tools/call", (200, "text/event-stream", none))]).await;
    let upstream = open(&url, UpstreamOptions::default()).await.unwrap();
    let message = failure(&upstream, "await far.ask({})").await;
    assert!(message.ends_with("the response has ended without the answer"), "{message}");
}

#[tokio::test]
async fn a_version_that_is_refused_over_http_is_not_the_last() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unsupported","data":{"supported":["2025-03-26"]}}}"#;
    for (status, kind) in
        [(400, "application/json"), (400, "text/plain"), (200, "application/json"), (422, "application/json")]
    {
        let url = canned(move |_, body| {
            let message: Json = serde_json::from_str(body).unwrap_or_default();
            let is_refused = message["method"] == "initialize" && message["params"]["protocolVersion"] != "2025-03-26";
            if is_refused {
                return (status, format!("Content-Type: {kind}\r\n"), refusal.to_owned());
            }
            one_tool(body, |_| json!({ "content": [{ "type": "text", "text": "fine" }] }))
        });
        let upstream = open(&url.await, UpstreamOptions::default()).await.unwrap();
        assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
    }
}
