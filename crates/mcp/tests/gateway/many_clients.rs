//! Many clients over HTTP at once: idle ones, busy ones, and those that take what they can get.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::policy::{Decision, Policy};
use execbox::transport::Token;
use execbox_mcp::server::{HttpLimit, HttpOptions, ServerOptions, Shortage, ShortageSink};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::fakes::{Fake, code_server_with, until};
use crate::http::{Answer, Served, message, serve, serve_code};

/// A client of one protocol generation that sends raw requests.
enum Client {
    /// With the header of a session.
    Session(String),
    /// Without a session, with this name.
    Stateless(&'static str),
}

impl Client {
    /// A client of each generation.
    async fn both(served: &Served) -> [Self; 2] {
        [Self::Session(served.session("2025-11-25").await), Self::Stateless("busy")]
    }

    /// The request of a method, with these further headers.
    fn request(&self, served: &Served, method: &str, id: u32, mut params: Json, headers: &str) -> String {
        match self {
            Self::Session(session) => served.post(&format!("{session}{headers}"), &message(method, Some(id), &params)),
            Self::Stateless(name) => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": { "name": name, "version": "1" },
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                let mut fields = format!("{headers}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
                if let Some(tool) = params["name"].as_str() {
                    fields += &format!("Mcp-Name: {tool}\r\n");
                }
                served.post(&fields, &message(method, Some(id), &params))
            }
        }
    }

    fn run(&self, served: &Served, id: u32, code: &str, headers: &str) -> String {
        let params = json!({ "name": "mcp_code", "arguments": { "code": code } });
        self.request(served, "tools/call", id, params, headers)
    }
}

/// A sink, and what it received.
fn sink() -> (ShortageSink, Arc<Mutex<Vec<Shortage>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&received);
    (ShortageSink::new(move |shortage| sink.lock().unwrap().push(shortage)), received)
}

/// Calls of `slow` that have places.
struct Calls {
    ids: Vec<u32>,
    running: JoinSet<(u32, Answer)>,
}

/// A server with 16 places for requests, of which one client gets 8.
async fn serve_few(fake: &Fake) -> Served {
    serve(fake, HttpOptions::default().max_connections(512).max_requests(16)).await
}

/// Sends 40 calls of `slow` at once to a server with 8 places for each client. All further ones are refused.
async fn fill_share(served: &Served, fake: &Fake, client: &Client, headers: impl Fn(u32) -> String) -> Calls {
    let running_before = fake.running.load(Ordering::SeqCst);
    let mut running = JoinSet::new();
    for id in 100..140 {
        let stream = served.begin(client.run(served, id, "await api.slow({})", &headers(id))).await;
        running.spawn(async move { (id, Served::answer(stream).await) });
    }
    let mut ids: Vec<u32> = (100..140).collect();
    for _ in 0..32 {
        let (id, answer) = running.join_next().await.unwrap().unwrap();
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")), "{answer:?}");
        let reason = "requests of this client are in progress; wait for one, or try again later.\n";
        assert!(answer.body.ends_with(reason), "{answer:?}");
        ids.retain(|other| *other != id);
    }
    until(|| fake.running.load(Ordering::SeqCst) == running_before + 8).await;
    Calls { ids, running }
}

#[tokio::test]
async fn a_busy_client_is_refused_what_exceeds_its_share_and_others_are_served() {
    for generation in 0..2 {
        let (fake, (sink, shortages)) = (Fake::standard(), sink());
        let options = HttpOptions::default().max_connections(512).max_requests(16).shortages(sink);
        let served = serve(&fake, options).await;
        let [with_session, stateless] = Client::both(&served).await;
        let busy = if generation == 0 { with_session } else { stateless };
        let _calls = fill_share(&served, &fake, &busy, |_| String::new()).await;
        for other in [Client::Session(served.session("2025-11-25").await), Client::Stateless("other")] {
            let answer = served.raw(other.run(&served, 1, "6 * 7", "")).await;
            assert!(answer.status == 200 && answer.body.contains(r#""text":"42""#), "{answer:?}");
        }
        until(|| !shortages.lock().unwrap().is_empty()).await;
        let Shortage { limit, count, .. } = shortages.lock().unwrap()[0];
        assert!(limit == HttpLimit::Share && count > 0);
    }
}

#[tokio::test]
async fn requests_without_a_valid_token_are_reported_together() {
    let (sink, shortages) = sink();
    let token = Some(Token::new("s3cret").unwrap());
    let options = HttpOptions::default().token(token).shortages(sink);
    let served = serve(&Fake::standard(), options).await;
    let list = message("tools/list", Some(1), &json!({}));
    for headers in ["", "Authorization: Bearer x\r\n", "Authorization: Bearer y\r\n"] {
        assert_eq!(served.raw(&served.post(headers, &list)).await.status, 401);
    }
    let counted = |shortages: &[Shortage], limit| -> u64 {
        shortages.iter().filter(|shortage| shortage.limit == limit).map(|shortage| shortage.count).sum()
    };
    let is_reported = |shortages: &[Shortage]| {
        counted(shortages, HttpLimit::MissingToken) == 1 && counted(shortages, HttpLimit::WrongToken) == 2
    };
    until(|| is_reported(&shortages.lock().unwrap())).await;
}

/// A client must not get further places by naming sessions that are not open.
#[tokio::test]
async fn unknown_sessions_have_no_places_of_their_own() {
    let fake = Fake::standard();
    let served = serve_few(&fake).await;
    let _calls =
        fill_share(&served, &fake, &Client::Stateless("busy"), |id| format!("Mcp-Session-Id: s{id}\r\n")).await;
}

#[tokio::test]
async fn a_client_whose_share_is_taken_can_cancel_calls_and_ping() {
    let fake = Fake::standard();
    let served = serve_few(&fake).await;
    let session = served.session("2025-11-25").await;
    let client = Client::Session(session.clone());
    let mut calls = fill_share(&served, &fake, &client, |_| String::new()).await;
    let ping = served.raw(client.request(&served, "ping", 1, json!({}), "")).await;
    assert!(ping.status == 200 && ping.body.contains(r#""result":{}"#), "{ping:?}");
    let cancelled = message("notifications/cancelled", None, &json!({ "requestId": calls.ids[0] }));
    assert_eq!(served.raw(served.post(&session, &cancelled)).await.status, 202);
    fake.cancelled.notified().await;
    let (id, answer) = calls.running.join_next().await.unwrap().unwrap();
    assert!(id == calls.ids[0] && answer.status == 200, "{answer:?}");
    let answer = served.raw(client.run(&served, 2, "6 * 7", "")).await;
    assert!(answer.status == 200 && answer.body.contains(r#""text":"42""#), "its place is free: {answer:?}");
    assert_eq!(served.raw(served.head("DELETE /mcp", &session)).await.status, 204);
    while let Some(answer) = calls.running.join_next().await {
        assert_eq!(answer.unwrap().1.status, 200);
    }
}

#[tokio::test]
async fn answers_to_questions_are_received_from_a_client_whose_share_is_taken() {
    let fake = Fake::standard();
    let policy = Some(Policy::new().tools("api.echo", Decision::Ask).tools("api.slow", Decision::Allow));
    let asking_server = code_server_with(&fake, ServerOptions::default().policy(policy)).await;
    let options = HttpOptions::default().max_connections(512).max_requests(18);
    let served = serve_code(asking_server, options).await;
    let session = served.session_with("2025-11-25", json!({ "elicitation": {} })).await;
    let client = Client::Session(session.clone());
    let asking = served.begin(client.run(&served, 1, "return (await api.echo({ n: 7 })).n", "")).await;
    let mut lines = BufReader::new(asking).lines();
    let question = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some(Ok(question)) = line.strip_prefix("data: ").map(serde_json::from_str::<Json>)
            && question["method"] == "elicitation/create"
        {
            break question;
        }
    };
    let _calls = fill_share(&served, &fake, &client, |_| String::new()).await;
    let result = json!({ "action": "accept", "content": { "decision": "approve" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
    assert_eq!(served.raw(served.post(&session, &answer.to_string())).await.status, 202);
    loop {
        let line = lines.next_line().await.unwrap().expect("the result precedes the end");
        if line.contains(r#""text":"7""#) {
            break;
        }
    }
}

/// Reads the status of a response.
async fn status(stream: &mut TcpStream) -> u16 {
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.unwrap();
    std::str::from_utf8(&line[9..]).unwrap().parse().unwrap()
}

/// Clients open a stream again as soon as it has ended or was refused.
#[tokio::test]
async fn idle_clients_that_reopen_their_streams_do_not_lock_out_others() {
    let served = serve(&Fake::standard(), HttpOptions::default().max_connections(64)).await;
    let mut idle = JoinSet::new();
    for nth in 0..300 {
        let request = if nth % 3 == 0 {
            let params = json!({ "notifications": { "toolsListChanged": true } });
            Client::Stateless("idle").request(&served, "subscriptions/listen", nth, params, "")
        } else {
            let session = served.session("2025-11-25").await;
            served.head("GET /mcp", &format!("{session}Accept: text/event-stream\r\n"))
        };
        let address = served.address;
        idle.spawn(async move {
            loop {
                let Ok(mut stream) = TcpStream::connect(address).await else { continue };
                let _ = stream.write_all(request.as_bytes()).await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
    for client in [Client::Session(served.session("2025-11-25").await), Client::Stateless("new")] {
        for id in 1..=5 {
            let answer = served.raw(client.run(&served, id, "6 * 7", "")).await;
            assert!(answer.status == 200 && answer.body.contains(r#""text":"42""#), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn streams_give_way_to_connections_and_are_refused_for_a_time() {
    let (fake, (sink, shortages)) = (Fake::standard(), sink());
    let options = HttpOptions::default().max_connections(16).shortages(sink);
    let served = serve(&fake, options).await;
    let mut streams = Vec::new();
    let stream_of = |session: &str| served.head("GET /mcp", &format!("{session}Accept: text/event-stream\r\n"));
    let later = served.session("2025-11-25").await;
    for _ in 0..8 {
        let session = served.session("2025-11-25").await;
        let mut stream = served.begin(stream_of(&session)).await;
        assert_eq!(status(&mut stream).await, 200);
        streams.push(stream);
    }
    let refused = served.raw(stream_of(&later)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "half are streams: {refused:?}");
    assert_eq!(refused.body, "Too many streams of messages are open; try again later.\n");
    // Seven calls, of which the last place is for others, and idle connections take the other half.
    let mut calls = Vec::new();
    for (client, id) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("b", 6), ("b", 7)] {
        calls.push(served.begin(Client::Stateless(client).run(&served, id, "await api.slow({})", "")).await);
    }
    until(|| fake.running.load(Ordering::SeqCst) == 7).await;
    let last = served.begin(Client::Stateless("c").run(&served, 8, "await api.slow({})", "")).await;
    until(|| fake.running.load(Ordering::SeqCst) == 8).await;
    let ping = Client::Stateless("d").request(&served, "ping", 1, json!({}), "");
    assert_ne!(served.raw(&ping).await.status, 503, "a stream gives way");
    let _ = streams[0].read_to_end(&mut Vec::new()).await;
    assert!(streams[7].try_read(&mut [0; 1_000]).is_ok_and(|read| read > 0), "only the oldest one has ended");
    let reopened = served.raw(stream_of(&later)).await;
    assert_eq!(reopened.status, 503, "it would take the place of another one");
    drop((last, calls));
    until(|| shortages.lock().unwrap().iter().any(|shortage| shortage.limit == HttpLimit::Streams)).await;
}

/// The responses are longer than what the buffers of the system hold.
#[tokio::test]
async fn a_client_that_does_not_read_its_responses_keeps_only_its_own_places() {
    let served = serve_few(&Fake::standard()).await;
    let client = Client::Stateless("slow");
    let large = client.run(&served, 1, "({ type: 'image', mimeType: 'image/png', data: 'A'.repeat(6000000) })", "");
    let mut unread = Vec::new();
    for _ in 0..8 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(served.address).await.unwrap();
        stream.write_all(large.as_bytes()).await.unwrap();
        assert_eq!(status(&mut stream).await, 200);
        unread.push(stream);
    }
    let one = client.run(&served, 2, "1", "");
    assert_eq!(served.raw(&one).await.status, 503);
    assert_eq!(served.raw(Client::Stateless("other").run(&served, 1, "1", "")).await.status, 200);
    for mut stream in unread {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() > 6_000_000, "whole");
    }
    while served.raw(&one).await.status == 503 {}
}
