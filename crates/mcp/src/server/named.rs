//! Clients of an [`HttpServer`](super::HttpServer) that have names, tokens and servers of their own.

use std::fmt;
use std::sync::Arc;

use execbox::transport::Token;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::CodeServer;
use crate::clients::Client;

/// A client with a token of its own, and the server that it uses. Cheap to clone; clones are the same client.
#[derive(Clone)]
pub struct NamedClient(Arc<Named>);

struct Named {
    name: String,
    token: Token,
    server: CodeServer,
    /// All its sessions and requests together, in the places that clients share.
    identity: Client,
    /// Fires when the client is no longer accepted.
    removed: CancellationToken,
}

impl NamedClient {
    /// A client that sends `token`. `server` decides what the client can use: see [`CodeServer::for_client`].
    pub fn new(name: impl Into<String>, token: Token, server: CodeServer) -> Self {
        let (name, identity, removed) = (name.into(), Client::new(), CancellationToken::new());
        Self(Arc::new(Named { name, token, server, identity, removed }))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The server that the client uses.
    pub fn server(&self) -> &CodeServer {
        &self.0.server
    }

    pub(super) fn identity(&self) -> Client {
        self.0.identity
    }

    /// Fires when the client is no longer accepted.
    pub(super) fn removed(&self) -> &CancellationToken {
        &self.0.removed
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Omits the token.
impl fmt::Debug for NamedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedClient").field(&self.0.name).finish()
    }
}

/// The named clients of a server. Cheap to clone; clones share the clients. Default: none.
#[derive(Debug, Clone, Default)]
pub struct NamedClients(Arc<watch::Sender<Vec<NamedClient>>>);

impl NamedClients {
    /// Replaces the clients. Those that are not in the list end: their requests are cancelled, their sessions are closed, and
    /// their tokens are refused. They cannot be added again.
    pub fn replace(&self, clients: Vec<NamedClient>) {
        self.0.send_modify(|current| {
            let removed = current.iter().filter(|client| !clients.iter().any(|kept| kept.is(client)));
            removed.for_each(|client| client.removed().cancel());
            *current = clients;
        });
    }

    /// The client whose token the value of an `Authorization` header presents. How long the search takes does not depend on which
    /// one it is.
    pub(super) fn of_header(&self, authorization: &str) -> Option<NamedClient> {
        let clients = self.0.borrow();
        clients.iter().fold(None, |found, client| {
            let presented = client.0.token.is_in_header(authorization);
            found.or_else(|| presented.then(|| client.clone()))
        })
    }

    /// Notified after each [`replace`](Self::replace).
    pub(super) fn changes(&self) -> watch::Receiver<Vec<NamedClient>> {
        self.0.subscribe()
    }
}
