//! One execution for a client: progress notifications while it runs, and its result.

use std::pin::pin;
use std::sync::Arc;

use execbox::{ExecuteRequest, ExecuteResult, Executor};
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::Value as Json;
use tokio::sync::mpsc;

use crate::text::truncate;

/// Executes the request. Sends log lines and tool calls as progress if the client has requested progress. Cancellation
/// by the client cancels the guest and its tool calls.
pub(super) async fn run(
    executor: &Arc<dyn Executor>,
    execution: ExecuteRequest,
    context: &RequestContext<RoleServer>,
) -> ExecuteResult {
    let execution = execution.cancellation(context.ct.clone());
    let Some(token) = context.meta.get_progress_token() else {
        return executor.execute(execution).await;
    };
    let (sender, lines) = mpsc::channel(MAX_QUEUED);
    let calls = sender.clone();
    let execution = execution
        .on_log(move |line| _ = sender.try_send(truncate(line.text.clone(), MAX_LINE)))
        .on_call(move |call| _ = calls.try_send(format!("calling {}.{}", call.provider, call.safe_name)));
    let mut progress = Progress { peer: &context.peer, token, lines, sent: 0 };
    let mut running = pin!(executor.execute(execution));
    let result = tokio::select! {
        biased;
        result = &mut running => result,
        () = progress.follow() => running.await,
    };
    progress.finish().await;
    result
}

/// Sends lines to a client. A client that does not read them loses lines and delays nothing.
struct Progress<'a> {
    peer: &'a Peer<RoleServer>,
    token: ProgressToken,
    lines: mpsc::Receiver<String>,
    sent: u32,
}

impl Progress<'_> {
    async fn follow(&mut self) {
        while let Some(line) = self.lines.recv().await {
            self.send(line).await;
        }
    }

    async fn finish(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.send(line).await;
        }
    }

    async fn send(&mut self, line: String) {
        self.sent += 1;
        let progress = ProgressNotificationParam::new(self.token.clone(), f64::from(self.sent)).with_message(line);
        let _ = self.peer.notify_progress(progress).await;
    }
}

/// The result of the tool: truncated text for models, and the complete result as structured content.
pub(super) fn tool_result(result: &ExecuteResult, max_text: usize) -> CallToolResult {
    let content = vec![ContentBlock::text(truncate(text(result), max_text))];
    let mut answer = match result.is_ok() {
        true => CallToolResult::success(content),
        false => CallToolResult::error(content),
    };
    answer.structured_content = serde_json::to_value(result).ok();
    answer
}

fn text(result: &ExecuteResult) -> String {
    let mut text = match &result.outcome {
        Ok(None) => "(no result; use `return`)".to_owned(),
        Ok(Some(Json::String(text))) => text.clone(),
        Ok(Some(value)) => serde_json::to_string_pretty(value).unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    if !result.logs.is_empty() {
        text += &format!("\n\nLogs:\n{}", result.logs.join("\n"));
    }
    text
}

/// The maximum number of queued lines, and the maximum length of each, in characters.
const MAX_QUEUED: usize = 256;
const MAX_LINE: usize = 500;
