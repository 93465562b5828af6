//! What a server asks of its client during a call: input of the user, an answer of the model, directories. It is forwarded to the
//! client whose program makes the call, and never answered in its place.

#![allow(deprecated)] // Sampling and roots: servers use them.

use std::sync::Arc;

use execbox_core::text::{cut, escape, is_deceptive};
use rmcp::model::{
    ClientCapabilities, ClientResult, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorCode, ErrorData, ListRootsResult, Request, ServerRequest,
};
use rmcp::service::{ElicitationMode, Peer, RoleServer};
use tokio::sync::Semaphore;

use super::progress::{CallsInProgress, Waiting};
use crate::clients::{Clients, Origin};
use crate::text::json_exceeds;

/// Forwards the requests of one server.
#[derive(Debug, Clone)]
pub(super) struct Forwarding {
    calls: CallsInProgress,
    clients: Clients,
    /// How many requests are forwarded at once; further ones fail.
    places: Arc<Semaphore>,
}

impl Forwarding {
    pub(super) fn new(calls: CallsInProgress, clients: Clients) -> Self {
        Self { calls, clients, places: Arc::new(Semaphore::new(MAX_FORWARDED)) }
    }

    /// The user sees which server asks: no server can pretend to be another, or the gateway.
    pub(super) async fn elicit(&self, mut request: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        let waiting = self.waiting()?;
        let mode = match &request {
            ElicitRequestParams::UrlElicitationParams { .. } => ElicitationMode::Url,
            _ => ElicitationMode::Form,
        };
        if !waiting.origin.peer.supported_elicitation_modes().contains(&mode) {
            return Err(failed("the client cannot ask its user"));
        }
        match &mut request {
            ElicitRequestParams::FormElicitationParams { message, .. }
            | ElicitRequestParams::UrlElicitationParams { message, .. } => {
                let text = cut(&waiting.secrets.redact(std::mem::take(message)), MAX_MESSAGE);
                let text = escape(&text, |c| is_deceptive(c) && c != '\n');
                *message = format!("The server {:?} asks:\n\n{text}", waiting.server);
            }
            _ => return Err(failed("unknown kind of elicitation")),
        }
        match self.forward(&waiting, ServerRequest::ElicitRequest(Request::new(request))).await? {
            ClientResult::ElicitResult(result) => Ok(result),
            _ => Err(failed("the client has given another kind of answer")),
        }
    }

    pub(super) async fn sample(&self, request: CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        let waiting = self.waiting()?;
        if !offers(&waiting.origin.peer, |capabilities| capabilities.sampling.is_some()) {
            return Err(failed("the client cannot ask its model"));
        }
        let forwarded = ServerRequest::CreateMessageRequest(Request::new(request));
        match self.forward(&waiting, forwarded).await? {
            ClientResult::CreateMessageResult(result) => Ok(*result),
            _ => Err(failed("the client has given another kind of answer")),
        }
    }

    /// Servers ask for directories at any time, so only those of the only client can be meant.
    pub(super) async fn roots(&self) -> Result<ListRootsResult, ErrorData> {
        let client = self.clients.only().filter(|client| offers(client, |capabilities| capabilities.roots.is_some()));
        let client = client.ok_or_else(|| failed("the client has no roots"))?;
        let _place = self.places.try_acquire().map_err(|_| failed("too many requests at once"))?;
        client.list_roots().await.map_err(|_| failed("the client has not answered"))
    }

    /// The calls in flight, if they are all of one client.
    fn waiting(&self) -> Result<Waiting, ErrorData> {
        self.calls.waiting().ok_or_else(|| failed("no call of one client alone is in progress"))
    }

    async fn forward(&self, waiting: &Waiting, request: ServerRequest) -> Result<ClientResult, ErrorData> {
        let _place = self.places.try_acquire().map_err(|_| failed("too many requests at once"))?;
        if json_exceeds(&request, MAX_REQUEST) {
            return Err(failed("the request is too long"));
        }
        let Origin { timeout, ended, .. } = &waiting.origin;
        match tokio::time::timeout(*timeout, ended.run_until_cancelled(waiting.origin.ask(request))).await {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(_))) => Err(failed("the client has failed to answer")),
            Ok(None) => Err(failed("the call has ended")),
            Err(_) => Err(failed("the client has not answered in time")),
        }
    }
}

/// Whether a client has stated what `has` looks for.
fn offers(client: &Peer<RoleServer>, has: impl Fn(&ClientCapabilities) -> bool) -> bool {
    client.peer_info().is_some_and(|info| has(&info.capabilities))
}

/// Honest, other than a refusal: the user has not been asked, or has not answered.
fn failed(why: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None)
}

/// How many requests of a server are forwarded at once.
const MAX_FORWARDED: usize = 8;

/// The longest request that is forwarded, in bytes of JSON.
const MAX_REQUEST: usize = 1 << 20;

/// The longest message to a user, in characters.
const MAX_MESSAGE: usize = 4000;
