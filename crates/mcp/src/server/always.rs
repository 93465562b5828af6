//! "Always" as an answer of the user of a client: the configuration is changed so that a tool needs no approval.

use std::fmt;
use std::sync::Arc;

/// Proposes changes of the configuration that exempt tools from approvals. Cheap to clone. A [`CodeServer`](super::CodeServer)
/// has no configuration, and writes nothing itself.
#[derive(Clone)]
pub struct AlwaysAllow(Arc<Propose>);

type Propose = dyn Fn(&str, [&str; 2]) -> Option<Proposal> + Send + Sync;

/// A change of the configuration by which a tool needs no approval any more.
pub struct Proposal {
    title: String,
    write: Box<dyn FnOnce() -> bool + Send>,
}

impl AlwaysAllow {
    /// `propose` gets the namespace of a tool and its names on its server and in code, and returns `None` if nothing can be
    /// changed. Called on a thread that may block.
    pub fn new(propose: impl Fn(&str, [&str; 2]) -> Option<Proposal> + Send + Sync + 'static) -> Self {
        Self(Arc::new(propose))
    }

    pub(super) async fn propose(&self, namespace: &str, names: [&str; 2]) -> Option<Proposal> {
        let (propose, namespace, [original, safe]) = (self.clone(), namespace.to_owned(), names.map(str::to_owned));
        let proposing = tokio::task::spawn_blocking(move || propose.0(&namespace, [&original, &safe]));
        proposing.await.ok().flatten()
    }
}

impl fmt::Debug for AlwaysAllow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AlwaysAllow(…)")
    }
}

impl Proposal {
    /// `title` says what `write` writes, and where. `write` returns whether it has; otherwise only the call that the user was
    /// asked about is approved. Called on a thread that may block.
    pub fn new(title: impl Into<String>, write: impl FnOnce() -> bool + Send + 'static) -> Self {
        Self { title: title.into(), write: Box::new(write) }
    }

    pub(super) fn title(&self) -> &str {
        &self.title
    }

    pub(super) async fn write(self) -> bool {
        tokio::task::spawn_blocking(self.write).await.unwrap_or(false)
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposal").field("title", &self.title).finish_non_exhaustive()
    }
}
