//! Approval of calls by the user of the client: by elicitation if the client supports it, else by another approver.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use execbox::policy::{Answer, Approval, Approver, Ask, ProposedCall};
use execbox::{Effect, ToolContext};
use execbox_core::text::{Keep, escape};
use futures_util::future::BoxFuture;
use rmcp::model::{
    ClientResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest, Request,
};
use serde_json::{Value as Json, json};

use super::always::{AlwaysAllow, Proposal};
use super::question::question;
use crate::clients::{Origin, Unanswered};

/// The tools whose calls the user of a client has approved for the session, as `namespace.tool`.
#[derive(Debug, Default)]
pub(super) struct ApprovedTools(Mutex<HashSet<String>>);

impl ApprovedTools {
    fn has(&self, tool: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    fn add(&self, tool: String) {
        let mut approved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if approved.len() < MAX_APPROVED {
            approved.insert(tool);
        }
    }
}

/// Asks the user of one client about calls of one program.
pub(super) struct ClientUser {
    pub(super) origin: Origin,
    /// `None` if the client has no session.
    pub(super) approved: Option<Arc<ApprovedTools>>,
    /// Whether an approval of a tool without a stated effect is one of all its calls.
    pub(super) asks_once: bool,
    /// Proposes to approve all later calls of a tool, too.
    pub(super) always: Option<AlwaysAllow>,
    /// The approver for clients that cannot ask their user.
    pub(super) fallback: Option<Arc<dyn Approver>>,
}

impl Ask for ClientUser {
    fn ask<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if self.approved.as_ref().is_some_and(|approved| approved.has(&call.name())) {
                return Answer::Approve;
            }
            let asked = tokio::time::timeout(self.origin.timeout, self.put(call)).await;
            let time = humantime::format_duration(self.origin.timeout);
            match asked {
                Ok(Decided::InSession) => self.approve_tool(&call),
                Ok(Decided::Answer(Answer::Approve)) if self.is_asked_once(&call) => self.approve_tool(&call),
                Ok(Decided::Answer(answer)) => answer,
                Err(_) => Answer::Refuse(format!("no answer within {time}")),
            }
        })
    }
}

/// What the user has decided.
enum Decided {
    Answer(Answer),
    /// All calls of the tool in this session are made.
    InSession,
}

impl ClientUser {
    fn is_asked_once(&self, call: &ProposedCall<'_>) -> bool {
        self.asks_once && call.effect == Effect::Unstated
    }

    /// Approves all calls of a tool in the session, or in the program.
    fn approve_tool(&self, call: &ProposedCall<'_>) -> Answer {
        if let Some(approved) = &self.approved {
            approved.add(call.name());
        }
        Answer::ApproveTool
    }

    async fn put(&self, call: ProposedCall<'_>) -> Decided {
        if !self.origin.offers.elicitation.forms {
            return self.ask_elsewhere(call, "the client cannot ask its user").await;
        }
        let question = match question(&call) {
            Ok(question) => question,
            Err(error) => return Decided::Answer(Answer::Refuse(error.to_string())),
        };
        let reader = self.fallback.as_deref().and_then(|approver| Some((approver, approver.command()?)));
        let answered = match reader.filter(|_| !question.is_whole) {
            None => self.elicit(&call, question.text).await,
            // The other approver can show the whole call, and is asked at the same time.
            Some((approver, command)) => {
                let text = format!("{}\n\nAll of it: {command}", question.text);
                tokio::select! {
                    answered = self.elicit(&call, text) => answered,
                    approval = approver.approve(call) => Ok(Decided::Answer(decided(approval))),
                }
            }
        };
        match answered {
            Ok(decided) => decided,
            Err(why) => self.ask_elsewhere(call, &why.to_string()).await,
        }
    }

    /// Asks the user by elicitation.
    async fn elicit(&self, call: &ProposedCall<'_>, text: String) -> Result<Decided, Unanswered> {
        let proposal = self.proposal(call).await;
        let form = self.form(call, text, proposal.as_ref());
        let ClientResult::ElicitResult(result) = self.origin.ask(InputRequest::Elicitation(Request::new(form))).await?
        else {
            return Err(Unanswered::Failed);
        };
        let decision = decision(result);
        let Some(proposal) = proposal.filter(|_| decision.as_deref() == Some(APPROVE_ALWAYS)) else {
            return Ok(answer(decision.as_deref()));
        };
        Ok(Decided::Answer(if proposal.write().await { Answer::ApproveTool } else { Answer::Approve }))
    }

    async fn proposal(&self, call: &ProposedCall<'_>) -> Option<Proposal> {
        let ToolContext { provider, original_name, safe_name, .. } = call.context;
        self.always.as_ref()?.propose(provider, [original_name, safe_name]).await
    }

    async fn ask_elsewhere(&self, call: ProposedCall<'_>, why: &str) -> Decided {
        Decided::Answer(match &self.fallback {
            Some(approver) => decided(approver.approve(call).await),
            None => Answer::Refuse(why.to_owned()),
        })
    }

    fn form(&self, call: &ProposedCall<'_>, message: String, proposal: Option<&Proposal>) -> ElicitRequestParams {
        let (tool, has_session, in_program) = (call.name(), self.approved.is_some(), call.program.is_some());
        let decision = |name: &str, title: String| json!({ "const": name, "title": title });
        let all = |place: &str| format!("Make all calls of {tool} in this {place}");
        let place = if has_session { "session" } else { "program" };
        let always =
            proposal.map(|proposal| decision(APPROVE_ALWAYS, escape(proposal.title(), Keep::Nothing).into_owned()));
        let approve = if self.is_asked_once(call) && (has_session || in_program) {
            vec![decision("approve", all(place))]
        } else {
            let this = Some(decision("approve", "Make this call".to_owned()));
            let program = in_program.then(|| decision("approve_tool", all("program")));
            let session = has_session.then(|| decision("approve_session", all("session")));
            [this, program, session].into_iter().flatten().collect()
        };
        let none = "Make no further call of this program that needs approval".to_owned();
        let refuse = [
            Some(decision("refuse", "Do not make this call".to_owned())),
            in_program.then(|| decision("refuse_all", none)),
        ];
        let decisions: Vec<Json> = approve.into_iter().chain(always).chain(refuse.into_iter().flatten()).collect();
        let schema = json!({
            "type": "object",
            "properties": { "decision": { "type": "string", "title": "Decision", "oneOf": decisions } },
            "required": ["decision"],
        });
        let requested_schema = serde_json::from_value::<ElicitationSchema>(schema).expect("a valid schema");
        ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
    }
}

fn decided(approval: Approval) -> Answer {
    match approval {
        Approval::Approved => Answer::Approve,
        Approval::Refused(reason) => Answer::Refuse(reason),
    }
}

/// The decision in an accepted form.
fn decision(result: ElicitResult) -> Option<String> {
    let form = result.content.filter(|_| result.action == ElicitationAction::Accept)?;
    form["decision"].as_str().map(str::to_owned)
}

/// The answer of the user. Everything but an approval is a refusal.
fn answer(decision: Option<&str>) -> Decided {
    let refused = || "the user refused the call".to_owned();
    Decided::Answer(match decision {
        Some("approve_session") => return Decided::InSession,
        Some("approve") => Answer::Approve,
        Some("approve_tool") => Answer::ApproveTool,
        Some("refuse_all") => Answer::RefuseAll(refused()),
        _ => Answer::Refuse(refused()),
    })
}

/// The decision to write the proposal.
const APPROVE_ALWAYS: &str = "approve_always";

/// The number of tools that a user can approve for one session.
const MAX_APPROVED: usize = 10_000;
