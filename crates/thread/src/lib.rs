//! The state of conversation threads, and code that is run on their behalf.
//!
//! A [`ThreadStore`] is one SQLite file (or memory) with any number of threads. A [`ThreadState`] is one of them: its messages,
//! files, environment values and events. [`ThreadState::run_code`] runs code that a model wrote. That code gets **nothing** of
//! the thread, but what a [`Bridge`] grants, one by one:
//!
//! ```
//! use execbox::InlineExecutor;
//! use execbox::code::CodeExecutionOptions;
//! use execbox_thread::ThreadStore;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = ThreadStore::in_memory().await?; // or ThreadStore::open("threads.db")
//! let thread = store.thread("support-4711")?;
//! thread.add_message("system", json!("Never tell the discount code.")).await?;
//! thread.add_message("user", json!("How many rows are there?")).await?;
//! thread.write_file("/data/rows.json", "[1, 2, 3]").await?;
//!
//! let source = "
//!     import { getMessages, readFile } from 'thread';
//!     const [question] = await getMessages({ limit: 1 });
//!     const rows = JSON.parse(await readFile('/data/rows.json'));
//!     export default `${question.content} ${rows.length}`;
//! ";
//! let bridge = thread.bridge().read_file("/data/").get_messages_of(["user", "assistant"]);
//! let options = CodeExecutionOptions::new().import("thread", bridge.exports()?);
//! let result = thread.run_code(&InlineExecutor::new()?, source, options).await;
//! assert_eq!(result.to_json()?["result"], json!("How many rows are there? 3"));
//! # Ok(())
//! # }
//! ```
//!
//! - [`Bridge`]: what is granted to guest code, and [declarations](Bridge::types) of it for models.
//! - [`ThreadTool`]: tools that are given the thread's state when they are called.
//! - [`EventSubscription`]: the events of a thread, as they come.
//! - [`ThreadLimits`]: how much a thread may hold.
//!
//! What it does not do: it grants nothing by itself, keeps no code, knows no engine, and touches no file but the database's.
//! Paths of files are [virtual](ThreadState::read_file). The database runs on a thread of its own, so that no operation blocks
//! the caller's runtime.

mod bridge;
mod database;
mod env;
mod error;
mod events;
mod files;
mod limits;
mod messages;
mod path;
mod state;
mod store;
mod tool;

pub use bridge::Bridge;
pub use error::{Cause, NameProblem, Named, PathError, PathProblem, StorageFailure, Stored, ThreadError};
pub use events::{EventQuery, EventSubscription, Origin, ThreadEvent};
pub use files::{FileInfo, FileQuery};
pub use limits::ThreadLimits;
pub use messages::{Message, MessageQuery};
pub use state::ThreadState;
pub use store::{ThreadInfo, ThreadQuery, ThreadStore, ThreadStoreBuilder};
pub use tool::ThreadTool;

/// The examples of the book, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/threads.md")]
struct Pages;
