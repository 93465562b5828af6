//! Questions about the calls of one program, one after another, with answers that hold for later calls.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use super::{Approval, Approver, ProposedCall};

/// A person's answer to a question about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The call is made.
    Approve,
    /// This call and all later calls of the tool are made.
    ApproveTool,
    /// The call is not made, for this reason.
    Refuse(String),
    /// Neither this call nor any later call that needs approval is made, for this reason.
    RefuseAll(String),
}

/// A way to put one question to a person.
pub trait Ask: Send + Sync {
    /// Asks about a call. Dropping the future withdraws the question.
    fn ask<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Answer>;
}

/// An [`Approver`] for one program: has one question open at a time, and remembers the answers that hold for later calls. A
/// program with many calls cannot flood a person with questions.
#[derive(Debug)]
pub struct Questions<A> {
    asker: A,
    standing: Mutex<Standing>,
}

#[derive(Debug, Default)]
struct Standing {
    approved_tools: HashSet<String>,
    refuses_all: Option<String>,
}

impl<A: Ask> Questions<A> {
    /// Creates an approver that remembers no answer yet.
    pub fn new(asker: A) -> Self {
        Self { asker, standing: Mutex::default() }
    }
}

impl<A: Ask> Approver for Questions<A> {
    fn approve<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(async move {
            let mut standing = self.standing.lock().await;
            if let Some(reason) = &standing.refuses_all {
                return Approval::Refused(reason.clone());
            }
            if standing.approved_tools.contains(&call.name()) {
                return Approval::Approved;
            }
            match self.asker.ask(call).await {
                Answer::Approve => Approval::Approved,
                Answer::ApproveTool => {
                    standing.approved_tools.insert(call.name());
                    Approval::Approved
                }
                Answer::Refuse(reason) => Approval::Refused(reason),
                Answer::RefuseAll(reason) => {
                    standing.refuses_all = Some(reason.clone());
                    Approval::Refused(reason)
                }
            }
        })
    }
}
