//! Tools and providers: what a host grants to a guest, how it is described to models, and how it is called.

pub mod declarations;
pub(crate) mod dispatch;
mod finite;
pub(crate) mod provider;
pub(crate) mod schema;
pub(crate) mod tool;
