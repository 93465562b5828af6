//! The client side of a connection: the capabilities that servers are offered, and the handling of their requests and
//! notifications.

#![allow(deprecated)] // Sampling and roots: servers use them.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorData, Implementation, ListRootsResult, ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;

use super::progress::CallsInProgress;
use super::requests::Forwarding;
use crate::Changes;

/// The MCP client of one connection. Offers the capabilities of the client of the gateway.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) capabilities: ClientCapabilities,
    pub(super) forwarding: Forwarding,
    pub(super) tools_changed: Arc<Notify>,
    pub(super) changes: Changes,
    pub(super) progress: CallsInProgress,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("execbox", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.capabilities.clone(), implementation)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.forwarding.elicit(&self.forwarding.waiting()?, request).await
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.forwarding.sample(&self.forwarding.waiting()?, request).await
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.forwarding.roots(self.forwarding.waiting().ok().as_ref()).await
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    /// Lists the tools again: the first resource of a server adds tools.
    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
        self.changes.notify_resources();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.notify_prompts();
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.report(progress);
    }
}
