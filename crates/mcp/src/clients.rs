//! The clients of a gateway, as servers upstream see them: what they offer, and which one a call belongs to.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use execbox::CancellationToken;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitationCapability, GetExtensions as _, RequestId,
    ServerRequest,
};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RoleServer, ServiceError};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// The clients of a gateway. Servers upstream may ask them for what they offer: input of their users, answers of their models,
/// directories. Cheap to clone; clones share the clients. Default: none, servers are offered nothing.
#[derive(Clone, Default)]
pub struct Clients(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    None,
    One(Arc<watch::Sender<Option<KnownClient>>>),
    Many,
}

/// What is known of the only client.
#[derive(Clone)]
struct KnownClient {
    capabilities: ClientCapabilities,
    /// `None` if nothing can be asked of it.
    peer: Option<Peer<RoleServer>>,
}

impl Clients {
    /// One client, over a stream. Servers are offered what it offers: those that connect before it is known wait for it, at most
    /// 2 s.
    pub fn one() -> Self {
        Self(Kind::One(Arc::new(watch::Sender::new(None))))
    }

    /// Any number of clients, over HTTP. Servers are offered elicitation, which fails where the client cannot ask its user.
    pub fn many() -> Self {
        Self(Kind::Many)
    }

    /// The only client offers nothing, or there will be none.
    pub fn set_absent(&self) {
        self.set(KnownClient { capabilities: ClientCapabilities::default(), peer: None });
    }

    /// The only client has introduced itself.
    pub(crate) fn set_client(&self, capabilities: ClientCapabilities, peer: Peer<RoleServer>) {
        self.set(KnownClient { capabilities, peer: Some(peer) });
    }

    fn set(&self, known: KnownClient) {
        if let Kind::One(client) = &self.0 {
            client.send_if_modified(|client| client.is_none() && client.replace(known).is_none());
        }
    }

    /// What servers are offered.
    pub(crate) async fn offered(&self) -> ClientCapabilities {
        let mut offered = ClientCapabilities::default();
        match &self.0 {
            Kind::None => {}
            Kind::Many => offered.elicitation = Some(ElicitationCapability::default()),
            Kind::One(client) => {
                let mut client = client.subscribe();
                let known = tokio::time::timeout(INTRODUCTION, client.wait_for(Option::is_some)).await;
                if let Ok(Ok(known)) = known
                    && let Some(KnownClient { capabilities, .. }) = &*known
                {
                    offered.elicitation.clone_from(&capabilities.elicitation);
                    offered.sampling.clone_from(&capabilities.sampling);
                    offered.roots.clone_from(&capabilities.roots);
                    // Its changes are not forwarded.
                    offered.roots.iter_mut().for_each(|roots| roots.list_changed = None);
                }
            }
        }
        offered
    }

    /// The only client, if it is known.
    pub(crate) fn only(&self) -> Option<Peer<RoleServer>> {
        let Kind::One(client) = &self.0 else { return None };
        client.borrow().as_ref()?.peer.clone()
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::None => "Clients::default()",
            Kind::One(_) => "Clients::one()",
            Kind::Many => "Clients::many()",
        })
    }
}

/// Identifies a client of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Client {
    /// That of a connection or a session.
    Connected(u64),
    /// Those that state one name and version, as a hash.
    Named(u64),
}

impl Client {
    /// One that was not seen before.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self::Connected(COUNT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn named(name: &str, version: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (name, version).hash(&mut hasher);
        Self::Named(hasher.finish())
    }
}

/// The client that a program belongs to. Attached to its execution.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) peer: Peer<RoleServer>,
    /// Its request that the program runs for: over HTTP, what is asked during it takes the same way.
    pub(crate) request: RequestId,
    pub(crate) client: Client,
    /// How long its user may take for an answer.
    pub(crate) timeout: Duration,
    /// Fires when the program ends.
    pub(crate) ended: CancellationToken,
}

impl Origin {
    /// Sends a request to the client, as part of its own. Dropping the future withdraws the request: its user sees no question that
    /// nobody waits for.
    pub(crate) async fn ask(&self, mut request: ServerRequest) -> Result<ClientResult, ServiceError> {
        request.extensions_mut().insert(OriginatingRequestId(self.request.clone()));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let mut open = OpenRequest { peer: &self.peer, id: Some(sent.id.clone()) };
        let answer = sent.await_response().await;
        open.id = None;
        answer
    }
}

struct OpenRequest<'a> {
    peer: &'a Peer<RoleServer>,
    /// `None` if it is answered.
    id: Option<RequestId>,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) {
            let peer = self.peer.clone();
            let cancelled = CancelledNotificationParam::new(Some(id), None);
            runtime.spawn(async move { peer.notify_cancelled(cancelled).await });
        }
    }
}

/// For how long servers wait for the only client.
const INTRODUCTION: Duration = Duration::from_secs(2);
