//! A hostile MCP server over HTTP, which answers all requests as usual but those of one method.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::case::Case;
use crate::expand::expand;

/// How the hostile answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The body of a response.
    Body,
    /// One event, which is the whole stream.
    Event,
    /// A stream that repeats the text without an end.
    Endless,
}

/// A server with its hostile answer and the method that it applies to.
struct Site {
    form: Form,
    method: String,
    text: String,
}

/// Starts a server for a case with the key `over`. Returns its URL.
pub(crate) fn start(case: &Case, over: &str) -> String {
    let (form, method) = over.split_once(' ').expect("`over: FORM METHOD`");
    let form = match form {
        "body" => Form::Body,
        "event" => Form::Event,
        "endless" => Form::Endless,
        _ => panic!("unknown form {form:?}"),
    };
    let text = expand(&case.sources[0].1).replace("\\n", "\n");
    let site = Arc::new(Site { form, method: method.to_owned(), text });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let site = Arc::clone(&site);
            std::thread::spawn(move || site.serve(&stream));
        }
    });
    url
}

impl Site {
    /// Answers one request.
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim().to_lowercase().split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let message: Json = serde_json::from_slice(&body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        let answer = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]);
        let (kind, text) = match method {
            _ if method == self.method && self.form == Form::Endless => {
                stream.write_all(head("text/event-stream", None).as_bytes())?;
                loop {
                    stream.write_all(self.text.as_bytes())?;
                }
            }
            _ if method == self.method && self.form == Form::Event => {
                ("text/event-stream", format!("data: {}\n\n", answer(&self.text)))
            }
            _ if method == self.method => ("application/json", answer(&self.text)),
            "initialize" => ("application/json", answer(&initialized().to_string())),
            "tools/list" => ("application/json", answer(r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#)),
            "" => return stream.write_all(b"HTTP/1.1 405 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            _ => return stream.write_all(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        };
        stream.write_all(head(kind, Some(text.len())).as_bytes())?;
        stream.write_all(text.as_bytes())
    }
}

fn head(kind: &str, length: Option<usize>) -> String {
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{length}Connection: close\r\n\r\n")
}

fn initialized() -> Json {
    json!({
        "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "evil", "version": "1" }
    })
}
