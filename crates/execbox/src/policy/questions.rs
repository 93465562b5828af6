//! Questions about the calls of one program, one after another, with answers that hold for later calls.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Approval, Approver, ProposedCall};

/// A person's answer to a question about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
/// program with many calls cannot flood a person with questions. After a refusal, which often ends the program, the next question
/// waits for a moment.
#[derive(Debug)]
pub struct Questions<A> {
    asker: A,
    standing: Mutex<Standing>,
}

#[derive(Debug, Default)]
struct Standing {
    approved_tools: HashSet<String>,
    refuses_all: Option<String>,
    refused_at: Option<Instant>,
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
            if let Some(refused_at) = standing.refused_at {
                // A program that ends meanwhile drops the call, and no person sees the question.
                tokio::time::sleep_until(refused_at + PAUSE).await;
            }
            match self.asker.ask(call).await {
                Answer::Approve => Approval::Approved,
                Answer::ApproveTool => {
                    standing.approved_tools.insert(call.name());
                    Approval::Approved
                }
                Answer::Refuse(reason) => {
                    standing.refused_at = Some(Instant::now());
                    Approval::Refused(reason)
                }
                Answer::RefuseAll(reason) => {
                    standing.refuses_all = Some(reason.clone());
                    Approval::Refused(reason)
                }
            }
        })
    }
}

/// How long a program has to end after a refusal before it asks again.
const PAUSE: Duration = Duration::from_millis(200);
