//! Certificates and private keys, from PEM.

use std::fmt;

use rustls::RootCertStore;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// One or more certificates, such as those of authorities that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates(Vec<CertificateDer<'static>>);

/// Why a text contains no certificates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificatesError {
    /// There is none.
    #[error("no certificate found; expected PEM, which begins with -----BEGIN CERTIFICATE-----")]
    Missing,
    /// The text is not PEM.
    #[error("invalid PEM: {0}")]
    Pem(pem::Error),
    /// A certificate cannot be read.
    #[error("invalid certificate: {0}")]
    Invalid(rustls::Error),
}

/// Why a text contains no private key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is none.
    #[error("no private key found; expected PEM, which begins with -----BEGIN PRIVATE KEY-----")]
    Missing,
    /// The key needs a password.
    #[error("the private key is encrypted; write it without a password: openssl pkey -in FILE -out NEW")]
    Encrypted,
    /// The text is not PEM.
    #[error("invalid PEM: {0}")]
    Pem(pem::Error),
    /// The key cannot be used.
    #[error("invalid private key: expected RSA with 2048 to 8192 bits, ECDSA with P-256 or P-384, or Ed25519")]
    Invalid,
}

/// Why a certificate and a private key are no [`Identity`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificatesError),
    /// The private key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key belongs to another certificate.
    #[error("the private key is not that of the certificate")]
    Mismatch,
}

impl Certificates {
    /// The certificates of `text`. Its other parts are ignored.
    pub fn from_pem(text: &[u8]) -> Result<Self, CertificatesError> {
        let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
        let found = found.map_err(CertificatesError::Pem)?;
        if found.is_empty() {
            return Err(CertificatesError::Missing);
        }
        for certificate in &found {
            check(certificate).map_err(CertificatesError::Invalid)?;
        }
        Ok(Self(found))
    }

    /// The certificates of `text` that are valid, up to the first that is not PEM.
    pub(crate) fn lenient(text: &[u8]) -> Self {
        let found = CertificateDer::pem_slice_iter(text).map_while(Result::ok);
        Self(found.filter(|certificate| check(certificate).is_ok()).collect())
    }

    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn as_slice(&self) -> &[CertificateDer<'static>] {
        &self.0
    }

    /// The certificates that can be the authority of others.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.0.iter().cloned());
        roots
    }

    #[must_use]
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

fn check(certificate: &CertificateDer<'static>) -> Result<(), rustls::Error> {
    RootCertStore::empty().add(certificate.clone())
}

/// A certificate, with those that lead to its authority, and its private key. `Debug` does not print the key.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// The certificate is the first of `certificates`; those that follow lead to its authority. `certificates` and `key` may be
    /// the same text.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let Certificates(chain) = Certificates::from_pem(certificates)?;
        let key = private_key(key)?;
        let signing = any_supported_type(&key).map_err(|_| KeyError::Invalid)?;
        match CertifiedKey::new(chain.clone(), signing).keys_match() {
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => Err(IdentityError::Mismatch),
            _ => Ok(Self { chain, key }),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, KeyError> {
    let is_encrypted = || {
        let has = |label: &[u8]| text.windows(label.len()).any(|window| window == label);
        has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED")
    };
    match PrivateKeyDer::from_pem_slice(text) {
        _ if is_encrypted() => Err(KeyError::Encrypted),
        Err(pem::Error::NoItemsFound) => Err(KeyError::Missing),
        read => read.map_err(KeyError::Pem),
    }
}
