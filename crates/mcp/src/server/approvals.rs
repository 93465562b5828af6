//! Approval of calls by the user of the client: by elicitation if the client supports it, else by another approver.

use std::sync::Arc;

use execbox::policy::{Answer, Approval, Approver, Ask, ProposedCall};
use futures_util::future::BoxFuture;
use rmcp::model::{
    ClientResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest, Request,
};
use serde_json::json;

use super::question::question;
use crate::clients::{Origin, Unanswered};

/// Asks the user of one client about calls of one program.
pub(super) struct ClientUser {
    pub(super) origin: Origin,
    /// The approver for clients that cannot ask their user.
    pub(super) fallback: Option<Arc<dyn Approver>>,
}

impl Ask for ClientUser {
    fn ask<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let asked = tokio::time::timeout(self.origin.timeout, self.put(call)).await;
            let time = humantime::format_duration(self.origin.timeout);
            asked.unwrap_or_else(|_| Answer::Refuse(format!("no answer within {time}")))
        })
    }
}

impl ClientUser {
    async fn put(&self, call: ProposedCall<'_>) -> Answer {
        if !self.origin.offers.elicitation.forms {
            return self.ask_elsewhere(call, "the client cannot ask its user").await;
        }
        let question = match question(&call) {
            Ok(question) => question,
            Err(error) => return Answer::Refuse(error.to_string()),
        };
        let reader = self.fallback.as_deref().and_then(|approver| Some((approver, approver.command()?)));
        let answered = match reader.filter(|_| !question.is_whole) {
            None => self.elicit(&call, question.text).await,
            // The other approver can show the whole call, and is asked at the same time.
            Some((approver, command)) => {
                let text = format!("{}\n\nAll of it: {command}", question.text);
                tokio::select! {
                    answered = self.elicit(&call, text) => answered,
                    approval = approver.approve(call) => Ok(decided(approval)),
                }
            }
        };
        match answered {
            Ok(answer) => answer,
            Err(why) => self.ask_elsewhere(call, &why.to_string()).await,
        }
    }

    /// Asks the user by elicitation.
    async fn elicit(&self, call: &ProposedCall<'_>, text: String) -> Result<Answer, Unanswered> {
        match self.origin.ask(InputRequest::Elicitation(Request::new(form(call, text)))).await? {
            ClientResult::ElicitResult(result) => Ok(answer(result)),
            _ => Err(Unanswered::Failed),
        }
    }

    async fn ask_elsewhere(&self, call: ProposedCall<'_>, why: &str) -> Answer {
        let Some(approver) = &self.fallback else { return Answer::Refuse(why.to_owned()) };
        decided(approver.approve(call).await)
    }
}

fn decided(approval: Approval) -> Answer {
    match approval {
        Approval::Approved => Answer::Approve,
        Approval::Refused(reason) => Answer::Refuse(reason),
    }
}

fn form(call: &ProposedCall<'_>, message: String) -> ElicitRequestParams {
    let all = format!("Make all calls of {} in this program", call.name());
    let none = "Make no further call of this program that needs approval".to_owned();
    let decision = |name: &str, title: &str| json!({ "const": name, "title": title });
    let [approve, refuse] =
        [("approve", "Make this call"), ("refuse", "Do not make this call")].map(|(name, title)| decision(name, title));
    let decisions = match call.program {
        Some(_) => vec![approve, decision("approve_tool", &all), refuse, decision("refuse_all", &none)],
        None => vec![approve, refuse],
    };
    let schema = json!({
        "type": "object",
        "properties": { "decision": { "type": "string", "title": "Decision", "oneOf": decisions } },
        "required": ["decision"],
    });
    let requested_schema = serde_json::from_value::<ElicitationSchema>(schema).expect("a valid schema");
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// The answer of the user. Everything but a form with an approval is a refusal.
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
