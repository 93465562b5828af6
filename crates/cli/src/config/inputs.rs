//! Values of inputs (`${input:ID}`) that a user has given: a [`PrivateFile`].

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::private_file::{PrivateError, PrivateFile};

/// The values by the path of the configuration, then by the id of the input.
type Values = BTreeMap<String, BTreeMap<String, String>>;

/// The file of values.
pub(crate) struct InputStore(PrivateFile<Values>);

impl InputStore {
    /// The store of this user. Nothing is read or written yet.
    pub(crate) fn of_user() -> Result<Self, PrivateError> {
        PrivateFile::of_user("inputs.json", r#"{ "FILE": { "ID": "VALUE" } }"#).map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The value of an input of a configuration, if there is one.
    pub(crate) fn get(&self, config: &str, id: &str) -> Result<Option<String>, PrivateError> {
        Ok(self.0.read()?.get_mut(config).and_then(|values| values.remove(id)))
    }

    /// Stores a value.
    pub(crate) fn set(&self, config: &str, id: &str, value: &str) -> Result<(), PrivateError> {
        self.0.update(|values| {
            values.entry(config.to_owned()).or_default().insert(id.to_owned(), value.to_owned());
        })
    }
}
