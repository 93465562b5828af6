//! The requests of OAuth: within limits of size and time, encrypted or on this computer, and without redirects. A remote
//! server cannot direct them to this computer or its network.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Url;
use reqwest::redirect::Policy;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use super::address_scope::AddressScope;
use super::{LoginError, RequestError, RequestProblem};
use crate::certificates::client_builder;
use crate::http_failure::http_failure;

/// An HTTP client for the metadata and the tokens of servers.
#[derive(Clone)]
pub(super) struct OAuthHttp {
    client: reqwest::Client,
    /// The scope of the MCP server, which chooses the URLs.
    server: AddressScope,
    /// The time limit of a request with its response.
    timeout: Duration,
    /// The error of the last failed request, which rmcp does not pass on.
    failed: Arc<Mutex<Option<RequestError>>>,
}

impl OAuthHttp {
    /// Creates a client for requests on behalf of the MCP server at `server`. `certificates` (PEM) are trusted in addition to
    /// those of the system.
    pub(super) fn new(server: &Url, certificates: &str, timeout: Duration) -> Result<Self, LoginError> {
        let builder = client_builder(certificates).map_err(|_| LoginError::Tls)?;
        let client = builder.redirect(Policy::none()).build().map_err(|_| LoginError::Tls)?;
        Ok(Self::with_client(AddressScope::of(server), client, timeout))
    }

    /// `client` must not follow redirects.
    pub(super) fn with_client(server: AddressScope, client: reqwest::Client, timeout: Duration) -> Self {
        Self { client, server, timeout, failed: Arc::default() }
    }

    /// Whether the MCP server may choose this URL.
    pub(super) fn may_reach(&self, url: &Url) -> bool {
        AddressScope::of(url) <= self.server
    }

    /// Sends a request. Fails if its URL is not encrypted or has a greater scope than the MCP server, on a redirect, and if a
    /// limit is exceeded.
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
        if !self.may_reach(request.url()) {
            return Err(RequestProblem::Local);
        }
        let url = request.url().clone();
        let lost = |error: reqwest::Error| RequestProblem::Connection(http_failure(&error));
        let response = self.client.execute(request).await.map_err(lost)?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if response.status().is_redirection() {
            let target = url.join(header(http::header::LOCATION));
            return Err(RequestProblem::Redirect(target.map_or_else(|_| "nowhere".to_owned(), |url| origin(&url))));
        }
        // An older MCP server answers a GET with an endless stream, which is not read.
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

    /// Takes the error of the last request that failed since the previous call.
    pub(super) fn take_failed(&self) -> Option<RequestError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl OAuthHttpClient for OAuthHttp {
    /// Ignores the redirect policy: redirects are never followed.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the check, a remote server could make this computer send requests to its own programs, at any path.
    #[tokio::test]
    async fn a_server_elsewhere_leads_no_request_to_this_computer() {
        let local = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = local.local_addr().unwrap().port();
        let url = |scheme: &str, host: &str| Url::parse(&format!("{scheme}://{host}:{port}/admin?delete=1")).unwrap();
        for (server, is_local) in
            [("https://mcp.example.com/mcp", false), ("https://10.0.0.1/mcp", false), ("http://127.0.0.1/mcp", true)]
        {
            let http = OAuthHttp::new(&Url::parse(server).unwrap(), "", Duration::from_mins(1)).unwrap();
            for host in ["127.0.0.1", "localhost", "127.1", "2130706433"] {
                let request = http.request(http::Method::POST, url("http", host)).build().unwrap();
                let sending = http.send(request);
                if is_local {
                    // The request arrives, and is not answered.
                    let (sent, ()) = tokio::join!(sending, async { drop(local.accept().await.unwrap()) });
                    assert!(matches!(sent.unwrap_err().problem, RequestProblem::Connection(_)));
                } else {
                    let error = sending.await.unwrap_err();
                    assert_eq!(error.problem, RequestProblem::Local, "{server} {host}");
                    assert!(error.origin.ends_with(&format!(":{port}")), "{error}");
                }
            }
            for host in ["[::ffff:127.0.0.1]", "0.0.0.0", "a.localhost", "localhost.", "[::1]"] {
                assert_eq!(http.may_reach(&url("https", host)), is_local, "{server} {host}");
            }
        }
    }
}
