//! The token of the requests to one server: taken from the store, renewed when it expires or is rejected.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore as _, InMemoryCredentialStore,
    OAuthClientConfig, StoredCredentials,
};
use serde_json::{Value as Json, json};
use tokio::sync::Mutex;

use super::address_scope::AddressScope;
use super::http::OAuthHttp;
use super::{Credentials, RequestProblem, StoreError, TokenStore};
use crate::{Changes, Secrets};

/// The tokens of one server. The store is read for each request, so that a login in another process takes effect at once.
pub(crate) struct Authorization {
    store: Arc<dyn TokenStore>,
    server: String,
    url: String,
    http: OAuthHttp,
    /// Receives the tokens, so that they are redacted.
    secrets: Secrets,
    /// Held while the tokens are renewed: concurrent requests renew them once.
    renewing: Mutex<()>,
    /// Why the last request had no valid token.
    problem: RwLock<Option<Unauthorized>>,
    /// Notified when `problem` changes.
    changes: Changes,
}

/// Why a request has no valid token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unauthorized {
    /// The user must log in. Contains the name of the server, as an argument of a command.
    #[error("login required: run `execbox login {0}`")]
    NeedsLogin(String),
    #[error("login cannot be renewed: {reason}; if that persists, run `execbox login {server}`")]
    Renewal { reason: String, server: String },
    /// The store failed. The reason is omitted, because guests can read the message.
    #[error("login unknown: the stored logins cannot be read; run `execbox login` to see why")]
    Store,
}

impl Authorization {
    /// `client` follows no redirects; `timeout` limits each of its requests.
    pub(crate) fn new(
        store: Arc<dyn TokenStore>,
        server: &str,
        url: &str,
        client: reqwest::Client,
        timeout: Duration,
        secrets: Secrets,
        changes: Changes,
    ) -> Self {
        let scope = Url::parse(url).map_or(AddressScope::Public, |url| AddressScope::of(&url));
        let (server, url, http) = (server.to_owned(), url.to_owned(), OAuthHttp::with_client(scope, client, timeout));
        let (renewing, problem) = (Mutex::default(), RwLock::default());
        Self { store, server, url, http, secrets, renewing, problem, changes }
    }

    /// Why the last request had no valid token, as a clause.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(ToString::to_string)
    }

    /// Records whether a request had a valid token.
    pub(crate) fn record(&self, problem: Option<&Unauthorized>) {
        if self.problem.read().unwrap_or_else(PoisonError::into_inner).as_ref() != problem {
            *self.problem.write().unwrap_or_else(PoisonError::into_inner) = problem.cloned();
            self.changes.notify();
        }
    }

    /// The access token, if the user has logged in.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<String>, Unauthorized> {
        match self.load().await? {
            None => Ok(None),
            Some(credentials) if credentials.is_fresh() => Ok(Some(credentials.access_token)),
            Some(credentials) => self.renew(credentials.access_token).await.map(Some),
        }
    }

    /// Returns another token than `rejected`. The renewal completes even if the future is dropped: if the new tokens were
    /// lost, they could not be renewed again.
    pub(crate) async fn renew(self: &Arc<Self>, rejected: String) -> Result<String, Unauthorized> {
        let this = Arc::clone(self);
        let renewed = tokio::spawn(async move { this.renew_once(&rejected).await }).await;
        renewed.unwrap_or_else(|_| Err(self.renewal_failed("internal error")))
    }

    pub(crate) fn needs_login(&self) -> Unauthorized {
        Unauthorized::NeedsLogin(self.argument())
    }

    fn renewal_failed(&self, reason: &str) -> Unauthorized {
        Unauthorized::Renewal { reason: reason.to_owned(), server: self.argument() }
    }

    /// The name of the server, as an argument of a command.
    fn argument(&self) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.server.chars().all(is_plain) { self.server.clone() } else { format!("{:?}", self.server) }
    }

    async fn renew_once(&self, rejected: &str) -> Result<String, Unauthorized> {
        let _turn = self.renewing.lock().await;
        let _lock = self.lock().await?;
        let Some(credentials) = self.load().await? else { return Err(self.needs_login()) };
        if credentials.access_token != rejected && credentials.is_fresh() {
            return Ok(credentials.access_token); // Another task or process has renewed it.
        }
        if credentials.refresh_token.is_none() {
            return Err(self.needs_login());
        }
        match refresh(&credentials, &self.http).await {
            Ok(renewed) => {
                self.save(Some(renewed.clone())).await?;
                self.add_secrets(&renewed);
                Ok(renewed.access_token)
            }
            Err(RenewalError::Rejected) => {
                self.save(None).await?;
                Err(self.needs_login())
            }
            Err(RenewalError::Failed(reason)) => Err(self.renewal_failed(&reason)),
        }
    }

    /// Waits until no other process renews the tokens, and takes the lock of the store.
    async fn lock(&self) -> Result<Box<dyn Send>, Unauthorized> {
        for _ in 0..LOCK_ATTEMPTS {
            if let Some(lock) = self.blocking(|store, server, url| store.try_lock(server, url)).await? {
                return Ok(lock);
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Err(self.renewal_failed("another process renews it for too long"))
    }

    async fn load(&self) -> Result<Option<Credentials>, Unauthorized> {
        let loaded = self.blocking(|store, server, url| store.load(server, url)).await?;
        if let Some(credentials) = &loaded {
            self.add_secrets(credentials);
        }
        Ok(loaded)
    }

    async fn save(&self, credentials: Option<Credentials>) -> Result<(), Unauthorized> {
        self.blocking(move |store, server, url| store.save(server, url, credentials.as_ref())).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn TokenStore, &str, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Unauthorized> {
        let (store, server, url) = (Arc::clone(&self.store), self.server.clone(), self.url.clone());
        let done = tokio::task::spawn_blocking(move || work(&*store, &server, &url)).await;
        done.map_err(|_| Unauthorized::Store)?.map_err(|_| Unauthorized::Store)
    }

    fn add_secrets(&self, credentials: &Credentials) {
        self.secrets.add_token("access_token", &credentials.access_token);
        for (name, secret) in
            [("refresh_token", &credentials.refresh_token), ("client_secret", &credentials.client_secret)]
        {
            if let Some(secret) = secret {
                self.secrets.add_token(name, secret);
            }
        }
    }
}

/// Why tokens are not renewed.
enum RenewalError {
    /// The refresh token is not valid any more.
    Rejected,
    /// Another failure, as a clause without URLs.
    Failed(String),
}

/// New tokens for a refresh token.
async fn refresh(credentials: &Credentials, http: &OAuthHttp) -> Result<Credentials, RenewalError> {
    let refreshed = request_tokens(credentials, http).await;
    let failed = |reason: &str| Err(RenewalError::Failed(reason.to_owned()));
    match (refreshed, http.take_failed()) {
        (Ok(response), _) => {
            credentials.clone().with_tokens(&response).map_err(|error| RenewalError::Failed(error.to_string()))
        }
        (Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired), _) => Err(RenewalError::Rejected),
        (Err(_), Some(error)) => match error.problem {
            RequestProblem::Redirect(_) => failed("the authorization server redirects"),
            problem => failed(&problem.to_string()),
        },
        (Err(_), None) => failed("the authorization server does not answer with a token"),
    }
}

async fn request_tokens(credentials: &Credentials, http: &OAuthHttp) -> Result<Json, AuthError> {
    let Credentials { client_id, client_secret, resource, token_endpoint, scopes, .. } = credentials;
    let http = Arc::new(http.clone());
    let mut manager = AuthorizationManager::new_with_oauth_http_client(resource.as_str(), http).await?;
    let mut metadata = AuthorizationMetadata::default();
    metadata.token_endpoint.clone_from(token_endpoint);
    metadata.authorization_endpoint.clone_from(token_endpoint); // Not used.
    if credentials.secret_in_body {
        let methods = "token_endpoint_auth_methods_supported".to_owned();
        metadata.additional_fields.insert(methods, json!(["client_secret_post"]));
    }
    manager.set_metadata(metadata);
    let mut client = OAuthClientConfig::new(client_id, resource);
    if let Some(secret) = client_secret {
        client = client.with_client_secret(secret);
    }
    manager.configure_client(client)?;
    let tokens = json!({
        "access_token": credentials.access_token, "token_type": "bearer", "refresh_token": credentials.refresh_token
    });
    let tokens = serde_json::from_value(tokens).map_err(|_| AuthError::AuthorizationRequired)?;
    let store = InMemoryCredentialStore::new();
    store.save(StoredCredentials::new(client_id.clone(), Some(tokens), scopes.clone(), None)).await?;
    manager.set_credential_store(store);
    let response = manager.refresh_token().await?;
    serde_json::to_value(response).map_err(|error| AuthError::InternalError(error.to_string()))
}

/// The pause between attempts to take a lock that another process holds, and the maximum number of attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const LOCK_ATTEMPTS: usize = 600;
