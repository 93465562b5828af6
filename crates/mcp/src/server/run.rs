//! One execution for a client, and its result.

#![allow(deprecated)] // Log messages: servers send them.

use std::iter;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use execbox::code_tool::{Answer, Outline};
use execbox::policy::{Policy, Questions};
use execbox::{CancellationToken, ExecuteRequest, ExecuteResult};
use http::request::Parts;
use rmcp::model::{CallToolResult, ContentBlock, LoggingMessageNotificationParam, MetaObject, ProtocolVersion};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, json};
use tokio::sync::mpsc;

use super::approvals::{ApprovedTools, ClientUser};
use super::progress::{Recipient, Reporting};
use super::results::Results;
use super::{CodeServer, ServerOptions, media};
use crate::Secrets;
use crate::clients::{Channel, Client, LogSink, Offers, Origin};
use crate::open_requests::OpenRequests;
use crate::text::shown;
use crate::trace;

/// The client that runs a program, and how it is reached.
pub(super) struct Caller {
    pub(super) origin: Origin,
    /// The client that gets the permit of the program.
    client: Client,
    /// The tools that the user has approved for the session; `None` without a session.
    approved: Option<Arc<ApprovedTools>>,
    /// Whether other clients may need a permit, too.
    is_shared: bool,
    /// `None` if the client wants neither progress nor log messages.
    pub(super) progress: Option<Recipient>,
    /// The log messages for the client.
    pub(super) logs: Mutex<Option<mpsc::Receiver<LoggingMessageNotificationParam>>>,
}

impl Caller {
    /// The client that sends a request. The program ends with `ended`.
    pub(super) fn new(server: &CodeServer, context: &RequestContext<RoleServer>, ended: CancellationToken) -> Self {
        let is_modern = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let level = match is_modern {
            true => context.meta.log_level(),
            false => *server.session.log_level.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let (logs, received) = level
            .map(|level| {
                let (messages, received) = mpsc::channel(MAX_LOGS);
                (LogSink { level, messages }, received)
            })
            .unzip();
        let origin = Origin {
            logs,
            client: server.session.client,
            offers: context.client_capabilities().as_ref().map(Offers::new).unwrap_or_default(),
            channel: match is_modern {
                true => Channel::Results(OpenRequests::default()),
                false => Channel::Requests { peer: context.peer.clone(), during: context.id.clone() },
            },
            was_asked: Arc::default(),
            timeout: server.inner.options.approval_timeout,
            trace: trace::of_request(&context.meta),
            ended,
        };
        let progress = Recipient::new(context, received.is_some());
        let (client, is_shared, logs) = (client(server, context), is_http(context), Mutex::new(received));
        let approved = (!is_sessionless(context)).then(|| Arc::clone(&server.session.approved));
        Self { origin, client, approved, is_shared, progress, logs }
    }

    /// Waits for a permit to run a program or to call a tool, unless the client cancels it.
    pub(super) async fn permit(&self, server: &CodeServer) -> Option<impl Sized + use<>> {
        let permit = server.inner.programs.permit(self.client, self.is_shared);
        self.origin.ended.run_until_cancelled(permit).await.flatten()
    }

    /// The request of a program, which has no providers yet.
    pub(super) fn request(&self, code: &str, options: &ServerOptions) -> ExecuteRequest {
        let request = ExecuteRequest::new(code).timers(options.timers);
        request.cancellation(self.origin.ended.clone()).attach(self.origin.clone())
    }

    /// The policy of the server, by which the user of the client is asked.
    pub(super) fn policy(&self, options: &ServerOptions) -> Option<Policy> {
        let policy = options.policy.clone()?;
        let user = ClientUser {
            origin: self.origin.clone(),
            approved: self.approved.clone(),
            asks_once: options.asks_once,
            always: options.always_allow.clone(),
            fallback: policy.get_approver().cloned(),
        };
        Some(policy.approver(Arc::new(Questions::new(user))))
    }
}

/// The client that sends a request, in the places that clients share.
pub(super) fn client(server: &CodeServer, context: &RequestContext<RoleServer>) -> Client {
    let http = context.extensions.get::<Parts>();
    // A server over HTTP without a session is of one request.
    http.and_then(|head| head.extensions.get().copied()).unwrap_or(server.session.client)
}

/// Executes the program. Sends log lines, tool calls and their progress as progress if the client has requested progress.
/// Cancellation by the client cancels the guest and its tool calls.
pub(super) async fn run(server: &CodeServer, request: ExecuteRequest, caller: &Caller) -> ExecuteResult {
    let (observer, reporting) = Reporting::of_program(caller, &server.inner.options.secrets);
    let request = observer.into_iter().fold(request, ExecuteRequest::observer);
    let started = reporting.started();
    let running = async {
        let permit = caller.permit(server).await;
        started.store(true, Ordering::Relaxed);
        let result = server.inner.executor.execute(request).await; // A cancelled execution ends at once.
        drop(permit);
        result
    };
    reporting.during(running).await
}

fn is_http(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<Parts>().is_some()
}

/// Whether a request came over HTTP without a session.
pub(super) fn is_sessionless(context: &RequestContext<RoleServer>) -> bool {
    let http = context.extensions.get::<Parts>();
    http.is_some_and(|head| !head.headers.contains_key(SESSION_ID))
}

/// The header with which clients of older protocols name their session, which has a server of its own. Other clients are
/// identified by the name and version that they state in each request.
const SESSION_ID: &str = "mcp-session-id";

/// The result of the tool: text for models, images and audio as blocks of their own, and the other data as structured content.
/// If the result is longer than `max` characters, an outline of half that length is shown, and the result is kept in
/// `results`. The usage of the execution is for programs, not for models: it is in `_meta`. `secrets` are redacted from what is
/// shown; the result that is kept is whole. `note` says how the execution differs from what the client asked for.
pub(super) fn tool_result(
    mut result: ExecuteResult,
    note: Option<String>,
    max: usize,
    results: &Results,
    secrets: &Secrets,
) -> CallToolResult {
    let media = match &mut result.outcome {
        Ok(Some(value)) => media::extract(value),
        _ => Vec::new(),
    };
    let whole = match &result.outcome {
        Ok(Some(value)) if secrets.occur_in(value) => Some(value.clone()),
        _ => None,
    };
    secrets.redact_result(&mut result);
    if let Err(error) = &mut result.outcome {
        error.message = shown(std::mem::take(&mut error.message), max);
    }
    let mut handle = None;
    let keep = || {
        let value = whole.or_else(|| result.outcome.as_ref().ok()?.clone())?;
        handle = results.keep(value);
        handle.as_ref().map(|handle| format!("await results.get(\"{handle}\")"))
    };
    let shown = Answer::keeping(&result, max, LOG_OPTIONS, keep);
    (result.logs, result.dropped_logs) = (shown.logs, shown.dropped_logs);
    let (mut text, mut omitted) = (shown.text, Map::new());
    if let Some(Outline { characters, text: outline, .. }) = shown.outline {
        let mut truncated = json!({ "characters": characters, "outline": outline });
        if let Some(handle) = handle {
            truncated["handle"] = handle.into();
        }
        omitted.insert("truncated".to_owned(), truncated);
        result.outcome = Ok(None);
    }
    if let Some(note) = note {
        text += &format!("\n\n({note})");
        omitted.insert("note".to_owned(), note.into());
    }
    let content = iter::once(ContentBlock::text(text)).chain(media).collect();
    let mut answer = if result.is_ok() { CallToolResult::success(content) } else { CallToolResult::error(content) };
    let mut structured = serde_json::to_value(&result).unwrap_or_default();
    let usage = structured.as_object_mut().and_then(|result| {
        result.extend(omitted);
        result.remove("usage")
    });
    answer.structured_content = Some(structured);
    answer.meta = usage.map(|usage| MetaObject(iter::once((USAGE.to_owned(), usage)).collect()));
    answer
}

/// Which options of the gateway keep more lines of a log.
const LOG_OPTIONS: &str = " (the gateway keeps more with `--max-log-lines` and `--max-log-chars`)";

/// The key of [`ExecuteResult::usage`] in `_meta`.
const USAGE: &str = "execbox/usage";

/// The maximum number of queued log messages.
const MAX_LOGS: usize = 256;
