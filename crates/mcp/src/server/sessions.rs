//! The sessions of clients that speak a protocol with sessions (2025-11-25 and older), over streamable HTTP.
//!
//! rmcp keeps them; here they are capped, and what a client no longer waits for is cancelled.

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

/// Sessions, up to a number: where there are as many, the one that is without a call for longest makes room.
pub(super) struct Sessions(Arc<Inner>);

struct Inner {
    local: LocalSessionManager,
    most: usize,
    /// In the order of their last use.
    open: Mutex<VecDeque<Session>>,
}

struct Session {
    id: SessionId,
    /// The calls under way.
    calls: Vec<RequestId>,
}

impl Sessions {
    /// At most `most` sessions, which end when nothing happens in them for `idle`.
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        // No stream is resumed, so none is kept.
        local.session_config.sse_retry = None;
        local.session_config.completed_cache_ttl = Duration::ZERO;
        Self(Arc::new(Inner { local, most: most.max(1), open: Mutex::default() }))
    }

    /// Ends all of them, and what runs in them.
    pub(super) async fn close_all(&self) {
        let all: Vec<SessionId> = self.0.open().iter().map(|session| session.id.clone()).collect();
        join_all(all.iter().map(|id| self.0.close(id))).await;
    }
}

impl Inner {
    fn open(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that has to go before there is a further one.
    fn surplus(&self) -> Option<SessionId> {
        let open = self.open();
        let idle = open.iter().find(|session| session.calls.is_empty()).or(open.front());
        (open.len() >= self.most).then(|| idle.map(|session| session.id.clone())).flatten()
    }

    /// Notes that a session is used.
    fn used(&self, id: &SessionId) {
        let mut open = self.open();
        let at = open.iter().position(|session| session.id == *id);
        if let Some(session) = at.and_then(|at| open.remove(at)) {
            open.push_back(session);
        }
    }

    /// Notes that a session is used for a call. The id of a call under way is that call's alone: rmcp would keep what
    /// it knows of the first of two for ever.
    fn begun(&self, id: &SessionId, call: &RequestId) -> Result<(), SessionError> {
        self.used(id);
        let mut open = self.open();
        let session = open.back_mut().filter(|session| session.id == *id);
        let session = session.ok_or(SessionError::SessionServiceTerminated)?;
        if session.calls.contains(call) {
            return Err(SessionError::DuplicatedRequestId(0));
        }
        session.calls.push(call.clone());
        Ok(())
    }

    /// Notes that a call has its answer, or will have none.
    fn ended(&self, id: &SessionId, call: &RequestId) {
        let mut open = self.open();
        let Some(session) = open.iter_mut().find(|session| session.id == *id) else { return };
        if let Some(at) = session.calls.iter().position(|under_way| under_way == call) {
            session.calls.swap_remove(at);
        }
    }

    async fn cancel(&self, id: &SessionId, call: RequestId) {
        let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(call), None));
        let _ = self.local.accept_message(id, ClientJsonRpcMessage::notification(cancelled.into())).await;
    }

    /// rmcp lets calls run on for seconds after the end of their session, so they are cancelled before it.
    async fn close(&self, id: &SessionId) {
        let session = {
            let mut open = self.open();
            let at = open.iter().position(|session| session.id == *id);
            at.and_then(|at| open.remove(at))
        };
        let calls = session.map(|session| session.calls).unwrap_or_default();
        let closed = async {
            for call in calls {
                self.cancel(id, call).await;
            }
        };
        // A session whose client does not read takes no more word; it ends when its last connection does.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.local.close_session(id)).await;
    }
}

/// A call whose answer a client waits for. Dropped before the answer is out, it is cancelled.
struct Call {
    sessions: Arc<Inner>,
    id: SessionId,
    request: RequestId,
    answered: bool,
}

impl Call {
    fn passed(&mut self, message: Option<&ServerJsonRpcMessage>) {
        self.answered |= matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.sessions.ended(&self.id, &self.request);
        if !self.answered {
            let (sessions, id, request) = (Arc::clone(&self.sessions), self.id.clone(), self.request.clone());
            tokio::spawn(async move { sessions.cancel(&id, request).await });
        }
    }
}

/// Without the id that promises that a stream can be resumed after it.
fn unnumbered(mut event: ServerSseMessage) -> ServerSseMessage {
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
                self.0.begun(id, &request.id)?;
                let (sessions, request) = (Arc::clone(&self.0), request.id.clone());
                Some(Call { sessions, id: id.clone(), request, answered: false })
            }
            _ => None,
        };
        let events = self.0.local.create_stream(id, message).await?;
        Ok(events.map(move |event| {
            if let Some(call) = &mut call {
                call.passed(event.message.as_deref());
            }
            unnumbered(event)
        }))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.0.used(id);
        self.0.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.0.used(id);
        Ok(self.0.local.create_standalone_stream(id).await?.map(unnumbered))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.local.resume(id, last_event_id).await?.map(unnumbered))
    }
}

/// How long a session may take to hear that it ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
