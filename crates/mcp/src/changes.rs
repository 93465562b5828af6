//! Notification of changed tools, prompts and resources, from upstream servers to downstream clients.

use std::sync::Arc;

use tokio::sync::{broadcast, watch};

/// Notifies subscribers that tools may have changed.
///
/// All clones are the same channel: give one to each [`UpstreamOptions`](crate::upstream::UpstreamOptions) and to the
/// [`ServerOptions`](crate::server::ServerOptions), and clients are notified when an upstream server changes its tools.
#[derive(Debug, Clone, Default)]
pub struct Changes(watch::Sender<()>, watch::Sender<Listed>, Updates);

/// Updates of resources that clients watch, while they are received.
#[derive(Debug, Clone)]
struct Updates(broadcast::Sender<Updated>);

impl Default for Updates {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_UPDATES))
    }
}

/// A resource that was updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Updated {
    /// The namespace of its server.
    pub(crate) server: Arc<str>,
    pub(crate) uri: Arc<str>,
}

/// How often servers have notified of changes of their lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
}

impl Changes {
    /// Notifies all subscribers. The server compares its tools before and after, so notifying too often does no harm.
    pub fn notify(&self) {
        self.0.send_replace(());
    }

    /// Notifies all subscribers that a server has changed its prompts.
    pub(crate) fn notify_prompts(&self) {
        self.1.send_modify(|listed| listed.prompts += 1);
        self.notify();
    }

    /// Notifies all subscribers that a server has changed its resources.
    pub(crate) fn notify_resources(&self) {
        self.1.send_modify(|listed| listed.resources += 1);
        self.notify();
    }

    /// Notifies all who watch that a resource of a server was updated.
    pub(crate) fn notify_updated(&self, server: &Arc<str>, uri: &str) {
        let _ = self.2.0.send(Updated { server: Arc::clone(server), uri: uri.into() });
    }

    /// Receives updates of resources from now on.
    pub(crate) fn updates(&self) -> broadcast::Receiver<Updated> {
        self.2.0.subscribe()
    }

    pub(crate) fn listed(&self) -> Listed {
        *self.1.borrow()
    }

    /// Receives notifications from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }

    #[cfg(test)]
    pub(crate) fn subscriber_count(&self) -> usize {
        self.0.receiver_count()
    }
}

/// How many updates are kept for a receiver that is busy; older ones are lost.
const MAX_UPDATES: usize = 1_024;
