//! The page on a loopback port to which the authorization server sends the browser.
//!
//! Any program and any web page on this computer can send requests to the port. A request without the state of this login
//! gets an error and ends nothing.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::LoginError;

/// A port that waits for the browser.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// What the authorization server has answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Code {
        code: String,
        /// Who answers, if the server says so.
        issuer: Option<String>,
    },
    /// The error code and its description.
    Refused(String),
}

impl Callback {
    /// Listens on `port` of 127.0.0.1. Default: a free one.
    pub(super) async fn bind(port: Option<u16>) -> Result<Self, LoginError> {
        let port = port.unwrap_or_default();
        let failed = |error: std::io::Error| LoginError::Listen { port, kind: error.kind() };
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the answer to the request with this state. The port is closed afterwards.
    pub(super) async fn answer(self, state: &str) -> Answer {
        let (answers, mut answered) = mpsc::channel(1);
        let (places, state): (_, Arc<str>) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), state.into());
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(answer) = answered.recv() => return answer,
                accepted = self.listener.accept() => {
                    let Ok((stream, _)) = accepted else {
                        tokio::time::sleep(ACCEPT_PAUSE).await; // Out of descriptors, for example.
                        continue;
                    };
                    let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                    let (answers, state) = (answers.clone(), Arc::clone(&state));
                    connections.spawn(async move {
                        serve(stream, &state, &answers).await;
                        drop(place);
                    });
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

/// Answers the request of one connection.
async fn serve(mut stream: TcpStream, state: &str, answers: &mpsc::Sender<Answer>) {
    let head = tokio::time::timeout(TIMEOUT, head(&mut stream)).await.ok().flatten();
    let answer = head.map_or(Err(BAD), |head| read(&head, state));
    let (status, text) = match &answer {
        Ok(Answer::Code { .. }) => ("200 OK", "execbox has received the login. You can close this page."),
        Ok(Answer::Refused(_)) => ("200 OK", "The login was refused. You can close this page."),
        Err(status) => (*status, "This page only receives logins of execbox."),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\r\n",
        text.len()
    );
    let _ = tokio::time::timeout(TIMEOUT, write(&mut stream, &(head + text))).await;
    if let Ok(answer) = answer {
        // After the page, as other connections end now. Of two answers, the first one counts.
        let _ = answers.try_send(answer);
    }
}

async fn write(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// The head of a request; `None` if it is too long or not text.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut known) = (Vec::with_capacity(1024), 0_usize);
    // Only what is new is searched for the end, which may have begun before.
    while !head[known.saturating_sub(3)..].windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        known = head.len();
        let room = MAX_HEAD.checked_sub(known).filter(|room| *room > 0)?;
        (&mut *stream).take(room as u64).read_buf(&mut head).await.ok().filter(|read| *read > 0)?;
    }
    String::from_utf8(head).ok()
}

/// The answer in a request, or the status of a request without one.
fn read(head: &str, state: &str) -> Result<Answer, &'static str> {
    let line = head.lines().next().ok_or(BAD)?;
    let target = line.strip_prefix("GET ").and_then(|rest| rest.strip_suffix(" HTTP/1.1")).ok_or(BAD)?;
    let url = Url::parse("http://127.0.0.1").and_then(|base| base.join(target)).map_err(|_| BAD)?;
    if url.path() != PATH || !target.starts_with('/') {
        return Err("404 Not Found");
    }
    let value = |wanted: &str| {
        let mut values = url.query_pairs().filter(|(name, _)| name == wanted);
        // Which of two values counts is not defined.
        values.next().filter(|_| values.next().is_none()).map(|(_, value)| value.into_owned())
    };
    if value("state").as_deref() != Some(state) {
        return Err(BAD);
    }
    match (value("code"), value("error")) {
        (Some(code), None) if !code.is_empty() => Ok(Answer::Code { code, issuer: value("iss") }),
        (None, Some(error)) => Ok(Answer::Refused(match value("error_description") {
            Some(description) => format!("{error}: {description}"),
            None => error,
        })),
        _ => Err(BAD),
    }
}

const PATH: &str = "/callback";

/// The status of requests that are no answer.
const BAD: &str = "400 Bad Request";

/// The maximum length of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// The maximum number of connections at once; further ones are closed.
const MAX_CONNECTIONS: usize = 16;

/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time limit of a request, and of its answer.
const TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_with_the_state_is_read() {
        let read = |line: &str| read(&format!("{line}\r\nHost: x\r\n\r\n"), "s1");
        let code = |code: &str, issuer: Option<&str>| {
            Ok(Answer::Code { code: code.to_owned(), issuer: issuer.map(str::to_owned) })
        };
        assert_eq!(read("GET /callback?code=a%20b&state=s1 HTTP/1.1"), code("a b", None));
        assert_eq!(read("GET /callback?state=s1&iss=http%3A%2F%2Fi&code=c HTTP/1.1"), code("c", Some("http://i")));
        let refused = read("GET /callback?error=access_denied&error_description=no&state=s1 HTTP/1.1");
        assert_eq!(refused, Ok(Answer::Refused("access_denied: no".to_owned())));
        for line in [
            "",
            "GET",
            "GET /callback HTTP/1.1",
            "GET /callback?code=c&state=s2 HTTP/1.1",
            "GET /callback?code=c&state=s1&state=s1 HTTP/1.1",
            "GET /callback?code=c&code=d&state=s1 HTTP/1.1",
            "GET /callback?code=c&error=e&state=s1 HTTP/1.1",
            "GET /callback?code=&state=s1 HTTP/1.1",
            "POST /callback?code=c&state=s1 HTTP/1.1",
        ] {
            assert_eq!(read(line), Err("400 Bad Request"), "{line}");
        }
        for line in ["GET / HTTP/1.1", "GET /favicon.ico HTTP/1.1", "GET http://e/callback?code=c&state=s1 HTTP/1.1"] {
            assert_eq!(read(line), Err("404 Not Found"), "{line}");
        }
    }
}
