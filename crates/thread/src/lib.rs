//! The state of conversation threads.
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

pub use error::{Cause, NameProblem, Named, PathError, PathProblem, StorageFailure, Stored, ThreadError};
pub use events::{EventQuery, EventSubscription, Origin, ThreadEvent};
pub use files::{FileInfo, FileQuery};
pub use limits::ThreadLimits;
pub use messages::{Message, MessageQuery};
pub use state::ThreadState;
pub use store::{ThreadInfo, ThreadQuery, ThreadStore, ThreadStoreBuilder};
