//! Connections over HTTP that break: sessions that a server has lost, and calls in flight when it dies.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use execbox::{ExecuteRequest, ExecuteResult, Executor as _, InlineExecutor, Limits};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::fakes::until;

/// A server with sessions, in memory: a restart loses them.
struct Site {
    url: String,
    state: Mutex<State>,
    /// Notified when a call was received.
    called: Notify,
    /// Sends `State::said` on an open stream.
    say: Notify,
    /// Closes the open streams, without their ends.
    die: Notify,
}

#[derive(Default)]
struct State {
    count: usize,
    sessions: BTreeSet<String>,
    /// The answer to requests of unknown sessions. With the status 0, the connection is closed;
    /// with the status 1, they are not answered.
    lost: Whole,
    /// The answer to calls of known sessions.
    call: Answer,
    /// The answer to GET.
    get: Answer,
    /// The names of the tools.
    tools: Vec<&'static str>,
    said: &'static str,
    refuses_pings: bool,
    lacks_pings: bool,
    is_sessionless: bool,
    /// The methods of the requests.
    log: Vec<String>,
}

/// Status, headers and body. `%ID%` in the body is the id of the request.
type Whole = (u16, &'static str, &'static str);

#[derive(Clone, Copy, Default)]
enum Answer {
    /// The usual answer: the number of the session.
    #[default]
    Usual,
    Whole(Whole),
    /// These events; the response stays open until the server dies.
    Open(&'static str),
    /// These events and the end of the response.
    Ended(&'static str),
    /// Nothing: the connection is closed.
    Closed,
}

impl Site {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let get = Answer::Whole((405, "", ""));
        let state = Mutex::new(State { get, lost: (404, "", ""), tools: vec!["ask"], ..State::default() });
        let site = Arc::new(Self { url, state, called: Notify::new(), say: Notify::new(), die: Notify::new() });
        let serving = Arc::clone(&site);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let site = Arc::clone(&serving);
                tokio::spawn(async move { site.serve(stream).await });
            }
        });
        site
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn open(&self) -> Upstream {
        let options = UpstreamOptions::default().call_timeout(Duration::from_hours(1)).restart_pause(Duration::ZERO);
        Upstream::open_http("far", &self.url, &[], options).await.unwrap()
    }

    /// Forgets all sessions. `lost` is what their requests are answered with.
    fn restart(&self, lost: Whole) {
        let mut state = self.state();
        state.sessions.clear();
        state.log.clear();
        state.lost = lost;
    }

    fn logged(&self, method: &str) -> usize {
        self.state().log.iter().filter(|logged| *logged == method).count()
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut request = Vec::new();
        let (head, body) = loop {
            let mut chunk = [0; 4096];
            let Ok(length @ 1..) = stream.read(&mut chunk).await else { return };
            request.extend_from_slice(&chunk[..length]);
            let text = String::from_utf8(request.clone()).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = header(head, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                break (head.to_owned(), serde_json::from_str::<Json>(body).unwrap_or_default());
            }
        };
        let answer = self.answer(&head, &body);
        if body["method"] == "tools/call" {
            self.called.notify_one();
        }
        let (headers, events) = match answer {
            Answer::Closed | Answer::Usual => return,
            Answer::Whole((status, headers, text)) => {
                let text = text.replace("%ID%", &body["id"].to_string());
                let length = text.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
                stream.write_all((head + &text).as_bytes()).await.unwrap();
                return;
            }
            Answer::Open(events) => ("Transfer-Encoding: chunked\r\n", events),
            Answer::Ended(events) => ("Connection: close\r\n", events),
        };
        let head = format!("HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n{headers}\r\n");
        let events = events.replace("%ID%", &body["id"].to_string());
        let Answer::Open(_) = answer else {
            return stream.write_all((head + &events).as_bytes()).await.unwrap();
        };
        stream.write_all((head + &chunk(&events)).as_bytes()).await.unwrap();
        loop {
            tokio::select! {
                () = self.die.notified() => return,
                () = self.say.notified() => {
                    let said = chunk(self.state().said);
                    stream.write_all(said.as_bytes()).await.unwrap();
                }
            }
        }
    }

    fn answer(&self, head: &str, message: &Json) -> Answer {
        let mut state = self.state();
        if head.starts_with("GET") {
            state.log.push(header(head, "last-event-id").map_or("GET".to_owned(), |last| format!("GET {last}")));
            return state.get;
        }
        let method = message["method"].as_str().unwrap_or_default();
        state.log.push(method.to_owned());
        let session = header(head, "mcp-session-id").unwrap_or_default();
        let result = match method {
            "initialize" => {
                state.count += 1;
                let session = if state.is_sessionless { String::new() } else { format!("s{}", state.count) };
                state.sessions.insert(session.clone());
                let result = json!({
                    "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "site", "version": "1" }
                });
                let headers = format!("Mcp-Session-Id: {session}\r\n");
                return whole(if state.is_sessionless { "" } else { &headers }, &message["id"], &result);
            }
            _ if !state.sessions.contains(session) && state.lost.0 == 0 => return Answer::Closed,
            _ if !state.sessions.contains(session) && state.lost.0 == 1 => return Answer::Open(":\n\n"),
            _ if !state.sessions.contains(session) => return Answer::Whole(state.lost),
            "tools/list" => {
                let tools = state.tools.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
                json!({ "tools": tools.collect::<Vec<_>>() })
            }
            "tools/call" if !matches!(state.call, Answer::Usual) => return state.call,
            "tools/call" => json!({ "content": [{ "type": "text", "text": format!("s{}", state.count) }] }),
            "ping" if state.lacks_pings => {
                return Answer::Whole((404, JSON, r#"{"error":{"code":-32601,"message":"Method not found"}}"#));
            }
            "ping" if state.refuses_pings => return Answer::Whole((400, "", "no pings")),
            "ping" => json!({}),
            _ => return Answer::Whole((202, "", "")),
        };
        whole("", &message["id"], &result)
    }
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn whole(headers: &str, id: &Json, result: &Json) -> Answer {
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let headers = format!("{headers}Content-Type: application/json\r\n");
    Answer::Whole((200, Box::leak(headers.into_boxed_str()), Box::leak(answer.into_boxed_str())))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let line = |line: &'a str| line.split_once(": ").filter(|(field, _)| field.eq_ignore_ascii_case(name));
    head.lines().find_map(line).map(|(_, value)| value)
}

/// Runs a program without a time limit: what hangs, hangs the test.
async fn run(upstream: &Upstream, code: &str) -> ExecuteResult {
    let limits = Limits::default().timeout(Duration::from_hours(1));
    let request = ExecuteRequest::new(code).provider(upstream.provider()).limits(limits);
    InlineExecutor::new().unwrap().execute(request).await
}

async fn failure(upstream: &Upstream, code: &str) -> String {
    run(upstream, code).await.outcome.unwrap_err().message
}

const JSON: &str = "Content-Type: application/json\r\n";
const THREE_CALLS: &str = "const r = [];
    for (let i = 0; i < 3; i++) try { r.push(await far.ask({})) } catch (e) { r.push('failed') }
    r";

/// The specification has 404 for a session that has ended; servers that were restarted answer as they like.
#[tokio::test]
async fn a_session_that_the_server_has_lost_is_renewed_whatever_the_status() {
    let error =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
    let not_found = r#"{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32001,"message":"Session not found"}}"#;
    for lost in [
        (404, "", ""),
        (404, JSON, not_found),
        (400, JSON, error),
        (400, JSON, not_found),
        (400, "Content-Type: text/plain\r\n", "Invalid session ID"),
        (400, "", ""),
        (401, "", "unknown session"),
        (403, "Content-Type: text/html\r\n", "<html><title>Forbidden</title>"),
        (409, "", ""),
        (410, "", "gone"),
        (422, JSON, r#"{"detail":"session"}"#),
    ] {
        let site = Site::start().await;
        let upstream = site.open().await;
        for _ in 0..2 {
            assert!(run(&upstream, "await far.ask({})").await.is_ok());
            site.restart(lost);
            let before = site.state().count;
            let expected = format!("s{}", before + 1);
            assert_eq!(
                run(&upstream, THREE_CALLS).await.outcome,
                Ok(Some(json!([expected, expected, expected]))),
                "{lost:?}"
            );
            assert_eq!(site.state().count, before + 1, "{lost:?}: one new session");
        }
    }
}

/// The first call fails, because its error may have been about something else.
#[tokio::test]
async fn a_session_whose_loss_is_an_ordinary_error_is_renewed_by_the_next_call() {
    let error = r#"{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32001,"message":"Session not found"}}"#;
    let event =
        "data: {\"jsonrpc\":\"2.0\",\"id\":%ID%,\"error\":{\"code\":-32600,\"message\":\"Not initialized\"}}\n\n";
    for lost in [(200, JSON, error), (200, "Content-Type: text/event-stream\r\n", event)] {
        let site = Site::start().await;
        let upstream = site.open().await;
        site.restart(lost);
        let results = run(&upstream, THREE_CALLS).await.outcome;
        assert_eq!(results, Ok(Some(json!(["failed", "s2", "s2"]))), "{lost:?}");
    }
}

#[tokio::test]
async fn a_server_without_sessions_that_was_restarted_gets_another_handshake() {
    let site = Site::start().await;
    site.state().is_sessionless = true;
    let upstream = site.open().await;
    site.restart((
        400,
        JSON,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#,
    ));
    assert_eq!(run(&upstream, THREE_CALLS).await.outcome, Ok(Some(json!(["s2", "s2", "s2"]))));
    assert_eq!(site.logged("initialize"), 1);
}

/// The call may have been made: it fails, and the next one opens a session.
#[tokio::test]
async fn a_call_that_a_failing_server_has_refused_is_not_repeated() {
    let site = Site::start().await;
    let upstream = site.open().await;
    site.restart((500, "", "no transport"));
    let results = run(&upstream, THREE_CALLS).await.outcome;
    assert_eq!(results, Ok(Some(json!(["failed", "s2", "s2"]))));
}

/// As a load balancer answers whose server for the session is gone: calls may have been made, so that none is repeated.
#[tokio::test]
async fn a_session_whose_calls_fail_one_after_another_is_renewed_by_the_third() {
    let overloaded = r#"{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32000,"message":"no backend"}}"#;
    for lost in [
        (502, "", "Bad Gateway"),
        (503, JSON, overloaded),
        (504, "Content-Type: text/html\r\n", "<html>"),
        (429, "Retry-After: 30\r\n", ""),
        (408, "", ""),
        (0, "", ""),
    ] {
        let site = Site::start().await;
        let upstream = site.open().await;
        for _ in 0..2 {
            assert!(run(&upstream, "await far.ask({})").await.is_ok());
            site.restart(lost);
            let expected = format!("s{}", site.state().count + 1);
            let results = run(&upstream, THREE_CALLS).await.outcome;
            assert_eq!(results, Ok(Some(json!(["failed", "failed", expected]))), "{lost:?}");
            assert_eq!((site.logged("tools/call"), site.logged("initialize")), (3, 1), "{lost:?}");
        }
    }
}

#[tokio::test]
async fn a_session_whose_calls_and_pings_are_not_answered_is_renewed() {
    let site = Site::start().await;
    let short = Duration::from_millis(500);
    let options = UpstreamOptions::default().call_timeout(short).ping_timeout(short).restart_pause(Duration::ZERO);
    let upstream = Upstream::open_http("far", &site.url, &[], options).await.unwrap();
    site.restart((1, "", ""));
    let mut calls = 1;
    while run(&upstream, "await far.ask({})").await.outcome.is_err() {
        calls += 1;
        assert!(calls < 100);
    }
    assert_eq!((site.logged("initialize"), site.logged("tools/call")), (1, calls));
}

/// A tool may fail each time, and the session is that of a browser.
#[tokio::test]
async fn a_session_that_answers_pings_is_kept_however_many_calls_fail() {
    for lacks_pings in [false, true] {
        let site = Site::start().await;
        let upstream = site.open().await;
        site.state().call = Answer::Whole((504, "", "the tool takes too long"));
        site.state().lacks_pings = lacks_pings;
        for _ in 0..5 {
            failure(&upstream, "await far.ask({})").await;
        }
        site.state().call = Answer::Usual;
        assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("s1"))));
    }
}

/// Where new sessions fail as well, calls end, and the one after the failures works.
#[tokio::test]
async fn a_server_that_fails_over_every_session_is_not_asked_without_end() {
    let site = Site::start().await;
    let upstream = site.open().await;
    for _ in 0..5 {
        site.state().call = Answer::Closed;
        site.restart((503, "", "no backend"));
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.contains("connection lost") || message.contains("HTTP 503"), "{message}");
        assert!(site.state().log.len() <= 10, "{:?}", site.state().log);
    }
    site.state().call = Answer::Usual;
    let results = run(&upstream, THREE_CALLS).await.outcome.unwrap().unwrap();
    assert!(results[2].as_str().unwrap().starts_with('s'), "{results}");
}

#[tokio::test]
async fn calls_that_lose_their_session_at_once_share_a_new_one() {
    let site = Site::start().await;
    let upstream = site.open().await;
    site.restart((400, "", "Invalid session ID"));
    let code =
        "(await Promise.all(Array.from({ length: 20 }, () => far.ask({})))).every((session) => session === 's2')";
    assert_eq!(run(&upstream, code).await.outcome, Ok(Some(json!(true))));
    assert_eq!(site.logged("initialize"), 1);
}

#[tokio::test]
async fn refusals_of_a_call_keep_the_session() {
    let refused =
        r#"{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32000,"message":"no session of the browser is open"}}"#;
    for (answer, reason) in [
        ((400, JSON, refused), "no session of the browser is open"),
        ((200, JSON, refused), "no session of the browser is open"),
        ((400, "", "bad words"), "HTTP 400 Bad Request: bad words"),
        (
            (500, JSON, r#"{"detail":"quota table missing"}"#),
            "HTTP 500 Internal Server Error: {\"detail\":\"quota table missing\"}",
        ),
        ((429, "Retry-After: 5\r\n", "slow down"), "HTTP 429 Too Many Requests; retry after 5 s: slow down"),
        ((503, JSON, refused), "no session of the browser is open"),
    ] {
        let site = Site::start().await;
        let upstream = site.open().await;
        site.state().call = Answer::Whole(answer);
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.ends_with(reason), "{message}");
        site.state().call = Answer::Usual;
        assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("s1"))), "{answer:?}");
    }
}

/// A server that refuses everything, also over new sessions, gets a few requests for each call, and its answer is shown.
#[tokio::test]
async fn a_server_that_refuses_every_session_is_not_asked_without_end() {
    let site = Site::start().await;
    let upstream = site.open().await;
    site.state().call = Answer::Whole((400, "", "Invalid session ID"));
    for _ in 0..5 {
        site.restart((400, "", "Invalid session ID"));
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.contains("HTTP 400 Bad Request: Invalid session ID"), "{message}");
        assert!(site.state().log.len() <= 10, "{:?}", site.state().log);
    }
}

#[tokio::test]
async fn a_server_that_was_restarted_is_asked_for_its_tools() {
    let site = Site::start().await;
    let upstream = site.open().await;
    site.restart((400, "", "Invalid session ID"));
    site.state().tools = vec!["ask", "reply"];
    assert!(run(&upstream, "await far.ask({})").await.is_ok());
    until(|| site.logged("tools/list") > 0).await;
    while upstream.provider().signatures().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The stream of messages ends when the server dies, and cannot be opened again over the lost session.
#[tokio::test]
async fn a_restarted_server_is_noticed_without_a_call() {
    let site = Site::start().await;
    site.state().get = Answer::Open(": hello\n\n");
    let upstream = site.open().await;
    until(|| site.logged("GET") == 1).await;
    site.restart((400, "", "Invalid session ID"));
    site.state().tools = vec!["ask", "reply"];
    site.state().get = Answer::Whole((400, "", "Invalid session ID"));
    site.die.notify_waiters();
    while upstream.provider().signatures().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("s2"))));
}

/// Such a server is usable although it answers as if its sessions were lost.
#[tokio::test]
async fn a_server_without_streams_and_pings_is_usable() {
    let site = Site::start().await;
    site.state().get = Answer::Whole((400, "", "no streams"));
    site.state().refuses_pings = true;
    let upstream = site.open().await;
    until(|| site.logged("GET") == 1).await;
    for _ in 0..3 {
        assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("s1"))));
    }
    assert_eq!(site.logged("ping"), 0);
    site.state().call = Answer::Whole((400, "", "bad words"));
    let message = failure(&upstream, "await far.ask({})").await;
    assert!(message.ends_with("HTTP 400 Bad Request: bad words"), "{message}");
    site.state().call = Answer::Usual;
    assert!(run(&upstream, "await far.ask({})").await.is_ok());
}

/// Begins a call whose answer is `call`, with `get` as the answer to GET, and kills the server when it was received.
async fn killed_during_a_call(call: Answer, get: Answer) -> (Arc<Site>, String) {
    let site = Site::start().await;
    site.state().get = get;
    let upstream = site.open().await;
    if let Answer::Open(_) = get {
        until(|| site.logged("GET") == 1).await;
    }
    site.state().call = call;
    let calling = tokio::spawn(async move { failure(&upstream, "await far.ask({})").await });
    site.called.notified().await;
    // The answer is on its way.
    tokio::time::sleep(Duration::from_millis(20)).await;
    site.state().get = Answer::Closed;
    site.die.notify_waiters();
    let message = calling.await.unwrap();
    (site, message)
}

/// With an id of an event, the response could be resumed, and rmcp alone would try that without end.
#[tokio::test]
async fn a_call_in_flight_fails_at_once_when_its_server_dies() {
    let none = Answer::Whole((405, "", ""));
    for (call, get, reason) in [
        (Answer::Open(": working\n\n"), none, "connection lost"),
        (Answer::Open("id: 5\ndata:\n\n"), none, "connection lost before the answer"),
        (Answer::Open("id: 5\nretry: 60000\ndata:\n\n"), none, "connection lost before the answer"),
        (Answer::Open("id: 5\ndata:\n\n"), Answer::Open(": hello\n\n"), "connection lost before the answer"),
        (Answer::Whole((202, "", "")), Answer::Open(": hello\n\n"), "connection lost"),
        (Answer::Closed, none, "connection lost"),
    ] {
        let (_, message) = killed_during_a_call(call, get).await;
        assert!(message.ends_with(reason), "{message}");
    }
}

#[tokio::test]
async fn a_call_whose_response_has_no_answer_fails_at_once() {
    let site = Site::start().await;
    let upstream = site.open().await;
    for (call, reason) in [
        (Answer::Ended(": working\n\n"), "the response has ended without the answer"),
        (Answer::Ended(""), "the response has ended without the answer"),
        (Answer::Whole((202, "", "")), "HTTP 202 Accepted without an answer"),
        (Answer::Whole((204, "", "")), "HTTP 204 No Content without an answer"),
    ] {
        site.state().call = call;
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.ends_with(reason), "{message}");
    }
}

#[tokio::test]
async fn a_response_that_can_be_resumed_is_resumed_once() {
    let answer =
        "data: {\"jsonrpc\":\"2.0\",\"id\":%ID%,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n\n";
    let answer = answer.replace("%ID%", "1"); // The second request after the handshake.
    let site = Site::start().await;
    let upstream = site.open().await;
    site.state().call = Answer::Ended("id: 5\nretry: 1\ndata:\n\n");
    site.state().get = Answer::Ended(Box::leak(answer.into_boxed_str()));
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("late"))));
    assert_eq!(site.logged("GET 5"), 1);
    for refusal in [(400, "", "Invalid session ID"), (404, "", ""), (405, "", ""), (503, "", "")] {
        site.state().get = Answer::Whole(refusal);
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.ends_with("connection lost before the answer"), "{message}");
    }
    assert_eq!(site.logged("GET 5"), 5);
}

#[tokio::test]
async fn an_answer_on_the_stream_of_messages_is_accepted() {
    let site = Site::start().await;
    site.state().get = Answer::Open(": hello\n\n");
    let upstream = site.open().await;
    until(|| site.logged("GET") == 1).await;
    site.state().call = Answer::Whole((202, "", ""));
    let calling = tokio::spawn(async move { run(&upstream, "await far.ask({})").await.outcome });
    site.called.notified().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    // The second request after the handshake.
    site.state().said =
        "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"there\"}]}}\n\n";
    site.say.notify_one();
    assert_eq!(calling.await.unwrap(), Ok(Some(json!("there"))));
}
