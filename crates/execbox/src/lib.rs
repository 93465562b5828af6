//! Runs code written by language models, next to real tools and secrets.
//!
//! A model writes JavaScript or TypeScript; an [`Executor`] runs it in a fresh sandbox; the code calls
//! the [tools](Tool) of the [providers](Provider) that you grant it, and nothing else; its answer comes back.
//!
//! ```
//! use execbox::{ExecuteRequest, Executor, InlineExecutor, Provider, Tool};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let weather = Tool::new("get-weather", async |input: Value, _| Ok(json!({ "city": input["city"], "celsius": 21 })))
//!     .description("The weather in a city, now")
//!     .input_schema(json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] }));
//! let tools = Provider::builder("tools").tool(weather).build()?;
//!
//! let executor = InlineExecutor::new()?;
//! let code = "const { celsius } = await tools.get_weather({ city: 'Lyon' }); celsius > 20 ? 'warm' : 'cool'";
//! let result = executor.execute(ExecuteRequest::new(code).provider(tools)).await;
//! assert_eq!(result.outcome, Ok(Some(json!("warm"))));
//! # Ok(())
//! # }
//! ```
//!
//! What each part does:
//! - [`Tool`], [`Provider`]: host functions with names and schemas, checked on the way in and out, and
//!   described to models as TypeScript ([`Provider::types`]).
//! - [`ExecuteRequest`]: code, the providers granted to it, its limits. [`ExecuteResult`]: what it came to.
//! - [`Executor`]: where the wall stands. [`InlineExecutor`] runs the guest in this process, on the
//!   task that awaits it; a guest that computes for long yields to the other tasks of its thread.
//!   [`RemoteExecutor`] runs it at the far end of a connection that you bring.
//! - [`Runner`]: the other side: executions for a host at the far end of a byte stream, by the runner
//!   protocol ([`core::protocol`]).
//!
//! What it does not do: it starts no threads of its own beside the engine's ticker, opens no files and
//! no sockets, and grants a guest nothing by default. An inline guest shares its host's process: see
//! `SECURITY.md` in the repository for what that does not stop.

pub mod code;
mod executor;
mod session;
mod tools;
pub mod transport;

pub use execbox_core::engine::{LogLevel, LogLine};
pub use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult};
pub use execbox_core::manifest::{ProviderManifest, ToolManifest};
pub use execbox_core::pool::{PoolOptions, Rejected};
pub use execbox_core::program::Limits;
pub use execbox_core::protocol::host::HostOptions;
#[cfg(feature = "standard")]
pub use execbox_quickjs::LoadError;
pub use executor::inline::InlineExecutor;
pub use executor::pooled::PooledBuilder;
pub use executor::process::{CommandError, ProcessExecutor, RunnerCommand};
pub use executor::remote::RemoteExecutor;
pub use executor::worker::WorkerExecutor;
pub use executor::{ExecuteRequest, Executor};
pub use session::runner::Runner;
#[cfg(feature = "standard")]
pub use session::serve::serve_if_runner;
pub use session::serve::{init_runner_process, serve_if_runner_with};
pub use tokio_util::sync::CancellationToken;
pub use tools::declarations;
pub use tools::provider::{Provider, ProviderBuilder, ProviderError};
pub use tools::schema::{Schema, SchemaError, ValidationError, Violation};
pub use tools::tool::{Tool, ToolContext, ToolError};

pub use execbox_core as core;

/// The examples of the README and of the book, as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/embedding.md")]
    struct Embedding;

    #[doc = include_str!("../../../docs/executors.md")]
    struct Executors;

    #[doc = include_str!("../../../docs/modules.md")]
    struct Modules;
}
