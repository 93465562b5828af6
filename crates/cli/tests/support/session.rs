//! A running `execbox mcp` with a client.

use std::path::Path;
use std::process::Stdio;

use execbox_mcp::rmcp::model::{CallToolRequestParams, CallToolResult};
use execbox_mcp::rmcp::service::{RoleClient, RunningService, Service, ServiceExt as _};
use serde_json::{Value as Json, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::transcript::{BINARY, text};

/// A running `execbox mcp` and an MCP client of it.
pub(crate) struct Session<C: Service<RoleClient> = ()> {
    pub(crate) client: RunningService<RoleClient, C>,
    pub(crate) process: Child,
}

impl Session {
    pub(crate) async fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::start_with((), dir, arguments).await
    }
}

impl<C: Service<RoleClient>> Session<C> {
    pub(crate) async fn start_with(client: C, dir: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("mcp").args(arguments).current_dir(dir).kill_on_drop(true);
        command.env("XDG_RUNTIME_DIR", dir).env("XDG_CONFIG_HOME", dir.join("home"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let streams = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
        let client = client.serve(streams).await.unwrap();
        Self { client, process }
    }

    pub(crate) async fn call(&self, name: &str, arguments: Json) -> CallToolResult {
        let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.client.call_tool(CallToolRequestParams::new(name.to_owned()).with_arguments(arguments)).await.unwrap()
    }

    pub(crate) async fn run(&self, code: &str) -> Json {
        self.call("mcp_execute_code", json!({ "code": code })).await.structured_content.unwrap()
    }

    /// Waits until standard error contains `text`.
    pub(crate) async fn until_reported(&mut self, text: &str) {
        let (mut reported, mut bytes) = (String::new(), [0; 4096]);
        while !reported.contains(text) {
            let read = self.process.stderr.as_mut().unwrap().read(&mut bytes).await.unwrap();
            assert!(read > 0, "standard error ended without {text:?}: {reported}");
            reported.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    /// Closes the connection. Returns standard error and the exit code.
    pub(crate) async fn end(self) -> (String, Option<i32>) {
        self.client.cancel().await.unwrap();
        let output = self.process.wait_with_output().await.unwrap();
        (text(output.stderr), output.status.code())
    }
}
