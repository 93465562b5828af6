//! One execution for a client: progress while it runs, and its result.

use std::pin::pin;
use std::sync::Arc;

use execbox::{ExecuteRequest, ExecuteResult, Executor};
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::Value as Json;
use tokio::sync::mpsc;

use crate::text::cut;

/// Runs `execution`, telling the client of log lines and tool calls if it asked for progress. The client's
/// cancellation cancels the guest and its tools.
pub(super) async fn run(
    executor: &Arc<dyn Executor>,
    execution: ExecuteRequest,
    context: &RequestContext<RoleServer>,
) -> ExecuteResult {
    let execution = execution.cancellation(context.ct.clone());
    let Some(token) = context.meta.get_progress_token() else {
        return executor.execute(execution).await;
    };
    let (sender, lines) = mpsc::channel(MAX_WAITING);
    let calls = sender.clone();
    let execution = execution
        .on_log(move |line| _ = sender.try_send(cut(line.text.clone(), MAX_LINE)))
        .on_call(move |call| _ = calls.try_send(format!("calls {}.{}", call.provider, call.safe_name)));
    let mut progress = Progress { peer: &context.peer, token, lines, told: 0 };
    let mut running = pin!(executor.execute(execution));
    let result = tokio::select! {
        biased;
        result = &mut running => result,
        () = progress.follow() => running.await,
    };
    progress.finish().await;
    result
}

/// Tells a client line after line. A client that does not read loses lines, and holds up nothing.
struct Progress<'a> {
    peer: &'a Peer<RoleServer>,
    token: ProgressToken,
    lines: mpsc::Receiver<String>,
    told: u32,
}

impl Progress<'_> {
    async fn follow(&mut self) {
        while let Some(line) = self.lines.recv().await {
            self.tell(line).await;
        }
    }

    async fn finish(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.tell(line).await;
        }
    }

    async fn tell(&mut self, line: String) {
        self.told += 1;
        let progress = ProgressNotificationParam::new(self.token.clone(), f64::from(self.told)).with_message(line);
        let _ = self.peer.notify_progress(progress).await;
    }
}

/// The result as MCP has it: text for models, capped, and all of it as structured content.
pub(super) fn tool_result(result: &ExecuteResult, max_text: usize) -> CallToolResult {
    let content = vec![ContentBlock::text(cut(text(result), max_text))];
    let mut answer = match result.is_ok() {
        true => CallToolResult::success(content),
        false => CallToolResult::error(content),
    };
    answer.structured_content = serde_json::to_value(result).ok();
    answer
}

fn text(result: &ExecuteResult) -> String {
    let mut text = match &result.outcome {
        Ok(None) => "(no result: `return` one)".to_owned(),
        Ok(Some(Json::String(text))) => text.clone(),
        Ok(Some(value)) => serde_json::to_string_pretty(value).unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    if !result.logs.is_empty() {
        text += &format!("\n\nLogs:\n{}", result.logs.join("\n"));
    }
    text
}

/// How many lines wait for a client, and how much of each it is told, in characters.
const MAX_WAITING: usize = 256;
const MAX_LINE: usize = 500;
