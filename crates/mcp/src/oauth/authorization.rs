//! The token of the requests to one server: taken from the store, renewed when it expires or is rejected.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::Url;
use tokio::sync::Mutex;

use super::address_scope::AddressScope;
use super::challenge::add_scopes;
use super::http::OAuthHttp;
use super::tokens::TokenError;
use super::{Credentials, RequestProblem, StoreError, TokenStore, line};
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
    /// The login is valid, but has too few scopes.
    #[error("the login lacks the scope {:?}: run `execbox login {server}` to request it", line(.scopes))]
    Scope { scopes: String, server: String },
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

    /// The name of the server, as an argument of a command that a user pastes into a shell.
    fn argument(&self) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        match self.server.chars().all(is_plain) {
            true => self.server.clone(),
            false => format!("'{}'", self.server.replace('\'', r"'\''")),
        }
    }

    async fn renew_once(&self, rejected: &str) -> Result<String, Unauthorized> {
        let _turn = self.renewing.lock().await;
        let _lock = self.lock().await?;
        let Some(credentials) = self.load().await? else { return Err(self.needs_login()) };
        if credentials.access_token != rejected && credentials.is_fresh() {
            return Ok(credentials.access_token); // Another task or process has renewed it.
        }
        let Some(token) = credentials.refresh_token.clone() else { return Err(self.needs_login()) };
        let grant = [("grant_type", "refresh_token"), ("refresh_token", &token)];
        match credentials.clone().request_tokens(&grant, &self.http).await {
            Ok(renewed) => {
                self.save(Some(renewed.clone())).await?;
                self.add_secrets(&renewed);
                Ok(renewed.access_token)
            }
            Err(error) if error.is_final() => {
                self.save(Some(credentials.without_tokens())).await?;
                Err(self.needs_login())
            }
            Err(error) => Err(self.renewal_failed(&reason(error))),
        }
    }

    /// Records the scopes that a request has lacked, so that the next login requests them. Returns why the request failed.
    pub(crate) async fn lacks(self: &Arc<Self>, scopes: Vec<String>) -> Unauthorized {
        let error = Unauthorized::Scope { scopes: scopes.join(" "), server: self.argument() };
        let this = Arc::clone(self);
        let recorded = tokio::spawn(async move { this.record_missing(&scopes).await }).await;
        match recorded {
            Ok(Err(failed)) => failed,
            _ => error,
        }
    }

    async fn record_missing(&self, scopes: &[String]) -> Result<(), Unauthorized> {
        let is_new = |known: &Credentials| {
            let mut all = known.missing_scopes.clone();
            add_scopes(&mut all, scopes);
            Some(all).filter(|all| all.len() > known.missing_scopes.len())
        };
        if self.load().await?.as_ref().and_then(is_new).is_none() {
            return Ok(());
        }
        let _turn = self.renewing.lock().await;
        let _lock = self.lock().await?;
        let Some(mut credentials) = self.load().await? else { return Ok(()) };
        let Some(missing_scopes) = is_new(&credentials) else { return Ok(()) };
        credentials.missing_scopes = missing_scopes;
        self.save(Some(credentials)).await
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

/// Why tokens are not renewed, as a clause without URLs.
fn reason(error: TokenError) -> String {
    match error {
        TokenError::Request(error) => match error.problem {
            RequestProblem::Redirect(_) => "the authorization server redirects".to_owned(),
            problem => problem.to_string(),
        },
        TokenError::Refused(refusal) => {
            format!("the authorization server does not issue a token: {}", refusal.reason)
        }
        TokenError::Bound | TokenError::Invalid => "the authorization server issued an invalid token".to_owned(),
    }
}

/// The pause between attempts to take a lock that another process holds, and the maximum number of attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const LOCK_ATTEMPTS: usize = 600;
