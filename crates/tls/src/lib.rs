//! TLS over byte streams: what a side presents, whom it trusts, and why a handshake failed.
//!
//! [`ServerTls`] is the side that listens, [`ClientTls`] the side that connects. Both are made from PEM, and both can be
//! replaced while they are in use: later handshakes use the new certificates, and connections go on with theirs.

mod client;
mod failure;
mod pem;
mod server;
mod stream;
mod trust;

pub use client::ClientTls;
pub use failure::{CertificateFailure, TlsFailure};
pub use pem::{Certificates, CertificatesError, Identity, IdentityError, KeyError};
pub use server::ServerTls;
pub use stream::TlsStream;
pub use trust::{EXTRA_VARIABLE, Trust, extra_is_unreadable};

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum TlsError {
    /// The protocol versions, or what is presented.
    Config(#[from] rustls::Error),
    /// What is trusted.
    Trust(#[from] rustls::server::VerifierBuilderError),
}

fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}
