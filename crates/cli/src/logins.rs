//! The logins of this user at MCP servers: a [`PrivateFile`] of their tokens.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use execbox_mcp::oauth::{Credentials, StoreError, TokenStore};

use crate::private::{Lock, PrivateError, PrivateFile};

/// The logins by the URL of the server, then by its name.
type Logins = BTreeMap<String, BTreeMap<String, Credentials>>;

/// The file of tokens.
#[derive(Debug)]
pub(crate) struct LoginStore(PrivateFile<Logins>);

impl LoginStore {
    /// The store of this user. Nothing is read or written yet.
    pub(crate) fn of_user() -> Result<Self, PrivateError> {
        PrivateFile::of_user("logins.json", "the tokens that `execbox login` has stored").map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Replaces the credentials of a server, after waiting for a renewal that is running: its result would be stored
    /// afterwards.
    pub(crate) fn replace(&self, server: &str, url: &str, new: Option<&Credentials>) -> Result<(), StoreError> {
        let _lock = self.lock(server, url).and_then(Lock::wait)?;
        self.save(server, url, new)
    }

    fn lock(&self, server: &str, url: &str) -> Result<Lock, PrivateError> {
        let mut hasher = DefaultHasher::new();
        (server, url).hash(&mut hasher);
        // A fixed number of locks serves any number of servers.
        self.0.lock(&format!("{}.lock", hasher.finish() % LOCKS))
    }
}

impl TokenStore for LoginStore {
    fn load(&self, server: &str, url: &str) -> Result<Option<Credentials>, StoreError> {
        let mut logins = self.0.read()?;
        Ok(logins.get_mut(url).and_then(|servers| servers.remove(server)))
    }

    fn save(&self, server: &str, url: &str, credentials: Option<&Credentials>) -> Result<(), StoreError> {
        let change = |logins: &mut Logins| {
            let servers = logins.entry(url.to_owned()).or_default();
            match credentials {
                Some(credentials) => servers.insert(server.to_owned(), credentials.clone()),
                None => servers.remove(server),
            };
            logins.retain(|_, servers| !servers.is_empty());
        };
        Ok(self.0.update(change)?)
    }

    fn try_lock(&self, server: &str, url: &str) -> Result<Option<Box<dyn Send>>, StoreError> {
        let lock = self.lock(server, url)?;
        Ok(lock.try_lock()?.map(|lock| Box::new(lock) as Box<dyn Send>))
    }
}

impl From<PrivateError> for StoreError {
    fn from(error: PrivateError) -> Self {
        Self(error.to_string())
    }
}

/// The number of locks. Servers that share a lock wait for one another.
const LOCKS: u64 = 16;
