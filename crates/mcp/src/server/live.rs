//! Notifies clients when the tools, prompts and resources that they are shown have changed.
//!
//! | protocol of the client | notification |
//! |---|---|
//! | 2025-11-25 and older | `notifications/tools/list_changed`, `prompts` and `resources` on its connection, or on the `GET` stream of its session |
//! | 2026-07-28 | the same, on every `subscriptions/listen` request that includes it |

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ResourceUpdatedNotificationParam, Tool};
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSendError, SubscriptionSink};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::CodeServer;
use super::watches::{MAX_WATCHES, Watches};
use crate::changes::{Listed, Updated};
use crate::upstream::{LIST_PROMPTS, LIST_RESOURCES};

/// Notifies `peer` of changes until its connection ends.
pub(super) fn follow(server: &CodeServer, peer: Peer<RoleServer>, ended: CancellationToken) {
    let (shown, watches) = (Shown::new(server), Arc::clone(&server.session.watches));
    let updates = server.inner.options.changes.updates();
    tokio::spawn(
        ended.run_until_cancelled_owned(async move { notify(shown, updates, &watches, &Receiver::Peer(peer)).await }),
    );
}

/// Notifies a subscription of changes until it ends.
pub(super) async fn serve(server: &CodeServer, subscription: SubscriptionContext) {
    let (shown, watches) = (Shown::new(server), Watches::default());
    let updates = server.inner.options.changes.updates();
    let following = async {
        // The protocol has no error for one of several resources.
        for uri in subscription.accepted().resource_subscriptions.iter().flatten().take(MAX_WATCHES) {
            let _ = server.watch(uri.clone(), subscription.request_context(), &watches).await;
        }
        notify(shown, updates, &watches, &Receiver::Subscription(subscription.sink())).await;
    };
    tokio::select! {
        () = subscription.cancelled() => {}
        () = following => {}
    }
}

/// Where notifications go.
enum Receiver<'a> {
    Peer(Peer<RoleServer>),
    Subscription(&'a SubscriptionSink),
}

impl Receiver<'_> {
    /// Returns whether further notifications can be sent.
    async fn list_changed(&self, list: List) -> bool {
        match self {
            Self::Peer(peer) => {
                let sent = match list {
                    List::Tools => peer.notify_tool_list_changed().await,
                    List::Prompts => peer.notify_prompt_list_changed().await,
                    List::Resources => peer.notify_resource_list_changed().await,
                };
                sent.is_ok()
            }
            Self::Subscription(sink) => {
                let sent = match list {
                    List::Tools => sink.notify_tool_list_changed().await,
                    List::Prompts => sink.notify_prompt_list_changed().await,
                    List::Resources => sink.notify_resource_list_changed().await,
                };
                matches!(sent, Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_)))
            }
        }
    }

    async fn updated(&self, uri: String) {
        match self {
            Self::Peer(peer) => {
                let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await;
            }
            Self::Subscription(sink) => {
                let _ = sink.notify_resource_updated(uri).await;
            }
        }
    }
}

/// Notifies of changes of lists and updates of resources.
async fn notify(
    mut shown: Shown,
    mut updates: broadcast::Receiver<Updated>,
    watches: &Watches,
    receiver: &Receiver<'_>,
) {
    loop {
        tokio::select! {
            changed = shown.changed() => {
                for list in changed {
                    if !receiver.list_changed(list).await {
                        return;
                    }
                }
            }
            update = updates.recv() => match update {
                Ok(update) => {
                    for uri in watches.of(&update) {
                        receiver.updated(uri).await;
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// A list that clients are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Tools,
    Prompts,
    Resources,
}

/// What one client was shown.
struct Shown {
    server: CodeServer,
    changes: watch::Receiver<()>,
    /// The tools at the time of the last comparison; `None` before the first one.
    tools: Option<Vec<Tool>>,
    /// The tools that the client has listed last, if that is known.
    listed: Arc<Mutex<Option<Vec<Tool>>>>,
    features: Features,
    /// Whether there were changes that are not compared yet.
    is_pending: bool,
    /// How long further changes are collected before the next notification, and when the last one was sent.
    pause: Duration,
    last: Option<Instant>,
}

/// What is known of the prompts and the resources of servers without listing them.
#[derive(PartialEq, Eq)]
struct Features {
    listed: Listed,
    with_prompts: Vec<String>,
    with_resources: Vec<String>,
}

impl Features {
    fn of(server: &CodeServer) -> Self {
        let providers = server.inner.source.features().unwrap_or_default();
        let with = |method: &str| {
            let having = providers.iter().filter(|provider| provider.safe_name(method).is_some());
            having.map(|provider| provider.name().to_owned()).collect()
        };
        let listed = server.inner.options.changes.listed();
        Self { listed, with_prompts: with(LIST_PROMPTS), with_resources: with(LIST_RESOURCES) }
    }
}

impl Shown {
    fn new(server: &CodeServer) -> Self {
        let listed = Arc::clone(&server.session.listed);
        let (server, changes) = (server.clone(), server.inner.options.changes.subscribe());
        let features = Features::of(&server);
        Self { server, changes, tools: None, listed, features, is_pending: false, pause: MIN_PAUSE, last: None }
    }

    /// Waits until lists differ from what the client was shown, and returns which. Changes are collected, the longer the more
    /// there are: most clients read a whole list again for each notification. Dropping the future loses nothing.
    async fn changed(&mut self) -> Vec<List> {
        loop {
            if !self.is_pending && self.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.is_pending = true;
            if self.last.is_none_or(|last| last.elapsed() > MAX_PAUSE) {
                self.pause = MIN_PAUSE;
            }
            tokio::time::sleep(self.pause).await;
            self.changes.mark_unchanged();
            let changed = self.compare().await;
            self.is_pending = false;
            if !changed.is_empty() {
                self.pause = (2 * self.pause).min(MAX_PAUSE);
                self.last = Some(Instant::now());
                return changed;
            }
        }
    }

    async fn compare(&mut self) -> Vec<List> {
        let tools = self.server.run_blocking(CodeServer::tools).await.ok();
        let features = Features::of(&self.server);
        let (listed, before) = (features.listed, self.features.listed);
        let prompts = listed.prompts != before.prompts || features.with_prompts != self.features.with_prompts;
        let resources = listed.resources != before.resources || features.with_resources != self.features.with_resources;
        let is_listed = tools.is_some() && tools == *self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = tools != self.tools && !is_listed;
        let changed = [(List::Tools, is_new), (List::Prompts, prompts), (List::Resources, resources)];
        (self.tools, self.features) = (tools, features);
        changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(list, _)| list).collect()
    }
}

/// How long changes are collected before a notification: at first, and after many.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);

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
