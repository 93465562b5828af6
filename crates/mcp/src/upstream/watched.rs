//! What clients want to be notified of by one server, over all of its connections: changes of its lists, and updates of resources.

#![allow(deprecated)] // Subscriptions before MCP 2026-07-28.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientRequest, ProtocolVersion, ServerNotification, SubscribeRequest, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequest, UnsubscribeRequestParams,
};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Notify, watch};

use crate::Changes;

/// The notifications of one server. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    server: Arc<str>,
    changes: Changes,
    tools_changed: Arc<Notify>,
    /// The resources whose updates clients want, and how many clients.
    resources: watch::Sender<BTreeMap<String, usize>>,
}

/// The wish of one client to be notified of updates of a resource, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Watched,
    uri: String,
}

impl Watched {
    pub(super) fn new(server: &str, changes: Changes) -> Self {
        let (tools_changed, resources) = (Arc::default(), watch::Sender::default());
        Self { server: server.into(), changes, tools_changed, resources }
    }

    /// Notified when the tools have changed.
    pub(super) fn tools_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.tools_changed)
    }

    /// Watches a resource. `None` if there are too many.
    pub(super) fn watch(&self, uri: String) -> Option<Watch> {
        let mut is_watched = false;
        self.resources.send_if_modified(|resources| {
            is_watched = resources.contains_key(&uri) || resources.len() < MAX_RESOURCES;
            if !is_watched {
                return false;
            }
            let count = resources.entry(uri.clone()).or_default();
            *count += 1;
            *count == 1
        });
        is_watched.then(|| Watch { watched: self.clone(), uri })
    }

    pub(super) fn on_tools_changed(&self) {
        self.tools_changed.notify_one();
    }

    /// The first resource of a server adds tools, so that these are listed again, too.
    pub(super) fn on_resources_changed(&self) {
        self.tools_changed.notify_one();
        self.changes.notify_resources();
    }

    pub(super) fn on_prompts_changed(&self) {
        self.changes.notify_prompts();
    }

    pub(super) fn on_updated(&self, uri: &str) {
        if self.resources.borrow().contains_key(uri) {
            self.changes.notify_updated(&self.server, uri);
        }
    }

    /// Tells a server that was just connected what clients want, until the connection ends.
    pub(super) async fn follow(self, peer: Peer<RoleClient>) {
        match peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28) {
            true => self.listen(&peer).await,
            false => self.subscribe(&peer).await,
        }
    }

    /// Listens to all changes, as MCP requires since 2026-07-28. Listens again when other resources are watched.
    async fn listen(&self, peer: &Peer<RoleClient>) {
        let mut resources = self.resources.subscribe();
        loop {
            let uris: Vec<String> = resources.borrow_and_update().keys().cloned().collect();
            let wanted = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed();
            let wanted = wanted.resources_list_changed().resource_subscriptions(uris).build();
            let Ok(mut subscription) = peer.listen(wanted).await else { return };
            let is_renewed = loop {
                tokio::select! {
                    changed = resources.changed() => break changed.is_ok(),
                    notification = subscription.next() => match notification {
                        Ok(Some(notification)) => self.on_notification(&notification),
                        _ => break false,
                    },
                }
            };
            if is_renewed {
                continue;
            }
            tokio::time::sleep(PAUSE).await;
            if peer.is_transport_closed() {
                return;
            }
            self.on_tools_changed(); // There was no subscription during the pause.
        }
    }

    fn on_notification(&self, notification: &ServerNotification) {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => self.on_tools_changed(),
            ServerNotification::PromptListChangedNotification(_) => self.on_prompts_changed(),
            ServerNotification::ResourceListChangedNotification(_) => self.on_resources_changed(),
            ServerNotification::ResourceUpdatedNotification(updated) => self.on_updated(&updated.params.uri),
            _ => {}
        }
    }

    /// Subscribes to resources one by one, before MCP 2026-07-28.
    async fn subscribe(&self, peer: &Peer<RoleClient>) {
        let mut resources = self.resources.subscribe();
        let mut subscribed = BTreeSet::new();
        loop {
            let wanted: BTreeSet<String> = resources.borrow_and_update().keys().cloned().collect();
            for uri in wanted.difference(&subscribed) {
                let _ = tokio::time::timeout(PATIENCE, peer.send_request(subscription(uri))).await;
            }
            for uri in subscribed.difference(&wanted) {
                let _ = tokio::time::timeout(PATIENCE, peer.send_request(end_of_subscription(uri))).await;
            }
            subscribed = wanted;
            loop {
                match tokio::time::timeout(PAUSE, resources.changed()).await {
                    Ok(Ok(())) => break,
                    Err(_) if !peer.is_transport_closed() => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        }
    }
}

fn subscription(uri: &str) -> ClientRequest {
    ClientRequest::SubscribeRequest(SubscribeRequest::new(SubscribeRequestParams::new(uri)))
}

fn end_of_subscription(uri: &str) -> ClientRequest {
    ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(UnsubscribeRequestParams::new(uri)))
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watched.resources.send_if_modified(|resources| {
            let Some(count) = resources.get_mut(&self.uri) else { return false };
            *count -= 1;
            let is_last = *count == 0;
            if is_last {
                resources.remove(&self.uri);
            }
            is_last
        });
    }
}

/// The pause before a subscription that has ended is renewed, and between two looks at whether a connection has ended.
const PAUSE: Duration = Duration::from_secs(5);

/// How long a server may take for a subscription.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many resources of a server can be watched at once.
const MAX_RESOURCES: usize = 1_000;
