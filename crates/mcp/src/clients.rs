//! The clients of a gateway, as upstream servers see them: their capabilities, and the client that a call belongs to.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use execbox::CancellationToken;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitationCapability, GetExtensions as _, RequestId,
    RequestMetaObject, ServerRequest,
};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RoleServer, ServiceError};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// The clients of a gateway. Upstream servers may send them requests: for input of users (elicitation), answers of models
/// (sampling) and directories (roots). Cheap to clone; clones share the clients. Default: no clients, so that servers are
/// offered no capabilities.
#[derive(Clone, Default)]
pub struct Clients(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    None,
    One(Arc<watch::Sender<Option<KnownClient>>>),
    Many,
}

/// The capabilities of the only client, and a handle for requests to it.
#[derive(Clone)]
struct KnownClient {
    capabilities: ClientCapabilities,
    /// `None` if the client cannot receive requests.
    peer: Option<Peer<RoleServer>>,
}

impl Clients {
    /// One client, over a stream. Servers are offered its capabilities; a server that connects before the client waits for it
    /// for at most 2 s.
    pub fn one() -> Self {
        Self(Kind::One(Arc::new(watch::Sender::new(None))))
    }

    /// Any number of clients, over HTTP. Servers are offered elicitation, which fails where the client cannot ask its user.
    pub fn many() -> Self {
        Self(Kind::Many)
    }

    /// Records that the only client has no capabilities, or that no client will connect.
    pub fn set_absent(&self) {
        self.set(KnownClient { capabilities: ClientCapabilities::default(), peer: None });
    }

    /// Records the capabilities of the only client, which has introduced itself.
    pub(crate) fn set_client(&self, capabilities: ClientCapabilities, peer: Peer<RoleServer>) {
        self.set(KnownClient { capabilities, peer: Some(peer) });
    }

    fn set(&self, known: KnownClient) {
        if let Kind::One(client) = &self.0 {
            client.send_if_modified(|client| client.is_none() && client.replace(known).is_none());
        }
    }

    /// The capabilities that servers are offered.
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
                    // Changes of the roots are not forwarded.
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
    /// The client of one connection or session.
    Connected(u64),
    /// The client of an HTTP session, or all clients without one that have the same address, name and version; as a hash.
    Http(u64),
}

impl Client {
    /// Creates the identity of a new client.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self::Connected(COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// The client of an open session over HTTP.
    pub(crate) fn of_session(id: &str) -> Self {
        Self::http(id)
    }

    /// Clients over HTTP without a session, by their address and the name and version that they state.
    pub(crate) fn without_session(address: Option<IpAddr>, stated: Option<(&str, &str)>) -> Self {
        Self::http((address, stated))
    }

    fn http(identity: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        Self::Http(hasher.finish())
    }
}

/// The client that a program belongs to. Attached to its execution.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) peer: Peer<RoleServer>,
    /// The client's request that runs the program. Over HTTP, requests to the client are sent in its response stream.
    pub(crate) request: RequestId,
    pub(crate) client: Client,
    /// How long the user of the client may take for an answer.
    pub(crate) timeout: Duration,
    /// The [trace context](crate::trace) of the request.
    pub(crate) trace: RequestMetaObject,
    /// Fires when the program ends.
    pub(crate) ended: CancellationToken,
}

impl Origin {
    /// Sends a request to the client, as part of the client's own request. Dropping the future cancels the request, so that
    /// the user sees no question whose answer is ignored.
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
    /// `None` after the answer.
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

/// How long servers wait for the only client to introduce itself.
const INTRODUCTION: Duration = Duration::from_secs(2);
