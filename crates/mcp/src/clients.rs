//! The clients of a gateway, as upstream servers see them: their capabilities, and the client that a call belongs to.
//!
//! How a client is asked is known here alone ([`Origin`]): by requests before MCP 2026-07-28, by results since. Approvals and the
//! questions of servers ask it, and do not know which.

#![allow(deprecated)] // Sampling: servers use it.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use execbox::CancellationToken;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitationCapability, FormElicitationCapability,
    GetExtensions as _, InputRequest, LoggingLevel, LoggingMessageNotificationParam, RequestId, RequestMetaObject,
    RootsCapabilities, SamplingCapability, ServerRequest, UrlElicitationCapability,
};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RoleServer};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::open_requests::{MAX_ROUNDS, OpenRequests};

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
        self.set(|| KnownClient { capabilities: ClientCapabilities::default(), peer: None });
    }

    /// Records the capabilities of the only client, which has introduced itself by `initialize`.
    pub(crate) fn set_client(&self, capabilities: ClientCapabilities, peer: Peer<RoleServer>) {
        self.set(|| KnownClient { capabilities, peer: Some(peer) });
    }

    /// Records the capabilities that the only client states in a request, if it has not introduced itself otherwise. It can be
    /// asked only during calls, so that it has no roots: servers ask for them at any time.
    pub(crate) fn set_stated(&self, stated: impl FnOnce() -> ClientCapabilities) {
        self.set(|| {
            let mut capabilities = stated();
            capabilities.roots = None;
            KnownClient { capabilities, peer: None }
        });
    }

    fn set(&self, known: impl FnOnce() -> KnownClient) {
        if let Kind::One(client) = &self.0 {
            client.send_if_modified(|client| client.is_none() && client.replace(known()).is_none());
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
    pub(crate) client: Client,
    pub(crate) offers: Offers,
    pub(crate) channel: Channel,
    /// Whether the client was asked for something.
    pub(crate) was_asked: Arc<AtomicBool>,
    /// Receives log messages of servers, if the client wants any.
    pub(crate) logs: Option<LogSink>,
    /// How long the user of the client may take for an answer.
    pub(crate) timeout: Duration,
    /// The [trace context](crate::trace) of the request.
    pub(crate) trace: RequestMetaObject,
    /// Fires when the program ends.
    pub(crate) ended: CancellationToken,
}

/// What a client can be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) elicitation: Elicitation,
    /// Answers of its model.
    pub(crate) sampling: bool,
    /// Directories.
    pub(crate) roots: bool,
}

/// What the user of a client can be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Elicitation {
    /// To fill in forms.
    pub(crate) forms: bool,
    /// To visit URLs.
    pub(crate) urls: bool,
}

impl Offers {
    pub(crate) fn new(capabilities: &ClientCapabilities) -> Self {
        let (forms, urls) = match &capabilities.elicitation {
            None => (false, false),
            // Older versions have only forms, and say no more.
            Some(ElicitationCapability { form: None, url: None, .. }) => (true, false),
            Some(ElicitationCapability { form, url, .. }) => (form.is_some(), url.is_some()),
        };
        let (sampling, roots) = (capabilities.sampling.is_some(), capabilities.roots.is_some());
        Self { elicitation: Elicitation { forms, urls }, sampling, roots }
    }

    pub(crate) fn capabilities(self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        let Elicitation { forms, urls } = self.elicitation;
        if forms || urls {
            let mut elicitation = ElicitationCapability::default();
            if urls {
                elicitation.form = forms.then(FormElicitationCapability::default);
                elicitation.url = Some(UrlElicitationCapability::default());
            }
            capabilities.elicitation = Some(elicitation);
        }
        capabilities.sampling = self.sampling.then(SamplingCapability::default);
        capabilities.roots = self.roots.then(RootsCapabilities::default);
        capabilities
    }
}

/// Log messages of servers for a client, of this level and more severe ones. They are dropped if the client does not read them.
#[derive(Clone)]
pub(crate) struct LogSink {
    pub(crate) level: LoggingLevel,
    pub(crate) messages: mpsc::Sender<LoggingMessageNotificationParam>,
}

/// How requests reach a client.
#[derive(Clone)]
pub(crate) enum Channel {
    /// As requests of the server, before MCP 2026-07-28.
    Requests {
        peer: Peer<RoleServer>,
        /// The client's request that runs the program. Over HTTP, requests to the client are sent in its response stream.
        during: RequestId,
    },
    /// In results of the client's requests, since MCP 2026-07-28.
    Results(OpenRequests),
}

/// Why a client has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// The client failed, or has given another kind of answer.
    #[error("the client has failed to answer")]
    Failed,
    /// The client was asked as often as clients accept during one call.
    #[error("the client can be asked only {MAX_ROUNDS} times during one program")]
    TooOften,
}

impl Origin {
    /// Whether the client lists its directories during calls.
    pub(crate) fn can_list_roots(&self) -> bool {
        self.offers.roots && matches!(self.channel, Channel::Results(_))
    }

    /// Sends a request to the client, as part of the client's own request. Dropping the future withdraws the request, so that
    /// the user sees no question whose answer is ignored.
    pub(crate) async fn ask(&self, request: InputRequest) -> Result<ClientResult, Unanswered> {
        self.was_asked.store(true, Ordering::Relaxed);
        let (peer, during) = match &self.channel {
            Channel::Results(open) => return open.put(request).await,
            Channel::Requests { peer, during } => (peer, during),
        };
        let mut request = match request {
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(Unanswered::Failed),
        };
        request.extensions_mut().insert(OriginatingRequestId(during.clone()));
        let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let sent = sent.map_err(|_| Unanswered::Failed)?;
        let mut open = SentRequest { peer, id: Some(sent.id.clone()) };
        let answer = sent.await_response().await;
        open.id = None;
        answer.map_err(|_| Unanswered::Failed)
    }
}

struct SentRequest<'a> {
    peer: &'a Peer<RoleServer>,
    /// `None` after the answer.
    id: Option<RequestId>,
}

impl Drop for SentRequest<'_> {
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
