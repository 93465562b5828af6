//! Logins at authorization servers as they are: clients that are registered in their own way, odd tokens, metadata at other
//! places, further scopes, and servers that move.

use std::sync::Arc;
use std::time::Duration;

use execbox_mcp::oauth::{Credentials, LoginError, LoginState, OAuthClient, TokenStore as _, login_state, revoke};
use serde_json::{Value as Json, json};

use crate::login_site::{Site, Store};
use crate::remote::{failure, run};

fn secret_client() -> OAuthClient {
    let (id, secret) = (Some("mine".to_owned()), Some("s3cret".to_owned()));
    OAuthClient::default().client_id(id).client_secret(secret)
}

async fn call(upstream: &execbox_mcp::upstream::Upstream) -> Result<Option<Json>, String> {
    run(upstream, "await far.ask({})").await.outcome.map_err(|error| error.message)
}

#[tokio::test]
async fn the_token_endpoint_gets_the_secret_where_the_client_is_registered_with_it() {
    let (basic, post) = ("client_secret_basic", "client_secret_post");
    let registered = |method: Json| json!({ "client_secret": "x1y2", "token_endpoint_auth_method": method });
    let methods = |methods: Json| json!({ "token_endpoint_auth_methods_supported": methods });
    // The registration, the metadata, where the secret must be, and the number of requests for the first token.
    for (registration, metadata, secret_in, requests) in [
        (registered(json!(post)), methods(json!([post, basic])), "body", 1),
        (registered(json!(post)), Json::Null, "body", 1),
        (registered(json!(basic)), methods(json!([post])), "header", 1),
        (registered(json!("none")), methods(json!([basic])), "nowhere", 1),
        (registered(Json::Null), methods(json!([post])), "body", 1),
        (registered(Json::Null), Json::Null, "header", 1),
        (json!({ "client_secret": "" }), methods(json!([basic])), "nowhere", 1),
        (json!({ "client_secret": null, "token_endpoint_auth_method": basic }), Json::Null, "nowhere", 1),
        // Servers that are wrong about themselves.
        (registered(Json::Null), methods(json!([basic])), "body", 2),
        (registered(json!("none")), Json::Null, "body", 3),
        (registered(json!(post)), Json::Null, "header", 2),
    ] {
        let site = Site::new().await;
        {
            let mut state = site.state();
            (state.registration, state.metadata, state.secret_in) =
                (registration.clone(), metadata.clone(), Some(secret_in));
        }
        let credentials = site.log_in().await;
        assert_eq!(site.count("POST /token"), requests, "{registration} {metadata} {secret_in}");
        // A renewal begins with what was accepted.
        let store = Arc::new(Store::default());
        store.save("far", &site.url, Some(&credentials)).unwrap();
        site.state().valid = None;
        assert!(site.open(&store).await.is_ok());
        assert_eq!(site.count("POST /token"), requests + 1);
        assert!(revoke(&credentials, "", Duration::from_mins(1)).await.unwrap());
        let secret = site.sent("POST /revoke", "client_secret");
        assert_eq!(secret.is_some(), secret_in == "body", "{registration} {metadata}");
    }
}

#[tokio::test]
async fn the_secret_of_a_configured_client_is_sent_where_it_is_accepted() {
    for (metadata, secret_in, requests) in [
        (Json::Null, "header", 1),
        (Json::Null, "body", 2),
        (json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] }), "body", 1),
        (json!({ "token_endpoint_auth_methods_supported": ["none"] }), "body", 2),
    ] {
        let site = Site::new().await;
        (site.state().metadata, site.state().secret_in) = (metadata, Some(secret_in));
        site.log_in_as(&secret_client()).await.unwrap();
        assert_eq!(site.count("POST /token"), requests);
    }
    // The error of a wrong secret is that of the first answer.
    let site = Site::new().await;
    site.state().secret_in = Some("nowhere");
    let error = site.log_in_as(&secret_client()).await.unwrap_err();
    assert_eq!(error.to_string(), "the authorization server does not issue a token: invalid_client");
    assert_eq!(site.count("POST /token"), 2);
}

#[tokio::test]
async fn a_client_asks_for_an_authentication_that_the_server_supports() {
    for (metadata, method) in [
        (Json::Null, "none"),
        (json!({ "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"] }), "none"),
        (json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] }), "client_secret_post"),
    ] {
        let site = Site::new().await;
        site.state().metadata = metadata;
        site.log_in().await;
        let state = site.state();
        let (_, body) = state.requests.iter().find(|(head, _)| head.starts_with("POST /register")).unwrap();
        let client: Json = serde_json::from_str(body).unwrap();
        assert_eq!(client["token_endpoint_auth_method"], method);
        assert_eq!((&client["application_type"], &client["scope"]), (&json!("native"), &json!("a b")));
    }
}

#[tokio::test]
async fn registrations_in_other_forms() {
    let site = Site::new().await;
    site.state().registration = json!({ "client_id": 4711, "redirect_uris": null });
    site.log_in().await;
    assert_eq!(site.sent("GET /authorize", "client_id").as_deref(), Some("4711"));
    // An id that is no id.
    site.state().registration = json!({ "client_id": "x".repeat(100_000) });
    let error = site.start(&OAuthClient::default()).await.err().unwrap().to_string();
    assert_eq!(error, "the authorization server has an address of more than 64 KiB");
    site.state().registration = Json::Null;
    // An error has any status.
    let refused = |body: &str| (200, String::new(), body.to_owned());
    let prefix = "the authorization server does not register this client: ";
    for (body, reason) in [
        (
            r#"{ "error": "invalid_client_metadata", "error_description": "no\nnative" }"#,
            "invalid_client_metadata: no native",
        ),
        (r#"{ "client_id": "" }"#, "its response has no `client_id`"),
        ("<html>", "its response has no `client_id`"),
    ] {
        site.state().instead.insert("POST /register", refused(body));
        let error = site.log_in_as(&OAuthClient::default()).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{prefix}{reason}; add \"oauth\": ")), "{error}");
    }
    // Some servers accept one name of this computer only.
    let body = r#"{ "error": "invalid_redirect_uri" }"#.to_owned();
    site.state().instead.insert("POST /register", (400, String::new(), body));
    assert!(site.log_in_as(&OAuthClient::default()).await.is_err());
    let state = site.state();
    let uris = state.requests.iter().rev().filter(|(head, _)| head.starts_with("POST /register")).take(2);
    let uris: Vec<_> =
        uris.map(|(_, body)| serde_json::from_str::<Json>(body).unwrap()["redirect_uris"][0].clone()).collect();
    assert!(uris[0].as_str().unwrap().starts_with("http://localhost:"), "{uris:?}");
    assert!(uris[1].as_str().unwrap().starts_with("http://127.0.0.1:"), "{uris:?}");
}

#[tokio::test]
async fn a_token_is_used_whatever_else_its_response_has() {
    for tokens in [
        json!({ "expires_in": "3599" }),
        json!({ "expires_in": 3600.5 }),
        json!({ "expires_in": null, "scope": null }),
        json!({ "expires_in": -1 }),
        json!({ "expires_in": { "seconds": 60 } }),
        json!({ "token_type": null }),
        json!({ "token_type": "JWT", "scope": ["a", "b"] }),
        json!({ "scope": 5, "id_token": {}, "error": "", "created_at": "now" }),
    ] {
        for is_renewal in [false, true] {
            let site = Site::new().await;
            if is_renewal {
                site.state().renewals = tokens.clone();
            } else {
                site.state().tokens = tokens.clone();
            }
            let store = site.logged_in().await;
            if is_renewal {
                site.state().valid = None;
            }
            let upstream = site.open(&store).await.unwrap();
            assert_eq!(call(&upstream).await, Ok(Some(json!("fine"))), "{tokens} {is_renewal}");
            let requests = 1 + usize::from(is_renewal);
            assert_eq!(site.count("POST /token"), requests, "{tokens}: a lifetime that says nothing needs no renewal");
        }
    }
    // A renewal without a new refresh token keeps the old one.
    let site = Site::new().await;
    site.state().renewals = json!({ "refresh_token": null });
    let store = site.logged_in().await;
    site.state().valid = None;
    assert!(site.open(&store).await.is_ok());
    let kept = serde_json::to_value(store.load("far", &site.url).unwrap()).unwrap();
    assert_eq!((&kept["accessToken"], &kept["refreshToken"]), (&json!("access-2"), &json!("refresh-1")));
}

#[tokio::test]
async fn an_error_in_a_200_is_an_error() {
    let site = Site::new().await;
    let refused = |code: &str| {
        let body = json!({ "error": code, "error_description": "the code is used" }).to_string();
        (200, "Content-Type: application/json\r\n".to_owned(), body)
    };
    site.state().instead.insert("POST /token", refused("bad_verification_code"));
    let error = site.log_in_as(&OAuthClient::default()).await.unwrap_err();
    let reason = "bad_verification_code: the code is used";
    assert_eq!(error.to_string(), format!("the authorization server does not issue a token: {reason}"));
    for (code, needs_login) in [
        ("invalid_grant", true),
        ("bad_refresh_token", true),
        ("invalid_client", true),
        ("temporarily_unavailable", false),
    ] {
        site.state().instead.clear();
        let store = site.logged_in().await;
        let upstream = site.open(&store).await.unwrap();
        site.state().valid = None;
        site.state().instead.insert("POST /token", refused(code));
        let message = failure(&upstream, "await far.ask({})").await;
        let expected = if needs_login {
            "login required: run `execbox login far`".to_owned()
        } else {
            format!(
                "login cannot be renewed: the authorization server does not issue a token: {code}: the code is used"
            )
        };
        assert!(message.contains(&expected), "{message}");
        let kept = store.load("far", &site.url).unwrap().unwrap();
        assert_eq!(kept.is_usable(), !needs_login, "{code}");
        let kept = serde_json::to_string(&kept).unwrap();
        assert_eq!(kept.contains("access-") || kept.contains("refresh-"), !needs_login, "{code}");
    }
}

#[tokio::test]
async fn the_tokens_of_a_form_are_read() {
    let site = Site::new().await;
    site.state().valid = Some(7);
    let body = "access_token=access-7&scope=repo%2Cgist&token_type=bearer".to_owned();
    let headers = "Content-Type: application/x-www-form-urlencoded\r\n".to_owned();
    site.state().instead.insert("POST /token", (200, headers, body));
    let credentials = serde_json::to_value(site.log_in().await).unwrap();
    assert_eq!((&credentials["accessToken"], &credentials["scopes"]), (&json!("access-7"), &json!(["repo", "gist"])));
}

const RESOURCE: &str = "GET /.well-known/oauth-protected-resource";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

fn none() -> (u16, String, String) {
    (404, String::new(), String::new())
}

#[tokio::test]
async fn metadata_are_found_at_each_place_whatever_the_others_have() {
    // The last place is the one that fits: its issuer is the origin.
    for places in [
        vec![OAUTH],
        vec![OPENID],
        vec!["/.well-known/oauth-authorization-server/mcp", OAUTH],
        vec!["/.well-known/openid-configuration/mcp", OPENID],
        vec!["/mcp/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/mcp", OPENID],
    ] {
        for has_resource in [false, true] {
            let site = Site::new().await;
            if !has_resource {
                site.state().instead.insert(RESOURCE, none());
            }
            site.state().places.clone_from(&places);
            site.log_in().await;
            let scope = site.sent("GET /authorize", "scope");
            assert_eq!(scope.is_some(), has_resource, "{places:?}");
        }
    }
    // A server with a path.
    for place in [
        "/.well-known/oauth-authorization-server/tenant/1",
        "/.well-known/openid-configuration/tenant/1",
        "/tenant/1/.well-known/openid-configuration",
        "/tenant/1/.well-known/oauth-authorization-server",
        OAUTH,
    ] {
        let site = Site::new().await;
        let issuer = format!("{}/tenant/1", site.origin());
        site.state().places = vec![place];
        site.state().metadata = json!({
            "authorization_servers": [issuer], "issuer": format!("{issuer}/"),
            "authorization_response_iss_parameter_supported": null,
        });
        let login = site.start(&OAuthClient::default()).await;
        assert!(login.is_ok(), "{place}: {:?}", login.err());
    }
}

#[tokio::test]
async fn a_document_that_does_not_fit_hides_no_other() {
    let site = Site::new().await;
    let origin = site.origin().to_owned();
    let json = |document: Json| (200, String::new(), document.to_string());
    let at = |place: &str| format!("resource_metadata=\"{origin}{place}\"");
    // The challenge names something that is not the metadata of this server.
    for answer in [
        json(json!({ "resource": "https://far.example/mcp", "authorization_servers": ["https://far.example"] })),
        json(json!({ "status": "ok" })),
        (200, String::new(), "<html>".to_owned()),
        (500, String::new(), String::new()),
        (302, "Location: https://far.example/\r\n".to_owned(), String::new()),
        none(),
    ] {
        site.state().challenge = Some(at("/named"));
        site.state().instead.insert("GET /named", answer);
        site.log_in().await;
        assert_eq!(site.sent("GET /authorize", "resource"), Some(site.url.clone()));
    }
    // If nothing fits, the error is about the first document.
    site.state().instead.insert("GET /named", json(json!({ "resource": "https://far.example/mcp" })));
    site.state().instead.insert(RESOURCE, none());
    let error = site.start(&OAuthClient::default()).await.err().unwrap();
    assert!(
        matches!(&error, LoginError::ResourceMismatch { found, .. } if found == "https://far.example/mcp"),
        "{error}"
    );
    site.state().instead.clear();
    site.state().challenge = None;
    // Of several authorization servers, one that works is found.
    let silent = "http://127.0.0.1:1";
    site.state().metadata = json!({ "authorization_servers": ["file:///x", "http://far.example", silent, 5, origin] });
    site.log_in().await;
    site.state().metadata = json!({ "authorization_servers": [silent] });
    let error = site.start(&OAuthClient::default()).await.err().unwrap().to_string();
    assert_eq!(error, format!("{silent}: cannot connect: connection refused"));
    site.state().metadata = Json::Null;
    site.state().places = vec!["/nowhere"];
    let error = site.start(&OAuthClient::default()).await.err().unwrap().to_string();
    assert_eq!(error, format!("no metadata of the authorization server found: {origin}"));
}

#[tokio::test]
async fn redirects_of_metadata_are_followed_within_the_origin() {
    let site = Site::new().await;
    site.state()
        .instead
        .insert("GET /.well-known/oauth-authorization-server ", (308, "Location: /moved\r\n".into(), String::new()));
    site.state().places = vec!["/moved"];
    site.log_in().await;
    site.state().instead.insert("GET /moved", (308, "Location: /moved\r\n".into(), String::new()));
    let error = site.start(&OAuthClient::default()).await.err().unwrap().to_string();
    assert_eq!(error, format!("{0}: redirects to {0}, which is not followed", site.origin()));
    let requests = site.state().requests.len();
    assert!(requests < 30, "{requests}");
}

#[tokio::test]
async fn a_server_without_metadata_has_the_default_endpoints() {
    let site = Site::new().await;
    site.state().instead.insert(RESOURCE, none());
    site.state().places = vec!["/nowhere"];
    site.log_in().await;
    assert_eq!(site.sent("GET /authorize", "resource"), Some(site.url.clone()));
    // Without a registration there, the server has no OAuth.
    for answer in [none(), (302, "Location: https://far.example/\r\n".to_owned(), String::new())] {
        site.state().instead.insert("POST /register", answer);
        let error = site.start(&OAuthClient::default()).await.err().unwrap();
        assert!(matches!(error, LoginError::NotSupported), "{error}");
    }
    // Metadata of another server are not replaced by assumptions.
    site.state().places = vec![OAUTH];
    site.state().metadata = json!({ "issuer": "https://far.example" });
    let error = site.start(&OAuthClient::default()).await.err().unwrap();
    assert!(matches!(error, LoginError::IssuerMismatch { .. }), "{error}");
}

#[tokio::test]
async fn a_handshake_without_a_token_does_not_hide_that_a_login_is_needed() {
    let site = Site::new().await;
    site.state().admits_handshake = true;
    site.state().challenge = Some("scope=\"basic\"".to_owned());
    assert_eq!(login_state(&site.url, "", Duration::from_mins(1)).await.unwrap(), LoginState::Needed);
    site.log_in().await;
    assert_eq!(site.sent("GET /authorize", "scope").as_deref(), Some("basic"));
}

/// Such servers reject the older handshake before they ask for a token.
#[tokio::test]
async fn servers_of_the_newest_version_say_what_a_login_needs() {
    for admits_handshake in [false, true] {
        let site = Site::new().await;
        (site.state().is_modern, site.state().admits_handshake) = (true, admits_handshake);
        site.state().challenge = Some("scope=\"basic\"".to_owned());
        let problem = site.open(&Arc::default()).await.err().unwrap();
        assert_eq!(problem, "MCP server \"far\": login required: run `execbox login far`");
        assert_eq!(login_state(&site.url, "", Duration::from_mins(1)).await.unwrap(), LoginState::Needed);
        let store = site.logged_in().await;
        assert_eq!(site.sent("GET /authorize", "scope").as_deref(), Some("basic"));
        assert_eq!(call(&site.open(&store).await.unwrap()).await, Ok(Some(json!("fine"))));
    }
}

#[tokio::test]
async fn a_client_is_known_by_the_url_of_its_metadata_where_that_is_supported() {
    let url = "https://app.example.com/execbox.json";
    let client = OAuthClient::default().client_metadata_url(url.to_owned());
    let site = Site::new().await;
    site.state().metadata = json!({ "client_id_metadata_document_supported": true });
    site.log_in_as(&client).await.unwrap();
    assert_eq!(site.count("POST /register"), 0);
    assert_eq!(site.sent("GET /authorize", "client_id").as_deref(), Some(url));
    assert_eq!(site.sent("POST /token", "client_id").as_deref(), Some(url));
    // Elsewhere the client registers itself; one that is configured comes first.
    site.state().metadata = Json::Null;
    site.log_in_as(&client).await.unwrap();
    assert_eq!(
        (site.count("POST /register"), site.sent("POST /token", "client_id").as_deref()),
        (1, Some("registered"))
    );
    site.state().metadata = json!({ "client_id_metadata_document_supported": true });
    let both = client.client_id("mine".to_owned());
    site.log_in_as(&both).await.unwrap();
    assert_eq!(site.sent("POST /token", "client_id").as_deref(), Some("mine"));
    for url in ["http://app.example.com/x", "https://app.example.com", "app.json"] {
        let client = OAuthClient::default().client_metadata_url(url.to_owned());
        let error = site.log_in_as(&client).await.unwrap_err();
        assert!(matches!(error, LoginError::ClientMetadataUrl), "{url}: {error}");
    }
}

/// A site with a server that each call needs the scope `write` at, and a login that has only `a` and `b`.
async fn without_write() -> (Site, Arc<Store>) {
    let site = Site::new().await;
    site.state().needed = Some("write");
    let store = site.logged_in().await;
    (site, store)
}

#[tokio::test]
async fn a_scope_that_a_call_lacks_is_requested_by_the_next_login() {
    let (site, store) = without_write().await;
    let upstream = site.open(&store).await.unwrap();
    for _ in 0..2 {
        let message = failure(&upstream, "await far.ask({})").await;
        let reason = "the login lacks the scope \"write\": run `execbox login far` to request it";
        assert!(message.contains(reason), "{message}");
    }
    let previous = store.load("far", &site.url).unwrap().unwrap();
    assert_eq!(previous.missing_scopes(), ["write"]);
    assert_eq!(site.count("POST /token"), 1, "a token that is accepted is not renewed");
    let credentials = site.log_in_again(&OAuthClient::default(), Some(&previous)).await.unwrap();
    assert_eq!(site.sent("GET /authorize", "scope").as_deref(), Some("a b write"));
    assert!(credentials.missing_scopes().is_empty());
    // The connection uses the new token at once.
    store.save("far", &site.url, Some(&credentials)).unwrap();
    assert_eq!(call(&upstream).await, Ok(Some(json!("fine"))));
    // A later login keeps what was granted, and configured scopes stay as they are.
    site.log_in_again(&OAuthClient::default(), Some(&credentials)).await.unwrap();
    assert_eq!(site.sent("GET /authorize", "scope").as_deref(), Some("a b write"));
    let configured = OAuthClient::default().scopes(vec!["a".to_owned()]);
    site.log_in_again(&configured, Some(&previous)).await.unwrap();
    assert_eq!(site.sent("GET /authorize", "scope").as_deref(), Some("a"));
}

#[tokio::test]
async fn a_lacking_scope_is_known_by_the_status_or_by_the_error() {
    for (status, challenge) in [(403, "scope=\"write\""), (401, "error=\"insufficient_scope\", scope=\"write\"")] {
        let (site, store) = without_write().await;
        let upstream = site.open(&store).await.unwrap();
        let answer = (status, format!("WWW-Authenticate: Bearer {challenge}\r\n"), String::new());
        site.state().instead.insert("POST /mcp", answer);
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.contains("the login lacks the scope \"write\""), "{status}: {message}");
        assert_eq!(store.load("far", &site.url).unwrap().unwrap().missing_scopes(), ["write"]);
        assert_eq!(site.count("POST /token"), 1, "a token that is accepted is not renewed");
    }
}

#[tokio::test]
async fn scopes_that_a_server_asks_for_are_limited() {
    let (site, store) = without_write().await;
    let upstream = site.open(&store).await.unwrap();
    for round in 0..5 {
        let scopes: Vec<_> = (0..60).map(|at| format!("s{round}-{at}")).collect();
        let challenge = format!("Bearer error=insufficient_scope, scope=\"{} {}\"", scopes.join(" "), "x".repeat(5000));
        let answer = (403, format!("WWW-Authenticate: {challenge}\r\n"), String::new());
        site.state().instead.insert("POST /mcp", answer);
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.len() < 600, "{message}");
    }
    assert_eq!(store.load("far", &site.url).unwrap().unwrap().missing_scopes().len(), 100);
    // Without a name there is nothing to request.
    let answer = (403, "WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n".to_owned(), String::new());
    site.state().instead.insert("POST /mcp", answer);
    let message = failure(&upstream, "await far.ask({})").await;
    assert!(message.contains("credentials rejected (HTTP 403)"), "{message}");
}

#[tokio::test]
async fn offline_access_is_requested_where_it_is_supported() {
    let site = Site::new().await;
    site.state().metadata = json!({ "scopes_supported": ["a", "offline_access"] });
    site.state().challenge = Some("scope=\"a\"".to_owned());
    site.log_in().await;
    assert_eq!(site.sent("GET /authorize", "scope").as_deref(), Some("a offline_access"));
    assert_eq!(site.sent("GET /authorize", "prompt").as_deref(), Some("consent"));
}

/// A server whose authorization server is another one now.
async fn moved() -> (Site, Site, Credentials) {
    let (site, other) = (Site::new().await, Site::new().await);
    let before = site.log_in_as(&secret_client()).await.unwrap();
    site.state().metadata = json!({ "authorization_servers": [other.origin()] });
    site.state().valid = None;
    other.state().resource = Some(site.url.clone());
    other.state().registration = json!({ "client_id": "other" });
    (site, other, before)
}

#[tokio::test]
async fn a_client_registers_again_with_another_authorization_server() {
    let (site, other, _) = moved().await;
    let before = {
        site.state().metadata = Json::Null;
        site.log_in().await
    };
    site.state().metadata = json!({ "authorization_servers": [other.origin()] });
    (site.state().valid, site.state().refresh_is_valid) = (None, false);
    let store = Arc::new(Store::default());
    store.save("far", &site.url, Some(&before)).unwrap();
    let error = site.open(&store).await.unwrap_err();
    assert!(error.contains("login required: run `execbox login far`"), "{error}");
    let after = site.log_in_again(&OAuthClient::default(), Some(&before)).await.unwrap();
    assert_eq!((other.count("POST /register"), other.count("POST /token")), (1, 1));
    assert_eq!(other.sent("GET /authorize", "client_id").as_deref(), Some("other"));
    assert_eq!(other.sent("POST /token", "client_id").as_deref(), Some("other"));
    let told = other.state().requests.iter().any(|(head, body)| format!("{head}{body}").contains("registered"));
    assert!(!told);
    site.state().valid = other.state().valid;
    store.save("far", &site.url, Some(&after)).unwrap();
    assert_eq!(call(&site.open(&store).await.unwrap()).await, Ok(Some(json!("fine"))));
}

#[tokio::test]
async fn the_secret_of_a_configured_client_is_not_told_to_another_authorization_server() {
    let (site, other, before) = moved().await;
    // The end of the login does not end the binding.
    site.state().refresh_is_valid = false;
    let store = Arc::new(Store::default());
    store.save("far", &site.url, Some(&before)).unwrap();
    assert!(site.open(&store).await.unwrap_err().contains("login required"));
    let before = store.load("far", &site.url).unwrap().unwrap();
    assert!(!before.is_usable());
    let error = site.log_in_again(&secret_client(), Some(&before)).await.unwrap_err();
    let expected = format!(
        "the server names the authorization server {}, but `oauth.clientId` is registered with {}; if that is right, set \
         `oauth.issuer` to it",
        other.origin(),
        site.origin()
    );
    assert_eq!(error.to_string(), expected);
    let pinned = |issuer: &str| secret_client().issuer(issuer.to_owned());
    let error = site.log_in_as(&pinned(site.origin())).await.unwrap_err();
    assert!(matches!(error, LoginError::OtherServer { .. }), "{error}");
    let told = other.state().requests.iter().any(|(head, body)| format!("{head}{body}").contains("s3cret"));
    assert!(!told && other.count("POST /token") == 0);
    site.log_in_again(&pinned(other.origin()), Some(&before)).await.unwrap();
    assert_eq!(other.count("POST /token"), 1);
}
