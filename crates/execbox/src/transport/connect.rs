//! Connecting to a runner.

use std::io;
use std::sync::OnceLock;

use execbox_tls::{CertificateFailure, ClientTls, TlsFailure, Trust};

use super::{Address, Framing, Socket, Stream, StreamTransport, Token, TokenRejection, Transport, websocket};
use crate::runtime;

/// What a side that connects presents, and whom it trusts.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The token that is presented. Default: none.
    pub token: Option<Token>,
    /// For addresses of TLS, whom to trust, and the certificate that is presented. Default: [`Trust::system`], and none.
    pub tls: Option<ClientTls>,
    /// Whether the token may be sent to another machine in clear text: where a tunnel encrypts connections. Default: no.
    pub insecure: bool,
}

impl ConnectOptions {
    execbox_core::setters! {
        token: impl Into<Option<Token>>,
        tls: impl Into<Option<ClientTls>>,
        insecure: bool,
    }

    /// Whether what is sent first may be read on its way.
    fn send_clear_text(&self, is_on_this_machine: bool) -> bool {
        self.token.is_none() || is_on_this_machine || self.insecure
    }
}

/// Trusts the authorities of the system.
impl From<Option<Token>> for ConnectOptions {
    fn from(token: Option<Token>) -> Self {
        Self { token, ..Self::default() }
    }
}

/// A connection to a runner that was not made: the inner error of that of [`Address::connect`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot connect to {origin}: {reason}")]
pub struct ConnectError {
    /// The address, without user info, path and query of a URL.
    origin: String,
    reason: String,
}

impl ConnectError {
    /// Why the connection was not made, without the address: `connection refused`.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl Address {
    /// Connects to the runner that listens at this address and presents the token, if there is one.
    ///
    /// # Errors
    /// The inner error is a [`ConnectError`], or a [`TokenRejection`] if a runner rejects a WebSocket. With the other
    /// framing, receiving the first message fails with the [`TokenRejection`]. Also fails if the tokio runtime has no timers
    /// or no I/O.
    pub async fn connect(&self, options: &ConnectOptions) -> io::Result<Box<dyn Transport>> {
        let (stream, token) = (self.connect_stream(options).await?, options.token.as_ref());
        if let Framing::WebSocket { .. } = self.framing {
            let connected = websocket::connect(stream, &self.to_string(), token).await;
            return match connected {
                Ok(transport) => Ok(Box::new(transport)),
                Err(error) if TokenRejection::of(&error).is_some() => Err(error),
                Err(error) => Err(self.not_connected(&error)),
            };
        }
        let mut transport = StreamTransport::over(stream).rejected_with(TokenRejection::of_host(token.is_some()));
        if let Some(token) = token {
            transport.send(token.to_line())?;
        }
        Ok(Box::new(transport))
    }

    /// The stream of a connection, inside TLS if the address is one of TLS. Nothing is sent on it yet, and the token is not
    /// presented.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), without a [`TokenRejection`].
    pub async fn connect_stream(&self, options: &ConnectOptions) -> io::Result<Stream> {
        runtime::check_io()?;
        let (stream, is_on_this_machine) =
            self.socket.connect_to().await.map_err(|error| self.not_connected(&error))?;
        if self.is_encrypted {
            return self.encrypted(stream, options.tls.as_ref()).await.map_err(|error| self.not_connected(&error));
        }
        if options.send_clear_text(is_on_this_machine) {
            return Ok(stream);
        }
        let error = ConnectError { origin: self.origin(), reason: CLEAR_TEXT.to_owned() };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, error))
    }

    async fn encrypted(&self, stream: Stream, tls: Option<&ClientTls>) -> io::Result<Stream> {
        let tls = match tls {
            Some(tls) => tls,
            None => trusting_system()?,
        };
        Ok(Box::new(tls.connect(self.host().unwrap_or_default(), stream).await?))
    }

    fn not_connected(&self, error: &io::Error) -> io::Error {
        let reason = websocket::response_status(error).unwrap_or_else(|| reason(error, self.is_encrypted));
        io::Error::new(error.kind(), ConnectError { origin: self.origin(), reason })
    }

    /// The address, without what a URL may have of secrets.
    fn origin(&self) -> String {
        let socket = self.socket.to_string();
        let socket = match &self.socket {
            Socket::Tcp(authority) => authority.rsplit_once('@').map_or(&**authority, |(_, authority)| authority),
            Socket::Unix(_) => &socket,
        };
        format!("{}{socket}", self.scheme())
    }
}

/// What connections without a [`ConnectOptions::tls`] use. The certificates of the system are read once.
fn trusting_system() -> io::Result<&'static ClientTls> {
    static TLS: OnceLock<ClientTls> = OnceLock::new();
    if let Some(tls) = TLS.get() {
        return Ok(tls);
    }
    let made = Trust::system().and_then(|trust| ClientTls::new(trust, None)).map_err(io::Error::other)?;
    Ok(TLS.get_or_init(|| made))
}

const CLEAR_TEXT: &str = "the token would be sent to another machine in clear text; use tls: or wss://, or --insecure if a \
                          tunnel encrypts the connection";

/// Why a connection was not made. `is_encrypted` says whether it would have been.
fn reason(error: &io::Error, is_encrypted: bool) -> String {
    if let Some(failure) = TlsFailure::of(error) {
        return tls_reason(failure);
    }
    match error.kind() {
        // Only looking a name up fails without a code of the system.
        io::ErrorKind::HostUnreachable if error.raw_os_error().is_none() => "host name not found".to_owned(),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route to its host".to_owned(),
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::TimedOut => "no answer".to_owned(),
        io::ErrorKind::InvalidData if is_encrypted => "its answer is not that of a WebSocket".to_owned(),
        io::ErrorKind::InvalidData => {
            "its answer is not that of a WebSocket; use wss:// if it listens with TLS".to_owned()
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        kind => kind.to_string(),
    }
}

/// Why a connection over TLS was not made, and what helps.
pub(crate) fn tls_reason(failure: TlsFailure) -> String {
    match failure {
        TlsFailure::Certificate(CertificateFailure::UnknownAuthority) => {
            format!("{failure}; name a file with its certificate (--tls-ca)")
        }
        TlsFailure::CertificateRequired => "it requires a client certificate (--tls-cert and --tls-key)".to_owned(),
        TlsFailure::CertificateRejected => "it does not trust the client certificate (--tls-cert)".to_owned(),
        TlsFailure::NotTls => "its answer is not TLS; use tcp: or ws:// if it listens without".to_owned(),
        failure => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_not_sent_to_another_machine_in_clear_text() {
        let without = ConnectOptions::default();
        let with = without.clone().token(Token::new("s3cret").unwrap());
        assert!(with.send_clear_text(true) && !with.send_clear_text(false));
        assert!(without.send_clear_text(false) && with.insecure(true).send_clear_text(false));
    }
}
