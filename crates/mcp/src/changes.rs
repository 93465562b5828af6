//! What connects servers upstream with clients downstream: word that tools may have changed.

use tokio::sync::watch;

/// Word that tools may have changed. Clones are one: give one to each
/// [`UpstreamOptions`](crate::upstream::UpstreamOptions) and to the
/// [`ServerOptions`](crate::server::ServerOptions), and clients are told when a server upstream has other tools.
#[derive(Debug, Clone, Default)]
pub struct Changes(watch::Sender<()>);

impl Changes {
    /// Tells that tools may have changed. Costs nothing where nobody listens; whether clients are shown anything else
    /// than before is found out later.
    pub fn tell(&self) {
        self.0.send_replace(());
    }

    /// Hears what is told from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }

    #[cfg(test)]
    pub(crate) fn listeners(&self) -> usize {
        self.0.receiver_count()
    }
}
