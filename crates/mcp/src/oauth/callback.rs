//! The page on a loopback port to which the authorization server sends the browser.
//!
//! Any program and any web page on this computer can send requests to the port. A request without the state of this login
//! gets an error and has no other effect.

use std::convert::Infallible;
use std::future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY};
use http::{Method, Request, Response, StatusCode, Version};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Url;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::LoginError;

/// A loopback port that the browser returns to.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// The answer of the authorization server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The code; or the code of the error and its description.
    pub(super) code: Result<String, String>,
    /// The issuer, if the server states it.
    pub(super) issuer: Option<String>,
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

    /// The address of the page, by a name of this computer.
    pub(super) fn redirect_uri(&self, host: &str) -> String {
        format!("http://{host}:{}{PATH}", self.port)
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
async fn serve(stream: TcpStream, state: &str, answers: &mpsc::Sender<Answer>) {
    let found = OnceLock::new();
    let service = service_fn(|request| {
        let answer = read(&request, state);
        let page = page(&answer);
        if let Ok(answer) = answer {
            let _ = found.set(answer);
        }
        future::ready(Ok::<_, Infallible>(page))
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(MAX_HEAD).timer(TokioTimer::new()).header_read_timeout(TIMEOUT);
    // Errors of the connection are caused by the client, and ignored.
    let _ = tokio::time::timeout(2 * TIMEOUT, http.serve_connection(TokioIo::new(stream), service)).await;
    if let Some(answer) = found.into_inner() {
        // The answer is sent after the page, because it ends all connections. Of two answers, the first one counts.
        let _ = answers.try_send(answer);
    }
}

/// The page that the browser shows, which contains nothing of the request.
fn page(answer: &Result<Answer, StatusCode>) -> Response<String> {
    let (status, text) = match answer {
        Ok(Answer { code: Ok(_), .. }) => (StatusCode::OK, "execbox has received the login. You can close this page."),
        Ok(Answer { code: Err(_), .. }) => (StatusCode::OK, "The login was refused. You can close this page."),
        Err(status) => (*status, "This page only receives logins of execbox."),
    };
    let page = Response::builder().status(status).header(CONTENT_TYPE, "text/plain; charset=utf-8");
    let page = page.header(CACHE_CONTROL, "no-store").header(REFERRER_POLICY, "no-referrer");
    page.body(text.to_owned()).expect("the fields are valid")
}

/// The answer in a request, or the status of a request without one.
fn read<B>(request: &Request<B>, state: &str) -> Result<Answer, StatusCode> {
    let target = request.uri();
    if request.method() != Method::GET || request.version() != Version::HTTP_11 {
        return Err(StatusCode::BAD_REQUEST);
    }
    if target.path() != PATH || target.authority().is_some() {
        return Err(StatusCode::NOT_FOUND);
    }
    let url = Url::parse(&format!("http://127.0.0.1{target}")).map_err(|_| StatusCode::BAD_REQUEST)?;
    let value = |wanted: &str| {
        let mut values = url.query_pairs().filter(|(name, _)| name == wanted);
        // A parameter that occurs twice is ambiguous, and counts as missing.
        values.next().filter(|_| values.next().is_none()).map(|(_, value)| value.into_owned())
    };
    if value("state").as_deref() != Some(state) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let code = match (value("code"), value("error")) {
        (Some(code), None) if !code.is_empty() => Ok(code),
        (None, Some(error)) => Err(match value("error_description") {
            Some(description) => format!("{error}: {description}"),
            None => error,
        }),
        _ => return Err(StatusCode::BAD_REQUEST),
    };
    Ok(Answer { code, issuer: value("iss") })
}

const PATH: &str = "/callback";

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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn only_the_answer_with_the_state_is_read() {
        let read =
            |method: &str, target: &str| read(&Request::builder().method(method).uri(target).body(()).unwrap(), "s1");
        let code = |code: &str, issuer: Option<&str>| {
            Ok(Answer { code: Ok(code.to_owned()), issuer: issuer.map(str::to_owned) })
        };
        assert_eq!(read("GET", "/callback?code=a%20b&state=s1"), code("a b", None));
        assert_eq!(read("GET", "/callback?state=s1&iss=http%3A%2F%2Fi&code=c"), code("c", Some("http://i")));
        let refused = read("GET", "/callback?error=access_denied&error_description=no&iss=i&state=s1");
        let code = Err("access_denied: no".to_owned());
        assert_eq!(refused, Ok(Answer { code, issuer: Some("i".to_owned()) }));
        for (method, target) in [
            ("GET", "/callback"),
            ("GET", "/callback?code=c&state=s2"),
            ("GET", "/callback?code=c&state=s1&state=s1"),
            ("GET", "/callback?code=c&code=d&state=s1"),
            ("GET", "/callback?code=c&error=e&state=s1"),
            ("GET", "/callback?code=&state=s1"),
            ("POST", "/callback?code=c&state=s1"),
            ("OPTIONS", "*"),
            ("CONNECT", "e:443"),
        ] {
            assert_eq!(read(method, target), Err(StatusCode::BAD_REQUEST), "{method} {target}");
        }
        for target in ["/", "/favicon.ico", "http://e/callback?code=c&state=s1", "e:443"] {
            assert_eq!(read("GET", target), Err(StatusCode::NOT_FOUND), "{target}");
        }
    }

    /// Sends `request`. Returns everything that the port answers until it closes the connection.
    async fn send(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        // Fails if the answer came before.
        let _ = stream.write_all(request.as_bytes()).await;
        read_all(stream).await
    }

    async fn read_all(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        // A connection that is closed with unread data is reset.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn requests_that_are_no_answer_get_an_error_and_end_nothing() {
        let callback = Callback::bind(None).await.unwrap();
        let port = callback.port;
        let answer = tokio::spawn(async move { callback.answer("s1").await });
        let long = format!("GET /callback?state=s1&code={} HTTP/1.1\r\n\r\n", "x".repeat(MAX_HEAD));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(3_000));
        for (request, status) in [
            ("GET /favicon.ico HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404"),
            ("GET /callback?code=c&state=s1 HTTP/1.0\r\n\r\n", "HTTP/1.0 400"),
            ("GET /callback?code=<script>&state=s2 HTTP/1.1\r\n\r\n", "HTTP/1.1 400"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
            ("\u{16}\u{3}\u{1}\u{0}\u{5}\r\n\r\n", "HTTP/1.1 400"),
            (&long, "HTTP/1.1 431"),
            (&many, "HTTP/1.1 431"),
        ] {
            let page = send(port, request).await;
            assert_eq!(page.get(..12).unwrap_or_default(), status, "{request:.40}: {page}");
            assert!(!page.contains("script"), "{page}");
        }
        let page = send(port, "GET /callback?code=c&state=s1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(page.ends_with("You can close this page.") && page.contains("connection: close"), "{page}");
        assert_eq!(answer.await.unwrap(), Answer { code: Ok("c".to_owned()), issuer: None });
    }

    #[tokio::test]
    async fn slow_clients_keep_their_places_for_a_limited_time() {
        let callback = Callback::bind(None).await.unwrap();
        let port = callback.port;
        let answer = tokio::spawn(async move { callback.answer("s1").await });
        let mut slow = Vec::new();
        for at in 0..MAX_CONNECTIONS {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let beginning = ["", "GET /callback?code=c&state=s1 HTTP/1.1\r\n"][at % 2];
            stream.write_all(beginning.as_bytes()).await.unwrap();
            slow.push(stream);
        }
        let request = "GET /callback?code=c&state=s1 HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(send(port, request).await, "", "all places are taken");
        tokio::time::pause(); // From now on, the clock advances when all tasks are idle.
        for stream in slow {
            let page = read_all(stream).await;
            assert!(!page.contains("200 OK"), "{page}");
        }
        tokio::time::resume();
        assert!(send(port, request).await.contains("200 OK"));
        assert!(answer.await.unwrap().code.is_ok());
    }
}
