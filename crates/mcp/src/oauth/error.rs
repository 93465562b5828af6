//! Why a login fails.

use std::fmt;

use http::StatusCode;

/// Why a login failed. Texts of servers in it are on one line, and shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// Not an `http` or `https` URL.
    #[error("invalid URL: expected `https://HOST/PATH`")]
    Url,
    /// A URL that tokens would be sent to unencrypted.
    #[error("{what} is not encrypted ({origin}): OAuth needs https, except on this computer (127.0.0.1, localhost)")]
    Insecure {
        /// What the URL belongs to, such as `the token endpoint`.
        what: &'static str,
        /// The scheme, host and port of the URL.
        origin: String,
    },
    /// A URL on this computer or in its network, from a server that is elsewhere.
    #[error("{what} is on this computer or in a private network ({origin}), but the server is not")]
    Local {
        /// What the URL belongs to, such as `the token endpoint`.
        what: &'static str,
        /// The scheme, host and port of the URL.
        origin: String,
    },
    /// The server publishes no metadata of OAuth.
    #[error("the server does not support OAuth: if it needs a key, add it to the `headers` of the server")]
    NotSupported,
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The metadata of the server are those of another one.
    #[error("the server's OAuth metadata are for another URL: expected {expected}, got {found}; correct the `url`")]
    ResourceMismatch {
        /// The configured URL, without its query.
        expected: String,
        /// The URL in the metadata.
        found: String,
    },
    /// An authorization server claims to be another one.
    #[error("the authorization server has another identity than expected: expected {expected}, got {found}")]
    IssuerMismatch {
        /// The issuer that was asked.
        expected: String,
        /// The issuer that answered.
        found: String,
    },
    /// The client belongs to another authorization server than the one that the server names now.
    #[error(
        "the server names the authorization server {found}, but `oauth.clientId` is registered with {expected}; if that is \
         right, set `oauth.issuer` to it"
    )]
    OtherServer {
        /// The issuer that the client is registered with.
        expected: String,
        /// The issuer that the server names.
        found: String,
    },
    /// An authorization server that promises to name itself in its answers does not.
    #[error("the authorization server does not name itself in its answer, although its metadata promise that")]
    MissingIssuer,
    /// Invalid metadata.
    #[error("invalid OAuth metadata at {place}: {problem}")]
    Metadata {
        /// The URL of the metadata, without its query.
        place: String,
        /// What is wrong.
        problem: MetadataProblem,
    },
    /// None of the authorization servers that the server names publishes metadata.
    #[error("no metadata of the authorization server found: {0}")]
    NoMetadata(String),
    /// The authorization server does not support PKCE.
    #[error("the authorization server does not support PKCE with S256, which execbox requires")]
    Pkce,
    /// Clients cannot register themselves.
    #[error(
        "the authorization server does not register clients: register one there, and add \"oauth\": {{ \"clientId\": \
         \"…\" }} to the server"
    )]
    NoRegistration,
    /// The URL of the client's metadata is not one.
    #[error("invalid `oauth.clientMetadataUrl`: expected `https://HOST/PATH`")]
    ClientMetadataUrl,
    /// Registration failed.
    #[error(
        "the authorization server does not register this client: {0}; add \"oauth\": {{ \"clientId\": \"…\" }} to the server"
    )]
    Registration(String),
    /// The address of the page where the user logs in does not fit into a browser.
    #[error("the authorization server has an address of more than {} KiB", super::login::MAX_ADDRESS >> 10)]
    Address,
    /// The port of the callback cannot be used.
    #[error("cannot listen on 127.0.0.1:{port}: {kind}; change `oauth.callbackPort`")]
    Listen {
        /// The port; 0 for any.
        port: u16,
        /// The kind of the failure.
        kind: std::io::ErrorKind,
    },
    /// The user or the authorization server has refused.
    #[error("login refused: {0}")]
    Refused(String),
    /// The code was not exchanged for tokens.
    #[error("the authorization server does not issue a token: {0}")]
    Exchange(String),
    /// Not a bearer token.
    #[error("the authorization server issued a token that is not a bearer token")]
    TokenType,
    /// A token that cannot be sent.
    #[error("the authorization server issued an invalid token: expected at most 16 KiB of printable characters")]
    InvalidToken,
    /// Discovery took too long.
    #[error("the authorization server takes too long")]
    Slow,
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    Random,
    /// TLS cannot be set up.
    #[error("TLS setup failed; are root certificates installed on this system?")]
    Tls,
}

/// What is wrong with a document of metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataProblem {
    /// A member that is required.
    #[error("missing `{0}`")]
    Missing(&'static str),
    /// The authorization server does not issue codes.
    #[error("no logins by codes (`response_types_supported`)")]
    NoCodes,
}

/// A request that failed, with the origin of its URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
#[non_exhaustive]
pub struct RequestError {
    /// The scheme, host and port of the URL.
    pub origin: String,
    /// What failed.
    pub problem: RequestProblem,
}

/// Why a request of OAuth failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestProblem {
    /// A redirect to this origin, which is not followed.
    Redirect(String),
    /// The response is longer than 256 KiB.
    TooLong,
    /// No response within the time limit.
    TimedOut(std::time::Duration),
    /// A status that may be temporary.
    Status(u16),
    /// The URL is not encrypted.
    Insecure,
    /// The URL is on this computer or in its network, and the server that has chosen it is not.
    Local,
    /// The connection failed or was lost: the reason, as a clause.
    Connection(String),
}

impl fmt::Display for RequestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redirect(to) => write!(f, "redirects to {to}, which is not followed"),
            Self::TooLong => write!(f, "response longer than {} KiB", super::http::MAX_BODY >> 10),
            Self::TimedOut(limit) => write!(f, "no response within {}", humantime::format_duration(*limit)),
            Self::Status(status) => f.write_str(&status_text(*status)),
            Self::Insecure => f.write_str("not encrypted; OAuth needs https"),
            Self::Local => {
                f.write_str("on this computer or in a private network, but the server is not; not requested")
            }
            Self::Connection(reason) => f.write_str(reason),
        }
    }
}

/// A status, as `HTTP 503 Service Unavailable`.
pub(super) fn status_text(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(
        |_| format!("HTTP {status}"),
        |status| format!("HTTP {}", status.to_string().trim_end_matches(" <unknown status code>")),
    )
}
