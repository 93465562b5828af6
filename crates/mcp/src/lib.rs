//! MCP on both sides: MCP servers as providers of tools ([`upstream`]), and an MCP server that runs code against providers
//! ([`server`]).
//!
//! [`config`] reads the configuration files of MCP clients, [`servers`] keeps their servers connected, and [`oauth`] logs in
//! to them. The crate contains no engine: executors are passed in.
//!
//! ```
//! use std::sync::Arc;
//!
//! use execbox::{ExecuteRequest, Executor as _, InlineExecutor, Provider, Tool};
//! use execbox_mcp::rmcp::ServiceExt as _;
//! use execbox_mcp::server::{CodeServer, ServerOptions};
//! use execbox_mcp::upstream::{Upstream, UpstreamOptions};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Providers as an MCP server with the tools `mcp_search_tools`, `mcp_execute_code` and `mcp_code`.
//! let hello = Tool::new("hello", async |input, _| Ok(json!(format!("Hello {}", input["name"]))));
//! let provider = Provider::builder("greeter").tool(hello).build()?;
//! let executor = Arc::new(InlineExecutor::new()?);
//! let server = CodeServer::new(executor.clone(), move || vec![provider.clone()], ServerOptions::default());
//!
//! // An MCP server as a provider: here the one above. `Upstream::open_child` starts a program, and
//! // `Upstream::open_http` connects to a URL.
//! let connect = move || {
//!     let (near, far) = tokio::io::duplex(1 << 16);
//!     let server = server.clone();
//!     tokio::spawn(async move { server.serve(far).await.expect("a handshake").waiting().await });
//!     near
//! };
//! let upstream = Upstream::open_stream("box", connect, UpstreamOptions::default()).await?;
//!
//! // A program that calls its tools.
//! let code = "(await box.mcp_code({ code: 'await greeter.hello({ name: 1 })' })).result";
//! let result = executor.execute(ExecuteRequest::new(code).provider(upstream.provider())).await;
//! assert_eq!(result.outcome, Ok(Some(json!("Hello 1"))));
//! upstream.close().await;
//! # Ok(())
//! # }
//! ```

mod backoff;
mod certificates;
mod changes;
mod clients;
pub mod config;
mod filter;
mod http_failure;
pub mod oauth;
mod open_requests;
mod scanner;
mod secrets;
pub mod server;
pub mod servers;
mod shapes;
mod store;
mod text;
mod trace;
pub mod upstream;

pub use changes::Changes;
pub use clients::Clients;
pub use filter::{AskEffect, AskFilter, Pattern, ToolFilter, UnmatchedPattern};
pub use rmcp;
pub use secrets::Secrets;
pub use shapes::Shapes;

/// The examples of the book, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/gateway.md")]
struct Pages;
