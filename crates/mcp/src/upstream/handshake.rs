//! The first messages of a connection, which find out which versions of the protocol the server speaks.
//!
//! | era | versions | first message |
//! |---|---|---|
//! | modern | 2026-07-28 | `server/discover`, which states the versions; every request has its own metadata |
//! | legacy | up to 2025-11-25 | `initialize`, which agrees on a version |
//!
//! A server is asked in the modern way first. Servers that do not know it answer with an error of any kind, do not answer, or
//! end. The former are then asked in the legacy way over the same connection (section "Backward Compatibility" of the
//! transports of MCP 2026-07-28), the latter over another one.
//!
//! rmcp can do that, too (`ClientLifecycleMode::Auto`). But its handshake fails if the answer in the first way comes after the second
//! was begun, as from a server that is still starting, and its time limit of 10 s cannot be changed.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rmcp::ClientHandler as _;
use rmcp::model::{
    ClientConfig, ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult, DiscoverRequest,
    DiscoverRequestParams, DiscoverResult, ErrorCode, ErrorData, GetExtensions as _, InitializeRequest,
    InitializedNotification, JsonRpcMessage, ProtocolVersion, RequestId, RequestMetaObject, ServerJsonRpcMessage,
    ServerPeerInfo, ServerRequest, ServerResult,
};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use serde_json::{Value as Json, json};

use super::client::Client;

/// How a connection begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    /// In the modern way, and in the legacy way if the server refuses that or does not answer within this time.
    Detect(Duration),
    /// In the legacy way, offering this version.
    Initialize(ProtocolVersion),
}

/// Why a connection has not begun.
#[derive(Debug)]
pub(super) enum HandshakeError<E> {
    /// The server has answered with an error.
    Refused(ErrorData),
    /// The connection has ended, or a message could not be sent. `in_discovery` if only the modern way was tried.
    Lost { error: Option<E>, in_discovery: bool },
    /// The server has not taken the first message in time.
    Silent,
}

/// Begins a connection. Returns the description of the server, and how the next connection to it begins.
pub(super) async fn begin<T: Transport<RoleClient>>(
    transport: &mut T,
    client: &Client,
    start: Start,
) -> Result<(ServerPeerInfo, Start), HandshakeError<T::Error>> {
    let patience = if let Start::Detect(patience) = &start { *patience } else { Duration::ZERO };
    let mut handshake = Handshake::new(client.get_info(), start.clone());
    let mut sending = FuturesUnordered::<BoxFuture<'static, Result<(), T::Error>>>::new();
    loop {
        match handshake.next() {
            Next::Send(message) => sending.push(transport.send(*message).boxed()),
            Next::Wait => {}
            Next::Done(info, last) => {
                let again = if last.is_some() { handshake.start.clone() } else { start };
                sending.extend(last.map(|last| transport.send(*last).boxed()));
                while let Some(sent) = sending.next().await {
                    sent.map_err(|error| handshake.lost(Some(error)))?;
                }
                return Ok((*info, again));
            }
            Next::Refused(error) => return Err(HandshakeError::Refused(error)),
        }
        let mut is_impatient = handshake.is_impatient();
        let expired = tokio::time::sleep(patience);
        tokio::pin!(expired);
        while !handshake.has_changed {
            tokio::select! {
                biased; // A message that could not be sent says more than the end that follows it.
                Some(sent) = sending.next() => sent.map_err(|error| handshake.lost(Some(error)))?,
                received = transport.receive() => match received.ok_or_else(|| handshake.lost(None))? {
                    JsonRpcMessage::Request(ping) if matches!(ping.request, ServerRequest::PingRequest(_)) => {
                        let answer = ClientJsonRpcMessage::response(ClientResult::empty(()), ping.id);
                        sending.push(transport.send(answer).boxed());
                    }
                    message => handshake.record(message),
                },
                () = &mut expired, if is_impatient => {
                    if !sending.is_empty() {
                        return Err(HandshakeError::Silent);
                    }
                    is_impatient = false;
                    handshake.give_up();
                }
            }
        }
    }
}

/// The rules of a handshake. If the server was asked in both ways, its answer to `initialize` decides: it may have bound the
/// connection to the version of that answer.
struct Handshake {
    client: ClientConfig,
    start: Start,
    discovery: Answer,
    initialization: Answer,
    /// How many requests were made.
    requests: i64,
    /// Whether an answer was given, or is late.
    has_changed: bool,
}

/// The answer to a request of the handshake.
enum Answer {
    NotAsked,
    Awaited(RequestId),
    /// Awaited for too long. The server may be starting.
    Late(RequestId),
    Given(Result<Box<ServerPeerInfo>, ErrorData>),
}

enum Next {
    Wait,
    Send(Box<ClientJsonRpcMessage>),
    /// Begun, after this message.
    Done(Box<ServerPeerInfo>, Option<Box<ClientJsonRpcMessage>>),
    Refused(ErrorData),
}

impl Handshake {
    fn new(client: ClientConfig, start: Start) -> Self {
        let (discovery, initialization) = (Answer::NotAsked, Answer::NotAsked);
        Self { client, start, discovery, initialization, requests: 0, has_changed: true }
    }

    fn next(&mut self) -> Next {
        use Answer::{Awaited, Given, Late, NotAsked};
        self.has_changed = false;
        match (&self.discovery, &self.initialization) {
            (NotAsked, NotAsked) => match self.start.clone() {
                Start::Detect(_) => self.discover(),
                Start::Initialize(version) => self.initialize(version),
            },
            (_, Given(Ok(info))) => Next::Done(info.clone(), Some(Box::new(initialized()))),
            (Given(Ok(info)), NotAsked | Late(_) | Given(Err(_))) => Next::Done(info.clone(), None),
            (Given(Err(error)), NotAsked) if self.requests == 1 && supports_modern(error) => self.discover(),
            (Given(Err(error)), NotAsked) => {
                let named = named_versions(error).find(ProtocolVersion::has_initialize);
                self.initialize(named.unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE))
            }
            (Late(_), NotAsked) => self.initialize(ProtocolVersion::LATEST_WITH_INITIALIZE),
            (Given(Err(error)), Given(Err(_))) if is_modern(error) => Next::Refused(error.clone()),
            (_, Given(Err(error))) => Next::Refused(error.clone()),
            (Awaited(_), _) | (_, Awaited(_) | Late(_)) => Next::Wait,
        }
    }

    fn discover(&mut self) -> Next {
        let ClientConfig { client_info, capabilities, .. } = self.client.clone();
        let mut request = DiscoverRequest::new(DiscoverRequestParams {});
        request.extensions_mut().insert(RequestMetaObject::with_client_context(MODERN, client_info, capabilities));
        let (id, message) = self.request(ClientRequest::DiscoverRequest(request));
        self.discovery = Answer::Awaited(id);
        Next::Send(Box::new(message))
    }

    fn initialize(&mut self, version: ProtocolVersion) -> Next {
        self.start = Start::Initialize(version.clone());
        let request = InitializeRequest::new(self.client.clone().with_protocol_version(version));
        let (id, message) = self.request(ClientRequest::InitializeRequest(request));
        self.initialization = Answer::Awaited(id);
        Next::Send(Box::new(message))
    }

    fn request(&mut self, request: ClientRequest) -> (RequestId, ClientJsonRpcMessage) {
        let id = RequestId::Number(LAST_ID - self.requests);
        self.requests += 1;
        (id.clone(), ClientJsonRpcMessage::request(request, id))
    }

    /// Whether the server has a limited time to take a request, and for its answer: it may know the other way only.
    fn is_impatient(&self) -> bool {
        use Answer::{Awaited, Given, Late, NotAsked};
        matches!((&self.discovery, &self.initialization), (Awaited(_), NotAsked) | (Late(_) | Given(Ok(_)), Awaited(_)))
    }

    /// Records that an answer is late. A server that has answered nothing yet has as long for `initialize` as for connecting.
    fn give_up(&mut self) {
        if let Answer::Late(_) = self.discovery {
            return;
        }
        for answer in [&mut self.discovery, &mut self.initialization] {
            if let Answer::Awaited(id) = answer {
                *answer = Answer::Late(id.clone());
                self.has_changed = true;
            }
        }
    }

    /// Records an answer. Other messages are ignored.
    fn record(&mut self, message: ServerJsonRpcMessage) {
        let (id, given) = match message {
            JsonRpcMessage::Response(response) => (Some(response.id), Ok(response.result)),
            JsonRpcMessage::Error(error) => (error.id, Err(error.error)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return,
        };
        for answer in [&mut self.discovery, &mut self.initialization] {
            if let Answer::Awaited(asked) | Answer::Late(asked) = answer
                && id.as_ref().is_none_or(|id| id == asked)
            {
                *answer = Answer::Given(given.and_then(server_info).map(Box::new));
                self.has_changed = true;
                return;
            }
        }
    }

    fn lost<E>(&self, error: Option<E>) -> HandshakeError<E> {
        HandshakeError::Lost { error, in_discovery: matches!(self.initialization, Answer::NotAsked) }
    }
}

/// The server that an answer describes. A server that does not state a modern version is not modern.
fn server_info(result: ServerResult) -> Result<ServerPeerInfo, ErrorData> {
    match result {
        ServerResult::InitializeResult(result) => Ok(result.into()),
        ServerResult::DiscoverResult(result) if result.supported_versions.contains(&MODERN) => {
            Ok(ServerPeerInfo::from_discover_result(MODERN, result))
        }
        ServerResult::DiscoverResult(DiscoverResult { supported_versions, .. }) => {
            let data = json!({ "supported": supported_versions });
            Err(ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "no common version", Some(data)))
        }
        _ => Err(ErrorData::invalid_request("unexpected answer to the handshake", None)),
    }
}

fn initialized() -> ClientJsonRpcMessage {
    ClientJsonRpcMessage::notification(ClientNotification::InitializedNotification(InitializedNotification::default()))
}

/// Whether an error shows that the server speaks a modern version.
fn is_modern(error: &ErrorData) -> bool {
    match error.code {
        ErrorCode::HEADER_MISMATCH | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => true,
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => supports_modern(error),
        _ => false,
    }
}

/// Whether an error lists the modern version as supported. Its text may repeat it because it was requested.
fn supports_modern(error: &ErrorData) -> bool {
    let supported = error.data.as_ref().and_then(|data| data.get("supported")?.as_array());
    supported.is_some_and(|versions| versions.iter().any(|version| version == MODERN.as_str()))
}

/// The known versions that an error names, the newest first. Servers name those that they support.
pub(super) fn named_versions(error: &ErrorData) -> impl Iterator<Item = ProtocolVersion> + use<> {
    let supported = error.data.as_ref().and_then(|data| data.get("supported"));
    let said = match supported {
        Some(supported) => supported.to_string(),
        None => format!("{} {}", error.message, error.data.as_ref().map(Json::to_string).unwrap_or_default()),
    };
    ProtocolVersion::KNOWN_VERSIONS.iter().rev().filter(move |version| said.contains(version.as_str())).cloned()
}

/// The modern version.
const MODERN: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// The id of the first request of a handshake, and one more than that of the second. Requests after the handshake count from 0.
const LAST_ID: i64 = i32::MAX as i64;
