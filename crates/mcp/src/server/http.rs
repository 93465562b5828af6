//! A [`CodeServer`] over streamable HTTP, for many clients at once.
//!
//! The door is narrow: only loopback names and allowed ones are answered (a web page cannot reach it under a name of
//! its own), no web page is (unless its origin is allowed), and who listens beyond this machine asks for a token.
//! Every size and number that a client chooses is capped.
//!
//! Clients that speak 2026-07-28 have no sessions; older ones have. Either way a request that its client gives up or
//! drops cancels its guest and the tools that the guest called.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use execbox::transport::Token;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::CodeServer;
use super::sessions::Sessions;

/// Who is let in, and how much of everything there is.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// What clients have to show, as `Authorization: Bearer …`. Default: nothing.
    pub token: Option<Token>,
    /// Names under which clients reach this server, with a port or without one, besides `localhost`, `127.0.0.1`,
    /// `[::1]` and the address that it listens at. Default: none.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call, as `https://app.example.com:443`; with `:*` for any port. Default: none.
    pub origins: Vec<String>,
    /// The longest body of a request, in bytes. Default: 1 MiB.
    pub max_body: usize,
    /// The most connections at once; further ones wait. Default: 128.
    pub max_connections: usize,
    /// The most sessions at once; for a further one, the one that is without a call for longest ends. Default: 128.
    pub max_sessions: usize,
    /// When a session in which nothing happens ends. Default: 30 minutes.
    pub idle: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body: 1 << 20,
            max_connections: 128,
            max_sessions: 128,
            idle: Duration::from_mins(30),
        }
    }
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// Everybody who can reach the address could run code.
    #[error("{0} can be reached from other machines: listen on 127.0.0.1 or [::1], or ask for a token")]
    NeedsToken(String),
    /// A name that no client can use.
    #[error("{0:?} is no name of a server: write `host` or `host:port`")]
    Host(String),
    /// An origin that no web page has.
    #[error("{0:?} is no origin of a web page: write `scheme://host:port`, or `scheme://host:*` for any port")]
    Origin(String),
    /// The system refused.
    #[error("cannot listen on {address}: {error}")]
    Io {
        /// The address that was asked for.
        address: String,
        /// Why not.
        error: io::Error,
    },
}

/// A listening server.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

impl HttpServer {
    /// Listens at `address`, as `127.0.0.1:8080`; port 0 is one that is free. Without a token, only addresses of this
    /// machine alone are taken.
    pub async fn bind(address: &str, options: HttpOptions) -> Result<Self, HttpError> {
        check_names(&options)?;
        let failed = |error| HttpError::Io { address: address.to_owned(), error };
        let reachable: Vec<SocketAddr> = lookup_host(address).await.map_err(failed)?.collect();
        if options.token.is_none() && !reachable.iter().all(|one| one.ip().is_loopback()) {
            return Err(HttpError::NeedsToken(address.to_owned()));
        }
        let listener = TcpListener::bind(&reachable[..]).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, options })
    }

    /// Where it listens, with the port that it was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves clients until `ended`. Then what runs is cancelled, and connections have a moment to close.
    pub async fn serve(self, server: CodeServer, ended: CancellationToken) {
        let streams = CancellationToken::new();
        let door = Arc::new(Door::new(server, self.address, &self.options, streams.clone()));
        let places = Arc::new(Semaphore::new(self.options.max_connections.max(1)));
        let mut connections = JoinSet::new();
        while let Some((stream, place)) = accept(&self.listener, &places, &ended).await {
            connections.spawn(connection(stream, Arc::clone(&door), ended.clone(), place));
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        door.sessions.close_all().await;
        streams.cancel();
        let _ = tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    }
}

fn check_names(options: &HttpOptions) -> Result<(), HttpError> {
    for host in &options.hosts {
        host.parse::<http::uri::Authority>().map_err(|_| HttpError::Host(host.clone()))?;
    }
    for origin in &options.origins {
        let uri = origin.strip_suffix(":*").unwrap_or(origin).parse::<http::Uri>();
        let fits = uri.is_ok_and(|uri| uri.scheme().is_some() && uri.path() == "/" && !origin.ends_with('/'));
        if !fits && origin != "null" {
            return Err(HttpError::Origin(origin.clone()));
        }
    }
    Ok(())
}

/// The next connection, once there is a place for it; none after the end.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    ended: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let accepted = async {
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, place)),
                // Out of files, for example: some are closed soon.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    };
    ended.run_until_cancelled(accepted).await.flatten()
}

/// Serves one connection. Its place is free when it has ended.
async fn connection(stream: TcpStream, door: Arc<Door>, ended: CancellationToken, _place: OwnedSemaphorePermit) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(READ_TIMEOUT).max_header_size(MAX_HEADERS);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    if ended.run_until_cancelled(connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(GRACE, connection).await;
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What every request has to pass.
struct Door {
    token: Option<Token>,
    max_body: usize,
    sessions: Arc<Sessions>,
    service: StreamableHttpService<CodeServer, Sessions>,
}

impl Door {
    fn new(server: CodeServer, address: SocketAddr, options: &HttpOptions, streams: CancellationToken) -> Self {
        let sessions = Arc::new(Sessions::new(options.max_sessions, options.idle));
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), address.to_string()];
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(own.iter().chain(&options.hosts))
            .with_allowed_origins(&options.origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(options.max_body)
            .with_sse_retry(None)
            .with_json_response(true);
        config.cancellation_token = streams;
        let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
        Self { token: options.token.clone(), max_body: options.max_body, sessions, service }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "There is nothing here: MCP clients connect to /mcp.\n");
        }
        if let Some(token) = &self.token
            && !shows(&request, token)
        {
            let mut refusal = refusal(StatusCode::UNAUTHORIZED, "Show the token, as `Authorization: Bearer …`.\n");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
            return refusal;
        }
        let (head, body) = request.into_parts();
        match tokio::time::timeout(READ_TIMEOUT, Limited::new(body, self.max_body).collect()).await {
            Ok(Ok(body)) => {
                let ends_session = head.method == Method::DELETE;
                let mut answer = self.service.handle(Request::from_parts(head, Full::new(body.to_bytes()))).await;
                if ends_session && answer.status() == StatusCode::ACCEPTED {
                    *answer.status_mut() = StatusCode::NO_CONTENT; // It is done, and clients warn of anything else.
                }
                answer
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let most = format!("A request has at most {} bytes.\n", self.max_body);
                refusal(StatusCode::PAYLOAD_TOO_LARGE, &most)
            }
            Ok(Err(_)) => refusal(StatusCode::BAD_REQUEST, "The request breaks off.\n"),
            Err(_) => refusal(StatusCode::REQUEST_TIMEOUT, "The request does not come to its end.\n"),
        }
    }
}

fn shows(request: &Request<Incoming>, token: &Token) -> bool {
    let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    shown.is_some_and(|value| token.is_in_header(value))
}

fn refusal(status: StatusCode, line: &str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(line.as_bytes())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Where MCP is.
const PATH: &str = "/mcp";

/// How long the head of a request may take, and its body.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest head of a request, in bytes.
const MAX_HEADERS: usize = 64 << 10;

/// How long connections have to close at the end.
const GRACE: Duration = Duration::from_secs(2);

/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
