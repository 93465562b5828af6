//! Descriptions of failed HTTP requests, without the URLs that their errors contain: of the server that was not
//! reached, the origin is kept.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use execbox_tls::{CertificateFailure, EXTRA_VARIABLE, TlsFailure, extra_is_unreadable};

/// Why a request failed.
pub(crate) struct HttpFailure {
    /// The scheme, host and port of the server, if it was not reached.
    pub(crate) origin: Option<String>,
    /// What failed, as a clause without URLs.
    pub(crate) reason: String,
}

/// What failed, as a clause without the origin.
impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.origin.is_some() { "cannot connect: " } else { "" };
        write!(f, "{prefix}{}", self.reason)
    }
}

pub(crate) fn http_failure(error: &reqwest::Error) -> HttpFailure {
    let origin = error.url().filter(|_| error.is_connect()).map(|url| url.origin().ascii_serialization());
    HttpFailure { origin, reason: reason(error) }
}

fn reason(error: &reqwest::Error) -> String {
    if let Some(failure) = TlsFailure::of(error) {
        return tls_failure(failure);
    }
    match error {
        error if error.is_connect() => connect_failure(error).to_owned(),
        // Requests have no time limit here, but the system probes connections.
        error if error.is_timeout() => "connection lost: its host does not answer".to_owned(),
        error if error.is_redirect() => "too many redirects".to_owned(),
        // The loss of a connection is an error of the decoder, too.
        error if error.is_decode() && !causes(error).any(<dyn Error>::is::<hyper::Error>) => {
            "invalid response: its Content-Encoding cannot be decoded".to_owned()
        }
        _ => "connection lost".to_owned(),
    }
}

/// Whether the same request may succeed later: the server was not reached, or the connection was lost.
pub(crate) fn is_temporary(error: &reqwest::Error) -> bool {
    let is_of_tls = TlsFailure::of(error).is_some();
    let is_lost = !error.is_redirect() && (!error.is_decode() || causes(error).any(<dyn Error>::is::<hyper::Error>));
    !is_of_tls && is_lost && !(error.is_connect() && connect_failure(error) == UNKNOWN_HOST)
}

/// An error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // The inner error of an `io::Error` is not its source.
        let inner = error.downcast_ref().and_then(io::Error::get_ref);
        inner.map_or_else(|| error.source(), |inner| Some(inner))
    })
}

fn connect_failure(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        return "no answer";
    }
    let Some(error) = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).last() else {
        return "the connection was closed";
    };
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused",
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::UnexpectedEof => {
            "the connection was closed"
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => "no route to its host",
        ErrorKind::TimedOut => "no answer",
        // Only looking a name up fails without a code of the system.
        _ if error.raw_os_error().is_none() => UNKNOWN_HOST,
        _ => "the system refuses",
    }
}

const UNKNOWN_HOST: &str = "host name not found";

fn tls_failure(failure: TlsFailure) -> String {
    match failure {
        TlsFailure::Certificate(CertificateFailure::UnknownAuthority) => format!("{failure}; {}", authority()),
        TlsFailure::NotTls => format!("{failure}; is the URL one of `http://`?"),
        TlsFailure::NoCommonProtocol => {
            "TLS handshake failed: the server offers neither HTTP/1.1 nor HTTP/2".to_owned()
        }
        TlsFailure::CertificateRequired => {
            "TLS handshake failed: the server requires the certificate of a client, which is not supported".to_owned()
        }
        failure => failure.to_string(),
    }
}

/// What helps if a certificate has no trusted authority.
fn authority() -> String {
    let unreadable = if extra_is_unreadable() { ", which now names no readable file of certificates" } else { "" };
    format!("name a file with its certificate in SSL_CERT_FILE or {EXTRA_VARIABLE}{unreadable}")
}
