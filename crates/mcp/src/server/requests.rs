//! The requests over HTTP that are handled at once. Clients share a limited number of places for them. A request without a
//! place is refused at once: a connection that waits could not be closed for another client.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage};

use super::places::{NoPlace, Places};
use crate::clients::Client;

/// The places of a server. Each kind of request has its own.
pub(super) struct Requests {
    calls: Arc<Mutex<Places>>,
    messages: Arc<Mutex<Places>>,
    streams: Arc<Mutex<Places>>,
}

/// What a request needs a place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request that can take long.
    Call,
    /// A message that is handled at once: a notification, a response, a ping, the end of a session, or an invalid message. It
    /// may end a call, so it needs no place for calls.
    Message,
    /// A stream of messages of the server.
    Stream,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRequest {
    /// The client has as many calls, or streams, as one client may have: this many.
    Share(Kind, usize),
    /// All places for this kind are taken.
    Full(Kind),
}

/// A place, until it is dropped.
pub(super) struct Place {
    kind: Kind,
    places: Arc<Mutex<Places>>,
    client: Client,
}

impl Requests {
    /// Creates places for `max_calls` calls, but for no more than half of the connections: those that serve a request cannot be
    /// closed, and there must always be some that can.
    pub(super) fn new(max_calls: usize, max_connections: usize) -> Self {
        let new = |count: usize, share| Arc::new(Mutex::new(Places::new(count, share)));
        let calls = max_calls.min(max_connections / 2);
        let (messages, streams) = (max_connections / MESSAGES_PART, max_connections / 2);
        Self { calls: new(calls, calls / 2), messages: new(messages, messages), streams: new(streams, streams / 2) }
    }

    /// Takes a place.
    pub(super) fn begin(&self, kind: Kind, client: Client) -> Result<Place, NoRequest> {
        let places = match kind {
            Kind::Call => &self.calls,
            Kind::Message => &self.messages,
            Kind::Stream => &self.streams,
        };
        let mut free = places.lock().unwrap_or_else(PoisonError::into_inner);
        free.check(client, true).map_err(|reason| match reason {
            NoPlace::Share => NoRequest::Share(kind, free.share()),
            NoPlace::Full => NoRequest::Full(kind),
        })?;
        free.take(client);
        Ok(Place { kind, places: Arc::clone(places), client })
    }
}

impl Place {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).release(self.client);
    }
}

impl Kind {
    /// The kind of a request with this message; `None` is a request without one.
    pub(super) fn of(message: Option<&ClientJsonRpcMessage>) -> Self {
        match message {
            Some(JsonRpcMessage::Request(request)) => match request.request {
                ClientRequest::PingRequest(_) => Self::Message,
                ClientRequest::SubscriptionsListenRequest(_) => Self::Stream,
                _ => Self::Call,
            },
            _ => Self::Message,
        }
    }
}

/// The client of a request without a session: all at an address that state the same name and version, or none.
pub(super) fn client_without_session(address: Option<IpAddr>, message: Option<&ClientJsonRpcMessage>) -> Client {
    let stated = match message {
        Some(JsonRpcMessage::Request(request)) => match &request.request {
            ClientRequest::InitializeRequest(initialize) => Some(initialize.params.client_info.clone()),
            request => request.get_meta().client_info(),
        },
        _ => None,
    };
    Client::without_session(address, stated.as_ref().map(|client| (&*client.name, &*client.version)))
}

/// One place for messages per this many connections.
const MESSAGES_PART: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_left_that_serve_no_request() {
        for max_connections in [8, 64, 4_096] {
            let requests = Requests::new(usize::MAX, max_connections);
            let take = |kind| std::iter::from_fn(|| requests.begin(kind, Client::new()).ok()).collect::<Vec<_>>();
            let (calls, messages, streams) = (take(Kind::Call), take(Kind::Message), take(Kind::Stream));
            assert!(calls.len() + messages.len() < max_connections, "{max_connections}");
            assert!(!messages.is_empty() && streams.len() < max_connections, "{max_connections}");
        }
    }

    #[test]
    fn a_client_with_all_its_calls_can_send_messages_and_open_a_stream() {
        let (requests, [a, b, c]) = (Requests::new(16, 64), [(); 3].map(|()| Client::new()));
        let calls: Vec<_> = (0..8).map(|_| requests.begin(Kind::Call, a).unwrap()).collect();
        assert_eq!(requests.begin(Kind::Call, a).err(), Some(NoRequest::Share(Kind::Call, 8)));
        assert!(requests.begin(Kind::Message, a).is_ok());
        assert!(requests.begin(Kind::Stream, a).is_ok());
        let others: Vec<_> = (0..6).map(|_| requests.begin(Kind::Call, b).unwrap()).collect();
        assert_eq!(requests.begin(Kind::Call, b).err(), Some(NoRequest::Full(Kind::Call)));
        assert!(requests.begin(Kind::Call, c).is_ok());
        drop((calls, others));
        assert!(requests.calls.lock().unwrap().are_unused());
    }

    #[test]
    fn messages_that_end_calls_are_no_calls() {
        let kind = |message: &str| Kind::of(Some(&serde_json::from_str(message).unwrap()));
        let request = |method: &str| kind(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#));
        assert_eq!(request("ping"), Kind::Message);
        assert_eq!(request("tools/list"), Kind::Call);
        assert_eq!(request("unknown"), Kind::Call);
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), Kind::Message);
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#), Kind::Message);
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#), Kind::Message);
        assert_eq!(Kind::of(None), Kind::Message);
    }
}
