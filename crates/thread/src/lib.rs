//! The state of conversation threads, and code execution on their behalf.
//!
//! A [`ThreadStore`] is one SQLite database, in a file or in memory, with any number of threads. A [`ThreadState`] is one
//! thread: its messages, files, environment values and events. [`ThreadState::run_code`] runs code that a model wrote. That
//! code has access to **nothing** of the thread except what a [`Bridge`] grants:
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
//! - [`Bridge`]: access for guest code, with [declarations](Bridge::types) for models.
//! - [`ThreadTool`]: tools whose functions receive the thread's state.
//! - [`EventSubscription`]: the events of a thread as they are emitted.
//! - [`ThreadLimits`]: bounds on the size of a thread.
//!
//! File paths are [virtual](ThreadState::read_file): the crate accesses no file but the database. It stores no code and is
//! independent of the engine. The database runs on an OS thread of its own, so no operation blocks the caller's runtime.

mod bridge;
mod database;
mod env;
mod error;
mod events;
mod files;
mod inner;
mod limits;
mod messages;
mod origin;
mod path;
mod rows;
mod state;
mod store;
mod tool;

pub use bridge::Bridge;
pub use error::{Cause, NameProblem, Named, PathError, PathProblem, StorageFailure, Stored, ThreadError};
pub use events::{EventQuery, EventSubscription, ThreadEvent};
pub use files::{FileInfo, FileQuery};
pub use limits::ThreadLimits;
pub use messages::{Message, MessageQuery};
pub use origin::Origin;
pub use state::ThreadState;
pub use store::{ThreadInfo, ThreadQuery, ThreadStore, ThreadStoreBuilder};
pub use tool::ThreadTool;

/// The examples of the book, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/threads.md")]
struct Pages;
