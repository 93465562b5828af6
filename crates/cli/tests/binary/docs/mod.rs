//! The pages of the repository: their commands and examples work, and their links have targets.
//!
//! The info string of a code block selects its treatment ([`examples`]):
//!
//! | info string | what the test does |
//! |---|---|
//! | `console` | runs the lines that begin with `$ ` and compares what they print; `...` stands for any text |
//! | `LANGUAGE file:NAME` | writes the block to NAME, for the commands below it |
//! | `json config` | reads it as a configuration of MCP servers, in which no key lacks an effect |
//! | `json clients` | reads it as a file of clients of a gateway |
//! | `conversation` | nothing: it is a test of the crate `execbox-serve` |
//! | `rust` | nothing: it is a doctest of the crate that the page describes |
//! | `text` | nothing: it is a diagram or a format |
//! | `LANGUAGE not-run: REASON` | nothing; [`examples::NOT_RUN`] counts these blocks |
//!
//! Facts in the text of pages are compared with the code: [`options`] and their defaults, environment [`variables`], [`keys`] of
//! files, names of the [`api`], [`limits`], and the tests that [`claims`] name.

mod api;
mod claims;
mod examples;
mod keys;
mod limits;
mod links;
mod options;
pub(crate) mod page;
mod pictures;
mod prose;
mod variables;
