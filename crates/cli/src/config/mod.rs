//! What a configuration of servers is read with: its files, the environment, stored values of inputs, and logins.

pub(crate) mod context;
pub(crate) mod files;
pub(crate) mod inputs;
pub(crate) mod keyring;
pub(crate) mod logins;
