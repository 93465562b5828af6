//! The requests of OAuth: within limits of size and time, encrypted or on this computer, and without redirects, except within
//! the origin of metadata. A remote server cannot direct them to this computer or its network.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::{Method, StatusCode, header};
use reqwest::redirect::Policy;
use reqwest::{Request, RequestBuilder, Url};
use serde_json::Value as Json;

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
}

/// A response with its whole body, if that is read.
pub(super) type Response = http::Response<Vec<u8>>;

/// Whether the body of a response is read, which can be endless.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Whole,
    Skipped,
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
        Self { client, server, timeout }
    }

    /// Whether the MCP server may choose this URL.
    pub(super) fn may_reach(&self, url: &Url) -> bool {
        AddressScope::of(url) <= self.server
    }

    /// Sends a request. Fails if its URL is not encrypted or has a greater scope than the MCP server, on a redirect, and if a
    /// limit is exceeded.
    pub(super) async fn send(&self, request: RequestBuilder, body: Body) -> Result<Response, RequestError> {
        let request = request.build().map_err(|error| RequestError {
            origin: error.url().map(origin).unwrap_or_default(),
            problem: RequestProblem::Connection("invalid request".to_owned()),
        })?;
        self.exchange(request, 0, body).await
    }

    /// Gets a JSON document, along redirects within the origin. `None` if there is none.
    pub(super) async fn document(&self, url: &Url) -> Result<Option<Json>, RequestError> {
        let mut request = Request::new(Method::GET, url.clone());
        request.headers_mut().insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
        let response = self.exchange(request, MAX_REDIRECTS, Body::Whole).await?;
        let status = response.status();
        let is_busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        if status.is_server_error() || is_busy {
            let problem = RequestProblem::Status(status.as_u16());
            return Err(RequestError { origin: origin(url), problem });
        }
        Ok(serde_json::from_slice(response.body()).ok().filter(|_| status == StatusCode::OK))
    }

    async fn exchange(&self, request: Request, redirects: usize, body: Body) -> Result<Response, RequestError> {
        let origin = origin(request.url());
        let sent = match tokio::time::timeout(self.timeout, self.follow(request, redirects, body)).await {
            Ok(sent) => sent,
            Err(_) => Err(RequestProblem::TimedOut(self.timeout)),
        };
        sent.map_err(|problem| RequestError { origin, problem })
    }

    /// Sends a request, and follows at most `redirects` redirects within its origin.
    async fn follow(&self, mut request: Request, redirects: usize, body: Body) -> Result<Response, RequestProblem> {
        let mut followed = 0;
        loop {
            let next = request.try_clone();
            let url = request.url().clone();
            let response = self.exchange_once(request, body).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            let target = location.and_then(|location| url.join(location).ok());
            match (next, target) {
                (Some(mut next), Some(target)) if followed < redirects && target.origin() == url.origin() => {
                    *next.url_mut() = target;
                    request = next;
                    followed += 1;
                }
                (_, target) => {
                    let target = target.map_or_else(|| "nowhere".to_owned(), |target| origin(&target));
                    return Err(RequestProblem::Redirect(target));
                }
            }
        }
    }

    async fn exchange_once(&self, request: Request, body: Body) -> Result<Response, RequestProblem> {
        if !is_secure(request.url()) {
            return Err(RequestProblem::Insecure);
        }
        if !self.may_reach(request.url()) {
            return Err(RequestProblem::Local);
        }
        let lost = |error: reqwest::Error| RequestProblem::Connection(http_failure(&error).to_string());
        let response = self.client.execute(request).await.map_err(lost)?;
        let mut answer = Response::new(Vec::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        if body == Body::Skipped {
            return Ok(answer);
        }
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(lost)?;
            if answer.body().len() + chunk.len() > MAX_BODY {
                return Err(RequestProblem::TooLong);
            }
            answer.body_mut().extend_from_slice(&chunk);
        }
        Ok(answer)
    }

    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }
}

/// Parses the URL of an endpoint, which is relative to the document that names it. Fails unless tokens may be sent to it on
/// behalf of the server.
pub(super) fn parse_endpoint(what: &'static str, base: &Url, url: &str, http: &OAuthHttp) -> Result<Url, LoginError> {
    let url = base.join(url).ok().filter(has_host).ok_or(LoginError::Url)?;
    let url = check_secure(what, url)?;
    if http.may_reach(&url) { Ok(url) } else { Err(LoginError::Local { what, origin: origin(&url) }) }
}

/// Parses a URL. Fails unless tokens may be sent to it.
pub(super) fn parse_url(what: &'static str, url: &str) -> Result<Url, LoginError> {
    check_secure(what, Url::parse(url).ok().filter(has_host).ok_or(LoginError::Url)?)
}

fn has_host(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

fn check_secure(what: &'static str, url: Url) -> Result<Url, LoginError> {
    if is_secure(&url) { Ok(url) } else { Err(LoginError::Insecure { what, origin: origin(&url) }) }
}

/// Whether tokens may be sent to a URL: over TLS, or to this computer.
fn is_secure(url: &Url) -> bool {
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

/// The maximum number of redirects to a document.
const MAX_REDIRECTS: usize = 3;

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
                let sending = http.send(http.request(Method::POST, url("http", host)), Body::Whole);
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
