//! Tools and providers: their names and schemas, their declarations for models, and their calls.

pub mod declarations;
pub(crate) mod direct;
pub(crate) mod dispatch;
pub(crate) mod finite;
pub(crate) mod provider;
pub(crate) mod schema;
pub(crate) mod tool;
