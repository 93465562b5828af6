//! The ways to an MCP server, each as often as it takes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use http::{HeaderName, HeaderValue};
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use tokio::io::{AsyncRead, AsyncWrite};

use super::UpstreamError;
use super::handle::Client;

/// A byte stream in both directions, to a server in this process for example.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A child process that is an MCP server on its standard streams.
///
/// Of this process's environment it gets what programs need to run at all (`PATH`, `HOME` and the like), and no
/// secrets: what else it needs is named in `env`.
#[derive(Debug, Clone, Default)]
pub struct ChildCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables, besides those that every child gets.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory. Default: this process's.
    pub directory: Option<PathBuf>,
    /// Whether its standard error is this process's. Default: it is thrown away.
    pub inherit_stderr: bool,
}

impl ChildCommand {
    fn spawn(&self) -> std::io::Result<TokioChildProcess> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.args).env_clear().kill_on_drop(true);
        command.envs(INHERITED.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value))));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let stderr = if self.inherit_stderr { Stdio::inherit() } else { Stdio::null() };
        TokioChildProcess::builder(command).stderr(stderr).spawn().map(|(child, _)| child)
    }
}

/// What every child gets of this process's environment.
const INHERITED: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// Where a server is.
pub(super) enum Source {
    Child(ChildCommand),
    Http { url: String, headers: HashMap<HeaderName, HeaderValue> },
    Stream(Box<dyn Fn() -> Box<dyn Duplex> + Send + Sync>),
}

impl Source {
    pub(super) fn http(url: &str, headers: &[(String, String)]) -> Result<Self, UpstreamError> {
        let header = |(name, value): &(String, String)| {
            let parsed = name.parse().ok().zip(value.parse().ok());
            parsed.ok_or_else(|| UpstreamError::Header(name.clone()))
        };
        Ok(Self::Http { url: url.to_owned(), headers: headers.iter().map(header).collect::<Result<_, _>>()? })
    }

    /// A new connection, past its handshake. The error is what failed, as the end of a sentence.
    pub(super) async fn connect(&self, client: Client) -> Result<RunningService<RoleClient, Client>, String> {
        let connected = match self {
            Self::Child(command) => {
                let child = command.spawn().map_err(|error| format!("its program does not start: {}", error.kind()))?;
                client.serve(child).await
            }
            Self::Http { url, headers } => {
                let config =
                    StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers.clone());
                client.serve(StreamableHttpClientTransport::from_config(config)).await
            }
            Self::Stream(open) => client.serve(open()).await,
        };
        connected.map_err(|error| match error {
            rmcp::service::ClientInitializeError::JsonRpcError(error) => error.message.into_owned(),
            _ => "it does not complete the handshake".to_owned(),
        })
    }
}
