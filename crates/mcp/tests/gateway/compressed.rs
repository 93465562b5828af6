//! Compressed responses of servers over HTTP.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use execbox_mcp::upstream::UpstreamOptions;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::remote::{fine, one_tool, open, run};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn deflate(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A server whose successful responses are compressed, and the heads of its requests.
async fn compressing(
    coding: &'static str,
    as_events: bool,
    compress: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (compress, heads) = (Arc::new(compress), Arc::<Mutex<Vec<_>>>::default());
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut request, mut chunk) = (String::new(), [0; 4096]);
            // A body is in one packet with the end of its head, or ends with a brace.
            while !request.contains("\r\n\r\n") || request.starts_with("POST") && !request.ends_with('}') {
                let length = stream.read(&mut chunk).await.unwrap();
                request += std::str::from_utf8(&chunk[..length]).unwrap();
            }
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            seen.lock().unwrap().push(head.to_lowercase());
            let (status, headers, body) = one_tool(body, |_| fine());
            let (headers, body) = match as_events && status == 200 {
                true => ("Content-Type: text/event-stream\r\n".to_owned(), format!("data: {body}\n\n")),
                false => (headers, body),
            };
            let body = if status == 200 { compress(&body) } else { Vec::new() };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Encoding: {coding}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        }
    });
    (url, heads)
}

#[tokio::test]
async fn compressed_responses_are_read_as_bodies_and_as_events() {
    for (coding, compress) in [("gzip", gzip as fn(&str) -> Vec<u8>), ("deflate", deflate)] {
        for as_events in [false, true] {
            let (url, heads) = compressing(coding, as_events, compress).await;
            let upstream = open(&url, UpstreamOptions::default()).await.unwrap();
            assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))), "{coding}");
            assert!(heads.lock().unwrap().iter().all(|head| head.contains("\r\naccept-encoding: gzip,deflate")));
        }
    }
}

/// A megabyte of compressed data can be a gigabyte.
#[tokio::test]
async fn limits_apply_to_what_responses_expand_to() {
    for as_events in [false, true] {
        let bomb = |text: &str| match text.contains("\"fine\"") {
            true => gzip(&text.replace("fine", &"0".repeat(20 << 20))),
            false => gzip(text),
        };
        let (url, _) = compressing("gzip", as_events, bomb).await;
        let upstream = open(&url, UpstreamOptions::default()).await.unwrap();
        let error = run(&upstream, "await far.ask({})").await.outcome.unwrap_err();
        assert!(error.message.ends_with("response longer than 16777216 bytes"), "{error}");
    }
}

#[tokio::test]
async fn compressed_responses_that_are_cut_off_or_wrong_fail_at_once() {
    for as_events in [false, true] {
        let broken = |text: &str| match text.contains("\"fine\"") {
            true => gzip(text)[..30].to_vec(),
            false => gzip(text),
        };
        let (url, _) = compressing("gzip", as_events, broken).await;
        let upstream = open(&url, UpstreamOptions::default()).await.unwrap();
        let error = run(&upstream, "await far.ask({})").await.outcome.unwrap_err();
        assert!(error.message.ends_with("its Content-Encoding cannot be decoded"), "{error}");
    }
}
