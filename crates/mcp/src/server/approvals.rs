//! Puts calls to the user of the client: by elicitation, where the client supports it, else by another approver.

use std::fmt::Write as _;
use std::sync::Arc;

use execbox::Effect;
use execbox::policy::{Answer, Approval, Approver, Ask, ProposedCall};
use execbox_core::text::{Keep, cut, escape};
use futures_util::future::BoxFuture;
use rmcp::model::{
    ClientResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, Request, ServerRequest,
};
use rmcp::service::ElicitationMode;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::clients::Origin;

/// Asks the user of one client about calls of one program.
pub(super) struct ClientUser {
    pub(super) origin: Origin,
    /// For clients that cannot ask their user.
    pub(super) fallback: Option<Arc<dyn Approver>>,
    /// Lines of progress for the client, if it has requested progress.
    pub(super) progress: Option<mpsc::Sender<String>>,
}

impl Ask for ClientUser {
    fn ask<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if let Some(progress) = &self.progress {
                let _ = progress.try_send(format!("waiting for approval of {}", call.name()));
            }
            let asked = tokio::time::timeout(self.origin.timeout, self.put(call)).await;
            let time = humantime::format_duration(self.origin.timeout);
            asked.unwrap_or_else(|_| Answer::Refuse(format!("nobody answered within {time}")))
        })
    }
}

impl ClientUser {
    async fn put(&self, call: ProposedCall<'_>) -> Answer {
        if !self.origin.peer.supported_elicitation_modes().contains(&ElicitationMode::Form) {
            return self.ask_elsewhere(call, "the client cannot ask its user").await;
        }
        match self.origin.ask(ServerRequest::ElicitRequest(Request::new(form(&call)))).await {
            Ok(ClientResult::ElicitResult(result)) => answer(result),
            _ => self.ask_elsewhere(call, "the client failed to ask its user").await,
        }
    }

    async fn ask_elsewhere(&self, call: ProposedCall<'_>, why: &str) -> Answer {
        let Some(approver) = &self.fallback else { return Answer::Refuse(why.to_owned()) };
        match approver.approve(call).await {
            Approval::Approved => Answer::Approve,
            Approval::Refused(reason) => Answer::Refuse(reason),
        }
    }
}

fn form(call: &ProposedCall<'_>) -> ElicitRequestParams {
    let schema = json!({
        "type": "object",
        "properties": { "decision": {
            "type": "string",
            "title": "Decision",
            "oneOf": [
                { "const": "approve", "title": "Make this call" },
                { "const": "approve_tool", "title": format!("Make all calls of {} in this program", call.name()) },
                { "const": "refuse", "title": "Do not make this call" },
                { "const": "refuse_all", "title": "Make no further call of this program that needs approval" },
            ],
        } },
        "required": ["decision"],
    });
    let requested_schema = serde_json::from_value::<ElicitationSchema>(schema).expect("a valid schema");
    ElicitRequestParams::FormElicitationParams { meta: None, message: question(call), requested_schema }
}

/// What the user has answered. Everything but a form with an approval is a refusal.
fn answer(result: ElicitResult) -> Answer {
    let form = result.content.filter(|_| result.action == ElicitationAction::Accept).unwrap_or_default();
    let refused = || "the user refused the call".to_owned();
    match form["decision"].as_str() {
        Some("approve") => Answer::Approve,
        Some("approve_tool") => Answer::ApproveTool,
        Some("refuse_all") => Answer::RefuseAll(refused()),
        _ => Answer::Refuse(refused()),
    }
}

/// A call as text for a person: the tool, the arguments, and the lines of the program that name the tool. Control characters are
/// escaped; of long arguments, the beginning is shown, with their length.
pub fn question(call: &ProposedCall<'_>) -> String {
    let effect = match call.effect {
        Effect::ReadOnly => "its server states that it changes nothing",
        Effect::Additive => "its server states that it adds something and overwrites nothing",
        Effect::Destructive => "its server states that it may remove or overwrite something",
        Effect::Unstated => "its server does not state whether it changes something",
    };
    let mut text = format!("A program wants to call {} ({effect}) with:\n\n{}", call.name(), arguments(call.input));
    let mut lines = call.lines();
    for (number, line) in lines.by_ref().take(MAX_LINES) {
        let line = escape(line.trim(), Keep::Nothing).into_owned();
        let _ = write!(text, "\n\nLine {number} of the program: {}", cut(&line, MAX_LINE));
    }
    if lines.next().is_some() {
        text += "\n\nFurther lines name the tool.";
    }
    text
}

/// Arguments as readable JSON.
fn arguments(input: &Json) -> String {
    let text = serde_json::to_string_pretty(input).unwrap_or_default();
    let text = escape(&text, Keep::Lines);
    let characters = text.chars().count();
    if characters <= MAX_ARGUMENTS {
        return text.into_owned();
    }
    format!("{}\n\n(only the first {MAX_ARGUMENTS} of {characters} characters are shown)", cut(&text, MAX_ARGUMENTS))
}

/// The most characters of arguments, and of a line, and the most lines that a question shows.
const MAX_ARGUMENTS: usize = 4000;
const MAX_LINE: usize = 200;
const MAX_LINES: usize = 3;
