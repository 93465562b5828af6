//! Web pages that send requests: which origins are accepted, and what browsers ask for (the CORS protocol of the Fetch
//! standard).
//!
//! A page of another origin may have reached this server by DNS rebinding: its requests are refused.

use std::net::SocketAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::uri::Uri;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// The origins that a server accepts.
#[derive(Debug)]
pub(super) struct Origins(Vec<Accepted>);

#[derive(Debug)]
struct Accepted {
    origin: Origin,
    has_any_port: bool,
}

/// An origin as browsers write it (RFC 6454 §6.2).
#[derive(Debug)]
enum Origin {
    /// That of a page without one, such as a file: `null`.
    Opaque,
    /// The port is `None` where it is not written.
    Of { scheme: String, host: String, port: Option<u16> },
}

/// The origin of a request, which is accepted.
pub(super) struct Page(HeaderValue);

/// An origin that is not accepted.
#[derive(Debug)]
pub(super) struct Foreign;

impl Origins {
    /// The origins of a server at this address on this machine, and those of the list. Fails with one that is invalid.
    pub(super) fn new(address: SocketAddr, more: &[String]) -> Result<Self, String> {
        let port = address.port();
        let own = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("http://{name}:{port}"));
        let all = own.into_iter().chain([format!("http://{address}")]).chain(more.iter().cloned());
        all.map(|text| Accepted::read(&text).ok_or(text)).collect::<Result<_, _>>().map(Self)
    }

    /// The page that sends a request. `None` if no page sends it.
    pub(super) fn page(&self, headers: &HeaderMap) -> Result<Option<Page>, Foreign> {
        let mut stated = headers.get_all(ORIGIN).iter();
        let (Some(value), second) = (stated.next(), stated.next()) else { return Ok(None) };
        let origin = value.to_str().ok().and_then(Origin::read).ok_or(Foreign)?;
        match second.is_none() && self.0.iter().any(|accepted| accepted.includes(&origin)) {
            true => Ok(Some(Page(value.clone()))),
            false => Err(Foreign),
        }
    }
}

impl Accepted {
    fn read(text: &str) -> Option<Self> {
        let Some(base) = text.strip_suffix(":*") else {
            return Some(Self { origin: Origin::read(text)?, has_any_port: false });
        };
        let origin = Origin::read(base).filter(|origin| matches!(origin, Origin::Of { port: None, .. }))?;
        Some(Self { origin, has_any_port: true })
    }

    fn includes(&self, origin: &Origin) -> bool {
        match (&self.origin, origin) {
            (Origin::Opaque, Origin::Opaque) => true,
            (
                Origin::Of { scheme, host, port },
                Origin::Of { scheme: stated_scheme, host: stated_host, port: stated_port },
            ) => {
                let is_port = || port.or(default_port(scheme)) == stated_port.or(default_port(scheme));
                scheme == stated_scheme && host == stated_host && (self.has_any_port || is_port())
            }
            _ => false,
        }
    }
}

impl Origin {
    fn read(text: &str) -> Option<Self> {
        if text == "null" {
            return Some(Self::Opaque);
        }
        let (uri, has_path) = (text.parse::<Uri>().ok()?, text.ends_with('/') || text.contains(['?', '#', '@']));
        let (scheme, authority) = (uri.scheme_str()?.to_ascii_lowercase(), uri.authority()?);
        let is_origin = !has_path && uri.path() == "/" && !authority.host().is_empty();
        let host = authority.host().to_ascii_lowercase();
        is_origin.then(|| Self::Of { scheme, host, port: authority.port_u16() })
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Whether a browser asks what a page may send, before it sends that.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The headers of the answer to a preflight request: what pages may send.
pub(super) fn permit(asked: &HeaderMap, answer: &mut HeaderMap) {
    let listed = asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|list| list.to_str().ok());
    let names = listed.flat_map(|list| list.split(',')).map(str::trim).filter(|name| may_send(name));
    if let Ok(names) = HeaderValue::from_str(&names.collect::<Vec<_>>().join(", ")) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    if asked.contains_key(ASKS_PRIVATE_NETWORK) {
        answer.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
}

/// Whether pages may send a header: those of MCP, and what they come with.
fn may_send(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_name = HeaderName::from_bytes(name.as_bytes()).is_ok();
    is_name && (name.starts_with("mcp-") || SENT.contains(&name.as_str()))
}

/// The headers with which a page may read an answer.
pub(super) fn share(page: Option<&Page>, answer: &mut HeaderMap) {
    answer.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(Page(origin)) = page {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
    }
}

/// The headers that pages may send, beside those of MCP.
const SENT: [&str; 5] = ["accept", "authorization", "cache-control", "content-type", "last-event-id"];

/// The headers that pages may read.
const READ: &str = "Mcp-Session-Id, Retry-After, WWW-Authenticate";

/// Asks and answers whether pages of the internet may reach this machine (Private Network Access).
const ASKS_PRIVATE_NETWORK: &str = "access-control-request-private-network";
const ALLOW_PRIVATE_NETWORK: &str = "access-control-allow-private-network";

#[cfg(test)]
mod tests {
    use super::*;

    fn page(listed: &[&str], origins: &[&str]) -> Result<Option<String>, Foreign> {
        let listed: Vec<_> = listed.iter().map(|&origin| origin.to_owned()).collect();
        let known = Origins::new("192.0.2.7:8080".parse().unwrap(), &listed).unwrap();
        let mut headers = HeaderMap::new();
        for origin in origins {
            headers.append(ORIGIN, origin.parse().unwrap());
        }
        Ok(known.page(&headers)?.map(|Page(origin)| origin.to_str().unwrap().to_owned()))
    }

    #[test]
    fn pages_of_the_server_itself_and_of_listed_origins_are_accepted() {
        assert_eq!(page(&[], &[]).unwrap(), None);
        let listed =
            ["https://app.example.com", "http://Dev.example:*", "https://a.example:444", "chrome-extension://abc"];
        for origin in [
            "http://localhost:8080",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "http://192.0.2.7:8080",
            "https://app.example.com",
            "https://app.example.com:443",
            "HTTPS://App.Example.Com",
            "http://dev.example",
            "http://dev.example:5173",
            "https://a.example:444",
            "chrome-extension://abc",
        ] {
            assert_eq!(page(&listed, &[origin]).unwrap().as_deref(), Some(origin));
        }
        for origin in [
            "http://localhost",
            "http://localhost:8081",
            "https://localhost:8080",
            "http://app.example.com",
            "https://app.example.com:444",
            "https://app.example.com.evil.example",
            "https://evil.example",
            "https://dev.example",
            "https://a.example",
            "http://user@localhost:8080",
            "http://localhost:8080/",
            "http://localhost:8080/path",
            "http://localhost:8080?",
            "localhost:8080",
            "null",
            "NULL",
            "",
            "*",
        ] {
            assert!(page(&listed, &[origin]).is_err(), "{origin}");
        }
        assert!(page(&listed, &["http://localhost:8080", "http://localhost:8080"]).is_err(), "twice");
        assert!(page(&["null"], &["null"]).is_ok());
    }

    #[test]
    fn what_is_no_origin_is_not_listed() {
        for text in [
            "",
            "*",
            "app.example.com",
            "https://a.example/",
            "https://a.example/x",
            "https://a.example:1:*",
            "null:*",
            "https://:*",
        ] {
            let listed = [text.to_owned()];
            assert_eq!(Origins::new("127.0.0.1:1".parse().unwrap(), &listed).err().as_deref(), Some(text));
        }
    }

    #[test]
    fn pages_may_send_the_headers_of_mcp() {
        let (mut asked, mut answer) = (HeaderMap::new(), HeaderMap::new());
        let names = "authorization, Content-Type,mcp-protocol-version, Mcp-Param-Region, x-other, cookie, mcp-\"";
        asked.insert(ACCESS_CONTROL_REQUEST_HEADERS, names.parse().unwrap());
        permit(&asked, &mut answer);
        let allowed = "authorization, Content-Type, mcp-protocol-version, Mcp-Param-Region";
        assert_eq!(answer[ACCESS_CONTROL_ALLOW_HEADERS], allowed);
        assert!(!answer.contains_key(ALLOW_PRIVATE_NETWORK));
    }
}
