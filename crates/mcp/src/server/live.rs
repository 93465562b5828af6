//! Notifies clients when the tools that they are shown have changed.
//!
//! | protocol of the client | notification |
//! |---|---|
//! | 2025-11-25 and older | `notifications/tools/list_changed` on its connection, or on the `GET` stream of its session |
//! | 2026-07-28 | the same, on every `subscriptions/listen` request that includes it |

use std::time::Duration;

use rmcp::model::Tool;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::CodeServer;

/// Notifies `peer` of changes until its connection ends.
pub(super) fn follow(server: &CodeServer, peer: Peer<RoleServer>, ended: CancellationToken) {
    let mut shown = Shown::new(server);
    tokio::spawn(ended.run_until_cancelled_owned(async move {
        loop {
            shown.changed().await;
            if peer.notify_tool_list_changed().await.is_err() {
                return;
            }
        }
    }));
}

/// Notifies a subscription of changes until it ends.
pub(super) async fn serve(server: &CodeServer, subscription: SubscriptionContext) {
    let mut shown = Shown::new(server);
    loop {
        tokio::select! {
            () = subscription.cancelled() => return,
            () = shown.changed() => {}
        }
        if subscription.sink().notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

/// The tools that one client was shown.
struct Shown {
    server: CodeServer,
    changes: watch::Receiver<()>,
    /// `None` before the first notification: what the client has listed until then is not known.
    tools: Option<Vec<Tool>>,
}

impl Shown {
    fn new(server: &CodeServer) -> Self {
        Self { server: server.clone(), changes: server.inner.options.changes.subscribe(), tools: None }
    }

    /// Waits until the list of tools differs from what the client was shown. Combines changes in quick succession.
    async fn changed(&mut self) {
        loop {
            if self.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(PAUSE).await;
            self.changes.mark_unchanged();
            let tools = self.server.run_blocking(CodeServer::tools).await.ok();
            if tools != self.tools {
                self.tools = tools;
                return;
            }
        }
    }
}

/// How long changes are collected before a notification.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use execbox::InlineExecutor;
    use rmcp::ServiceExt as _;

    use crate::Changes;
    use crate::server::{CodeServer, ServerOptions};

    #[tokio::test]
    async fn a_disconnected_client_leaves_no_subscription() {
        let changes = Changes::default();
        let options = ServerOptions { changes: changes.clone(), ..ServerOptions::default() };
        let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), Vec::new, options);
        for _ in 0..3 {
            let (near, far) = tokio::io::duplex(1 << 16);
            let serving = tokio::spawn(server.clone().serve(far));
            let client = ().serve(near).await.unwrap();
            let connection = serving.await.unwrap().unwrap();
            assert_eq!(changes.subscriber_count(), 1);
            client.cancel().await.unwrap();
            connection.waiting().await.unwrap();
            while changes.subscriber_count() > 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}
