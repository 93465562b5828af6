//! An MCP server to try things with: a small shop of outdoor goods, over an embedded database.
//!
//! - `terms`: the shop's day, its warehouses, what shipping costs.
//! - `data`: what is in the shop when it opens, the same on every machine and at every start; made of `words`.
//! - `database`: SQLite in memory, rows as records, pages, and what can go wrong.
//! - `tools`: what can be done here. Each file holds the records, the arguments and the tools of one matter.
//!
//! What this does not do: it keeps nothing. What tools write is gone when the server ends.

mod data;
mod database;
mod terms;
mod tools;
mod words;

pub use database::ShopError;
pub use tools::Shop;
