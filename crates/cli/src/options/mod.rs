//! Groups of options that several commands share, each with the function that reads them.

pub(crate) mod engine;
pub(crate) mod executor;
pub(crate) mod jail;
pub(crate) mod limits;
pub(crate) mod servers;
pub(crate) mod state;
pub(crate) mod stub;
pub(crate) mod tls;
pub(crate) mod token;
pub(crate) mod units;
