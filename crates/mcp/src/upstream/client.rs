//! The client side of a connection: the capabilities that servers are offered, and the handling of their requests and
//! notifications.

#![allow(deprecated)] // Sampling and roots: servers use them.

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorData, Implementation, ListRootsResult, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

use super::progress::CallsInProgress;
use super::requests::Forwarding;
use super::watched::Watched;

/// The MCP client of one connection. Offers the capabilities of the client of the gateway.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) capabilities: ClientCapabilities,
    pub(super) forwarding: Forwarding,
    pub(super) watched: Watched,
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
        self.forwarding.elicit(&self.forwarding.waiting().await?, request).await
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.forwarding.sample(&self.forwarding.waiting().await?, request).await
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.forwarding.roots(self.forwarding.waiting().await.ok().as_ref()).await
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.watched.on_tools_changed();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.watched.on_resources_changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.watched.on_prompts_changed();
    }

    async fn on_resource_updated(&self, updated: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.watched.on_updated(&updated.uri);
    }
}
