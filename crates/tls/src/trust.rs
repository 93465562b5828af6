//! Which certificates are trusted.
//!
//! A peer may present a trusted certificate itself, as people do whose certificate is its own authority.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use rustls_platform_verifier::Verifier;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::oid::AssociatedOid as _;
use x509_cert::ext::pkix::SubjectAltName;

use crate::pem::{Certificates, Identity};
use crate::{TlsError, provider};

/// Which servers are trusted.
#[derive(Debug, Clone)]
pub struct Trust(Arc<ServerTrust>);

impl Trust {
    /// Servers for which `certificates` vouch, or the authorities of the system (or of `SSL_CERT_FILE` and `SSL_CERT_DIR`), or
    /// the certificates of `NODE_EXTRA_CA_CERTS`.
    ///
    /// # Errors
    /// The authorities of the system cannot be used.
    pub fn system_and(certificates: Certificates) -> Result<Self, TlsError> {
        let named = certificates.and(extra().unwrap_or(Certificates::none()));
        let inner = Verifier::new_with_extra_roots(named.as_slice().iter().cloned(), provider())?;
        Ok(Self(Arc::new(ServerTrust { inner: Arc::new(inner), named, has_system: true })))
    }

    /// [`system_and`](Self::system_and) without certificates in addition.
    pub fn system() -> Result<Self, TlsError> {
        Self::system_and(Certificates::none())
    }

    /// Servers for which `certificates` vouch, and no others.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn only(certificates: Certificates) -> Result<Self, TlsError> {
        let roots = Arc::new(certificates.roots());
        let inner = WebPkiServerVerifier::builder_with_provider(roots, provider()).build()?;
        Ok(Self(Arc::new(ServerTrust { inner, named: certificates, has_system: false })))
    }

    /// The configuration of a client that presents `identity` to servers that ask for a certificate.
    ///
    /// # Errors
    /// The identity has no use in TLS.
    pub fn client_config(self, identity: Option<Identity>) -> Result<ClientConfig, TlsError> {
        let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let config = config.dangerous().with_custom_certificate_verifier(self.0);
        Ok(match identity {
            None => config.with_no_client_auth(),
            Some(Identity { chain, key }) => config.with_client_auth_cert(chain, key)?,
        })
    }
}

/// The certificates of `NODE_EXTRA_CA_CERTS` that are valid: people have set it for other programs. `None` if the variable names
/// no readable file with a certificate.
fn extra() -> Option<Certificates> {
    let Some(path) = std::env::var_os(EXTRA_VARIABLE).filter(|path| !path.is_empty()) else {
        return Some(Certificates::none());
    };
    let found = Certificates::lenient(&read(Path::new(&path)).ok()?);
    if found.as_slice().is_empty() { None } else { Some(found) }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_EXTRA).read_to_end(&mut text)?;
    Ok(text)
}

/// Whether `NODE_EXTRA_CA_CERTS` is set without effect.
pub fn extra_is_unreadable() -> bool {
    extra().is_none()
}

/// Verifies the certificates of servers.
#[derive(Debug)]
struct ServerTrust {
    inner: Arc<dyn ServerCertVerifier>,
    named: Certificates,
    /// Whether the certificates of the system are trusted, too.
    has_system: bool,
}

impl ServerTrust {
    /// Whether a certificate is trusted itself. Its validity was checked before.
    fn is_trusted(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
        let is_of_system = || self.has_system && rustls_native_certs::load_native_certs().certs.contains(certificate);
        concerns_issuer_or_name(error) && (self.named.as_slice().contains(certificate) || is_of_system())
    }
}

/// Whether `error` is that no authority, or the wrong one, has signed a certificate, or that it is for another name.
fn concerns_issuer_or_name(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer
            | CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. },
        ) => true,
        Error::InvalidCertificate(CertificateError::Other(OtherError(other))) => {
            other.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
        }
        _ => false,
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

impl ServerCertVerifier for ServerTrust {
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

/// Verifies the certificates of clients.
#[derive(Debug)]
pub(crate) struct ClientTrust {
    inner: Arc<dyn ClientCertVerifier>,
    named: Certificates,
}

impl ClientTrust {
    pub(crate) fn new(named: Certificates) -> Result<Self, TlsError> {
        let roots = Arc::new(named.roots());
        let inner = WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
        Ok(Self { inner, named })
    }
}

impl ClientCertVerifier for ClientTrust {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.inner.verify_client_cert(end_entity, intermediates, now) {
            Err(error) if concerns_issuer_or_name(&error) && self.named.as_slice().contains(end_entity) => {
                Ok(ClientCertVerified::assertion())
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
pub const EXTRA_VARIABLE: &str = "NODE_EXTRA_CA_CERTS";

/// How much of that file is read, in bytes.
const MAX_EXTRA: u64 = 1 << 20;
