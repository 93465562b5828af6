//! HTTP clients, and the certificates that they trust: those of the system (or of `SSL_CERT_FILE` and `SSL_CERT_DIR`), those
//! of `NODE_EXTRA_CA_CERTS`, and those of the application.
//!
//! A server may present a trusted certificate itself, as development servers do whose certificate is its own authority.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::oid::AssociatedOid as _;
use x509_cert::ext::pkix::SubjectAltName;

/// Why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsSetupError {
    #[error("invalid PEM: {0}")]
    Pem(#[from] pem::Error),
    #[error(transparent)]
    Tls(#[from] Error),
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
    let own = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let named: Arc<[_]> = own.into_iter().chain(extra().unwrap_or_default()).collect();
    // reqwest needs a provider also where it makes no TLS connection. No effect if the application has installed one before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let provider = CryptoProvider::get_default().expect("a provider is installed");
    let inner = Verifier::new_with_extra_roots(named.iter().cloned(), Arc::clone(provider))?;
    let config = ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(Trust { inner, named }));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The certificates of `NODE_EXTRA_CA_CERTS` that are valid: people have set it for other MCP clients. `None` if the variable
/// names no readable file with a certificate.
fn extra() -> Option<Vec<CertificateDer<'static>>> {
    let Some(path) = std::env::var_os(EXTRA_VARIABLE).filter(|path| !path.is_empty()) else { return Some(Vec::new()) };
    let text = read(Path::new(&path)).ok()?;
    let is_valid =
        |certificate: &CertificateDer<'_>| RootCertStore::empty().add(certificate.clone().into_owned()).is_ok();
    let found: Vec<_> = CertificateDer::pem_slice_iter(&text).map_while(Result::ok).filter(is_valid).collect();
    if found.is_empty() { None } else { Some(found) }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_EXTRA).read_to_end(&mut text)?;
    Ok(text)
}

/// Whether `NODE_EXTRA_CA_CERTS` is set without effect.
pub(crate) fn extra_is_unreadable() -> bool {
    extra().is_none()
}

/// Verifies the certificates of servers.
#[derive(Debug)]
struct Trust {
    inner: Verifier,
    named: Arc<[CertificateDer<'static>]>,
}

impl Trust {
    /// Whether a certificate is trusted itself: no authority, or the wrong one, may have signed it. Its validity was checked
    /// before.
    fn is_trusted(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
        let concerns_issuer_or_name = match error {
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer
                | CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. },
            ) => true,
            Error::InvalidCertificate(CertificateError::Other(OtherError(other))) => {
                other.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
            }
            _ => false,
        };
        let system = || rustls_native_certs::load_native_certs().certs.contains(certificate);
        concerns_issuer_or_name && (self.named.contains(certificate) || system())
    }
}

/// Verifies that a certificate is for a server. Certificates that people make for a server of theirs often have no alternative
/// names; then the common name counts, as for OpenSSL and node.
fn verify_name(certificate: &CertificateDer<'_>, server: &ServerName<'_>) -> Result<(), Error> {
    let verified = verify_server_name(&ParsedCertificate::try_from(certificate)?, server);
    if let (Err(_), ServerName::DnsName(server)) = (&verified, server)
        && common_name(certificate).is_some_and(|name| name.eq_ignore_ascii_case(server.as_ref()))
    {
        return Ok(());
    }
    verified
}

/// The common name of a certificate without alternative names.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate();
    let mut extensions = certificate.extensions().into_iter().flatten();
    let has_others = extensions.any(|extension| extension.extn_id == SubjectAltName::OID);
    if has_others { None } else { Some(certificate.subject().common_name().ok()??.value().into_owned()) }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.inner.verify_server_cert(end_entity, intermediates, server, ocsp_response, now) {
            Err(error) if self.is_trusted(end_entity, &error) => {
                verify_name(end_entity, server).map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The variable that names a file of certificates to trust in addition.
pub(crate) const EXTRA_VARIABLE: &str = "NODE_EXTRA_CA_CERTS";

/// How much of that file is read, in bytes.
const MAX_EXTRA: u64 = 1 << 20;

/// How much of a response over HTTP/2 waits unread, in bytes.
const HTTP2_WINDOW: u32 = 256 << 10;
