//! The side that listens.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::pem::{Certificates, Identity};
use crate::stream::TlsStream;
use crate::trust::ClientTrust;
use crate::{TlsError, provider};

/// TLS of a side that listens. Clones share it: what [`replace`](Self::replace) sets is used by all.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<RwLock<Arc<ServerConfig>>>,
    requires_certificate: bool,
}

impl ServerTls {
    /// Presents `identity`. With `clients`, a client must present one of these certificates, or one that they vouch for.
    ///
    /// # Errors
    /// A certificate has no use in TLS.
    pub fn new(identity: Identity, clients: Option<Certificates>) -> Result<Self, TlsError> {
        let requires_certificate = clients.is_some();
        Ok(Self { config: Arc::new(RwLock::new(Arc::new(config(identity, clients)?))), requires_certificate })
    }

    /// Presents and requires what `other` does, from the next handshake on.
    pub fn replace(&self, other: &Self) {
        let config = other.config();
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Whether clients must present a certificate.
    pub fn requires_certificate(&self) -> bool {
        self.requires_certificate
    }

    /// Performs the handshake of a client at the other end of `stream`. It has no time limit. The client is told why it failed,
    /// which takes at most a second more.
    ///
    /// # Errors
    /// The stream failed, or the handshake did: see [`TlsFailure::of`](crate::TlsFailure::of).
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        match TlsAcceptor::from(self.config()).accept(stream).into_fallible().await {
            Ok(accepted) => Ok(TlsStream(accepted.into())),
            Err((error, stream)) => {
                let _ = tokio::time::timeout(REJECTED_TIME, close(stream)).await;
                Err(error)
            }
        }
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Closes a stream whose handshake failed, and reads until the client does the same: a client that has sent more would otherwise
/// lose the alert, because its connection is reset.
async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(MAX_REJECTED_BYTES), &mut tokio::io::sink()).await.map(drop)
}

fn config(Identity { chain, key }: Identity, clients: Option<Certificates>) -> Result<ServerConfig, TlsError> {
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(clients) => config.with_client_cert_verifier(Arc::new(ClientTrust::new(clients)?)),
    };
    Ok(config.with_single_cert(chain, key)?)
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("requires_certificate", &self.requires_certificate).finish_non_exhaustive()
    }
}

/// How long, and for how many bytes, a client is read after its handshake has failed.
const REJECTED_TIME: Duration = Duration::from_secs(1);
const MAX_REJECTED_BYTES: u64 = 1 << 20;
