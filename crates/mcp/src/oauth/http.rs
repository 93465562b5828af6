//! The requests of OAuth: within limits of size and time, encrypted or on this computer, and without redirects.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Url;
use reqwest::redirect::Policy;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use super::{LoginError, RequestError, RequestProblem};
use crate::upstream::http_failure;

/// An HTTP client for the metadata and the tokens of servers.
#[derive(Clone)]
pub(super) struct OAuthHttp {
    client: reqwest::Client,
    /// The time limit of a request with its response.
    timeout: Duration,
    /// The request that failed last: rmcp does not pass on why.
    failed: Arc<Mutex<Option<RequestError>>>,
}

impl OAuthHttp {
    /// `certificates` are trusted in addition to those of the system (PEM).
    pub(super) fn new(certificates: &str, timeout: Duration) -> Result<Self, LoginError> {
        // Has no effect if the application has installed a provider before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = reqwest::Certificate::from_pem_bundle(certificates.as_bytes());
        let builder = reqwest::Client::builder().pool_max_idle_per_host(0).redirect(Policy::none());
        let client = builder.tls_certs_merge(certificates.map_err(|_| LoginError::Tls)?).build();
        Ok(Self::with_client(client.map_err(|_| LoginError::Tls)?, timeout))
    }

    /// `client` must not follow redirects.
    pub(super) fn with_client(client: reqwest::Client, timeout: Duration) -> Self {
        Self { client, timeout, failed: Arc::default() }
    }

    /// Sends a request. Fails if its URL is not encrypted, on a redirect, and if a limit is exceeded.
    pub(super) async fn send(&self, request: reqwest::Request) -> Result<http::Response<Vec<u8>>, RequestError> {
        let origin = origin(request.url());
        let sent = match tokio::time::timeout(self.timeout, self.exchange(request)).await {
            Ok(sent) => sent,
            Err(_) => Err(RequestProblem::TimedOut(self.timeout)),
        };
        sent.map_err(|problem| {
            let error = RequestError { origin, problem };
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
            error
        })
    }

    async fn exchange(&self, request: reqwest::Request) -> Result<http::Response<Vec<u8>>, RequestProblem> {
        if !is_secure(request.url()) {
            return Err(RequestProblem::Insecure);
        }
        let url = request.url().clone();
        let lost = |error: reqwest::Error| RequestProblem::Connection(http_failure(&error));
        let response = self.client.execute(request).await.map_err(lost)?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if response.status().is_redirection() {
            let target = url.join(header(http::header::LOCATION));
            return Err(RequestProblem::Redirect(target.map_or_else(|_| "nowhere".to_owned(), |url| origin(&url))));
        }
        // An older MCP server answers a GET with a stream without an end.
        let is_stream = header(http::header::CONTENT_TYPE).starts_with("text/event-stream");
        let mut answer = http::Response::new(Vec::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        let mut body = response.bytes_stream();
        while let Some(chunk) = if is_stream { None } else { body.next().await } {
            let chunk = chunk.map_err(lost)?;
            if answer.body().len() + chunk.len() > MAX_BODY {
                return Err(RequestProblem::TooLong);
            }
            answer.body_mut().extend_from_slice(&chunk);
        }
        Ok(answer)
    }

    pub(super) fn request(&self, method: http::Method, url: Url) -> reqwest::RequestBuilder {
        self.client.request(method, url)
    }

    /// The request that failed since the last call.
    pub(super) fn take_failed(&self) -> Option<RequestError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl OAuthHttpClient for OAuthHttp {
    /// Ignores the redirect policy: nothing is followed.
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move { Ok(self.send(reqwest::Request::try_from(request.request)?).await?) })
    }
}

/// Whether tokens may be sent to a URL: over TLS, or to this computer.
pub(super) fn is_secure(url: &Url) -> bool {
    let is_loopback = match url.host_str().map(|host| host.trim_matches(['[', ']'])) {
        Some(host) => host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    };
    url.scheme() == "https" || url.scheme() == "http" && is_loopback
}

/// The scheme, host and port of a URL, without passwords and paths.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The maximum length of a response, in bytes.
pub(super) const MAX_BODY: usize = 256 << 10;
