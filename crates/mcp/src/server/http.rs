//! A [`CodeServer`] over streamable HTTP, for many clients at once.
//!
//! Requests are accepted only for loopback and allowed host names (this prevents DNS rebinding), and from web pages only
//! of allowed origins. Listening on an address that other machines can reach requires a token. Every size and number
//! that a client chooses is limited.
//!
//! Clients of protocol 2026-07-28 have no sessions; older ones have. In both cases, a request that its client cancels or
//! drops cancels its guest and the tool calls of the guest.
//!
//! hyper is used without a framework such as axum: there is one route, and there are limits for each connection.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use execbox::transport::tls::ServerTls;
use execbox::transport::{ListenError, Protection, Socket, SocketListener, Stream, Token, TokenRejection};
use execbox_core::budget::{Budget, Charge, Exhausted};
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode};
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::SetOnce;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::AbortOnDropHandle;

use super::connections::{Connection, Connections, Phase, Serving, Stalling};
use super::heads::{Ambiguity, CheckedStream};
use super::named::{NamedClient, NamedClients};
use super::open_ids::{OpenId, OpenIds};
use super::origins::{self, Origins};
use super::peers::Peer;
use super::reading::{self, Answer, Readable, Unreadable};
use super::requests::{self, Kind, NoRequest, Place, Requests};
use super::sessions::{self, Opener, Sessions};
use super::shortages::{HttpLimit, ShortageSink, Shortages};
use super::{CodeServer, accept};
use crate::clients;
use crate::scanner::Scanner;

/// Access control and limits of an [`HttpServer`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The token that clients must send, as `Authorization: Bearer …`. Default: none.
    pub token: Option<Token>,
    /// Clients with tokens and servers of their own. If this is set, every client must send one of these tokens or
    /// [`token`](Self::token). Default: none.
    pub clients: Option<NamedClients>,
    /// The certificate that is presented to clients, and those that they must present. Default: none, and no TLS.
    pub tls: Option<ServerTls>,
    /// Whether clients on other machines may send their tokens in clear text: where a proxy encrypts connections. Default: no.
    pub insecure: bool,
    /// Accepted host names, with or without a port, in addition to `localhost`, `127.0.0.1`, `[::1]` and the address
    /// of the server. Default: none.
    pub hosts: Vec<String>,
    /// Accepted origins of web pages, as `https://app.example.com`, in addition to those of the server itself on this machine;
    /// `:*` is any port. Default: none.
    pub origins: Vec<String>,
    /// The maximum length of the body of a request, in bytes. Default: 1 MiB.
    pub max_body: usize,
    /// The maximum number of connections, at least 8. A further one closes a connection that serves no request or only a stream of
    /// messages. At most half of them are streams. Default: 4 096.
    pub max_connections: usize,
    /// The maximum number of requests that are handled at once, including those whose programs wait for others. At most half of
    /// [`max_connections`](Self::max_connections). One client has at most half of them, and the last eighth is only for clients
    /// that have none. A further request is refused. Default: 1 024.
    pub max_requests: usize,
    /// The maximum number of sessions. A further one closes a session that is not in use: one without a call of a tool, or
    /// without a message for a minute (ten minutes if it keeps values or snippets). If there is none, it is refused. Default:
    /// 2 048.
    pub max_sessions: usize,
    /// The time after which a session without messages ends. Default: 30 minutes.
    pub idle: Duration,
    /// Receives what clients got no room for. Default: none.
    pub shortages: Option<ShortageSink>,
}

impl HttpOptions {
    execbox_core::setters! {
        token: impl Into<Option<Token>>,
        clients: impl Into<Option<NamedClients>>,
        tls: impl Into<Option<ServerTls>>,
        insecure: bool,
        hosts: Vec<String>,
        origins: Vec<String>,
        max_body: usize,
        max_connections: usize,
        max_requests: usize,
        max_sessions: usize,
        idle: Duration,
        shortages: impl Into<Option<ShortageSink>>,
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            token: None,
            clients: None,
            tls: None,
            insecure: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body: 1 << 20,
            max_connections: 4_096,
            max_requests: 1_024,
            max_sessions: 2_048,
            idle: Duration::from_mins(30),
            shortages: None,
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// An invalid name in [`HttpOptions::hosts`].
    #[error("invalid host {0:?}: expected `HOST` or `HOST:PORT`")]
    Host(String),
    /// An invalid origin in [`HttpOptions::origins`].
    #[error("invalid origin {0:?}: expected `SCHEME://HOST`, `SCHEME://HOST:PORT`, or `SCHEME://HOST:*` for any port")]
    Origin(String),
}

/// A server that listens, but does not accept connections yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: SocketListener,
    address: SocketAddr,
    origins: Origins,
    options: HttpOptions,
}

impl HttpServer {
    /// Listens on `address`, such as `127.0.0.1:8080`; port 0 chooses a free port. Other than loopback addresses are accepted
    /// only if clients need a token or a certificate, over TLS.
    pub async fn bind(address: &str, options: HttpOptions) -> Result<Self, HttpError> {
        for host in &options.hosts {
            host.parse::<http::uri::Authority>().map_err(|_| HttpError::Host(host.clone()))?;
        }
        let needs_token = options.token.is_some() || options.clients.is_some();
        let protection = Protection::new(needs_token, options.tls.as_ref(), options.insecure);
        let listener = Socket::Tcp(address.to_owned()).listen(protection).await?;
        let address = listener.local_addr().expect("a TCP socket has an address");
        let origins = Origins::new(address, &options.origins).map_err(HttpError::Origin)?;
        Ok(Self { listener, address, origins, options })
    }

    /// The address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that clients connect to.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{PATH}", self.address)
    }

    /// Serves clients until `stop` is cancelled: `server` those without a server of their own. Then running calls are cancelled, and connections have two seconds to
    /// close.
    pub async fn serve(self, server: CodeServer, stop: CancellationToken) {
        let streams = CancellationToken::new();
        let shortages = Arc::new(Shortages::default());
        let all = Connections::new(self.options.max_connections, Arc::clone(&shortages));
        let service = Service::new(server, self.address, self.origins, &self.options, streams.clone(), all.clone());
        let service = Arc::new(service);
        let _reporting = self
            .options
            .shortages
            .clone()
            .map(|sink| AbortOnDropHandle::new(tokio::spawn(async move { shortages.report(&sink).await })));
        let _closing = self.options.clients.as_ref().map(|clients| {
            let (mut changes, service) = (clients.changes(), Arc::clone(&service));
            AbortOnDropHandle::new(tokio::spawn(async move {
                while changes.changed().await.is_ok() {
                    service.sessions.close_removed().await;
                }
            }))
        });
        let mut connections = JoinSet::new();
        let local_port = self.address.port();
        while let Some((stream, remote, connection)) = accept(&self.listener, &all, &stop).await {
            let peer = remote.map(|remote| Peer { remote, local_port });
            let tls = self.options.tls.clone();
            connections.spawn(serve(stream, tls, peer, Arc::clone(&service), stop.clone(), connection));
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        service.sessions.close_all().await;
        streams.cancel();
        let _ = tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    }
}

/// The next connection, once there is room for it; `None` after `stop`.
async fn accept(
    listener: &SocketListener,
    connections: &Connections,
    stop: &CancellationToken,
) -> Option<(Stream, Option<SocketAddr>, Connection)> {
    let accepted = async {
        loop {
            match listener.accept_from().await {
                Ok((stream, remote)) => {
                    let connection = connections.admit(remote.map(|remote| remote.ip())).await?;
                    return Some((stream, remote, connection));
                }
                // For example, too many open files.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    };
    stop.run_until_cancelled(accepted).await.flatten()
}

/// Serves one connection.
async fn serve(
    stream: Stream,
    tls: Option<ServerTls>,
    peer: Option<Peer>,
    service: Arc<Service>,
    stop: CancellationToken,
    connection: Connection,
) {
    let stream = tokio::select! {
        biased; // As below.
        stream = encrypted(stream, tls) => stream,
        _ = connection.evicted() => return,
        () = stop.cancelled() => return,
    };
    let Some(stream) = stream else { return };
    let (connection, ambiguity, authorized) = (Arc::new(connection), Arc::default(), SetOnce::new());
    let client = Arc::new(Client { connection, peer, ambiguity, authorized });
    let respond = service_fn(|request| {
        let (service, client) = (Arc::clone(&service), Arc::clone(&client));
        async move { Ok::<_, Infallible>(service.respond(request, &client).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .max_header_size(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER);
    let stream = CheckedStream::new(stream, MAX_HEADERS, Arc::clone(&client.ambiguity));
    let stream = TokioIo::new(Stalling::new(stream, WRITE_TIMEOUT, Arc::clone(&client.connection)));
    let mut serving = pin!(http.serve_connection(stream, respond));
    let grace = tokio::select! {
        biased; // A request that has arrived is read first: then the connection is not evicted.
        _ = serving.as_mut() => return,
        () = unauthorized(&client) => return,
        phase = client.connection.evicted() => match phase {
            // The end of its last response may not be sent yet.
            Phase::Idle => EVICTION_GRACE,
            _ => return,
        },
        () = stop.cancelled() => GRACE,
    };
    serving.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(grace, serving).await;
}

/// The stream inside TLS, if that is used. `None` if the client does not complete the handshake in time.
async fn encrypted(stream: Stream, tls: Option<ServerTls>) -> Option<Stream> {
    let Some(tls) = tls else { return Some(stream) };
    let accepted = tokio::time::timeout(ACCEPT_TIMEOUT, tls.accept(stream)).await;
    Some(Box::new(accepted.ok()?.ok()?))
}

/// Returns if the client has sent no request with the token in time.
async fn unauthorized(client: &Client) {
    if tokio::time::timeout(ACCEPT_TIMEOUT, client.authorized.wait()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// The client of a connection.
struct Client {
    connection: Arc<Connection>,
    peer: Option<Peer>,
    /// What is ambiguous in a request of the connection.
    ambiguity: Arc<OnceLock<Ambiguity>>,
    /// Set when a request had the token, if one is needed.
    authorized: SetOnce<()>,
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// Checks requests and passes them to MCP.
struct Service {
    origins: Origins,
    token: Option<Token>,
    clients: Option<NamedClients>,
    max_body: usize,
    sessions: Arc<Sessions>,
    connections: Connections,
    requests: Requests,
    /// The memory budget of requests and responses.
    held: Budget,
    open_ids: OpenIds,
    mcp: StreamableHttpService<CodeServer, Sessions>,
}

impl Service {
    fn new(
        server: CodeServer,
        address: SocketAddr,
        origins: Origins,
        options: &HttpOptions,
        streams: CancellationToken,
        connections: Connections,
    ) -> Self {
        let sessions = Arc::new(Sessions::new(options.max_sessions, options.idle));
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), address.to_string()];
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(own.iter().chain(&options.hosts))
            .with_max_request_body_bytes(options.max_body)
            .with_sse_retry(None)
            .with_json_response(true);
        config.cancellation_token = streams;
        let new = move || {
            let server = sessions::named_client().map_or_else(|| server.clone(), |client| client.server().clone());
            sessions::set_state(server.keeps_state());
            Ok(server)
        };
        let mcp = StreamableHttpService::new(new, Arc::clone(&sessions), config);
        let requests = Requests::new(options.max_requests, connections.max());
        let (token, clients, held) = (options.token.clone(), options.clients.clone(), Budget::new(MAX_HELD));
        Self {
            origins,
            token,
            clients,
            max_body: options.max_body,
            sessions,
            connections,
            requests,
            held,
            open_ids: OpenIds::default(),
            mcp,
        }
    }

    async fn respond(&self, request: Request<Incoming>, client: &Client) -> HttpResponse {
        if let Some(ambiguity) = client.ambiguity.get() {
            return closing(error(StatusCode::BAD_REQUEST, &format!("Ambiguous request: {ambiguity}.\n")));
        }
        // A request with a chunked body is the last one of its connection: see `heads`.
        let is_last = request.headers().contains_key(TRANSFER_ENCODING);
        let response = self.respond_to(request, client).await;
        if is_last { closing(response) } else { response }
    }

    async fn respond_to(&self, request: Request<Incoming>, client: &Client) -> HttpResponse {
        if !has_one_host(&request) {
            return closing(error(StatusCode::BAD_REQUEST, "Ambiguous request: its URL and Host differ.\n"));
        }
        let path = request.uri().path();
        if path.strip_suffix('/').unwrap_or(path) != PATH {
            return error(StatusCode::NOT_FOUND, "Not found. MCP clients connect to /mcp.\n");
        }
        let Ok(page) = self.origins.page(request.headers()) else {
            return error(StatusCode::FORBIDDEN, "Web pages of this origin are not accepted; see --allow-origin.\n");
        };
        let mut response = match origins::is_preflight(request.method(), request.headers()) && page.is_some() {
            true => preflight(request.headers()),
            false => self.respond_to_client(request, client).await,
        };
        origins::share(page.as_ref(), response.headers_mut());
        response
    }

    /// Responds to a request of a program, or of a page that is accepted.
    async fn respond_to_client(&self, request: Request<Incoming>, client: &Client) -> HttpResponse {
        let sender = match self.sender(request.headers()) {
            Ok(sender) => sender,
            Err(refusal) => return self.refused(&refusal),
        };
        let _ = client.authorized.set(());
        client.connection.receive(self.needs_token());
        let answered = self.answer_to(&sender, request, client);
        let response = match &sender {
            Sender::Named(named) => named.removed().run_until_cancelled(answered).await,
            Sender::Unnamed => Some(answered.await),
        };
        response.unwrap_or(Err(Refusal::Token(TokenRejection::Wrong))).unwrap_or_else(|refusal| {
            client.connection.refuse();
            self.refused(&refusal)
        })
    }

    /// Receives and handles a request.
    async fn answer_to(
        &self,
        sender: &Sender,
        request: Request<Incoming>,
        client: &Client,
    ) -> Result<HttpResponse, Refusal> {
        let (mut head, body) = request.into_parts();
        accept::normalize(&mut head.headers);
        let received = tokio::time::timeout(READ_TIMEOUT, self.receive(body)).await;
        let (body, charge) = received.map_err(|_| Refusal::TooSlow)??;
        self.handle(head, body, charge, client, sender).await
    }

    /// Whether clients need a token.
    fn needs_token(&self) -> bool {
        self.token.is_some() || self.clients.is_some()
    }

    /// The sender of a request, by its token.
    fn sender(&self, headers: &HeaderMap) -> Result<Sender, Refusal> {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let named = self.clients.as_ref().zip(header).and_then(|(clients, header)| clients.of_header(header));
        let has_token = || self.token.as_ref().zip(header).is_some_and(|(token, header)| token.is_in_header(header));
        match named {
            Some(named) => Ok(Sender::Named(named)),
            None if !self.needs_token() || has_token() => Ok(Sender::Unnamed),
            None => Err(Refusal::Token(TokenRejection::of_header(header))),
        }
    }

    /// The response to a request that is not handled. Counts it if it is refused for want of room.
    fn refused(&self, refusal: &Refusal) -> HttpResponse {
        let limit = match refusal {
            Refusal::NoRequest(NoRequest::Share(Kind::Stream, _) | NoRequest::Full(Kind::Stream)) => {
                Some(HttpLimit::Streams)
            }
            Refusal::NoRequest(NoRequest::Share(..)) => Some(HttpLimit::Share),
            Refusal::NoRequest(NoRequest::Full(_)) => Some(HttpLimit::Requests),
            Refusal::Sessions => Some(HttpLimit::Sessions),
            Refusal::Token(TokenRejection::Missing) => Some(HttpLimit::MissingToken),
            Refusal::Token(_) => Some(HttpLimit::WrongToken),
            Refusal::TooLong | Refusal::TooSlow | Refusal::Incomplete | Refusal::Exhausted => None,
        };
        if let Some(limit) = limit {
            self.connections.shortages().add(limit);
        }
        let line = match refusal {
            Refusal::TooLong => {
                let limit = format!("Request body longer than {} bytes.\n", self.max_body);
                return error(StatusCode::PAYLOAD_TOO_LARGE, &limit);
            }
            Refusal::Token(rejection) => {
                let (challenge, line) = match rejection {
                    TokenRejection::Missing => ("Bearer", "A token is required: send `Authorization: Bearer …`.\n"),
                    _ => ("Bearer error=\"invalid_token\"", "The token is not valid.\n"),
                };
                let mut response = error(StatusCode::UNAUTHORIZED, line);
                response.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static(challenge));
                return response;
            }
            Refusal::TooSlow => return error(StatusCode::REQUEST_TIMEOUT, "Request body not received in time.\n"),
            Refusal::Incomplete => return error(StatusCode::BAD_REQUEST, "Request body incomplete.\n"),
            Refusal::Exhausted => "Too many large requests and unread responses; try again.\n",
            Refusal::NoRequest(NoRequest::Share(Kind::Stream, _) | NoRequest::Full(Kind::Stream)) => {
                "Too many streams of messages are open; try again later.\n"
            }
            Refusal::NoRequest(NoRequest::Share(_, share)) => {
                let line =
                    format!("{share} requests of this client are in progress; wait for one, or try again later.\n");
                return unavailable(&line);
            }
            Refusal::NoRequest(NoRequest::Full(_)) => "Too many requests are in progress; try again later.\n",
            Refusal::Sessions => "All sessions are in use; end one, or try again later.\n",
        };
        unavailable(line)
    }

    /// Receives a body. It is charged as it arrives. The rest of one that is refused is received, so that the client reads the
    /// response.
    async fn receive(&self, mut body: Incoming) -> Result<(Bytes, Charge), Refusal> {
        let (mut received, mut length, mut charge) = (Vec::new(), 0, self.held.charge(0).ok());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refusal::Incomplete)?.into_data() else { continue };
            length += data.len();
            if length > self.max_body {
                return Err(Refusal::TooLong);
            }
            if charge.as_mut().is_some_and(|charge| charge.add(data.len()).is_ok()) {
                received.extend_from_slice(&data);
            } else {
                (received, charge) = (Vec::new(), None);
            }
        }
        Ok((received.into(), charge.ok_or(Refusal::Exhausted)?))
    }

    /// Passes a request to MCP. The request is charged until it is answered. Its response is charged, and has the place of the
    /// request, until it is sent.
    async fn handle(
        &self,
        mut head: Parts,
        body: Bytes,
        mut charge: Charge,
        client: &Client,
        sender: &Sender,
    ) -> Result<HttpResponse, Refusal> {
        charge.add(reading::memory(&Scanner::of(&body)).saturating_sub(body.len()))?;
        let mut read = reading::read(&body);
        let place = self.place(&mut head, read.as_ref().ok().map(|read| &read.message), client.peer, sender)?;
        let open_id = self.open_id(&head, &mut read);
        let serving = client.connection.serve(place.kind() == Kind::Stream);
        let ends_session = head.method == Method::DELETE;
        let opener = Opener::new(client.peer, sender.named().cloned());
        let mut response = opener.scope(self.answer(head, &body, read)).await;
        drop(charge);
        if opener.was_refused() {
            return Err(Refusal::Sessions);
        }
        if ends_session && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT; // Clients warn of any other status.
        }
        let length = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let kept = (serving, place, open_id, self.held.charge(length.unwrap_or_default())?);
        let removed = sender.named().map(|named| Box::pin(named.removed().clone().cancelled_owned()));
        Ok(response.map(|body| KeepingBody { body, rest: Bytes::new(), removed, _kept: kept }.boxed()))
    }

    /// Takes a place for a request with this message. The head then names its client.
    fn place(
        &self,
        head: &mut Parts,
        message: Option<&ClientJsonRpcMessage>,
        peer: Option<Peer>,
        sender: &Sender,
    ) -> Result<Place, Refusal> {
        let kind = if head.method == Method::GET { Kind::Stream } else { Kind::of(message) };
        let session = head.headers.get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok());
        let open = session.filter(|id| self.sessions.is_open(id));
        let own = open.filter(|id| self.sessions.is_of(id, sender.named()));
        let is_foreign = open.is_some() && own.is_none();
        let client = match (sender, own) {
            (Sender::Named(named), _) => named.identity(),
            (Sender::Unnamed, Some(session)) => clients::Client::of_session(session),
            (Sender::Unnamed, None) => {
                requests::client_without_session(peer.map(|peer| peer.remote.ip().to_canonical()), message)
            }
        };
        head.extensions.insert(client);
        if is_foreign {
            // For this client, the session does not exist.
            head.headers.insert(HEADER_SESSION_ID, http::HeaderValue::from_static(NO_SESSION));
        }
        if kind == Kind::Stream && self.connections.are_streams_unwanted() {
            return Err(NoRequest::Full(kind).into());
        }
        Ok(self.requests.begin(kind, client)?)
    }

    /// The id of a request over a session, until the request is answered. A request with the id of an open one is invalid.
    fn open_id(&self, head: &Parts, read: &mut Result<Readable<'_>, Unreadable>) -> Option<OpenId> {
        let session = head.headers.get(HEADER_SESSION_ID)?.to_str().ok().filter(|id| self.sessions.is_open(id))?;
        let Ok(Readable { message: ClientJsonRpcMessage::Request(request), .. }) = &*read else { return None };
        let open = self.open_ids.open(session, &request.id);
        if open.is_none() {
            let id = Some(request.id.clone());
            *read = Err(Unreadable::invalid(false, id, "another request with this id is not answered yet"));
        }
        open
    }

    /// Lets rmcp answer a request. A body with an invalid message is answered here, once rmcp has accepted the head: that is when it
    /// reads the body.
    async fn answer(&self, head: Parts, body: &Bytes, read: Result<Readable<'_>, Unreadable>) -> HttpResponse {
        let (body, answer) = readable(body, read);
        let is_read = Arc::new(AtomicBool::new(false));
        let reading = Arc::clone(&is_read);
        let body = Full::new(body).map_frame(move |frame| {
            reading.store(true, Ordering::Relaxed);
            frame
        });
        let response = Box::pin(self.mcp.handle(Request::from_parts(head, body))).await;
        match answer {
            Some(answer) if is_read.load(Ordering::Relaxed) => unreadable(&answer),
            _ => response,
        }
    }
}

/// The answer to a browser that asks what a page may send. It needs no token: browsers send none.
fn preflight(asked: &HeaderMap) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    *response.status_mut() = StatusCode::NO_CONTENT;
    origins::permit(asked, response.headers_mut());
    response
}

/// The body as rmcp reads it, or a body that rmcp does not accept, and the answer to an invalid message in it.
fn readable(body: &Bytes, read: Result<Readable<'_>, Unreadable>) -> (Bytes, Option<Answer>) {
    match read {
        Ok(Readable { text: Cow::Borrowed(text), .. }) => (body.slice_ref(text.as_bytes()), None),
        Ok(Readable { text: Cow::Owned(text), .. }) => (text.into(), None),
        Err(unreadable) => (Bytes::from_static(b"unreadable"), Some(unreadable.into_answer())),
    }
}

/// The response to a body with an invalid message.
fn unreadable(answer: &Answer) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from(answer.to_json())).boxed());
    // A request with invalid parameters is a request that was received: clients read the error of a successful response.
    let is_received = answer.id.is_some() && answer.error.code != ErrorCode::INVALID_REQUEST;
    *response.status_mut() = match is_received {
        // Older clients take 404 for the end of their session.
        true if answer.is_modern && answer.error.code == ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        true => StatusCode::OK,
        false => StatusCode::BAD_REQUEST,
    };
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

/// The sender of a request that is accepted.
enum Sender {
    /// A client without a server of its own.
    Unnamed,
    Named(NamedClient),
}

impl Sender {
    fn named(&self) -> Option<&NamedClient> {
        if let Self::Named(named) = self { Some(named) } else { None }
    }
}

/// Why a request is not handled.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    /// The request has no token that is accepted.
    Token(TokenRejection),
    TooLong,
    TooSlow,
    Incomplete,
    /// The memory budget does not cover the request.
    Exhausted,
    NoRequest(NoRequest),
    /// A session cannot be opened, because all are in use.
    Sessions,
}

impl From<Exhausted> for Refusal {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

impl From<NoRequest> for Refusal {
    fn from(reason: NoRequest) -> Self {
        Self::NoRequest(reason)
    }
}

/// The body of a response, in small frames: hyper takes the next one when most of the earlier ones are sent. Keeps what the
/// response needs until the last frame is taken.
struct KeepingBody {
    body: BoxBody<Bytes, Infallible>,
    /// The part of the last frame of `body` that is not taken yet.
    rest: Bytes,
    /// Fires when the client is no longer accepted: then the body ends.
    removed: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _kept: (Serving, Place, Option<OpenId>, Charge),
}

impl Body for KeepingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(removed) = &mut self.removed
            && removed.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        while self.rest.is_empty() {
            let Some(Ok(frame)) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else { return Poll::Ready(None) };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = self.rest.len().min(MAX_FRAME);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(length) => SizeHint::with_exact(length + self.rest.len() as u64),
            None => SizeHint::default(),
        }
    }
}

/// Whether the URL has no host, or that of the `Host` field.
fn has_one_host(request: &Request<Incoming>) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    request.uri().authority().is_none_or(|url| host.is_some_and(|host| url.as_str().eq_ignore_ascii_case(host)))
}

/// A response after which the connection is closed.
fn closing(mut response: HttpResponse) -> HttpResponse {
    response.headers_mut().insert(CONNECTION, http::HeaderValue::from_static("close"));
    response
}

fn unavailable(line: &str) -> HttpResponse {
    let mut response = error(StatusCode::SERVICE_UNAVAILABLE, line);
    response.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static(RETRY_SECONDS));
    response
}

fn error(status: StatusCode, line: &str) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(line.as_bytes())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The id of no session: theirs are UUIDs.
const NO_SESSION: &str = "none";

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";

/// The maximum duration of receiving the head of a request, and of its body.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum length of the head of a request, in bytes.
const MAX_HEADERS: usize = 16 << 10;

/// The maximum number of bytes of a connection that hyper holds in each direction, and the maximum length of a frame of a
/// response.
const MAX_BUFFER: usize = 64 << 10;
const MAX_FRAME: usize = 16 << 10;

/// The time within which a connection must send a first head with the token.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may read nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How much memory the requests and responses of all clients may take at once, in bytes.
const MAX_HELD: usize = 256 << 20;

/// How long the last response of an evicted connection may take.
const EVICTION_GRACE: Duration = Duration::from_millis(250);

/// The number of seconds after which refused clients may try again.
const RETRY_SECONDS: &str = "5";

/// How long connections may take to close after `stop`.
const GRACE: Duration = Duration::from_secs(2);

/// The pause after a failure to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
