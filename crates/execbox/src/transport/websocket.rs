//! Messages over WebSocket, one per text message. A binary message is an attachment.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use execbox_core::protocol::attachments::MAX_ATTACHMENT_BYTES;
use futures_util::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, ORIGIN};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message, client::IntoClientRequest as _};

use super::{MAX_MESSAGE_BYTES, Received, Token, Transport};

/// A [`Transport`] over a WebSocket after its handshake. A message longer than [`MAX_ATTACHMENT_BYTES`] breaks it.
#[derive(Debug)]
pub struct WebSocketTransport<S> {
    socket: WebSocketStream<S>,
    out: VecDeque<Message>,
}

impl<S> WebSocketTransport<S> {
    /// Creates a transport over `socket`.
    pub fn new(socket: WebSocketStream<S>) -> Self {
        Self { socket, out: VecDeque::new() }
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

    fn attaches(&self) -> bool {
        true
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = Pin::new(&mut self.socket);
        while !self.out.is_empty() {
            ready!(socket.as_mut().poll_ready(cx)).map_err(io_error)?;
            let message = self.out.pop_front().expect("it is not empty");
            socket.as_mut().start_send(message).map_err(io_error)?;
        }
        socket.poll_flush(cx).map_err(io_error)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        loop {
            let message = match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                None | Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => {
                    return Poll::Ready(Ok(Received::End));
                }
                Some(message) => message.map_err(io_error)?,
            };
            match message {
                Message::Text(text) if text.len() > MAX_MESSAGE_BYTES => {
                    return Poll::Ready(Ok(Received::TooLong(MAX_MESSAGE_BYTES)));
                }
                Message::Text(text) => return Poll::Ready(Ok(Received::Message(text.as_bytes().to_vec()))),
                Message::Binary(bytes) => return Poll::Ready(Ok(Received::Attachment(bytes.into()))),
                Message::Close(_) => return Poll::Ready(Ok(Received::End)),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
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

fn config() -> WebSocketConfig {
    let max = MAX_MESSAGE_BYTES.max(MAX_ATTACHMENT_BYTES);
    WebSocketConfig::default().max_message_size(Some(max)).max_frame_size(Some(max))
}

/// Performs the handshake of the host.
pub(super) async fn connect<S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: S,
    url: &str,
    token: Option<&Token>,
) -> io::Result<WebSocketTransport<S>> {
    let mut request = url.into_client_request().map_err(io_error)?;
    if let Some(token) = token {
        let value = HeaderValue::from_str(&token.to_header()).expect("a token is visible ASCII");
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let connecting = tokio_tungstenite::client_async_with_config(request, stream, Some(config()));
    let (socket, _) = connecting.await.map_err(io_error)?;
    Ok(WebSocketTransport::new(socket))
}

/// Performs the handshake of the runner.
///
/// Rejects requests with an `Origin` header: they come from web pages, which can reach servers on the user's machine.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: S,
    token: Option<Token>,
) -> io::Result<WebSocketTransport<S>> {
    #[allow(clippy::result_large_err)] // the type is tungstenite's
    let check = |request: &Request, response: Response| {
        let value = |header| request.headers().get(header).map(|value| value.to_str().unwrap_or_default());
        if value(ORIGIN).is_some() {
            return Err(rejection(StatusCode::FORBIDDEN, "requests with an `Origin` header are not allowed"));
        }
        if token.is_some_and(|token| !token.is_in_header(value(AUTHORIZATION).unwrap_or_default())) {
            return Err(rejection(StatusCode::UNAUTHORIZED, "missing or invalid `Authorization: Bearer TOKEN`"));
        }
        Ok(response)
    };
    let accepting = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config()));
    Ok(WebSocketTransport::new(accepting.await.map_err(io_error)?))
}

fn rejection(status: StatusCode, why: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(why.to_owned()));
    *response.status_mut() = status;
    response
}

fn io_error(error: Error) -> io::Error {
    let kind = match &error {
        Error::Io(error) => error.kind(),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => io::ErrorKind::UnexpectedEof,
        Error::Http(response) if response.status().is_client_error() => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}
