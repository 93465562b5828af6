//! Requests of a server during a call: for input of the user, an answer of the model, or directories. They are forwarded to
//! the client whose program makes the call, and never answered in its place.

#![allow(deprecated)] // Sampling and roots: servers use them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::text::{Keep, cut, escape, is_hidden};
use rmcp::model::{
    ClientCapabilities, ClientResult, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationSchema, ErrorCode, ErrorData, InputRequest, ListRootsRequest, ListRootsResult, Request,
    RootsCapabilities,
};
use rmcp::service::{Peer, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tokio::sync::Semaphore;

use super::lenient::excerpt;
use super::progress::{CallsInProgress, Waiting};
use crate::Secrets;
use crate::clients::{Clients, Origin};
use crate::text::{json_exceeds, make_json_visible};

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

    /// Forwards a request for input.
    pub(super) async fn elicit(
        &self,
        waiting: &Waiting,
        request: ElicitRequestParams,
    ) -> Result<ElicitResult, ErrorData> {
        let request = shown_question(request, &waiting.asker())?;
        match self.forward(waiting, InputRequest::Elicitation(Request::new(request))).await? {
            ClientResult::ElicitResult(result) => Ok(result),
            _ => Err(failed("the client has given another kind of answer")),
        }
    }

    pub(super) async fn sample(
        &self,
        waiting: &Waiting,
        request: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        let request = shown_messages(request, &waiting.asker())?;
        match self.forward(waiting, InputRequest::CreateMessage(Request::new(request))).await? {
            ClientResult::CreateMessageResult(result) => Ok(*result),
            _ => Err(failed("the client has given another kind of answer")),
        }
    }

    /// Forwards a request for directories. Older servers send it at any time, so that it is forwarded only if there is one
    /// client. `waiting` is the call that it belongs to, if that is known.
    pub(super) async fn roots(&self, waiting: Option<&Waiting>) -> Result<ListRootsResult, ErrorData> {
        if let Some(waiting) = waiting.filter(|waiting| waiting.asker().can_list_roots()) {
            let request = InputRequest::ListRoots(ListRootsRequest::default());
            return match self.forward(waiting, request).await? {
                ClientResult::ListRootsResult(result) => Ok(result),
                _ => Err(failed("the client has given another kind of answer")),
            };
        }
        let client = self.client_with_roots().ok_or_else(|| failed("the client has no roots"))?;
        let _place = self.places.try_acquire().map_err(|_| failed("too many requests at once"))?;
        client.list_roots().await.map_err(|_| failed("the client has not answered"))
    }

    fn client_with_roots(&self) -> Option<Peer<RoleServer>> {
        self.clients.only().filter(|client| client.peer_info().is_some_and(|info| info.capabilities.roots.is_some()))
    }

    /// What can be asked during a call of this client.
    pub(super) fn offered_by(&self, origin: &Origin) -> ClientCapabilities {
        let mut offered = origin.offers.capabilities();
        if !origin.can_list_roots() {
            offered.roots = self.client_with_roots().map(|_| RootsCapabilities::default());
        }
        offered
    }

    /// The calls in flight, if they are all of one client.
    pub(super) async fn waiting(&self) -> Result<Waiting, ErrorData> {
        // A server may ask before its call is registered.
        for _ in 0..REGISTRATION_ATTEMPTS {
            if !self.calls.is_sending() {
                break;
            }
            tokio::time::sleep(REGISTRATION_PAUSE).await;
        }
        self.calls.waiting().ok_or_else(|| failed("calls of several clients, or none, are in progress"))
    }

    async fn forward(&self, waiting: &Waiting, request: InputRequest) -> Result<ClientResult, ErrorData> {
        let _place = self.places.try_acquire().map_err(|_| failed("too many requests at once"))?;
        if json_exceeds(&request, MAX_REQUEST) {
            return Err(failed("the request is too long"));
        }
        let Origin { timeout, ended, .. } = &waiting.origin;
        match tokio::time::timeout(*timeout, ended.run_until_cancelled(waiting.origin.ask(request))).await {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(why))) => Err(failed(why.to_string())),
            Ok(None) => Err(failed("the call has ended")),
            Err(_) => Err(failed("the client has not answered in time")),
        }
    }
}

/// A server that asks for something during a call, and the client that is asked.
pub(super) struct Asker<'a> {
    pub(super) server: &'a str,
    pub(super) origin: &'a Origin,
    pub(super) secrets: &'a Secrets,
}

impl Asker<'_> {
    fn can_list_roots(&self) -> bool {
        self.origin.can_list_roots()
    }
}

/// A request for input as users see it. The message names the server, so that no server can pretend to be another one, or the
/// gateway.
pub(super) fn shown_question(
    mut request: ElicitRequestParams,
    asker: &Asker<'_>,
) -> Result<ElicitRequestParams, ErrorData> {
    let Asker { server, origin, secrets } = asker;
    let is_offered = match &request {
        ElicitRequestParams::UrlElicitationParams { .. } => origin.offers.elicitation.urls,
        _ => origin.offers.elicitation.forms,
    };
    if !is_offered {
        return Err(failed("the client cannot ask its user"));
    }
    let message = match &mut request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let visible = visible_form(requested_schema, secrets);
            *requested_schema = visible.ok_or_else(|| failed("hidden characters in a name or value of the form"))?;
            message
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            if url.contains(is_hidden) {
                return Err(failed("hidden characters in the URL"));
            }
            message
        }
        _ => return Err(failed("unknown kind of elicitation")),
    };
    let text = visible(std::mem::take(message), secrets);
    *message = format!("The server {server:?} asks:\n\n{text}");
    Ok(request)
}

/// A request for an answer of a model, as the model reads it.
pub(super) fn shown_messages(
    request: CreateMessageRequestParams,
    asker: &Asker<'_>,
) -> Result<CreateMessageRequestParams, ErrorData> {
    if !asker.origin.offers.sampling {
        return Err(failed("the client cannot ask its model"));
    }
    let mut request = serde_json::to_value(request).map_err(|_| failed("invalid request"))?;
    make_json_visible(&mut request);
    serde_json::from_value(request).map_err(|_| failed("invalid request"))
}

/// A request as a client gets it in a result, which it answers in the next request of the same call.
pub(super) fn shown(mut request: Json, asker: &Asker<'_>) -> Result<InputRequest, ErrorData> {
    if json_exceeds(&request, MAX_REQUEST) {
        return Err(failed("the request is too long"));
    }
    let params = request.get_mut("params").map(Json::take).unwrap_or_default();
    Ok(match request.get("method").and_then(Json::as_str) {
        Some("elicitation/create") => InputRequest::Elicitation(Request::new(shown_question(read(params)?, asker)?)),
        Some("sampling/createMessage") => {
            InputRequest::CreateMessage(Request::new(shown_messages(read(params)?, asker)?))
        }
        Some("roots/list") if asker.can_list_roots() => InputRequest::ListRoots(ListRootsRequest::default()),
        Some("roots/list") => return Err(failed("the client has no roots")),
        _ => return Err(ErrorData::invalid_params(format!("unknown request: {}", excerpt(&request)), None)),
    })
}

/// Reads the parameters of a request.
pub(super) fn read<T: DeserializeOwned>(params: Json) -> Result<T, ErrorData> {
    serde_json::from_value(params).map_err(|error| ErrorData::invalid_params(format!("invalid request: {error}"), None))
}

/// A form whose texts have no hidden characters, and whose titles and descriptions have no secrets. `None` if there are hidden characters in names or values,
/// which the server expects unchanged in the answer.
fn visible_form(form: &ElicitationSchema, secrets: &Secrets) -> Option<ElicitationSchema> {
    let mut form = serde_json::to_value(form).ok()?;
    let mut waiting = vec![&mut form];
    while let Some(value) = waiting.pop() {
        match value {
            Json::String(text) if has_hidden(text) => return None,
            Json::Array(items) => waiting.extend(items),
            Json::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member) {
                        ("title" | "description", Json::String(text)) => *text = visible(std::mem::take(text), secrets),
                        ("enumNames", Json::Array(names)) => {
                            for name in names {
                                let text = name.as_str().unwrap_or_default().to_owned();
                                *name = Json::String(visible(text, &Secrets::default()));
                            }
                        }
                        (name, _) if has_hidden(name) => return None,
                        (_, member) => waiting.push(member),
                    }
                }
            }
            _ => {}
        }
    }
    serde_json::from_value(form).ok()
}

/// A text of a server for the user of the client.
fn visible(text: String, secrets: &Secrets) -> String {
    escape(&cut(&secrets.redact(text), MAX_MESSAGE), Keep::Lines).into_owned()
}

fn has_hidden(text: &str) -> bool {
    matches!(escape(text, Keep::Lines), Cow::Owned(_))
}

/// An error, not a refusal: the user was not asked, or did not answer.
fn failed(why: impl Into<Cow<'static, str>>) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None)
}

/// How often it is looked whether calls are registered, and the pause between.
const REGISTRATION_ATTEMPTS: usize = 100;
const REGISTRATION_PAUSE: Duration = Duration::from_millis(5);

/// How many requests of a server are forwarded at once.
const MAX_FORWARDED: usize = 8;

/// The longest request that is forwarded, in bytes of JSON.
const MAX_REQUEST: usize = 1 << 20;

/// The longest message to a user, in characters.
const MAX_MESSAGE: usize = 4000;
