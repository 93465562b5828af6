//! An MCP server for examples: a small shop of outdoor goods with an embedded database.
//!
//! - `terms`: the date, the warehouses and the shipping fees.
//! - `data`: the initial data, generated from `words`, the same on every machine and at every start.
//! - `database`: SQLite in memory, rows as records, pages, errors.
//! - `tools`: the tools, one file per subject with its records, arguments and tools.
//!
//! Nothing is stored: changes are lost when the server ends.

mod data;
mod database;
mod terms;
mod tools;
mod words;

pub use database::ShopError;
pub use tools::Shop;
