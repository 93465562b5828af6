//! Logins with a keyring: a Secret Service of its own, which the binary reaches as it reaches that of a desktop.

#![expect(clippy::unused_self, clippy::needless_pass_by_value, reason = "the methods of interfaces are so")]

use std::collections::HashMap;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use zbus::blocking::connection::Builder;
use zbus::zvariant::{ObjectPath, OwnedObjectPath, OwnedValue, Value};
use zbus::{fdo, interface};

/// What the keyring has: the secret of one item, and whether it is locked.
#[derive(Default)]
pub(super) struct Keyring {
    item: Mutex<Option<Secret>>,
    pub(super) is_locked: Mutex<bool>,
}

/// A session, parameters of its encryption, the value, and its type.
type Secret = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

impl Keyring {
    /// Serves a keyring at the address of a session bus.
    pub(super) fn serve(directory: &Path) -> (Arc<Self>, String) {
        let path = directory.join("bus");
        let listener = UnixListener::bind(&path).unwrap();
        let keyring = Arc::new(Self::default());
        let serving = Arc::clone(&keyring);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let keyring = Arc::clone(&serving);
                thread::spawn(move || {
                    let guid = zbus::Guid::generate();
                    let bus = Builder::async_io_unix_stream(stream.unwrap()).server(guid).unwrap().p2p();
                    let bus = bus.serve_at("/org/freedesktop/DBus", Bus).unwrap();
                    let bus = bus.serve_at(SERVICE, Service(Arc::clone(&keyring))).unwrap();
                    let bus = bus.serve_at(COLLECTION, Collection(Arc::clone(&keyring))).unwrap();
                    let bus = bus.serve_at(ITEM, Item(keyring)).unwrap();
                    if let Ok(connection) = bus.build() {
                        connection.closed();
                    }
                });
            }
        });
        (keyring, format!("unix:path={}", path.display()))
    }

    pub(super) fn has_item(&self) -> bool {
        self.item.lock().unwrap().is_some()
    }

    pub(super) fn clear(&self) {
        *self.item.lock().unwrap() = None;
    }
}

const SERVICE: &str = "/org/freedesktop/secrets";
const COLLECTION: &str = "/org/freedesktop/secrets/collection/login";
const ITEM: &str = "/org/freedesktop/secrets/collection/login/1";

fn path(text: &str) -> OwnedObjectPath {
    ObjectPath::try_from(text.to_owned()).unwrap().into()
}

/// The bus, as far as a client needs it.
struct Bus;

#[interface(name = "org.freedesktop.DBus")]
impl Bus {
    fn hello(&self) -> String {
        ":1.1".to_owned()
    }

    fn add_match(&self, rule: String) {
        drop(rule);
    }

    fn remove_match(&self, rule: String) {
        drop(rule);
    }

    fn get_name_owner(&self, name: String) -> String {
        drop(name);
        ":1.2".to_owned()
    }
}

struct Service(Arc<Keyring>);

#[interface(name = "org.freedesktop.Secret.Service")]
impl Service {
    /// Agrees on the key of a session. With the public key 1, all sessions have the same.
    fn open_session(&self, algorithm: String, input: Value<'_>) -> (OwnedValue, OwnedObjectPath) {
        drop((algorithm, input));
        (Value::from(vec![1_u8]).try_into().unwrap(), path("/session"))
    }

    fn search_items(&self, attributes: HashMap<String, String>) -> (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) {
        assert_eq!(attributes["service"], "execbox");
        let found: Vec<_> = self.0.has_item().then(|| path(ITEM)).into_iter().collect();
        if *self.0.is_locked.lock().unwrap() { (Vec::new(), found) } else { (found, Vec::new()) }
    }

    /// The user refuses.
    fn unlock(&self, objects: Vec<OwnedObjectPath>) -> fdo::Result<(Vec<OwnedObjectPath>, OwnedObjectPath)> {
        Err(fdo::Error::AccessDenied(format!("{objects:?}")))
    }

    fn read_alias(&self, name: String) -> OwnedObjectPath {
        assert_eq!(name, "default");
        path(COLLECTION)
    }
}

struct Collection(Arc<Keyring>);

#[interface(name = "org.freedesktop.Secret.Collection")]
impl Collection {
    fn create_item(
        &self,
        properties: HashMap<String, Value<'_>>,
        secret: Secret,
        replace: bool,
    ) -> (OwnedObjectPath, OwnedObjectPath) {
        assert!(properties.contains_key("org.freedesktop.Secret.Item.Label") && replace);
        *self.0.item.lock().unwrap() = Some(secret);
        (path(ITEM), path("/"))
    }

    #[zbus(property)]
    fn locked(&self) -> bool {
        *self.0.is_locked.lock().unwrap()
    }
}

struct Item(Arc<Keyring>);

#[interface(name = "org.freedesktop.Secret.Item")]
impl Item {
    fn get_secret(&self, session: OwnedObjectPath) -> Secret {
        assert_eq!(session, path("/session"));
        self.0.item.lock().unwrap().clone().unwrap()
    }

    #[zbus(property)]
    fn locked(&self) -> bool {
        *self.0.is_locked.lock().unwrap()
    }
}
