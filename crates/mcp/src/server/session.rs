//! The data of a server for the client of one connection or session.

#![allow(deprecated)] // Levels of log messages: clients set them.

use std::sync::{Arc, Mutex, OnceLock};

use execbox::Executor;
use execbox_core::budget::Budget;
use rmcp::model::{LoggingLevel, Tool};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::approvals::ApprovedTools;
use super::state::{self, Checker, Means, State, StateOptions};
use super::watches::Watches;
use super::{CodeServer, MAX_CONCURRENT, run};
use crate::clients::Client;
use crate::store::StateStore;

/// The identity and the state of the client of one connection or session.
pub(super) struct Session {
    pub(super) client: Client,
    /// Created when it is needed. Shared by all sessions if [`StateOptions::shared`] is set.
    state: Arc<OnceLock<Arc<State>>>,
    /// The resources whose updates the client wants, before MCP 2026-07-28.
    pub(super) watches: Arc<Watches>,
    /// The tools that the client has listed last.
    pub(super) listed: Arc<Mutex<Option<Vec<Tool>>>>,
    /// The least severe log messages that the client wants, before MCP 2026-07-28. `None` if it wants none.
    pub(super) log_level: Arc<Mutex<Option<LoggingLevel>>>,
    /// The tools that the user of the client has approved for the session.
    pub(super) approved: Arc<ApprovedTools>,
    /// Fires when the session ends.
    ended: CancellationToken,
    /// `None` in other handles for the session.
    _end: Option<DropGuard>,
}

impl Session {
    /// Another handle, which does not keep the session open.
    pub(super) fn handle(&self) -> Self {
        Self {
            client: self.client,
            state: Arc::clone(&self.state),
            watches: Arc::clone(&self.watches),
            listed: Arc::clone(&self.listed),
            log_level: Arc::clone(&self.log_level),
            approved: Arc::clone(&self.approved),
            ended: self.ended.clone(),
            _end: None,
        }
    }
}

/// The states of all clients.
pub(super) struct States {
    shared: Option<Arc<OnceLock<Arc<State>>>>,
    /// The state of requests without a session, if no state is shared.
    sessionless: Arc<State>,
    /// Whether `sessionless` keeps anything: it does if the server is for one client only.
    is_of_one_client: bool,
    /// The memory budget of all states in memory.
    budget: Budget,
    means: Means,
}

impl States {
    pub(super) fn new(options: &StateOptions, executor: &Arc<dyn Executor>) -> Self {
        let turns = Arc::new(Semaphore::new(MAX_CONCURRENT));
        let means = Means { turns, checker: Arc::new(Checker::new(executor)) };
        Self::within(Budget::new(state::MAX_TOTAL_BYTES), means, options, false)
    }

    fn within(budget: Budget, means: Means, options: &StateOptions, is_of_one_client: bool) -> Self {
        let new = |store: &Arc<dyn StateStore>| Arc::new(State::new(store, options, &means));
        let shared = options.shared.as_ref().map(|store| Arc::new(OnceLock::from(new(store))));
        let sessionless = Arc::new(match is_of_one_client {
            true => State::in_memory(&budget, options, &means),
            false => State::none(options, &means),
        });
        Self { shared, sessionless, is_of_one_client, budget, means }
    }

    /// The states of other clients, within the same budget.
    pub(super) fn for_client(&self, options: &StateOptions) -> Self {
        Self::within(self.budget.clone(), self.means.clone(), options, true)
    }

    /// A session of a new client.
    pub(super) fn session(&self) -> Session {
        let (state, ended) = (self.shared.clone().unwrap_or_default(), CancellationToken::new());
        let (watches, listed, log_level, approved) = Default::default();
        let end = Some(ended.clone().drop_guard());
        Session { client: Client::new(), state, watches, listed, log_level, approved, _end: end, ended }
    }
}

impl CodeServer {
    /// Returns a function that says whether programs of the client have kept something that ends with its session.
    pub(super) fn keeps_state(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let state = Arc::downgrade(&self.session.state);
        move || state.upgrade().is_some_and(|state| state.get().is_some_and(|state| state.is_kept_in_memory()))
    }

    /// The state of the client that sends a request.
    pub(super) fn state(&self, context: &RequestContext<RoleServer>) -> Arc<State> {
        let States { shared, sessionless, .. } = &self.inner.states;
        if shared.is_none() && run::is_sessionless(context) {
            return Arc::clone(sessionless);
        }
        self.own_state()
    }

    /// The state of the session, or of all clients.
    pub(super) fn own_state(&self) -> Arc<State> {
        let States { budget, means, .. } = &self.inner.states;
        let own = || Arc::new(State::in_memory(budget, &self.inner.options.state, means));
        Arc::clone(self.session.state.get_or_init(own))
    }

    /// A token that fires when the session of a request ends. Requests over HTTP without a session have none.
    pub(super) fn session_end(&self, context: &RequestContext<RoleServer>) -> CancellationToken {
        if run::is_sessionless(context) { CancellationToken::new() } else { self.session.ended.child_token() }
    }

    pub(super) fn has_no_state(&self, context: &RequestContext<RoleServer>) -> bool {
        let States { shared, is_of_one_client, .. } = &self.inner.states;
        shared.is_none() && !is_of_one_client && run::is_sessionless(context)
    }
}
