//! Messages over WebSocket, one per text message. A binary message is an attachment.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use execbox_core::budget::{Budget, Charge};
use execbox_core::protocol::MAX_ATTACHMENT_BYTES;
use futures_util::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, ORIGIN, WWW_AUTHENTICATE};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, client::IntoClientRequest as _};

use super::fragments::Fragments;
use super::paced::{MAX_HANDSHAKE_BYTES, Paced};
use super::{MAX_MESSAGE_BYTES, Received, Token, TokenRejection, Transport, wake_after_others};

/// How often a runner sends a ping. A host that sends nothing between two pings counts as gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How many control frames are received before other tasks of the thread run, and how many pings before their pongs must be
/// sent: nothing more is received from a peer that does not read.
const MAX_CONTROL_FRAMES: usize = 64;

/// A [`Transport`] over a WebSocket after its handshake. A message longer than [`MAX_ATTACHMENT_BYTES`] breaks the transport.
#[derive(Debug)]
pub(super) struct WebSocketTransport<S> {
    socket: WebSocketStream<S>,
    out: VecDeque<Message>,
    /// How many pongs may be unsent.
    pongs: usize,
    heartbeat: Option<Heartbeat>,
    /// The charge for incomplete messages, if the socket counts them.
    charge: Option<fn(&mut S) -> &mut Charge>,
}

#[derive(Debug)]
struct Heartbeat {
    ticks: Interval,
    /// Whether something was received since the last ping.
    is_alive: bool,
}

impl<S> WebSocketTransport<S> {
    /// Creates a transport over `socket`. Messages that are not received completely are bounded by the limits of the
    /// socket's configuration, and not charged to a budget.
    fn new(socket: WebSocketStream<S>) -> Self {
        Self { socket, out: VecDeque::new(), pongs: 0, heartbeat: None, charge: None }
    }

    /// Sends pings. Receiving fails with `TimedOut` if nothing comes from the peer between two.
    fn with_heartbeat(self, interval: Duration) -> Self {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { heartbeat: Some(Heartbeat { ticks, is_alive: true }), ..self }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> WebSocketTransport<Counted<S>> {
    /// A transport over a socket whose handshake is over, and that counts what it receives.
    fn counted(mut socket: WebSocketStream<Counted<S>>) -> Self {
        socket.get_mut().established().established();
        Self { charge: Some(Counted::charge), ..Self::new(socket) }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> WebSocketTransport<S> {
    /// Releases the charge of a message that the codec has returned.
    fn delivered(&mut self) {
        if let Some(charge) = self.charge {
            charge(self.socket.get_mut()).shrink_to(0);
        }
    }

    /// Sends a ping if one is due. Fails if the peer is gone.
    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(heartbeat) = &mut self.heartbeat
            && heartbeat.ticks.poll_tick(cx).is_ready()
        {
            if !std::mem::take(&mut heartbeat.is_alive) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.out.push_back(Message::Ping(Bytes::new()));
            if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Transport for WebSocketTransport<S> {
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        // Text messages must be valid UTF-8.
        self.out.push_back(match String::from_utf8(message) {
            Ok(text) => Message::text(text),
            Err(error) => Message::binary(error.into_bytes()),
        });
        Ok(())
    }

    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.out.push_back(Message::binary(bytes));
        Ok(())
    }

    fn can_attach(&self) -> bool {
        true
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = Pin::new(&mut self.socket);
        while !self.out.is_empty() {
            ready!(socket.as_mut().poll_ready(cx)).map_err(io_error)?;
            let message = self.out.pop_front().expect("it is not empty");
            socket.as_mut().start_send(message).map_err(io_error)?;
        }
        ready!(socket.poll_flush(cx)).map_err(io_error)?;
        self.pongs = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        for _ in 0..MAX_CONTROL_FRAMES {
            if self.pongs >= MAX_CONTROL_FRAMES {
                ready!(self.poll_flush(cx))?;
            }
            let message = match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Pending => {
                    self.poll_heartbeat(cx)?;
                    return Poll::Pending;
                }
                Poll::Ready(None | Some(Err(Error::ConnectionClosed | Error::AlreadyClosed))) => {
                    return Poll::Ready(Ok(Received::End));
                }
                Poll::Ready(Some(message)) => message.map_err(io_error)?,
            };
            if let Some(heartbeat) = &mut self.heartbeat {
                heartbeat.is_alive = true;
            }
            if matches!(message, Message::Text(_) | Message::Binary(_)) {
                self.delivered();
            }
            match message {
                Message::Text(text) if text.len() > MAX_MESSAGE_BYTES => {
                    return Poll::Ready(Ok(Received::TooLong(MAX_MESSAGE_BYTES)));
                }
                Message::Text(text) => return Poll::Ready(Ok(Received::Message(text.as_bytes().to_vec()))),
                Message::Binary(bytes) => return Poll::Ready(Ok(Received::Attachment(bytes.into()))),
                Message::Close(_) => return Poll::Ready(Ok(Received::End)),
                Message::Ping(_) => self.pongs += 1,
                Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        wake_after_others(cx);
        Poll::Pending
    }

    fn charge_to(&mut self, budget: &Budget) {
        if let Some(charge) = self.charge {
            charge(self.socket.get_mut()).move_to(budget);
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        match ready!(Pin::new(&mut self.socket).poll_close(cx)) {
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(io_error(error))),
        }
    }
}

/// The size of the buffers of a connection, which exist from the end of the handshake.
const READ_BUFFER: usize = 32 << 10;

/// The most bytes of a runner's handshake: a proxy may add headers.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The longest message or attachment.
const MAX_BYTES: usize =
    if MAX_MESSAGE_BYTES > MAX_ATTACHMENT_BYTES { MAX_MESSAGE_BYTES } else { MAX_ATTACHMENT_BYTES };

/// A stream whose peer cannot keep it busy, and whose bytes are counted.
type Counted<S> = Fragments<Paced<S>>;

/// A connection whose messages are at most `max` bytes long.
fn config(max: usize) -> WebSocketConfig {
    let config = WebSocketConfig::default().max_message_size(Some(max)).max_frame_size(Some(max));
    config.read_buffer_size(READ_BUFFER).write_buffer_size(READ_BUFFER)
}

/// Performs the handshake of the host.
pub(super) async fn connect<S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: S,
    url: &str,
    token: Option<&Token>,
) -> io::Result<WebSocketTransport<Counted<S>>> {
    let mut request = url.into_client_request().map_err(io_error)?;
    if let Some(token) = token {
        let value = HeaderValue::from_str(&token.to_header()).expect("a token is visible ASCII");
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let stream = Fragments::new(Paced::new(stream, MAX_RESPONSE_BYTES), MAX_BYTES);
    let connecting = tokio_tungstenite::client_async_with_config(request, stream, Some(config(MAX_BYTES)));
    let (socket, _) = connecting.await.map_err(|error| match error {
        Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            TokenRejection::of_host(token.is_some()).into()
        }
        error => io_error(error),
    })?;
    Ok(WebSocketTransport::counted(socket))
}

/// `HTTP 404 Not Found`, if `error` is that of a handshake which the runner has rejected.
pub(super) fn response_status(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref()? {
        Error::Http(response) => Some(format!("HTTP {}", response.status())),
        _ => None,
    }
}

/// Performs the handshake of the runner. Messages that are not received completely are charged to `budget`. One that the budget
/// does not cover breaks the transport.
///
/// Rejects requests with an `Origin` header: they come from web pages, which can reach servers on the user's machine.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: S,
    token: Option<Token>,
    budget: &Budget,
) -> io::Result<WebSocketTransport<Counted<S>>> {
    let mut rejected = None;
    #[allow(clippy::result_large_err)] // the type is tungstenite's
    let check = |request: &Request, response: Response| {
        let value = |header| request.headers().get(header).map(|value| value.to_str().unwrap_or_default());
        if value(ORIGIN).is_some() {
            return Err(rejection(StatusCode::FORBIDDEN, "requests with an `Origin` header are not allowed"));
        }
        let presented = value(AUTHORIZATION);
        if token.is_some_and(|token| !token.is_in_header(presented.unwrap_or_default())) {
            let (why, challenge) = match rejected.insert(TokenRejection::of_header(presented)) {
                TokenRejection::Missing => ("a token is required: send `Authorization: Bearer TOKEN`", "Bearer"),
                TokenRejection::Wrong => ("the token is not valid", "Bearer error=\"invalid_token\""),
            };
            let mut response = rejection(StatusCode::UNAUTHORIZED, why);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            return Err(response);
        }
        Ok(response)
    };
    let max = budget.limit().min(MAX_BYTES);
    let stream = Fragments::new(Paced::new(stream, MAX_HANDSHAKE_BYTES), max);
    let accepting = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config(max)));
    let accepted = accepting.await;
    let socket = accepted.map_err(|error| rejected.map_or_else(|| io_error(error), io::Error::from))?;
    let mut transport = WebSocketTransport::counted(socket);
    transport.charge_to(budget);
    Ok(transport.with_heartbeat(PING_INTERVAL))
}

fn rejection(status: StatusCode, why: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(why.to_owned()));
    *response.status_mut() = status;
    response
}

fn io_error(error: Error) -> io::Error {
    let kind = match &error {
        Error::Io(error) => error.kind(),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake | ProtocolError::HandshakeIncomplete) => {
            io::ErrorKind::UnexpectedEof
        }
        Error::Http(response) if response.status().is_client_error() => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::StreamExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                           Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    /// The end of a runner, and the socket of its host.
    async fn connected() -> (WebSocketTransport<Counted<DuplexStream>>, DuplexStream) {
        let (here, mut there) = tokio::io::duplex(1 << 16);
        there.write_all(format!("{REQUEST}\r\n").as_bytes()).await.unwrap();
        let transport = accept(here, None, &Budget::new(1 << 20)).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(there.read_u8().await.unwrap());
        }
        (transport, there)
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_answer_pings_is_gone() {
        let (mut transport, host) = connected().await;
        let error = poll_fn(|cx| transport.poll_receive(cx)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(host);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_answers_pings_stays_connected() {
        let (mut transport, host) = connected().await;
        let mut host = WebSocketStream::from_raw_socket(host, Role::Client, None).await;
        let pinged = async {
            for _ in 0..100 {
                assert!(matches!(host.next().await, Some(Ok(Message::Ping(_)))));
            }
        };
        tokio::select! {
            () = pinged => {}
            received = poll_fn(|cx| transport.poll_receive(cx)) => panic!("{received:?}"),
        }
    }

    #[tokio::test]
    async fn a_host_that_sends_pings_and_does_not_read_is_not_read() {
        let (mut transport, mut host) = connected().await;
        let sending = async {
            let ping = [&[0x89, 0x80 | 0x7d, 0, 0, 0, 0][..], &[0; 125]].concat();
            for sent in 0.. {
                if tokio::time::timeout(Duration::from_secs(1), host.write_all(&ping)).await.is_err() {
                    return sent * ping.len();
                }
            }
            unreachable!()
        };
        tokio::select! {
            sent = sending => assert!(sent < 1 << 20, "{sent} bytes"),
            received = poll_fn(|cx| transport.poll_receive(cx)) => panic!("{received:?}"),
        }
    }

    #[tokio::test]
    async fn a_request_longer_than_a_handshake_is_rejected() {
        for (padding, is_accepted) in [(3000, true), (4000, false), (1 << 20, false)] {
            let (here, mut there) = tokio::io::duplex(1 << 21);
            let request = format!("{REQUEST}X: {}\r\n\r\n", "x".repeat(padding));
            there.write_all(request.as_bytes()).await.unwrap();
            let accepted = accept(here, None, &Budget::new(1 << 20)).await;
            assert_eq!(accepted.is_ok(), is_accepted, "{padding}");
        }
    }

    #[tokio::test]
    async fn a_message_beyond_the_budget_breaks_the_connection() {
        let (mut transport, mut host) = connected().await;
        host.write_all(&[0x82, 0x80 | 127, 0, 0, 0, 0, 0, 0x10, 0, 1, 0, 0, 0, 0]).await.unwrap();
        assert!(poll_fn(|cx| transport.poll_receive(cx)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_messages_are_charged_until_they_are_complete() {
        const FREE: usize = 16 << 10;
        let (mut transport, mut host) = connected().await;
        let (first, second) = (Budget::new(100_000), Budget::new(1 << 20));
        transport.charge_to(&first);
        let frame = [&[0x82, 0x80 | 127, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0][..], &vec![7; 3 << 16]].concat();
        let received = async |transport: &mut WebSocketTransport<_>| {
            let receiving = poll_fn(|cx| transport.poll_receive(cx));
            tokio::time::timeout(Duration::from_secs(1), receiving).await.ok()
        };
        host.write_all(&frame[..60_014]).await.unwrap();
        assert!(received(&mut transport).await.is_none());
        assert_eq!(first.used(), 60_000 - FREE);
        transport.charge_to(&second);
        assert_eq!((first.used(), second.used()), (0, 60_000 - FREE));
        let (sent, attachment) = tokio::join!(host.write_all(&frame[60_014..]), received(&mut transport));
        sent.unwrap();
        assert_eq!(attachment.unwrap().unwrap(), Received::Attachment(vec![7; 3 << 16]));
        assert_eq!(second.used(), 0);
        transport.charge_to(&first);
        let (_, error) = tokio::join!(host.write_all(&frame[..130_000]), received(&mut transport));
        assert_eq!(error.unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
