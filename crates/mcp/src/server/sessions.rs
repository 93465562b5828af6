//! Sessions of clients over streamable HTTP, for the protocols that have them (2025-11-25 and older).
//!
//! rmcp manages sessions. This module limits their number, and cancels calls that no client waits for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{Stream, StreamExt as _};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

/// A limited number of sessions. A further one closes the session that has been without a call for longest.
pub(super) struct Sessions(Arc<Inner>);

struct Inner {
    local: LocalSessionManager,
    max: usize,
    /// In order of their last use, the least recent first.
    open: Mutex<VecDeque<Session>>,
}

struct Session {
    id: SessionId,
    /// The pending calls.
    calls: Vec<RequestId>,
}

impl Sessions {
    /// At most `max` sessions. A session without messages ends after `idle`.
    pub(super) fn new(max: usize, idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        // Streams are not resumed, so their events are not kept.
        local.session_config.sse_retry = None;
        local.session_config.completed_cache_ttl = Duration::ZERO;
        Self(Arc::new(Inner { local, max: max.max(1), open: Mutex::default() }))
    }

    /// Closes all sessions and cancels their calls.
    pub(super) async fn close_all(&self) {
        let all: Vec<SessionId> = self.0.open().iter().map(|session| session.id.clone()).collect();
        join_all(all.iter().map(|id| self.0.close(id))).await;
    }
}

impl Inner {
    fn open(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session to close before a further one is created, if the limit is reached.
    fn surplus(&self) -> Option<SessionId> {
        let open = self.open();
        let idle = open.iter().find(|session| session.calls.is_empty()).or(open.front());
        (open.len() >= self.max).then(|| idle.map(|session| session.id.clone())).flatten()
    }

    /// Marks a session as the most recently used.
    fn touch(&self, id: &SessionId) {
        let mut open = self.open();
        let at = open.iter().position(|session| session.id == *id);
        if let Some(session) = at.and_then(|at| open.remove(at)) {
            open.push_back(session);
        }
    }

    /// Adds a pending call. Fails if the session has a pending call with the same id: rmcp would leak the state of the
    /// first of the two.
    fn begin(&self, id: &SessionId, call: &RequestId) -> Result<(), SessionError> {
        self.touch(id);
        let mut open = self.open();
        let session = open.back_mut().filter(|session| session.id == *id);
        let session = session.ok_or(SessionError::SessionServiceTerminated)?;
        if session.calls.contains(call) {
            return Err(SessionError::DuplicatedRequestId(0));
        }
        session.calls.push(call.clone());
        Ok(())
    }

    /// Removes a call that was answered or dropped.
    fn end(&self, id: &SessionId, call: &RequestId) {
        let mut open = self.open();
        let Some(session) = open.iter_mut().find(|session| session.id == *id) else { return };
        if let Some(at) = session.calls.iter().position(|pending| pending == call) {
            session.calls.swap_remove(at);
        }
    }

    async fn cancel(&self, id: &SessionId, call: RequestId) {
        let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(call), None));
        let _ = self.local.accept_message(id, ClientJsonRpcMessage::notification(cancelled.into())).await;
    }

    /// Cancels the calls of a session, then closes it. rmcp alone would let the calls continue for seconds.
    async fn close(&self, id: &SessionId) {
        let session = {
            let mut open = self.open();
            let at = open.iter().position(|session| session.id == *id);
            at.and_then(|at| open.remove(at))
        };
        let calls = session.map(|session| session.calls).unwrap_or_default();
        let cancelled = async {
            for call in calls {
                self.cancel(id, call).await;
            }
        };
        // A session whose client does not read accepts no messages; it ends with its last connection.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, cancelled).await;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.local.close_session(id)).await;
    }
}

/// A call that a client waits for. Cancels the call when dropped before the answer was sent.
struct PendingCall {
    sessions: Arc<Inner>,
    id: SessionId,
    request: RequestId,
    answered: bool,
}

impl PendingCall {
    fn on_message(&mut self, message: Option<&ServerJsonRpcMessage>) {
        self.answered |= matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.sessions.end(&self.id, &self.request);
        if !self.answered {
            let (sessions, id, request) = (Arc::clone(&self.sessions), self.id.clone(), self.request.clone());
            tokio::spawn(async move { sessions.cancel(&id, request).await });
        }
    }
}

/// Removes the id, which would mean that the stream can be resumed.
fn without_id(mut event: ServerSseMessage) -> ServerSseMessage {
    event.event_id = None;
    event
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        while let Some(surplus) = self.0.surplus() {
            self.0.close(&surplus).await;
        }
        let (id, transport) = self.0.local.create_session().await?;
        self.0.open().push_back(Session { id: id.clone(), calls: Vec::new() });
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.0.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.0.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.0.close(id).await;
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let mut call = match &message {
            JsonRpcMessage::Request(request) => {
                self.0.begin(id, &request.id)?;
                let (sessions, request) = (Arc::clone(&self.0), request.id.clone());
                Some(PendingCall { sessions, id: id.clone(), request, answered: false })
            }
            _ => None,
        };
        let events = self.0.local.create_stream(id, message).await?;
        Ok(events.map(move |event| {
            if let Some(call) = &mut call {
                call.on_message(event.message.as_deref());
            }
            without_id(event)
        }))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.0.touch(id);
        self.0.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.0.touch(id);
        Ok(self.0.local.create_standalone_stream(id).await?.map(without_id))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.local.resume(id, last_event_id).await?.map(without_id))
    }
}

/// The maximum duration of cancelling the calls of a session, and of closing it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
