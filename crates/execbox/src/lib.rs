//! Runs code written by language models, next to real tools and secrets.
//!
//! An [`Executor`] runs JavaScript or TypeScript in a new sandbox. The code can call the [tools](Tool) of the
//! [providers](Provider) that it is granted, and nothing else. The result is JSON.
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
//! | task | types |
//! |---|---|
//! | grant tools | [`Tool`], [`Provider`]: host functions with schemas; [`Provider::types`] describes them to models |
//! | execute a script | [`ExecuteRequest`] → [`ExecuteResult`], [`ExecuteError`] |
//! | run an ES module with values and functions of the host | [`code`] |
//! | describe code to a model, and show it the result | [`code_tool`] |
//! | decide about each call, or ask a person | [`policy`] |
//! | observe what happens: logs, calls, progress, ends | [`events`] |
//! | choose the isolation | [`InlineExecutor`], [`WorkerExecutor`], [`ProcessExecutor`], [`RemoteExecutor`], [`FallbackExecutor`] |
//! | set limits, see what was used | [`Limits`], [`Usage`], [`PoolOptions`], [`HostOptions`] |
//! | serve remote hosts | [`Runner`], [`transport::Listener`] |
//! | bring an engine, a language or a transport | [`engine::Engine`], [`language::Language`], [`transport::Transport`] |
//!
//! # One crate
//!
//! An application depends on `execbox` alone. The types that it meets are at the root and in the modules above. [`engine`],
//! [`language`] and [`budget`] are for those who bring an engine, a language or a transport, [`jail`] for those who print or check
//! how a process is confined. Their types are those of the crates `execbox-core` and `execbox-jail`. `execbox-core` has no stable
//! interface: each of its versions may change all that is not part of `execbox`. Crates of their own, each used together with
//! this one: `execbox-mcp` (servers of the Model Context Protocol, as providers and as a server that runs code),
//! `execbox-thread` (the state of conversations) and `execbox-v8` (an engine for programs that compute).
//!
//! # What the crate starts and opens
//!
//! Nothing is granted to a guest by default. The crate opens no file. The QuickJS engine has one thread that ticks while a
//! guest computes. A [`WorkerExecutor`] starts threads, a [`ProcessExecutor`] processes, and the types in [`transport`] open
//! the sockets and processes that they are configured with. An inline guest shares the process of its host: `docs/security.md`
//! in the repository states what that does not stop.
//!
//! # Features
//!
//! - `standard` (default): QuickJS and TypeScript, which `new` of the executors and of [`Runner`] put together. Without it, use
//!   `with_engine`.

mod call;
pub mod code;
pub mod code_tool;
pub mod engine;
pub mod events;
mod executor;
mod in_flight;
pub mod language;
mod limits;
pub mod policy;
mod request;
mod runtime;
mod session;
mod tools;
pub mod transport;

pub use call::{Effect, ToolContext, WaitForPerson};
pub use execbox_core::cause::{CallsSoFar, Cause, MemberPath, ReachedLimit, Unanswered};
pub use execbox_core::contract::script::ScriptFunction;
pub use execbox_core::engine::{LogLevel, LogLine};
pub use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult, StackFrame, ValueError};
pub use execbox_core::language::Position;
pub use execbox_core::manifest::{ProviderManifest, ToolManifest};
pub use execbox_core::names::ProviderNameError;
pub use execbox_core::pool::{PoolOptions, Rejected};
pub use execbox_core::program::{Amount, Limits};
pub use execbox_core::protocol::host::HostOptions;
pub use execbox_core::unawaited::{CallPlace, UnawaitedCalls};
pub use execbox_core::usage::{LimitError, Usage};
pub use execbox_core::value::TypeMismatch;
#[cfg(feature = "standard")]
pub use execbox_quickjs::LoadError;
/// The front end of the standard executors.
#[cfg(feature = "standard")]
pub use execbox_typescript::TypeScript;
pub use executor::Executor;
pub use executor::fallback::FallbackExecutor;
pub use executor::inline::InlineExecutor;
pub use executor::pooled::PooledBuilder;
pub use executor::process::{CommandError, ProcessExecutor, RunnerCommand};
pub use executor::remote::RemoteExecutor;
pub use executor::self_test::{CheckOutcome, SelfTestCheck, SelfTestReport};
pub use executor::worker::WorkerExecutor;
/// The type of the futures that an [`Executor`], a [`policy::Approver`] and a [`policy::Ask`] return.
pub use futures_util::future::BoxFuture;
pub use request::ExecuteRequest;
pub use session::parts::NeedsOwnProcess;
#[cfg(feature = "standard")]
pub use session::process::serve_if_runner;
pub use session::process::{
    ConfinedRunnerProcess, Probe, RunnerProcess, RunnerProcessOptions, SealedRunnerProcess, UnknownProbe,
    serve_if_runner_with,
};
pub use session::runner::{Runner, ServeError};
pub use session::serve::ListenOptions;
pub use tokio_util::sync::CancellationToken;
pub use tools::declarations;
pub use tools::direct::DirectCall;
pub use tools::provider::{Provider, ProviderBuilder, ProviderError};
pub use tools::schema::{Schema, SchemaError, UncheckedPart, ValidationError, Violation};
pub use tools::tool::{Tool, ToolError};

pub use execbox_core::budget;
pub use execbox_jail as jail;
/// The crate of [`JsonSchema`](schemars::JsonSchema), for [typed](Tool::typed) tools. Without a dependency on it, derive with
/// `#[schemars(crate = "execbox::schemars")]`.
pub use schemars;

/// The examples of the README and of the book, as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/embedding.md")]
    struct Embedding;

    #[doc = include_str!("../../../docs/errors.md")]
    struct Errors;

    #[doc = include_str!("../../../docs/executors.md")]
    struct Executors;

    #[doc = include_str!("../../../docs/engines.md")]
    struct Engines;

    #[doc = include_str!("../../../docs/modules.md")]
    struct Modules;
}
