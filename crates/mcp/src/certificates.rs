//! HTTP clients, and the certificates that they trust: see [`Trust::system_and`], and those of the application.

use execbox_tls::{Certificates, CertificatesError, TlsError, Trust};
use rustls::ClientConfig;

/// Why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsSetupError {
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The builder of a client that trusts `certificates` (PEM), too. It speaks HTTP/1.1, and HTTP/2 where the server chooses it,
/// and reads compressed responses.
///
/// Each request has its own connection: an idle one whose last response was not read to its end would stall the next request.
pub(crate) fn client_builder(certificates: &str) -> Result<reqwest::ClientBuilder, TlsSetupError> {
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(tls(certificates)?)
        .http2_initial_stream_window_size(HTTP2_WINDOW)
        .http2_initial_connection_window_size(HTTP2_WINDOW)
        .pool_max_idle_per_host(0))
}

fn tls(certificates: &str) -> Result<ClientConfig, TlsSetupError> {
    // reqwest needs a provider also where it makes no TLS connection. No effect if the application has installed one before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let trust = match certificates {
        "" => Trust::system()?,
        certificates => Trust::system_and(Certificates::from_pem(certificates.as_bytes())?)?,
    };
    let mut config = trust.client_config(None)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// How much of a response over HTTP/2 waits unread, in bytes.
const HTTP2_WINDOW: u32 = 256 << 10;
