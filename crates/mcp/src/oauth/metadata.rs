//! Metadata of resources (RFC 9728) and of authorization servers (RFC 8414, OpenID Connect Discovery): where they are, and
//! whether they are those of the server. Members that can be read in no way are skipped, if nothing depends on them.

use reqwest::Url;
use serde_json::Value as Json;

use super::challenge::{MAX_SCOPES, is_scope, scopes};
use super::http::{OAuthHttp, origin, parse_endpoint};
use super::{LoginError, MetadataProblem, line};

/// The metadata of an MCP server.
#[derive(Debug)]
pub(super) struct ResourceMetadata {
    /// The URL that tokens are requested for.
    pub(super) resource: String,
    /// The issuers of its authorization servers.
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes: Vec<String>,
}

impl ResourceMetadata {
    /// The places of the metadata of a server, in the order of the specification.
    pub(super) fn places(server: &Url) -> Vec<Url> {
        let path = server.path().trim_matches('/');
        let root = format!("/.well-known/{RESOURCE}");
        let paths = match path {
            "" => vec![root],
            path => vec![format!("{root}/{path}"), root],
        };
        paths.iter().map(|path| at(server, path)).collect()
    }

    /// Reads the metadata of `server`; `None` if the document is something else.
    pub(super) fn read(document: &Json, server: &Url) -> Result<Option<Self>, LoginError> {
        let mut authorization_servers = strings(&document["authorization_servers"]);
        authorization_servers.extend(strings(&document["authorization_server"])); // The name in a draft.
        authorization_servers.truncate(MAX_SERVERS);
        let resource = match document["resource"].as_str() {
            None if authorization_servers.is_empty() => return Ok(None),
            None => server.to_string(),
            Some(resource) if is_resource(resource, server) => resource.to_owned(),
            Some(found) => {
                return Err(LoginError::ResourceMismatch { expected: bare(server), found: line(found) });
            }
        };
        Ok(Some(Self { resource, authorization_servers, scopes: scope_list(&document["scopes_supported"]) }))
    }
}

/// Whether a resource is the server, or a path above it.
fn is_resource(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let path = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(path);
    let is_above = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == server.origin() && is_above && resource.fragment().is_none()
}

/// The metadata of an authorization server.
#[derive(Debug, Clone)]
pub(super) struct ServerMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) scopes: Vec<String>,
    /// How clients can authenticate themselves at the token endpoint; empty if that is unknown.
    pub(super) authentications: Vec<String>,
    /// Whether each answer of the authorization endpoint names the issuer (RFC 9207).
    pub(super) states_issuer: bool,
    /// Whether the id of a client can be the URL of its metadata.
    pub(super) reads_client_metadata: bool,
}

impl ServerMetadata {
    /// The places of the metadata of an issuer, in the order of the specification.
    pub(super) fn places(issuer: &Url) -> Vec<Url> {
        let path = issuer.path().trim_matches('/');
        let paths = match path {
            "" => vec![format!("/.well-known/{OAUTH}"), format!("/.well-known/{OPENID}")],
            path => vec![
                format!("/.well-known/{OAUTH}/{path}"),
                format!("/.well-known/{OPENID}/{path}"),
                format!("/{path}/.well-known/{OPENID}"),
                format!("/{path}/.well-known/{OAUTH}"),
            ],
        };
        paths.iter().map(|path| at(issuer, path)).collect()
    }

    /// Reads the metadata of `issuer`; `None` if the document is something else. The issuer must be the expected one, and all
    /// endpoints must be encrypted and in no greater scope than the MCP server.
    pub(super) fn read(
        document: &Json,
        place: &Url,
        issuer: &str,
        http: &OAuthHttp,
    ) -> Result<Option<Self>, LoginError> {
        let endpoints = ["authorization_endpoint", "token_endpoint"];
        if document["issuer"].is_null() && endpoints.iter().all(|name| document[*name].is_null()) {
            return Ok(None);
        }
        let invalid = |problem| LoginError::Metadata { place: bare(place), problem };
        let Some(found) = document["issuer"].as_str() else {
            return Err(invalid(MetadataProblem::Missing("issuer")));
        };
        if !is_same_issuer(issuer, found) {
            return Err(LoginError::IssuerMismatch { expected: line(issuer), found: line(found) });
        }
        let endpoint = |what, name: &str| match document[name].as_str().filter(|url| !url.is_empty()) {
            Some(url) => parse_endpoint(what, place, url, http).map(Some),
            None => Ok(None),
        };
        let needed = |what, name| endpoint(what, name)?.ok_or_else(|| invalid(MetadataProblem::Missing(name)));
        let metadata = Self {
            issuer: found.to_owned(),
            authorization_endpoint: needed("the authorization endpoint", "authorization_endpoint")?,
            token_endpoint: needed("the token endpoint", "token_endpoint")?,
            registration_endpoint: endpoint("the registration endpoint", "registration_endpoint")?,
            // Tokens are not sent to an endpoint that may not be reached; they expire by themselves.
            revocation_endpoint: endpoint("the revocation endpoint", "revocation_endpoint").ok().flatten(),
            scopes: scope_list(&document["scopes_supported"]),
            authentications: strings(&document["token_endpoint_auth_methods_supported"]),
            states_issuer: document["authorization_response_iss_parameter_supported"] == true,
            reads_client_metadata: document["client_id_metadata_document_supported"] == true,
        };
        // Both lists are optional. Without the first, the server may support PKCE.
        if lacks(&document["code_challenge_methods_supported"], |method| method.eq_ignore_ascii_case("S256")) {
            return Err(LoginError::Pkce);
        }
        if lacks(&document["response_types_supported"], |kind| kind == "code") {
            return Err(invalid(MetadataProblem::NoCodes));
        }
        Ok(Some(metadata))
    }

    /// The endpoints of a server that publishes no metadata (MCP 2025-03-26 §2.3.3).
    pub(super) fn default_of(server: &Url) -> Self {
        Self {
            issuer: origin(server),
            authorization_endpoint: at(server, "/authorize"),
            token_endpoint: at(server, "/token"),
            registration_endpoint: Some(at(server, "/register")),
            revocation_endpoint: None,
            scopes: Vec::new(),
            authentications: Vec::new(),
            states_issuer: false,
            reads_client_metadata: false,
        }
    }
}

/// Whether an issuer is the expected one. A slash at the end has no meaning, because all places of the metadata are the same.
pub(super) fn is_same_issuer(expected: &str, found: &str) -> bool {
    let [expected, found] = [expected, found].map(|issuer| issuer.strip_suffix('/').unwrap_or(issuer));
    // Microsoft Entra has one document for several tenants.
    let is_template = |(start, end): (&str, &str)| {
        let tenant = expected.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        found.starts_with("https://login.microsoftonline.com/")
            && tenant.is_some_and(|tenant| !tenant.is_empty() && !tenant.contains('/'))
    };
    expected == found || found.split_once("{tenantid}").is_some_and(is_template)
}

/// Whether a list is there, and has no such entry.
fn lacks(list: &Json, is_wanted: impl Fn(&str) -> bool) -> bool {
    let mut words = strings(list).into_iter().flat_map(|entry| entry.split(' ').map(str::to_owned).collect::<Vec<_>>());
    !list.is_null() && !words.any(|word| is_wanted(&word))
}

/// The texts in a list. A text is a list of one.
fn strings(list: &Json) -> Vec<String> {
    match list {
        Json::String(text) => vec![text.clone()],
        Json::Array(entries) => entries.iter().filter_map(|entry| entry.as_str()).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The scopes in a list, or in a text.
pub(super) fn scope_list(list: &Json) -> Vec<String> {
    match list {
        Json::String(text) => scopes(text),
        list => strings(list).into_iter().filter(|scope| is_scope(scope)).take(MAX_SCOPES).collect(),
    }
}

/// A path at the origin of a URL.
pub(super) fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// A URL without its query and password.
pub(super) fn bare(url: &Url) -> String {
    line(&format!("{}{}", origin(url), url.path()))
}

const RESOURCE: &str = "oauth-protected-resource";
const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

/// The maximum number of authorization servers of a resource that are asked.
const MAX_SERVERS: usize = 4;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn metadata_are_looked_for_at_every_documented_place() {
        let texts = |places: Vec<Url>| places.iter().map(Url::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(ResourceMetadata::places(&url("https://x/a/mcp?key=1"))),
            ["https://x/.well-known/oauth-protected-resource/a/mcp", "https://x/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            texts(ResourceMetadata::places(&url("https://x"))),
            ["https://x/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            texts(ServerMetadata::places(&url("https://x/"))),
            ["https://x/.well-known/oauth-authorization-server", "https://x/.well-known/openid-configuration"]
        );
        for issuer in ["https://x/t/1", "https://x/t/1/"] {
            assert_eq!(
                texts(ServerMetadata::places(&url(issuer))),
                [
                    "https://x/.well-known/oauth-authorization-server/t/1",
                    "https://x/.well-known/openid-configuration/t/1",
                    "https://x/t/1/.well-known/openid-configuration",
                    "https://x/t/1/.well-known/oauth-authorization-server",
                ]
            );
        }
    }

    #[test]
    fn an_issuer_is_another_one_unless_only_the_last_slash_differs() {
        let entra = "https://login.microsoftonline.com";
        for (expected, found, is_same) in [
            ("https://x", "https://x", true),
            ("https://x", "https://x/", true),
            ("https://x/t/", "https://x/t", true),
            ("https://x/t", "https://x", false),
            ("https://x", "https://x/t", false),
            ("https://x", "http://x", false),
            ("https://x", "https://x.example", false),
            ("https://x", "https://x//", false),
            ("https://x/organizations/v2.0", "https://x/{tenantid}/v2.0", false),
            (&format!("{entra}/organizations/v2.0"), &format!("{entra}/{{tenantid}}/v2.0"), true),
            (&format!("{entra}/a/b/v2.0"), &format!("{entra}/{{tenantid}}/v2.0"), false),
            (&format!("{entra}/common/v1.0"), &format!("{entra}/{{tenantid}}/v2.0"), false),
            ("https://far.example/common/v2.0", &format!("{entra}/{{tenantid}}/v2.0"), false),
        ] {
            assert_eq!(is_same_issuer(expected, found), is_same, "{expected} {found}");
        }
    }

    #[test]
    fn a_resource_is_the_server_or_above_it() {
        for (resource, is_resource) in [
            ("https://x/a/mcp", true),
            ("https://x/a/mcp/", true),
            ("https://X/a", true),
            ("https://x", true),
            ("https://x/", true),
            ("https://x:443/a", true),
            ("https://x/a/mcp?x=1", true),
            ("https://x/a/mc", false),
            ("https://x/a/mcp/b", false),
            ("https://x/a#b", false),
            ("http://x/a/mcp", false),
            ("https://x:8443/", false),
            ("https://y/a/mcp", false),
            ("x/a/mcp", false),
            ("", false),
        ] {
            assert_eq!(super::is_resource(resource, &url("https://x/a/mcp")), is_resource, "{resource}");
        }
    }

    #[test]
    fn odd_members_of_a_resource_are_read_or_skipped() {
        let read = |document: Json| ResourceMetadata::read(&document, &url("https://x/mcp"));
        let metadata = read(json!({
            "authorization_servers": ["https://a", 1, null], "authorization_server": "https://b",
            "scopes_supported": ["a", 2, "not a scope", "b"], "resource_name": {}
        }));
        let metadata = metadata.unwrap().unwrap();
        assert_eq!(metadata.resource, "https://x/mcp");
        assert_eq!(metadata.authorization_servers, ["https://a", "https://b"]);
        assert_eq!(metadata.scopes, ["a", "b"]);
        let metadata =
            read(json!({ "resource": "https://x", "authorization_servers": "https://a", "scopes_supported": "a b" }));
        let metadata = metadata.unwrap().unwrap();
        assert_eq!((metadata.resource.as_str(), metadata.scopes.join("+").as_str()), ("https://x", "a+b"));
        assert_eq!(metadata.authorization_servers, ["https://a"]);
        for document in [json!({}), json!([]), json!("x"), json!({ "error": "not found" }), Json::Null] {
            assert!(read(document).unwrap().is_none());
        }
    }

    #[test]
    fn odd_members_of_an_authorization_server_are_read_or_skipped() {
        let http = OAuthHttp::new(&url("https://mcp.example"), "", std::time::Duration::from_secs(1)).unwrap();
        let read = |members: Json| {
            let mut document = json!({
                "issuer": "https://x", "authorization_endpoint": "https://x/authorize", "token_endpoint": "/token",
                "registration_endpoint": null, "revocation_endpoint": "http://127.0.0.1/revoke",
            });
            document.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            ServerMetadata::read(&document, &url("https://x/.well-known/y"), "https://x", &http)
        };
        let metadata = read(json!({
            "scopes_supported": "a b", "response_types_supported": ["code id_token", "token"],
            "code_challenge_methods_supported": null, "token_endpoint_auth_methods_supported": "client_secret_post",
            "authorization_response_iss_parameter_supported": "yes", "client_id_metadata_document_supported": true,
        }));
        let metadata = metadata.unwrap().unwrap();
        assert_eq!(metadata.token_endpoint.as_str(), "https://x/token");
        assert_eq!((metadata.registration_endpoint, metadata.revocation_endpoint), (None, None));
        assert_eq!((metadata.scopes.len(), metadata.authentications.len()), (2, 1));
        assert!(!metadata.states_issuer && metadata.reads_client_metadata);
        assert!(read(json!({ "code_challenge_methods_supported": ["plain", "s256"] })).is_ok());
        for (members, message) in [
            (
                json!({ "token_endpoint": "" }),
                "invalid OAuth metadata at https://x/.well-known/y: missing `token_endpoint`",
            ),
            (
                json!({ "response_types_supported": ["token"] }),
                "invalid OAuth metadata at https://x/.well-known/y: no logins by codes (`response_types_supported`)",
            ),
            (json!({ "issuer": 1 }), "invalid OAuth metadata at https://x/.well-known/y: missing `issuer`"),
            (
                json!({ "code_challenge_methods_supported": [] }),
                "the authorization server does not support PKCE with S256, which execbox requires",
            ),
        ] {
            assert_eq!(read(members).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn endpoints_that_are_closer_than_the_server_are_named() {
        let read = |server: &str, name: &str, endpoint: &str| {
            let mut document = json!({
                "issuer": "https://a.example", "authorization_endpoint": "https://a.example/",
                "token_endpoint": "https://a.example/token", "registration_endpoint": "https://a.example/register"
            });
            document[name] = endpoint.into();
            let http = OAuthHttp::new(&url(server), "", std::time::Duration::from_secs(1)).unwrap();
            ServerMetadata::read(&document, &url("https://a.example/x"), "https://a.example", &http)
        };
        for name in ["authorization", "token", "registration"] {
            for (endpoint, is_private) in
                [("http://127.0.0.1:1", false), ("https://[::1]:1", false), ("https://10.0.0.1:1", true)]
            {
                let member = format!("{name}_endpoint");
                let error = read("https://mcp.example.com", &member, endpoint).unwrap_err().to_string();
                let is = "is on this computer or in a private network";
                assert_eq!(error, format!("the {name} endpoint {is} ({endpoint}), but the server is not"));
                let is_read = read("https://192.168.0.2", &member, endpoint).is_ok();
                assert_eq!(is_read, is_private, "{name} {endpoint}");
                read("http://localhost:3000/mcp", &member, endpoint).unwrap();
            }
        }
    }
}
