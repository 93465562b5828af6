//! The side that connects.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::TlsError;
use crate::pem::Identity;
use crate::stream::TlsStream;
use crate::trust::Trust;

/// TLS of a side that connects. Clones share it: what [`replace`](Self::replace) sets is used by all.
#[derive(Clone)]
pub struct ClientTls(Arc<RwLock<Arc<ClientConfig>>>);

impl ClientTls {
    /// Connects to servers that `trust` accepts. Presents `identity` to those that ask for a certificate.
    ///
    /// # Errors
    /// A certificate has no use in TLS.
    pub fn new(trust: Trust, identity: Option<Identity>) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(RwLock::new(Arc::new(trust.client_config(identity)?)))))
    }

    /// Trusts and presents what `other` does, from the next handshake on.
    pub fn replace(&self, other: &Self) {
        let config = other.config();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Performs the handshake with the server `host`, a name or an IP address, at the other end of `stream`. It has no time
    /// limit.
    ///
    /// # Errors
    /// `host` is neither (`InvalidInput`), the stream failed, or the handshake did: see
    /// [`TlsFailure::of`](crate::TlsFailure::of). A server that does not accept the certificate of the client may say so only
    /// when the stream is read.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let connected = TlsConnector::from(self.config()).connect(name, stream).await?;
        Ok(TlsStream(connected.into()))
    }

    fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls(…)")
    }
}
