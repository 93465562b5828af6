//! The logins of this user at MCP servers: a [`PrivateFile`] of their tokens, encrypted with a key in the keyring of the
//! system where there is one.
//!
//! Only the key is in the keyring, so that tokens of any length can be renewed without asking it, and a renewal keeps a login
//! as it is stored.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use execbox_mcp::oauth::{Credentials, StoreError, TokenStore};
use serde::{Deserialize, Serialize};

use crate::config::keyring::{self, Absent, Key, KeyringError};
use crate::files::private_file::{Lock, PrivateError, PrivateFile};

/// The logins by the URL of the server, then by its name.
type Logins = BTreeMap<String, BTreeMap<String, Stored>>;

/// Credentials in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Encrypted { encrypted: String },
    Plain(Box<Credentials>),
}

/// Whether credentials are encrypted.
#[derive(Debug, Clone)]
pub(crate) enum Storage {
    Encrypted(Key),
    Plain,
}

/// Why a login cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginsError {
    #[error(transparent)]
    File(#[from] PrivateError),
    /// The login is encrypted.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    #[error("the login is encrypted with another key than that in the keyring")]
    OtherKey,
    #[error("the system has no random numbers")]
    Random,
}

/// The file of tokens.
#[derive(Debug)]
pub(crate) struct LoginStore {
    file: PrivateFile<Logins>,
    key: fn(Absent) -> Result<Key, KeyringError>,
}

impl LoginStore {
    /// The store of this user. Nothing is read or written yet.
    pub(crate) fn of_user() -> Result<Self, PrivateError> {
        let file = PrivateFile::of_user("logins.json", "the tokens that `execbox login` has stored")?;
        Ok(Self { file, key: keyring::key })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Encrypts with the key in the keyring. It is created if there is none.
    pub(crate) fn encrypted(&self) -> Result<Storage, LoginsError> {
        let _lock = self.file.lock("keyring.lock")?.wait()?;
        Ok(Storage::Encrypted((self.key)(Absent::Create)?))
    }

    /// The credentials of a server.
    pub(crate) fn stored(&self, server: &str, url: &str) -> Result<Option<Credentials>, LoginsError> {
        match self.file.read()?.get_mut(url).and_then(|servers| servers.remove(server)) {
            None => Ok(None),
            Some(Stored::Plain(credentials)) => Ok(Some(*credentials)),
            Some(Stored::Encrypted { encrypted }) => {
                let text = (self.key)(Absent::Fail)?.open(&place(server, url), &encrypted);
                let credentials = text.and_then(|text| serde_json::from_str(&text).ok());
                Ok(Some(credentials.ok_or(LoginsError::OtherKey)?))
            }
        }
    }

    /// Stores new credentials of a server, after waiting for a renewal that is running: its result would be stored afterwards.
    pub(crate) fn replace(
        &self,
        server: &str,
        url: &str,
        new: &Credentials,
        storage: &Storage,
    ) -> Result<(), LoginsError> {
        let _lock = self.lock(server, url)?.wait()?;
        self.set(server, url, Some(encode(server, url, new, storage)?))
    }

    /// Removes the credentials of a server, after waiting for a renewal that is running.
    pub(crate) fn remove(&self, server: &str, url: &str) -> Result<(), LoginsError> {
        let _lock = self.lock(server, url)?.wait()?;
        self.set(server, url, None)
    }

    /// Stores credentials as the previous ones are stored.
    fn renew(&self, server: &str, url: &str, new: &Credentials) -> Result<(), LoginsError> {
        let logins = self.file.read()?;
        let storage = match logins.get(url).and_then(|servers| servers.get(server)) {
            Some(Stored::Encrypted { .. }) => Storage::Encrypted((self.key)(Absent::Fail)?),
            _ => Storage::Plain,
        };
        self.set(server, url, Some(encode(server, url, new, &storage)?))
    }

    fn set(&self, server: &str, url: &str, stored: Option<Stored>) -> Result<(), LoginsError> {
        let change = |logins: &mut Logins| {
            let servers = logins.entry(url.to_owned()).or_default();
            match stored {
                Some(stored) => servers.insert(server.to_owned(), stored),
                None => servers.remove(server),
            };
            logins.retain(|_, servers| !servers.is_empty());
        };
        Ok(self.file.update(change)?)
    }

    fn lock(&self, server: &str, url: &str) -> Result<Lock, PrivateError> {
        let mut hasher = DefaultHasher::new();
        (server, url).hash(&mut hasher);
        // A fixed number of locks serves any number of servers.
        self.file.lock(&format!("{}.lock", hasher.finish() % LOCKS))
    }
}

fn encode(server: &str, url: &str, credentials: &Credentials, storage: &Storage) -> Result<Stored, LoginsError> {
    let Storage::Encrypted(key) = storage else { return Ok(Stored::Plain(Box::new(credentials.clone()))) };
    let text = serde_json::to_string(credentials).unwrap_or_default();
    let encrypted = key.seal(&place(server, url), &text).ok_or(LoginsError::Random)?;
    Ok(Stored::Encrypted { encrypted })
}

/// What a login is encrypted for, so that it cannot be moved to another server.
fn place(server: &str, url: &str) -> String {
    format!("{url:?} {server:?}") // Quoted, so that the end of the URL is known.
}

impl TokenStore for LoginStore {
    fn load(&self, server: &str, url: &str) -> Result<Option<Credentials>, StoreError> {
        Ok(self.stored(server, url)?)
    }

    fn save(&self, server: &str, url: &str, credentials: Option<&Credentials>) -> Result<(), StoreError> {
        match credentials {
            Some(credentials) => self.renew(server, url, credentials)?,
            None => self.set(server, url, None)?,
        }
        Ok(())
    }

    fn try_lock(&self, server: &str, url: &str) -> Result<Option<Box<dyn Send>>, StoreError> {
        let lock = self.lock(server, url).and_then(Lock::try_lock).map_err(LoginsError::from)?;
        Ok(lock.map(|lock| Box::new(lock) as Box<dyn Send>))
    }
}

impl From<LoginsError> for StoreError {
    fn from(error: LoginsError) -> Self {
        Self(error.to_string())
    }
}

/// The number of locks. Servers that share a lock wait for one another.
const LOCKS: u64 = 16;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::keyring::tests::key_of;

    const URL: &str = "https://wiki.example.com/mcp";

    /// A store in a new directory, with a key.
    fn store(key: fn(Absent) -> Result<Key, KeyringError>) -> (LoginStore, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let file = PrivateFile::at(directory.path().join("logins.json"), "tokens");
        (LoginStore { file, key }, directory)
    }

    fn credentials(token: &str) -> Credentials {
        let credentials = json!({
            "clientId": "c", "resource": URL, "tokenEndpoint": "https://a.example/token", "accessToken": token
        });
        serde_json::from_value(credentials).unwrap()
    }

    fn text(store: &LoginStore) -> String {
        std::fs::read_to_string(store.path()).unwrap()
    }

    #[test]
    fn a_login_stays_as_it_is_stored() {
        let (store, _directory) = store(|_| Ok(key_of(1)));
        for (storage, is_plain) in [(store.encrypted().unwrap(), false), (Storage::Plain, true)] {
            store.replace("wiki", URL, &credentials("token-1"), &storage).unwrap();
            assert_eq!(store.stored("wiki", URL).unwrap(), Some(credentials("token-1")));
            store.save("wiki", URL, Some(&credentials("token-2"))).unwrap();
            assert_eq!(store.load("wiki", URL).unwrap(), Some(credentials("token-2")));
            assert_eq!((text(&store).contains("token-2"), text(&store).contains("clientId")), (is_plain, is_plain));
            assert!(!text(&store).contains("token-1"));
        }
        store.remove("wiki", URL).unwrap();
        assert_eq!((store.load("wiki", URL).unwrap(), text(&store).as_str()), (None, "{}\n"));
    }

    #[test]
    fn an_encrypted_login_needs_its_key_and_its_server() {
        let (mut store, _directory) = store(|_| Ok(key_of(1)));
        let storage = store.encrypted().unwrap();
        store.replace("wiki", URL, &credentials("token-1"), &storage).unwrap();
        // An attacker moves the login to another server in the file.
        let mut logins = store.file.read().unwrap();
        let moved = logins.remove(URL).unwrap().remove("wiki").unwrap();
        let other = "https://far.example/mcp";
        store.set("wiki", other, Some(moved)).unwrap();
        assert!(matches!(store.stored("wiki", other), Err(LoginsError::OtherKey)));
        assert_ne!(place("b c", "a"), place("c", "a b"));
        store.key = |_| Ok(key_of(2));
        assert!(matches!(store.stored("wiki", URL), Err(LoginsError::OtherKey)));
        store.key = |_| Err(KeyringError::NoKey);
        assert!(matches!(store.stored("wiki", URL), Err(LoginsError::Keyring(KeyringError::NoKey))));
        // A renewal is not stored as plain text instead.
        assert_eq!(
            store.save("wiki", URL, Some(&credentials("token-2"))).unwrap_err().0,
            "the keyring has no key of execbox"
        );
        assert!(!text(&store).contains("token-2"));
        store.replace("wiki", URL, &credentials("token-3"), &Storage::Plain).unwrap();
        assert_eq!(store.stored("wiki", URL).unwrap(), Some(credentials("token-3")));
    }
}
