//! Notification of changed tools, prompts and resources, from upstream servers to downstream clients.

use tokio::sync::watch;

/// Notifies subscribers that tools may have changed.
///
/// All clones are the same channel: give one to each [`UpstreamOptions`](crate::upstream::UpstreamOptions) and to the
/// [`ServerOptions`](crate::server::ServerOptions), and clients are notified when an upstream server changes its tools.
#[derive(Debug, Clone, Default)]
pub struct Changes(watch::Sender<()>, watch::Sender<Listed>);

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
