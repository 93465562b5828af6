//! How an MCP server becomes a provider: timeouts, limits, filter and secrets.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProtocolVersion;

use super::MAX_MESSAGE_BYTES;
use crate::oauth::TokenStore;
use crate::{Changes, Clients, Secrets, Shapes, ToolFilter};

/// How an MCP server becomes a provider.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UpstreamOptions {
    /// What guest code receives from a call. Default: [`ResultFormat::Data`].
    pub results: ResultFormat,
    /// The maximum duration of a tool call, which is then cancelled. Default: two minutes.
    pub call_timeout: Duration,
    /// The maximum duration of connecting, and of listing all tools. Default: one minute (`npx` may have to
    /// install the server first).
    pub connect_timeout: Duration,
    /// The version of MCP, before 2026-07-28, that the server is asked for: for servers that do less in a newer one. Default: the
    /// newest one that the server knows.
    pub protocol_version: Option<ProtocolVersion>,
    /// After an abandoned call, the server must answer a ping within this time. Otherwise its connection is closed, and
    /// the next call restarts it. Default: 20 seconds.
    pub ping_timeout: Duration,
    /// The pause between the first and the second attempt to connect again. It doubles with each attempt until a call
    /// is answered, up to 128 times. Default: 250 ms.
    pub restart_pause: Duration,
    /// The maximum number of tools; further ones are rejected. Default: 10 000.
    pub max_tools: usize,
    /// The maximum number of pages of tools. Default: 1 000.
    pub max_pages: usize,
    /// The maximum length of a schema, in bytes of JSON; a tool with a longer one is rejected. Default: 256 KiB.
    pub max_schema_bytes: usize,
    /// The maximum memory of the tools, in bytes: their names, descriptions, schemas, compiled schemas and declarations.
    /// Tools that do not fit are left out. Default: 64 MiB.
    pub max_catalog_bytes: usize,
    /// The maximum length of a description, in characters; a longer one is truncated. Default: 8 000.
    pub max_description: usize,
    /// The maximum length of the result of a call, in bytes of JSON; a call with a longer one fails. Default, and upper
    /// bound: 16 MiB.
    pub max_result_bytes: usize,
    /// Root certificates (PEM) that are trusted in addition to those of the system. Default: none.
    pub certificates: String,
    /// The clients that answer requests of the server during calls (sampling, elicitation). Default: none, the server is
    /// offered no capabilities.
    pub clients: Clients,
    /// Notified when the tools of an [`Upstream`](super::Upstream) may have changed. Default: no subscribers.
    pub changes: Changes,
    /// Which tools are imported. Default: all.
    pub filter: ToolFilter,
    /// Values that are redacted from the texts of the server that are for people and models: descriptions, progress, questions,
    /// standard error, and why a connection failed. Tokens of logins are added. What calls return is not changed: redact
    /// it where it leaves, as a [`CodeServer`](crate::server::CodeServer) with the same secrets does. Default: none.
    pub secrets: Secrets,
    /// Where the tokens of OAuth are kept. They are sent to servers over HTTP whose headers have no `Authorization`.
    /// Default: none; a server that requires a login fails.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// Remembers the shapes of results of tools without an output schema. Default: none.
    pub shapes: Option<Shapes>,
}

impl UpstreamOptions {
    execbox_core::setters! {
        results: ResultFormat,
        call_timeout: Duration,
        connect_timeout: Duration,
        protocol_version: impl Into<Option<ProtocolVersion>>,
        ping_timeout: Duration,
        restart_pause: Duration,
        max_tools: usize,
        max_pages: usize,
        max_schema_bytes: usize,
        max_catalog_bytes: usize,
        max_description: usize,
        max_result_bytes: usize,
        certificates: impl Into<String>,
        clients: Clients,
        changes: Changes,
        filter: ToolFilter,
        secrets: Secrets,
        tokens: Arc<dyn TokenStore>,
        shapes: impl Into<Option<Shapes>>,
    }
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            results: ResultFormat::default(),
            call_timeout: Duration::from_mins(2),
            connect_timeout: Duration::from_mins(1),
            protocol_version: None,
            ping_timeout: Duration::from_secs(20),
            restart_pause: Duration::from_millis(250),
            max_tools: 10_000,
            max_pages: 1_000,
            max_schema_bytes: 256 * 1024,
            max_catalog_bytes: 64 << 20,
            max_description: 8_000,
            max_result_bytes: MAX_MESSAGE_BYTES,
            certificates: String::new(),
            clients: Clients::default(),
            changes: Changes::default(),
            filter: ToolFilter::default(),
            secrets: Secrets::default(),
            tokens: None,
            shapes: None,
        }
    }
}

/// What guest code receives from a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ResultFormat {
    /// The data: the structured content if present, else the only text, as JSON if it is JSON, else the list of content;
    /// `null` without content. A result with `isError` is thrown.
    #[default]
    Data,
    /// The result as defined by MCP: `{content, structuredContent?, isError?}`. A failure is a result, too.
    Envelope,
}

/// The transport of a server over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HttpProtocol {
    /// Streamable HTTP; SSE if the server rejects the first message with status 400, 404 or 405.
    #[default]
    Detect,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with SSE, the transport of 2024-11-05.
    Sse,
}
