//! Why a handshake failed.

use std::error::Error;
use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, OtherError};

/// Why a handshake failed, or a connection ended because of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The certificate of the peer is not trusted.
    Certificate(CertificateFailure),
    /// The peer requires a certificate, and none was presented.
    CertificateRequired,
    /// The peer does not trust the certificate that was presented.
    CertificateRejected,
    /// The answer is not TLS.
    NotTls,
    /// There is no common version or cipher suite.
    NoCommonVersion,
    /// The peer offers no protocol that was asked for.
    NoCommonProtocol,
    /// Another reason.
    Other,
}

/// Why a certificate is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFailure {
    /// No trusted authority has signed it.
    UnknownAuthority,
    /// The certificate is no longer valid.
    Expired,
    /// The certificate is not valid yet.
    NotValidYet,
    /// The certificate is for other names.
    OtherName,
    /// The certificate was revoked.
    Revoked,
    /// Another reason.
    Other,
}

impl TlsFailure {
    /// The failure that `error`, or one of its causes, is.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let causes = std::iter::successors(Some(error), |&error| {
            // The inner error of an `io::Error` is not its source.
            let inner = error.downcast_ref().and_then(io::Error::get_ref);
            inner.map_or_else(|| error.source(), |inner| Some(inner))
        });
        causes.filter_map(|cause| cause.downcast_ref()).map(Self::of_rustls).next()
    }

    fn of_rustls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::Certificate(CertificateFailure::of(error)),
            rustls::Error::NoCertificatesPresented => Self::CertificateRequired,
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            rustls::Error::PeerIncompatible(_) => Self::NoCommonVersion,
            rustls::Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateRequired => Self::CertificateRequired,
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied => Self::CertificateRejected,
                AlertDescription::NoApplicationProtocol => Self::NoCommonProtocol,
                AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => Self::NoCommonVersion,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

impl CertificateFailure {
    fn of(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::Other(OtherError(error))
                if error.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity) =>
            {
                Self::UnknownAuthority
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotValidYet,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::OtherName,
            CertificateError::Revoked => Self::Revoked,
            _ => Self::Other,
        }
    }
}

/// `certificate not trusted: it has expired`, without what would help.
impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(CertificateFailure::Other) => f.write_str("certificate not trusted"),
            Self::Certificate(failure) => write!(f, "certificate not trusted: {failure}"),
            Self::CertificateRequired => f.write_str("TLS handshake failed: a client certificate is required"),
            Self::CertificateRejected => f.write_str("TLS handshake failed: the client certificate is not trusted"),
            Self::NotTls => f.write_str("TLS handshake failed: the answer is not TLS"),
            Self::NoCommonVersion => f.write_str("TLS handshake failed: no common version or cipher suite"),
            Self::NoCommonProtocol => f.write_str("TLS handshake failed: no common protocol"),
            Self::Other => f.write_str("TLS handshake failed"),
        }
    }
}

impl fmt::Display for CertificateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownAuthority => "its authority is unknown",
            Self::Expired => "it has expired",
            Self::NotValidYet => "it is not valid yet",
            Self::OtherName => "it was issued for other names",
            Self::Revoked => "it was revoked",
            Self::Other => "it is invalid",
        })
    }
}
