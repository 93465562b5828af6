//! Notification of changed tools, from upstream servers to downstream clients.

use tokio::sync::watch;

/// Notifies subscribers that tools may have changed.
///
/// All clones are the same channel: give one to each [`UpstreamOptions`](crate::upstream::UpstreamOptions) and to the
/// [`ServerOptions`](crate::server::ServerOptions), and clients are notified when an upstream server changes its tools.
#[derive(Debug, Clone, Default)]
pub struct Changes(watch::Sender<()>);

impl Changes {
    /// Notifies all subscribers. The server compares its tools before and after, so notifying too often does no harm.
    pub fn notify(&self) {
        self.0.send_replace(());
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
