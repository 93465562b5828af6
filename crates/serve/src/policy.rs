//! Policies of executions: rules, and questions to the application.

use std::sync::Arc;

use execbox::BoxFuture;
use execbox::policy::{Answer, Ask, Decision, NamedLine, Pattern, Policy, ProposedCall, Questions};
use execbox_core::budget::Meter;
use execbox_core::value::parse_json;

use crate::execution::ExecutionKey;
use crate::messages::{AnswerName, Approve, Approved, DecisionName, EffectName, PolicySpec, RuleSpec};
use crate::peer::{Peer, Reply};
use crate::rpc::{self, RpcError};

/// The policy that rules describe.
pub(crate) fn policy(spec: PolicySpec, peer: &Peer, key: &ExecutionKey) -> Result<Policy, RpcError> {
    let mut policy = Policy::new();
    for (number, rule) in spec.rules.into_iter().enumerate() {
        let RuleSpec { tools, effect, decision, reason } = rule;
        if reason.is_some() && decision != DecisionName::Deny {
            let message = format!("params.policy.rules[{number}].reason: only a rule that denies has a reason");
            return Err(RpcError::invalid(message));
        }
        let decision = match decision {
            DecisionName::Allow => Decision::Allow,
            DecisionName::Deny => Decision::Deny(reason.unwrap_or_else(|| "by a rule of the application".to_owned())),
            DecisionName::Ask => Decision::Ask,
        };
        let (pattern, effect) = (tools.map(|tools| Pattern::new(&tools)), effect.map(EffectName::effect));
        policy = policy.rule(move |call| {
            let matches = pattern.as_ref().is_none_or(|pattern| {
                let original = format!("{}.{}", call.context.provider, call.context.original_name);
                pattern.matches(&call.name()) || pattern.matches(&original)
            });
            (matches && effect.is_none_or(|effect| effect == call.effect)).then(|| decision.clone())
        });
    }
    Ok(policy.approver(Arc::new(Questions::new(Asker { peer: peer.clone(), key: key.clone() }))))
}

/// Asks the application about calls.
struct Asker {
    peer: Peer,
    key: ExecutionKey,
}

impl Ask for Asker {
    fn ask<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let lines = call.lines().map(|found| found.lines).unwrap_or_default();
            let params = Approve {
                execution: &self.key.id,
                call: call.context.call.0,
                provider: &call.context.provider,
                tool: &call.context.safe_name,
                effect: EffectName::of(call.effect),
                input: call.input,
                lines: lines.iter().map(line).collect(),
            };
            let answer = self.peer.request("approve", &params, Vec::new(), &self.key.budget, None).await;
            let refused = |reason: String| Answer::Refuse(reason);
            match answer.map_err(|error| error.message).and_then(|reply| read(&reply, &self.key)) {
                Err(error) => refused(format!("the application did not answer the question: {error}")),
                Ok(Approved { answer, reason }) => {
                    let reason = reason.unwrap_or_else(|| "the application gave no reason".to_owned());
                    match answer {
                        AnswerName::Approve => Answer::Approve,
                        AnswerName::ApproveTool => Answer::ApproveTool,
                        AnswerName::Refuse => refused(reason),
                        AnswerName::RefuseAll => Answer::RefuseAll(reason),
                    }
                }
            }
        })
    }
}

fn read(reply: &Reply, key: &ExecutionKey) -> Result<Approved, String> {
    // What the answer takes is small, unless the application is mistaken.
    let mut meter = Meter::new(&key.budget, usize::MAX, &|| false);
    parse_json(reply.result.get(), &mut meter).map_err(|error| error.to_string())?;
    rpc::parse(reply.result.get(), "result")
}

/// A line that names the tool: `3: await bank.pay({ euros: 7 })`.
fn line(NamedLine { function, number, text, .. }: &NamedLine) -> String {
    match function {
        Some(function) => format!("{function}:{number}: {text}"),
        None => format!("{number}: {text}"),
    }
}
