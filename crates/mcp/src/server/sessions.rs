//! Sessions of clients over streamable HTTP, for the protocols that have them (2025-11-25 and older).
//!
//! rmcp manages sessions. This module limits their number, and cancels calls that no client waits for. Every client that can
//! connect can open sessions, so a further one displaces an earlier one only by the rules of [`Table`], and is refused
//! otherwise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{Stream, StreamExt as _};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;

use super::named::NamedClient;
use super::peers::{Owner, Owners, Peer};

/// Returns whether a session keeps values or snippets that its client would lose.
type KeepsState = Arc<dyn Fn() -> bool + Send + Sync>;

/// A limited number of sessions.
pub(super) struct Sessions(Arc<Inner>);

struct Inner {
    local: LocalSessionManager,
    table: Mutex<Table>,
    owners: Owners,
}

/// The data of a request for the session that it opens.
pub(super) struct Opener {
    peer: Option<Peer>,
    /// The client, if it has a token of its own.
    named: Option<NamedClient>,
    keeps_state: Mutex<Option<KeepsState>>,
    was_refused: AtomicBool,
}

tokio::task_local! {
    /// The opener of the request that is handled.
    static OPENER: Arc<Opener>;
}

impl Opener {
    pub(super) fn new(peer: Option<Peer>, named: Option<NamedClient>) -> Arc<Self> {
        Arc::new(Self { peer, named, keeps_state: Mutex::default(), was_refused: AtomicBool::new(false) })
    }

    /// Handles the request, which may open a session.
    pub(super) async fn scope<T>(self: &Arc<Self>, handling: impl Future<Output = T>) -> T {
        OPENER.scope(Arc::clone(self), handling).await
    }

    /// Whether no further session could be opened.
    pub(super) fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Relaxed)
    }
}

/// The client of the request that is handled, if it has a token of its own.
pub(super) fn named_client() -> Option<NamedClient> {
    OPENER.try_with(|opener| opener.named.clone()).ok().flatten()
}

/// Sets the function that says whether the session that the current request opens keeps something.
pub(super) fn set_state(keeps_state: impl Fn() -> bool + Send + Sync + 'static) {
    let _ = OPENER.try_with(|opener| {
        *opener.keeps_state.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keeps_state));
    });
}

/// The open sessions, and the choice of the one that a further one displaces. Time is an argument.
struct Table {
    max: usize,
    /// The number of sessions that are being opened.
    opening: usize,
    open: HashMap<SessionId, Session>,
}

struct Session {
    owner: Option<Owner>,
    /// The only client that may use the session, if it has a token of its own; otherwise all others may.
    named: Option<NamedClient>,
    keeps_state: Option<KeepsState>,
    /// The pending calls.
    calls: Vec<RequestId>,
    /// Whether a tool was called.
    has_called: bool,
    last_use: Instant,
}

/// The cost of a session's end for its client. Sessions of the lowest cost are displaced first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// No tool was called. The session can be displaced at any time.
    Unused,
    /// The client has to open another session.
    Used,
    /// Values or snippets of programs are lost.
    KeepsState,
}

impl Worth {
    /// How long a session is in use after its last message.
    fn in_use(self) -> Duration {
        match self {
            Self::Unused => Duration::ZERO,
            Self::Used => Duration::from_mins(1),
            Self::KeepsState => Duration::from_mins(10),
        }
    }
}

impl Session {
    fn worth(&self) -> Worth {
        match (self.keeps_state.as_ref().is_some_and(|keeps_state| keeps_state()), self.has_called) {
            (true, _) => Worth::KeepsState,
            (_, true) => Worth::Used,
            (_, false) => Worth::Unused,
        }
    }
}

impl Table {
    fn new(max: usize) -> Self {
        Self { max: max.max(1), opening: 0, open: HashMap::new() }
    }

    /// Makes room for a further session. Returns the displaced session, if there is one; fails if all are in use.
    ///
    /// A session with pending calls is never displaced, and one in [use](Worth::in_use) only for an owner with fewer sessions.
    /// The choice is by lowest cost, then by the owner with the most sessions, then by the longest time without a message.
    fn admit(&mut self, owner: Option<Owner>, now: Instant) -> Result<Option<(SessionId, Session)>, SessionsError> {
        let displaced = if self.open.len() + self.opening < self.max { None } else { Some(self.displace(owner, now)?) };
        self.opening += 1;
        Ok(displaced)
    }

    fn displace(&mut self, owner: Option<Owner>, now: Instant) -> Result<(SessionId, Session), SessionsError> {
        let mut counts = HashMap::<_, usize>::new();
        for session in self.open.values() {
            *counts.entry(session.owner).or_default() += 1;
        }
        let own = counts.get(&owner).copied().unwrap_or_default();
        let candidate = |(id, session): (&SessionId, &Session)| {
            let (worth, others) = (session.worth(), counts[&session.owner]);
            let is_in_use = now.saturating_duration_since(session.last_use) < worth.in_use();
            let may_end = session.calls.is_empty() && (!is_in_use || others > own + 1);
            may_end.then(|| (worth, usize::MAX - others, session.last_use, SessionId::clone(id)))
        };
        let next = self.open.iter().filter_map(candidate).min();
        next.and_then(|(.., id)| self.open.remove_entry(&id)).ok_or(SessionsError::Full)
    }

    fn touch(&mut self, id: &SessionId, now: Instant) {
        if let Some(session) = self.open.get_mut(id) {
            session.last_use = now;
        }
    }

    /// Adds a pending call. Fails if the session has a pending call with the same id: rmcp would leak the state of the
    /// first of the two.
    fn begin(&mut self, id: &SessionId, call: &RequestId, calls_tool: bool, now: Instant) -> Result<(), SessionError> {
        let session = self.open.get_mut(id).ok_or(SessionError::SessionServiceTerminated)?;
        if session.calls.contains(call) {
            return Err(SessionError::DuplicatedRequestId(0));
        }
        session.calls.push(call.clone());
        session.has_called |= calls_tool;
        session.last_use = now;
        Ok(())
    }

    /// Removes a call that was answered or dropped.
    fn end(&mut self, id: &SessionId, call: &RequestId, now: Instant) {
        let Some(session) = self.open.get_mut(id) else { return };
        session.last_use = now;
        if let Some(at) = session.calls.iter().position(|pending| pending == call) {
            session.calls.swap_remove(at);
        }
    }
}

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
    #[error("all sessions are in use")]
    Full,
}

impl From<SessionError> for SessionsError {
    fn from(error: SessionError) -> Self {
        Self::Local(error.into())
    }
}

impl Sessions {
    /// At most `max` sessions. A session without messages ends after `idle`.
    pub(super) fn new(max: usize, idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        // Streams are not resumed, so their events are not kept.
        local.session_config.sse_retry = None;
        local.session_config.completed_cache_ttl = Duration::ZERO;
        Self(Arc::new(Inner { local, table: Mutex::new(Table::new(max)), owners: Owners::default() }))
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.0.table().open.contains_key(id)
    }

    /// Whether this client may use an open session: the client that opened it, or any other one without a token of its own.
    pub(super) fn is_of(&self, id: &str, client: Option<&NamedClient>) -> bool {
        self.0.table().open.get(id).is_some_and(|session| match (&session.named, client) {
            (Some(named), Some(client)) => named.is(client),
            (None, None) => true,
            _ => false,
        })
    }

    /// Closes the sessions of named clients that are no longer accepted.
    pub(super) async fn close_removed(&self) {
        let is_removed =
            |session: &mut Session| session.named.as_ref().is_some_and(|named| named.removed().is_cancelled());
        let removed: Vec<_> = self.0.table().open.extract_if(|_, session| is_removed(session)).collect();
        join_all(removed.iter().map(|(id, session)| self.0.end(id, &session.calls))).await;
    }

    /// Closes all sessions and cancels their calls.
    pub(super) async fn close_all(&self) {
        let all = std::mem::take(&mut self.0.table().open);
        join_all(all.iter().map(|(id, session)| self.0.end(id, &session.calls))).await;
    }
}

/// A session that is being opened; it counts until this is dropped.
struct Opening<'a>(&'a Inner);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.table().opening -= 1;
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for a session of the request that is handled.
    async fn admit(self: &Arc<Self>) -> Result<(Opening<'_>, Option<Owner>, Option<KeepsState>), SessionsError> {
        let opener = OPENER.try_with(Arc::clone).ok();
        let peer = opener.as_ref().and_then(|opener| opener.peer);
        let named = opener.as_ref().and_then(|opener| opener.named.as_ref());
        let owner = match (named, peer) {
            (Some(named), _) => Some(Owner::Named(named.identity())),
            (None, Some(peer)) => Some(self.owners.owner(peer).await),
            (None, None) => None,
        };
        let admitted = self.table().admit(owner, Instant::now());
        if let (Err(_), Some(opener)) = (&admitted, &opener) {
            opener.was_refused.store(true, Ordering::Relaxed);
        }
        let (displaced, opening) = (admitted?, Opening(self));
        if let Some((id, session)) = displaced {
            // The displaced session ends even if the client of the new one disconnects.
            let inner = Arc::clone(self);
            let _ = tokio::spawn(async move { inner.end(&id, &session.calls).await }).await;
        }
        let keeps_state =
            |opener: Arc<Opener>| opener.keeps_state.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok((opening, owner, opener.and_then(keeps_state)))
    }

    async fn cancel(&self, id: &SessionId, call: RequestId) {
        let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(call), None));
        let _ = self.local.accept_message(id, ClientJsonRpcMessage::notification(cancelled.into())).await;
    }

    async fn close(&self, id: &SessionId) {
        let session = self.table().open.remove(id);
        self.end(id, session.as_ref().map_or(&[], |session| &session.calls)).await;
    }

    /// Cancels the calls of a session that was removed, then closes it. rmcp alone would let the calls continue for seconds.
    async fn end(&self, id: &SessionId, calls: &[RequestId]) {
        let cancelled = async {
            for call in calls {
                self.cancel(id, call.clone()).await;
            }
        };
        // A session whose client does not read accepts no messages; it ends with its last connection.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, cancelled).await;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.local.close_session(id)).await;
    }
}

/// A call that a client waits for. Cancels the call when dropped before the answer was sent.
struct SessionCall {
    sessions: Arc<Inner>,
    id: SessionId,
    request: RequestId,
    answered: bool,
}

impl SessionCall {
    fn on_message(&mut self, message: Option<&ServerJsonRpcMessage>) {
        self.answered |= matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
    }
}

impl Drop for SessionCall {
    fn drop(&mut self) {
        self.sessions.table().end(&self.id, &self.request, Instant::now());
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
    type Error = SessionsError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (_opening, owner, keeps_state) = self.0.admit().await?;
        let (id, transport) = self.0.local.create_session().await?;
        let (calls, has_called, last_use) = (Vec::new(), false, Instant::now());
        let named = named_client();
        let removed = named.as_ref().map(|named| named.removed().clone());
        let session = Session { owner, named, keeps_state, calls, has_called, last_use };
        self.0.table().open.insert(id.clone(), session);
        if removed.is_some_and(|removed| removed.is_cancelled()) {
            self.0.close(&id).await; // `close_removed` may have come before.
            return Err(SessionError::SessionServiceTerminated.into());
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.0.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.0.local.has_session(id).await?)
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
                let calls_tool = matches!(request.request, ClientRequest::CallToolRequest(_));
                self.0.table().begin(id, &request.id, calls_tool, Instant::now())?;
                let (sessions, request) = (Arc::clone(&self.0), request.id.clone());
                Some(SessionCall { sessions, id: id.clone(), request, answered: false })
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
        self.0.table().touch(id, Instant::now());
        Ok(self.0.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.0.table().touch(id, Instant::now());
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    struct Clock {
        table: Table,
        now: Instant,
        count: u32,
    }

    impl Clock {
        fn new(max: usize) -> Self {
            Self { table: Table::new(max), now: Instant::now(), count: 0 }
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
        }

        /// Opens a session. Returns its id, and that of the displaced session.
        fn open(&mut self, owner: Option<Owner>) -> Result<(SessionId, Option<SessionId>), SessionsError> {
            self.pass(Duration::from_millis(1));
            let displaced = self.table.admit(owner, self.now)?.map(|(id, _)| id);
            self.table.opening -= 1;
            self.count += 1;
            let (id, calls) = (SessionId::from(self.count.to_string()), Vec::new());
            let (keeps_state, last_use) = (None, self.now);
            let session = Session { owner, named: None, keeps_state, calls, has_called: false, last_use };
            self.table.open.insert(id.clone(), session);
            Ok((id, displaced))
        }

        fn begin(&mut self, id: &SessionId) {
            self.table.begin(id, &RequestId::Number(1), true, self.now).unwrap();
        }

        fn call(&mut self, id: &SessionId) {
            self.begin(id);
            self.table.end(id, &RequestId::Number(1), self.now);
        }

        fn keep(&mut self, id: &SessionId) {
            self.table.open.get_mut(id).unwrap().keeps_state = Some(Arc::new(|| true));
        }

        fn has(&self, id: &SessionId) -> bool {
            self.table.open.contains_key(id)
        }
    }

    fn address(last: u8) -> Owner {
        Owner::Address(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn a_flood_of_new_sessions_displaces_only_itself() {
        let mut clock = Clock::new(8);
        let [used, keeping, busy] = [(); 3].map(|()| clock.open(None).unwrap().0);
        clock.call(&used);
        clock.call(&keeping);
        clock.keep(&keeping);
        clock.begin(&busy);
        for _ in 0..1_000 {
            clock.open(None).unwrap();
        }
        assert!([used, keeping, busy].iter().all(|id| clock.has(id)));
    }

    #[test]
    fn what_costs_least_gives_way_first_and_nothing_in_use() {
        let mut clock = Clock::new(4);
        let [keeping, used, unused, busy] = [(); 4].map(|()| clock.open(None).unwrap().0);
        clock.call(&keeping);
        clock.keep(&keeping);
        clock.call(&used);
        clock.begin(&busy);
        let (new, displaced) = clock.open(None).unwrap();
        assert_eq!(displaced, Some(unused));
        clock.call(&new);
        assert!(matches!(clock.open(None), Err(SessionsError::Full)), "all are in use");
        clock.pass(Worth::Used.in_use() / 2);
        clock.call(&new);
        assert!(clock.open(None).is_err());
        clock.pass(Worth::Used.in_use() / 2);
        let (newest, displaced) = clock.open(None).unwrap();
        assert_eq!(displaced, Some(used));
        clock.begin(&newest);
        clock.begin(&new);
        assert!(clock.open(None).is_err());
        clock.pass(Worth::KeepsState.in_use());
        assert_eq!(clock.open(None).unwrap().1, Some(keeping));
        clock.pass(Duration::from_hours(1));
        assert!(clock.has(&busy), "a session with a pending call never gives way");
    }

    #[test]
    fn owners_with_many_sessions_give_way_to_those_with_few() {
        let mut clock = Clock::new(8);
        let modest = clock.open(Some(address(1))).unwrap().0;
        let greedy: Vec<_> = (0..7).map(|_| clock.open(Some(address(2))).unwrap().0).collect();
        assert_eq!(clock.open(Some(address(2))).unwrap().1.as_ref(), Some(&greedy[0]), "although another one is older");
        let all: Vec<_> = clock.table.open.keys().cloned().collect();
        for id in &all {
            clock.call(id);
            clock.keep(id);
        }
        assert!(clock.open(Some(address(2))).is_err());
        for nth in 3..6 {
            let (new, displaced) = clock.open(Some(address(nth))).unwrap();
            clock.call(&new);
            let displaced = displaced.unwrap();
            assert!(displaced != modest && all.contains(&displaced), "{nth}");
        }
        assert!(clock.has(&modest));
    }

    #[test]
    fn sessions_that_are_being_opened_count() {
        let mut table = Table::new(2);
        let now = Instant::now();
        assert!(table.admit(None, now).unwrap().is_none() && table.admit(None, now).unwrap().is_none());
        assert!(matches!(table.admit(None, now), Err(SessionsError::Full)));
    }
}
