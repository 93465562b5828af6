//! MCP servers as providers.
//!
//! - [`wrap`] makes a provider of a connection that its caller keeps.
//! - [`Upstream`] keeps a connection itself: it follows changes of the catalogue and connects again after a crash.
//!
//! An MCP server is an outsider: its catalogue is capped before it is looked at, a tool that cannot be is left out
//! and the others work, and its failures are [`ToolError`]s of the calls that meet them.
//!
//! | where it is | what runs it |
//! |---|---|
//! | a child process on its standard streams | `child`, over `pipe` and `lines` |
//! | streamable HTTP, old and new | `remote` |
//! | a byte stream of the caller | `pipe` |
//!
//! What this does not do: it offers servers nothing (no sampling, no roots, no elicitation), and it knows neither
//! resources nor prompts.

mod child;
mod handle;
mod lines;
mod list;
mod pipe;
mod remote;
mod source;
mod tool;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use execbox::core::names::ProviderNameError;
use execbox::{Provider, ToolError};
use futures_util::future::BoxFuture;
use rmcp::service::{Peer, RoleClient, ServiceError};
use rmcp::transport::DynamicTransportError;

use crate::{Changes, Pattern, Secrets, ToolFilter};

pub use child::{ChildCommand, OnLine};
pub use handle::Upstream;
pub use source::Duplex;

use pipe::Lost;

/// How an MCP server becomes a provider.
#[derive(Debug, Clone)]
pub struct UpstreamOptions {
    /// What guest code gets from a call. Default: [`Results::Envelope`].
    pub results: Results,
    /// The longest a tool call may take; it is cancelled then. Default: two minutes.
    pub call_timeout: Duration,
    /// The longest that connecting, and each page of the catalogue, may take. Default: one minute
    /// (`npx` may have to install the server first).
    pub connect_timeout: Duration,
    /// How long a server in which a call was given up may take to answer a ping. One that takes longer hangs: it is ended, and
    /// started again by the next call. Default: 20 seconds.
    pub ping_timeout: Duration,
    /// The pause after a restart, before the next one; it doubles with every restart without an answered call, up to
    /// 128 times. Default: 250 ms.
    pub restart_pause: Duration,
    /// The most tools that are taken; further ones are left out. Default: 10 000.
    pub max_tools: usize,
    /// The most pages of the catalogue that are asked for. Default: 1 000.
    pub max_pages: usize,
    /// The longest schema, in bytes of JSON; a tool with a longer one is left out. Default: 256 KiB.
    pub max_schema_bytes: usize,
    /// The longest description, in characters; a longer one is cut. Default: 8 000.
    pub max_description: usize,
    /// The longest result of a call, in bytes of JSON; a longer one is an error of the call. Default, and the most that
    /// there is: 16 MiB.
    pub max_result_bytes: usize,
    /// Certificates of authorities (PEM) that are trusted besides the system's. Default: none.
    pub certificates: String,
    /// Whom an [`Upstream`] tells that its tools may have changed. Default: nobody.
    pub changes: Changes,
    /// Which of its tools there are. Default: all.
    pub filter: ToolFilter,
    /// What the server knows and must not tell. Default: nothing.
    pub secrets: Secrets,
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            results: Results::Envelope,
            call_timeout: Duration::from_mins(2),
            connect_timeout: Duration::from_mins(1),
            ping_timeout: Duration::from_secs(20),
            restart_pause: Duration::from_millis(250),
            max_tools: 10_000,
            max_pages: 1_000,
            max_schema_bytes: 256 * 1024,
            max_description: 8_000,
            max_result_bytes: MAX_MESSAGE_BYTES,
            certificates: String::new(),
            changes: Changes::default(),
            filter: ToolFilter::default(),
            secrets: Secrets::default(),
        }
    }
}

/// What guest code gets from a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Results {
    /// The result as MCP has it: `{content, structuredContent?, isError?}`. A failure is a result, too.
    #[default]
    Envelope,
    /// The structured content where there is some, else the envelope. A result with `isError` is thrown.
    Unwrapped,
}

/// A tool that was left out of a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its own name, cut where it is too long.
    pub tool: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// What became of a catalogue.
#[derive(Debug, Clone)]
pub struct Wrapped {
    /// The tools that work.
    pub provider: Provider,
    /// Those that do not.
    pub left_out: Vec<LeftOut>,
    /// How many there are that [`UpstreamOptions::filter`] does not let pass.
    pub withheld: usize,
    /// Those of its patterns that no tool fits: they may be misspelt.
    pub unused: Vec<Pattern>,
}

/// Why an MCP server is no provider.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// Guest code could not call it by that name.
    #[error(transparent)]
    Name(#[from] ProviderNameError),
    /// A header for it is none.
    #[error("header {0:?} cannot be sent: a name has no spaces, and a value is printable text on one line")]
    Header(String),
    /// A header that the protocol itself sends.
    #[error("header {0:?} cannot be chosen: MCP itself sends it")]
    ReservedHeader(String),
    /// It is nowhere.
    #[error("{0:?} is no address of an MCP server: write `https://host/path`, or `http://…` for one nearby")]
    Url(String),
    /// There is no connection.
    #[error("cannot connect to MCP server {name:?}: {reason}")]
    Connect {
        /// The provider's name.
        name: String,
        /// What failed.
        reason: String,
    },
    /// It does not tell its tools.
    #[error("MCP server {name:?} does not list its tools: {reason}")]
    List {
        /// The provider's name.
        name: String,
        /// What failed.
        reason: String,
    },
}

/// A provider of the tools of a connected MCP server. The caller keeps the connection: when it ends, calls fail.
pub async fn wrap(name: &str, peer: Peer<RoleClient>, options: &UpstreamOptions) -> Result<Wrapped, UpstreamError> {
    let route = Route { peer: peer.clone(), lost: Lost::default() };
    wrap_over(name, &route, Arc::new(peer), options).await
}

/// The catalogue over `route`, calls over `link`.
async fn wrap_over(
    name: &str,
    Route { peer, lost }: &Route,
    link: Arc<dyn Link>,
    options: &UpstreamOptions,
) -> Result<Wrapped, UpstreamError> {
    let list::Listed { tools, mut left_out, withheld, unused } = list::tools(peer, options).await.map_err(|error| {
        UpstreamError::List { name: name.to_owned(), reason: reason(&error, lost, &options.secrets) }
    })?;
    let tools = tools.into_iter().map(|tool| tool::wrapped(tool, &link, options));
    let mut builder = Provider::builder(name).tools(tools);
    let instructions = peer.peer_info().and_then(|info| info.instructions.clone());
    if let Some(instructions) = instructions {
        builder = builder.description(crate::text::cut(options.secrets.hide(instructions), options.max_description));
    }
    let (provider, refused) = builder.build_valid()?;
    left_out.extend(refused.iter().map(left_out_for));
    Ok(Wrapped { provider, left_out, withheld, unused })
}

fn left_out_for(error: &execbox::ProviderError) -> LeftOut {
    use execbox::ProviderError::{DuplicateTool, Schema};
    let tool = match error {
        Schema { tool, .. } | DuplicateTool { tool, .. } => tool.clone(),
        _ => String::new(),
    };
    LeftOut { tool, reason: error.to_string() }
}

/// Where calls go: a connection that its caller keeps, or one that is made again.
trait Link: Send + Sync {
    /// The connection to call over now.
    fn route(&self) -> BoxFuture<'_, Result<Route, ToolError>>;

    /// A call was answered over it.
    fn answered(&self) {}

    /// A call was not: the server did not get it, or is gone.
    fn unanswered(&self) {}

    /// Nobody waits for the answer to a call any more: it took too long, or its execution is over.
    fn given_up(&self, _: &Route) {}
}

/// A connection to call over.
struct Route {
    peer: Peer<RoleClient>,
    /// Set when it is lost, as far as anybody notices.
    lost: Lost,
}

impl Link for Peer<RoleClient> {
    fn route(&self) -> BoxFuture<'_, Result<Route, ToolError>> {
        Box::pin(ready(Ok(Route { peer: self.clone(), lost: Lost::default() })))
    }
}

/// What failed, without the words of system errors: they may name paths and addresses of this host.
fn reason(error: &ServiceError, lost: &Lost, secrets: &Secrets) -> String {
    match error {
        ServiceError::McpError(error) => crate::text::cut(secrets.hide(error.message.to_string()), MAX_MESSAGE),
        ServiceError::TransportSend(error) => transport_reason(error, lost),
        ServiceError::TransportClosed => lost.why(),
        ServiceError::Timeout { .. } => "it did not answer in time".to_owned(),
        ServiceError::Cancelled { .. } => "the request was cancelled".to_owned(),
        _ => "it answered something else than was asked for".to_owned(),
    }
}

fn transport_reason(error: &DynamicTransportError, lost: &Lost) -> String {
    remote::reason(&*error.error).unwrap_or_else(|| lost.why())
}

/// The longest message of a server, in characters.
const MAX_MESSAGE: usize = 4_000;

/// The longest message that a server may send, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
