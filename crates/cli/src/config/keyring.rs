//! A key of this user in the keyring of the system, and what is encrypted with it.
//!
//! The keyring is the Secret Service of the session on Linux, and the keychain on macOS. It can ask the user for a password,
//! or not answer at all: one thread asks it, and nobody waits for that longer than a limit.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use keyring::Error;
use keyring::v1::Entry;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::output::report;

/// Encrypts texts with ChaCha20-Poly1305.
#[derive(Clone)]
pub(crate) struct Key(Arc<LessSafeKey>);

/// Omits the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Self> {
        UnboundKey::new(&CHACHA20_POLY1305, bytes).ok().map(|key| Self(Arc::new(LessSafeKey::new(key))))
    }

    /// Encrypts a text for a place: it can be decrypted for that place only. `None` if the system has no random numbers.
    pub(crate) fn seal(&self, place: &str, text: &str) -> Option<String> {
        // Two of 2^32 random nonces are equal with a probability below 2^-32.
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut bytes = text.as_bytes().to_vec();
        let (place, random) = (Aad::from(place), Nonce::assume_unique_for_key(nonce));
        self.0.seal_in_place_append_tag(random, place, &mut bytes).ok()?;
        Some(BASE64_STANDARD.encode([&nonce, &bytes[..]].concat()))
    }

    /// Decrypts what [`seal`](Self::seal) has encrypted for this place with this key.
    pub(crate) fn open(&self, place: &str, sealed: &str) -> Option<String> {
        let mut bytes = BASE64_STANDARD.decode(sealed).ok()?;
        let (nonce, bytes) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.0.open_in_place(nonce, Aad::from(place), bytes).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyringError {
    #[error("no keyring is available: {0}")]
    Unavailable(String),
    #[error("the keyring does not answer: is it locked?")]
    Silent,
    #[error("the keyring is locked, or refuses access")]
    Refused,
    #[error("the keyring has no key of execbox")]
    NoKey,
    #[error("the entry \"execbox\" of the keyring is not a key: remove it")]
    Invalid,
}

/// What to do without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    Create,
    Fail,
}

/// The key of this user in the keyring of the system. Blocks, up to a limit. It is read once.
pub(crate) fn key(absent: Absent) -> Result<Key, KeyringError> {
    static KEY: OnceLock<Key> = OnceLock::new();
    static PENDING: Mutex<Option<Answers>> = Mutex::new(None);
    // Others wait for the one that asks.
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(key) = KEY.get() {
        return Ok(key.clone());
    }
    let (answers, limit) = pending.take().map_or_else(|| (ask(absent), LIMIT), |answers| (answers, BRIEF));
    let mut answer = answers.recv_timeout(limit.min(PATIENCE));
    if answer == Err(RecvTimeoutError::Timeout) && limit > PATIENCE {
        report::note(&"waiting for the keyring, which may ask for its password");
        answer = answers.recv_timeout(limit.saturating_sub(PATIENCE));
    }
    match answer {
        Ok(bytes) => {
            let key = Key::new(&bytes?).ok_or(KeyringError::Invalid)?;
            Ok(KEY.get_or_init(|| key).clone())
        }
        Err(RecvTimeoutError::Timeout) => {
            *pending = Some(answers);
            Err(KeyringError::Silent)
        }
        Err(RecvTimeoutError::Disconnected) => Err(KeyringError::Silent),
    }
}

type Answers = Receiver<Result<Vec<u8>, KeyringError>>;

/// Asks the keyring, in a thread.
fn ask(absent: Absent) -> Answers {
    let (answer, answers) = sync_channel(1);
    thread::spawn(move || {
        let bytes = match (stored(), absent) {
            (Err(KeyringError::NoKey), Absent::Create) => create(),
            (stored, _) => stored,
        };
        // Nobody waits any more if the program ends.
        let _ = answer.send(bytes);
    });
    answers
}

fn stored() -> Result<Vec<u8>, KeyringError> {
    entry()?.get_secret().map_err(failure)
}

/// Stores a new key. Returns that which is stored afterwards: another process can have been faster.
fn create() -> Result<Vec<u8>, KeyringError> {
    let mut bytes = vec![0; CHACHA20_POLY1305.key_len()];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| KeyringError::Unavailable("the system has no random numbers".to_owned()))?;
    entry()?.set_secret(&bytes).map_err(failure)?;
    stored()
}

fn entry() -> Result<Entry, KeyringError> {
    Entry::new(SERVICE, USER).map_err(|error| match (error, Entry::store_status()) {
        (Error::NoDefaultStore, Err(error)) => unavailable(error),
        (error, _) => failure(error),
    })
}

fn failure(error: Error) -> KeyringError {
    match error {
        Error::NoEntry => KeyringError::NoKey,
        Error::NoStorageAccess(_) => KeyringError::Refused,
        Error::Ambiguous(_) => KeyringError::Invalid,
        error => unavailable(&error),
    }
}

fn unavailable(error: &Error) -> KeyringError {
    match error {
        Error::PlatformFailure(error) | Error::NoStorageAccess(error) => KeyringError::Unavailable(error.to_string()),
        error => KeyringError::Unavailable(error.to_string()),
    }
}

/// The name of the entry.
const SERVICE: &str = "execbox";
const USER: &str = "the key of stored logins";

/// How long the keyring may take, which can ask the user for a password.
const LIMIT: Duration = Duration::from_mins(1);
/// The time after which a note says that the keyring has not answered yet.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long later requests wait for it.
const BRIEF: Duration = Duration::from_millis(100);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A key whose bytes are all the same.
    pub(crate) fn key_of(byte: u8) -> Key {
        Key::new(&[byte; 32]).unwrap()
    }

    #[test]
    fn a_text_is_decrypted_with_its_key_for_its_place_only() {
        let key = key_of(1);
        let sealed = key.seal("a", "text").unwrap();
        assert_eq!(key.open("a", &sealed).as_deref(), Some("text"));
        assert_eq!(key_of(1).open("a", &sealed).as_deref(), Some("text"));
        assert_eq!((key.open("b", &sealed), key_of(2).open("a", &sealed)), (None, None));
        assert_ne!(key.seal("a", "text").unwrap(), sealed, "a nonce is used once");
        let mut bytes = BASE64_STANDARD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(key.open("a", &BASE64_STANDARD.encode(&bytes)), None, "{at}");
            bytes[at] ^= 1;
        }
        for broken in ["", "AAAA", "!", &sealed[..8], "text"] {
            assert_eq!(key.open("a", broken), None, "{broken}");
        }
        assert!(Key::new(&[0; 31]).is_none());
    }
}
