//! MCP servers as providers.
//!
//! - [`import`] makes a provider from a connection that its caller owns.
//! - [`Upstream`] owns its connection: it follows changes of the tools, and connects again after a crash.
//!
//! An MCP server is not trusted: its list of tools is limited before it is read, invalid tools are rejected one by one,
//! and its failures are [`ToolError`]s of the affected calls.
//!
//! | module | purpose |
//! |---|---|
//! | `handle` | [`Upstream`]: the current provider, and when its tools are listed again |
//! | `reconnect` | the connection of an [`Upstream`], restored when it is lost |
//! | `handshake` | the first messages: which versions of the protocol a server speaks |
//! | `endpoint` | connecting to a child process (`child`), a URL (`http`, `http_client`, `posted`, `sse`) or a byte stream |
//! | `sessions` | what is known of the sessions of a connection over HTTP |
//! | `pipe`, `lines` | MCP over byte streams, with limits |
//! | `received`, `unexpected` | the same limits for streamable HTTP; responses that are no messages of MCP |
//! | `lenient` | for both: messages and lists of tools that are not quite as MCP defines them |
//! | `answers`, `unanswered`, `unasked` | for both: requests in each direction, unrequested messages |
//! | `import`, `tool`, `call_result`, `progress` | tools of MCP as tools of a provider |
//! | `watched` | changes of lists and updates of resources that servers report |
//! | `input`, `requests` | what servers ask during a call, forwarded to the client |
//! | `resources` | resources of MCP as two more tools |
//! | `features` | requests about prompts, resources and completions, as gateways pass them on |
//!
//! Servers are offered the capabilities of [`UpstreamOptions::clients`] (sampling, roots, elicitation).

mod answers;
mod call_result;
mod child;
mod client;
mod endpoint;
mod failure;
mod features;
mod handle;
mod handshake;
mod http;
mod http_client;
mod import;
mod input;
mod lenient;
mod lines;
mod nesting;
mod options;
mod pipe;
mod posted;
mod progress;
mod received;
mod reconnect;
mod requests;
mod resources;
mod sessions;
mod sse;
mod tool;
mod unanswered;
mod unasked;
mod unexpected;
mod watched;

use std::future::ready;

use execbox::ToolError;
use execbox_core::names::ProviderNameError;
use futures_util::future::BoxFuture;
use rmcp::model::{ProtocolVersion, RequestMetaObject};
use rmcp::service::{Peer, RoleClient, ServiceError};
use rmcp::transport::DynamicTransportError;

use crate::Secrets;
use crate::clients::Origin;
use crate::text::truncate;

pub(crate) use call_result::{WholeAnswer, is_error};
pub(crate) use handle::Remote;
pub(crate) use input::Relayed;
pub(crate) use lenient::{next_cursor, take_entries};

pub use child::{ChildCommand, LineSink};
pub use failure::{FailurePlace, ServerFailure};
pub(crate) use features::{
    COMPLETE, GET_PROMPT, LIST_PROMPTS, LIST_RESOURCES, LIST_TEMPLATES, READ_RESOURCE, SET_LEVEL, SUBSCRIBE,
    WatchPlace, tool_of_feature,
};
pub use handle::Upstream;

pub use import::{Imported, RejectedTool, Warning, import};
pub use options::{HttpProtocol, ResultFormat, UpstreamOptions};

use answers::Answers;
use pipe::Disconnect;
use progress::CallsInProgress;
use requests::Forwarding;

pub(crate) use watched::Watch;

/// Why an MCP server is not available as a provider.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// A name by which guest code cannot call a provider.
    #[error(transparent)]
    Name(#[from] ProviderNameError),
    /// A header that cannot be sent.
    #[error("invalid header {0:?}: expected a name without spaces and a value of printable characters on one line")]
    Header(String),
    /// A header that MCP itself sends.
    #[error("header {0:?} is reserved by MCP")]
    ReservedHeader(String),
    /// A URL that is not an `http` or `https` URL.
    #[error("invalid URL {0:?}: expected `https://HOST/PATH` or `http://HOST/PATH`")]
    Url(String),
    /// Connecting failed.
    #[error("MCP server {name:?}: {failure}")]
    Connect {
        /// The name of the provider.
        name: String,
        /// What failed.
        failure: ServerFailure,
    },
    /// Listing the tools failed.
    #[error("MCP server {name:?} failed to list its tools: {reason}")]
    List {
        /// The name of the provider.
        name: String,
        /// What failed, as a clause.
        reason: String,
    },
    /// The task that connects has panicked.
    #[error("internal error: the task that connects has panicked")]
    Panicked,
}

/// Provides the connection for each call: one that the caller of [`import`] owns, or one that is restored when lost.
trait Router: Send + Sync {
    /// The current connection. Connects first if necessary.
    fn route(&self) -> BoxFuture<'_, Result<Route, ToolError>>;

    /// Watches a resource of the server. `None` if that is not possible.
    fn watch(&self, _uri: String) -> Option<Watch> {
        None
    }

    /// Called when a call was answered.
    fn on_answer(&self) {}

    /// Called when a call was not answered because the connection is lost.
    fn on_loss(&self) {}

    /// Called when a call is dropped before its answer, by its timeout or by the end of the execution.
    fn on_abandoned(&self, _: &Route) {}
}

/// A connection for calls.
struct Route {
    peer: Peer<RoleClient>,
    /// Triggered when the connection is lost, if that can be detected without a call.
    disconnect: Disconnect,
    answers: Answers,
    progress: CallsInProgress,
    /// `None` if the owner of the connection handles requests of the server.
    forwarding: Option<Forwarding>,
}

impl Route {
    /// A connection whose owner handles notifications, and knows when it is lost.
    fn over(peer: Peer<RoleClient>) -> Self {
        let (disconnect, answers, progress) = Default::default();
        Self { peer, disconnect, answers, progress, forwarding: None }
    }

    /// What a request of a call has in its `_meta`: since MCP 2026-07-28 also what the client of the call can be asked for,
    /// instead of what all clients can be.
    fn metadata(&self, origin: &Origin) -> RequestMetaObject {
        let mut meta = origin.trace.clone();
        if let Some(logs) = &origin.logs {
            meta.set_log_level(logs.level);
        }
        let is_modern =
            self.peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28);
        if let Some(forwarding) = self.forwarding.as_ref().filter(|_| is_modern) {
            meta.set_client_capabilities(forwarding.offered_by(origin));
        }
        meta
    }
}

impl Router for Peer<RoleClient> {
    fn route(&self) -> BoxFuture<'_, Result<Route, ToolError>> {
        Box::pin(ready(Ok(Route::over(self.clone()))))
    }
}

/// What failed, as a clause. Guests can read it: it contains no messages of the system, which may have paths and addresses.
/// `secrets` are redacted from what is shortened here, because a part of one would not be found later.
fn reason(error: &ServiceError, disconnect: &Disconnect, secrets: &Secrets) -> String {
    match error {
        ServiceError::McpError(error) => truncate(error.message.to_string(), MAX_MESSAGE),
        ServiceError::TransportSend(error) => transport_reason(error, disconnect, secrets),
        ServiceError::TransportClosed => disconnect.reason(),
        ServiceError::Timeout { timeout } => no_response(*timeout),
        ServiceError::Cancelled { .. } => "request cancelled".to_owned(),
        _ => "unexpected response".to_owned(),
    }
}

fn transport_reason(error: &DynamicTransportError, disconnect: &Disconnect, secrets: &Secrets) -> String {
    http::reason(&*error.error, secrets).unwrap_or_else(|| disconnect.reason())
}

fn no_response(timeout: std::time::Duration) -> String {
    format!("no response within {}", humantime::format_duration(timeout))
}

/// The maximum length of an error message of a server, in characters.
const MAX_MESSAGE: usize = 4_000;

/// The maximum length of a message of a server, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
