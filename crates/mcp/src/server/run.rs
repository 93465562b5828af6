//! One execution for a client, and its result.

#![allow(deprecated)] // Log messages: servers send them.

use std::iter;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use execbox::policy::{Policy, Questions};
use execbox::{CancellationToken, ExecuteRequest, ExecuteResult};
use execbox_core::text::{Keep, escape, escape_json};
use http::request::Parts;
use rmcp::model::{CallToolResult, ContentBlock, LoggingMessageNotificationParam, MetaObject, ProtocolVersion};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value as Json, json};
use tokio::sync::mpsc;

use super::approvals::{ApprovedTools, ClientUser};
use super::progress::{Recipient, Reporting};
use super::results::{self, Results};
use super::{CodeServer, ServerOptions, media};
use crate::Secrets;
use crate::clients::{Channel, Client, LogSink, Offers, Origin};
use crate::open_requests::OpenRequests;
use crate::text::{make_visible, shown, truncate};
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
    let is_ok = result.is_ok();
    let mut shown = Shown::new(&mut result, max, |shown| results.keep(whole.unwrap_or(shown)));
    if let Some(note) = note {
        shown.text += &format!("\n\n({note})");
        shown.omitted.insert("note".to_owned(), note.into());
    }
    let content = iter::once(ContentBlock::text(shown.text)).chain(media).collect();
    let mut answer = if is_ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
    let mut structured = serde_json::to_value(&result).unwrap_or_default();
    let usage = structured.as_object_mut().and_then(|result| {
        result.extend(shown.omitted);
        result.remove("usage")
    });
    answer.structured_content = Some(structured);
    answer.meta = usage.map(|usage| MetaObject(iter::once((USAGE.to_owned(), usage)).collect()));
    answer
}

/// A result as a model reads it.
struct Shown {
    text: String,
    /// The members of the structured content that describe omitted parts, `truncated`, and `note`.
    omitted: Map<String, Json>,
}

impl Shown {
    /// Shows the result and then the log, of which at least a quarter of `max` characters is kept. Removes omitted parts from
    /// `result`. `keep` keeps a result that is too large, and returns its handle.
    fn new(result: &mut ExecuteResult, max: usize, keep: impl FnOnce(Json) -> Option<String>) -> Self {
        let mut omitted = Map::new();
        result.logs.iter_mut().for_each(make_visible);
        let log_chars = result.logs.iter().map(|line| line.chars().count() + 1).sum::<usize>();
        let mut text = match &mut result.outcome {
            Ok(None) => "(no result; use `return`, and `await` for calls)".to_owned(),
            Ok(Some(value)) => {
                let room = max.saturating_sub(log_chars.min(max / 4));
                let text = if let Json::String(text) = &*value { text.clone() } else { value.to_string() };
                let is_long = |text: &str| text.chars().nth(room).is_some();
                let visible = (!is_long(&text)).then(|| match value {
                    Json::String(_) => escape(&text, Keep::Lines).into_owned(),
                    _ => escape_json(&text, Keep::Joiners).into_owned(),
                });
                if let Some(visible) = visible.filter(|visible| !is_long(visible)) {
                    visible
                } else {
                    let (text, truncated) = too_large(std::mem::take(value), text, max / 2, keep);
                    omitted.insert("truncated".to_owned(), truncated);
                    result.outcome = Ok(None);
                    text
                }
            }
            Err(error) => {
                error.message = shown(std::mem::take(&mut error.message), max);
                truncate(error.to_string(), max)
            }
        };
        if let Some(calls) = result.unawaited_text() {
            text += &format!("\n\n({calls})");
        }
        if !result.logs.is_empty() || result.dropped_logs > 0 {
            let room = max.saturating_sub(text.chars().count()).max(max / 4);
            let cut = keep_lines(&mut result.logs, room);
            result.dropped_logs = result.dropped_logs.saturating_add(cut as u64);
            text += "\n\nLogs:";
            result.logs.iter().for_each(|line| text.extend(["\n", line]));
            if result.dropped_logs > 0 {
                let lines = if result.dropped_logs == 1 { "line" } else { "lines" };
                let remedy = if cut > 0 { NO_ROOM } else { LOG_OPTIONS };
                text += &format!("\n… {} more {lines}{remedy}", result.dropped_logs);
            }
        }
        Self { text, omitted }
    }
}

/// The text for a result that is too large to show, and its replacement in the structured content. Keeps the result.
fn too_large(value: Json, text: String, max: usize, keep: impl FnOnce(Json) -> Option<String>) -> (String, Json) {
    let characters = text.chars().count();
    let outline = match &value {
        Json::String(_) => shown(text, max),
        value => truncate(escape_json(&results::outline(value, max), Keep::Joiners).into_owned(), max),
    };
    let Some(handle) = keep(value) else {
        let text = format!("{outline}\n\n(the result has {characters} characters: return less)");
        return (text, json!({ "characters": characters, "outline": outline }));
    };
    let text = format!(
        "{outline}\n\n(this is an outline: the result has {characters} characters. Later code can read it: \
         `await results.get(\"{handle}\")`)"
    );
    (text, json!({ "characters": characters, "outline": outline, "handle": handle }))
}

/// Keeps the first lines, of at most `max` characters together, and at least the beginning of the first one. Returns how
/// many lines are dropped.
fn keep_lines(lines: &mut Vec<String>, max: usize) -> usize {
    let mut room = max;
    let whole = lines.iter().take_while(|line| {
        let length = line.chars().count() + 1;
        let fits = length <= room;
        room -= if fits { length } else { 0 };
        fits
    });
    let whole = whole.count();
    let dropped = lines.len() - whole;
    if let Some(next) = lines.get_mut(whole)
        && whole == 0
    {
        *next = truncate(std::mem::take(next), room);
        lines.truncate(1);
        return dropped - 1;
    }
    lines.truncate(whole);
    dropped
}

/// Which options of the gateway keep more lines of a log.
const LOG_OPTIONS: &str = " (the gateway keeps more with `--max-log-lines` and `--max-log-chars`)";

/// The remedy for a log that fills its room in the answer, of which no option shows more.
const NO_ROOM: &str = " (the answer has no room for more: print less, or return the data)";

/// The key of [`ExecuteResult::usage`] in `_meta`.
const USAGE: &str = "execbox/usage";

/// The maximum number of queued log messages.
const MAX_LOGS: usize = 256;
