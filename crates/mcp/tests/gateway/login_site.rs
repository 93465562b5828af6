//! An MCP server that requires a login, and its authorization server, for tests of logins.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use execbox_mcp::oauth::{Credentials, Login, LoginError, OAuthClient, StoreError, TokenStore};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use reqwest::Url;
use serde_json::{Value as Json, json};
use sha2::Digest as _;

use crate::remote::{canned, fine, one_tool};

/// Tokens in memory.
#[derive(Debug, Default)]
pub(crate) struct Store(Mutex<HashMap<(String, String), Credentials>>);

impl TokenStore for Store {
    fn load(&self, server: &str, url: &str) -> Result<Option<Credentials>, StoreError> {
        Ok(self.0.lock().unwrap().get(&(server.to_owned(), url.to_owned())).cloned())
    }

    fn save(&self, server: &str, url: &str, credentials: Option<&Credentials>) -> Result<(), StoreError> {
        let (mut all, key) = (self.0.lock().unwrap(), (server.to_owned(), url.to_owned()));
        match credentials {
            Some(credentials) => _ = all.insert(key, credentials.clone()),
            None => _ = all.remove(&key),
        }
        Ok(())
    }
}

/// An MCP server with one tool, and its authorization server at the same address.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Answers in place of the usual ones, by the beginning of the request.
    pub(crate) instead: HashMap<&'static str, (u16, String, String)>,
    /// Members of the metadata that differ, of either document.
    pub(crate) metadata: Json,
    /// Where the metadata of the authorization server are, if elsewhere.
    pub(crate) places: Vec<&'static str>,
    /// Members of the registration that differ.
    pub(crate) registration: Json,
    /// Members of the responses with tokens that differ; of renewals, in addition.
    pub(crate) tokens: Json,
    pub(crate) renewals: Json,
    /// Where the secret of the client must be: `body`, `header` or `nowhere`.
    pub(crate) secret_in: Option<&'static str>,
    /// The resource that tokens are requested for, if it is another one.
    pub(crate) resource: Option<String>,
    /// The parameters of the challenge, if they differ.
    pub(crate) challenge: Option<String>,
    /// Whether the handshake needs no token.
    pub(crate) admits_handshake: bool,
    /// Whether the server speaks MCP 2026-07-28 only.
    pub(crate) is_modern: bool,
    /// The scope that each call needs.
    pub(crate) needed: Option<&'static str>,
    /// The PKCE challenge of each code, and its scopes.
    codes: HashMap<String, (String, String)>,
    /// The number of the tokens that are valid, if any are: `access-N` and `refresh-N`.
    pub(crate) valid: Option<usize>,
    pub(crate) issued: usize,
    pub(crate) refresh_is_valid: bool,
    /// The scopes of the last token.
    granted: String,
    /// The heads and bodies of all requests.
    pub(crate) requests: Vec<(String, String)>,
}

impl Site {
    pub(crate) async fn new() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let answering = Arc::clone(&state);
        let url = canned(move |head, body| answering.lock().unwrap().answer(head, body)).await;
        Self { url, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The number of requests that begin with `start`.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.state().requests.iter().filter(|(head, _)| head.starts_with(start)).count()
    }

    pub(crate) fn origin(&self) -> &str {
        self.url.strip_suffix("/mcp").unwrap()
    }

    /// The parameter of the last request that begins with `start`.
    pub(crate) fn sent(&self, start: &str, parameter: &str) -> Option<String> {
        let state = self.state();
        let (head, body) = state.requests.iter().rev().find(|(head, _)| head.starts_with(start))?;
        let query = head.split(' ').nth(1).unwrap().split_once('?').map(|(_, query)| query);
        form(query.unwrap_or(body)).remove(parameter)
    }

    pub(crate) async fn start(&self, client: &OAuthClient) -> Result<Login, LoginError> {
        Login::start(&self.url, client, None, "", Duration::from_mins(1)).await
    }

    pub(crate) async fn log_in(&self) -> Credentials {
        self.log_in_as(&OAuthClient::default()).await.unwrap()
    }

    pub(crate) async fn log_in_as(&self, client: &OAuthClient) -> Result<Credentials, LoginError> {
        self.log_in_again(client, None).await
    }

    pub(crate) async fn log_in_again(
        &self,
        client: &OAuthClient,
        previous: Option<&Credentials>,
    ) -> Result<Credentials, LoginError> {
        let login = Login::start(&self.url, client, previous, "", Duration::from_mins(1)).await?;
        let url = login.url().to_owned();
        let browser = tokio::spawn(async move { browse(&url).await });
        let finished = login.finish().await;
        browser.await.unwrap();
        finished
    }

    /// A store with the credentials of a login as the server `far`.
    pub(crate) async fn logged_in(&self) -> Arc<Store> {
        let store = Arc::new(Store::default());
        store.save("far", &self.url, Some(&self.log_in().await)).unwrap();
        store
    }

    pub(crate) async fn open(&self, store: &Arc<Store>) -> Result<Upstream, String> {
        let upstream = Upstream::open_http("far", &self.url, &[], options(store)).await;
        upstream.map_err(|error| error.to_string())
    }
}

pub(crate) fn options(store: &Arc<Store>) -> UpstreamOptions {
    let restart_pause = Duration::from_millis(1);
    UpstreamOptions::default().tokens(Arc::<Store>::clone(store)).restart_pause(restart_pause)
}

impl State {
    fn answer(&mut self, head: &str, body: &str) -> (u16, String, String) {
        self.requests.push((head.to_owned(), body.to_owned()));
        let instead = self.instead.iter().find(|(start, _)| head.starts_with(**start));
        if let Some((_, answer)) = instead {
            return answer.clone();
        }
        let header = |name: &str| -> Option<String> {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned))
        };
        let host = header("host: ").unwrap();
        let origin = format!("http://{host}");
        let target = Url::parse(&origin).unwrap().join(head.split(' ').nth(1).unwrap()).unwrap();
        let json = |value: Json| (200, "Content-Type: application/json\r\n".to_owned(), value.to_string());
        match (head.split(' ').next().unwrap(), target.path()) {
            (_, "/mcp") => {
                let token = header("authorization: bearer ");
                let is_valid = token.is_some() && token == self.valid.map(|valid| format!("access-{valid}"));
                if self.is_modern && header("mcp-protocol-version: ").as_deref() != Some("2026-07-28") {
                    return (
                        400,
                        String::new(),
                        json!({ "error": { "code": -32020, "message": "no version" } }).to_string(),
                    );
                }
                if body.contains("server/discover") && self.is_modern && (is_valid || self.admits_handshake) {
                    let id = &serde_json::from_str::<Json>(body).unwrap()["id"];
                    let discovered = json!({
                        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }
                    });
                    return json(json!({ "jsonrpc": "2.0", "id": id, "result": discovered }));
                }
                if is_valid && body.contains("tools/call") && !self.has_needed_scope() {
                    let needed = self.needed.unwrap();
                    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\"");
                    return (403, format!("WWW-Authenticate: {challenge}\r\n"), String::new());
                }
                if is_valid || self.admits_handshake && !body.contains("tools/") {
                    return one_tool(body, |call| match call["params"]["arguments"]["leak"].as_bool() {
                        Some(true) => json!({ "content": [{ "type": "text", "text": format!("{token:?}") }] }),
                        _ => fine(),
                    });
                }
                let metadata = || format!("resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"");
                let challenge = self.challenge.clone().unwrap_or_else(metadata);
                (401, format!("WWW-Authenticate: Bearer {challenge}\r\n"), String::new())
            }
            ("GET", path) if path.starts_with("/.well-known/oauth-protected-resource") => json(with(
                json!({
                    "resource": format!("{origin}/mcp"), "authorization_servers": [origin],
                    "scopes_supported": ["a", "b"],
                }),
                &self.metadata,
            )),
            ("GET", path) if self.has_metadata_at(path) => json(with(
                json!({
                    "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
                    "revocation_endpoint": format!("{origin}/revoke"), "code_challenge_methods_supported": ["S256"],
                    "response_types_supported": ["code"], "authorization_response_iss_parameter_supported": true,
                }),
                &self.metadata,
            )),
            ("POST", "/register") => {
                let client: Json = serde_json::from_str(body).unwrap();
                let registered = json!({ "client_id": "registered", "redirect_uris": client["redirect_uris"] });
                json(with(registered, &self.registration))
            }
            ("GET", "/authorize") => {
                let fields = form(target.query().unwrap());
                assert_eq!(
                    (fields["code_challenge_method"].as_str(), fields["response_type"].as_str()),
                    ("S256", "code")
                );
                assert_eq!(fields["resource"], self.resource(&origin));
                let code = format!("code-{}", self.codes.len());
                let scope = fields.get("scope").cloned().unwrap_or_default();
                self.codes.insert(code.clone(), (fields["code_challenge"].clone(), scope));
                let mut back = Url::parse(&fields["redirect_uri"]).unwrap();
                let answer = [("code", &code), ("state", &fields["state"]), ("iss", &origin)];
                back.query_pairs_mut().extend_pairs(answer);
                (302, format!("Location: {back}\r\n"), String::new())
            }
            ("POST", "/token") => self.token(head, &form(body), &origin),
            ("POST", "/revoke") => {
                self.valid = None;
                json(Json::Null)
            }
            _ => (404, String::new(), String::new()),
        }
    }

    fn has_needed_scope(&self) -> bool {
        self.needed.is_none_or(|needed| self.granted.split(' ').any(|scope| scope == needed))
    }

    fn has_metadata_at(&self, path: &str) -> bool {
        if self.places.is_empty() {
            path == "/.well-known/oauth-authorization-server"
        } else {
            self.places.contains(&path)
        }
    }

    fn resource(&self, origin: &str) -> String {
        self.resource.clone().unwrap_or_else(|| format!("{origin}/mcp"))
    }

    fn token(&mut self, head: &str, fields: &HashMap<String, String>, origin: &str) -> (u16, String, String) {
        let json = "Content-Type: application/json\r\n".to_owned();
        let refused = || (400, json.clone(), r#"{ "error": "invalid_grant" }"#.to_owned());
        assert_eq!(fields["resource"], self.resource(origin));
        let secret_in =
            match (fields.contains_key("client_secret"), head.to_lowercase().contains("\nauthorization: basic ")) {
                (true, false) => "body",
                (false, true) => "header",
                (false, false) => "nowhere",
                (true, true) => panic!("the secret is sent twice"),
            };
        if self.secret_in.is_some_and(|expected| expected != secret_in) {
            return (401, json, r#"{ "error": "invalid_client" }"#.to_owned());
        }
        let is_renewal = fields["grant_type"] == "refresh_token";
        if fields["grant_type"] == "refresh_token" {
            if !self.refresh_is_valid || fields["refresh_token"] != format!("refresh-{}", self.issued) {
                return refused();
            }
        } else {
            let verifier = BASE64_URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(&fields["code_verifier"]));
            match self.codes.remove(&fields["code"]) {
                Some((challenge, scope)) if challenge == verifier => self.granted = scope,
                _ => return refused(),
            }
        }
        self.issued += 1;
        (self.valid, self.refresh_is_valid) = (Some(self.issued), true);
        let tokens = json!({
            "access_token": format!("access-{}", self.issued), "refresh_token": format!("refresh-{}", self.issued),
            "token_type": "Bearer", "expires_in": 3600,
        });
        let renewals = if is_renewal { &self.renewals } else { &Json::Null };
        (200, json, with(with(tokens, &self.tokens), renewals).to_string())
    }
}

fn form(text: &str) -> HashMap<String, String> {
    Url::parse(&format!("http://x/?{text}")).unwrap().query_pairs().into_owned().collect()
}

/// An object with other members; null removes one.
fn with(mut object: Json, others: &Json) -> Json {
    for (name, value) in others.as_object().into_iter().flatten() {
        match value {
            Json::Null => _ = object.as_object_mut().unwrap().remove(name),
            value => object[name] = value.clone(),
        }
    }
    object
}

/// Opens a URL as a browser does, which follows redirects. Returns the last page.
pub(crate) async fn browse(url: &str) -> String {
    let page = reqwest::Client::builder().tls_certs_only([]).build().unwrap().get(url).send().await;
    page.unwrap().text().await.unwrap()
}
