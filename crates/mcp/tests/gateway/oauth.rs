//! Logging in to servers over HTTP: with an authorization server that follows the rules, and with others.

use std::sync::Arc;
use std::time::Duration;

use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
use execbox_mcp::config::{Config, Variables};
use execbox_mcp::oauth::{Login, LoginError, LoginState, OAuthClient, TokenStore as _, login_state, revoke};
use execbox_mcp::servers::{ServerState, Servers};
use execbox_mcp::upstream::Upstream;
use reqwest::Url;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fakes::until;
use crate::login_site::{Site, Store, browse, options};
use crate::remote::{canned, failure, fine, one_tool, run};

fn parameter(url: &str, name: &str) -> String {
    let url = Url::parse(url).unwrap();
    url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned()
}

#[tokio::test]
async fn a_client_registers_itself_logs_in_and_its_token_is_used() {
    let site = Site::new().await;
    assert_eq!(login_state(&site.url, "", Duration::from_mins(1)).await.unwrap(), LoginState::Needed);
    let store = Arc::new(Store::default());
    let error = site.open(&store).await.unwrap_err();
    assert_eq!(error, "MCP server \"far\": login required: run `execbox login far`");
    let credentials = site.log_in().await;
    assert!(credentials.is_usable());
    let shown = format!("{credentials:?} {:?}", OAuthClient::default().client_secret("s3cret".to_owned()));
    assert!(!shown.contains("access-1") && !shown.contains("refresh-1") && !shown.contains("s3cret"), "{shown}");
    store.save("far", &site.url, Some(&credentials)).unwrap();
    let options = options(&store);
    let upstream = Upstream::open_http("far", &site.url, &[], options.clone()).await.unwrap();
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
    let leaked = run(&upstream, "await far.ask({ leak: true })").await.outcome;
    assert_eq!(leaked, Ok(Some(json!("Some(\"access-1\")"))), "programs get what the server sent");
    assert_eq!(options.secrets.redact("Bearer access-1".to_owned()), "Bearer ${access_token}");
    assert_eq!(site.count("POST /register"), 1);
    assert_eq!(site.sent("GET /authorize", "scope").as_deref(), Some("a b"));
}

#[tokio::test]
async fn a_configured_client_is_used_and_not_registered() {
    let site = Site::new().await;
    let client = OAuthClient::default()
        .client_id("mine".to_owned())
        .client_secret("s3cret".to_owned())
        .scopes(vec!["c".to_owned()]);
    let credentials = site.log_in_as(&client).await.unwrap();
    assert_eq!(site.count("POST /register"), 0);
    {
        let state = site.state();
        let head =
            |start: &str| state.requests.iter().find(|(head, _)| head.starts_with(start)).unwrap().0.to_lowercase();
        assert!(head("GET /authorize").contains("client_id=mine") && head("GET /authorize").contains("scope=c "));
        assert!(head("POST /token").contains("authorization: basic bwluztpzm2nyzxq="), "mine:s3cret");
    }
    assert!(revoke(&credentials, "", Duration::from_mins(1)).await.unwrap());
    let revoked = site.state().requests.last().unwrap().clone();
    assert!(revoked.0.to_lowercase().contains("authorization: basic ") && revoked.1.contains("token=refresh-1"));
    site.state().instead.insert("POST /revoke", (500, String::new(), String::new()));
    let error = revoke(&credentials, "", Duration::from_mins(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "login refused: HTTP 500 Internal Server Error");
}

#[tokio::test]
async fn a_token_that_is_rejected_or_expired_is_renewed_once() {
    let site = Site::new().await;
    let store = site.logged_in().await;
    let upstream = site.open(&store).await.unwrap();
    // The token is rejected before it expires: ten calls detect it at once.
    site.state().valid = None;
    let calls = "(await Promise.all(Array.from({ length: 10 }, () => far.ask({})))).join()";
    assert_eq!(run(&upstream, calls).await.outcome, Ok(Some(json!(["fine"; 10].join(",")))));
    assert_eq!((site.count("POST /token"), site.state().issued), (2, 2));
    let kept = store.load("far", &site.url).unwrap().unwrap();
    assert_eq!(serde_json::to_value(&kept).unwrap()["refreshToken"], "refresh-2", "the new one is kept");
    // An expired token is not sent any more.
    let mut expired = serde_json::to_value(&kept).unwrap();
    expired["renewAt"] = json!(1);
    store.save("far", &site.url, Some(&serde_json::from_value(expired).unwrap())).unwrap();
    let requests = site.state().requests.len();
    assert_eq!(run(&upstream, calls).await.outcome, Ok(Some(json!(["fine"; 10].join(",")))));
    assert_eq!(site.state().issued, 3);
    let sent_old = site.state().requests[requests..].iter().any(|(head, _)| head.contains("access-2"));
    assert!(!sent_old);
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
    assert_eq!(site.state().issued, 3);
}

#[tokio::test]
async fn a_login_that_is_revoked_must_be_repeated_and_takes_effect_at_once() {
    let site = Site::new().await;
    let store = site.logged_in().await;
    let upstream = site.open(&store).await.unwrap();
    (site.state().valid, site.state().refresh_is_valid) = (None, false);
    for _ in 0..2 {
        let message = failure(&upstream, "await far.ask({})").await;
        assert!(message.contains("login required: run `execbox login far`"), "{message}");
    }
    assert_eq!(site.count("POST /token"), 2, "the rejected refresh token is not sent again");
    let ended = store.load("far", &site.url).unwrap().unwrap();
    let stored = serde_json::to_string(&ended).unwrap();
    assert!(!ended.is_usable() && !stored.contains("access-") && !stored.contains("refresh-"), "{stored}");
    assert!(revoke(&ended, "", Duration::from_mins(1)).await.unwrap(), "nothing is left to revoke");
    assert_eq!(site.count("POST /revoke"), 0);
    store.save("far", &site.url, Some(&site.log_in().await)).unwrap();
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
    // A failure that may be temporary does not end the login.
    site.state().valid = None;
    site.state().instead.insert("POST /token", (503, String::new(), String::new()));
    let message = failure(&upstream, "await far.ask({})").await;
    assert!(message.contains("login cannot be renewed: "), "{message}");
    site.state().instead.clear();
    assert_eq!(run(&upstream, "await far.ask({})").await.outcome, Ok(Some(json!("fine"))));
    // Without a refresh token, the end of the access token is the end of the login.
    let mut last = serde_json::to_value(store.load("far", &site.url).unwrap()).unwrap();
    last["refreshToken"] = Json::Null;
    store.save("far", &site.url, Some(&serde_json::from_value(last).unwrap())).unwrap();
    site.state().valid = None;
    let message = failure(&upstream, "await far.ask({})").await;
    assert!(message.contains("login required: "), "{message}");
}

#[tokio::test]
async fn a_token_belongs_to_the_name_and_the_url_of_its_server() {
    let (site, other) = (Site::new().await, Site::new().await);
    let store = site.logged_in().await;
    assert!(other.open(&store).await.unwrap_err().contains("login required"));
    let renamed = Upstream::open_http("near", &site.url, &[], options(&store)).await.unwrap_err().to_string();
    assert_eq!(renamed, "MCP server \"near\": login required: run `execbox login near`");
    let query = Upstream::open_http("far", &format!("{}?x=1", site.url), &[], options(&store)).await;
    assert!(query.unwrap_err().to_string().contains("login required"));
    let sent = other.state().requests.iter().any(|(head, _)| head.contains("access-"));
    assert!(!sent);
    // A header of the configuration is sent instead.
    let header = [("Authorization".to_owned(), "Bearer access-1".to_owned())];
    store.save("far", &site.url, None).unwrap();
    assert!(Upstream::open_http("far", &site.url, &header, options(&store)).await.is_ok());
}

#[tokio::test]
async fn no_redirect_is_followed_with_a_token() {
    let (site, elsewhere) = (Site::new().await, Site::new().await);
    let store = site.logged_in().await;
    for target in [elsewhere.url.as_str(), "/other"] {
        site.state().instead.insert("POST /mcp", (307, format!("Location: {target}\r\n"), String::new()));
        let error = site.open(&store).await.unwrap_err();
        assert!(error.contains("HTTP 307"), "{error}");
    }
    assert_eq!((elsewhere.state().requests.len(), site.count("POST /other")), (0, 0));
}

/// The message of a login that fails at its start.
async fn start_error(site: &Site) -> String {
    match site.start(&OAuthClient::default()).await {
        Ok(_) => panic!("the login has started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn metadata_of_another_server_or_without_encryption_are_rejected() {
    let site = Site::new().await;
    let origin = site.origin().to_owned();
    let plain =
        "is not encrypted (http://far.example): OAuth needs https, except on this computer (127.0.0.1, localhost)";
    let of_another = |found: &str| {
        let expected = format!("expected {origin}/mcp, got {found}; correct the `url`");
        format!("the server's OAuth metadata are for another URL: {expected}")
    };
    let other_issuer = format!("expected {origin}, got https://far.example");
    let cases = [
        (json!({ "resource": "https://far.example/mcp" }), of_another("https://far.example/mcp")),
        (json!({ "resource": format!("{origin}/mc") }), of_another(&format!("{origin}/mc"))),
        (
            json!({ "issuer": "https://far.example" }),
            format!("the authorization server has another identity than expected: {other_issuer}"),
        ),
        (
            json!({ "issuer": null }),
            format!("invalid OAuth metadata at {origin}/.well-known/oauth-authorization-server: missing `issuer`"),
        ),
        (json!({ "token_endpoint": "http://far.example/token" }), format!("the token endpoint {plain}")),
        (json!({ "authorization_endpoint": "http://far.example/" }), format!("the authorization endpoint {plain}")),
        (json!({ "registration_endpoint": "http://far.example/" }), format!("the registration endpoint {plain}")),
        (json!({ "token_endpoint": "file:///etc/passwd" }), "invalid URL: expected `https://HOST/PATH`".to_owned()),
        (
            json!({ "code_challenge_methods_supported": ["plain"] }),
            "the authorization server does not support PKCE with S256, which execbox requires".to_owned(),
        ),
        (
            json!({ "registration_endpoint": null }),
            "the authorization server does not register clients: register one there, and add \"oauth\": { \"clientId\": \
             \"…\" } to the server"
                .to_owned(),
        ),
    ];
    for (metadata, message) in cases {
        site.state().metadata = metadata;
        assert_eq!(start_error(&site).await, message);
    }
    assert_eq!((site.count("POST /token"), site.count("POST /register")), (0, 0));
    let error = Login::start("http://far.example/mcp", &OAuthClient::default(), None, "", Duration::from_mins(1)).await;
    assert_eq!(error.err().unwrap().to_string(), format!("the server {plain}"));
    let open = canned(|_, body| one_tool(body, |_| fine())).await;
    let error = Login::start(&open, &OAuthClient::default(), None, "", Duration::from_mins(1)).await.err().unwrap();
    assert!(matches!(error, LoginError::NotSupported), "{error}");
    assert_eq!(login_state(&open, "", Duration::from_mins(1)).await.unwrap(), LoginState::NotNeeded);
}

#[tokio::test]
async fn metadata_are_found_without_a_challenge_and_for_a_prefix_of_the_url() {
    let site = Site::new().await;
    site.state().challenge = Some(String::new());
    assert!(site.start(&OAuthClient::default()).await.is_ok());
    site.state().metadata = json!({ "resource": format!("{}/", site.origin()) });
    assert!(site.start(&OAuthClient::default()).await.is_ok());
    site.state().metadata = json!({ "resource": "https://far.example/mcp" });
    assert!(start_error(&site).await.contains("metadata are for another URL: "));
    site.state().metadata = json!({ "authorization_endpoint": format!("{}/authorize?state=x", site.origin()) });
    assert!(site.log_in_as(&OAuthClient::default()).await.is_ok());
    site.state().instead.insert("GET /.well-known/oauth-authorization-server", (503, String::new(), String::new()));
    let message = format!("{}: HTTP 503 Service Unavailable", site.origin());
    assert_eq!(start_error(&site).await, message);
}

/// The beginning of requests for the metadata of the resource.
const RESOURCE: &str = "GET /.well-known/oauth-protected-resource";

#[tokio::test]
async fn redirects_long_and_slow_responses_of_discovery_are_rejected() {
    let site = Site::new().await;
    let origin = site.origin().to_owned();
    let (elsewhere, long) = (Site::new().await, "x".repeat((256 << 10) + 1));
    for request in [RESOURCE, "GET /.well-known/oauth-authorization-server", "POST /register", "POST /mcp"] {
        let answers = [
            (
                (307, format!("Location: {}?secret=1\r\n", elsewhere.url), String::new()),
                format!("{origin}: redirects to {}, which is not followed", elsewhere.origin()),
            ),
            ((200, String::new(), long.clone()), format!("{origin}: response longer than 256 KiB")),
        ];
        for (answer, message) in answers {
            site.state().instead.insert(request, answer);
            let is_redirect = message.contains("redirects");
            match request {
                // Without metadata of the resource, the server can be its own authorization server.
                RESOURCE => drop(site.start(&OAuthClient::default()).await.unwrap()),
                // What the server itself answers is not read.
                "POST /mcp" if !is_redirect => drop(site.start(&OAuthClient::default()).await.unwrap()),
                _ => assert_eq!(start_error(&site).await, message),
            }
        }
        site.state().instead.clear();
    }
    assert_eq!(elsewhere.state().requests.len(), 0);
    // A server that does not answer, and one whose answer does not end.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let started = |url: String| async move {
        Login::start(&url, &OAuthClient::default(), None, "", Duration::from_millis(100))
            .await
            .err()
            .unwrap()
            .to_string()
    };
    let message = started(url.clone()).await;
    assert_eq!(message, format!("{}: no response within 100ms", url.strip_suffix("/mcp").unwrap()));
    tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Ok((mut stream, _)) = silent.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 401 X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n").await;
            streams.push(stream);
        }
    });
    let message = started(url).await;
    assert!(message.ends_with("no response within 100ms"), "{message}");
}

#[tokio::test]
async fn invalid_registrations_and_tokens_are_rejected() {
    let site = Site::new().await;
    site.state().instead.insert("POST /register", (400, String::new(), format!("no\n{}", "y".repeat(1000))));
    let error = start_error(&site).await;
    assert!(
        error.starts_with("the authorization server does not register this client: ") && error.len() < 600,
        "{error}"
    );
    assert!(!error.contains('\n'));
    site.state().instead.clear();
    let tokens = [
        (json!({ "token_type": "mac" }), "the authorization server issued a token that is not a bearer token"),
        (json!({ "access_token": "a b" }), "the authorization server issued an invalid token"),
        (json!({ "access_token": "x".repeat(20_000) }), "the authorization server issued an invalid token"),
        (json!({ "access_token": null }), "the authorization server does not issue a token: "),
    ];
    for (tokens, message) in tokens {
        site.state().tokens = tokens;
        let error = site.log_in_as(&OAuthClient::default()).await.unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    for answer in [
        (307, "Location: http://far.example/\r\n".to_owned(), String::new()),
        (200, String::new(), "x".repeat(300_000)),
    ] {
        site.state().instead.insert("POST /token", answer);
        let error = site.log_in_as(&OAuthClient::default()).await.unwrap_err();
        assert!(matches!(error, LoginError::Request(_)), "{error}");
    }
}

#[tokio::test]
async fn keys_in_the_url_of_a_server_are_not_told_to_the_authorization_server() {
    let site = Site::new().await;
    site.state().instead.insert("GET /.well-known/oauth-protected-resource", (404, String::new(), String::new()));
    let url = site.url.replace("http://", "http://user:passw0rd@") + "?key=s3cret";
    let login = Login::start(&url, &OAuthClient::default(), None, "", Duration::from_mins(1)).await.unwrap();
    assert_eq!(parameter(login.url(), "resource"), site.url);
    let told = site.state().requests.iter().any(|(head, _)| !head.starts_with("POST /mcp") && head.contains("s3cret"));
    assert!(!told);
}

/// Sends a request to the port of the browser. Returns its status.
async fn knock(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn only_the_browser_with_the_state_of_the_login_ends_it() {
    let site = Site::new().await;
    let login = site.start(&OAuthClient::default()).await.unwrap();
    let (url, state) = (login.url().to_owned(), parameter(login.url(), "state"));
    let port = Url::parse(&parameter(&url, "redirect_uri")).unwrap().port().unwrap();
    let finishing = tokio::spawn(login.finish());
    let _silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "404"),
        ("GET /callback?code=c&state=guessed HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET /callback?error=access_denied HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (format!("POST /callback?code=c&state={state} HTTP/1.1\r\n\r\n"), "400"),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)), "431"),
        ("\u{1}\r\n\r\n".to_owned(), "400"),
    ] {
        assert_eq!(knock(port, &request).await, status, "{request}");
    }
    assert!(!finishing.is_finished());
    assert!(browse(&url).await.contains("You can close this page"));
    assert!(finishing.await.unwrap().is_ok());
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "the port is closed");

    // The answer of another authorization server, and a refusal.
    let answers = [
        ("code=c&iss=https%3A%2F%2Ffar.example", "the authorization server has another identity than expected: "),
        ("code=c", "the authorization server does not name itself in its answer"),
        ("error=access_denied&error_description=not%0Anow&iss=ISSUER", "login refused: access_denied: not now"),
        // What another server says is not shown.
        ("error=access_denied&error_description=call+me", "the authorization server does not name itself"),
        (
            "error=call+me&iss=https%3A%2F%2Ffar.example",
            "the authorization server has another identity than expected: ",
        ),
        ("code=invented&iss=ISSUER", "the authorization server does not issue a token: "),
    ];
    for (answer, message) in answers {
        let login = site.start(&OAuthClient::default()).await.unwrap();
        let (state, callback) = (parameter(login.url(), "state"), parameter(login.url(), "redirect_uri"));
        let finishing = tokio::spawn(login.finish());
        browse(&format!("{callback}?{}&state={state}", answer.replace("ISSUER", site.origin()))).await;
        let error = finishing.await.unwrap().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[tokio::test]
async fn a_port_that_is_in_use_is_named() {
    let site = Site::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let client = OAuthClient::default().callback_port(port);
    let error = site.start(&client).await.err().unwrap().to_string();
    assert_eq!(error, format!("cannot listen on 127.0.0.1:{port}: address in use; change `oauth.callbackPort`"));
}

#[tokio::test]
async fn servers_that_need_a_login_say_so_and_connect_after_it() {
    let site = Site::new().await;
    let mut config = Config::default();
    let text = json!({ "mcpServers": { "bob's $(wiki)": { "url": site.url } } }).to_string();
    config.read(&text, &Variables(|_| None)).unwrap();
    let store = Arc::new(Store::default());
    let servers = Servers::start(config.servers, &options(&store), None);
    servers.settled().await;
    let reason = r"login required: run `execbox login 'bob'\''s $(wiki)'`";
    assert!(matches!(&servers.status()[0].state, ServerState::Failed(failure) if failure.to_string() == reason));
    let unavailable = servers.unavailable();
    assert_eq!((unavailable[0].name.as_str(), unavailable[0].reason.as_str()), ("bob_s_$_wiki", reason));
    store.save("bob's $(wiki)", &site.url, Some(&site.log_in().await)).unwrap();
    servers.retry_failed();
    until(|| matches!(servers.status()[0].state, ServerState::Ready { tools: 1, .. })).await;
    // The login ends while the server is connected.
    let call = async || {
        let providers = servers.providers();
        let request = ExecuteRequest::new("await bob_s_$_wiki.ask({})").provider(providers[0].clone());
        InlineExecutor::new().unwrap().execute(request).await.outcome
    };
    (site.state().valid, site.state().refresh_is_valid) = (None, false);
    assert!(call().await.unwrap_err().message.contains(reason));
    assert!(matches!(&servers.status()[0].state, ServerState::Failed(failure) if failure.to_string() == reason));
    assert_eq!(servers.unavailable().len(), 1);
    store.save("bob's $(wiki)", &site.url, Some(&site.log_in().await)).unwrap();
    assert_eq!(call().await, Ok(Some(json!("fine"))));
    assert!(matches!(servers.status()[0].state, ServerState::Ready { tools: 1, .. }));
    servers.close().await;
}
