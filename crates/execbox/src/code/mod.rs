//! `run_code`: ES modules with values, functions and promises of the host (code-execution specification).
//!
//! ```
//! use execbox::code::{CodeExecutionOptions, HostValue};
//! use execbox::{Executor, InlineExecutor};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = "
//!     import { readFile } from 'fs';
//!     const rows: number[] = JSON.parse(await readFile('/data/rows.json'));
//!     export default rows.reduce((a, b) => a + b, base);
//! ";
//! let read_file = HostValue::async_function("readFile", async |_| Ok(HostValue::from("[1, 2, 3]")));
//! let options = CodeExecutionOptions::new().import("fs", [("readFile", read_file)]).global("base", 10);
//! let result = InlineExecutor::new()?.run_code(source, options).await;
//! assert_eq!(result.to_json()?["result"], json!(16));
//! # Ok(())
//! # }
//! ```
//!
//! - [`CodeExecutionOptions`]: what is executed, what is granted, limits. [`HostValue`]: data, functions, promises.
//! - [`CodeExecution`]: the handle of a run. [`CodeExecutionResult`]: its outcome, reports and logs.
//!
//! Linking, statuses and errors are in `execbox_core::contract::module`.

mod calls;
mod execution;
mod inline;
mod options;
mod provider;
mod remote;
mod value;

pub use calls::OTHER_FUNCTION;
pub use execbox_core::contract::module::{CodeExecutionError, CodeExecutionLog, CodeExecutionResult, Status};
pub use execbox_core::language::Dialect;
pub use execbox_core::value::{
    AttachedBytes, BigInt, Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, Primitive, Reason,
    SerializationError, TaggedJson, TimeValue, ViewKind,
};
pub use execution::{CodeControl, CodeExecution};
pub use options::{CodeExecutionOptions, OptionsError};
pub use value::{Args, Handles, HostError, HostResult, HostValue, NoHandles};

pub(crate) use execution::Run;
pub(crate) use inline::run as run_inline;
pub(crate) use remote::run_code as run_remote;
